/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_message.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec.h"
#include "registry.h"
#include "reinvoke.h"
#include "transform.h"

struct rp_replay_maker {
    const struct rp_config *config;
    const struct rp_replay_options *options;
    char *job;
    bool compressed; /* what is sent */
    struct rp_targets *targets;
    struct rp_codec *codec;
    struct rp_registry *registry;
    struct rp_transform *transform; /* NULL: there is no program */
    struct rp_arena arena;
    struct rp_buf event; /* the FailedTask that goes to the router */
    char why[512];
};

static int open_transform(struct rp_replay_maker *m, struct rp_error *err)
{
    const struct rp_replay_options *o = m->options;
    if (o->jq == NULL)
        return 0;
    if (rp_registry_open(m->config, &m->registry, err) != 0)
        return -1;
    const struct rp_transform_options options = {
        .jq = o->jq,
        .payload_schema = o->payload_schema,
        .registry = m->registry,
        .patience_ms = m->config->registry.patience_ms,
    };
    return rp_transform_new(&options, &m->transform, err);
}

int rp_replay_maker_new(const struct rp_config *config, const struct rp_replay_options *options,
                        const char *job, rd_kafka_t *client, struct rp_replay_maker **out,
                        struct rp_error *err)
{
    struct rp_replay_maker *m = calloc(1, sizeof *m);
    if (m == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a replay");
    m->config = config;
    m->options = options;
    m->job = strdup(job);
    m->compressed = rp_kafka_compresses(config);
    if (m->job != NULL && rp_targets_new(client, m->compressed, &m->targets, err) == 0 &&
        rp_codec_new(NULL, &m->codec, err) == 0 && open_transform(m, err) == 0) {
        *out = m;
        return 0;
    }
    if (m->job == NULL)
        (void)rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a replay");
    rp_replay_maker_free(m);
    *out = NULL;
    return -1;
}

void rp_replay_maker_free(struct rp_replay_maker *m)
{
    if (m == NULL)
        return;
    rp_targets_free(m->targets);
    rp_codec_free(m->codec);
    rp_transform_free(m->transform);
    rp_registry_free(m->registry);
    rp_arena_clear(&m->arena);
    rp_buf_clear(&m->event);
    free(m->job);
    free(m);
}

struct rp_targets *rp_replay_targets(struct rp_replay_maker *m)
{
    return m->targets;
}

/* Keeps why a row is not sent. What is quoted in it came from outside. */
RP_PRINTF(3, 4)
static int refuse(struct rp_replay_maker *m, const char **refused, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(m->why, sizeof m->why, fmt, args);
    va_end(args);
    for (char *c = m->why; *c != '\0'; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    *refused = m->why;
    return 0;
}

static int shown(struct rp_bytes topic)
{
    return (int)(topic.len > RP_MAX_TOPIC_NAME ? RP_MAX_TOPIC_NAME : topic.len);
}

/* A target that is named must be allowed, or be the one that the policy names (the archive does not
 * tell which of the two named it); what nobody names, the policy does. */
int rp_replay_judge_target(struct rp_replay_maker *m, struct rp_bytes task_type,
                           struct rp_bytes *target, const char **refused, struct rp_error *err)
{
    const struct rp_policy *policy = rp_policies_match(m->config->policies, task_type);
    struct rp_bytes by_policy = rp_str(rp_policy_target(policy));
    *refused = NULL;
    if (target->data == NULL)
        *target = by_policy;
    if (target->data == NULL)
        return refuse(m, refused, "neither the task nor its policy names a target");
    const char *name = target->data;
    if (!rp_bytes_equal(*target, by_policy) && !rp_config_allows_target(m->config, *target))
        return refuse(m, refused, "targets.allow does not allow the target %.*s", shown(*target),
                      name);
    switch (rp_targets_state(m->targets, *target)) {
    case RP_TARGET_USABLE:
        return 0;
    case RP_TARGET_MISSING:
        return refuse(m, refused, "there is no topic %.*s", shown(*target), name);
    case RP_TARGET_DENIED:
        return refuse(m, refused, "the brokers' ACLs refuse topic %.*s", shown(*target), name);
    case RP_TARGET_UNKNOWN:
        break;
    }
    return rp_fail(err, RP_E_KAFKA, RP_RETRIABLE, "no broker says whether topic %.*s exists",
                   shown(*target), name);
}

int64_t rp_replay_max_payload(struct rp_replay_maker *m, struct rp_bytes topic)
{
    return m->compressed ? RP_NO_LIMIT : rp_targets_max_bytes(m->targets, topic);
}

struct rp_message rp_replay_message_of(const struct rp_failed_task *task, struct rp_arena *arena)
{
    char *target = task->target.data == NULL ? NULL : rp_arena_alloc(arena, task->target.len + 1);
    if (target != NULL) {
        memcpy(target, task->target.data, task->target.len);
        target[task->target.len] = '\0';
    }
    return (struct rp_message){
        .target = target,
        .key = task->key,
        .payload = task->payload,
        .headers = task->headers,
        .n_headers = task->n_headers,
    };
}

static bool is_set(const struct rp_replay_options *o, struct rp_bytes name)
{
    for (size_t i = 0; i < o->set_headers.n; i++)
        if (rp_bytes_equal(name, rp_str(o->set_headers.items[i].name)))
            return true;
    return false;
}

/* The task's headers less those that are set, then these; `room` for more behind them. */
static int set_headers(struct rp_replay_maker *m, struct rp_failed_task *task, size_t room,
                       struct rp_header **out, struct rp_error *err)
{
    const struct rp_properties *set = &m->options->set_headers;
    size_t n = 0;
    struct rp_header *headers =
        rp_arena_alloc(&m->arena, (task->n_headers + set->n + room) * sizeof *headers);
    if (headers == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for headers");
    for (size_t i = 0; i < task->n_headers; i++)
        if (!is_set(m->options, task->headers[i].key))
            headers[n++] = task->headers[i];
    for (size_t i = 0; i < set->n; i++)
        headers[n++] = (struct rp_header){rp_str(set->items[i].name), rp_str(set->items[i].value)};
    task->headers = *out = headers;
    task->n_headers = n;
    return 0;
}

static int transform(struct rp_replay_maker *m, const struct rp_replay_row *row,
                     struct rp_message *message, const char **refused, struct rp_error *err)
{
    struct rp_message before = *message;
    if (rp_transform_apply(m->transform, &before, row->about.data, &m->arena, message, err) == 0)
        return 0;
    if (err->cls != RP_POISON)
        return -1;
    return err->code == RP_E_NOT_FOUND ? refuse(m, refused, "the jq program gives nothing for it")
                                       : refuse(m, refused, "jq: %s", err->text);
}

/* What is to be sent in the task's place: as it was edited, and as the job changes all of them. */
static int change(struct rp_replay_maker *m, const struct rp_replay_row *row,
                  struct rp_message *message, const char **refused, struct rp_error *err)
{
    if (row->edited.data != NULL && rp_message_unpack(row->edited, &m->arena, message, err) != 0)
        return err->cls == RP_POISON ? refuse(m, refused, "its edit cannot be read: %s", err->text)
                                     : -1;
    if (m->options->target != NULL)
        message->target = m->options->target;
    return m->transform == NULL ? 0 : transform(m, row, message, refused, err);
}

static int change_task(struct rp_replay_maker *m, const struct rp_replay_row *row,
                       struct rp_failed_task *task, const char **refused, struct rp_error *err)
{
    struct rp_header *headers;
    bool own_target = m->options->target == NULL && row->edited.data == NULL;
    /* What is in front of the NUL may be the name of another topic. */
    if (own_target && task->target.len > 0 &&
        memchr(task->target.data, '\0', task->target.len) != NULL)
        return refuse(m, refused, "there is a NUL in its target");
    struct rp_message message = rp_replay_message_of(task, &m->arena);
    if (task->target.data != NULL && message.target == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a target");
    if (change(m, row, &message, refused, err) != 0 || *refused != NULL)
        return *refused != NULL ? 0 : -1;
    task->target = rp_str(message.target);
    task->key = message.key;
    task->payload = message.payload;
    task->headers = message.headers;
    task->n_headers = message.n_headers;
    return m->options->set_headers.n == 0 ? 0 : set_headers(m, task, 0, &headers, err);
}

static int to_target(struct rp_replay_maker *m, const struct rp_dead_letter *letter,
                     struct rp_failed_task *task, int64_t now_ms, struct rp_outgoing *out,
                     const char **refused, struct rp_error *err)
{
    struct rp_reinvocation own;
    struct rp_error ignored;
    struct rp_bytes target = task->target;
    if (rp_replay_judge_target(m, task->task_type, &target, refused, err) != 0 || *refused != NULL)
        return *refused != NULL ? 0 : -1;
    (void)!rp_reinvocation_read(task->headers, task->n_headers, &own, &ignored);
    int32_t attempts = letter->attempts > task->attempt ? letter->attempts : task->attempt;
    struct rp_passage passage = {
        .task_id = task->task_id,
        .attempt = rp_next_attempt(attempts),
        .due_ms = now_ms,
        .first_failed_at_ms =
            task->first_failed_at_ms == RP_NO_TIME ? task->failed_at_ms : task->first_failed_at_ms,
        .replay_id = rp_str(m->job),
    };
    bool ours = own.task_id.data == NULL || rp_bytes_equal(own.task_id, task->task_id);
    if (ours && own.first_failed_at_ms != RP_NO_TIME &&
        own.first_failed_at_ms < passage.first_failed_at_ms)
        passage.first_failed_at_ms = own.first_failed_at_ms;
    *out = (struct rp_outgoing){.topic = target, .key = task->key, .value = task->payload};
    return rp_target_headers(&passage, task, &m->arena, &out->headers, &out->n_headers, err);
}

static int carrier_headers(struct rp_replay_maker *m, struct rp_outgoing *out, struct rp_error *err)
{
    struct rp_header *header = rp_arena_alloc(&m->arena, sizeof *header);
    if (header == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a header");
    *header = (struct rp_header){rp_str(RP_HDR_REPLAY_ID), rp_str(m->job)};
    out->headers = header;
    out->n_headers = 1;
    return 0;
}

/* The event names the replay in its own headers, too: so a dead letter that comes of it at once
 * does, and one that comes of it after a lap. That the fallback handler failed once would bury it
 * again, whatever today's policy says. */
static int to_router(struct rp_replay_maker *m, struct rp_failed_task *task,
                     struct rp_outgoing *out, const char **refused, struct rp_error *err)
{
    struct rp_bytes name = rp_str(RP_HDR_REPLAY_ID), fallback = rp_str(RP_HDR_FALLBACK);
    struct rp_header *headers;
    size_t n = 0;
    if (set_headers(m, task, 1, &headers, err) != 0)
        return -1;
    for (size_t i = 0; i < task->n_headers; i++)
        if (!rp_bytes_equal(headers[i].key, name) && !rp_bytes_equal(headers[i].key, fallback))
            headers[n++] = headers[i];
    headers[n++] = (struct rp_header){name, rp_str(m->job)};
    task->n_headers = n;
    rp_buf_reset(&m->event, RP_BUF_KEEP);
    if (rp_failed_task_encode(task, &m->event, err) != 0)
        return err->code == RP_E_INVALID ? refuse(m, refused, "%s", err->text) : -1;
    *out = (struct rp_outgoing){.topic = rp_str(m->config->topics.failed_tasks),
                                .key = rp_failed_task_key(task),
                                .value = rp_buf_bytes(&m->event)};
    return carrier_headers(m, out, err);
}

/* What could not be decoded goes to the router as the bytes that came. */
static int bytes_to_router(struct rp_replay_maker *m, const struct rp_dead_letter *letter,
                           struct rp_bytes key, struct rp_outgoing *out, const char **refused,
                           struct rp_error *err)
{
    if (letter->raw.data == NULL)
        return refuse(m, refused, "the dead letter itself could not be decoded");
    *out = (struct rp_outgoing){
        .topic = rp_str(m->config->topics.failed_tasks), .key = key, .value = letter->raw};
    return carrier_headers(m, out, err);
}

int rp_replay_make(struct rp_replay_maker *m, const struct rp_replay_row *row, int64_t now_ms,
                   struct rp_outgoing *out, const char **refused, struct rp_error *err)
{
    struct rp_dead_letter letter = row->letter;
    *refused = NULL;
    rp_arena_reset(&m->arena);
    if (row->gone)
        return refuse(m, refused, "the archive does not have it any more");
    /* The columns hold what PostgreSQL takes; the record, what came. */
    if (row->record.data != NULL &&
        rp_codec_decode_dead_letter(m->codec, row->record, &m->arena, &letter, err) != 0)
        return err->cls == RP_RETRIABLE
                   ? -1
                   : refuse(m, refused, "the dead letter itself could not be decoded");
    if (!letter.has_task && m->options->to_router)
        return bytes_to_router(m, &letter, row->key, out, refused, err);
    if (!letter.has_task)
        return refuse(m, refused, "there is no task: its bytes could not be decoded");
    if (letter.reason == RP_OVERSIZED && letter.task.payload.data == NULL)
        return refuse(m, refused, "its payload was too large to be kept");
    if (change_task(m, row, &letter.task, refused, err) != 0 || *refused != NULL)
        return *refused != NULL ? 0 : -1;
    int failed = m->options->to_router
                     ? to_router(m, &letter.task, out, refused, err)
                     : to_target(m, &letter, &letter.task, now_ms, out, refused, err);
    if (failed != 0 || *refused != NULL)
        return failed;
    if (rp_targets_fits(m->targets, out))
        return 0;
    return refuse(m, refused, "it is larger than the max.message.bytes of topic %.*s",
                  shown(out->topic), (const char *)out->topic.data);
}
