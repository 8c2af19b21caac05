/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_JSON_TEXT_H
#define REPRISE_JSON_TEXT_H

#include "reprise/bytes.h"

/* Writing JSON as text, where a library would change numbers. All append, and fail with
 * RP_E_NOMEM. */

/* Words of our own: braces, commas, names. */
RP_NODISCARD int rp_json_put(struct rp_buf *out, const char *text, struct rp_error *err);
/* A string with its quotes. `text` must be UTF-8. */
RP_NODISCARD int rp_json_put_string(struct rp_buf *out, struct rp_bytes text, struct rp_error *err);
/* {"base64": "..."} */
RP_NODISCARD int rp_json_put_base64(struct rp_buf *out, struct rp_bytes bytes,
                                    struct rp_error *err);
/* null, a string where the bytes are UTF-8, else {"base64": ...}. */
RP_NODISCARD int rp_json_put_bytes(struct rp_buf *out, struct rp_bytes bytes, struct rp_error *err);

/* Lays valid JSON out over lines, each but the first behind `indent` and its depth in pairs of
 * spaces, 64 of them at most. Tokens stay as they are. */
RP_NODISCARD int rp_json_pretty(struct rp_buf *out, struct rp_bytes json, const char *indent,
                                struct rp_error *err);
/* The opposite: takes out all space between tokens. */
RP_NODISCARD int rp_json_compact(struct rp_buf *out, struct rp_bytes json, struct rp_error *err);

#endif
