/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_SCHEMA_H
#define REPRISE_SCHEMA_H

#include <avro.h>
#include <stdbool.h>
#include <stdint.h>

#include "reprise/bytes.h"

/* A writer's schema as avro-c parses it, once it is known to be harmless: not too large, not nested
 * too deep, and such that every value of it is finite. The schema may come from outside. */
struct rp_schema {
    avro_schema_t root;
    struct rp_schema_record *records; /* all that it defines, each once */
    size_t n_records;
    /* A union holds two types of one name, against Avro's rules. Its values can be read, but told
     * apart by their branch alone. */
    bool ambiguous;
};

#define RP_SCHEMA_MAX_BYTES   (256u * 1024)
#define RP_SCHEMA_MAX_DEPTH   128 /* of brackets in its JSON */
#define RP_SCHEMA_MAX_RECORDS 256

/* Fails with RP_E_SCHEMA (POISON) and says what is wrong with it. */
RP_NODISCARD int rp_schema_parse(struct rp_bytes json, struct rp_schema *out, struct rp_error *err);
void rp_schema_clear(struct rp_schema *schema);

/* Which field of the record has this name; -1: none. */
int rp_schema_field_index(avro_schema_t record, const char *name);

/* What a link stands for; any other type stands for itself. */
avro_schema_t rp_schema_resolve(avro_schema_t type);

/* Whether every value of the type takes no bytes at all, so that an array may claim any number of
 * them: null, a fixed of size 0, a record of such. */
bool rp_schema_takes_no_bytes(const struct rp_schema *schema, avro_schema_t type);

/* Appends the parsing canonical form, as the Avro specification defines it. */
RP_NODISCARD int rp_schema_canonical(avro_schema_t type, struct rp_buf *out, struct rp_error *err);

/* CRC-64-AVRO of the parsing canonical form: what follows C3 01 in a single-object value. */
RP_NODISCARD int rp_schema_fingerprint(avro_schema_t type, uint64_t *out, struct rp_error *err);

#endif
