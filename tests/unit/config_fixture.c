/* SPDX-License-Identifier: Apache-2.0 */
#include "config_fixture.h"
#include "file_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

char faults[8192];
struct rp_error load_error;

static void keep_fault(void *opaque, const char *file, int line, const char *text)
{
    (void)opaque;
    (void)file;
    size_t n = strlen(faults);
    (void)snprintf(faults + n, sizeof faults - n, "%d: %s\n", line, text);
}

struct rp_config *load_text(const char *text, size_t len)
{
    char path[] = "/tmp/reprise-config-XXXXXX";
    file_make(path, text, len);
    struct rp_config *config = NULL;
    faults[0] = '\0';
    int rc = rp_config_load(path, keep_fault, NULL, &config, &load_error);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rc == 0, config != NULL);
    return config;
}

struct rp_config *load_good(const char *text)
{
    struct rp_config *config = load_text(text, strlen(text));
    assert_string_equal(faults, "");
    assert_non_null(config);
    return config;
}
