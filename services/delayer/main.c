/* SPDX-License-Identifier: Apache-2.0 */
#include "service.h"
#include "worker.h"

static const struct rp_service_config *section(const struct rp_config *config)
{
    return &config->delayer;
}

int main(int argc, char **argv)
{
    static const struct rp_service_def def = {
        .name = "reprise-delayer",
        .about = "Holds each parked task until it is due, then re-invokes its handler.",
        .section = section,
        .run = delayer_run,
    };
    return rp_service_main(&def, argc, argv);
}
