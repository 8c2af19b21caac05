/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_REGISTRY_FIXTURE_H
#define REPRISE_REGISTRY_FIXTURE_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdbool.h>

#include "registry.h"

/* A registry that is an HTTP server in this process and answers as the test says, and a client of
 * it. What a loaded machine answers later than the client waits is asked for again. */
struct fixture {
    struct MHD_Daemon *server;
    char url[80];
    struct rp_registry *registry;
    struct rp_error err;

    pthread_mutex_t lock; /* of what follows, which the server's threads use too */
    pthread_cond_t changed;
    unsigned status;
    const char *body;
    bool stuck; /* no answer while it is set */
    int requests;
    char path[80], user[40], password[40];
};

extern int64_t test_mono_ms; /* the client's clock */

int set_up(void **state);
int tear_down(void **state);

struct rp_registry_options options_of(const struct fixture *f);
/* A client in place of the fixture's. */
void use(struct fixture *f, struct rp_registry_options options);

/* What is answered from now on, or that nothing is. */
void say(struct fixture *f, unsigned status, const char *body);
void set_stuck(struct fixture *f, bool stuck);

void assert_schema(struct fixture *f, int32_t id, const char *expected);
void assert_fails(struct fixture *f, int32_t id, enum rp_error_class cls, const char *because);
/* Which buries nothing. */
void assert_no_answer_yet(struct fixture *f, int32_t id);
/* The schema, once what was remembered of an outage is over. */
void assert_schema_soon(struct fixture *f, int32_t id, const char *expected);

/* Fails as an outage does; says for how long it has, in ms. */
int64_t failing_ms(struct fixture *f, int32_t id);
/* The same, asked each second for so long, as who waits for the id does. */
int64_t fail_for_s(struct fixture *f, int32_t id, int seconds);

#endif
