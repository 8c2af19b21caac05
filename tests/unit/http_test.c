/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "http.h"
#include "log.h"

struct fixture {
    struct rp_metrics *metrics;
    struct rp_http *http;
    struct rp_http_probes probes;
    bool healthy, ready;
    sem_t *hold; /* NULL, or what is waited for before it is said */
};

static bool is_ready(void *opaque, char *why, size_t why_size)
{
    const struct fixture *f = opaque;
    while (f->hold != NULL && sem_wait(f->hold) != 0) {
    }
    if (!f->ready)
        (void)snprintf(why, why_size, "worker 2 waits for its partitions");
    return f->ready;
}

static bool is_healthy(void *opaque, char *why, size_t why_size)
{
    const struct fixture *f = opaque;
    if (!f->healthy)
        (void)snprintf(why, why_size, "worker 2 is stuck");
    return f->healthy;
}

static int setup(void **state)
{
    static struct fixture f;
    struct rp_error err;
    rp_log_setup(RP_LOG_ERROR, false, "http_test");
    f = (struct fixture){.metrics = rp_metrics_new(),
                         .probes = {is_healthy, is_ready, &f},
                         .healthy = true,
                         .ready = true};
    *state = &f;
    return rp_http_start("127.0.0.1:0", false, f.metrics, &f.probes, &f.http, &err);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    rp_http_stop(f->http);
    rp_metrics_free(f->metrics);
    return 0;
}

static int connect_from(const char *ours, const struct rp_http *http)
{
    const struct timeval patience = {.tv_sec = 8}; /* less than it takes to be rid of an idle one */
    struct sockaddr_in from = {.sin_family = AF_INET};
    const char *address = rp_http_address(http);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(strncmp(address, "127.0.0.1:", 10), 0);
    a.sin_port = htons((uint16_t)atoi(address + 10));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(inet_pton(AF_INET, ours, &from.sin_addr), 1);
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

static int connect_to(const struct rp_http *http)
{
    return connect_from("127.0.0.1", http);
}

/* Sends raw bytes and returns all that comes back until the server closes. */
static const char *exchange(const struct rp_http *http, const char *request, size_t n)
{
    static char answer[1 << 16];
    int fd = connect_to(http);
    size_t len = 0;
    ssize_t got;
    (void)send(fd, request, n, MSG_NOSIGNAL); /* the server may close before it has read all */
    (void)shutdown(fd, SHUT_WR);
    while (len < sizeof answer - 1 &&
           (got = recv(fd, answer + len, sizeof answer - 1 - len, 0)) > 0)
        len += (size_t)got;
    answer[len] = '\0';
    (void)close(fd);
    return answer;
}

static const char *get(const struct rp_http *http, const char *method, const char *path)
{
    char request[256];
    int n =
        snprintf(request, sizeof request,
                 "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", method, path);
    return exchange(http, request, (size_t)n);
}

static void assert_answer(const char *answer, const char *status, const char *body)
{
    const char *end = strstr(answer, "\r\n\r\n");
    assert_non_null(end);
    assert_int_equal(strncmp(answer, "HTTP/1.1 ", 9), 0);
    assert_int_equal(strncmp(answer + 9, status, 3), 0);
    assert_string_equal(end + 4, body);
}

static void healthz_says_ok_or_why_not(void **state)
{
    struct fixture *f = *state;
    assert_answer(get(f->http, "GET", "/healthz"), "200", "ok\n");
    assert_answer(get(f->http, "GET", "/healthz?verbose=1"), "200", "ok\n");
    assert_answer(get(f->http, "HEAD", "/healthz"), "200", "");
    f->healthy = false;
    assert_answer(get(f->http, "GET", "/healthz"), "503", "worker 2 is stuck\n");
}

static void readyz_says_why_not(void **state)
{
    struct fixture *f = *state;
    assert_answer(get(f->http, "GET", "/readyz"), "200", "ready\n");
    f->ready = false;
    assert_answer(get(f->http, "GET", "/readyz"), "503", "worker 2 waits for its partitions\n");
}

static void metrics_are_prometheus_text(void **state)
{
    struct fixture *f = *state;
    (void)rp_metrics_family(f->metrics, RP_COUNTER, "c_total", "C.", "", 1, NULL, 0);
    const char *answer = get(f->http, "GET", "/metrics");
    assert_non_null(strstr(answer, "text/plain; version=0.0.4"));
    assert_non_null(
        strstr(answer, "\r\n\r\n# HELP c_total C.\n# TYPE c_total counter\nc_total 0\n"));
}

/* The value of an unlabelled metric. */
static double metric(const struct fixture *f, const char *name)
{
    char line[64];
    (void)snprintf(line, sizeof line, "\n%s ", name);
    const char *at = strstr(get(f->http, "GET", "/metrics"), line);
    assert_non_null(at);
    return atof(at + strlen(line));
}

static void metrics_tell_what_the_process_uses(void **state)
{
    struct fixture *f = *state;
    assert_true(metric(f, "process_resident_memory_bytes") > 1e6);
    assert_true(metric(f, "process_cpu_seconds_total") >= 0);
    double before = metric(f, "process_open_fds");
    int fds[20][2];
    for (int i = 0; i < 20; i++)
        assert_int_equal(pipe(fds[i]), 0);
    double after = metric(f, "process_open_fds");
    /* The server may or may not have closed the connections of the requests before. */
    assert_true(after > before + 30 && after < before + 50);
    for (int i = 0; i < 20; i++) {
        (void)close(fds[i][0]);
        (void)close(fds[i][1]);
    }
}

static void an_unknown_path_is_not_found(void **state)
{
    struct fixture *f = *state;
    assert_answer(get(f->http, "GET", "/../etc/passwd"), "404",
                  "there are /healthz, /readyz and /metrics\n");
}

static void other_methods_are_refused(void **state)
{
    struct fixture *f = *state;
    const char *answer = get(f->http, "DELETE", "/metrics");
    assert_non_null(strstr(answer, "Allow: GET, HEAD\r\n"));
    assert_answer(answer, "405", "only GET and HEAD\n");
    static const char post[] = "POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
                               "Connection: close\r\n\r\nhello";
    assert_answer(exchange(f->http, post, sizeof post - 1), "405", "only GET and HEAD\n");
}

static void a_connection_serves_one_request_after_another(void **state)
{
    struct fixture *f = *state;
    static const char two[] = "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
                              "GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    const char *answer = exchange(f->http, two, sizeof two - 1);
    assert_non_null(strstr(answer, "\r\n\r\nok\n"));
    assert_non_null(strstr(answer, "\r\n\r\nready\n"));
}

/* Sends, and hangs up without waiting for an answer: the server waits for the rest of a request. */
static void send_and_leave(const struct rp_http *http, const char *bytes, size_t n)
{
    int fd = connect_to(http);
    (void)send(fd, bytes, n, MSG_NOSIGNAL);
    (void)close(fd);
}

static void garbage_does_no_harm(void **state)
{
    struct fixture *f = *state;
    static char garbage[200000];
    memset(garbage, 'A', sizeof garbage);
    send_and_leave(f->http, garbage, sizeof garbage);
    memset(garbage, 0, sizeof garbage);
    send_and_leave(f->http, garbage, sizeof garbage);
    send_and_leave(f->http, "GET", 3);
    send_and_leave(f->http, "\r\n\r\n\r\n", 6);
    send_and_leave(f->http, "", 0);
    assert_answer(get(f->http, "GET", "/healthz"), "200", "ok\n");
}

static void garbage_does_no_harm_to_a_server_that_stops(void **state)
{
    struct fixture *f = *state;
    static char garbage[60000];
    memset(garbage, 'A', sizeof garbage);
    for (int i = 0; i < 1000; i++) {
        struct rp_http *http;
        struct rp_error err;
        assert_int_equal(rp_http_start("127.0.0.1:0", false, f->metrics, &f->probes, &http, &err),
                         0);
        send_and_leave(http, garbage, sizeof garbage);
        (void)usleep((useconds_t)(i % 100));
        rp_http_stop(http);
    }
}

static void a_slow_client_does_not_keep_a_probe_out(void **state)
{
    struct fixture *f = *state;
    int fds[100];
    for (int i = 0; i < 100; i++) {
        fds[i] = connect_from("127.0.0.2", f->http);
        (void)send(fds[i], "GET /he", 7, MSG_NOSIGNAL);
    }
    assert_answer(get(f->http, "GET", "/healthz"), "200", "ok\n");
    for (int i = 0; i < 100; i++)
        (void)close(fds[i]);
}

static void a_server_that_was_full_serves_again(void **state)
{
    struct fixture *f = *state;
    static const char ask[] = "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n";
    int fds[64];
    sem_t hold;
    assert_int_equal(sem_init(&hold, 0, 0), 0);
    f->hold = &hold;
    for (int i = 0; i < 64; i++) {
        char ours[16];
        (void)snprintf(ours, sizeof ours, "127.0.0.%d", 2 + i / 16);
        fds[i] = connect_from(ours, f->http);
    }
    (void)usleep(50000);
    assert_int_equal(send(fds[0], ask, sizeof ask - 1, MSG_NOSIGNAL), (ssize_t)sizeof ask - 1);
    (void)usleep(50000);
    for (int i = 0; i < 64; i++)
        (void)close(fds[i]);
    assert_int_equal(sem_post(&hold), 0);
    (void)usleep(50000);
    assert_answer(get(f->http, "GET", "/healthz"), "200", "ok\n");
    (void)sem_destroy(&hold);
}

static void a_taken_default_port_becomes_a_free_one(void **state)
{
    struct fixture *f = *state;
    struct rp_http *second;
    struct rp_error err;
    const char *taken = rp_http_address(f->http);
    assert_int_equal(rp_http_start(taken, true, f->metrics, &f->probes, &second, &err), 0);
    assert_string_not_equal(rp_http_address(second), taken);
    assert_answer(get(second, "GET", "/healthz"), "200", "ok\n");
    rp_http_stop(second);
}

static void a_taken_configured_port_is_an_error(void **state)
{
    struct fixture *f = *state;
    struct rp_http *second;
    struct rp_error err;
    assert_int_equal(
        rp_http_start(rp_http_address(f->http), false, f->metrics, &f->probes, &second, &err), -1);
    assert_int_equal(err.code, RP_E_IO);
    assert_non_null(strstr(err.text, "in use"));
}

static void an_address_that_is_none_is_refused(void **state)
{
    struct fixture *f = *state;
    char longest[300];
    (void)snprintf(longest, sizeof longest, "%0*d:80", (int)sizeof longest - 4, 0);
    const char *const bad[] = {"", "localhost", "localhost:", "[::1", "127.0.0.1:http-no", longest};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct rp_http *http;
        struct rp_error err;
        assert_int_equal(rp_http_start(bad[i], true, f->metrics, &f->probes, &http, &err), -1);
        assert_int_equal(err.code, RP_E_INVALID);
    }
}

static void an_ipv6_address_is_in_brackets(void **state)
{
    struct fixture *f = *state;
    struct rp_http *http;
    struct rp_error err;
    if (rp_http_start("[::1]:0", false, f->metrics, &f->probes, &http, &err) != 0) {
        assert_int_equal(err.code, RP_E_IO); /* a machine without IPv6 */
        assert_non_null(strstr(err.text, "cannot listen on ::1:0: "));
        return;
    }
    assert_memory_equal(rp_http_address(http), "[::1]:", 6);
    rp_http_stop(http);
}

#define HTTP_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HTTP_TEST(healthz_says_ok_or_why_not),
        HTTP_TEST(readyz_says_why_not),
        HTTP_TEST(metrics_are_prometheus_text),
        HTTP_TEST(metrics_tell_what_the_process_uses),
        HTTP_TEST(an_unknown_path_is_not_found),
        HTTP_TEST(other_methods_are_refused),
        HTTP_TEST(a_connection_serves_one_request_after_another),
        HTTP_TEST(garbage_does_no_harm),
        HTTP_TEST(garbage_does_no_harm_to_a_server_that_stops),
        HTTP_TEST(a_slow_client_does_not_keep_a_probe_out),
        HTTP_TEST(a_server_that_was_full_serves_again),
        HTTP_TEST(a_taken_default_port_becomes_a_free_one),
        HTTP_TEST(a_taken_configured_port_is_an_error),
        HTTP_TEST(an_address_that_is_none_is_refused),
        HTTP_TEST(an_ipv6_address_is_in_brackets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
