/* SPDX-License-Identifier: Apache-2.0 */
#include "params.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "suggest.h"
#include "units.h"

/* What is stored as an integer. In the order of enum rp_param_type. */
static const struct scalar {
    const char *noun, *example;
    bool (*parse)(const char *text, int64_t *value);
    char *(*format)(int64_t value, char out[RP_UNIT_TEXT]);
} scalars[] = {
    [RP_P_INT] = {"a whole number", NULL, rp_parse_int, rp_format_int},
    [RP_P_BOOL] = {"true or false", NULL, rp_parse_bool, NULL},
    [RP_P_DURATION] = {"a duration", "500ms, 1s, 15m, 12h, 30d", rp_parse_duration,
                       rp_format_duration},
    [RP_P_SIZE] = {"a size", "4096, 64KiB, 1MiB", rp_parse_size, rp_format_size},
    [RP_P_PERCENT] = {"a percentage", "10%", rp_parse_percent, rp_format_percent},
    [RP_P_RATIO] = {"a number", "2, 1.75", rp_parse_ratio, rp_format_ratio},
    [RP_P_TIME_OF_DAY] = {"a time of day", "03:00", rp_parse_time_of_day, NULL},
};

/* Appends, and never beyond the end. */
static void append(char out[RP_EXPECTED_TEXT], const char *text)
{
    size_t len = strlen(out);
    (void)snprintf(out + len, RP_EXPECTED_TEXT - len, "%s", text);
}

static void append_words(char out[RP_EXPECTED_TEXT], const struct rp_param *p)
{
    const char *sep = "";
    for (size_t i = 0; p->words != NULL && p->words[i] != NULL; i++, sep = ", ") {
        append(out, sep);
        append(out, p->words[i]);
    }
    for (const struct rp_param *f = p->fields; f != NULL && f->key != NULL; f++, sep = ", ") {
        append(out, sep);
        append(out, "{");
        append(out, f->key);
        append(out, ": ...}");
    }
}

static void append_scalar(char out[RP_EXPECTED_TEXT], const struct rp_param *p)
{
    const struct scalar *s = &scalars[p->type];
    char low[RP_UNIT_TEXT], high[RP_UNIT_TEXT];
    append(out, s->noun);
    if (s->format != NULL) {
        append(out, " from ");
        append(out, s->format(p->min, low));
        append(out, " to ");
        append(out, s->format(p->max, high));
    }
    if (s->example != NULL) {
        append(out, " (");
        append(out, s->example);
        append(out, ")");
    }
}

static void append_expected(char out[RP_EXPECTED_TEXT], const struct rp_param *p)
{
    struct rp_param item = *p;
    switch (p->type) {
    case RP_P_CHOICE:
    case RP_P_ONE_OF:
        append(out, "one of ");
        append_words(out, p);
        break;
    case RP_P_STRING:
        append(out, "text");
        break;
    case RP_P_LIST:
        append(out, "a list, each ");
        item.type = p->item;
        append_expected(out, &item);
        break;
    case RP_P_MAP:
        append(out, "a mapping");
        break;
    case RP_P_SPECIAL:
        append(out, p->noun);
        break;
    default:
        append_scalar(out, p);
    }
}

void rp_params_expected(const struct rp_param *p, char out[RP_EXPECTED_TEXT])
{
    out[0] = '\0';
    append_expected(out, p);
}

static void *field_of(const struct rp_param *p, void *base)
{
    return (char *)base + p->offset;
}

/* Limits keep the value within the field. */
static void store(const struct rp_param *p, int64_t value, void *field)
{
    if (p->width == sizeof(bool))
        *(bool *)field = value != 0;
    else if (p->width == sizeof(int))
        *(int *)field = (int)value;
    else
        *(int64_t *)field = value;
}

/* The place of `text` among the words; -1 when it is none of them. */
static int find_word(const struct rp_param *p, const char *text)
{
    for (int i = 0; p->words[i] != NULL; i++)
        if (strcmp(p->words[i], text) == 0)
            return i;
    return -1;
}

static bool parse(const struct rp_param *p, const char *text, int64_t *value)
{
    if (p->type == RP_P_CHOICE || p->type == RP_P_ONE_OF) {
        *value = find_word(p, text);
        return *value >= 0;
    }
    if (p->type == RP_P_STRING) {
        *value = (int64_t)strlen(text);
        return *value >= p->min && (p->max == 0 || *value <= p->max);
    }
    const struct scalar *s = &scalars[p->type];
    return s->parse(text, value) && (s->format == NULL || (*value >= p->min && *value <= p->max));
}

static int default_list(const struct rp_param *p, struct rp_strings *list)
{
    for (const char *text = p->def; *text != '\0';) {
        size_t n = strcspn(text, ",");
        char *item = strndup(text, n);
        if (item == NULL || rp_strings_take(list, item) != 0)
            return -1;
        text += n + (text[n] == ',' ? 2 : 0);
    }
    return 0;
}

static int default_one(const struct rp_param *p, void *field)
{
    int64_t value = 0;
    if (p->type == RP_P_STRING)
        return (*(char **)field = strdup(p->def)) == NULL ? -1 : 0;
    if (p->type == RP_P_LIST)
        return default_list(p, field);
    bool good = parse(p, p->def, &value);
    assert(good);
    (void)good;
    if (p->type == RP_P_ONE_OF)
        *(int *)field = (int)value;
    else
        store(p, value, field);
    return 0;
}

int rp_params_defaults(const struct rp_param *params, void *base)
{
    for (const struct rp_param *p = params; p->key != NULL; p++) {
        int rc = 0;
        if (p->type == RP_P_MAP)
            rc = rp_params_defaults(p->fields, field_of(p, base));
        else if (p->def != NULL)
            rc = default_one(p, field_of(p, base));
        if (rc != 0)
            return -1;
    }
    return 0;
}

static void note_expected(struct rp_doc *doc, const struct rp_param *p, const yaml_node_t *node)
{
    char expected[RP_EXPECTED_TEXT];
    rp_params_expected(p, expected);
    rp_doc_unexpected(doc, node, expected);
}

/* A good text and its value; the caller's to free. NULL when it is not, which has been noted. */
static char *read_text(struct rp_doc *doc, const struct rp_param *p, const yaml_node_t *node,
                       int64_t *value)
{
    if (node->type != YAML_SCALAR_NODE || rp_doc_is_null(node)) {
        note_expected(doc, p, node);
        return NULL;
    }
    char *text = rp_doc_text(doc, node);
    if (text == NULL)
        return NULL;
    const char *expected = NULL;
    if (!parse(p, text, value)) {
        if (p->type == RP_P_STRING)
            rp_doc_fault(doc, node, "expected %lld to %lld characters, found %zu",
                         (long long)p->min, (long long)p->max, strlen(text));
        else
            note_expected(doc, p, node);
    } else if (p->check != NULL && (expected = p->check(text)) != NULL) {
        rp_doc_unexpected(doc, node, expected);
    } else {
        return text;
    }
    free(text);
    return NULL;
}

static void read_string(struct rp_doc *doc, const struct rp_param *p, const yaml_node_t *node,
                        char **field)
{
    int64_t length;
    char *text = read_text(doc, p, node, &length);
    if (text != NULL) {
        free(*field);
        *field = text;
    }
}

static void read_list(struct rp_doc *doc, const struct rp_param *p, const yaml_node_t *node,
                      struct rp_strings *field)
{
    if (node->type != YAML_SEQUENCE_NODE) {
        note_expected(doc, p, node);
        return;
    }
    const yaml_node_item_t *item = node->data.sequence.items.start;
    if (node->data.sequence.items.top - item > (ptrdiff_t)p->max_items) {
        rp_doc_fault(doc, node, "expected at most %zu items, found %td", p->max_items,
                     node->data.sequence.items.top - item);
        return;
    }
    struct rp_param each = *p;
    each.type = p->item;
    rp_strings_clear(field);
    for (; item < node->data.sequence.items.top; item++) {
        const yaml_node_t *at = rp_doc_node(doc, *item);
        int64_t value;
        char *text = read_text(doc, &each, at, &value);
        if (text != NULL && rp_strings_take(field, text) != 0)
            rp_doc_fault(doc, at, "no memory");
    }
}

/* Which of `fields` a mapping with one key names; -1 when it is no such mapping. */
static int find_field(struct rp_doc *doc, const struct rp_param *p, const yaml_node_t *node)
{
    if (node->type != YAML_MAPPING_NODE ||
        node->data.mapping.pairs.top - node->data.mapping.pairs.start != 1)
        return -1;
    for (int i = 0; p->fields[i].key != NULL; i++)
        if (rp_doc_get(doc, node, p->fields[i].key) != NULL)
            return i;
    return -1;
}

/* An int at the struct's beginning tells which it is, words first. */
static void read_one_of(struct rp_doc *doc, const struct rp_param *p, const yaml_node_t *node,
                        void *field)
{
    int64_t word;
    char *text;
    int words = 0, which = find_field(doc, p, node);
    if (which >= 0) {
        while (p->words[words] != NULL)
            words++;
        *(int *)field = words + which;
        const struct rp_param *f = &p->fields[which];
        if (f->type == RP_P_MAP && rp_params_defaults(f->fields, field_of(f, field)) != 0)
            rp_doc_fault(doc, node, "no memory");
        rp_params_read(doc, node, p->fields, field);
    } else if ((text = read_text(doc, p, node, &word)) != NULL) {
        *(int *)field = (int)word;
        free(text);
    }
}

void rp_params_read_value(struct rp_doc *doc, const struct rp_param *p, const yaml_node_t *node,
                          void *field)
{
    int64_t value;
    char *text;
    switch (p->type) {
    case RP_P_STRING:
        read_string(doc, p, node, field);
        break;
    case RP_P_LIST:
        read_list(doc, p, node, field);
        break;
    case RP_P_MAP:
        rp_params_read(doc, node, p->fields, field);
        break;
    case RP_P_ONE_OF:
        read_one_of(doc, p, node, field);
        break;
    case RP_P_SPECIAL:
        p->read(doc, node, field);
        break;
    default:
        text = read_text(doc, p, node, &value);
        if (text != NULL)
            store(p, value, field);
        free(text);
    }
}

void rp_params_each(struct rp_doc *doc, const yaml_node_t *map, size_t max, rp_pair_fn *each,
                    void *opaque)
{
    const yaml_node_pair_t *start = map->data.mapping.pairs.start, *pair;
    if (map->data.mapping.pairs.top - start > (ptrdiff_t)max) {
        rp_doc_fault(doc, map, "expected at most %zu entries, found %td", max,
                     map->data.mapping.pairs.top - start);
        return;
    }
    for (pair = start; pair < map->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = rp_doc_node(doc, pair->key);
        const char *name = (const char *)key->data.scalar.value;
        if (key->type != YAML_SCALAR_NODE || strlen(name) != key->data.scalar.length ||
            *name == '\0') {
            rp_doc_unexpected(doc, key, "a name");
            continue;
        }
        const yaml_node_pair_t *first = rp_doc_pair(doc, map, name);
        size_t mark = rp_doc_enter(doc, name);
        if (first != pair)
            rp_doc_fault(doc, key, "comes twice; it was first on line %zu",
                         rp_doc_node(doc, first->key)->start_mark.line + 1);
        else
            each(doc, name, key, rp_doc_node(doc, pair->value), opaque);
        rp_doc_leave(doc, mark);
    }
}

struct reading {
    const struct rp_param *params;
    void *base;
};

static void note_unknown(struct rp_doc *doc, const yaml_node_t *key_node, const char *key,
                         const struct rp_param *params)
{
    struct rp_suggestion s = {.wrong = key};
    char hint[RP_HINT_TEXT];
    for (; params->key != NULL; params++)
        rp_suggest(&s, params->key);
    rp_doc_fault(doc, key_node, "there is no such parameter%s", rp_suggestion_hint(&s, hint));
}

static void read_pair(struct rp_doc *doc, const char *key, const yaml_node_t *key_node,
                      const yaml_node_t *value, void *opaque)
{
    struct reading *r = opaque;
    for (size_t i = 0; r->params[i].key != NULL; i++)
        if (strcmp(r->params[i].key, key) == 0) {
            rp_params_read_value(doc, &r->params[i], value, field_of(&r->params[i], r->base));
            return;
        }
    note_unknown(doc, key_node, key, r->params);
}

void rp_params_read(struct rp_doc *doc, const yaml_node_t *node, const struct rp_param *params,
                    void *base)
{
    struct reading r = {.params = params, .base = base};
    if (node->type == YAML_MAPPING_NODE) {
        rp_params_each(doc, node, 1000, read_pair, &r);
    } else if (!rp_doc_is_null(node)) {
        rp_doc_unexpected(doc, node, "a mapping");
        return;
    }
    for (size_t i = 0; params[i].key != NULL; i++)
        if (params[i].required && rp_doc_get(doc, node, params[i].key) == NULL)
            rp_doc_fault(doc, node, "expected %s in it, which is missing", params[i].key);
}

void rp_params_clear(const struct rp_param *params, void *base)
{
    for (const struct rp_param *p = params; p->key != NULL; p++) {
        void *field = field_of(p, base);
        if (p->type == RP_P_STRING) {
            free(*(char **)field);
            *(char **)field = NULL;
        } else if (p->type == RP_P_LIST) {
            rp_strings_clear(field);
        } else if (p->type == RP_P_MAP) {
            rp_params_clear(p->fields, field);
        } else if (p->type == RP_P_SPECIAL && p->clear != NULL) {
            p->clear(field);
        }
    }
}
