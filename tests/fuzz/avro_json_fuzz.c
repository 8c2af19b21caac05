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
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rp_schema schema;
    struct rp_buf text = {0}, avro = {0}, again = {0};
    struct rp_error err;
    if (schema.root == NULL)
        must(rp_schema_parse(rp_str(schema_json), &schema, &err));
    if (rp_avro_to_json(&schema, (struct rp_bytes){data, size}, 0, &text, &err) == 0 &&
        rp_avro_from_json(&schema, rp_buf_bytes(&text), &avro, &err) == 0) {
        must(rp_avro_to_json(&schema, rp_buf_bytes(&avro), 0, &again, &err));
        if (!rp_bytes_equal(rp_buf_bytes(&text), rp_buf_bytes(&again)))
            abort();
    }
    rp_buf_clear(&text);
    rp_buf_clear(&avro);
    rp_buf_clear(&again);
    return 0;
}
