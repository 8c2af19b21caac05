/* SPDX-License-Identifier: Apache-2.0 */
/* The codec for tests in other languages. Each line of standard input is a value in hexadecimal,
 * each line of standard output what became of it:
 *
 *     codec_tool decode FailedTask|DeadLetter [REGISTRY-URL [CA-FILE]]    a JSON object, bytes in
 *                                                          hexadecimal, or "error: ..."
 *     codec_tool encode FailedTask|DeadLetter              decoded, then written anew in
 *                                                          single-object encoding
 *
 * The registry's username and password are reprise and s3cret.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codec.h"
#include "registry.h"
#include "shape.h"

struct tool {
    const struct rp_shape *shape;
    struct rp_codec *codec;
    struct rp_arena arena;
    union {
        struct rp_failed_task task;
        struct rp_dead_letter letter;
    } record;
};

static int decode_now(struct tool *t, struct rp_bytes value, struct rp_error *err)
{
    rp_arena_reset(&t->arena);
    if (t->shape == &rp_failed_task_shape)
        return rp_codec_decode_task(t->codec, value, &t->arena, &t->record.task, err);
    return rp_codec_decode_dead_letter(t->codec, value, &t->arena, &t->record.letter, err);
}

/* A registry that has not answered yet is looked at again, as by a service. */
static int decode(struct tool *t, struct rp_bytes value, struct rp_error *err)
{
    int rc = decode_now(t, value, err);
    for (int tries = 0; rc != 0 && err->code == RP_E_TIMEOUT && tries < 1000; tries++) {
        (void)usleep(10000);
        rc = decode_now(t, value, err);
    }
    return rc;
}

static int encode(const struct tool *t, struct rp_buf *out, struct rp_error *err)
{
    if (t->shape == &rp_failed_task_shape)
        return rp_failed_task_encode(&t->record.task, out, err);
    return rp_dead_letter_encode(&t->record.letter, out, err);
}

static void print_hex(struct rp_bytes b)
{
    const uint8_t *p = b.data;
    for (size_t i = 0; i < b.len; i++)
        (void)printf("%02x", p[i]);
}

static json_t *json_of_bytes(struct rp_bytes b, bool is_text)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *p = b.data;
    if (b.data == NULL)
        return json_null();
    if (is_text)
        return json_stringn(b.data, b.len);
    char *hex = malloc(2 * b.len + 1);
    if (hex == NULL)
        return NULL;
    for (size_t i = 0; i < b.len; i++) {
        hex[2 * i] = digits[p[i] >> 4];
        hex[2 * i + 1] = digits[p[i] & 15];
    }
    json_t *string = json_stringn(hex, 2 * b.len);
    free(hex);
    return string;
}

static json_t *json_of(const struct rp_shape *shape, const char *base);

static json_t *json_of_array(const struct rp_shape_field *f, const char *base)
{
    json_t *array = json_array();
    const char *items = *(const char *const *)(const void *)(base + f->at);
    size_t n = *(const size_t *)(const void *)(base + f->count_at);
    for (size_t i = 0; i < n; i++)
        (void)json_array_append_new(array, json_of(f->of, items + i * f->of->size));
    return array;
}

static json_t *json_of_field(const struct rp_shape_field *f, const char *base)
{
    const void *at = base + f->at;
    switch (f->type) {
    case RP_SHAPE_STRING:
    case RP_SHAPE_BYTES:
        return json_of_bytes(*(const struct rp_bytes *)at, f->type == RP_SHAPE_STRING);
    case RP_SHAPE_INT:
        return json_integer(*(const int32_t *)at);
    case RP_SHAPE_LONG:
        return json_integer(*(const int64_t *)at);
    case RP_SHAPE_TIME:
        return *(const int64_t *)at == RP_NO_TIME ? json_null()
                                                  : json_integer(*(const int64_t *)at);
    case RP_SHAPE_REASON:
        return json_string(rp_reason_name(*(const enum rp_reason *)at));
    case RP_SHAPE_RECORD:
        return f->nullable && !*(const bool *)(const void *)(base + f->count_at)
                   ? json_null()
                   : json_of(f->of, at);
    default:
        return json_of_array(f, base);
    }
}

static json_t *json_of(const struct rp_shape *shape, const char *base)
{
    json_t *object = json_object();
    for (size_t i = 0; i < shape->n_fields; i++)
        (void)json_object_set_new(object, shape->fields[i].name,
                                  json_of_field(&shape->fields[i], base));
    return object;
}

static void print_json(const struct tool *t)
{
    json_t *object = json_of(t->shape, (const char *)&t->record);
    (void)json_dumpf(object, stdout, JSON_COMPACT);
    json_decref(object);
}

static int digit_of(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c == '\0' ? NULL : strchr(digits, c);
    return at == NULL ? -1 : (int)(at - digits);
}

/* In place; returns the number of bytes. */
static size_t from_hex(char *line)
{
    size_t n = 0;
    while (digit_of(line[2 * n]) >= 0 && digit_of(line[2 * n + 1]) >= 0) {
        line[n] = (char)(digit_of(line[2 * n]) << 4 | digit_of(line[2 * n + 1]));
        n++;
    }
    return n;
}

static void handle(struct tool *t, char *line, bool encoding)
{
    struct rp_error err;
    struct rp_buf out = {0};
    struct rp_bytes value = {line, from_hex(line)};
    if (decode(t, value, &err) != 0 || (encoding && encode(t, &out, &err) != 0))
        (void)printf("error: %s", err.text);
    else if (encoding)
        print_hex(rp_buf_bytes(&out));
    else
        print_json(t);
    (void)putchar('\n');
    (void)fflush(stdout);
    rp_buf_clear(&out);
}

int main(int argc, char **argv)
{
    struct tool t = {.shape = &rp_failed_task_shape};
    struct rp_registry *registry = NULL;
    struct rp_registry_options options = {.url = argc > 3 ? argv[3] : NULL,
                                          .ca_file = argc > 4 ? argv[4] : NULL,
                                          .username = "reprise",
                                          .password = "s3cret",
                                          .timeout_ms = 5000};
    struct rp_error err;
    char *line = NULL;
    size_t room = 0;
    if (argc < 3) {
        (void)fprintf(stderr, "usage: codec_tool decode|encode RECORD [URL [CA-FILE]]\n");
        return 2;
    }
    if (strcmp(argv[2], rp_dead_letter_shape.name) == 0)
        t.shape = &rp_dead_letter_shape;
    if ((options.url != NULL && rp_registry_new(&options, &registry, &err) != 0) ||
        rp_codec_new(registry, &t.codec, &err) != 0) {
        (void)fprintf(stderr, "codec_tool: %s\n", err.text);
        return 1;
    }
    while (getline(&line, &room, stdin) >= 0)
        handle(&t, line, strcmp(argv[1], "encode") == 0);
    free(line);
    rp_codec_free(t.codec);
    rp_registry_free(registry);
    rp_arena_clear(&t.arena);
    return 0;
}
