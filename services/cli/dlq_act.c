/* SPDX-License-Identifier: Apache-2.0 */
#include "dlq_act.h"

#include <stdio.h>
#include <stdlib.h>

#include "consent.h"
#include "database.h"
#include "group_prefix.h"
#include "progress.h"
#include "term.h"

#define GROUPS_SHOWN 10
#define MAX_LINE     100

/* A filter that was forgotten must not mean all. */
static int check(struct dlq *d, const char *verb)
{
    if (!rp_filter_is_empty(d->filter))
        return consent_reason(d->args);
    cli_error("say which dead letters to %s; --where all means all", verb);
    return CLI_USAGE;
}

static int ask_now(struct dlq *d, struct dlq_act *a)
{
    struct rp_query q = {0};
    PGresult *result;
    rp_query_add(&q, RP_QUERY_SEEN_UNTIL);
    int code = dlq_query_ask(d, &q, &result);
    if (code != CLI_OK)
        return code;
    (void)snprintf(a->now, sizeof a->now, "%s", PQgetvalue(result, 0, 0));
    PQclear(result);
    return CLI_OK;
}

static int ask_groups(struct dlq *d, PGresult **out)
{
    struct rp_query q = {0};
    rp_query_add(&q, "SELECT sum(g.n)::bigint, sum(sum(g.n)) OVER ()::bigint,"
                     " (count(*) OVER ())::bigint, lpad(to_hex(g.fingerprint), 16, '0'),"
                     " coalesce(e.task_type || ': ', '') || coalesce(e.error_class || ': ', '')"
                     "  || left(coalesce(e.message, ''), 300),"
                     " coalesce(sum(sum(g.n) FILTER (WHERE g.status = 'dead')) OVER (), 0)::bigint"
                     " FROM ");
    dlq_add_counts(d, &q);
    rp_query_add(&q, " AS g LEFT JOIN error_group AS e ON e.fingerprint = g.fingerprint"
                     " GROUP BY g.fingerprint, e.task_type, e.error_class, e.message"
                     " HAVING sum(g.n) > 0 ORDER BY 1 DESC, g.fingerprint LIMIT 10");
    return dlq_query_ask(d, &q, out);
}

static void print_groups(const PGresult *r, const struct dlq_act *a)
{
    char count[RP_UNIT_TEXT];
    int64_t groups = strtoll(PQgetvalue(r, 0, 2), NULL, 10);
    (void)printf("%s dead letter%s of %s group%s\n", dlq_count_text(a->count, count),
                 a->count == 1 ? "" : "s", PQgetvalue(r, 0, 2), groups == 1 ? "" : "s");
    for (int row = 0; row < PQntuples(r); row++) {
        (void)printf("%12s  %s  ", dlq_count_text(strtoll(PQgetvalue(r, row, 0), NULL, 10), count),
                     PQgetvalue(r, row, 3));
        term_print(stdout, rp_str(PQgetvalue(r, row, 4)), MAX_LINE);
        (void)putchar('\n');
    }
    if (groups > GROUPS_SHOWN)
        (void)printf("%12s  and %d groups more\n", "", (int)(groups - GROUPS_SHOWN));
}

static void print_dead(int64_t n)
{
    char count[RP_UNIT_TEXT];
    if (n > 0)
        (void)printf("%12s  of them %s dead: neither replayed nor discarded\n",
                     dlq_count_text(n, count), n == 1 ? "is" : "are");
}

static int show(struct dlq *d, bool for_good, struct dlq_act *a)
{
    PGresult *result;
    int code = ask_groups(d, &result);
    if (code != CLI_OK)
        return code;
    if (PQntuples(result) > 0) {
        a->count = database_number(result, 0, 1);
        print_groups(result, a);
        if (for_good)
            print_dead(database_number(result, 0, 5));
    }
    PQclear(result);
    if (a->count > 0)
        return CLI_OK;
    return dlq_nothing();
}

static int ask(struct dlq *d, const char *verb, const struct dlq_act *a)
{
    char question[128], count[RP_UNIT_TEXT];
    (void)snprintf(question, sizeof question, "%s %s dead letter%s?", verb,
                   dlq_count_text(a->count, count), a->count == 1 ? "" : "s");
    return consent_ask(d->args, question);
}

int dlq_act_begin(struct dlq *d, const struct dlq_act_kind *kind, struct dlq_act *out, bool *done)
{
    struct rp_error err;
    *out =
        (struct dlq_act){.actor = consent_actor(d->args), .reason = cli_value(d->args, "reason")};
    *done = false;
    int code = check(d, kind->verb);
    if (code == CLI_OK && rp_filter_where(d->filter, kind->only, &err) != 0)
        return dlq_failed(&err);
    if (code == CLI_OK && (out->filter = filter_text(d->filter)) == NULL)
        code = CLI_FAILED;
    if (code == CLI_OK && database_no_hurry(d->db, &err) != 0)
        return dlq_failed(&err);
    if (code == CLI_OK)
        code = ask_now(d, out);
    if (code == CLI_OK)
        code = group_prefix_check(d->db, d->filter, "true");
    if (code == CLI_OK)
        code = show(d, kind->for_good, out);
    if (code == CLI_OK && cli_value(d->args, "dry-run") != NULL) {
        *done = true;
        return CLI_OK;
    }
    return code == CLI_OK ? ask(d, kind->verb, out) : code;
}

void dlq_act_clear(struct dlq_act *a)
{
    free(a->filter);
}

static void tell_file(const struct dlq_act *a)
{
    if (a->file != NULL)
        cli_error("name another file then: %s stays as it is", a->file);
}

int dlq_act_end(const struct dlq_act *a, const char *did, int64_t n, int failed,
                const struct rp_error *err)
{
    char count[RP_UNIT_TEXT], all[RP_UNIT_TEXT];
    int code = failed == 0 ? CLI_OK : dlq_failed(err);
    bool stopped = failed == 0 && progress_stopped() && n < a->count;
    if (n > 0 || failed == 0)
        (void)printf("%s %s dead letter%s\n", did, dlq_count_text(n, count), n == 1 ? "" : "s");
    if ((failed != 0 && err->code != RP_E_RANGE && err->code != RP_E_INVALID) || stopped) {
        cli_error("%s %s of %s; run it again for the rest", did, dlq_count_text(n, count),
                  dlq_count_text(a->count, all));
        tell_file(a);
    }
    if (stopped || (code != CLI_OK && n > 0))
        return CLI_PARTLY;
    if (code != CLI_OK || n >= a->count)
        return code;
    cli_error("%s of those shown were left alone: they changed meanwhile, or were archived within "
              "30 s before; run it again",
              dlq_count_text(a->count - n, count));
    tell_file(a);
    return CLI_PARTLY;
}
