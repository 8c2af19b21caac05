/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPRISE_AVRO_UNION_H
#define REPRISE_AVRO_UNION_H

#include "schema.h"

/* How avro_json.h writes unions. */

/* Whether a value needs its branch's name, since JSON alone does not tell two of them apart. */
bool rp_union_names_branches(avro_schema_t type);

/* The name of a branch: a type's, with its namespace, or "long", "array". */
#define RP_BRANCH_NAME 512
const char *rp_union_branch_name(avro_schema_t branch, char room[RP_BRANCH_NAME]);

/* Whether the JSON type of a value can be the branch's; for unions whose branches have no names. */
enum rp_json_kind {
    RP_JSON_NULL,
    RP_JSON_BOOLEAN,
    RP_JSON_NUMBER,
    RP_JSON_STRING,
    RP_JSON_ARRAY,
    RP_JSON_OBJECT,
    RP_N_JSON_KINDS,
};
enum rp_json_kind rp_union_kind(avro_schema_t branch);

#endif
