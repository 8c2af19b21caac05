/* SPDX-License-Identifier: Apache-2.0 */
/* Commits an offset with metadata, byte for byte, for a group without members:
 * BOOTSTRAP GROUP TOPIC PARTITION OFFSET [METADATA]. Exits with 0 once it is committed. */
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    char text[200];
    if (argc < 6)
        return 2;
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    if (rd_kafka_conf_set(conf, "bootstrap.servers", argv[1], text, sizeof text) != 0 ||
        rd_kafka_conf_set(conf, "group.id", argv[2], text, sizeof text) != 0)
        return 2;
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_CONSUMER, conf, text, sizeof text);
    if (rk == NULL)
        return 2;
    rd_kafka_topic_partition_list_t *offsets = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_t *at =
        rd_kafka_topic_partition_list_add(offsets, argv[3], (int32_t)strtol(argv[4], NULL, 10));
    at->offset = strtoll(argv[5], NULL, 10);
    if (argc > 6) {
        at->metadata = strdup(argv[6]); /* librdkafka frees it */
        at->metadata_size = strlen(argv[6]);
    }
    rd_kafka_resp_err_t code = rd_kafka_commit(rk, offsets, 0);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        code = at->err;
    rd_kafka_topic_partition_list_destroy(offsets);
    (void)rd_kafka_consumer_close(rk);
    rd_kafka_destroy(rk);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        return 0;
    (void)fprintf(stderr, "%s\n", rd_kafka_err2str(code));
    return 1;
}
