/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_SIGNALS_H
#define REPRISE_CLI_SIGNALS_H

#include "reprise/error.h"

/* The first signal of this number calls `handler`, and the second ends the process. One that is
 * ignored stays so: that is how nohup, or a shell that puts us into the background, wants it.
 * 0, or -1 with errno. */
RP_NODISCARD int signals_catch(int number, void (*handler)(int));

#endif
