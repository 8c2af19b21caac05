/* SPDX-License-Identifier: Apache-2.0 */
#include "codec.h"

#include <inttypes.h>
#include <stdlib.h>

#include "embedded.h"
#include "plan_cache.h"
#include "record_json.h"
#include "registry.h"

/* One of our records, and how to read it from whatever schema wrote it. */
struct reader {
    const struct rp_shape *shape;
    const struct rp_plan *current; /* for our own schema; owned by `by_fingerprint` */
    struct rp_plan_cache by_fingerprint, by_id;
};

struct rp_codec {
    struct rp_registry *registry;
    struct reader task, letter;
};

/* Compiles the schema and keeps the plan, or the reason why there is none, under `key`. `*out` is
 * NULL for the latter. Fails only for want of memory. */
static int learn(struct rp_plan_cache *cache, uint64_t key, const char *json,
                 const struct rp_shape *shape, const struct rp_plan_entry **out,
                 struct rp_error *err)
{
    struct rp_error why = {0};
    struct rp_schema schema;
    struct rp_plan *plan = NULL;
    int rc = rp_schema_parse(rp_str(json), &schema, &why);
    if (rc == 0) {
        rc = rp_plan_compile(&schema, shape, &plan, &why);
        rp_schema_clear(&schema);
    }
    if (rc != 0 && why.cls != RP_POISON)
        return rp_fail_as(err, &why);
    if (rp_plan_cache_add(cache, key, plan, why.text, err) != 0)
        return -1;
    *out = rp_plan_cache_find(cache, key);
    return 0;
}

/* Plans for all the versions of our own schema, the current one first. */
static int reader_init(struct reader *r, const struct rp_shape *shape, struct rp_error *err)
{
    r->shape = shape;
    for (size_t i = 0; i < rp_n_embedded_schemas; i++) {
        const struct rp_embedded_schema *s = &rp_embedded_schemas[i];
        const struct rp_plan_entry *e;
        if (strcmp(s->record, shape->name) != 0)
            continue;
        if (learn(&r->by_fingerprint, s->fingerprint, s->json, shape, &e, err) != 0)
            return -1;
        if (e->plan == NULL)
            return rp_fail(err, RP_E_SCHEMA, RP_FATAL, "our own %s: %s", shape->name, e->why);
        if (r->current == NULL)
            r->current = e->plan;
    }
    return 0;
}

int rp_codec_new(struct rp_registry *registry, struct rp_codec **out, struct rp_error *err)
{
    struct rp_codec *codec = calloc(1, sizeof *codec);
    *out = NULL;
    if (codec == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for a codec");
    codec->registry = registry;
    if (reader_init(&codec->task, &rp_failed_task_shape, err) != 0 ||
        reader_init(&codec->letter, &rp_dead_letter_shape, err) != 0) {
        rp_codec_free(codec);
        return -1;
    }
    *out = codec;
    return 0;
}

void rp_codec_free(struct rp_codec *codec)
{
    if (codec == NULL)
        return;
    rp_plan_cache_clear(&codec->task.by_fingerprint);
    rp_plan_cache_clear(&codec->task.by_id);
    rp_plan_cache_clear(&codec->letter.by_fingerprint);
    rp_plan_cache_clear(&codec->letter.by_id);
    free(codec);
}

/* C3 01, the fingerprint in little endian, the record. */
static int decode_single_object(struct reader *reader, struct rp_bytes value,
                                struct rp_arena *arena, void *out, struct rp_error *err)
{
    const uint8_t *p = value.data;
    uint64_t fingerprint = 0;
    if (value.len < 10)
        return rp_fail(err, RP_E_DECODE, RP_POISON,
                       "byte 2: the fingerprint is cut off: the value has %zu bytes", value.len);
    for (int i = 7; i >= 0; i--)
        fingerprint = fingerprint << 8 | p[2 + i];
    const struct rp_plan_entry *e = rp_plan_cache_find(&reader->by_fingerprint, fingerprint);
    if (e == NULL)
        return rp_fail(err, RP_E_DECODE, RP_POISON,
                       "byte 2: the fingerprint %016" PRIx64 " is of no %s that is known here",
                       fingerprint, reader->shape->name);
    return rp_plan_run(e->plan, value, 10, arena, out, err);
}

/* 00, the schema's id in big endian, the record. */
static int decode_confluent(struct rp_codec *codec, struct reader *reader, struct rp_bytes value,
                            struct rp_arena *arena, void *out, struct rp_error *err)
{
    const uint8_t *p = value.data;
    if (value.len < 5)
        return rp_fail(err, RP_E_DECODE, RP_POISON,
                       "byte 1: the schema id is cut off: the value has %zu bytes", value.len);
    uint32_t id = (uint32_t)p[1] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 8 | p[4];
    const struct rp_plan_entry *e = rp_plan_cache_find(&reader->by_id, id);
    if (e == NULL) {
        const char *json;
        if (codec->registry == NULL)
            return rp_fail(err, RP_E_DECODE, RP_POISON,
                           "byte 0: schema id %" PRIu32 ", but no schema registry is configured",
                           id);
        if (id > INT32_MAX)
            return rp_fail(err, RP_E_DECODE, RP_POISON, "byte 1: %" PRIu32 " is no schema id", id);
        if (rp_registry_schema(codec->registry, (int32_t)id, &json, err) != 0 ||
            learn(&reader->by_id, id, json, reader->shape, &e, err) != 0)
            return -1;
    }
    if (e->plan == NULL)
        return rp_fail(err, RP_E_SCHEMA, RP_POISON, "schema id %" PRIu32 ": %s", id, e->why);
    return rp_plan_run(e->plan, value, 5, arena, out, err);
}

static int decode(struct rp_codec *codec, struct reader *reader, struct rp_bytes value,
                  struct rp_arena *arena, void *out, struct rp_error *err)
{
    const uint8_t *p = value.data;
    if (p == NULL)
        return rp_fail(err, RP_E_DECODE, RP_POISON, "the value is null");
    if (value.len == 0)
        return rp_fail(err, RP_E_DECODE, RP_POISON, "the value is empty");
    if (value.len >= 2 && p[0] == 0xC3 && p[1] == 0x01)
        return decode_single_object(reader, value, arena, out, err);
    if (p[0] == 0x00)
        return decode_confluent(codec, reader, value, arena, out, err);
    if (p[0] == '{')
        return rp_record_from_json(reader->shape, value, arena, out, err);
    return rp_plan_run(reader->current, value, 0, arena, out, err);
}

int rp_codec_decode_task(struct rp_codec *codec, struct rp_bytes value, struct rp_arena *arena,
                         struct rp_failed_task *out, struct rp_error *err)
{
    return decode(codec, &codec->task, value, arena, out, err);
}

int rp_codec_decode_dead_letter(struct rp_codec *codec, struct rp_bytes value,
                                struct rp_arena *arena, struct rp_dead_letter *out,
                                struct rp_error *err)
{
    return decode(codec, &codec->letter, value, arena, out, err);
}
