/* SPDX-License-Identifier: Apache-2.0 */
#include "doc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interpolate.h"

#define MAX_FILE   (1 << 20)
#define MAX_FAULTS 200

static void note(struct rp_doc *doc, int line, const char *text)
{
    if (doc->n_faults == MAX_FAULTS) {
        doc->n_dropped++;
        return;
    }
    if (doc->faults == NULL)
        doc->faults = calloc(MAX_FAULTS, sizeof *doc->faults);
    char *copy = strdup(text);
    if (doc->faults == NULL || copy == NULL) {
        free(copy);
        doc->n_dropped++; /* still a fault: the file is refused */
        return;
    }
    for (char *c = copy; *c != '\0'; c++) /* nothing of the file reaches a terminal raw */
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = '?';
    /* Kept in the file's order; what is found later on the same line comes later. */
    size_t at = doc->n_faults++;
    for (; at > 0 && doc->faults[at - 1].line > line; at--)
        doc->faults[at] = doc->faults[at - 1];
    doc->faults[at] = (struct rp_fault){line, copy};
}

void rp_doc_fault(struct rp_doc *doc, const yaml_node_t *node, const char *fmt, ...)
{
    char text[512];
    int n = doc->path[0] == '\0' ? 0 : snprintf(text, sizeof text, "%s: ", doc->path);
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text + n, sizeof text - (size_t)n, fmt, args);
    va_end(args);
    note(doc, node == NULL ? 0 : (int)node->start_mark.line + 1, text);
}

/* What the file says, cut. */
static void show(const yaml_node_t *node, char *out, size_t size)
{
    if (rp_doc_is_null(node)) {
        (void)snprintf(out, size, "nothing");
    } else if (node->type != YAML_SCALAR_NODE) {
        (void)snprintf(out, size, "%s", node->type == YAML_MAPPING_NODE ? "a mapping" : "a list");
    } else {
        (void)snprintf(out, size, "\"%.60s%s\"", node->data.scalar.value,
                       node->data.scalar.length > 60 ? "..." : "");
    }
}

void rp_doc_unexpected(struct rp_doc *doc, const yaml_node_t *node, const char *expected)
{
    char found[80];
    show(node, found, sizeof found);
    rp_doc_fault(doc, node, "expected %s, found %s", expected, found);
}

static void note_syntax(struct rp_doc *doc, const yaml_parser_t *parser)
{
    char text[256];
    (void)snprintf(text, sizeof text, "not YAML: %s%s%s",
                   parser->context == NULL ? "" : parser->context,
                   parser->context == NULL ? "" : ", ",
                   parser->problem == NULL ? "no memory" : parser->problem);
    note(doc, (int)parser->problem_mark.line + 1, text);
}

/* One file is one document. */
static void check_end(struct rp_doc *doc, yaml_parser_t *parser)
{
    yaml_document_t next;
    if (yaml_parser_load(parser, &next) == 0) {
        note_syntax(doc, parser);
        return;
    }
    const yaml_node_t *root = yaml_document_get_root_node(&next);
    if (root != NULL)
        rp_doc_fault(doc, root, "expected the end of the file, found another document");
    yaml_document_delete(&next);
}

static void open_text(struct rp_doc *doc, const char *file, const char *text, size_t len)
{
    *doc = (struct rp_doc){.file = file};
    yaml_parser_t parser;
    if (yaml_parser_initialize(&parser) == 0) {
        note(doc, 0, "no memory");
        return;
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    doc->loaded = yaml_parser_load(&parser, &doc->yaml) != 0;
    if (doc->loaded)
        check_end(doc, &parser);
    else
        note_syntax(doc, &parser);
    yaml_parser_delete(&parser);
}

/* Reads at most MAX_FILE + 1 bytes. */
static char *read_file(const char *file, size_t *len, const char **problem)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    char *text = malloc(MAX_FILE + 1);
    ssize_t n = 0;
    *len = 0;
    *problem = NULL;
    if (fd < 0 || text == NULL)
        *problem = strerror(errno);
    while (*problem == NULL && *len <= MAX_FILE) {
        n = read(fd, text + *len, MAX_FILE + 1 - *len);
        if (n == 0)
            break;
        if (n > 0)
            *len += (size_t)n;
        else if (errno != EINTR)
            *problem = strerror(errno);
    }
    if (*len > MAX_FILE)
        *problem = "larger than 1 MiB";
    if (fd >= 0)
        (void)close(fd);
    return text;
}

void rp_doc_open(struct rp_doc *doc, const char *file)
{
    size_t len;
    const char *problem;
    char *text = read_file(file, &len, &problem);
    if (problem == NULL) {
        open_text(doc, file, text, len);
    } else {
        *doc = (struct rp_doc){.file = file};
        rp_doc_fault(doc, NULL, "cannot read it: %s", problem);
    }
    free(text);
}

void rp_doc_close(struct rp_doc *doc)
{
    if (doc->loaded)
        yaml_document_delete(&doc->yaml);
    for (size_t i = 0; i < doc->n_faults; i++)
        free(doc->faults[i].text);
    free(doc->faults);
    *doc = (struct rp_doc){0};
}

yaml_node_t *rp_doc_root(struct rp_doc *doc)
{
    return doc->loaded ? yaml_document_get_root_node(&doc->yaml) : NULL;
}

yaml_node_t *rp_doc_node(struct rp_doc *doc, int index)
{
    return yaml_document_get_node(&doc->yaml, index);
}

const yaml_node_pair_t *rp_doc_pair(struct rp_doc *doc, const yaml_node_t *map, const char *key)
{
    if (map == NULL || map->type != YAML_MAPPING_NODE)
        return NULL;
    const yaml_node_pair_t *pair = map->data.mapping.pairs.start;
    for (; pair < map->data.mapping.pairs.top; pair++) {
        const yaml_node_t *k = rp_doc_node(doc, pair->key);
        if (k->type == YAML_SCALAR_NODE && strcmp((const char *)k->data.scalar.value, key) == 0)
            return pair;
    }
    return NULL;
}

yaml_node_t *rp_doc_get(struct rp_doc *doc, const yaml_node_t *map, const char *key)
{
    const yaml_node_pair_t *pair = rp_doc_pair(doc, map, key);
    return pair == NULL ? NULL : rp_doc_node(doc, pair->value);
}

bool rp_doc_is_null(const yaml_node_t *node)
{
    if (node->type != YAML_SCALAR_NODE || node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return false;
    const char *text = (const char *)node->data.scalar.value;
    return *text == '\0' || strcmp(text, "~") == 0 || strcmp(text, "null") == 0;
}

size_t rp_doc_enter(struct rp_doc *doc, const char *key)
{
    size_t mark = strlen(doc->path);
    doc->depth++;
    (void)snprintf(doc->path + mark, sizeof doc->path - mark, "%s%.64s", mark == 0 ? "" : ".", key);
    return mark;
}

void rp_doc_leave(struct rp_doc *doc, size_t mark)
{
    doc->path[mark] = '\0';
    doc->depth--;
}

char *rp_doc_text(struct rp_doc *doc, const yaml_node_t *node)
{
    if (node->type != YAML_SCALAR_NODE || rp_doc_is_null(node)) {
        rp_doc_unexpected(doc, node, "a value");
        return NULL;
    }
    const char *raw = (const char *)node->data.scalar.value;
    if (strlen(raw) != node->data.scalar.length) {
        rp_doc_fault(doc, node, "expected text, found a NUL in it");
        return NULL;
    }
    struct rp_error err;
    char *text = rp_interpolate(raw, &err);
    if (text == NULL)
        rp_doc_fault(doc, node, "%s", err.text);
    return text;
}

int rp_doc_report(struct rp_doc *doc, rp_doc_fault_fn *fault, void *opaque, struct rp_error *err)
{
    if (doc->n_faults + doc->n_dropped == 0)
        return 0;
    for (size_t i = 0; fault != NULL && i < doc->n_faults; i++)
        fault(opaque, doc->file, doc->faults[i].line, doc->faults[i].text);
    char more[64] = "no memory";
    if (doc->n_dropped > 0) {
        if (doc->n_faults > 0)
            (void)snprintf(more, sizeof more, "and %zu more faults", doc->n_dropped);
        if (fault != NULL)
            fault(opaque, doc->file, 0, more);
    }
    const char *text = doc->n_faults > 0 ? doc->faults[0].text : more;
    int line = doc->n_faults > 0 ? doc->faults[0].line : 0;
    if (line == 0)
        return rp_fail(err, RP_E_CONFIG, RP_FATAL, "%s: %s", doc->file, text);
    return rp_fail(err, RP_E_CONFIG, RP_FATAL, "%s:%d: %s", doc->file, line, text);
}
