/* SPDX-License-Identifier: Apache-2.0 */
#include "payload.h"

#include <string.h>

#include "json_skeleton.h"
#include "json_text.h"
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
    struct rp_error err;
    json_t *json = rp_json_skeleton(bytes, NULL, &err);
    json_decref(json);
    return json != NULL;
}

/* A round trip through a parser would change numbers. */
static bool print_as_json(FILE *out, struct rp_bytes bytes, const char *indent)
{
    struct rp_buf text = {0};
    struct rp_error err;
    bool good = is_json(bytes) && rp_json_pretty(&text, bytes, indent, &err) == 0;
    if (good) {
        (void)fputs(indent, out);
        term_json(out, rp_buf_bytes(&text));
        (void)fputc('\n', out);
    }
    rp_buf_clear(&text);
    return good;
}

/* Where the character begins that the byte at `at` is of, if it is of UTF-8. */
static size_t character_before(const uint8_t *bytes, size_t at)
{
    size_t begin = at;
    while (begin > at - 3 && (bytes[begin] & 0xc0) == 0x80)
        begin--;
    return begin;
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
        bytes.len = character_before(bytes.data, MAX_SHOWN);
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
