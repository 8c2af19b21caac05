# SPDX-License-Identifier: Apache-2.0
"""The bad records of hostile.py, one by one, on the running pipeline. Each gets what the README says, a good
record right behind it in the same partition gets through, and in the end every service still runs."""

import re
import time

import confluent_kafka
import contract
import hostile
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from pipeline import header, wait_for
from registry import IDS
from servers import ROOT

PARTITION = 0
PATIENT_S = 60  # a good record is prompt; the machine may be busy
PAYLOADS_MIB = 16


@pytest.fixture(scope="module")
def pipeline(new_pipeline, registry):
    prompt = {"backoff": {"fixed": "300ms"}, "jitter": "0%"}
    made = new_pipeline(
        "hostile",
        partitions=2,
        max_message_bytes=f"{PAYLOADS_MIB}MiB",
        targets={"allow": ["*"]},
        schema_registry={"url": registry.url, "timeout": "500ms", "patience": "3s"},
        policies={
            "default": {"max_attempts": 3, **prompt},
            "endless": {"retry": "always", **prompt},
            "deadline": {"deadline": "1h", **prompt},
            "later": {"max_attempts": 3, "backoff": {"fixed": "30d"}, "jitter": "0%"},
        },
    )
    made.config["targets"]["allow"] = [made.target("*"), f"{made.prefix}*"]
    made.start("router", "delayer", "archiver")
    made.handler = made.reader(
        made.create_target("handler", partitions=1, max_message_bytes=PAYLOADS_MIB * hostile.MIB)
    )
    made.create_target("handler-small", partitions=1)
    unwritable = made.create_target("unwritable", partitions=1)
    made.kafka.permit(unwritable, WRITE="DENY", DESCRIBE="ALLOW")
    made.world = hostile.World(made.prefix, made.target("handler"), unwritable)
    made.letters = made.reader(f"{made.prefix}dead-letter")
    made.answered = 0
    return made


def put(pipeline, topic, value, key=None, headers=None, codec="none", times=1):
    """Writes a record, and returns where it is."""
    at = []
    producer = Producer(
        {
            "bootstrap.servers": pipeline.kafka.bootstrap,
            "compression.type": codec,
            "message.max.bytes": 1_000_000_000,
            "batch.size": 1_000_000_000,
            "linger.ms": 20 if times == 1 else 1000,
        }
    )

    def delivered(error, message):
        assert error is None, error
        at.append(message.offset())

    for _ in range(times):
        producer.produce(topic, value, key, PARTITION, delivered, headers=headers)
    assert producer.flush(60) == 0
    return at[0]


def wait_for_good_one(pipeline, topic, made):
    """A good record behind the bad one, in the same partition."""
    began = time.monotonic()
    put(pipeline, topic, **made[0])
    pipeline.handler.of_task(made[1]["task_id"], timeout=PATIENT_S)
    return time.monotonic() - began


def is_of(topic, offset, task):
    """Dead letters of this record, or of its task further on."""

    def is_it(record):
        try:
            letter = contract.read_dead_letter(record.value)
        except Exception:
            return False  # one of the bad records
        if task is not None and letter["task"] is not None:
            return letter["task"]["task_id"] == task["task_id"]
        return (letter["topic"], letter["partition"], letter["offset"]) == (topic, PARTITION, offset)

    return is_it


def check(pipeline, case, topic, offset, sent, task):
    """The record got what the table says, and got it once."""
    outcome = re.match(r"[A-Z_]+|re-invoked|waits", case.gets)[0]
    if outcome == "re-invoked":
        (record,) = pipeline.handler.of_task(task["task_id"], timeout=PATIENT_S)
        assert (record.key, record.value) == (task["key"], task["payload"])
        assert record.received_ms >= int(header(record, "reprise-due"))
        return
    if outcome == "waits":
        pipeline.handler.poll(1)
        assert not [r for r in pipeline.handler.records if header(r, "reprise-task-id") == task["task_id"]]
        return
    (letter,) = [
        contract.read_dead_letter(r.value)
        for r in pipeline.letters.wait(1, is_of(topic, offset, task), timeout=PATIENT_S)
    ]
    assert letter["reason"] == outcome and letter["detail"]
    row = pipeline.dead_letter(
        source_topic=letter["topic"], source_partition=PARTITION, source_offset=letter["offset"],
        timeout=PATIENT_S,
    )  # fmt: skip
    assert row["reason"] == outcome
    if outcome == "UNDECODABLE" and len(sent["value"] or b"") < hostile.MIB:
        assert bytes(row["raw"] or b"") == (sent["value"] or b"")


def names(cases):
    return [case.what for case in cases]


def test_the_readmes_say_what_is_tested():
    for service, cases in [
        ("router", hostile.FAILED_TASKS),
        ("delayer", hostile.TIERS),
        ("archiver", hostile.DEAD_LETTERS),
    ]:
        text = (ROOT / f"services/{service}/README.md").read_text()
        assert hostile.table(cases) in text, f"{service}: run tests/integration/hostile.py"


@pytest.mark.parametrize("case", hostile.FAILED_TASKS, ids=names(hostile.FAILED_TASKS))
def test_a_bad_event(pipeline, case):
    topic = f"{pipeline.prefix}failed-tasks"
    sent, task = case.record(pipeline.world)
    offset = put(pipeline, topic, **sent)
    wait_for_good_one(pipeline, topic, hostile.event()(pipeline.world))
    check(pipeline, case, topic, offset, sent, task)


def test_a_batch_that_cannot_be_unpacked(pipeline):
    """Each of its records is a dead letter, once, and the batch behind it goes on."""
    topic = f"{pipeline.prefix}failed-tasks"
    first = put(pipeline, topic, bytes(60 * hostile.MIB), codec="zstd", times=3)
    wait_for_good_one(pipeline, topic, hostile.event()(pipeline.world))
    for offset in range(first, first + 3):
        row = pipeline.dead_letter(
            source_topic=topic, source_partition=PARTITION, source_offset=offset, timeout=PATIENT_S
        )
        assert row["reason"] == "UNDECODABLE"


@pytest.mark.parametrize("case", hostile.TIERS, ids=names(hostile.TIERS))
def test_a_bad_record_in_a_tier(pipeline, case):
    topic = f"{pipeline.prefix}retry-1s"
    sent, task = case.record(pipeline.world)
    offset = put(pipeline, topic, **sent)
    wait_for_good_one(pipeline, topic, hostile.tier_record()(pipeline.world))
    check(pipeline, case, topic, offset, sent, task)


@pytest.mark.parametrize("case", hostile.DEAD_LETTERS, ids=names(hostile.DEAD_LETTERS))
def test_a_bad_dead_letter(pipeline, case):
    topic = f"{pipeline.prefix}dead-letter"
    sent, task = case.record(pipeline.world)
    offset = put(pipeline, topic, **sent)
    good, good_task = hostile.letter_record()(pipeline.world)
    put(pipeline, topic, **good)
    assert pipeline.dead_letter(task_id=good_task["task_id"], timeout=PATIENT_S)["altered"] is None
    row = pipeline.dead_letter(
        record_topic=topic, record_partition=PARTITION, record_offset=offset, timeout=PATIENT_S
    )
    if not case.gets.startswith("stored"):
        assert row["reason"] == case.gets and bytes(row["record"] or b"") == (sent["value"] or b"")
    elif row["altered"]:
        assert bytes(row["record"]) == sent["value"]


def test_a_registry_that_is_away(pipeline, registry):
    """The record's partition waits, and no other; when patience is over it is a dead letter."""
    topic = f"{pipeline.prefix}failed-tasks"
    registry.away = True
    try:
        sent, _ = event_of_schema(pipeline, 1000)
        offset = put(pipeline, topic, **sent)
        good, task = hostile.event()(pipeline.world)
        pipeline.producer.produce(topic, good["value"], good["key"], 1 - PARTITION)
        assert pipeline.producer.flush(30) == 0
        pipeline.handler.of_task(task["task_id"], timeout=PATIENT_S)
        row = pipeline.dead_letter(source_topic=topic, source_offset=offset, timeout=PATIENT_S)
        assert row["reason"] == "UNDECODABLE" and row["raw"] == sent["value"]
    finally:
        registry.away = False
    wait_for_good_one(pipeline, topic, event_of_schema(pipeline, IDS[0]))


def event_of_schema(pipeline, number):
    return hostile.event(lambda t: contract.confluent(t, number))(pipeline.world)


STATES = {
    "none": "",
    "noise": "\x01\x7f reprise",
    "another's": '{"version": 1}',
    "cut-short": "reprise/1 high=",
    "negative": "reprise/1 high=-5 settled=- reach=0:3000",
    "overflowing": "reprise/1 high=99999999999999999999 settled=- reach=0:3000",
    "long": "reprise/1 high=" + 3000 * "9",
}


@pytest.mark.parametrize("metadata", STATES.values(), ids=STATES.keys())
def test_a_bad_state_in_a_tiers_offset(pipeline, metadata):
    """Whoever may commit for the group can have tasks sent again, and nothing else."""
    (delayer,) = [s for s in pipeline.services if s.name == "delayer"]
    tier = f"{pipeline.prefix}retry-1s"
    assert delayer.stop() == 0
    said = delayer.log.stat().st_size
    made, task = hostile.tier_record()(pipeline.world)
    offset = put(pipeline, tier, **made)
    group = f"{pipeline.prefix}reprise-delayer"
    position = TopicPartition(tier, PARTITION, offset, metadata=metadata)
    wait_for(lambda: commit(pipeline, group, position), "the group to be empty", PATIENT_S)
    delayer.start().wait_ready(PATIENT_S)
    pipeline.handler.of_task(task["task_id"], timeout=PATIENT_S)
    wait_for_good_one(pipeline, tier, hostile.tier_record()(pipeline.world))
    assert b"state-lost" in delayer.log.read_bytes()[said:]


def commit(pipeline, group, position):
    futures = pipeline.kafka.admin.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, [position])]
    )
    try:
        (done,) = futures[group].result().topic_partitions
        return done.error is None
    except confluent_kafka.KafkaException:
        return False


def resident_mib(service):
    with open(f"/proc/{service.process.pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read())[1]) // 1024


def test_after_all_of_that_nothing_is_lost_doubled_or_dead(pipeline):
    """Last of this file."""
    pipeline.handler.poll(1)
    told = [
        (header(r, "reprise-task-id"), header(r, "reprise-attempt")) for r in pipeline.handler.records
    ]
    places = [
        (row["source_topic"], row["source_partition"], row["source_offset"])
        for row in pipeline.dead_letters()
        if (row["source_topic"] or "").startswith(pipeline.prefix)
    ]
    assert len(told) == len(set(told)) and len(places) == len(set(places))
    for service in pipeline.services:
        assert service.running() and service.get("/readyz")[0] == 200
        # What was unpacked is given back: several hundred MiB went through.
        assert resident_mib(service) < 400, service.label
