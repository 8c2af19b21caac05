/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_PUBLISHER_FIXTURE_H
#define REPRISE_PUBLISHER_FIXTURE_H

#include "mock_fixture.h"
#include "publisher.h"

#define TOPIC "somewhere"
#define GROUP "a-group"

enum api {
    PRODUCE = 0,
    METADATA = 3,
    INIT_PRODUCER_ID = 22,
    ADD_PARTITIONS = 24,
    ADD_OFFSETS = 25,
    END_TXN = 26,
    TXN_OFFSETS = 28,
};

struct fixture {
    struct mock mock;
    struct rp_config *config;
    struct rp_publisher *publisher;
};

/* The producer whose commit was called last. */
extern rd_kafka_t *last_to_commit;

int publisher_set_up(void **state);
int publisher_tear_down(void **state);

/* One record and one offset, in one transaction. */
enum rp_published publish(struct fixture *f, struct rp_error *err);
void assert_publishes(struct fixture *f);

/* Has mock_requests count from now on. */
void track(struct fixture *f);
/* A transaction has just ended, and another is begun. */
void begin_another(struct fixture *f);
void send_one(struct fixture *f, size_t tag, size_t bytes);
/* A publisher for other settings, in place of the fixture's. */
void use(struct fixture *f, const char *guarantee, const char *settings);

#endif
