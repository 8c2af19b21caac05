/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "avro_json.h"
#include "dead_letter.h"
#include "json_skeleton.h"
#include "plan.h"

#define MOST_JSON 65536 /* records of nothing but nulls make much of few bytes */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__lsan_default_suppressions(void);

/* avro-c does not free a type that defines a name anew. It costs some hundred bytes a schema, and
 * the codec parses a schema once. */
const char *__lsan_default_suppressions(void)
{
    return "leak:libavro";
}

static void check_plan(const struct rp_schema *schema, const struct rp_shape *shape,
                       struct rp_bytes record)
{
    union {
        struct rp_failed_task task;
        struct rp_dead_letter letter;
    } out;
    struct rp_arena arena = {0};
    struct rp_plan *plan;
    if (rp_plan_compile(schema, shape, &plan, NULL) != 0)
        return;
    (void)!rp_plan_run(plan, record, 0, &arena, &out, NULL);
    rp_plan_free(plan);
    rp_arena_clear(&arena);
}

/* Whether an object names no member twice, and no name holds NUL: what our JSON reader refuses. */
static bool is_kept(struct rp_bytes json)
{
    struct rp_error err;
    bool fragile;
    json_t *skeleton = rp_json_skeleton(json, &fragile, &err);
    assert(skeleton != NULL);
    json_decref(skeleton);
    return !fragile;
}

/* What is read as JSON is JSON that gives a value of the same JSON. */
static void check_json(const struct rp_schema *schema, struct rp_bytes record)
{
    struct rp_buf text = {0}, avro = {0}, again = {0};
    struct rp_error err = {0};
    if (rp_avro_to_json(schema, record, 0, &text, &err) != 0) {
        assert(err.code == RP_E_DECODE && err.cls == RP_POISON);
    } else if (text.len <= MOST_JSON && is_kept(rp_buf_bytes(&text))) {
        int rc = rp_avro_from_json(schema, rp_buf_bytes(&text), &avro, &err);
        assert(rc == 0);
        rc = rp_avro_to_json(schema, rp_buf_bytes(&avro), 0, &again, &err);
        assert(rc == 0);
        (void)rc;
        assert(rp_bytes_equal(rp_buf_bytes(&text), rp_buf_bytes(&again)));
    }
    rp_buf_clear(&text);
    rp_buf_clear(&avro);
    rp_buf_clear(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rp_error err;
    struct rp_schema schema;
    uint64_t fingerprint;
    const uint8_t *nul = size == 0 ? NULL : memchr(data, 0, size);
    size_t json_len = nul == NULL ? size : (size_t)(nul - data);
    struct rp_bytes record = {data + json_len, nul == NULL ? 0 : size - json_len - 1};
    if (nul != NULL)
        record.data = nul + 1;
    if (rp_schema_parse((struct rp_bytes){data, json_len}, &schema, &err) != 0) {
        assert(err.code == RP_E_SCHEMA && err.cls == RP_POISON);
        return 0;
    }
    (void)!rp_schema_fingerprint(schema.root, &fingerprint, NULL);
    check_plan(&schema, &rp_failed_task_shape, record);
    check_plan(&schema, &rp_dead_letter_shape, record);
    check_json(&schema, record);
    rp_schema_clear(&schema);
    return 0;
}
