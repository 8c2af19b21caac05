/* SPDX-License-Identifier: Apache-2.0 */
#include "arrivals.h"

#include <stdlib.h>
#include <string.h>

#include "inquiry.h"
#include "kafka.h"
#include "log.h"

#define SEEK_MS 5000

struct arrivals {
    rd_kafka_t *client;
    struct rp_inquiry *inquiry;
    char *topic;
    uint64_t epoch; /* of the answers that still hold */
    int32_t *partitions;
    size_t n, cap;
};

int arrivals_new(rd_kafka_t *client, const char *group, const char *topic, struct arrivals **out,
                 struct rp_error *err)
{
    struct arrivals *a = calloc(1, sizeof *a);
    char *copy = strdup(topic);
    if (a == NULL || copy == NULL) {
        free(a);
        free(copy);
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for partitions that come");
    }
    *a = (struct arrivals){.client = client, .topic = copy};
    if (rp_inquiry_new(client, group, -1, &a->inquiry, err) != 0) {
        arrivals_free(a);
        return -1;
    }
    *out = a;
    return 0;
}

void arrivals_free(struct arrivals *a)
{
    if (a == NULL)
        return;
    rp_inquiry_free(a->inquiry);
    free(a->partitions);
    free(a->topic);
    free(a);
}

/* Where it is; `n` where it is not. */
static size_t place_of(const struct arrivals *a, int32_t partition)
{
    size_t i = 0;
    while (i < a->n && a->partitions[i] != partition)
        i++;
    return i;
}

int arrivals_add(struct arrivals *a, int32_t partition, struct rp_error *err)
{
    a->epoch++;
    if (place_of(a, partition) < a->n)
        return 0;
    if (a->n == a->cap) {
        size_t cap = 2 * a->cap + 8;
        int32_t *grown = realloc(a->partitions, cap * sizeof *grown);
        if (grown == NULL)
            return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for %zu partitions", cap);
        a->partitions = grown;
        a->cap = cap;
    }
    a->partitions[a->n++] = partition;
    return 0;
}

void arrivals_remove(struct arrivals *a, int32_t partition)
{
    size_t i = place_of(a, partition);
    a->epoch++;
    if (i < a->n)
        a->partitions[i] = a->partitions[--a->n];
}

static int seek(struct arrivals *a, int32_t partition, int64_t offset, struct rp_error *err)
{
    rd_kafka_topic_partition_list_t *one = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(one, a->topic, partition)->offset =
        offset >= 0 ? offset : RD_KAFKA_OFFSET_BEGINNING;
    rd_kafka_error_t *error = rd_kafka_seek_partitions(a->client, one, SEEK_MS);
    rd_kafka_resp_err_t code = one->elems[0].err;
    rd_kafka_topic_partition_list_destroy(one);
    if (error != NULL)
        return rp_kafka_fail_error(err, error, "seek");
    return code == RD_KAFKA_RESP_ERR_NO_ERROR ? 0 : rp_kafka_fail(err, code, "seek");
}

/* Begins with the partitions that have an offset; the others are asked for again. */
static void begin(struct arrivals *a, const rd_kafka_topic_partition_list_t *parts)
{
    struct rp_error err;
    for (int i = 0; i < parts->cnt; i++) {
        const rd_kafka_topic_partition_t *p = &parts->elems[i];
        size_t place = place_of(a, p->partition);
        if (place == a->n || p->err != RD_KAFKA_RESP_ERR_NO_ERROR)
            continue;
        if (seek(a, p->partition, p->offset, &err) == 0)
            a->partitions[place] = a->partitions[--a->n];
        else /* librdkafka has not begun with it */
            rp_log(RP_LOG_DEBUG, "take-over-waits", rp_f_str("topic", p->topic),
                   rp_f_int("partition", p->partition), rp_f_str("error", err.text));
    }
}

void arrivals_serve(struct arrivals *a)
{
    uint64_t epoch;
    rd_kafka_topic_partition_list_t *parts = rp_inquiry_answer(a->inquiry, &epoch);
    if (parts != NULL && epoch == a->epoch)
        begin(a, parts);
    if (parts != NULL)
        rd_kafka_topic_partition_list_destroy(parts);
    if (a->n == 0)
        return;
    parts = rd_kafka_topic_partition_list_new((int)a->n);
    for (size_t i = 0; i < a->n; i++)
        rd_kafka_topic_partition_list_add(parts, a->topic, a->partitions[i]);
    rp_inquiry_ask(a->inquiry, parts, a->epoch);
    rd_kafka_topic_partition_list_destroy(parts);
}

size_t arrivals_waiting(const struct arrivals *a)
{
    return a->n;
}

bool arrivals_holds(const struct arrivals *a, int32_t partition)
{
    return place_of(a, partition) < a->n;
}
