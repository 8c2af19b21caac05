/* SPDX-License-Identifier: Apache-2.0 */
#include "letter.h"

#include <stdlib.h>

#include "codec.h"
#include "query.h"
#include "replay_message.h"

#define BASE64(bytes) "json_build_object('base64', encode(" bytes ", 'base64'))"
#define BYTES(column) "CASE WHEN " column " IS NOT NULL THEN " BASE64(column) " END"

/* The message as rp_message_unpack takes it. */
static const char letter_sql[] =
    "SELECT d.id, d.status, d.job, d.record, d.task_id IS NOT NULL,"
    " d.reason = 'OVERSIZED' AND d.payload IS NULL,"
    " json_build_object('id', d.task_id, 'type', d.task_type,"
    "  'attempts', coalesce(d.attempts, d.attempt), 'reason', d.reason, 'category', d.category,"
    "  'error', json_build_object('class', d.error_class, 'message', d.error_message,"
    "   'category', d.error_category)),"
    " json_build_object('target', d.target, 'key', " BYTES(
        "d.task_key") ","
                      "  'headers', (SELECT coalesce(json_agg(json_build_object('key', k, "
                      "'value', " BYTES(
                          "v") ")"
                               "   ORDER BY n), '[]')"
                               "   FROM unnest(d.header_keys, d.header_values) WITH ORDINALITY AS "
                               "h(k, v, n)),"
                               "  'payload', " BYTES("d.payload") ")"
                                                                  " FROM archive AS d WHERE ";

enum { ID, STATUS, JOB, RECORD, HAS_TASK, SHRUNK, ABOUT, MESSAGE };

/* The columns hold what PostgreSQL takes; the record, what came. */
static int read_record(const char *hex, struct rp_arena *arena, struct rp_message *out,
                       struct rp_error *err)
{
    struct rp_codec *codec;
    struct rp_dead_letter dead;
    size_t n;
    unsigned char *raw = PQunescapeBytea((const unsigned char *)hex, &n);
    const struct rp_bytes record = {raw == NULL ? NULL : rp_arena_copy(arena, raw, n), n};
    PQfreemem(raw);
    if (record.data == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a dead letter");
    if (rp_codec_new(NULL, &codec, err) != 0)
        return -1;
    int rc = rp_codec_decode_dead_letter(codec, record, arena, &dead, err);
    rp_codec_free(codec);
    if (rc == 0 && dead.has_task)
        *out = rp_replay_message_of(&dead.task, arena);
    return rc;
}

static int read_row(const PGresult *row, struct rp_arena *arena, struct letter *out,
                    struct rp_error *err)
{
    if (PQntuples(row) == 0)
        return rp_fail(err, RP_E_NOT_FOUND, RP_POISON, "there is no such dead letter");
    if (*PQgetvalue(row, 0, HAS_TASK) != 't')
        return rp_fail(err, RP_E_INVALID, RP_POISON,
                       "there is no task in it: its bytes could not be decoded");
    if (*PQgetvalue(row, 0, SHRUNK) == 't')
        return rp_fail(err, RP_E_INVALID, RP_POISON, "its payload was too large to be kept");
    out->id = rp_arena_text(arena, PQgetvalue(row, 0, ID));
    out->status = rp_arena_text(arena, PQgetvalue(row, 0, STATUS));
    out->job = rp_arena_text(arena, PQgetvalue(row, 0, JOB));
    out->task_json = rp_arena_text(arena, PQgetvalue(row, 0, ABOUT));
    if (!PQgetisnull(row, 0, RECORD))
        return read_record(PQgetvalue(row, 0, RECORD), arena, &out->message, err);
    return rp_message_unpack(rp_str(PQgetvalue(row, 0, MESSAGE)), arena, &out->message, err);
}

int letter_read(struct rp_db *db, const char *id, const char *task_id, struct rp_arena *arena,
                struct letter *out, struct rp_error *err)
{
    struct rp_query q = {0};
    PGresult *row;
    rp_query_add(&q, letter_sql);
    rp_query_add(&q, id != NULL ? "d.id = " : "d.task_id = ");
    rp_query_param(&q, id != NULL ? id : task_id);
    rp_query_add(&q, id != NULL ? "::bigint" : " ORDER BY d.dead_at DESC, d.id DESC LIMIT 1");
    int rc = rp_query_run(&q, db, &row, err);
    rp_query_clear(&q);
    if (rc != 0)
        return -1;
    rc = read_row(row, arena, out, err);
    PQclear(row);
    return rc;
}
