/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_INTAKE_H
#define REPRISE_INTAKE_H

#include "arrivals.h"

/* Where the router reads: each record of its partitions once, in the order of their offsets, from
 * the committed offset on, or from where it is told to go back to. One thread. A failure to seek
 * would lose records, so it is to end the worker, whose successor begins at what is committed. */
struct intake {
    rd_kafka_t *client;
    const char *topic;
    struct arrivals *arrivals; /* NULL: closed; partitions may still come and go */
    struct positions positions;
    struct log_cut cut; /* of the last ARRIVAL_CUT */
    /* Partitions whose next record could not be judged; they are paused until then. */
    rd_kafka_topic_partition_list_t *waiting;
    int64_t waiting_until_mono_ms; /* counts from the first of them */
};

/* `client` is the consumer, and borrowed. On failure clear it. */
RP_NODISCARD int intake_init(struct intake *in, const struct rp_config *config, rd_kafka_t *client,
                             const char *group, struct rp_error *err);
/* Comes before the consumer is closed. */
void intake_close(struct intake *in);
void intake_clear(struct intake *in);

/* Partitions come; see arrivals_add. */
RP_NODISCARD int intake_add(struct intake *in, const rd_kafka_topic_partition_list_t *parts,
                            bool recall, struct rp_error *err);
void intake_remove(struct intake *in, const rd_kafka_topic_partition_list_t *parts);

/* Reads on from these offsets. */
RP_NODISCARD int intake_seek(struct intake *in, rd_kafka_topic_partition_list_t *offsets,
                             struct rp_error *err);
RP_NODISCARD int intake_seek_one(struct intake *in, int32_t partition, int64_t offset,
                                 struct rp_error *err);
/* The same after a while, the other partitions going on. */
RP_NODISCARD int intake_postpone(struct intake *in, int32_t partition, int64_t offset,
                                 struct rp_error *err);

/* The end of a partition was told (RD_KAFKA_RESP_ERR__PARTITION_EOF). */
RP_NODISCARD int intake_end_met(struct intake *in, const rd_kafka_message_t *m,
                                struct rp_error *err);
/* The partitions that are read, each with the offset up to which all of it came; the caller's to
 * destroy. */
rd_kafka_topic_partition_list_t *intake_read(const struct intake *in);

/* Begins with partitions whose time has come. Call it again and again. Returns as arrivals_serve.
 */
const struct log_cut *intake_serve(struct intake *in);

/* What a record is that came. */
RP_NODISCARD int intake_take(struct intake *in, const rd_kafka_message_t *m, enum arrival *out,
                             struct rp_error *err);
/* A batch came that cannot be unpacked, and of which only the first offset is known. ARRIVAL_NONE
 * and ARRIVAL_CUT: the record at *offset cannot be read. Else it is dealt with. */
RP_NODISCARD int intake_take_unread(struct intake *in, const rd_kafka_message_t *m,
                                    enum arrival *out, int64_t *offset, struct rp_error *err);

#endif
