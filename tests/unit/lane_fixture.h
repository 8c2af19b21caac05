/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_LANE_FIXTURE_H
#define REPRISE_LANE_FIXTURE_H

#include "lane.h"
#include "mock_fixture.h"

#define TOPIC      "tier"
#define POLL_MS    10
#define MOST_POLLS 3000

/* A tier of one second, TOPIC, of one partition, with ten records in it. */
struct lane_fixture {
    struct rp_config config;
    struct mock mock;
    rd_kafka_t *consumer;
    int wake_fd;
    struct hold *hold;
};
extern struct lane_fixture fx;

int lane_set_up(void **state);
int lane_tear_down(void **state);

struct lane *new_lane(void);
void take_over_with(struct lane *lane, int64_t offset, const char *metadata);
void take_over(struct lane *lane, int64_t offset);
/* A new one that was assigned, and took over. */
struct lane *begun_lane(int64_t offset);

/* Polls the consumer, whose own queue has nothing. */
void serve(void);
/* Serves, and reads what there is. */
void read_once(struct lane *lane, int64_t now_ms, size_t most_ahead);
/* Until the next record is at `offset`, nothing ahead; _to: at the end of time. */
void read_at(struct lane *lane, int64_t now_ms, int64_t offset);
void read_to(struct lane *lane, int64_t offset);

#endif
