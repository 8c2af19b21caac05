/* SPDX-License-Identifier: Apache-2.0 */
#include "turns.h"

#include "log.h"

static const char *const suffixes[RP_TURNS] = {"", "-next", "-third"};

static int make(struct rp_turns *t, const struct rp_producer_spec *spec, struct rp_error *err)
{
    for (size_t i = 0; i < t->n; i++)
        if (rp_producer_new(spec, suffixes[i], &t->producers[i], err) != 0)
            return -1;
    t->made++;
    atomic_store(&t->unanswered, false);
    for (size_t i = 0; i < t->n && spec->transactional; i++)
        if (rp_producer_fence(t->producers[i], err) != 0)
            return -1;
    return 0;
}

int rp_turns_make(struct rp_turns *t, const struct rp_producer_spec *spec, struct rp_error *err)
{
    struct rp_producer_spec ours = *spec;
    ours.unanswered = &t->unanswered;
    t->n = spec->transactional ? RP_TURNS : 1;
    t->next = 0;
    if (make(t, &ours, err) == 0)
        return 0;
    rp_turns_destroy(t);
    return -1;
}

bool rp_turns_failed(const struct rp_turns *t)
{
    char text[256];
    for (size_t i = 0; i < RP_TURNS; i++)
        if (t->producers[i] != NULL &&
            rd_kafka_fatal_error(t->producers[i], text, sizeof text) != 0) {
            rp_log(RP_LOG_WARN, "producer-made-anew", rp_f_str("error", text));
            return true;
        }
    return false;
}

rd_kafka_t *rp_turns_take(struct rp_turns *t)
{
    rd_kafka_t *rk = t->producers[t->next];
    t->next = (t->next + 1) % t->n;
    return rk;
}

void rp_turns_destroy(struct rp_turns *t)
{
    for (size_t i = 0; i < RP_TURNS; i++) {
        if (t->producers[i] == NULL)
            continue;
        (void)rd_kafka_purge(t->producers[i], RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
        rd_kafka_destroy(t->producers[i]);
        t->producers[i] = NULL;
    }
    t->worn = false;
}
