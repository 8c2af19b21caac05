/* SPDX-License-Identifier: Apache-2.0 */
/* A worker of the delayer, with records that nobody can decode: each becomes a dead letter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "config_fixture.h"
#include "hold.h"
#include "lane.h"
#include "metrics.h"
#include "mock_fixture.h"
#include "outbox.h"
#include "strays.h"
#include "trim.h"
#include "worker.h"

#define TOPIC    "retry-1s"
#define RECORDS  10
#define BATCH    "4"
#define PATIENCE 3 /* failures that are too many */
#define ASK_MS   5000

enum { OFFSET_COMMIT = 8 };

int __wrap_rp_strays_find(const struct rp_config *config, const atomic_bool *looks_no_more,
                          rp_stray_fn *tell, void *opaque, struct rp_error *err);
bool __wrap_rp_targets_fits(struct rp_targets *t, struct rp_outgoing *record);
int64_t __wrap_rp_targets_max_bytes(struct rp_targets *t, struct rp_bytes topic);
int __wrap_hold_get(struct hold *h, uint64_t handle, struct rp_buf *scratch, struct rp_bytes *got,
                    struct rp_error *err);
int __real_hold_get(struct hold *h, uint64_t handle, struct rp_buf *scratch, struct rp_bytes *got,
                    struct rp_error *err);
void __wrap_hold_drop(struct hold *h, uint64_t handle);
void __real_hold_drop(struct hold *h, uint64_t handle);
void __wrap_rp_outbox_done(struct rp_outbox *o);
void __real_rp_outbox_done(struct rp_outbox *o);
bool __wrap_trimmer_is_due(struct trimmer *t);

static atomic_bool stop;
static size_t settled;
static enum { READABLE, TO_BREAK, BROKEN } spot; /* where what is held is kept */
static size_t before_it;                         /* so many records were settled, */
static int in_hand;                              /* and so many of its batch were taken, */
static int64_t out;                              /* and so many are at the brokers */
static uint64_t broken;
static int failures;
static int steps_left; /* once all is settled */
static bool was_ready; /* at its end */
static enum { WHOLE, TO_CUT, CUT, CUT_COMMITTED } log_is;
static bool cut_is_refused; /* the first time that it is to be committed */
static struct mock mock;

int __wrap_rp_strays_find(const struct rp_config *config, const atomic_bool *looks_no_more,
                          rp_stray_fn *tell, void *opaque, struct rp_error *err)
{
    (void)config;
    (void)looks_no_more;
    (void)tell;
    (void)opaque;
    (void)err;
    return 0;
}

/* The mock cuts no logs. */
bool __wrap_lane_is_cut(const struct lane *lane);
bool __wrap_lane_was_cut(const struct lane *lane);
void __wrap_lane_cut_committed(struct lane *lane);

bool __wrap_lane_is_cut(const struct lane *lane)
{
    (void)lane;
    if (log_is != TO_CUT || settled < before_it)
        return false;
    log_is = CUT;
    return true;
}

static void refuse_a_commit(void)
{
    rd_kafka_mock_push_request_errors(mock.cluster, OFFSET_COMMIT, 1,
                                      RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED);
}

bool __wrap_lane_was_cut(const struct lane *lane)
{
    (void)lane;
    if (log_is == CUT && cut_is_refused)
        refuse_a_commit();
    cut_is_refused = cut_is_refused && log_is != CUT;
    return log_is == CUT;
}

void __wrap_lane_cut_committed(struct lane *lane)
{
    (void)lane;
    log_is = CUT_COMMITTED;
}

/* The mock does not describe topics. */
bool __wrap_rp_targets_fits(struct rp_targets *t, struct rp_outgoing *record)
{
    (void)t;
    (void)record;
    return true;
}

int64_t __wrap_rp_targets_max_bytes(struct rp_targets *t, struct rp_bytes topic)
{
    (void)t;
    (void)topic;
    return RP_NO_LIMIT;
}

static int64_t dead_letters(void)
{
    int64_t low, high;
    rd_kafka_t *consumer = mock_consumer(&mock, "anybody");
    assert_int_equal(
        rd_kafka_query_watermark_offsets(consumer, "dead-letter", 0, &low, &high, ASK_MS), 0);
    rd_kafka_destroy(consumer);
    return high;
}

int __wrap_hold_get(struct hold *h, uint64_t handle, struct rp_buf *scratch, struct rp_bytes *got,
                    struct rp_error *err)
{
    if (spot == TO_BREAK && settled >= before_it && in_hand-- == 0) {
        spot = BROKEN;
        broken = handle;
        while (out > 0 && dead_letters() < out)
            continue;
    }
    if (spot != BROKEN || handle != broken)
        return __real_hold_get(h, handle, scratch, got, err);
    if (++failures == PATIENCE)
        atomic_store(&stop, true);
    return rp_fail(err, RP_E_IO, RP_RETRIABLE, "spill file: Input/output error");
}

void __wrap_hold_drop(struct hold *h, uint64_t handle)
{
    if (spot == BROKEN && handle == broken)
        spot = READABLE;
    __real_hold_drop(h, handle);
}

void __wrap_rp_outbox_done(struct rp_outbox *o)
{
    settled += o->n_sent_off > 0 ? o->n_sent_off : o->n;
    __real_rp_outbox_done(o);
}

/* It is asked in each step. */
bool __wrap_trimmer_is_due(struct trimmer *t)
{
    (void)t;
    if (settled >= RECORDS && steps_left-- == 0)
        atomic_store(&stop, true);
    return false;
}

static int set_up(void **state)
{
    (void)state;
    settled = before_it = 0;
    in_hand = 0;
    out = 0;
    failures = steps_left = 0;
    spot = READABLE;
    log_is = WHOLE;
    atomic_store(&stop, false);
    mock_start(&mock, 1, TOPIC);
    assert_int_equal(rd_kafka_mock_topic_create(mock.cluster, "dead-letter", 1, 1), 0);
    mock_produce(&mock, TOPIC, RECORDS);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mock_stop(&mock);
    return 0;
}

static int run(const char *guarantee)
{
    struct rp_error err;
    char text[300];
    (void)snprintf(text, sizeof text,
                   "kafka: {bootstrap.servers: \"%s\"}\ntargets: {allow: [x]}\ntiers: [1s]\n"
                   "delayer: {batch: " BATCH "}\nguarantee: %s\n",
                   rd_kafka_mock_cluster_bootstraps(mock.cluster), guarantee);
    struct rp_config *config = load_good(text);
    struct rp_worker w = {.config = config,
                          .metrics = rp_metrics_new(),
                          .instance = "one-0",
                          .stop = &stop,
                          .policies = rp_policies_ref(config->policies)};
    int rc = delayer_run(&w, &err);
    was_ready = atomic_load(&w.ready);
    rp_policies_unref(w.policies);
    rp_metrics_free(w.metrics);
    rp_config_free(config);
    return rc;
}

static void check_what_cannot_be_read_back(const char *guarantee)
{
    spot = TO_BREAK;
    assert_int_equal(run(guarantee), 0);
    assert_int_equal(settled, RECORDS);
    assert_int_equal(failures, 1);
}

/* It is in the log, too. */
static void what_cannot_be_read_back_is_read_again_from_the_log(void **state)
{
    (void)state;
    check_what_cannot_be_read_back("exactly-once");
}

static void so_it_is_at_least_once(void **state)
{
    (void)state;
    check_what_cannot_be_read_back("at-least-once");
}

static void what_was_settled_before_does_not_come_again(void **state)
{
    (void)state;
    before_it = 1;
    check_what_cannot_be_read_back("at-least-once");
}

static void what_was_taken_beside_it_is_not_committed_as_settled(void **state)
{
    (void)state;
    before_it = 1;
    in_hand = 2;
    check_what_cannot_be_read_back("at-least-once");
    assert_int_equal(dead_letters(), RECORDS);
}

static void what_is_out_beside_it_goes_out_once(void **state)
{
    (void)state;
    in_hand = 3;
    out = 3;
    check_what_cannot_be_read_back("at-least-once");
    assert_int_equal(dead_letters(), RECORDS);
}

static int64_t committed_offset(void)
{
    rd_kafka_t *consumer = mock_consumer(&mock, "reprise-delayer");
    rd_kafka_topic_partition_list_t *list = mock_at(TOPIC, 0);
    assert_int_equal(rd_kafka_committed(consumer, list, ASK_MS), 0);
    int64_t offset = list->elems[0].offset;
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_destroy(consumer);
    return offset;
}

static void a_commit_that_fails_is_made_again(void **state)
{
    (void)state;
    steps_left = 20;
    refuse_a_commit();
    assert_int_equal(run("at-least-once"), 0);
    assert_int_equal(committed_offset(), RECORDS);
}

/* What was settled stays so, and the rest is settled once. */
static void check_cut(const char *guarantee)
{
    log_is = TO_CUT;
    cut_is_refused = true;
    assert_int_equal(run(guarantee), 0);
    assert_false(cut_is_refused);
    assert_int_equal(log_is, CUT_COMMITTED);
    assert_int_equal(settled, RECORDS);
}

static void a_log_that_was_cut_is_taken_over_again(void **state)
{
    (void)state;
    check_cut("exactly-once");
}

static void so_is_one_at_least_once(void **state)
{
    (void)state;
    before_it = 4; /* with transactions the mock commits no offsets */
    check_cut("at-least-once");
    assert_int_equal(dead_letters(), RECORDS);
}

/* Nothing is sent that would show it. */
static void it_is_ready_again_once_a_failure_is_mended(void **state)
{
    (void)state;
    before_it = RECORDS;
    steps_left = 10;
    check_cut("at-least-once");
    assert_true(was_ready);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(what_cannot_be_read_back_is_read_again_from_the_log),
        TEST(so_it_is_at_least_once),
        TEST(what_was_settled_before_does_not_come_again),
        TEST(what_was_taken_beside_it_is_not_committed_as_settled),
        TEST(what_is_out_beside_it_goes_out_once),
        TEST(a_commit_that_fails_is_made_again),
        TEST(a_log_that_was_cut_is_taken_over_again),
        TEST(so_is_one_at_least_once),
        TEST(it_is_ready_again_once_a_failure_is_mended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
