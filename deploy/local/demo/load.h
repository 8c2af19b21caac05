/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEMO_LOAD_H
#define DEMO_LOAD_H

#include <signal.h>

#include "config.h"

/* Measures lateness under load: sends `rate` events a second for `seconds` (and a few before that,
 * which warm up and are not measured) of the type `load`, whose policy gives the delays, and reads
 * what comes back to the topic `<prefix>load` as a handler does, read_committed. Prints the
 * figures; `*whole` says whether each came back once, and none early. Ends early when `*stop` is
 * set. */
#define LOAD_TYPE "load"

RP_NODISCARD int load_run(const struct rp_config *config, int rate, int seconds,
                          const volatile sig_atomic_t *stop, bool *whole, struct rp_error *err);

#endif
