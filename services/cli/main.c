/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

const struct cli_command *const cli_commands[] = {
    &cmd_topics_apply,
    &cmd_topics_check,
    &cmd_db_migrate,
    &cmd_db_check,
    &cmd_policy_explain,
    &cmd_policy_check,
    &cmd_fail,
    &cmd_dlq_list,
    &cmd_dlq_groups,
    &cmd_dlq_show,
    &cmd_dlq_stats,
    &cmd_dlq_count,
    &cmd_dlq_tail,
    &cmd_dlq_discard,
    &cmd_dlq_purge,
    &cmd_dlq_export,
    &cmd_dlq_import,
    &cmd_dlq_replay,
    &cmd_dlq_edit,
    &cmd_replay_list,
    &cmd_replay_show,
    &cmd_replay_pause,
    &cmd_replay_resume,
    &cmd_replay_cancel,
    &cmd_replay_rate,
    &cmd_completion,
    &cmd_help,
    &cmd_man,
    NULL,
};

int main(int argc, char **argv)
{
    return cli_main(cli_commands, argc, argv);
}
