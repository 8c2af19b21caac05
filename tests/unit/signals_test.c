/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>

#include "signals.h"

static volatile sig_atomic_t heard;

static void hear(int number)
{
    heard = number;
}

static void (*disposition(int number))(int)
{
    struct sigaction now;
    assert_int_equal(sigaction(number, NULL, &now), 0);
    return now.sa_handler;
}

static void the_first_is_heard_and_the_second_ends_it(void **state)
{
    (void)state;
    assert_true(signal(SIGHUP, SIG_DFL) != SIG_ERR);
    assert_int_equal(signals_catch(SIGHUP, hear), 0);
    assert_int_equal(raise(SIGHUP), 0);
    assert_int_equal(heard, SIGHUP);
    assert_true(disposition(SIGHUP) == SIG_DFL);
}

static void one_that_is_ignored_stays_so(void **state)
{
    (void)state;
    heard = 0;
    assert_true(signal(SIGHUP, SIG_IGN) != SIG_ERR);
    assert_int_equal(signals_catch(SIGHUP, hear), 0);
    assert_int_equal(raise(SIGHUP), 0);
    assert_int_equal(heard, 0);
    assert_true(disposition(SIGHUP) == SIG_IGN);
}

static void none_that_cannot_be_caught_is(void **state)
{
    (void)state;
    assert_int_equal(signals_catch(SIGKILL, hear), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_is_heard_and_the_second_ends_it),
        cmocka_unit_test(one_that_is_ignored_stays_so),
        cmocka_unit_test(none_that_cannot_be_caught_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
