/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "instance.h"

static char key[40]; /* no other test's */

static int setup(void **state)
{
    (void)state;
    return snprintf(key, sizeof key, "instance_test %ld", (long)getpid()) > 0 ? 0 : -1;
}

static struct rp_instance *claim(const char *configured, const char *service)
{
    struct rp_instance *i;
    struct rp_error err;
    char whole[80];
    (void)snprintf(whole, sizeof whole, "%s %s", key, service);
    if (rp_instance_claim(configured, whole, &i, &err) != 0)
        fail_msg("%s", err.text);
    return i;
}

static void processes_of_one_kind_get_slots_of_their_own(void **state)
{
    (void)state;
    struct rp_instance *a = claim("router", "k"), *b = claim("router", "k");
    assert_string_equal(rp_instance_name(a), "router-0");
    assert_string_equal(rp_instance_name(b), "router-1");
    rp_instance_release(a);
    rp_instance_release(b);
}

static void a_slot_given_back_is_taken_again(void **state)
{
    (void)state;
    struct rp_instance *a = claim("router", "k"), *b = claim("router", "k");
    rp_instance_release(a);
    a = claim("router", "k");
    assert_string_equal(rp_instance_name(a), "router-0");
    rp_instance_release(a);
    rp_instance_release(b);
}

static void the_environment_does_not_matter(void **state)
{
    (void)state;
    assert_int_equal(setenv("XDG_RUNTIME_DIR", "/tmp", 1), 0);
    struct rp_instance *a = claim(NULL, "k"), *x = claim("router", "k");
    assert_int_equal(unsetenv("XDG_RUNTIME_DIR"), 0);
    struct rp_instance *b = claim(NULL, "k"), *y = claim("router", "k");
    assert_string_not_equal(rp_instance_name(a), rp_instance_name(b));
    assert_string_not_equal(rp_instance_name(x), rp_instance_name(y));
    rp_instance_release(a);
    rp_instance_release(b);
    rp_instance_release(x);
    rp_instance_release(y);
}

/* Claims and gives back; returns what went wrong. */
static void *claim_and_release(void *opaque)
{
    atomic_int *holders = opaque;
    for (int i = 0; i < 2000; i++) {
        struct rp_instance *a;
        if (rp_instance_claim("x", key, &a, NULL) != 0)
            return "refused";
        int slot = atoi(rp_instance_name(a) + 2);
        if (atomic_fetch_add(&holders[slot], 1) != 0)
            return "two processes have one slot";
        (void)sched_yield();
        (void)atomic_fetch_sub(&holders[slot], 1);
        rp_instance_release(a);
    }
    return NULL;
}

static void claims_that_race_with_releases_never_share_a_slot(void **state)
{
    (void)state;
    static atomic_int holders[1000];
    pthread_t threads[4];
    void *fault;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, claim_and_release, holders), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], &fault), 0);
        if (fault != NULL)
            fail_msg("%s", (const char *)fault);
    }
}

static void other_keys_and_names_have_slots_of_their_own(void **state)
{
    (void)state;
    struct rp_instance *a = claim("x", "router"), *b = claim("x", "delayer"),
                       *c = claim("y", "router");
    assert_string_equal(rp_instance_name(a), "x-0");
    assert_string_equal(rp_instance_name(b), "x-0");
    assert_string_equal(rp_instance_name(c), "y-0");
    rp_instance_release(a);
    rp_instance_release(b);
    rp_instance_release(c);
}

static void without_a_name_host_and_key_make_it(void **state)
{
    (void)state;
    struct rp_instance *a = claim(NULL, "router"), *b = claim(NULL, "delayer");
    char host[41] = "";
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    assert_int_equal(strncmp(rp_instance_name(a), host, strlen(host)), 0);
    assert_string_not_equal(rp_instance_name(a), rp_instance_name(b));
    assert_string_equal(rp_instance_name(a) + strlen(rp_instance_name(a)) - 2, "-0");
    assert_true(strlen(rp_instance_name(a)) < 80);
    rp_instance_release(a);
    rp_instance_release(b);
}

/* The machine's name is played here; "": its own. */
static char played[80];

int __real_gethostname(char *name, size_t size);
int __wrap_gethostname(char *name, size_t size);
int __wrap_gethostname(char *name, size_t size)
{
    if (played[0] == '\0')
        return __real_gethostname(name, size);
    if (strlen(played) >= size) /* as the C library does */
        return -1;
    memcpy(name, played, strlen(played) + 1);
    return 0;
}

static void machines_with_long_names_are_told_apart(void **state)
{
    (void)state;
    char first[100];
    memset(played, 'h', 64);
    struct rp_instance *a = claim(NULL, "k");
    (void)snprintf(first, sizeof first, "%s", rp_instance_name(a));
    rp_instance_release(a);
    played[63] = 'i';
    struct rp_instance *b = claim(NULL, "k");
    assert_string_not_equal(rp_instance_name(b), first);
    assert_memory_equal(rp_instance_name(b), "hhhhh", 5);
    rp_instance_release(b);
    memset(played, 0, sizeof played);
}

/* A process that claims a slot, tells its name, and never ends by itself. */
static pid_t start_holder(char *name, size_t size)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct rp_instance *i;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (rp_instance_claim(NULL, key, &i, NULL) != 0 ||
            write(fds[1], rp_instance_name(i), strlen(rp_instance_name(i)) + 1) < 0)
            _exit(1);
        for (;;)
            (void)pause();
    }
    (void)close(fds[1]);
    assert_true(read(fds[0], name, size) > 0);
    (void)close(fds[0]);
    return pid;
}

static void kill_holder(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void a_killed_process_is_replaced_under_its_own_name(void **state)
{
    (void)state;
    char first[128], second[128], again[128];
    pid_t a = start_holder(first, sizeof first), b = start_holder(second, sizeof second);
    assert_string_not_equal(first, second);
    kill_holder(a);
    a = start_holder(again, sizeof again);
    assert_string_equal(again, first);
    kill_holder(a);
    kill_holder(b);
}

static void a_name_that_kafka_or_a_log_would_mangle_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", "a b", "a/b", "\xc3\xa9",
        "01234567890123456789012345678901234567890123456789012345678901234"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct rp_instance *out;
        struct rp_error err;
        assert_int_equal(rp_instance_claim(bad[i], key, &out, &err), -1);
        assert_int_equal(err.code, RP_E_INVALID);
    }
}

#define INSTANCE_TEST(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        INSTANCE_TEST(processes_of_one_kind_get_slots_of_their_own),
        INSTANCE_TEST(a_slot_given_back_is_taken_again),
        INSTANCE_TEST(the_environment_does_not_matter),
        INSTANCE_TEST(claims_that_race_with_releases_never_share_a_slot),
        INSTANCE_TEST(other_keys_and_names_have_slots_of_their_own),
        INSTANCE_TEST(without_a_name_host_and_key_make_it),
        INSTANCE_TEST(machines_with_long_names_are_told_apart),
        INSTANCE_TEST(a_killed_process_is_replaced_under_its_own_name),
        INSTANCE_TEST(a_name_that_kafka_or_a_log_would_mangle_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
