/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "frontier.h"
#include "hold.h"
#include "reprise/rng.h"

/* What the delayer is made for: a million records at once. The figures are for the log; that they
 * are not slow is not asserted, since nobody knows what else the machine does. */

#define N     1000000
#define BATCH 1000
#define MIB   ((size_t)1 << 20)

static void never_released(void *opaque, uint64_t handle)
{
    (void)opaque, (void)handle;
    fail();
}

static struct frontier *open_new(void)
{
    bool lost;
    struct frontier *f;
    assert_int_equal(frontier_new(60000, 120000, -1, RP_NULL_BYTES, &lost, &f, NULL), 0);
    return f;
}

static void add(struct frontier *f, int64_t offset, int64_t due, uint64_t handle)
{
    bool held;
    assert_int_equal(frontier_add(f, offset, 0, due, handle, &held, NULL), 0);
    assert_true(held);
}

static void print_rate(const char *what, int n, int64_t start_mono_us)
{
    int64_t us = rp_mono_us() - start_mono_us;
    printf("%s: %.2f million/s\n", what, n / (double)(us > 0 ? us : 1));
}

/* Settles `n` records in batches, and gives their bytes back. */
static void settle(struct frontier *f, struct hold *h, int n)
{
    struct rp_buf scratch = {0};
    struct rp_bytes bytes;
    struct frontier_entry e;
    int64_t low, last = -1;
    char metadata[FRONTIER_METADATA_MAX];
    while (n > 0) {
        for (int i = 0; i < BATCH && n > 0; i++, n--) {
            assert_true(frontier_peek(f, &e));
            assert_true(e.settle_ms >= last);
            last = e.settle_ms;
            frontier_take(f);
            if (h == NULL)
                continue;
            assert_int_equal(hold_get(h, e.handle, &scratch, &bytes, NULL), 0);
            assert_memory_equal(bytes.data, &e.offset, sizeof e.offset);
            hold_drop(h, e.handle);
        }
        frontier_state(f, &low, metadata);
        frontier_send_off(f);
        frontier_settled(f);
    }
    rp_buf_clear(&scratch);
}

static void a_million_records_are_held_in_44_mib_and_given_back(void **state)
{
    (void)state;
    struct rp_rng rng;
    rp_rng_init(&rng, 1);
    struct frontier *f = open_new();
    struct frontier_entry e;
    int64_t start = rp_mono_us();
    for (int64_t i = 0; i < N; i++)
        add(f, i, rp_rng_between(&rng, 0, 60000), 0);
    print_rate("adds, to a million held", N, start);
    printf("frontier: %zu KiB\n", frontier_memory(f) / 1024);
    assert_true(frontier_memory(f) <= 48 * MIB);
    start = rp_mono_us();
    settle(f, NULL, N - 10);
    print_rate("settles, from a million held", N - 10, start);
    assert_int_equal(frontier_held(f), 10);
    assert_true(frontier_memory(f) < 4096);
    settle(f, NULL, 10);
    assert_false(frontier_peek(f, &e));
    assert_int_equal(frontier_low(f), N);
    frontier_free(f, never_released, NULL);
}

static void a_steady_flow_is_fast(void **state)
{
    (void)state;
    enum { HELD = 10000 };
    struct rp_rng rng;
    rp_rng_init(&rng, 1);
    struct frontier *f = open_new();
    int64_t start = rp_mono_us();
    for (int64_t i = 0; i < N; i++) {
        add(f, i, i / 1000 + rp_rng_between(&rng, 0, HELD / 1000), 0);
        if (i >= HELD && i % BATCH == 0)
            settle(f, NULL, BATCH);
    }
    print_rate("adds and settles, 10,000 held", N, start);
    settle(f, NULL, (int)frontier_held(f));
    frontier_free(f, never_released, NULL);
}

/* Of what is in memory; the file's pages are the kernel's, and it may drop them. */
static size_t resident_bytes(void)
{
    unsigned long total, resident, shared;
    FILE *statm = fopen("/proc/self/statm", "r");
    assert_non_null(statm);
    assert_int_equal(fscanf(statm, "%lu %lu %lu", &total, &resident, &shared), 3);
    assert_int_equal(fclose(statm), 0);
    return resident * 4096;
}

static void what_is_over_the_budget_takes_no_memory(void **state)
{
    (void)state;
    enum { RECORDS = N / 4 };
    struct rp_rng rng;
    rp_rng_init(&rng, 1);
    struct frontier *f = open_new();
    struct hold *h;
    uint64_t handle;
    char payload[1024 - sizeof(int64_t)] = {0};
    assert_int_equal(hold_new(8 * MIB, "/tmp", &h, NULL), 0);
    int64_t start = rp_mono_us();
    for (int64_t i = 0; i < RECORDS; i++) {
        const struct rp_bytes parts[] = {{&i, sizeof i}, {payload, sizeof payload}};
        assert_int_equal(hold_put(h, parts, 2, &handle, NULL), 0);
        add(f, i, rp_rng_between(&rng, 0, 60000), handle);
    }
    print_rate("adds and puts of 1 KiB", RECORDS, start);
    assert_true(hold_memory_bytes(h) <= 9 * MIB);
    printf("hold: %zu MiB in memory, %zu MiB spilled; resident %zu MiB\n",
           hold_memory_bytes(h) / MIB, hold_spilled_bytes(h) / MIB, resident_bytes() / MIB);
    start = rp_mono_us();
    settle(f, h, RECORDS);
    print_rate("settles and gets of 1 KiB", RECORDS, start);
    assert_true(hold_memory_bytes(h) <= 2 * MIB);
    assert_int_equal(hold_spilled_bytes(h), 0);
    hold_free(h);
    frontier_free(f, never_released, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_million_records_are_held_in_44_mib_and_given_back),
        cmocka_unit_test(a_steady_flow_is_fast),
        cmocka_unit_test(what_is_over_the_budget_takes_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
