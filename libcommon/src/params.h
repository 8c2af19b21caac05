/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_PARAMS_H
#define REPRISE_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "doc.h"
#include "string_list.h"

/* Parameters as a table. One table reads a mapping of the file into a struct, gives the defaults,
 * checks the limits, and prints the reference and the JSON Schema, so that these cannot differ. */
enum rp_param_type {
    RP_P_INT,
    RP_P_BOOL,
    RP_P_DURATION, /* ms */
    RP_P_SIZE,     /* bytes */
    RP_P_PERCENT,
    RP_P_RATIO,       /* thousandths */
    RP_P_TIME_OF_DAY, /* minute of the day */
    /* The above are stored in an integer of the field's own width, and so is RP_P_CHOICE. */
    RP_P_CHOICE,  /* one of `words`: its place */
    RP_P_STRING,  /* char *, owned; min and max limit the length */
    RP_P_LIST,    /* struct rp_strings: texts as written, each a good value of type `item` */
    RP_P_MAP,     /* an embedded struct with a table of its own, `fields` */
    RP_P_ONE_OF,  /* the same, whose first member is an int: one of `words`, else exactly one of
                   * `fields`; the int is its place, words first */
    RP_P_SPECIAL, /* read by `read` */
};

struct rp_param {
    const char *key;
    enum rp_param_type type, item;
    size_t offset, width; /* of the field */
    int64_t min, max;     /* limits, in the type's unit; of a list, of each item */
    size_t max_items;
    const char *def; /* as a file would say it; lists: split at ", "; NULL: none */
    const char *const *words;
    const struct rp_param *fields; /* of RP_P_SPECIAL: of each entry, where it has entries */
    const char *noun;              /* of RP_P_SPECIAL: what is expected */
    /* NULL: `text` is good; else what was expected. */
    const char *(*check)(const char *text);
    void (*read)(struct rp_doc *doc, const yaml_node_t *node, void *field);
    void (*clear)(void *field); /* of RP_P_SPECIAL; may be NULL */
    /* Of RP_P_SPECIAL; NULL: no difference counts. */
    bool (*same)(const void *a, const void *b);
    const char *schema; /* of RP_P_SPECIAL: the name of its definition in the JSON Schema */
    bool required;
    const char *about; /* what it means, for the reference */
};

/* Where a field of `struct type` is. Needs `member` to be addressable with offsetof. */
#define RP_FIELD(type, member)                                                                     \
    .offset = offsetof(struct type, member), .width = sizeof(((struct type *)NULL)->member)

/* Puts the defaults of a table (which ends with a NULL key) into `base`. A field without a default
 * is left alone. -1: no memory. */
RP_NODISCARD int rp_params_defaults(const struct rp_param *params, void *base);

/* Reads a mapping into `base`. What is wrong in it is noted in `doc`; the fields concerned are left
 * as they were. A null node is an empty mapping. */
void rp_params_read(struct rp_doc *doc, const yaml_node_t *node, const struct rp_param *params,
                    void *base);

/* Reads one value into its field, wherever that is. */
void rp_params_read_value(struct rp_doc *doc, const struct rp_param *param, const yaml_node_t *node,
                          void *field);

/* Frees what the fields own. */
void rp_params_clear(const struct rp_param *params, void *base);

/* Calls `each` for every pair of a mapping whose key is a scalar that has not come before (both
 * are noted otherwise). At most `max` pairs. */
typedef void rp_pair_fn(struct rp_doc *doc, const char *key, const yaml_node_t *key_node,
                        const yaml_node_t *value, void *opaque);
void rp_params_each(struct rp_doc *doc, const yaml_node_t *map, size_t max, rp_pair_fn *each,
                    void *opaque);

/* What a parameter expects, for people: "a duration from 100ms to 1h (500ms, 1s, 15m)". */
#define RP_EXPECTED_TEXT 320
void rp_params_expected(const struct rp_param *param, char out[RP_EXPECTED_TEXT]);

/* Writes the paths of those parameters that differ, be it in the order of what they list, into
 * `out`: "tiers, targets.allow", as many as it has room for. Not of tables with RP_P_ONE_OF. */
void rp_params_compare(const struct rp_param *params, const void *a, const void *b, char *out,
                       size_t size);

/* One line a parameter: path, default, what it expects, what it means. */
void rp_params_print(const struct rp_param *params, FILE *out);

#endif
