/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "archive_import.h"
#include "consent.h"
#include "database.h"
#include "dlq.h"
#include "progress.h"

/* Of bad lines that are told of one by one. */
#define MOST_TOLD 20

struct import {
    struct progress shown;
    int64_t told;
};

static void tell_bad(void *opaque, int64_t line, const char *why)
{
    struct import *i = opaque;
    progress_end(&i->shown);
    if (i->told++ < MOST_TOLD)
        cli_error("line %" PRId64 ": %s", line, why);
}

static bool show_progress(void *opaque, const struct rp_import_progress *progress)
{
    struct import *i = opaque;
    return progress_show(&i->shown, progress->lines);
}

static void print_count(int64_t n, const char *what)
{
    char count[RP_UNIT_TEXT];
    if (n > 0)
        (void)printf("%s %s\n", dlq_count_text(n, count), what);
}

static int finish(const struct import *i, const struct rp_import_progress *done, int failed,
                  const struct rp_error *err)
{
    if (i->told > MOST_TOLD)
        cli_error("and %" PRId64 " lines more that cannot be imported", i->told - MOST_TOLD);
    print_count(done->added, "imported");
    print_count(done->renumbered, "of them with another id, because theirs is taken");
    print_count(done->known, "were there already");
    print_count(done->bad, "lines cannot be imported");
    if (failed != 0)
        (void)database_failed(err);
    if (failed != 0 || progress_stopped()) {
        cli_error("it ended early; run it again for the rest");
        return done->added > 0 || failed == 0 ? CLI_PARTLY : CLI_FAILED;
    }
    if (done->bad > 0)
        return CLI_PARTLY;
    return done->added + done->known > 0 ? CLI_OK : CLI_NOTHING;
}

static int import(const struct cli_args *args, struct rp_db *db, void *opaque)
{
    struct rp_error err;
    struct import i = {.told = 0};
    struct rp_import_progress done;
    const struct rp_import p = {.actor = consent_actor(args),
                                .reason = cli_value(args, "reason"),
                                .file = args->positional[0],
                                .bad = tell_bad,
                                .go_on = show_progress,
                                .opaque = &i};
    progress_begin(&i.shown, "read lines:", 0);
    rp_lines_give_up_when(opaque, progress_stopped);
    int failed = rp_import_run(db, opaque, &p, &done, &err);
    progress_end(&i.shown);
    return finish(&i, &done, failed, &err);
}

static int run(const struct cli_args *args)
{
    struct rp_error err;
    struct rp_lines *lines;
    if (rp_lines_open(args->positional[0], &lines, &err) != 0) {
        cli_error("%s", err.text);
        return CLI_USAGE;
    }
    int code = database_run_with(args, import, lines);
    rp_lines_close(lines);
    return code;
}

static const struct cli_option options[] = {CONSENT_WHO, {0}};

const struct cli_command cmd_dlq_import = {
    .group = "dlq",
    .name = "import",
    .positional = "FILE",
    .summary = "Reads exported dead letters back.",
    .about =
        "Into the same database or another one; plain or compressed; - is stdin. Those that are\n"
        "there already are passed over, so that it can be run again. A line that is no dead\n"
        "letter is told of by its number; the others are imported all the same, and the exit\n"
        "code is 5. What a replay had when it was exported (`replaying`) is `dead` again here.\n"
        "Days beyond `retention.keep` go again at the next retention.",
    .options = options,
    .run = run,
};
