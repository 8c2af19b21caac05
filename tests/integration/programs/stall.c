/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into a service: takes the file that REPRISE_STALL names away, once it is there, and has
 * paused the consumer behind its back then, which stands for one that librdkafka fetches for no
 * more. A later one is not. */
#include <dlfcn.h>
#include <librdkafka/rdkafka.h>
#include <stdlib.h>
#include <unistd.h>

typedef rd_kafka_message_t *poll_fn(rd_kafka_t *rk, int timeout_ms);
typedef rd_kafka_resp_err_t pause_fn(rd_kafka_t *rk, rd_kafka_topic_partition_list_t *parts);
typedef rd_kafka_resp_err_t assignment_fn(rd_kafka_t *rk, rd_kafka_topic_partition_list_t **parts);
typedef void destroy_fn(rd_kafka_topic_partition_list_t *parts);

static void stop_fetching(rd_kafka_t *rk)
{
    rd_kafka_topic_partition_list_t *parts;
    if (((assignment_fn *)dlsym(RTLD_NEXT, "rd_kafka_assignment"))(rk, &parts) != 0)
        abort();
    /* librdkafka passes over the first of two at times. */
    for (int i = 0; i < 2; i++)
        ((pause_fn *)dlsym(RTLD_NEXT, "rd_kafka_pause_partitions"))(rk, parts);
    ((destroy_fn *)dlsym(RTLD_NEXT, "rd_kafka_topic_partition_list_destroy"))(parts);
}

rd_kafka_message_t *rd_kafka_consumer_poll(rd_kafka_t *rk, int timeout_ms)
{
    const char *file = getenv("REPRISE_STALL");
    if (access(file, F_OK) == 0) {
        stop_fetching(rk);
        (void)unlink(file);
    }
    return ((poll_fn *)dlsym(RTLD_NEXT, "rd_kafka_consumer_poll"))(rk, timeout_ms);
}
