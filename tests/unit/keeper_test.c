/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of retention and statistics, on a clock that is played, where the database lets no
 * more in than the archiver's worker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sched.h>
#include <string.h>
#include <cmocka.h>

#include "clock_fixture.h"
#include "db.h"
#include "keeper.h"
#include "log.h"

#define LOG_EACH_MS 60000

static struct {
    const char *event;
    atomic_int n;
    int64_t mono_ms[2];
} told[] = {{.event = "statistics-failed"}, {.event = "retention-failed"}};

void __wrap_rp_log_fields(enum rp_log_level level, const char *event,
                          const struct rp_field *fields);
int __wrap_rp_db_open(const char *dsn, const char *name, int64_t timeout_ms, struct rp_db **out,
                      struct rp_error *err);

/* Each event is one thread's. */
void __wrap_rp_log_fields(enum rp_log_level level, const char *event, const struct rp_field *fields)
{
    (void)level;
    (void)fields;
    for (size_t i = 0; i < 2; i++)
        if (strcmp(told[i].event, event) == 0 && told[i].n < 2) {
            told[i].mono_ms[told[i].n] = now_mono_ms;
            told[i].n++;
        }
}

int __wrap_rp_db_open(const char *dsn, const char *name, int64_t timeout_ms, struct rp_db **out,
                      struct rp_error *err)
{
    (void)dsn;
    (void)name;
    (void)timeout_ms;
    (void)out;
    return rp_fail(err, RP_E_POSTGRES, RP_RETRIABLE, "too many connections");
}

static void who_is_not_let_in_says_so_each_minute(void **state)
{
    static const struct rp_config config;
    static struct metrics_archiver metrics;
    struct keeper *k;
    struct rp_error err;
    (void)state;
    assert_int_equal(keeper_start(&config, &metrics, &k, &err), 0);
    while (told[0].n < 2 || told[1].n < 2) /* who never says so is waited for until ctest ends it */
        (void)sched_yield();
    keeper_stop(k, true);
    for (size_t i = 0; i < 2; i++)
        assert_true(told[i].mono_ms[1] - told[i].mono_ms[0] >= LOG_EACH_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(who_is_not_let_in_says_so_each_minute)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
