/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "explain.h"
#include "suggest.h"
#include "units.h"

/* "0.6" or "60%". -1: not given; false: neither. */
static bool read_success(const char *text, double *out)
{
    int64_t percent;
    char *end;
    *out = -1;
    if (text == NULL)
        return true;
    if (strchr(text, '%') != NULL && rp_parse_percent(text, &percent)) {
        *out = (double)percent / 100;
    } else {
        *out = strtod(text, &end);
        if (end == text || *end != '\0')
            return false;
    }
    return *out >= 0 && *out <= 1;
}

static bool check_category(const struct rp_config *config, const char *name)
{
    if (name == NULL || rp_category_find(config->policies, rp_str(name)) != NULL)
        return true;
    struct rp_suggestion s = {.wrong = name};
    for (size_t i = 0; i < config->policies->n_categories; i++)
        rp_suggest(&s, config->policies->categories[i].category.name);
    if (s.best != NULL)
        cli_error("there is no category '%s': did you mean '%s'?", name, s.best);
    else
        cli_error("there is no category '%s'", name);
    return false;
}

static int run_explain(const struct cli_args *args)
{
    double success;
    if (!read_success(cli_value(args, "success"), &success)) {
        cli_error("--success is a chance from 0 to 1, or a percentage, not '%s'",
                  cli_value(args, "success"));
        return CLI_USAGE;
    }
    struct rp_config *config = cli_config_load(args);
    if (config == NULL)
        return CLI_USAGE;
    const char *category = cli_value(args, "category");
    const struct rp_failed_task task = {
        .task_type = rp_str(args->positional[0]),
        .error_class = rp_str(cli_value(args, "error")),
        .error_message = rp_str(cli_value(args, "message")),
        .error_category = rp_str(category),
    };
    int rc = CLI_USAGE;
    if (check_category(config, category)) {
        explain_print(stdout, config, &task, success);
        rc = CLI_OK;
    }
    rp_config_free(config);
    return rc;
}

static const struct cli_option explain_options[] = {
    {.name = "error", .value = "CLASS", .help = "the class of the error"},
    {.name = "message", .value = "TEXT", .help = "its message"},
    {.name = "category", .value = "NAME", .help = "its category, as an event may state it"},
    {.name = "success", .value = "P", .help = "how likely an execution succeeds: 0.6, or 60%"},
    {0},
};

const struct cli_command cmd_policy_explain = {
    .group = "policy",
    .name = "explain",
    .positional = "TYPE",
    .summary = "Says which policy applies to a task type, and what it comes to.",
    .about = "Prints the policy and why it applies, the error's category, and a table of the\n"
             "executions: how long each waits, in which tier, and for how long in all. With\n"
             "--success also how likely the task has succeeded by then.",
    .options = explain_options,
    .run = run_explain,
};

struct check {
    const char *file;
    size_t faults;
};

static void print_fault(void *opaque, const char *file, int line, const char *text)
{
    struct check *c = opaque;
    c->faults++;
    if (line > 0)
        (void)printf("%s:%d: %s\n", file, line, text);
    else
        (void)printf("%s: %s\n", file, text);
}

static int run_check(const struct cli_args *args)
{
    struct check c = {
        .file = args->n_positional > 0 ? args->positional[0] : args->config_file,
    };
    struct rp_config *config;
    struct rp_error err;
    if (rp_config_load(c.file, print_fault, &c, &config, &err) != 0) {
        (void)printf("%zu fault%s\n", c.faults, c.faults == 1 ? "" : "s");
        return CLI_FAULTS;
    }
    size_t n = 0;
    for (size_t i = 0; i < config->policies->n_items; i++)
        n += !config->policies->items[i].built_in;
    (void)printf("%s: no fault; %zu polic%s\n", c.file, n, n == 1 ? "y" : "ies");
    rp_config_free(config);
    return CLI_OK;
}

const struct cli_command cmd_policy_check = {
    .group = "policy",
    .name = "check",
    .positional = "[FILE]",
    .summary = "Checks a whole configuration, and prints every fault with its line.",
    .about = "Checks all of the file, not only its policies, exactly as a service does when it\n"
             "starts: what it takes from the environment or from files must be there. Ends with 3\n"
             "where there is a fault.",
    .run = run_check,
};
