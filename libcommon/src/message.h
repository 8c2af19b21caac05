/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_MESSAGE_H
#define REPRISE_MESSAGE_H

#include "arena.h"
#include "reprise/task.h"

struct rp_registry;

/* What a replay sends to a target. Borrowed. */
struct rp_message {
    const char *target;           /* NULL: none is named */
    struct rp_bytes key, payload; /* may be null */
    const struct rp_header *headers;
    size_t n_headers;
};

/* A message as a JSON document that people edit and programs transform:
 *
 *     {"target": "orders", "key": "k-1", "headers": [{"key": "trace", "value": "abc"}, ...],
 *      "payload": {"amount": 10.10}}
 *
 * Headers keep their order, those that come twice and null values. Key and header values are
 * strings where they are UTF-8, else {"base64": "AP8="}. What the payload becomes depends on what
 * it is:
 *   JSON   itself, token for token
 *   Avro   of a known schema: JSON, where bytes and fixed are {"base64": ...}, and a value of a
 *          union of two types or more that JSON cannot tell apart is {"type": value}
 *   text   a string
 *   bytes  {"base64": ...}
 *   null   null
 * A document that was read back keeps the form: JSON stays JSON, and Avro is written by the same
 * schema behind the same prefix. A payload whose JSON is as it was keeps its bytes. */

/* How to read payloads that are Avro. One thread. */
struct rp_message_reader;

/* `schema_file`: the schema of all payloads; NULL: none. They are bare, single-object, or in the
 * Confluent format with an id that the registry does not know. What begins with 00 and is a whole
 * value is bare.
 * `registry`: for payloads in the Confluent format; borrowed, may be NULL.
 * Fails with RP_E_IO or RP_E_SCHEMA (POISON) when the file cannot be used. */
RP_NODISCARD int rp_message_reader_new(const char *schema_file, struct rp_registry *registry,
                                       struct rp_message_reader **out, struct rp_error *err);
/* The same as a schema file, by its text. */
RP_NODISCARD int rp_message_reader_schema(struct rp_message_reader *reader, struct rp_bytes json,
                                          struct rp_error *err);
void rp_message_reader_free(struct rp_message_reader *reader);

/* What a payload is. "json", "avro", "text", "bytes" and "null" to people. */
enum rp_payload_form {
    RP_PAYLOAD_NULL,
    RP_PAYLOAD_JSON,
    RP_PAYLOAD_AVRO,
    RP_PAYLOAD_TEXT,
    RP_PAYLOAD_BYTES,
};

/* A message's document, and what it takes to read it back. Borrows from the message and the
 * reader; the text is owned. */
struct rp_document {
    struct rp_buf text;
    struct rp_bytes payload; /* its part of `text` as it was written first */
    enum rp_payload_form form;
    size_t prefix;                  /* bytes in front of the Avro */
    const struct rp_schema *schema; /* of Avro */
};

/* Writes the document, and behind it `"task": task_json` where that is not NULL. Fails with
 * RP_E_DECODE (POISON) when the payload says it is Avro of a known schema and is not, and as the
 * registry does. */
RP_NODISCARD int rp_document_write(struct rp_message_reader *reader, const struct rp_message *m,
                                   const char *task_json, struct rp_document *out,
                                   struct rp_error *err);
void rp_document_clear(struct rp_document *document);

/* Reads a changed document `text` of what was written from `m`. `*out` is in the arena, or borrows
 * from `m`. Fails with RP_E_INVALID (POISON) and names the place: a member that is missing or
 * unknown, a changed task, a payload that its form or schema cannot take. */
RP_NODISCARD int rp_document_read(const struct rp_document *document, struct rp_bytes text,
                                  const struct rp_message *m, struct rp_arena *arena,
                                  struct rp_message *out, struct rp_error *err);

/* The message byte for byte as JSON, for replay_item.edited: all bytes in base64. */
RP_NODISCARD int rp_message_pack(const struct rp_message *m, struct rp_buf *out,
                                 struct rp_error *err);
/* Reads what rp_message_pack wrote. Fails with RP_E_DECODE (POISON). */
RP_NODISCARD int rp_message_unpack(struct rp_bytes json, struct rp_arena *arena,
                                   struct rp_message *out, struct rp_error *err);

#endif
