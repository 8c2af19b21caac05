/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_ERROR_FIXTURE_H
#define REPRISE_ERROR_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "reprise/error.h"

static inline void assert_says(const struct rp_error *err, const char *because)
{
    if (strstr(err->text, because) == NULL)
        fail_msg("'%s' does not say '%s'", err->text, because);
}

#endif
