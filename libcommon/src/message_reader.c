/* SPDX-License-Identifier: Apache-2.0 */
#include "message_reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "avro_json.h"
#include "json_skeleton.h"
#include "registry.h"
#include "utf8.h"

#define CONFLUENT_BYTES 5 /* 00 and the schema's id */

/* A schema of the registry. */
struct known_id {
    uint32_t id;
    struct rp_schema schema;
    struct known_id *next;
};

struct rp_message_reader {
    struct rp_registry *registry;
    struct rp_schema file_schema; /* root NULL: none is given */
    uint64_t fingerprint;
    struct known_id *known;
};

int rp_message_reader_schema(struct rp_message_reader *reader, struct rp_bytes json,
                             struct rp_error *err)
{
    rp_schema_clear(&reader->file_schema);
    if (rp_schema_parse(json, &reader->file_schema, err) != 0)
        return -1;
    return rp_schema_fingerprint(reader->file_schema.root, &reader->fingerprint, err);
}

static int load_file(struct rp_message_reader *reader, const char *path, struct rp_error *err)
{
    char *text = malloc(RP_SCHEMA_MAX_BYTES + 1);
    FILE *in = fopen(path, "rbe");
    int rc = -1;
    if (text == NULL)
        (void)rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a schema");
    else if (in == NULL)
        (void)rp_fail(err, RP_E_IO, RP_POISON, "%s: %s", path, strerror(errno));
    else {
        size_t n = fread(text, 1, RP_SCHEMA_MAX_BYTES + 1, in);
        rc = rp_message_reader_schema(reader, (struct rp_bytes){text, n}, err);
        if (rc != 0)
            (void)rp_fail_in(err, "%s", path);
    }
    if (in != NULL)
        (void)fclose(in);
    free(text);
    return rc;
}

int rp_message_reader_new(const char *schema_file, struct rp_registry *registry,
                          struct rp_message_reader **out, struct rp_error *err)
{
    struct rp_message_reader *reader = calloc(1, sizeof *reader);
    *out = NULL;
    if (reader == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a reader of messages");
    reader->registry = registry;
    if (schema_file != NULL && load_file(reader, schema_file, err) != 0) {
        rp_message_reader_free(reader);
        return -1;
    }
    *out = reader;
    return 0;
}

void rp_message_reader_free(struct rp_message_reader *reader)
{
    if (reader == NULL)
        return;
    while (reader->known != NULL) {
        struct known_id *k = reader->known;
        reader->known = k->next;
        rp_schema_clear(&k->schema);
        free(k);
    }
    rp_schema_clear(&reader->file_schema);
    free(reader);
}

/* A registry that does not answer at once is waited for: nobody else waits for us. */
#define REGISTRY_WAIT_MS 10000
#define REGISTRY_STEP_MS 50

static int ask_registry(struct rp_registry *registry, uint32_t id, const char **json,
                        struct rp_error *err)
{
    const struct timespec step = {.tv_nsec = REGISTRY_STEP_MS * 1000000L};
    for (int waited_ms = 0;; waited_ms += REGISTRY_STEP_MS) {
        if (rp_registry_schema(registry, (int32_t)id, json, err) == 0)
            return 0;
        if (err->code != RP_E_TIMEOUT || waited_ms >= REGISTRY_WAIT_MS)
            return -1;
        (void)nanosleep(&step, NULL);
    }
}

/* The schema of an id; `*out` NULL: there is no such Avro schema. */
static int find_id(struct rp_message_reader *reader, uint32_t id, const struct rp_schema **out,
                   struct rp_error *err)
{
    const char *json;
    struct rp_error why = {0};
    struct known_id *k = reader->known;
    while (k != NULL && k->id != id)
        k = k->next;
    *out = k == NULL ? NULL : &k->schema;
    if (k != NULL)
        return 0;
    k = calloc(1, sizeof *k);
    if (k == NULL)
        return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a schema");
    k->id = id;
    if (ask_registry(reader->registry, id, &json, &why) != 0 ||
        rp_schema_parse(rp_str(json), &k->schema, &why) != 0) {
        free(k);
        return why.cls == RP_POISON ? 0 : rp_fail_as(err, &why);
    }
    k->next = reader->known;
    reader->known = k;
    *out = &k->schema;
    return 0;
}

static bool has_fingerprint(const uint8_t *p, size_t len, uint64_t fingerprint)
{
    if (len < 10 || p[0] != 0xC3 || p[1] != 0x01)
        return false;
    for (int i = 0; i < 8; i++)
        if (p[2 + i] != (uint8_t)(fingerprint >> (8 * i)))
            return false;
    return true;
}

static bool may_be_confluent(struct rp_bytes payload)
{
    return payload.len > CONFLUENT_BYTES && *(const uint8_t *)payload.data == 0x00;
}

/* Whether all that is behind the prefix is one value of the schema. */
static int is_value(const struct rp_schema *schema, struct rp_bytes payload, size_t prefix,
                    bool *out, struct rp_error *err)
{
    struct rp_buf json = {0};
    struct rp_error why;
    *out = rp_avro_to_json(schema, payload, prefix, &json, &why) == 0;
    rp_buf_clear(&json);
    return *out || why.code != RP_E_NOMEM ? 0 : rp_fail_as(err, &why);
}

/* Bare Avro may begin with 00, too: what is a value as it stands is taken for one, as is what is
 * none either way, so that it is said why. */
static int find_prefix(const struct rp_message_reader *reader, struct rp_bytes payload,
                       size_t *prefix, struct rp_error *err)
{
    const struct rp_schema *schema = &reader->file_schema;
    bool is_bare, is_framed = false;
    *prefix = has_fingerprint(payload.data, payload.len, reader->fingerprint) ? 10 : 0;
    if (!may_be_confluent(payload))
        return 0;
    if (is_value(schema, payload, 0, &is_bare, err) != 0 ||
        (!is_bare && is_value(schema, payload, CONFLUENT_BYTES, &is_framed, err) != 0))
        return -1;
    *prefix = is_framed ? CONFLUENT_BYTES : 0;
    return 0;
}

/* A schema file is of all payloads: whoever names one knows. */
static int find_schema(struct rp_message_reader *reader, struct rp_bytes payload,
                       const struct rp_schema **schema, size_t *prefix, struct rp_error *err)
{
    const uint8_t *p = payload.data;
    if (reader->registry != NULL && may_be_confluent(payload)) {
        uint32_t id = (uint32_t)p[1] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 8 | p[4];
        *prefix = CONFLUENT_BYTES;
        if (id <= INT32_MAX && find_id(reader, id, schema, err) != 0)
            return -1;
    }
    if (*schema != NULL || reader->file_schema.root == NULL)
        return 0;
    *schema = &reader->file_schema;
    return find_prefix(reader, payload, prefix, err);
}

int rp_payload_form_of(struct rp_message_reader *reader, struct rp_bytes payload,
                       enum rp_payload_form *form, const struct rp_schema **schema, size_t *prefix,
                       struct rp_error *err)
{
    *schema = NULL;
    *prefix = 0;
    *form = RP_PAYLOAD_NULL;
    if (payload.data == NULL)
        return 0;
    if (find_schema(reader, payload, schema, prefix, err) != 0)
        return -1;
    *form = RP_PAYLOAD_AVRO;
    if (*schema != NULL)
        return 0;
    *prefix = 0;
    *form = RP_PAYLOAD_BYTES;
    if (!rp_utf8_valid(payload))
        return 0;
    struct rp_error why;
    json_t *json = rp_json_skeleton(payload, NULL, &why);
    *form = json != NULL ? RP_PAYLOAD_JSON : RP_PAYLOAD_TEXT;
    if (json == NULL && why.code == RP_E_NOMEM)
        return rp_fail_as(err, &why);
    json_decref(json);
    return 0;
}
