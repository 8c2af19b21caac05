# SPDX-License-Identifier: Apache-2.0
"""The bad records of hostile.py, one by one, on the running pipeline. Each gets what the README says, a good
record right behind it in the same partition gets through, and in the end every service still runs."""

import collections
import re
import subprocess

import contract
import hostile
import pytest
from confluent_kafka import Producer
from pipeline import BUILD, header, memory_kib, wait_for
from registry import IDS
from servers import ROOT

PARTITION = 0
PATIENT_S = 60  # a good record is prompt; the machine may be busy
PAYLOADS_MIB = 16
LARGEST_MIB = 128  # that the archive takes
TIER_MS = 1000
BACKOFF_MS, SLOW_BACKOFF_MS = 300, 1000
LATER_MS = 30 * 24 * 3600 * 1000
REGISTRY_PATIENCE_MS = 3000

Place = collections.namedtuple("Place", "offset appended_ms")


@pytest.fixture(scope="module")
def pipeline(new_pipeline, registry):
    prompt = {"backoff": {"fixed": f"{BACKOFF_MS}ms"}, "jitter": "0%"}
    made = new_pipeline(
        "hostile",
        partitions=2,
        max_message_bytes=f"{PAYLOADS_MIB}MiB",
        targets={"allow": ["*"]},
        schema_registry={
            "url": registry.url, "timeout": "500ms", "patience": f"{REGISTRY_PATIENCE_MS}ms"
        },
        policies={
            "default": {"max_attempts": 3, **prompt},
            "endless": {"retry": "always", **prompt},
            "deadline": {"deadline": "1h", **prompt},
            "a second": {"max_attempts": 3, **prompt, "backoff": {"fixed": f"{SLOW_BACKOFF_MS}ms"}},
            "later": {"max_attempts": 3, "backoff": {"fixed": "30d"}, "jitter": "0%"},
        },
    )
    made.config["targets"]["allow"] = [made.target("*"), f"{made.prefix}*"]
    made.router, _, _ = made.start("router", "delayer", "archiver")
    made.handler = made.reader(
        made.create_target("handler", partitions=1, max_message_bytes=PAYLOADS_MIB * hostile.MIB)
    )
    made.create_target("handler-small", partitions=1)
    elsewhere = made.kafka.create_topic(f"elsewhere-{made.name}")
    made.elsewhere = made.reader(elsewhere)
    unwritable = made.create_target("unwritable", partitions=1)
    made.kafka.permit(unwritable, WRITE="DENY", DESCRIBE="ALLOW")
    made.world = hostile.World(made.prefix, made.target("handler"), unwritable, elsewhere)
    made.letters = made.reader(f"{made.prefix}dead-letter")
    made.longest_tier = made.reader(f"{made.prefix}retry-3s")
    made.waiting = {}  # when each is due, by its id
    return made


def put(pipeline, topic, value, key=None, headers=None, codec="none", times=1):
    """Writes a record, and returns its place."""
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
    # The client would end a text at its first NUL.
    headers = [(k, v.encode() if isinstance(v, str) else v) for k, v in headers or []]

    def delivered(error, message):
        assert error is None, error
        at.append(Place(message.offset(), message.timestamp()[1]))

    for _ in range(times):
        producer.produce(topic, value, key, PARTITION, delivered, headers=headers)
    assert producer.flush(60) == 0
    return at[0]


def wait_for_good_one(pipeline, topic, made):
    """A good record behind the bad one, in the same partition; returns its re-invocation."""
    put(pipeline, topic, **made[0])
    return pipeline.handler.of_task(made[1]["task_id"], timeout=PATIENT_S)[0]


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


def check(pipeline, case, topic, at, sent, task, good):
    """The record got what the table says, and got it once."""
    outcome = re.match(r"[A-Z_]+|re-invoked|waits", case.gets)[0]
    if outcome == "re-invoked":
        check_reinvocation(pipeline, case, at, sent, task, good)
    elif outcome == "waits":
        check_waiting(pipeline, sent, task)
    else:
        check_dead_letter(pipeline, case, outcome, topic, at, sent, task)


def stated_due(sent):
    return dict(sent.get("headers") or []).get("reprise-due")


def check_reinvocation(pipeline, case, at, sent, task, good):
    reader = pipeline.elsewhere if "there" in case.gets else pipeline.handler
    (record,) = reader.of_task(task["task_id"], timeout=PATIENT_S)
    assert (record.key, record.value) == (task["key"], task["payload"])
    assert int(header(record, "reprise-attempt")) == min(task["attempt"] + 1, hostile.MAX_INT)
    from_append = "counted from its append" in case.gets
    first = int(header(record, "reprise-first-failed-at"))
    assert first == (at.appended_ms if from_append else task["failed_at"])
    check_headers(pipeline, record, task)
    due = int(header(record, "reprise-due"))
    assert record.received_ms >= due
    if "one length of the tier after its append" in case.gets:
        assert due == at.appended_ms + TIER_MS
    elif from_append:
        assert due == at.appended_ms + SLOW_BACKOFF_MS
    elif stated_due(sent):
        assert due == int(stated_due(sent))
    else:
        assert due >= max(task["failed_at"] + BACKOFF_MS, at.appended_ms)
    if "at once" in case.gets:
        assert record.offset < good.offset
    if "by the policy `default`" in case.gets:
        decided = rf'task_id={task["task_id"]} .* why="policy default,'
        assert re.search(decided, pipeline.router.log.read_text(errors="replace"))


def check_headers(pipeline, record, task):
    """The event's own, and none of its record's."""
    own = [h for h in task["headers"] if not h["key"].startswith("reprise-")]
    # To the client a name ends at a NUL; not so in the broker's log.
    assert [(k, v) for k, v in record.headers if not k.startswith("reprise-")] == [
        (h["key"].split("\0")[0], h["value"]) for h in own
    ]
    for name in [h["key"].encode() for h in own if "\0" in h["key"]]:
        logs = pipeline.kafka.folder.rglob(f"{record.topic}-{record.partition}/*.log")
        assert any(hostile.varint(len(name)) + name in log.read_bytes() for log in logs)


def check_waiting(pipeline, sent, task):
    """It is in the longest tier. That it goes on from there is seen once for all, at the end."""
    due = stated_due(sent) or str(task["failed_at"] + LATER_MS)
    lap = pipeline.longest_tier.of_task(task["task_id"], timeout=PATIENT_S)[0]
    assert header(lap, "reprise-due") == due
    pipeline.waiting[task["task_id"]] = due


def check_dead_letter(pipeline, case, outcome, topic, at, sent, task):
    (letter,) = [
        contract.read_dead_letter(r.value)
        for r in pipeline.letters.wait(1, is_of(topic, at.offset, task), timeout=PATIENT_S)
    ]
    assert letter["reason"] == outcome and letter["detail"]
    row = pipeline.dead_letter(
        source_topic=letter["topic"], source_partition=PARTITION, source_offset=letter["offset"],
        timeout=PATIENT_S,
    )  # fmt: skip
    assert row["reason"] == outcome
    if outcome == "UNDECODABLE":
        kept = 0 if "without the bytes" in case.gets else 1024 if "first KiB" in case.gets else None
        assert (row["raw"] or b"") == (sent["value"] or b"")[:kept]
    else:
        fits = len(task["payload"]) < PAYLOADS_MIB * hostile.MIB
        assert row["payload"] == (task["payload"] if fits else None)
        assert (row["task_id"], row["task_key"]) == (task["task_id"], task["key"])
        for name in ("attempt", "target", "headers", "source", "task_type") if topic.endswith("failed-tasks") else ():
            assert letter["task"][name] == task[name], name


def names(cases):
    return [case.what for case in cases]


def test_the_readmes_say_what_is_tested():
    for service, cases in hostile.TABLES.items():
        text = (ROOT / f"services/{service}/README.md").read_text()
        assert hostile.table(cases) in text, f"{service}: run tests/integration/hostile.py"
    # The first one has some of the router's.
    _, ours = (ROOT / "README.md").read_text().split("| a record in `failed-tasks` | gets |\n|---|---|\n")
    rows = ours.split("\n\n")[0].splitlines()
    assert len(rows) > 20 and set(rows) <= set(hostile.table(hostile.TABLES["router"]).splitlines())


@pytest.mark.parametrize("case", hostile.FAILED_TASKS, ids=names(hostile.FAILED_TASKS))
def test_a_bad_event(pipeline, case):
    topic = f"{pipeline.prefix}failed-tasks"
    sent, task = case.record(pipeline.world)
    at = put(pipeline, topic, **sent)
    good = wait_for_good_one(pipeline, topic, hostile.event()(pipeline.world))
    check(pipeline, case, topic, at, sent, task, good)


def test_a_batch_that_cannot_be_unpacked(pipeline):
    """Each of its records is a dead letter, once, and the batch behind it goes on."""
    topic = f"{pipeline.prefix}failed-tasks"
    first = put(pipeline, topic, bytes(60 * hostile.MIB), codec="zstd", times=3).offset
    wait_for_good_one(pipeline, topic, hostile.event()(pipeline.world))
    for offset in range(first, first + 3):
        row = pipeline.dead_letter(
            source_topic=topic, source_partition=PARTITION, source_offset=offset, timeout=PATIENT_S
        )
        assert row["reason"] == "UNDECODABLE" and not row["raw"]  # else it was no batch of three


@pytest.mark.parametrize("case", hostile.TIERS, ids=names(hostile.TIERS))
def test_a_bad_record_in_a_tier(pipeline, case):
    topic = f"{pipeline.prefix}retry-1s"
    sent, task = case.record(pipeline.world)
    at = put(pipeline, topic, **sent)
    good = wait_for_good_one(pipeline, topic, hostile.tier_record()(pipeline.world))
    check(pipeline, case, topic, at, sent, task, good)


@pytest.mark.parametrize("case", hostile.DEAD_LETTERS, ids=names(hostile.DEAD_LETTERS))
def test_a_bad_dead_letter(pipeline, case):
    topic = f"{pipeline.prefix}dead-letter"
    sent, task = case.record(pipeline.world)
    at = put(pipeline, topic, **sent)
    good, good_task = hostile.letter_record()(pipeline.world)
    put(pipeline, topic, **good)
    assert pipeline.dead_letter(task_id=good_task["task_id"], timeout=PATIENT_S)["altered"] is None
    row = pipeline.dead_letter(
        record_topic=topic, record_partition=PARTITION, record_offset=at.offset, timeout=PATIENT_S
    )
    if not case.gets.startswith("stored"):
        assert row["reason"] == case.gets.split(",")[0]
        kept = LARGEST_MIB * hostile.MIB if "first" in case.gets else None
        assert bytes(row["record"] or b"") == (sent["value"] or b"")[:kept]
        return
    columns = {"altered": list(case.row), **case.row}
    assert {name: row[name] for name in columns} == columns
    assert row["record"] == (sent["value"] if columns["altered"] else None)
    if "on the day of its append" in case.gets:
        assert round(row["dead_at"].timestamp() * 1000) == at.appended_ms
    else:
        assert row["dead_at"] == row["decided_at"]


def test_a_registry_that_is_away(pipeline, registry):
    """The record's partition waits, and no other; when patience is over it is a dead letter. Once it is back, no
    record is, of whatever schema."""
    topic = f"{pipeline.prefix}failed-tasks"
    registry.away = True
    try:
        sent, _ = hostile.REGISTRY_AWAY.record(pipeline.world)
        at = put(pipeline, topic, **sent)
        behind, task_behind = hostile.event()(pipeline.world)
        put(pipeline, topic, **behind)
        good, task = hostile.event()(pipeline.world)
        pipeline.producer.produce(topic, good["value"], good["key"], 1 - PARTITION)
        assert pipeline.producer.flush(30) == 0
        (beside,) = pipeline.handler.of_task(task["task_id"], timeout=PATIENT_S)
        row = pipeline.dead_letter(source_topic=topic, source_offset=at.offset, timeout=PATIENT_S)
        assert row["reason"] == "UNDECODABLE" and row["raw"] == sent["value"]
        decided_ms = row["decided_at"].timestamp() * 1000
        assert decided_ms - at.appended_ms >= REGISTRY_PATIENCE_MS
        (record,) = pipeline.handler.of_task(task_behind["task_id"], timeout=PATIENT_S)
        assert beside.timestamp_ms < decided_ms <= record.timestamp_ms
    finally:
        registry.away = False
    wait_for_good_one(pipeline, topic, event_of_schema(pipeline, IDS[1]))


def event_of_schema(pipeline, number):
    return hostile.event(lambda t: contract.confluent(t, number))(pipeline.world)


STATES = {
    "none": None,
    "noise": "\x01\x7f reprise",
    "another's": '{"version": 1}',
    "cut-short": "reprise/1 high=",
    "negative": "reprise/1 high=-5 settled=- reach=0:3000",
    "overflowing": "reprise/1 high=99999999999999999999 settled=- reach=0:3000",
    "long": "reprise/1 high=" + 3000 * "9",
}


@pytest.mark.parametrize("metadata", STATES.values(), ids=STATES.keys())
def test_a_bad_state_in_a_tiers_offset(pipeline, metadata):
    """It counts as none: what is to be sent is sent."""
    assert b"state-lost" in sent_with(pipeline, lambda offset: metadata)


def test_a_state_that_can_be_read_is_believed(pipeline):
    said = sent_with(pipeline, lambda offset: f"reprise/1 high={offset} settled=- reach=0:3000")
    assert b"state-lost" not in said


def sent_with(pipeline, metadata):
    """Has a record of a tier sent by a delayer that begins at it with this state; what it logs."""
    (delayer,) = [s for s in pipeline.services if s.name == "delayer"]
    tier = f"{pipeline.prefix}retry-1s"
    assert delayer.stop() == 0
    said = delayer.log.stat().st_size
    made, task = hostile.tier_record()(pipeline.world)
    offset = put(pipeline, tier, **made).offset
    group = f"{pipeline.prefix}reprise-delayer"
    position = [group, tier, str(PARTITION), str(offset)]
    position += [] if metadata(offset) is None else [metadata(offset)]
    wait_for(lambda: commit(pipeline, position), "the group to be empty", PATIENT_S)
    delayer.start().wait_ready(PATIENT_S)
    pipeline.handler.of_task(task["task_id"], timeout=PATIENT_S)
    wait_for_good_one(pipeline, tier, hostile.tier_record()(pipeline.world))
    return delayer.log.read_bytes()[said:]


def commit(pipeline, position):
    command = [BUILD / "bin" / "commit_offset", pipeline.kafka.bootstrap, *position]
    return subprocess.run(command, stdin=subprocess.DEVNULL, timeout=PATIENT_S).returncode == 0


def resident_mib(service):
    return memory_kib(service.process.pid) // 1024


def test_what_waits_goes_on(pipeline):
    """Each lap is another record of the longest tier, and the due time stays."""
    began_ms = contract.now_ms()
    for task_id, due in pipeline.waiting.items():

        def is_lap(record):
            return header(record, "reprise-task-id") == task_id and record.timestamp_ms > began_ms

        lap, *_ = pipeline.longest_tier.wait(1, is_lap, timeout=PATIENT_S)
        assert header(lap, "reprise-due") == due
        assert not pipeline.dead_letters(task_id=task_id)


def test_after_all_of_that_nothing_is_lost_doubled_or_dead(pipeline):
    """Last of this file."""
    pipeline.handler.poll(1)
    told = [header(r, "reprise-task-id") for r in pipeline.handler.records]
    places = [
        (row["source_topic"], row["source_partition"], row["source_offset"])
        for row in pipeline.dead_letters()
        if (row["source_topic"] or "").startswith(pipeline.prefix)
    ]
    assert not set(told) & set(pipeline.waiting)
    assert len(told) == len(set(told)) and len(places) == len(set(places))
    for service in pipeline.services:
        assert service.running() and service.get("/readyz")[0] == 200
        # What was unpacked is given back: several hundred MiB went through.
        assert resident_mib(service) < 400, service.label
        assert service.samples(), service.label
