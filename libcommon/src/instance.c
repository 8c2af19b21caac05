/* SPDX-License-Identifier: Apache-2.0 */
#include "instance.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define MAX_SLOTS 1000
#define BASE_MAX  65

struct rp_instance {
    int dir, lock;
    char file[40]; /* the lock's, in `dir` */
    char name[BASE_MAX + 16];
};

/* Opens the directory of locks. /tmp is everybody's: a directory that somebody else put there, or
 * can write to, is refused. */
static int open_directory(const char *path, int *out, struct rp_error *err)
{
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return rp_fail(err, RP_E_IO, RP_FATAL, "cannot make %s: %s", path, strerror(errno));
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return rp_fail(err, RP_E_IO, RP_FATAL, "cannot open %s: %s", path, strerror(errno));
    struct stat st;
    if (fstat(fd, &st) != 0 || st.st_uid != geteuid() || (st.st_mode & 022) != 0) {
        (void)close(fd);
        return rp_fail(err, RP_E_IO, RP_FATAL, "%s is not ours alone: remove it", path);
    }
    /* Cleaners of /tmp leave locked directories alone. Where the lock cannot be had, one of them
     * is at work; it does not take files that were just opened. */
    (void)flock(fd, LOCK_SH | LOCK_NB);
    *out = fd;
    return 0;
}

/* What tells this machine, user and directory from others that might use the same cluster. */
static uint64_t hash_of_place(const char *directory, const char *configured, const char *key)
{
    char machine[64] = "";
    FILE *f = fopen("/etc/machine-id", "re");
    if (f != NULL) {
        if (fgets(machine, sizeof machine, f) == NULL)
            machine[0] = '\0';
        (void)fclose(f);
    }
    uint64_t h = XXH3_64bits(machine, strlen(machine));
    h = XXH3_64bits_withSeed(directory, strlen(directory), h ^ geteuid());
    if (configured != NULL)
        h = XXH3_64bits_withSeed(configured, strlen(configured), h);
    return XXH3_64bits_withSeed(key, strlen(key), h);
}

/* Kafka takes these in any name. */
static bool is_name_character(char c)
{
    return isalnum((unsigned char)c) || c == '.' || c == '_' || c == '-';
}

/* The name without its slot. */
static int make_base(const char *configured, uint64_t hash, char base[BASE_MAX],
                     struct rp_error *err)
{
    char host[41] = "";
    if (configured != NULL) {
        size_t n = strlen(configured);
        for (const char *p = configured; *p != '\0'; p++)
            if (!is_name_character(*p))
                n = 0;
        if (n == 0 || n >= BASE_MAX)
            return rp_fail(err, RP_E_INVALID, RP_FATAL,
                           "instance '%.80s' is not 1 to %d of [A-Za-z0-9._-]", configured,
                           BASE_MAX - 1);
        memcpy(base, configured, n + 1);
        return 0;
    }
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0')
        memcpy(host, "localhost", sizeof "localhost");
    for (char *p = host; *p != '\0'; p++)
        if (!is_name_character(*p))
            *p = '_';
    (void)snprintf(base, BASE_MAX, "%s-%08x", host, (unsigned)(hash >> 32));
    return 0;
}

/* Whether the file that was locked still is the one of that name: its last owner may have removed
 * it between our open and our lock. */
static bool is_current(const struct rp_instance *i)
{
    struct stat locked, named;
    return fstat(i->lock, &locked) == 0 && fstatat(i->dir, i->file, &named, 0) == 0 &&
           locked.st_ino == named.st_ino;
}

/* 1: took the slot, 0: somebody has it. */
static int try_slot(struct rp_instance *i, struct rp_error *err)
{
    for (;;) {
        i->lock = openat(i->dir, i->file, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (i->lock < 0)
            return rp_fail(err, RP_E_IO, RP_FATAL, "cannot open %s: %s", i->file, strerror(errno));
        int locked = flock(i->lock, LOCK_EX | LOCK_NB), saved = errno;
        if (locked == 0 && is_current(i))
            return 1;
        (void)close(i->lock);
        if (locked != 0 && saved == EWOULDBLOCK)
            return 0;
        if (locked != 0)
            return rp_fail(err, RP_E_IO, RP_FATAL, "cannot lock %s: %s", i->file, strerror(saved));
    }
}

/* Takes the first free slot and returns it, or -1. */
static int take_slot(struct rp_instance *i, uint64_t hash, struct rp_error *err)
{
    for (int slot = 0; slot < MAX_SLOTS; slot++) {
        (void)snprintf(i->file, sizeof i->file, "%016llx-%d.lock", (unsigned long long)hash, slot);
        int rc = try_slot(i, err);
        if (rc != 0)
            return rc < 0 ? -1 : slot;
    }
    return rp_fail(err, RP_E_FULL, RP_FATAL, "%d processes of this kind run already", MAX_SLOTS);
}

static void find_directory(char *out, size_t size)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    /* It may be another user's, left behind by su or sudo. */
    if (runtime != NULL && runtime[0] == '/' && access(runtime, W_OK | X_OK) == 0)
        (void)snprintf(out, size, "%s/reprise", runtime);
    else
        (void)snprintf(out, size, "/tmp/reprise-%lu", (unsigned long)geteuid());
}

static int claim(struct rp_instance *i, const char *configured, const char *key,
                 struct rp_error *err)
{
    char directory[4096], base[BASE_MAX];
    find_directory(directory, sizeof directory);
    if (open_directory(directory, &i->dir, err) != 0)
        return -1;
    uint64_t hash = hash_of_place(directory, configured, key);
    int slot = make_base(configured, hash, base, err) == 0 ? take_slot(i, hash, err) : -1;
    if (slot < 0) {
        (void)close(i->dir);
        return rp_fail_in(err, "locks in %s", directory);
    }
    (void)snprintf(i->name, sizeof i->name, "%s-%d", base, slot);
    return 0;
}

int rp_instance_claim(const char *configured, const char *key, struct rp_instance **out,
                      struct rp_error *err)
{
    struct rp_instance *i = calloc(1, sizeof *i);
    if (i == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for the instance's name");
    if (claim(i, configured, key, err) != 0) {
        free(i);
        return -1;
    }
    *out = i;
    return 0;
}

void rp_instance_release(struct rp_instance *i)
{
    if (i == NULL)
        return;
    /* Still locked, so the name is ours to remove. A kill -9 leaves it behind, unlocked. */
    (void)unlinkat(i->dir, i->file, 0);
    (void)close(i->lock);
    (void)close(i->dir);
    free(i);
}

const char *rp_instance_name(const struct rp_instance *i)
{
    return i->name;
}
