/* SPDX-License-Identifier: Apache-2.0 */
#include "inquiry.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "kafka.h"
#include "log.h"

#define REQUEST_MS 5000
#define AGAIN_MS   100
/* A coordinator that has yet to read the group's offsets may take minutes, and each failure costs a
 * client: twice as long with each of so many. */
#define MOST_FAILURES 5

struct rp_inquiry {
    const struct rp_config *config;
    rd_kafka_t *client;
    rd_kafka_t *own; /* asks since a question was not answered; NULL: none was needed yet */
    rd_kafka_queue_t *queue;
    char *group;
    int wake_fd;
    bool under_way;
    int failures; /* one after the other */
    uint64_t epoch;
    int64_t asked_mono_ms, next_mono_ms;
};

static void open_queue(struct rp_inquiry *q)
{
    static const uint64_t one = 1;
    q->queue = rd_kafka_queue_new(q->own != NULL ? q->own : q->client);
    if (q->wake_fd >= 0)
        rd_kafka_queue_io_event_enable(q->queue, q->wake_fd, &one, sizeof one);
}

static void close_queue(struct rp_inquiry *q)
{
    rd_kafka_queue_io_event_enable(q->queue, -1, NULL, 0);
    rd_kafka_queue_destroy(q->queue);
    if (q->own != NULL)
        rd_kafka_destroy(q->own);
    q->own = NULL;
}

int rp_inquiry_new(const struct rp_config *config, rd_kafka_t *client, const char *group,
                   int wake_fd, struct rp_inquiry **out, struct rp_error *err)
{
    struct rp_inquiry *q = calloc(1, sizeof *q);
    char *copy = strdup(group);
    if (q == NULL || copy == NULL) {
        free(q);
        free(copy);
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for an inquiry");
    }
    *q = (struct rp_inquiry){.config = config, .client = client, .group = copy, .wake_fd = wake_fd};
    open_queue(q);
    *out = q;
    return 0;
}

void rp_inquiry_free(struct rp_inquiry *q)
{
    if (q == NULL)
        return;
    close_queue(q);
    free(q->group);
    free(q);
}

/* Where that fails, the next question is asked as the last one was. */
static void change_client(struct rp_inquiry *q)
{
    struct rp_error err;
    rd_kafka_t *fresh;
    if (rp_kafka_new_group_client(q->config, q->group, &fresh, &err) != 0) {
        rp_log(RP_LOG_WARN, "state-unknown", rp_f_str("error", err.text));
        return;
    }
    close_queue(q);
    q->own = fresh;
    open_queue(q);
}

void rp_inquiry_ask(struct rp_inquiry *q, const rd_kafka_topic_partition_list_t *parts,
                    uint64_t epoch)
{
    if (q->under_way || parts->cnt == 0 || rp_mono_ms() < q->next_mono_ms)
        return;
    if (q->failures > 0)
        change_client(q);
    rp_kafka_ask_offsets(q->own != NULL ? q->own : q->client, q->group, parts, q->queue);
    q->under_way = true;
    q->asked_mono_ms = rp_mono_ms();
    q->epoch = epoch;
}

static rd_kafka_topic_partition_list_t *read_answer(rd_kafka_event_t *event)
{
    const rd_kafka_topic_partition_list_t *parts;
    struct rp_error err;
    if (rp_kafka_read_offsets(event, &parts, &err) != 0) {
        rp_log(RP_LOG_WARN, "state-unknown", rp_f_str("error", err.text));
        return NULL;
    }
    return rd_kafka_topic_partition_list_copy(parts);
}

rd_kafka_topic_partition_list_t *rp_inquiry_answer(struct rp_inquiry *q, uint64_t *out_epoch)
{
    rd_kafka_event_t *event = q->under_way ? rd_kafka_queue_poll(q->queue, 0) : NULL;
    if (event == NULL && (!q->under_way || rp_mono_ms() - q->asked_mono_ms < REQUEST_MS))
        return NULL;
    rd_kafka_topic_partition_list_t *parts = read_answer(event);
    if (event != NULL) {
        rd_kafka_event_destroy(event);
    } else { /* an answer that comes yet must not be taken for the next one's */
        close_queue(q);
        open_queue(q);
    }
    q->failures = parts != NULL ? 0 : q->failures < MOST_FAILURES ? q->failures + 1 : MOST_FAILURES;
    q->under_way = false;
    q->next_mono_ms = rp_mono_ms() + (AGAIN_MS << q->failures);
    *out_epoch = q->epoch;
    return parts;
}
