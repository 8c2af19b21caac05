/* SPDX-License-Identifier: Apache-2.0 */
#include "service.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "clock.h"
#include "instance.h"
#include "log.h"

enum exit_code { EXIT_DRAINED = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_ABANDONED = 3 };

struct thread {
    struct rp_worker worker;
    struct rp_service *service;
    pthread_t id;
    bool stuck; /* and the log says so */
};

struct rp_service {
    const struct rp_service_def *def;
    const char *config_file;
    struct rp_config *config;
    const struct rp_service_config *section;
    struct rp_metrics *metrics;
    struct rp_family *reloads;
    struct rp_series *restarts;
    struct rp_instance *instance;
    struct rp_http *http;
    struct thread *threads;
    int n_threads; /* started */
    int n_running; /* of them, not yet known to have ended */
    int signals;   /* signalfd */
    int ends;      /* eventfd: how many workers ended */
    bool signalled;
    int64_t looked_mono_ms; /* log_stuck did */
    atomic_bool stop;
    atomic_bool failed; /* a worker could not go on */
};

const struct rp_policies *rp_worker_policies(struct rp_worker *w)
{
    if (atomic_load_explicit(&w->new_policies, memory_order_relaxed) != NULL) {
        rp_policies_unref(w->policies);
        w->policies = atomic_exchange(&w->new_policies, NULL);
    }
    return w->policies;
}

bool rp_worker_stopping(struct rp_worker *w)
{
    atomic_store_explicit(&w->asked_mono_ms, rp_mono_tick_ms(), memory_order_relaxed);
    return atomic_load(w->stop);
}

/* A worker that ran for as long begins again without the pause that failures in a row get. */
#define HEALTHY_MS 60000

/* A worker that lost its place begins again, from what is committed. That happens to a member whose
 * join the broker answered but could not deliver: its own second try looks like somebody else's. */
static int run_until_stopped(struct thread *t, struct rp_error *err)
{
    const struct rp_service *s = t->service;
    int64_t pause_ms = 1000, began_mono_ms = rp_mono_ms();
    while (s->def->run(&t->worker, err) != 0) {
        if (rp_mono_ms() - began_mono_ms > HEALTHY_MS)
            pause_ms = 1000;
        if (err->cls == RP_FATAL && err->code != RP_E_FENCED)
            return -1;
        if (rp_worker_stopping(&t->worker)) /* who lost its place has a successor, which goes on */
            return err->code == RP_E_FENCED ? 0 : -1;
        atomic_store(&t->worker.ready, false);
        rp_series_add(s->restarts, 1);
        rp_log(RP_LOG_ERROR, "worker-begins-again", rp_f_int("worker", t->worker.index),
               rp_f_str("error", err->text), rp_f_int("in_ms", pause_ms));
        int64_t end_mono_ms = rp_mono_ms() + pause_ms;
        while (rp_mono_ms() < end_mono_ms && !rp_worker_stopping(&t->worker))
            (void)usleep(50000);
        if (rp_worker_stopping(&t->worker))
            return 0;
        pause_ms = pause_ms < 16000 ? 2 * pause_ms : 30000;
        began_mono_ms = rp_mono_ms();
    }
    return 0;
}

static void *run_worker(void *opaque)
{
    struct thread *t = opaque;
    struct rp_service *s = t->service;
    struct rp_error err = {0};
    if (run_until_stopped(t, &err) != 0) {
        atomic_store(&s->failed, true);
        rp_log(RP_LOG_ERROR, "worker-failed", rp_f_int("worker", t->worker.index),
               rp_f_str("error", err.text));
    } else if (!atomic_load(&s->stop)) {
        atomic_store(&s->failed, true);
        rp_log(RP_LOG_ERROR, "worker-ended-early", rp_f_int("worker", t->worker.index));
    }
    atomic_store(&t->worker.ready, false);
    uint64_t one = 1;
    /* Fails only when the counter would overflow. */
    (void)!write(s->ends, &one, sizeof one);
    return NULL;
}

/* How long since the worker asked whether to stop; 0 while that is not too long. */
static int64_t stuck_ms(const struct rp_worker *w)
{
    int64_t ms = rp_mono_tick_ms() - atomic_load(&w->asked_mono_ms);
    return ms >= RP_STUCK_MS ? ms : 0;
}

/* While it drains, the deadline watches over it. */
static bool is_healthy(void *opaque, char *why, size_t why_size)
{
    struct rp_service *s = opaque;
    if (atomic_load(&s->stop))
        return true;
    for (int i = 0; i < s->section->workers; i++) {
        int64_t ms = stuck_ms(&s->threads[i].worker);
        if (ms > 0) {
            (void)snprintf(why, why_size, "worker %d of %d has been stuck for %" PRId64 " s", i + 1,
                           s->section->workers, ms / 1000);
            return false;
        }
    }
    return true;
}

static bool is_ready(void *opaque, char *why, size_t why_size)
{
    struct rp_service *s = opaque;
    if (atomic_load(&s->stop)) {
        (void)snprintf(why, why_size, "draining");
        return false;
    }
    if (!is_healthy(s, why, why_size))
        return false;
    for (int i = 0; i < s->section->workers; i++)
        if (!atomic_load(&s->threads[i].worker.ready)) {
            (void)snprintf(why, why_size, "worker %d of %d is not ready", i + 1,
                           s->section->workers);
            return false;
        }
    return true;
}

static void log_fault(void *opaque, const char *file, int line, const char *text)
{
    (void)opaque;
    rp_log(RP_LOG_ERROR, "configuration-fault", rp_f_str("file", file), rp_f_int("line", line),
           rp_f_str("fault", text));
}

static void count_reload(struct rp_service *s, const char *result)
{
    struct rp_bytes value = rp_str(result);
    rp_series_add(rp_family_series(s->reloads, &value), 1);
}

/* The file's policies were checked against its topics, and are to be used beside ours. */
static int load_again(const struct rp_service *s, struct rp_config **out, struct rp_error *err)
{
    if (rp_config_load(s->config_file, log_fault, NULL, out, err) != 0)
        return -1;
    if (strcmp((*out)->topics.prefix, s->config->topics.prefix) == 0)
        return 0;
    rp_config_free(*out);
    return rp_fail(err, RP_E_CONFIG, RP_FATAL,
                   "topics.prefix is another one, which takes a restart");
}

/* Hands each worker the file's policies; one that was not yet taken is replaced. */
static void reload(struct rp_service *s)
{
    struct rp_config *fresh;
    struct rp_error err;
    if (load_again(s, &fresh, &err) != 0) {
        rp_log(RP_LOG_ERROR, "reload-refused", rp_f_str("error", err.text));
        count_reload(s, "refused");
        return;
    }
    for (int i = 0; i < s->n_threads; i++) {
        struct rp_worker *w = &s->threads[i].worker;
        rp_policies_unref(atomic_exchange(&w->new_policies, rp_policies_ref(fresh->policies)));
    }
    char others[512];
    rp_config_compare(s->config, fresh, others, sizeof others);
    rp_config_free(fresh);
    rp_log(RP_LOG_INFO, "policies-reloaded", rp_f_str("file", s->config_file));
    if (others[0] != '\0')
        rp_log(RP_LOG_WARN, "restart-needed", rp_f_str("parameters", others),
               rp_f_str("effect", "the old values stay until then"));
    count_reload(s, "loaded");
}

/* The threads may be anywhere, so nothing of theirs can be freed: the process ends here. */
static _Noreturn void abandon(const struct rp_service *s, const char *why)
{
    rp_log(RP_LOG_WARN, "drain-abandoned", rp_f_str("why", why), rp_f_int("workers", s->n_running));
    _exit(EXIT_ABANDONED);
}

/* Tells the workers to stop; returns when they have to be done. */
static int64_t begin_drain(struct rp_service *s, const char *why)
{
    atomic_store(&s->stop, true);
    rp_log(RP_LOG_INFO, "draining", rp_f_str("why", why),
           rp_f_int("deadline_ms", s->section->drain_ms));
    return rp_mono_ms() + s->section->drain_ms;
}

static void take_signal(struct rp_service *s, int64_t *deadline_mono_ms)
{
    struct signalfd_siginfo info;
    if (read(s->signals, &info, sizeof info) != (ssize_t)sizeof info)
        return;
    if (info.ssi_signo == SIGHUP) {
        if (*deadline_mono_ms < 0)
            reload(s);
        return;
    }
    if (s->signalled)
        abandon(s, "a second signal");
    s->signalled = true;
    if (*deadline_mono_ms < 0)
        *deadline_mono_ms = begin_drain(s, info.ssi_signo == SIGINT ? "SIGINT" : "SIGTERM");
}

static void take_ends(struct rp_service *s, int64_t *deadline_mono_ms)
{
    uint64_t n;
    if (read(s->ends, &n, sizeof n) != (ssize_t)sizeof n)
        return;
    s->n_running -= (int)n;
    if (*deadline_mono_ms < 0)
        *deadline_mono_ms = begin_drain(s, "a worker ended");
}

#define LOOK_MS 10000 /* between two looks whether a worker is stuck, at most */

static int time_left(int64_t deadline_mono_ms)
{
    int64_t left = deadline_mono_ms < 0 ? LOOK_MS : deadline_mono_ms - rp_mono_ms();
    return left < 0 ? 0 : left > LOOK_MS ? LOOK_MS : (int)left;
}

/* Each time that one gets stuck. */
static void log_stuck(struct rp_service *s)
{
    int64_t before_mono_ms = s->looked_mono_ms;
    s->looked_mono_ms = rp_mono_ms();
    if (s->looked_mono_ms - before_mono_ms > 2 * LOOK_MS)
        return; /* the whole process stood still */
    for (int i = 0; i < s->n_threads && !atomic_load(&s->stop); i++) {
        struct thread *t = &s->threads[i];
        int64_t ms = stuck_ms(&t->worker);
        if (ms > 0 && !t->stuck)
            rp_log(RP_LOG_ERROR, "worker-stuck", rp_f_int("worker", i),
                   rp_f_int("seconds", ms / 1000),
                   rp_f_str("mend", "keep a stack trace of the process, and restart it"));
        t->stuck = ms > 0;
    }
}

/* The main thread's life: signals, until the last worker has ended. */
static void supervise(struct rp_service *s)
{
    int64_t deadline_mono_ms = -1;
    while (s->n_running > 0) {
        struct pollfd fds[] = {{.fd = s->ends, .events = POLLIN},
                               {.fd = s->signals, .events = POLLIN}};
        int left = time_left(deadline_mono_ms);
        int n = poll(fds, 2, left);
        if (n == 0 && left == 0)
            abandon(s, "the deadline has passed");
        log_stuck(s);
        if (n <= 0)
            continue;
        if (fds[0].revents != 0)
            take_ends(s, &deadline_mono_ms);
        else
            take_signal(s, &deadline_mono_ms);
    }
}

static void start_workers(struct rp_service *s)
{
    for (; s->n_threads < s->section->workers; s->n_threads++) {
        struct thread *t = &s->threads[s->n_threads];
        int rc = pthread_create(&t->id, NULL, run_worker, t);
        if (rc != 0) {
            rp_log(RP_LOG_ERROR, "no-thread", rp_f_str("error", strerror(rc)));
            atomic_store(&s->failed, true);
            atomic_store(&s->stop, true);
            break;
        }
    }
    s->n_running = s->n_threads;
}

static int init_workers(struct rp_service *s, struct rp_error *err)
{
    s->threads = calloc((size_t)s->section->workers, sizeof *s->threads);
    if (s->threads == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for the workers");
    for (int i = 0; i < s->section->workers; i++) {
        struct rp_worker *w = &s->threads[i].worker;
        s->threads[i].service = s;
        *w = (struct rp_worker){
            .config = s->config, .metrics = s->metrics, .index = i, .stop = &s->stop};
        (void)snprintf(w->instance, sizeof w->instance, "%s-%d", rp_instance_name(s->instance), i);
        w->policies = rp_policies_ref(s->config->policies);
        atomic_store(&w->asked_mono_ms, rp_mono_tick_ms());
    }
    return 0;
}

/* Every thread made from here on inherits the mask, so that signals come to the main thread. */
static int init_signals(struct rp_service *s, struct rp_error *err)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGHUP);
    (void)signal(SIGPIPE, SIG_IGN);
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0 ||
        (s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0 ||
        (s->ends = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
        return rp_fail(err, RP_E_IO, RP_FATAL, "cannot wait for signals: %s", strerror(errno));
    return 0;
}

static int init_metrics(struct rp_service *s, struct rp_error *err)
{
    s->metrics = rp_metrics_new();
    if (s->metrics == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for metrics");
    struct rp_bytes values[] = {rp_str(s->def->name), rp_str(REPRISE_VERSION),
                                rp_str(rp_instance_name(s->instance))};
    rp_series_set(rp_family_series(rp_metrics_family(s->metrics, RP_GAUGE, "reprise_info",
                                                     "Always 1; the labels say what runs.",
                                                     "service,version,instance", 1, NULL, 0),
                                   values),
                  1);
    rp_series_set(
        rp_family_series(rp_metrics_family(s->metrics, RP_GAUGE, "process_start_time_seconds",
                                           "When the process started, Unix time.", "", 0, NULL, 0),
                         NULL),
        (double)rp_wall_ms() / 1000);
    s->reloads = rp_metrics_family(s->metrics, RP_COUNTER, "reprise_policy_reloads_total",
                                   "Reloads of the policies by SIGHUP.", "result", 2, NULL, 0);
    s->restarts = rp_family_series(
        rp_metrics_family(s->metrics, RP_COUNTER, "reprise_worker_restarts_total",
                          "Workers that began again with new clients, from what is committed.", "",
                          0, NULL, 0),
        NULL);
    return 0;
}

static const char *bootstrap_servers(const struct rp_config *config)
{
    const struct rp_properties *p = &config->kafka.common;
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->items[i].name, "bootstrap.servers") == 0)
            return p->items[i].value;
    return "";
}

static int claim_instance(struct rp_service *s, struct rp_error *err)
{
    char key[1024];
    (void)snprintf(key, sizeof key, "%s\n%s\n%s", s->def->name, s->config->topics.prefix,
                   bootstrap_servers(s->config));
    return rp_instance_claim(s->config->instance, key, &s->instance, err);
}

static int service_init(struct rp_service *s, struct rp_error *err)
{
    if (init_signals(s, err) != 0 || claim_instance(s, err) != 0 || init_metrics(s, err) != 0 ||
        init_workers(s, err) != 0)
        return -1;
    const struct rp_http_probes probes = {is_healthy, is_ready, s};
    return rp_http_start(s->section->listen, !s->section->listen_set, s->metrics, &probes, &s->http,
                         err);
}

static void service_clear(struct rp_service *s)
{
    rp_http_stop(s->http);
    for (int i = 0; s->threads != NULL && i < s->section->workers; i++) {
        rp_policies_unref(atomic_load(&s->threads[i].worker.new_policies));
        rp_policies_unref(s->threads[i].worker.policies);
    }
    free(s->threads);
    rp_metrics_free(s->metrics);
    rp_instance_release(s->instance);
    if (s->signals >= 0)
        (void)close(s->signals);
    if (s->ends >= 0)
        (void)close(s->ends);
}

static int serve(struct rp_service *s)
{
    struct rp_error err;
    if (service_init(s, &err) != 0) {
        rp_log(RP_LOG_ERROR, "start-failed", rp_f_str("error", err.text));
        service_clear(s);
        return EXIT_FAILED;
    }
    rp_log(RP_LOG_INFO, "started", rp_f_str("version", REPRISE_VERSION),
           rp_f_str("config", s->config_file), rp_f_str("instance", rp_instance_name(s->instance)),
           rp_f_int("workers", s->section->workers));
    start_workers(s);
    supervise(s);
    for (int i = 0; i < s->n_threads; i++)
        (void)pthread_join(s->threads[i].id, NULL);
    int code = atomic_load(&s->failed) ? EXIT_FAILED : EXIT_DRAINED;
    service_clear(s);
    rp_log(RP_LOG_INFO, "stopped", rp_f_int("exit", code));
    return code;
}

static void print_fault(void *opaque, const char *file, int line, const char *text)
{
    (void)opaque;
    if (line > 0)
        (void)fprintf(stderr, "%s:%d: %s\n", file, line, text);
    else
        (void)fprintf(stderr, "%s: %s\n", file, text);
}

static void print_help(const struct rp_service_def *def)
{
    (void)printf("Usage: %s [OPTION...]\n%s\n\n"
                 "  -c, --config FILE  the configuration (default: $REPRISE_CONFIG, else "
                 "reprise.yaml)\n"
                 "      --check        check the configuration, print every fault, and exit\n"
                 "      --reference    print all parameters of the configuration, and exit\n"
                 "  -h, --help         print this, and exit\n"
                 "  -V, --version      print the version, and exit\n\n"
                 "SIGTERM or SIGINT: stop intake, finish what is in hand, commit, exit; a second "
                 "one exits at once.\n"
                 "SIGHUP: load the policies anew; a bad file is refused, and the old ones stay.\n"
                 "What else differs is logged, and takes a restart.\n\n"
                 "Exit codes: 0 drained, 1 failed, 2 usage or configuration, 3 drain abandoned.\n",
                 def->name, def->about);
}

enum mode { MODE_RUN, MODE_CHECK, MODE_REFERENCE, MODE_HELP, MODE_VERSION, MODE_USAGE };

static enum mode parse_arguments(const char *name, int argc, char **argv, const char **config_file)
{
    static const struct option options[] = {{"config", required_argument, NULL, 'c'},
                                            {"check", no_argument, NULL, MODE_CHECK},
                                            {"reference", no_argument, NULL, MODE_REFERENCE},
                                            {"help", no_argument, NULL, 'h'},
                                            {"version", no_argument, NULL, 'V'},
                                            {0}};
    enum mode mode = MODE_RUN;
    const char *from_environment = getenv("REPRISE_CONFIG");
    *config_file = from_environment != NULL ? from_environment : "reprise.yaml";
    optind = 1;
    for (int c; (c = getopt_long(argc, argv, "c:hV", options, NULL)) != -1;) {
        if (c == 'c')
            *config_file = optarg;
        else if (c == MODE_CHECK || c == MODE_REFERENCE)
            mode = (enum mode)c;
        else
            return c == 'h' ? MODE_HELP : c == 'V' ? MODE_VERSION : MODE_USAGE;
    }
    if (optind == argc)
        return mode;
    (void)fprintf(stderr, "%s: unexpected argument '%s'\n", name, argv[optind]);
    return MODE_USAGE;
}

static int load_and(const struct rp_service_def *def, const char *file, enum mode mode)
{
    struct rp_service s = {.def = def, .config_file = file, .signals = -1, .ends = -1};
    struct rp_error err;
    if (rp_config_load(file, print_fault, NULL, &s.config, &err) != 0)
        return EXIT_USAGE;
    int code = EXIT_DRAINED;
    if (mode == MODE_CHECK) {
        (void)printf("%s: the configuration is good\n", file);
    } else {
        rp_log_setup((enum rp_log_level)s.config->log.level, s.config->log.json, def->name);
        s.section = def->section(s.config);
        code = serve(&s);
    }
    rp_config_free(s.config);
    return code;
}

int rp_service_main(const struct rp_service_def *def, int argc, char **argv)
{
    const char *file;
    enum mode mode = parse_arguments(def->name, argc, argv, &file);
    switch (mode) {
    case MODE_HELP:
        print_help(def);
        return EXIT_DRAINED;
    case MODE_VERSION:
        (void)printf("%s %s\n", def->name, REPRISE_VERSION);
        return EXIT_DRAINED;
    case MODE_REFERENCE:
        rp_config_print_reference(stdout);
        return EXIT_DRAINED;
    case MODE_USAGE:
        (void)fprintf(stderr, "Try '%s --help'.\n", def->name);
        return EXIT_USAGE;
    case MODE_RUN:
    case MODE_CHECK:
        break;
    }
    /* glibc keeps small chunks that were freed apart, and joins all of them whenever a freed chunk
     * and its free neighbours reach 64 KiB, which librdkafka brings about with each record. */
    (void)mallopt(M_MXFAST, 0);
    return load_and(def, file, mode);
}
