/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>

#include "config.h"
#include "config_policies.h"
#include "config_retention.h"
#include "config_table.h"

/* The JSON Schema of the file, for editors. It says less than the loader checks: limits of values
 * with units, and what contradicts what, are beyond it. Where there is no memory a constructor of
 * jansson's returns NULL, and what takes it fails in turn, so only the end is checked. */

static json_t *one(const char *keyword, json_t *value)
{
    return json_pack("{s:o}", keyword, value);
}

static json_t *matching(const char *pattern)
{
    return json_pack("{s:s, s:s}", "type", "string", "pattern", pattern);
}

static json_t *between(const char *type, json_t *low, json_t *high)
{
    return json_pack("{s:s, s:o, s:o}", "type", type, "minimum", low, "maximum", high);
}

static json_t *reference(const char *name)
{
    return json_pack("{s:o}", "$ref", json_sprintf("#/$defs/%s", name));
}

static json_t *words_schema(const char *const *words)
{
    json_t *list = json_array();
    for (; *words != NULL; words++)
        (void)json_array_append_new(list, json_string(*words));
    return one("enum", list);
}

/* What a scalar may be, beside a ${...} that stands for it. */
static json_t *scalar_schema(const struct rp_param *p)
{
    json_t *any = json_array();
    switch (p->type) {
    case RP_P_INT:
        (void)json_array_append_new(any,
                                    between("integer", json_integer(p->min), json_integer(p->max)));
        break;
    case RP_P_BOOL:
        (void)json_array_append_new(any, one("type", json_string("boolean")));
        break;
    case RP_P_DURATION:
        (void)json_array_append_new(any, matching("^[0-9]+(ms|s|m|h|d)$"));
        if (p->min == 0)
            (void)json_array_append_new(any, one("const", json_integer(0)));
        break;
    case RP_P_SIZE:
        (void)json_array_append_new(any, matching("^[0-9]+(KiB|MiB|GiB)$"));
        (void)json_array_append_new(any,
                                    between("integer", json_integer(p->min), json_integer(p->max)));
        break;
    case RP_P_PERCENT:
        (void)json_array_append_new(any, matching("^[0-9]+%$"));
        (void)json_array_append_new(any, one("const", json_integer(0)));
        break;
    case RP_P_RATIO:
        (void)json_array_append_new(any, between("number", json_real((double)p->min / 1000),
                                                 json_real((double)p->max / 1000)));
        break;
    case RP_P_TIME_OF_DAY:
        (void)json_array_append_new(any, matching("^([01][0-9]|2[0-3]):[0-5][0-9]$"));
        break;
    default:
        (void)json_array_append_new(any, words_schema(p->words));
    }
    (void)json_array_append_new(any, reference("interpolated"));
    return one("anyOf", any);
}

static json_t *string_schema(const struct rp_param *p)
{
    json_t *schema = json_pack("{s:s}", "type", "string");
    if (p->min > 0)
        (void)json_object_set_new(schema, "minLength", json_integer(p->min));
    return schema;
}

static json_t *map_schema(const struct rp_param *params);
static json_t *value_schema(const struct rp_param *p);

static json_t *one_of_schema(const struct rp_param *p)
{
    json_t *map = map_schema(p->fields);
    (void)json_object_set_new(map, "type", json_string("object"));
    (void)json_object_set_new(map, "minProperties", json_integer(1));
    (void)json_object_set_new(map, "maxProperties", json_integer(1));
    return one("anyOf",
               json_pack("[o, o, o]", words_schema(p->words), map, reference("interpolated")));
}

static json_t *list_schema(const struct rp_param *p)
{
    struct rp_param item = *p;
    item.type = p->item;
    item.about = NULL;
    item.def = NULL;
    return json_pack("{s:s, s:o, s:I}", "type", "array", "items", value_schema(&item), "maxItems",
                     (json_int_t)p->max_items);
}

static json_t *default_of(const struct rp_param *p)
{
    json_t *list = NULL;
    char text[128], *rest = NULL;
    if (p->type == RP_P_INT)
        return json_loads(p->def, JSON_DECODE_ANY, NULL);
    if (p->type != RP_P_LIST)
        return json_string(p->def);
    list = json_array();
    (void)snprintf(text, sizeof text, "%s", p->def);
    for (char *s = strtok_r(text, ", ", &rest); s != NULL; s = strtok_r(NULL, ", ", &rest))
        (void)json_array_append_new(list, json_string(s));
    return list;
}

static json_t *value_schema(const struct rp_param *p)
{
    json_t *schema;
    if (p->schema != NULL)
        schema = reference(p->schema);
    else if (p->type == RP_P_STRING)
        schema = string_schema(p);
    else if (p->type == RP_P_LIST)
        schema = list_schema(p);
    else if (p->type == RP_P_MAP)
        schema = map_schema(p->fields);
    else if (p->type == RP_P_ONE_OF)
        schema = one_of_schema(p);
    else
        schema = scalar_schema(p);
    if (p->about != NULL)
        (void)json_object_set_new(schema, "description", json_string(p->about));
    if (p->def != NULL && !p->required)
        (void)json_object_set_new(schema, "default", default_of(p));
    return schema;
}

/* Nothing at all stands for an empty mapping, unless something must be in it. */
static json_t *map_schema(const struct rp_param *params)
{
    json_t *properties = json_object(), *required = json_array();
    for (const struct rp_param *p = params; p->key != NULL; p++) {
        (void)json_object_set_new(properties, p->key, value_schema(p));
        if (p->required)
            (void)json_array_append_new(required, json_string(p->key));
    }
    bool may_be_empty = json_array_size(required) == 0;
    json_t *schema =
        json_pack("{s:o, s:o, s:b}", "type",
                  may_be_empty ? json_pack("[s, s]", "object", "null") : json_string("object"),
                  "properties", properties, "additionalProperties", 0);
    if (!may_be_empty)
        (void)json_object_set(schema, "required", required);
    json_decref(required);
    return schema;
}

/* A mapping from any name to these. */
static json_t *each_schema(const struct rp_param *params)
{
    return json_pack("{s:[s, s], s:o}", "type", "object", "null", "additionalProperties",
                     map_schema(params));
}

static json_t *kafka_schema(void)
{
    json_t *value = json_pack("{s:[s, s, s]}", "type", "string", "number", "boolean");
    json_t *properties =
        json_pack("{s:[s, s], s:O}", "type", "object", "null", "additionalProperties", value);
    return json_pack("{s:[s, s], s:{s:O, s:o}, s:o}", "type", "object", "null", "properties",
                     "consumer", properties, "producer", properties, "additionalProperties", value);
}

static json_t *definitions(void)
{
    json_t *defs = json_object();
    (void)json_object_set_new(defs, "interpolated", matching("\\$\\{"));
    (void)json_object_set_new(defs, "kafka", kafka_schema());
    (void)json_object_set_new(defs, "by_type",
                              json_pack("{s:[s, s], s:o}", "type", "object", "null",
                                        "additionalProperties", value_schema(&rp_type_keep_param)));
    (void)json_object_set_new(defs, "categories", each_schema(rp_category_params));
    (void)json_object_set_new(defs, "policies", each_schema(rp_policy_params));
    (void)json_object_set_new(defs, "overrides", each_schema(rp_override_params));
    (void)json_object_set_new(defs, "retry", one_of_schema(&rp_retry_param));
    (void)json_object_set_new(defs, "retries",
                              json_pack("{s:s, s:o, s:i, s:i}", "type", "array", "items",
                                        reference("retry"), "minItems", 1, "maxItems",
                                        RP_RETRY_MAX_TERMS));
    (void)json_object_set_new(defs, "backoff", one_of_schema(&rp_backoff_param));
    return defs;
}

int rp_config_write_schema(FILE *out)
{
    json_t *schema =
        json_pack("{s:s, s:s}", "$schema", "https://json-schema.org/draft/2020-12/schema", "title",
                  "The configuration of reprise");
    json_t *top = map_schema(rp_config_params), *defs = definitions();
    int rc = json_object_update(schema, top);
    if (rc == 0)
        rc = json_object_set(schema, "$defs", defs);
    if (rc == 0)
        rc = json_dumpf(schema, out, JSON_INDENT(2));
    if (rc == 0)
        rc = fputc('\n', out) == EOF ? -1 : 0;
    json_decref(top);
    json_decref(defs);
    json_decref(schema);
    return rc;
}
