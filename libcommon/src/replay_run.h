/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_REPLAY_RUN_H
#define REPRISE_REPLAY_RUN_H

#include <stdatomic.h>

#include "config.h"
#include "replay_job.h"

/* Runs a replay job, which the command line and the archiver do alike. Each item goes out once,
 * whoever dies when, and however often the job changes hands: see "Replay" in libcommon/README.md.
 * While PostgreSQL or the brokers are away it waits, and goes on when they are back. */

enum rp_replay_end {
    RP_REPLAY_DONE,      /* all was sent, or refused */
    RP_REPLAY_PAUSED,    /* somebody wished so */
    RP_REPLAY_CANCELLED, /* the same; what was not sent is given back */
    RP_REPLAY_STOPPED,   /* too much came back dead; what was not sent is given back */
    RP_REPLAY_LET_GO,    /* *stop was set */
    RP_REPLAY_LEFT,   /* the same, but PostgreSQL did not take it down: it looks abandoned soon */
    RP_REPLAY_LOST,   /* somebody else has it now */
    RP_REPLAY_FAILED, /* `err` says why; it can be resumed or cancelled */
};

struct rp_replay_progress {
    const char *job;
    int64_t total;
    int64_t done; /* sent or refused */
    int64_t refused;
    int64_t came_back;   /* dead again, as far as the archive knows */
    double rate;         /* the limit, tasks/s; 0: none */
    const char *what;    /* "sending", "waiting for the canaries", ... */
    const char *trouble; /* NULL, or what it waits for to end */
};

struct rp_replay_run {
    const struct rp_config *config;
    const char *runner; /* a name that is no other process's, nor another run's */
    const atomic_bool *stop;
    bool pause_on_stop; /* or else somebody else may go on with it at once */
    bool settle;        /* do not send: mark what is out, carry out a wish, and pause */
    /* So long it may take to find out what a job that failed has sent, or one that is settled,
     * before it is left to others to do so; 0: as long as it takes. */
    int64_t settle_within_ms;
    /* Called several times a second, in the caller's thread; may be NULL. */
    void (*progress)(void *opaque, const struct rp_replay_progress *progress);
    void *opaque;
};

struct rp_replay_result {
    enum rp_replay_end end;
    bool
        unmarked; /* what was sent may not all be marked: an archiver does so, or the next runner */
    /* An earlier runner sent nothing, or Kafka has forgotten how far it came: what was sent and not
     * marked went out twice. */
    bool offset_gone;
    int64_t total, came_back;
    int64_t done, refused; /* by the marks: where they may be behind, at least so many */
};

/* Fails where it could not take the job, as rp_replay_job_claim does; then nothing has changed.
 * After success `err` says why where it failed, or was in the way where it was left unmarked. */
RP_NODISCARD int rp_replay_run(const struct rp_replay_run *r, const char *job,
                               struct rp_replay_result *out, struct rp_error *err);

#endif
