/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "dead_letter.h"
#include "glob.h"
#include "policies.h"
#include "units.h"

enum match { NO_MATCH, BY_GLOB, EXACTLY };

static enum match find(const struct rp_strings *list, struct rp_bytes name, const char **pattern)
{
    enum match best = NO_MATCH;
    for (size_t i = 0; best != EXACTLY && i < list->n; i++) {
        const char *item = list->items[i];
        if (rp_bytes_equal(name, rp_str(item))) {
            best = EXACTLY;
            *pattern = item;
        } else if (best == NO_MATCH && rp_glob_match(item, name)) {
            best = BY_GLOB;
            *pattern = item;
        }
    }
    return best;
}

/* What the policy's lists say of one class. The exact name beats a glob; else to stop wins. */
static bool class_is_listed(const struct rp_policy *policy, struct rp_bytes name, bool *stops,
                            const char **pattern)
{
    const char *yes = NULL, *no = NULL;
    name = rp_bytes_head(name, RP_MAX_CLASS_BYTES);
    enum match retryable = find(&policy->retryable, name, &yes);
    enum match non_retryable = find(&policy->non_retryable, name, &no);
    if (retryable == NO_MATCH && non_retryable == NO_MATCH)
        return false;
    *stops = non_retryable >= retryable;
    *pattern = *stops ? no : yes;
    return true;
}

/* The error's own class first, then its causes', outermost first. */
static bool is_listed(const struct rp_policy *policy, const struct rp_failed_task *task,
                      bool *stops, const char **pattern)
{
    if (policy->retryable.n + policy->non_retryable.n == 0)
        return false;
    bool found = class_is_listed(policy, task->error_class, stops, pattern);
    for (size_t i = 0; !found && i < task->n_causes && i < RP_MAX_CAUSES; i++)
        found = class_is_listed(policy, task->causes[i].class_name, stops, pattern);
    return found;
}

void rp_policy_plan(const struct rp_policy *policy, const struct rp_category *category,
                    const struct rp_failed_task *task, struct rp_policy_plan *out)
{
    *out = (struct rp_policy_plan){.schedule = &policy->schedule};
    for (size_t i = 0; i < policy->overrides.n; i++)
        if (policy->overrides.items[i].category == category) {
            out->override = &policy->overrides.items[i];
            out->schedule = &out->override->schedule;
        }
    if (!is_listed(policy, task, &out->stops, &out->listed))
        out->stops = category->persistent && out->override == NULL;
    out->backoff = out->schedule->backoff;
    if (out->backoff.kind == RP_BACKOFF_BY_CATEGORY)
        out->backoff = rp_profile_backoff[((const struct rp_category_entry *)category)->profile];
}

const struct rp_retry_rule *rp_schedule_refusal(const struct rp_schedule *s, int32_t attempt,
                                                int64_t waited_ms, struct rp_retry_rule *part)
{
    *part = (struct rp_retry_rule){
        .kind = RP_RETRY_MAX_ATTEMPTS,
        .max_attempts = s->max_attempts,
        .deadline_ms = s->deadline_ms,
    };
    if (s->max_attempts > 0 && rp_retry_refusal(part, attempt, waited_ms) != NULL)
        return part;
    part->kind = RP_RETRY_DEADLINE;
    if (s->deadline_ms > 0 && rp_retry_refusal(part, attempt, waited_ms) != NULL)
        return part;
    return s->rule == NULL ? NULL : rp_retry_refusal(s->rule, attempt, waited_ms);
}

static int64_t add_delay(int64_t time_ms, int64_t delay_ms)
{
    int64_t sum;
    return __builtin_add_overflow(time_ms, delay_ms, &sum) ? INT64_MAX : sum;
}

static int64_t subtract_capped(int64_t a, int64_t b)
{
    int64_t difference;
    return __builtin_sub_overflow(a, b, &difference) ? (b < 0 ? INT64_MAX : INT64_MIN) : difference;
}

/* Stops: the fallback handler first, unless it was the one that failed. */
static void stop(const struct rp_policy *policy, const struct rp_failure *failure, int reason,
                 struct rp_decision *out)
{
    out->reason = reason;
    out->verdict = policy->fallback != NULL && !failure->was_fallback ? RP_FALLBACK : RP_DEAD;
}

static void stop_at_once(const struct rp_policy *policy, const struct rp_category *category,
                         const struct rp_policy_plan *plan, const struct rp_failure *failure,
                         struct rp_decision *out)
{
    stop(policy, failure, RP_NON_RETRYABLE, out);
    if (plan->listed != NULL)
        (void)snprintf(out->why, sizeof out->why, "non_retryable lists %.100s", plan->listed);
    else
        (void)snprintf(out->why, sizeof out->why, "category %.64s is persistent", category->name);
}

static void stop_by_rule(const struct rp_policy *policy, const struct rp_retry_rule *refusal,
                         const struct rp_failure *failure, int64_t waited_ms,
                         struct rp_decision *out)
{
    char deadline[RP_UNIT_TEXT];
    switch (refusal->kind) {
    case RP_RETRY_MAX_ATTEMPTS:
        stop(policy, failure, RP_EXHAUSTED, out);
        (void)snprintf(out->why, sizeof out->why, "execution %" PRId32 ", max_attempts %d",
                       failure->attempt, refusal->max_attempts);
        break;
    case RP_RETRY_DEADLINE:
        stop(policy, failure, RP_DEADLINE_EXCEEDED, out);
        (void)snprintf(out->why, sizeof out->why,
                       "due %" PRId64 " ms after the first failure, deadline %s", waited_ms,
                       rp_format_duration(refusal->deadline_ms, deadline));
        break;
    default:
        stop(policy, failure, RP_NON_RETRYABLE, out);
        (void)snprintf(out->why, sizeof out->why, "retry: never");
    }
}

static char *put(char *at, const char *text)
{
    size_t n = strnlen(text, 64);
    memcpy(at, text, n);
    return at + n;
}

/* Runs for nearly every event, so it does without printf. */
static void say_who_decided(const struct rp_policy *policy, const struct rp_category *category,
                            char *why)
{
    char *at = put(put(why, "policy "), policy->name);
    *put(put(at, ", category "), category->name) = '\0';
}

void rp_decide(const struct rp_policy *policy, const struct rp_category *category,
               const struct rp_failure *failure, struct rp_rng *rng, struct rp_decision *out)
{
    struct rp_policy_plan plan;
    *out = (struct rp_decision){.verdict = RP_RETRY};
    rp_policy_plan(policy, category, failure->task, &plan);
    if (plan.stops) {
        stop_at_once(policy, category, &plan, failure, out);
        return;
    }
    int64_t delay =
        rp_backoff_delay(&plan.backoff, plan.schedule->jitter_percent, failure->attempt, rng);
    int64_t due = add_delay(failure->failed_at_ms, delay);
    if (due < failure->now_ms)
        due = failure->now_ms;
    int64_t waited = subtract_capped(due, failure->first_failed_at_ms);
    struct rp_retry_rule part;
    const struct rp_retry_rule *refusal =
        rp_schedule_refusal(plan.schedule, failure->attempt, waited, &part);
    if (refusal != NULL) {
        stop_by_rule(policy, refusal, failure, waited, out);
    } else if (failure->was_fallback) {
        stop(policy, failure, RP_EXHAUSTED, out);
        (void)snprintf(out->why, sizeof out->why, "the fallback handler failed too");
    } else {
        out->delay_ms = delay;
        out->due_ms = due;
        say_who_decided(policy, category, out->why);
    }
}
