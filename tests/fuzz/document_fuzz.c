/* SPDX-License-Identifier: Apache-2.0 */
/* Messages as documents. The first byte says what is done with the rest: it is a payload that is
 * written and read back, the document that somebody made of another one, or a message from the
 * database; and how payloads are read. The registry is played. */
#include <assert.h>
#include <stdlib.h>

#include "avro_json.h"
#include "json_skeleton.h"
#include "json_text.h"
#include "message.h"
#include "registry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int __wrap_rp_registry_schema(struct rp_registry *registry, int32_t id, const char **out_json,
                              struct rp_error *err);

static const char order[] =
    "{\"type\":\"record\",\"name\":\"Order\",\"fields\":["
    "{\"name\":\"id\",\"type\":\"string\"},{\"name\":\"amount\",\"type\":\"double\"},"
    "{\"name\":\"n\",\"type\":[\"null\",\"int\",\"long\"]},{\"name\":\"raw\",\"type\":\"bytes\"},"
    "{\"name\":\"more\",\"type\":{\"type\":\"map\",\"values\":[\"null\",\"Order\",\"string\"]}}]}";
static const char order_json[] =
    "{\"id\":\"o-1\",\"amount\":10.5,\"n\":{\"int\":1},\"raw\":{\"base64\":\"AP8=\"},\"more\":{}}";

/* How payloads are read, and payloads of which a document is made. */
enum { NO_SCHEMA, ONE_SCHEMA, REGISTRY, N_READERS };
#define N_PAYLOADS 7

static struct world {
    struct rp_message_reader *readers[N_READERS];
    struct rp_buf avro, confluent;
    struct {
        struct rp_bytes bytes;
        int reader;
    } payloads[N_PAYLOADS];
} world;

static void must(int rc)
{
    if (rc != 0)
        abort();
}

int __wrap_rp_registry_schema(struct rp_registry *registry, int32_t id, const char **out_json,
                              struct rp_error *err)
{
    (void)registry;
    if (id == 3)
        return rp_fail(err, RP_E_IO, RP_RETRIABLE, "the registry is away");
    if (id != 1 && id != 2)
        return rp_fail(err, RP_E_NOT_FOUND, RP_POISON, "there is no schema %d", (int)id);
    *out_json = id == 1 ? order : "{";
    return 0;
}

static void make_world(struct world *w)
{
    static char registry;
    struct rp_schema schema;
    struct rp_error err;
    must(rp_message_reader_new(NULL, NULL, &w->readers[NO_SCHEMA], &err));
    must(rp_message_reader_new(NULL, NULL, &w->readers[ONE_SCHEMA], &err));
    must(rp_message_reader_schema(w->readers[ONE_SCHEMA], rp_str(order), &err));
    must(rp_message_reader_new(NULL, (struct rp_registry *)(void *)&registry, &w->readers[REGISTRY],
                               &err));
    must(rp_schema_parse(rp_str(order), &schema, &err));
    must(rp_buf_append(&w->confluent, "\0\0\0\0\1", 5, &err));
    must(rp_avro_from_json(&schema, rp_str(order_json), &w->confluent, &err));
    must(rp_avro_from_json(&schema, rp_str(order_json), &w->avro, &err));
    rp_schema_clear(&schema);
    w->payloads[0].bytes = RP_NULL_BYTES;
    w->payloads[1].bytes = rp_str("{\"amount\": 10.10}");
    w->payloads[2].bytes = rp_str("[1,\n 2]");
    w->payloads[3].bytes = rp_str("a text");
    w->payloads[4].bytes = rp_str("\xff");
    w->payloads[5].bytes = rp_buf_bytes(&w->avro);
    w->payloads[5].reader = ONE_SCHEMA;
    w->payloads[6].bytes = rp_buf_bytes(&w->confluent);
    w->payloads[6].reader = REGISTRY;
}

static void check_refused(const struct rp_error *err)
{
    assert(err->text[0] != '\0');
    assert(err->cls == RP_POISON && (err->code == RP_E_DECODE || err->code == RP_E_INVALID));
}

static void check_same(const struct rp_message *a, const struct rp_message *b)
{
    assert((a->target == NULL) == (b->target == NULL));
    assert(a->target == NULL || strcmp(a->target, b->target) == 0);
    assert(rp_bytes_equal(a->key, b->key) && a->n_headers == b->n_headers);
    for (size_t i = 0; i < a->n_headers; i++)
        assert(rp_bytes_equal(a->headers[i].key, b->headers[i].key) &&
               rp_bytes_equal(a->headers[i].value, b->headers[i].value));
    assert(rp_bytes_equal(a->payload, b->payload));
}

/* Whatever space is between its tokens, the document says the same. Only one that nests deeper than
 * the parser goes, since the payload alone just does not, is refused. */
static void check_reads(const struct rp_document *d, struct rp_bytes text,
                        const struct rp_message *m)
{
    struct rp_arena arena = {0};
    struct rp_message back;
    struct rp_error err;
    if (rp_document_read(d, text, m, &arena, &back, &err) == 0)
        check_same(m, &back);
    else
        assert(d->form == RP_PAYLOAD_JSON && strstr(err.text, "maximum parsing depth") != NULL);
    rp_arena_clear(&arena);
}

static void check_document(const struct rp_document *d, const struct rp_message *m)
{
    struct rp_buf pretty = {0}, compact = {0};
    struct rp_bytes text = rp_buf_bytes(&d->text);
    check_reads(d, text, m);
    must(rp_json_pretty(&pretty, text, "", NULL));
    check_reads(d, rp_buf_bytes(&pretty), m);
    must(rp_json_compact(&compact, text, NULL));
    check_reads(d, rp_buf_bytes(&compact), m);
    rp_buf_clear(&pretty);
    rp_buf_clear(&compact);
}

/* The bytes as a payload, a key, a header's value and, where it can be, a header's name. */
static void trip(struct rp_message_reader *reader, struct rp_bytes bytes)
{
    const bool is_name = bytes.len > 0 && memchr(bytes.data, '\0', bytes.len) == NULL;
    const struct rp_header headers[] = {{rp_str("trace"), bytes},
                                        {is_name ? bytes : rp_str(""), RP_NULL_BYTES}};
    const struct rp_message m = {"orders", bytes, bytes, headers, 2};
    struct rp_document document;
    struct rp_error err;
    if (rp_document_write(reader, &m, "{\"id\": 1}", &document, &err) != 0) {
        if (err.cls != RP_RETRIABLE || err.code != RP_E_IO)
            check_refused(&err);
        return;
    }
    check_document(&document, &m);
    rp_document_clear(&document);
}

/* It can be sent, and be edited again. */
static void check_edited(struct rp_message_reader *reader, enum rp_payload_form form,
                         const struct rp_message *m)
{
    struct rp_document document;
    struct rp_error err;
    assert(m->target == NULL || m->target[0] != '\0');
    for (size_t i = 0; i < m->n_headers; i++)
        assert(m->headers[i].key.data != NULL &&
               memchr(m->headers[i].key.data, '\0', m->headers[i].key.len) == NULL);
    must(rp_document_write(reader, m, NULL, &document, &err));
    assert((form != RP_PAYLOAD_JSON && form != RP_PAYLOAD_AVRO) || document.form == form);
    check_document(&document, m);
    rp_document_clear(&document);
}

static void read_edited(struct rp_message_reader *reader, const struct rp_document *d,
                        struct rp_bytes text, const struct rp_message *m)
{
    struct rp_arena arena = {0};
    struct rp_message edited;
    struct rp_error err;
    if (rp_document_read(d, text, m, &arena, &edited, &err) == 0)
        check_edited(reader, d->form, &edited);
    else
        check_refused(&err);
    rp_arena_clear(&arena);
}

/* The bytes are the document that comes back, and its payload alone. */
static void edit(size_t which, struct rp_bytes bytes)
{
    struct rp_message_reader *reader = world.readers[world.payloads[which].reader];
    const struct rp_message m = {.key = {"k", 1}, .payload = world.payloads[which].bytes};
    struct rp_document document;
    struct rp_buf text = {0};
    must(rp_document_write(reader, &m, "{\"id\": 1}", &document, NULL));
    read_edited(reader, &document, bytes, &m);
    must(rp_json_put(&text, "{\"target\":null,\"key\":\"k\",\"headers\":[],\"payload\":", NULL));
    if (bytes.len > 0)
        must(rp_buf_append(&text, bytes.data, bytes.len, NULL));
    must(rp_json_put(&text, "}", NULL));
    read_edited(reader, &document, rp_buf_bytes(&text), &m);
    rp_buf_clear(&text);
    rp_document_clear(&document);
}

static void unpack(struct rp_bytes bytes)
{
    struct rp_arena arena = {0};
    struct rp_buf packed = {0};
    struct rp_message m, again;
    struct rp_error err;
    if (rp_message_unpack(bytes, &arena, &m, &err) == 0) {
        must(rp_message_pack(&m, &packed, &err));
        must(rp_message_unpack(rp_buf_bytes(&packed), &arena, &again, &err));
        check_same(&m, &again);
    } else {
        assert(err.cls == RP_POISON && err.code == RP_E_DECODE && err.text[0] != '\0');
    }
    rp_buf_clear(&packed);
    rp_arena_clear(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (world.readers[0] == NULL)
        make_world(&world);
    if (size == 0)
        return 0;
    const struct rp_bytes rest = {data + 1, size - 1};
    const size_t which = data[0] % (N_READERS + N_PAYLOADS + 1);
    if (which < N_READERS)
        trip(world.readers[which], rest);
    else if (which < N_READERS + N_PAYLOADS)
        edit(which - N_READERS, rest);
    else
        unpack(rest);
    return 0;
}
