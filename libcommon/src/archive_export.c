/* SPDX-License-Identifier: Apache-2.0 */
#include "archive_export.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include <zstd.h>

#define BASE64(bytes) "translate(encode(" bytes ", 'base64'), E'\\n', '')"
#define ISO(time)     "to_char(" time ", 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"

const char rp_archive_json[] =
    "json_build_object("
    "'id', d.id, 'dead_at', " ISO("d.dead_at") ", 'archived_at', " ISO(
        "d.archived_at") ","
                         "'status', d.status, 'status_at', " ISO(
                             "d.status_at") ", 'job', d.job, 'replays', d.replays,"
                                            "'came_back_at', " ISO(
                                                "d.came_back_at") ", 'replay_job', d.replay_job,"
                                                                  "'replay_of', d.replay_of, "
                                                                  "'fingerprint', "
                                                                  "lpad(to_hex(d.fingerprint), 16, "
                                                                  "'0'),"
                                                                  "'reason', d.reason, 'detail', "
                                                                  "d.detail, 'category', "
                                                                  "d.category, 'policy', d.policy,"
                                                                  "'attempts', d.attempts, "
                                                                  "'decided_at', " ISO(
                                                                      "d.decided_at") ","
                                                                                      "'topic', "
                                                                                      "d.source_"
                                                                                      "topic, "
                                                                                      "'partition',"
                                                                                      " d.source_"
                                                                                      "partition, "
                                                                                      "'offset', "
                                                                                      "d.source_"
                                                                                      "offset,"
                                                                                      "'record', "
                                                                                      "json_build_"
                                                                                      "object('"
                                                                                      "topic', "
                                                                                      "d.record_"
                                                                                      "topic, "
                                                                                      "'partition',"
                                                                                      " d.record_"
                                                                                      "partition,"
                                                                                      " 'offset', "
                                                                                      "d.record_"
                                                                                      "offset, "
                                                                                      "'key',"
                                                                                      " " BASE64(
                                                                                          "d."
                                                                                          "record_"
                                                                                          "key") ","
                                                                                                 " "
                                                                                                 "'"
                                                                                                 "v"
                                                                                                 "a"
                                                                                                 "l"
                                                                                                 "u"
                                                                                                 "e"
                                                                                                 "'"
                                                                                                 ","
                                                                                                 " " BASE64(
                                                                                                     "d.record") "),"
                                                                                                                 "'altered', d.altered, 'raw', " BASE64(
                                                                                                                     "d.raw") ","
                                                                                                                              "'task', CASE WHEN d.task_id IS NOT NULL THEN json_build_object("
                                                                                                                              " 'task_id', d.task_id, 'task_type', d.task_type, 'target', d.target,"
                                                                                                                              " 'key', " BASE64("d.task_key") ", 'payload', " BASE64(
                                                                                                                                  "d.payload") ","
                                                                                                                                               " 'headers', (SELECT coalesce(json_agg(json_build_object('key', k, 'value', " BASE64(
                                                                                                                                                   "v") ")"
                                                                                                                                                        "  ORDER BY n), '[]') FROM unnest(d.header_keys, d.header_values) WITH ORDINALITY AS h(k, v, n)),"
                                                                                                                                                        " 'attempt', d.attempt, 'error', json_build_object('class', d.error_class,"
                                                                                                                                                        "  'message', d.error_message, 'category', d.error_category,"
                                                                                                                                                        "  'causes', (SELECT coalesce(json_agg(json_build_object('class', c, 'message', m) ORDER BY n),"
                                                                                                                                                        "   '[]') FROM unnest(d.cause_classes, d.cause_messages) WITH ORDINALITY AS h(c, m, n))),"
                                                                                                                                                        " 'source', d.source, 'first_failed_at', " ISO(
                                                                                                                                                            "d.first_failed_at") ","
                                                                                                                                                                                 " 'failed_at', " ISO(
                                                                                                                                                                                     "d.failed_at") ") END)";

struct rp_export {
    char *path, *part;
    FILE *file;
    ZSTD_CCtx *zstd; /* NULL: plain */
    size_t room;     /* of `out` */
    uint8_t *out;
    bool committed;
};

static int failed_io(const struct rp_export *e, const char *what, int number, struct rp_error *err)
{
    return rp_fail(err, RP_E_IO, RP_RETRIABLE, "cannot %s %s: %s", what, e->path, strerror(number));
}

static int no_memory(struct rp_error *err)
{
    return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for an export");
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static int open_compressor(struct rp_export *e, struct rp_error *err)
{
    e->room = ZSTD_CStreamOutSize();
    e->out = malloc(e->room);
    e->zstd = ZSTD_createCCtx();
    if (e->out == NULL || e->zstd == NULL ||
        ZSTD_isError(ZSTD_CCtx_setParameter(e->zstd, ZSTD_c_checksumFlag, 1)))
        return no_memory(err);
    return 0;
}

/* The lock says that somebody is at it; what nobody is at was left by a process that is gone. */
static int open_part(struct rp_export *e, struct rp_error *err)
{
    int fd = open(e->part, O_WRONLY | O_CREAT | O_CLOEXEC, 0640);
    if (fd < 0)
        return failed_io(e, "write", errno, err);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        (void)close(fd);
        return rp_fail(err, RP_E_INVALID, RP_RETRIABLE, "%s is being written by another process",
                       e->part);
    }
    e->file = ftruncate(fd, 0) == 0 ? fdopen(fd, "w") : NULL;
    if (e->file != NULL)
        return 0;
    int number = errno;
    (void)close(fd);
    return failed_io(e, "write", number, err);
}

static int open_all(struct rp_export *e, const char *path, struct rp_error *err)
{
    e->path = strdup(path);
    if (e->path == NULL || asprintf(&e->part, "%s.part", path) < 0) {
        e->part = NULL;
        return no_memory(err);
    }
    if (access(path, F_OK) == 0)
        return rp_fail(err, RP_E_INVALID, RP_RETRIABLE, "%s exists already", path);
    if (ends_with(path, ".zst") && open_compressor(e, err) != 0)
        return -1;
    return open_part(e, err);
}

int rp_export_open(const char *path, struct rp_export **out, struct rp_error *err)
{
    struct rp_export *e = calloc(1, sizeof *e);
    if (e == NULL)
        return no_memory(err);
    if (open_all(e, path, err) != 0) {
        rp_export_free(e);
        return -1;
    }
    *out = e;
    return 0;
}

static int put(struct rp_export *e, const void *data, size_t n, struct rp_error *err)
{
    return fwrite(data, 1, n, e->file) == n ? 0 : failed_io(e, "write", errno, err);
}

static int compress(struct rp_export *e, struct rp_bytes data, ZSTD_EndDirective end,
                    struct rp_error *err)
{
    ZSTD_inBuffer in = {data.data, data.len, 0};
    size_t left;
    do {
        ZSTD_outBuffer out = {e->out, e->room, 0};
        left = ZSTD_compressStream2(e->zstd, &out, &in, end);
        if (ZSTD_isError(left))
            return rp_fail(err, RP_E_IO, RP_RETRIABLE, "cannot compress %s: %s", e->path,
                           ZSTD_getErrorName(left));
        if (put(e, e->out, out.pos, err) != 0)
            return -1;
    } while (end == ZSTD_e_end ? left > 0 : in.pos < in.size);
    return 0;
}

static int append(struct rp_export *e, struct rp_bytes data, struct rp_error *err)
{
    return e->zstd == NULL ? put(e, data.data, data.len, err)
                           : compress(e, data, ZSTD_e_continue, err);
}

int rp_export_line(struct rp_export *e, struct rp_bytes json, struct rp_error *err)
{
    if (append(e, json, err) != 0)
        return -1;
    return append(e, rp_str("\n"), err);
}

int rp_export_rows(struct rp_export *e, const PGresult *rows, struct rp_error *err)
{
    for (int i = 0; i < PQntuples(rows); i++)
        if (rp_export_line(
                e, (struct rp_bytes){PQgetvalue(rows, i, 0), (size_t)PQgetlength(rows, i, 0)},
                err) != 0)
            return -1;
    return 0;
}

/* The name is on the disk when its folder is. */
static int sync_folder(const struct rp_export *e, struct rp_error *err)
{
    char *slash = strrchr(e->path, '/');
    size_t n = slash == NULL ? 0 : (size_t)(slash - e->path) + 1;
    char *folder = n == 0 ? strdup(".") : strndup(e->path, n);
    int fd = folder == NULL ? -1 : open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int failed = fd < 0 || fsync(fd) != 0 ? failed_io(e, "sync the folder of", errno, err) : 0;
    if (fd >= 0)
        (void)close(fd);
    free(folder);
    return failed;
}

int rp_export_commit(struct rp_export *e, struct rp_error *err)
{
    if (e->zstd != NULL && compress(e, rp_str(""), ZSTD_e_end, err) != 0)
        return -1;
    if (fflush(e->file) != 0 || fsync(fileno(e->file)) != 0)
        return failed_io(e, "write", errno, err);
    if (access(e->path, F_OK) == 0)
        return rp_fail(err, RP_E_INVALID, RP_RETRIABLE, "%s exists already", e->path);
    if (rename(e->part, e->path) != 0)
        return failed_io(e, "name", errno, err);
    e->committed = true;
    return sync_folder(e, err);
}

void rp_export_free(struct rp_export *e)
{
    if (e == NULL)
        return;
    if (e->file != NULL) {
        if (!e->committed)
            (void)unlink(e->part);
        (void)fclose(e->file);
    }
    (void)ZSTD_freeCCtx(e->zstd);
    free(e->out);
    free(e->part);
    free(e->path);
    free(e);
}
