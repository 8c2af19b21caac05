/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "config_kafka.h"
#include "config_policies.h"
#include "config_retention.h"
#include "config_table.h"
#include "glob.h"
#include "policies.h"
#include "units.h"

/* The node of a section's parameter; NULL when the file does not state it. */
static const yaml_node_t *stated(struct rp_doc *doc, const char *section, const char *key)
{
    const yaml_node_t *node = rp_doc_get(doc, rp_doc_root(doc), section);
    return key == NULL ? node : rp_doc_get(doc, node, key);
}

/* "<prefix><name><rest>" */
static int name_topic(const struct rp_config *c, const char *name, const char *rest, char **out)
{
    if (asprintf(out, "%s%s%s", c->topics.prefix, name, rest) >= 0)
        return 0;
    *out = NULL;
    return -1;
}

/* The node that item `i` of a list was read from; the list's, where a faulty item was left out. */
static const yaml_node_t *nth(struct rp_doc *doc, const yaml_node_t *list, size_t i,
                              const struct rp_strings *read)
{
    if (list == NULL || list->type != YAML_SEQUENCE_NODE)
        return list;
    const yaml_node_item_t *items = list->data.sequence.items.start;
    bool whole = list->data.sequence.items.top - items == (ptrdiff_t)read->n;
    return whole ? rp_doc_node(doc, items[i]) : list;
}

/* Lengths were checked one by one when they were read. */
static int make_tiers(struct rp_doc *doc, struct rp_config *c)
{
    const yaml_node_t *node = stated(doc, "tiers", NULL);
    size_t mark = rp_doc_enter(doc, "tiers");
    c->n_tiers = c->tier_lengths.n;
    for (size_t i = 0; i < c->n_tiers; i++) {
        struct rp_tier *t = &c->tiers[i];
        const char *text = c->tier_lengths.items[i];
        (void)rp_parse_duration(text, &t->length_ms);
        t->reach_ms = 2 * t->length_ms;
        if (i > 0)
            t[-1].reach_ms = t->length_ms;
        if (i > 0 && t[-1].length_ms >= t->length_ms)
            rp_doc_fault(doc, nth(doc, node, i, &c->tier_lengths),
                         "expected ascending lengths, found %s after %s", text,
                         c->tier_lengths.items[i - 1]);
        if (name_topic(c, "retry-", text, &t->topic) != 0)
            return -1;
    }
    if (c->n_tiers == 0)
        rp_doc_fault(doc, node, "expected at least one tier");
    rp_doc_leave(doc, mark);
    return 0;
}

/* Whether it is one of the first `n`. */
static bool is_among(const struct rp_strings *lengths, size_t n, const char *text)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(lengths->items[i], text) == 0)
            return true;
    return false;
}

/* No lap is taken but for what is due far beyond the tier's own length. */
static int make_retired(struct rp_doc *doc, struct rp_config *c)
{
    const struct rp_strings *lengths = &c->retired_lengths;
    const yaml_node_t *node = stated(doc, "tiers_retired", NULL);
    size_t mark = rp_doc_enter(doc, "tiers_retired");
    for (size_t i = 0; i < lengths->n; i++) {
        struct rp_tier *t = &c->tiers[c->n_tiers + i];
        (void)rp_parse_duration(lengths->items[i], &t->length_ms);
        t->reach_ms = 2 * t->length_ms;
        if (is_among(&c->tier_lengths, c->tier_lengths.n, lengths->items[i]))
            rp_doc_fault(doc, nth(doc, node, i, lengths), "%s is among tiers", lengths->items[i]);
        if (is_among(lengths, i, lengths->items[i]))
            rp_doc_fault(doc, nth(doc, node, i, lengths), "%s is there twice", lengths->items[i]);
        if (name_topic(c, "retry-", lengths->items[i], &t->topic) != 0)
            return -1;
        c->n_retired++;
    }
    rp_doc_leave(doc, mark);
    return 0;
}

static int derive(struct rp_doc *doc, struct rp_config *c)
{
    c->router.listen_set = stated(doc, "router", "listen") != NULL;
    c->delayer.listen_set = stated(doc, "delayer", "listen") != NULL;
    c->archiver.listen_set = stated(doc, "archiver", "listen") != NULL;
    if (rp_config_kafka_default(&c->kafka) != 0 ||
        name_topic(c, "failed-tasks", "", &c->topics.failed_tasks) != 0 ||
        name_topic(c, "dead-letter", "", &c->topics.dead_letter) != 0)
        return -1;
    if (make_tiers(doc, c) != 0 || make_retired(doc, c) != 0)
        return -1;
    return rp_config_policies_finish(doc, c);
}

static void check_retention(struct rp_doc *doc, const struct rp_config *c)
{
    const yaml_node_t *by_type = stated(doc, "retention", "by_type");
    size_t mark = rp_doc_enter(doc, "retention.by_type");
    rp_config_by_type_check(doc, by_type, c);
    rp_doc_leave(doc, mark);
}

static void check_registry(struct rp_doc *doc, const struct rp_config *c)
{
    const yaml_node_t *user = stated(doc, "schema_registry", "username");
    const yaml_node_t *password = stated(doc, "schema_registry", "password");
    size_t mark = rp_doc_enter(doc, "schema_registry");
    if (*c->registry.username != '\0' && *c->registry.url == '\0')
        rp_doc_fault(doc, user, "username without url");
    if (*c->registry.password != '\0' && *c->registry.username == '\0')
        rp_doc_fault(doc, password, "password without username");
    rp_doc_leave(doc, mark);
}

/* A glob may well take in topics of our own, which are left out of it; a name is a mistake. */
static void check_targets(struct rp_doc *doc, const struct rp_config *c)
{
    const yaml_node_t *list = stated(doc, "targets", "allow");
    size_t mark = rp_doc_enter(doc, "targets.allow");
    for (size_t i = 0; i < c->targets.allow.n; i++)
        if (rp_config_owns_topic(c, rp_str(c->targets.allow.items[i])))
            rp_doc_fault(doc, nth(doc, list, i, &c->targets.allow),
                         "%s is a topic of reprise's own, never a target",
                         c->targets.allow.items[i]);
    rp_doc_leave(doc, mark);
}

static void check_service(struct rp_doc *doc, const char *name, const struct rp_service_config *s)
{
    const yaml_node_t *at = stated(doc, name, "linger");
    size_t mark = rp_doc_enter(doc, name);
    if (s->linger_ms >= s->drain_ms)
        rp_doc_fault(doc, at != NULL ? at : stated(doc, name, "drain"),
                     "linger must be shorter than drain");
    rp_doc_leave(doc, mark);
}

/* What each parameter's own limits cannot say. */
static void check_together(struct rp_doc *doc, const struct rp_config *c)
{
    check_service(doc, "router", &c->router);
    check_service(doc, "delayer", &c->delayer);
    check_service(doc, "archiver", &c->archiver);
    check_registry(doc, c);
    check_retention(doc, c);
    check_targets(doc, c);
    rp_config_kafka_check(doc, c);
    if (c->memory_bytes < 2 * c->topics.max_message_bytes) {
        const yaml_node_t *at = stated(doc, "delayer", "memory");
        size_t mark = rp_doc_enter(doc, "delayer.memory");
        rp_doc_fault(doc, at != NULL ? at : stated(doc, "topics", "max_message_bytes"),
                     "must be at least twice topics.max_message_bytes");
        rp_doc_leave(doc, mark);
    }
}

static void read_all(struct rp_doc *doc, struct rp_config *c)
{
    const yaml_node_t *root = rp_doc_root(doc);
    c->policies = rp_policies_new();
    int rc = c->policies == NULL ? -1 : rp_params_defaults(rp_config_params, c);
    if (rc == 0) {
        if (root != NULL)
            rp_params_read(doc, root, rp_config_params, c);
        rc = derive(doc, c);
    }
    if (rc == 0)
        check_together(doc, c);
    else
        rp_doc_fault(doc, NULL, "no memory");
}

int rp_config_load(const char *file, rp_config_fault_fn *fault, void *opaque,
                   struct rp_config **out, struct rp_error *err)
{
    struct rp_doc doc;
    struct rp_config *c = calloc(1, sizeof *c);
    *out = NULL;
    if (c == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory");
    rp_doc_open(&doc, file);
    if (doc.n_faults == 0)
        read_all(&doc, c);
    int rc = rp_doc_report(&doc, fault, opaque, err);
    rp_doc_close(&doc);
    if (rc != 0)
        rp_config_free(c);
    else
        *out = c;
    return rc;
}

void rp_config_free(struct rp_config *c)
{
    if (c == NULL)
        return;
    rp_params_clear(rp_config_params, c);
    for (size_t i = 0; i < c->n_tiers + c->n_retired; i++)
        free(c->tiers[i].topic);
    free(c->topics.failed_tasks);
    free(c->topics.dead_letter);
    free(c);
}

bool rp_config_is_topic_name(struct rp_bytes name)
{
    const char *s = name.data;
    if (name.len == 0 || name.len > RP_MAX_TOPIC_NAME)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        char c = s[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '.' || c == '_' || c == '-'))
            return false;
    }
    return !rp_bytes_equal(name, rp_str(".")) && !rp_bytes_equal(name, rp_str(".."));
}

static bool begins_with(struct rp_bytes name, const char *start)
{
    size_t n = strlen(start);
    return name.len >= n && (n == 0 || memcmp(name.data, start, n) == 0);
}

bool rp_config_owns_topic(const struct rp_config *c, struct rp_bytes name)
{
    static const char *const own[] = {"failed-tasks", "dead-letter", "task-events", "control"};
    if (begins_with(name, "__"))
        return true;
    if (!begins_with(name, c->topics.prefix))
        return false;
    size_t n = strlen(c->topics.prefix);
    struct rp_bytes rest = {n == 0 ? name.data : (const char *)name.data + n, name.len - n};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (rp_bytes_equal(rest, rp_str(own[i])))
            return true;
    return begins_with(rest, "retry-"); /* whatever the tiers are, or were */
}

bool rp_config_allows_target(const struct rp_config *c, struct rp_bytes name)
{
    if (!rp_config_is_topic_name(name) || rp_config_owns_topic(c, name))
        return false;
    for (size_t i = 0; i < c->targets.allow.n; i++)
        if (rp_glob_match(c->targets.allow.items[i], name))
            return true;
    return false;
}

bool rp_config_allows_again(const struct rp_config *c, struct rp_allowed *last,
                            struct rp_bytes name)
{
    if (name.len > 0 && name.len == last->len && memcmp(name.data, last->name, name.len) == 0)
        return true;
    if (!rp_config_allows_target(c, name))
        return false;
    memcpy(last->name, name.data, name.len);
    last->len = name.len;
    return true;
}

void rp_config_compare(const struct rp_config *a, const struct rp_config *b, char *out, size_t size)
{
    rp_params_compare(rp_config_params, a, b, out, size);
}

void rp_config_print_reference(FILE *out)
{
    rp_params_print(rp_config_params, out);
}
