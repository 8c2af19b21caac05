/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include "config.h"

static void print_fault(void *opaque, const char *file, int line, const char *text)
{
    (void)opaque;
    if (line > 0)
        cli_error("%s:%d: %s", file, line, text);
    else
        cli_error("%s: %s", file, text);
}

struct rp_config *cli_config_load(const struct cli_args *args)
{
    struct rp_config *config;
    struct rp_error err;
    if (rp_config_load(args->config_file, print_fault, NULL, &config, &err) != 0 &&
        err.code == RP_E_NOMEM) /* that is no fault of the file */
        cli_error("%s", err.text);
    return config;
}
