/* SPDX-License-Identifier: Apache-2.0 */
#include "export_name.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAME_MAX_BYTES 200
#define MOST_OF_A_NAME 100000

int export_name(const char *folder, const char *name, char out[EXPORT_NAME_SIZE],
                struct rp_error *err)
{
    static const char legal[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    char safe[NAME_MAX_BYTES + 1];
    (void)snprintf(safe, sizeof safe, "%s", name);
    for (char *c = safe; *(c += strspn(c, legal)) != '\0';)
        *c = '_';
    (void)snprintf(out, EXPORT_NAME_SIZE, "%s/%s.jsonl.zst", folder, safe);
    for (int n = 2; access(out, F_OK) == 0; n++) {
        if (n == MOST_OF_A_NAME)
            return rp_fail(err, RP_E_FULL, RP_RETRIABLE, "%s/%s has too many exports", folder,
                           safe);
        (void)snprintf(out, EXPORT_NAME_SIZE, "%s/%s-%d.jsonl.zst", folder, safe, n);
    }
    return 0;
}
