/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the archive is as far as a replay's pulse waits for: on a real PostgreSQL. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <unistd.h>

#include "clock.h"
#include "replay_pulse.h"
#include "store_fixture.h"

#define ARCHIVE                                                                                    \
    "INSERT INTO archive_offset (topic, partition, epoch, next_offset, seen_end, owner) VALUES"    \
    " ('" TOPIC "', 0, 1, 5, 0, 'a'), ('" TOPIC "', 1, 1, 3, 8, 'a'), ('other', 2, 1, 9, 9, 'a');" \
    "INSERT INTO replay_job (job, created_by, reason, filter, epoch, heartbeat_at, canary_at)"     \
    " SELECT 'job' || n, '', '', '', 1, now(), now() - interval '1 minute'"                        \
    " FROM generate_series(0, 9) AS n"

static struct rp_replay_pulse *begin(int n, const char *ends)
{
    struct rp_replay_job job = {.epoch = 1};
    struct rp_replay_pulse *pulse;
    (void)snprintf(job.id, sizeof job.id, "job%d", n);
    if (rp_replay_pulse_start(store_fixture_dsn(), &job, &pulse, &err) != 0 ||
        (ends != NULL && rp_replay_pulse_await(pulse, TOPIC, ends, &err) != 0))
        fail_msg("%s", err.text);
    return pulse;
}

/* What it has read later than `mono_ms`. */
static struct rp_replay_news news_after(struct rp_replay_pulse *pulse, int64_t mono_ms)
{
    struct rp_replay_news news = rp_replay_pulse_news(pulse);
    for (int left = 1000; !news.known || news.read_mono_ms <= mono_ms; left--) {
        assert_int_not_equal(left, 0);
        (void)usleep(20000);
        news = rp_replay_pulse_news(pulse);
    }
    assert_false(news.lost);
    return news;
}

static void the_archive_is_there_once_each_partition_is(void **state)
{
    static const struct {
        const char *ends;
        bool archived;
    } cases[] = {
        /* By its rows, and by the end that was seen. */
        {"{5,8}", true},
        {"{0,0}", true},
        {"{6,8}", false},
        {"{5,9}", false},
        /* What nobody has claimed may be empty. */
        {"{5,8,0}", true},
        {"{5,8,1}", false},
        {NULL, false},
    };
    enum { N = sizeof cases / sizeof *cases };
    struct rp_replay_pulse *pulses[N];
    int64_t read_mono_ms[N];
    (void)state;
    struct rp_db *db = store_fixture_db();
    assert_int_equal(rp_db_script(db, ARCHIVE, &err), 0);
    rp_db_close(db);
    for (int i = 0; i < N; i++)
        pulses[i] = begin(i, cases[i].ends);
    int64_t begun_mono_ms = rp_mono_ms();
    for (int i = 0; i < N; i++) /* this may be of a count that began before */
        read_mono_ms[i] = news_after(pulses[i], begun_mono_ms).read_mono_ms;
    for (int i = 0; i < N; i++) {
        struct rp_replay_news news = news_after(pulses[i], read_mono_ms[i]);
        /* A count that took long is not made anew at once. */
        for (int left = 20; news.archived != cases[i].archived; left--) {
            if (left == 0 || news.archived)
                fail_msg("case %d", i);
            news = news_after(pulses[i], news.read_mono_ms);
        }
        assert_int_equal(news.came_back, 0);
        assert_in_range(news.canary_age_ms, 60000, 120000);
        rp_replay_pulse_stop(pulses[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(the_archive_is_there_once_each_partition_is),
    };
    return store_fixture_dsn() == NULL ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
