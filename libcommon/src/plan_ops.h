/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_PLAN_OPS_H
#define REPRISE_PLAN_OPS_H

#include "plan.h"

/* What plan_compile.c and plan.c agree on. A plan is a program: ops are run one after the other. A
 * `pc` is an index of an op. */
enum rp_op_code {
    RP_OP_END,         /* of the program, of a body or of a block */
    RP_OP_BYTES,       /* string or bytes, to `at` */
    RP_OP_INT,         /* to an int32_t at `at` */
    RP_OP_LONG,        /* to an int64_t at `at` */
    RP_OP_TIME,        /* the same, where RP_NO_TIME stands for null */
    RP_OP_INT_TO_LONG, /* an int, to an int64_t at `at` */
    RP_OP_REASON,      /* an enum of `n` symbols; tables[arg + i] is our number of the i-th */
    RP_OP_NO_TIME,     /* reads nothing; RP_NO_TIME to `at` */
    RP_OP_FLAG,        /* reads nothing; true to the bool at `at` */
    RP_OP_ARRAY,       /* of `field`, its struct at `at`; the item's body follows, up to `arg` */
    RP_OP_UNION,       /* of `n` branches; goes to pc tables[arg + i] */
    RP_OP_JUMP,        /* to pc `arg` */
    RP_OP_REFUSE,      /* a branch that we have no place for */
    RP_OP_SKIP_FIXED,  /* `arg` bytes */
    RP_OP_SKIP_LONG,   /* int, long, enum */
    RP_OP_SKIP_BYTES,  /* string or bytes */
    RP_OP_SKIP_ITEMS,  /* array or map; the item's body follows, up to `arg`; n = 0: it is empty */
    RP_OP_CALL,        /* the block at pc `arg`, which skips a record */
};

struct rp_op {
    enum rp_op_code code;
    uint32_t at, arg, n;
    uint32_t name; /* where the field's path begins in `names` */
    const struct rp_shape_field *field;
};

struct rp_plan {
    const struct rp_shape *shape;
    struct rp_op *ops;
    uint32_t *tables;
    struct rp_buf names;
    uint32_t n_ops, n_tables;
    size_t cap_ops, cap_tables;
};

#endif
