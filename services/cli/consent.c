/* SPDX-License-Identifier: Apache-2.0 */
#include "consent.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "dead_letter.h"
#include "filter_args.h"

const char *consent_actor(const struct cli_args *args)
{
    const char *names[] = {cli_value(args, "as"), getenv("REPRISE_ACTOR"), getenv("SUDO_USER")};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i] != NULL && names[i][0] != '\0')
            return names[i];
    const struct passwd *user = getpwuid(geteuid());
    return user == NULL ? "unknown" : user->pw_name;
}

int consent_reason(const struct cli_args *args)
{
    const char *reason = cli_value(args, "reason");
    bool takes_filter = cli_has_option(args, FILTER_REASON_TO_ACT);
    for (int i = 0; takes_filter && reason != NULL && i < RP_N_REASONS; i++)
        if (strcasecmp(reason, rp_reason_name((enum rp_reason)i)) == 0) {
            cli_error("--reason says why it is done; --" FILTER_REASON_TO_ACT
                      " picks those that died for a reason");
            return CLI_USAGE;
        }
    if (cli_value(args, "dry-run") == NULL && (reason == NULL || *reason == '\0')) {
        cli_error("--reason is required: it says in the audit why it is done");
        return CLI_USAGE;
    }
    return CLI_OK;
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

int64_t consent_shown(const struct cli_args *args, int64_t n)
{
    return cli_value(args, "yes") == NULL ? n : 0;
}
