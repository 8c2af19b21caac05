/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "codec.h"
#include "config_fixture.h"
#include "memory_fixture.h"
#include "record_size.h"
#include "registry.h"
#include "replay_message.h"

#define NOW INT64_C(1763700000000)

/* The brokers' part is played here: topics but "gone" exist, and take so many bytes. */
static int64_t limit;

enum rp_target_state __wrap_rp_targets_state(struct rp_targets *t, struct rp_bytes topic);
enum rp_target_state __wrap_rp_targets_state(struct rp_targets *t, struct rp_bytes topic)
{
    (void)t;
    return rp_bytes_equal(topic, rp_str("gone"))     ? RP_TARGET_MISSING
           : rp_bytes_equal(topic, rp_str("silent")) ? RP_TARGET_UNKNOWN
           : rp_bytes_equal(topic, rp_str("denied")) ? RP_TARGET_DENIED
                                                     : RP_TARGET_USABLE;
}

int64_t __wrap_rp_targets_max_bytes(struct rp_targets *t, struct rp_bytes topic);
int64_t __wrap_rp_targets_max_bytes(struct rp_targets *t, struct rp_bytes topic)
{
    (void)t;
    (void)topic;
    return limit;
}

bool __wrap_rp_targets_fits(struct rp_targets *t, struct rp_outgoing *record);
bool __wrap_rp_targets_fits(struct rp_targets *t, struct rp_outgoing *record)
{
    (void)t;
    record->max_batch_bytes = limit;
    return rp_record_batch_bytes(record) <= limit;
}

/* So is the registry's, which refuses to tell of any id, and has for so long. */
static int64_t failing_ms;

int __wrap_rp_registry_schema(struct rp_registry *r, int32_t id, const char **json,
                              struct rp_error *err);
int __wrap_rp_registry_schema(struct rp_registry *r, int32_t id, const char **json,
                              struct rp_error *err)
{
    (void)r;
    (void)json;
    return rp_fail(err, RP_E_IO, RP_RETRIABLE, "schema registry: schema id %d is not told", id);
}

int64_t __wrap_rp_registry_failing_ms(const struct rp_registry *r);
int64_t __wrap_rp_registry_failing_ms(const struct rp_registry *r)
{
    (void)r;
    return failing_ms;
}

struct fixture {
    struct rp_config *config;
    struct rp_replay_options options;
    rd_kafka_t *client;
    struct rp_replay_maker *maker;
    struct rp_replay_row row;
    struct rp_outgoing out;
    const char *refused;
    struct rp_error err;
};

static const struct rp_header came_with[] = {{{"trace", 5}, {"old", 3}},
                                             {{"reprise-attempt", 15}, {"9", 1}},
                                             {{"reprise-replay-id", 17}, {"earlier", 7}}};

static int set_up(void **state)
{
    static struct fixture f;
    char text[200];
    f = (struct fixture){.config =
                             load_good("targets: {allow: [work, other, gone, silent, denied]}\n"
                                       "schema_registry: {url: 'http://registry', patience: 1m}\n"),
                         .client = rd_kafka_new(RD_KAFKA_PRODUCER, NULL, text, sizeof text)};
    assert_non_null(f.client);
    rp_replay_options_init(&f.options);
    limit = 1000000;
    f.row = (struct rp_replay_row){
        .n = 1,
        .letter = {.has_task = true,
                   .reason = RP_EXHAUSTED,
                   .attempts = 3,
                   .task = {.task_id = rp_str("t-1"),
                            .task_type = rp_str("mail"),
                            .target = rp_str("work"),
                            .key = rp_str("k"),
                            .payload = rp_str("hello"),
                            .headers = came_with,
                            .n_headers = 3,
                            .attempt = 2,
                            .error_class = rp_str("E"),
                            .error_message = rp_str(""),
                            .source = rp_str("test"),
                            .first_failed_at_ms = RP_NO_TIME,
                            .failed_at_ms = NOW - 1000}},
    };
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    rp_replay_maker_free(f->maker);
    rp_replay_options_clear(&f->options);
    rd_kafka_destroy(f->client);
    rp_config_free(f->config);
    return 0;
}

static void make_good_maker(struct fixture *f)
{
    if (f->maker == NULL)
        assert_int_equal(rp_replay_maker_new(f->config, &f->options, "251121-abcdef", f->client,
                                             &f->maker, &f->err),
                         0);
}

static int make(struct fixture *f)
{
    make_good_maker(f);
    return rp_replay_make(f->maker, &f->row, NOW, &f->out, &f->refused, &f->err);
}

static void make_good(struct fixture *f)
{
    assert_int_equal(make(f), 0);
    if (f->refused != NULL)
        fail_msg("refused: %s", f->refused);
}

static void assert_refused_for(struct fixture *f, const char *why)
{
    assert_int_equal(make(f), 0);
    assert_non_null(f->refused);
    if (strstr(f->refused, why) == NULL)
        fail_msg("refused for another reason: %s", f->refused);
}

/* The value of the header that comes last under this name; NULL: there is none. */
static const char *header(const struct fixture *f, const char *name)
{
    static char value[100];
    const char *found = NULL;
    for (size_t i = 0; i < f->out.n_headers; i++)
        if (rp_bytes_equal(f->out.headers[i].key, rp_str(name))) {
            (void)snprintf(value, sizeof value, "%.*s", (int)f->out.headers[i].value.len,
                           (const char *)f->out.headers[i].value.data);
            found = value;
        }
    return found;
}

static void a_task_goes_to_its_target_as_the_next_attempt(void **state)
{
    struct fixture *f = *state;
    make_good(f);
    assert_true(rp_bytes_equal(f->out.topic, rp_str("work")));
    assert_true(rp_bytes_equal(f->out.key, rp_str("k")));
    assert_true(rp_bytes_equal(f->out.value, rp_str("hello")));
    assert_string_equal(header(f, "trace"), "old");
    assert_string_equal(header(f, "reprise-attempt"), "4");
    assert_string_equal(header(f, "reprise-replay-id"), "251121-abcdef");
    assert_string_equal(header(f, "reprise-due"), "1763700000000");
    assert_string_equal(header(f, "reprise-first-failed-at"), "1763699999000");
    assert_int_equal(f->out.max_batch_bytes, limit);
}

static void attempts_do_not_overflow(void **state)
{
    struct fixture *f = *state;
    f->row.letter.attempts = INT32_MAX;
    make_good(f);
    assert_string_equal(header(f, "reprise-attempt"), "2147483647");
}

static void another_target_must_be_allowed(void **state)
{
    struct fixture *f = *state;
    f->options.target = strdup("elsewhere");
    assert_refused_for(f, "targets.allow does not allow the target elsewhere");
    free(f->options.target);
    f->options.target = strdup("other");
    make_good(f);
    assert_true(rp_bytes_equal(f->out.topic, rp_str("other")));
}

static void a_target_is_not_cut_at_a_nul(void **state)
{
    struct fixture *f = *state;
    f->row.letter.task.target = (struct rp_bytes){"work\0x", 6};
    assert_refused_for(f, "there is a NUL in its target");
    f->options.to_router = true;
    assert_refused_for(f, "there is a NUL in its target");
    f->options.to_router = false;
    f->options.target = strdup("other");
    make_good(f);
    assert_true(rp_bytes_equal(f->out.topic, rp_str("other")));
}

static void a_topic_that_is_not_there_is_refused_and_one_that_is_not_known_waited_for(void **state)
{
    struct fixture *f = *state;
    f->row.letter.task.target = rp_str("gone");
    assert_refused_for(f, "there is no topic gone");
    f->row.letter.task.target = rp_str("denied");
    assert_refused_for(f, "the brokers' ACLs refuse topic denied");
    f->row.letter.task.target = rp_str("silent");
    assert_int_equal(make(f), -1);
    assert_int_equal(f->err.cls, RP_RETRIABLE);
}

static void a_task_without_a_target_is_refused(void **state)
{
    struct fixture *f = *state;
    f->row.letter.task.target = RP_NULL_BYTES;
    assert_refused_for(f, "neither the task nor its policy names a target");
}

static void headers_that_are_set_take_the_place_of_their_name(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(rp_replay_options_header(&f->options, "trace=new", &f->err), 0);
    assert_int_equal(rp_replay_options_header(&f->options, "more=1", &f->err), 0);
    make_good(f);
    assert_string_equal(header(f, "trace"), "new");
    assert_string_equal(header(f, "more"), "1");
    assert_string_equal(header(f, "reprise-attempt"), "4");
}

static void to_the_router_goes_the_event_with_the_replay_in_its_headers(void **state)
{
    struct fixture *f = *state;
    struct rp_codec *codec;
    struct rp_arena arena = {0};
    struct rp_failed_task task;
    f->options.to_router = true;
    f->row.letter.task.target = rp_str("gone"); /* is the router's to judge */
    make_good(f);
    assert_true(rp_bytes_equal(f->out.topic, rp_str(f->config->topics.failed_tasks)));
    assert_int_equal(f->out.n_headers, 1);
    assert_string_equal(header(f, "reprise-replay-id"), "251121-abcdef");
    assert_int_equal(rp_codec_new(NULL, &codec, &f->err), 0);
    assert_int_equal(rp_codec_decode_task(codec, f->out.value, &arena, &task, &f->err), 0);
    assert_int_equal(task.attempt, 2);
    assert_int_equal(task.n_headers, 3);
    assert_true(rp_bytes_equal(task.headers[2].key, rp_str("reprise-replay-id")));
    assert_true(rp_bytes_equal(task.headers[2].value, rp_str("251121-abcdef")));
    rp_arena_clear(&arena);
    rp_codec_free(codec);
}

/* Else it would be buried at once, for a fallback handler that failed too. */
static void the_router_is_not_told_of_a_last_try_before(void **state)
{
    static const struct rp_header last_try[] = {{{"trace", 5}, {"old", 3}},
                                                {{"reprise-fallback", 16}, {"1", 1}}};
    struct fixture *f = *state;
    struct rp_codec *codec;
    struct rp_arena arena = {0};
    struct rp_failed_task task;
    f->options.to_router = true;
    f->row.letter.task.headers = last_try;
    f->row.letter.task.n_headers = 2;
    make_good(f);
    assert_int_equal(rp_codec_new(NULL, &codec, &f->err), 0);
    assert_int_equal(rp_codec_decode_task(codec, f->out.value, &arena, &task, &f->err), 0);
    assert_int_equal(task.n_headers, 2);
    assert_true(rp_bytes_equal(task.headers[0].key, rp_str("trace")));
    assert_true(rp_bytes_equal(task.headers[1].key, rp_str("reprise-replay-id")));
    rp_arena_clear(&arena);
    rp_codec_free(codec);
}

static void bytes_that_no_task_was_read_from_go_to_the_router_alone(void **state)
{
    struct fixture *f = *state;
    f->row.letter = (struct rp_dead_letter){.reason = RP_UNDECODABLE, .raw = rp_str("what?")};
    f->row.key = rp_str("k");
    assert_refused_for(f, "there is no task: its bytes could not be decoded");
    f->options.to_router = true;
    make_good(f);
    assert_true(rp_bytes_equal(f->out.value, rp_str("what?")));
    assert_true(rp_bytes_equal(f->out.key, rp_str("k")));
    assert_string_equal(header(f, "reprise-replay-id"), "251121-abcdef");
}

static void a_dead_letter_that_cannot_be_read_is_refused(void **state)
{
    struct fixture *f = *state;
    f->row.record = rp_str("no record");
    assert_refused_for(f, "the dead letter itself could not be decoded");
    f->row.record = RP_NULL_BYTES;
    f->row.letter = (struct rp_dead_letter){.reason = RP_UNDECODABLE};
    f->options.to_router = true;
    assert_refused_for(f, "the dead letter itself could not be decoded");
}

static void what_cannot_be_an_event_does_not_go_to_the_router(void **state)
{
    struct fixture *f = *state;
    f->options.to_router = true;
    f->row.letter.task.attempt = 0;
    assert_refused_for(f, "attempt is 0, below 1");
}

static struct fixture *starved;

static int make_whole(struct rp_error *err)
{
    int rc =
        rp_replay_make(starved->maker, &starved->row, NOW, &starved->out, &starved->refused, err);
    assert_null(starved->refused); /* want of memory is for no job's record */
    if (rc == 0)
        assert_string_equal(header(starved, "reprise-replay-id"), "251121-abcdef");
    return rc;
}

static void without_memory_nothing_is_refused(void **state)
{
    struct fixture *f = *state;
    struct rp_buf record = {0};
    struct rp_dead_letter letter = f->row.letter;
    starved = f;
    assert_int_equal(rp_dead_letter_encode(&letter, &record, &f->err), 0);
    assert_int_equal(rp_replay_options_header(&f->options, "more=1", &f->err), 0);
    make_good(f);
    for (int i = 0; i < 4; i++) {
        f->options.to_router = i % 2 == 1;
        f->row.record = i < 2 ? RP_NULL_BYTES : rp_buf_bytes(&record);
        assert_true(starve(make_whole) > 2);
    }
    f->row.record = RP_NULL_BYTES;
    f->row.letter = (struct rp_dead_letter){.reason = RP_UNDECODABLE, .raw = rp_str("what?")};
    assert_true(starve(make_whole) >= 1);
    rp_buf_clear(&record);
}

static void what_there_is_no_more_is_refused(void **state)
{
    struct fixture *f = *state;
    f->row.letter.reason = RP_OVERSIZED;
    f->row.letter.task.payload = RP_NULL_BYTES;
    assert_refused_for(f, "its payload was too large to be kept");
    f->row.gone = true;
    assert_refused_for(f, "the archive does not have it any more");
}

static void what_its_topic_does_not_take_is_refused(void **state)
{
    struct fixture *f = *state;
    limit = 100;
    assert_refused_for(f, "it is larger than the max.message.bytes of topic work");
}

/* What is compressed may fit, whatever it is. */
static void how_large_a_payload_may_be_is_said_where_it_is_certain(void **state)
{
    struct fixture *f = *state;
    limit = 100;
    make_good_maker(f);
    assert_int_equal(rp_replay_max_payload(f->maker, rp_str("work")), 100);
    rp_replay_maker_free(f->maker);
    f->maker = NULL;
    rp_config_free(f->config);
    f->config = load_good("kafka: {compression.type: zstd}\n");
    make_good_maker(f);
    assert_true(rp_replay_max_payload(f->maker, rp_str("work")) == RP_NO_LIMIT);
}

static void a_target_that_nobody_names_is_the_policy_s(void **state)
{
    struct fixture *f = *state;
    struct rp_bytes topic = RP_NULL_BYTES;
    rp_config_free(f->config);
    f->config = load_good("targets: {allow: [work]}\npolicies: {mail: {target: work}}\n");
    make_good_maker(f);
    assert_int_equal(rp_replay_judge_target(f->maker, rp_str("mail"), &topic, &f->refused, &f->err),
                     0);
    assert_null(f->refused);
    assert_true(rp_bytes_equal(topic, rp_str("work")));
}

static void what_came_from_outside_is_refused_in_ascii(void **state)
{
    struct fixture *f = *state;
    f->row.letter.task.target = rp_str("\x1b[2J\xff\n");
    assert_refused_for(f, "targets.allow does not allow the target ?[2J??");
}

static void an_edit_takes_the_place_of_the_task(void **state)
{
    struct fixture *f = *state;
    f->row.edited = rp_str("{\"no\": \"edit\"");
    assert_refused_for(f, "its edit cannot be read");
}

static void a_program_that_gives_nothing_refuses(void **state)
{
    struct fixture *f = *state;
    f->options.jq = strdup("select(.key == \"other\")");
    f->row.about = rp_str("{}");
    assert_refused_for(f, "the jq program gives nothing for it");
}

static void a_program_that_does_not_compile_makes_no_maker(void **state)
{
    struct fixture *f = *state;
    f->options.jq = strdup("(((");
    assert_int_equal(
        rp_replay_maker_new(f->config, &f->options, "j", f->client, &f->maker, &f->err), -1);
    assert_null(f->maker);
    assert_int_not_equal(f->err.cls, RP_RETRIABLE);
}

static void an_id_that_the_registry_does_not_tell_of_is_waited_for_with_patience(void **state)
{
    struct fixture *f = *state;
    f->options.jq = strdup(".");
    f->row.about = rp_str("{}");
    f->row.letter.task.payload = (struct rp_bytes){"\0\0\0\0\7\2", 6};
    failing_ms = 59999;
    assert_int_equal(make(f), -1);
    assert_int_equal(f->err.cls, RP_RETRIABLE);
    failing_ms = 60000;
    assert_refused_for(f, "schema id 7 is not told");
    f->row.letter.task.payload = rp_str("{}");
    make_good(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_task_goes_to_its_target_as_the_next_attempt),
        TEST(attempts_do_not_overflow),
        TEST(another_target_must_be_allowed),
        TEST(a_target_is_not_cut_at_a_nul),
        TEST(a_topic_that_is_not_there_is_refused_and_one_that_is_not_known_waited_for),
        TEST(a_task_without_a_target_is_refused),
        TEST(headers_that_are_set_take_the_place_of_their_name),
        TEST(to_the_router_goes_the_event_with_the_replay_in_its_headers),
        TEST(the_router_is_not_told_of_a_last_try_before),
        TEST(bytes_that_no_task_was_read_from_go_to_the_router_alone),
        TEST(a_dead_letter_that_cannot_be_read_is_refused),
        TEST(what_cannot_be_an_event_does_not_go_to_the_router),
        TEST(without_memory_nothing_is_refused),
        TEST(what_there_is_no_more_is_refused),
        TEST(what_its_topic_does_not_take_is_refused),
        TEST(how_large_a_payload_may_be_is_said_where_it_is_certain),
        TEST(a_target_that_nobody_names_is_the_policy_s),
        TEST(what_came_from_outside_is_refused_in_ascii),
        TEST(an_edit_takes_the_place_of_the_task),
        TEST(a_program_that_gives_nothing_refuses),
        TEST(an_id_that_the_registry_does_not_tell_of_is_waited_for_with_patience),
        TEST(a_program_that_does_not_compile_makes_no_maker),
    };
    return cmocka_run_group_tests_name("replay_message", tests, NULL, NULL);
}
