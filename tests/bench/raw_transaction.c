/* SPDX-License-Identifier: Apache-2.0 */
/* What a transaction costs: `count` of them in a row, each of `batch` records and the offsets of a
 * consumer, from begin to the commit's answer. bootstrap= source= target= group= count= batch= */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "clock.h"

static void send_batch(rd_kafka_t *producer, rd_kafka_topic_t *target, long batch)
{
    static char value[200];
    for (long i = 0; i < batch; i++)
        bench_check_code(rd_kafka_producev(producer, RD_KAFKA_V_RKT(target),
                                           RD_KAFKA_V_VALUE(value, sizeof value), RD_KAFKA_V_END),
                         "produce");
}

static void transaction(rd_kafka_t *producer, rd_kafka_topic_t *target, rd_kafka_t *consumer,
                        const rd_kafka_topic_partition_list_t *offsets, long batch)
{
    bench_check(rd_kafka_begin_transaction(producer), "begin");
    rd_kafka_consumer_group_metadata_t *group = rd_kafka_consumer_group_metadata(consumer);
    bench_check(rd_kafka_send_offsets_to_transaction(producer, offsets, group, 20000),
                "send offsets");
    rd_kafka_consumer_group_metadata_destroy(group);
    send_batch(producer, target, batch); /* which the last one's end would hold up for 20 ms */
    bench_check(rd_kafka_commit_transaction(producer, 20000), "commit");
}

static void wait_for_assignment(rd_kafka_t *consumer)
{
    rd_kafka_topic_partition_list_t *assigned = NULL;
    do {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(consumer, 100);
        if (m != NULL)
            rd_kafka_message_destroy(m);
        if (assigned != NULL)
            rd_kafka_topic_partition_list_destroy(assigned);
        bench_check_code(rd_kafka_assignment(consumer, &assigned), "assignment");
    } while (assigned->cnt == 0);
    rd_kafka_topic_partition_list_destroy(assigned);
}

int main(int argc, char **argv)
{
    long count = bench_number(argv, "count", NULL), batch = bench_number(argv, "batch", NULL);
    rd_kafka_t *producer = bench_producer(argv, bench_arg(argv, "group", NULL), "0.5");
    rd_kafka_topic_t *target = rd_kafka_topic_new(producer, bench_arg(argv, "target", NULL), NULL);
    rd_kafka_t *consumer = bench_member(argv, BENCH_FETCH_BYTES);
    rd_kafka_topic_partition_list_t *offsets = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_t *offset =
        rd_kafka_topic_partition_list_add(offsets, bench_arg(argv, "source", NULL), 0);
    double *took_ms = calloc((size_t)count, sizeof *took_ms);
    (void)argc;
    if (took_ms == NULL)
        bench_die("transactions", "no memory");
    wait_for_assignment(consumer);
    for (long i = -count / 10; i < count; i++) { /* the first ones warm up */
        int64_t begun_mono_us = rp_mono_us();
        offset->offset = i + count;
        transaction(producer, target, consumer, offsets, batch);
        if (i >= 0)
            took_ms[i] = (double)(rp_mono_us() - begun_mono_us) / 1000;
    }
    bench_sort(took_ms, (size_t)count);
    (void)printf("{\"p50\": %.2f, \"p99\": %.2f}\n", took_ms[count / 2],
                 took_ms[(count - 1) * 99 / 100]);
    free(took_ms);
    rd_kafka_topic_partition_list_destroy(offsets);
    rd_kafka_topic_destroy(target);
    (void)rd_kafka_consumer_close(consumer);
    rd_kafka_destroy(consumer);
    rd_kafka_destroy(producer);
    return 0;
}
