/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_options.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "reprise/task.h"
#include "utf8.h"

#define MAX_REPLAYS    3
#define CANARY_WAIT_MS INT64_C(60000)

static const char *const order_names[] = {"oldest", "newest", "key"};

const char *rp_replay_order_name(enum rp_replay_order order)
{
    return order_names[order];
}

bool rp_replay_order_parse(const char *text, enum rp_replay_order *out)
{
    for (size_t i = 0; i < sizeof order_names / sizeof *order_names; i++)
        if (strcmp(text, order_names[i]) == 0) {
            *out = (enum rp_replay_order)i;
            return true;
        }
    return false;
}

void rp_replay_options_init(struct rp_replay_options *o)
{
    *o = (struct rp_replay_options){
        .max_replays = MAX_REPLAYS, .canary_wait_ms = CANARY_WAIT_MS, .stop_if_dead = -1};
}

void rp_replay_options_clear(struct rp_replay_options *o)
{
    for (size_t i = 0; i < o->set_headers.n; i++) {
        free(o->set_headers.items[i].name);
        free(o->set_headers.items[i].value);
    }
    free(o->set_headers.items);
    free(o->target);
    free(o->jq);
    free(o->payload_schema);
    *o = (struct rp_replay_options){0};
}

static int add_header(struct rp_replay_options *o, const char *name, size_t n, const char *value,
                      struct rp_error *err)
{
    struct rp_properties *list = &o->set_headers;
    struct rp_property *items = realloc(list->items, (list->n + 1) * sizeof *items);
    if (items == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a header");
    list->items = items;
    struct rp_property *p = &items[list->n];
    *p = (struct rp_property){strndup(name, n), strdup(value)};
    if (p->name != NULL && p->value != NULL) {
        list->n++;
        return 0;
    }
    free(p->name);
    free(p->value);
    return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a header");
}

int rp_replay_options_header(struct rp_replay_options *o, const char *text, struct rp_error *err)
{
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text)
        return rp_fail(err, RP_E_INVALID, RP_POISON, "a header is NAME=VALUE, not '%s'", text);
    if (strncmp(text, RP_HDR_PREFIX, sizeof RP_HDR_PREFIX - 1) == 0)
        return rp_fail(err, RP_E_INVALID, RP_POISON,
                       "the headers " RP_HDR_PREFIX "* are reprise's");
    if (!rp_utf8_valid(rp_str(text)))
        return rp_fail(err, RP_E_INVALID, RP_POISON, "a header that is set must be UTF-8");
    return add_header(o, text, (size_t)(equals - text), equals + 1, err);
}

char *rp_replay_options_json(const struct rp_replay_options *o)
{
    json_t *headers = json_array();
    for (size_t i = 0; i < o->set_headers.n; i++)
        (void)json_array_append_new(headers,
                                    json_pack("{s:s, s:s}", "key", o->set_headers.items[i].name,
                                              "value", o->set_headers.items[i].value));
    json_t *root =
        json_pack("{s:s, s:s*, s:I, s:s, s:I, s:I, s:I, s:f, s:f, s:s*, s:s*, s:o, s:I}", "to",
                  o->to_router ? "router" : "target", "target", o->target, "limit",
                  (json_int_t)o->limit, "order", rp_replay_order_name(o->order), "max_replays",
                  (json_int_t)o->max_replays, "canary", (json_int_t)o->canary, "canary_wait_ms",
                  (json_int_t)o->canary_wait_ms, "canary_share", o->canary_share, "stop_if_dead",
                  o->stop_if_dead, "jq", o->jq, "payload_schema", o->payload_schema, "set_headers",
                  headers, "success_within_ms", (json_int_t)o->success_within_ms);
    char *text = root == NULL ? NULL : json_dumps(root, JSON_COMPACT);
    json_decref(root);
    return text;
}

static int copy_text(const char *text, char **out)
{
    *out = text == NULL ? NULL : strdup(text);
    return (text == NULL) == (*out == NULL) ? 0 : -1;
}

static int read_headers(json_t *headers, struct rp_replay_options *out, struct rp_error *err)
{
    size_t i;
    json_t *header;
    json_array_foreach(headers, i, header)
    {
        const char *key, *value;
        if (json_unpack(header, "{s:s, s:s}", "key", &key, "value", &value) != 0)
            return rp_fail(err, RP_E_INVALID, RP_FATAL, "a header of the job cannot be read");
        if (add_header(out, key, strlen(key), value, err) != 0)
            return -1;
    }
    return 0;
}

int rp_replay_options_read(const char *json, struct rp_replay_options *out, struct rp_error *err)
{
    rp_replay_options_init(out);
    json_t *root = json_loads(json, 0, NULL), *headers = NULL;
    json_int_t limit = 0, max = out->max_replays, canary = 0, wait = out->canary_wait_ms,
               within = 0;
    const char *to = "target", *target = NULL, *order = order_names[0], *jq = NULL;
    const char *schema = NULL;
    int failed =
        json_unpack(root, "{s?s, s?s, s?I, s?s, s?I, s?I, s?I, s?F, s?F, s?s, s?s, s?o, s?I}", "to",
                    &to, "target", &target, "limit", &limit, "order", &order, "max_replays", &max,
                    "canary", &canary, "canary_wait_ms", &wait, "canary_share", &out->canary_share,
                    "stop_if_dead", &out->stop_if_dead, "jq", &jq, "payload_schema", &schema,
                    "set_headers", &headers, "success_within_ms", &within);
    out->to_router = strcmp(to, "router") == 0;
    out->limit = limit;
    out->max_replays = max;
    out->canary = canary;
    out->canary_wait_ms = wait;
    out->success_within_ms = within;
    if (failed != 0 || !rp_replay_order_parse(order, &out->order))
        failed = rp_fail(err, RP_E_INVALID, RP_FATAL, "the job's options cannot be read");
    else if (copy_text(target, &out->target) != 0 || copy_text(jq, &out->jq) != 0 ||
             copy_text(schema, &out->payload_schema) != 0)
        failed = rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for the job's options");
    else if (headers != NULL)
        failed = read_headers(headers, out, err);
    json_decref(root);
    if (failed != 0)
        rp_replay_options_clear(out);
    return failed;
}
