/* SPDX-License-Identifier: Apache-2.0 */
#include "reprise/error.h"

#include <stdarg.h>
#include <stdio.h>

int rp_fail(struct rp_error *err, enum rp_error_code code, enum rp_error_class cls, const char *fmt,
            ...)
{
    if (err == NULL)
        return -1;
    err->code = code;
    err->cls = cls;
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(err->text, sizeof err->text, fmt, args);
    va_end(args);
    return -1;
}

int rp_fail_as(struct rp_error *err, const struct rp_error *why)
{
    if (err != NULL)
        *err = *why;
    return -1;
}

int rp_fail_in(struct rp_error *err, const char *fmt, ...)
{
    if (err == NULL)
        return -1;
    char context[sizeof err->text], joined[2 * sizeof err->text + 2];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(context, sizeof context, fmt, args);
    va_end(args);
    (void)snprintf(joined, sizeof joined, "%s: %s", context, err->text);
    (void)snprintf(err->text, sizeof err->text, "%.*s", (int)sizeof err->text - 1, joined);
    return -1;
}
