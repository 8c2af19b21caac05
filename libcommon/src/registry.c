/* SPDX-License-Identifier: Apache-2.0 */
#include "registry.h"

#include "config.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "array.h"
#include "clock.h"
#include "fetcher.h"

#define MAX_BODY    (1024 * 1024)
#define MAX_SCHEMAS 65536 /* more ids than a registry holds; a bound all the same */
#define REMEMBER_MS 1000  /* an unknown id, an outage */
#define WAIT_MS     250   /* for an answer, where the last one came; then it is looked for later */

/* A schema that was fetched, or an id that the registry does not know. */
struct known {
    int32_t id;
    char *json; /* NULL: unknown, until `unknown_until_mono_ms` */
    char *why;
    int64_t unknown_until_mono_ms;
};

struct rp_registry {
    struct rp_fetcher *fetcher;
    int32_t asked;       /* the id that the fetcher asks for */
    char *url;           /* without a slash at its end */
    struct known *known; /* by id, ascending */
    size_t n_known, cap_known;
    struct rp_error outage; /* the last, while it lasts */
    bool away;              /* there was no good answer the last time */
    bool waited;            /* for the answer under way, in vain */
    int64_t outage_until_mono_ms;
    int64_t (*now_mono_ms)(void);
};

static int check_url(const char *url, struct rp_error *err)
{
    CURLU *parsed = curl_url();
    char *scheme = NULL;
    bool good = parsed != NULL && url != NULL &&
                curl_url_set(parsed, CURLUPART_URL, url, 0) == CURLUE_OK &&
                curl_url_get(parsed, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
                (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);
    curl_free(scheme);
    curl_url_cleanup(parsed);
    return good ? 0
                : rp_fail(err, RP_E_CONFIG, RP_FATAL,
                          "schema registry: the url is no http(s)://host[:port][/path]");
}

int rp_registry_new(const struct rp_registry_options *options, struct rp_registry **out,
                    struct rp_error *err)
{
    const struct rp_fetcher_options fetcher = {
        .username = options->username,
        .password = options->password,
        .ca_file = options->ca_file,
        .accept = "application/vnd.schemaregistry.v1+json, application/json",
        .timeout_ms = options->timeout_ms,
        .max_bytes = MAX_BODY,
    };
    *out = NULL;
    if (check_url(options->url, err) != 0)
        return -1;
    struct rp_registry *r = calloc(1, sizeof *r);
    char *url = strdup(options->url);
    if (r == NULL || url == NULL) {
        free(r);
        free(url);
        return rp_fail(err, RP_E_NOMEM, RP_FATAL, "no memory for a schema registry's client");
    }
    r->url = url;
    r->now_mono_ms = options->now_mono_ms == NULL ? rp_mono_ms : options->now_mono_ms;
    for (size_t n = strlen(url); n > 0 && url[n - 1] == '/'; n--)
        url[n - 1] = '\0';
    if (rp_fetcher_new(&fetcher, &r->fetcher, err) != 0) {
        rp_registry_free(r);
        return rp_fail_in(err, "schema registry");
    }
    *out = r;
    return 0;
}

static void forget(struct known *k)
{
    free(k->json);
    free(k->why);
}

void rp_registry_free(struct rp_registry *r)
{
    if (r == NULL)
        return;
    rp_fetcher_free(r->fetcher);
    for (size_t i = 0; i < r->n_known; i++)
        forget(&r->known[i]);
    free(r->known);
    free(r->url);
    free(r);
}

/* Where the id is, or would be. */
static size_t place_of(const struct rp_registry *r, int32_t id)
{
    size_t low = 0, high = r->n_known;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (r->known[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void drop_unknown(struct rp_registry *r)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->n_known; i++) {
        if (r->known[i].json != NULL)
            r->known[kept++] = r->known[i];
        else
            forget(&r->known[i]);
    }
    r->n_known = kept;
}

static int make_room(struct rp_registry *r, struct rp_error *err)
{
    if (r->n_known == MAX_SCHEMAS)
        drop_unknown(r);
    if (r->n_known == MAX_SCHEMAS)
        return rp_fail(err, RP_E_FULL, RP_POISON, "schema registry: more than %d schemas",
                       MAX_SCHEMAS);
    struct known *grown = rp_array_grow(r->known, r->n_known, &r->cap_known, sizeof *grown);
    if (grown == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for schemas");
    r->known = grown;
    return 0;
}

/* Remembers what became of an id, in place of what was known. Takes `json` and `why`. */
static int remember(struct rp_registry *r, struct known k, struct rp_error *err)
{
    size_t i = place_of(r, k.id);
    if (i < r->n_known && r->known[i].id == k.id) {
        forget(&r->known[i]);
        r->known[i] = k;
        return 0;
    }
    if (make_room(r, err) != 0) {
        forget(&k);
        return -1;
    }
    i = place_of(r, k.id);
    memmove(&r->known[i + 1], &r->known[i], (r->n_known - i) * sizeof k);
    r->known[i] = k;
    r->n_known++;
    return 0;
}

/* Fails as POISON with this text, and says so again without asking until the time given. */
static int remember_unknown(struct rp_registry *r, int32_t id, int64_t until_mono_ms,
                            const char *what, struct rp_error *err)
{
    struct known k = {.id = id, .unknown_until_mono_ms = until_mono_ms};
    if (asprintf(&k.why, "schema registry: schema id %" PRId32 " %s", id, what) < 0)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for schemas");
    (void)rp_fail(err, RP_E_NOT_FOUND, RP_POISON, "%s", k.why);
    struct rp_error unused; /* not to be remembered is no harm */
    (void)remember(r, k, &unused);
    return -1;
}

/* Fails as RETRIABLE, and says so again without asking for a while. */
static int remember_outage(struct rp_registry *r, const char *what, struct rp_error *err)
{
    (void)rp_fail(&r->outage, RP_E_IO, RP_RETRIABLE, "schema registry: %s", what);
    r->away = true;
    r->outage_until_mono_ms = r->now_mono_ms() + REMEMBER_MS;
    return rp_fail_as(err, &r->outage);
}

/* {"schema": "...", "schemaType": "AVRO", "references": [...]}; the latter two may be missing. */
static int take_schema(struct rp_registry *r, int32_t id, struct rp_bytes body,
                       struct rp_error *err)
{
    json_error_t where;
    json_t *root = json_loadb(body.data, body.len, 0, &where);
    const char *schema = json_string_value(json_object_get(root, "schema"));
    const char *type = json_string_value(json_object_get(root, "schemaType"));
    int rc;
    if (schema == NULL) {
        rc = remember_outage(r, "the answer holds no schema", err);
    } else if (type != NULL && strcmp(type, "AVRO") != 0) {
        rc = remember_unknown(r, id, INT64_MAX, "is no Avro schema", err);
    } else if (json_array_size(json_object_get(root, "references")) > 0) {
        rc = remember_unknown(r, id, INT64_MAX, "refers to other subjects, which is not read", err);
    } else {
        struct known k = {.id = id, .json = strdup(schema)};
        rc = k.json == NULL ? rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for schemas")
                            : remember(r, k, err);
    }
    json_decref(root);
    return rc;
}

static int take_answer(struct rp_registry *r, int32_t id, const struct rp_fetched *answer,
                       struct rp_error *err)
{
    char text[160];
    r->away = false;
    if (answer->too_large)
        return remember_unknown(r, id, INT64_MAX, "is larger than 1 MiB", err);
    if (answer->status == 0)
        return remember_outage(r, answer->error, err);
    if (answer->status == 404)
        return remember_unknown(r, id, r->now_mono_ms() + REMEMBER_MS, "is not known there", err);
    if (answer->status == 200)
        return take_schema(r, id, answer->body, err);
    (void)snprintf(text, sizeof text, "it answers with status %ld%s", answer->status,
                   answer->status == 401 || answer->status == 403 ? ": check username and password"
                                                                  : "");
    return remember_outage(r, text, err);
}

static int ask(struct rp_registry *r, int32_t id, struct rp_error *err)
{
    char *url;
    if (asprintf(&url, "%s/schemas/ids/%" PRId32, r->url, id) < 0)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a url");
    r->asked = id;
    int rc = rp_fetcher_start(r->fetcher, url, err);
    free(url);
    return rc;
}

/* The answer to what was asked, if it comes soon. Once it did not, nobody waits for it again, nor
 * for a registry that is away: then it is looked for with the next record. */
static const struct rp_fetched *wait(struct rp_registry *r)
{
    const struct rp_fetched *answer =
        rp_fetcher_wait(r->fetcher, r->away || r->waited ? 0 : WAIT_MS);
    r->waited = answer == NULL;
    return answer;
}

/* Asks for the id, as soon as nothing else is asked for. */
static int fetch(struct rp_registry *r, int32_t id, struct rp_error *err)
{
    for (;;) {
        bool busy = rp_fetcher_busy(r->fetcher);
        if (!busy && r->away && r->now_mono_ms() < r->outage_until_mono_ms)
            return rp_fail_as(err, &r->outage);
        if (!busy && ask(r, id, err) != 0)
            return -1;
        const struct rp_fetched *answer = wait(r);
        if (answer == NULL && r->away)
            return rp_fail_as(err, &r->outage);
        if (answer == NULL)
            return rp_fail(err, RP_E_TIMEOUT, RP_RETRIABLE, "schema registry: no answer yet");
        int32_t asked = r->asked;
        int rc = take_answer(r, asked, answer, err);
        if (asked == id)
            return rc;
    }
}

int rp_registry_schema(struct rp_registry *r, int32_t id, const char **out_json,
                       struct rp_error *err)
{
    size_t i = place_of(r, id);
    bool found = i < r->n_known && r->known[i].id == id;
    if (found && r->known[i].json == NULL) {
        if (r->now_mono_ms() < r->known[i].unknown_until_mono_ms)
            return rp_fail(err, RP_E_NOT_FOUND, RP_POISON, "%s", r->known[i].why);
        found = false;
    }
    if (!found && fetch(r, id, err) != 0)
        return -1;
    *out_json = r->known[place_of(r, id)].json;
    return 0;
}

int rp_registry_open(const struct rp_config *config, struct rp_registry **out, struct rp_error *err)
{
    const struct rp_registry_options options = {
        .url = config->registry.url,
        .username = config->registry.username,
        .password = config->registry.password,
        .ca_file = config->registry.ca_file,
        .timeout_ms = config->registry.timeout_ms,
    };
    *out = NULL;
    return options.url == NULL || *options.url == '\0' ? 0 : rp_registry_new(&options, out, err);
}
