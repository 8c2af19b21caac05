/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_ERROR_H
#define REPRISE_ERROR_H

#if defined(__GNUC__)
#define RP_NODISCARD         __attribute__((warn_unused_result))
#define RP_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define RP_NODISCARD
#define RP_PRINTF(fmt, args)
#endif

/* What a caller does next depends on the class alone. */
enum rp_error_class {
    RP_RETRIABLE, /* the same call may succeed later */
    RP_POISON,    /* this input will never succeed; the next one may */
    RP_FATAL,     /* nothing further will succeed: stop */
};

enum rp_error_code {
    RP_OK = 0,
    RP_E_NOMEM,
    RP_E_INVALID, /* an argument or a field breaks the contract */
    RP_E_RANGE,   /* a number outside its limits */
    RP_E_DECODE,  /* bytes that cannot be read */
    RP_E_SCHEMA,  /* a schema that cannot be used */
    RP_E_CONFIG,  /* a configuration that cannot be used */
    RP_E_IO,      /* file or socket */
    RP_E_TIMEOUT,
    RP_E_KAFKA,
    RP_E_POSTGRES,
    RP_E_FENCED, /* somebody else owns this now */
    RP_E_NOT_FOUND,
    RP_E_FULL, /* a bound was reached */
};

struct rp_error {
    enum rp_error_code code;
    enum rp_error_class cls;
    char text[320]; /* one line, always terminated, cut where it is too long */
};

/* Fills `err`, which may be NULL, and returns -1, so that a function can end with `return
 * rp_fail(...)`. */
int rp_fail(struct rp_error *err, enum rp_error_code code, enum rp_error_class cls, const char *fmt,
            ...) RP_PRINTF(4, 5);

/* Copies `why` to `err`, which may be NULL, and returns -1. */
int rp_fail_as(struct rp_error *err, const struct rp_error *why);

/* Puts "context: " in front of the text of `err`, which may be NULL. Keeps code and class; returns
 * -1. */
int rp_fail_in(struct rp_error *err, const char *fmt, ...) RP_PRINTF(2, 3);

#endif
