/* SPDX-License-Identifier: Apache-2.0 */
#include "settle.h"

#include <stdio.h>

#include "bury.h"

static const char *const kind_names[] = {"sent", "lap", "dead"};

const char *settle_kind_name(enum settle_kind kind)
{
    return kind_names[kind];
}

/* The record as it came, in the tier for what is left of its time, or of the lap. */
static int lap(struct settle_context *c, const struct settle_record *r, int64_t left_ms,
               int64_t due_ms, struct settlement *out, struct rp_error *err)
{
    const struct rp_config *config = c->config;
    struct rp_passage passage = r->parcel.passage;
    int tier = rp_tier_for(config->tiers, config->n_tiers, left_ms);
    passage.due_ms = due_ms;
    out->kind = SETTLE_LAP;
    out->out = (struct rp_outgoing){.topic = rp_str(config->tiers[tier < 0 ? 0 : tier].topic),
                                    .key = r->parcel.key,
                                    .value = r->parcel.value};
    return rp_tier_headers(&passage, &c->arena, &out->out.headers, &out->out.n_headers, err);
}

static int bury(struct settle_context *c, const struct settle_record *r,
                const struct rp_failed_task *task, enum rp_reason reason, const char *detail,
                struct settlement *out, struct rp_error *err)
{
    const struct rp_passage *passage = &r->parcel.passage;
    struct rp_dead_letter letter = {
        .has_task = task != NULL,
        .raw = task == NULL ? r->parcel.value : RP_NULL_BYTES,
        .reason = reason,
        .detail = rp_str(detail),
        .policy = passage->policy,
        .attempts = passage->attempt > 0 ? passage->attempt - 1 : 0,
        .decided_at_ms = r->now_ms,
        .topic = rp_str(r->topic),
        .partition = r->partition,
        .offset = r->offset,
    };
    if (task != NULL) {
        if (task->attempt > letter.attempts)
            letter.attempts = task->attempt; /* the largest is not counted on */
        letter.task = *task;
        letter.category = rp_str(rp_classify(c->policies, task)->name);
    }
    unsigned refused = r->lesson == NULL ? 0 : r->lesson->letters_refused;
    int failed =
        rp_bury(c->config, c->targets, &letter, r->parcel.key, refused, &c->letter, &out->out, err);
    out->kind = SETTLE_DEAD;
    out->reason = letter.reason;
    out->why = detail;
    return failed;
}

/* What the router wrote, completed by the event where somebody else wrote the record. */
static struct rp_passage complete(const struct settle_record *r, const struct rp_failed_task *task)
{
    struct rp_passage p = r->parcel.passage;
    if (p.task_id.data == NULL)
        p.task_id = task->task_id;
    if (p.attempt == 0)
        p.attempt = rp_next_attempt(task->attempt);
    if (p.first_failed_at_ms == RP_NO_TIME)
        p.first_failed_at_ms =
            task->first_failed_at_ms != RP_NO_TIME ? task->first_failed_at_ms : task->failed_at_ms;
    if (p.target.data == NULL)
        p.target = task->target;
    return p;
}

/* What the event names must still be allowed: the configuration may have changed. What a policy
 * named the event could not choose, and the router's policies may be newer than ours. */
static bool is_allowed(struct settle_context *c, const struct rp_failed_task *task,
                       struct rp_bytes target)
{
    return task->target.data == NULL
               ? rp_config_is_topic_name(target) && !rp_config_owns_topic(c->config, target)
               : rp_config_allows_again(c->config, &c->allowed, target);
}

static int refuse(struct settle_context *c, const struct settle_record *r,
                  const struct rp_failed_task *task, enum rp_reason reason, const char *why,
                  struct rp_bytes target, struct settlement *out, struct rp_error *err)
{
    char text[320];
    (void)snprintf(text, sizeof text, "%s %.*s", why,
                   (int)(target.len > RP_MAX_TOPIC_NAME ? RP_MAX_TOPIC_NAME : target.len),
                   target.len == 0 ? "" : (const char *)target.data);
    return bury(c, r, task, reason, rp_arena_text(&c->arena, text), out, err);
}

static int reinvoke(struct settle_context *c, const struct settle_record *r,
                    const struct rp_failed_task *task, struct settlement *out, struct rp_error *err)
{
    struct rp_passage p = complete(r, task);
    if (p.target.data == NULL)
        return bury(c, r, task, RP_NO_TARGET, "neither the record nor its event names a target",
                    out, err);
    if (!is_allowed(c, task, p.target))
        return refuse(c, r, task, RP_TARGET_FORBIDDEN, "targets.allow does not allow topic",
                      p.target, out, err);
    enum rp_target_state state = rp_targets_state(c->targets, p.target);
    if (state == RP_TARGET_MISSING)
        return refuse(c, r, task, RP_NO_TARGET, "there is no topic", p.target, out, err);
    if (state == RP_TARGET_DENIED)
        return refuse(c, r, task, RP_TARGET_FORBIDDEN, "the brokers' ACLs refuse topic", p.target,
                      out, err);
    out->kind = SETTLE_SENT;
    out->out = (struct rp_outgoing){.topic = p.target, .key = task->key, .value = task->payload};
    if (rp_target_headers(&p, task, &c->arena, &out->out.headers, &out->out.n_headers, err) != 0)
        return -1;
    if (rp_targets_fits(c->targets, &out->out))
        return 0;
    return refuse(c, r, task, RP_OVERSIZED, "it is larger than max.message.bytes of topic",
                  p.target, out, err);
}

int settle_record(struct settle_context *c, const struct settle_record *r, struct settlement *out,
                  struct rp_error *err)
{
    struct rp_failed_task task;
    bool refused = r->lesson != NULL && r->lesson->refused;
    *out = (struct settlement){.task_id = r->parcel.passage.task_id, .why = ""};
    rp_arena_reset(&c->arena);
    /* After a stop, or where the brokers' clock is behind ours, it may be due by now all the same.
     */
    int64_t due_ms = r->parcel.passage.due_ms;
    if (r->lap && !refused && due_ms > r->now_ms)
        return lap(c, r, due_ms - r->now_ms, due_ms, out, err);
    if (rp_codec_decode_task(c->codec, r->parcel.value, &c->arena, &task, err) != 0) {
        /* Without the registry nothing can be said of it now: it waits in the smallest tier. */
        int64_t left_ms = c->config->tiers[0].length_ms, then_ms = r->now_ms + left_ms;
        if (err->cls != RP_POISON)
            return lap(c, r, left_ms, due_ms > then_ms ? due_ms : then_ms, out, err);
        return bury(c, r, NULL, RP_UNDECODABLE, rp_arena_text(&c->arena, err->text), out, err);
    }
    if (rp_failed_task_check(&task, err) != 0)
        return bury(c, r, &task, RP_INVALID, rp_arena_text(&c->arena, err->text), out, err);
    if (refused)
        return bury(c, r, &task, r->lesson->reason, r->lesson->refusal, out, err);
    return reinvoke(c, r, &task, out, err);
}
