/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "export_name.h"

static char folder[] = "/tmp/reprise-export-XXXXXX";
static bool all_are_there;

/* In libc's place, so that every name can be taken. */
int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode);

int __wrap_access(const char *path, int mode)
{
    return all_are_there ? 0 : __real_access(path, mode);
}

static void named(const char *name, const char *expected)
{
    char out[EXPORT_NAME_SIZE];
    struct rp_error err;
    assert_int_equal(export_name(folder, name, out, &err), 0);
    assert_memory_equal(out, folder, strlen(folder));
    assert_string_equal(out + strlen(folder), expected);
}

static void what_is_no_plain_character_becomes_a_line(void **state)
{
    (void)state;
    named("pay_1.x-Y", "/pay_1.x-Y.jsonl.zst");
    named("../a b\xc3\xa4\n", "/.._a_b___.jsonl.zst");
}

static void a_long_name_is_cut(void **state)
{
    (void)state;
    char name[301], expected[230];
    memset(name, 'n', 300);
    name[300] = '\0';
    (void)snprintf(expected, sizeof expected, "/%.200s.jsonl.zst", name);
    named(name, expected);
}

static void a_name_that_is_taken_gets_a_number(void **state)
{
    (void)state;
    static const char *const expected[] = {"/day.jsonl.zst", "/day-2.jsonl.zst"};
    char paths[2][EXPORT_NAME_SIZE];
    for (int i = 0; i < 2; i++) {
        named("day", expected[i]);
        assert_int_equal(export_name(folder, "day", paths[i], NULL), 0);
        FILE *f = fopen(paths[i], "w");
        assert_non_null(f);
        assert_int_equal(fclose(f), 0);
    }
    named("day", "/day-3.jsonl.zst");
    assert_int_equal(unlink(paths[0]), 0);
    assert_int_equal(unlink(paths[1]), 0);
}

static void the_search_for_a_name_ends(void **state)
{
    (void)state;
    char out[EXPORT_NAME_SIZE];
    struct rp_error err;
    all_are_there = true;
    assert_int_equal(export_name("/f", "day", out, &err), -1);
    all_are_there = false;
    assert_int_equal(err.code, RP_E_FULL);
    assert_int_equal(err.cls, RP_RETRIABLE);
    assert_string_equal(err.text, "/f/day has too many exports");
}

int main(void)
{
    if (mkdtemp(folder) == NULL)
        return 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_plain_character_becomes_a_line),
        cmocka_unit_test(a_long_name_is_cut),
        cmocka_unit_test(a_name_that_is_taken_gets_a_number),
        cmocka_unit_test(the_search_for_a_name_ends),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)rmdir(folder);
    return failed;
}
