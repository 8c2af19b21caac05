/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_CLI_SENDER_H
#define REPRISE_CLI_SENDER_H

#include "config.h"
#include "reprise/task.h"

/* Sends events to `failed-tasks` and knows of each one whether the broker has it. An event that the
 * broker refuses for good, or that it did not confirm in time, is reported on stderr with its line.
 * Not thread-safe. */
struct sender;

struct sender_counts {
    uint64_t sent, confirmed, failed; /* sent - confirmed - failed are under way */
    int32_t partition;                /* of the last one confirmed */
    int64_t offset;
};

/* `config` is borrowed. */
RP_NODISCARD int sender_new(const struct rp_config *config, struct sender **out,
                            struct rp_error *err);
/* Drops what is not confirmed yet. */
void sender_free(struct sender *s);

/* Encodes and sends an event. `line` names it in reports; 0: it has none. Waits while too many are
 * under way. Fails with POISON when this event cannot be sent; nothing else then happened. */
RP_NODISCARD int sender_send(struct sender *s, const struct rp_failed_task *task, uint64_t line,
                             struct rp_error *err);
/* Waits up to `timeout_ms` for what is under way; returns how many events still are. */
uint64_t sender_wait(struct sender *s, int timeout_ms);
struct sender_counts sender_counts(const struct sender *s);

#endif
