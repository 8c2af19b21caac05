/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_args.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "units.h"
#include "utf8.h"

#define MOST_PROGRAM (1 << 20)

static int refuse(const char *option, const char *expected, const char *value)
{
    cli_error("--%s is %s, not '%s'", option, expected, value);
    return CLI_USAGE;
}

bool replay_rate_parse(const char *text, double *out)
{
    char *end;
    *out = 0;
    if (strcmp(text, "none") == 0)
        return true;
    *out = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*out) && *out > 0 && *out <= 1e9;
}

/* A bare 1 is all or 1%: who knows? */
static bool parse_share(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    if (end != text && strcmp(end, "%") == 0) {
        *out /= 100;
        return *out >= 0 && *out <= 1;
    }
    return end != text && *end == '\0' && *out >= 0 && *out < 1;
}

static int read_count(const struct cli_args *args, const char *name, int64_t *out)
{
    const char *text = cli_value(args, name);
    if (text == NULL || (rp_parse_int(text, out) && *out > 0 && *out <= INT32_MAX))
        return CLI_OK;
    return refuse(name, "a number from 1 on", text);
}

static int read_duration(const struct cli_args *args, const char *name, int64_t *out)
{
    const char *text = cli_value(args, name);
    if (text == NULL || rp_parse_duration(text, out))
        return CLI_OK;
    return refuse(name, "a time like 30s or 10m", text);
}

static int read_share(const struct cli_args *args, const char *name, double *out)
{
    const char *text = cli_value(args, name);
    if (text == NULL || parse_share(text, out))
        return CLI_OK;
    return refuse(name, "a share like 10% or 0.1 (all of it is 100%)", text);
}

static int read_numbers(const struct cli_args *args, struct rp_replay_options *o)
{
    if (read_count(args, "limit", &o->limit) != CLI_OK ||
        read_count(args, "canary", &o->canary) != CLI_OK ||
        read_count(args, "max-replays", &o->max_replays) != CLI_OK ||
        read_duration(args, "canary-wait", &o->canary_wait_ms) != CLI_OK ||
        read_duration(args, "success-within", &o->success_within_ms) != CLI_OK ||
        read_share(args, "canary-share", &o->canary_share) != CLI_OK ||
        read_share(args, "stop-if-dead", &o->stop_if_dead) != CLI_OK)
        return CLI_USAGE;
    bool of_canaries =
        cli_value(args, "canary-wait") != NULL || cli_value(args, "canary-share") != NULL;
    if (o->canary > 0 || !of_canaries)
        return CLI_OK;
    cli_error("--canary-wait and --canary-share need --canary");
    return CLI_USAGE;
}

static int read_way(const struct cli_args *args, struct rp_replay_options *o)
{
    const char *to = cli_value(args, "to"), *order = cli_value(args, "order");
    const char *topic = cli_value(args, "send-to");
    if (to != NULL && strcmp(to, "target") != 0 && strcmp(to, "router") != 0)
        return refuse("to", "target or router", to);
    if (order != NULL && !rp_replay_order_parse(order, &o->order))
        return refuse("order", "oldest, newest or key", order);
    if (topic != NULL && !rp_config_is_topic_name(rp_str(topic)))
        return refuse("send-to", "the name of a topic", topic);
    o->to_router = to != NULL && strcmp(to, "router") == 0;
    o->target = topic == NULL ? NULL : strdup(topic);
    if (topic == NULL || o->target != NULL)
        return CLI_OK;
    cli_error("no memory");
    return CLI_FAILED;
}

/* A whole file as text; NULL where it cannot be read, which is printed. */
static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, MOST_PROGRAM + 1);
    size_t n = f == NULL || text == NULL ? 0 : fread(text, 1, MOST_PROGRAM + 1, f);
    bool failed = f == NULL || text == NULL || ferror(f) || n > MOST_PROGRAM;
    if (failed)
        cli_error("%s: %s", path, n > MOST_PROGRAM ? "too long" : strerror(errno));
    if (f != NULL)
        (void)fclose(f);
    if (!failed)
        return text;
    free(text);
    return NULL;
}

/* A job's options are JSON. */
static int check_text(const char *option, const char *text)
{
    if (text == NULL || rp_utf8_valid(rp_str(text)))
        return CLI_OK;
    cli_error("--%s is no UTF-8", option);
    return CLI_USAGE;
}

static int read_changes(const struct cli_args *args, struct rp_replay_options *o)
{
    struct rp_error err;
    const char *header, *program = cli_value(args, "jq");
    for (size_t i = 0; (header = cli_value_at(args, "set-header", i)) != NULL; i++)
        if (rp_replay_options_header(o, header, &err) != 0) {
            cli_error("--set-header: %s", err.text);
            return CLI_USAGE;
        }
    const char *schema = cli_value(args, "payload-schema");
    if (schema != NULL && program == NULL) {
        cli_error("--payload-schema needs --jq");
        return CLI_USAGE;
    }
    if (program == NULL)
        return CLI_OK;
    if (schema != NULL && (o->payload_schema = read_file(schema)) == NULL)
        return CLI_USAGE;
    o->jq = program[0] == '@' ? read_file(program + 1) : strdup(program);
    if (o->jq == NULL || check_text("jq", o->jq) != CLI_OK)
        return CLI_USAGE;
    return check_text("payload-schema", o->payload_schema);
}

int replay_args_read(const struct cli_args *args, struct rp_replay_options *out, double *out_rate)
{
    const char *rate = cli_value(args, "rate");
    rp_replay_options_init(out);
    *out_rate = 0;
    int code = CLI_OK;
    if (rate != NULL && !replay_rate_parse(rate, out_rate))
        code = refuse("rate", "tasks a second, or none", rate);
    if (code == CLI_OK)
        code = read_numbers(args, out);
    if (code == CLI_OK)
        code = read_way(args, out);
    if (code == CLI_OK)
        code = read_changes(args, out);
    if (code != CLI_OK)
        rp_replay_options_clear(out);
    return code;
}
