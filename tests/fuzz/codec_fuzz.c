/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>

#include "codec.h"
#include "embedded.h"
#include "record_encode.h"
#include "shape.h"

#define NEWER_ID 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int __wrap_rp_registry_schema(struct rp_registry *registry, int32_t id, const char **out_json,
                              struct rp_error *err);

/* The fields in another order, and among them what we have no place for. */
static const char newer[] =
    "{'type':'record','name':'FailedTask','fields':["
    "{'name':'failed_at','type':'int'},{'name':'source','type':'string'},"
    "{'name':'tree','type':{'type':'record','name':'Node','fields':["
    "{'name':'kids','type':{'type':'array','items':'Node'}},"
    "{'name':'f','type':{'type':'fixed','name':'F','size':2}},"
    "{'name':'e','type':{'type':'enum','name':'E','symbols':['A','B']}},"
    "{'name':'m','type':{'type':'map','values':['null','double','boolean','float']}}]}},"
    "{'name':'error','type':{'type':'record','name':'reprise.v1.Error','fields':["
    "{'name':'message','type':'string'},{'name':'class','type':['string','null']}]}},"
    "{'name':'attempt','type':'int'},{'name':'payload','type':['bytes','null']},"
    "{'name':'task_type','type':'string'},{'name':'task_id','type':'string'}]}";

/* Plays the registry: all versions that we know, one that we do not, and one that is none. */
int __wrap_rp_registry_schema(struct rp_registry *registry, int32_t id, const char **out_json,
                              struct rp_error *err)
{
    static char json[sizeof newer];
    (void)registry;
    for (size_t i = 0; i < sizeof newer; i++)
        json[i] = newer[i] == '\'' ? '"' : newer[i];
    if (id > NEWER_ID)
        return rp_fail(err, RP_E_SCHEMA, RP_POISON, "there is no schema %d", (int)id);
    *out_json = id == NEWER_ID                       ? json
                : (size_t)id < rp_n_embedded_schemas ? rp_embedded_schemas[id].json
                : id == NEWER_ID - 1 ? rp_embedded_schemas[RP_EMBEDDED_FAILED_TASK].json
                                     : "{}";
    return 0;
}

/* As a bare record, without a look at the contract. */
static void encode(const struct rp_shape *shape, const void *record, struct rp_buf *out)
{
    out->len = 0;
    int rc = rp_record_encode(shape, record, out, NULL);
    assert(rc == 0);
    (void)rc;
}

static void check_task(struct rp_codec *codec, struct rp_bytes value)
{
    struct rp_arena arena = {0};
    struct rp_buf first = {0}, second = {0};
    struct rp_failed_task task, again;
    if (rp_codec_decode_task(codec, value, &arena, &task, NULL) == 0 && task.task_id.len > 0) {
        encode(&rp_failed_task_shape, &task, &first);
        int rc = rp_codec_decode_task(codec, rp_buf_bytes(&first), &arena, &again, NULL);
        assert(rc == 0);
        (void)rc;
        encode(&rp_failed_task_shape, &again, &second);
        assert(rp_bytes_equal(rp_buf_bytes(&first), rp_buf_bytes(&second)));
    }
    rp_buf_clear(&first);
    rp_buf_clear(&second);
    rp_arena_clear(&arena);
}

static void check_letter(struct rp_codec *codec, struct rp_bytes value)
{
    struct rp_arena arena = {0};
    struct rp_buf first = {0}, second = {0};
    struct rp_dead_letter letter, again;
    if (rp_codec_decode_dead_letter(codec, value, &arena, &letter, NULL) == 0) {
        int rc = rp_dead_letter_encode(&letter, &first, NULL);
        assert(rc == 0);
        rc = rp_codec_decode_dead_letter(codec, rp_buf_bytes(&first), &arena, &again, NULL);
        assert(rc == 0);
        rc = rp_dead_letter_encode(&again, &second, NULL);
        assert(rc == 0);
        (void)rc;
        assert(rp_bytes_equal(rp_buf_bytes(&first), rp_buf_bytes(&second)));
    }
    rp_buf_clear(&first);
    rp_buf_clear(&second);
    rp_arena_clear(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rp_codec *codec;
    static char registry;
    if (codec == NULL && rp_codec_new((struct rp_registry *)(void *)&registry, &codec, NULL) != 0)
        abort();
    check_task(codec, (struct rp_bytes){data, size});
    check_letter(codec, (struct rp_bytes){data, size});
    return 0;
}
