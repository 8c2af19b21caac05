/* SPDX-License-Identifier: Apache-2.0 */
#include "consent.h"
#include "discard.h"
#include "dlq_act.h"
#include "progress.h"

static bool show_progress(void *opaque, const struct rp_discard_progress *progress)
{
    return progress_show(opaque, progress->changed);
}

static int change(struct dlq *d, const struct dlq_act *a, bool undo)
{
    struct rp_error err;
    struct progress shown;
    struct rp_discard_progress progress = {0};
    const struct rp_discard discard = {.actor = a->actor,
                                       .reason = a->reason,
                                       .filter_text = a->filter,
                                       .filter = d->filter,
                                       .archived_until = a->now,
                                       .shown = consent_shown(d->args, a->count),
                                       .undo = undo,
                                       .go_on = show_progress,
                                       .opaque = &shown,
                                       .given_up = progress_stopped};
    progress_begin(&shown, undo ? "restored" : "discarded", a->count);
    int failed = rp_discard_run(d->db, &discard, &progress, &err);
    progress_end(&shown);
    return dlq_act_end(a, undo ? "restored" : "discarded", progress.changed, failed, &err);
}

static int discard(struct dlq *d)
{
    bool undo = cli_value(d->args, "undo") != NULL, done;
    struct dlq_act a;
    const struct dlq_act_kind kind = {.verb = undo ? "restore" : "discard",
                                      .only = undo ? "status = discarded" : "status = dead"};
    int code = dlq_act_begin(d, &kind, &a, &done);
    if (code == CLI_OK && !done)
        code = change(d, &a, undo);
    dlq_act_clear(&a);
    return code;
}

static int run(const struct cli_args *args)
{
    return dlq_run(args, discard);
}

static const struct cli_option options[] = {
    FILTER_OPTIONS_TO_ACT,
    CONSENT_OPTIONS,
    {.name = "undo", .help = "take it back: what was discarded is dead again"},
    {0},
};

const struct cli_command cmd_dlq_discard = {
    .group = "dlq",
    .name = "discard",
    .summary = "Sets dead letters aside that nobody will replay.",
    .about = "Only those of status dead; they stay in the archive as discarded. Shows how many of\n"
             "which groups there are, and asks. It goes in small steps: stopped or killed, it is\n"
             "run again for the rest. What is done is in the table audit, with who and why.",
    .options = options,
    .run = run,
};
