/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "consent.h"
#include "dlq_act.h"
#include "progress.h"
#include "purge.h"

struct shown {
    struct progress exported, deleted;
};

static bool show_progress(void *opaque, const struct rp_purge_progress *progress)
{
    struct shown *s = opaque;
    return progress->deleted > 0 || progress->exported == 0
               ? progress_show(&s->deleted, progress->deleted)
               : progress_show(&s->exported, progress->exported);
}

static bool is_there(const char *path)
{
    return path != NULL && access(path, F_OK) == 0;
}

static int delete_them(struct dlq *d, struct dlq_act *a)
{
    struct rp_error err;
    struct shown shown;
    struct rp_query where = {0};
    struct rp_purge_progress progress = {0};
    const struct rp_purge purge = {.action = "purge",
                                   .actor = a->actor,
                                   .reason = a->reason,
                                   .filter = a->filter,
                                   .where = &where,
                                   .shown = consent_shown(d->args, a->count),
                                   .export_path = cli_value(d->args, "export"),
                                   .go_on = show_progress,
                                   .opaque = &shown,
                                   .given_up = progress_stopped};
    dlq_add_filter(d, &where);
    rp_query_add(&where, " AND d.archived_at <= ");
    rp_query_param(&where, a->now);
    rp_query_add(&where, "::timestamptz");
    progress_begin(&shown.exported, "exported", a->count);
    progress_begin(&shown.deleted, "deleted", a->count);
    int failed = rp_purge_run(d->db, &purge, &progress, &err);
    progress_end(&shown.deleted);
    rp_query_clear(&where);
    if (is_there(purge.export_path))
        a->file = purge.export_path;
    return dlq_act_end(a, "deleted", progress.deleted, failed, &err);
}

static int purge(struct dlq *d)
{
    struct dlq_act a;
    bool done;
    const struct dlq_act_kind kind = {
        .verb = "delete", .only = "status != replaying", .for_good = true};
    int code = dlq_act_begin(d, &kind, &a, &done);
    if (code == CLI_OK && !done)
        code = delete_them(d, &a);
    dlq_act_clear(&a);
    return code;
}

/* Nobody can tell of a pipe whether what went into it was stored, and then it is deleted. */
static int run(const struct cli_args *args)
{
    const char *path = cli_value(args, "export");
    if (path != NULL && strcmp(path, "-") == 0)
        cli_error("--export takes a file here; `dlq export` writes to stdout");
    else if (is_there(path))
        cli_error("%s exists already; name another file", path);
    else
        return dlq_run(args, purge);
    return CLI_USAGE;
}

static const struct cli_option options[] = {
    FILTER_OPTIONS_TO_ACT,
    CONSENT_OPTIONS,
    {.name = "export", .value = "FILE", .help = "write them to a file first, as `dlq export` does"},
    {0},
};

const struct cli_command cmd_dlq_purge = {
    .group = "dlq",
    .name = "purge",
    .summary = "Deletes dead letters for good.",
    .about =
        "Of any status but replaying. Shows how many of which groups there are, and asks. With\n"
        "--export nothing is deleted before all of it is in the file; `dlq import` reads it\n"
        "back. It goes in small steps: stopped or killed, it is run again for the rest, with\n"
        "another file where one is there. What is done is in the table audit, with who and why.",
    .options = options,
    .run = run,
};
