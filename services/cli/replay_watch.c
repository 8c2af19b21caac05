/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_watch.h"

#include <inttypes.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "reprise/rng.h"
#include "log.h"
#include "replay_plan.h"
#include "replay_run.h"
#include "signals.h"
#include "term.h"

#define BAR       30
#define LINE_MS   5000
#define SAMPLE_MS 1000
#define SMOOTHING 0.4
/* So long somebody who waits at a terminal may be asked to wait for brokers that do not answer. */
#define SETTLE_MS          INT64_C(15000)
#define REASONS_TIMEOUT_MS INT64_C(10000)
/* What a server that lost us was about to commit it has committed by then, or nobody knows. */
#define FIND_LOOKS      10
#define FIND_EVERY_MS   500
#define FIND_TIMEOUT_MS 60000

static atomic_bool stop;

static void on_signal(int sig)
{
    (void)sig;
    atomic_store(&stop, true);
}

struct watch {
    bool terminal;
    int64_t shown_mono_ms, sample_mono_ms, sample_done;
    double per_s; /* as it goes, smoothed; < 0: not known yet */
    char what[64];
};

static void measure(struct watch *w, const struct rp_replay_progress *p, int64_t now_mono_ms)
{
    int64_t passed_ms = now_mono_ms - w->sample_mono_ms;
    if (w->sample_mono_ms != 0 && passed_ms < SAMPLE_MS)
        return;
    if (w->sample_mono_ms != 0) {
        double fresh = (double)(p->done - w->sample_done) * 1000 / (double)passed_ms;
        w->per_s = w->per_s < 0 ? fresh : w->per_s + SMOOTHING * (fresh - w->per_s);
    }
    w->sample_mono_ms = now_mono_ms;
    w->sample_done = p->done;
}

static void print_left(const struct watch *w, const struct rp_replay_progress *p)
{
    int64_t left = p->total - p->done;
    if (w->per_s < 0.001 || left <= 0)
        return;
    int64_t s = (int64_t)((double)left / w->per_s + 0.5);
    if (s >= 3600)
        (void)fprintf(stderr, ", %" PRId64 "h%02" PRId64 "m left", s / 3600, s / 60 % 60);
    else if (s >= 60)
        (void)fprintf(stderr, ", %" PRId64 "m%02" PRId64 "s left", s / 60, s % 60);
    else
        (void)fprintf(stderr, ", %" PRId64 " s left", s);
}

static void print_trouble(const struct watch *w, const char *trouble)
{
    (void)fputs("; waiting: ", stderr);
    term_print(stderr, rp_str(trouble), w->terminal ? 100 : SIZE_MAX);
}

static void print_progress(const struct watch *w, const struct rp_replay_progress *p)
{
    int percent = p->total == 0 ? 100 : (int)(p->done * 100 / p->total);
    if (w->terminal) {
        int full = percent * BAR / 100;
        (void)fputs("\r\033[K[", stderr);
        for (int i = 0; i < BAR; i++)
            (void)fputc(i < full ? '#' : '.', stderr);
        (void)fputs("] ", stderr);
    }
    (void)fprintf(stderr, "%" PRId64 " of %" PRId64 " (%d%%)", p->done, p->total, percent);
    if (w->per_s >= 0)
        (void)fprintf(stderr, ", %.0f/s", w->per_s);
    if (p->rate > 0)
        (void)fprintf(stderr, " of %g/s", p->rate);
    print_left(w, p);
    if (p->refused > 0)
        (void)fprintf(stderr, ", %" PRId64 " refused", p->refused);
    if (p->came_back > 0)
        (void)fprintf(stderr, ", %" PRId64 " came back dead", p->came_back);
    (void)fprintf(stderr, ": %s", p->what);
    if (p->trouble != NULL)
        print_trouble(w, p->trouble);
    if (!w->terminal)
        (void)fputc('\n', stderr);
}

static void progress(void *opaque, const struct rp_replay_progress *p)
{
    struct watch *w = opaque;
    int64_t now_mono_ms = rp_mono_ms();
    measure(w, p, now_mono_ms);
    bool news = strcmp(w->what, p->what) != 0;
    if (!w->terminal && !news && now_mono_ms - w->shown_mono_ms < LINE_MS)
        return;
    (void)snprintf(w->what, sizeof w->what, "%s", p->what);
    w->shown_mono_ms = now_mono_ms;
    print_progress(w, p);
}

/* Of what is over in a moment only what is in its way is told. */
static void tell_trouble(void *opaque, const struct rp_replay_progress *p)
{
    if (p->trouble != NULL)
        progress(opaque, p);
}

static void runner_name(char *out, size_t size)
{
    char host[64] = "";
    struct rp_rng rng;
    const struct passwd *user = getpwuid(geteuid());
    rp_rng_init_random(&rng);
    (void)gethostname(host, sizeof host - 1);
    (void)snprintf(out, size, "%s@%s/%d-%08" PRIx32, user == NULL ? "?" : user->pw_name, host,
                   (int)getpid(), (uint32_t)rp_rng_next(&rng));
}

void replay_print_refusals(FILE *out, struct rp_db *db, const char *job)
{
    const char *values[] = {job};
    PGresult *result;
    if (rp_db_query(db,
                    "SELECT count(*), refused FROM replay_item WHERE job = $1 AND refused IS NOT"
                    " NULL GROUP BY 2 ORDER BY 1 DESC, 2 LIMIT 10",
                    1, values, &result, NULL) != 0)
        return;
    for (int i = 0; i < PQntuples(result); i++) {
        (void)fprintf(out, "  %s refused: ", PQgetvalue(result, i, 0));
        term_print(out, rp_str(PQgetvalue(result, i, 1)), 200);
        (void)fputc('\n', out);
    }
    PQclear(result);
}

static void print_outcome(struct rp_db *db, const char *job)
{
    const char *values[] = {job};
    PGresult *result;
    if (rp_db_query(db, "SELECT outcome FROM replay_job WHERE job = $1 AND outcome IS NOT NULL", 1,
                    values, &result, NULL) != 0)
        return;
    if (PQntuples(result) > 0) {
        (void)fputs("  ", stdout);
        term_print(stdout, rp_str(PQgetvalue(result, 0, 0)), 300);
        (void)putchar('\n');
    }
    PQclear(result);
}

static const char *end_text(enum rp_replay_end end)
{
    switch (end) {
    case RP_REPLAY_DONE:
        return "done";
    case RP_REPLAY_PAUSED:
    case RP_REPLAY_LET_GO:
        return "paused";
    case RP_REPLAY_LEFT:
        return "let go";
    case RP_REPLAY_CANCELLED:
        return "cancelled";
    case RP_REPLAY_STOPPED:
        return "stopped";
    case RP_REPLAY_LOST:
        return "taken over by somebody else";
    case RP_REPLAY_FAILED:
        break;
    }
    return "failed";
}

static const char offset_gone[] =
    "Kafka does not say how far an earlier runner came: it sent nothing, or what it had sent and"
    " not marked, 5 s of it at most, counts as not sent.";

static void print_ways_on(const char *job)
{
    (void)printf("Go on:   reprise replay resume %s\nGive up: reprise replay cancel %s\n", job,
                 job);
}

/* The connection that planned the job has lain idle since. */
static void print_reasons(const struct rp_config *config, const char *job,
                          const struct rp_replay_result *r)
{
    struct rp_db *db;
    if (r->refused == 0 && r->end != RP_REPLAY_STOPPED)
        return;
    if (rp_db_open(config->postgres.dsn, "reprise", REASONS_TIMEOUT_MS, &db, NULL) != 0) {
        (void)printf("Why: reprise replay show %s\n", job);
        return;
    }
    if (r->refused > 0)
        replay_print_refusals(stdout, db, job);
    if (r->end == RP_REPLAY_STOPPED)
        print_outcome(db, job);
    rp_db_close(db);
}

static int report(const struct rp_config *config, const char *job, const struct rp_replay_result *r,
                  const struct rp_error *err)
{
    int64_t sent = r->done - r->refused;
    const char *least = r->unmarked || r->end == RP_REPLAY_LOST ? "at least " : "";
    (void)printf("Replay %s: %s. %s%" PRId64 " of %" PRId64 " sent, %" PRId64 " refused.\n", job,
                 end_text(r->end), least, sent, r->total, r->refused);
    print_reasons(config, job, r);
    if (r->offset_gone)
        (void)printf("%s\n", offset_gone);
    if (r->end == RP_REPLAY_FAILED)
        cli_error("%s", err->text);
    if (r->end == RP_REPLAY_LEFT)
        (void)printf("PostgreSQL did not take that down: in 15 s it counts as abandoned.\n");
    if (r->unmarked)
        (void)printf("More may have been sent: an archiver finds that out, or who goes on or gives"
                     " up.\n");
    if (r->end == RP_REPLAY_PAUSED || r->end == RP_REPLAY_LET_GO || r->end == RP_REPLAY_LEFT ||
        r->end == RP_REPLAY_LOST || r->end == RP_REPLAY_FAILED)
        print_ways_on(job);
    if (sent == 0 && !r->unmarked && (r->end == RP_REPLAY_FAILED || r->end == RP_REPLAY_DONE))
        return CLI_FAILED;
    return r->end == RP_REPLAY_DONE && r->refused == 0 ? CLI_OK : CLI_PARTLY;
}

static int run(const struct rp_config *config, const char *job, bool settle, struct watch *w,
               struct rp_replay_result *result, struct rp_error *err)
{
    char name[160];
    const struct rp_replay_run options = {
        .config = config,
        .runner = name,
        .stop = &stop,
        .pause_on_stop = true,
        .settle = settle,
        .settle_within_ms = SETTLE_MS,
        .progress = settle ? tell_trouble : progress,
        .opaque = w,
    };
    /* What librdkafka has to say comes as trouble, where it is any. */
    rp_log_setup(RP_LOG_ERROR, false, "reprise");
    runner_name(name, sizeof name);
    return rp_replay_run(&options, job, result, err);
}

int replay_find_planned(const struct rp_config *config, const struct rp_db *lost, const char *job,
                        int64_t *total)
{
    struct rp_error ignored;
    struct rp_db *db = NULL;
    *total = 0;
    if (rp_db_alive(lost))
        return -1;
    bool answered =
        rp_db_open(config->postgres.dsn, "reprise", FIND_TIMEOUT_MS, &db, &ignored) == 0;
    for (int i = 0; i < FIND_LOOKS && answered && *total == 0; i++) {
        if (i > 0)
            (void)usleep(FIND_EVERY_MS * 1000);
        answered = rp_replay_is_planned(db, job, total, &ignored) == 0;
    }
    rp_db_close(db);
    if (*total > 0)
        return 0;
    cli_error(
        "replay %s was not planned, as far as is known; should `reprise replay show %s` have it"
        " later, `reprise replay resume %s` sends it, and `reprise replay cancel %s` does not",
        job, job, job, job);
    return -1;
}

int replay_run_here(const struct rp_config *config, const char *job)
{
    struct rp_replay_result result;
    struct rp_error err;
    struct watch w = {.terminal = isatty(STDERR_FILENO) == 1, .per_s = -1};
    /* The second one ends us at once, which does no harm. */
    if (signals_catch(SIGINT, on_signal) != 0 || signals_catch(SIGTERM, on_signal) != 0 ||
        signals_catch(SIGHUP, on_signal) != 0) {
        cli_error("signals cannot be caught");
        return CLI_FAILED;
    }
    int failed = run(config, job, false, &w, &result, &err);
    if (w.terminal && failed == 0)
        (void)fputc('\n', stderr);
    if (failed == 0)
        return report(config, job, &result, &err);
    cli_error("%s", err.text);
    if (err.cls == RP_POISON)
        return CLI_USAGE;
    if (err.code != RP_E_FENCED)
        print_ways_on(job);
    return CLI_FAILED;
}

int replay_settle_here(const struct rp_config *config, const char *job)
{
    struct rp_replay_result result;
    struct rp_error err;
    struct watch w = {.per_s = -1};
    bool ran = run(config, job, true, &w, &result, &err) == 0;
    if (ran && result.offset_gone)
        cli_error("%s", offset_gone);
    if (ran && result.end == RP_REPLAY_LET_GO) {
        cli_error("it is wished, and cannot be done now: %s", err.text);
        cli_error("an archiver does it, or the same command again");
        return CLI_PARTLY;
    }
    if (ran && result.end != RP_REPLAY_FAILED)
        return CLI_OK;
    if (!ran && (err.code == RP_E_FENCED || err.code == RP_E_INVALID))
        return CLI_NOTHING;
    cli_error("%s", err.text);
    return CLI_FAILED;
}
