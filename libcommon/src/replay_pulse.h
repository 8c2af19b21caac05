/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_REPLAY_PULSE_H
#define REPRISE_REPLAY_PULSE_H

#include "replay_job.h"

/* A thread that, each second, on a connection of its own, shows that the runner of a job lives, and
 * reads what people wish of the job meanwhile. */
struct rp_replay_pulse;

enum rp_replay_wish { RP_REPLAY_RUN, RP_REPLAY_PAUSE, RP_REPLAY_CANCEL };

struct rp_replay_news {
    bool known;              /* the rest was read at least once */
    bool lost;               /* the job has another runner now, or has ended */
    int64_t read_mono_ms;    /* when it was last */
    struct rp_error trouble; /* of the last look, or RP_OK; FATAL where waiting does not mend it */
    enum rp_replay_wish wish;
    double rate;           /* tasks/s; 0: no limit */
    int64_t came_back;     /* dead letters that came of this job, when they were counted last */
    int64_t canary_age_ms; /* then: since the last canary went out; -1: they did not all go yet */
    bool archived;         /* then: the archive had all that rp_replay_pulse_await asks for */
};

RP_NODISCARD int rp_replay_pulse_start(const char *dsn, const struct rp_replay_job *job,
                                       struct rp_replay_pulse **out, struct rp_error *err);
void rp_replay_pulse_stop(struct rp_replay_pulse *p);
/* From now on a count tells whether the archive has the topic of dead letters up to `ends` (of
 * rp_topic_ends), and so whether it counts all that lies before. Called once; both are copied. */
RP_NODISCARD int rp_replay_pulse_await(struct rp_replay_pulse *p, const char *topic,
                                       const char *ends, struct rp_error *err);
struct rp_replay_news rp_replay_pulse_news(struct rp_replay_pulse *p);

#endif
