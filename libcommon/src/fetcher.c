/* SPDX-License-Identifier: Apache-2.0 */
#include "fetcher.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "clock.h"

enum state { IDLE, WANTED, ANSWERED };

struct rp_fetcher {
    /* Down to `result`: the thread's while the state is WANTED. */
    CURL *curl;
    struct curl_slist *headers;
    char curl_error[CURL_ERROR_SIZE];
    size_t max_bytes;
    struct rp_buf body;
    struct rp_fetched result;

    bool busy;    /* a request was started, and its answer is not told */
    bool running; /* there is a thread */
    pthread_t thread;
    atomic_bool stop;
    pthread_mutex_t lock; /* of `state` */
    pthread_cond_t changed;
    enum state state;
};

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;

static void init_curl(void)
{
    /* A failure shows again in curl_easy_init(). */
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* Takes a part of the answer; 0 ends the transfer. */
static size_t take_body(char *data, size_t size, size_t n, void *opaque)
{
    struct rp_fetcher *f = opaque;
    n *= size;
    f->result.too_large = n > f->max_bytes - f->body.len;
    if (f->result.too_large || rp_buf_append(&f->body, data, n, NULL) != 0)
        return 0;
    return n;
}

/* Called at least once a second; not 0 ends the transfer. */
static int look_up(void *opaque, curl_off_t down, curl_off_t got, curl_off_t up, curl_off_t put)
{
    struct rp_fetcher *f = opaque;
    (void)down, (void)got, (void)up, (void)put;
    return atomic_load(&f->stop);
}

static bool is_given(const char *text)
{
    return text != NULL && text[0] != '\0';
}

/* The first failure counts. */
static void keep(CURLcode *first, CURLcode rc)
{
    if (*first == CURLE_OK)
        *first = rc;
}

static CURLcode set_options(struct rp_fetcher *f, const struct rp_fetcher_options *o)
{
    CURL *c = f->curl;
    CURLcode rc = CURLE_OK;
    keep(&rc, curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L));
    keep(&rc, curl_easy_setopt(c, CURLOPT_ERRORBUFFER, f->curl_error));
    keep(&rc, curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take_body));
    keep(&rc, curl_easy_setopt(c, CURLOPT_WRITEDATA, f));
    keep(&rc, curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, look_up));
    keep(&rc, curl_easy_setopt(c, CURLOPT_XFERINFODATA, f));
    keep(&rc, curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L));
    /* Whoever frees it does not wait for a name server. */
    keep(&rc, curl_easy_setopt(c, CURLOPT_QUICK_EXIT, 1L));
    keep(&rc, curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)o->timeout_ms));
    keep(&rc, curl_easy_setopt(c, CURLOPT_HTTPHEADER, f->headers));
    keep(&rc, curl_easy_setopt(c, CURLOPT_USERAGENT, "reprise"));
    if (is_given(o->username)) {
        keep(&rc, curl_easy_setopt(c, CURLOPT_HTTPAUTH, CURLAUTH_BASIC));
        keep(&rc, curl_easy_setopt(c, CURLOPT_USERNAME, o->username));
        keep(&rc, curl_easy_setopt(c, CURLOPT_PASSWORD, o->password == NULL ? "" : o->password));
    }
    if (is_given(o->ca_file))
        keep(&rc, curl_easy_setopt(c, CURLOPT_CAINFO, o->ca_file));
    return rc;
}

static struct curl_slist *accept_header(const char *accept)
{
    char text[200];
    (void)snprintf(text, sizeof text, "Accept: %s", accept);
    return curl_slist_append(NULL, text);
}

int rp_fetcher_new(const struct rp_fetcher_options *options, struct rp_fetcher **out,
                   struct rp_error *err)
{
    struct rp_fetcher *f = calloc(1, sizeof *f);
    if (f == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for an HTTP client");
    pthread_condattr_t monotonic;
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&f->changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    (void)pthread_mutex_init(&f->lock, NULL);
    f->max_bytes = options->max_bytes;
    f->headers = accept_header(options->accept);
    if (pthread_once(&curl_once, init_curl) == 0)
        f->curl = curl_easy_init();
    CURLcode rc = CURLE_OUT_OF_MEMORY;
    if (f->curl != NULL && f->headers != NULL)
        rc = set_options(f, options);
    if (rc != CURLE_OK) {
        rp_fetcher_free(f);
        return rp_fail(err, RP_E_CONFIG, RP_FATAL, "HTTP client: %s", curl_easy_strerror(rc));
    }
    *out = f;
    return 0;
}

static void set_state(struct rp_fetcher *f, enum state state)
{
    (void)pthread_mutex_lock(&f->lock);
    f->state = state;
    (void)pthread_cond_broadcast(&f->changed);
    (void)pthread_mutex_unlock(&f->lock);
}

void rp_fetcher_free(struct rp_fetcher *f)
{
    if (f == NULL)
        return;
    atomic_store(&f->stop, true);
    set_state(f, IDLE); /* wakes the thread */
    if (f->running)
        (void)pthread_join(f->thread, NULL);
    curl_easy_cleanup(f->curl);
    curl_slist_free_all(f->headers);
    rp_buf_clear(&f->body);
    (void)pthread_cond_destroy(&f->changed);
    (void)pthread_mutex_destroy(&f->lock);
    free(f);
}

static void fetch(struct rp_fetcher *f)
{
    CURLcode rc = curl_easy_perform(f->curl);
    if (rc == CURLE_OK || f->result.too_large)
        rc = curl_easy_getinfo(f->curl, CURLINFO_RESPONSE_CODE, &f->result.status);
    if (rc != CURLE_OK)
        f->result.error = f->curl_error[0] != '\0' ? f->curl_error : curl_easy_strerror(rc);
    f->result.body = rp_buf_bytes(&f->body);
}

/* False: no more is wanted. */
static bool wait_until_wanted(struct rp_fetcher *f)
{
    (void)pthread_mutex_lock(&f->lock);
    while (f->state != WANTED && !atomic_load(&f->stop))
        (void)pthread_cond_wait(&f->changed, &f->lock);
    (void)pthread_mutex_unlock(&f->lock);
    return !atomic_load(&f->stop);
}

static void *run(void *opaque)
{
    struct rp_fetcher *f = opaque;
    while (wait_until_wanted(f)) {
        fetch(f);
        set_state(f, ANSWERED);
    }
    return NULL;
}

bool rp_fetcher_busy(const struct rp_fetcher *f)
{
    return f->busy;
}

int rp_fetcher_start(struct rp_fetcher *f, const char *url, struct rp_error *err)
{
    f->body.len = 0;
    f->curl_error[0] = '\0';
    f->result = (struct rp_fetched){.error = ""};
    CURLcode rc = curl_easy_setopt(f->curl, CURLOPT_URL, url);
    if (rc != CURLE_OK)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "HTTP client: %s", curl_easy_strerror(rc));
    if (!f->running && pthread_create(&f->thread, NULL, run, f) != 0)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "HTTP client: no thread");
    f->running = true;
    f->busy = true;
    set_state(f, WANTED);
    return 0;
}

static struct timespec time_of(int64_t mono_ms)
{
    return (struct timespec){.tv_sec = mono_ms / 1000, .tv_nsec = mono_ms % 1000 * 1000000};
}

const struct rp_fetched *rp_fetcher_wait(struct rp_fetcher *f, int64_t wait_ms)
{
    const struct timespec end = time_of(rp_mono_ms() + wait_ms);
    int rc = 0;
    if (!f->busy)
        return NULL;
    (void)pthread_mutex_lock(&f->lock);
    while (f->state != ANSWERED && rc == 0 && wait_ms > 0)
        rc = pthread_cond_timedwait(&f->changed, &f->lock, &end);
    f->busy = f->state != ANSWERED;
    (void)pthread_mutex_unlock(&f->lock);
    return f->busy ? NULL : &f->result;
}
