/* SPDX-License-Identifier: Apache-2.0 */
/* With --write FILE it writes the schema instead of testing it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <jansson.h>

#include "config.h"

static char *generate(size_t *len)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, len);
    assert_non_null(out);
    assert_int_equal(rp_config_write_schema(out), 0);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void the_schema_in_the_repository_is_that_of_the_table(void **state)
{
    (void)state;
    size_t len;
    char *expected = generate(&len), *found = calloc(1, len + 2);
    FILE *in = fopen(REPRISE_CONFIG_SCHEMA, "r");
    assert_non_null(found);
    assert_non_null(in);
    size_t n = fread(found, 1, len + 1, in);
    assert_int_equal(fclose(in), 0);
    if (n != len || strcmp(found, expected) != 0)
        fail_msg("%s is out of date: build the target update-config-schema", REPRISE_CONFIG_SCHEMA);
    free(expected);
    free(found);
}

/* Counts the references of a schema that lead nowhere. */
static int dangling(json_t *node, json_t *defs)
{
    int n = 0;
    const char *key;
    size_t i;
    json_t *value;
    json_object_foreach(node, key, value)
    {
        if (strcmp(key, "$ref") == 0)
            n += json_object_get(defs, json_string_value(value) + strlen("#/$defs/")) == NULL;
        n += dangling(value, defs);
    }
    json_array_foreach(node, i, value) n += dangling(value, defs);
    return n;
}

static void every_reference_in_the_schema_leads_somewhere(void **state)
{
    (void)state;
    size_t len;
    char *text = generate(&len);
    json_t *schema = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(schema);
    assert_int_equal(dangling(schema, json_object_get(schema, "$defs")), 0);
    json_decref(schema);
    free(text);
}

static int write_to(const char *file)
{
    FILE *out = fopen(file, "w");
    if (out == NULL)
        return EXIT_FAILURE;
    int rc = rp_config_write_schema(out);
    return fclose(out) == 0 && rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--write") == 0)
        return write_to(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_schema_in_the_repository_is_that_of_the_table),
        cmocka_unit_test(every_reference_in_the_schema_leads_somewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
