/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "config_fixture.h"
#include "replay_rows.h"
#include "replay_sender.h"

static int refuse(void *opaque, const char *json, struct rp_error *err)
{
    (void)opaque;
    (void)json;
    (void)err;
    return 0;
}

int __wrap_rp_replay_rows_new(const char *dsn, const char *job, bool about,
                              struct rp_replay_rows **out, struct rp_error *err);
int __wrap_rp_replay_rows_new(const char *dsn, const char *job, bool about,
                              struct rp_replay_rows **out, struct rp_error *err)
{
    (void)dsn;
    (void)job;
    (void)about;
    *out = NULL;
    return rp_fail(err, RP_E_NOMEM, RP_RETRIABLE, "no memory");
}

/* What the runner then frees, or uses when it tries again, must not be what was freed here. */
static void one_that_cannot_be_made_leaves_nothing_behind(void **state)
{
    (void)state;
    struct rp_config *config = load_good("kafka: {bootstrap.servers: \"none:1\"}\n"
                                         "targets: {allow: [work]}\n");
    const struct rp_replay_job job = {.id = "251121-abcdef"};
    struct rp_replay_sender *sender = NULL;
    struct rp_error err;
    int made =
        rp_replay_sender_new(config, &job, (struct rp_replay_refuser){NULL, refuse}, &sender, &err);
    assert_int_equal(made, -1);
    assert_null(sender);
    rp_config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_cannot_be_made_leaves_nothing_behind),
    };
    return cmocka_run_group_tests_name("replay_sender", tests, NULL, NULL);
}
