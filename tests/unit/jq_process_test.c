/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <cmocka.h>

#include "jq_process.h"

#define CPU_MS 10000

static int last_fd; /* whose patience was set */
static bool is_patient_reader, is_patient_writer;

int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t size);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t size);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
    last_fd = fd;
    is_patient_reader = is_patient_reader || name == SO_RCVTIMEO;
    is_patient_writer = is_patient_writer || name == SO_SNDTIMEO;
    return __real_setsockopt(fd, level, name, value, size);
}

static bool is_broken; /* this program, as where a library of it is replaced while it runs */

int __real_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *files,
                       const posix_spawnattr_t *attributes, char *const argv[], char *const env[]);
int __wrap_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *files,
                       const posix_spawnattr_t *attributes, char *const argv[], char *const env[]);
int __wrap_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *files,
                       const posix_spawnattr_t *attributes, char *const argv[], char *const env[])
{
    return __real_posix_spawn(pid, is_broken ? "/bin/false" : path, files, attributes, argv, env);
}

/* What would wait half a minute waits a tenth of a second. */
static void hurry(void)
{
    const struct timeval tenth = {.tv_usec = 100000};
    assert_true(is_patient_reader && is_patient_writer);
    assert_int_equal(__real_setsockopt(last_fd, SOL_SOCKET, SO_RCVTIMEO, &tenth, sizeof tenth), 0);
    assert_int_equal(__real_setsockopt(last_fd, SOL_SOCKET, SO_SNDTIMEO, &tenth, sizeof tenth), 0);
}

/* 0: there is none. */
static pid_t first_child(void)
{
    char path[64];
    int pid = 0;
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *in = fopen(path, "r");
    if (in == NULL || fscanf(in, "%d", &pid) != 1)
        pid = 0;
    if (in != NULL)
        (void)fclose(in);
    return pid;
}

static pid_t only_child(void)
{
    pid_t pid = first_child();
    assert_true(pid > 0);
    return pid;
}

static struct rp_jq_process *started(void)
{
    struct rp_jq_process *p;
    struct rp_error err;
    assert_int_equal(rp_jq_process_new(".", CPU_MS, &p, &err), 0);
    return p;
}

static void answers(struct rp_jq_process *p, struct rp_bytes json)
{
    struct rp_bytes out;
    struct rp_error err;
    assert_int_equal(rp_jq_process_run(p, json, &out, &err), 0);
    assert_true(rp_bytes_equal(out, json));
}

static void blames_no_message(struct rp_jq_process *p, struct rp_bytes json)
{
    struct rp_bytes out;
    struct rp_error err;
    assert_int_equal(rp_jq_process_run(p, json, &out, &err), -1);
    assert_int_equal(err.code, RP_E_IO);
    assert_int_equal(err.cls, RP_RETRIABLE);
}

/* What other threads have locked, or know, is not in it. */
static void it_is_no_copy_of_ours(void **state)
{
    struct rp_jq_process *p = started();
    char path[64], name[32] = "";
    (void)state;
    (void)snprintf(path, sizeof path, "/proc/%d/cmdline", (int)only_child());
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    assert_non_null(fgets(name, sizeof name, in));
    (void)fclose(in);
    assert_string_equal(name, "reprise-jq");
    rp_jq_process_free(p);
}

/* The parent's may have passwords in it. */
static void it_has_no_environment_of_ours(void **state)
{
    char path[64], variables[65536];
    (void)state;
    assert_int_equal(setenv("PGPASSWORD", "hunter2", 1), 0);
    struct rp_jq_process *p = started();
    (void)snprintf(path, sizeof path, "/proc/%d/environ", (int)only_child());
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    size_t n = fread(variables, 1, sizeof variables, in);
    (void)fclose(in);
    assert_null(memmem(variables, n, "hunter2", 7));
    rp_jq_process_free(p);
}

/* A terminal that is closed, or a service that is stopped, tells all processes of the group. */
static void what_ends_the_parent_does_not_end_it(void **state)
{
    static const int signals[] = {SIGINT, SIGQUIT, SIGHUP, SIGTERM};
    struct rp_jq_process *p = started();
    (void)state;
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        assert_int_equal(kill(only_child(), signals[i]), 0);
        answers(p, rp_str("1"));
    }
    rp_jq_process_free(p);
}

static void no_message_is_blamed_for_what_somebody_killed(void **state)
{
    static const int signals[] = {SIGKILL, SIGUSR1, SIGALRM};
    struct rp_jq_process *p = started();
    (void)state;
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        assert_int_equal(kill(only_child(), signals[i]), 0);
        blames_no_message(p, rp_str("1"));
        answers(p, rp_str("1"));
    }
    rp_jq_process_free(p);
}

/* It may not have begun. */
static void kill_it(int number)
{
    pid_t pid = first_child();
    (void)number;
    if (pid > 0)
        (void)kill(pid, SIGKILL);
}

/* By a container's memory, say, which is less than a program may take. */
static void a_message_that_is_killed_again_and_again_is_blamed(void **state)
{
    struct itimerval soon = {.it_value = {.tv_usec = 50000}};
    struct rp_jq_process *p;
    struct rp_bytes out;
    struct rp_error err = {.cls = RP_RETRIABLE};
    int tries = 0;
    (void)state;
    assert_int_equal(rp_jq_process_new("last(range(.))", CPU_MS, &p, &err), 0);
    assert_true(signal(SIGALRM, kill_it) != SIG_ERR);
    for (; err.cls == RP_RETRIABLE && tries < 100; tries++) {
        soon.it_value.tv_sec = tries / 20; /* a slow machine's process begins later */
        assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
        assert_int_equal(rp_jq_process_run(p, rp_str("1000000000"), &out, &err), -1);
    }
    assert_true(signal(SIGALRM, SIG_DFL) != SIG_ERR);
    assert_int_equal(err.cls, RP_POISON);
    assert_true(tries >= 3); /* on a slow machine some were killed before they had it */
    assert_int_equal(rp_jq_process_run(p, rp_str("2"), &out, &err), 0);
    rp_jq_process_free(p);
}

static void no_message_is_blamed_where_no_process_begins(void **state)
{
    struct rp_jq_process *p = started();
    (void)state;
    assert_int_equal(kill(only_child(), SIGKILL), 0);
    blames_no_message(p, rp_str("1"));
    is_broken = true;
    for (int i = 0; i < 3; i++)
        blames_no_message(p, rp_str("1"));
    is_broken = false;
    answers(p, rp_str("1"));
    rp_jq_process_free(p);
}

/* A process may be frozen. */
static void is_replaced_where_it_stands_still(struct rp_bytes json)
{
    struct rp_jq_process *p = started();
    assert_int_equal(kill(only_child(), SIGSTOP), 0);
    hurry();
    blames_no_message(p, json);
    answers(p, json);
    rp_jq_process_free(p);
}

static void one_that_stands_still_is_replaced(void **state)
{
    (void)state;
    is_replaced_where_it_stands_still(rp_str("1"));
}

/* What is larger than the socket holds waits for the process before there can be an answer. */
static void one_that_stands_still_is_replaced_before_it_has_read_all(void **state)
{
    static char text[4 << 20];
    (void)state;
    memset(text, ' ', sizeof text);
    text[0] = '1';
    is_replaced_where_it_stands_still((struct rp_bytes){text, sizeof text});
}

/* Else what is given back still counts against the limit. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "quarantine_size_mb=0";
}

/* 300 MB of text, which jq itself holds once. */
static const char huge[] = "if . == 1 then (\"x\" * 1000000) as $s | [range(300) | $s] else . end";

static void a_result_too_large_to_be_written_costs_one_message(void **state)
{
    struct rp_jq_process *p;
    struct rp_bytes out;
    struct rp_error err;
    (void)state;
    assert_int_equal(rp_jq_process_new(huge, CPU_MS, &p, &err), 0);
    assert_int_equal(rp_jq_process_run(p, rp_str("1"), &out, &err), -1);
    assert_int_equal(err.cls, RP_POISON);
    assert_int_equal(rp_jq_process_run(p, rp_str("2"), &out, &err), 0);
    assert_true(rp_bytes_equal(out, rp_str("2")));
    rp_jq_process_free(p);
}

/* 200 MB of text, then a value for which jq takes 400 MB. */
static const char large[] = "if . == 1 then (\"x\" * 1000000) as $s | [range(200) | $s]"
                            " else [range(200) | \"\\(.)\" + \"x\" * 1000000] | length end";

static void a_large_result_takes_no_memory_from_later_messages(void **state)
{
    struct rp_jq_process *p;
    struct rp_bytes out;
    struct rp_error err;
    (void)state;
    assert_int_equal(rp_jq_process_new(large, CPU_MS, &p, &err), 0);
    if (rp_jq_process_run(p, rp_str("1"), &out, &err) != 0)
        fail_msg("%s", err.text);
    assert_true(out.len > 200000000);
    if (rp_jq_process_run(p, rp_str("2"), &out, &err) != 0)
        fail_msg("%s", err.text);
    assert_true(rp_bytes_equal(out, rp_str("200")));
    rp_jq_process_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_no_copy_of_ours),
        cmocka_unit_test(it_has_no_environment_of_ours),
        cmocka_unit_test(what_ends_the_parent_does_not_end_it),
        cmocka_unit_test(no_message_is_blamed_for_what_somebody_killed),
        cmocka_unit_test(a_message_that_is_killed_again_and_again_is_blamed),
        cmocka_unit_test(no_message_is_blamed_where_no_process_begins),
        cmocka_unit_test(one_that_stands_still_is_replaced),
        cmocka_unit_test(one_that_stands_still_is_replaced_before_it_has_read_all),
        cmocka_unit_test(a_result_too_large_to_be_written_costs_one_message),
        cmocka_unit_test(a_large_result_takes_no_memory_from_later_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
