/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_cursor.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"

#define REQUEST_MS  10000
#define PATIENCE_MS 20000
#define AGAIN_MS    50

void rp_replay_group(const char *job, char out[RP_REPLAY_GROUP_SIZE])
{
    (void)snprintf(out, RP_REPLAY_GROUP_SIZE, "reprise-replay-%s", job);
}

rd_kafka_topic_partition_list_t *rp_replay_cursor_at(const struct rp_config *config, int64_t next,
                                                     const char *stamp)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_t *part =
        rd_kafka_topic_partition_list_add(list, config->topics.dead_letter, 0);
    part->offset = next;
    part->metadata_size = strlen(stamp);
    part->metadata = strdup(stamp); /* the list frees it */
    if (part->metadata != NULL)
        return list;
    rd_kafka_topic_partition_list_destroy(list);
    return NULL;
}

static rd_kafka_event_t *ask(rd_kafka_t *client, const struct rp_config *config, const char *group)
{
    rd_kafka_topic_partition_list_t *parts = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(parts, config->topics.dead_letter, 0);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    rp_kafka_ask_offsets(client, group, parts, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, REQUEST_MS);
    rd_kafka_queue_destroy(queue);
    rd_kafka_topic_partition_list_destroy(parts);
    return event;
}

static bool is_ours(const rd_kafka_topic_partition_t *part, const char *stamp)
{
    return part->metadata_size == strlen(stamp) &&
           memcmp(part->metadata, stamp, part->metadata_size) == 0;
}

/* Fails RETRIABLE; *unstable: a transaction that is being completed still hides it. */
static int read_answer(rd_kafka_event_t *event, const char *stamp, int64_t *out_next,
                       bool *unstable, struct rp_error *err)
{
    const rd_kafka_topic_partition_list_t *parts;
    if (rp_kafka_read_offsets(event, &parts, err) != 0)
        return -1;
    if (parts->cnt != 1)
        return rp_fail(err, RP_E_KAFKA, RP_RETRIABLE, "no broker says how far the replay is");
    const rd_kafka_topic_partition_t *part = &parts->elems[0];
    *unstable = part->err == RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT;
    if (part->err != RD_KAFKA_RESP_ERR_NO_ERROR)
        return rp_kafka_fail(err, part->err, "ask how far the replay is");
    *out_next = part->offset >= 0 && is_ours(part, stamp) ? part->offset : -1;
    return 0;
}

static int read_by(rd_kafka_t *client, const struct rp_config *config, const char *group,
                   const char *stamp, int64_t *out_next, struct rp_error *err)
{
    int64_t end_mono_ms = rp_mono_ms() + PATIENCE_MS;
    for (;;) {
        bool unstable = false;
        rd_kafka_event_t *event = ask(client, config, group);
        int failed = read_answer(event, stamp, out_next, &unstable, err);
        if (event != NULL)
            rd_kafka_event_destroy(event);
        if (failed == 0 || !unstable || rp_mono_ms() >= end_mono_ms)
            return failed;
        (void)usleep(AGAIN_MS * 1000);
    }
}

int rp_replay_cursor_read(const struct rp_config *config, const char *job, const char *stamp,
                          int64_t *out_next, struct rp_error *err)
{
    char group[RP_REPLAY_GROUP_SIZE];
    rd_kafka_t *client;
    rp_replay_group(job, group);
    if (rp_kafka_new_group_client(config, group, &client, err) != 0)
        return -1;
    int failed = read_by(client, config, group, stamp, out_next, err);
    rd_kafka_destroy(client);
    return failed;
}
