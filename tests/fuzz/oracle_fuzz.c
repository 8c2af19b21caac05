/* SPDX-License-Identifier: Apache-2.0 */
/* What our decoder accepts, avro-c reads alike: both readings, written again, are the same bytes.
 * Only what ours accepts is given to avro-c, which allocates what a length claims. */
#include <avro.h>
#include <stdlib.h>

#include "dead_letter.h"
#include "embedded.h"
#include "plan.h"
#include "record_encode.h"
#include "utf8.h"

#define MOST_BYTES (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct oracle {
    struct rp_schema schema;
    struct rp_plan *plan;
    avro_value_iface_t *class;
};

static struct oracle *make(void)
{
    struct oracle *o = calloc(1, sizeof *o);
    if (o == NULL || rp_schema_parse(rp_str(rp_embedded_schemas[0].json), &o->schema, NULL) != 0 ||
        rp_plan_compile(&o->schema, &rp_failed_task_shape, &o->plan, NULL) != 0)
        abort();
    o->class = avro_generic_class_from_schema(o->schema.root);
    return o;
}

static bool is_text(struct rp_bytes text)
{
    return text.data == NULL || rp_utf8_valid(text);
}

/* Our encoder mends what is no text, and of the two earliest times the decoder makes one. */
static bool is_written_as_it_is(const struct rp_failed_task *t)
{
    bool plain = is_text(t->task_id) && is_text(t->task_type) && is_text(t->target) &&
                 is_text(t->error_class) && is_text(t->error_message) &&
                 is_text(t->error_category) && is_text(t->source) &&
                 t->first_failed_at_ms != RP_NO_TIME + 1 && t->failed_at_ms != RP_NO_TIME + 1;
    for (size_t i = 0; i < t->n_headers; i++)
        plain = plain && is_text(t->headers[i].key);
    for (size_t i = 0; i < t->n_causes; i++)
        plain = plain && is_text(t->causes[i].class_name) && is_text(t->causes[i].message);
    return plain;
}

static void compare(const struct oracle *o, struct rp_bytes record, struct rp_bytes ours)
{
    static char theirs[MOST_BYTES];
    avro_value_t value;
    avro_reader_t reader = avro_reader_memory(record.data, (int64_t)record.len);
    avro_writer_t writer = avro_writer_memory(theirs, sizeof theirs);
    if (avro_generic_value_new(o->class, &value) != 0 || avro_value_read(reader, &value) != 0 ||
        avro_value_write(writer, &value) != 0)
        abort();
    if ((size_t)avro_writer_tell(writer) != ours.len || memcmp(theirs, ours.data, ours.len) != 0)
        abort();
    avro_value_decref(&value);
    avro_reader_free(reader);
    avro_writer_free(writer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct oracle *oracle;
    struct rp_bytes record = {data, size};
    struct rp_failed_task task;
    struct rp_arena arena = {0};
    struct rp_buf again = {0};
    if (oracle == NULL)
        oracle = make();
    if (size < MOST_BYTES / 2 && rp_plan_run(oracle->plan, record, 0, &arena, &task, NULL) == 0 &&
        is_written_as_it_is(&task)) {
        if (rp_record_encode(&rp_failed_task_shape, &task, &again, NULL) != 0)
            abort();
        compare(oracle, record, rp_buf_bytes(&again));
    }
    rp_buf_clear(&again);
    rp_arena_clear(&arena);
    return 0;
}
