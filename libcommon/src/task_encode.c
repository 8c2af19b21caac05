/* SPDX-License-Identifier: Apache-2.0 */
#include "embedded.h"
#include "record_encode.h"
#include "reprise/task.h"

static int breaks(struct rp_error *err, const char *what)
{
    return rp_fail(err, RP_E_INVALID, RP_POISON, "%s", what);
}

int rp_failed_task_check(const struct rp_failed_task *task, struct rp_error *err)
{
    if (task->task_id.len == 0)
        return breaks(err, "task_id is empty");
    if (task->task_type.len == 0)
        return breaks(err, "task_type is empty");
    if (task->attempt < 1)
        return rp_fail(err, RP_E_INVALID, RP_POISON, "attempt is %d, below 1", (int)task->attempt);
    if (task->failed_at_ms < 0)
        return breaks(err, "failed_at is before 1970");
    if (task->first_failed_at_ms < 0 && task->first_failed_at_ms != RP_NO_TIME)
        return breaks(err, "first_failed_at is before 1970");
    return 0;
}

int rp_failed_task_encode(const struct rp_failed_task *task, struct rp_buf *out,
                          struct rp_error *err)
{
    if (rp_failed_task_check(task, err) != 0)
        return -1;
    return rp_single_object_encode(&rp_failed_task_shape,
                                   rp_embedded_schemas[RP_EMBEDDED_FAILED_TASK].fingerprint, task,
                                   out, err);
}
