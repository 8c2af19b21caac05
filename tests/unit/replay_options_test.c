/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "replay_options.h"

static struct rp_error err;

static struct rp_replay_options read_good(const char *json)
{
    struct rp_replay_options o;
    if (rp_replay_options_read(json, &o, &err) != 0)
        fail_msg("%s: %s", json, err.text);
    return o;
}

static void assert_unread(const char *json)
{
    struct rp_replay_options o;
    assert_int_equal(rp_replay_options_read(json, &o, &err), -1);
    assert_int_equal(err.code, RP_E_INVALID);
    assert_int_equal(err.cls, RP_FATAL);
}

static void what_is_written_is_read_again(void **state)
{
    (void)state;
    struct rp_replay_options o, again;
    rp_replay_options_init(&o);
    o.to_router = true;
    o.target = strdup("orders");
    o.limit = INT64_C(1) << 40;
    o.order = RP_REPLAY_BY_KEY;
    o.max_replays = INT32_MAX;
    o.canary = 10;
    o.canary_wait_ms = 1;
    o.canary_share = 1.0 / 3;
    o.stop_if_dead = 1;
    o.jq = strdup(".payload.\"\xc3\xa9\" = \"\\n\"");
    o.payload_schema = strdup("\"string\"");
    o.success_within_ms = 86400000;
    assert_int_equal(rp_replay_options_header(&o, "a=b=c", &err), 0);
    assert_int_equal(rp_replay_options_header(&o, "empty=", &err), 0);
    char *json = rp_replay_options_json(&o);
    again = read_good(json);
    assert_true(again.to_router);
    assert_string_equal(again.target, o.target);
    assert_true(again.limit == o.limit && again.order == o.order);
    assert_true(again.max_replays == o.max_replays && again.canary == o.canary);
    assert_true(again.canary_wait_ms == 1 && again.success_within_ms == 86400000);
    assert_true(again.canary_share >= o.canary_share && again.canary_share <= o.canary_share);
    assert_true(again.stop_if_dead >= 1 && again.stop_if_dead <= 1);
    assert_string_equal(again.jq, o.jq);
    assert_string_equal(again.payload_schema, o.payload_schema);
    assert_int_equal(again.set_headers.n, 2);
    assert_string_equal(again.set_headers.items[0].name, "a");
    assert_string_equal(again.set_headers.items[0].value, "b=c");
    assert_string_equal(again.set_headers.items[1].value, "");
    free(json);
    rp_replay_options_clear(&o);
    rp_replay_options_clear(&again);
}

static void what_is_missing_has_its_default(void **state)
{
    (void)state;
    struct rp_replay_options o = read_good("{\"from\": \"a newer version\"}");
    assert_false(o.to_router);
    assert_null(o.target);
    assert_null(o.jq);
    assert_true(o.limit == 0 && o.order == RP_REPLAY_OLDEST && o.max_replays == 3);
    assert_true(o.canary == 0 && o.canary_wait_ms == 60000);
    assert_true(o.stop_if_dead < 0);
    rp_replay_options_clear(&o);
}

static void what_cannot_be_read_is_said_to_be_so(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "[]",
        "{",
        "{\"limit\": \"many\"}",
        "{\"limit\": 9223372036854775808}",
        "{\"order\": \"by moon\"}",
        "{\"order\": 1}",
        "{\"canary_share\": \"a third\"}",
        "{\"set_headers\": [{\"key\": \"a\"}]}",
        "{\"set_headers\": [{\"key\": \"a\", \"value\": \"b\"}, 1]}",
        "{\"jq\": [\".\"]}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_unread(bad[i]);
}

static void orders_have_names(void **state)
{
    (void)state;
    enum rp_replay_order order;
    for (int i = RP_REPLAY_OLDEST; i <= RP_REPLAY_BY_KEY; i++) {
        const char *name = rp_replay_order_name((enum rp_replay_order)i);
        assert_true(rp_replay_order_parse(name, &order));
        assert_int_equal(order, i);
    }
    assert_false(rp_replay_order_parse("", &order));
    assert_false(rp_replay_order_parse("Oldest", &order));
}

static void a_header_is_not_one_of_ours(void **state)
{
    (void)state;
    static const char *const bad[] = {"",          "=",      "=x",    "name", "reprise-attempt=1",
                                      "reprise-=", "a=\xff", "\xc3=x"};
    struct rp_replay_options o;
    rp_replay_options_init(&o);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(rp_replay_options_header(&o, bad[i], &err), -1);
        assert_int_equal(err.cls, RP_POISON);
    }
    assert_int_equal(o.set_headers.n, 0);
    assert_int_equal(rp_replay_options_header(&o, "reprise=x", &err), 0);
    assert_int_equal(rp_replay_options_header(&o, "x-reprise-attempt=1", &err), 0);
    rp_replay_options_clear(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(what_is_missing_has_its_default),
        cmocka_unit_test(what_cannot_be_read_is_said_to_be_so),
        cmocka_unit_test(orders_have_names),
        cmocka_unit_test(a_header_is_not_one_of_ours),
    };
    return cmocka_run_group_tests_name("replay_options", tests, NULL, NULL);
}
