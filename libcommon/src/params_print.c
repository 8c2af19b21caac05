/* SPDX-License-Identifier: Apache-2.0 */
#include "params.h"

#include <string.h>

static void print(const struct rp_param *params, const char *prefix, FILE *out)
{
    for (const struct rp_param *p = params; p->key != NULL; p++) {
        char path[128], expected[RP_EXPECTED_TEXT];
        (void)snprintf(path, sizeof path, "%s%s%s", prefix, *prefix == '\0' ? "" : ".", p->key);
        if (p->type == RP_P_MAP) {
            print(p->fields, path, out);
            continue;
        }
        rp_params_expected(p, expected);
        (void)fprintf(out, "%s\n    %s%s%s%s\n    %s\n", path, expected,
                      p->required         ? "; must be stated"
                      : p->def == NULL    ? ""
                      : p->def[0] == '\0' ? "; default: empty"
                                          : "; default: ",
                      p->required || p->def == NULL ? "" : p->def, "", p->about);
    }
}

void rp_params_print(const struct rp_param *params, FILE *out)
{
    print(params, "", out);
}
