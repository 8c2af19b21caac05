/* SPDX-License-Identifier: Apache-2.0 */
#include "bury.h"

#define SHRUNK_MAX 1024u /* bytes of a text that is kept */

static void shrink_letter(struct rp_dead_letter *letter)
{
    struct rp_failed_task *t = &letter->task;
    struct rp_bytes *texts[] = {
        &t->task_id,     &t->task_type,     &t->target,         &t->key,
        &t->error_class, &t->error_message, &t->error_category, &t->source,
        &letter->raw,    &letter->detail,   &letter->category,  &letter->policy};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i]->len > SHRUNK_MAX)
            texts[i]->len = SHRUNK_MAX;
    t->payload = RP_NULL_BYTES;
    t->n_headers = t->n_causes = 0;
}

static int make(const struct rp_config *config, const struct rp_dead_letter *letter,
                struct rp_bytes key, struct rp_buf *buf, struct rp_outgoing *out,
                struct rp_error *err)
{
    buf->len = 0;
    if (rp_dead_letter_encode(letter, buf, err) != 0)
        return -1;
    *out = (struct rp_outgoing){
        .topic = rp_str(config->topics.dead_letter),
        .key = letter->has_task ? rp_failed_task_key(&letter->task) : key,
        .value = rp_buf_bytes(buf),
    };
    return 0;
}

int rp_bury(const struct rp_config *config, struct rp_targets *targets,
            struct rp_dead_letter *letter, struct rp_bytes key, bool shrink, struct rp_buf *buf,
            struct rp_outgoing *out, struct rp_error *err)
{
    if (!shrink) {
        if (make(config, letter, key, buf, out, err) != 0)
            return -1;
        if (rp_targets_fits(targets, out))
            return 0;
    }
    shrink_letter(letter);
    if (key.len > SHRUNK_MAX)
        key.len = SHRUNK_MAX;
    return make(config, letter, key, buf, out, err);
}
