/* SPDX-License-Identifier: Apache-2.0 */
/* What a registry answers, or whatever is at its address: a few answers to a few questions, with
 * time between them. The fetcher is played. Each answer of the input begins with
 *     the id that is asked for, and how much time passes before
 *     what comes: no answer yet, none at all, a body that is too large, or a status
 *     the body's length, in two bytes */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "fetcher.h"
#include "registry.h"
#include "schema.h"
#include "utf8.h"

#define URL  "http://r"
#define HEAD 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__lsan_default_suppressions(void);
int __wrap_rp_fetcher_new(const struct rp_fetcher_options *options, struct rp_fetcher **out,
                          struct rp_error *err);
void __wrap_rp_fetcher_free(struct rp_fetcher *f);
bool __wrap_rp_fetcher_busy(const struct rp_fetcher *f);
int __wrap_rp_fetcher_start(struct rp_fetcher *f, const char *url, struct rp_error *err);
const struct rp_fetched *__wrap_rp_fetcher_wait(struct rp_fetcher *f, int64_t wait_ms);

struct rp_fetcher {
    bool busy;
    int starts, told;
    bool is_late;
    struct rp_fetched answer;
};

static struct rp_fetcher played;
static int64_t now_mono_ms;

/* avro-c does not free a type that defines a name anew. */
const char *__lsan_default_suppressions(void)
{
    return "leak:libavro";
}

int __wrap_rp_fetcher_new(const struct rp_fetcher_options *options, struct rp_fetcher **out,
                          struct rp_error *err)
{
    (void)options, (void)err;
    *out = &played;
    return 0;
}

void __wrap_rp_fetcher_free(struct rp_fetcher *f)
{
    (void)f;
}

bool __wrap_rp_fetcher_busy(const struct rp_fetcher *f)
{
    return f->busy;
}

int __wrap_rp_fetcher_start(struct rp_fetcher *f, const char *url, struct rp_error *err)
{
    (void)err;
    assert(!f->busy && strncmp(url, URL "/schemas/ids/", sizeof URL "/schemas/ids/" - 1) == 0);
    f->busy = true;
    f->starts++;
    return 0;
}

const struct rp_fetched *__wrap_rp_fetcher_wait(struct rp_fetcher *f, int64_t wait_ms)
{
    (void)wait_ms;
    assert(f->busy);
    if (f->is_late) {
        f->is_late = false; /* it comes when it is looked for again */
        return NULL;
    }
    f->busy = false;
    f->told++;
    return &f->answer;
}

static int64_t clock_mono_ms(void)
{
    return now_mono_ms;
}

static void check_error(const struct rp_error *err)
{
    const uint8_t *text = (const uint8_t *)err->text;
    assert(err->text[0] != '\0' && rp_utf8_valid(rp_str(err->text)));
    for (; *text != '\0'; text++)
        assert(*text >= ' ');
    assert(err->cls == RP_POISON
               ? err->code == RP_E_NOT_FOUND
               : err->cls == RP_RETRIABLE && (err->code == RP_E_IO || err->code == RP_E_TIMEOUT));
}

/* It is known now: nobody asks again. What it is, is either a schema or refused. */
static void check_schema(struct rp_registry *r, int32_t id, const char *json)
{
    const int starts = played.starts;
    const char *again;
    struct rp_schema schema;
    struct rp_error err;
    int rc = rp_registry_schema(r, id, &again, &err);
    assert(rc == 0 && again == json && played.starts == starts);
    (void)rc, (void)starts;
    if (rp_schema_parse(rp_str(json), &schema, &err) == 0)
        rp_schema_clear(&schema);
    else
        assert(err.code == RP_E_SCHEMA && err.cls == RP_POISON);
}

/* The body is a copy of its own size, so that reading behind it is seen. */
static struct rp_bytes play(const uint8_t *head, struct rp_bytes body)
{
    static const long statuses[] = {0, 200, 404, 200, 401, 403, 500, 204};
    void *copy = body.len == 0 ? NULL : malloc(body.len);
    assert(copy != NULL || body.len == 0);
    if (copy != NULL)
        memcpy(copy, body.data, body.len);
    played.is_late = (head[1] & 8) != 0;
    played.answer = (struct rp_fetched){
        .status = statuses[head[1] & 7],
        .error = (head[1] & 7) == 0 ? "Could not resolve host: r" : "",
        .body = {copy, body.len},
        .too_large = (head[1] & 16) != 0,
    };
    return played.answer.body;
}

/* Only an answer with a schema gives one, and only one of the registry's own is for good. */
static void check_answer(int rc, const struct rp_error *err)
{
    const struct rp_fetched *answer = &played.answer;
    if (rc == 0)
        assert(answer->status == 200 && !answer->too_large);
    else if (err->cls == RP_POISON)
        assert(answer->status == 200 || answer->status == 404);
}

static void ask(struct rp_registry *r, const uint8_t *head, struct rp_bytes body)
{
    static const int64_t passed_ms[] = {0, 999, 1000, 2000, 40000, 1, 300, INT32_MAX};
    const int32_t id = (int32_t)(head[0] & 3) - 1; /* a prefix may claim one below 0 */
    const int told = played.told;
    const char *json = NULL;
    struct rp_error err = {0};
    struct rp_bytes copy = play(head, body);
    now_mono_ms += passed_ms[head[0] >> 2 & 7];
    int rc = rp_registry_schema(r, id, &json, &err);
    if (played.told > told)
        check_answer(rc, &err);
    if (rc == 0)
        check_schema(r, id, json);
    else
        check_error(&err);
    assert(rp_registry_failing_ms(r) >= 0);
    free((void *)(uintptr_t)copy.data);
    played.answer.body = RP_NULL_BYTES;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct rp_registry_options options = {.url = URL "/", .now_mono_ms = clock_mono_ms};
    struct rp_registry *r;
    played = (struct rp_fetcher){0};
    now_mono_ms = 1;
    if (rp_registry_new(&options, &r, NULL) != 0)
        abort();
    while (size >= HEAD) {
        const uint8_t *head = data;
        size_t len = (size_t)data[2] << 8 | data[3];
        data += HEAD;
        size -= HEAD;
        len = len < size ? len : size;
        ask(r, head, (struct rp_bytes){data, len});
        data += len;
        size -= len;
    }
    rp_registry_free(r);
    return 0;
}
