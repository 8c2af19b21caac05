/* SPDX-License-Identifier: Apache-2.0 */
#include "spill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reprise/bytes.h"

struct spill {
    int fd;
    uint64_t n_units; /* the file's length */
    uint64_t n_used;
    bool *in_use; /* of each unit */
    size_t cap;
};

static int open_unnamed(const char *dir)
{
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
        return fd;
    /* Not every file system has files without a name. */
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/reprise-spill-XXXXXX", dir);
    if ((size_t)n >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0 && unlink(path) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

int spill_new(const char *dir, struct spill **out, struct rp_error *err)
{
    struct spill *s = calloc(1, sizeof *s);
    if (s == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for a spill file");
    s->fd = open_unnamed(dir);
    if (s->fd < 0) {
        free(s);
        return rp_fail(err, RP_E_IO, RP_FATAL, "no file can be made in %s: %s", dir,
                       strerror(errno));
    }
    *out = s;
    return 0;
}

void spill_free(struct spill *s)
{
    if (s == NULL)
        return;
    (void)close(s->fd);
    free(s->in_use);
    free(s);
}

static uint64_t units_of(size_t n)
{
    return n / SPILL_UNIT + (n % SPILL_UNIT != 0);
}

static int write_all(int fd, const void *data, size_t n, off_t at)
{
    const char *p = data;
    while (n > 0) {
        ssize_t done = pwrite(fd, p, n, at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -1;
        p += done;
        n -= (size_t)done;
        at += done;
    }
    return 0;
}

/* Where as many units in a row are free, or would be if the file were longer. */
static uint64_t find_room(const struct spill *s, uint64_t units)
{
    uint64_t run = 0;
    for (uint64_t i = 0; i < s->n_units; i++) {
        run = s->in_use[i] ? 0 : run + 1;
        if (run == units)
            return i + 1 - units;
    }
    return s->n_units - run;
}

static int take_units(struct spill *s, uint64_t units, uint64_t *out, struct rp_error *err)
{
    uint64_t place = find_room(s, units), end = place + units;
    if (end > s->cap) {
        size_t cap = end < 64 ? 64 : 2 * (size_t)end;
        bool *more = reallocarray(s->in_use, cap, sizeof *more);
        if (more == NULL)
            return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for the spill file");
        s->in_use = more;
        s->cap = cap;
    }
    memset(s->in_use + place, true, units);
    if (end > s->n_units)
        s->n_units = end;
    s->n_used += units;
    *out = place;
    return 0;
}

int spill_write(struct spill *s, const void *data, size_t n, uint64_t *out_place,
                struct rp_error *err)
{
    if (take_units(s, units_of(n), out_place, err) != 0)
        return -1;
    if (write_all(s->fd, data, n, (off_t)(*out_place * SPILL_UNIT)) == 0)
        return 0;
    int why = errno;
    spill_drop(s, *out_place, n);
    return rp_fail(err, RP_E_IO, RP_RETRIABLE, "spill file: %s", strerror(why));
}

int spill_read(struct spill *s, uint64_t place, size_t at, void *out, size_t n,
               struct rp_error *err)
{
    char *p = out;
    off_t from = (off_t)(place * SPILL_UNIT + at);
    while (n > 0) {
        ssize_t done = pread(s->fd, p, n, from);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return rp_fail(err, RP_E_IO, RP_RETRIABLE, "spill file: %s",
                           done == 0 ? "it is shorter than what was written" : strerror(errno));
        p += done;
        n -= (size_t)done;
        from += done;
    }
    return 0;
}

void spill_drop(struct spill *s, uint64_t place, size_t n)
{
    uint64_t units = units_of(n);
    s->n_used -= units;
    memset(s->in_use + place, false, units);
    if (s->n_used == 0 && ftruncate(s->fd, 0) == 0) {
        s->n_units = 0;
        return;
    }
    /* Where the file system makes no holes the space is only used again. */
    (void)fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(place * SPILL_UNIT),
                    (off_t)(units * SPILL_UNIT));
}

uint64_t spill_file_bytes(const struct spill *s)
{
    return s->n_units * SPILL_UNIT;
}
