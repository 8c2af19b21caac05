/* SPDX-License-Identifier: Apache-2.0 */
/* A connection that says anything at all to the server of probes and metrics. Whatever it was, the
 * next one is answered. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "http.h"
#include "log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char probe[] = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

static bool is_healthy(void *opaque, char *why, size_t why_size)
{
    (void)opaque, (void)why, (void)why_size;
    return true;
}

static bool is_ready(void *opaque, char *why, size_t why_size)
{
    (void)opaque;
    (void)snprintf(why, why_size, "never");
    return false;
}

/* A process that others keep from the processor for so long may find a connection too long idle. */
#define KEPT_WAITING_MS 5000

static struct sockaddr_in serve(void)
{
    static const struct rp_http_probes probes = {is_healthy, is_ready, NULL};
    struct rp_http *http;
    struct rp_error err;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct rp_metrics *metrics = rp_metrics_new();
    rp_log_setup(RP_LOG_ERROR, false, "http_fuzz");
    if (metrics == NULL || rp_http_start("127.0.0.1:0", false, metrics, &probes, &http, &err) != 0)
        abort();
    a.sin_port = htons((uint16_t)atoi(strrchr(rp_http_address(http), ':') + 1));
    return a;
}

static int connect_to(const struct sockaddr_in *server)
{
    for (;;) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, (const struct sockaddr *)server, sizeof *server) == 0)
            return fd;
        if (fd < 0 || errno != EINTR) /* by the fuzzer's alarm, as in `hear` */
            abort();
        (void)close(fd);
    }
}

/* A connection on which all of it is said. */
static int say(const struct sockaddr_in *server, const void *data, size_t size)
{
    const struct linger at_once = {1, 0}; /* or the ports run out */
    int fd = connect_to(server);
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    (void)!send(fd, data, size, MSG_NOSIGNAL);
    (void)shutdown(fd, SHUT_WR);
    return fd;
}

/* How much of the answer fits, or is there with MSG_DONTWAIT. Ends the connection. */
static size_t hear(int fd, int flags, char *answer, size_t room)
{
    size_t n = 0;
    ssize_t got;
    /* The fuzzer's alarm, which looks after the time that an input takes, interrupts. */
    while (n < room &&
           ((got = recv(fd, answer + n, room - n, flags)) > 0 || (got < 0 && errno == EINTR)))
        n += got > 0 ? (size_t)got : 0;
    (void)close(fd);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sockaddr_in server;
    char answer[4096];
    if (server.sin_port == 0)
        server = serve();
    int fd = say(&server, data, size);
    size_t n;
    int64_t began_mono_ms;
    do {
        began_mono_ms = rp_mono_ms();
        n = hear(say(&server, probe, sizeof probe - 1), 0, answer, sizeof answer);
    } while (n == 0 && rp_mono_ms() - began_mono_ms > KEPT_WAITING_MS);
    if (n < 12 || memcmp(answer, "HTTP/1.1 200", 12) != 0)
        abort();
    /* The server has one thread, which came to this one first. An unfinished request gets none. */
    n = hear(fd, MSG_DONTWAIT, answer, sizeof answer);
    if (n > 0 && (n < 5 || memcmp(answer, "HTTP/", 5) != 0))
        abort();
    return 0;
}
