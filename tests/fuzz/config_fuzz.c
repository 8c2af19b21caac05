/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void count_fault(void *opaque, const char *file, int line, const char *text)
{
    size_t *n = opaque;
    if (file == NULL || line < 0 || text[0] == '\0')
        abort();
    ++*n;
}

/* One decision by whatever policy there is: a configuration that loads must be fit for use. */
static void decide(const struct rp_config *config, struct rp_bytes bytes)
{
    const struct rp_failed_task task = {
        .task_type = bytes, .error_class = bytes, .error_message = bytes};
    struct rp_failure failure = {.task = &task, .attempt = INT32_MAX, .now_ms = 1};
    const struct rp_policy *policy = rp_policies_match(config->policies, bytes);
    const struct rp_category *category = rp_classify(config->policies, &task);
    struct rp_rng rng;
    struct rp_decision d;
    rp_rng_init(&rng, 1);
    for (; failure.attempt > 0; failure.attempt = failure.attempt == 1 ? 0 : 1) {
        rp_decide(policy, category, &failure, &rng, &d);
        if (d.verdict == RP_RETRY && (d.delay_ms < 0 || d.due_ms < failure.now_ms))
            abort();
    }
}

/* A file of the input's bytes that nobody else sees. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[32];
    struct rp_config *config;
    struct rp_error err = {.code = RP_OK};
    size_t faults = 0;
    int fd = memfd_create("config", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int rc = rp_config_load(path, count_fault, &faults, &config, &err);
    if ((rc == 0) != (faults == 0) || (rc != 0 && err.code != RP_E_CONFIG))
        abort();
    if (rc == 0)
        decide(config, (struct rp_bytes){data, size});
    rp_config_free(config);
    (void)close(fd);
    return 0;
}
