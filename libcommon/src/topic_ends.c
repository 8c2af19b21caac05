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

int rp_topic_ends(rd_kafka_t *client, const char *topic, struct rp_buf *out, struct rp_error *err)
{
    int n;
    if (count_partitions(client, topic, &n, err) != 0)
        return -1;
    for (int32_t i = 0; i < n; i++) {
        char text[32];
        int64_t begin, end;
        rd_kafka_resp_err_t code =
            rd_kafka_query_watermark_offsets(client, topic, i, &begin, &end, ASK_MS);
        if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
            return rp_kafka_fail(err, code, topic);
        int len = snprintf(text, sizeof text, "%c%" PRId64, i == 0 ? '{' : ',', end);
        if (rp_buf_append(out, text, (size_t)len, err) != 0)
            return -1;
    }
    return rp_buf_append(out, "}", sizeof "}", err);
}
