/* SPDX-License-Identifier: Apache-2.0 */
#include "archive_export.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pack.h"

struct rp_export {
    char *path, *part;
    FILE *file;
    struct rp_pack *pack;
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

/* Whoever had the lock between our open and our lock may have given the file its name, or removed
 * it: what we have locked then is not the part, and not ours to overwrite. */
static bool is_part(const struct rp_export *e, int fd)
{
    struct stat ours, there;
    return fstat(fd, &ours) == 0 && stat(e->part, &there) == 0 && ours.st_dev == there.st_dev &&
           ours.st_ino == there.st_ino;
}

static int exists(const struct rp_export *e, struct rp_error *err)
{
    return rp_fail(err, RP_E_INVALID, RP_RETRIABLE, "%s exists already", e->path);
}

/* The lock says that somebody is at it; what nobody is at was left by a process that is gone. */
static int open_part(struct rp_export *e, struct rp_error *err)
{
    int fd = open(e->part, O_WRONLY | O_CREAT | O_CLOEXEC, 0640);
    if (fd < 0)
        return failed_io(e, "write", errno, err);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 || !is_part(e, fd)) {
        (void)close(fd);
        return rp_fail(err, RP_E_INVALID, RP_RETRIABLE, "%s is being written by another process",
                       e->part);
    }
    e->file = fdopen(fd, "w");
    if (e->file == NULL) {
        int number = errno;
        (void)unlink(e->part);
        (void)close(fd);
        return failed_io(e, "write", number, err);
    }
    if (access(e->path, F_OK) == 0) /* now that nobody else can name it */
        return exists(e, err);
    return ftruncate(fd, 0) == 0 ? 0 : failed_io(e, "write", errno, err);
}

static bool is_stdout(const struct rp_export *e)
{
    return strcmp(e->path, "-") == 0;
}

static int open_all(struct rp_export *e, const char *path, struct rp_error *err)
{
    e->path = strdup(path);
    if (e->path == NULL || asprintf(&e->part, "%s.part", path) < 0) {
        e->part = NULL;
        return no_memory(err);
    }
    if (is_stdout(e)) {
        e->file = stdout;
        return rp_pack_new(path, e->file, &e->pack, err);
    }
    return open_part(e, err) != 0 ? -1 : rp_pack_new(path, e->file, &e->pack, err);
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

static int append(struct rp_export *e, struct rp_bytes data, struct rp_error *err)
{
    return rp_pack_put(e->pack, data, err) == 0 ? 0 : rp_fail_in(err, "%s", e->path);
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

/* Over no file that is there, also where the file system cannot promise that. */
static int name(const struct rp_export *e)
{
    if (renameat2(AT_FDCWD, e->part, AT_FDCWD, e->path, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    if (access(e->path, F_OK) == 0) {
        errno = EEXIST;
        return -1;
    }
    return rename(e->part, e->path);
}

int rp_export_commit(struct rp_export *e, struct rp_error *err)
{
    if (rp_pack_end(e->pack, err) != 0)
        return rp_fail_in(err, "%s", e->path);
    if (fflush(e->file) != 0 || (!is_stdout(e) && fsync(fileno(e->file)) != 0))
        return failed_io(e, "write", errno, err);
    if (is_stdout(e))
        return 0;
    if (name(e) != 0)
        return errno == EEXIST ? exists(e, err) : failed_io(e, "name", errno, err);
    e->committed = true;
    if (sync_folder(e, err) == 0)
        return 0;
    (void)unlink(e->path); /* nobody may rely on it, and the next one would stand beside it */
    return -1;
}

void rp_export_free(struct rp_export *e)
{
    if (e == NULL)
        return;
    if (e->file != NULL && e->file != stdout) {
        if (!e->committed)
            (void)unlink(e->part);
        (void)fclose(e->file);
    }
    rp_pack_free(e->pack);
    free(e->part);
    free(e->path);
    free(e);
}
