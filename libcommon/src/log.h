/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_LOG_H
#define REPRISE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "reprise/bytes.h"

/* One line an event on stderr: time, level, service, event, then key=value pairs (or one JSON
 * object). Values are escaped and cut, so that nothing that came from outside breaks a line or
 * reaches a terminal raw. Never payloads or secrets. Thread-safe; a line is one write. */
enum rp_log_level { RP_LOG_DEBUG, RP_LOG_INFO, RP_LOG_WARN, RP_LOG_ERROR };

/* Call once, before threads start. */
void rp_log_setup(enum rp_log_level level, bool json, const char *service);

struct rp_field {
    const char *key;
    enum { RP_FIELD_INT, RP_FIELD_BYTES } type;
    int64_t number;
    struct rp_bytes bytes;
};

static inline struct rp_field rp_f_int(const char *key, int64_t n)
{
    return (struct rp_field){key, RP_FIELD_INT, n, RP_NULL_BYTES};
}

static inline struct rp_field rp_f_bytes(const char *key, struct rp_bytes b)
{
    return (struct rp_field){key, RP_FIELD_BYTES, 0, b};
}

static inline struct rp_field rp_f_str(const char *key, const char *s)
{
    return rp_f_bytes(key, rp_str(s));
}

/* rp_log(RP_LOG_WARN, "target-missing", rp_f_str("topic", t), rp_f_int("offset", o))
 * The fields are made only where the level is shown: the router says something of each event. Of
 * warnings and errors, which are rare, that is found out later. */
#define rp_log(level, event, ...)                                                                  \
    ((level) < RP_LOG_WARN && !rp_log_shows(level)                                                 \
         ? (void)0                                                                                 \
         : rp_log_fields(level, event, (struct rp_field[]){__VA_ARGS__ __VA_OPT__(, ){0}}))
bool rp_log_shows(enum rp_log_level level);
/* `fields` ends with a field whose key is NULL. */
void rp_log_fields(enum rp_log_level level, const char *event, const struct rp_field *fields);

#endif
