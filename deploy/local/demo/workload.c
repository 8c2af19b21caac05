/* SPDX-License-Identifier: Apache-2.0 */
#include "workload.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#define HANDFUL 3

/* The policies of deploy/local/reprise.yaml decide what becomes of these. */
const struct kind workload_kinds[] = {
    {.about = "payments that succeed at once",
     .topic = "payments",
     .type = "payment",
     .per_mille = 210},
    {.about = "payments whose gateway times out, then answers",
     .topic = "payments",
     .type = "payment",
     .per_mille = 100,
     .fails = 3,
     .error_class = "java.net.SocketTimeoutException",
     .message = "Read timed out"},
    {.about = "payments that are declined",
     .topic = "payments",
     .type = "payment",
     .per_mille = 20,
     .fails = ALWAYS,
     .error_class = "com.example.payments.InsufficientFundsException",
     .message = "balance too low",
     .reason = "NON_RETRYABLE"},
    {.about = "payments whose gateway never answers",
     .topic = "payments",
     .type = "payment",
     .per_mille = 10,
     .fails = ALWAYS,
     .error_class = "java.net.ConnectException",
     .message = "Connection refused",
     .reason = "EXHAUSTED"},
    {.about = "notifications that succeed at once",
     .topic = "notifications",
     .type = "notification",
     .per_mille = 220},
    {.about = "notifications that time out, then go through",
     .topic = "notifications",
     .type = "notification",
     .per_mille = 90,
     .fails = 2,
     .error_class = "TimeoutError",
     .message = "timed out"},
    {.about = "notifications to addresses that are none",
     .topic = "notifications",
     .type = "notification",
     .per_mille = 20,
     .fails = ALWAYS,
     .error_class = "ValidationError",
     .message = "not an address",
     .reason = "NON_RETRYABLE"},
    {.about = "notifications that never go through",
     .topic = "notifications",
     .type = "notification",
     .per_mille = 10,
     .fails = ALWAYS,
     .error_class = "ConnectionResetError",
     .message = "Connection reset by peer",
     .reason = "EXHAUSTED"},
    {.about = "data syncs that succeed at once",
     .topic = "data-sync",
     .type = "data-sync",
     .per_mille = 150},
    {.about = "data syncs that meet a deadlock, then commit",
     .topic = "data-sync",
     .type = "data-sync",
     .per_mille = 50,
     .fails = 2,
     .error_class = "*pq.Error",
     .message = "pq: deadlock detected"},
    {.about = "inventory updates during an outage that ends",
     .topic = "inventory",
     .type = "inventory",
     .per_mille = 50,
     .outage_ms = 30000,
     .error_class = "requests.exceptions.ConnectionError",
     .message = "503 Service Unavailable"},
    {.about = "reports over their quota, which wait a minute",
     .topic = "reports",
     .type = "report",
     .per_mille = 20,
     .fails = 1,
     .error_class = "QuotaExceededError",
     .message = "rate limit exceeded"},
    {.about = "thumbnails, a type without a policy",
     .topic = "thumbnails",
     .type = "thumbnail",
     .per_mille = 40,
     .fails = 1,
     .error_class = "OSError",
     .message = "cannot identify image file"},
    {.about = "events that name a target that is not there",
     .origin = FROM_PRODUCER,
     .topic = "nowhere",
     .type = "payment",
     .per_mille = 3,
     .fails = ALWAYS,
     .error_class = "java.net.SocketTimeoutException",
     .message = "Read timed out",
     .reason = "NO_TARGET"},
    {.about = "events that name a target that is not allowed",
     .origin = FROM_PRODUCER,
     .topic = "salaries",
     .type = "payment",
     .per_mille = 2,
     .fails = ALWAYS,
     .error_class = "java.net.SocketTimeoutException",
     .message = "Read timed out",
     .reason = "TARGET_FORBIDDEN"},
    {.about = "events too large for their target",
     .origin = FROM_PRODUCER,
     .topic = WORKLOAD_SMALL_TOPIC,
     .type = "postcard",
     .fails = ALWAYS,
     .padding = 4000,
     .error_class = "TimeoutError",
     .message = "timed out",
     .reason = "OVERSIZED"},
    {.about = "events that break the contract",
     .origin = FROM_INVALID,
     .type = "payment",
     .per_mille = 1,
     .fails = ALWAYS,
     .error_class = "TimeoutError",
     .message = "timed out",
     .reason = "INVALID"},
    {.about = "bytes that are no event at all",
     .origin = FROM_GARBAGE,
     .per_mille = 2,
     .fails = ALWAYS,
     .reason = "UNDECODABLE"},
};
const size_t workload_n_kinds = sizeof workload_kinds / sizeof workload_kinds[0];

const struct sample workload_samples[] = {
    {"payments", "payment", "payment-service"},
    {"notifications", "notification", "notification-service"},
    {"data-sync", "data-sync", "sync-service"},
    {"inventory", "inventory", "inventory-service"},
    {"reports", "report", "report-service"},
    {"thumbnails", "thumbnail", "thumbnail-service"},
};
const size_t workload_n_samples = sizeof workload_samples / sizeof workload_samples[0];

int workload_count(const struct kind *kind, int total)
{
    int n = (int)((int64_t)total * kind->per_mille / 1000);
    return n > HANDFUL ? n : HANDFUL;
}

int workload_fails(const struct kind *kind, int i)
{
    return kind->fails == 0 || kind->fails == ALWAYS ? kind->fails : 1 + i % kind->fails;
}

char *workload_payload(const struct kind *kind, int i, int64_t start_ms)
{
    char *padding = calloc(1, kind->padding + 1), *text = NULL;
    if (padding == NULL)
        return NULL;
    memset(padding, '.', kind->padding);
    json_t *payload =
        json_pack("{s:i, s:I, s:s, s:s, s:s}", "fails", workload_fails(kind, i), "until_ms",
                  kind->outage_ms > 0 ? (json_int_t)(start_ms + kind->outage_ms) : (json_int_t)0,
                  "error", kind->error_class == NULL ? "" : kind->error_class, "message",
                  kind->message == NULL ? "" : kind->message, "padding", padding);
    if (payload != NULL)
        text = json_dumps(payload, JSON_COMPACT);
    json_decref(payload);
    free(padding);
    return text;
}

static void copy_text(const json_t *from, const char *fallback, char *out, size_t size)
{
    const char *text = json_string_value(from);
    (void)snprintf(out, size, "%s", text != NULL && *text != '\0' ? text : fallback);
}

bool workload_execute(struct rp_bytes payload, int32_t attempt, int64_t now_ms, struct failure *out)
{
    json_t *p = payload.len == 0 ? NULL : json_loadb(payload.data, payload.len, 0, NULL);
    /* Whatever is no such object asks for no failure. */
    json_int_t fails = json_integer_value(json_object_get(p, "fails"));
    json_int_t until_ms = json_integer_value(json_object_get(p, "until_ms"));
    bool succeeds = attempt > fails && now_ms >= until_ms;
    if (!succeeds) {
        copy_text(json_object_get(p, "error"), "RuntimeError", out->error_class,
                  sizeof out->error_class);
        copy_text(json_object_get(p, "message"), "it fails", out->message, sizeof out->message);
    }
    json_decref(p);
    return succeeds;
}
