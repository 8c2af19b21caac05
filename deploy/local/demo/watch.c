/* SPDX-License-Identifier: Apache-2.0 */
#include "watch.h"

#include <inttypes.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "arena.h"
#include "clock.h"
#include "kafka.h"

#define LOOK_EVERY_MS 300

struct watch {
    const struct rp_config *config;
    struct ledger *ledger;
    void (*say)(const char *line);
    rd_kafka_t *consumer;
    struct rp_arena arena; /* of the record in hand */
    PGconn *db;
    int64_t last_id; /* the newest dead letter that was seen */
    pthread_t tiers, rows;
    bool tiers_run, rows_run;
    atomic_bool stop;
    _Atomic(const char *) failed; /* points to `why` */
    atomic_flag failing;
    char why[400];
};

static void give_up(struct watch *w, const char *what, const char *why)
{
    if (atomic_flag_test_and_set(&w->failing))
        return;
    (void)snprintf(w->why, sizeof w->why, "%s: %s", what, why);
    atomic_store(&w->failed, w->why);
}

/* Tiers */

static int tier_of(const struct rp_config *config, const char *topic)
{
    for (size_t i = 0; i < config->n_tiers; i++)
        if (strcmp(config->tiers[i].topic, topic) == 0)
            return (int)i;
    return 0;
}

static void see_waiting(struct watch *w, const rd_kafka_message_t *m)
{
    const struct rp_header *headers;
    struct rp_reinvocation in;
    char line[200];
    size_t n;

    rp_arena_reset(&w->arena);
    if (rp_kafka_headers(m, &w->arena, &headers, &n, NULL) != 0 ||
        rp_reinvocation_read(headers, n, &in, NULL) != 0)
        return;
    int task = ledger_find(w->ledger, in.task_id);
    const char *topic = rd_kafka_topic_name(m->rkt);
    if (task >= 0) {
        ledger_waits(w->ledger, task, in.attempt, tier_of(w->config, topic), in.due_ms);
        return;
    }
    int64_t left_ms = in.due_ms == RP_NO_TIME ? 0 : in.due_ms - rp_wall_ms();
    (void)snprintf(line, sizeof line, "%.*s waits in %s, due in %.3f s for attempt %" PRId32,
                   (int)in.task_id.len, (const char *)in.task_id.data, topic,
                   (double)left_ms / 1000, in.attempt);
    w->say(line);
}

static void *read_tiers(void *opaque)
{
    struct watch *w = opaque;
    while (!atomic_load(&w->stop)) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(w->consumer, 100);
        if (m == NULL)
            continue;
        if (m->err == RD_KAFKA_RESP_ERR_NO_ERROR)
            see_waiting(w, m);
        else if (rd_kafka_fatal_error(w->consumer, NULL, 0) != 0)
            give_up(w, "reading the tiers", rd_kafka_message_errstr(m));
        rd_kafka_message_destroy(m);
    }
    return NULL;
}

static int add_partitions(struct watch *w, const char *topic, rd_kafka_topic_partition_list_t *list,
                          struct rp_error *err)
{
    const struct rd_kafka_metadata *found;
    rd_kafka_topic_t *rkt = rd_kafka_topic_new(w->consumer, topic, NULL);
    if (rkt == NULL)
        return rp_kafka_fail(err, rd_kafka_last_error(), topic);
    rd_kafka_resp_err_t rc = rd_kafka_metadata(w->consumer, 0, rkt, &found, 10000);
    rd_kafka_topic_destroy(rkt);
    if (rc != RD_KAFKA_RESP_ERR_NO_ERROR)
        return rp_kafka_fail(err, rc, topic);
    if (found->topic_cnt == 1 && found->topics[0].err != RD_KAFKA_RESP_ERR_NO_ERROR)
        rc = found->topics[0].err;
    else if (found->topic_cnt == 1)
        rd_kafka_topic_partition_list_add_range(list, topic, 0, found->topics[0].partition_cnt - 1);
    rd_kafka_metadata_destroy(found);
    return rc == RD_KAFKA_RESP_ERR_NO_ERROR ? 0 : rp_kafka_fail(err, rc, topic);
}

static int assign_tiers(struct watch *w, struct rp_error *err)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(16);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < w->config->n_tiers; i++)
        rc = add_partitions(w, w->config->tiers[i].topic, list, err);
    for (int i = 0; i < list->cnt; i++)
        list->elems[i].offset = RD_KAFKA_OFFSET_BEGINNING;
    if (rc == 0) {
        rd_kafka_resp_err_t code = rd_kafka_assign(w->consumer, list);
        if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
            rc = rp_kafka_fail(err, code, "reading the tiers");
    }
    rd_kafka_topic_partition_list_destroy(list);
    return rc;
}

static int open_tiers(struct watch *w, struct rp_error *err)
{
    rd_kafka_conf_t *conf = rp_kafka_conf(w->config, RP_KAFKA_CONSUMER, err);
    if (conf == NULL)
        return -1;
    /* librdkafka wants a name, but who assigns partitions by hand joins no group. */
    if (rp_kafka_conf_set(conf, "group.id", "reprise-demo-watch", err) != 0) {
        rd_kafka_conf_destroy(conf);
        return -1;
    }
    if (rp_kafka_new(RD_KAFKA_CONSUMER, conf, &w->consumer, err) != 0)
        return -1;
    return assign_tiers(w, err);
}

/* Dead letters */

static int64_t number_at(const PGresult *rows, int row, int column)
{
    return strtoll(PQgetvalue(rows, row, column), NULL, 10);
}

static void see_row(struct watch *w, const PGresult *rows, int row)
{
    const char *id = PQgetvalue(rows, row, 1), *reason = PQgetvalue(rows, row, 2);
    char line[300];
    int task = ledger_find(w->ledger, rp_str(id));
    w->last_id = number_at(rows, row, 0);
    if (task >= 0) {
        ledger_died(w->ledger, task, reason);
        return;
    }
    (void)snprintf(line, sizeof line, "%s is dead after %s attempts: %s %s", id,
                   PQgetvalue(rows, row, 3), reason, PQgetvalue(rows, row, 4));
    w->say(line);
}

/* Ids become visible in order, since the demo's archiver has one worker. What could not be decoded
 * has no task id; the demo's garbage holds its id in its bytes. */
static int look_at_rows(struct watch *w)
{
    static const char query[] =
        "SELECT id, coalesce(task_id, encode(raw, 'escape'), '?'), reason, coalesce(attempts, 0),"
        " coalesce(detail, '') FROM dead_letter WHERE id > $1 ORDER BY id LIMIT 1000";
    char last[24];
    const char *params[] = {last};
    (void)snprintf(last, sizeof last, "%" PRId64, w->last_id);
    PGresult *rows = PQexecParams(w->db, query, 1, NULL, params, NULL, NULL, 0);
    int n = -1;
    if (PQresultStatus(rows) == PGRES_TUPLES_OK)
        n = PQntuples(rows);
    else
        give_up(w, "PostgreSQL", PQerrorMessage(w->db));
    for (int i = 0; i < n; i++)
        see_row(w, rows, i);
    PQclear(rows);
    return n;
}

static void *read_rows(void *opaque)
{
    struct watch *w = opaque;
    while (!atomic_load(&w->stop)) {
        int n = look_at_rows(w);
        if (n < 0)
            break;
        if (n == 0)
            (void)usleep(LOOK_EVERY_MS * 1000);
    }
    return NULL;
}

static int open_rows(const struct rp_config *config, PGconn **out, struct rp_error *err)
{
    *out = PQconnectdb(config->postgres.dsn);
    if (PQstatus(*out) == CONNECTION_OK)
        return 0;
    (void)rp_fail(err, RP_E_POSTGRES, RP_FATAL, "PostgreSQL: %s",
                  *out == NULL ? "no memory" : PQerrorMessage(*out));
    PQfinish(*out);
    *out = NULL;
    return -1;
}

int watch_count_rows(const struct rp_config *config, const char *prefix, int64_t *out,
                     struct rp_error *err)
{
    static const char query[] =
        "SELECT count(*) FROM dead_letter"
        " WHERE position($1 IN coalesce(task_id, encode(raw, 'escape'))) > 0";
    PGconn *db;
    int rc = 0;
    if (open_rows(config, &db, err) != 0)
        return -1;
    PGresult *rows = PQexecParams(db, query, 1, NULL, &prefix, NULL, NULL, 0);
    if (PQresultStatus(rows) == PGRES_TUPLES_OK)
        *out = number_at(rows, 0, 0);
    else
        rc = rp_fail(err, RP_E_POSTGRES, RP_FATAL, "PostgreSQL: %s", PQerrorMessage(db));
    PQclear(rows);
    PQfinish(db);
    return rc;
}

int watch_start(const struct rp_config *config, struct ledger *ledger,
                void (*say)(const char *line), struct watch **out, struct rp_error *err)
{
    struct watch *w = calloc(1, sizeof *w);
    if (w == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for a watch");
    w->config = config;
    w->ledger = ledger;
    w->say = say;
    if (open_tiers(w, err) != 0 || open_rows(config, &w->db, err) != 0) {
        watch_stop(w);
        return -1;
    }
    w->tiers_run = pthread_create(&w->tiers, NULL, read_tiers, w) == 0;
    w->rows_run = pthread_create(&w->rows, NULL, read_rows, w) == 0;
    if (!w->tiers_run || !w->rows_run) {
        watch_stop(w);
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no thread for a watch");
    }
    *out = w;
    return 0;
}

const char *watch_error(const struct watch *w)
{
    return atomic_load(&w->failed);
}

void watch_stop(struct watch *w)
{
    if (w == NULL)
        return;
    atomic_store(&w->stop, true);
    if (w->tiers_run)
        (void)pthread_join(w->tiers, NULL);
    if (w->rows_run)
        (void)pthread_join(w->rows, NULL);
    if (w->consumer != NULL)
        rd_kafka_destroy(w->consumer);
    PQfinish(w->db);
    rp_arena_clear(&w->arena);
    free(w);
}
