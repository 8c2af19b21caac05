/* SPDX-License-Identifier: Apache-2.0 */
#include "topic_handles.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>
#include <xxhash.h>

#include "config.h"

static bool is_of(const struct rp_topic_handle *place, rd_kafka_t *rk, struct rp_bytes topic)
{
    if (place->topic == NULL || place->rk != rk)
        return false;
    return rp_bytes_equal(rp_str(rd_kafka_topic_name(place->topic)), topic);
}

static void clear(struct rp_topic_handle *place)
{
    if (place->topic != NULL)
        rd_kafka_topic_destroy(place->topic);
    place->topic = NULL;
}

rd_kafka_topic_t *rp_topic_handle(struct rp_topic_handles *h, rd_kafka_t *rk, struct rp_bytes topic)
{
    uint64_t hash = XXH3_64bits_withSeed(topic.data, topic.len, (uint64_t)(uintptr_t)rk);
    struct rp_topic_handle *place = &h->places[hash & (RP_TOPIC_HANDLES - 1)];
    char name[RP_MAX_TOPIC_NAME + 1];
    if (is_of(place, rk, topic))
        return place->topic;
    assert(topic.len < sizeof name);
    memcpy(name, topic.data, topic.len);
    name[topic.len] = '\0';
    clear(place);
    *place = (struct rp_topic_handle){rk, rd_kafka_topic_new(rk, name, NULL)};
    return place->topic;
}

void rp_topic_handles_clear(struct rp_topic_handles *h)
{
    for (size_t i = 0; i < RP_TOPIC_HANDLES; i++)
        clear(&h->places[i]);
}
