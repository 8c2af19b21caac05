/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_preview.h"

#include <inttypes.h>
#include <stdlib.h>

#include "database.h"
#include "jq_preview.h"
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
                     "at least)\n",
                     100 * o->stop_if_dead);
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
              "SELECT count(*) FILTER (WHERE task_id IS NULL), count(*) FILTER (WHERE shrunk)"
              " FROM replay_preview",
              &r) != CLI_OK)
        return CLI_FAILED;
    if (database_number(r, 0, 0) > 0 && !p->request->options->to_router)
        print_refused(database_number(r, 0, 0), "there is no task: its bytes could not be decoded");
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

/* Of tasks of each type and target; a brokers' silence ends the looks. */
static int judge_targets(struct preview *p)
{
    PGresult *r;
    struct rp_error err;
    const char *refused;
    if (query(p,
              "SELECT count(*), task_type, target FROM replay_preview"
              " WHERE task_id IS NOT NULL AND NOT shrunk GROUP BY 2, 3 ORDER BY 1 DESC LIMIT 200",
              &r) != CLI_OK)
        return CLI_FAILED;
    for (int i = 0; i < PQntuples(r); i++) {
        if (rp_replay_judge_target(p->maker, cell(r, i, 1), cell(r, i, 2),
                                   p->request->options->target, &refused, &err) != 0) {
            (void)printf("Targets:    not looked at: %s\n", err.text);
            break;
        }
        if (refused != NULL)
            print_refused(database_number(r, i, 0), refused);
    }
    PQclear(r);
    return CLI_OK;
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
    if (o->to_router)
        return CLI_OK;
    if (o->jq == NULL)
        return judge_targets(p);
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
