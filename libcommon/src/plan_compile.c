/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "array.h"
#include "dead_letter.h"
#include "plan_ops.h"

/* A record of ours that is named again unfolds again, within one that was, so that a few KB would
 * make a plan of gigabytes. What does not repeat itself so makes no more than this of its bytes. */
#define MOST (2 * RP_SCHEMA_MAX_BYTES)

/* A record that is skipped. Each becomes one block, however often it is named, so that recursive
 * schemas end. */
struct block {
    avro_schema_t record;
    uint32_t pc;
};

struct compiler {
    const struct rp_schema *schema;
    struct rp_plan *plan;
    struct block *blocks;
    size_t n_blocks;
    size_t made;    /* ops, numbers in tables, and names */
    char path[128]; /* of the field in hand: "error.class"; cut where it is too long */
    uint32_t name;  /* where `path` is in the plan's names */
    struct rp_error *err;
};

static int no_memory(struct compiler *c)
{
    return rp_fail(c->err, RP_E_NOMEM, RP_RETRIABLE, "no memory for a decode plan");
}

static int refuse(struct compiler *c, const char *what)
{
    return rp_fail(c->err, RP_E_SCHEMA, RP_POISON, "%s: %s", c->path, what);
}

static bool is_too_large(const struct compiler *c)
{
    return c->made > MOST;
}

static int make(struct compiler *c, size_t n)
{
    c->made += n;
    return is_too_large(c) ? rp_fail(c->err, RP_E_SCHEMA, RP_POISON,
                                     "the writer's schema unfolds to more than %u steps", MOST)
                           : 0;
}

static int emit(struct compiler *c, struct rp_op op)
{
    struct rp_plan *p = c->plan;
    if (make(c, 1) != 0)
        return -1;
    struct rp_op *ops = rp_array_grow(p->ops, p->n_ops, &p->cap_ops, sizeof *ops);
    if (ops == NULL)
        return no_memory(c);
    p->ops = ops;
    op.name = c->name;
    p->ops[p->n_ops++] = op;
    return 0;
}

/* Takes `n` numbers in the tables; `*out` is the first. */
static int new_table(struct compiler *c, size_t n, uint32_t *out)
{
    struct rp_plan *p = c->plan;
    *out = p->n_tables;
    if (make(c, n) != 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        uint32_t *tables = rp_array_grow(p->tables, p->n_tables, &p->cap_tables, sizeof *tables);
        if (tables == NULL)
            return no_memory(c);
        p->tables = tables;
        p->tables[p->n_tables++] = 0;
    }
    return 0;
}

/* Notes the path for the ops that follow. */
static int set_name(struct compiler *c)
{
    size_t size = strlen(c->path) + 1;
    c->name = (uint32_t)c->plan->names.len;
    if (make(c, 1 + size / sizeof(struct rp_op)) != 0)
        return -1;
    return rp_buf_append(&c->plan->names, c->path, size, c->err);
}

/* Returns the length to go back to. */
static size_t push_path(struct compiler *c, const char *field)
{
    size_t len = strlen(c->path);
    (void)snprintf(c->path + len, sizeof c->path - len, len == 0 ? "%s" : ".%s", field);
    return len;
}

typedef int branch_fn(struct compiler *c, avro_schema_t branch, const void *arg);

/* A union: its table, and each branch followed by a jump behind the last. */
static int emit_union(struct compiler *c, avro_schema_t type, branch_fn *branch, const void *arg)
{
    size_t n = avro_schema_union_size(type);
    uint32_t table, exits;
    if (new_table(c, 2 * n, &table) != 0)
        return -1;
    exits = table + (uint32_t)n;
    if (emit(c, (struct rp_op){.code = RP_OP_UNION, .arg = table, .n = (uint32_t)n}) != 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        c->plan->tables[table + i] = c->plan->n_ops;
        if (branch(c, avro_schema_union_branch(type, (int)i), arg) != 0)
            return -1;
        c->plan->tables[exits + i] = c->plan->n_ops;
        if (emit(c, (struct rp_op){.code = RP_OP_JUMP}) != 0)
            return -1;
    }
    for (size_t i = 0; i < n; i++)
        c->plan->ops[c->plan->tables[exits + i]].arg = c->plan->n_ops;
    return 0;
}

static int emit_skip(struct compiler *c, avro_schema_t type);

static int skip_branch(struct compiler *c, avro_schema_t branch, const void *arg)
{
    (void)arg;
    return emit_skip(c, branch);
}

static int skip_record(struct compiler *c, avro_schema_t record)
{
    size_t i = 0;
    while (i < c->n_blocks && c->blocks[i].record != record)
        i++;
    if (i == c->n_blocks)
        c->blocks[c->n_blocks++] = (struct block){.record = record};
    return emit(c, (struct rp_op){.code = RP_OP_CALL, .arg = (uint32_t)i});
}

static int skip_items(struct compiler *c, avro_schema_t items, bool is_map)
{
    uint32_t head = c->plan->n_ops;
    bool empty = !is_map && rp_schema_takes_no_bytes(c->schema, items);
    if (emit(c, (struct rp_op){.code = RP_OP_SKIP_ITEMS, .n = empty ? 0 : 1}) != 0 ||
        (is_map && emit(c, (struct rp_op){.code = RP_OP_SKIP_BYTES}) != 0) ||
        emit_skip(c, items) != 0 || emit(c, (struct rp_op){.code = RP_OP_END}) != 0)
        return -1;
    c->plan->ops[head].arg = c->plan->n_ops;
    return 0;
}

static int emit_skip(struct compiler *c, avro_schema_t type)
{
    type = rp_schema_resolve(type);
    if (rp_schema_takes_no_bytes(c->schema, type))
        return 0;
    switch (avro_typeof(type)) {
    case AVRO_BOOLEAN:
        return emit(c, (struct rp_op){.code = RP_OP_SKIP_FIXED, .arg = 1});
    case AVRO_FLOAT:
        return emit(c, (struct rp_op){.code = RP_OP_SKIP_FIXED, .arg = 4});
    case AVRO_DOUBLE:
        return emit(c, (struct rp_op){.code = RP_OP_SKIP_FIXED, .arg = 8});
    case AVRO_FIXED:
        return emit(c, (struct rp_op){.code = RP_OP_SKIP_FIXED,
                                      .arg = (uint32_t)avro_schema_fixed_size(type)});
    case AVRO_INT32:
    case AVRO_INT64:
    case AVRO_ENUM:
        return emit(c, (struct rp_op){.code = RP_OP_SKIP_LONG});
    case AVRO_STRING:
    case AVRO_BYTES:
        return emit(c, (struct rp_op){.code = RP_OP_SKIP_BYTES});
    case AVRO_ARRAY:
        return skip_items(c, avro_schema_array_items(type), false);
    case AVRO_MAP:
        return skip_items(c, avro_schema_map_values(type), true);
    case AVRO_UNION:
        return emit_union(c, type, skip_branch, NULL);
    case AVRO_RECORD:
        return skip_record(c, type);
    default:
        return refuse(c, "an unknown Avro type");
    }
}

/* A field of ours, and how far its struct lies behind the one that the program fills in. */
struct place {
    const struct rp_shape_field *field;
    size_t base;
};

static int emit_field(struct compiler *c, avro_schema_t type, struct place to);

static struct rp_op op_to(enum rp_op_code code, struct place to)
{
    return (struct rp_op){.code = code, .at = (uint32_t)(to.base + to.field->at)};
}

/* A branch that does not fit is refused when it comes, not before. */
static int field_branch(struct compiler *c, avro_schema_t branch, const void *arg)
{
    const struct place *to = arg;
    uint32_t n_ops = c->plan->n_ops, name = c->name;
    size_t path_len = strlen(c->path);
    if (emit_field(c, branch, *to) == 0)
        return 0;
    if (c->err->code == RP_E_NOMEM || is_too_large(c))
        return -1;
    c->plan->n_ops = n_ops;
    c->name = name;
    c->path[path_len] = '\0';
    return emit(c, (struct rp_op){.code = RP_OP_REFUSE});
}

static int mismatch(struct compiler *c, avro_schema_t type)
{
    if (c->path[0] == '\0')
        return rp_fail(c->err, RP_E_SCHEMA, RP_POISON, "the writer's schema is of type %s, no %s",
                       avro_schema_type_name(type), c->plan->shape->name);
    return rp_fail(c->err, RP_E_SCHEMA, RP_POISON, "%s: the writer's %s cannot be read as ours",
                   c->path, avro_schema_type_name(type));
}

static int emit_null(struct compiler *c, struct place to)
{
    if (c->path[0] == '\0')
        return mismatch(c, avro_schema_null());
    if (!to.field->nullable)
        return refuse(c, "is null in the writer's schema, and must not be");
    return to.field->type == RP_SHAPE_TIME ? emit(c, op_to(RP_OP_NO_TIME, to)) : 0;
}

static int emit_reason(struct compiler *c, avro_schema_t type, struct place to)
{
    int n = avro_schema_enum_number_of_symbols(type);
    struct rp_op op = op_to(RP_OP_REASON, to);
    op.n = (uint32_t)n;
    if (new_table(c, (size_t)n, &op.arg) != 0)
        return -1;
    for (int i = 0; i < n; i++) {
        enum rp_reason reason = 0;
        while (reason < RP_OTHER &&
               strcmp(rp_reason_name(reason), avro_schema_enum_get(type, i)) != 0)
            reason++;
        c->plan->tables[op.arg + (uint32_t)i] = reason;
    }
    return emit(c, op);
}

static int emit_array(struct compiler *c, avro_schema_t type, struct place to)
{
    const struct rp_shape_field item = {.name = "", .type = RP_SHAPE_RECORD, .of = to.field->of};
    uint32_t head = c->plan->n_ops;
    if (emit(c, (struct rp_op){.code = RP_OP_ARRAY, .at = (uint32_t)to.base, .field = to.field}) !=
            0 ||
        emit_field(c, avro_schema_array_items(type), (struct place){&item, 0}) != 0 ||
        emit(c, (struct rp_op){.code = RP_OP_END}) != 0)
        return -1;
    c->plan->ops[head].arg = c->plan->n_ops;
    return 0;
}

static const struct rp_shape_field *find_field(const struct rp_shape *shape, const char *name)
{
    for (size_t i = 0; i < shape->n_fields; i++)
        if (strcmp(shape->fields[i].name, name) == 0)
            return &shape->fields[i];
    return NULL;
}

/* What the writer does not have takes its default. The struct is zeroed before, so only times need
 * an op. */
static int emit_defaults(struct compiler *c, avro_schema_t record, const struct rp_shape *shape,
                         size_t base)
{
    for (size_t i = 0; i < shape->n_fields; i++) {
        const struct rp_shape_field *f = &shape->fields[i];
        if (rp_schema_field_index(record, f->name) >= 0)
            continue;
        size_t up = push_path(c, f->name);
        if (!rp_shape_has_default(f))
            return refuse(c, "is not in the writer's schema, and has no default");
        if (f->type == RP_SHAPE_TIME && emit_null(c, (struct place){f, base}) != 0)
            return -1;
        c->path[up] = '\0';
    }
    return 0;
}

static int emit_record(struct compiler *c, avro_schema_t record, const struct rp_shape *shape,
                       size_t base)
{
    /* Avro matches records by name, without the namespace. */
    if (strcmp(avro_schema_name(record), shape->name) != 0)
        return rp_fail(c->err, RP_E_SCHEMA, RP_POISON, "%s%srecord %s is no %s", c->path,
                       c->path[0] == '\0' ? "" : ": ", avro_schema_name(record), shape->name);
    if (emit_defaults(c, record, shape, base) != 0)
        return -1;
    size_t n = avro_schema_record_size(record);
    for (size_t i = 0; i < n; i++) {
        const char *name = avro_schema_record_field_name(record, (int)i);
        avro_schema_t type = avro_schema_record_field_get_by_index(record, (int)i);
        const struct rp_shape_field *f = find_field(shape, name);
        size_t up = push_path(c, name);
        uint32_t outer = c->name;
        if (set_name(c) != 0 ||
            (f == NULL ? emit_skip(c, type) : emit_field(c, type, (struct place){f, base})) != 0)
            return -1;
        c->path[up] = '\0';
        c->name = outer;
    }
    return 0;
}

static int emit_embedded(struct compiler *c, avro_schema_t type, struct place to)
{
    if (to.field->nullable) {
        struct rp_op flag = {.code = RP_OP_FLAG, .at = (uint32_t)(to.base + to.field->count_at)};
        if (emit(c, flag) != 0)
            return -1;
    }
    return emit_record(c, type, to.field->of, to.base + to.field->at);
}

static int emit_union_field(struct compiler *c, avro_schema_t type, struct place to)
{
    uint32_t first = c->plan->n_ops;
    size_t refused = 0, n = avro_schema_union_size(type);
    if (emit_union(c, type, field_branch, &to) != 0)
        return -1;
    const struct rp_op *ops = c->plan->ops;
    for (size_t i = 0; i < n; i++)
        refused += ops[c->plan->tables[ops[first].arg + i]].code == RP_OP_REFUSE;
    return refused == n ? -1 : 0; /* the last branch's error stands */
}

static int emit_field(struct compiler *c, avro_schema_t type, struct place to)
{
    type = rp_schema_resolve(type);
    if (is_avro_union(type))
        return emit_union_field(c, type, to);
    if (is_avro_null(type))
        return emit_null(c, to);
    switch (to.field->type) {
    case RP_SHAPE_STRING:
    case RP_SHAPE_BYTES:
        if (is_avro_string(type) || is_avro_bytes(type))
            return emit(c, op_to(RP_OP_BYTES, to));
        break;
    case RP_SHAPE_INT:
        if (is_avro_int32(type))
            return emit(c, op_to(RP_OP_INT, to));
        break;
    case RP_SHAPE_LONG:
    case RP_SHAPE_TIME:
        if (is_avro_int32(type))
            return emit(c, op_to(RP_OP_INT_TO_LONG, to));
        if (is_avro_int64(type))
            return emit(c, op_to(to.field->type == RP_SHAPE_TIME ? RP_OP_TIME : RP_OP_LONG, to));
        break;
    case RP_SHAPE_REASON:
        if (is_avro_enum(type) && strcmp(avro_schema_name(type), "Reason") == 0)
            return emit_reason(c, type, to);
        break;
    case RP_SHAPE_RECORD:
        if (is_avro_record(type))
            return emit_embedded(c, type, to);
        break;
    case RP_SHAPE_ARRAY:
        if (is_avro_array(type))
            return emit_array(c, type, to);
        break;
    }
    return mismatch(c, type);
}

/* The blocks behind the program. Skipping one may ask for further ones. */
static int emit_blocks(struct compiler *c)
{
    for (size_t i = 0; i < c->n_blocks; i++) {
        avro_schema_t record = c->blocks[i].record;
        size_t n = avro_schema_record_size(record);
        c->blocks[i].pc = c->plan->n_ops;
        (void)snprintf(c->path, sizeof c->path, "%s", avro_schema_name(record));
        if (set_name(c) != 0)
            return -1;
        for (size_t f = 0; f < n; f++)
            if (emit_skip(c, avro_schema_record_field_get_by_index(record, (int)f)) != 0)
                return -1;
        if (emit(c, (struct rp_op){.code = RP_OP_END}) != 0)
            return -1;
    }
    for (uint32_t i = 0; i < c->plan->n_ops; i++)
        if (c->plan->ops[i].code == RP_OP_CALL)
            c->plan->ops[i].arg = c->blocks[c->plan->ops[i].arg].pc;
    return 0;
}

static int compile(struct compiler *c)
{
    const struct rp_shape_field root = {.name = "", .type = RP_SHAPE_RECORD, .of = c->plan->shape};
    const char *name = c->plan->shape->name;
    if (rp_buf_append(&c->plan->names, name, strlen(name) + 1, c->err) != 0 ||
        emit_field(c, c->schema->root, (struct place){&root, 0}) != 0 ||
        emit(c, (struct rp_op){.code = RP_OP_END}) != 0)
        return -1;
    return emit_blocks(c);
}

int rp_plan_compile(const struct rp_schema *schema, const struct rp_shape *shape,
                    struct rp_plan **out, struct rp_error *err)
{
    struct rp_error unused;
    struct compiler c = {.schema = schema, .err = err == NULL ? &unused : err};
    int rc = -1;
    *out = NULL;
    c.plan = calloc(1, sizeof *c.plan);
    c.blocks = calloc(schema->n_records + 1, sizeof *c.blocks);
    if (c.plan == NULL || c.blocks == NULL) {
        (void)no_memory(&c);
    } else {
        c.plan->shape = shape;
        rc = compile(&c);
    }
    free(c.blocks);
    if (rc == 0)
        *out = c.plan;
    else
        rp_plan_free(c.plan);
    return rc;
}

size_t rp_plan_bytes(const struct rp_plan *plan)
{
    return plan == NULL ? 0
                        : plan->cap_ops * sizeof *plan->ops +
                              plan->cap_tables * sizeof *plan->tables + plan->names.cap;
}

void rp_plan_free(struct rp_plan *plan)
{
    if (plan == NULL)
        return;
    free(plan->ops);
    free(plan->tables);
    rp_buf_clear(&plan->names);
    free(plan);
}
