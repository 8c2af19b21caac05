/* SPDX-License-Identifier: Apache-2.0 */
/* What is begun while the system or a library refuses something, or memory runs out: it is there
 * whole, or that fails and says why, and nothing of it stays. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "archive_export.h"
#include "consumer.h"
#include "file_fixture.h"
#include "instance.h"
#include "log.h"
#include "memory_fixture.h"
#include "mock_fixture.h"
#include "outbox.h"
#include "process_metrics.h"
#include "producer.h"
#include "registry.h"
#include "replay_cursor.h"
#include "replay_message.h"
#include "replay_pulse.h"
#include "replay_rows.h"
#include "replay_sender.h"
#include "service.h"
#include "strays.h"
#include "system_fixture.h"

#define JOB "261122-abcdef"

static struct mock mock;
static struct rp_config *config;

static int set_up(void **state)
{
    (void)state;
    mock_start(&mock, 1, "retry-7s"); /* a tier that the configuration does not have */
    mock_produce(&mock, "retry-7s", 1);
    config = mock_config(&mock);
    assert_int_equal(rd_kafka_mock_topic_create(mock.cluster, config->topics.dead_letter, 1, 1), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rp_config_free(config);
    mock_stop(&mock);
    return 0;
}

static void assigned(void *opaque, const rd_kafka_topic_partition_list_t *parts)
{
    (void)opaque;
    (void)parts;
}

static void revoked(void *opaque, const rd_kafka_topic_partition_list_t *parts, bool lost)
{
    (void)opaque;
    (void)parts;
    (void)lost;
}

static int start_consumer(struct rp_error *err)
{
    static const struct rp_property fetch = {(char *)"fetch.wait.max.ms", (char *)"10"};
    static char topic[] = "retry-7s";
    static char *const topics[] = {topic};
    const struct rp_consumer_options options = {.group = "a-group",
                                                .instance = "one-0",
                                                .topics = topics,
                                                .n_topics = 1,
                                                .defaults = &fetch,
                                                .n_defaults = 1};
    const struct rp_consumer_owner owner = {NULL, assigned, revoked};
    struct rp_consumer *c;
    if (rp_consumer_new(config, &options, &owner, &c, err) != 0)
        return -1;
    rp_consumer_close(c);
    return 0;
}

static int start_producer(struct rp_error *err)
{
    static atomic_bool unanswered;
    const struct rp_producer_spec spec = {.config = config,
                                          .id = "one",
                                          .linger_ms = "5",
                                          .transactional = true,
                                          .unanswered = &unanswered};
    rd_kafka_t *rk;
    if (rp_producer_new(&spec, "-next", &rk, err) != 0)
        return -1;
    rd_kafka_destroy(rk);
    return 0;
}

static int start_publisher(struct rp_error *err)
{
    struct rp_publisher *p;
    if (rp_publisher_new(config, "one", "5", &p, err) != 0)
        return -1;
    int rc = rp_publisher_begin(p, err);
    rp_publisher_free(p);
    return rc;
}

static int start_admin(struct rp_error *err)
{
    rd_kafka_t *rk;
    if (rp_kafka_new_admin(config, &rk, err) != 0)
        return -1;
    rd_kafka_destroy(rk);
    return 0;
}

static int read_cursor(struct rp_error *err)
{
    int64_t next;
    int rc = rp_replay_cursor_read(config, JOB, "a-stamp", &next, err);
    if (rc == 0)
        assert_int_equal(next, -1);
    return rc;
}

static int n_strays;

static void tell_stray(void *opaque, const char *topic, bool retired, int64_t records)
{
    (void)opaque;
    assert_string_equal(topic, "retry-7s");
    assert_false(retired);
    assert_int_equal(records, 1);
    n_strays++;
}

static int find_strays(struct rp_error *err)
{
    n_strays = 0;
    int rc = rp_strays_find(config, NULL, tell_stray, NULL, err);
    assert_int_equal(n_strays, rc == 0);
    return rc;
}

static void clients_of_kafka_are_made_or_say_why_not(void **state)
{
    (void)state;
    assert_true(refuse_each(start_consumer) > 20);
    assert_true(refuse_each(start_producer) > 20);
    assert_true(refuse_each(start_publisher) > 60); /* three producers */
    assert_true(refuse_each(start_admin) > 5);
    assert_true(refuse_each(read_cursor) > 10);
    assert_true(refuse_each(find_strays) > 10);
}

static int start_outbox(struct rp_error *err)
{
    struct rp_worker worker = {.config = config};
    struct rp_outbox outbox;
    int rc = rp_outbox_init(&outbox, &worker, "one", "5", 100, err);
    rp_outbox_clear(&outbox);
    return rc;
}

/* What its records take is not known then, so it is not judged. */
static void without_its_settings_a_producer_may_compress(void **state)
{
    struct rp_error err;
    (void)state;
    assert_false(rp_kafka_compresses(config));
    system_refuse("rd_kafka_conf_set");
    assert_true(rp_kafka_compresses(config));
    system_refuse("rd_kafka_new");
    assert_int_equal(start_outbox(&err), -1);
    system_refuse(NULL);
    assert_int_equal(err.cls, RP_FATAL);
    assert_string_equal(err.text, "cannot make a Kafka client: refused");
}

static int start_registry(struct rp_error *err)
{
    const struct rp_registry_options options = {
        .url = "http://127.0.0.1:1//", .username = "u", .password = NULL, .ca_file = "/a"};
    struct rp_registry *r;
    if (rp_registry_new(&options, &r, err) != 0)
        return -1;
    rp_registry_free(r);
    return 0;
}

static void a_registry_s_client_is_made_or_says_why_not(void **state)
{
    struct rp_registry *r;
    struct rp_error err;
    const char *json;
    (void)state;
    const struct rp_registry_options options = {.url = "http://127.0.0.1:1"};
    assert_int_equal(refuse_each(start_registry), 3);
    assert_true(starve(start_registry) >= 3);
    assert_int_equal(rp_registry_new(&options, &r, &err), 0);
    system_refuse("pthread_create");
    assert_int_equal(rp_registry_schema(r, 1, &json, &err), -1);
    system_refuse(NULL);
    assert_int_equal(err.cls, RP_RETRIABLE);
    assert_non_null(strstr(err.text, "no thread"));
    rp_registry_free(r);
}

static int start_pulse(struct rp_error *err)
{
    const struct rp_replay_job job = {.id = JOB};
    struct rp_replay_pulse *p;
    if (rp_replay_pulse_start("host=/nowhere", &job, &p, err) != 0)
        return -1;
    rp_replay_pulse_stop(p);
    return 0;
}

static int start_rows(struct rp_error *err)
{
    struct rp_replay_rows *r;
    if (rp_replay_rows_new("host=/nowhere", JOB, false, &r, err) != 0)
        return -1;
    rp_replay_rows_free(r);
    return 0;
}

static int refuse_items(void *opaque, const char *json, struct rp_error *err)
{
    (void)opaque;
    (void)json;
    (void)err;
    return 0;
}

static int start_sender(struct rp_error *err)
{
    const struct rp_replay_job job = {.id = JOB};
    struct rp_replay_sender *s = NULL;
    struct rp_config with_dsn = *config;
    with_dsn.postgres.dsn = (char *)(uintptr_t) "host=/nowhere";
    int rc = rp_replay_sender_new(&with_dsn, &job, (struct rp_replay_refuser){NULL, refuse_items},
                                  &s, err);
    assert_int_equal(s == NULL, rc != 0);
    rp_replay_sender_free(s);
    return rc;
}

static int start_maker(struct rp_error *err)
{
    struct rp_replay_options options;
    struct rp_replay_maker *m = NULL;
    rp_replay_options_init(&options);
    int rc = rp_replay_maker_new(config, &options, JOB, mock.producer, &m, err);
    assert_int_equal(m == NULL, rc != 0);
    rp_replay_maker_free(m);
    rp_replay_options_clear(&options);
    return rc;
}

static void a_replay_is_begun_or_says_why_not(void **state)
{
    (void)state;
    assert_int_equal(refuse_each(start_pulse), 1);
    assert_true(refuse_each(start_sender) > 5);
    assert_true(starve(start_rows) >= 3);
    assert_true(starve(start_sender) >= 5);
    assert_true(starve(start_maker) > 5);
}

static int take_offset(struct rp_error *err)
{
    rd_kafka_topic_partition_list_t *list = rp_replay_cursor_at(config, 7, "a-stamp");
    if (list == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no stamp");
    assert_int_equal(list->elems[0].offset, 7);
    assert_int_equal(list->elems[0].metadata_size, 7);
    rd_kafka_topic_partition_list_destroy(list);
    return 0;
}

static void what_is_begun_has_its_memory_or_says_that_there_is_none(void **state)
{
    (void)state;
    assert_int_equal(starve(start_consumer), 2);
    assert_true(starve(start_publisher) >= 2);
    assert_true(starve(start_outbox) >= 4);
    assert_int_equal(starve(take_offset), 1);
}

static char path[] = "/tmp/reprise-start-XXXXXX";

static int begin_export(struct rp_error *err, bool commit)
{
    char part[sizeof path + 5];
    struct rp_export *e;
    (void)snprintf(part, sizeof part, "%s.part", path);
    int rc = rp_export_open(path, &e, err);
    if (rc == 0) {
        rc = rp_export_line(e, rp_str("{}"), err);
        if (rc == 0 && commit)
            rc = rp_export_commit(e, err);
        rp_export_free(e);
    }
    bool others = rc != 0 && err->code == RP_E_INVALID, named = unlink(path) == 0;
    assert_int_equal(unlink(part), others ? 0 : -1);
    assert_true(named || rc != 0 || !commit);
    return rc;
}

static int export_open(struct rp_error *err)
{
    return begin_export(err, false);
}

static int export_all(struct rp_error *err)
{
    return begin_export(err, true);
}

static void an_export_is_there_whole_or_not_at_all(void **state)
{
    struct rp_error err;
    struct rp_export *e;
    (void)state;
    file_make(path, "", 0);
    assert_int_equal(unlink(path), 0);
    int n = system_open_files();
    assert_true(refuse_each(export_all) > 5);
    assert_int_equal(system_open_files(), n);
    assert_true(starve(export_open) >= 3);
    system_refuse("renameat2"); /* as of a file system that cannot keep what is there */
    assert_int_equal(export_all(&err), 0);
    assert_int_equal(rp_export_open(path, &e, &err), 0);
    FILE *other = fopen(path, "we");
    assert_non_null(other);
    (void)fclose(other);
    assert_int_equal(rp_export_commit(e, &err), -1);
    system_refuse(NULL);
    assert_int_equal(err.code, RP_E_INVALID);
    assert_non_null(strstr(err.text, "exists already"));
    rp_export_free(e);
    assert_int_equal(unlink(path), 0);
}

static const struct rp_service_config *section(const struct rp_config *c)
{
    return &c->router;
}

static pthread_t main_thread;

/* Stops the service it is of. Threads of the mock cluster do not block signals. */
static int run(struct rp_worker *w, struct rp_error *err)
{
    (void)err;
    if (w->index == 0)
        (void)pthread_kill(main_thread, SIGTERM);
    while (!atomic_load(w->stop))
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return 0;
}

static char service_file[] = "/tmp/reprise-start-XXXXXX";

static int serve(struct rp_error *err)
{
    static const struct rp_service_def def = {
        .name = "a-service", .about = "", .section = section, .run = run};
    char name[] = "a-service", config_flag[] = "-c";
    char *argv[] = {name, config_flag, service_file, NULL};
    sigset_t terms;
    (void)sigemptyset(&terms);
    (void)sigaddset(&terms, SIGTERM);
    main_thread = pthread_self();
    int code = rp_service_main(&def, 3, argv);
    while (sigtimedwait(&terms, NULL, &(struct timespec){0}) == SIGTERM)
        continue; /* from one that had begun to run */
    if (code == 0)
        return 0;
    assert_in_range(code, 1, 2); /* 2: librdkafka checks the configuration */
    return rp_fail(err, RP_E_IO, RP_FATAL, "exit code %d", code);
}

static void a_service_serves_or_exits_with_a_failure(void **state)
{
    static const char text[] = "kafka: {bootstrap.servers: \"none:1\"}\n"
                               "router: {workers: 2, listen: \"127.0.0.1:0\"}\n"
                               "targets: {allow: [x]}\n";
    (void)state;
    file_make(service_file, text, sizeof text - 1);
    int n = system_open_files();
    assert_true(refuse_each(serve) >= 11);
    assert_int_equal(system_open_files(), n);
    assert_int_equal(unlink(service_file), 0);
    rp_log_setup(RP_LOG_ERROR + 1, false, "test");
}

static int claim(struct rp_error *err)
{
    struct rp_instance *i;
    if (rp_instance_claim(NULL, "start_test", &i, err) != 0)
        return -1;
    rp_instance_release(i);
    return 0;
}

static void a_nameless_machine_is_localhost(void **state)
{
    struct rp_instance *i;
    struct rp_error err;
    (void)state;
    assert_int_equal(starve(claim), 1);
    system_refuse("gethostname");
    assert_int_equal(rp_instance_claim(NULL, "start_test", &i, &err), 0);
    system_refuse(NULL);
    assert_int_equal(strncmp(rp_instance_name(i), "localhost-", 10), 0);
    rp_instance_release(i);
    system_refuse("fopen"); /* no /etc/machine-id */
    assert_int_equal(rp_instance_claim(NULL, "start_test", &i, &err), 0);
    system_refuse(NULL);
    rp_instance_release(i);
}

static int write_metrics(struct rp_error *err)
{
    struct rp_buf out = {0};
    int rc = rp_process_metrics_write(&out, err);
    rp_buf_clear(&out);
    return rc;
}

static void what_the_system_does_not_tell_of_a_process_is_left_out(void **state)
{
    static const char *const of[][2] = {{"fopen", "process_resident_memory_bytes "},
                                        {"opendir", "process_open_fds "},
                                        {"getrusage", "process_cpu_seconds_total "}};
    struct rp_error err;
    (void)state;
    for (size_t refused = 0; refused < 4; refused++) { /* at last, none */
        struct rp_buf out = {0};
        system_refuse(refused < 3 ? of[refused][0] : NULL);
        assert_int_equal(rp_process_metrics_write(&out, &err), 0);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(memmem(out.data, out.len, of[i][1], strlen(of[i][1])) == NULL,
                             i == refused);
        rp_buf_clear(&out);
    }
    assert_true(starve(write_metrics) >= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(clients_of_kafka_are_made_or_say_why_not, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(without_its_settings_a_producer_may_compress, set_up,
                                        tear_down),
        cmocka_unit_test(a_registry_s_client_is_made_or_says_why_not),
        cmocka_unit_test_setup_teardown(a_replay_is_begun_or_says_why_not, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_begun_has_its_memory_or_says_that_there_is_none,
                                        set_up, tear_down),
        cmocka_unit_test(an_export_is_there_whole_or_not_at_all),
        cmocka_unit_test(a_service_serves_or_exits_with_a_failure),
        cmocka_unit_test(a_nameless_machine_is_localhost),
        cmocka_unit_test(what_the_system_does_not_tell_of_a_process_is_left_out),
    };
    rp_log_setup(RP_LOG_ERROR + 1, false, "test");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
