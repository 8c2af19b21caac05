/* SPDX-License-Identifier: Apache-2.0 */
/* What the archiver is measured against: COPY of rows that are in memory in its binary format. Each
 * part is a transaction; connection i of n has every n-th part from the i-th on. dsn=
 * copy=STATEMENT parts=FILE, of each part its size (8 bytes) and itself; connections= */
#include <fcntl.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"

#define MOST_CONNECTIONS 16
#define PIECE            65536 /* what libpq copies into its buffer is sent from the cache */

struct rows {
    const char *data, *end;
};

struct copier {
    pthread_t thread;
    PGconn *db;
    const char *statement;
    struct rows rows;
    long number, of, copied;
};

/* The whole file, read before anything is measured. */
static struct rows in_memory(const char *path)
{
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &about) != 0)
        bench_die(path, "cannot be read");
    size_t size = (size_t)about.st_size;
    char *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    if (data == MAP_FAILED)
        bench_die(path, "cannot be mapped");
    (void)close(fd);
    return (struct rows){data, data + size};
}

static void expect(PGconn *db, ExecStatusType status)
{
    PGresult *result = PQgetResult(db);
    if (PQresultStatus(result) != status)
        bench_die("COPY", PQerrorMessage(db));
    PQclear(result);
}

static void copy_part(struct copier *c, const char *part, size_t size)
{
    if (PQsendQuery(c->db, c->statement) != 1)
        bench_die("COPY", PQerrorMessage(c->db));
    expect(c->db, PGRES_COPY_IN);
    for (size_t at = 0; at < size; at += PIECE)
        if (PQputCopyData(c->db, part + at, (int)(size - at < PIECE ? size - at : PIECE)) != 1)
            bench_die("COPY", PQerrorMessage(c->db));
    if (PQputCopyEnd(c->db, NULL) != 1)
        bench_die("COPY", PQerrorMessage(c->db));
    expect(c->db, PGRES_COMMAND_OK);
    (void)PQgetResult(c->db); /* NULL: the statement is over */
}

static void *copy_share(void *opaque)
{
    struct copier *c = opaque;
    const char *at = c->rows.data;
    for (long i = 0; at < c->rows.end; i++) {
        uint64_t size;
        memcpy(&size, at, sizeof size);
        if (i % c->of == c->number) {
            copy_part(c, at + sizeof size, size);
            c->copied++;
        }
        at += sizeof size + size;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct copier copiers[MOST_CONNECTIONS] = {0};
    struct rows rows = in_memory(bench_arg(argv, "parts", NULL));
    long n = bench_number(argv, "connections", NULL), copied = 0;
    (void)argc;
    if (n < 1 || n > MOST_CONNECTIONS)
        bench_die("connections", "too few, or too many");
    for (long i = 0; i < n; i++) {
        copiers[i] = (struct copier){.db = PQconnectdb(bench_arg(argv, "dsn", NULL)),
                                     .statement = bench_arg(argv, "copy", NULL),
                                     .rows = rows,
                                     .number = i,
                                     .of = n};
        if (PQstatus(copiers[i].db) != CONNECTION_OK)
            bench_die("dsn", PQerrorMessage(copiers[i].db));
    }
    for (long i = 0; i < n; i++)
        if (pthread_create(&copiers[i].thread, NULL, copy_share, &copiers[i]) != 0)
            bench_die("thread", "cannot be started");
    for (long i = 0; i < n; i++) {
        (void)pthread_join(copiers[i].thread, NULL);
        copied += copiers[i].copied;
        PQfinish(copiers[i].db);
    }
    (void)printf("{\"parts\": %ld}\n", copied);
    return 0;
}
