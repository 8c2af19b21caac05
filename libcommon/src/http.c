/* SPDX-License-Identifier: Apache-2.0 */
#include "http.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "log.h"
#include "process_metrics.h"

/* A slow or idle client must not keep probes out. One that sends a byte now and then is never idle,
 * so no client has all of the connections. */
#define MAX_CONNECTIONS    64u
#define MAX_OF_ONE_ADDRESS 16u
#define IDLE_SECONDS       10u
/* libmicrohttpd leaves its listener alone while it has no room, and says nothing when it has again.
 */
#define NEXT_LOOK_MS 100

struct rp_http {
    struct MHD_Daemon *daemon;
    pthread_t thread;
    int stop_fd; /* eventfd */
    struct rp_metrics *metrics;
    struct rp_http_probes probes;
    char address[300];
};

/* Splits "host:port" and "[v6]:port"; an empty host is every address. Returns the port, or NULL. */
static const char *split_address(const char *text, char *host, size_t size)
{
    const char *colon = strrchr(text, ':');
    if (colon == NULL || colon[1] == '\0')
        return NULL;
    size_t n = (size_t)(colon - text);
    if (n >= 2 && text[0] == '[' && text[n - 1] == ']') {
        text++;
        n -= 2;
    }
    if (n >= size)
        return NULL;
    memcpy(host, text, n);
    host[n] = '\0';
    return colon + 1;
}

/* A listening socket, or -1 with errno. */
static int listen_on(const struct addrinfo *a)
{
    int one = 1, fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
    if (fd < 0)
        return -1;
    /* Not SO_REUSEPORT: two services on one port would answer each other's probes. */
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, (int)MAX_CONNECTIONS) == 0)
        return fd;
    int saved = errno;
    (void)close(fd);
    errno = saved;
    return -1;
}

static int open_socket(const char *host, const char *port, int *out, struct rp_error *err)
{
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM}, *found;
    int rc = getaddrinfo(host[0] == '\0' ? NULL : host, port, &hints, &found);
    if (rc != 0)
        return rp_fail(err, RP_E_INVALID, RP_FATAL, "cannot listen on %s:%s: %s", host, port,
                       gai_strerror(rc));
    int fd = -1, saved = 0;
    for (const struct addrinfo *a = found; fd < 0 && a != NULL; a = a->ai_next) {
        fd = listen_on(a);
        saved = errno;
    }
    freeaddrinfo(found);
    *out = fd;
    if (fd >= 0)
        return 0;
    /* A taken port is free again one day; any other refusal is for good. */
    return rp_fail(err, RP_E_IO, saved == EADDRINUSE ? RP_RETRIABLE : RP_FATAL,
                   "cannot listen on %s:%s: %s", host, port, strerror(saved));
}

static int open_listener(const char *address, bool fall_back, int *out, struct rp_error *err)
{
    char host[256];
    const char *port = split_address(address, host, sizeof host);
    if (port == NULL)
        return rp_fail(err, RP_E_INVALID, RP_FATAL, "listen address '%s' is not host:port",
                       address);
    if (open_socket(host, port, out, err) == 0)
        return 0;
    if (!fall_back || err->cls != RP_RETRIABLE)
        return -1;
    rp_log(RP_LOG_WARN, "listen-address-taken", rp_f_str("address", address),
           rp_f_str("instead", "any free port"));
    return open_socket(host, "0", out, err);
}

static void name_address(int fd, char *out, size_t size)
{
    struct sockaddr_storage a;
    socklen_t len = sizeof a;
    char host[256] = "?", port[16] = "?";
    if (getsockname(fd, (struct sockaddr *)&a, &len) == 0)
        (void)getnameinfo((struct sockaddr *)&a, len, host, sizeof host, port, sizeof port,
                          NI_NUMERICHOST | NI_NUMERICSERV);
    (void)snprintf(out, size, strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s", host, port);
}

static enum MHD_Result respond(struct MHD_Connection *c, unsigned status, const char *type,
                               const void *body, size_t len)
{
    struct MHD_Response *r =
        MHD_create_response_from_buffer(len, (void *)(uintptr_t)body, MHD_RESPMEM_MUST_COPY);
    if (r == NULL)
        return MHD_NO;
    enum MHD_Result rc = MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (rc == MHD_YES && status == MHD_HTTP_METHOD_NOT_ALLOWED)
        rc = MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    if (rc == MHD_YES)
        rc = MHD_queue_response(c, status, r);
    MHD_destroy_response(r);
    return rc;
}

static enum MHD_Result respond_text(struct MHD_Connection *c, unsigned status, const char *text)
{
    return respond(c, status, "text/plain; charset=utf-8", text, strlen(text));
}

static enum MHD_Result respond_probe(const struct rp_http *http, struct MHD_Connection *c,
                                     rp_http_probe_fn *probe, const char *good)
{
    char why[256] = "", line[sizeof why + 1];
    if (probe(http->probes.opaque, why, sizeof why))
        return respond_text(c, MHD_HTTP_OK, good);
    (void)snprintf(line, sizeof line, "%s\n", why);
    return respond_text(c, MHD_HTTP_SERVICE_UNAVAILABLE, line);
}

static enum MHD_Result respond_metrics(struct rp_http *http, struct MHD_Connection *c)
{
    struct rp_buf out = {0};
    struct rp_error err;
    enum MHD_Result rc;
    if (rp_metrics_write(http->metrics, &out, &err) == 0 &&
        rp_process_metrics_write(&out, &err) == 0)
        rc = respond(c, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", out.data, out.len);
    else
        rc = respond_text(c, MHD_HTTP_INTERNAL_SERVER_ERROR, "no memory\n");
    rp_buf_clear(&out);
    return rc;
}

static enum MHD_Result handle(void *cls, struct MHD_Connection *c, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **state)
{
    struct rp_http *http = cls;
    (void)version, (void)upload;
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return respond_text(c, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
    /* Called with the headers, with each piece of a body, and at the end. To answer before the end
     * would close the connection. */
    if (*state == NULL || *upload_size > 0) {
        *state = http;
        *upload_size = 0;
        return MHD_YES;
    }
    if (strcmp(url, "/healthz") == 0)
        return respond_probe(http, c, http->probes.healthy, "ok\n");
    if (strcmp(url, "/readyz") == 0)
        return respond_probe(http, c, http->probes.ready, "ready\n");
    if (strcmp(url, "/metrics") == 0)
        return respond_metrics(http, c);
    return respond_text(c, MHD_HTTP_NOT_FOUND, "there are /healthz, /readyz and /metrics\n");
}

/* Not a thread of libmicrohttpd: one that answers a malformed request while another stops the
 * daemon reads through a null pointer (0.9.75). */
static void *serve(void *opaque)
{
    struct rp_http *http = opaque;
    struct pollfd fds[] = {
        {.fd = http->stop_fd, .events = POLLIN},
        {.fd = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd,
         .events = POLLIN},
    };
    while (fds[0].revents == 0) {
        unsigned long long ms;
        if (MHD_get_timeout(http->daemon, &ms) != MHD_YES || ms > NEXT_LOOK_MS)
            ms = NEXT_LOOK_MS;
        if (poll(fds, 2, (int)ms) >= 0 && fds[0].revents == 0)
            (void)MHD_run(http->daemon);
    }
    return NULL;
}

static int start_daemon(struct rp_http *http, int listener)
{
    http->daemon = MHD_start_daemon(
        MHD_USE_EPOLL, 0, NULL, NULL, handle, http, MHD_OPTION_LISTEN_SOCKET, listener,
        MHD_OPTION_CONNECTION_LIMIT, MAX_CONNECTIONS, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        MAX_OF_ONE_ADDRESS, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_SECONDS, MHD_OPTION_END);
    if (http->daemon == NULL) {
        (void)close(listener);
        return -1;
    }
    if (pthread_create(&http->thread, NULL, serve, http) == 0)
        return 0;
    MHD_stop_daemon(http->daemon);
    return -1;
}

static int start(struct rp_http *http, int listener)
{
    http->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (http->stop_fd < 0) {
        (void)close(listener);
        return -1;
    }
    if (start_daemon(http, listener) == 0)
        return 0;
    (void)close(http->stop_fd);
    return -1;
}

int rp_http_start(const char *address, bool fall_back, struct rp_metrics *metrics,
                  const struct rp_http_probes *probes, struct rp_http **out, struct rp_error *err)
{
    int fd;
    struct rp_http *http = calloc(1, sizeof *http);
    if (http == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for the probes");
    http->metrics = metrics;
    http->probes = *probes;
    if (open_listener(address, fall_back, &fd, err) != 0) {
        free(http);
        return -1;
    }
    name_address(fd, http->address, sizeof http->address);
    if (start(http, fd) != 0) {
        free(http);
        return rp_fail(err, RP_E_IO, RP_FATAL, "cannot start the probes' HTTP server");
    }
    rp_log(RP_LOG_INFO, "listening", rp_f_str("address", http->address));
    *out = http;
    return 0;
}

const char *rp_http_address(const struct rp_http *http)
{
    return http->address;
}

void rp_http_stop(struct rp_http *http)
{
    if (http == NULL)
        return;
    (void)eventfd_write(http->stop_fd, 1);
    (void)pthread_join(http->thread, NULL);
    MHD_stop_daemon(http->daemon);
    (void)close(http->stop_fd);
    free(http);
}
