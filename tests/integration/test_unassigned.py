# SPDX-License-Identifier: Apache-2.0
"""A member of a group is told to give up partitions, and is killed before it asks for the rebalance in which others
are given them. It comes back by its static name, is given what it was to keep, and there is no rebalance: nobody has
the rest."""

from confluent_kafka import ConsumerGroupState
from crash_points import crash_points
from pipeline import wait_for

SHARES = {"router": 2, "delayer": 4, "archiver": 2}
NOTICED_S = 30  # they must be nobody's for 10 s, and then there is a rebalance


def shares(pipeline, name):
    """How many partitions each member of the group has; None while it is not at rest."""
    group = f"{pipeline.prefix}reprise-{name}"
    answer = pipeline.kafka.admin.describe_consumer_groups([group])[group].result(10)
    at_rest = answer.state == ConsumerGroupState.STABLE
    return sorted(len(m.assignment.topic_partitions) for m in answer.members) if at_rest else None


def patient(new_pipeline, kafka, name):
    """With sessions that are longer than anything here: their end would be a rebalance, too."""
    consumer = {"session.timeout.ms": 45000}
    return new_pipeline(name, kafka={"bootstrap.servers": kafka.bootstrap, "consumer": consumer})


def test_what_nobody_was_given_is_given_to_somebody(new_pipeline, kafka):
    pipeline = patient(new_pipeline, kafka, "unassigned")
    killed = {name: pipeline.add(name) for name in SHARES}
    other = {name: pipeline.add(name) for name in SHARES}
    for name, service in killed.items():
        [number] = [number for number, point in crash_points(name) if point == "revoked_before"]
        service.start(REPRISE_CRASH_POINT=str(number))
    for service in killed.values():
        service.wait_ready()
    for service in other.values():
        service.start()
    for service in killed.values():
        assert service.process.wait(30) != 0
        service.start()
    for name, each in SHARES.items():
        wait_for(lambda: shares(pipeline, name) == [each, each], f"{name}: partitions to be given", NOTICED_S)
        logs = pipeline.logs()
        assert logs[killed[name].label].count(" partitions-unassigned ") == 0
        assert logs[other[name].label].count(" partitions-unassigned ") == 1


def test_who_is_stopped_gives_its_partitions_to_the_others_at_once(new_pipeline, kafka):
    pipeline = patient(new_pipeline, kafka, "leaving")
    stopped = pipeline.start(*SHARES)
    pipeline.start(*SHARES)
    for name, each in SHARES.items():
        wait_for(lambda: shares(pipeline, name) == [each, each], f"{name}: partitions to be shared", 60)
    for service in stopped:
        assert service.stop() == 0
    for name, each in SHARES.items():
        wait_for(lambda: shares(pipeline, name) == [2 * each], f"{name}: partitions to be taken up", 20)
