/* SPDX-License-Identifier: Apache-2.0 */
/* An archiver whose partition another one takes for a while, and whose database goes away, on a
 * cluster, a clock and an archive that are played. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "clock.h"
#include "day.h"
#include "metrics.h"
#include "mock_fixture.h"
#include "store.h"
#include "topic_id.h"
#include "worker.h"

#define TOPIC    "dead-letter"
#define RECORDS  5
#define FENCED_S 30 /* a partition that has a newer owner is left to it */

/* By the database's clock. Ours was never set, and the broker's is ahead. */
#define TODAY INT64_C(20000)
int64_t __wrap_rp_wall_ms(void);

int64_t __wrap_rp_wall_ms(void)
{
    return 0;
}

/* Time goes fast: a second each time that somebody looks. */
static atomic_llong now_ms = 1000;
int64_t __wrap_rp_mono_ms(void);
int64_t __wrap_rp_mono_tick_ms(void);

int64_t __wrap_rp_mono_ms(void)
{
    return atomic_fetch_add(&now_ms, 1000);
}

int64_t __wrap_rp_mono_tick_ms(void)
{
    return __wrap_rp_mono_ms();
}

int __wrap_topic_id_query(rd_kafka_t *rk, const char *topic, char out[TOPIC_ID_SIZE],
                          struct rp_error *err);
int __wrap_store_connect(struct store *s, struct rp_error *err);
bool __wrap_store_connected(const struct store *s);
int __wrap_store_now_ms(struct store *s, int64_t *out, struct rp_error *err);
int __wrap_store_claim(struct store *s, const char *topic_id, struct store_claim *claim,
                       struct rp_error *err);
int __wrap_store_add_day(struct store *s, int64_t day, struct rp_error *err);
int __wrap_store_write(struct store *s, const struct store_rows *rows, struct store_claim *claims,
                       size_t n_claims, int64_t *out_added, struct rp_error *err);

static atomic_bool stop, another_day;
static int connects, queries, claims_made;
static int64_t archived; /* all below is */
static long long fenced_ms[2], claimed_ms[2];

/* Each thing fails once. */
int __wrap_topic_id_query(rd_kafka_t *rk, const char *topic, char out[TOPIC_ID_SIZE],
                          struct rp_error *err)
{
    (void)rk;
    (void)topic;
    (void)strcpy(out, "id");
    return queries++ == 0 ? rp_fail(err, RP_E_KAFKA, RP_RETRIABLE, "no broker") : 0;
}

int __wrap_store_connect(struct store *s, struct rp_error *err)
{
    (void)s;
    return connects++ == 1 ? rp_fail(err, RP_E_POSTGRES, RP_RETRIABLE, "away") : 0;
}

bool __wrap_store_connected(const struct store *s)
{
    (void)s;
    return true;
}

int __wrap_store_now_ms(struct store *s, int64_t *out, struct rp_error *err)
{
    static bool lost;
    bool now = claims_made == 4 && !lost;
    (void)s;
    *out = TODAY * DAY_MS;
    lost = lost || now;
    return now ? rp_fail(err, RP_E_POSTGRES, RP_RETRIABLE, "lost") : 0;
}

/* Refused while the other one has the partition: the first two times that it was taken over. */
int __wrap_store_claim(struct store *s, const char *topic_id, struct store_claim *claim,
                       struct rp_error *err)
{
    (void)s;
    assert_string_equal(topic_id, "id");
    switch (claims_made++) {
    case 0:
        return rp_fail(err, RP_E_POSTGRES, RP_RETRIABLE, "lost");
    case 2:
        claimed_ms[0] = now_ms;
        fenced_ms[1] = now_ms;
        return rp_fail(err, RP_E_FENCED, RP_RETRIABLE, "a newer owner");
    case 3:
        claimed_ms[1] = now_ms;
        break;
    default:
        break;
    }
    assert_int_equal(claim->epoch, claims_made == 5 ? 4 : 0); /* the last one is renewed */
    claim->epoch = claims_made;
    claim->next_offset = archived;
    return 0;
}

int __wrap_store_add_day(struct store *s, int64_t day, struct rp_error *err)
{
    (void)s;
    (void)err;
    another_day = another_day || day != TODAY;
    return 0;
}

/* The first batch finds the partition taken. */
int __wrap_store_write(struct store *s, const struct store_rows *rows, struct store_claim *claims,
                       size_t n_claims, int64_t *out_added, struct rp_error *err)
{
    (void)s;
    (void)err;
    assert_int_equal(n_claims, 1);
    *out_added = 0;
    if (fenced_ms[0] == 0) {
        fenced_ms[0] = now_ms;
        claims[0].epoch = 0;
        return 0;
    }
    *out_added = (int64_t)rows->n;
    archived += (int64_t)rows->n;
    assert_int_equal(claims[0].next_offset, archived); /* none twice, none left out */
    atomic_store(&stop, archived == RECORDS);
    return 0;
}

static void a_partition_that_was_taken_is_left_alone_and_then_read_again(void **state)
{
    struct mock mock;
    struct rp_error err;
    struct rp_buf text = {0};
    (void)state;
    mock_start(&mock, 1, TOPIC);
    mock_produce(&mock, TOPIC, RECORDS);
    struct rp_config *config = mock_config(&mock);
    struct rp_worker w = {.config = config,
                          .metrics = rp_metrics_new(),
                          .index = 1, /* so that it has neither keeper nor jobs */
                          .instance = "one-1",
                          .stop = &stop,
                          .policies = rp_policies_ref(config->policies)};
    if (worker_run(&w, &err) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(archived, RECORDS);
    assert_false(another_day);
    assert_int_equal(claims_made, 5);
    for (size_t i = 0; i < 2; i++)
        assert_true(claimed_ms[i] - fenced_ms[i] >= FENCED_S * 1000);
    assert_int_equal(rp_metrics_write(w.metrics, &text, &err), 0);
    assert_int_equal(rp_buf_append(&text, "", 1, &err), 0);
    assert_non_null(strstr((char *)text.data, "reprise_archiver_fenced_total 2"));
    rp_buf_clear(&text);
    rp_policies_unref(w.policies);
    rp_metrics_free(w.metrics);
    rp_config_free(config);
    mock_stop(&mock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_partition_that_was_taken_is_left_alone_and_then_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
