/* SPDX-License-Identifier: Apache-2.0 */
#include "unassigned.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "kafka.h"

#define SOON_MS    1000
#define STANDS_MS  10000 /* mostly longer than a member takes to give up what it was told to */
#define MOST_TRIES 7
#define LOOK_MS    60000 /* where no rebalance was seen */
#define GIVE_UP_MS 60000
/* After so many in vain the next look is a late one. */
#define MOST_UNDESCRIBED 3

bool rp_unassigned_due(const struct rp_unassigned *u)
{
    return rp_mono_ms() >= u->look_mono_ms;
}

static void ask_of_topics(struct rp_unassigned *u, rd_kafka_t *consumer)
{
    rd_kafka_topic_partition_list_t *subscription = NULL;
    if (rd_kafka_subscription(consumer, &subscription) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return;
    const char **names = calloc((size_t)subscription->cnt + 1, sizeof *names);
    if (names != NULL && subscription->cnt > 0) {
        for (int i = 0; i < subscription->cnt; i++)
            names[i] = subscription->elems[i].topic;
        rd_kafka_TopicCollection_t *topics =
            rd_kafka_TopicCollection_of_topic_names(names, (size_t)subscription->cnt);
        rd_kafka_AdminOptions_t *options =
            rp_kafka_admin_options(consumer, RD_KAFKA_ADMIN_OP_DESCRIBETOPICS, RP_KAFKA_LONGEST_MS);
        rd_kafka_DescribeTopics(consumer, topics, options, u->answers);
        u->n_answers++;
        rd_kafka_AdminOptions_destroy(options);
        rd_kafka_TopicCollection_destroy(topics);
    }
    free(names);
    rd_kafka_topic_partition_list_destroy(subscription);
}

static void ask(struct rp_unassigned *u, rd_kafka_t *consumer, const char *group)
{
    rd_kafka_AdminOptions_t *options = rp_kafka_admin_options(
        consumer, RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS, RP_KAFKA_LONGEST_MS);
    u->answers = rd_kafka_queue_new(consumer);
    u->asked_mono_ms = rp_mono_ms();
    rd_kafka_DescribeConsumerGroups(consumer, &group, 1, options, u->answers);
    rd_kafka_AdminOptions_destroy(options);
    u->n_answers = 1;
    ask_of_topics(u, consumer);
}

/* Answers that come later meet nobody. */
static void end_question(struct rp_unassigned *u)
{
    if (u->answers != NULL)
        rd_kafka_queue_destroy(u->answers);
    u->answers = NULL;
    if (u->group != NULL)
        rd_kafka_event_destroy(u->group);
    if (u->topics != NULL)
        rd_kafka_event_destroy(u->topics);
    u->group = u->topics = NULL;
}

static const rd_kafka_topic_partition_list_t *
assignment_of(const rd_kafka_ConsumerGroupDescription_t *group, size_t member)
{
    return rd_kafka_MemberAssignment_partitions(rd_kafka_MemberDescription_assignment(
        rd_kafka_ConsumerGroupDescription_member(group, member)));
}

/* How many partitions of the topic are nobody's. */
static size_t lacking(const rd_kafka_ConsumerGroupDescription_t *group,
                      const rd_kafka_TopicDescription_t *topic)
{
    size_t n = 0;
    if (rd_kafka_error_code(rd_kafka_TopicDescription_error(topic)) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return 0;
    (void)rd_kafka_TopicDescription_partitions(topic, &n);
    for (size_t m = 0; m < rd_kafka_ConsumerGroupDescription_member_count(group); m++) {
        const rd_kafka_topic_partition_list_t *parts = assignment_of(group, m);
        for (int i = 0; parts != NULL && i < parts->cnt && n > 0; i++)
            n -= strcmp(parts->elems[i].topic, rd_kafka_TopicDescription_name(topic)) == 0;
    }
    return n;
}

static int size_of(const rd_kafka_topic_partition_list_t *parts)
{
    return parts == NULL ? 0 : parts->cnt;
}

static const char *id_of(const rd_kafka_ConsumerGroupDescription_t *group, size_t member)
{
    return rd_kafka_MemberDescription_consumer_id(
        rd_kafka_ConsumerGroupDescription_member(group, member));
}

/* How many members come before this one: those that have less to give up. -1: it is none. */
static int rank_of(const rd_kafka_ConsumerGroupDescription_t *group, const char *id)
{
    size_t n = rd_kafka_ConsumerGroupDescription_member_count(group), self = 0;
    int rank = 0;
    while (self < n && strcmp(id_of(group, self), id) != 0)
        self++;
    for (size_t m = 0; self < n && m < n; m++) {
        int more = size_of(assignment_of(group, m)) - size_of(assignment_of(group, self));
        rank += more < 0 || (more == 0 && strcmp(id_of(group, m), id) < 0);
    }
    return self < n ? rank : -1;
}

static void take_answers(struct rp_unassigned *u)
{
    rd_kafka_event_t *event;
    while ((event = rd_kafka_queue_poll(u->answers, 0)) != NULL) {
        u->n_answers--;
        if (rd_kafka_event_error(event) != RD_KAFKA_RESP_ERR_NO_ERROR)
            rd_kafka_event_destroy(event);
        else if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_DESCRIBECONSUMERGROUPS_RESULT)
            u->group = event;
        else
            u->topics = event;
    }
}

/* The group as described; NULL while it is not at rest. */
static const rd_kafka_ConsumerGroupDescription_t *group_of(rd_kafka_event_t *answer)
{
    size_t n = 0;
    const rd_kafka_ConsumerGroupDescription_t **groups =
        rd_kafka_DescribeConsumerGroups_result_groups(
            rd_kafka_event_DescribeConsumerGroups_result(answer), &n);
    if (n == 0 ||
        rd_kafka_ConsumerGroupDescription_state(groups[0]) != RD_KAFKA_CONSUMER_GROUP_STATE_STABLE)
        return NULL;
    return groups[0];
}

/* A broker that is not the group's coordinator any more does not describe it, and librdkafka keeps
 * to it for as long as it is asked more often than each 36 s (metadata.max.age.ms). */
static bool is_described(rd_kafka_event_t *answer)
{
    size_t n = 0;
    const rd_kafka_ConsumerGroupDescription_t **groups =
        answer == NULL ? NULL
                       : rd_kafka_DescribeConsumerGroups_result_groups(
                             rd_kafka_event_DescribeConsumerGroups_result(answer), &n);
    return n > 0 && rd_kafka_ConsumerGroupDescription_state(groups[0]) !=
                        RD_KAFKA_CONSUMER_GROUP_STATE_UNKNOWN;
}

static size_t count(const rd_kafka_ConsumerGroupDescription_t *group, rd_kafka_event_t *answer)
{
    size_t n_topics = 0, n = 0;
    const rd_kafka_TopicDescription_t **topics = rd_kafka_DescribeTopics_result_topics(
        rd_kafka_event_DescribeTopics_result(answer), &n_topics);
    for (size_t i = 0; i < n_topics; i++)
        n += lacking(group, topics[i]);
    return n;
}

static bool is_its_turn(const struct rp_unassigned *u, rd_kafka_t *consumer,
                        const rd_kafka_ConsumerGroupDescription_t *group)
{
    char *id = rd_kafka_memberid(consumer);
    int rank = id == NULL ? -1 : rank_of(group, id);
    rd_kafka_mem_free(consumer, id);
    return rank >= 0 &&
           u->asked_mono_ms - u->since_mono_ms >= ((int64_t)STANDS_MS << u->tries) * (rank + 1);
}

static size_t judge(struct rp_unassigned *u, rd_kafka_t *consumer)
{
    const rd_kafka_ConsumerGroupDescription_t *group = group_of(u->group);
    size_t n = group == NULL ? 0 : count(group, u->topics);
    if (group != NULL && n == 0) {
        u->look_mono_ms = rp_mono_ms() + LOOK_MS;
        u->tries = 0;
    }
    if (n == 0)
        u->since_mono_ms = 0;
    else if (u->since_mono_ms == 0)
        u->since_mono_ms = rp_mono_ms();
    if (n == 0 || !is_its_turn(u, consumer, group))
        return 0;
    u->since_mono_ms = 0;
    u->tries += u->tries < MOST_TRIES;
    return n;
}

size_t rp_unassigned_look(struct rp_unassigned *u, rd_kafka_t *consumer, const char *group)
{
    size_t n = 0;
    u->look_mono_ms = rp_mono_ms() + SOON_MS;
    if (u->answers == NULL) {
        ask(u, consumer, group);
        return 0;
    }
    take_answers(u);
    if (u->n_answers > 0 && rp_mono_ms() - u->asked_mono_ms < GIVE_UP_MS)
        return 0;
    u->undescribed = is_described(u->group) ? 0 : u->undescribed + 1;
    if (u->undescribed >= MOST_UNDESCRIBED)
        u->look_mono_ms = rp_mono_ms() + LOOK_MS;
    if (u->undescribed == 0 && u->topics != NULL)
        n = judge(u, consumer);
    end_question(u);
    return n;
}

void rp_unassigned_reset(struct rp_unassigned *u)
{
    end_question(u);
    u->look_mono_ms = u->since_mono_ms = 0;
}
