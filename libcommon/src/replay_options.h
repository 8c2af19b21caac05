/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_REPLAY_OPTIONS_H
#define REPRISE_REPLAY_OPTIONS_H

#include "config.h"

enum rp_replay_order { RP_REPLAY_OLDEST, RP_REPLAY_NEWEST, RP_REPLAY_BY_KEY };

/* How a job goes about its work: fixed when it is planned, kept in replay_job.options as JSON, so
 * that whoever takes the job over does the same. Owns what it points to; a zeroed one is that of
 * a plain replay but for the defaults of rp_replay_options_init. */
struct rp_replay_options {
    bool to_router; /* the event again to failed-tasks, instead of the task to its target */
    char *target;   /* in place of each task's own; NULL: its own */
    int64_t limit;  /* rows at most; 0: all */
    enum rp_replay_order order;
    int64_t max_replays; /* rows replayed as often are held back */
    int64_t canary;      /* so many first; 0: none */
    int64_t canary_wait_ms;
    double canary_share; /* stops when more than the share of the canaries came back dead */
    double stop_if_dead; /* stops when more than the share of what was sent came back; < 0: never */
    char *jq;            /* a program; NULL: none */
    char *payload_schema; /* Avro's JSON, of payloads that a program reads; NULL: none */
    struct rp_properties set_headers; /* in place of the task's own of that name, or besides */
    int64_t success_within_ms; /* what has not come back by then has succeeded; 0: not asked */
};

void rp_replay_options_init(struct rp_replay_options *o);
void rp_replay_options_clear(struct rp_replay_options *o);

/* "NAME=VALUE", of which the name must not be one of reprise's own. */
RP_NODISCARD int rp_replay_options_header(struct rp_replay_options *o, const char *text,
                                          struct rp_error *err);

/* As JSON, the caller's to free; NULL: no memory. */
char *rp_replay_options_json(const struct rp_replay_options *o);
/* Backwards; a name that is unknown is passed over, one that is missing has its default. */
RP_NODISCARD int rp_replay_options_read(const char *json, struct rp_replay_options *out,
                                        struct rp_error *err);

const char *rp_replay_order_name(enum rp_replay_order order);
bool rp_replay_order_parse(const char *text, enum rp_replay_order *out);

#endif
