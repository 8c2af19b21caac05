/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "avro_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Something of each kind, and a record that holds itself. */
static const char schema_json[] =
    "{\"type\":\"record\",\"name\":\"shop.Order\",\"fields\":["
    "{\"name\":\"id\",\"type\":\"long\"},{\"name\":\"amount\",\"type\":\"double\"},"
    "{\"name\":\"note\",\"type\":[\"null\",\"string\"]},"
    "{\"name\":\"tags\",\"type\":{\"type\":\"array\",\"items\":\"string\"}},"
    "{\"name\":\"raw\",\"type\":[\"bytes\",\"float\",\"int\",{\"type\":\"fixed\",\"name\":\"F\","
    "\"size\":3}]},"
    "{\"name\":\"more\",\"type\":{\"type\":\"map\",\"values\":[\"boolean\",{\"type\":\"enum\","
    "\"name\":\"E\",\"symbols\":[\"A\",\"B\"]}]}},"
    "{\"name\":\"next\",\"type\":[\"null\",\"shop.Order\"]}]}";

static void must(int rc)
{
    if (rc != 0)
        abort();
}

/* What reads is written as JSON that reads back to a value of the same JSON. A map may name a key
 * twice, and a key may hold NUL, which our JSON reader refuses. */
static void check_value(const struct rp_schema *schema, struct rp_bytes value)
{
    struct rp_buf text = {0}, avro = {0}, again = {0};
    struct rp_error err;
    if (rp_avro_to_json(schema, value, 0, &text, &err) == 0 &&
        rp_avro_from_json(schema, rp_buf_bytes(&text), &avro, &err) == 0) {
        must(rp_avro_to_json(schema, rp_buf_bytes(&avro), 0, &again, &err));
        if (!rp_bytes_equal(rp_buf_bytes(&text), rp_buf_bytes(&again)))
            abort();
    }
    rp_buf_clear(&text);
    rp_buf_clear(&avro);
    rp_buf_clear(&again);
}

/* What is taken of JSON that anybody wrote is a value, and the JSON of that value gives it again.
 * The rest is refused for good. */
static void check_json(const struct rp_schema *schema, struct rp_bytes json)
{
    struct rp_buf avro = {0}, text = {0}, again = {0};
    struct rp_error err = {0};
    if (rp_avro_from_json(schema, json, &avro, &err) == 0) {
        must(rp_avro_to_json(schema, rp_buf_bytes(&avro), 0, &text, &err));
        must(rp_avro_from_json(schema, rp_buf_bytes(&text), &again, &err));
        if (!rp_bytes_equal(rp_buf_bytes(&avro), rp_buf_bytes(&again)))
            abort();
    } else if (err.code != RP_E_INVALID || err.cls != RP_POISON || err.text[0] == '\0') {
        abort();
    }
    rp_buf_clear(&avro);
    rp_buf_clear(&text);
    rp_buf_clear(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rp_schema schema;
    struct rp_error err;
    if (schema.root == NULL)
        must(rp_schema_parse(rp_str(schema_json), &schema, &err));
    check_value(&schema, (struct rp_bytes){data, size});
    check_json(&schema, (struct rp_bytes){data, size});
    return 0;
}
