/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever reads and writes tasks, while memory runs out: what came from outside is never blamed
 * for it, so no event becomes a dead letter by it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "avro_json.h"
#include "codec.h"
#include "codec_fixture.h"
#include "json_text.h"
#include "memory_fixture.h"
#include "message.h"
#include "metrics.h"
#include "plan.h"
#include "reinvoke.h"
#include "sent.h"
#include "stand_ins.h"

static struct rp_buf out;

static void must(int rc, const struct rp_error *err)
{
    if (rc != 0)
        fail_msg("%s", err->text);
}

static int encode_letter(struct rp_error *err)
{
    struct rp_dead_letter letter = sample_letter();
    rp_buf_clear(&out);
    return rp_dead_letter_encode(&letter, &out, err);
}

static int encode_task(struct rp_error *err)
{
    struct rp_failed_task task = sample_task();
    rp_buf_clear(&out);
    return rp_failed_task_encode(&task, &out, err);
}

static struct rp_bytes value;

static int decode_task(struct rp_error *err)
{
    struct rp_codec *codec;
    struct rp_arena arena = {0};
    struct rp_failed_task task;
    int rc = rp_codec_new(NULL, &codec, err);
    if (rc == 0) {
        rc = rp_codec_decode_task(codec, value, &arena, &task, err);
        rp_codec_free(codec);
    }
    rp_arena_clear(&arena);
    return rc;
}

static int decode_letter(struct rp_error *err)
{
    struct rp_codec *codec;
    struct rp_arena arena = {0};
    struct rp_dead_letter letter;
    int rc = rp_codec_new(NULL, &codec, err);
    if (rc == 0) {
        rc = rp_codec_decode_dead_letter(codec, value, &arena, &letter, err);
        rp_codec_free(codec);
    }
    rp_arena_clear(&arena);
    return rc;
}

static void a_task_is_written_whole_or_not_at_all(void **state)
{
    (void)state;
    assert_true(starve(encode_task) > 0);
    assert_true(starve(encode_letter) > 0);
    rp_buf_clear(&out);
}

static void a_task_that_cannot_be_read_now_is_not_undecodable(void **state)
{
    (void)state;
    struct rp_error err;
    must(encode_task(&err), &err);
    value = rp_buf_bytes(&out);
    assert_true(starve(decode_task) > 10);
    value = (struct rp_bytes){out.data + 10, out.len - 10}; /* bare */
    assert_true(starve(decode_task) > 10);
    must(encode_letter(&err), &err);
    value = rp_buf_bytes(&out);
    assert_true(starve(decode_letter) > 10);
    value = rp_str("{\"task_id\": \"t\\u0031\", \"task_type\": \"a\\n\", \"attempt\": \"1\", "
                   "\"payload_json\": {\"a\": [1, \"b\"]}, \"key\": \"AP8=\", "
                   "\"headers\": [{\"key\": \"k\", \"value\": \"AP8=\"}, {\"key\": \"\\\"\"}], "
                   "\"error\": {\"class\": \"E\", \"message\": \"m\", \"causes\": ["
                   "{\"class\": \"C\", \"message\": \"\\t\"}]}, \"source\": \"s\", "
                   "\"failed_at\": \"2026-11-21T03:34:33Z\"}");
    assert_true(starve(decode_task) > 10);
    value = rp_str("{\"task_id\": \"\\ud83d\", \"task_type\": \"a\", \"attempt\": 1, "
                   "\"error\": {\"class\": \"E\", \"message\": \"m\"}, \"source\": \"s\", "
                   "\"failed_at\": 0}"); /* mended in a copy */
    assert_true(starve(decode_task) > 10);
    rp_buf_clear(&out);
}

/* All types, a type that is named again, a union whose branches JSON does not tell apart. */
static const char schema_json[] =
    "{\"type\":\"record\",\"name\":\"R\",\"namespace\":\"a.b\",\"doc\":\"d\",\"fields\":["
    "{\"name\":\"n\",\"type\":\"null\"},{\"name\":\"b\",\"type\":\"boolean\"},"
    "{\"name\":\"i\",\"type\":\"int\"},{\"name\":\"l\",\"type\":\"long\"},"
    "{\"name\":\"f\",\"type\":\"float\"},{\"name\":\"d\",\"type\":\"double\"},"
    "{\"name\":\"s\",\"type\":\"string\"},{\"name\":\"y\",\"type\":\"bytes\"},"
    "{\"name\":\"x\",\"type\":{\"type\":\"fixed\",\"name\":\"F\",\"size\":2}},"
    "{\"name\":\"x2\",\"type\":\"F\"},"
    "{\"name\":\"e\",\"type\":{\"type\":\"enum\",\"name\":\"E\",\"symbols\":[\"A\",\"B\"]}},"
    "{\"name\":\"a\",\"type\":{\"type\":\"array\",\"items\":\"int\"}},"
    "{\"name\":\"m\",\"type\":{\"type\":\"map\",\"values\":\"string\"}},"
    "{\"name\":\"u\",\"type\":[\"null\",\"int\",\"long\"]},"
    "{\"name\":\"next\",\"type\":[\"null\",\"R\"]}]}";
#define INNER                                                                                      \
    "{\"n\":null,\"b\":true,\"i\":1,\"l\":2,\"f\":1.5,\"d\":\"NaN\",\"s\":\"a\\nb\","              \
    "\"y\":{\"base64\": \"AP8=\"},\"x\":{\"base64\": \"AP8=\"},\"x2\":{\"base64\": \"AP8=\"},"     \
    "\"e\":\"B\",\"a\":[1,2,3],\"m\":{\"k\":\"v\",\"l\":\"w\"},\"u\":{\"long\":7},\"next\":"
#define AVRO_JSON INNER INNER "null}}"

static struct rp_schema schema;

static int read_avro(struct rp_error *err)
{
    struct rp_buf avro = {0}, text = {0};
    int rc = rp_avro_from_json(&schema, rp_str(AVRO_JSON), &avro, err);
    if (rc == 0)
        rc = rp_avro_to_json(&schema, rp_buf_bytes(&avro), 0, &text, err);
    if (rc == 0)
        assert_bytes_equal(rp_buf_bytes(&text), rp_str(AVRO_JSON));
    rp_buf_clear(&avro);
    rp_buf_clear(&text);
    return rc;
}

static int parse_schema(struct rp_error *err)
{
    struct rp_schema s;
    uint64_t fingerprint;
    int rc = rp_schema_parse(rp_str(schema_json), &s, err);
    if (rc == 0) {
        rc = rp_schema_fingerprint(s.root, &fingerprint, err);
        rp_schema_clear(&s);
    }
    return rc;
}

static void avro_becomes_json_and_back_or_fails(void **state)
{
    (void)state;
    struct rp_error err;
    must(rp_schema_parse(rp_str(schema_json), &schema, &err), &err);
    assert_true(starve(read_avro) > 50);
    rp_schema_clear(&schema);
}

static void a_schema_is_good_or_there_is_no_memory_for_it(void **state)
{
    (void)state;
    assert_true(starve(parse_schema) > 20);
}

static struct rp_message_reader *reader;
static struct rp_message message;
static const char *change_from, *change_to;

/* Writes it, changes a word and reads it back. */
static int edit(struct rp_error *err)
{
    struct rp_document document;
    struct rp_arena arena = {0};
    struct rp_message edited;
    static char text[2000];
    if (rp_document_write(reader, &message, "{\"id\": 1}", &document, err) != 0)
        return -1;
    char *at = memmem(document.text.data, document.text.len, change_from, strlen(change_from));
    assert_non_null(at);
    int before = (int)(at - (char *)document.text.data);
    (void)snprintf(text, sizeof text, "%.*s%s%.*s", before, (char *)document.text.data, change_to,
                   (int)document.text.len - before - (int)strlen(change_from),
                   at + strlen(change_from));
    int rc = rp_document_read(&document, rp_str(text), &message, &arena, &edited, err);
    if (rc == 0)
        assert_int_equal(edited.n_headers, message.n_headers);
    rp_document_clear(&document);
    rp_arena_clear(&arena);
    return rc;
}

static int pack(struct rp_error *err)
{
    struct rp_arena arena = {0};
    struct rp_message back;
    rp_buf_clear(&out);
    int rc = rp_message_pack(&message, &out, err);
    if (rc == 0)
        rc = rp_message_unpack(rp_buf_bytes(&out), &arena, &back, err);
    if (rc == 0) {
        assert_bytes_equal(back.payload, message.payload);
        assert_bytes_equal(back.headers[0].value, message.headers[0].value);
    }
    rp_arena_clear(&arena);
    rp_buf_clear(&out);
    return rc;
}

static void a_message_is_edited_whole_or_not_at_all(void **state)
{
    (void)state;
    struct rp_error err;
    struct rp_failed_task task = sample_task();
    struct rp_buf avro = {0};
    must(rp_message_reader_new(NULL, NULL, &reader, &err), &err);
    message = (struct rp_message){"orders", rp_str("k"), rp_str("{\"a\": 1}"), task.headers,
                                  task.n_headers};
    change_from = "{\"a\": 1}";
    change_to = "{\"a\":\n2}";
    assert_true(starve(edit) > 20);
    assert_true(starve(pack) > 20);
    message.payload = rp_str("text");
    change_from = "\"text\"";
    change_to = "\"a\\nb\"";
    assert_true(starve(edit) > 20);
    message.payload = (struct rp_bytes){"\x00\xff", 2};
    change_from = "AP8=";
    change_to = "/wA=";
    assert_true(starve(edit) > 20);
    must(rp_schema_parse(rp_str(schema_json), &schema, &err), &err);
    must(rp_message_reader_schema(reader, rp_str(schema_json), &err), &err);
    must(rp_avro_from_json(&schema, rp_str(AVRO_JSON), &avro, &err), &err);
    message.payload = rp_buf_bytes(&avro);
    change_from = "\"i\":1";
    change_to = "\"i\":2";
    assert_true(starve(edit) > 50);
    rp_buf_clear(&avro);
    rp_schema_clear(&schema);
    rp_message_reader_free(reader);
}

static int make_reader(struct rp_error *err)
{
    struct rp_message_reader *r;
    int rc = rp_message_reader_new(NULL, NULL, &r, err);
    if (rc == 0) {
        rc = rp_message_reader_schema(r, rp_str(schema_json), err);
        rp_message_reader_free(r);
    }
    return rc;
}

static void a_reader_has_its_schema_or_is_not_made(void **state)
{
    (void)state;
    assert_true(starve(make_reader) > 20);
}

static int lay_out(struct rp_error *err)
{
    static const char json[] = " {\"a\\\"\": [1, {}, []], \"b\" :\t\"\\u00e4\" }\n";
    struct rp_buf pretty = {0}, compact = {0};
    int rc = rp_json_pretty(&pretty, rp_str(json), "", err);
    if (rc == 0)
        rc = rp_json_compact(&compact, rp_buf_bytes(&pretty), err);
    if (rc == 0)
        assert_bytes_equal(rp_buf_bytes(&compact),
                           rp_str("{\"a\\\"\":[1,{},[]],\"b\":\"\\u00e4\"}"));
    rp_buf_clear(&pretty);
    rp_buf_clear(&compact);
    return rc;
}

static int put_texts(struct rp_error *err)
{
    struct rp_buf b = {0};
    int rc = rp_json_put_bytes(&b, rp_str("a\"b\001c"), err);
    if (rc == 0)
        rc = rp_json_put_bytes(&b, (struct rp_bytes){"\xff", 1}, err);
    if (rc == 0)
        rc = rp_json_put_bytes(&b, RP_NULL_BYTES, err);
    if (rc == 0)
        assert_bytes_equal(rp_buf_bytes(&b),
                           rp_str("\"a\\\"b\\u0001c\"{\"base64\": \"/w==\"}null"));
    rp_buf_clear(&b);
    return rc;
}

static void json_is_written_whole_or_fails(void **state)
{
    (void)state;
    assert_true(starve(lay_out) > 20);
    assert_true(starve(put_texts) > 8);
}

static int stand_in(struct rp_error *err)
{
    static const char json[] = "[9007199254740993, 1, 1e400, \"2\"]";
    struct rp_stand_ins s;
    struct rp_buf b = {0};
    int rc = rp_stand_ins_find(rp_str(json), &s, err);
    if (rc == 0)
        rc = rp_stand_ins_put(&s, rp_str(json), 0, &b, err);
    rp_stand_ins_clear(&s);
    rp_buf_clear(&b);
    return rc;
}

static void numbers_have_stand_ins_or_there_is_no_memory(void **state)
{
    (void)state;
    assert_true(starve(stand_in) > 5);
}

static int make_headers(struct rp_error *err)
{
    struct rp_failed_task task = sample_task();
    struct rp_passage passage = {.task_id = task.task_id,
                                 .attempt = 2,
                                 .due_ms = 5,
                                 .first_failed_at_ms = 4,
                                 .target = rp_str("t"),
                                 .policy = rp_str("p"),
                                 .replay_id = rp_str("r"),
                                 .fallback = true};
    struct rp_arena arena = {0};
    const struct rp_header *headers;
    size_t n;
    int rc = rp_target_headers(&passage, &task, &arena, &headers, &n, err);
    if (rc == 0)
        rc = rp_tier_headers(&passage, &arena, &headers, &n, err);
    rp_arena_clear(&arena);
    return rc;
}

static void a_record_has_all_its_headers_or_is_not_made(void **state)
{
    (void)state;
    assert_true(starve(make_headers) >= 2);
}

static int mark_sent(struct rp_error *err)
{
    struct rp_sent sent = {0};
    int rc = 0;
    for (int64_t offset = 0; rc == 0 && offset < 1000; offset++)
        rc = rp_sent_add(&sent, "t", 0, offset, err);
    if (rc == 0)
        assert_true(rp_sent_has(&sent, "t", 0, 999));
    rp_sent_clear(&sent);
    return rc;
}

static void what_was_sent_is_remembered_or_that_fails(void **state)
{
    (void)state;
    assert_true(starve(mark_sent) >= 1);
}

/* A family that there is no memory for is not shown, and counts all the same. */
static void metrics_do_without_memory(void **state)
{
    (void)state;
    static const double bounds[] = {0.1, 1};
    struct rp_error err;
    bool ended = false;
    for (int n = 1; !ended; n++) {
        struct rp_buf text = {0};
        memory_fail_at(n);
        struct rp_metrics *m = rp_metrics_new();
        if (m == NULL)
            continue;
        struct rp_family *f = rp_metrics_family(m, RP_COUNTER, "n_total", "H.", "a,b", 2, NULL, 0);
        struct rp_family *h = rp_metrics_family(m, RP_HISTOGRAM, "h", "H.", "", 1, bounds, 2);
        struct rp_series *s =
            rp_family_series(f, (struct rp_bytes[]){rp_str("x"), rp_str("\"y\"")});
        rp_series_add(s, 2);
        rp_series_observe(rp_family_series(h, NULL), 0.5);
        assert_true(rp_series_value(s) >= 2);
        int rc = rp_metrics_write(m, &text, &err);
        ended = !memory_failed();
        memory_fail_at(0);
        assert_true(rc == 0 || err.code == RP_E_NOMEM);
        if (ended) {
            assert_non_null(memmem(text.data, text.len, "n_total{a=\"x\",b=\"\\\"y\\\"\"} 2", 26));
            assert_non_null(memmem(text.data, text.len, "h_bucket{le=\"1\"} 1", 18));
        }
        rp_buf_clear(&text);
        rp_metrics_free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_is_written_whole_or_not_at_all),
        cmocka_unit_test(a_task_that_cannot_be_read_now_is_not_undecodable),
        cmocka_unit_test(avro_becomes_json_and_back_or_fails),
        cmocka_unit_test(a_schema_is_good_or_there_is_no_memory_for_it),
        cmocka_unit_test(a_message_is_edited_whole_or_not_at_all),
        cmocka_unit_test(a_reader_has_its_schema_or_is_not_made),
        cmocka_unit_test(json_is_written_whole_or_fails),
        cmocka_unit_test(numbers_have_stand_ins_or_there_is_no_memory),
        cmocka_unit_test(a_record_has_all_its_headers_or_is_not_made),
        cmocka_unit_test(what_was_sent_is_remembered_or_that_fails),
        cmocka_unit_test(metrics_do_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
