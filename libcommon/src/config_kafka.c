/* SPDX-License-Identifier: Apache-2.0 */
#include "config_kafka.h"

#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "params.h"
#include "suggest.h"
#include "units.h"

/* What a worker sets itself, or what a promise hangs on. */
static const struct rule {
    const char *name;
    const char *wanted[2]; /* the values that are fine; NULL: none is */
    bool only_exactly_once;
    const char *why;
} rules[] = {
    {"group.id", {NULL}, false, "each service has its own group"},
    {"group.instance.id", {NULL}, false, "each worker is a member of its own"},
    {"transactional.id", {NULL}, false, "each worker has its own, made from `instance`"},
    {"enable.auto.commit", {"false"}, false, "offsets are committed with what they stand for"},
    {"enable.auto.offset.store",
     {"false"},
     false,
     "offsets are committed with what they stand for"},
    {"allow.auto.create.topics", {"false"}, false, "a target that is not there must be told"},
    {"auto.offset.reset", {"earliest", "smallest"}, false, "no task is passed over"},
    {"acks", {"all", "-1"}, false, "what one broker alone has may be lost with it"},
    {"request.required.acks",
     {"all", "-1"},
     false,
     "what one broker alone has may be lost with it"},
    {"delivery.report.only.error", {"false"}, false, "each record's delivery is waited for"},
    {"statistics.interval.ms", {"0"}, false, "nobody takes what would be queued for ever"},
    {"log.queue", {"false"}, false, "nobody takes what would be queued for ever"},
    {"isolation.level", {"read_committed"}, true, "aborted records must not be read"},
    {"enable.idempotence", {"true"}, true, "transactions need it"},
};

static int add(struct rp_properties *list, const char *name, char *value)
{
    char *copy = NULL;
    struct rp_property *items =
        value == NULL ? NULL : rp_array_one_more(list->items, list->n, sizeof *items, name, &copy);
    if (items == NULL) {
        free(value);
        return -1;
    }
    list->items = items;
    items[list->n++] = (struct rp_property){copy, value};
    return 0;
}

static void clear(struct rp_properties *list)
{
    for (size_t i = 0; i < list->n; i++) {
        free(list->items[i].name);
        free(list->items[i].value);
    }
    free(list->items);
    *list = (struct rp_properties){0};
}

/* librdkafka lists its properties, aliases too, only as a table for people: a line begins with the
 * name, and has a bar. */
static void suggest_property(char *table, struct rp_suggestion *s)
{
    char *rest = NULL;
    for (char *line = strtok_r(table, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest))
        if (strchr(line, '|') != NULL) {
            line[strcspn(line, " ")] = '\0';
            rp_suggest(s, line);
        }
}

static void note_unknown(struct rp_doc *doc, const yaml_node_t *key_node, const char *name)
{
    struct rp_suggestion s = {.wrong = name};
    char *table = NULL, hint[RP_HINT_TEXT];
    size_t len;
    FILE *out = open_memstream(&table, &len);
    if (out != NULL) {
        rd_kafka_conf_properties_show(out);
        if (fclose(out) == 0)
            suggest_property(table, &s);
    }
    rp_doc_fault(doc, key_node, "librdkafka %s has no such property%s", rd_kafka_version_str(),
                 rp_suggestion_hint(&s, hint));
    free(table);
}

/* `secret`: the value came from the environment or a file, and librdkafka's text would show it. */
static void try(struct rp_doc *doc, const char *name, const yaml_node_t *key_node,
                const yaml_node_t *node, const char *value, bool secret)
{
    char text[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    switch (rd_kafka_conf_set(conf, name, value, text, sizeof text)) {
    case RD_KAFKA_CONF_UNKNOWN:
        note_unknown(doc, key_node, name);
        break;
    case RD_KAFKA_CONF_INVALID:
        if (secret)
            rp_doc_unexpected(doc, node, "a value that librdkafka takes");
        else
            rp_doc_fault(doc, node, "librdkafka says: %s", text);
        break;
    default:
        break;
    }
    rd_kafka_conf_destroy(conf);
}

static void read_property(struct rp_doc *doc, const char *name, const yaml_node_t *key_node,
                          const yaml_node_t *node, void *opaque)
{
    struct rp_properties *list = opaque;
    char *value = rp_doc_text(doc, node);
    if (value == NULL)
        return;
    bool secret = strcmp(value, (const char *)node->data.scalar.value) != 0;
    try(doc, name, key_node, node, value, secret);
    if (add(list, name, value) != 0)
        rp_doc_fault(doc, node, "no memory");
}

static void read_properties(struct rp_doc *doc, const yaml_node_t *node, rp_pair_fn *each,
                            void *opaque)
{
    if (node->type == YAML_MAPPING_NODE)
        rp_params_each(doc, node, 1000, each, opaque);
    else if (!rp_doc_is_null(node))
        rp_doc_unexpected(doc, node, "a mapping of librdkafka's properties");
}

static void read_common(struct rp_doc *doc, const char *name, const yaml_node_t *key_node,
                        const yaml_node_t *node, void *opaque)
{
    struct rp_kafka_config *kafka = opaque;
    if (strcmp(name, "consumer") == 0)
        read_properties(doc, node, read_property, &kafka->consumer);
    else if (strcmp(name, "producer") == 0)
        read_properties(doc, node, read_property, &kafka->producer);
    else
        read_property(doc, name, key_node, node, &kafka->common);
}

void rp_config_kafka_read(struct rp_doc *doc, const yaml_node_t *node, void *field)
{
    read_properties(doc, node, read_common, field);
}

void rp_config_kafka_clear(void *field)
{
    struct rp_kafka_config *kafka = field;
    clear(&kafka->common);
    clear(&kafka->consumer);
    clear(&kafka->producer);
}

static bool same(const struct rp_properties *a, const struct rp_properties *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; i < a->n && same; i++)
        same = strcmp(a->items[i].name, b->items[i].name) == 0 &&
               strcmp(a->items[i].value, b->items[i].value) == 0;
    return same;
}

bool rp_config_kafka_same(const void *a, const void *b)
{
    const struct rp_kafka_config *left = a, *right = b;
    return same(&left->common, &right->common) && same(&left->consumer, &right->consumer) &&
           same(&left->producer, &right->producer);
}

static void check_property(struct rp_doc *doc, const yaml_node_t *node,
                           const struct rp_property *property, bool exactly_once)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const struct rule *r = &rules[i];
        if (strcmp(r->name, property->name) != 0 || (r->only_exactly_once && !exactly_once))
            continue;
        if (r->wanted[0] == NULL)
            rp_doc_fault(doc, node, "is set by reprise: %s", r->why);
        else if (strcmp(property->value, r->wanted[0]) != 0 &&
                 (r->wanted[1] == NULL || strcmp(property->value, r->wanted[1]) != 0))
            rp_doc_fault(doc, node, "contradicts %s: must be %s, since %s",
                         r->only_exactly_once ? "guarantee: exactly-once" : "reprise's promises",
                         r->wanted[0], r->why);
    }
}

/* A transaction that waits longer than the broker lets it live is aborted, every time. */
static void check_timeout(struct rp_doc *doc, const yaml_node_t *node,
                          const struct rp_property *property, const struct rp_config *config)
{
    const struct {
        const char *name;
        int64_t ms;
    } waits[] = {
        {"router.linger", config->router.linger_ms},
        {"delayer.prepare_ahead", config->prepare_ahead_ms},
    };
    int64_t timeout_ms;
    if (strcmp(property->name, "transaction.timeout.ms") != 0 ||
        !rp_parse_int(property->value, &timeout_ms))
        return;
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++)
        if (waits[i].ms >= timeout_ms)
            rp_doc_fault(doc, node, "must be longer than %s", waits[i].name);
}

static void check_list(struct rp_doc *doc, const yaml_node_t *section,
                       const struct rp_properties *list, const struct rp_config *config)
{
    for (size_t i = 0; i < list->n; i++) {
        size_t mark = rp_doc_enter(doc, list->items[i].name);
        const yaml_node_t *node = rp_doc_get(doc, section, list->items[i].name);
        check_property(doc, node, &list->items[i], config->guarantee == RP_EXACTLY_ONCE);
        check_timeout(doc, node, &list->items[i], config);
        rp_doc_leave(doc, mark);
    }
}

void rp_config_kafka_check(struct rp_doc *doc, const struct rp_config *config)
{
    const yaml_node_t *kafka = rp_doc_get(doc, rp_doc_root(doc), "kafka");
    size_t mark = rp_doc_enter(doc, "kafka");
    check_list(doc, kafka, &config->kafka.common, config);
    size_t inner = rp_doc_enter(doc, "consumer");
    check_list(doc, rp_doc_get(doc, kafka, "consumer"), &config->kafka.consumer, config);
    rp_doc_leave(doc, inner);
    inner = rp_doc_enter(doc, "producer");
    check_list(doc, rp_doc_get(doc, kafka, "producer"), &config->kafka.producer, config);
    rp_doc_leave(doc, inner);
    rp_doc_leave(doc, mark);
}

int rp_config_kafka_default(struct rp_kafka_config *kafka)
{
    for (size_t i = 0; i < kafka->common.n; i++)
        if (strcmp(kafka->common.items[i].name, "bootstrap.servers") == 0 ||
            strcmp(kafka->common.items[i].name, "metadata.broker.list") == 0)
            return 0;
    return add(&kafka->common, "bootstrap.servers", strdup("localhost:9092"));
}
