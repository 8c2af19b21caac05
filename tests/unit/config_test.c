/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "config_fixture.h"
#include "file_fixture.h"
#include "log.h"

static void an_empty_file_gives_the_defaults(void **state)
{
    (void)state;
    struct rp_config *c = load_good("");
    assert_null(c->instance);
    assert_int_equal(c->guarantee, RP_EXACTLY_ONCE);
    assert_int_equal(c->n_tiers, 3);
    assert_string_equal(c->tiers[2].topic, "retry-60s");
    assert_int_equal(c->tiers[0].reach_ms, 10000);
    assert_int_equal(c->tiers[2].reach_ms, 120000);
    assert_string_equal(c->topics.failed_tasks, "failed-tasks");
    assert_int_equal(c->topics.replication_factor, -1);
    assert_int_equal(c->router.batch, 1000);
    assert_int_equal(c->archiver.linger_ms, 100);
    assert_false(c->router.listen_set);
    assert_int_equal(c->memory_bytes, 32 << 20);
    assert_int_equal(c->retention.keep_ms, INT64_C(30) * 86400000);
    assert_int_equal(c->retention.schedule_minute, 180);
    assert_int_equal(c->log.level, RP_LOG_INFO);
    assert_false(c->log.json);
    assert_string_equal(c->kafka.common.items[0].value, "localhost:9092");
    assert_string_equal(c->postgres.dsn, "postgresql:///reprise");
    rp_config_free(c);
}

static void what_the_file_states_is_taken(void **state)
{
    (void)state;
    struct rp_config *c = load_good("instance: router-a\n"
                                    "guarantee: at-least-once\n"
                                    "tiers: [100ms, 1s, 60s, 1h]\n"
                                    "kafka:\n"
                                    "  bootstrap.servers: k:1\n"
                                    "  consumer: {fetch.min.bytes: 5}\n"
                                    "  producer: {batch.size: 1}\n"
                                    "topics: {prefix: eu., partitions: 3}\n"
                                    "router: {workers: 4, listen: \"0.0.0.0:9000\"}\n"
                                    "delayer:\n"
                                    "log: {format: json, level: debug}\n");
    assert_string_equal(c->instance, "router-a");
    assert_int_equal(c->guarantee, RP_AT_LEAST_ONCE);
    assert_int_equal(c->n_tiers, 4);
    assert_string_equal(c->tiers[2].topic, "eu.retry-60s");
    assert_int_equal(c->tiers[2].reach_ms, 3600000);
    assert_string_equal(c->topics.dead_letter, "eu.dead-letter");
    assert_int_equal(c->kafka.common.n, 1);
    assert_string_equal(c->kafka.consumer.items[0].name, "fetch.min.bytes");
    assert_string_equal(c->kafka.producer.items[0].value, "1");
    assert_int_equal(c->router.workers, 4);
    assert_true(c->router.listen_set);
    assert_true(c->log.json);
    rp_config_free(c);
}

static void a_retired_tier_is_read_and_not_sent_to(void **state)
{
    (void)state;
    struct rp_config *c = load_good("tiers: [1s, 60s]\ntiers_retired: [1m, 10s]\n");
    assert_int_equal(c->n_tiers, 2);
    assert_int_equal(c->n_retired, 2);
    assert_string_equal(c->tiers[2].topic, "retry-1m");
    assert_string_equal(c->tiers[3].topic, "retry-10s");
    assert_int_equal(c->tiers[3].length_ms, 10000);
    assert_int_equal(c->tiers[3].reach_ms, 20000);
    rp_config_free(c);
    assert_faults("tiers: [1s, 60s]\ntiers_retired: [10s, 60s]\n",
                  "2: tiers_retired: 60s is among tiers\n");
    assert_faults("tiers: [1s, 60s]\ntiers_retired: [5s, 1m,\n  5s]\n",
                  "3: tiers_retired: 5s is there twice\n");
}

static void types_may_be_kept_for_less(void **state)
{
    (void)state;
    struct rp_config *c =
        load_good("retention: {keep: 30d, by_type: {payment: 7d, \"mail.*\": 1d}}\n");
    assert_int_equal(c->retention.by_type.n, 2);
    assert_string_equal(c->retention.by_type.items[1].type, "mail.*");
    assert_int_equal(c->retention.by_type.items[1].keep_ms, 86400000);
    rp_config_free(c);
    assert_faults("retention:\n  keep: 30d\n  by_type:\n    a: 30d\n    b: soon\n",
                  "4: retention.by_type: a is kept for no longer than all are, by retention.keep\n"
                  "5: retention.by_type.b: expected a duration from 1d to 3650d (500ms, 1s, 15m, "
                  "12h, 30d), found \"soon\"\n");
    assert_faults("retention: {by_type: 3d, export: here}\n",
                  "1: retention.by_type: expected a mapping of task types to durations, found "
                  "\"3d\"\n"
                  "1: retention.export: expected an absolute path, or nothing, found \"here\"\n");
}

static void every_fault_is_told_in_the_files_order(void **state)
{
    (void)state;
    assert_faults("retention: {keep: 0}\n"
                  "router:\n"
                  "  worker: 2\n"
                  "  batch: many\n"
                  "  workers: 65\n"
                  "guarantee: twice\n"
                  "tiers: [10s, 50ms, 1s]\n",
                  "1: retention.keep: expected a duration from 1d to 3650d (500ms, 1s, 15m, 12h, "
                  "30d), found \"0\"\n"
                  "3: router.worker: there is no such parameter (did you mean workers?)\n"
                  "4: router.batch: expected a whole number from 1 to 100000, found \"many\"\n"
                  "5: router.workers: expected a whole number from 1 to 64, found \"65\"\n"
                  "6: guarantee: expected one of exactly-once, at-least-once, found \"twice\"\n"
                  "7: tiers: expected a duration from 100ms to 30d (500ms, 1s, 15m, 12h, 30d), "
                  "found \"50ms\"\n"
                  "7: tiers: expected ascending lengths, found 1s after 10s\n");
    assert_non_null(strstr(load_error.text, ":1: retention.keep: expected a duration"));
    assert_int_equal(load_error.code, RP_E_CONFIG);
}

static void a_key_that_comes_twice_is_refused(void **state)
{
    (void)state;
    assert_faults("log: {level: info}\nlog: {level: info}\n",
                  "2: log: comes twice; it was first on line 1\n");
    assert_faults("router: {workers: &w 1, workers: *w}\n",
                  "1: router.workers: comes twice; it was first on line 1\n");
}

static void a_value_of_the_wrong_shape_is_refused(void **state)
{
    (void)state;
    assert_faults("router: 5\n", "1: router: expected a mapping, found \"5\"\n");
    assert_faults("tiers: 1s\n", "1: tiers: expected a list, each a duration from 100ms to 30d "
                                 "(500ms, 1s, 15m, 12h, 30d), found \"1s\"\n");
    assert_faults("instance: [a]\n", "1: instance: expected text, found a list\n");
    assert_faults("instance:\n", "1: instance: expected text, found nothing\n");
    assert_faults("[a]: 1\n", "1: expected a name, found a list\n");
    assert_faults("- a\n", "1: expected a mapping, found a list\n");
}

static void texts_have_limits_and_forms(void **state)
{
    (void)state;
    assert_faults("topics: {prefix: \"a b\"}\n",
                  "1: topics.prefix: expected only letters, digits, '.', '_' and '-', found "
                  "\"a b\"\n");
    assert_faults("router: {listen: nowhere}\n",
                  "1: router.listen: expected host:port, such as 127.0.0.1:9101 (port 0: any free "
                  "one), found \"nowhere\"\n");
    assert_faults("instance: \"\"\n", "1: instance: expected 1 to 64 characters, found 0\n");
    assert_faults("schema_registry: {url: ftp://x}\n",
                  "1: schema_registry.url: expected a URL that begins with http:// or https://, "
                  "found \"ftp://x\"\n");
    assert_faults("delayer: {spill_dir: tmp}\n",
                  "1: delayer.spill_dir: expected an absolute path, found \"tmp\"\n");
}

static void what_is_not_yaml_is_refused_with_its_line(void **state)
{
    (void)state;
    assert_null(load_text("a: 1\nb: [\n", 9));
    assert_non_null(strstr(faults, "3: not YAML: "));
    assert_null(load_text("log: {}\n---\nb: [\n", 17));
    assert_non_null(strstr(faults, "4: not YAML: "));
    assert_null(load_text("a: \x01\n", 5));
    assert_non_null(strstr(faults, "not YAML: "));
    assert_faults("log: {}\n---\nlog: {}\n",
                  "3: expected the end of the file, found another document\n");
}

static void a_file_that_cannot_be_read_is_a_fault(void **state)
{
    (void)state;
    struct rp_config *c;
    assert_int_equal(rp_config_load("/nonexistent.yaml", NULL, NULL, &c, &load_error), -1);
    assert_string_equal(load_error.text,
                        "/nonexistent.yaml: cannot read it: No such file or directory");
    assert_int_equal(rp_config_load("/tmp", NULL, NULL, &c, &load_error), -1);
    assert_int_equal(rp_config_load("/dev/zero", NULL, NULL, &c, &load_error), -1);
    assert_string_equal(load_error.text, "/dev/zero: cannot read it: larger than 1 MiB");
}

static void settings_that_contradict_each_other_are_refused(void **state)
{
    (void)state;
    assert_faults("schema_registry: {username: u}\n", "1: schema_registry: username without url\n");
    assert_faults("schema_registry: {url: \"http://r\", password: p}\n",
                  "1: schema_registry: password without username\n");
    assert_faults("router:\n  linger: 5s\n  drain: 5s\n",
                  "2: router: linger must be shorter than drain\n");
    assert_faults("topics: {max_message_bytes: 95MiB}\n",
                  "1: delayer.memory: must be at least twice topics.max_message_bytes\n");
    assert_faults("router: {linger: 2s}\nkafka: {producer: {transaction.timeout.ms: 2000}}\n",
                  "2: kafka.producer.transaction.timeout.ms: must be longer than router.linger\n");
    assert_faults("delayer: {prepare_ahead: 1s}\nkafka: {transaction.timeout.ms: 1000}\n",
                  "2: kafka.transaction.timeout.ms: must be longer than delayer.prepare_ahead\n");
    assert_faults("delayer: {linger: 1s}\n", "1: delayer.linger: there is no such parameter\n");
    assert_faults("targets:\n  allow:\n    - retry-*\n    - dead-letter\n    - a\n",
                  "3: targets.allow: retry-* is a topic of reprise's own, never a target\n"
                  "4: targets.allow: dead-letter is a topic of reprise's own, never a target\n");
    assert_faults("tiers: []\n", "1: tiers: expected at least one tier\n");
    assert_faults("tiers: [60s, 1m]\n",
                  "1: tiers: expected ascending lengths, found 1m after 60s\n");
}

static void a_secret_comes_from_the_environment_or_a_file(void **state)
{
    (void)state;
    char path[] = "/tmp/reprise-secret-XXXXXX", text[256];
    file_make(path, "s3cret\n", 7);
    assert_int_equal(setenv("REPRISE_TEST_HOST", "db", 1), 0);
    (void)snprintf(text, sizeof text,
                   "postgres:\n  dsn: postgresql://u:${file:%s}@${env:REPRISE_TEST_HOST}/$${x}\n",
                   path);
    struct rp_config *c = load_good(text);
    assert_string_equal(c->postgres.dsn, "postgresql://u:s3cret@db/${x}");
    rp_config_free(c);
    assert_int_equal(unlink(path), 0);
}

/* What comes of a secret file that holds these bytes; "" when it was refused. */
static const char *dsn_from(const char *bytes, size_t len)
{
    static char dsn[64];
    char path[] = "/tmp/reprise-secret-XXXXXX", text[128];
    file_make(path, bytes, len);
    (void)snprintf(text, sizeof text, "postgres: {dsn: \"${file:%s}\"}\n", path);
    struct rp_config *c = load_text(text, strlen(text));
    (void)snprintf(dsn, sizeof dsn, "%s", c == NULL ? "" : c->postgres.dsn);
    rp_config_free(c);
    assert_int_equal(unlink(path), 0);
    return dsn;
}

static void a_secret_file_loses_one_newline_at_its_end(void **state)
{
    (void)state;
    assert_string_equal(dsn_from("a", 1), "a");
    assert_string_equal(dsn_from("a\n", 2), "a");
    assert_string_equal(dsn_from("a\r\n", 3), "a");
    assert_string_equal(dsn_from("a\n\n", 3), "a\n");
    assert_string_equal(dsn_from("a\r", 2), "a\r");
    assert_string_equal(dsn_from("\n", 1), "");
    assert_non_null(strstr(faults, "1: postgres.dsn: expected 1 to 4096 characters, found 0"));
}

static void a_secret_file_is_short_text(void **state)
{
    (void)state;
    assert_string_equal(dsn_from("a\0b", 3), "");
    assert_non_null(strstr(faults, "found a NUL byte"));
    size_t n = 70000;
    char *large = malloc(n);
    assert_non_null(large);
    memset(large, 'a', n);
    assert_string_equal(dsn_from(large, n), "");
    assert_non_null(strstr(faults, "to hold at most 64 KiB"));
    free(large);
}

static void too_many_items_or_entries_are_refused(void **state)
{
    (void)state;
    assert_faults("tiers: [1s,2s,3s,4s,5s,6s,7s,8s,9s,10s,11s,12s,13s,14s,15s,16s,17s]\n",
                  "1: tiers: expected at most 16 items, found 17\n");
    char text[20000] = "kafka:\n";
    for (int i = 0; i < 1001; i++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "  x%d: 1\n", i);
    assert_faults(text, "2: kafka: expected at most 1000 entries, found 1001\n");
}

static void a_section_is_a_mapping(void **state)
{
    (void)state;
    assert_faults("kafka: [a]\n"
                  "categories: 1\n"
                  "policies: [a]\n",
                  "1: kafka: expected a mapping of librdkafka's properties, found a list\n"
                  "2: categories: expected a mapping of categories, found \"1\"\n"
                  "3: policies: expected a mapping of task types, found a list\n");
    rp_config_free(load_good("kafka:\ncategories:\npolicies:\n  a:\n  b: {overrides: }\n"));
}

static void a_variable_may_have_a_default(void **state)
{
    (void)state;
    assert_int_equal(setenv("REPRISE_TEST_HOST", "db", 1), 0);
    assert_int_equal(unsetenv("REPRISE_TEST_UNSET"), 0);
    struct rp_config *c = load_good("instance: ${env:REPRISE_TEST_UNSET:-a}\n"
                                    "postgres: {dsn: \"${env:REPRISE_TEST_HOST:-x}\"}\n"
                                    "schema_registry: {url: \"${env:REPRISE_TEST_UNSET:-}\"}\n");
    assert_string_equal(c->instance, "a");
    assert_string_equal(c->postgres.dsn, "db");
    assert_string_equal(c->registry.url, "");
    rp_config_free(c);
}

static void what_cannot_be_put_in_is_refused(void **state)
{
    (void)state;
    assert_int_equal(unsetenv("REPRISE_TEST_UNSET"), 0);
    assert_faults("instance: ${env:REPRISE_TEST_UNSET}\n"
                  "postgres: {dsn: \"${file:/nonexistent}\"}\n"
                  "log: {level: \"${vault:x}\"}\n"
                  "topics: {prefix: \"${env:X\"}\n"
                  "router: {workers: \"${file:/dev/null}\"}\n",
                  "1: instance: expected the environment variable REPRISE_TEST_UNSET, which is not "
                  "set\n"
                  "2: postgres.dsn: cannot open /nonexistent: No such file or directory\n"
                  "3: log.level: expected ${env:NAME} or ${file:PATH} ($${ for a plain ${), found "
                  "${vault:x}\n"
                  "4: topics.prefix: expected a } after ${ ($${ for a plain ${)\n"
                  "5: router.workers: expected a regular file at /dev/null\n");
}

static void a_fault_never_shows_a_secret(void **state)
{
    (void)state;
    assert_int_equal(setenv("REPRISE_TEST_SECRET", "hunter2", 1), 0);
    const char *text = "router: {workers: \"${env:REPRISE_TEST_SECRET}\"}\n"
                       "kafka: {linger.ms: \"${env:REPRISE_TEST_SECRET}\"}\n";
    assert_null(load_text(text, strlen(text)));
    assert_null(strstr(faults, "hunter2"));
    assert_non_null(strstr(faults, "2: kafka.linger.ms: expected a value that librdkafka takes"));
}

static void a_nul_is_refused_and_control_characters_never_shown(void **state)
{
    (void)state;
    assert_faults("instance: \"a\\0b\"\n", "1: instance: expected text, found a NUL in it\n");
    assert_faults("\"a\\eb\": 1\n", "1: a?b: there is no such parameter\n");
}

static void a_node_that_holds_itself_is_only_a_fault(void **state)
{
    (void)state;
    assert_faults("tiers: &t [*t]\n", "1: tiers: expected a duration from 100ms to 30d (500ms, 1s, "
                                      "15m, 12h, 30d), found a list\n"
                                      "1: tiers: expected at least one tier\n");
    assert_faults("kafka: &k {consumer: *k}\n",
                  "1: kafka.consumer.consumer: expected a value, found a mapping\n");
}

static void faults_without_end_are_cut(void **state)
{
    (void)state;
    char text[8192] = "";
    for (int i = 0; i < 300; i++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "x%d: 1\n", i);
    struct rp_config *c;
    assert_null(c = load_text(text, strlen(text)));
    assert_non_null(strstr(load_error.text, ":1: x0: there is no such parameter"));
}

static void our_own_topics_are_never_targets(void **state)
{
    (void)state;
    struct rp_config *c = load_good("topics: {prefix: eu.}\ntargets: {allow: [\"*\"]}\n");
    static const char *const own[] = {"eu.failed-tasks",   "eu.dead-letter", "eu.task-events",
                                      "eu.control",        "eu.retry-10s",   "eu.retry-99d",
                                      "__consumer_offsets"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        assert_true(rp_config_owns_topic(c, rp_str(own[i])));
        assert_false(rp_config_allows_target(c, rp_str(own[i])));
    }
    assert_false(rp_config_owns_topic(c, rp_str("failed-tasks")));
    assert_false(rp_config_owns_topic(c, rp_str("eu.")));
    assert_false(rp_config_owns_topic(c, rp_str("eu.retry")));
    assert_false(rp_config_owns_topic(c, RP_NULL_BYTES));
    assert_true(rp_config_allows_target(c, rp_str("orders")));
    rp_config_free(c);
}

static void what_was_allowed_last_makes_no_difference_to_what_is_allowed(void **state)
{
    (void)state;
    struct rp_config *c = load_good("targets: {allow: [\"orders-*\"]}\n");
    struct rp_allowed last = {0};
    for (int i = 0; i < 2; i++) {
        assert_false(rp_config_allows_again(c, &last, rp_str("")));
        assert_false(rp_config_allows_again(c, &last, RP_NULL_BYTES));
        assert_false(rp_config_allows_again(c, &last, rp_str("orders")));
        assert_true(rp_config_allows_again(c, &last, rp_str("orders-eu")));
        assert_true(rp_config_allows_again(c, &last, rp_str("orders-eu")));
        assert_false(rp_config_allows_again(c, &last, rp_str("payment-s")));
    }
    rp_config_free(c);
}

static void a_target_needs_a_glob_that_allows_it_and_a_legal_name(void **state)
{
    (void)state;
    struct rp_config *c = load_good("targets: {allow: [\"orders-*\", pay]}\n");
    assert_true(rp_config_allows_target(c, rp_str("orders-eu")));
    assert_true(rp_config_allows_target(c, rp_str("pay")));
    assert_false(rp_config_allows_target(c, rp_str("payments")));
    assert_false(rp_config_allows_target(c, rp_str("orders-a b")));
    rp_config_free(c);
    c = load_good("targets: {allow: [\"*\"]}\n");
    char name[251];
    memset(name, 'a', 250);
    name[250] = '\0';
    assert_false(rp_config_allows_target(c, rp_str(name)));
    assert_true(rp_config_allows_target(c, rp_str(name + 1)));
    assert_false(rp_config_allows_target(c, rp_str("")));
    assert_false(rp_config_allows_target(c, RP_NULL_BYTES));
    assert_false(rp_config_allows_target(c, rp_str(".")));
    assert_false(rp_config_allows_target(c, rp_str("..")));
    assert_false(rp_config_allows_target(c, rp_str("a/b")));
    assert_true(rp_config_allows_target(c, rp_str("a.B_9-")));
    rp_config_free(c);
    c = load_good("");
    assert_false(rp_config_allows_target(c, rp_str("orders")));
    rp_config_free(c);
    rp_config_free(NULL);
}

static void the_reference_names_every_parameter(void **state)
{
    (void)state;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    rp_config_print_reference(out);
    assert_int_equal(fclose(out), 0);
    assert_non_null(strstr(text, "delayer.prepare_ahead\n"
                                 "    a duration from 0 to 1s (500ms, 1s, 15m, 12h, 30d); default: "
                                 "10ms\n"));
    assert_non_null(strstr(text,
                           "policies.NAME.backoff.uniform.min\n"
                           "    a duration from 0 to 365d (500ms, 1s, 15m, 12h, 30d); must be "
                           "stated\n"));
    free(text);
}

static void each_value_that_cannot_be_meant_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"router: {listen: localhost}", "expected host:port"},
        {"router: {listen: \":9101\"}", "expected host:port"},
        {"router: {listen: localhost:http}", "expected host:port"},
        {"router: {listen: localhost:-1}", "expected host:port"},
        {"router: {listen: localhost:65536}", "expected host:port"},
        {"schema_registry: {url: ftp://a}", "a URL that begins with http:// or https://"},
        {"schema_registry: {username: a}", "username without url"},
        {"schema_registry: {url: https://a, password: b}", "password without username"},
        {"retention: {export: tmp}", "an absolute path, or nothing"},
        {"topics: {prefix: a/b}", "only letters, digits, '.', '_' and '-'"},
        {"instance: ${env:}", "expected ${env:NAME} or ${file:PATH}"},
        {"instance: ${file:}", "expected ${env:NAME} or ${file:PATH}"},
        {"instance: ${vault:a}", "expected ${env:NAME} or ${file:PATH}"},
        {"policies: {\"\": {}}", "a name"},
        {"policies: {[a]: {}}", "a name"},
        {"policies: {\"a\\0b\": {}}", "a name"},
        {"policies: {a: {retry: never, max_attempts: 3}}", "max_attempts"},
        {"policies: {a: {retry: never, deadline: 3h}}", "deadline"},
        {"policies: {a: {target: \"\\x7f\"}}", "expected the name of a topic, found \"?\""},
        {"instance: {a: "
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}",
         "found a mapping"},
        {"guarantee: "
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
         "aaa...\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (load_text(cases[i].text, strlen(cases[i].text)) != NULL)
            fail_msg("%s is taken", cases[i].text);
        if (strstr(faults, cases[i].why) == NULL)
            fail_msg("%s: '%s' is not in: %s", cases[i].text, cases[i].why, faults);
    }
    rp_config_free(load_good("schema_registry: {url: https://a}\nretention: {export: \"\"}\n"));
}

static void a_topic_s_name_has_the_characters_that_kafka_takes(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "z", "A", "Z", "0", "9", ".a", "_", "-", "..."};
    static const char *const bad[] = {"",  ".", "..", "/",   ":",       "@",
                                      "[", "`", "{",  "a b", "\xc3\xa4"};
    char longest[251];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(rp_config_is_topic_name(rp_str(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (rp_config_is_topic_name(rp_str(bad[i])))
            fail_msg("'%s' is taken", bad[i]);
    memset(longest, 'a', sizeof longest);
    assert_true(rp_config_is_topic_name((struct rp_bytes){longest, RP_MAX_TOPIC_NAME}));
    assert_false(rp_config_is_topic_name((struct rp_bytes){longest, RP_MAX_TOPIC_NAME + 1}));
}

static void what_differs_between_two_files_is_named(void **state)
{
    (void)state;
    static const char plain[] = "tiers: [1s, 2s]\nretention: {by_type: {a: 1d}}\n"
                                "kafka: {consumer: {client.rack: x}}\n";
    static const struct {
        const char *text, *differs;
    } others[] = {
        {plain, ""},
        {"policies: {default: {max_attempts: 9}}\ncategories: {OURS: {classes: [a]}}\n"
         "tiers: [1s, 2s]\nretention: {by_type: {a: 1d}}\nkafka: {consumer: {client.rack: x}}\n",
         ""},
        {"tiers: [1s, 3s]\nretention: {by_type: {a: 2d}}\nkafka: {consumer: {client.rack: y}}\n",
         "tiers, kafka, retention.by_type"},
        {"tiers: [1s]\nretention: {by_type: {b: 1d}}\nkafka: {producer: {client.rack: x}}\n",
         "tiers, kafka, retention.by_type"},
        {"tiers: [1s, 2s]\ninstance: x\nguarantee: at-least-once\ntargets: {allow: [t]}\n"
         "router: {batch: 7}\nlog: {format: json}\nretention: {by_type: {a: 1d}}\n"
         "kafka: {bootstrap.servers: x, consumer: {client.rack: x}}\n",
         "instance, guarantee, kafka, targets.allow, router.batch, log.format"},
    };
    char out[512], few[40];
    struct rp_config *config = load_good(plain), *other = NULL;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        rp_config_free(other);
        other = load_good(others[i].text);
        rp_config_compare(config, other, out, sizeof out);
        assert_string_equal(out, others[i].differs);
    }
    rp_config_compare(config, other, few, sizeof few);
    assert_string_equal(few, "instance, guarantee, kafka, ...");
    rp_config_free(other);
    rp_config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_file_gives_the_defaults),
        cmocka_unit_test(what_the_file_states_is_taken),
        cmocka_unit_test(a_retired_tier_is_read_and_not_sent_to),
        cmocka_unit_test(types_may_be_kept_for_less),
        cmocka_unit_test(every_fault_is_told_in_the_files_order),
        cmocka_unit_test(a_key_that_comes_twice_is_refused),
        cmocka_unit_test(a_value_of_the_wrong_shape_is_refused),
        cmocka_unit_test(texts_have_limits_and_forms),
        cmocka_unit_test(what_is_not_yaml_is_refused_with_its_line),
        cmocka_unit_test(a_file_that_cannot_be_read_is_a_fault),
        cmocka_unit_test(settings_that_contradict_each_other_are_refused),
        cmocka_unit_test(a_secret_comes_from_the_environment_or_a_file),
        cmocka_unit_test(a_secret_file_loses_one_newline_at_its_end),
        cmocka_unit_test(a_secret_file_is_short_text),
        cmocka_unit_test(too_many_items_or_entries_are_refused),
        cmocka_unit_test(a_section_is_a_mapping),
        cmocka_unit_test(a_variable_may_have_a_default),
        cmocka_unit_test(what_cannot_be_put_in_is_refused),
        cmocka_unit_test(a_fault_never_shows_a_secret),
        cmocka_unit_test(a_nul_is_refused_and_control_characters_never_shown),
        cmocka_unit_test(a_node_that_holds_itself_is_only_a_fault),
        cmocka_unit_test(faults_without_end_are_cut),
        cmocka_unit_test(our_own_topics_are_never_targets),
        cmocka_unit_test(what_was_allowed_last_makes_no_difference_to_what_is_allowed),
        cmocka_unit_test(a_target_needs_a_glob_that_allows_it_and_a_legal_name),
        cmocka_unit_test(the_reference_names_every_parameter),
        cmocka_unit_test(each_value_that_cannot_be_meant_is_refused),
        cmocka_unit_test(what_differs_between_two_files_is_named),
        cmocka_unit_test(a_topic_s_name_has_the_characters_that_kafka_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
