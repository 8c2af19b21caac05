/* SPDX-License-Identifier: Apache-2.0 */
#include "service.h"
#include "worker.h"

static const struct rp_service_config *section(const struct rp_config *config)
{
    return &config->archiver;
}

int main(int argc, char **argv)
{
    static const struct rp_service_def archiver = {
        .name = "reprise-archiver",
        .about = "Archives dead letters in PostgreSQL, each once, and drops the old ones.",
        .section = section,
        .run = worker_run,
    };
    return rp_service_main(&archiver, argc, argv);
}
