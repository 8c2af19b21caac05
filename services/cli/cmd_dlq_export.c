/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "database.h"
#include "dlq.h"
#include "progress.h"
#include "purge.h"

static bool show_progress(void *opaque, const struct rp_purge_progress *progress)
{
    struct progress *p = opaque;
    p->total = progress->matched;
    return progress_show(p, progress->exported);
}

static int export(struct dlq *d)
{
    struct rp_error err;
    struct progress shown;
    struct rp_query where = {0};
    struct rp_purge_progress progress = {0};
    const char *path = d->args->n_positional == 0 ? "-" : d->args->positional[0];
    const bool to_stdout = strcmp(path, "-") == 0;
    const struct rp_purge all = {.where = &where,
                                 .export_path = path,
                                 .print =
                                     to_stdout && isatty(STDOUT_FILENO) ? dlq_print_json : NULL,
                                 .go_on = show_progress,
                                 .opaque = &shown,
                                 .given_up = progress_stopped};
    char count[RP_UNIT_TEXT];
    dlq_add_filter(d, &where);
    progress_begin(&shown, "exported", 0);
    shown.on = shown.on && all.print == NULL; /* or it would run into the lines */
    int failed = database_no_hurry(d->db, &err);
    if (failed == 0)
        failed = rp_purge_export(d->db, &all, &progress, &err);
    progress_end(&shown);
    rp_query_clear(&where);
    if (failed != 0)
        return dlq_failed(&err);
    (void)fprintf(to_stdout ? stderr : stdout, "exported %s dead letter%s\n",
                  dlq_count_text(progress.exported, count), progress.exported == 1 ? "" : "s");
    return progress.exported > 0 ? CLI_OK : CLI_NOTHING;
}

static int run(const struct cli_args *args)
{
    return dlq_run(args, export);
}

static const struct cli_option options[] = {FILTER_OPTIONS, {0}};

const struct cli_command cmd_dlq_export = {
    .group = "dlq",
    .name = "export",
    .positional = "[FILE]",
    .summary = "Writes dead letters to a file, as JSON lines.",
    .about =
        "All that is known of each, one a line, the oldest first; `dlq import` reads it back,\n"
        "but for the status `replaying`, which comes back as `dead`.\n"
        "A FILE that ends in .gz or .zst is compressed; without FILE it is stdout. FILE is\n"
        "there whole or not at all, and not where nothing matches; one that is there already\n"
        "is left as it is.",
    .options = options,
    .run = run,
};
