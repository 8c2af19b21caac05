/* SPDX-License-Identifier: Apache-2.0 */
#include "view.h"

#include <inttypes.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "clock.h"

#define DRAW_EVERY_MS 250
#define LINE_EVERY_MS 3000
#define BAR           40

void view_begin(struct view *v, const struct rp_config *config)
{
    *v = (struct view){.config = config, .begun_mono_ms = rp_mono_ms()};
    v->terminal = isatty(STDOUT_FILENO) == 1;
    v->shown_mono_ms = v->begun_mono_ms;
}

static int width(void)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20)
        return 80;
    return size.ws_col;
}

/* A line that wraps would be two, and what is drawn next would miss its place. */
static void RP_PRINTF(2, 3) draw(struct view *v, const char *fmt, ...)
{
    char text[400];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    printf("%.*s\033[K\n", width() - 1, text);
    v->lines++;
}

static void draw_bar(struct view *v, const char *what, int n, int of)
{
    static const char full[] = "########################################";
    int filled = of > 0 ? (int)((int64_t)n * BAR / of) : 0;
    if (n > 0 && filled == 0)
        filled = 1;
    draw(v, "  %-26s%6d  %.*s", what, n, filled, full);
}

/* "retry-1s 204   retry-10s 96"; a topic's name without the prefix. */
static const char *tiers_text(const struct view *v, const struct ledger_counts *c, char *out,
                              size_t size)
{
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < v->config->n_tiers && i < LEDGER_TIERS && at < size; i++) {
        int n =
            snprintf(out + at, size - at, "%s%s %d", i > 0 ? "   " : "",
                     v->config->tiers[i].topic + strlen(v->config->topics.prefix), c->in_tier[i]);
        at += n > 0 ? (size_t)n : 0;
    }
    return out;
}

static const char *due_text(const struct ledger_counts *c, char *out, size_t size)
{
    size_t at = 0;
    for (int i = 0; i <= LEDGER_SOON && at < size; i++) {
        int n = snprintf(out + at, size - at, i < LEDGER_SOON ? "%ds %d  " : "later %d",
                         i < LEDGER_SOON ? i + 1 : c->due_in[i], c->due_in[i]);
        at += n > 0 ? (size_t)n : 0;
    }
    return out;
}

static void draw_all(struct view *v, const struct ledger_counts *c, int64_t seconds)
{
    char text[300];
    if (v->lines > 0)
        printf("\033[%dA", v->lines);
    v->lines = 0;
    draw(v, "reprise demo   %02" PRId64 ":%02" PRId64 "   %s   %d of %d tasks sent", seconds / 60,
         seconds % 60, v->config->guarantee == RP_EXACTLY_ONCE ? "exactly-once" : "at-least-once",
         c->sent, c->tasks);
    draw(v, "%s", "");
    draw_bar(v, "succeeded at once", c->succeeded_first, c->tasks);
    draw_bar(v, "succeeded after failures", c->succeeded_later, c->tasks);
    draw_bar(v, "dead letters in PostgreSQL", c->dead, c->tasks);
    draw_bar(v, "being executed or routed", c->open - c->waiting, c->tasks);
    draw_bar(v, "waiting until they are due", c->waiting, c->tasks);
    draw(v, "%s", "");
    draw(v, "  waiting in  %s", tiers_text(v, c, text, sizeof text));
    draw(v, "  due within  %s", due_text(c, text, sizeof text));
    draw(v,
         "  failures    %" PRId64 "   re-invoked %" PRId64 "   doubled %" PRId64
         "   early %" PRId64,
         c->failures, c->reinvocations, c->doubled, c->early);
    draw(v, "  lateness    p50 %.1f ms   p99 %.1f ms   max %.1f ms", c->p50_ms, c->p99_ms,
         c->max_ms);
    (void)fflush(stdout);
}

static void print_line(const struct view *v, const struct ledger_counts *c, int64_t seconds)
{
    char tiers[200];
    printf("%02" PRId64 ":%02" PRId64 " sent %d, failures %" PRId64 ", waiting: %s (due in 5s: %d)"
           ", re-invoked %" PRId64 ", succeeded %d, dead %d, late p50 %.1f ms p99 %.1f ms\n",
           seconds / 60, seconds % 60, c->sent, c->failures, tiers_text(v, c, tiers, sizeof tiers),
           c->due_in[0] + c->due_in[1] + c->due_in[2] + c->due_in[3] + c->due_in[4],
           c->reinvocations, c->succeeded_first + c->succeeded_later, c->dead, c->p50_ms,
           c->p99_ms);
    (void)fflush(stdout);
}

void view_show(struct view *v, struct ledger *l, bool last)
{
    struct ledger_counts c;
    int64_t now_mono_ms = rp_mono_ms();
    int64_t every_ms = v->terminal ? DRAW_EVERY_MS : LINE_EVERY_MS;
    if (!last && now_mono_ms - v->shown_mono_ms < every_ms)
        return;
    v->shown_mono_ms = now_mono_ms;
    ledger_count(l, rp_wall_ms(), &c);
    int64_t seconds = (now_mono_ms - v->begun_mono_ms) / 1000;
    if (v->terminal)
        draw_all(v, &c, seconds);
    else
        print_line(v, &c, seconds);
}

/* How they had to end, in words. */
static const char *end_text(const struct kind *k, const struct ledger_ending *e, char *out,
                            size_t size)
{
    if (k->reason != NULL && k->origin == FROM_HANDLER)
        (void)snprintf(out, size, "dead: %s after %d", k->reason, e->most_attempts);
    else if (k->reason != NULL)
        (void)snprintf(out, size, "dead: %s", k->reason);
    else if (e->most_attempts <= 1)
        (void)snprintf(out, size, "succeeded at once");
    else if (e->most_attempts == 2)
        (void)snprintf(out, size, "succeeded at attempt 2");
    else
        (void)snprintf(out, size, "succeeded, the last at attempt %d", e->most_attempts);
    return out;
}

static int print_kinds(struct ledger *l, int *lost)
{
    char end[80];
    int wrong = 0;
    printf("\n  %-50s %6s %6s  %s\n", "", "tasks", "right", "how they ended");
    for (size_t i = 0; i < workload_n_kinds; i++) {
        const struct kind *k = &workload_kinds[i];
        struct ledger_ending e;
        ledger_ending(l, k, &e);
        if (e.tasks == 0)
            continue;
        printf("  %-50s %6d %6d  %s", k->about, e.tasks, e.as_expected,
               end_text(k, &e, end, sizeof end));
        if (e.as_expected != e.tasks)
            printf("  <-- %d lost, %d ended otherwise", e.lost, e.other);
        printf("\n");
        wrong += e.tasks - e.as_expected;
        *lost += e.lost;
    }
    return wrong;
}

bool view_summary(const struct view *v, struct ledger *l, int64_t rows)
{
    struct ledger_counts c;
    int lost = 0;
    int wrong = print_kinds(l, &lost);
    ledger_count(l, rp_wall_ms(), &c);
    printf("\n  %d tasks = %d succeeded at once + %d succeeded after failures + %d dead letters"
           " + %d open\n",
           c.tasks, c.succeeded_first, c.succeeded_later, c.dead,
           c.tasks - c.succeeded_first - c.succeeded_later - c.dead);
    printf("  %" PRId64 " failures = %" PRId64 " re-invocations + %" PRId64 " dead letters;"
           " PostgreSQL counts %" PRId64 "\n",
           c.failures, c.reinvocations, c.dead_letters, rows);
    printf("  doubled: %" PRId64 "   lost: %d   early: %" PRId64
           "   lateness p50 %.1f ms, p99 %.1f ms, max %.1f ms\n\n",
           c.doubled, lost, c.early, c.p50_ms, c.p99_ms, c.max_ms);
    bool balanced = c.failures == c.reinvocations + c.dead_letters && rows == c.dead_letters;
    bool right = wrong == 0 && c.open == 0 && c.doubled == 0 && c.early == 0 && balanced;
    printf("%s after %" PRId64 " seconds.\n",
           right ? "Every task is accounted for" : "NOT every task is accounted for",
           (rp_mono_ms() - v->begun_mono_ms) / 1000);
    (void)fflush(stdout);
    return right;
}
