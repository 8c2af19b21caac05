/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "utf8.h"

/* RFC 3629, section 3, written out. */
static size_t encode(uint32_t c, uint8_t out[4])
{
    if (c < 0x80) {
        out[0] = (uint8_t)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t marks[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        out[i] = (uint8_t)(0x80 | (c & 0x3f));
    out[0] = (uint8_t)(marks[n] | c);
    return n;
}

static void every_character_is_read_back(void **state)
{
    (void)state;
    for (uint32_t c = 0; c <= 0x10ffff; c++) {
        uint8_t bytes[4];
        uint32_t got = UINT32_MAX;
        size_t n = encode(c, bytes);
        if (c >= 0xd800 && c < 0xe000) {
            assert_int_equal(rp_utf8_next(bytes, n, &got), 0);
            continue;
        }
        assert_int_equal(rp_utf8_next(bytes, n, &got), n);
        assert_int_equal(got, c);
        assert_int_equal(rp_utf8_next(bytes, n - 1, &got), 0); /* cut short */
    }
}

static void what_is_no_utf8_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\x80",             /* a continuation with nothing in front */
        "\xc3(",            /* no continuation where one is needed */
        "\xc0\x80",         /* overlong NUL */
        "\xc1\xbf",         /* overlong in two */
        "\xe0\x9f\xbf",     /* overlong in three */
        "\xf0\x8f\xbf\xbf", /* overlong in four */
        "\xf4\x90\x80\x80", /* over U+10FFFF */
        "\xf8\x88\x80\x80\x80",
        "\xff",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint32_t c;
        assert_int_equal(rp_utf8_next((const uint8_t *)bad[i], strlen(bad[i]), &c), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_character_is_read_back),
        cmocka_unit_test(what_is_no_utf8_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
