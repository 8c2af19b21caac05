/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "roff.h"

static void what_roff_would_take_for_its_own_is_escaped(void **state)
{
    (void)state;
    static const struct {
        const char *text, *roff;
    } cases[] = {
        {"a\\b", "a\\eb\n"},
        {"-x 'y' `z` ^~", "\\-x \\(aqy\\(aq \\(gaz\\(ga \\(ha\\(ti\n"},
        {".so /etc/passwd", "\\&.so /etc/passwd\n"},
        {"'br", "\\(aqbr\n"},
        {"a\nb", "a\nb\n"},
        {"a\n\nb", "a\n.PP\nb\n"},
        {"a\n  b\n\n  c\nd", "a\n.PP\n.nf\n  b\n\n  c\n.fi\n.PP\nd\n"},
        {"  a", ".PP\n.nf\n  a\n.fi\n"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[200] = "";
        FILE *f = fmemopen(out, sizeof out, "w");
        assert_non_null(f);
        roff_text(f, cases[i].text);
        assert_int_equal(fclose(f), 0);
        assert_string_equal(out, cases[i].roff);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_roff_would_take_for_its_own_is_escaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
