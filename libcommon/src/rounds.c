/* SPDX-License-Identifier: Apache-2.0 */
#include "rounds.h"

bool rp_rounds_take(struct rp_rounds *r, struct rp_bytes topic, int64_t bytes, int64_t max_bytes)
{
    size_t i = 0;
    while (i < r->n && !rp_bytes_equal(rp_str(r->items[i].topic), topic))
        i++;
    if (i == RP_ROUNDS_TOPICS || (i < r->n && r->items[i].bytes > max_bytes - bytes))
        return false;
    if (i == r->n) {
        memcpy(r->items[i].topic, topic.data, topic.len);
        r->items[i].topic[topic.len] = '\0';
        r->items[i].bytes = 0;
        r->n++;
    }
    r->items[i].bytes += bytes;
    return true;
}

void rp_rounds_clear(struct rp_rounds *r)
{
    r->n = 0;
}
