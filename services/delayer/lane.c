/* SPDX-License-Identifier: Apache-2.0 */
#include "lane.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "kafka.h"
#include "log.h"
#include "log_end.h"
#include "parcel.h"

#define FETCHED_MAX 64 /* taken from the queue at once */

/* A lane is closed whose next record must wait for so long, and opened again before it is to be
 * read: it is fetched anew. */
#define CLOSE_MS      1500
#define OPEN_EARLY_MS 500
#define OPEN_AGAIN_MS 100 /* where that failed */

#define AHEAD_MS      5000 /* so much before it has to be is a record read at the earliest */
#define HELD_OVERHEAD 64   /* what a held record takes beside its bytes */

struct lane {
    rd_kafka_t *consumer;
    const struct rp_config *config;
    const struct rp_tier *tier; /* borrowed from the configuration */
    bool at_once;               /* it is read as it comes */
    int32_t partition;
    rd_kafka_queue_t *queue;
    struct hold *hold;
    struct frontier *frontier; /* NULL: its state is not known yet */
    bool begun;                /* a record was read */
    int64_t before;            /* what the last owner committed; -1: nothing that counts */
    int64_t settled;           /* the lowest unsettled offset as it was last settled, */
    int64_t sent;              /* as it is in the commit under way, */
    int64_t committed;         /* and as it is committed */
    int64_t trimmed;
    bool dirty;      /* settled something since its last commit was sent */
    bool committing; /* that is not answered yet */
    /* Taken from the queue, and not yet read: the head may have to wait. */
    rd_kafka_message_t *fetched[FETCHED_MAX];
    int n_fetched, next;
    bool queue_empty;
    size_t ahead;          /* bytes read before they had to be, since it last read what had to be */
    bool closed;           /* nothing is fetched of it, */
    int64_t open_at_ms;    /* until then; */
    int64_t closed_offset; /* it goes on with this record, */
    int32_t closed_epoch;  /* of this leader's epoch */
    bool stirred;          /* an error came, or it was taken over, since somebody asked */
    struct rp_log_end end; /* the log's, where it comes before the recovery's */
    int32_t epoch;         /* the leader's, of the last record; -1: not known */
    int32_t looked;        /* rp_kafka_look_back */
    bool cut;              /* a record was not read for that */
    int64_t cut_at;        /* where the log was cut, until that is committed; -1: it was not */
};

const struct rp_tier *lane_tier_of(const struct rp_config *config, const char *topic)
{
    for (size_t i = 0; i < config->n_tiers + config->n_retired; i++)
        if (strcmp(config->tiers[i].topic, topic) == 0)
            return &config->tiers[i];
    return NULL;
}

static void report_lost_state(const struct lane *lane, int64_t offset)
{
    rp_log(RP_LOG_ERROR, "state-lost", rp_f_str("topic", lane->tier->topic),
           rp_f_int("partition", lane->partition), rp_f_int("offset", offset),
           rp_f_str("effect", "what was settled behind this offset may be sent again"));
}

int lane_new(rd_kafka_t *consumer, const struct rp_config *config, const char *topic,
             int32_t partition, int wake_fd, struct hold *hold, struct lane **out,
             struct rp_error *err)
{
    static const uint64_t one = 1;
    struct lane *lane = calloc(1, sizeof *lane);
    if (lane == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a partition");
    lane->consumer = consumer;
    lane->config = config;
    lane->tier = lane_tier_of(config, topic);
    assert(lane->tier != NULL);
    /* The smallest tier also takes what is shorter. */
    lane->at_once = lane->tier->length_ms <= config->tiers[0].length_ms ||
                    lane->tier->length_ms <= config->slack_ms;
    lane->partition = partition;
    lane->hold = hold;
    lane->before = lane->settled = lane->committed = lane->trimmed = -1;
    lane->epoch = -1;
    lane->cut_at = -1;
    lane->queue = rd_kafka_queue_get_partition(consumer, topic, partition);
    /* Its own queue: not forwarded to the consumer's. */
    rd_kafka_queue_forward(lane->queue, NULL);
    rd_kafka_queue_io_event_enable(lane->queue, wake_fd, &one, sizeof one);
    *out = lane;
    return 0;
}

static bool fetch(struct lane *lane)
{
    if (lane->next < lane->n_fetched)
        return true;
    ssize_t n = rd_kafka_consume_batch_queue(lane->queue, 0, lane->fetched, FETCHED_MAX);
    lane->next = 0;
    lane->n_fetched = n < 0 ? 0 : (int)n;
    lane->queue_empty = lane->n_fetched == 0;
    return lane->n_fetched > 0;
}

static void drop_fetched(struct lane *lane)
{
    while (lane->next < lane->n_fetched)
        rd_kafka_message_destroy(lane->fetched[lane->next++]);
}

int lane_take_over(struct lane *lane, const rd_kafka_topic_partition_t *position,
                   struct rp_error *err)
{
    bool lost_state = false;
    int64_t offset = position->offset;
    struct rp_bytes metadata = {position->metadata, position->metadata_size};
    if (lane->cut_at >= 0 && lane->cut_at < offset) { /* what is known is of other records */
        offset = lane->cut_at;
        metadata.len = 0;
    }
    if (rp_kafka_begin(lane->consumer, lane->tier->topic, lane->partition, offset, err) != 0)
        return -1;
    if (frontier_new(lane->tier->length_ms, lane->tier->reach_ms, offset, metadata, &lost_state,
                     &lane->frontier, err) != 0)
        return -1;
    if (lane->cut_at >= 0)
        frontier_forget_from(lane->frontier, lane->cut_at);
    lane->stirred = true;
    if (lost_state)
        report_lost_state(lane, offset);
    else
        lane->before = offset;
    return 0;
}

bool lane_is_taken_over(const struct lane *lane)
{
    return lane->frontier != NULL;
}

static void release(void *hold, uint64_t handle)
{
    hold_drop(hold, handle);
}

void lane_let_go(struct lane *lane)
{
    drop_fetched(lane);
    if (lane->frontier != NULL)
        frontier_free(lane->frontier, release, lane->hold);
    lane->frontier = NULL;
    lane->begun = false;
    lane->before = lane->settled = lane->committed = lane->trimmed = -1;
    lane->dirty = lane->committing = lane->cut = lane->closed = false;
    lane->ahead = 0;
    lane->looked = 0;
    lane->epoch = -1;
    rp_log_end_passed(&lane->end);
}

void lane_free(struct lane *lane)
{
    if (lane == NULL)
        return;
    lane_let_go(lane);
    rd_kafka_queue_io_event_enable(lane->queue, -1, NULL, 0);
    rd_kafka_queue_destroy(lane->queue);
    free(lane);
}

/* When the record must be read: nothing in this tier is due before its append plus the length. */
static int64_t read_at_ms(const struct lane *lane, const rd_kafka_message_t *m)
{
    if (lane->at_once || m->err != RD_KAFKA_RESP_ERR_NO_ERROR ||
        frontier_recovering(lane->frontier))
        return 0;
    int64_t append = rp_kafka_append_ms(m);
    int64_t wait_ms = lane->tier->length_ms - lane->config->slack_ms;
    return append > INT64_MAX - wait_ms ? INT64_MAX : append + wait_ms;
}

static size_t held_bytes(const rd_kafka_message_t *m)
{
    return m->len + m->key_len + HELD_OVERHEAD;
}

/* Of what need not be read yet so much is as `most_ahead` allows, and nothing that waits for long:
 * what is held lies with others in its segment, which it would keep. */
static bool may_read(const struct lane *lane, const rd_kafka_message_t *m, int64_t now_ms,
                     size_t most_ahead)
{
    int64_t wait_ms = read_at_ms(lane, m) - now_ms;
    return wait_ms <= 0 || (wait_ms <= AHEAD_MS && lane->ahead + held_bytes(m) <= most_ahead);
}

/* What waits in librdkafka's queue keeps in memory the whole answer that it came in, with what came
 * beside it of other partitions. So where the wait is long, what was fetched is thrown away. */
static void close_for_long(struct lane *lane, const rd_kafka_message_t *head, int64_t now_ms)
{
    int64_t read_ms = read_at_ms(lane, head);
    if (read_ms - now_ms < CLOSE_MS)
        return;
    (void)rp_kafka_set_paused(lane->consumer, lane->tier->topic, lane->partition, true);
    lane->closed = true;
    lane->open_at_ms = read_ms - OPEN_EARLY_MS;
    lane->closed_offset = head->offset;
    lane->closed_epoch = rd_kafka_message_leader_epoch(head);
    drop_fetched(lane);
}

static bool is_open(struct lane *lane, int64_t now_ms)
{
    struct rp_error err;
    if (!lane->closed)
        return true;
    if (now_ms < lane->open_at_ms)
        return false;
    if (rp_kafka_resume_at(lane->consumer, lane->tier->topic, lane->partition, lane->closed_offset,
                           lane->closed_epoch, &err) != 0) {
        rp_log(RP_LOG_DEBUG, "open-waits", rp_f_str("topic", lane->tier->topic),
               rp_f_int("partition", lane->partition), rp_f_str("error", err.text));
        lane->open_at_ms = now_ms + OPEN_AGAIN_MS;
        return false;
    }
    lane->closed = false;
    return true;
}

/* The broker forgets the offsets of a group that was away for long, and the state with them. What
 * was trimmed shows that there had been some. And a log that begins before the committed offset is
 * another one. */
static void look_at_begin(struct lane *lane, int64_t offset)
{
    int64_t begin = 0, end, low = frontier_high(lane->frontier);
    if (lane->begun)
        return;
    lane->begun = true;
    (void)rd_kafka_get_watermark_offsets(lane->consumer, lane->tier->topic, lane->partition, &begin,
                                         &end); /* as they came with the record */
    if (low < 0 ? begin > 0 : offset < low) {
        report_lost_state(lane, offset);
        lane->before = lane->committed = -1; /* of a log that is no more */
    }
}

/* The log goes on behind what the last owner committed, who may not have trimmed it. */
static void look_at_committed(struct lane *lane, int64_t offset)
{
    if (offset >= lane->before && lane->committed < lane->before)
        lane->committed = lane->before;
}

static int keep(struct lane *lane, const rd_kafka_message_t *m, struct rp_arena *arena,
                struct rp_error *err)
{
    const struct rp_header *headers;
    size_t n_headers;
    struct parcel parcel = {.key = {m->key, m->key_len}, .value = {m->payload, m->len}};
    uint64_t handle;
    bool held;
    rp_arena_reset(arena);
    if (rp_kafka_headers(m, arena, &headers, &n_headers, err) != 0)
        return -1;
    rp_passage_read(headers, n_headers, &parcel.passage);
    if (parcel_put(lane->hold, &parcel, &handle, err) != 0)
        return -1;
    if (frontier_add(lane->frontier, m->offset, rp_kafka_append_ms(m), parcel.passage.due_ms,
                     handle, &held, err) != 0) {
        hold_drop(lane->hold, handle);
        return -1;
    }
    if (!held)
        hold_drop(lane->hold, handle);
    return 0;
}

/* Leaders' epochs rise along a log: what comes again has the epoch that it had. */
static bool find_cut(struct lane *lane, const rd_kafka_message_t *m)
{
    int32_t epoch = rd_kafka_message_leader_epoch(m);
    int64_t next = frontier_high(lane->frontier);
    lane->cut = lane->epoch >= 0 && m->offset < next && epoch > lane->epoch;
    if (lane->cut) {
        if (lane->cut_at < 0 || m->offset < lane->cut_at)
            lane->cut_at = m->offset;
        rp_log(RP_LOG_ERROR, "log-was-cut", rp_f_str("topic", lane->tier->topic),
               rp_f_int("partition", lane->partition), rp_f_int("offset", m->offset),
               rp_f_int("expected", next),
               rp_f_str("effect", "what lies from there on counts as unsettled"));
    } else if (m->offset >= next) {
        lane->epoch = epoch;
    }
    return lane->cut;
}

static int read_one(struct lane *lane, rd_kafka_message_t *m, struct rp_arena *arena,
                    struct rp_error *err)
{
    if (m->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        if (find_cut(lane, m))
            return 0;
        look_at_begin(lane, m->offset);
        look_at_committed(lane, m->offset);
        return keep(lane, m, arena, err);
    }
    if (m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
        frontier_read_to(lane->frontier, m->offset);
        look_at_committed(lane, m->offset);
        if (frontier_recovering(lane->frontier))
            rp_log_end_met(&lane->end);
        return 0;
    }
    lane->stirred = true;
    rp_log(RP_LOG_WARN, "consumer-error", rp_f_str("topic", lane->tier->topic),
           rp_f_int("partition", lane->partition), rp_f_str("error", rd_kafka_message_errstr(m)));
    return 0;
}

/* Whether the lane goes back to what was thrown away before this record. */
static int look_back(struct lane *lane, const rd_kafka_message_t *m, bool *back,
                     struct rp_error *err)
{
    *back = false;
    if (m->err != RD_KAFKA_RESP_ERR_NO_ERROR)
        return 0;
    return rp_kafka_look_back(lane->consumer, m, frontier_high(lane->frontier), lane->epoch,
                              &lane->looked, back, err);
}

static void count_ahead(struct lane *lane, const rd_kafka_message_t *m, int64_t now_ms)
{
    if (m->err == RD_KAFKA_RESP_ERR_NO_ERROR)
        lane->ahead = read_at_ms(lane, m) > now_ms ? lane->ahead + held_bytes(m) : 0;
}

int lane_read(struct lane *lane, int64_t now_ms, int most, size_t most_ahead,
              struct rp_arena *arena, struct rp_error *err)
{
    int n = 0;
    for (; n < most && !lane->cut && is_open(lane, now_ms) && fetch(lane); n++) {
        rd_kafka_message_t *m = lane->fetched[lane->next];
        bool back;
        if (look_back(lane, m, &back, err) != 0)
            return -1;
        if (back) {
            drop_fetched(lane);
            break;
        }
        if (!may_read(lane, m, now_ms, most_ahead)) {
            close_for_long(lane, m, now_ms);
            break;
        }
        if (read_one(lane, m, arena, err) != 0)
            return -1; /* it stays where it is, and is read again */
        count_ahead(lane, m, now_ms);
        rd_kafka_message_destroy(m);
        lane->next++;
    }
    return n;
}

bool lane_check_end(struct lane *lane)
{
    int64_t end;
    if (!frontier_recovering(lane->frontier))
        rp_log_end_passed(&lane->end);
    if (!rp_log_end_look(&lane->end, lane->consumer, lane->tier->topic, lane->partition, &end) ||
        end > frontier_high(lane->frontier))
        return false;
    rp_log(RP_LOG_ERROR, "log-was-cut", rp_f_str("topic", lane->tier->topic),
           rp_f_int("partition", lane->partition), rp_f_int("end", end),
           rp_f_str("effect", "records behind the end that had not been settled are gone"));
    frontier_log_cut(lane->frontier, end);
    return true;
}

bool lane_is_cut(const struct lane *lane)
{
    return lane->cut;
}

bool lane_was_cut(const struct lane *lane)
{
    return lane->cut_at >= 0 && !lane->cut;
}

void lane_cut_committed(struct lane *lane)
{
    lane->cut_at = -1;
}

bool lane_is_emptied(struct lane *lane, int64_t *out_next)
{
    bool emptied = !lane->stirred && !lane->closed && lane->next == lane->n_fetched &&
                   rd_kafka_queue_length(lane->queue) == 0;
    int64_t next = frontier_high(lane->frontier);
    lane->stirred = false;
    *out_next = next < 0 ? 0 : next;
    return emptied;
}

int64_t lane_read_at_ms(const struct lane *lane)
{
    if (lane->closed)
        return lane->open_at_ms;
    if (lane->next < lane->n_fetched)
        return read_at_ms(lane, lane->fetched[lane->next]);
    return lane->queue_empty ? INT64_MAX : 0;
}

struct frontier *lane_frontier(struct lane *lane)
{
    return lane->frontier;
}

const char *lane_topic(const struct lane *lane)
{
    return lane->tier->topic;
}

int32_t lane_partition(const struct lane *lane)
{
    return lane->partition;
}

const struct rp_tier *lane_tier(const struct lane *lane)
{
    return lane->tier;
}

void lane_set_settled(struct lane *lane)
{
    lane->settled = frontier_low(lane->frontier);
    lane->dirty = true;
}

void lane_set_committing(struct lane *lane)
{
    lane->sent = lane->settled;
    lane->committing = lane->dirty;
    lane->dirty = false;
}

void lane_commit_answered(struct lane *lane, bool failed)
{
    if (lane->committing && failed)
        lane->dirty = true;
    else if (lane->committing)
        lane->committed = lane->sent;
    lane->committing = false;
}

void lane_set_committed(struct lane *lane)
{
    lane->committing = false;
    if (lane->settled > lane->committed)
        lane->committed = lane->settled;
    lane->dirty = false;
}

bool lane_is_dirty(const struct lane *lane)
{
    return lane->dirty || lane->committing;
}

int64_t lane_trim_to(struct lane *lane, bool again)
{
    if (again)
        lane->trimmed = -1;
    if (lane->committed <= lane->trimmed)
        return -1;
    lane->trimmed = lane->committed;
    return lane->committed;
}
