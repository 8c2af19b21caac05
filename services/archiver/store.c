/* SPDX-License-Identifier: Apache-2.0 */
#include "store.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "counts.h"
#include "crash_point.h"
#include "day_table.h"
#include "log.h"
#include "migration.h"
#include "row.h"

/* How long a call may take. Long enough for a large batch on a slow disk, far below the
 * max.poll.interval.ms after which the group would give our partitions away. */
#define TIMEOUT_MS 30000

/* How long what the database said of the time is good for: its clock may be put right, and ours
 * stands still while a machine sleeps. */
#define NOW_MS INT64_C(10000)
/* How long rows of a state that somebody holds are passed over, once they were waited for in vain.
 */
#define SKIP_MS INT64_C(600000)
/* PostgreSQL's oldest transaction id is that of the oldest table, and a temporary one is young
 * again once it is truncated. */
#define RENEW_MS INT64_C(3600000)

struct store {
    const char *dsn, *topic, *owner;
    struct rp_db *db;
    char *quoted; /* the topic, as SQL; while connected */
    struct day_tables days;
    bool sending;        /* a COPY of letters is under way */
    int64_t sending_day; /* their day, or STORE_DAYS */
    bool by_name;        /* it is into that day's partition */
    size_t sent;         /* of its rows, in bytes */
    int64_t ahead_ms;    /* of the database's clock, of rp_mono_tick_ms */
    int64_t ask_mono_ms; /* for it again, from then on */
    int64_t skip_until_mono_ms, renew_mono_ms;
    struct rp_buf sql;
    struct copy claims;
};

int store_new(const char *dsn, const char *topic, const char *owner, struct store **out,
              struct rp_error *err)
{
    struct store *s = calloc(1, sizeof *s);
    if (s == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for the store");
    *s = (struct store){.dsn = dsn, .topic = topic, .owner = owner};
    *out = s;
    return 0;
}

void store_disconnect(struct store *s)
{
    PQfreemem(s->quoted);
    s->quoted = NULL;
    rp_db_close(s->db);
    s->db = NULL;
    s->sending = false;
    s->ask_mono_ms = 0;
    store_forget_days(s);
}

void store_free(struct store *s)
{
    if (s == NULL)
        return;
    store_disconnect(s);
    rp_buf_clear(&s->sql);
    rp_buf_clear(&s->claims.buf);
    free(s);
}

bool store_connected(const struct store *s)
{
    return s->db != NULL && rp_db_alive(s->db);
}

void store_recall(struct store *s)
{
    if (s->sending)
        rp_db_copy_cancel(s->db);
    s->sending = false;
}

struct rp_db *store_db(struct store *s)
{
    store_recall(s);
    return store_connected(s) ? s->db : NULL;
}

static int say(struct store *s, struct rp_error *err, const char *fmt, ...) RP_PRINTF(3, 4);

/* Appends to the SQL that is being put together. */
static int say(struct store *s, struct rp_error *err, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof text)
        return rp_fail(err, RP_E_FULL, RP_FATAL, "SQL is too long");
    return rp_buf_append(&s->sql, text, (size_t)n, err);
}

static int end_sql(struct store *s, struct rp_error *err)
{
    return rp_buf_append(&s->sql, "", 1, err);
}

static int say_columns(struct store *s, struct rp_error *err)
{
    for (size_t i = 0; i < row_n_columns; i++)
        if (say(s, err, "%s%s", i > 0 ? ", " : "", row_columns[i]) != 0)
            return -1;
    return 0;
}

/* What arrives in tables that only this connection sees, without constraints or indexes. Each that
 * is emptied at a commit costs all commits something, so the one that few need is not. */
static int make_incoming(struct store *s, struct rp_error *err)
{
    s->sql.len = 0;
    if (say(s, err, "CREATE TEMP TABLE incoming AS SELECT ") != 0 || say_columns(s, err) != 0 ||
        say(s, err,
            " FROM dead_letter WITH NO DATA;"
            "CREATE TEMP TABLE incoming_group ON COMMIT DELETE ROWS AS"
            " SELECT fingerprint, task_type, error_class, message FROM error_group WITH NO DATA;"
            "CREATE TEMP TABLE incoming_claim ON COMMIT DELETE ROWS AS"
            " SELECT partition, epoch, next_offset FROM archive_offset WITH NO DATA;"
            "CREATE FUNCTION pg_temp.fence(ours bigint, wanted bigint) RETURNS void"
            " LANGUAGE plpgsql AS $$ BEGIN IF ours <> wanted THEN"
            " RAISE EXCEPTION 'a partition has a newer owner'; END IF; END $$") != 0 ||
        end_sql(s, err) != 0)
        return -1;
    return rp_db_script(s->db, (const char *)s->sql.data, err);
}

static int check_schema(struct store *s, struct rp_error *err)
{
    int version;
    if (rp_migration_version(s->db, &version, err) != 0)
        return -1;
    if (version < rp_n_migrations)
        return rp_fail(err, RP_E_SCHEMA, RP_FATAL,
                       "the database's schema is at version %d, this program needs %d: run "
                       "`reprise db migrate` first",
                       version, rp_n_migrations);
    return 0;
}

static int quote_topic(struct store *s, struct rp_error *err)
{
    s->quoted = rp_db_literal(s->db, s->topic);
    return s->quoted != NULL
               ? 0
               : rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "cannot quote the topic's name");
}

int store_connect(struct store *s, struct rp_error *err)
{
    store_disconnect(s);
    if (rp_db_open(s->dsn, s->owner, TIMEOUT_MS, &s->db, err) != 0) {
        s->db = NULL;
        return -1;
    }
    if (check_schema(s, err) == 0 && make_incoming(s, err) == 0 && quote_topic(s, err) == 0)
        return 0;
    store_disconnect(s);
    return -1;
}

static int renew_incoming(struct store *s, int64_t mono_ms, struct rp_error *err)
{
    s->renew_mono_ms = mono_ms + RENEW_MS;
    return rp_db_script(
        s->db, "TRUNCATE pg_temp.incoming, pg_temp.incoming_group, pg_temp.incoming_claim", err);
}

int store_now_ms(struct store *s, int64_t *out, struct rp_error *err)
{
    int64_t mono_ms = rp_mono_tick_ms();
    if (mono_ms >= s->ask_mono_ms && !s->sending) {
        if (rp_db_wall_ms(s->db, &s->ahead_ms, err) != 0)
            return -1;
        s->ahead_ms -= mono_ms;
        s->ask_mono_ms = mono_ms + NOW_MS;
        if (mono_ms >= s->renew_mono_ms && renew_incoming(s, mono_ms, err) != 0)
            return -1;
    }
    *out = mono_ms + s->ahead_ms;
    return 0;
}

/* Whoever has rows of a partition in dead_letter that are not committed has this lock, which nobody
 * waits for: the topic and the partition. */
#define SENDERS(topic) "hashtext('reprise: send ' || " topic ")"

/* An owner that stands still in the middle of its COPY, or whose connection only the server still
 * believes in, has rows there that ours would wait for. One that takes the lock after we have
 * looked sees that its epoch is old. */
static int end_senders(struct store *s, const char *partition, struct rp_error *err)
{
    static const char sql[] =
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        " AND objsubid = 2 AND objid = $2::integer::oid AND classid = " SENDERS("$1") "::oid";
    const char *values[] = {s->topic, partition};
    return rp_db_query(s->db, sql, 2, values, NULL, err);
}

#define ANOTHER_TOPIC                                                                              \
    "o.topic_id <> '' AND excluded.topic_id <> '' AND o.topic_id <> excluded.topic_id"

int store_claim(struct store *s, const char *topic_id, struct store_claim *claim,
                struct rp_error *err)
{
    static const char sql[] =
        "INSERT INTO archive_offset AS o (topic, partition, epoch, next_offset, topic_id, owner)"
        " VALUES ($1, $2, 1, 0, $3, $4)"
        " ON CONFLICT (topic, partition) DO UPDATE SET epoch = o.epoch + 1,"
        "  next_offset = CASE WHEN " ANOTHER_TOPIC " THEN 0 ELSE o.next_offset END,"
        "  seen_end = CASE WHEN " ANOTHER_TOPIC " THEN 0 ELSE o.seen_end END,"
        "  topic_id = coalesce(nullif(excluded.topic_id, ''), o.topic_id),"
        "  owner = excluded.owner, updated_at = now()"
        /* An earlier renewal's outcome may be unknown: the epoch is another, and still ours. */
        " WHERE $5::bigint = 0 OR o.epoch = $5::bigint OR o.owner = excluded.owner"
        " RETURNING epoch, next_offset, seen_end";
    char partition[16], epoch[24];
    PGresult *result;
    store_recall(s);
    (void)snprintf(partition, sizeof partition, "%" PRId32, claim->partition);
    (void)snprintf(epoch, sizeof epoch, "%" PRId64, claim->epoch);
    const char *values[] = {s->topic, partition, topic_id, s->owner, epoch};
    RP_CRASH_POINT(claim_before);
    if (rp_db_query(s->db, sql, 5, values, &result, err) != 0)
        return -1;
    RP_CRASH_POINT(claim_after);
    int failed = 0;
    if (PQntuples(result) == 1) {
        claim->epoch = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
        claim->next_offset = strtoll(PQgetvalue(result, 0, 1), NULL, 10);
        claim->seen_end = strtoll(PQgetvalue(result, 0, 2), NULL, 10);
    } else {
        failed =
            rp_fail(err, RP_E_FENCED, RP_RETRIABLE, "partition %s has a newer owner", partition);
    }
    PQclear(result);
    return failed != 0 ? failed : end_senders(s, partition, err);
}

bool store_day_missing(const struct store *s)
{
    return store_connected(s) && strcmp(rp_db_sqlstate(s->db), "23514") == 0;
}

void store_forget_days(struct store *s)
{
    s->days.n = 0;
}

int store_add_day(struct store *s, int64_t day, struct rp_error *err)
{
    if (day_tables_find(&s->days, day) != NULL)
        return 0;
    store_recall(s);
    return day_tables_add(&s->days, s->db, day, err);
}

/* Those of the claims whose epoch is still the one we know move on. Their rows of archive_offset
 * are locked by the last statement only, which begins once all data has arrived. */
#define ADVANCE                                                                                    \
    "UPDATE archive_offset AS o SET next_offset = n.next_offset, seen_end = 0, updated_at = now()" \
    " FROM pg_temp.incoming_claim AS n"                                                            \
    " WHERE o.topic = %s AND o.partition = n.partition AND o.epoch = n.epoch"

#define COPY_REST                                                                                  \
    "COPY pg_temp.incoming_group FROM STDIN (FORMAT binary);"                                      \
    "COPY pg_temp.incoming_claim FROM STDIN (FORMAT binary);"

/* Groups go in by their order, so two who find the same new ones do not wait for each other. */
#define ADD_GROUPS                                                                                 \
    "INSERT INTO error_group (fingerprint, task_type, error_class, message)"                       \
    " SELECT * FROM pg_temp.incoming_group ORDER BY fingerprint ON CONFLICT DO NOTHING"

static int say_claims(struct store *s, const struct store_claim *claims, size_t n,
                      struct rp_error *err)
{
    if (say(s, err, "(VALUES ") != 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (say(s, err, "%s(%" PRId32 ", %" PRId64 "::bigint, %" PRId64 "::bigint)",
                i > 0 ? ", " : "", claims[i].partition, claims[i].epoch, claims[i].seen_end) != 0)
            return -1;
    return say(s, err, ") AS n (partition, epoch, seen_end)");
}

/* The table that the letters go into. By the name of their day's partition they pass the trigger of
 * dead_letter by, for which PostgreSQL keeps a copy of each row until all have come; so they are
 * counted by us. Who drops a day, or counts it anew, waits for those who write to dead_letter. */
static int say_table(struct store *s, struct rp_error *err)
{
    char name[DAY_TABLE_NAME_SIZE];
    if (!s->by_name)
        return say(s, err, "COPY dead_letter (");
    day_table_name(s->sending_day, name);
    return say(s, err,
               "LOCK TABLE ONLY dead_letter IN ROW EXCLUSIVE MODE;"
               "SELECT pg_temp.fence(count(*), 1)" DAY_TABLE_OF("'%s'")
               " AND " DAY_TABLE_NOT_BY_NAME " IS NULL; COPY %s (",
               name, name);
}

/* Straight to where they stay: for new rows that are all ours, or the server refuses them all. An
 * owner that was a zombie for a while is refused before it has rows there. */
static int say_straight(struct store *s, const struct store_claim *claims, size_t n,
                        struct rp_error *err)
{
    s->sql.len = 0;
    if (say(s, err, "SELECT pg_advisory_xact_lock_shared(" SENDERS("%s") ", partition) FROM ",
            s->quoted) != 0 ||
        say_claims(s, claims, n, err) != 0 ||
        say(s, err, "; SELECT pg_temp.fence(count(*), %zu) FROM archive_offset AS o JOIN ", n) !=
            0 ||
        say_claims(s, claims, n, err) != 0 ||
        say(s, err, " ON o.partition = n.partition WHERE o.topic = %s AND o.epoch = n.epoch;",
            s->quoted) != 0 ||
        say_table(s, err) != 0 || say_columns(s, err) != 0 ||
        say(s, err,
            ") FROM STDIN (FORMAT binary);"
            "COPY dead_letter_count (%s) FROM STDIN (FORMAT binary);" COPY_REST ADD_GROUPS ";"
            "WITH mine AS (" ADVANCE " RETURNING 1) SELECT pg_temp.fence("
            "(SELECT count(*) FROM mine), (SELECT count(*) FROM pg_temp.incoming_claim))",
            counts_columns, s->quoted) != 0)
        return -1;
    return end_sql(s, err);
}

/* The dead letter that was replayed, for one that a replay led to. It is looked for once for all
 * that have the same task, of which the job may have as many. n + 0: by the task, not from the job's
 * last item on, whatever the statistics say. */
#define ORIGIN                                                                                     \
    ", origin AS MATERIALIZED (SELECT t.*, i.* FROM (SELECT DISTINCT replay_job AS job, task_id"   \
    " AS task FROM pg_temp.incoming WHERE replay_job IS NOT NULL) AS t, LATERAL (SELECT dead_at"   \
    " AS replay_of_at, id AS replay_of FROM replay_item WHERE replay_item.job = t.job"             \
    " AND task_id = t.task AND refused IS NULL ORDER BY n + 0 DESC LIMIT 1) AS i)"
#define JOIN_ORIGIN                                                                                \
    " LEFT JOIN origin ON origin.job = replay_job AND origin.task = incoming.task_id"

/* It is marked, unless another job has it by now; in the order in which all who mark rows do. A
 * replay that is planned, or a purge, may hold it for minutes. */
#define MARK_ORIGINS(skip)                                                                         \
    ", origins AS (SELECT s.dead_at, s.id, a.dead_at AS came_back_at FROM added AS a"              \
    " JOIN dead_letter_state AS s ON s.dead_at = replay_of_at AND s.id = replay_of"                \
    " AND s.job = replay_job ORDER BY s.dead_at, s.id FOR UPDATE OF s" skip "),"                   \
    " marked AS (UPDATE dead_letter_state AS s SET came_back_at = o.came_back_at"                  \
    " FROM origins AS o WHERE s.dead_at = o.dead_at AND s.id = o.id)"

/* By a table of our own, from which the last statement takes what is new and still ours. */
static int say_staged(struct store *s, bool replayed, struct rp_error *err)
{
    s->sql.len = 0;
    if (say(s, err,
            "TRUNCATE pg_temp.incoming; COPY pg_temp.incoming FROM STDIN (FORMAT binary);" COPY_REST
            "WITH mine AS (" ADVANCE " RETURNING o.partition), known AS (" ADD_GROUPS ")",
            s->quoted) != 0 ||
        say(s, err, "%s, added AS (INSERT INTO dead_letter (", replayed ? ORIGIN : "") != 0 ||
        say_columns(s, err) != 0 ||
        say(s, err, "%s) SELECT ", replayed ? ", replay_of_at, replay_of" : "") != 0 ||
        say_columns(s, err) != 0 ||
        say(s, err, "%s FROM pg_temp.incoming JOIN mine ON record_partition = partition",
            replayed ? ", replay_of_at, replay_of" : "") != 0 ||
        say(s, err, "%s ON CONFLICT DO NOTHING RETURNING %s)", replayed ? JOIN_ORIGIN : "",
            replayed ? "dead_at, replay_job, replay_of_at, replay_of" : "1") != 0 ||
        say(s, err, "%s SELECT partition, (SELECT count(*) FROM added) FROM mine",
            !replayed                                   ? ""
            : rp_mono_tick_ms() < s->skip_until_mono_ms ? MARK_ORIGINS(" SKIP LOCKED")
                                                        : MARK_ORIGINS("")) != 0)
        return -1;
    return end_sql(s, err);
}

static void mark_fenced(const PGresult *mine, struct store_claim *claims, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool found = false;
        for (int row = 0; !found && row < PQntuples(mine); row++)
            found = strtol(PQgetvalue(mine, row, 0), NULL, 10) == claims[i].partition;
        if (!found)
            claims[i].epoch = 0;
    }
}

int store_tell_ends(struct store *s, struct store_claim *claims, size_t n, struct rp_error *err)
{
    PGresult *told;
    store_recall(s);
    s->sql.len = 0;
    if (say(s, err, "UPDATE archive_offset AS o SET seen_end = n.seen_end FROM ") != 0 ||
        say_claims(s, claims, n, err) != 0 ||
        say(s, err,
            " WHERE o.topic = %s AND o.epoch = n.epoch AND o.partition = n.partition"
            " RETURNING o.partition",
            s->quoted) != 0 ||
        end_sql(s, err) != 0 ||
        rp_db_query(s->db, (const char *)s->sql.data, 0, NULL, &told, err) != 0)
        return -1;
    mark_fenced(told, claims, n);
    PQclear(told);
    return 0;
}

/* Begins a transaction by what `say_...` said. */
static int begin(struct store *s, int said, struct rp_error *err)
{
    RP_CRASH_POINT(copy_before);
    if (said != 0 || rp_db_copy_begin(s->db, (const char *)s->sql.data, err) != 0)
        return -1;
    return rp_db_copy_send(s->db, copy_header, err);
}

/* Ends the COPY under way, and sends the next one's rows. */
static int send_next(struct store *s, struct rp_bytes rows, struct rp_error *err)
{
    return rp_db_copy_send(s->db, copy_trailer, err) != 0 || rp_db_copy_next(s->db, err) != 0 ||
                   rp_db_copy_send(s->db, copy_header, err) != 0 ||
                   rp_db_copy_send(s->db, rows, err) != 0
               ? -1
               : 0;
}

/* Sends what follows the letters and their counts, and has it all committed. */
static int finish(struct store *s, struct rp_bytes groups, const struct store_claim *claims,
                  size_t n, PGresult **out, struct rp_error *err)
{
    s->claims.buf.len = 0;
    s->claims.failed = false;
    for (size_t i = 0; i < n; i++) {
        copy_row(&s->claims, 3);
        copy_int32(&s->claims, claims[i].partition);
        copy_int64(&s->claims, claims[i].epoch);
        copy_int64(&s->claims, claims[i].next_offset);
    }
    if (s->claims.failed)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for claims");
    if (send_next(s, groups, err) != 0 || send_next(s, rp_buf_bytes(&s->claims.buf), err) != 0 ||
        rp_db_copy_send(s->db, copy_trailer, err) != 0 || rp_db_copy_end(s->db, out, err) != 0)
        return -1;
    RP_CRASH_POINT(database_committed);
    return 0;
}

int store_send(struct store *s, int64_t day, struct rp_bytes letters,
               const struct store_claim *claims, size_t n_claims, struct rp_error *err)
{
    if (s->sending_day != day)
        store_recall(s);
    if (!s->sending) {
        s->sent = 0;
        s->sending_day = day;
        const struct day_table *known = day_tables_find(&s->days, day);
        s->by_name = known != NULL && known->by_name;
        if (begin(s, say_straight(s, claims, n_claims, err), err) != 0)
            return -1;
    }
    assert(letters.len >= s->sent);
    const struct rp_bytes more = {letters.data + s->sent, letters.len - s->sent};
    s->sending = rp_db_copy_send(s->db, more, err) == 0;
    s->sent = letters.len;
    return s->sending ? 0 : -1;
}

bool store_push(struct store *s)
{
    return s->sending && rp_db_copy_push(s->db);
}

static int write_straight(struct store *s, const struct store_rows *rows,
                          const struct store_claim *claims, size_t n_claims, struct rp_error *err)
{
    PGresult *result;
    if (store_send(s, rows->day, rows->letters, claims, n_claims, err) != 0)
        return -1;
    s->sending = false;
    /* What goes by dead_letter is counted by its trigger. */
    if (send_next(s, s->by_name ? rows->counts : RP_NULL_BYTES, err) != 0 ||
        finish(s, rows->groups, claims, n_claims, &result, err) != 0)
        return -1;
    PQclear(result);
    return 0;
}

static int write_staged(struct store *s, const struct store_rows *rows, struct store_claim *claims,
                        size_t n_claims, int64_t *out_added, struct rp_error *err)
{
    PGresult *result;
    if (begin(s, say_staged(s, rows->replayed, err), err) != 0 ||
        rp_db_copy_send(s->db, rows->letters, err) != 0 ||
        finish(s, rows->groups, claims, n_claims, &result, err) != 0) {
        if (rows->replayed && rp_db_contended(s->db))
            s->skip_until_mono_ms = rp_mono_tick_ms() + SKIP_MS;
        return -1;
    }
    mark_fenced(result, claims, n_claims);
    *out_added = PQntuples(result) == 0 ? 0 : strtoll(PQgetvalue(result, 0, 1), NULL, 10);
    PQclear(result);
    return 0;
}

static int write_any(struct store *s, const struct store_rows *rows, struct store_claim *claims,
                     size_t n_claims, int64_t *out_added, struct rp_error *err)
{
    if (rows->straight) {
        *out_added = (int64_t)rows->n;
        if (write_straight(s, rows, claims, n_claims, err) == 0)
            return 0;
        if (!store_connected(s))
            return -1;
        store_forget_days(s); /* a partition may not be what it was */
    }
    store_recall(s);
    if (write_staged(s, rows, claims, n_claims, out_added, err) == 0)
        return 0;
    if (!rows->replayed || !store_connected(s) || !rp_db_contended(s->db))
        return -1;
    return write_staged(s, rows, claims, n_claims, out_added, err); /* it waits for nobody now */
}

int store_write(struct store *s, const struct store_rows *rows, struct store_claim *claims,
                size_t n_claims, int64_t *out_added, struct rp_error *err)
{
    if (write_any(s, rows, claims, n_claims, out_added, err) != 0)
        return -1;
    for (size_t i = 0; i < n_claims; i++)
        claims[i].seen_end = 0;
    return 0;
}
