/* SPDX-License-Identifier: Apache-2.0 */
#include "shape.h"

#include "dead_letter.h"

#define FIELDS(table) .n_fields = sizeof(table) / sizeof(table)[0], .fields = (table)
#define AT(s, member) .at = offsetof(struct s, member)

static const struct rp_shape_field header_fields[] = {
    {"key", RP_SHAPE_STRING, AT(rp_header, key)},
    {"value", RP_SHAPE_BYTES, .nullable = true, AT(rp_header, value)},
};
static const struct rp_shape header_shape = {
    .name = "Header", .size = sizeof(struct rp_header), FIELDS(header_fields)};

static const struct rp_shape_field cause_fields[] = {
    {"class", RP_SHAPE_STRING, AT(rp_cause, class_name)},
    {"message", RP_SHAPE_STRING, AT(rp_cause, message)},
};
static const struct rp_shape cause_shape = {
    .name = "Cause", .size = sizeof(struct rp_cause), FIELDS(cause_fields)};

/* The error has no struct of its own: its fields lie in the task's. */
static const struct rp_shape_field error_fields[] = {
    {"class", RP_SHAPE_STRING, AT(rp_failed_task, error_class)},
    {"message", RP_SHAPE_STRING, AT(rp_failed_task, error_message)},
    {"category", RP_SHAPE_STRING, .nullable = true, AT(rp_failed_task, error_category)},
    {"causes", RP_SHAPE_ARRAY, AT(rp_failed_task, causes),
     .count_at = offsetof(struct rp_failed_task, n_causes), .of = &cause_shape},
};
static const struct rp_shape error_shape = {
    .name = "Error", .size = sizeof(struct rp_failed_task), FIELDS(error_fields)};

static const struct rp_shape_field task_fields[] = {
    {"task_id", RP_SHAPE_STRING, AT(rp_failed_task, task_id)},
    {"task_type", RP_SHAPE_STRING, AT(rp_failed_task, task_type)},
    {"target", RP_SHAPE_STRING, .nullable = true, AT(rp_failed_task, target)},
    {"key", RP_SHAPE_BYTES, .nullable = true, AT(rp_failed_task, key)},
    {"payload", RP_SHAPE_BYTES, .nullable = true, AT(rp_failed_task, payload)},
    {"headers", RP_SHAPE_ARRAY, AT(rp_failed_task, headers),
     .count_at = offsetof(struct rp_failed_task, n_headers), .of = &header_shape},
    {"attempt", RP_SHAPE_INT, AT(rp_failed_task, attempt)},
    {"error", RP_SHAPE_RECORD, .at = 0, .of = &error_shape},
    {"source", RP_SHAPE_STRING, AT(rp_failed_task, source)},
    {"first_failed_at", RP_SHAPE_TIME, .nullable = true, AT(rp_failed_task, first_failed_at_ms)},
    {"failed_at", RP_SHAPE_TIME, AT(rp_failed_task, failed_at_ms)},
};
const struct rp_shape rp_failed_task_shape = {
    .name = "FailedTask", .size = sizeof(struct rp_failed_task), FIELDS(task_fields)};

static const struct rp_shape_field letter_fields[] = {
    {"task", RP_SHAPE_RECORD, .nullable = true, AT(rp_dead_letter, task),
     .count_at = offsetof(struct rp_dead_letter, has_task), .of = &rp_failed_task_shape},
    {"raw", RP_SHAPE_BYTES, .nullable = true, AT(rp_dead_letter, raw)},
    {"reason", RP_SHAPE_REASON, AT(rp_dead_letter, reason)},
    {"detail", RP_SHAPE_STRING, .nullable = true, AT(rp_dead_letter, detail)},
    {"category", RP_SHAPE_STRING, .nullable = true, AT(rp_dead_letter, category)},
    {"policy", RP_SHAPE_STRING, .nullable = true, AT(rp_dead_letter, policy)},
    {"attempts", RP_SHAPE_INT, AT(rp_dead_letter, attempts)},
    {"decided_at", RP_SHAPE_TIME, AT(rp_dead_letter, decided_at_ms)},
    {"topic", RP_SHAPE_STRING, AT(rp_dead_letter, topic)},
    {"partition", RP_SHAPE_INT, AT(rp_dead_letter, partition)},
    {"offset", RP_SHAPE_LONG, AT(rp_dead_letter, offset)},
};
const struct rp_shape rp_dead_letter_shape = {
    .name = "DeadLetter", .size = sizeof(struct rp_dead_letter), FIELDS(letter_fields)};
