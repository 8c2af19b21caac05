/* SPDX-License-Identifier: Apache-2.0 */
#include "system_fixture.h"

#include <curl/curl.h>
#include <dirent.h>
#include <errno.h>
#include <librdkafka/rdkafka.h>
#include <microhttpd.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <cmocka.h>

static int requests, refused;
static const char *refused_name;

void system_refuse(const char *name)
{
    refused_name = name;
}

static bool is_refused(const char *name)
{
    errno = EPERM;
    return refused_name != NULL && strcmp(name, refused_name) == 0;
}

static bool counts_and_is_refused(const char *name)
{
    return ++requests == refused || is_refused(name);
}

#define WRAP(asks, type, name, parameters, arguments, refusal)                                     \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        return asks(#name) ? (refusal) : __real_##name arguments;                                  \
    }
/* What nothing can do without. */
#define NEEDED(...) WRAP(counts_and_is_refused, __VA_ARGS__)
/* What there is another way without: refused by its name alone. */
#define WANTED(...) WRAP(is_refused, __VA_ARGS__)

NEEDED(rd_kafka_t *, rd_kafka_new,
       (rd_kafka_type_t type, rd_kafka_conf_t *conf, char *text, size_t size),
       (type, conf, text, size), (snprintf(text, size, "refused"), NULL))
NEEDED(rd_kafka_conf_res_t, rd_kafka_conf_set,
       (rd_kafka_conf_t * conf, const char *name, const char *value, char *text, size_t size),
       (conf, name, value, text, size), (snprintf(text, size, "refused"), RD_KAFKA_CONF_INVALID))
NEEDED(rd_kafka_resp_err_t, rd_kafka_subscribe,
       (rd_kafka_t * rk, const rd_kafka_topic_partition_list_t *topics), (rk, topics),
       RD_KAFKA_RESP_ERR__STATE)
NEEDED(rd_kafka_resp_err_t, rd_kafka_metadata,
       (rd_kafka_t * rk, int all, rd_kafka_topic_t *topic, const struct rd_kafka_metadata **out,
        int timeout_ms),
       (rk, all, topic, out, timeout_ms), RD_KAFKA_RESP_ERR__TRANSPORT)
NEEDED(rd_kafka_resp_err_t, rd_kafka_query_watermark_offsets,
       (rd_kafka_t * rk, const char *topic, int32_t partition, int64_t *low, int64_t *high,
        int timeout_ms),
       (rk, topic, partition, low, high, timeout_ms), RD_KAFKA_RESP_ERR__TRANSPORT)
NEEDED(CURL *, curl_easy_init, (void), (), NULL)
NEEDED(CURLU *, curl_url, (void), (), NULL)
NEEDED(struct curl_slist *, curl_slist_append, (struct curl_slist * list, const char *text),
       (list, text), NULL)
NEEDED(int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1)
NEEDED(int, setsockopt, (int fd, int level, int name, const void *value, socklen_t size),
       (fd, level, name, value, size), -1)
NEEDED(int, bind, (int fd, const struct sockaddr *address, socklen_t size), (fd, address, size), -1)
NEEDED(int, listen, (int fd, int n), (fd, n), -1)
NEEDED(int, signalfd, (int fd, const sigset_t *set, int flags), (fd, set, flags), -1)
NEEDED(int, eventfd, (unsigned value, int flags), (value, flags), -1)
NEEDED(int, pthread_sigmask, (int how, const sigset_t *set, sigset_t *old), (how, set, old), EPERM)
NEEDED(int, pthread_create,
       (pthread_t * thread, const pthread_attr_t *attr, void *(*run)(void *), void *opaque),
       (thread, attr, run, opaque), EAGAIN)
NEEDED(FILE *, fdopen, (int fd, const char *mode), (fd, mode), NULL)
NEEDED(int, flock, (int fd, int how), (fd, how), -1)
NEEDED(int, fstat, (int fd, struct stat *out), (fd, out), -1)
NEEDED(int, ftruncate, (int fd, off_t size), (fd, size), -1)
NEEDED(int, fsync, (int fd), (fd), -1)
NEEDED(int, fflush, (FILE * file), (file), EOF)
WANTED(FILE *, fopen, (const char *path, const char *mode), (path, mode), NULL)
WANTED(DIR *, opendir, (const char *path), (path), NULL)
WANTED(int, getrusage, (__rusage_who_t who, struct rusage *out), (who, out), -1)
WANTED(int, gethostname, (char *out, size_t size), (out, size), -1)
WANTED(int, renameat2, (int from_fd, const char *from, int to_fd, const char *to, unsigned flags),
       (from_fd, from, to_fd, to, flags), (errno = EINVAL, -1))

struct MHD_Daemon *__wrap_MHD_start_daemon(unsigned flags, uint16_t port,
                                           MHD_AcceptPolicyCallback accept, void *accept_opaque,
                                           MHD_AccessHandlerCallback handle, void *opaque, ...);
struct MHD_Daemon *__wrap_MHD_start_daemon(unsigned flags, uint16_t port,
                                           MHD_AcceptPolicyCallback accept, void *accept_opaque,
                                           MHD_AccessHandlerCallback handle, void *opaque, ...)
{
    va_list options;
    struct MHD_Daemon *daemon = NULL;
    va_start(options, opaque);
    if (!counts_and_is_refused("MHD_start_daemon"))
        daemon = MHD_start_daemon_va(flags, port, accept, accept_opaque, handle, opaque, options);
    va_end(options);
    return daemon;
}

int system_open_files(void)
{
    int n = 0;
    DIR *folder = __real_opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder) != NULL)
        n++;
    (void)closedir(folder);
    return n;
}

int refuse_each(int (*step)(struct rp_error *err))
{
    for (int n = 1;; n++) {
        struct rp_error err = {0};
        requests = 0;
        refused = n;
        int rc = step(&err);
        bool done = requests < n;
        refused = 0;
        if (rc != (done ? 0 : -1) || (!done && (err.text[0] == '\0' || err.cls == RP_POISON)))
            fail_msg("request %d: %d, class %d: %s", n, rc, (int)err.cls, err.text);
        if (done)
            return n - 1;
    }
}
