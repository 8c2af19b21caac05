/* SPDX-License-Identifier: Apache-2.0 */
#include "consent.h"

#include <pwd.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

const char *consent_actor(const struct cli_args *args)
{
    const char *as = cli_value(args, "as");
    const struct passwd *user = as == NULL ? getpwuid(geteuid()) : NULL;
    if (as != NULL)
        return as;
    return user == NULL ? "unknown" : user->pw_name;
}

int consent_ask(const struct cli_args *args, const char *question)
{
    char answer[16];
    if (cli_value(args, "yes") != NULL)
        return CLI_OK;
    if (!isatty(STDIN_FILENO)) {
        cli_error(
            "there is no terminal to ask on; nothing was done (--yes goes on without asking)");
        return CLI_REFUSED;
    }
    (void)fflush(stdout);
    (void)fprintf(stderr, "%s [y/N] ", question);
    if (fgets(answer, sizeof answer, stdin) != NULL &&
        (strcasecmp(answer, "y\n") == 0 || strcasecmp(answer, "yes\n") == 0))
        return CLI_OK;
    cli_error("nothing was done");
    return CLI_REFUSED;
}
