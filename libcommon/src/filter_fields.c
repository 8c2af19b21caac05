/* SPDX-License-Identifier: Apache-2.0 */
#include "filter_fields.h"

#include <ctype.h>
#include <stdio.h>

#include "filter.h"

#define INFO(symbol, name, flag, placeholder, kind, column, countable, help)                       \
    {name, flag, placeholder, RP_FILTER_##kind, column, countable, help},
const struct rp_filter_field_info rp_filter_fields[RP_N_FIELDS] = {RP_FILTER_FIELDS(INFO)};

static bool same(const char *a, const char *b)
{
    for (; *a != '\0' && *b != '\0'; a++, b++) {
        char x = *a == '-' ? '_' : *a;
        if (tolower((unsigned char)x) != *b)
            return false;
    }
    return *a == *b;
}

enum rp_filter_field rp_filter_field(const char *name)
{
    int i = 0;
    while (i < RP_N_FIELDS && !same(name, rp_filter_fields[i].name))
        i++;
    return (enum rp_filter_field)i;
}

static const char *operators(const struct rp_filter_field_info *field)
{
    switch (field->kind) {
    case RP_FILTER_NAME:
        return "= != in ~ !~ contains";
    case RP_FILTER_TEXT:
        return "contains ~ !~ = !=";
    case RP_FILTER_TIME:
        return field == &rp_filter_fields[RP_FIELD_SINCE] ||
                       field == &rp_filter_fields[RP_FIELD_UNTIL]
                   ? ""
                   : "< <= > >= =";
    case RP_FILTER_INT:
        return "= != in < <= > >=";
    case RP_FILTER_BOOL:
        return "";
    case RP_FILTER_REASON:
    case RP_FILTER_STATUS:
    case RP_FILTER_GROUP:
        return "= != in";
    }
    return "";
}

static const char words[] =
    "A filter says which dead letters are meant. As flags, which must all hold:\n"
    "\n"
    "  --type 'pay*,refund' --since 2h --attempts '>=3' --message ~'code 5\\d\\d'\n"
    "\n"
    "or as an expression, or as both; --where may come several times:\n"
    "\n"
    "  --where \"type = pay* and (class = *Timeout* or message contains 'reset') and since 2h\"\n"
    "  --where \"not status in (replayed, discarded) and category != none\"\n"
    "\n";

static const char rules[] =
    "\n"
    "and, or, not and parentheses combine; not binds closest, then and. = takes wildcards: * is\n"
    "any run of characters, ? is any one. `contains` finds a part in either case. ~ is a regular\n"
    "expression of PostgreSQL's. A value with spaces, commas or parentheses stands in quotes of\n"
    "either kind; a quote in it is doubled. `none` means that there is no value, `all` that all\n"
    "are meant. A time is 30m, 12h or 7d (ago, by the database's clock), now, 2026-11-21, or\n"
    "2026-11-21T03:00Z; UTC where it does not say. A flag's value begins with an operator where =\n"
    "is not meant: '!=x', '>=3'.\n"
    "The first digits of a group, 4 at least, stand for all groups that begin so; discard, purge\n"
    "and replay refuse them where those are more than one.\n";

void rp_filter_help(FILE *out)
{
    (void)fputs(words, out);
    (void)fprintf(out, "  %-10s %-12s %-22s\n", "FIELD", "FLAG", "OPERATORS");
    for (int i = 0; i < RP_N_FIELDS; i++) {
        const struct rp_filter_field_info *f = &rp_filter_fields[i];
        (void)fprintf(out, "  %-10s %s%-*s %-22s %s\n", f->name, f->flag == NULL ? "" : "--",
                      f->flag == NULL ? 12 : 10, f->flag == NULL ? "" : f->flag, operators(f),
                      f->help);
    }
    (void)fputs(rules, out);
}
