/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "arena.h"
#include "cli.h"
#include "clock.h"
#include "codec.h"
#include "config.h"
#include "policies.h"
#include "sender.h"
#include "signals.h"

#define MOST_HEADERS 100
#define MOST_CAUSES  20
/* A value of the largest size, in base64 and with a few names around it, fits in a line. */
#define LINE_MARGIN       (64 * 1024)
#define PROGRESS_EVERY_MS 500

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
    (void)sig;
    interrupted = 1;
}

/* One event from the arguments */

/* RFC 9562, version 4. */
static int uuid_v4(char out[37], struct rp_error *err)
{
    uint8_t b[16];
    if (getrandom(b, sizeof b, 0) != (ssize_t)sizeof b)
        return rp_fail(err, RP_E_IO, RP_FATAL, "no random bytes: %s", strerror(errno));
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
    char *p = out;
    for (size_t i = 0; i < sizeof b; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *p++ = '-';
        p += sprintf(p, "%02x", b[i]);
    }
    return 0;
}

static int read_all(FILE *f, size_t max, struct rp_buf *out, struct rp_error *err)
{
    while (out->len <= max) {
        if (rp_buf_reserve(out, 65536, err) != 0)
            return -1;
        size_t n = fread(out->data + out->len, 1, 65536, f);
        out->len += n;
        if (n == 0 && ferror(f))
            return rp_fail(err, RP_E_IO, RP_FATAL, "%s", strerror(errno));
        if (n == 0)
            return 0;
    }
    return rp_fail(err, RP_E_RANGE, RP_POISON,
                   "longer than the %zu bytes of topics.max_message_bytes", max);
}

/* TEXT, or @FILE for what is in a file. */
static int read_payload(const char *text, size_t max, struct rp_buf *file_bytes,
                        struct rp_bytes *out, struct rp_error *err)
{
    *out = rp_str(text);
    if (text == NULL || text[0] != '@')
        return 0;
    FILE *f = strcmp(text, "@-") == 0 ? stdin : fopen(text + 1, "rb");
    if (f == NULL)
        return rp_fail(err, RP_E_IO, RP_FATAL, "%s: %s", text + 1, strerror(errno));
    int rc = read_all(f, max, file_bytes, err);
    if (rc != 0)
        (void)rp_fail_in(err, "%s", text + 1);
    if (f != stdin)
        (void)fclose(f);
    /* An empty file is an empty payload, not a null one. */
    *out = file_bytes->len > 0 ? rp_buf_bytes(file_bytes) : rp_str("");
    return rc;
}

static int read_headers(const struct cli_args *args, struct rp_header *out, size_t *n,
                        struct rp_error *err)
{
    const char *text;
    for (*n = 0; (text = cli_value_at(args, "header", *n)) != NULL; (*n)++) {
        const char *equals = strchr(text, '=');
        if (equals == NULL || equals == text)
            return rp_fail(err, RP_E_INVALID, RP_POISON, "--header is NAME=VALUE, not '%s'", text);
        if (*n == MOST_HEADERS)
            return rp_fail(err, RP_E_RANGE, RP_POISON, "more than %d headers", MOST_HEADERS);
        out[*n] = (struct rp_header){{text, (size_t)(equals - text)}, rp_str(equals + 1)};
    }
    return 0;
}

/* CLASS:MESSAGE. A class may hold "::" itself, as in Rust, Ruby and C++. */
static struct rp_cause read_cause(const char *text)
{
    const char *colon = text;
    while ((colon = strchr(colon, ':')) != NULL && colon[1] == ':')
        colon += 2;
    if (colon == NULL)
        return (struct rp_cause){rp_str(text), rp_str("")};
    return (struct rp_cause){{text, (size_t)(colon - text)}, rp_str(colon + 1)};
}

static int read_causes(const struct cli_args *args, struct rp_cause *out, size_t *n,
                       struct rp_error *err)
{
    const char *text;
    for (*n = 0; (text = cli_value_at(args, "cause", *n)) != NULL; (*n)++) {
        if (*n == MOST_CAUSES)
            return rp_fail(err, RP_E_RANGE, RP_POISON, "more than %d causes", MOST_CAUSES);
        out[*n] = read_cause(text);
    }
    return 0;
}

static int read_attempt(const char *text, int32_t *out, struct rp_error *err)
{
    char *end;
    *out = 1;
    if (text == NULL)
        return 0;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || n < 1 || n > INT32_MAX)
        return rp_fail(err, RP_E_RANGE, RP_POISON, "--attempt is a number from 1 on, not '%s'",
                       text);
    *out = (int32_t)n;
    return 0;
}

static int check_target(const char *target, struct rp_error *err)
{
    if (target == NULL || rp_config_is_topic_name(rp_str(target)))
        return 0;
    return rp_fail(err, RP_E_RANGE, RP_POISON, "--target is the name of a topic, not '%s'", target);
}

/* The routers' file may have one that ours has not. */
static void warn_of_category(const struct rp_config *config, const char *name)
{
    if (name != NULL && rp_category_find(config->policies, rp_str(name)) == NULL)
        cli_error("there is no category '%s' in this configuration: where the router's has none "
                  "either, its rules decide",
                  name);
}

static const char *value_or(const struct cli_args *args, const char *option, const char *fallback)
{
    const char *value = cli_value(args, option);
    return value != NULL ? value : fallback;
}

/* What an event from the arguments borrows from. */
struct event {
    struct rp_failed_task task;
    char id[37];
    struct rp_buf payload;
    struct rp_header headers[MOST_HEADERS];
    struct rp_cause causes[MOST_CAUSES];
};

static int event_read(const struct cli_args *args, size_t max_payload, struct event *e,
                      struct rp_error *err)
{
    struct rp_failed_task *t = &e->task;
    if (uuid_v4(e->id, err) != 0)
        return -1;
    *t = (struct rp_failed_task){
        .task_id = rp_str(value_or(args, "id", e->id)),
        .task_type = rp_str(cli_value(args, "type")),
        .target = rp_str(cli_value(args, "target")),
        .key = rp_str(cli_value(args, "key")),
        .headers = e->headers,
        .error_class = rp_str(cli_value(args, "error")),
        .error_message = rp_str(value_or(args, "message", "")),
        .error_category = rp_str(cli_value(args, "category")),
        .causes = e->causes,
        .source = rp_str(value_or(args, "source", "reprise-cli")),
        .first_failed_at_ms = RP_NO_TIME,
        .failed_at_ms = rp_wall_ms(),
    };
    if (check_target(cli_value(args, "target"), err) != 0 ||
        read_attempt(cli_value(args, "attempt"), &t->attempt, err) != 0 ||
        read_headers(args, e->headers, &t->n_headers, err) != 0 ||
        read_causes(args, e->causes, &t->n_causes, err) != 0)
        return -1;
    return read_payload(cli_value(args, "payload"), max_payload, &e->payload, &t->payload, err);
}

static int send_one(const struct cli_args *args, const struct rp_config *config, struct sender *s)
{
    struct event *e = calloc(1, sizeof *e);
    struct rp_error err;
    int rc = CLI_FAILED;

    warn_of_category(config, cli_value(args, "category"));
    if (e == NULL) {
        cli_error("no memory");
    } else if (event_read(args, (size_t)config->topics.max_message_bytes, e, &err) != 0 ||
               sender_send(s, &e->task, 0, &err) != 0) {
        cli_error("%s", err.text);
        rc = err.cls == RP_POISON ? CLI_USAGE : CLI_FAILED;
    } else {
        while (!interrupted && sender_wait(s, PROGRESS_EVERY_MS) > 0)
            ;
        struct sender_counts c = sender_counts(s);
        if (c.confirmed == 1) {
            printf("%.*s is in %s, partition %" PRId32 ", offset %" PRId64 "\n",
                   (int)e->task.task_id.len, (const char *)e->task.task_id.data,
                   config->topics.failed_tasks, c.partition, c.offset);
            rc = CLI_OK;
        } else if (c.failed == 0) {
            cli_error("interrupted before the broker confirmed the event");
        }
    }
    if (e != NULL)
        rp_buf_clear(&e->payload);
    free(e);
    return rc;
}

/* Many events, a line each */

struct lines {
    FILE *in;
    struct rp_codec *codec;
    struct rp_arena arena;
    struct rp_buf text;
    size_t max;
    uint64_t number, events, refused;
    bool terminal;
    int64_t shown_mono_ms;
};

enum got { GOT_LINE, GOT_TOO_LONG, GOT_END, GOT_ERROR };

/* Reads a line into `l->text`. One that is too long is read to its end and forgotten. */
static enum got next_line(struct lines *l, struct rp_error *err)
{
    int c;
    bool too_long = false;
    l->text.len = 0;
    while ((c = getc_unlocked(l->in)) != EOF && c != '\n') {
        uint8_t byte = (uint8_t)c;
        too_long = too_long || l->text.len == l->max;
        if (!too_long && rp_buf_append(&l->text, &byte, 1, err) != 0)
            return GOT_ERROR;
    }
    if (ferror(l->in)) {
        (void)rp_fail(err, RP_E_IO, RP_FATAL, "%s", strerror(errno));
        return interrupted ? GOT_END : GOT_ERROR;
    }
    if (c == EOF && l->text.len == 0)
        return GOT_END;
    l->number++;
    return too_long ? GOT_TOO_LONG : GOT_LINE;
}

static struct rp_bytes trimmed(struct rp_bytes b)
{
    const char *s = b.data;
    while (b.len > 0 && strchr(" \t\r", s[b.len - 1]) != NULL && s[b.len - 1] != '\0')
        b.len--;
    while (b.len > 0 && (*s == ' ' || *s == '\t')) {
        s++;
        b.len--;
    }
    return (struct rp_bytes){s, b.len};
}

/* Only the JSON form: a line of anything else would be a guess. */
static int send_line(struct lines *l, struct sender *s, struct rp_bytes text, struct rp_error *err)
{
    struct rp_failed_task task;
    if (*(const char *)text.data != '{')
        return rp_fail(err, RP_E_DECODE, RP_POISON, "not a JSON object");
    rp_arena_reset(&l->arena);
    if (rp_codec_decode_task(l->codec, text, &l->arena, &task, err) != 0)
        return -1;
    return sender_send(s, &task, l->number, err);
}

/* Returns -1 when there is no point in going on. */
static int take_line(struct lines *l, struct sender *s, enum got got)
{
    struct rp_error err;
    struct rp_bytes text = trimmed(rp_buf_bytes(&l->text));
    if (got == GOT_TOO_LONG)
        (void)rp_fail(&err, RP_E_RANGE, RP_POISON, "longer than %zu bytes", l->max);
    else if (text.len == 0)
        return 0;
    l->events++;
    if (got == GOT_LINE && send_line(l, s, text, &err) == 0)
        return 0;
    l->refused++;
    cli_error("line %" PRIu64 ": %s", l->number, err.text);
    return err.cls == RP_POISON ? 0 : -1;
}

static void show_progress(struct lines *l, const struct sender *s, bool last)
{
    struct sender_counts c = sender_counts(s);
    int64_t now_mono_ms = rp_mono_ms();
    if (!l->terminal || (!last && now_mono_ms - l->shown_mono_ms < PROGRESS_EVERY_MS))
        return;
    l->shown_mono_ms = now_mono_ms;
    fprintf(stderr, "\r\033[K%" PRIu64 " lines, %" PRIu64 " confirmed, %" PRIu64 " refused%s",
            l->number, c.confirmed, l->refused + c.failed, last ? "\n" : "");
}

static int send_all(struct lines *l, struct sender *s)
{
    struct rp_error err;
    enum got got;
    while (!interrupted && (got = next_line(l, &err)) != GOT_END) {
        if (got == GOT_ERROR) {
            cli_error("after line %" PRIu64 ": %s", l->number, err.text);
            return -1;
        }
        if (take_line(l, s, got) != 0)
            return -1;
        show_progress(l, s, false);
    }
    if (interrupted)
        cli_error("stopped after line %" PRIu64, l->number);
    return interrupted ? -1 : 0;
}

static int send_lines(struct lines *l, struct sender *s)
{
    l->terminal = isatty(STDERR_FILENO) == 1;
    l->shown_mono_ms = rp_mono_ms();
    bool whole = send_all(l, s) == 0;
    while (sender_wait(s, PROGRESS_EVERY_MS) > 0)
        show_progress(l, s, false);
    show_progress(l, s, true);

    struct sender_counts c = sender_counts(s);
    printf("%" PRIu64 " of %" PRIu64 " events sent, %" PRIu64 " refused\n", c.confirmed, l->events,
           l->refused + c.failed);
    if (whole && l->events == 0)
        return CLI_NOTHING;
    if (whole && c.confirmed == l->events)
        return CLI_OK;
    return c.confirmed > 0 ? CLI_PARTLY : CLI_FAILED;
}

static int send_file(const char *path, const struct rp_config *config, struct sender *s)
{
    struct lines l = {.max = 2 * (size_t)config->topics.max_message_bytes + LINE_MARGIN};
    struct rp_error err;
    int rc = CLI_FAILED;

    l.in = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    if (l.in == NULL) {
        cli_error("%s: %s", path, strerror(errno));
        return CLI_USAGE;
    }
    if (rp_codec_new(NULL, &l.codec, &err) == 0)
        rc = send_lines(&l, s);
    else
        cli_error("%s", err.text);
    rp_codec_free(l.codec);
    rp_arena_clear(&l.arena);
    rp_buf_clear(&l.text);
    if (l.in != stdin)
        (void)fclose(l.in);
    return rc;
}

/* Either a file, or an event in full; returns what is wrong, or NULL. */
static const char *misuse(const struct cli_args *args)
{
    if (args->n_positional == 0) {
        if (cli_value(args, "type") == NULL || cli_value(args, "error") == NULL)
            return "an event needs --type and --error; or name a FILE of events, - for standard "
                   "input";
        return NULL;
    }
    for (const struct cli_option *o = args->command->options; o->name != NULL; o++)
        if (cli_value(args, o->name) != NULL)
            return "a FILE of events and options that describe one do not go together";
    return NULL;
}

static int run(const struct cli_args *args)
{
    struct rp_config *config = NULL;
    struct sender *s = NULL;
    struct rp_error err;
    int rc = CLI_USAGE;

    const char *wrong = misuse(args);
    if (wrong != NULL) {
        cli_error("%s", wrong);
        return CLI_USAGE;
    }
    if (signals_catch(SIGINT, on_signal) != 0 || signals_catch(SIGTERM, on_signal) != 0) {
        cli_error("signals: %s", strerror(errno));
        return CLI_FAILED;
    }
    if (rp_config_load(args->config_file, NULL, NULL, &config, &err) != 0 ||
        sender_new(config, &s, &err) != 0)
        cli_error("%s", err.text);
    else if (args->n_positional == 1)
        rc = send_file(args->positional[0], config, s);
    else
        rc = send_one(args, config, s);
    sender_free(s);
    rp_config_free(config);
    return rc;
}

static const struct cli_option options[] = {
    {.name = "type", .value = "TYPE", .help = "the task's type, by which the policy is found"},
    {.name = "id", .value = "ID", .help = "the task's id (default: a random UUID)"},
    {.name = "target", .value = "TOPIC", .help = "where to re-invoke it (default: the policy's)"},
    {.name = "key", .value = "TEXT", .help = "the task's own key"},
    {.name = "payload", .value = "TEXT|@FILE", .help = "the task's payload; @- is standard input"},
    {.name = "header", .value = "NAME=VALUE...", .help = "a header of the task"},
    {.name = "error", .value = "CLASS", .help = "the error's class"},
    {.name = "message", .value = "TEXT", .help = "the error's message"},
    {.name = "category", .value = "NAME", .help = "the error's category, where it is known"},
    {.name = "cause", .value = "CLASS:MESSAGE...", .help = "a cause of the error, outermost first"},
    {.name = "attempt", .value = "N", .help = "executions so far (default: 1)"},
    {.name = "source", .value = "NAME", .help = "who reports it (default: reprise-cli)"},
    {0},
};

const struct cli_command cmd_fail = {
    .name = "fail",
    .positional = "[FILE]",
    .summary = "Reports a failed task, or a file of them.",
    .about =
        "Sends an event to failed-tasks, as a producer or a handler does, and waits until the\n"
        "broker has it.\n\n"
        "With FILE (- is standard input) each line is an event in JSON: FailedTask's fields,\n"
        "of which those with a default may be left out, times in ms or ISO 8601, bytes in\n"
        "base64, or payload_json, payload_text and key_text in their place. A line that\n"
        "cannot be read is reported with its number, and the rest is sent.",
    .options = options,
    .run = run,
};
