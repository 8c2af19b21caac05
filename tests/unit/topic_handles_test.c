/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "topic_handles.h"

struct fixture {
    rd_kafka_t *a, *b;
    struct rp_topic_handles handles;
};

static rd_kafka_t *new_producer(void)
{
    char text[200];
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, NULL, text, sizeof text);
    assert_non_null(rk);
    return rk;
}

static int set_up(void **state)
{
    static struct fixture f;
    f = (struct fixture){.a = new_producer(), .b = new_producer()};
    *state = &f;
    return 0;
}

/* Destroying a producer whose handles are out would not come back. */
static int tear_down(void **state)
{
    struct fixture *f = *state;
    rp_topic_handles_clear(&f->handles);
    rd_kafka_destroy(f->a);
    rd_kafka_destroy(f->b);
    return 0;
}

static const char *name(struct fixture *f, rd_kafka_t *rk, struct rp_bytes topic)
{
    return rd_kafka_topic_name(rp_topic_handle(&f->handles, rk, topic));
}

static void a_topic_has_one_handle_a_producer(void **state)
{
    struct fixture *f = *state;
    rd_kafka_topic_t *of_a = rp_topic_handle(&f->handles, f->a, rp_str("x"));
    rd_kafka_topic_t *of_b = rp_topic_handle(&f->handles, f->b, rp_str("x"));
    assert_ptr_not_equal(of_a, of_b);
    assert_ptr_equal(rp_topic_handle(&f->handles, f->a, rp_str("x")), of_a);
    assert_ptr_equal(rp_topic_handle(&f->handles, f->b, rp_str("x")), of_b);
}

static void a_name_is_compared_as_a_whole(void **state)
{
    struct fixture *f = *state;
    assert_string_equal(name(f, f->a, rp_str("pay")), "pay");
    assert_string_equal(name(f, f->a, (struct rp_bytes){"payments", 3}), "pay");
    assert_string_equal(name(f, f->a, rp_str("payments")), "payments");
    assert_string_equal(name(f, f->a, rp_str("p")), "p");
}

static void more_topics_than_places_are_no_matter(void **state)
{
    struct fixture *f = *state;
    char topic[32];
    for (int i = 0; i < 6 * RP_TOPIC_HANDLES; i++) {
        (void)snprintf(topic, sizeof topic, "topic-%d", i % (3 * RP_TOPIC_HANDLES));
        assert_string_equal(name(f, i % 2 == 0 ? f->a : f->b, rp_str(topic)), topic);
    }
}

static void cleared_handles_are_ready_again(void **state)
{
    struct fixture *f = *state;
    assert_string_equal(name(f, f->a, rp_str("x")), "x");
    rp_topic_handles_clear(&f->handles);
    assert_string_equal(name(f, f->a, rp_str("x")), "x");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_topic_has_one_handle_a_producer),
        TEST(a_name_is_compared_as_a_whole),
        TEST(more_topics_than_places_are_no_matter),
        TEST(cleared_handles_are_ready_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
