/* SPDX-License-Identifier: Apache-2.0 */
/* What our decoder accepts, avro-c reads alike. The first byte chooses the schema: our own two, or
 * another writer's, which the plan resolves. Only what ours accepts is given to avro-c, which
 * allocates what a length claims. */
#include <avro.h>
#include <stdlib.h>

#include "dead_letter.h"
#include "embedded.h"
#include "plan.h"
#include "record_encode.h"
#include "utf8.h"

#define MOST_BYTES (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The fields in another order and in all the types that they can be read from, some of them left
 * out; and among them what we have no place for, of each kind. */
static const char foreign[] =
    "{'type':'record','name':'DeadLetter','namespace':'other','fields':["
    "{'name':'offset','type':'int'},{'name':'x_null','type':'null'},"
    "{'name':'x_boolean','type':'boolean'},{'name':'raw','type':'string'},"
    "{'name':'reason','type':{'type':'enum','name':'Reason','symbols':"
    "['NEW_ONE','OTHER','INVALID','EXHAUSTED','DEADLINE_EXCEEDED']}},"
    "{'name':'x_tree','type':{'type':'record','name':'Node','fields':["
    "{'name':'kids','type':{'type':'array','items':'Node'}},"
    "{'name':'f','type':{'type':'fixed','name':'F','size':2}},"
    "{'name':'e','type':{'type':'enum','name':'E','symbols':['A','B']}},"
    "{'name':'m','type':{'type':'map','values':['null','double','boolean','float','Node']}}]}},"
    "{'name':'decided_at','type':['int','string','long']},"
    "{'name':'task','type':['double',{'type':'record','name':'FailedTask','fields':["
    "{'name':'failed_at','type':'int'},{'name':'source','type':'bytes'},"
    "{'name':'x_lists','type':{'type':'array','items':{'type':'map','values':'long'}}},"
    "{'name':'error','type':['null',{'type':'record','name':'Error','fields':["
    "{'name':'message','type':['int','string','bytes']},{'name':'x_int','type':'int'},"
    "{'name':'causes','type':{'type':'array','items':['null',{'type':'record','name':'Cause',"
    "'fields':[{'name':'message','type':'bytes'},{'name':'class','type':'string'}]}]}},"
    "{'name':'class','type':'string'},{'name':'category','type':'string'}]}]},"
    "{'name':'attempt','type':'int'},{'name':'headers','type':['null',{'type':'array','items':"
    "{'type':'record','name':'Header','fields':[{'name':'value','type':'string'},"
    "{'name':'x_float','type':'float'},{'name':'key','type':'bytes'}]}}]},"
    "{'name':'payload','type':['string','null']},{'name':'key','type':'bytes'},"
    "{'name':'task_type','type':'string'},{'name':'task_id','type':'string'}]},'null']},"
    "{'name':'x_bytes','type':'bytes'},{'name':'detail','type':['bytes','null','Node']},"
    "{'name':'policy','type':'null'},{'name':'topic','type':'bytes'},"
    "{'name':'x_string','type':'string'},{'name':'partition','type':['long','int']},"
    "{'name':'x_long','type':'long'},{'name':'attempts','type':'int'}]}";

static void must(bool good)
{
    if (!good)
        abort();
}

struct oracle {
    const struct rp_shape *shape;
    bool is_own;
    struct rp_schema schema;
    struct rp_plan *plan;
    avro_value_iface_t *class;
};

#define N_ORACLES 3
static struct oracle oracles[N_ORACLES];

static void make(struct oracle *o, const char *json, const struct rp_shape *shape, bool is_own)
{
    o->shape = shape;
    o->is_own = is_own;
    must(rp_schema_parse(rp_str(json), &o->schema, NULL) == 0 &&
         rp_plan_compile(&o->schema, shape, &o->plan, NULL) == 0);
    o->class = avro_generic_class_from_schema(o->schema.root);
}

static void make_all(void)
{
    static char json[sizeof foreign];
    for (size_t i = 0; i < sizeof foreign; i++)
        json[i] = foreign[i] == '\'' ? '"' : foreign[i];
    make(&oracles[0], rp_embedded_schemas[RP_EMBEDDED_FAILED_TASK].json, &rp_failed_task_shape,
         true);
    make(&oracles[1], rp_embedded_schemas[RP_EMBEDDED_DEAD_LETTER].json, &rp_dead_letter_shape,
         true);
    make(&oracles[2], json, &rp_dead_letter_shape, false);
}

static struct rp_bytes bytes_at(const void *at)
{
    return *(const struct rp_bytes *)at;
}

static int64_t number_at(const void *at, bool is_int)
{
    return is_int ? *(const int32_t *)at : *(const int64_t *)at;
}

/* A time is never null by its value: of the two earliest the decoder makes one. */
static int64_t earliest(const struct rp_shape_field *f, int64_t value)
{
    return f->type == RP_SHAPE_TIME && value == RP_NO_TIME ? value + 1 : value;
}

static const char *record_at(const struct rp_shape_field *f, const char *record)
{
    return record + f->at;
}

static size_t count_at(const struct rp_shape_field *f, const char *record)
{
    return *(const size_t *)(const void *)(record + f->count_at);
}

static const char *item_at(const struct rp_shape_field *f, const char *record, size_t i)
{
    return *(const char *const *)(const void *)record_at(f, record) + i * f->of->size;
}

static void check_null(const struct rp_shape_field *f, const char *record)
{
    const void *at = record_at(f, record);
    switch (f->type) {
    case RP_SHAPE_STRING:
    case RP_SHAPE_BYTES:
        must(bytes_at(at).data == NULL);
        break;
    case RP_SHAPE_TIME:
        must(number_at(at, false) == RP_NO_TIME);
        break;
    case RP_SHAPE_RECORD:
        must(f->nullable && !*(const bool *)(record + f->count_at));
        break;
    default:
        must(f->type == RP_SHAPE_ARRAY && count_at(f, record) == 0);
    }
}

static void check_bytes(struct rp_bytes ours, const void *theirs, size_t len)
{
    must(ours.data != NULL && ours.len == len && memcmp(ours.data, theirs, len) == 0);
}

/* Symbols that we do not have are OTHER. */
static void check_reason(enum rp_reason ours, const avro_value_t *value)
{
    int symbol = -1;
    must(avro_value_get_enum(value, &symbol) == 0);
    const char *theirs = avro_schema_enum_get(avro_value_get_schema(value), symbol);
    enum rp_reason reason = 0;
    while (reason < RP_OTHER && strcmp(rp_reason_name(reason), theirs) != 0)
        reason++;
    must(ours == reason);
}

static void check_record(const struct rp_shape *shape, const char *record, avro_value_t value);

static avro_value_t without_union(avro_value_t value)
{
    avro_value_t branch = value;
    if (avro_value_get_type(&value) != AVRO_UNION)
        return value;
    must(avro_value_get_current_branch(&value, &branch) == 0);
    return branch;
}

static void check_array(const struct rp_shape_field *f, const char *record, avro_value_t value)
{
    size_t n = 0;
    avro_value_t item;
    must(avro_value_get_size(&value, &n) == 0 && n == count_at(f, record));
    for (size_t i = 0; i < n; i++) {
        must(avro_value_get_by_index(&value, i, &item, NULL) == 0);
        check_record(f->of, item_at(f, record, i), without_union(item));
    }
}

static void check_field(const struct rp_shape_field *f, const char *record, avro_value_t value)
{
    const void *at = record_at(f, record), *bytes = NULL;
    const char *text = NULL;
    size_t len = 0;
    int64_t n = 0;
    int32_t small = 0;
    switch (avro_value_get_type(&value)) {
    case AVRO_NULL:
        check_null(f, record);
        break;
    case AVRO_STRING:
        must(avro_value_get_string(&value, &text, &len) == 0);
        check_bytes(bytes_at(at), text, len - 1);
        break;
    case AVRO_BYTES:
        must(avro_value_get_bytes(&value, &bytes, &len) == 0);
        check_bytes(bytes_at(at), bytes, len);
        break;
    case AVRO_INT32:
        must(avro_value_get_int(&value, &small) == 0);
        must(number_at(at, f->type == RP_SHAPE_INT) == small);
        break;
    case AVRO_INT64:
        must(avro_value_get_long(&value, &n) == 0);
        must(number_at(at, f->type == RP_SHAPE_INT) == earliest(f, n));
        break;
    case AVRO_ENUM:
        check_reason(*(const enum rp_reason *)at, &value);
        break;
    case AVRO_RECORD:
        must(!f->nullable || *(const bool *)(record + f->count_at));
        check_record(f->of, at, value);
        break;
    default:
        must(avro_value_get_type(&value) == AVRO_ARRAY);
        check_array(f, record, value);
    }
}

static void check_record(const struct rp_shape *shape, const char *record, avro_value_t value)
{
    avro_value_t theirs;
    for (size_t i = 0; i < shape->n_fields; i++) {
        const struct rp_shape_field *f = &shape->fields[i];
        if (avro_value_get_by_name(&value, f->name, &theirs, NULL) == 0)
            check_field(f, record, without_union(theirs));
        else
            check_null(f, record);
    }
}

/* Our encoder mends what is no text. */
static bool is_written_as_it_is(const struct rp_shape *shape, const char *record)
{
    bool plain = true;
    for (size_t i = 0; plain && i < shape->n_fields; i++) {
        const struct rp_shape_field *f = &shape->fields[i];
        if (f->type == RP_SHAPE_STRING)
            plain = rp_utf8_valid(bytes_at(record_at(f, record)));
        else if (f->type == RP_SHAPE_TIME)
            plain = number_at(record_at(f, record), false) != RP_NO_TIME + 1;
        else if (f->type == RP_SHAPE_RECORD)
            plain = (f->nullable && !*(const bool *)(record + f->count_at)) ||
                    is_written_as_it_is(f->of, record_at(f, record));
        else if (f->type == RP_SHAPE_ARRAY)
            for (size_t n = 0; plain && n < count_at(f, record); n++)
                plain = is_written_as_it_is(f->of, item_at(f, record, n));
    }
    return plain;
}

/* Both readings, written again, are the same bytes. */
static void check_written(const struct oracle *o, const void *record, avro_value_t *value)
{
    static char theirs[MOST_BYTES];
    struct rp_buf ours = {0};
    avro_writer_t writer = avro_writer_memory(theirs, sizeof theirs);
    must(rp_record_encode(o->shape, record, &ours, NULL) == 0 &&
         avro_value_write(writer, value) == 0);
    must((size_t)avro_writer_tell(writer) == ours.len && memcmp(theirs, ours.data, ours.len) == 0);
    avro_writer_free(writer);
    rp_buf_clear(&ours);
}

static void compare(const struct oracle *o, struct rp_bytes bytes, const void *record)
{
    avro_value_t value;
    avro_reader_t reader = avro_reader_memory(bytes.data, (int64_t)bytes.len);
    must(avro_generic_value_new(o->class, &value) == 0 && avro_value_read(reader, &value) == 0);
    check_record(o->shape, record, value);
    if (o->is_own && is_written_as_it_is(o->shape, record))
        check_written(o, record, &value);
    avro_value_decref(&value);
    avro_reader_free(reader);
}

static int64_t take_long(const uint8_t **p)
{
    uint64_t n = 0;
    unsigned shift = 0;
    for (; **p >= 0x80; shift += 7)
        n |= (uint64_t)(*(*p)++ & 0x7f) << shift;
    n |= (uint64_t) * (*p)++ << shift;
    return (int64_t)(n >> 1) ^ -(int64_t)(n & 1);
}

static bool is_skipped_otherwise(avro_schema_t type, const uint8_t **p);

static bool are_items_skipped_otherwise(avro_schema_t type, const uint8_t **p)
{
    for (;;) {
        int64_t n = take_long(p);
        if (n <= 0)
            return n < 0;
        for (; n > 0; n--) {
            if (is_avro_map(type))
                *p += take_long(p);
            if (is_skipped_otherwise(is_avro_map(type) ? avro_schema_map_values(type)
                                                       : avro_schema_array_items(type),
                                     p))
                return true;
        }
    }
}

/* Whether bytes that we accept hold what we knowingly pass over in another way: a block that says
 * its size is skipped unread, be it that it lies, and an int as any number. The blocks of arrays
 * that are ours are read; the schemas of our own have those. */
static bool is_skipped_otherwise(avro_schema_t type, const uint8_t **p)
{
    int64_t n;
    bool is = false;
    type = rp_schema_resolve(type);
    switch (avro_typeof(type)) {
    case AVRO_NULL:
        return false;
    case AVRO_BOOLEAN:
        *p += 1;
        return false;
    case AVRO_FLOAT:
        *p += 4;
        return false;
    case AVRO_DOUBLE:
        *p += 8;
        return false;
    case AVRO_FIXED:
        *p += avro_schema_fixed_size(type);
        return false;
    case AVRO_STRING:
    case AVRO_BYTES:
        n = take_long(p);
        *p += n;
        return false;
    case AVRO_INT32:
        n = take_long(p);
        return n < INT32_MIN || n > INT32_MAX;
    case AVRO_INT64:
    case AVRO_ENUM:
        (void)take_long(p);
        return false;
    case AVRO_UNION:
        return is_skipped_otherwise(avro_schema_union_branch(type, (int)take_long(p)), p);
    case AVRO_RECORD:
        for (size_t i = 0; !is && i < avro_schema_record_size(type); i++)
            is = is_skipped_otherwise(avro_schema_record_field_get_by_index(type, (int)i), p);
        return is;
    default:
        return are_items_skipped_otherwise(type, p);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    union {
        struct rp_failed_task task;
        struct rp_dead_letter letter;
    } record;
    struct rp_arena arena = {0};
    if (oracles[0].plan == NULL)
        make_all();
    if (size == 0 || size >= MOST_BYTES / 2)
        return 0;
    const struct oracle *o = &oracles[data[0] % N_ORACLES];
    const struct rp_bytes bytes = {data + 1, size - 1};
    const uint8_t *p = bytes.data;
    if (rp_plan_run(o->plan, bytes, 0, &arena, &record, NULL) == 0 &&
        (o->is_own || !is_skipped_otherwise(o->schema.root, &p)))
        compare(o, bytes, &record);
    rp_arena_clear(&arena);
    return 0;
}
