/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_KAFKA_H
#define REPRISE_KAFKA_H

#include <librdkafka/rdkafka.h>

#include "config.h"
#include "reprise/task.h"

enum rp_kafka_role { RP_KAFKA_CONSUMER, RP_KAFKA_PRODUCER, RP_KAFKA_ADMIN };

/* The librdkafka configuration of a client: what our promises need, then the file's `kafka:`
 * properties, the role's last. Its log goes to rp_log. The caller's to free or to hand to
 * rd_kafka_new. NULL on failure. */
rd_kafka_conf_t *rp_kafka_conf(const struct rp_config *config, enum rp_kafka_role role,
                               struct rp_error *err);

/* Sets one property; fails with RP_E_CONFIG and librdkafka's own words. */
RP_NODISCARD int rp_kafka_conf_set(rd_kafka_conf_t *conf, const char *name, const char *value,
                                   struct rp_error *err);

/* Sets a property of a consumer or producer, unless the configuration file states it. */
RP_NODISCARD int rp_kafka_conf_default(rd_kafka_conf_t *conf, const struct rp_config *config,
                                       enum rp_kafka_role role, const struct rp_property *property,
                                       struct rp_error *err);

/* Makes a client. Takes `conf`, also on failure. */
RP_NODISCARD int rp_kafka_new(rd_kafka_type_t type, rd_kafka_conf_t *conf, rd_kafka_t **out,
                              struct rp_error *err);

/* Makes a client for questions and admin requests. The caller's to destroy. */
RP_NODISCARD int rp_kafka_new_admin(const struct rp_config *config, rd_kafka_t **out,
                                    struct rp_error *err);

/* Whether the file has its producers compress. */
bool rp_kafka_compresses(const struct rp_config *config);

/* Translates librdkafka's errors: POISON for what one record or one topic is to blame for, FATAL
 * for what stops a client for good, RETRIABLE for the rest. Return -1. */
int rp_kafka_fail(struct rp_error *err, rd_kafka_resp_err_t code, const char *doing);
/* Takes `error`. */
int rp_kafka_fail_error(struct rp_error *err, rd_kafka_error_t *error, const char *doing);

/* Has the consumer read on from these offsets. librdkafka answers RD_KAFKA_RESP_ERR__OUTDATED where
 * something else moved the partition before it came to the seek (a rebalance pauses and resumes,
 * and a log that was cut sets it back), and has not sought then; so it is told once more. */
RP_NODISCARD int rp_kafka_seek(rd_kafka_t *consumer, rd_kafka_topic_partition_list_t *offsets,
                               struct rp_error *err);
/* As librdkafka's calls do, which where its own thread pauses or resumes a partition at the same
 * moment, for a rebalance, may come to nothing and do not say so: so each is made twice. */
rd_kafka_resp_err_t rp_kafka_pause(rd_kafka_t *consumer, rd_kafka_topic_partition_list_t *parts);
rd_kafka_resp_err_t rp_kafka_resume(rd_kafka_t *consumer, rd_kafka_topic_partition_list_t *parts);
/* Either of them, for one partition. */
rd_kafka_resp_err_t rp_kafka_set_paused(rd_kafka_t *consumer, const char *topic, int32_t partition,
                                        bool paused);
/* Before partitions are assigned: they come at offset 0 (set here) and paused, so that nothing of
 * them is fetched before their owner has said where to begin. It must not be librdkafka that looks
 * an offset up: it takes the committed one for none when the assignment changes meanwhile, and
 * begins at the log's beginning; and when it was told to begin at the end, it may ask for that a
 * second time (the leader changed, say), and go there after a seek, past all that lies between. */
void rp_kafka_hold(rd_kafka_t *consumer, rd_kafka_topic_partition_list_t *parts);
/* Has a partition that is held begin at `offset`; < 0: at the log's beginning. Fails while
 * librdkafka has not begun with the partition, a moment after it was assigned. */
RP_NODISCARD int rp_kafka_begin(rd_kafka_t *consumer, const char *topic, int32_t partition,
                                int64_t offset, struct rp_error *err);
/* Has a paused partition go on with a record that was seen at `offset`; `epoch` is its leader's. Of
 * a log that was cut before it meanwhile, reading goes on where that was. */
RP_NODISCARD int rp_kafka_resume_at(rd_kafka_t *consumer, const char *topic, int32_t partition,
                                    int64_t offset, int32_t epoch, struct rp_error *err);
/* `offset` < 0: from the log's beginning. */
RP_NODISCARD int rp_kafka_seek_one(rd_kafka_t *consumer, const char *topic, int32_t partition,
                                   int64_t offset, struct rp_error *err);
/* Where a log was cut (by an unclean election) before the offset up to which librdkafka has fetched
 * it, librdkafka goes back there, and throws away what it had not handed out yet, although the log
 * still has it. So if `m` is a later leader's and comes behind a gap, what is `expected` is sought,
 * and *back says so: `m` comes once more. Gaps are common, of transactions' marks: `looked`, 0 at
 * first, is the epoch for which that was done. `epoch`: of the last record that was read; -1: not
 * known. */
RP_NODISCARD int rp_kafka_look_back(rd_kafka_t *consumer, const rd_kafka_message_t *m,
                                    int64_t expected, int32_t epoch, int32_t *looked, bool *back,
                                    struct rp_error *err);
/* Where the log begins, as it came with the last records, if that is behind the next offset that is
 * wanted: what lay between is gone. -1: nothing is. Transactions' marks leave gaps, too, but none
 * up to there. */
int64_t rp_kafka_gone_to(rd_kafka_t *consumer, const char *topic, int32_t partition, int64_t next);

/* Makes a client for questions about a group's offsets: a consumer of the group that never joins
 * it, since librdkafka (2.14) crashes where a client that is no consumer asks a broker that is not
 * the group's coordinator any more. It remembers the coordinator for as long as it is asked for,
 * and waits for that broker even where it was dropped and made anew meanwhile, since the cluster
 * was without it for a while: for ever. So a question that was not answered wants another client.
 * The caller's to destroy. */
RP_NODISCARD int rp_kafka_new_group_client(const struct rp_config *config, const char *group,
                                           rd_kafka_t **out, struct rp_error *err);

/* The longest time for an admin request, and the one for a question to a group's coordinator: where
 * that times out while it waits for that broker, librdkafka (2.14) frees it, and reads it once the
 * broker is there. How long to wait is the caller's affair, who then destroys the queue of the
 * answers. */
#define RP_KAFKA_LONGEST_MS 3600000

/* For an admin request that is to be answered in `timeout_ms` (0 to RP_KAFKA_LONGEST_MS); the
 * caller's to destroy. */
rd_kafka_AdminOptions_t *rp_kafka_admin_options(rd_kafka_t *client, rd_kafka_admin_op_t request,
                                                int timeout_ms);

/* Asks for the offsets that a group has committed, those in a transaction under way left out; the
 * answer goes to `queue`. `client` is a consumer. Does not time out (RP_KAFKA_LONGEST_MS). */
void rp_kafka_ask_offsets(rd_kafka_t *client, const char *group,
                          const rd_kafka_topic_partition_list_t *parts, rd_kafka_queue_t *queue);
/* The answer, borrowed from the event, which may be NULL: there is none. A partition's `err` may be
 * set all the same. */
RP_NODISCARD int rp_kafka_read_offsets(rd_kafka_event_t *event,
                                       const rd_kafka_topic_partition_list_t **out,
                                       struct rp_error *err);

/* Asks where the partitions' logs end, whatever their offsets were; the answer, an event of
 * ListOffsets, goes to `queue`. It may take twice `timeout_ms`: to find the leaders, and to hear of
 * them. READ_COMMITTED: what a transaction under way has written is not to come yet. */
void rp_kafka_ask_ends(rd_kafka_t *client, rd_kafka_topic_partition_list_t *parts,
                       rd_kafka_IsolationLevel_t isolation, int timeout_ms,
                       rd_kafka_queue_t *queue);

/* A message's headers as ours; borrowed from the message, in an array of the arena. */
struct rp_arena;
RP_NODISCARD int rp_kafka_headers(const rd_kafka_message_t *message, struct rp_arena *arena,
                                  const struct rp_header **out, size_t *out_n,
                                  struct rp_error *err);
/* The time that the record bears, which is its producer's where the topic is not LogAppendTime. -1:
 * it bears none, or one before 1970. */
int64_t rp_kafka_append_ms(const rd_kafka_message_t *message);

#endif
