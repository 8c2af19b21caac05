/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <cmocka.h>

#include "jq_process.h"

#define CPU_MS 10000

static int last_fd; /* whose patience was set */

int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t size);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t size);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
    last_fd = fd;
    return __real_setsockopt(fd, level, name, value, size);
}

static pid_t only_child(void)
{
    char path[64];
    int pid;
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    assert_int_equal(fscanf(in, "%d", &pid), 1);
    (void)fclose(in);
    return pid;
}

/* A process may be frozen, or be stuck in what the fork left it. */
static void one_that_stands_still_is_replaced(void **state)
{
    struct rp_jq_process *p;
    struct rp_bytes out;
    struct rp_error err;
    const struct timeval tenth = {.tv_usec = 100000};
    (void)state;
    assert_int_equal(rp_jq_process_new(".", CPU_MS, &p, &err), 0);
    assert_int_equal(kill(only_child(), SIGSTOP), 0);
    assert_int_equal(__real_setsockopt(last_fd, SOL_SOCKET, SO_RCVTIMEO, &tenth, sizeof tenth), 0);
    assert_int_equal(rp_jq_process_run(p, rp_str("1"), &out, &err), -1);
    assert_int_equal(err.cls, RP_RETRIABLE);
    assert_int_equal(rp_jq_process_run(p, rp_str("1"), &out, &err), 0);
    assert_true(rp_bytes_equal(out, rp_str("1")));
    rp_jq_process_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_stands_still_is_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
