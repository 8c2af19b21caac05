# SPDX-License-Identifier: Apache-2.0
"""Topics that take less than what is sent to them: a record too large is a dead letter, and nothing else suffers."""

import collections
import os
import re
import uuid

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

import contract
from pipeline import header, now_ms, wait_for

LIMIT = 20_000
POLICIES = {
    "default": {"max_attempts": 3, "backoff": {"fixed": "1s"}, "jitter": "0%"},
    "now": {"max_attempts": 3, "backoff": "none"},
}


@pytest.fixture(scope="module", params=["exactly-once", "at-least-once"])
def pipeline(request, new_pipeline):
    made = new_pipeline(f"sizes-{request.param}", guarantee=request.param, policies=POLICIES)
    made.start("router", "delayer", "archiver")
    return made


def new_task(target, task_type="default", payload=b"x"):
    return contract.failed_task(target, task_type, payload=payload)


def send(pipeline, tasks):
    for task in tasks:
        pipeline.send(contract.single_object(task), task["task_id"].encode())
    assert pipeline.producer.flush(30) == 0


def failed_batches(pipeline):
    """Over router and delayer, since they were started."""
    total = 0
    for service in pipeline.services:
        if service.name != "archiver":
            text = service.get("/metrics")[1]
            total += int(re.search(r"^reprise_\w+_failed_batches_total (\d+)", text, re.M)[1])
    return total


def dead(pipeline, task):
    row = pipeline.dead_letter(task_id=task["task_id"])
    assert row["reason"] == "OVERSIZED", row
    return row


def come_once(reader, tasks):
    """All of them, and none of them twice."""
    ids = {task["task_id"] for task in tasks}
    reader.wait(len(ids), lambda r: header(r, "reprise-task-id") in ids, timeout=60)
    reader.poll(1)
    seen = collections.Counter(header(r, "reprise-task-id") for r in reader.records)
    assert {task_id: seen[task_id] for task_id in ids if seen[task_id] != 1} == {}


def test_what_is_too_large_fails_no_batch(pipeline):
    small = pipeline.create_target("small", partitions=1, max_message_bytes=LIMIT)
    reader = pipeline.reader(small)
    fit = [new_task(small, kind, bytes(100)) for kind in POLICIES for _ in range(50)]
    too_large = [new_task(small, kind, bytes(LIMIT)) for kind in POLICIES for _ in range(3)]
    before = failed_batches(pipeline)
    send(pipeline, [*fit[:50], *too_large, *fit[50:]])
    for task in too_large:
        assert small in dead(pipeline, task)["detail"]
    come_once(reader, fit)
    assert failed_batches(pipeline) == before


def largest_payload(bootstrap, topic):
    """What the broker takes of a re-invocation as DESIGN.md describes it, found out by trying."""
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 1_000_000})
    low, high = 0, LIMIT + 1  # the broker takes `low`, and not `high`
    while high - low > 1:
        size, failures = (low + high) // 2, []
        producer.produce(
            topic, bytes(size), b"a key",
            headers=[
                ("reprise-task-id", str(uuid.uuid4())), ("reprise-attempt", "2"),
                ("reprise-due", str(now_ms())), ("reprise-first-failed-at", str(now_ms())),
            ],
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )  # fmt: skip
        assert producer.flush(30) == 0
        if not failures:
            low = size
        else:
            assert failures[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
            high = size
    return low


def test_the_largest_that_fits_is_sent_and_one_byte_more_is_not(pipeline):
    exact = pipeline.create_target("exact", partitions=1, max_message_bytes=LIMIT)
    most = largest_payload(pipeline.kafka.bootstrap, exact)
    reader = pipeline.reader(exact)
    fit = [new_task(exact, kind, bytes(most)) for kind in POLICIES]
    too_large = [new_task(exact, kind, bytes(most + 1)) for kind in POLICIES]
    before = failed_batches(pipeline)
    send(pipeline, fit + too_large)
    come_once(reader, fit)
    for task in too_large:
        dead(pipeline, task)
    assert failed_batches(pipeline) == before


def test_a_topic_of_small_batches_takes_many_records(pipeline):
    crowded = pipeline.create_target("crowded", partitions=1, max_message_bytes=LIMIT)
    reader = pipeline.reader(crowded)
    tasks = [new_task(crowded, kind, os.urandom(1024)) for kind in POLICIES for _ in range(500)]
    before = failed_batches(pipeline)
    send(pipeline, tasks)
    come_once(reader, tasks)
    assert failed_batches(pipeline) == before


def test_a_limit_that_may_not_be_read_is_found_out_by_trying(pipeline):
    hidden = pipeline.create_target("hidden", partitions=1, max_message_bytes=LIMIT)
    pipeline.kafka.permit(hidden, READ="ALLOW", WRITE="ALLOW")  # and no look at its settings
    reader = pipeline.reader(hidden)
    fit = [new_task(hidden, kind, bytes(100)) for kind in POLICIES for _ in range(20)]
    too_large = [new_task(hidden, kind, bytes(LIMIT)) for kind in POLICIES]
    before = failed_batches(pipeline)
    send(pipeline, [*fit[:20], *too_large, *fit[20:]])
    for task in too_large:
        dead(pipeline, task)
    come_once(reader, fit)
    assert failed_batches(pipeline) > before


def alter(pipeline, topic, name, value):
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    for done in pipeline.kafka.admin.incremental_alter_configs([resource]).values():
        done.result()


def test_a_limit_that_was_raised_is_believed(pipeline):
    raised = pipeline.create_target("raised", partitions=1, max_message_bytes=LIMIT)
    reader = pipeline.reader(raised)
    task = new_task(raised, "now", bytes(LIMIT))
    send(pipeline, [task])
    dead(pipeline, task)
    alter(pipeline, raised, "max.message.bytes", str(10 * LIMIT))

    def is_believed():
        """Not at once, but soon."""
        task = new_task(raised, "now", bytes(LIMIT))
        send(pipeline, [task])
        return wait_for(
            lambda: reader.poll() or pipeline.dead_letters(task_id=task["task_id"]), task["task_id"]
        ) and reader.records

    wait_for(is_believed, "a larger record to go out")


def test_what_is_compressed_is_judged_by_the_brokers(new_pipeline, pipeline):
    """A pipeline of its own, whose records shrink on their way."""
    guarantee = pipeline.config["guarantee"]
    own = new_pipeline(f"gzip-{guarantee}", guarantee=guarantee, policies=POLICIES)
    own.config["kafka"] = own.config["kafka"] | {"producer": {"compression.codec": "gzip"}}
    own.start("router", "delayer", "archiver")
    small = own.create_target("small", partitions=1, max_message_bytes=LIMIT)
    reader = own.reader(small)
    fit = [new_task(small, kind, bytes(2 * LIMIT)) for kind in POLICIES]
    too_large = [new_task(small, kind, os.urandom(2 * LIMIT)) for kind in POLICIES]
    send(own, fit + too_large)
    for task in too_large:
        dead(own, task)
    come_once(reader, fit)


def test_a_dead_letter_too_large_leaves_its_bytes_behind(new_pipeline, pipeline):
    guarantee = pipeline.config["guarantee"]
    own = new_pipeline(f"letters-{guarantee}", guarantee=guarantee)
    alter(own, f"{own.prefix}dead-letter", "max.message.bytes", str(LIMIT))
    own.start("router", "archiver")
    own.send(b"\xff" * (2 * LIMIT), b"a key")
    assert own.producer.flush(30) == 0
    row = own.dead_letter(reason="UNDECODABLE")
    assert bytes(row["raw"]) == b"\xff" * 1024

    wordy, bulky = new_task(None), new_task(None, payload=bytes(2 * LIMIT))
    wordy["error"]["message"] = "m" * 2 * LIMIT
    send(own, [wordy, bulky])
    row = own.dead_letter(task_id=wordy["task_id"])
    assert row["reason"] == "NO_TARGET" and row["payload"] == b"x"
    row = dead(own, bulky)
    assert row["detail"].startswith("NO_TARGET, ") and row["payload"] is None
    # It does not go out as a task without a payload.
    replay = ("dlq", "replay", "--send-to", own.create_target("t"), "--yes", "--reason", "a test")
    said = own.cli(*replay, "--task", bulky["task_id"], code=1)
    assert "its payload was too large to be kept" in said
    assert failed_batches(own) == 0
