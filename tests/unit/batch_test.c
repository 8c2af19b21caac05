/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "batch.h"

static struct batch batch;

static int tear_down(void **state)
{
    (void)state;
    batch_clear(&batch);
    return 0;
}

static void reach(int32_t partition, int64_t offset)
{
    struct rp_error err;
    assert_int_equal(batch_reach(&batch, partition, offset, &err), 0);
}

static int64_t offset_in(rd_kafka_topic_partition_list_t *list, int32_t partition)
{
    rd_kafka_topic_partition_t *p = rd_kafka_topic_partition_list_find(list, "t", partition);
    int64_t offset = p == NULL ? -1 : p->offset;
    rd_kafka_topic_partition_list_destroy(list);
    return offset;
}

static int64_t offset_of(bool first, int32_t partition)
{
    if (!first)
        return offset_in(batch_offsets(&batch, "t"), partition);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    batch_begins(&batch, "t", list);
    return offset_in(list, partition);
}

static void it_commits_behind_the_last_and_goes_back_to_the_first(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 10; i++) {
        reach(0, 100 + i);
        batch_take(&batch, 0, 100 + i);
        reach(40, 7 * i);
        batch_take(&batch, 40, 7 * i);
    }
    assert_int_equal(offset_of(false, 0), 110);
    assert_int_equal(offset_of(true, 0), 100);
    assert_int_equal(offset_of(false, 40), 64);
    assert_int_equal(offset_of(true, 40), 0);
}

static void what_was_reached_and_not_taken_is_read_again_and_not_committed(void **state)
{
    (void)state;
    reach(3, 50);
    assert_int_equal(offset_of(false, 3), -1);
    assert_int_equal(offset_of(true, 3), 50);
}

static void a_log_that_was_cut_goes_on_where_it_begins_again(void **state)
{
    (void)state;
    reach(3, 50);
    batch_take(&batch, 3, 50);
    reach(3, 7);
    batch_take(&batch, 3, 7);
    assert_int_equal(offset_of(false, 3), 8);
    assert_int_equal(offset_of(true, 3), 7);
}

/* What the batch took before may end behind the log, or be another record by now. */
static void a_log_that_was_cut_is_read_again_from_what_was_reached(void **state)
{
    (void)state;
    for (int64_t offset = 90; offset < 110; offset++) {
        reach(3, offset);
        batch_take(&batch, 3, offset);
    }
    reach(3, 100);
    assert_int_equal(offset_of(false, 3), 100);
    assert_int_equal(offset_of(true, 3), 90);
    reach(3, 7);
    assert_int_equal(offset_of(false, 3), -1);
    assert_int_equal(offset_of(true, 3), 7);
}

static void it_says_where_it_began(void **state)
{
    (void)state;
    reach(3, 50);
    batch_take(&batch, 3, 50);
    assert_int_equal(batch_first(&batch, 3, 51), 50);
    assert_int_equal(batch_first(&batch, 3, 49), 49);
    assert_int_equal(batch_first(&batch, 4, 51), 51);
}

static void a_reset_forgets_all(void **state)
{
    (void)state;
    reach(3, 50);
    batch_take(&batch, 3, 50);
    batch_reset(&batch);
    assert_int_equal(offset_of(true, 3), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_teardown(name, tear_down)
        TEST(it_commits_behind_the_last_and_goes_back_to_the_first),
        TEST(what_was_reached_and_not_taken_is_read_again_and_not_committed),
        TEST(a_log_that_was_cut_goes_on_where_it_begins_again),
        TEST(a_log_that_was_cut_is_read_again_from_what_was_reached),
        TEST(it_says_where_it_began),
        TEST(a_reset_forgets_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
