/* SPDX-License-Identifier: Apache-2.0 */
#include "payload.h"

#include <jansson.h>
#include <string.h>

#include "term.h"

/* Of a payload that nobody asked for in full. */
#define MAX_SHOWN 4096

static const char *const forms[] = {"auto", "text", "json", "hex"};

enum payload_form payload_form_read(const struct cli_args *args)
{
    const char *text = cli_value(args, "payload");
    if (text == NULL)
        return PAYLOAD_AUTO;
    for (int i = 0; i < PAYLOAD_BAD; i++)
        if (strcmp(text, forms[i]) == 0)
            return (enum payload_form)i;
    cli_error("--payload is auto, text, json or hex, not '%s'", text);
    return PAYLOAD_BAD;
}

static bool is_json(struct rp_bytes bytes)
{
    json_t *json = json_loadb(bytes.data, bytes.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    json_decref(json);
    return json != NULL;
}

static void put(struct rp_buf *out, const char *text, size_t n)
{
    if (rp_buf_append(out, text, n, NULL) != 0)
        out->len = 0;
}

static void put_newline(struct rp_buf *out, const char *indent, int depth)
{
    put(out, "\n", 1);
    put(out, indent, strlen(indent));
    while (depth-- > 0)
        put(out, "  ", 2);
}

/* A round trip through a parser would change numbers. */
void payload_lay_out(struct rp_buf *out, struct rp_bytes json, const char *indent)
{
    const char *p = json.data, *end = p + json.len;
    bool quoted = false, opened = false;
    for (int depth = 0; p < end; p++) {
        if (quoted) {
            size_t n = *p == '\\' ? 2 : 1;
            quoted = *p != '"';
            put(out, p, n);
            p += n - 1;
            continue;
        }
        if (strchr(" \t\r\n", *p) != NULL)
            continue;
        bool closes = *p == '}' || *p == ']';
        depth -= closes;
        if (opened != closes)
            put_newline(out, indent, depth);
        put(out, p, 1);
        opened = *p == '{' || *p == '[';
        depth += opened;
        quoted = *p == '"';
        if (*p == ':')
            put(out, " ", 1);
        else if (*p == ',')
            put_newline(out, indent, depth);
    }
}

static bool print_as_json(FILE *out, struct rp_bytes bytes, const char *indent)
{
    struct rp_buf text = {0};
    if (!is_json(bytes))
        return false;
    payload_lay_out(&text, bytes, indent);
    (void)fputs(indent, out);
    term_json(out, rp_buf_bytes(&text));
    (void)fputc('\n', out);
    rp_buf_clear(&text);
    return true;
}

/* The form that says most, cut where it is long. */
static void print_auto(FILE *out, struct rp_bytes bytes, const char *indent)
{
    const char *first = bytes.data;
    bool cut = bytes.len > MAX_SHOWN;
    if (!cut && bytes.len > 0 && (*first == '{' || *first == '[') &&
        print_as_json(out, bytes, indent))
        return;
    if (cut)
        bytes.len = MAX_SHOWN;
    if (term_readable(bytes))
        term_text(out, bytes, indent);
    else
        term_hex(out, bytes, indent);
    if (cut)
        (void)fprintf(out, "%s(cut; --payload text, json or hex shows all)\n", indent);
}

void payload_print(FILE *out, struct rp_bytes bytes, enum payload_form form, const char *indent)
{
    if (bytes.data == NULL)
        return;
    if (form == PAYLOAD_AUTO)
        print_auto(out, bytes, indent);
    else if (form == PAYLOAD_TEXT)
        term_text(out, bytes, indent);
    else if (form == PAYLOAD_HEX)
        term_hex(out, bytes, indent);
    else if (!print_as_json(out, bytes, indent))
        (void)fprintf(out, "%s(is no JSON; see --payload text or hex)\n", indent);
}
