/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CONFIG_FIXTURE_H
#define REPRISE_CONFIG_FIXTURE_H

#include <stddef.h>

#include "config.h"

/* Loads a configuration from text, through a file of its own that is gone afterwards. NULL when it
 * is refused. What was noted is in `faults`, a line each, "12: text". */
struct rp_config *load_text(const char *text, size_t len);

extern char faults[8192];
extern struct rp_error load_error;

/* Loads text that must be good. */
struct rp_config *load_good(const char *text);

/* Fails unless loading `text` notes exactly `expected`. */
#define assert_faults(text, expected)                                                              \
    do {                                                                                           \
        assert_null(load_text(text, strlen(text)));                                                \
        assert_string_equal(faults, expected);                                                     \
    } while (0)

#endif
