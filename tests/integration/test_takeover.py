# SPDX-License-Identifier: Apache-2.0
"""What a router takes over from one that died."""

import re
import signal
import socket
import struct
import time
import uuid

import contract
import pytest
from confluent_kafka import OFFSET_END, Consumer, ConsumerGroupState, KafkaException, Producer, TopicPartition
from pipeline import header, now_ms, wait_for

POLICIES = {"now": {"max_attempts": 3, "backoff": "none"}}


def new_task(pipeline, **fields):
    return contract.failed_task(pipeline.target("handler"), "now", **fields)


def owned(service):
    """The partitions that a service has, by its log."""
    partitions = set()
    for line in service.log.read_text().splitlines():
        if found := re.search(r"partition-(assigned|revoked|lost).* partition=(\d+)", line):
            change = partitions.add if found[1] == "assigned" else partitions.discard
            change(int(found[2]))
    return partitions


def send_to_each(pipeline, partitions, count):
    """Tasks in these partitions of failed-tasks; returns the partition of each."""
    sent = {}
    for number in range(count):
        task, partition = new_task(pipeline), partitions[number % len(partitions)]
        value = contract.single_object(task)
        pipeline.producer.produce(f"{pipeline.prefix}failed-tasks", value, partition=partition)
        sent[task["task_id"]] = partition
    assert pipeline.producer.flush(30) == 0
    return sent


def open_transaction(pipeline, partitions):
    """Holds the offsets of these partitions, as a router does in the moment before its commit."""
    group = f"{pipeline.prefix}reprise-router"
    member = Consumer({"bootstrap.servers": pipeline.kafka.bootstrap, "group.id": group})
    producer = Producer(
        {"bootstrap.servers": pipeline.kafka.bootstrap, "transactional.id": str(uuid.uuid4())}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    offsets = [TopicPartition(f"{pipeline.prefix}failed-tasks", p, 0) for p in partitions]
    producer.send_offsets_to_transaction(offsets, member.consumer_group_metadata(), 30)
    member.close()
    return producer


def test_a_dead_owners_transaction_holds_up_only_its_own_partitions(new_pipeline):
    pipeline = new_pipeline("takeover", policies=POLICIES)
    handler = pipeline.reader(pipeline.create_target("handler"))
    dies, lives = pipeline.start("router", count=2)
    wait_for(lambda: len(owned(dies)) == len(owned(lives)) == 2, "each to have its share", 30)
    theirs, ours = owned(dies), owned(lives)
    sent = send_to_each(pipeline, range(4), 40)
    handler.wait(40)

    transaction = open_transaction(pipeline, theirs)
    dies.kill()
    wait_for(lambda: owned(lives) == theirs | ours, "the survivor to be given all", 30)
    sent |= send_to_each(pipeline, range(4), 40)
    is_free = lambda record: sent[header(record, "reprise-task-id")] in ours
    handler.wait(40, is_free)
    assert len(handler.records) == 60
    assert lives.get("/readyz")[0] == 503

    transaction.abort_transaction(30)
    handler.wait(80)
    lives.wait_ready()
    handler.poll(1)
    came = [header(record, "reprise-task-id") for record in handler.records]
    assert sorted(came) == sorted(sent)


def group_of(pipeline):
    (described,) = pipeline.kafka.admin.describe_consumer_groups(
        [f"{pipeline.prefix}reprise-router"], request_timeout=10
    ).values()
    return described.result()


def members_of(pipeline):
    return [member.group_instance_id for member in group_of(pipeline).members]


def text16(text):
    return struct.pack(">h", len(text)) + text.encode()


def remove_member(pipeline, instance):
    """Takes a static member out of its group, as whoever administers it may: LeaveGroup, version 3."""
    body = text16(f"{pipeline.prefix}reprise-router") + struct.pack(">i", 1) + text16("") + text16(instance)
    request = struct.pack(">hhi", 13, 3, 1) + text16("a-test") + body
    host, port = pipeline.kafka.bootstrap.split(":")
    with socket.create_connection((host, int(port)), 10) as s:
        s.sendall(struct.pack(">i", len(request)) + request)
        answer = s.recv(4096)
    assert struct.unpack_from(">h", answer, 12) == (0,)


def test_who_was_forgotten_while_it_joined_routes_nothing_once_more(new_pipeline, kafka):
    """It waits for a member that is frozen, as a newcomer made it join again. Frozen itself, with a batch in hand, and taken
    out of the group, it learns of that as the answer to its join, when the newcomer has routed the batch. It joins anew, and
    is told to give its partitions up as if it had been their owner all along, which is when a batch is published."""
    client = {"bootstrap.servers": kafka.bootstrap}
    member = {"session.timeout.ms": 20000, "heartbeat.interval.ms": 200}
    pipeline = new_pipeline(
        "forgotten", policies={"now": {"max_attempts": 3, "backoff": {"fixed": "1h"}}},
        router={"linger": "10s"}, kafka=client | {"consumer": member},
    )  # fmt: skip
    pipeline.create_target("handler")
    tier = pipeline.reader(f"{pipeline.prefix}retry-3s")
    (one,) = pipeline.start("router")
    instances = members_of(pipeline)
    (other,) = pipeline.start("router")
    wait_for(lambda: len(owned(one)) == len(owned(other)) == 2, "each to have its share", 30)
    instances += [name for name in members_of(pipeline) if name not in instances]

    other.process.send_signal(signal.SIGSTOP)
    newcomer = pipeline.add("router")
    section = {"listen": f"127.0.0.1:{newcomer.port}", "linger": "10ms"}
    pipeline.write_config(newcomer.config, {"router": section})
    newcomer.start()
    joining = ConsumerGroupState.PREPARING_REBALANCING
    wait_for(lambda: group_of(pipeline).state == joining, "the newcomer to join", 30)
    time.sleep(2)  # many heartbeats: it has joined again
    sent = send_to_each(pipeline, range(4), 40)
    wait_for(lambda: one.log.read_text().count(" retry ") == 20, "a batch to linger", 8)
    one.process.send_signal(signal.SIGSTOP)
    for instance in instances:  # once the frozen one is out, the joins are answered
        remove_member(pipeline, instance)
    tier.wait(40, timeout=60)
    one.process.send_signal(signal.SIGCONT)
    other.process.send_signal(signal.SIGCONT)
    wait_for(lambda: owned(one) and owned(other) and owned(newcomer), "each to have a share again", 60)
    sent |= send_to_each(pipeline, range(4), 40)
    tier.wait(80, timeout=60)
    tier.poll(5)
    came = [header(record, "reprise-task-id") for record in tier.records]
    assert sorted(came) == sorted(sent)


def repeats(router):
    """How many exact repeats of an event it has dropped."""
    text = router.get("/metrics")[1]
    found = re.findall(r'reprise_router_events_total\{decision="repeat".*\} (\d+)', text)
    return sum(map(int, found))


def test_an_event_that_is_sent_again_after_a_restart_counts_once(new_pipeline):
    pipeline = new_pipeline("recall", policies=POLICIES)
    handler = pipeline.reader(pipeline.create_target("handler"))
    (router,) = pipeline.start("router")
    # More bytes than are recalled, by far, and more partitions than one.
    tasks = [new_task(pipeline, payload=bytes(40_000), key=str(n).encode(), failed_at=now_ms() | 1)
             for n in range(800)]  # fmt: skip
    for task in tasks:
        pipeline.send(contract.single_object(task), task["key"])
    assert pipeline.producer.flush(30) == 0
    handler.wait(800, timeout=60)
    router.kill()
    router.start().wait_ready()
    for task in tasks[-40:]:
        pipeline.send(contract.single_object(task), task["key"])
    fresh = new_task(pipeline, key=b"fresh")
    pipeline.fail(fresh)
    handler.of_task(fresh["task_id"])
    wait_for(lambda: repeats(router) == 40, "the repeats to be counted")
    handler.poll(1)
    assert len(handler.records) == 801
    recalled = re.findall(r"partition-recalled .*records=(\d+)", router.log.read_text())
    assert recalled and all(0 < int(records) < 250 for records in recalled)


def commit(pipeline, partition, offset):
    """As a router of before did."""
    member = Consumer(
        {"bootstrap.servers": pipeline.kafka.bootstrap, "group.id": f"{pipeline.prefix}reprise-router"}
    )
    at = TopicPartition(f"{pipeline.prefix}failed-tasks", partition, offset)

    def committed():
        try:
            return member.commit(offsets=[at], asynchronous=False)
        except KafkaException:
            return None  # of a group that is new, there is no coordinator yet

    wait_for(committed, "the offset to be committed")
    member.close()


def test_so_does_one_whose_schema_comes_late(new_pipeline, registry):
    """As the first answer of a registry does."""
    pipeline = new_pipeline("late-schema", policies=POLICIES, schema_registry={"url": registry.url})
    handler = pipeline.reader(pipeline.create_target("handler"))
    (router,) = pipeline.start("router")
    task = new_task(pipeline)
    event = contract.confluent(task, 7)
    pipeline.send(event, b"key")
    handler.wait(1)
    assert router.stop() == 0
    registry.delay_s = 0.6
    try:
        router.start().wait_ready()
        pipeline.send(event, b"key")
        wait_for(lambda: repeats(router) == 1, "the repeat to be counted")
    finally:
        registry.delay_s = 0
    handler.poll(1)
    assert len(handler.records) == 1


def test_a_log_that_ends_before_the_committed_offset_is_routed(new_pipeline):
    """As after an election that lost records. With nothing to recall, that shows at once."""
    pipeline = new_pipeline("cut", partitions=1, policies=POLICIES, router={"loop_guard": 0})
    handler = pipeline.reader(pipeline.create_target("handler"))
    commit(pipeline, 0, 1000)
    (router,) = pipeline.start("router")
    sent = send_to_each(pipeline, [0], 20)
    handler.wait(20)
    handler.poll(1)
    assert sorted(header(r, "reprise-task-id") for r in handler.records) == sorted(sent)
    assert len(re.findall(r"log-was-cut", router.log.read_text())) == 1


@pytest.mark.parametrize("loop_guard", [100, 0])
def test_events_that_the_topic_dropped_unrouted_are_told_of(new_pipeline, loop_guard):
    pipeline = new_pipeline("gone", partitions=1, policies=POLICIES, router={"loop_guard": loop_guard})
    topic, handler = f"{pipeline.prefix}failed-tasks", pipeline.reader(pipeline.create_target("handler"))
    send_to_each(pipeline, [0], 5)
    (router,) = pipeline.start("router")
    handler.wait(5)
    assert router.stop() == 0
    assert "no-offset" in router.log.read_text()
    send_to_each(pipeline, [0], 20)
    for future in pipeline.kafka.admin.delete_records([TopicPartition(topic, 0, 15)]).values():
        future.result()
    router.start()
    handler.wait(15)
    (told,) = re.findall(r"error .* events-gone (.*)", router.log.read_text())
    assert told == f"topic={topic} partition=0 from=5 to=15"


def expire(pipeline, topics, end):
    """All that is in their only partitions, which end there."""
    parts = [TopicPartition(topic, 0, OFFSET_END) for topic in topics]
    for future in pipeline.kafka.admin.delete_records(parts).values():
        assert future.result().low_watermark == end


def test_where_only_a_transactions_mark_expired_nothing_is_told_of_as_gone(new_pipeline):
    """As in a partition to which nothing came for as long as the topic keeps its records."""
    once = {"once": {"max_attempts": 1}}
    pipeline = new_pipeline("mark", partitions=1, policies=once)
    topics = [f"{pipeline.prefix}{name}" for name in ("failed-tasks", "dead-letter")]
    pipeline.create_target("handler")
    producer = Producer(
        {"bootstrap.servers": pipeline.kafka.bootstrap, "transactional.id": str(uuid.uuid4())}
    )
    producer.init_transactions(30)
    pipeline.producer.produce(topics[0], b"of before there were routers")
    assert pipeline.producer.flush(30) == 0
    expire(pipeline, topics[:1], 1)
    router, archiver = pipeline.start("router", "archiver")
    time.sleep(2)  # for the router, whose metrics do not say so, to meet the end

    def bury():
        task = contract.failed_task(pipeline.target("handler"), "once")
        producer.begin_transaction()
        producer.produce(topics[0], contract.single_object(task))
        producer.commit_transaction(30)
        pipeline.dead_letter(task_id=task["task_id"])

    bury()
    wait_for(lambda: archiver.metric("reprise_archiver_lag_records") == 0, "the archiver to meet the end")
    time.sleep(2)
    expire(pipeline, topics[:1], 3)
    expire(pipeline, topics[1:], 2)
    bury()
    assert not re.findall(r".*-gone .*", router.log.read_text() + archiver.log.read_text())


def test_a_batch_that_cannot_be_unpacked_is_buried_from_the_committed_offset_on(new_pipeline):
    """A router of before had come to the middle of it."""
    pipeline = new_pipeline("unread", partitions=1, policies=POLICIES, router={"loop_guard": 0})
    topic = f"{pipeline.prefix}failed-tasks"
    dead = pipeline.reader(f"{pipeline.prefix}dead-letter")
    handler = pipeline.reader(pipeline.create_target("handler"))
    producer = Producer(
        {
            "bootstrap.servers": pipeline.kafka.bootstrap,
            "compression.type": "zstd",
            "message.max.bytes": 1_000_000_000,
            "batch.size": 1_000_000_000,
            "linger.ms": 1000,
        }
    )
    for _ in range(3):
        producer.produce(topic, bytes(60 * 1024 * 1024))
    assert producer.flush(60) == 0
    pipeline.fail(new_task(pipeline))
    commit(pipeline, 0, 1)
    pipeline.start("router")
    handler.wait(1, timeout=60)
    dead.poll(1)
    assert len(dead.records) == 2
