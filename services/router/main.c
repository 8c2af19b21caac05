/* SPDX-License-Identifier: Apache-2.0 */
#include "service.h"
#include "worker.h"

static const struct rp_service_config *section(const struct rp_config *config)
{
    return &config->router;
}

int main(int argc, char **argv)
{
    static const struct rp_service_def def = {
        .name = "reprise-router",
        .about = "Takes failure events and parks each task until its retry is due.",
        .section = section,
        .run = router_run,
    };
    return rp_service_main(&def, argc, argv);
}
