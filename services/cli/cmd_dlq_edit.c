/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "config.h"
#include "consent.h"
#include "database.h"
#include "diff.h"
#include "editor.h"
#include "json_text.h"
#include "letter.h"
#include "registry.h"
#include "replay_plan.h"
#include "replay_watch.h"
#include "term.h"
#include "transform.h"
#include "units.h"

#define TIMEOUT_MS 60000
/* Whoever changed a dead letter does not expect the same again, however often it was tried. */
#define MAX_REPLAYS 1000000

struct edit {
    const struct cli_args *args;
    struct rp_config *config;
    struct rp_db *db;
    struct rp_registry *registry;
    struct rp_message_reader *reader;
    struct rp_arena arena;
    struct letter letter;
    struct rp_message edited;
    char path[EDITOR_PATH]; /* what was written in an editor; "": nothing was */
    bool needed_no_more;    /* what was written */
};

static int failed(const struct rp_error *err)
{
    int code = database_refused(err);
    return err->code == RP_E_NOT_FOUND ? CLI_NOTHING : code;
}

/* The program of --jq, itself or from a file. */
static int by_program(struct edit *e, const char *program, struct rp_error *err)
{
    struct rp_buf text = {0};
    struct rp_transform *transform = NULL;
    int rc = 0;
    if (program[0] == '@') {
        rc = editor_read(program + 1, &text, err);
        if (rc == 0)
            rc = rp_buf_append(&text, "", 1, err);
        program = (const char *)text.data;
    }
    const struct rp_transform_options options = {
        .jq = program,
        .payload_schema_file = cli_value(e->args, "payload-schema"),
        .registry = e->registry,
        .patience_ms = -1,
    };
    if (rc == 0)
        rc = rp_transform_new(&options, &transform, err);
    if (rc == 0)
        rc = rp_transform_apply(transform, &e->letter.message, e->letter.task_json, &e->arena,
                                &e->edited, err);
    rp_transform_free(transform);
    rp_buf_clear(&text);
    return rc;
}

static int read_file(struct edit *e, const struct rp_document *document, const char *path,
                     struct rp_error *err)
{
    struct rp_buf text = {0};
    int rc = editor_read(path, &text, err);
    if (rc == 0)
        rc = rp_document_read(document, rp_buf_bytes(&text), &e->letter.message, &e->arena,
                              &e->edited, err);
    rp_buf_clear(&text);
    return rc;
}

/* Whether somebody at the terminal wants to mend what they wrote. */
static bool wants_again(const struct rp_error *err)
{
    char answer[16];
    cli_error("%s", err->text);
    if (!isatty(STDIN_FILENO))
        return false;
    (void)fprintf(stderr, "Edit it again? [Y/n] ");
    return fgets(answer, sizeof answer, stdin) != NULL && answer[0] != 'n' && answer[0] != 'N';
}

static int in_editor(struct edit *e, const struct rp_document *document, struct rp_bytes pretty,
                     struct rp_error *err)
{
    if (editor_write(pretty, e->path, err) != 0)
        return -1;
    (void)fprintf(stderr, "You edit %s\n", e->path); /* whatever ends us, it is there */
    int rc;
    while ((rc = editor_open(e->path, err)) == 0)
        if ((rc = read_file(e, document, e->path, err)) == 0 || !wants_again(err))
            break;
    return rc;
}

/* What is not on its way stays where it was written. */
static void clear_away(const struct edit *e)
{
    if (e->path[0] == '\0')
        return;
    if (e->needed_no_more)
        (void)unlink(e->path);
    else
        cli_error("what you wrote is in %s; --file takes it", e->path);
}

static int by_hand(struct edit *e, struct rp_error *err)
{
    struct rp_document document;
    struct rp_buf pretty = {0};
    const char *file = cli_value(e->args, "file");
    if (rp_document_write(e->reader, &e->letter.message, NULL, &document, err) != 0)
        return -1;
    int rc = rp_json_pretty(&pretty, rp_buf_bytes(&document.text), "", err);
    if (rc == 0)
        rc = file != NULL ? read_file(e, &document, file, err)
                          : in_editor(e, &document, rp_buf_bytes(&pretty), err);
    rp_buf_clear(&pretty);
    rp_document_clear(&document);
    return rc;
}

static int print_document(struct edit *e, struct rp_error *err)
{
    struct rp_document document;
    struct rp_buf pretty = {0};
    if (rp_document_write(e->reader, &e->letter.message, NULL, &document, err) != 0)
        return -1;
    int rc = rp_json_pretty(&pretty, rp_buf_bytes(&document.text), "", err);
    if (rc == 0 && isatty(STDOUT_FILENO))
        term_json(stdout, rp_buf_bytes(&pretty));
    else if (rc == 0) /* --file takes it, and what is escaped would be changed */
        (void)fwrite(pretty.data, 1, pretty.len, stdout);
    if (rc == 0)
        (void)putchar('\n');
    rp_buf_clear(&pretty);
    rp_document_clear(&document);
    return rc;
}

/* This dead letter, and only as long as it is in the state that was seen. */
static int make_filter(const struct edit *e, struct rp_filter **out, struct rp_error *err)
{
    if (rp_filter_new(rp_wall_ms(), out, err) != 0)
        return -1;
    if (rp_filter_flag(*out, "id", e->letter.id, err) == 0 &&
        rp_filter_flag(*out, "status", e->letter.status, err) == 0)
        return 0;
    rp_filter_free(*out);
    return -1;
}

static int plan(struct edit *e, char job[RP_REPLAY_ID_SIZE], int64_t *total, struct rp_error *err)
{
    struct rp_replay_options options;
    struct rp_filter *filter;
    struct rp_buf packed = {0};
    rp_replay_options_init(&options);
    options.max_replays = MAX_REPLAYS;
    if (make_filter(e, &filter, err) != 0)
        return -1;
    int rc = rp_message_pack(&e->edited, &packed, err);
    if (rc == 0)
        rc = rp_buf_append(&packed, "", 1, err);
    const struct rp_replay_request request = {
        .filter = filter,
        .options = &options,
        .actor = consent_actor(e->args),
        .reason = cli_value(e->args, "reason"),
        .detached = cli_value(e->args, "detach") != NULL,
        .edited = (const char *)packed.data,
    };
    if (rc == 0)
        rc = rp_replay_plan(e->db, &request, job, total, err);
    rp_replay_options_clear(&options);
    rp_filter_free(filter);
    rp_buf_clear(&packed);
    return rc;
}

static int replay(struct edit *e)
{
    char job[RP_REPLAY_ID_SIZE];
    int64_t total = 0;
    struct rp_error err;
    if (plan(e, job, &total, &err) != 0 && replay_find_planned(e->config, e->db, job, &total) != 0)
        return failed(&err);
    if (total == 0) {
        cli_error("somebody else has taken it meanwhile");
        return CLI_NOTHING;
    }
    if (cli_value(e->args, "detach") == NULL) {
        int code = replay_run_here(e->config, job);
        e->needed_no_more = code == CLI_OK;
        return code;
    }
    e->needed_no_more = true;
    (void)printf("Replay %s, handed to the archiver.\nHow it goes: reprise replay show %s\n", job,
                 job);
    return CLI_OK;
}

static int show_and_ask(struct edit *e)
{
    struct rp_error err;
    bool changed;
    if (cli_diff_print(stdout, e->reader, &e->letter.message, &e->edited, &changed, &err) != 0)
        return failed(&err);
    if (!changed) {
        e->needed_no_more = true;
        cli_error("nothing is changed by it; `reprise dlq replay --id %s` sends it as it is",
                  e->letter.id);
        return CLI_NOTHING;
    }
    if (cli_value(e->args, "dry-run") != NULL)
        return CLI_OK;
    int code = consent_ask(e->args, "Send it so? The original stays in the archive.");
    return code == CLI_OK ? replay(e) : code;
}

static int edit(struct edit *e)
{
    const char *id = e->args->n_positional == 1 ? e->args->positional[0] : NULL;
    struct rp_error err;
    const char *program = cli_value(e->args, "jq");
    if (letter_read(e->db, id, cli_value(e->args, "task"), &e->arena, &e->letter, &err) != 0)
        return failed(&err);
    if (cli_value(e->args, "print") != NULL)
        return print_document(e, &err) == 0 ? CLI_OK : failed(&err);
    if (strcmp(e->letter.status, "replaying") == 0) {
        cli_error("replay %s has it; `reprise replay show %s`", e->letter.job, e->letter.job);
        return CLI_FAILED;
    }
    if (strcmp(e->letter.status, "dead") != 0)
        cli_error("it is %s already%s%s", e->letter.status, e->letter.job[0] == '\0' ? "" : ", by ",
                  e->letter.job);
    if ((program != NULL ? by_program(e, program, &err) : by_hand(e, &err)) != 0)
        return failed(&err);
    return show_and_ask(e);
}

static int connect(struct edit *e)
{
    struct rp_error err;
    if (rp_registry_open(e->config, &e->registry, &err) != 0 ||
        rp_message_reader_new(cli_value(e->args, "payload-schema"), e->registry, &e->reader,
                              &err) != 0 ||
        rp_db_open(e->config->postgres.dsn, "reprise", TIMEOUT_MS, &e->db, &err) != 0)
        return failed(&err);
    return edit(e);
}

static int check_arguments(const struct cli_args *args)
{
    int64_t id;
    int ways = (cli_value(args, "jq") != NULL) + (cli_value(args, "file") != NULL) +
               (cli_value(args, "print") != NULL);
    if ((cli_value(args, "task") != NULL) == (args->n_positional == 1))
        cli_error("name a dead letter by its ID, or a task by --task");
    else if (args->n_positional == 1 && !rp_parse_int(args->positional[0], &id))
        cli_error("ID is a number, not '%s'; --task takes the id of a task", args->positional[0]);
    else if (ways > 1)
        cli_error("only one of --jq, --file and --print");
    else
        return cli_value(args, "print") != NULL ? CLI_OK : consent_reason(args);
    return CLI_USAGE;
}

static int run(const struct cli_args *args)
{
    struct edit e = {.args = args};
    if (check_arguments(args) != CLI_OK || (e.config = cli_config_load(args)) == NULL)
        return CLI_USAGE;
    int code = connect(&e);
    clear_away(&e);
    rp_db_close(e.db);
    rp_message_reader_free(e.reader);
    rp_registry_free(e.registry);
    rp_arena_clear(&e.arena);
    rp_config_free(e.config);
    return code;
}

static const struct cli_option options[] = {
    {.name = "task", .value = "ID", .help = "the newest dead letter of this task"},
    {.name = "jq", .value = "PROGRAM|@FILE", .help = "change it by a jq program"},
    {.name = "file", .value = "FILE", .help = "take the changed document from here; -: stdin"},
    {.name = "print", .help = "print the document, and do nothing"},
    {.name = "payload-schema",
     .value = "FILE",
     .help = "the Avro schema of the payload, where no registry has it"},
    CONSENT_OPTIONS,
    {.name = "detach", .help = "let the archiver send it"},
    {0},
};

const struct cli_command cmd_dlq_edit = {
    .group = "dlq",
    .name = "edit",
    .positional = "[ID]",
    .summary = "Changes the task of a dead letter, and sends it again.",
    .about =
        "Opens $VISUAL or $EDITOR on the task as a JSON document: target, key, headers and\n"
        "payload. Shows what was changed, asks, and sends the task as a replay of one; the\n"
        "original stays in the archive.\n\n"
        "A payload that is JSON, or Avro of a known schema, is JSON in the document, and is\n"
        "written as what it was. Text is a string. Bytes that are no text are\n\n"
        "  {\"base64\": \"AP8=\"}\n\n"
        "A jq program sees the same document, and in `task` what is known of the task (id, type,\n"
        "attempts, reason, category, error). What it does not touch stays as it is, byte for\n"
        "byte; it may copy numbers that jq cannot hold, but not compute with them.\n\n"
        "  reprise dlq edit 17 --jq '.payload.currency = \"EUR\"' --reason 'ticket 4711'",
    .options = options,
    .run = run,
};
