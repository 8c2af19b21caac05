/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wordexp.h>
#include <cmocka.h>

#include "file_fixture.h"

char printed[1 << 17];
bool terminal;
static char config[] = "/tmp/reprise-commands-XXXXXX";

int __wrap_isatty(int fd);
int __wrap_isatty(int fd)
{
    (void)fd;
    return terminal;
}

static void remove_config(void)
{
    (void)unlink(config);
}

void cli_configure(const char *text)
{
    file_make(config, text, strlen(text));
    assert_int_equal(atexit(remove_config), 0);
    assert_int_equal(setenv("REPRISE_CONFIG", config, 1), 0);
}

static void redirect(FILE *to, int saved[2])
{
    (void)fflush(stdout);
    (void)fflush(stderr);
    for (int fd = 1; fd <= 2; fd++) {
        if (to != NULL)
            saved[fd - 1] = dup(fd);
        (void)dup2(to != NULL ? fileno(to) : saved[fd - 1], fd);
        if (to == NULL)
            (void)close(saved[fd - 1]);
    }
}

int cli_run(const struct cli_command *const *commands, const char *words)
{
    wordexp_t w = {.we_offs = 1};
    int saved[2];
    FILE *capture = tmpfile();
    assert_non_null(capture);
    assert_int_equal(wordexp(words, &w, WRDE_DOOFFS | WRDE_NOCMD | WRDE_UNDEF), 0);
    char name[] = "reprise";
    w.we_wordv[0] = name;
    redirect(capture, saved);
    int code = cli_main(commands, (int)w.we_wordc + 1, w.we_wordv);
    redirect(NULL, saved);
    w.we_wordv[0] = NULL;
    wordfree(&w);
    rewind(capture);
    size_t n = fread(printed, 1, sizeof printed - 1, capture);
    printed[n] = '\0';
    assert_int_equal(fclose(capture), 0);
    return code;
}

void assert_printed(const char *part)
{
    if (strstr(printed, part) == NULL)
        fail_msg("'%s' is not in: %s", part, printed);
}
