/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "archive_json.h"
#include "array.h"
#include "clock.h"
#include "database.h"
#include "dlq.h"
#include "progress.h"
#include "term.h"

#define EVERY_MS 500
/* An id is drawn before its row can be seen: rows may come behind those of higher ids, by as long
 * as the archiver's transaction takes. It waits 30 s for the database, and what it gave up by then
 * may be committed a little later. */
#define LATE_MS 45000
#define MOST    1000 /* rows a question, */
/* and about so many bytes of JSON, if it is not a single one. */
#define MOST_BYTES "8388608"
/* Where there are more lately, those that come behind them are not looked for. */
#define MOST_SEEN 60000

/* Ids seen lately, ascending. What is not above `low` is not asked for any more: the highest id
 * that there was a while ago. */
struct tail {
    int64_t low, next_low, next_mono_ms;
    int64_t *seen;
    size_t n, room;
};

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static bool add_seen(struct tail *t, int64_t id)
{
    int64_t *seen = rp_array_grow(t->seen, t->n, &t->room, sizeof *seen);
    if (seen == NULL)
        return false;
    t->seen = seen;
    t->seen[t->n++] = id;
    return true;
}

static void set_low(struct tail *t, int64_t low)
{
    size_t old = 0;
    t->low = low > t->low ? low : t->low;
    while (old < t->n && t->seen[old] <= t->low)
        old++;
    t->n -= old;
    for (size_t i = 0; i < t->n; i++)
        t->seen[i] = t->seen[i + old];
}

/* After a question of that time; up to `shown` all that it found was printed. */
static int raise_low(struct dlq *d, struct tail *t, int64_t asked_mono_ms, int64_t shown)
{
    struct rp_query q = {0};
    PGresult *result;
    if (asked_mono_ms < t->next_mono_ms)
        return CLI_OK;
    set_low(t, shown < t->next_low ? shown : t->next_low);
    if (shown < t->next_low)
        return CLI_OK;
    rp_query_add(&q, "SELECT coalesce(max(id), 0) FROM dead_letter");
    int code = dlq_query_ask(d, &q, &result);
    if (code != CLI_OK)
        return code;
    t->next_low = database_number(result, 0, 0);
    t->next_mono_ms = rp_mono_ms() + LATE_MS;
    PQclear(result);
    return CLI_OK;
}

static void print_line(const struct dlq *d, const PGresult *r, int row)
{
    size_t width = term_width(stdout);
    if (d->form == DLQ_FORM_JSON) {
        dlq_print_json(stdout, r, row);
        return;
    }
    term_print(stdout, rp_str(PQgetvalue(r, row, 0)), width > 0 ? width : SIZE_MAX);
    (void)putchar('\n');
}

#define LINE                                                                                       \
    "d.id || '  ' || to_char(d.dead_at, 'YYYY-MM-DD HH24:MI:SS') || '  ' || d.reason || '  ' ||"   \
    " coalesce(d.task_type, '-') || '  ' || coalesce(d.task_id, '-') || '  ' ||"                   \
    " coalesce(d.error_class || ': ' || left(d.error_message, 300), left(d.detail, 300), '')"

/* What is found, how many there are, the id of each. */
static void add_question(struct dlq *d, struct rp_query *q, const struct tail *t)
{
    bool json = d->form == DLQ_FORM_JSON;
    rp_query_add(q, "SELECT ");
    rp_query_add(q, json ? rp_archive_json : LINE);
    rp_query_add(q, ", d.found, d.id FROM (SELECT d.*, count(*) OVER () AS found, ");
    rp_query_add(q,
                 json ? "sum(" RP_ARCHIVE_SIZE ") OVER (ORDER BY d.id) - " RP_ARCHIVE_SIZE : "0");
    rp_query_add(q, " AS before FROM (SELECT d.* FROM archive AS d WHERE d.id > ");
    rp_query_param_int(q, t->low);
    rp_query_add(q, " AND d.id NOT IN (SELECT unnest(");
    struct rp_buf ids = {0};
    for (size_t i = 0; i < t->n; i++) {
        char text[RP_UNIT_TEXT];
        const char *id = rp_format_int(t->seen[i], text);
        if (rp_buf_append(&ids, i == 0 ? "{" : ",", 1, NULL) != 0 ||
            rp_buf_append(&ids, id, strlen(id), NULL) != 0)
            q->failed = true;
    }
    if (rp_buf_append(&ids, t->n == 0 ? "{}" : "}", t->n == 0 ? 3 : 2, NULL) != 0)
        q->failed = true;
    if (!q->failed)
        rp_query_param(q, (const char *)ids.data);
    rp_buf_clear(&ids);
    rp_query_add(q, "::bigint[])) AND ");
    dlq_add_filter(d, q);
    rp_query_add(q, " ORDER BY d.id LIMIT ");
    rp_query_param_int(q, MOST);
    rp_query_add(q, ") AS d) AS d WHERE d.before < " MOST_BYTES " ORDER BY d.id");
}

/* Prints what is new; `*more`: not all of it. */
static int look(struct dlq *d, struct tail *t, bool *more)
{
    struct rp_query q = {0};
    PGresult *result;
    int64_t asked_mono_ms = rp_mono_ms(), id = 0;
    add_question(d, &q, t);
    int code = dlq_query_ask(d, &q, &result);
    if (code != CLI_OK)
        return code;
    int n = PQntuples(result);
    *more = n == MOST || (n > 0 && database_number(result, 0, 1) > n);
    for (int row = 0; row < n && code == CLI_OK; row++) {
        id = database_number(result, row, 2);
        print_line(d, result, row);
        code = add_seen(t, id) ? CLI_OK : CLI_FAILED;
    }
    PQclear(result);
    if (t->n > 0)
        qsort(t->seen, t->n, sizeof *t->seen, compare);
    return code == CLI_OK ? raise_low(d, t, asked_mono_ms, *more ? id : INT64_MAX) : code;
}

/* Of ids that were drawn lately some may still come: the others up to `low` are seen, so that `low`
 * can be the highest one there was a while ago. */
static int look_back(struct dlq *d, struct tail *t)
{
    struct rp_query q = {0};
    PGresult *result;
    rp_query_add(&q, "SELECT id, old FROM (SELECT coalesce((SELECT id FROM dead_letter"
                     " WHERE archived_at < now() - ");
    rp_query_param_int(&q, LATE_MS);
    rp_query_add(&q, "::bigint * interval '1 ms' AND id <= ");
    rp_query_param_int(&q, t->low);
    rp_query_add(&q, " ORDER BY id DESC LIMIT 1), 0) AS old) AS o, LATERAL (SELECT id FROM"
                     " dead_letter WHERE id > old AND id <= ");
    rp_query_param_int(&q, t->low);
    rp_query_add(&q, " ORDER BY id LIMIT ");
    rp_query_param_int(&q, MOST_SEEN);
    rp_query_add(&q, ") AS lately ORDER BY id");
    int code = dlq_query_ask(d, &q, &result);
    if (code != CLI_OK)
        return code;
    int n = PQntuples(result);
    if (n > 0 && n < MOST_SEEN)
        t->low = database_number(result, 0, 1);
    for (int row = 0; row < n && n < MOST_SEEN && code == CLI_OK; row++)
        code = add_seen(t, database_number(result, row, 0)) ? CLI_OK : CLI_FAILED;
    PQclear(result);
    return code;
}

/* The id behind which all is new; --lines says how many there may be before. */
static int begin(struct dlq *d, int64_t lines, struct tail *t)
{
    struct rp_query q = {0};
    PGresult *result;
    rp_query_add(&q,
                 "SELECT coalesce((SELECT min(id) - 1 FROM (SELECT d.id FROM archive AS d WHERE ");
    dlq_add_filter(d, &q);
    rp_query_add(&q, " ORDER BY d.id DESC LIMIT ");
    rp_query_param_int(&q, lines);
    rp_query_add(&q, ") AS l), (SELECT max(id) FROM dead_letter), 0)");
    int code = dlq_query_ask(d, &q, &result);
    if (code != CLI_OK)
        return code;
    t->low = database_number(result, 0, 0);
    PQclear(result);
    return look_back(d, t);
}

static int tail(struct dlq *d)
{
    struct tail t = {0};
    struct progress p;
    bool more = false;
    const char *text = cli_value(d->args, "lines");
    bool none = text != NULL && strcmp(text, "0") == 0;
    int64_t lines = none ? 0 : dlq_number(d->args, "lines", 10);
    int code = lines == 0 && !none ? CLI_USAGE : begin(d, lines, &t);
    progress_begin(&p, "", 0);
    while (code == CLI_OK && !progress_stopped()) {
        code = look(d, &t, &more);
        if (code == CLI_OK && fflush(stdout) != 0)
            break; /* main says so */
        if (!more && !progress_stopped())
            (void)nanosleep(&(struct timespec){.tv_nsec = EVERY_MS * 1000000L}, NULL);
    }
    free(t.seen);
    return code;
}

static int run(const struct cli_args *args)
{
    return dlq_run(args, tail);
}

static const struct cli_option options[] = {
    FILTER_OPTIONS,
    DLQ_FORMAT_OPTION,
    {.name = "lines", .value = "N", .help = "so many to begin with (default: 10); 0: none"},
    {0},
};

const struct cli_command cmd_dlq_tail = {
    .group = "dlq",
    .name = "tail",
    .summary = "Prints new dead letters as they come, until Ctrl-C.",
    .options = options,
    .run = run,
};
