/* SPDX-License-Identifier: Apache-2.0 */
/* Plays a workload through a running pipeline and shows what becomes of it. deploy/local/run starts
 * it, with everything that it needs around it. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "clock.h"
#include "feed.h"
#include "load.h"
#include "log.h"
#include "targets.h"
#include "view.h"
#include "watch.h"

/* After the last end: long enough for what comes twice to come. */
#define SETTLE_MS 2000

static volatile sig_atomic_t interrupted;
/* Others' tasks are told of once the demo's own are done. */
static atomic_bool follows;

static void on_signal(int sig)
{
    (void)sig;
    interrupted = 1;
}

struct options {
    const char *config_file, *hints_file;
    int tasks, limit_s, load_rate, load_s;
    bool once, mock;
};

static const char help[] =
    "usage: reprise-demo --config FILE [options]\n\n"
    "Plays failing tasks through a running pipeline and accounts for every one.\n"
    "  --config FILE    the services' configuration\n"
    "  --tasks N        about how many tasks (default 6000)\n"
    "  --once           end with the summary: 0 when every task is accounted for, else 1\n"
    "  --limit SECONDS  when to give up on tasks that do not end (default 110)\n"
    "  --hints FILE     what to show after the summary\n"
    "  --mock           the broker is librdkafka's mock: its topics are there already, and take\n"
    "                   records of any size\n"
    "  --load RATE      instead: RATE events a second of the type `load`, and how late each comes\n"
    "  --seconds N      for how long (default 30)\n";

static int number(const char *text, int max, int *out)
{
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || n < 1 || n > max)
        return -1;
    *out = (int)n;
    return 0;
}

static int parse(int argc, char **argv, struct options *o)
{
    enum { CONFIG = 256, TASKS, ONCE, LIMIT, HINTS, MOCK, LOAD, SECONDS, HELP };
    static const struct option table[] = {
        {"config", required_argument, NULL, CONFIG}, {"tasks", required_argument, NULL, TASKS},
        {"once", no_argument, NULL, ONCE},           {"limit", required_argument, NULL, LIMIT},
        {"hints", required_argument, NULL, HINTS},   {"mock", no_argument, NULL, MOCK},
        {"load", required_argument, NULL, LOAD},     {"seconds", required_argument, NULL, SECONDS},
        {"help", no_argument, NULL, HELP},           {0},
    };
    int c, rc = 0;
    *o = (struct options){.tasks = 6000, .limit_s = 110, .load_s = 30};
    while (rc == 0 && (c = getopt_long(argc, argv, "", table, NULL)) != -1) {
        switch (c) {
        case CONFIG:
            o->config_file = optarg;
            break;
        case HINTS:
            o->hints_file = optarg;
            break;
        case ONCE:
            o->once = true;
            break;
        case MOCK:
            o->mock = true;
            break;
        case TASKS:
            rc = number(optarg, 900000, &o->tasks);
            break;
        case LIMIT:
            rc = number(optarg, 86400, &o->limit_s);
            break;
        case LOAD:
            rc = number(optarg, 100000, &o->load_rate);
            break;
        case SECONDS:
            rc = number(optarg, 3600, &o->load_s);
            break;
        case HELP:
            (void)fputs(help, stdout);
            exit(0);
        default:
            rc = -1;
        }
    }
    if (rc == 0 && o->config_file != NULL && optind == argc)
        return 0;
    (void)fputs(help, stderr);
    return -1;
}

static int complain(const char *why)
{
    fprintf(stderr, "reprise-demo: %s\n", why);
    return -1;
}

static void say(const char *line)
{
    if (atomic_load(&follows)) {
        printf("  %s\n", line);
        (void)fflush(stdout);
    }
}

/* A task that is not the demo's. */
static void tell(const struct delivery *d, bool succeeded, const struct failure *failure)
{
    char line[400];
    int64_t late_us = d->in.due_ms == RP_NO_TIME ? 0 : d->received_us - 1000 * d->in.due_ms;
    (void)snprintf(line, sizeof line, "%.*s is executed, attempt %" PRId32 ", %.1f ms late: %s%s",
                   (int)d->task_id.len, (const char *)d->task_id.data, d->attempt,
                   (double)late_us / 1000, succeeded ? "it succeeds" : "it fails with ",
                   failure->error_class);
    say(line);
}

/* What all handlers do. */
static bool work(void *opaque, const struct delivery *d, struct failure *out)
{
    struct ledger *l = opaque;
    int task = ledger_find(l, d->task_id);
    if (task >= 0)
        ledger_delivered(l, task, d->attempt, d->in.due_ms, d->received_us);
    bool succeeded = workload_execute(d->payload, d->attempt, d->received_us / 1000, out);
    if (task >= 0)
        ledger_executed(l, task, d->attempt, succeeded);
    else
        tell(d, succeeded, out);
    return succeeded;
}

struct demo {
    const struct options *options;
    struct rp_config *config;
    struct ledger *ledger;
    struct watch *watch;
    struct feed *feed;
    struct handler_def *defs;
    struct handler **handlers;
    struct view view;
};

static const char *bootstrap_servers(const struct rp_config *config)
{
    for (size_t i = 0; i < config->kafka.common.n; i++)
        if (strcmp(config->kafka.common.items[i].name, "bootstrap.servers") == 0)
            return config->kafka.common.items[i].value;
    return "localhost:9092";
}

static int start_handlers(struct demo *d, struct rp_error *err)
{
    d->defs = calloc(workload_n_samples, sizeof *d->defs);
    d->handlers = calloc(workload_n_samples, sizeof(struct handler *));
    if (d->defs == NULL || d->handlers == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for handlers");
    for (size_t i = 0; i < workload_n_samples; i++) {
        d->defs[i] = (struct handler_def){
            .bootstrap_servers = bootstrap_servers(d->config),
            .topic = workload_samples[i].topic,
            .failed_tasks = d->config->topics.failed_tasks,
            .task_type = workload_samples[i].type,
            .service = workload_samples[i].service,
            .work = work,
            .opaque = d->ledger,
        };
        if (handler_start(&d->defs[i], &d->handlers[i], err) != 0)
            return -1;
    }
    return 0;
}

static bool handlers_ready(const struct demo *d)
{
    for (size_t i = 0; i < workload_n_samples; i++)
        if (!handler_ready(d->handlers[i]))
            return false;
    return true;
}

/* The first error of all that run; NULL while all is well. */
static const char *trouble(const struct demo *d)
{
    const char *why = watch_error(d->watch);
    for (size_t i = 0; why == NULL && i < workload_n_samples; i++)
        why = handler_error(d->handlers[i]);
    return why != NULL || d->feed == NULL ? why : feed_error(d->feed);
}

static int start(struct demo *d, struct rp_error *err)
{
    d->ledger = ledger_new(d->options->tasks, !d->options->mock);
    if (d->ledger == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for the tasks");
    if ((!d->options->mock && targets_make(d->config, err) != 0) ||
        watch_start(d->config, d->ledger, say, &d->watch, err) != 0 || start_handlers(d, err) != 0)
        return -1;
    int64_t until_mono_ms = rp_mono_ms() + 30000;
    while (!handlers_ready(d) && !interrupted) {
        if (trouble(d) != NULL)
            return rp_fail(err, RP_E_KAFKA, RP_FATAL, "%s", trouble(d));
        if (rp_mono_ms() > until_mono_ms)
            return rp_fail(err, RP_E_TIMEOUT, RP_FATAL, "the handlers get no partitions");
        (void)usleep(50000);
    }
    return feed_start(d->config, d->ledger, &d->feed, err);
}

/* Until every task has ended and nothing came after it, or the time is up. */
static int play(struct demo *d)
{
    int64_t ended_mono_ms = 0;
    int64_t until_mono_ms = rp_mono_ms() + 1000 * (int64_t)d->options->limit_s;
    view_begin(&d->view, d->config);
    while (!interrupted) {
        if (trouble(d) != NULL)
            return complain(trouble(d));
        view_show(&d->view, d->ledger, false);
        int64_t now_mono_ms = rp_mono_ms();
        if (ledger_unfinished(d->ledger) > 0)
            ended_mono_ms = 0;
        else if (ended_mono_ms == 0)
            ended_mono_ms = now_mono_ms;
        else if (now_mono_ms - ended_mono_ms > SETTLE_MS)
            break;
        if (now_mono_ms > until_mono_ms)
            break;
        (void)usleep(50000);
    }
    view_show(&d->view, d->ledger, true);
    return interrupted ? complain("interrupted") : 0;
}

static void show_file(const char *path)
{
    char text[4096];
    size_t n;
    FILE *f = path == NULL ? NULL : fopen(path, "r");
    while (f != NULL && (n = fread(text, 1, sizeof text, f)) > 0)
        (void)fwrite(text, 1, n, stdout);
    if (f != NULL)
        (void)fclose(f);
    (void)fflush(stdout);
}

static int finish(struct demo *d)
{
    struct rp_error err;
    int64_t rows;
    if (watch_count_rows(d->config, ledger_prefix(d->ledger), &rows, &err) != 0)
        return complain(err.text);
    bool right = view_summary(&d->view, d->ledger, rows);
    if (d->options->once)
        return right ? 0 : -1;
    show_file(d->options->hints_file);
    atomic_store(&follows, true);
    while (!interrupted && trouble(d) == NULL)
        (void)usleep(100000);
    return trouble(d) == NULL ? 0 : complain(trouble(d));
}

static int play_workload(const struct options *options, struct rp_config *config)
{
    struct demo d = {.options = options, .config = config};
    struct rp_error err;
    int rc = start(&d, &err);
    if (rc != 0)
        (void)complain(err.text);
    else if ((rc = play(&d)) == 0)
        rc = finish(&d);
    /* To commit and leave its groups, a handler waits for a broker that may be gone before us. */
    if (interrupted) {
        (void)fflush(stdout);
        _exit(rc == 0 ? 0 : 130);
    }
    feed_stop(d.feed);
    for (size_t i = 0; d.handlers != NULL && i < workload_n_samples; i++)
        handler_ask_to_stop(d.handlers[i]);
    for (size_t i = 0; d.handlers != NULL && i < workload_n_samples; i++)
        handler_stop(d.handlers[i]);
    watch_stop(d.watch);
    ledger_free(d.ledger);
    free(d.handlers);
    free(d.defs);
    return rc;
}

static int play_load(const struct options *options, const struct rp_config *config)
{
    struct rp_error err;
    bool whole;
    if (load_run(config, options->load_rate, options->load_s, &interrupted, &whole, &err) != 0)
        return complain(err.text);
    return whole ? 0 : -1;
}

int main(int argc, char **argv)
{
    struct options options;
    struct rp_config *config;
    struct rp_error err;
    struct sigaction stop = {.sa_handler = on_signal};

    if (parse(argc, argv, &options) != 0)
        return 2;
    rp_log_setup(RP_LOG_ERROR, false, "reprise-demo");
    if (sigaction(SIGINT, &stop, NULL) != 0 || sigaction(SIGTERM, &stop, NULL) != 0) {
        (void)complain(strerror(errno));
        return 1;
    }
    if (rp_config_load(options.config_file, NULL, NULL, &config, &err) != 0) {
        (void)complain(err.text);
        return 2;
    }
    int rc = options.load_rate > 0 ? play_load(&options, config) : play_workload(&options, config);
    rp_config_free(config);
    if (rc != 0 && interrupted)
        return 130;
    return rc == 0 ? 0 : 1;
}
