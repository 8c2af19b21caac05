/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_DOC_H
#define REPRISE_DOC_H

#include <stdbool.h>
#include <stddef.h>
#include <yaml.h>

#include "reprise/error.h"

/* A YAML file while it is read: its nodes, the faults found so far, and the path to the place that
 * is being read, which goes in front of a fault's text. Finding a fault never stops the reading, so
 * that one look at the file shows all of them. */
struct rp_doc {
    const char *file; /* borrowed */
    yaml_document_t yaml;
    bool loaded;
    struct rp_fault *faults;
    size_t n_faults, n_dropped;
    char path[200]; /* "router.workers" */
    int depth;      /* steps of the path */
    size_t n_rules; /* retry rules read so far: by aliases a short file can hold any number */
};

struct rp_fault {
    int line; /* 1-based; 0: the file as a whole */
    char *text;
};

/* Parses a file. What cannot be read or parsed is a fault; the root is then NULL. Ends with
 * rp_doc_close in any case. */
void rp_doc_open(struct rp_doc *doc, const char *file);
void rp_doc_close(struct rp_doc *doc);

/* NULL when there is nothing in the file. */
yaml_node_t *rp_doc_root(struct rp_doc *doc);
yaml_node_t *rp_doc_node(struct rp_doc *doc, int index);
/* The first pair of a key in a mapping, and its value; NULL where there is none, or `map` is no
 * mapping or NULL. */
const yaml_node_pair_t *rp_doc_pair(struct rp_doc *doc, const yaml_node_t *map, const char *key);
yaml_node_t *rp_doc_get(struct rp_doc *doc, const yaml_node_t *map, const char *key);
/* Whether it is an empty plain scalar, as in `router:` with nothing behind, or the word null. */
bool rp_doc_is_null(const yaml_node_t *node);

/* Goes one step down the path, and back up to the mark that was returned. */
size_t rp_doc_enter(struct rp_doc *doc, const char *key);
void rp_doc_leave(struct rp_doc *doc, size_t mark);

/* Notes a fault at a node's line (NULL: the file as a whole). */
void rp_doc_fault(struct rp_doc *doc, const yaml_node_t *node, const char *fmt, ...)
    RP_PRINTF(3, 4);
/* The same, as "path: expected ..., found <the node>". */
void rp_doc_unexpected(struct rp_doc *doc, const yaml_node_t *node, const char *expected);

/* A scalar's text with ${...} put in; the caller's to free. NULL when it is no such thing, which
 * has then been noted. */
char *rp_doc_text(struct rp_doc *doc, const yaml_node_t *node);

/* Tells all faults in the file's order; fails with the first one, "file:line: text", when there is
 * any. */
typedef void rp_doc_fault_fn(void *opaque, const char *file, int line, const char *text);
RP_NODISCARD int rp_doc_report(struct rp_doc *doc, rp_doc_fault_fn *fault, void *opaque,
                               struct rp_error *err);

#endif
