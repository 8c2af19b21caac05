/* SPDX-License-Identifier: Apache-2.0 */
#include "explain.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "dead_letter.h"
#include "glob.h"
#include "units.h"

static const char *reason_of(const struct rp_retry_rule *refusal)
{
    return refusal->kind == RP_RETRY_MAX_ATTEMPTS ? "EXHAUSTED"
           : refusal->kind == RP_RETRY_DEADLINE   ? "DEADLINE_EXCEEDED"
                                                  : "NON_RETRYABLE";
}

void explain_course(const struct rp_policy_plan *plan, struct explain_course *out)
{
    const struct rp_schedule *s = plan->schedule;
    *out = (struct explain_course){.rows[0].execution = 1, .n_rows = 1, .executions = 1};
    if (plan->stops) {
        out->end = "NON_RETRYABLE";
        return;
    }
    struct explain_row row = {.execution = 1};
    while (row.execution < EXPLAIN_MAX_EXECUTIONS) {
        struct rp_retry_rule part;
        row.delay = rp_backoff_range(&plan->backoff, row.execution);
        row.delay.high_ms += rp_jitter_most(row.delay.high_ms, s->jitter_percent);
        int64_t soonest = row.total.low_ms + row.delay.low_ms;
        int64_t latest = row.total.high_ms + row.delay.high_ms;
        const struct rp_retry_rule *refusal = rp_schedule_refusal(s, row.execution, soonest, &part);
        if (refusal != NULL) {
            out->end = reason_of(refusal);
            return;
        }
        row.perhaps = rp_schedule_refusal(s, row.execution, latest, &part) != NULL;
        row.total = (struct rp_delay_range){soonest, latest};
        if (row.perhaps && s->deadline_ms > 0 && latest > s->deadline_ms)
            row.total.high_ms = s->deadline_ms; /* it happens by then, or not at all */
        row.execution++;
        if (out->n_rows < EXPLAIN_MAX_ROWS)
            out->rows[out->n_rows++] = row;
        out->executions = row.execution;
        out->total = row.total;
    }
}

int64_t explain_laps(const struct rp_config *config, int64_t delay_ms)
{
    int t = rp_tier_for(config->tiers, config->n_tiers, delay_ms);
    if (t < 0)
        return 0;
    /* Only the longest tier can be too short: another's reach is the next one's length. */
    int64_t beyond = delay_ms - config->tiers[t].reach_ms, length = config->tiers[t].length_ms;
    return beyond <= 0 ? 1 : 1 + (beyond + length - 1) / length;
}

char *explain_time(int64_t ms, char out[EXPLAIN_TIME_TEXT])
{
    const int64_t s = (ms + 500) / 1000;
    if (ms < 1000)
        (void)snprintf(out, EXPLAIN_TIME_TEXT, ms == 0 ? "0s" : "%" PRId64 "ms", ms);
    else if (ms < 60000)
        (void)snprintf(out, EXPLAIN_TIME_TEXT, "%.5gs", (double)ms / 1000);
    else if (s < 3600)
        (void)snprintf(out, EXPLAIN_TIME_TEXT, "%" PRId64 "m %02" PRId64 "s", s / 60, s % 60);
    else if (s < 86400)
        (void)snprintf(out, EXPLAIN_TIME_TEXT, "%" PRId64 "h %02" PRId64 "m", s / 3600,
                       s / 60 % 60);
    else
        (void)snprintf(out, EXPLAIN_TIME_TEXT, "%" PRId64 "d %02" PRId64 "h", s / 86400,
                       s / 3600 % 24);
    return out;
}

#define RANGE_TEXT (2 * EXPLAIN_TIME_TEXT + 4)

static char *range_text(struct rp_delay_range range, char out[RANGE_TEXT])
{
    char low[EXPLAIN_TIME_TEXT], high[EXPLAIN_TIME_TEXT];
    explain_time(range.low_ms, low);
    explain_time(range.high_ms, high);
    if (strcmp(low, high) == 0)
        (void)snprintf(out, RANGE_TEXT, "%s", low);
    else
        (void)snprintf(out, RANGE_TEXT, "%s to %s", low, high);
    return out;
}

static void print_match(FILE *out, const struct rp_policy *policy, struct rp_bytes type)
{
    (void)fprintf(out, "policy    %s, ", policy->name);
    if (policy->built_in)
        (void)fprintf(out, "which is built in: no policy is for this type\n");
    else if (rp_bytes_equal(type, rp_str(policy->name)))
        (void)fprintf(out, "by the type's name\n");
    else if (rp_glob_is(policy->name))
        (void)fprintf(out, "the most specific glob that matches\n");
    else
        (void)fprintf(out, "since no policy is for this type\n");
}

/* What of the error gave it its category. */
static const char *classified_by(const struct rp_policies *p, const struct rp_failed_task *task)
{
    if (rp_category_find(p, task->error_category) != NULL)
        return "as the event says";
    const struct rp_failed_task bare = {0}, by_class = {.error_class = task->error_class};
    const struct rp_category *found = rp_classify(p, task), *unknown = rp_classify(p, &bare);
    if (found == unknown)
        return "no rule matches";
    return rp_classify(p, &by_class) == found ? "by its class" : "by its message";
}

static void print_error(FILE *out, const struct rp_policies *p, const struct rp_failed_task *task,
                        const struct rp_category *category, const struct rp_policy_plan *plan)
{
    (void)fprintf(out, "category  %s (%s), %s\n", category->name, classified_by(p, task),
                  category->persistent ? "persistent: not retried unless a policy says so"
                                       : "not persistent");
    if (plan->listed != NULL)
        (void)fprintf(out, "listed    %s: %s\n", plan->stops ? "non_retryable" : "retryable",
                      plan->listed);
    if (plan->override != NULL)
        (void)fprintf(out, "override  the policy's for %s\n", plan->override->name);
}

static void print_rule(FILE *out, const struct rp_retry_rule *rule)
{
    char text[RP_UNIT_TEXT];
    switch (rule->kind) {
    case RP_RETRY_MAX_ATTEMPTS:
        (void)fprintf(out, "at most %d executions", rule->max_attempts);
        break;
    case RP_RETRY_DEADLINE:
        (void)fprintf(out, "due within %s of the first failure",
                      rp_format_duration(rule->deadline_ms, text));
        break;
    case RP_RETRY_ALL_OF:
    case RP_RETRY_ANY_OF:
        (void)fprintf(out, rule->kind == RP_RETRY_ALL_OF ? "all of (" : "any of (");
        for (size_t i = 0; i < rule->n_terms; i++) {
            (void)fprintf(out, "%s", i == 0 ? "" : "; ");
            print_rule(out, &rule->terms[i]);
        }
        (void)fprintf(out, ")");
        break;
    default:
        (void)fprintf(out, rule->kind == RP_RETRY_NEVER ? "never" : "always");
    }
}

static void print_rules(FILE *out, const struct rp_schedule *s)
{
    const struct rp_retry_rule rules[] = {
        {.kind = RP_RETRY_MAX_ATTEMPTS, .max_attempts = s->max_attempts},
        {.kind = RP_RETRY_DEADLINE, .deadline_ms = s->deadline_ms},
    };
    const struct rp_retry_rule *given[] = {
        s->max_attempts > 0 ? &rules[0] : NULL,
        s->deadline_ms > 0 ? &rules[1] : NULL,
        s->rule,
    };
    const char *sep = "retries   ";
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (given[i] != NULL) {
            (void)fprintf(out, "%s", sep);
            print_rule(out, given[i]);
            sep = ", and ";
        }
    (void)fprintf(out, "\n");
}

static void print_delays(FILE *out, const struct rp_policy_plan *plan)
{
    static const char *const names[] = {"none",    "by category", "fixed",
                                        "uniform", "exponential", "exponential random"};
    const struct rp_backoff *b = &plan->backoff;
    char low[RP_UNIT_TEXT], high[RP_UNIT_TEXT], ratio[RP_UNIT_TEXT];
    (void)fprintf(out, "delays    %s", names[b->kind]);
    if (b->kind == RP_BACKOFF_FIXED)
        (void)fprintf(out, " %s", rp_format_duration(b->initial_ms, low));
    else if (b->kind == RP_BACKOFF_UNIFORM)
        (void)fprintf(out, " from %s to %s", rp_format_duration(b->initial_ms, low),
                      rp_format_duration(b->max_ms, high));
    else if (b->kind >= RP_BACKOFF_EXPONENTIAL)
        (void)fprintf(out, " from %s x%s, at most %s", rp_format_duration(b->initial_ms, low),
                      rp_format_ratio(b->multiplier, ratio), rp_format_duration(b->max_ms, high));
    if (plan->schedule->backoff.kind == RP_BACKOFF_BY_CATEGORY)
        (void)fprintf(out, ", the profile of the category");
    if (plan->schedule->jitter_percent > 0 && b->kind != RP_BACKOFF_NONE)
        (void)fprintf(out, ", plus 0 to %d%% of jitter", plan->schedule->jitter_percent);
    (void)fprintf(out, "\n");
}

#define TIERS_TEXT 96

/* The tiers of the shortest and the longest delay; laps only where there are several. */
static char *tiers_text(const struct rp_config *c, struct rp_delay_range delay,
                        char out[TIERS_TEXT])
{
    int low = rp_tier_for(c->tiers, c->n_tiers, delay.low_ms);
    int high = rp_tier_for(c->tiers, c->n_tiers, delay.high_ms);
    const char *first = low < 0 ? "-" : c->tiers[low].topic;
    if (low == high)
        (void)snprintf(out, TIERS_TEXT, "%.90s", first);
    else
        (void)snprintf(out, TIERS_TEXT, "%.40s, %.40s", first, c->tiers[high].topic);
    return out;
}

static char *laps_text(const struct rp_config *c, struct rp_delay_range delay, char out[48])
{
    int64_t low = explain_laps(c, delay.low_ms), high = explain_laps(c, delay.high_ms);
    if (low == high)
        (void)snprintf(out, 48, "%" PRId64, low);
    else
        (void)snprintf(out, 48, "%" PRId64 " to %" PRId64, low, high);
    return out;
}

/* The chance that one of n executions succeeds. */
static double chance(double success, int n)
{
    return 1 - pow(1 - success, n);
}

static void print_row(FILE *out, const struct rp_config *c, const struct explain_row *row,
                      double success)
{
    char delay[RANGE_TEXT], total[RANGE_TEXT], tiers[TIERS_TEXT], laps[48];
    bool first = row->execution == 1;
    (void)fprintf(out, "%9d%c  %-20s  %-22s  %-8s  ", row->execution, row->perhaps ? '?' : ' ',
                  first ? "-" : range_text(row->delay, delay),
                  first ? "-" : tiers_text(c, row->delay, tiers),
                  first ? "-" : laps_text(c, row->delay, laps));
    range_text(row->total, total);
    if (success >= 0)
        (void)fprintf(out, "%-20s  %6.2f%%\n", total, 100 * chance(success, row->execution));
    else
        (void)fprintf(out, "%s\n", total);
}

static void print_course(FILE *out, const struct rp_config *c, const struct explain_course *course,
                         double success)
{
    bool perhaps = false;
    (void)fprintf(out, "\n%9s   %-20s  %-22s  %-8s  %s%s\n", "EXECUTION", "AFTER", "TIER", "LAPS",
                  "TOTAL WAIT", success < 0 ? "" : "            SUCCESS");
    for (int i = 0; i < course->n_rows; i++) {
        print_row(out, c, &course->rows[i], success);
        perhaps |= course->rows[i].perhaps;
    }
    if (course->executions > course->n_rows)
        (void)fprintf(out, "      ...\n");
    if (perhaps)
        (void)fprintf(out, "        ?  only where the delays drawn are short enough\n");
}

static void print_end(FILE *out, const struct rp_policy *policy,
                      const struct explain_course *course, double success)
{
    char total[RANGE_TEXT];
    if (course->end == NULL) {
        (void)fprintf(out, "\nNo end: it is retried until it succeeds.\n");
        return;
    }
    (void)fprintf(out, "\nAt worst: %d execution%s, %s of waiting, then ", course->executions,
                  course->executions == 1 ? "" : "s", range_text(course->total, total));
    if (policy->fallback != NULL)
        (void)fprintf(out, "a last try by %s, then ", policy->fallback);
    (void)fprintf(out, "a dead letter: %s.\n", course->end);
    if (success >= 0)
        (void)fprintf(out, "Of all such tasks, %.2f%% succeed%s.\n",
                      100 * chance(success, course->executions),
                      course->rows[course->n_rows - 1].perhaps ? " at most" : "");
}

static void print_others(FILE *out, const struct rp_policy *policy,
                         const struct rp_policy_plan *plan)
{
    const char *sep = "also      overrides for ";
    for (size_t i = 0; i < policy->overrides.n; i++)
        if (&policy->overrides.items[i] != plan->override) {
            (void)fprintf(out, "%s%s", sep, policy->overrides.items[i].category->name);
            sep = ", ";
        }
    if (*sep == ',')
        (void)fprintf(out, "\n");
}

void explain_print(FILE *out, const struct rp_config *config, const struct rp_failed_task *task,
                   double success)
{
    const struct rp_policy *policy = rp_policies_match(config->policies, task->task_type);
    const struct rp_category *category = rp_classify(config->policies, task);
    struct rp_policy_plan plan;
    struct explain_course course;
    rp_policy_plan(policy, category, task, &plan);
    explain_course(&plan, &course);
    print_match(out, policy, task->task_type);
    print_error(out, config->policies, task, category, &plan);
    if (!plan.stops) {
        print_rules(out, plan.schedule);
        print_delays(out, &plan);
    }
    (void)fprintf(out, "target    %s\n", policy->target != NULL ? policy->target : "the event's");
    if (policy->fallback != NULL)
        (void)fprintf(out, "fallback  %s\n", policy->fallback);
    print_others(out, policy, &plan);
    print_course(out, config, &course, success);
    print_end(out, policy, &course, success);
}
