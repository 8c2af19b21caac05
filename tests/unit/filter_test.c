/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "filter.h"
#include "filter_fields.h"
#include "filter_node.h"
#include "reprise/rng.h"

/* 2026-11-21T03:00:00Z */
#define NOW_MS INT64_C(1795230000000)

static struct rp_filter *new_filter(void)
{
    struct rp_filter *f;
    assert_int_equal(rp_filter_new(NOW_MS, &f, NULL), 0);
    return f;
}

static struct rp_filter *where(const char *expression)
{
    struct rp_error err;
    struct rp_filter *f = new_filter();
    if (rp_filter_where(f, expression, &err) != 0)
        fail_msg("%s: %s", expression, err.text);
    return f;
}

static struct rp_filter *flag(const char *field, const char *value)
{
    struct rp_error err;
    struct rp_filter *f = new_filter();
    if (rp_filter_flag(f, field, value, &err) != 0)
        fail_msg("%s: %s", field, err.text);
    return f;
}

/* The canonical text, the caller's to free. */
static char *text_of(const struct rp_filter *f)
{
    struct rp_buf out = {0};
    assert_int_equal(rp_filter_text(f, &out, NULL), 0);
    assert_int_equal(rp_buf_append(&out, "", 1, NULL), 0);
    return (char *)out.data;
}

static void reads(struct rp_filter *f, const char *expected)
{
    char *text = text_of(f);
    assert_string_equal(text, expected);
    free(text);
    rp_filter_free(f);
}

/* The SQL and, behind each |, a parameter. */
static void compiles(struct rp_filter *f, const char *expected)
{
    struct rp_query q = {0};
    assert_int_equal(rp_filter_sql(f, &q, NULL), 0);
    for (int i = 0; i < q.n; i++) {
        rp_query_add(&q, "|");
        rp_query_add(&q, q.values[i]);
    }
    rp_query_add(&q, "");
    assert_int_equal(rp_buf_append(&q.sql, "", 1, NULL), 0);
    assert_string_equal((const char *)q.sql.data, expected);
    rp_query_clear(&q);
    rp_filter_free(f);
}

static void refuses(const char *expression, size_t at, const char *text)
{
    struct rp_error err;
    struct rp_filter *f = new_filter();
    if (rp_filter_where(f, expression, &err) == 0)
        fail_msg("%s is taken", expression);
    assert_string_equal(err.text, text);
    assert_int_equal(rp_filter_error_at(f), at);
    assert_true(rp_filter_is_empty(f));
    rp_filter_free(f);
}

static void flags_are_all_meant(void **state)
{
    (void)state;
    struct rp_filter *f = new_filter();
    assert_true(rp_filter_is_empty(f));
    assert_int_equal(rp_filter_flag(f, "type", "pay*,refund", NULL), 0);
    assert_int_equal(rp_filter_flag(f, "since", "2h", NULL), 0);
    assert_int_equal(rp_filter_flag(f, "came-back", "", NULL), 0);
    assert_int_equal(rp_filter_where(f, "attempts > 3 or attempts = none", NULL), 0);
    assert_false(rp_filter_is_empty(f));
    reads(f, "type in ('pay*', 'refund') and dead_at >= 2026-11-21T01:00:00.000Z and "
             "came_back = true and (attempts > 3 or attempts = none)");
}

static void a_flag_may_begin_with_an_operator(void **state)
{
    (void)state;
    reads(flag("attempts", ">=3"), "attempts >= 3");
    reads(flag("attempts", "!=3,4"), "attempts not in (3, 4)");
    reads(flag("type", "=a=b"), "type = 'a=b'");
    reads(flag("message", "timed out, again"), "message contains 'timed out, again'");
    reads(flag("message", "~^code 5\\d\\d, 'x'"), "message ~ '^code 5\\d\\d, ''x'''");
    reads(flag("message", "=boom*"), "message = 'boom*'");
    reads(flag("status", "Dead,DISCARDED"), "status in (dead, discarded)");
    reads(flag("reason", "exhausted"), "reason = EXHAUSTED");
    reads(flag("category", "none"), "category = none");
    reads(flag("until", "2026-11-21"), "dead_at < 2026-11-21T00:00:00.000Z");
}

static void a_name_is_taken_as_it_stands(void **state)
{
    static const struct {
        const char *name, *expected;
    } names[] = {
        {"pay,refund", "type = 'pay,refund'"},
        {"!=pay", "type = '!=pay'"},
        {"none", "type = 'none'"},
        {"it's", "type = 'it''s'"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct rp_filter *f = new_filter();
        assert_int_equal(rp_filter_is(f, "type", names[i].name, NULL), 0);
        reads(f, names[i].expected);
    }
}

static void a_flag_s_operator_must_fit(void **state)
{
    (void)state;
    static const char *const flags[][2] = {
        {"id", "~1"}, {"status", "<dead"}, {"came-back", "~x"}, {"attempts", "~3"}};
    struct rp_filter *f = new_filter();
    struct rp_error err;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        assert_int_equal(rp_filter_flag(f, flags[i][0], flags[i][1], &err), -1);
        assert_int_equal(err.cls, RP_POISON);
        assert_non_null(strstr(err.text, "does not know this operator"));
    }
    assert_int_equal(rp_filter_flag(f, "nonsense", "x", &err), -1);
    assert_string_equal(err.text, "there is no field 'nonsense'");
    assert_int_equal(rp_filter_flag(f, "came-back", "true,false", &err), -1);
    assert_int_equal(rp_filter_flag(f, "status", "deed", NULL), -1);
    assert_string_equal(err.text, "'true,false' is no truth: true and false are");
    assert_true(rp_filter_is_empty(f));
    rp_filter_free(f);
    reads(flag("came-back", "false"), "came_back = false");
    reads(flag("came-back", "=true"), "came_back = true");
}

static void an_empty_text_does_not_mean_all(void **state)
{
    static const char *const texts[] = {"", "~", "!~"};
    struct rp_filter *f = new_filter();
    struct rp_error err;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(rp_filter_flag(f, "message", texts[i], &err), -1);
        assert_string_equal(err.text, "an empty text is in all of them");
    }
    rp_filter_free(f);
    refuses("message contains ''", 17, "--where: at 18: an empty text is in all of them");
    refuses("type ~ \"\"", 7, "--where: at 8: an empty text is in all of them");
    reads(flag("message", "="), "message = ''");
}

static void words_combine_by_their_precedence(void **state)
{
    (void)state;
    reads(where("type=a or type=b and not type=c"), "(type = 'a' or (type = 'b' and type != 'c'))");
    reads(where("(type=a or type=b) and (type=c and type=d)"),
          "(type = 'a' or type = 'b') and type = 'c' and type = 'd'");
    reads(where("NOT (type=a AND not not type=b)"), "not (type = 'a' and type = 'b')");
    reads(where("not not came_back"), "came_back = true");
    reads(where("type not in (a) and class !~ x and message not contains y"),
          "type != 'a' and class !~ 'x' and message not contains 'y'");
    reads(where("all"), "all");
    reads(where("all and type = a"), "type = 'a'");
    reads(where("not all or type = a"), "(not all or type = 'a')");
}

static void values_are_bare_or_quoted(void **state)
{
    (void)state;
    reads(where("type = \"it's\""), "type = 'it''s'");
    reads(where("type = 'a \"\"b'''"), "type = 'a \"\"b'''");
    reads(where("type = \"a\"\"b\""), "type = 'a\"b'");
    reads(where("type = 'none'"), "type = 'none'");
    reads(where("type = none"), "type = none");
    reads(where("type = and"), "type = 'and'");
    reads(where("class = java.io.IO$Exception-1"), "class = 'java.io.IO$Exception-1'");
    reads(where("since 1d ago and until now"), "dead_at >= 2026-11-20T03:00:00.000Z and "
                                               "dead_at < 2026-11-21T03:00:00.000Z");
    reads(where("dead_at > '2026-11-21 03:00+01:00'"), "dead_at > 2026-11-21T02:00:00.000Z");
}

static void sql_holds_our_words_alone(void **state)
{
    (void)state;
    compiles(new_filter(), "true");
    compiles(where("all"), "true");
    compiles(where("type = 'x'' or true --'"), "((d.task_type = $1::text))|x' or true --");
    compiles(where("type = 'a_%\\*?'"), "((d.task_type LIKE $1::text))|a\\_\\%\\\\%_");
    compiles(where("message contains '50%_*\\'"), "((d.error_message ILIKE $1))|%50\\%\\_*\\\\%");
    compiles(where("message ~ 'a*'"), "((d.error_message ~ $1::text))|a*");
    compiles(where("type in (a, 'b\"\\', c*, d?, none)"),
             "((d.task_type IS NULL OR d.task_type = ANY($1::text[]) OR d.task_type LIKE "
             "ANY($2::text[])))|{\"a\",\"b\\\"\\\\\"}|{\"c%\",\"d_\"}");
    compiles(where("not (id < 5 or came_back)"),
             "((((d.id < $1::bigint) OR (d.came_back_at IS NOT NULL)) IS NOT TRUE))|5");
    compiles(where("dead_at >= 2h"), "((d.dead_at >= $1::timestamptz))|2026-11-21T01:00:00.000Z");
}

static void the_first_digits_of_a_group_are_a_range(void **state)
{
    (void)state;
    compiles(where("group = 00000000000000ff"), "((d.fingerprint = $1::bigint))|255");
    compiles(where("group = fFfFfFfFfFfFfFfF"), "((d.fingerprint = $1::bigint))|-1");
    compiles(where("group = 8000"), "((d.fingerprint BETWEEN $1::bigint AND $2::bigint))|"
                                    "-9223372036854775808|-9223090561878065153");
    refuses("group = abc", 8, "--where: at 9: 'abc' is no group: 4 to 16 hex digits are");
    refuses("group = wxyz", 8, "--where: at 9: 'wxyz' is no group: 4 to 16 hex digits are");
}

static void an_error_points_at_its_place(void **state)
{
    (void)state;
    refuses("", 0, "--where: at 1: expected a field, not or (, found the end");
    refuses("type", 4,
            "--where: at 5: expected an operator (=, !=, <, in, ~, contains), found the end");
    refuses("typ = x", 0, "--where: at 1: there is no field 'typ' (did you mean type?)");
    refuses("type = ", 7, "--where: at 8: expected a value, found the end");
    refuses("type = a type = b", 9, "--where: at 10: expected and, or, or the end, found 'type'");
    refuses("(type = a", 9, "--where: at 10: expected and, or, or ), found the end");
    refuses("type = a)", 8, "--where: at 9: expected and, or, or the end, found ')'");
    refuses("type = 'a", 7, "--where: at 8: this quote is never closed");
    refuses("type in ()", 9, "--where: at 10: expected a value, found ')'");
    refuses("type in (a b)", 11, "--where: at 12: expected , or ), found 'b'");
    refuses("type in a", 8, "--where: at 9: expected ( and a list of values, found 'a'");
    refuses("type not x", 9, "--where: at 10: expected in or contains, found 'x'");
    refuses("type in (a, 'b", 12, "--where: at 13: this quote is never closed");
    refuses("(type = a and 'b", 14, "--where: at 15: this quote is never closed");
    refuses("'b", 0, "--where: at 1: this quote is never closed");
    refuses("('b", 1, "--where: at 2: this quote is never closed");
    refuses("(all) 'b", 6, "--where: at 7: this quote is never closed");
    refuses("all 'b", 4, "--where: at 5: this quote is never closed");
    refuses("type 'b", 5, "--where: at 6: this quote is never closed");
    refuses("type in 'b", 8, "--where: at 9: this quote is never closed");
    refuses("type not 'b", 9, "--where: at 10: this quote is never closed");
    refuses("type = a 'b", 9, "--where: at 10: this quote is never closed");
    refuses("since 1d ago 'b", 13, "--where: at 14: this quote is never closed");
    refuses("since = 'b", 8, "--where: at 9: this quote is never closed");
    refuses("since != 1d", 6, "--where: at 7: expected a value, found '!='");
    refuses("since > 1d", 6, "--where: at 7: expected a value, found '>'");
    refuses("type not = a", 9, "--where: at 10: expected in or contains, found '='");
    refuses("came_back = maybe", 12, "--where: at 13: 'maybe' is no truth: true and false are");
    refuses("dead_at < 0001-01-01T00:00+01:00", 10,
            "--where: at 11: '0001-01-01T00:00+01:00' is no time: 2h, 7d, 2026-11-21 and "
            "2026-11-21T03:00Z are");
    refuses("since 0001-01-01", 6,
            "--where: at 7: '0001-01-01' is no time: 2h, 7d, 2026-11-21 and 2026-11-21T03:00Z are");
    refuses("since 3000000d", 6,
            "--where: at 7: '3000000d' is no time: 2h, 7d, 2026-11-21 and 2026-11-21T03:00Z are");
    refuses("type = a aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 9,
            "--where: at 10: expected and, or, or the end, found "
            "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'");
    refuses("not 'b", 4, "--where: at 5: this quote is never closed");
    refuses("type < a", 5, "--where: at 6: type does not know this operator");
    refuses("type ! a", 5, "--where: at 6: this is no operator; != and !~ are");
    refuses("id = x", 5, "--where: at 6: 'x' is no number");
    refuses("id >= none", 6, "--where: at 7: 'none' is no number");
    refuses("id = 9223372036854775808", 5, "--where: at 6: '9223372036854775808' is no number");
    refuses(
        "since 99999999999d", 6,
        "--where: at 7: '99999999999d' is no time: 2h, 7d, 2026-11-21 and 2026-11-21T03:00Z are");
    refuses("type = '\xc3\xa9' or x = 1", 15, "--where: at 15: there is no field 'x'");
    refuses("type = \xff", 7, "--where: byte 8 is no UTF-8");
    refuses("status = deed", 9,
            "--where: at 10: there is no 'deed' (did you mean dead?); there is dead, replaying, "
            "replayed, discarded");
}

static void an_enemy_meets_bounds(void **state)
{
    (void)state;
    char text[70000];
    struct rp_error err;
    struct rp_filter *f = new_filter();
    memset(text, '(', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(rp_filter_where(f, text, &err), -1);
    text[1000] = '\0';
    assert_int_equal(rp_filter_where(f, text, &err), -1);
    assert_non_null(strstr(err.text, "more than 50 parentheses"));
    for (size_t i = 0; i < 60000; i += 4)
        memcpy(text + i, "not ", 5);
    strcat(text, "came_back");
    assert_int_equal(rp_filter_where(f, text, &err), 0);
    rp_filter_free(f);
}

static void what_the_rollup_has_is_countable(void **state)
{
    (void)state;
    static const struct {
        const char *expression;
        bool countable;
    } cases[] = {
        {"all", true},
        {"type = a* and not (status = dead or group = abcd)", true},
        {"class = a* and since 2h", true},
        {"since 2h and until 1h and reason = exhausted", true},
        {"dead_at = 2026-11-21", false},
        {"not since 2h", false},
        {"since 2h or type = a", false},
        {"id = 1", false},
        {"type = a and not (category = b and message contains c)", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_filter *f = where(cases[i].expression);
        if (rp_filter_countable(f) != cases[i].countable)
            fail_msg("%s", cases[i].expression);
        rp_filter_free(f);
    }
}

static void a_filter_knows_what_it_names(void **state)
{
    (void)state;
    struct rp_filter *f = where("type = a and (id = 1 or not status = dead) and since 2h");
    assert_true(rp_filter_names(f, "status"));
    assert_true(rp_filter_names(f, "since"));
    assert_true(rp_filter_names(f, "dead_at"));
    assert_false(rp_filter_names(f, "job"));
    assert_false(rp_filter_names(f, "nonsense"));
    rp_filter_free(f);
}

static void of_several_bounds_the_narrowest_holds(void **state)
{
    (void)state;
    static const struct {
        const char *expression;
        struct rp_filter_range range;
    } cases[] = {
        {"type = a", {false, false, 0, 0}},
        {"dead_at >= 1970-01-01T00:00:01Z", {true, false, 1000, 0}},
        {"dead_at > 1970-01-01T00:00:01Z", {true, false, 1001, 0}},
        {"dead_at < 1970-01-01T00:00:01Z", {false, true, 0, 1000}},
        {"dead_at <= 1970-01-01T00:00:01Z", {false, true, 0, 1001}},
        {"dead_at > 1970-01-01T00:00:01Z and dead_at >= 1970-01-01T00:00:01Z",
         {true, false, 1001, 0}},
        {"dead_at >= 1970-01-01T00:00:01Z and dead_at > 1970-01-01T00:00:02Z",
         {true, false, 2001, 0}},
        {"dead_at < 1970-01-01T00:00:01Z and dead_at <= 1970-01-01T00:00:01Z",
         {false, true, 0, 1000}},
        {"until 1970-01-01T00:00:02Z and until 1970-01-01T00:00:01Z", {false, true, 0, 1000}},
        {"since 1969-12-31T23:59:59.5Z and not dead_at < 1970-01-01T00:00:01Z",
         {true, false, -500, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_filter *f = where(cases[i].expression);
        struct rp_filter_range r = rp_filter_range(f), expected = cases[i].range;
        if (r.has_from != expected.has_from || r.has_to != expected.has_to ||
            (r.has_from && r.from_ms != expected.from_ms) ||
            (r.has_to && r.to_ms != expected.to_ms))
            fail_msg("%s: %d %lld, %d %lld", cases[i].expression, r.has_from, (long long)r.from_ms,
                     r.has_to, (long long)r.to_ms);
        rp_filter_free(f);
    }
}

static void the_range_is_cut_at_whole_hours(void **state)
{
    (void)state;
    struct rp_filter *f = where("since 2026-11-21T01:30Z and until 2026-11-21T05:00Z");
    struct rp_query q = {0};
    assert_int_equal(rp_filter_count_sql(f, &q, NULL), 0);
    assert_int_equal(q.n, 10);
    assert_string_equal(q.values[0], "2026-11-21T02:00:00.000Z"); /* the rollup's hours */
    assert_string_equal(q.values[1], "2026-11-21T05:00:00.000Z");
    assert_string_equal(q.values[2], "2026-11-21T01:29:59.999Z"); /* the rows before */
    assert_string_equal(q.values[3], "2026-11-21T02:00:00.000Z");
    assert_string_equal(q.values[6], "2026-11-21T05:00:00.000Z"); /* and after */
    assert_string_equal(q.values[7], "2026-11-21T05:00:00.000Z");
    rp_query_clear(&q);
    rp_filter_free(f);
    f = where("until 9999-12-31T23:59:59-01:00");
    assert_int_equal(rp_filter_count_sql(f, &q, NULL), 0);
    assert_string_equal(q.values[1], "10000-01-01T00:00:00.000Z");
    rp_query_clear(&q);
    rp_filter_free(f);
    f = where("since 2026-11-21T01:10Z and until 2026-11-21T01:50Z");
    assert_int_equal(rp_filter_count_sql(f, &q, NULL), 0);
    assert_int_equal(q.n, 4);
    rp_query_clear(&q);
    rp_filter_free(f);
}

static void what_the_states_alone_can_answer_is_asked_of_them(void **state)
{
    (void)state;
    static const struct {
        const char *expression;
        bool states;
    } cases[] = {
        {"status = discarded", true},
        {"status in (replayed, discarded) and type = a and since 2h", true},
        {"job = x and (id = 1 or not came_back)", true},
        {"came_back", true},
        {"status = dead", false},
        {"status in (dead, replayed)", false},
        {"status != dead", false},
        {"status = discarded or type = a", false},
        {"not came_back", false},
        {"came_back = false", false},
        {"status in (none, replayed)", false},
        {"job = none", false},
        {"status = discarded and class = a", true},
        {"status = discarded and message contains a", false},
        {"all", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_filter *f = where(cases[i].expression);
        struct rp_query q = {0};
        rp_filter_source(f, &q);
        rp_query_add(&q, "");
        assert_int_equal(rp_buf_append(&q.sql, "", 1, NULL), 0);
        if ((strcmp((const char *)q.sql.data, "archive AS d") != 0) != cases[i].states)
            fail_msg("%s", cases[i].expression);
        rp_query_clear(&q);
        rp_filter_free(f);
    }
}

static void what_a_flag_says_reads_back(void **state)
{
    (void)state;
    static const char *const values[] = {
        "",           "a,b",       "!=a,none",        "none,none", "true", "false", "true,false",
        "!=true",     "dead,dead", "exhausted,other", "2h,3d",     ">2h",  "1,2",   "<=1",
        "abcd,12345", "~a,b",
    };
    struct rp_error err;
    for (int i = 0; i < RP_N_FIELDS; i++)
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            struct rp_filter *f = new_filter();
            if (rp_filter_flag(f, rp_filter_fields[i].name, values[k], &err) == 0) {
                char *text = text_of(f);
                reads(where(text), text);
                free(text);
            }
            rp_filter_free(f);
        }
}

static struct rp_rng rng;

static size_t below(size_t n)
{
    return (size_t)(rp_rng_next(&rng) % n);
}

static void add(struct rp_buf *b, const char *text)
{
    assert_int_equal(rp_buf_append(b, text, strlen(text), NULL), 0);
}

static void random_value(struct rp_buf *b, enum rp_filter_kind kind)
{
    static const char *const values[][4] = {
        [RP_FILTER_NAME] = {"a*", "'it''s %_\\'", "none", "\"q\"\"\xc3\xa9 )\""},
        [RP_FILTER_TEXT] = {"'(x)'", "'\n\t'", "\"'\"", "and"},
        [RP_FILTER_REASON] = {"exhausted", "'OTHER'", "none", "Invalid"},
        [RP_FILTER_STATUS] = {"dead", "replayed", "'discarded'", "replaying"},
        [RP_FILTER_GROUP] = {"abcd", "0123456789abcdef", "FFFFF", "none"},
        [RP_FILTER_TIME] = {"2h", "2026-11-21", "'2026-11-21 03:00'", "7d ago"},
        [RP_FILTER_INT] = {"0", "-7", "9223372036854775807", "'12'"},
        [RP_FILTER_BOOL] = {"true", "false", "true", "false"},
    };
    add(b, values[kind][below(4)]);
}

static void random_term(struct rp_buf *b)
{
    size_t field = below(RP_N_FIELDS);
    enum rp_filter_kind kind = rp_filter_fields[field].kind;
    bool bound = field == RP_FIELD_SINCE || field == RP_FIELD_UNTIL;
    bool number = kind == RP_FILTER_INT || (kind == RP_FILTER_TIME && !bound);
    static const char *const compare[] = {" < ", "<=", " >", ">= "};
    add(b, rp_filter_fields[field].name);
    if (!bound && kind != RP_FILTER_BOOL && below(3) == 0) {
        add(b, below(2) == 0 ? " in (" : " NOT IN(");
        random_value(b, kind);
        for (size_t n = below(4); n > 0; n--) {
            add(b, ",");
            random_value(b, kind);
        }
        add(b, ")");
        return;
    }
    add(b, bound ? " " : number ? compare[below(4)] : below(2) == 0 ? "=" : " != ");
    if (number && kind == RP_FILTER_TIME)
        add(b, " ");
    random_value(b, kind);
}

static void random_expression(struct rp_buf *b, int depth)
{
    static const char *const words[] = {" and ", " or ", " AND not "};
    if (depth == 0 || below(3) == 0) {
        if (below(20) == 0)
            add(b, "all");
        else
            random_term(b);
        return;
    }
    if (below(3) == 0)
        add(b, "not ");
    add(b, "(");
    random_expression(b, depth - 1);
    for (size_t n = below(3); n > 0; n--) {
        add(b, words[below(3)]);
        random_expression(b, depth - 1);
    }
    add(b, ")");
}

static void the_canonical_text_reads_back_to_the_same(void **state)
{
    (void)state;
    rp_rng_init(&rng, 7);
    for (int i = 0; i < 20000; i++) {
        struct rp_buf b = {0};
        random_expression(&b, 4);
        add(&b, "");
        assert_int_equal(rp_buf_append(&b, "", 1, NULL), 0);
        struct rp_filter *f = where((const char *)b.data);
        char *once = text_of(f);
        struct rp_query q = {0}, q2 = {0};
        assert_int_equal(rp_filter_sql(f, &q, NULL), 0);
        rp_filter_free(f);
        f = where(once);
        char *twice = text_of(f);
        assert_string_equal(once, twice);
        assert_int_equal(rp_filter_sql(f, &q2, NULL), 0);
        assert_true(rp_bytes_equal(rp_buf_bytes(&q.sql), rp_buf_bytes(&q2.sql)));
        assert_int_equal(q.n, q2.n);
        for (int p = 0; p < q.n; p++)
            assert_string_equal(q.values[p], q2.values[p]);
        rp_query_clear(&q);
        rp_query_clear(&q2);
        rp_filter_free(f);
        free(once);
        free(twice);
        rp_buf_clear(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_are_all_meant),
        cmocka_unit_test(a_flag_may_begin_with_an_operator),
        cmocka_unit_test(a_name_is_taken_as_it_stands),
        cmocka_unit_test(a_flag_s_operator_must_fit),
        cmocka_unit_test(an_empty_text_does_not_mean_all),
        cmocka_unit_test(words_combine_by_their_precedence),
        cmocka_unit_test(values_are_bare_or_quoted),
        cmocka_unit_test(sql_holds_our_words_alone),
        cmocka_unit_test(the_first_digits_of_a_group_are_a_range),
        cmocka_unit_test(an_error_points_at_its_place),
        cmocka_unit_test(an_enemy_meets_bounds),
        cmocka_unit_test(what_the_rollup_has_is_countable),
        cmocka_unit_test(a_filter_knows_what_it_names),
        cmocka_unit_test(of_several_bounds_the_narrowest_holds),
        cmocka_unit_test(the_range_is_cut_at_whole_hours),
        cmocka_unit_test(what_the_states_alone_can_answer_is_asked_of_them),
        cmocka_unit_test(what_a_flag_says_reads_back),
        cmocka_unit_test(the_canonical_text_reads_back_to_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
