/* SPDX-License-Identifier: Apache-2.0 */
/* A handler that failed on its second execution writes the event to its standard output. */
#include <reprise/policy.h>
#include <reprise/task.h>

#include <stdio.h>

int main(void)
{
    const struct rp_header came[] = {
        {rp_str("traceparent"), rp_str("00-1-2-01")},
        {rp_str(RP_HDR_TASK_ID), rp_str("task-1")},
        {rp_str(RP_HDR_ATTEMPT), rp_str("2")},
    };
    struct rp_failed_task task;
    struct rp_buf out = {0};
    struct rp_error err;
    rp_failed_task_begin(&task, rp_str("unused"), came, sizeof came / sizeof *came);
    task.task_type = rp_str("payment");
    task.error_class = rp_str("Oops");
    task.error_message = rp_str("it broke");
    task.source = rp_str("a consumer");
    task.failed_at_ms = 1763700000123;
    if (rp_failed_task_encode(&task, &out, &err) != 0) {
        (void)fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    size_t written = fwrite(out.data, 1, out.len, stdout);
    return written == out.len && fflush(stdout) == 0 ? 0 : 1;
}
