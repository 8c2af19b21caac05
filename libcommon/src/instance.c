/* SPDX-License-Identifier: Apache-2.0 */
#include "instance.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <xxhash.h>

#define MAX_SLOTS 1000
#define BASE_MAX  65
#define HOST_MAX  65 /* Linux's */
#define SHOWN     40 /* of it */

struct rp_instance {
    int socket; /* its address is the name */
    char name[BASE_MAX + 16];
};

/* What tells this machine, user and service from others that might use the same cluster. */
static uint64_t hash_of_place(const char *host, const char *key)
{
    char machine[64] = "";
    FILE *f = fopen("/etc/machine-id", "re");
    if (f != NULL) {
        if (fgets(machine, sizeof machine, f) == NULL)
            machine[0] = '\0';
        (void)fclose(f);
    }
    uint64_t h = XXH3_64bits_withSeed(host, strlen(host), XXH3_64bits(machine, strlen(machine)));
    return XXH3_64bits_withSeed(key, strlen(key), h ^ geteuid());
}

/* Kafka takes these in any name. */
static bool is_name_character(char c)
{
    return isalnum((unsigned char)c) || c == '.' || c == '_' || c == '-';
}

/* The name without its slot. */
static int make_base(const char *configured, const char *key, char base[BASE_MAX],
                     struct rp_error *err)
{
    char host[HOST_MAX] = "";
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
    if (gethostname(host, sizeof host) != 0 || host[0] == '\0')
        memcpy(host, "localhost", sizeof "localhost");
    uint64_t place = hash_of_place(host, key);
    for (char *p = host; *p != '\0'; p++)
        if (!is_name_character(*p))
            *p = '_';
    (void)snprintf(base, BASE_MAX, "%.*s-%08x", SHOWN, host, (unsigned)(place >> 32));
    return 0;
}

/* 1: took the name, 0: somebody has it. */
static int try_name(struct rp_instance *i, const char *key, struct rp_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    /* Its first byte is 0: no file. */
    int n = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "reprise/%016llx/%s",
                     (unsigned long long)XXH3_64bits(key, strlen(key)), i->name);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    if (bind(i->socket, (const struct sockaddr *)&address, size) == 0)
        return 1;
    if (errno == EADDRINUSE)
        return 0;
    return rp_fail(err, RP_E_IO, RP_FATAL, "cannot claim the name %s: %s", i->name,
                   strerror(errno));
}

/* Takes the first free slot. */
static int take_slot(struct rp_instance *i, const char *base, const char *key, struct rp_error *err)
{
    for (int slot = 0; slot < MAX_SLOTS; slot++) {
        (void)snprintf(i->name, sizeof i->name, "%s-%d", base, slot);
        int rc = try_name(i, key, err);
        if (rc != 0)
            return rc < 0 ? -1 : 0;
    }
    return rp_fail(err, RP_E_FULL, RP_FATAL, "%d processes of this kind run already", MAX_SLOTS);
}

static int claim(struct rp_instance *i, const char *configured, const char *key,
                 struct rp_error *err)
{
    char base[BASE_MAX];
    if (make_base(configured, key, base, err) != 0)
        return -1;
    i->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (i->socket < 0)
        return rp_fail(err, RP_E_IO, RP_FATAL, "cannot claim a name: %s", strerror(errno));
    if (take_slot(i, base, key, err) == 0)
        return 0;
    (void)close(i->socket);
    return -1;
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
    (void)close(i->socket);
    free(i);
}

const char *rp_instance_name(const struct rp_instance *i)
{
    return i->name;
}
