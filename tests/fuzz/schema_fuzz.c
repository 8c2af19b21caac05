/* SPDX-License-Identifier: Apache-2.0 */
#include "dead_letter.h"
#include "plan.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rp_schema schema;
    uint64_t fingerprint;
    const uint8_t *nul = size == 0 ? NULL : memchr(data, 0, size);
    size_t json_len = nul == NULL ? size : (size_t)(nul - data);
    struct rp_bytes record = {data + json_len, nul == NULL ? 0 : size - json_len - 1};
    if (nul != NULL)
        record.data = nul + 1;
    if (rp_schema_parse((struct rp_bytes){data, json_len}, &schema, NULL) != 0)
        return 0;
    (void)!rp_schema_fingerprint(schema.root, &fingerprint, NULL);
    check_plan(&schema, &rp_failed_task_shape, record);
    check_plan(&schema, &rp_dead_letter_shape, record);
    rp_schema_clear(&schema);
    return 0;
}
