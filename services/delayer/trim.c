/* SPDX-License-Identifier: Apache-2.0 */
#include "trim.h"

#include <stdlib.h>

#include "clock.h"
#include "crash_point.h"
#include "log.h"

#define EVERY_MS      5000
#define AFTER_FAIL_MS 60000

struct trimmer {
    rd_kafka_t *client;
    rd_kafka_queue_t *queue;
    bool under_way, failed;
    int64_t next_mono_ms;
};

int trimmer_new(rd_kafka_t *client, struct trimmer **out, struct rp_error *err)
{
    struct trimmer *t = calloc(1, sizeof *t);
    if (t == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for trimming");
    t->client = client;
    t->queue = rd_kafka_queue_new(client);
    *out = t;
    return 0;
}

void trimmer_free(struct trimmer *t)
{
    if (t == NULL)
        return;
    rd_kafka_queue_destroy(t->queue);
    free(t);
}

static void report(const char *topic, int32_t partition, const char *error)
{
    rp_log(RP_LOG_WARN, "trim-failed", rp_f_str("topic", topic), rp_f_int("partition", partition),
           rp_f_str("error", error), rp_f_str("effect", "the tier keeps what is settled"));
}

static bool report_failures(rd_kafka_event_t *event)
{
    if (rd_kafka_event_error(event) != RD_KAFKA_RESP_ERR_NO_ERROR) {
        report("-", -1, rd_kafka_event_error_string(event));
        return true;
    }
    const rd_kafka_DeleteRecords_result_t *result = rd_kafka_event_DeleteRecords_result(event);
    const rd_kafka_topic_partition_list_t *parts = rd_kafka_DeleteRecords_result_offsets(result);
    bool failed = false;
    for (int i = 0; i < parts->cnt; i++) {
        const rd_kafka_topic_partition_t *p = &parts->elems[i];
        if (p->err == RD_KAFKA_RESP_ERR_NO_ERROR)
            continue;
        report(p->topic, p->partition, rd_kafka_err2str(p->err));
        failed = true;
    }
    return failed;
}

bool trimmer_is_due(struct trimmer *t)
{
    rd_kafka_event_t *event = t->under_way ? rd_kafka_queue_poll(t->queue, 0) : NULL;
    if (event != NULL) {
        RP_CRASH_POINT(trim_answered);
        t->failed = report_failures(event);
        t->next_mono_ms = rp_mono_ms() + (t->failed ? AFTER_FAIL_MS : EVERY_MS);
        t->under_way = false;
        rd_kafka_event_destroy(event);
    }
    return !t->under_way && rp_mono_ms() >= t->next_mono_ms;
}

bool trimmer_failed(const struct trimmer *t)
{
    return t->failed;
}

void trimmer_start(struct trimmer *t, const rd_kafka_topic_partition_list_t *offsets)
{
    t->next_mono_ms = rp_mono_ms() + EVERY_MS;
    if (offsets->cnt == 0)
        return;
    rd_kafka_DeleteRecords_t *request = rd_kafka_DeleteRecords_new(offsets);
    RP_CRASH_POINT(trim_before);
    rd_kafka_DeleteRecords(t->client, &request, 1, NULL, t->queue);
    rd_kafka_DeleteRecords_destroy(request);
    t->under_way = true;
    RP_CRASH_POINT(trim_sent);
}
