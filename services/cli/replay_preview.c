/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_preview.h"

#include <inttypes.h>
#include <stdlib.h>

#include "database.h"
#include "jq_preview.h"
#include "query.h"
#include "replay_message.h"
#include "table.h"
#include "term.h"
#include "units.h"

#define MAX_CELL 50
/* Of so many it is shown what a jq program makes. */
#define CHANGES "3"

struct preview {
    const struct rp_config *config;
    struct rp_db *db;
    const struct rp_replay_request *request;
    rd_kafka_t *client;
    struct rp_replay_maker *maker;
    int64_t total, held_back;
};

static int query(struct preview *p, const char *sql, PGresult **out)
{
    struct rp_error err;
    return rp_db_query(p->db, sql, 0, NULL, out, &err) == 0 ? CLI_OK : database_failed(&err);
}

static void print_duration(double s)
{
    int64_t n = (int64_t)(s + 0.5);
    if (n >= 3600)
        (void)printf("%" PRId64 "h%02" PRId64 "m", n / 3600, n / 60 % 60);
    else if (n >= 60)
        (void)printf("%" PRId64 "m%02" PRId64 "s", n / 60, n % 60);
    else
        (void)printf("%" PRId64 "s", n);
}

static void print_time(const struct preview *p)
{
    const struct rp_replay_options *o = p->request->options;
    char wait[RP_UNIT_TEXT];
    (void)printf("Time:       ");
    if (p->request->rate > 0) {
        print_duration((double)p->total / p->request->rate);
        (void)printf(" at %g a second", p->request->rate);
    } else {
        (void)printf("as fast as it goes");
    }
    if (o->canary > 0 && o->canary < p->total)
        (void)printf(", and up to %s for %" PRId64 " canaries",
                     rp_format_duration(o->canary_wait_ms, wait), o->canary);
    (void)putchar('\n');
}

/* What would end it before its end. */
static void print_stops(const struct preview *p)
{
    const struct rp_replay_options *o = p->request->options;
    if (o->canary >= p->total)
        (void)printf("Canaries:   all of them: there is nothing that would wait for how they do\n");
    if (o->canary > 0 && o->canary_share <= 0)
        (void)printf("Stops:      as soon as a canary came back dead\n");
    else if (o->canary > 0)
        (void)printf("Stops:      as soon as more than %g%% of the canaries came back dead\n",
                     100 * o->canary_share);
    if (o->stop_if_dead >= 0)
        (void)printf("Stops:      as soon as more than %g%% of what was sent came back dead (of 20 "
                     "at least)%s\n",
                     100 * o->stop_if_dead,
                     p->request->rate > 0 ? "" : "; without --rate all may be out before");
}

/* Whoever names a status may have meant to leave one out, and means all the others. */
static void print_not_dead(int64_t replayed, int64_t discarded)
{
    if (replayed > 0)
        (void)printf("Once more:  %" PRId64 " of them were replayed before\n", replayed);
    if (discarded > 0)
        (void)printf("Discarded:  %" PRId64 " of them were\n", discarded);
}

static int print_sums(struct preview *p)
{
    PGresult *r;
    char sum[RP_UNIT_TEXT];
    if (query(p,
              "SELECT count(*), coalesce(sum(size), 0), coalesce(max(size), 0),"
              " to_char(min(dead_at), 'YYYY-MM-DD HH24:MI:SS'),"
              " to_char(max(dead_at), 'YYYY-MM-DD HH24:MI:SS'),"
              " count(*) FILTER (WHERE status = 'replayed'),"
              " count(*) FILTER (WHERE status = 'discarded') FROM replay_preview",
              &r) != CLI_OK)
        return CLI_FAILED;
    p->total = database_number(r, 0, 0);
    if (p->total > 0) {
        int64_t bytes = database_number(r, 0, 1);
        (void)printf("To replay:  %" PRId64 " dead letters, dead from %s to %s (UTC)\n", p->total,
                     PQgetvalue(r, 0, 3), PQgetvalue(r, 0, 4));
        print_not_dead(database_number(r, 0, 5), database_number(r, 0, 6));
        (void)snprintf(sum, sizeof sum, "%.1f MiB", (double)bytes / (1 << 20));
        (void)printf("Payloads:   %s, %" PRId64 " bytes on average, the largest %s bytes\n", sum,
                     bytes / p->total, PQgetvalue(r, 0, 2));
        print_time(p);
        print_stops(p);
    }
    PQclear(r);
    if (p->held_back > 0)
        (void)printf("Held back:  %" PRId64 " that were replayed %" PRId64
                     " times or more (--max-replays)\n",
                     p->held_back, p->request->options->max_replays);
    return CLI_OK;
}

static void print_refused(int64_t n, const char *why)
{
    (void)printf("Refused:    %" PRId64 ": ", n);
    term_print(stdout, rp_str(why), 120);
    (void)putchar('\n');
}

static int print_taskless(struct preview *p)
{
    PGresult *r;
    if (query(p,
              "SELECT count(*) FILTER (WHERE task_id IS NULL), count(*) FILTER (WHERE shrunk),"
              " count(*) FILTER (WHERE task_id IS NULL AND bytes IS NULL) FROM replay_preview",
              &r) != CLI_OK)
        return CLI_FAILED;
    bool to_router = p->request->options->to_router;
    if (database_number(r, 0, 0) > 0 && !to_router)
        print_refused(database_number(r, 0, 0), "there is no task: its bytes could not be decoded");
    if (database_number(r, 0, 2) > 0 && to_router)
        print_refused(database_number(r, 0, 2), "the dead letter itself could not be decoded");
    if (database_number(r, 0, 1) > 0)
        print_refused(database_number(r, 0, 1), "its payload was too large to be kept");
    PQclear(r);
    return CLI_OK;
}

static struct rp_bytes cell(const PGresult *r, int row, int column)
{
    if (PQgetisnull(r, row, column))
        return RP_NULL_BYTES;
    return (struct rp_bytes){PQgetvalue(r, row, column), (size_t)PQgetlength(r, row, column)};
}

/* Runs what asks how many are too large, for which topic, and what that takes. Only payloads are
 * looked at: with keys and headers there may be more. */
static int print_larger(struct preview *p, struct rp_query *q)
{
    PGresult *r;
    struct rp_error err;
    int failed = rp_query_run(q, p->db, &r, &err);
    rp_query_clear(q);
    if (failed != 0)
        return database_failed(&err);
    for (int i = 0; i < PQntuples(r) && database_number(r, i, 0) > 0; i++) {
        (void)printf("Refused:    at least %" PRId64 ": larger than the %s bytes that topic ",
                     database_number(r, i, 0), PQgetvalue(r, i, 2));
        term_print(stdout, cell(r, i, 1), RP_MAX_TOPIC_NAME);
        (void)printf(" takes\n");
    }
    PQclear(r);
    return CLI_OK;
}

static int judge_router(struct preview *p)
{
    const char *topic = p->config->topics.failed_tasks;
    int64_t max_bytes = rp_replay_max_payload(p->maker, rp_str(topic));
    struct rp_query q = {0};
    if (max_bytes == RP_NO_LIMIT)
        return CLI_OK;
    rp_query_add(&q, "SELECT count(*), ");
    rp_query_param(&q, topic);
    rp_query_add(&q, "::text, ");
    rp_query_param_int(&q, max_bytes);
    rp_query_add(&q, "::bigint FROM replay_preview WHERE NOT shrunk AND bytes > ");
    rp_query_param_int(&q, max_bytes);
    return print_larger(p, &q);
}

/* One more pair, of row `i`, for the question how many of its tasks are too large. */
static void add_pair(struct rp_query *q, const PGresult *r, int i, struct rp_bytes topic,
                     int64_t max_bytes)
{
    rp_query_add(q, q->n == 0 ? "SELECT count(*), l.topic, l.max_bytes FROM replay_preview AS p"
                                " JOIN (VALUES ("
                              : ", (");
    rp_query_param(q, PQgetvalue(r, i, 1));
    rp_query_add(q, ", ");
    rp_query_param(q, PQgetisnull(r, i, 2) ? NULL : PQgetvalue(r, i, 2));
    rp_query_add(q, ", ");
    rp_query_param(q, topic.data);
    rp_query_add(q, ", ");
    rp_query_param_int(q, max_bytes);
    rp_query_add(q, "::bigint)");
}

static int print_larger_pairs(struct preview *p, struct rp_query *q)
{
    if (q->n == 0)
        return CLI_OK;
    rp_query_add(q, ") AS l (type, target, topic, max_bytes) ON p.task_type = l.type"
                    " AND p.target IS NOT DISTINCT FROM l.target WHERE p.task_id IS NOT NULL"
                    " AND NOT p.shrunk AND p.bytes > l.max_bytes"
                    " GROUP BY 2, 3 ORDER BY 1 DESC, 2");
    return print_larger(p, q);
}

/* False: no broker answers. */
static bool judge_pair(struct preview *p, const PGresult *r, int i, struct rp_query *larger)
{
    struct rp_error err;
    const char *refused, *override = p->request->options->target;
    struct rp_bytes topic = override != NULL ? rp_str(override) : cell(r, i, 2);
    if (rp_replay_judge_target(p->maker, cell(r, i, 1), &topic, &refused, &err) != 0) {
        (void)printf("Targets:    not looked at: %s\n", err.text);
        return false;
    }
    if (refused != NULL) {
        print_refused(database_number(r, i, 0), refused);
        return true;
    }
    int64_t max_bytes = rp_replay_max_payload(p->maker, topic);
    if (database_number(r, i, 3) > max_bytes)
        add_pair(larger, r, i, topic, max_bytes);
    return true;
}

/* Of tasks of each type and target; a brokers' silence ends the looks. */
static int judge_targets(struct preview *p)
{
    PGresult *r;
    struct rp_query larger = {0};
    bool answered = true;
    if (query(p,
              "SELECT count(*), task_type, target, coalesce(max(bytes), 0), count(*) OVER ()"
              " FROM replay_preview WHERE task_id IS NOT NULL AND NOT shrunk"
              " GROUP BY 2, 3 ORDER BY 1 DESC LIMIT 200",
              &r) != CLI_OK)
        return CLI_FAILED;
    int n = PQntuples(r);
    for (int i = 0; answered && i < n; i++)
        answered = judge_pair(p, r, i, &larger);
    if (answered && n > 0 && database_number(r, 0, 4) > n)
        (void)printf("Targets:    %d of %s pairs of a type and a target were looked at, the largest"
                     " ones\n",
                     n, PQgetvalue(r, 0, 4));
    PQclear(r);
    return print_larger_pairs(p, &larger);
}

static int print_targets(struct preview *p)
{
    const struct rp_replay_options *o = p->request->options;
    struct rp_error err;
    if (rp_kafka_new_admin(p->config, &p->client, &err) != 0)
        return database_failed(&err);
    if (rp_replay_maker_new(p->config, o, "-", p->client, &p->maker, &err) != 0) {
        (void)database_failed(&err);
        return err.cls == RP_POISON ? CLI_USAGE : CLI_FAILED; /* a program that is none */
    }
    if (o->jq == NULL)
        return o->to_router ? judge_router(p) : judge_targets(p);
    if (!o->to_router)
        (void)printf("Targets:    as the program leaves them, which is judged as they are sent\n");
    return CLI_OK;
}

static int print_table(struct preview *p, const char *title, const char *sql)
{
    PGresult *r;
    if (query(p, sql, &r) != CLI_OK)
        return CLI_FAILED;
    (void)printf("\n%s\n", title);
    table_print(stdout, r, MAX_CELL);
    PQclear(r);
    return CLI_OK;
}

static int print_changes(struct preview *p)
{
    PGresult *ids;
    if (query(p,
              "SELECT id, task_type FROM replay_preview WHERE task_id IS NOT NULL AND NOT shrunk"
              " ORDER BY place LIMIT " CHANGES,
              &ids) != CLI_OK)
        return CLI_FAILED;
    int code = jq_preview(p->config, p->db, p->request->options, p->maker, ids);
    PQclear(ids);
    return code;
}

static int print_all(struct preview *p)
{
    int code = print_sums(p);
    if (code == CLI_OK && p->total == 0) {
        cli_error(
            p->held_back > 0
                ? "nothing to replay but what is held back"
                : "nothing to replay: none that matches is dead (or of the status asked for), "
                  "or it was archived just now; `reprise dlq stats --by status` tells");
        return CLI_NOTHING;
    }
    if (code == CLI_OK)
        code = print_taskless(p);
    if (code == CLI_OK)
        code = print_targets(p);
    if (code != CLI_OK)
        return code;
    if (print_table(p, "Groups, the largest first:",
                    "SELECT count(*), lpad(to_hex(p.fingerprint), 16, '0') AS group,"
                    " max(p.task_type) AS type, max(g.error_class) AS class,"
                    " max(g.message) AS message FROM replay_preview AS p"
                    " LEFT JOIN error_group AS g USING (fingerprint)"
                    " GROUP BY p.fingerprint ORDER BY 1 DESC, 2 LIMIT 10") != CLI_OK)
        return CLI_FAILED;
    code = print_table(
        p, "The first ones:",
        "SELECT p.id, to_char(p.dead_at, 'YYYY-MM-DD HH24:MI:SS') AS died, p.reason,"
        " p.task_type AS type, p.task_id AS task, p.size AS bytes,"
        " coalesce(d.error_class || ': ' || left(d.error_message, 300), d.detail)"
        "  AS error FROM replay_preview AS p JOIN dead_letter AS d"
        " ON d.dead_at = p.dead_at AND d.id = p.id WHERE p.place <= 5 ORDER BY p.place");
    return code == CLI_OK ? print_changes(p) : code;
}

int replay_preview(const struct rp_config *config, struct rp_db *db,
                   const struct rp_replay_request *request, int64_t *out_total)
{
    struct rp_error err;
    struct preview p = {.config = config, .db = db, .request = request};
    int code = CLI_FAILED;
    if (rp_replay_preview(db, request, &p.held_back, &err) != 0)
        (void)database_failed(&err);
    else
        code = print_all(&p);
    *out_total = p.total;
    rp_replay_maker_free(p.maker);
    if (p.client != NULL)
        rd_kafka_destroy(p.client);
    if (rp_db_alive(db) && rp_db_script(db, "ROLLBACK", &err) != 0)
        return database_failed(&err);
    return code;
}
