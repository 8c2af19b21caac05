/* SPDX-License-Identifier: Apache-2.0 */
#include "transform.h"

#include <stdlib.h>

#include "jq_process.h"
#include "json_skeleton.h"
#include "json_span.h"
#include "registry.h"

#define DEFAULT_CPU_MS 5000

struct rp_transform {
    struct rp_message_reader *reader;
    struct rp_jq_process *jq;
    struct rp_registry *registry;
    int64_t patience_ms;
};

int rp_transform_new(const struct rp_transform_options *o, struct rp_transform **out,
                     struct rp_error *err)
{
    struct rp_transform *t = calloc(1, sizeof *t);
    *out = NULL;
    if (t == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a transform");
    t->registry = o->registry;
    t->patience_ms = o->patience_ms;
    if (rp_message_reader_new(o->payload_schema_file, o->registry, &t->reader, err) != 0 ||
        (o->payload_schema != NULL &&
         rp_message_reader_schema(t->reader, rp_str(o->payload_schema), err) != 0) ||
        rp_jq_process_new(o->jq, o->cpu_ms > 0 ? o->cpu_ms : DEFAULT_CPU_MS, &t->jq, err) != 0) {
        rp_transform_free(t);
        return -1;
    }
    *out = t;
    return 0;
}

void rp_transform_free(struct rp_transform *t)
{
    if (t == NULL)
        return;
    rp_jq_process_free(t->jq);
    rp_message_reader_free(t->reader);
    free(t);
}

/* What jq does not keep must not be lost in a payload that changed elsewhere. */
static int check_kept(const struct rp_document *document, struct rp_bytes result,
                      struct rp_error *err)
{
    bool fragile = false;
    struct rp_bytes payload = rp_json_member(result, "payload");
    if ((document->form != RP_PAYLOAD_JSON && document->form != RP_PAYLOAD_AVRO) ||
        rp_bytes_equal(payload, document->payload))
        return 0;
    json_t *json = rp_json_skeleton(document->payload, &fragile, err);
    if (json == NULL)
        return -1;
    json_decref(json);
    if (!fragile)
        return 0;
    return rp_fail(err, RP_E_INVALID, RP_POISON,
                   "the payload names a member twice, or holds half a surrogate pair, which jq"
                   " would lose; it cannot be changed");
}

/* Of RP_E_IO, which is the registry's here. Whoever waited for ever for the schema of one message
 * would keep those behind it. */
static int judge_registry(struct rp_transform *t, struct rp_error *err)
{
    if (err->code == RP_E_IO && t->patience_ms >= 0 &&
        rp_registry_failing_ms(t->registry) >= t->patience_ms)
        err->cls = RP_POISON;
    return -1;
}

int rp_transform_apply(struct rp_transform *t, const struct rp_message *in, const char *task_json,
                       struct rp_arena *arena, struct rp_message *out, struct rp_error *err)
{
    struct rp_document document;
    struct rp_bytes result;
    if (rp_document_write(t->reader, in, task_json == NULL ? "null" : task_json, &document, err) !=
        0)
        return judge_registry(t, err);
    int rc = rp_jq_process_run(t->jq, rp_buf_bytes(&document.text), &result, err);
    if (rc == 0)
        rc = check_kept(&document, result, err);
    if (rc == 0)
        rc = rp_document_read(&document, result, in, arena, out, err);
    rp_document_clear(&document);
    return rc;
}
