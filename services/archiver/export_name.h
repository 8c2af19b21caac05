/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXPORT_NAME_H
#define EXPORT_NAME_H

#include "reprise/error.h"

/* A name for an export that no file has yet: folder/name.jsonl.zst, or folder/name-2.jsonl.zst, ...
 * What is no letter, digit, '.', '_' or '-' in `name` becomes '_'. */
#define EXPORT_NAME_SIZE 4500
RP_NODISCARD int export_name(const char *folder, const char *name, char out[EXPORT_NAME_SIZE],
                             struct rp_error *err);

#endif
