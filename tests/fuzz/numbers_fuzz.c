/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of any numbers. What we call JSON is what jansson takes once its numbers are such that a
 * double holds them; and each number that a double cannot stand for has its stand-in in each run.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "json_number.h"
#include "json_skeleton.h"
#include "json_span.h"
#include "json_text.h"
#include "stand_ins.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int rc)
{
    if (rc != 0)
        abort();
}

/* jansson passes over a NUL behind a number. */
static bool is_plain_json(struct rp_bytes text)
{
    json_t *json = json_loadb(text.data, text.len,
                              JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    json_decref(json);
    return json != NULL && memchr(text.data, '\0', text.len) == NULL;
}

static bool is_json(struct rp_bytes text)
{
    struct rp_error why;
    bool fragile;
    json_t *json = rp_json_skeleton(text, &fragile, &why);
    assert(json != NULL || (why.code == RP_E_DECODE && why.cls == RP_POISON));
    json_decref(json);
    return json != NULL;
}

/* With surrogates and NULs that a parser takes, and where `tame`, numbers. */
static bool is_json_once_mended(struct rp_bytes text, bool tame)
{
    struct rp_buf copy = {0};
    must(rp_buf_append(&copy, text.data, text.len, NULL));
    if (tame)
        (void)rp_json_tame_numbers((char *)copy.data, copy.len);
    (void)rp_json_mend((char *)copy.data, copy.len);
    bool is = is_plain_json(rp_buf_bytes(&copy));
    rp_buf_clear(&copy);
    return is;
}

static void check_spaces(struct rp_bytes json)
{
    struct rp_buf pretty = {0}, compact = {0}, again = {0};
    must(rp_json_pretty(&pretty, json, "", NULL));
    must(rp_json_compact(&compact, json, NULL));
    must(rp_json_compact(&again, rp_buf_bytes(&pretty), NULL));
    assert(rp_bytes_equal(rp_buf_bytes(&compact), rp_buf_bytes(&again)));
    assert(is_json(rp_buf_bytes(&compact)) && is_json(rp_buf_bytes(&pretty)));
    rp_buf_clear(&pretty);
    rp_buf_clear(&compact);
    rp_buf_clear(&again);
}

static bool is_safe(const struct rp_stand_ins *s, double value)
{
    for (size_t i = 0; i < s->n_safe; i++)
        if (s->safe[i] == value)
            return true;
    return false;
}

static void check_run(const struct rp_stand_ins *s, struct rp_bytes json, int run)
{
    struct rp_buf text = {0};
    double last = -(double)INFINITY;
    for (size_t i = 0; i < s->n; i++) {
        double value = s->items[i].values[run];
        assert(isfinite(value) && value > last && !is_safe(s, value));
        assert(rp_stand_ins_literal(s, value, run).data == s->items[i].literal.data);
        for (int other = 0; other < run; other++)
            assert(s->items[i].values[other] != value);
        last = value;
    }
    must(rp_stand_ins_put(s, json, run, &text, NULL));
    assert(is_json_once_mended(rp_buf_bytes(&text), false));
    rp_buf_clear(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct rp_bytes text = {data, size};
    struct rp_stand_ins s;
    if (size == 0)
        return 0;
    const bool is = is_json(text);
    assert(is == is_json_once_mended(text, true) && (is || !is_plain_json(text)));
    if (!is)
        return 0;
    check_spaces(text);
    must(rp_stand_ins_find(text, &s, NULL));
    for (int run = 0; run < RP_STAND_IN_RUNS; run++)
        check_run(&s, text, run);
    rp_stand_ins_clear(&s);
    return 0;
}
