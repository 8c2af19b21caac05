/* SPDX-License-Identifier: Apache-2.0 */
#include "filter_args.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "database.h"
#include "term.h"
#include "utf8.h"

/* Bytes that are shown before and behind the place of an error. */
#define AROUND 30

/* Moves to the beginning of a character. */
static size_t character(const char *text, size_t at)
{
    while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80)
        at--;
    return at;
}

/* The expression around the place, and a caret under it. */
static void point(const char *expression, size_t at)
{
    struct rp_buf line = {0};
    size_t len = strlen(expression), begin = at < AROUND ? 0 : character(expression, at - AROUND);
    size_t end = len - at < AROUND ? len : character(expression, at + AROUND);
    struct rp_bytes before = {expression + begin, at - begin}, rest = {expression + at, end - at};
    int width = (int)term_line(&line, before, SIZE_MAX);
    (void)term_line(&line, rest, SIZE_MAX);
    (void)fputs("  ", stderr);
    term_put(stderr, &line);
    (void)fprintf(stderr, "\n  %*s^\n", width, "");
    rp_buf_clear(&line);
}

static int refuse(const struct rp_error *err)
{
    cli_error("%s", err->text);
    return err->cls == RP_POISON ? CLI_USAGE : CLI_FAILED;
}

static int read_expressions(const struct cli_args *args, struct rp_filter *f)
{
    struct rp_error err;
    const char *expression;
    for (size_t i = 0; (expression = cli_value_at(args, "where", i)) != NULL; i++)
        if (rp_filter_where(f, expression, &err) != 0) {
            int code = refuse(&err);
            if (code == CLI_USAGE && rp_filter_error_at(f) <= strlen(expression))
                point(expression, rp_filter_error_at(f));
            return code;
        }
    return CLI_OK;
}

static int read_flags(const struct cli_args *args, struct rp_filter *f)
{
    struct rp_error err;
    for (int i = 0; i < RP_N_FIELDS; i++) {
        const char *flag = rp_filter_fields[i].flag;
        if (i == RP_FIELD_REASON && cli_has_option(args, FILTER_REASON_TO_ACT))
            flag = FILTER_REASON_TO_ACT;
        const char *value = flag == NULL ? NULL : cli_value(args, flag);
        if (value != NULL && rp_filter_flag(f, rp_filter_fields[i].name, value, &err) != 0) {
            (void)rp_fail_in(&err, "--%s", flag);
            return refuse(&err);
        }
    }
    return CLI_OK;
}

static int read_all(const struct cli_args *args, int64_t now_ms, struct rp_filter **out)
{
    struct rp_error err;
    if (rp_filter_new(now_ms, out, &err) != 0)
        return refuse(&err);
    int code = read_flags(args, *out);
    if (code == CLI_OK)
        code = read_expressions(args, *out);
    if (code == CLI_OK)
        return CLI_OK;
    rp_filter_free(*out);
    *out = NULL;
    return code;
}

int filter_read(const struct cli_args *args, struct rp_filter **out)
{
    return read_all(args, rp_wall_ms(), out);
}

static bool names_time(const struct rp_filter *f)
{
    for (int i = 0; i < RP_N_FIELDS; i++)
        if (rp_filter_fields[i].kind == RP_FILTER_TIME &&
            rp_filter_names(f, rp_filter_fields[i].name))
            return true;
    return false;
}

int filter_check(const struct cli_args *args, struct rp_db *db, struct rp_filter **f)
{
    struct rp_error err;
    int64_t now_ms;
    if (names_time(*f)) {
        if (rp_db_wall_ms(db, &now_ms, &err) != 0)
            return database_refused(&err);
        rp_filter_free(*f);
        int code = read_all(args, now_ms, f);
        if (code != CLI_OK)
            return code;
    }
    return rp_filter_check(*f, db, &err) == 0 ? CLI_OK : database_refused(&err);
}

char *filter_text(const struct rp_filter *filter)
{
    struct rp_buf text = {0};
    struct rp_error err;
    if (rp_filter_text(filter, &text, &err) == 0 && rp_buf_append(&text, "", 1, &err) == 0)
        return (char *)text.data;
    cli_error("%s", err.text);
    rp_buf_clear(&text);
    return NULL;
}
