/* SPDX-License-Identifier: Apache-2.0 */
#include "route.h"

#include <stdio.h>

#include "bury.h"
#include "reinvoke.h"

/* A decoded event, and what its headers add to it. */
struct event {
    struct rp_failed_task task;
    struct rp_failure failure;
    struct rp_bytes replay_id;
    bool handed_back; /* the headers of the task's re-invocation */
    const struct rp_category *category;
    const struct rp_policy *policy;
};

static const char *const kind_names[] = {"retry", "direct", "fallback", "dead", "repeat"};

const char *route_kind_name(enum route_kind kind)
{
    return kind_names[kind];
}

static int bury(struct route_context *c, const struct route_record *r,
                struct rp_dead_letter *letter, const char *detail, struct route *out,
                struct rp_error *err)
{
    letter->detail = rp_str(detail);
    letter->decided_at_ms = r->now_ms;
    letter->topic = rp_str(r->topic);
    letter->partition = r->partition;
    letter->offset = r->offset;
    unsigned refused = r->lesson == NULL ? 0 : r->lesson->letters_refused;
    int failed =
        rp_bury(c->config, c->targets, letter, r->key, refused, &c->letter, &out->out, err);
    out->kind = ROUTE_DEAD;
    out->reason = letter->reason;
    out->why = detail;
    return failed;
}

int route_undecodable(struct route_context *c, const struct route_record *r, const char *why,
                      struct route *out, struct rp_error *err)
{
    *out = (struct route){.left_ms = INT64_MAX};
    struct rp_dead_letter letter = {.raw = r->value, .reason = RP_UNDECODABLE};
    return bury(c, r, &letter, rp_arena_text(&c->arena, why), out, err);
}

static int bury_task(struct route_context *c, const struct route_record *r,
                     const struct event *event, enum rp_reason reason, const char *detail,
                     struct route *out, struct rp_error *err)
{
    struct rp_dead_letter letter = {
        .has_task = true,
        .task = event->task,
        .reason = reason,
        .category = rp_str(event->category == NULL ? NULL : event->category->name),
        .policy = rp_str(event->policy == NULL ? NULL : rp_policy_name(event->policy)),
        .attempts = event->failure.attempt,
    };
    return bury(c, r, &letter, detail, out, err);
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* When it failed: as stated, unless that lies further in the future than clocks differ. */
static int64_t failed_at(const struct route_context *c, const struct route_record *r,
                         const struct rp_failed_task *task)
{
    if (task->failed_at_ms - r->now_ms <= c->config->clock_skew_ms)
        return task->failed_at_ms;
    return r->append_ms == RP_NO_TIME ? r->now_ms : smaller(r->append_ms, r->now_ms);
}

/* Takes over what the handler handed back. Headers of another task (a handler that emits a new task
 * may pass on the headers of the one it works on) say nothing of this one. */
static void read_life(const struct route_context *c, const struct route_record *r,
                      struct event *event)
{
    const struct rp_failed_task *task = &event->task;
    struct rp_reinvocation own, carrier;
    struct rp_error err;
    (void)!rp_reinvocation_read(task->headers, task->n_headers, &own, &err);
    (void)!rp_reinvocation_read(r->headers, r->n_headers, &carrier, &err);
    bool ours = own.task_id.data == NULL || rp_bytes_equal(own.task_id, task->task_id);
    if (!ours)
        own = (struct rp_reinvocation){.first_failed_at_ms = RP_NO_TIME};
    struct rp_failure *f = &event->failure;
    f->task = task;
    f->now_ms = r->now_ms;
    f->attempt = own.attempt > task->attempt ? own.attempt : task->attempt;
    f->failed_at_ms = f->first_failed_at_ms = failed_at(c, r, task);
    f->was_fallback = own.fallback;
    event->handed_back = own.task_id.data != NULL;
    if (task->first_failed_at_ms != RP_NO_TIME)
        f->first_failed_at_ms = smaller(f->first_failed_at_ms, task->first_failed_at_ms);
    if (own.first_failed_at_ms != RP_NO_TIME)
        f->first_failed_at_ms = smaller(f->first_failed_at_ms, own.first_failed_at_ms);
    event->replay_id = own.replay_id.data != NULL ? own.replay_id : carrier.replay_id;
}

static struct guard_event guard_event_of(const struct route_record *r, const struct event *event)
{
    return (struct guard_event){
        .task_id = event->task.task_id,
        .replay_id = event->replay_id,
        .attempt = event->failure.attempt,
        .failed_at_ms = event->task.failed_at_ms,
        .partition = r->partition,
        .offset = r->offset,
        .append_ms = r->append_ms == RP_NO_TIME ? r->now_ms : r->append_ms,
        .first_failed_at_ms = event->failure.first_failed_at_ms,
        .was_fallback = event->failure.was_fallback,
        .handed_back = event->handed_back,
    };
}

static enum guard_verdict judge(struct route_context *c, const struct route_record *r,
                                struct event *event)
{
    if (c->guard == NULL)
        return GUARD_NEW;
    const struct guard_event e = guard_event_of(r, event);
    struct guard_life life;
    enum guard_verdict verdict = guard_judge(c->guard, &e, &life);
    if (verdict == GUARD_REPEAT)
        return verdict;
    event->failure.attempt = life.attempt;
    event->failure.first_failed_at_ms = life.first_failed_at_ms;
    event->failure.was_fallback = life.was_fallback;
    return verdict;
}

/* Whether `topic` can be sent to; if not, `reason` and `detail` say why. Fails RETRIABLE. */
static int look_at(struct route_context *c, struct rp_bytes topic, bool *usable,
                   enum rp_reason *reason, const char **detail, struct rp_error *err)
{
    char text[320];
    enum rp_target_state state = rp_targets_state(c->targets, topic);
    int shown = (int)(topic.len > RP_MAX_TOPIC_NAME ? RP_MAX_TOPIC_NAME : topic.len);
    *usable = state == RP_TARGET_USABLE;
    if (*usable)
        return 0;
    if (state == RP_TARGET_UNKNOWN)
        return rp_fail(err, RP_E_KAFKA, RP_RETRIABLE, "no broker says whether topic %.*s exists",
                       shown, (const char *)topic.data);
    *reason = state == RP_TARGET_MISSING ? RP_NO_TARGET : RP_TARGET_FORBIDDEN;
    (void)snprintf(text, sizeof text,
                   state == RP_TARGET_MISSING ? "there is no topic %.*s"
                                              : "the brokers' ACLs refuse topic %.*s",
                   shown, (const char *)topic.data);
    *detail = rp_arena_text(&c->arena, text);
    return 0;
}

/* The target: what the event names, if that is allowed, else what the policy names. */
static int find_target(struct route_context *c, const struct event *event, struct rp_bytes *target,
                       bool *usable, enum rp_reason *reason, const char **detail,
                       struct rp_error *err)
{
    *usable = false;
    *target = event->task.target;
    if (target->data == NULL) {
        *target = rp_str(rp_policy_target(event->policy));
        *reason = RP_NO_TARGET;
        *detail = "neither the event nor its policy names a target";
        if (target->data == NULL)
            return 0;
    } else if (!rp_config_allows_again(c->config, &c->allowed, *target)) {
        *reason = RP_TARGET_FORBIDDEN;
        *detail = "targets.allow does not allow the event's target";
        return 0;
    }
    return look_at(c, *target, usable, reason, detail, err);
}

static struct rp_passage passage_of(const struct event *event, int64_t due_ms)
{
    return (struct rp_passage){
        .task_id = event->task.task_id,
        .attempt = rp_next_attempt(event->failure.attempt),
        .due_ms = due_ms,
        .first_failed_at_ms = event->failure.first_failed_at_ms,
        .policy = rp_str(rp_policy_name(event->policy)),
        .replay_id = event->replay_id,
    };
}

/* What its topic cannot take becomes a dead letter before a batch fails for it. */
static int check_size(struct route_context *c, const struct route_record *r,
                      const struct event *event, struct rp_outgoing *record, struct route *out,
                      struct rp_error *err)
{
    char text[320];
    if (rp_targets_fits(c->targets, record))
        return 0;
    (void)snprintf(text, sizeof text, "it is larger than max.message.bytes of topic %.*s",
                   (int)record->topic.len, (const char *)record->topic.data);
    return bury_task(c, r, event, RP_OVERSIZED, rp_arena_text(&c->arena, text), out, err);
}

/* The re-invocation itself. */
static int address_target(struct route_context *c, const struct route_record *r,
                          const struct event *event, const struct rp_passage *passage,
                          struct route *out, struct rp_error *err)
{
    out->out = (struct rp_outgoing){
        .topic = passage->target, .key = event->task.key, .value = event->task.payload};
    if (rp_target_headers(passage, &event->task, &c->arena, &out->out.headers, &out->out.n_headers,
                          err) != 0)
        return -1;
    return check_size(c, r, event, &out->out, out, err);
}

static int address_tier(struct route_context *c, const struct route_record *r,
                        const struct event *event, const struct rp_passage *passage, int tier,
                        struct route *out, struct rp_error *err)
{
    /* The re-invocation will have headers, too. */
    struct rp_outgoing least = {
        .topic = passage->target, .key = event->task.key, .value = event->task.payload};
    if (check_size(c, r, event, &least, out, err) != 0)
        return -1;
    if (out->kind == ROUTE_DEAD)
        return 0;
    out->out = (struct rp_outgoing){.topic = rp_str(c->config->tiers[tier].topic),
                                    .key = rp_failed_task_key(&event->task),
                                    .value = r->value};
    if (rp_tier_headers(passage, &c->arena, &out->out.headers, &out->out.n_headers, err) != 0)
        return -1;
    return check_size(c, r, event, &out->out, out, err);
}

static int retry(struct route_context *c, const struct route_record *r, const struct event *event,
                 const struct rp_decision *decision, struct route *out, struct rp_error *err)
{
    struct rp_passage passage = passage_of(event, decision->due_ms);
    bool usable;
    enum rp_reason reason = RP_NO_TARGET;
    const char *detail = "";
    if (find_target(c, event, &passage.target, &usable, &reason, &detail, err) != 0)
        return -1;
    if (!usable)
        return bury_task(c, r, event, reason, detail, out, err);
    int tier = rp_tier_for(c->config->tiers, c->config->n_tiers, decision->due_ms - r->now_ms);
    out->kind = tier < 0 ? ROUTE_DIRECT : ROUTE_RETRY;
    out->left_ms = decision->due_ms - r->now_ms;
    if (tier < 0)
        return address_target(c, r, event, &passage, out, err);
    return address_tier(c, r, event, &passage, tier, out, err);
}

static int fall_back(struct route_context *c, const struct route_record *r,
                     const struct event *event, const struct rp_decision *decision,
                     struct route *out, struct rp_error *err)
{
    struct rp_passage passage = passage_of(event, r->now_ms);
    bool usable;
    enum rp_reason reason;
    const char *detail = "";
    char text[512];
    passage.target = rp_str(rp_policy_fallback(event->policy));
    passage.fallback = true;
    if (look_at(c, passage.target, &usable, &reason, &detail, err) != 0)
        return -1;
    (void)snprintf(text, sizeof text, "%s; no fallback: %s", decision->why, detail);
    if (!usable)
        return bury_task(c, r, event, (enum rp_reason)decision->reason,
                         rp_arena_text(&c->arena, text), out, err);
    out->kind = ROUTE_FALLBACK;
    out->left_ms = 0;
    out->reason = (enum rp_reason)decision->reason;
    return address_target(c, r, event, &passage, out, err);
}

static int decide(struct route_context *c, const struct route_record *r, struct event *event,
                  struct route *out, struct rp_error *err)
{
    struct rp_decision *decision = &c->decision;
    event->category = rp_classify(c->policies, &event->task);
    event->policy = rp_policies_match(c->policies, event->task.task_type);
    if (r->lesson != NULL && r->lesson->refused)
        return bury_task(c, r, event, r->lesson->reason, r->lesson->refusal, out, err);
    rp_decide(event->policy, event->category, &event->failure, &c->rng, decision);
    out->why = decision->why;
    switch (decision->verdict) {
    case RP_RETRY:
        return retry(c, r, event, decision, out, err);
    case RP_FALLBACK:
        return fall_back(c, r, event, decision, out, err);
    case RP_DEAD:
        break;
    }
    return bury_task(c, r, event, (enum rp_reason)decision->reason, out->why, out, err);
}

/* Without transactions what was decided at first may be out, in spite of it, unless the brokers
 * refused that. */
static bool is_the_only_answer(const struct route_context *c, const struct route_record *r)
{
    return c->config->guarantee == RP_EXACTLY_ONCE ||
           (r->lesson != NULL && (r->lesson->refused || r->lesson->letters_refused > 0));
}

/* A task that became a dead letter does not run again, whatever was decided at first. */
static void tell_guard(struct route_context *c, const struct route_record *r,
                       const struct route *out)
{
    if (c->guard == NULL)
        return;
    if (out->kind != ROUTE_DEAD)
        guard_runs_again(c->guard, r->now_ms + out->left_ms, out->kind == ROUTE_FALLBACK);
    else if (is_the_only_answer(c, r))
        guard_runs_no_more(c->guard);
}

int route_recall(struct route_context *c, const struct route_record *r, struct rp_error *err)
{
    struct event event = {0};
    rp_arena_reset(&c->arena);
    if (rp_codec_decode_task(c->codec, r->value, &c->arena, &event.task, err) != 0)
        return err->cls == RP_POISON ? 0 : -1; /* 0: the guard never saw it */
    if (rp_failed_task_check(&event.task, err) != 0)
        return 0;
    read_life(c, r, &event);
    struct guard_event e = guard_event_of(r, &event);
    guard_recall(c->guard, &e);
    return 0;
}

int route_record(struct route_context *c, const struct route_record *r, struct route *out,
                 struct rp_error *err)
{
    struct event event = {0};
    *out = (struct route){.kind = ROUTE_REPEAT, .left_ms = INT64_MAX, .why = ""};
    rp_arena_reset(&c->arena);
    if (rp_codec_decode_task(c->codec, r->value, &c->arena, &event.task, err) != 0)
        return err->cls == RP_POISON ? route_undecodable(c, r, err->text, out, err) : -1;
    out->task_id = event.task.task_id;
    out->task_type = event.task.task_type;
    if (rp_failed_task_check(&event.task, err) != 0) {
        event.failure.attempt = event.task.attempt;
        return bury_task(c, r, &event, RP_INVALID, rp_arena_text(&c->arena, err->text), out, err);
    }
    read_life(c, r, &event);
    enum guard_verdict verdict = judge(c, r, &event);
    out->attempt = event.failure.attempt;
    out->looped = verdict == GUARD_LOOP;
    if (verdict == GUARD_REPEAT)
        return 0;
    if (decide(c, r, &event, out, err) != 0)
        return -1;
    tell_guard(c, r, out);
    return 0;
}
