/* SPDX-License-Identifier: Apache-2.0 */
#include "avro_union.h"

#include <stdio.h>

enum rp_json_kind rp_union_kind(avro_schema_t branch)
{
    switch (avro_typeof(rp_schema_resolve(branch))) {
    case AVRO_NULL:
        return RP_JSON_NULL;
    case AVRO_BOOLEAN:
        return RP_JSON_BOOLEAN;
    case AVRO_INT32:
    case AVRO_INT64:
    case AVRO_FLOAT:
    case AVRO_DOUBLE:
        return RP_JSON_NUMBER;
    case AVRO_STRING:
    case AVRO_ENUM:
        return RP_JSON_STRING;
    case AVRO_ARRAY:
        return RP_JSON_ARRAY;
    default:
        return RP_JSON_OBJECT;
    }
}

/* NaN is a string: it must not be taken for one. */
static bool may_be_nan(avro_schema_t branch)
{
    branch = rp_schema_resolve(branch);
    return is_avro_float(branch) || is_avro_double(branch);
}

bool rp_union_names_branches(avro_schema_t type)
{
    int seen[RP_N_JSON_KINDS] = {0};
    size_t n = avro_schema_union_size(type);
    for (size_t i = 0; i < n; i++) {
        avro_schema_t branch = avro_schema_union_branch(type, (int)i);
        if (seen[rp_union_kind(branch)]++ > 0 || (may_be_nan(branch) && seen[RP_JSON_STRING]++ > 0))
            return true;
    }
    return false;
}

const char *rp_union_branch_name(avro_schema_t branch, char room[RP_BRANCH_NAME])
{
    branch = rp_schema_resolve(branch);
    const char *space = avro_schema_namespace(branch);
    bool named = is_avro_record(branch) || is_avro_enum(branch) || is_avro_fixed(branch);
    if (!named)
        return avro_schema_type_name(branch);
    (void)snprintf(room, RP_BRANCH_NAME, "%s%s%s", space == NULL ? "" : space,
                   space == NULL || space[0] == '\0' ? "" : ".", avro_schema_name(branch));
    return room;
}
