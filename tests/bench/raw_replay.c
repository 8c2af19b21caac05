/* SPDX-License-Identifier: Apache-2.0 */
/* What a replay is measured against: COPY of the archive's keys and payloads, each sent with as
 * many headers, in transactions. Nothing is claimed, marked or kept in mind. bootstrap= dsn=
 * target= [batch=] [linger=MS] */
#include <endian.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"

static rd_kafka_headers_t *headers_new(void)
{
    static const char *const headers[][2] = {
        {"reprise-task-id", "7b0e1c52-33a1-4a5e-9f00-000000000000"},
        {"reprise-attempt", "2"},
        {"reprise-due", "1763700000000"},
        {"reprise-first-failed-at", "1763700000000"},
        {"reprise-replay-id", "261121-abcdef"},
    };
    rd_kafka_headers_t *list = rd_kafka_headers_new(5);
    for (size_t i = 0; i < 5; i++)
        (void)rd_kafka_header_add(list, headers[i][0], -1, headers[i][1], -1);
    return list;
}

struct field {
    char *data;
    size_t len;
};

static void send_row(rd_kafka_t *producer, rd_kafka_topic_t *target, const struct field *key,
                     const struct field *payload)
{
    bench_produce(producer, target, (struct rp_bytes){key->data, key->len},
                  (struct rp_bytes){payload->data, payload->len}, headers_new());
}

/* Takes a field of COPY's binary format; returns what follows it. No field is null. */
static char *take_field(char *at, struct field *out)
{
    uint32_t size;
    memcpy(&size, at, sizeof size);
    out->len = be32toh(size);
    out->data = at + sizeof size;
    return out->data + out->len;
}

/* Key and payload of a row; false: the header or the trailer alone. */
static bool fields_of(char *row, int n, bool first, struct field *key, struct field *payload)
{
    uint16_t fields;
    int at = first ? 19 : 0;
    if (n < at + 2)
        return false;
    memcpy(&fields, row + at, sizeof fields);
    if (be16toh(fields) != 2)
        return false;
    take_field(take_field(row + at + 2, key), payload);
    return true;
}

int main(int argc, char **argv)
{
    long batch = bench_number(argv, "batch", "32000"), total = 0;
    rd_kafka_t *producer = bench_producer(argv, "raw-replay", bench_arg(argv, "linger", "5"));
    rd_kafka_topic_t *target = rd_kafka_topic_new(producer, bench_arg(argv, "target", NULL), NULL);
    PGconn *db = PQconnectdb(bench_arg(argv, "dsn", NULL));
    (void)argc;
    PGresult *result =
        PQexec(db, "COPY (SELECT task_key, payload FROM dead_letter ORDER BY dead_at,"
                   " id) TO STDOUT (FORMAT binary)");
    if (PQresultStatus(result) != PGRES_COPY_OUT)
        bench_die("COPY", PQerrorMessage(db));
    PQclear(result);
    char *row;
    bool first = true;
    for (int n; (n = PQgetCopyData(db, &row, 0)) > 0; PQfreemem(row)) {
        struct field key, payload;
        bool is_row = fields_of(row, n, first, &key, &payload);
        first = false;
        if (!is_row)
            continue;
        if (total % batch == 0)
            bench_check(rd_kafka_begin_transaction(producer), "begin");
        send_row(producer, target, &key, &payload);
        if (++total % batch == 0)
            bench_check(rd_kafka_commit_transaction(producer, 20000), "commit");
    }
    if (total % batch != 0)
        bench_check(rd_kafka_commit_transaction(producer, 20000), "commit");
    (void)printf("{\"records\": %ld}\n", total);
    rd_kafka_topic_destroy(target);
    rd_kafka_destroy(producer);
    PQfinish(db);
    return 0;
}
