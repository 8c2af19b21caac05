/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_sender.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "clock.h"
#include "crash_point.h"
#include "publisher.h"
#include "record_size.h"
#include "replay_cursor.h"
#include "replay_message.h"
#include "replay_rows.h"
#include "topic_ends.h"

/* A batch ends with so many rows, with so many bytes, or after so long. Nothing else goes out while
 * the brokers end one, so it should be large; whoever reads the target committed waits for its end,
 * and the runner hears no wish before. */
#define BATCH_ROWS  32000
#define BATCH_BYTES 33554432
#define BATCH_MS    INT64_C(300)
/* With headers, and what librdkafka takes for each: letters may have 100,000 of them. */
#define MOST_MEMORY (4 * (size_t)BATCH_BYTES)
/* A failure halves the batches, which may have been too large for the link or a quota; a success
 * adds one part. */
#define PARTS 64

struct rp_replay_sender {
    struct rp_config config; /* the caller's, but that it always says exactly-once */
    const struct rp_replay_job *job;
    struct rp_replay_refuser refuser;
    rd_kafka_t *client; /* for questions about topics */
    struct rp_publisher *publisher;
    uint64_t made; /* the producer whose transactions follow the cursor that was read */
    struct rp_replay_maker *maker; /* NULL: nothing was to be sent yet */
    struct rp_replay_rows *rows;
    /* Items of a batch that failed, ascending: each goes alone, and what fails alone is to blame.
     */
    int64_t suspects[BATCH_ROWS];
    size_t n_suspects;
    int parts; /* of the largest batch, which the next one may have */
    /* The batch */
    json_t *refusals;
    size_t n_records, bytes, memory;
    bool failed; /* the publisher did not take a record, and has perhaps dropped the others */
};

/* Where a service ends, a job is tried again. */
static int retriable_if_no_memory(struct rp_error *err)
{
    if (err->code == RP_E_NOMEM)
        err->cls = RP_RETRIABLE;
    return -1;
}

int rp_replay_sender_new(const struct rp_config *config, const struct rp_replay_job *job,
                         struct rp_replay_refuser refuser, struct rp_replay_sender **out,
                         struct rp_error *err)
{
    char id[RP_REPLAY_GROUP_SIZE];
    struct rp_replay_sender *s = calloc(1, sizeof *s);
    if (s == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a replay");
    s->config = *config;
    s->config.guarantee = RP_EXACTLY_ONCE;
    s->job = job;
    s->refuser = refuser;
    s->parts = PARTS;
    *out = s;
    rp_replay_group(job->id, id);
    if (rp_kafka_new_admin(&s->config, &s->client, err) == 0 &&
        rp_publisher_new(&s->config, id, "5", &s->publisher, err) == 0 &&
        rp_replay_rows_new(config->postgres.dsn, job->id, job->options.jq != NULL, &s->rows, err) ==
            0)
        return 0;
    rp_replay_sender_free(s);
    *out = NULL;
    return retriable_if_no_memory(err);
}

void rp_replay_sender_free(struct rp_replay_sender *s)
{
    if (s == NULL)
        return;
    rp_publisher_free(s->publisher);
    rp_replay_maker_free(s->maker);
    rp_replay_rows_free(s->rows);
    if (s->client != NULL)
        rd_kafka_destroy(s->client);
    json_decref(s->refusals);
    free(s);
}

/* A producer that somebody fenced says so as if it were the end; only the job's epoch tells. */
static int retriable_if_fenced(struct rp_error *err)
{
    if (err->code == RP_E_FENCED)
        err->cls = RP_RETRIABLE;
    return -1;
}

int rp_replay_sender_open(struct rp_replay_sender *s, int64_t *out_next, struct rp_error *err)
{
    rp_publisher_abort(s->publisher, false);
    rp_replay_rows_forget(s->rows);
    if (rp_publisher_open(s->publisher, err) != 0)
        return retriable_if_fenced(err);
    s->made = rp_publisher_made(s->publisher);
    RP_CRASH_POINT(replay_fenced);
    return rp_replay_cursor_read(&s->config, s->job->id, s->job->stamp, out_next, err);
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void suspect(struct rp_replay_sender *s, int64_t n)
{
    if (s->n_suspects < BATCH_ROWS)
        s->suspects[s->n_suspects++] = n;
}

/* Where a batch from `n` on has to end for the sake of the suspects. */
static int64_t end_by_suspects(struct rp_replay_sender *s, int64_t n, int64_t end)
{
    size_t i = 0;
    while (i < s->n_suspects && s->suspects[i] < n)
        i++;
    if (i == s->n_suspects)
        s->n_suspects = 0; /* all are behind us */
    else if (s->suspects[i] == n)
        return n + 1;
    else if (s->suspects[i] < end)
        return s->suspects[i];
    return end;
}

static int add_refusal(struct rp_replay_sender *s, int64_t n, const char *why, struct rp_error *err)
{
    if (s->refusals == NULL)
        s->refusals = json_array();
    json_t *item = json_pack("{s:I, s:s}", "n", (json_int_t)n, "why", why);
    if (json_array_append_new(s->refusals, item) == 0)
        return 0;
    return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for what is refused");
}

/* They must be on record before the cursor can pass them. */
static int keep_refusals(struct rp_replay_sender *s, struct rp_error *err)
{
    if (s->refusals == NULL)
        return 0;
    char *text = json_dumps(s->refusals, JSON_COMPACT);
    json_decref(s->refusals);
    s->refusals = NULL;
    RP_CRASH_POINT(replay_refuse_before);
    int failed = text == NULL ? rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for refusals")
                              : s->refuser.refuse(s->refuser.opaque, text, err);
    free(text);
    RP_CRASH_POINT(replay_refuse_after);
    if (failed != 0 && err->cls == RP_POISON)
        err->cls = RP_FATAL; /* no item is to blame for it */
    return failed;
}

/* `tag`: its place in the batch. */
static int add_item(struct rp_replay_sender *s, int64_t n, size_t tag, struct rp_error *err)
{
    struct rp_replay_row row;
    struct rp_outgoing record;
    const char *refused;
    if (rp_replay_rows_at(s->rows, n, &row, err) != 0) {
        if (err->cls == RP_POISON)
            err->cls = RP_FATAL;
        return -1;
    }
    if (row.refused.data != NULL) /* for good: it may be on record as not sent */
        return 0;
    if (rp_replay_make(s->maker, &row, rp_wall_ms(), &record, &refused, err) != 0)
        return -1;
    if (refused != NULL)
        return add_refusal(s, n, refused, err);
    record.tag = tag;
    s->failed = rp_publisher_send(s->publisher, &record, err) != 0;
    if (s->failed)
        return -1;
    s->n_records++;
    s->bytes += record.value.len + record.key.len;
    s->memory += (size_t)rp_record_batch_bytes(&record) + RP_HEADER_MEMORY * record.n_headers;
    return 0;
}

/* Something in the batch [from, end) cannot be sent. */
static int blame(struct rp_replay_sender *s, int64_t from, int64_t end, struct rp_error *err)
{
    size_t n;
    const struct rp_failure_report *failures = rp_publisher_failures(s->publisher, &n);
    if (end - from == 1) {
        char why[sizeof err->text];
        (void)snprintf(why, sizeof why, "%s", err->text);
        s->n_suspects = 0;
        return add_refusal(s, from, why, err) != 0 ? -1 : keep_refusals(s, err);
    }
    s->n_suspects = 0;
    for (size_t i = 0; i < n; i++)
        suspect(s, from + (int64_t)failures[i].tag);
    for (int64_t i = from; n == 0 && i < end; i++)
        suspect(s, i);
    qsort(s->suspects, s->n_suspects, sizeof s->suspects[0], by_number);
    return 0;
}

static enum rp_published publish(struct rp_replay_sender *s, int64_t end, struct rp_error *err)
{
    char group[RP_REPLAY_GROUP_SIZE];
    rp_replay_group(s->job->id, group);
    rd_kafka_topic_partition_list_t *offsets = rp_replay_cursor_at(&s->config, end, s->job->stamp);
    if (offsets == NULL) {
        (void)rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for how far it is");
        return RP_NOT_PUBLISHED;
    }
    enum rp_published rc = rp_publisher_group_offsets(s->publisher, group, offsets, err);
    rd_kafka_topic_partition_list_destroy(offsets);
    return rc != RP_PUBLISHED ? rc : rp_publisher_commit(s->publisher, err);
}

/* Not before something is to be sent: a job whose program or schema does not load any more can be
 * settled all the same. */
static int make_maker(struct rp_replay_sender *s, struct rp_error *err)
{
    if (s->maker != NULL || rp_replay_maker_new(&s->config, &s->job->options, s->job->id, s->client,
                                                &s->maker, err) == 0)
        return 0;
    if (err->cls == RP_POISON)
        err->cls = RP_FATAL; /* no item is to blame for it */
    return retriable_if_no_memory(err);
}

static int begin(struct rp_replay_sender *s, struct rp_error *err)
{
    json_decref(s->refusals);
    s->refusals = NULL;
    s->n_records = s->bytes = s->memory = 0;
    s->failed = false;
    if (make_maker(s, err) != 0)
        return -1;
    if (rp_publisher_begin(s->publisher, err) != 0)
        return retriable_if_fenced(err);
    if (rp_publisher_made(s->publisher) == s->made)
        return 0;
    return rp_fail(err, RP_E_KAFKA, RP_RETRIABLE, "the producer was made anew");
}

static int fill(struct rp_replay_sender *s, int64_t from, int64_t *end, struct rp_error *err)
{
    int64_t end_mono_ms = rp_mono_ms() + BATCH_MS;
    for (int64_t n = from; n < *end; n++) {
        /* Whoever reads the target committed does not wait for rows; where one is refused he waits
         * until that is on record. */
        if (n > from && !rp_replay_rows_come_by(s->rows, n, end_mono_ms)) {
            *end = n;
            return 0;
        }
        if (add_item(s, n, (size_t)(n - from), err) != 0) {
            /* What an item waits for holds up none before it, unless those failed, too. */
            bool with_it = err->cls != RP_RETRIABLE || n == from || s->failed;
            *end = with_it ? n + 1 : n;
            return with_it ? -1 : 0;
        }
        if (s->bytes >= (size_t)(BATCH_BYTES / PARTS * s->parts) || s->memory >= MOST_MEMORY ||
            rp_mono_ms() >= end_mono_ms)
            *end = n + 1;
    }
    return 0;
}

/* Where one item is to blame it has been seen to, and the failure is one that trying again mends.
 */
static int give_up(struct rp_replay_sender *s, int64_t from, int64_t end, struct rp_error *err)
{
    rp_publisher_abort(s->publisher, false);
    s->parts = s->parts > 1 ? s->parts / 2 : 1;
    if (err->cls == RP_RETRIABLE && s->maker != NULL)
        rp_targets_forget(rp_replay_targets(s->maker));
    if (err->cls != RP_POISON)
        return retriable_if_fenced(err);
    if (blame(s, from, end, err) == 0)
        err->cls = RP_RETRIABLE;
    return -1;
}

int rp_replay_sender_send(struct rp_replay_sender *s, int64_t *next, int64_t until, int64_t *sent,
                          struct rp_error *err)
{
    int64_t from = *next, rows = BATCH_ROWS / PARTS * s->parts;
    int64_t end = from + rows < until ? from + rows : until;
    end = end_by_suspects(s, from, end);
    if (begin(s, err) != 0 || fill(s, from, &end, err) != 0 || keep_refusals(s, err) != 0)
        return give_up(s, from, end, err);
    RP_CRASH_POINT(replay_sent);
    if (publish(s, end, err) != RP_PUBLISHED)
        return give_up(s, from, end, err);
    RP_CRASH_POINT(replay_committed);
    s->parts += s->parts < PARTS;
    *next = end;
    *sent = (int64_t)s->n_records;
    return 0;
}

int rp_replay_sender_dead_ends(struct rp_replay_sender *s, struct rp_buf *out, struct rp_error *err)
{
    return rp_topic_ends(s->client, s->config.topics.dead_letter, out, err);
}

void rp_replay_sender_read_ahead(struct rp_replay_sender *s, int64_t until_mono_ms)
{
    rp_replay_rows_read_ahead(s->rows, until_mono_ms);
}
