/* SPDX-License-Identifier: Apache-2.0 */
#include "topic_ends.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kafka.h"

#define ASK_MS 5000

static int count_partitions(rd_kafka_t *client, const char *topic, int *out, struct rp_error *err)
{
    const struct rd_kafka_metadata *cluster;
    rd_kafka_resp_err_t code = rd_kafka_metadata(client, 1, NULL, &cluster, ASK_MS);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return rp_kafka_fail(err, code, "reading the cluster's metadata");
    *out = 0;
    for (int i = 0; i < cluster->topic_cnt; i++)
        if (strcmp(cluster->topics[i].topic, topic) == 0)
            *out = cluster->topics[i].partition_cnt;
    rd_kafka_metadata_destroy(cluster);
    return *out > 0 ? 0
                    : rp_fail(err, RP_E_IO, RP_RETRIABLE, "the brokers show no topic %s", topic);
}

/* Takes the answer's offsets into the list that was asked about. */
static int take_answer(rd_kafka_event_t *event, rd_kafka_topic_partition_list_t *parts,
                       struct rp_error *err)
{
    static const char doing[] = "asking where its partitions end";
    size_t n = 0;
    if (event == NULL)
        return rp_kafka_fail(err, RD_KAFKA_RESP_ERR__TIMED_OUT, doing);
    if (rd_kafka_event_error(event) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return rp_kafka_fail(err, rd_kafka_event_error(event), doing);
    const rd_kafka_ListOffsetsResultInfo_t **infos =
        rd_kafka_ListOffsets_result_infos(rd_kafka_event_ListOffsets_result(event), &n);
    for (size_t i = 0; i < n; i++) {
        const rd_kafka_topic_partition_t *end =
            rd_kafka_ListOffsetsResultInfo_topic_partition(infos[i]);
        if (end->err != RD_KAFKA_RESP_ERR_NO_ERROR)
            return rp_kafka_fail(err, end->err, doing);
        (void)rd_kafka_topic_partition_list_set_offset(parts, end->topic, end->partition,
                                                       end->offset);
    }
    return 0;
}

static int ask(rd_kafka_t *client, rd_kafka_topic_partition_list_t *parts, struct rp_error *err)
{
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    rp_kafka_ask_ends(client, parts, RD_KAFKA_ISOLATION_LEVEL_READ_UNCOMMITTED, ASK_MS, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, 2 * ASK_MS);
    int failed = take_answer(event, parts, err);
    if (event != NULL)
        rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    return failed;
}

static int write_ends(const rd_kafka_topic_partition_list_t *parts, struct rp_buf *out,
                      struct rp_error *err)
{
    for (int i = 0; i < parts->cnt; i++) {
        char text[32];
        int64_t end = parts->elems[i].offset;
        if (end < 0)
            return rp_fail(err, RP_E_IO, RP_RETRIABLE, "no broker says where %s [%d] ends",
                           parts->elems[i].topic, i);
        int len = snprintf(text, sizeof text, "%c%" PRId64, i == 0 ? '{' : ',', end);
        if (rp_buf_append(out, text, (size_t)len, err) != 0)
            return -1;
    }
    return rp_buf_append(out, "}", sizeof "}", err);
}

int rp_topic_ends(rd_kafka_t *client, const char *topic, struct rp_buf *out, struct rp_error *err)
{
    int n = 0;
    if (count_partitions(client, topic, &n, err) != 0)
        return -1;
    rd_kafka_topic_partition_list_t *parts = rd_kafka_topic_partition_list_new(n);
    for (int32_t i = 0; i < n; i++)
        (void)rd_kafka_topic_partition_list_add(parts, topic, i);
    int failed = ask(client, parts, err);
    if (failed != 0)
        (void)rp_fail_in(err, "%s", topic);
    if (failed != 0 && err->cls == RP_POISON)
        err->cls = RP_RETRIABLE;
    if (failed == 0)
        failed = write_ends(parts, out, err);
    rd_kafka_topic_partition_list_destroy(parts);
    return failed;
}
