/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "checkpoint.h"
#include "frontier.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool truth)
{
    if (!truth)
        abort();
}

static bool same_key(struct settle_key a, struct settle_key b)
{
    return a.ms == b.ms && a.offset == b.offset;
}

/* What is read is written as what reads the same. */
static void check_checkpoint(struct rp_bytes text, int64_t low)
{
    struct checkpoint c, back;
    char written[FRONTIER_METADATA_MAX], again[FRONTIER_METADATA_MAX];
    if (!checkpoint_read(text, low, &c))
        return;
    check(low <= c.high && c.n_reaches > 0 && c.n_reaches <= CHECKPOINT_MAX_REACHES);
    checkpoint_write(&c, low, written, sizeof written);
    check(checkpoint_read(rp_str(written), low, &back));
    check(back.high == c.high && same_key(back.settled, c.settled));
    check(checkpoint_reach(&back, low) == checkpoint_reach(&c, low));
    check(checkpoint_reach(&back, c.high) == checkpoint_reach(&c, c.high));
    checkpoint_write(&back, low, again, sizeof again);
    check(strcmp(again, written) == 0);
}

static void release(void *opaque, uint64_t handle)
{
    uint64_t *sum = opaque;
    *sum -= handle;
}

/* A frontier begins with whatever came, and reads on: it drops records, or holds them. */
static void check_frontier(struct rp_bytes text, int64_t low)
{
    struct frontier *f;
    struct frontier_entry head;
    uint64_t handles = 0;
    bool lost, held;
    check(frontier_new(1000, 10000, low, text, &lost, &f, NULL) == 0);
    for (int64_t i = 0; i < 20 && low < INT64_MAX - i; i++) {
        check(frontier_add(f, low + i, 1763700000000 + i, 1763700000000 + 7 * i % 5, 1, &held,
                           NULL) == 0);
        handles += held;
    }
    check(frontier_low(f) >= low);
    for (int i = 0; i < 5 && frontier_peek(f, &head); i++) {
        check(head.offset >= low);
        frontier_take(f);
        frontier_send_off(f);
        frontier_settled(f);
        handles--;
    }
    frontier_free(f, release, &handles);
    check(handles == 0);
}

/* A committed offset, and the metadata that came with it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t low = 0;
    if (size < sizeof low)
        return 0;
    memcpy(&low, data, sizeof low);
    low &= INT64_MAX;
    struct rp_bytes text = {data + sizeof low, size - sizeof low};
    check_checkpoint(text, low);
    check_frontier(text, low);
    return 0;
}
