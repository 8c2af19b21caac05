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

#define MAX_BODY (1024 * 1024)
/* More than a registry holds. Beyond that all are forgotten; those in use are asked for again. */
#define MAX_SCHEMAS 65536
#define MAX_BYTES   (64 * 1024 * 1024)
#define REMEMBER_MS 1000  /* an unknown id */
#define FAILED_MS   2000  /* a failure; those who come back after a second are to hear of it */
#define WAIT_MS     250   /* for an answer, where the last was good; then it is looked for later */
#define GAP_MS      30000 /* between two failures: longer, and they are of different outages */

/* A time in which all failed that was asked. Zeroed: there is none. */
struct spell {
    int64_t since_mono_ms, last_mono_ms;
};

/* A schema that was fetched, or what became of an id else. */
struct known {
    int32_t id;
    char *json; /* NULL: there is none, for the reason `why`; asked again at `until_mono_ms` */
    char *why;
    bool refused; /* the registry did not tell, */
    bool denied;  /* to us */
    int64_t until_mono_ms;
    struct spell failing; /* where it did not tell */
};

struct rp_registry {
    struct rp_fetcher *fetcher;
    int32_t asked;       /* the id that the fetcher asks for */
    char *url;           /* without a slash at its end */
    struct known *known; /* by id, ascending */
    size_t n_known, cap_known;
    size_t bytes;           /* of their schemas */
    struct rp_error outage; /* the last */
    int64_t outage_until_mono_ms;
    bool away;            /* there was no good answer the last time */
    bool waited;          /* for the answer under way, in vain */
    struct spell failing; /* since it last told of any id */
    /* Since it denied us one, without telling it later. Who may write events knows of ids that it
     * denies, and each must not hold up for as long what comes behind it. */
    struct spell denying;
    int64_t failing_ms; /* of the last failure */
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

static void drop_all(struct rp_registry *r)
{
    for (size_t i = 0; i < r->n_known; i++)
        forget(&r->known[i]);
    r->n_known = r->bytes = 0;
}

void rp_registry_free(struct rp_registry *r)
{
    if (r == NULL)
        return;
    rp_fetcher_free(r->fetcher);
    drop_all(r);
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

static struct known *find(const struct rp_registry *r, int32_t id)
{
    size_t i = place_of(r, id);
    return i < r->n_known && r->known[i].id == id ? &r->known[i] : NULL;
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

static int make_room(struct rp_registry *r, size_t bytes, struct rp_error *err)
{
    if (r->n_known == MAX_SCHEMAS)
        drop_unknown(r);
    if (r->n_known == MAX_SCHEMAS || r->bytes + bytes > MAX_BYTES)
        drop_all(r);
    struct known *grown = rp_array_grow(r->known, r->n_known, &r->cap_known, sizeof *grown);
    if (grown == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for schemas");
    r->known = grown;
    return 0;
}

/* Remembers what became of an id, in place of what was known. Takes `json` and `why`. */
static int remember(struct rp_registry *r, struct known k, struct rp_error *err)
{
    size_t bytes = k.json == NULL ? 0 : strlen(k.json) + 1;
    if (make_room(r, bytes, err) != 0) {
        forget(&k);
        return -1;
    }
    r->bytes += bytes; /* what was known had none, or it were not asked for again */
    struct known *before = find(r, k.id);
    if (before != NULL) {
        forget(before);
        *before = k;
        return 0;
    }
    size_t i = place_of(r, k.id);
    memmove(&r->known[i + 1], &r->known[i], (r->n_known - i) * sizeof k);
    r->known[i] = k;
    r->n_known++;
    return 0;
}

static int fail_again(const struct known *k, struct rp_error *err)
{
    return k->refused ? rp_fail(err, RP_E_IO, RP_RETRIABLE, "%s", k->why)
                      : rp_fail(err, RP_E_NOT_FOUND, RP_POISON, "%s", k->why);
}

/* Fails with this text, and says so again without asking until the id's time. */
static int remember_failure(struct rp_registry *r, struct known k, const char *what,
                            struct rp_error *err)
{
    if (asprintf(&k.why, "schema registry: schema id %" PRId32 " %s", k.id, what) < 0)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for schemas");
    (void)fail_again(&k, err);
    struct rp_error unused; /* not to be remembered is no harm */
    (void)remember(r, k, &unused);
    return -1;
}

static int remember_unknown(struct rp_registry *r, int32_t id, int64_t until_mono_ms,
                            const char *what, struct rp_error *err)
{
    const struct known k = {.id = id, .until_mono_ms = until_mono_ms};
    return remember_failure(r, k, what, err);
}

/* Of other ids the registry may tell. */
static int remember_refusal(struct rp_registry *r, int32_t id, bool denied, const char *what,
                            struct rp_error *err)
{
    const struct known *before = find(r, id);
    struct known k = {
        .id = id, .refused = true, .denied = denied, .until_mono_ms = r->now_mono_ms() + FAILED_MS};
    if (before != NULL)
        k.failing = before->failing;
    return remember_failure(r, k, what, err);
}

/* Fails as RETRIABLE, and says so again of any id without asking for a while. */
static int remember_outage(struct rp_registry *r, const char *what, struct rp_error *err)
{
    (void)rp_fail(&r->outage, RP_E_IO, RP_RETRIABLE, "schema registry: %s", what);
    r->outage_until_mono_ms = r->now_mono_ms() + FAILED_MS;
    return rp_fail_as(err, &r->outage);
}

/* It told of the id. */
static void end_failing(struct rp_registry *r, int32_t id)
{
    const struct known *before = find(r, id);
    r->away = false;
    r->failing = (struct spell){0};
    if (before != NULL && before->denied)
        r->denying = (struct spell){0};
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
    if (schema != NULL)
        end_failing(r, id);
    if (schema == NULL) {
        rc = remember_refusal(r, id, false, "is not told: the answer holds no schema", err);
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

/* A proxy answers so, too, while the registry behind it is away, and so does what is no registry.
 */
static bool is_of_registry(struct rp_bytes body)
{
    json_t *root = json_loadb(body.data, body.len, 0, NULL);
    json_int_t code = json_integer_value(json_object_get(root, "error_code"));
    bool is = code >= 40401 && code <= 40403; /* of a subject, a version, a schema */
    json_decref(root);
    return is;
}

static int take_answer(struct rp_registry *r, int32_t id, const struct rp_fetched *answer,
                       struct rp_error *err)
{
    char text[160];
    r->away = true;
    if (answer->status == 0)
        return remember_outage(r, answer->error, err);
    if (answer->status == 404 && is_of_registry(answer->body)) {
        end_failing(r, id);
        return remember_unknown(r, id, r->now_mono_ms() + REMEMBER_MS, "is not known there", err);
    }
    if (answer->status == 200 && answer->too_large) {
        end_failing(r, id);
        return remember_unknown(r, id, INT64_MAX, "is larger than 1 MiB", err);
    }
    if (answer->status == 200)
        return take_schema(r, id, answer->body, err);
    (void)snprintf(text, sizeof text, "is not told: it answers with status %ld%s", answer->status,
                   answer->status == 401 || answer->status == 403 ? ": check username and password"
                   : answer->status == 404                        ? ": check the registry's url"
                                                                  : "");
    return remember_refusal(r, id, answer->status == 403, text, err);
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
 * where the last was no good: then it is looked for with the next record. */
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
        if (!busy && r->now_mono_ms() < r->outage_until_mono_ms)
            return rp_fail_as(err, &r->outage);
        if (!busy && ask(r, id, err) != 0)
            return -1;
        const struct rp_fetched *answer = wait(r);
        if (answer == NULL)
            return rp_fail(err, RP_E_TIMEOUT, RP_RETRIABLE, "schema registry: no answer yet");
        int32_t asked = r->asked;
        int rc = take_answer(r, asked, answer, err);
        if (asked == id)
            return rc;
    }
}

static int64_t go_on(struct spell *s, int64_t now_mono_ms)
{
    if (s->since_mono_ms == 0 || now_mono_ms - s->last_mono_ms > GAP_MS)
        s->since_mono_ms = now_mono_ms;
    s->last_mono_ms = now_mono_ms;
    return now_mono_ms - s->since_mono_ms;
}

static void note_failure(struct rp_registry *r, int32_t id)
{
    int64_t now_mono_ms = r->now_mono_ms(), of_id_ms = 0;
    struct known *k = find(r, id);
    if (k != NULL && k->denied) { /* it answers, so it is not away */
        r->failing_ms = go_on(&r->denying, now_mono_ms);
        return;
    }
    r->failing_ms = go_on(&r->failing, now_mono_ms);
    if (k != NULL && k->refused)
        of_id_ms = go_on(&k->failing, now_mono_ms);
    if (of_id_ms > r->failing_ms)
        r->failing_ms = of_id_ms;
}

int64_t rp_registry_failing_ms(const struct rp_registry *r)
{
    return r->failing_ms;
}

int rp_registry_schema(struct rp_registry *r, int32_t id, const char **out_json,
                       struct rp_error *err)
{
    const struct known *k = find(r, id);
    int rc = 0;
    if (k == NULL || (k->json == NULL && r->now_mono_ms() >= k->until_mono_ms))
        rc = fetch(r, id, err);
    else if (k->json == NULL)
        rc = fail_again(k, err);
    if (rc != 0) {
        if (err->cls == RP_RETRIABLE)
            note_failure(r, id);
        return -1;
    }
    *out_json = find(r, id)->json;
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
