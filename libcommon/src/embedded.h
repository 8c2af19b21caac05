/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_EMBEDDED_H
#define REPRISE_EMBEDDED_H

#include <stddef.h>
#include <stdint.h>

/* The files of schemas/, made into C by tools/embed_schemas.c when the library is built. */
struct rp_embedded_schema {
    const char *record; /* the record's name, without the namespace */
    uint64_t fingerprint;
    const char *json;
};

/* The current FailedTask and DeadLetter first, then older versions. */
extern const struct rp_embedded_schema rp_embedded_schemas[];
extern const size_t rp_n_embedded_schemas;

#define RP_EMBEDDED_FAILED_TASK 0
#define RP_EMBEDDED_DEAD_LETTER 1

#endif
