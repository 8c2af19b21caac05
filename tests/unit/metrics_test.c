/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "metrics.h"

static int setup(void **state)
{
    *state = rp_metrics_new();
    return *state != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    rp_metrics_free(*state);
    return 0;
}

/* The whole exposition, in a static buffer. */
static const char *exposition(struct rp_metrics *m)
{
    static char text[1 << 16];
    struct rp_buf out = {0};
    struct rp_error err;
    assert_int_equal(rp_metrics_write(m, &out, &err), 0);
    assert_true(out.len < sizeof text);
    if (out.len > 0)
        memcpy(text, out.data, out.len);
    text[out.len] = '\0';
    rp_buf_clear(&out);
    return text;
}

static void assert_has(struct rp_metrics *m, const char *line)
{
    const char *text = exposition(m);
    if (strstr(text, line) == NULL)
        fail_msg("no '%s' in:\n%s", line, text);
}

static void no_metrics_make_an_empty_exposition(void **state)
{
    assert_string_equal(exposition(*state), "");
}

static void a_counter_without_labels_is_shown_from_the_start(void **state)
{
    struct rp_family *f =
        rp_metrics_family(*state, RP_COUNTER, "reprise_x_total", "What x is.", "", 0, NULL, 0);
    struct rp_series *s = rp_family_series(f, NULL);
    assert_string_equal(exposition(*state), "# HELP reprise_x_total What x is.\n"
                                            "# TYPE reprise_x_total counter\n"
                                            "reprise_x_total 0\n");
    rp_series_add(s, 2);
    rp_series_add(s, 0.5);
    assert_has(*state, "\nreprise_x_total 2.5\n");
    assert_true(rp_series_value(s) == 2.5);
}

static void a_gauge_goes_up_and_down(void **state)
{
    struct rp_series *s =
        rp_family_series(rp_metrics_family(*state, RP_GAUGE, "g", "", "", 1, NULL, 0), NULL);
    rp_series_set(s, 12345678901234);
    assert_has(*state, "\ng 12345678901234\n");
    rp_series_add(s, -12345678901235);
    assert_has(*state, "\ng -1\n");
    rp_series_set(s, NAN);
    assert_has(*state, "\ng NaN\n");
}

static void label_values_are_escaped(void **state)
{
    struct rp_family *f =
        rp_metrics_family(*state, RP_COUNTER, "c", "", "type,reason", 10, NULL, 0);
    struct rp_bytes values[] = {{"a\"b\\c\nd\xff\0e", 10}, RP_NULL_BYTES};
    rp_series_add(rp_family_series(f, values), 1);
    assert_has(*state, "\nc{type=\"a\\\"b\\\\c\\nd\xef\xbf\xbd\xef\xbf\xbd"
                       "e\",reason=\"\"} 1\n");
}

static void the_same_values_are_the_same_series(void **state)
{
    struct rp_family *f = rp_metrics_family(*state, RP_COUNTER, "c", "", "a,b", 10, NULL, 0);
    struct rp_bytes one[] = {rp_str("x"), rp_str("y")}, other[] = {rp_str("y"), rp_str("x")};
    struct rp_series *s = rp_family_series(f, one);
    assert_ptr_equal(rp_family_series(f, one), s);
    assert_ptr_not_equal(rp_family_series(f, other), s);
}

static void values_beyond_the_bound_are_counted_as_other(void **state)
{
    struct rp_family *f = rp_metrics_family(*state, RP_COUNTER, "c", "", "type", 3, NULL, 0);
    assert_null(strstr(exposition(*state), "other"));
    for (int i = 0; i < 1000; i++) {
        char type[16];
        (void)snprintf(type, sizeof type, "t%d", i);
        struct rp_bytes value = rp_str(type);
        rp_series_add(rp_family_series(f, &value), 1);
    }
    assert_has(*state, "\nc{type=\"t2\"} 1\n");
    assert_has(*state, "\nc{type=\"other\"} 997\n");
    assert_null(strstr(exposition(*state), "t3"));
}

static void a_huge_label_value_is_cut(void **state)
{
    char huge[100000];
    memset(huge, '"', sizeof huge);
    struct rp_bytes values[8];
    for (int i = 0; i < 8; i++)
        values[i] = (struct rp_bytes){huge, sizeof huge};
    struct rp_family *f =
        rp_metrics_family(*state, RP_HISTOGRAM, "c", "", "a,b,c,d,e,f,g,h", 3, NULL, 0);
    rp_series_observe(rp_family_series(f, values), 1);
    assert_true(strlen(exposition(*state)) < 10000);
}

static void a_histogram_counts_up_to_each_bound(void **state)
{
    static const double bounds[] = {0.01, 0.1, 1};
    struct rp_family *f = rp_metrics_family(*state, RP_HISTOGRAM, "h", "", "", 1, bounds, 3);
    struct rp_series *s = rp_family_series(f, NULL);
    const double values[] = {0.005, 0.01, 0.5, 7};
    for (size_t i = 0; i < 4; i++)
        rp_series_observe(s, values[i]);
    assert_string_equal(exposition(*state), "# HELP h \n# TYPE h histogram\n"
                                            "h_bucket{le=\"0.01\"} 2\n"
                                            "h_bucket{le=\"0.1\"} 2\n"
                                            "h_bucket{le=\"1\"} 3\n"
                                            "h_bucket{le=\"+Inf\"} 4\n"
                                            "h_sum 7.515\n"
                                            "h_count 4\n");
    assert_true(rp_series_value(s) == 4);
}

static void a_histogram_has_its_labels_in_front_of_the_bound(void **state)
{
    struct rp_family *f = rp_metrics_family(*state, RP_HISTOGRAM, "h", "", "tier", 4,
                                            rp_seconds_bounds, rp_n_seconds_bounds);
    struct rp_bytes tier = rp_str("1s");
    rp_series_observe(rp_family_series(f, &tier), 0.0305);
    assert_has(*state, "\nh_bucket{tier=\"1s\",le=\"0.03\"} 0\n");
    assert_has(*state, "\nh_bucket{tier=\"1s\",le=\"0.045\"} 1\n");
    assert_has(*state, "\nh_sum{tier=\"1s\"} 0.0305\n");
}

static void defining_a_family_again_gives_the_first(void **state)
{
    struct rp_family *f = rp_metrics_family(*state, RP_COUNTER, "c", "", "", 1, NULL, 0);
    assert_ptr_equal(rp_metrics_family(*state, RP_COUNTER, "c", "", "", 1, NULL, 0), f);
}

static void *count_a_lot(void *m)
{
    struct rp_family *f = rp_metrics_family(m, RP_COUNTER, "c", "", "k", 8, NULL, 0);
    for (int i = 0; i < 20000; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "%d", i % 16);
        struct rp_bytes value = rp_str(key);
        rp_series_add(rp_family_series(f, &value), 1);
    }
    return NULL;
}

static void threads_lose_no_count(void **state)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_a_lot, *state), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_has(*state, "\nc{k=\"7\"} 5000\n");
    assert_has(*state, "\nc{k=\"other\"} 40000\n");
}

#define METRICS_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        METRICS_TEST(no_metrics_make_an_empty_exposition),
        METRICS_TEST(a_counter_without_labels_is_shown_from_the_start),
        METRICS_TEST(a_gauge_goes_up_and_down),
        METRICS_TEST(label_values_are_escaped),
        METRICS_TEST(the_same_values_are_the_same_series),
        METRICS_TEST(values_beyond_the_bound_are_counted_as_other),
        METRICS_TEST(a_huge_label_value_is_cut),
        METRICS_TEST(a_histogram_counts_up_to_each_bound),
        METRICS_TEST(a_histogram_has_its_labels_in_front_of_the_bound),
        METRICS_TEST(defining_a_family_again_gives_the_first),
        METRICS_TEST(threads_lose_no_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
