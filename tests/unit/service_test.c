/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "service.h"

/* A service runs in a process of its own, since it takes signals and may end at once. What its
 * workers tell comes through a pipe, a byte each; what it logs goes to a file. */

static char folder[64], config_file[96], log_file[96];
static int tells[2];
static int goes_on[2]; /* what a worker waits for */

/* How far rp_mono_tick_ms, which tells how long a worker is stuck, is ahead. */
static _Atomic int64_t ahead_ms;

int64_t __real_rp_mono_tick_ms(void);
int64_t __wrap_rp_mono_tick_ms(void);

int64_t __wrap_rp_mono_tick_ms(void)
{
    return __real_rp_mono_tick_ms() + ahead_ms;
}

static int setup(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/service_test.XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    (void)snprintf(config_file, sizeof config_file, "%s/reprise.yaml", folder);
    (void)snprintf(log_file, sizeof log_file, "%s/log", folder);
    return 0;
}

static int teardown(void **state)
{
    char command[128];
    (void)state;
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static void write_config(const char *router)
{
    FILE *f = fopen(config_file, "w");
    assert_non_null(f);
    (void)fprintf(f,
                  "kafka: {bootstrap.servers: 'localhost:9092'}\n"
                  "router: {workers: 2, %s}\n"
                  "policies:\n  default: {max_attempts: 4, target: first-target}\n",
                  router);
    assert_int_equal(fclose(f), 0);
}

static void append_to_config(const char *text)
{
    FILE *f = fopen(config_file, "a");
    assert_non_null(f);
    (void)fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void tell(char what)
{
    if (write(tells[1], &what, 1) != 1)
        _exit(99);
}

static void assert_told(char what)
{
    char got = 0;
    assert_int_equal(read(tells[0], &got, 1), 1);
    assert_int_equal(got, what);
}

static const struct rp_service_config *section(const struct rp_config *config)
{
    return &config->router;
}

/* A worker that looks at its policies and at the stop flag, as ours do once a batch. */
static int run_until_stopped(struct rp_worker *w, struct rp_error *err)
{
    char target = 'f';
    (void)err;
    atomic_store(&w->ready, true);
    if (w->index == 0)
        tell('r');
    while (!rp_worker_stopping(w)) {
        const struct rp_policy *p = rp_policies_match(rp_worker_policies(w), rp_str("x"));
        if (w->index == 0 && rp_policy_target(p)[0] != target)
            tell(target = rp_policy_target(p)[0]);
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    }
    return 0;
}

static int run_for_ever(struct rp_worker *w, struct rp_error *err)
{
    bool told = false;
    (void)err;
    if (w->index == 0)
        tell('r');
    for (;;) {
        if (w->index == 0 && !told && atomic_load(w->stop)) {
            told = true;
            tell('s');
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    }
    return 0;
}

static int run_and_fail(struct rp_worker *w, struct rp_error *err)
{
    if (w->index == 1)
        return rp_fail(err, RP_E_KAFKA, RP_FATAL, "the cluster refuses us");
    return run_until_stopped(w, err);
}

static int run_and_end_early(struct rp_worker *w, struct rp_error *err)
{
    return w->index == 1 ? 0 : run_until_stopped(w, err);
}

/* First it loses its place and begins again; at the stop once more. */
static int run_and_be_replaced(struct rp_worker *w, struct rp_error *err)
{
    static atomic_bool began;
    if (w->index == 1 && !atomic_exchange(&began, true))
        return rp_fail(err, RP_E_FENCED, RP_FATAL, "somebody has its place");
    if (w->index == 1)
        tell('b');
    (void)run_until_stopped(w, err);
    return w->index == 0 ? 0 : rp_fail(err, RP_E_FENCED, RP_FATAL, "once more");
}

typedef int run_fn(struct rp_worker *w, struct rp_error *err);

/* Runs "reprise-test <words>", its output in the log. Where it ends, so does the pipe. */
static pid_t start(run_fn *run, const char *words)
{
    if (tells[0] > 0)
        (void)close(tells[0]);
    assert_int_equal(pipe(tells), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0) {
        (void)close(tells[1]);
        return pid;
    }
    char line[256], *save, *argv[16] = {(char[]){"reprise-test"}};
    int argc = 1;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)snprintf(line, sizeof line, "%s", words);
    for (char *w = strtok_r(line, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save))
        argv[argc++] = w;
    if (freopen(log_file, "w", stderr) == NULL || freopen(log_file, "a", stdout) == NULL)
        _exit(98);
    struct rp_service_def def = {"reprise-test", "Tests the frame.", section, run};
    exit(rp_service_main(&def, argc, argv));
}

static pid_t start_with_config(run_fn *run)
{
    char words[128];
    (void)snprintf(words, sizeof words, "--config %s", config_file);
    return start(run, words);
}

static int exit_code(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static const char *read_log(void)
{
    static char text[1 << 16];
    FILE *f = fopen(log_file, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    (void)fclose(f);
    return text;
}

static void assert_logged(const char *what)
{
    const char *text = read_log();
    if (strstr(text, what) == NULL)
        fail_msg("'%s' is not in: %s", what, text);
}

/* Asks the service where its log says that it listens. */
static void assert_answers(const char *path, const char *status, const char *body)
{
    static const char listens[] = "listening address=127.0.0.1:";
    char request[128], answer[1024];
    const char *port = strstr(read_log(), listens);
    assert_non_null(port);
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                            .sin_port = htons((uint16_t)atoi(port + strlen(listens)))};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&a, sizeof a), 0);
    int n = snprintf(request, sizeof request, "GET %s HTTP/1.0\r\n\r\n", path);
    assert_int_equal(send(fd, request, (size_t)n, 0), n);
    ssize_t len = recv(fd, answer, sizeof answer - 1, MSG_WAITALL);
    assert_true(len > 12);
    answer[len] = '\0';
    (void)close(fd);
    assert_memory_equal(answer + 9, status, 3);
    assert_non_null(strstr(answer, body));
}

static void a_signal_drains_and_exits_with_0(void **state)
{
    (void)state;
    static const int signals[] = {SIGTERM, SIGINT};
    write_config("listen: '127.0.0.1:0'");
    for (int i = 0; i < 2; i++) {
        pid_t pid = start_with_config(run_until_stopped);
        assert_told('r');
        assert_int_equal(kill(pid, signals[i]), 0);
        assert_int_equal(exit_code(pid), 0);
        assert_logged("draining why=SIG");
        assert_logged("stopped exit=0");
    }
}

/* The second worker does not ask whether to stop, until it is let go. */
static int run_and_get_stuck(struct rp_worker *w, struct rp_error *err)
{
    char go_on;
    (void)err;
    if (w->index == 1) {
        atomic_store(&w->ready, true);
        if (read(goes_on[0], &go_on, 1) != 1)
            return -1;
    }
    while (!rp_worker_stopping(w)) {
        atomic_store(&w->ready, true);
        if (w->index == 0 && ahead_ms == 0) {
            ahead_ms = RP_STUCK_MS;
            (void)rp_worker_stopping(w);
            tell('r');
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    }
    return 0;
}

static void a_worker_that_is_stuck_is_told_of(void **state)
{
    (void)state;
    write_config("listen: '127.0.0.1:0'");
    assert_int_equal(pipe(goes_on), 0);
    pid_t pid = start_with_config(run_and_get_stuck);
    assert_told('r');
    assert_answers("/healthz", "503", "worker 2 of 2 has been stuck for 3");
    assert_answers("/readyz", "503", "worker 2 of 2 has been stuck for 3");
    assert_int_equal(kill(pid, SIGHUP), 0); /* or it would look some seconds later */
    for (int i = 0; i < 60000 && strstr(read_log(), "worker-stuck") == NULL; i++)
        (void)usleep(1000);
    assert_logged("worker-stuck worker=1 seconds=3");
    assert_int_equal(write(goes_on[1], "g", 1), 1);
    assert_int_equal(kill(pid, SIGTERM), 0);
    assert_int_equal(exit_code(pid), 0);
    (void)close(goes_on[0]);
    (void)close(goes_on[1]);
}

static void a_second_signal_gives_the_drain_up(void **state)
{
    (void)state;
    write_config("listen: '127.0.0.1:0', drain: 1h");
    pid_t pid = start_with_config(run_for_ever);
    assert_told('r');
    assert_answers("/readyz", "503", "worker 1 of 2 is not ready");
    assert_int_equal(kill(pid, SIGTERM), 0);
    assert_told('s');
    assert_answers("/readyz", "503", "draining");
    assert_int_equal(kill(pid, SIGTERM), 0);
    assert_int_equal(exit_code(pid), 3);
    assert_logged("drain-abandoned why=\"a second signal\" workers=2");
}

static void a_drain_has_an_end(void **state)
{
    (void)state;
    write_config("listen: '127.0.0.1:0', drain: 1s");
    pid_t pid = start_with_config(run_for_ever);
    assert_told('r');
    assert_int_equal(kill(pid, SIGTERM), 0);
    assert_int_equal(exit_code(pid), 3);
    assert_logged("why=\"the deadline has passed\"");
}

static void a_worker_that_fails_ends_the_others_and_exits_with_1(void **state)
{
    (void)state;
    write_config("listen: '127.0.0.1:0'");
    pid_t pid = start_with_config(run_and_fail);
    assert_int_equal(exit_code(pid), 1);
    assert_logged("worker-failed worker=1 error=\"the cluster refuses us\"");
}

/* The other one goes on until it is told. */
static int run_and_fail_beside_a_slow_one(struct rp_worker *w, struct rp_error *err)
{
    if (w->index == 1)
        return rp_fail(err, RP_E_KAFKA, RP_FATAL, "the cluster refuses us");
    while (!atomic_load(w->stop))
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    tell('s');
    char go_on;
    return read(goes_on[0], &go_on, 1) == 1 ? 0 : -1;
}

/* Until the process has taken the signal, or has ended. */
static void await_taken(pid_t pid, int signal_number)
{
    char path[64], line[128];
    unsigned long long pending = ~0ULL;
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    while ((pending >> (signal_number - 1) & 1) != 0) {
        FILE *f = fopen(path, "r");
        assert_non_null(f);
        while (fgets(line, sizeof line, f) != NULL)
            (void)sscanf(line, "ShdPnd: %llx", &pending);
        assert_int_equal(fclose(f), 0);
    }
}

static void the_first_signal_after_a_failure_leaves_the_others_their_time(void **state)
{
    (void)state;
    write_config("listen: '127.0.0.1:0', drain: 1h");
    assert_int_equal(pipe(goes_on), 0);
    pid_t pid = start_with_config(run_and_fail_beside_a_slow_one);
    assert_told('s');
    assert_int_equal(kill(pid, SIGTERM), 0);
    await_taken(pid, SIGTERM);
    assert_int_equal(write(goes_on[1], "g", 1), 1);
    assert_int_equal(exit_code(pid), 1);
    (void)close(goes_on[0]);
    (void)close(goes_on[1]);
}

static void a_worker_that_lost_its_place_is_none(void **state)
{
    (void)state;
    write_config("listen: '127.0.0.1:0'");
    pid_t pid = start_with_config(run_and_be_replaced);
    assert_told('r');
    assert_told('b');
    assert_int_equal(kill(pid, SIGTERM), 0);
    assert_int_equal(exit_code(pid), 0);
    assert_logged("worker-begins-again worker=1 error=\"somebody has its place\"");
}

static void a_worker_that_ends_early_is_a_failure(void **state)
{
    (void)state;
    write_config("listen: '127.0.0.1:0'");
    assert_int_equal(exit_code(start_with_config(run_and_end_early)), 1);
    assert_logged("worker-ended-early worker=1");
}

static void a_hangup_hands_new_policies_to_the_workers(void **state)
{
    (void)state;
    write_config("listen: '127.0.0.1:0'");
    pid_t pid = start_with_config(run_until_stopped);
    assert_told('r');
    append_to_config("  x: {target: second-target}\ntiers: [2s]\n");
    assert_int_equal(kill(pid, SIGHUP), 0);
    assert_told('s');
    assert_int_equal(kill(pid, SIGTERM), 0);
    assert_int_equal(exit_code(pid), 0);
    assert_logged("policies-reloaded");
    assert_logged("restart-needed parameters=tiers ");
}

/* They may name what is a topic of ours by now. */
static void a_hangup_with_another_prefix_keeps_the_old_policies(void **state)
{
    (void)state;
    write_config("listen: '127.0.0.1:0'");
    pid_t pid = start_with_config(run_until_stopped);
    assert_told('r');
    append_to_config("  x: {target: dead-letter}\ntopics: {prefix: p.}\n");
    assert_int_equal(kill(pid, SIGHUP), 0);
    assert_int_equal(kill(pid, SIGTERM), 0);
    assert_int_equal(exit_code(pid), 0);
    assert_logged("reload-refused error=\"topics.prefix is another one");
}

static void a_hangup_with_a_bad_file_keeps_the_old_policies(void **state)
{
    (void)state;
    write_config("listen: '127.0.0.1:0'");
    pid_t pid = start_with_config(run_until_stopped);
    assert_told('r');
    write_config("listen: '127.0.0.1:0', nonsense: 1");
    assert_int_equal(kill(pid, SIGHUP), 0);
    assert_int_equal(kill(pid, SIGTERM), 0); /* of two that wait, the hangup is taken first */
    assert_int_equal(exit_code(pid), 0);
    assert_logged("configuration-fault");
    assert_logged("reload-refused");
}

static void a_taken_listen_address_of_the_file_stops_the_start(void **state)
{
    (void)state;
    write_config("listen: '203.0.113.1:1'");
    assert_int_equal(exit_code(start_with_config(run_until_stopped)), 1);
    assert_logged("start-failed error=\"cannot listen on 203.0.113.1:1");
}

static void check_says_whether_the_file_is_good(void **state)
{
    (void)state;
    char words[128];
    (void)snprintf(words, sizeof words, "--check -c %s", config_file);
    write_config("listen: '127.0.0.1:0'");
    assert_int_equal(exit_code(start(run_until_stopped, words)), 0);
    assert_logged("the configuration is good");
    write_config("nonsense: 1");
    assert_int_equal(exit_code(start(run_until_stopped, words)), 2);
    assert_logged("reprise.yaml:2: ");
    assert_logged("nonsense");
}

static void a_bad_file_or_argument_exits_with_2(void **state)
{
    (void)state;
    assert_int_equal(exit_code(start(run_until_stopped, "-c /nowhere.yaml")), 2);
    assert_logged("/nowhere.yaml");
    assert_int_equal(exit_code(start(run_until_stopped, "--nonsense")), 2);
    assert_logged("Try 'reprise-test --help'");
    assert_int_equal(exit_code(start(run_until_stopped, "word")), 2);
    assert_logged("unexpected argument 'word'");
}

static void help_version_and_reference_need_no_file(void **state)
{
    (void)state;
    assert_int_equal(exit_code(start(run_until_stopped, "--help")), 0);
    assert_logged("Tests the frame.");
    assert_logged("Exit codes: 0 drained");
    assert_int_equal(exit_code(start(run_until_stopped, "--version")), 0);
    assert_logged("reprise-test " REPRISE_VERSION "\n");
    assert_int_equal(exit_code(start(run_until_stopped, "--reference")), 0);
    assert_logged("clock_skew");
}

#define SERVICE_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVICE_TEST(a_signal_drains_and_exits_with_0),
        SERVICE_TEST(a_worker_that_is_stuck_is_told_of),
        SERVICE_TEST(a_second_signal_gives_the_drain_up),
        SERVICE_TEST(a_drain_has_an_end),
        SERVICE_TEST(a_worker_that_fails_ends_the_others_and_exits_with_1),
        SERVICE_TEST(the_first_signal_after_a_failure_leaves_the_others_their_time),
        SERVICE_TEST(a_worker_that_lost_its_place_is_none),
        SERVICE_TEST(a_worker_that_ends_early_is_a_failure),
        SERVICE_TEST(a_hangup_hands_new_policies_to_the_workers),
        SERVICE_TEST(a_hangup_with_another_prefix_keeps_the_old_policies),
        SERVICE_TEST(a_hangup_with_a_bad_file_keeps_the_old_policies),
        SERVICE_TEST(a_taken_listen_address_of_the_file_stops_the_start),
        SERVICE_TEST(check_says_whether_the_file_is_good),
        SERVICE_TEST(a_bad_file_or_argument_exits_with_2),
        SERVICE_TEST(help_version_and_reference_need_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
