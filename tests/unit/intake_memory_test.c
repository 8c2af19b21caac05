/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker keeps of the records that it reads, while memory runs out: what is known stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "arrivals.h"
#include "batch.h"
#include "bury.h"
#include "codec_fixture.h"
#include "guard.h"
#include "held.h"
#include "inquiry.h"
#include "lessons.h"
#include "memory_fixture.h"
#include "positions.h"
#include "trim.h"

#define N 40 /* partitions, or records */

static const struct rp_config config = {
    .topics = {.failed_tasks = (char[]){"events"}, .dead_letter = (char[]){"dead"}}};
static rd_kafka_t *client;

static int reach(struct rp_error *err)
{
    struct batch b = {0};
    int rc = 0;
    int32_t n = 0;
    for (; rc == 0 && n < N; n++)
        rc = batch_reach(&b, n, 7, err);
    assert_int_equal(b.n_spans, rc == 0 ? N : n - 1);
    batch_clear(&b);
    return rc;
}

static int set_positions(struct rp_error *err)
{
    struct positions p = {0};
    int rc = 0;
    int32_t n = 0;
    for (; rc == 0 && n < N; n++)
        rc = n % 3 == 0   ? positions_set(&p, n, 8, err)
             : n % 3 == 1 ? positions_advance(&p, n, 7, 1, err)
                          : positions_ended(&p, n, 8, err);
    for (int32_t i = 0; i < n - (rc != 0); i++)
        assert_int_equal(positions_reached(&p, i), 8);
    positions_forget(&p, N);
    positions_clear(&p);
    return rc;
}

static int guard(struct rp_error *err)
{
    struct guard *g;
    int rc = guard_new(100, 0, &g, err);
    if (rc == 0)
        guard_free(g);
    return rc;
}

static int arrive(struct rp_error *err)
{
    struct arrivals *a;
    struct positions p = {0};
    int rc = arrivals_new(&config, client, "g", &p, &a, err);
    if (rc != 0)
        return rc;
    int32_t n = 0;
    for (; rc == 0 && n < N; n++)
        rc = arrivals_add(a, n, true, err);
    assert_int_equal(arrivals_waiting(a), rc == 0 ? N : n - 1);
    arrivals_remove(a, N);
    arrivals_free(a);
    return rc;
}

static int inquire(struct rp_error *err)
{
    struct rp_inquiry *q;
    int rc = rp_inquiry_new(&config, client, "g", -1, &q, err);
    if (rc == 0)
        rp_inquiry_free(q);
    return rc;
}

static int trim(struct rp_error *err)
{
    struct trimmer *t;
    int rc = trimmer_new(client, &t, err);
    if (rc == 0)
        trimmer_free(t);
    return rc;
}

static int learn(struct rp_error *err)
{
    struct rp_lessons l = {0};
    static const char topic[] = "t";
    int rc = 0;
    int64_t n = 0;
    for (; rc == 0 && n < N; n++)
        rc = rp_lessons_add(&l, topic, 0, n, false, false, RD_KAFKA_RESP_ERR_INVALID_MSG, err) == 1
                 ? 0
                 : -1;
    for (int64_t i = 0; i < n - (rc != 0); i++)
        assert_non_null(rp_lessons_find(&l, topic, 0, i));
    assert_null(rp_lessons_find(&l, topic, 1, 0));
    rp_lessons_clear(&l);
    return rc;
}

static int hold(struct rp_error *err)
{
    struct rp_held h = {0};
    int rc = 0, n = 0;
    for (; rc == 0 && n < N; n++) {
        const struct rp_outgoing record = {.topic = rp_str("t"), .value = rp_str("v")};
        rc = rp_held_add(&h, &record, rd_kafka_headers_new(1), err);
    }
    assert_int_equal(h.n, rc == 0 ? N : n - 1);
    for (size_t i = 0; i < h.n; i++)
        assert_bytes_equal(h.items[i].record.value, rp_str("v"));
    rp_held_clear(&h);
    return rc;
}

static int bury(struct rp_error *err)
{
    struct rp_dead_letter letter = sample_letter();
    struct rp_buf buf = {0};
    struct rp_outgoing out;
    int rc = rp_bury(&config, NULL, &letter, RP_NULL_BYTES, RP_BURY_MOST, &buf, &out, err);
    rp_buf_clear(&buf);
    return rc;
}

static void what_is_known_stays_where_there_is_no_memory_for_more(void **state)
{
    (void)state;
    assert_int_equal(starve(reach), 3);
    assert_int_equal(starve(set_positions), 3);
    assert_int_equal(starve(guard), 3);
    assert_true(starve(arrive) > 5);
    assert_int_equal(starve(inquire), 2);
    assert_int_equal(starve(trim), 1);
    assert_int_equal(starve(learn), 3);
    assert_true(starve(hold) > 2 * N);
    assert_true(starve(bury) > 10);
}

static int make_client(void **state)
{
    (void)state;
    char why[200];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    assert_int_equal(rd_kafka_conf_set(conf, "group.id", "g", why, sizeof why), RD_KAFKA_CONF_OK);
    client = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof why);
    return client == NULL ? -1 : 0;
}

static int free_client(void **state)
{
    (void)state;
    rd_kafka_destroy(client);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_known_stays_where_there_is_no_memory_for_more),
    };
    return cmocka_run_group_tests(tests, make_client, free_client);
}
