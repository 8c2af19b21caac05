/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of the archive, while memory runs out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "filter.h"
#include "memory_fixture.h"
#include "replay_options.h"

/* 2026-11-21T03:00:00Z */
#define NOW_MS INT64_C(1795230000000)

static const char *expression;

static int add_flags(struct rp_filter *f, struct rp_error *err)
{
    static const char *const flags[][2] = {{"type", "pay*,b"},  {"class", "!=C"},
                                           {"since", "2h"},     {"attempts", ">=3"},
                                           {"message", "text"}, {"came_back", ""}};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < 6; i++)
        rc = rp_filter_flag(f, flags[i][0], flags[i][1], err);
    return rc;
}

static int filter(struct rp_error *err)
{
    struct rp_filter *f;
    struct rp_buf text = {0};
    if (rp_filter_new(NOW_MS, &f, err) != 0)
        return -1;
    int rc = expression == NULL ? add_flags(f, err) : rp_filter_where(f, expression, err);
    if (rc == 0)
        rc = rp_filter_text(f, &text, err);
    for (int i = 0; rc == 0 && i < 3; i++) {
        struct rp_query q = {0};
        rc = i == 0   ? rp_filter_sql(f, &q, err)
             : i == 1 ? rp_filter_count_sql(f, &q, err)
                      : rp_filter_list_sql(f, "2026-11-21", "1", 10, &q, err);
        rp_query_clear(&q);
    }
    rp_buf_clear(&text);
    rp_filter_free(f);
    return rc;
}

static void a_filter_means_what_was_said_or_fails(void **state)
{
    (void)state;
    static const char *const expressions[] = {
        "type = pay* and not (class in (A, 'B*') or message ~ 'x') and dead_at >= 2h",
        "status in (dead, replayed) and category != none and dead_at < 2026-11-21",
        "not status = dead or group = 17ab or came_back or reason != exhausted",
        "all and id = 5",
        NULL,
    };
    for (size_t i = 0; i < sizeof expressions / sizeof *expressions; i++) {
        expression = expressions[i];
        assert_true(starve(filter) > 5);
    }
}

static int options(struct rp_error *err)
{
    struct rp_replay_options o, back = {0};
    rp_replay_options_init(&o);
    int rc = rp_replay_options_header(&o, "a=b", err);
    if (rc == 0)
        rc = rp_replay_options_header(&o, "c=d", err);
    if (rc == 0)
        rc = rp_replay_options_read("{\"to\": \"router\", \"target\": \"t\", \"jq\": \".\", "
                                    "\"payload_schema\": \"s\", \"set_headers\": ["
                                    "{\"key\": \"k\", \"value\": \"v\"}]}",
                                    &back, err);
    if (rc == 0)
        assert_string_equal(back.target, "t");
    rp_replay_options_clear(&o);
    rp_replay_options_clear(&back);
    return rc;
}

static void a_jobs_options_are_all_there_or_fail(void **state)
{
    (void)state;
    assert_true(starve(options) > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_filter_means_what_was_said_or_fails),
        cmocka_unit_test(a_jobs_options_are_all_there_or_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
