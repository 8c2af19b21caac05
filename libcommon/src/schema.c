/* SPDX-License-Identifier: Apache-2.0 */
#include "schema.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct rp_schema_record {
    avro_schema_t type;
    bool finite;   /* proven so far: a value of it ends */
    bool no_bytes; /* known once it is finite */
};

/* jansson and avro-c recurse on what they parse, so the depth is counted before they see it. */
static int check_depth(struct rp_bytes json, struct rp_error *err)
{
    const char *text = json.data;
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < json.len; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > RP_SCHEMA_MAX_DEPTH)
                return rp_fail(err, RP_E_SCHEMA, RP_POISON,
                               "the schema nests deeper than %d at byte %zu", RP_SCHEMA_MAX_DEPTH,
                               i);
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return 0;
}

avro_schema_t rp_schema_resolve(avro_schema_t type)
{
    return is_avro_link(type) ? avro_schema_link_target(type) : type;
}

static int add_record(struct rp_schema *s, avro_schema_t type, struct rp_error *err)
{
    if (s->n_records == RP_SCHEMA_MAX_RECORDS)
        return rp_fail(err, RP_E_SCHEMA, RP_POISON, "the schema has more than %d records",
                       RP_SCHEMA_MAX_RECORDS);
    if ((s->n_records & (s->n_records - 1)) == 0) {
        size_t cap = s->n_records == 0 ? 1 : 2 * s->n_records;
        void *grown = realloc(s->records, cap * sizeof *s->records);
        if (grown == NULL)
            return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a schema");
        s->records = grown;
    }
    s->records[s->n_records++] = (struct rp_schema_record){.type = type};
    return 0;
}

static int walk(struct rp_schema *s, avro_schema_t type, struct rp_error *err);

static int walk_record(struct rp_schema *s, avro_schema_t type, struct rp_error *err)
{
    if (add_record(s, type, err) != 0)
        return -1;
    size_t n = avro_schema_record_size(type);
    for (size_t i = 0; i < n; i++) {
        const char *name = avro_schema_record_field_name(type, (int)i);
        /* By name, avro-c finds the last of two; by index, each. */
        if (rp_schema_field_index(type, name) != (int)i)
            return rp_fail(err, RP_E_SCHEMA, RP_POISON, "record %s has two fields %s",
                           avro_schema_name(type), name);
        if (walk(s, avro_schema_record_field_get_by_index(type, (int)i), err) != 0)
            return -1;
    }
    return 0;
}

static bool is_named(avro_schema_t type)
{
    return is_avro_record(type) || is_avro_enum(type) || is_avro_fixed(type);
}

static bool is_same(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool have_one_name(avro_schema_t a, avro_schema_t b)
{
    if (!is_named(a) || !is_named(b))
        return avro_typeof(a) == avro_typeof(b);
    return is_same(avro_schema_name(a), avro_schema_name(b)) &&
           is_same(avro_schema_namespace(a), avro_schema_namespace(b));
}

static bool is_ambiguous(avro_schema_t type)
{
    size_t n = avro_schema_union_size(type);
    for (size_t i = 1; i < n; i++) {
        avro_schema_t branch = rp_schema_resolve(avro_schema_union_branch(type, (int)i));
        for (size_t j = 0; j < i; j++)
            if (have_one_name(branch, rp_schema_resolve(avro_schema_union_branch(type, (int)j))))
                return true;
    }
    return false;
}

static int walk_union(struct rp_schema *s, avro_schema_t type, struct rp_error *err)
{
    size_t n = avro_schema_union_size(type);
    s->ambiguous = s->ambiguous || is_ambiguous(type);
    for (size_t i = 0; i < n; i++) {
        avro_schema_t branch = avro_schema_union_branch(type, (int)i);
        if (is_avro_union(branch))
            return rp_fail(err, RP_E_SCHEMA, RP_POISON, "a union holds a union");
        if (walk(s, branch, err) != 0)
            return -1;
    }
    return 0;
}

/* Collects the records, and refuses what avro-c lets through. Links are not followed. */
static int walk(struct rp_schema *s, avro_schema_t type, struct rp_error *err)
{
    switch (avro_typeof(type)) {
    case AVRO_RECORD:
        return walk_record(s, type, err);
    case AVRO_UNION:
        return walk_union(s, type, err);
    case AVRO_ARRAY:
        return walk(s, avro_schema_array_items(type), err);
    case AVRO_MAP:
        return walk(s, avro_schema_map_values(type), err);
    case AVRO_FIXED:
        if (avro_schema_fixed_size(type) < 0 || avro_schema_fixed_size(type) > INT32_MAX)
            return rp_fail(err, RP_E_SCHEMA, RP_POISON, "fixed %s has the size %lld",
                           avro_schema_name(type), (long long)avro_schema_fixed_size(type));
        return 0;
    default:
        return 0;
    }
}

static const struct rp_schema_record *record_of(const struct rp_schema *s, avro_schema_t type)
{
    for (size_t i = 0; i < s->n_records; i++)
        if (s->records[i].type == type)
            return &s->records[i];
    return NULL;
}

static bool is_finite(const struct rp_schema *s, avro_schema_t type)
{
    type = rp_schema_resolve(type);
    if (is_avro_record(type)) {
        const struct rp_schema_record *r = record_of(s, type);
        return r != NULL && r->finite;
    }
    if (!is_avro_union(type))
        return true;
    size_t n = avro_schema_union_size(type);
    for (size_t i = 0; i < n; i++)
        if (is_finite(s, avro_schema_union_branch(type, (int)i)))
            return true;
    return false;
}

bool rp_schema_takes_no_bytes(const struct rp_schema *s, avro_schema_t type)
{
    type = rp_schema_resolve(type);
    if (is_avro_record(type)) {
        const struct rp_schema_record *r = record_of(s, type);
        return r != NULL && r->no_bytes;
    }
    return is_avro_null(type) || (is_avro_fixed(type) && avro_schema_fixed_size(type) == 0);
}

static void settle_record(const struct rp_schema *s, struct rp_schema_record *r)
{
    size_t n = avro_schema_record_size(r->type);
    r->no_bytes = true;
    for (size_t i = 0; i < n; i++) {
        avro_schema_t type = avro_schema_record_field_get_by_index(r->type, (int)i);
        if (!is_finite(s, type))
            return;
        r->no_bytes = r->no_bytes && rp_schema_takes_no_bytes(s, type);
    }
    r->finite = true;
}

/* A record is finite when all its fields are, and a union when a branch is; so records are proven
 * finite from the innermost out, until a round proves none. */
static int check_finite(struct rp_schema *s, struct rp_error *err)
{
    for (bool progress = true; progress;) {
        progress = false;
        for (size_t i = 0; i < s->n_records; i++) {
            if (s->records[i].finite)
                continue;
            settle_record(s, &s->records[i]);
            progress = progress || s->records[i].finite;
        }
    }
    for (size_t i = 0; i < s->n_records; i++)
        if (!s->records[i].finite)
            return rp_fail(err, RP_E_SCHEMA, RP_POISON, "record %s contains itself without end",
                           avro_schema_name(s->records[i].type));
    return 0;
}

/* avro-c returns ENOMEM, too, for a name that is none and for one that is defined twice. What it
 * says for want of memory is that, or nothing. */
static bool is_no_memory(int rc, const char *why)
{
    return rc == ENOMEM && (why[0] == '\0' || strstr(why, "Cannot allocate") != NULL);
}

/* avro-c has one text for the failures of all threads. */
static pthread_mutex_t avro_text = PTHREAD_MUTEX_INITIALIZER;

static int read_schema(struct rp_bytes json, avro_schema_t *out, struct rp_error *err)
{
    int failed = 0;
    (void)pthread_mutex_lock(&avro_text);
    avro_set_error("%s", ""); /* of what failed before */
    int rc = avro_schema_from_json_length(json.data, json.len, out);
    if (rc != 0) {
        *out = NULL;
        failed = is_no_memory(rc, avro_strerror())
                     ? rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a schema")
                     : rp_fail(err, RP_E_SCHEMA, RP_POISON, "no Avro schema: %s", avro_strerror());
    }
    (void)pthread_mutex_unlock(&avro_text);
    return failed;
}

/* Where there is none, avro-c says so in its text. */
int rp_schema_field_index(avro_schema_t record, const char *name)
{
    (void)pthread_mutex_lock(&avro_text);
    int index = avro_schema_record_field_get_index(record, name);
    (void)pthread_mutex_unlock(&avro_text);
    return index;
}

int rp_schema_parse(struct rp_bytes json, struct rp_schema *out, struct rp_error *err)
{
    *out = (struct rp_schema){0};
    if (json.len > RP_SCHEMA_MAX_BYTES)
        return rp_fail(err, RP_E_SCHEMA, RP_POISON,
                       "the schema has %zu bytes, over the limit of %u", json.len,
                       RP_SCHEMA_MAX_BYTES);
    if (json.len == 0)
        return rp_fail(err, RP_E_SCHEMA, RP_POISON, "the schema is empty");
    if (check_depth(json, err) != 0 || read_schema(json, &out->root, err) != 0)
        return -1;
    if (walk(out, out->root, err) != 0 || check_finite(out, err) != 0) {
        rp_schema_clear(out);
        return -1;
    }
    return 0;
}

void rp_schema_clear(struct rp_schema *s)
{
    if (s->root != NULL)
        (void)avro_schema_decref(s->root);
    free(s->records);
    *s = (struct rp_schema){0};
}
