/* SPDX-License-Identifier: Apache-2.0 */
#include "jq_program.h"

#include <jq.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "clock.h"
#include "json_number.h"
#include "json_span.h"
#include "json_text.h"
#include "stand_ins.h"

/* jq's parser has the same limit; a result is nested deeper only on purpose. */
#define MAX_DEPTH 256

/* The time is an input, so that two runs see the same. In parentheses nothing can be imported. */
#define HEAD ".[1] as $__reprise_now | def now: $__reprise_now; .[0] | ("
#define TAIL "\n)"

struct rp_jq_program {
    jq_state *jq;
    char complaint[200]; /* what the compiler said first */
};

static void keep_complaint(void *opaque, jv message)
{
    struct rp_jq_program *p = opaque;
    static const char prefix[] = "jq: error: ";
    message = jq_format_error(message);
    if (p->complaint[0] == '\0' && jv_get_kind(message) == JV_KIND_STRING) {
        const char *text = jv_string_value(message);
        if (strncmp(text, prefix, sizeof prefix - 1) == 0)
            text += sizeof prefix - 1;
        (void)snprintf(p->complaint, sizeof p->complaint, "%.*s", (int)strcspn(text, "\n"), text);
    }
    jv_free(message);
}

static int compile(struct rp_jq_program *p, const char *text, struct rp_error *err)
{
    struct rp_buf all = {0};
    if (rp_json_put(&all, HEAD, err) != 0 || rp_json_put(&all, text, err) != 0 ||
        rp_buf_append(&all, TAIL, sizeof TAIL, err) != 0) {
        rp_buf_clear(&all);
        return -1;
    }
    int compiled = jq_compile(p->jq, (const char *)all.data);
    rp_buf_clear(&all);
    return compiled
               ? 0
               : rp_fail(err, RP_E_INVALID, RP_POISON, "the program is no jq: %s", p->complaint);
}

static jv no_input(jq_state *jq, void *opaque)
{
    (void)jq;
    (void)opaque;
    return jv_invalid_with_msg(jv_string("there is no input but the message"));
}

int rp_jq_program_new(const char *text, struct rp_jq_program **out, struct rp_error *err)
{
    struct rp_jq_program *p = calloc(1, sizeof *p);
    *out = NULL;
    if (p == NULL || (p->jq = jq_init()) == NULL) {
        free(p);
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for jq");
    }
    jq_set_error_cb(p->jq, keep_complaint, p);
    jq_set_input_cb(p->jq, no_input, NULL);
    jq_set_attr(p->jq, jv_string("JQ_LIBRARY_PATH"), jv_array());
    if (compile(p, text, err) != 0) {
        rp_jq_program_free(p);
        return -1;
    }
    *out = p;
    return 0;
}

void rp_jq_program_free(struct rp_jq_program *p)
{
    if (p == NULL)
        return;
    jq_teardown(&p->jq);
    free(p);
}

/* Changes half a surrogate pair in `json`. */
static int parse(struct rp_buf *json, jv *out, struct rp_error *err)
{
    if (json->len > INT_MAX)
        return rp_fail(err, RP_E_INVALID, RP_POISON, "%zu bytes are too many for jq", json->len);
    (void)rp_json_mend_surrogates((char *)json->data, json->len);
    *out = jv_parse_sized((const char *)json->data, (int)json->len);
    if (jv_is_valid(*out))
        return 0;
    jv message = jv_invalid_get_msg(*out);
    const char *why = jv_get_kind(message) == JV_KIND_STRING ? jv_string_value(message) : "no JSON";
    const char *end = strstr(why, " (while parsing"); /* the whole payload follows */
    (void)rp_fail(err, RP_E_INVALID, RP_POISON, "jq cannot read it: %.*s",
                  (int)(end == NULL ? strlen(why) : (size_t)(end - why)), why);
    jv_free(message);
    return -1;
}

static jv rounded(jv value);

static jv rounded_array(jv array)
{
    for (int i = 0, n = jv_array_length(jv_copy(array)); i < n; i++)
        array = jv_array_set(array, i, rounded(jv_array_get(jv_copy(array), i)));
    return array;
}

static jv rounded_object(jv object)
{
    jv all = jv_object();
    jv_object_foreach(object, key, value) all = jv_object_set(all, key, rounded(value));
    jv_free(object);
    return all;
}

/* The same value, its numbers doubles and nothing else: jq 1.7 keeps a number's digits until it
 * computes with it, and by its digits no stand-in ever equals the number it stands for. Takes
 * `value`. */
static jv rounded(jv value)
{
    switch (jv_get_kind(value)) {
    case JV_KIND_NUMBER: {
        jv number = jv_number(jv_number_value(value));
        jv_free(value);
        return number;
    }
    case JV_KIND_ARRAY:
        return rounded_array(value);
    case JV_KIND_OBJECT:
        return rounded_object(value);
    default:
        return value;
    }
}

/* Why there is no result. Takes `none`. */
static int fail(struct rp_jq_program *p, jv none, struct rp_error *err)
{
    bool says = jv_invalid_has_msg(jv_copy(none));
    jv message = jv_invalid_get_msg(none);
    if (jq_halted(p->jq))
        (void)rp_fail(err, RP_E_INVALID, RP_POISON, "the program halted");
    else if (!says)
        (void)rp_fail(err, RP_E_NOT_FOUND, RP_POISON, "the program gave nothing");
    else if (jv_get_kind(message) == JV_KIND_STRING)
        (void)rp_fail(err, RP_E_INVALID, RP_POISON, "the program failed: %s",
                      jv_string_value(message));
    else
        (void)rp_fail(err, RP_E_INVALID, RP_POISON, "the program failed");
    jv_free(message);
    return -1;
}

/* The one result of a run over [document, now]. Takes `input`. */
static int result_of(struct rp_jq_program *p, jv input, jv *out, struct rp_error *err)
{
    jq_start(p->jq, input, 0);
    jv first = jq_next(p->jq);
    if (!jv_is_valid(first))
        return fail(p, first, err);
    jv second = jq_next(p->jq);
    if (jv_is_valid(second)) {
        jv_free(first);
        jv_free(second);
        return rp_fail(err, RP_E_INVALID, RP_POISON, "the program gave more than one result");
    }
    if (jv_invalid_has_msg(jv_copy(second))) {
        jv_free(first);
        return fail(p, second, err);
    }
    jv_free(second);
    *out = first;
    return 0;
}

struct writer {
    const struct rp_stand_ins *stand_ins;
    int run, depth;
    struct rp_buf *out;
    struct rp_error *err;
};

/* A value of what went into the program, and its text; null where there is no such value. */
struct before {
    jv value; /* borrowed */
    struct rp_bytes text;
};

static int write_value(struct writer *w, jv value, struct before was);

static int write_number(struct writer *w, double value)
{
    char text[RP_NUMBER_TEXT];
    struct rp_bytes literal = rp_stand_ins_literal(w->stand_ins, value, w->run);
    if (literal.data != NULL)
        return rp_buf_append(w->out, literal.data, literal.len, w->err);
    if (!isfinite(value))
        return rp_fail(w->err, RP_E_INVALID, RP_POISON,
                       "the program gave %f, which JSON does not have", value);
    if (fabs(value) >= RP_SAFE_INTEGER)
        return rp_fail(w->err, RP_E_INVALID, RP_POISON,
                       "the program made the number %.17g, and jq rounds from 2^53 on; only a"
                       " number that is there can be copied",
                       value);
    return rp_json_put(w->out, rp_number_text(value, text), w->err);
}

static int write_string(struct writer *w, jv value)
{
    const struct rp_bytes text = {jv_string_value(value),
                                  (size_t)jv_string_length_bytes(jv_copy(value))};
    return rp_json_put_string(w->out, text, w->err);
}

/* Whether a name as it stood is this key, which we would write as `ours`. */
static int compare_name(struct writer *w, struct rp_bytes name, struct rp_bytes ours, jv key,
                        bool *same)
{
    struct rp_buf text = {0};
    jv value;
    *same = rp_bytes_equal(name, ours);
    if (*same ||
        (memchr(name.data, '\\', name.len) == NULL && memchr(ours.data, '\\', ours.len) == NULL))
        return 0;
    int rc = rp_buf_append(&text, name.data, name.len, w->err);
    if (rc == 0)
        rc = parse(&text, &value, w->err);
    *same = rc == 0 && jv_equal(value, jv_copy(key));
    rp_buf_clear(&text);
    return rc;
}

/* Finds a member's name and value as they stood, from where the last one was found, and once from
 * the beginning. A null `*text`: there is none. */
static int find_member(struct writer *w, struct rp_json_cursor *c, struct rp_bytes object, jv key,
                       struct rp_bytes ours, struct rp_bytes *name, struct rp_bytes *text)
{
    bool same;
    for (int round = 0; round < 2; round++) {
        while (rp_json_next(c, name, text)) {
            if (compare_name(w, *name, ours, key, &same) != 0)
                return -1;
            if (same)
                return 0;
        }
        rp_json_open(object, c);
    }
    *text = RP_NULL_BYTES;
    return 0;
}

/* Takes `key` and `value`. */
static int write_member(struct writer *w, jv key, jv value, struct before was,
                        struct rp_json_cursor *c)
{
    size_t from = w->out->len;
    struct before member = {jv_null(), RP_NULL_BYTES};
    int rc = write_string(w, key);
    if (rc == 0 && was.text.data != NULL && jv_object_has(jv_copy(was.value), jv_copy(key))) {
        const struct rp_bytes ours = {w->out->data + from, w->out->len - from};
        struct rp_bytes name;
        member.value = jv_object_get(jv_copy(was.value), jv_copy(key));
        rc = find_member(w, c, was.text, key, ours, &name, &member.text);
        if (rc == 0 && member.text.data != NULL) {
            w->out->len = from;
            rc = rp_buf_append(w->out, name.data, name.len, w->err);
        }
    }
    if (rc == 0)
        rc = rp_json_put(w->out, ":", w->err);
    if (rc == 0)
        rc = write_value(w, value, member);
    jv_free(member.value);
    jv_free(key);
    jv_free(value);
    return rc;
}

static int write_object(struct writer *w, jv object, struct before was)
{
    struct rp_json_cursor c;
    const char *comma = "{";
    if (jv_get_kind(was.value) != JV_KIND_OBJECT)
        was.text = RP_NULL_BYTES;
    rp_json_open(was.text.data == NULL ? rp_str("") : was.text, &c);
    for (int i = jv_object_iter(object); jv_object_iter_valid(object, i);
         i = jv_object_iter_next(object, i)) {
        if (rp_json_put(w->out, comma, w->err) != 0 ||
            write_member(w, jv_object_iter_key(object, i), jv_object_iter_value(object, i), was,
                         &c) != 0)
            return -1;
        comma = ",";
    }
    return rp_json_put(w->out, *comma == '{' ? "{}" : "}", w->err);
}

static int write_array(struct writer *w, jv array, struct before was)
{
    struct rp_json_cursor c;
    int n = jv_array_length(jv_copy(array)), rc = rp_json_put(w->out, "[", w->err);
    if (jv_get_kind(was.value) != JV_KIND_ARRAY)
        was.text = RP_NULL_BYTES;
    rp_json_open(was.text.data == NULL ? rp_str("") : was.text, &c);
    for (int i = 0; rc == 0 && i < n; i++) {
        struct rp_bytes name, text;
        struct before item = {jv_null(), RP_NULL_BYTES};
        if (rp_json_next(&c, &name, &text)) {
            item.text = text;
            item.value = jv_array_get(jv_copy(was.value), i);
        }
        jv value = jv_array_get(jv_copy(array), i);
        rc = i == 0 ? 0 : rp_json_put(w->out, ",", w->err);
        if (rc == 0)
            rc = write_value(w, value, item);
        jv_free(value);
        jv_free(item.value);
    }
    return rc != 0 ? -1 : rp_json_put(w->out, "]", w->err);
}

static int write_new(struct writer *w, jv value, struct before was)
{
    switch (jv_get_kind(value)) {
    case JV_KIND_NUMBER:
        return write_number(w, jv_number_value(value));
    case JV_KIND_STRING:
        return write_string(w, value);
    case JV_KIND_ARRAY:
        return write_array(w, value, was);
    case JV_KIND_OBJECT:
        return write_object(w, value, was);
    case JV_KIND_TRUE:
        return rp_json_put(w->out, "true", w->err);
    case JV_KIND_FALSE:
        return rp_json_put(w->out, "false", w->err);
    default:
        return rp_json_put(w->out, "null", w->err);
    }
}

/* What is as it was is written as it stood. */
static int write_value(struct writer *w, jv value, struct before was)
{
    if (w->depth == MAX_DEPTH)
        return rp_fail(w->err, RP_E_INVALID, RP_POISON, "the result nests deeper than %d",
                       MAX_DEPTH);
    if (was.text.data != NULL && jv_equal(jv_copy(value), jv_copy(was.value)))
        return rp_buf_append(w->out, was.text.data, was.text.len, w->err);
    w->depth++;
    int rc = write_new(w, value, was);
    w->depth--;
    return rc;
}

static int run_once(struct rp_jq_program *p, const struct rp_stand_ins *stand_ins,
                    struct rp_bytes json, int64_t now_ms, int run, struct rp_buf *out,
                    struct rp_error *err)
{
    struct rp_buf text = {0};
    jv before = jv_null(), after;
    int rc = rp_stand_ins_put(stand_ins, json, run, &text, err);
    if (rc == 0)
        rc = parse(&text, &before, err);
    rp_buf_clear(&text);
    if (rc != 0)
        return -1;
    if (stand_ins->n > 0)
        before = rounded(before);
    const jv now = jv_number((double)now_ms / 1000);
    rc = result_of(p, JV_ARRAY(jv_copy(before), now), &after, err);
    if (rc == 0) {
        struct writer w = {.stand_ins = stand_ins, .run = run, .out = out, .err = err};
        rc = write_value(&w, after, (struct before){before, json});
        jv_free(after);
    }
    jv_free(before);
    return rc;
}

/* Whether every further run gives what the first one gave. */
static bool runs_agree(struct rp_jq_program *p, const struct rp_stand_ins *stand_ins,
                       struct rp_bytes json, int64_t now_ms, const struct rp_error *first_err,
                       struct rp_bytes first)
{
    struct rp_buf again = {0};
    bool agree = true;
    for (int run = 1; agree && run < RP_STAND_IN_RUNS; run++) {
        struct rp_error err = {0};
        again.len = 0;
        (void)!run_once(p, stand_ins, json, now_ms, run, &again, &err);
        agree = err.code == first_err->code &&
                (err.code != RP_OK || rp_bytes_equal(first, rp_buf_bytes(&again)));
    }
    rp_buf_clear(&again);
    return agree;
}

static int run_all(struct rp_jq_program *p, const struct rp_stand_ins *stand_ins,
                   struct rp_bytes json, struct rp_buf *out, struct rp_error *err)
{
    const int64_t now_ms = rp_wall_ms();
    const size_t from = out->len;
    struct rp_error first = {0};
    int rc = run_once(p, stand_ins, json, now_ms, 0, out, &first);
    const void *written = out->data == NULL ? NULL : out->data + from;
    const struct rp_bytes result = {written, out->len - from};
    if (stand_ins->n > 0 && !runs_agree(p, stand_ins, json, now_ms, &first, result)) {
        const struct rp_bytes literal = stand_ins->items[0].literal;
        return rp_fail(err, RP_E_INVALID, RP_POISON,
                       "what the program gives depends on the value of a number that jq rounds,"
                       " such as %.*s; it can only be copied",
                       (int)(literal.len < 40 ? literal.len : 40), (const char *)literal.data);
    }
    return rc == 0 ? 0 : rp_fail_as(err, &first);
}

int rp_jq_program_run(struct rp_jq_program *p, struct rp_bytes json, struct rp_buf *out,
                      struct rp_error *err)
{
    struct rp_stand_ins stand_ins;
    int rc = rp_stand_ins_find(json, &stand_ins, err);
    if (rc == 0)
        rc = run_all(p, &stand_ins, json, out, err);
    rp_stand_ins_clear(&stand_ins);
    return rc;
}
