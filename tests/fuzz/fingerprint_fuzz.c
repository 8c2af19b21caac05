/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "fingerprint.h"
#include "utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whatever comes, the mask is short, clean UTF-8, the same each time, and one space is the most
 * there is between words. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char out[RP_MASK_MAX], again[RP_MASK_MAX];
    size_t n = rp_fingerprint_mask((struct rp_bytes){data, size}, out);
    if (n > RP_MASK_MAX || !rp_utf8_valid((struct rp_bytes){out, n}))
        abort();
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)out[i] < ' ' || out[i] == 0x7f ||
            (out[i] == ' ' && (i == 0 || i + 1 == n || out[i + 1] == ' ')))
            abort();
    if (rp_fingerprint_mask((struct rp_bytes){data, size}, again) != n ||
        memcmp(out, again, n) != 0)
        abort();
    if (rp_fingerprint(RP_NULL_BYTES, RP_NULL_BYTES, (struct rp_bytes){out, n}) == 0)
        abort();
    return 0;
}
