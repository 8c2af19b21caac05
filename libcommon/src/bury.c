/* SPDX-License-Identifier: Apache-2.0 */
#include "bury.h"

#include <stdio.h>

#include "lessons.h"

#define SHRUNK_MAX 1024u /* bytes of a text that is kept */
/* Less is encoded without a question. */
#define MAY_BE_TOO_LARGE ((size_t)1 << 20)

static void cut(struct rp_bytes *text)
{
    if (text->len > SHRUNK_MAX)
        text->len = SHRUNK_MAX;
}

/* What a replay can do without. */
static void shorten(struct rp_dead_letter *letter)
{
    struct rp_failed_task *t = &letter->task;
    struct rp_bytes *texts[] = {&t->error_class, &t->error_message, &t->error_category, &t->source,
                                &letter->detail, &letter->category, &letter->policy};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        cut(texts[i]);
    t->n_causes = 0;
}

/* What it was is in `was`: without its payload a task must not be replayed, whatever stopped it. */
static void strip(struct rp_dead_letter *letter, char *was, size_t size)
{
    struct rp_failed_task *t = &letter->task;
    struct rp_bytes *ids[] = {&t->task_id, &t->task_type, &t->target, &t->key, &letter->raw};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        cut(ids[i]);
    t->payload = RP_NULL_BYTES;
    t->n_headers = 0;
    if (!letter->has_task || letter->reason == RP_OVERSIZED)
        return;
    (void)snprintf(was, size, "%s, and too large for a dead letter: %.*s",
                   rp_reason_name(letter->reason), (int)letter->detail.len,
                   (const char *)letter->detail.data);
    letter->detail = rp_str(was);
    letter->reason = RP_OVERSIZED;
}

static int make(const struct rp_config *config, const struct rp_dead_letter *letter,
                struct rp_bytes key, struct rp_buf *buf, struct rp_outgoing *out,
                struct rp_error *err)
{
    rp_buf_reset(buf, RP_BUF_KEEP);
    if (rp_dead_letter_encode(letter, buf, err) != 0)
        return -1;
    *out = (struct rp_outgoing){
        .topic = rp_str(config->topics.dead_letter),
        .key = letter->has_task ? rp_failed_task_key(&letter->task) : key,
        .value = rp_buf_bytes(buf),
    };
    return 0;
}

/* Without its texts, too. What unpacked to a GiB is better not encoded to find out. */
static bool is_too_large(const struct rp_config *config, struct rp_targets *targets,
                         const struct rp_dead_letter *letter)
{
    struct rp_outgoing least = {
        .topic = rp_str(config->topics.dead_letter),
        .value = {letter->raw.data, letter->raw.len + letter->task.payload.len},
    };
    return least.value.len > MAY_BE_TOO_LARGE && !rp_targets_fits(targets, &least);
}

int rp_bury(const struct rp_config *config, struct rp_targets *targets,
            struct rp_dead_letter *letter, struct rp_bytes key, unsigned refused,
            struct rp_buf *buf, struct rp_outgoing *out, struct rp_error *err)
{
    struct rp_dead_letter less = *letter;
    char was[SHRUNK_MAX + 64];
    if (is_too_large(config, targets, letter))
        refused = RP_BURY_MOST;
    if (refused == 0) {
        if (make(config, letter, key, buf, out, err) != 0)
            return -1;
        if (rp_targets_fits(targets, out))
            return 0;
    }
    cut(&key);
    shorten(&less);
    if (refused < RP_BURY_MOST) {
        if (make(config, &less, key, buf, out, err) != 0)
            return -1;
        if (rp_targets_fits(targets, out))
            return 0;
    }
    strip(&less, was, sizeof was);
    letter->reason = less.reason;
    return make(config, &less, key, buf, out, err);
}
