/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_LOG_END_H
#define REPRISE_LOG_END_H

#include <stdbool.h>
#include <stdint.h>

#include <librdkafka/rdkafka.h>

/* The end of a log that comes too soon: before an offset that somebody has committed. Either a new
 * leader of the partition lags, or the log was cut, and only time tells which. A zeroed one is
 * ready. */
struct rp_log_end {
    int64_t short_since_mono_ms; /* 0: it does not come too soon, as far as we know */
};

/* The end was met, and came too soon. */
void rp_log_end_met(struct rp_log_end *e);
/* It was passed. */
void rp_log_end_passed(struct rp_log_end *e);

/* Where the log ends now. False: nobody answers. Waits for the answer. */
bool rp_log_end_ask(rd_kafka_t *client, const char *topic, int32_t partition, int64_t *out_end);
/* It was met long ago: time for a look. */
bool rp_log_end_due(const struct rp_log_end *e);
/* True: it was met long ago, and *out_end is where the log ends now; if that is still too soon, it
 * was cut. Once that is so it is not asked for again for as long. Waits for the answer. */
bool rp_log_end_look(struct rp_log_end *e, rd_kafka_t *client, const char *topic, int32_t partition,
                     int64_t *out_end);

#endif
