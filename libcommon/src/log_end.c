/* SPDX-License-Identifier: Apache-2.0 */
#include "log_end.h"

#include "clock.h"

#define PATIENCE_MS 60000
#define QUERY_MS    5000

void rp_log_end_met(struct rp_log_end *e)
{
    if (e->short_since_mono_ms == 0)
        e->short_since_mono_ms = rp_mono_ms();
}

void rp_log_end_passed(struct rp_log_end *e)
{
    e->short_since_mono_ms = 0;
}

bool rp_log_end_ask(rd_kafka_t *client, const char *topic, int32_t partition, int64_t *out_end)
{
    int64_t begin;
    return rd_kafka_query_watermark_offsets(client, topic, partition, &begin, out_end, QUERY_MS) ==
           RD_KAFKA_RESP_ERR_NO_ERROR;
}

bool rp_log_end_due(const struct rp_log_end *e)
{
    return e->short_since_mono_ms != 0 && rp_mono_ms() - e->short_since_mono_ms >= PATIENCE_MS;
}

bool rp_log_end_look(struct rp_log_end *e, rd_kafka_t *client, const char *topic, int32_t partition,
                     int64_t *out_end)
{
    if (!rp_log_end_due(e))
        return false;
    e->short_since_mono_ms = rp_mono_ms(); /* the next look, if this one tells nothing */
    return rp_log_end_ask(client, topic, partition, out_end);
}
