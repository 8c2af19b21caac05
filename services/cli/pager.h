/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_PAGER_H
#define REPRISE_CLI_PAGER_H

#include <stdio.h>

/* Output that may be longer than the terminal is high goes through $PAGER, else less, which shows
 * what fits as it is. Elsewhere it is stdout. */
FILE *pager_open(void);
/* Waits until the reader is through. CLI_OK; or CLI_FAILED where the pager could not be run, which
 * is printed. */
int pager_close(FILE *out);

#endif
