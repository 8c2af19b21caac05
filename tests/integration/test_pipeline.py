# SPDX-License-Identifier: Apache-2.0
"""The way of a task: what goes in comes out once, unchanged, never early, or is a dead letter that says why."""

import collections
import datetime
import json
import re
import uuid

import pytest

import contract
from pipeline import header, now_ms, wait_for
from registry import IDS

PAYLOAD = bytes(range(256))
POLICIES = {
    "default": {"max_attempts": 3, "backoff": {"fixed": "300ms"}, "jitter": "0%"},
    "now": {"max_attempts": 3, "backoff": "none"},
    "tiered": {"backoff": {"uniform": {"min": "1100ms", "max": "4s"}}, "jitter": "10%"},
    "lapping": {"backoff": {"fixed": "8s"}, "jitter": "0%"},
    "once": {"max_attempts": 1},
    "deadline": {"deadline": "5s", "backoff": {"fixed": "3s"}, "jitter": "0%"},
    "strict-*": {
        "backoff": {"fixed": "100ms"},
        "jitter": "0%",
        "non_retryable": ["*.ValidationError"],
        "overrides": {"RATE_LIMITED": {"max_attempts": 1}},
    },
}


@pytest.fixture(scope="module", params=["exactly-once", "at-least-once"])
def pipeline(request, new_pipeline, registry):
    made = new_pipeline(
        request.param,
        guarantee=request.param,
        schema_registry={"url": registry.url},
        policies=POLICIES,
    )
    made.start("router", "delayer", "archiver")
    made.handler = made.reader(made.create_target("handler"))
    return made


def new_task(pipeline, task_type="a-type", **fields):
    target = fields.pop("target", pipeline.target("handler"))
    return contract.failed_task(target, task_type, **{"payload": PAYLOAD} | fields)


def failed_again(record, task, **fields):
    """What a handler says that fails on a re-invocation, and hands everything back."""
    return task | {
        "attempt": int(header(record, "reprise-attempt")),
        "headers": [{"key": key, "value": value} for key, value in record.headers],
        "failed_at": now_ms(),
        **fields,
    }


def ours(record):
    return {key: value.decode() for key, value in record.headers if key.startswith("reprise-")}


def theirs(record):
    return [(key, value) for key, value in record.headers if not key.startswith("reprise-")]


def reinvoked(pipeline, task, attempt=2):
    """The re-invocation of this attempt; it was not early."""
    where = lambda r: ours(r).get("reprise-task-id") == task["task_id"] and ours(r).get(
        "reprise-attempt"
    ) == str(attempt)
    (record,) = pipeline.handler.wait(1, where)
    assert record.received_ms >= int(ours(record)["reprise-due"])
    return record


def dead(pipeline, task, reason, **expected):
    """The task's one row in PostgreSQL."""
    row = pipeline.dead_letter(task_id=task["task_id"])
    assert row["reason"] == reason, row
    assert {name: row[name] for name in expected} == expected
    return row


def test_a_task_comes_back_as_it_was(pipeline):
    headers = [
        ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("twice", b"first"),
        ("binary", bytes(range(255, -1, -1))),
        ("twice", b"second"),
        ("empty", b""),
        ("null", None),
    ]
    task = new_task(pipeline, headers=[{"key": k, "value": v} for k, v in headers])
    pipeline.fail(task)
    record = reinvoked(pipeline, task)
    assert (record.key, record.value) == (task["key"], task["payload"])
    assert theirs(record) == headers
    told = ours(record)
    assert set(told) == {
        "reprise-task-id", "reprise-attempt", "reprise-due", "reprise-first-failed-at"
    }  # fmt: skip
    assert int(told["reprise-due"]) >= task["failed_at"] + 300
    assert int(told["reprise-first-failed-at"]) == task["failed_at"]


@pytest.mark.parametrize("key, payload", [(None, None), (b"", b""), (None, b"x"), (b"k", None)])
def test_null_and_empty_are_not_the_same(pipeline, key, payload):
    task = new_task(pipeline, key=key, payload=payload)
    pipeline.fail(task)
    record = reinvoked(pipeline, task)
    assert (record.key, record.value) == (key, payload)


def test_a_task_that_keeps_failing_dies_once(pipeline):
    task = new_task(pipeline)
    pipeline.fail(task)
    second = reinvoked(pipeline, task)
    pipeline.fail(failed_again(second, task))
    third = reinvoked(pipeline, task, attempt=3)
    # The headers neither pile up nor change what holds across attempts.
    assert theirs(third) == []
    assert ours(third)["reprise-first-failed-at"] == ours(second)["reprise-first-failed-at"]
    pipeline.fail(failed_again(third, task))
    row = dead(pipeline, task, "EXHAUSTED", attempts=3, policy="default", task_type="a-type")
    assert (row["task_key"], row["payload"]) == (task["key"], task["payload"])
    assert row["error_message"] == "it broke"
    assert len(pipeline.handler.of_task(task["task_id"])) == 2


def json_of_a_shell_script(task):
    """As short as it gets."""
    return json.dumps(
        {
            "task_id": task["task_id"],
            "task_type": task["task_type"],
            "target": task["target"],
            "key_text": "a key",
            "payload_text": "héllo",
            "attempt": 1,
            "error": {"class": "Oops", "message": "it broke"},
            "source": "tests",
            "failed_at": datetime.datetime.fromtimestamp(
                task["failed_at"] / 1000, datetime.timezone.utc
            ).isoformat(timespec="milliseconds"),
        }
    ).encode()


def json_with_a_json_payload(task):
    event = json.loads(contract.as_json(task))
    del event["payload"]
    return json.dumps(event | {"payload_json": {"order": [1, 2.5, None, "x"]}}).encode()


@pytest.mark.parametrize(
    "encode, payload",
    [
        (contract.single_object, PAYLOAD),
        (contract.bare, PAYLOAD),
        (lambda task: contract.confluent(task, IDS[0]), PAYLOAD),
        (contract.as_json, PAYLOAD),
        (json_of_a_shell_script, "héllo".encode()),
        (json_with_a_json_payload, {"order": [1, 2.5, None, "x"]}),
    ],
    ids=["single-object", "bare", "confluent", "json", "json-of-a-script", "json-payload"],
)
def test_every_framing_is_read(pipeline, encode, payload):
    task = new_task(pipeline)
    pipeline.fail(task, encode)
    record = reinvoked(pipeline, task)
    assert record.key == b"a key"
    assert (json.loads(record.value) if isinstance(payload, dict) else record.value) == payload
    assert int(ours(record)["reprise-due"]) >= task["failed_at"] + 300


def test_a_crowd_is_neither_early_nor_doubled(pipeline):
    tasks = {}
    for _ in range(500):
        task = new_task(pipeline, "tiered", key=None)
        tasks[task["task_id"]] = task
        pipeline.send(contract.single_object(task))
    assert pipeline.producer.flush(30) == 0
    records = pipeline.handler.wait(
        len(tasks), lambda r: ours(r).get("reprise-task-id") in tasks
    )
    assert len({ours(r)["reprise-task-id"] for r in records}) == len(records) == len(tasks)
    lateness = []
    for record in records:
        due, task = int(ours(record)["reprise-due"]), tasks[ours(record)["reprise-task-id"]]
        assert 1100 <= due - task["failed_at"] <= 4400 + 1000
        lateness.append(record.received_ms - due)
    assert min(lateness) >= 0
    lateness.sort()
    print(f"lateness of 500: p50 {lateness[250]} ms, p99 {lateness[495]} ms, max {lateness[-1]} ms")


def test_to_linger_makes_no_task_late(new_pipeline):
    """A transaction that would wait for 10 s ends at once when a task comes in that is due in 2 s."""
    pipeline = new_pipeline(
        "linger",
        router={"linger": "10s"},
        policies={
            "later": {"backoff": {"fixed": "60s"}},
            "soon": {"backoff": {"fixed": "2s"}, "jitter": "0%"},
        },
    )
    router, _ = pipeline.start("router", "delayer")
    pipeline.handler = pipeline.reader(pipeline.create_target("handler"))
    pipeline.fail(new_task(pipeline, "later"))
    wait_for(lambda: 'reprise_router_events_total{' in router.get("/metrics")[1], "the first event")
    assert "reprise_router_commit_seconds_count 0\n" in router.get("/metrics")[1]
    task = new_task(pipeline, "soon")
    pipeline.fail(task)
    record = reinvoked(pipeline, task)
    assert record.received_ms < int(ours(record)["reprise-due"]) + 4000


def test_a_router_that_is_behind_takes_what_is_there_into_few_transactions(new_pipeline):
    """Though none of them waits for more."""
    pipeline = new_pipeline(
        "behind", router={"linger": "0s"}, policies={"later": {"backoff": {"fixed": "60s"}}}
    )
    pipeline.create_target("handler")
    for _ in range(2000):
        task = new_task(pipeline, "later")
        pipeline.send(contract.single_object(task), task["task_id"].encode())
    assert pipeline.producer.flush(30) == 0
    (router,) = pipeline.start("router")
    wait_for(lambda: router.metric("reprise_router_events_total") >= 2000, "the events to be routed")
    wait_for(lambda: router.metric("reprise_router_commit_seconds_count") > 0, "a commit")
    assert router.metric("reprise_router_commit_seconds_count") <= 200


def test_a_long_delay_takes_several_laps(pipeline):
    task = new_task(pipeline, "lapping")
    pipeline.fail(task)
    record = reinvoked(pipeline, task)
    assert int(ours(record)["reprise-due"]) == task["failed_at"] + 8000
    assert record.value == PAYLOAD


def test_tiers_that_are_shorter_than_the_slack_are_read(new_pipeline):
    policies = {f"after-{ms}": {"backoff": {"fixed": f"{ms}ms"}, "jitter": "0%"} for ms in (50, 300, 700, 3000)}
    pipeline = new_pipeline("short-tiers", tiers=["100ms", "500ms", "5s"], policies=policies)
    pipeline.start("router", "delayer")
    pipeline.handler = pipeline.reader(pipeline.create_target("handler"))
    for policy in policies:
        task = new_task(pipeline, policy)
        pipeline.fail(task)
        record = reinvoked(pipeline, task)
        assert record.received_ms < int(ours(record)["reprise-due"]) + 10000


def test_without_a_backoff_it_goes_straight_to_its_target(pipeline):
    task = new_task(pipeline, "now")
    pipeline.fail(task)
    reinvoked(pipeline, task)
    (router,) = [s for s in pipeline.services if s.name == "router"]
    assert re.search(rf" direct .*task_id={task['task_id']} ", router.log.read_text())


def test_an_old_failure_is_retried_at_once(pipeline):
    task = new_task(pipeline, failed_at=now_ms() - 3_600_000)
    sent = now_ms()
    pipeline.fail(task)
    assert sent <= int(ours(reinvoked(pipeline, task))["reprise-due"]) <= now_ms()


def test_a_failure_in_the_future_counts_from_its_append(pipeline):
    task = new_task(pipeline, failed_at=now_ms() + 3_600_000)
    pipeline.fail(task)
    assert int(ours(reinvoked(pipeline, task))["reprise-due"]) <= now_ms()


def test_a_deadline_counts_from_the_first_failure(pipeline):
    task = new_task(pipeline, "deadline")
    pipeline.fail(task)
    record = reinvoked(pipeline, task)
    pipeline.fail(failed_again(record, task))
    dead(pipeline, task, "DEADLINE_EXCEEDED", attempts=2)


@pytest.mark.parametrize(
    "error",
    [
        {"class": "com.acme.ValidationError", "message": "no"},
        {"class": "Wrapper", "message": "", "causes": [{"class": "com.acme.ValidationError", "message": ""}]},
        {"class": "Oops", "message": "", "category": "INVALID"},
    ],
    ids=["class", "cause", "category"],
)  # fmt: skip
def test_what_cannot_get_better_is_not_retried(pipeline, error):
    error = {"category": None, "causes": []} | error
    task = new_task(pipeline, "strict-one", error=error)
    pipeline.fail(task)
    dead(pipeline, task, "NON_RETRYABLE", attempts=1, policy="strict-*")


def test_a_category_overrides_its_policy(pipeline):
    error = {"class": "Oops", "message": "", "category": "RATE_LIMITED", "causes": []}
    task = new_task(pipeline, "strict-one", error=error)
    pipeline.fail(task)
    dead(pipeline, task, "EXHAUSTED", category="RATE_LIMITED")


def test_no_target_is_a_dead_letter(pipeline):
    nameless = new_task(pipeline, target=None)
    missing = new_task(pipeline, target=pipeline.target("no-such-topic"))
    pipeline.fail(nameless)
    pipeline.fail(missing)
    dead(pipeline, nameless, "NO_TARGET")
    dead(pipeline, missing, "NO_TARGET")


def test_a_target_that_is_not_allowed_is_a_dead_letter(pipeline):
    outside = new_task(pipeline, target="somebody-elses-topic")
    reprises_own = new_task(pipeline, target=f"{pipeline.prefix}dead-letter")
    pipeline.fail(outside)
    pipeline.fail(reprises_own)
    dead(pipeline, outside, "TARGET_FORBIDDEN")
    dead(pipeline, reprises_own, "TARGET_FORBIDDEN")


def test_a_target_that_the_broker_denies_is_a_dead_letter(pipeline):
    denied = pipeline.create_target("denied")
    pipeline.kafka.permit(denied, WRITE="DENY", DESCRIBE="ALLOW")
    tasks = [
        new_task(pipeline, kind, target=target)
        for kind in ("now", "default")
        for target in (denied, pipeline.target("handler"))
    ]
    for task in tasks:
        pipeline.send(contract.single_object(task))
    assert pipeline.producer.flush(30) == 0
    for task in tasks:
        if task["target"] == denied:
            dead(pipeline, task, "TARGET_FORBIDDEN")
        else:
            reinvoked(pipeline, task)


def test_a_record_too_large_for_its_target_is_a_dead_letter(pipeline):
    small = pipeline.create_target("small", max_message_bytes=20_000)
    fits = new_task(pipeline, target=small, payload=bytes(10_000))
    reader = pipeline.reader(small)
    too_large = [
        new_task(pipeline, kind, target=small, payload=bytes(50_000)) for kind in ("now", "default")
    ]
    for task in [*too_large, fits]:
        pipeline.fail(task)
    for task in too_large:
        dead(pipeline, task, "OVERSIZED")
    assert reader.of_task(fits["task_id"])[0].value == fits["payload"]


UNDECODABLE = {
    "null": None,
    "empty": b"",
    "text": b"hello, world",
    "unknown-fingerprint": b"\xc3\x01" + bytes(8) + b"x",
    "cut-short": b"\xc3\x01" + contract.fingerprint(contract.FAILED_TASK) + b"\x80",
    "unknown-registry-id": b"\x00" + (99).to_bytes(4, "big") + b"x",
    "bad-json": b'{"task_id": ',
    "json-without-its-fields": b'{"task_id": "x"}',
}


@pytest.mark.parametrize("value", UNDECODABLE.values(), ids=UNDECODABLE.keys())
def test_what_cannot_be_decoded_is_kept(pipeline, value):
    reader = pipeline.reader(f"{pipeline.prefix}dead-letter")
    key = uuid.uuid4().bytes
    pipeline.send(value, key)
    assert pipeline.producer.flush(30) == 0

    def is_it(record):
        letter = contract.read_dead_letter(record.value)
        return letter["reason"] == "UNDECODABLE" and record.key == key

    (record,) = reader.wait(1, is_it)
    letter = contract.read_dead_letter(record.value)
    assert letter["task"] is None and (letter["raw"] or b"") == (value or b"")
    assert letter["topic"] == f"{pipeline.prefix}failed-tasks" and letter["detail"]
    row = pipeline.dead_letter(
        source_topic=letter["topic"],
        source_partition=letter["partition"],
        source_offset=letter["offset"],
    )
    assert row["reason"] == "UNDECODABLE" and bytes(row["raw"] or b"") == (value or b"")


@pytest.mark.parametrize("fault", [{"attempt": 0}, {"task_type": ""}, {"failed_at": -1}])
def test_what_breaks_the_contract_is_invalid(pipeline, fault):
    task = new_task(pipeline) | fault
    pipeline.fail(task)
    dead(pipeline, task, "INVALID")


def test_bad_records_do_not_hold_up_the_others(pipeline, rng):
    good = [new_task(pipeline, "now") for _ in range(100)]
    bad = [new_task(pipeline, target="forbidden") for _ in range(50)]
    values = [contract.single_object(task) for task in good + bad]
    values += [rng.randbytes(rng.randrange(1, 300)) for _ in range(50)]
    rng.shuffle(values)
    for value in values:
        pipeline.send(value)
    assert pipeline.producer.flush(30) == 0
    for task in good:
        reinvoked(pipeline, task)
    for task in bad:
        dead(pipeline, task, "TARGET_FORBIDDEN")


def test_the_fallback_is_the_last_try(new_pipeline, pipeline):
    name = f"fallback-{pipeline.config['guarantee']}"
    own = new_pipeline(name, guarantee=pipeline.config["guarantee"])
    own.config["policies"] = {"x": {"max_attempts": 1, "fallback": own.target("fallback")}}
    own.create_target("handler")
    fallback = own.reader(own.create_target("fallback"))
    own.start("router", "archiver")
    task = new_task(own, "x")
    own.fail(task)
    (record,) = fallback.of_task(task["task_id"])
    assert header(record, "reprise-fallback") == "1"
    assert (record.key, record.value) == (task["key"], task["payload"])
    own.fail(failed_again(record, task))
    dead(own, task, "EXHAUSTED")
    forgetful = new_task(own, "x")
    own.fail(forgetful)
    fallback.of_task(forgetful["task_id"])
    own.fail({**forgetful, "failed_at": now_ms()})
    dead(own, forgetful, "EXHAUSTED")
    fallback.poll(0.5)
    assert [len(fallback.of_task(t["task_id"])) for t in (task, forgetful)] == [1, 1]


def test_an_attempt_that_was_not_counted_on_is_read_from_the_headers(pipeline):
    task = new_task(pipeline, headers=[{"key": "reprise-attempt", "value": b"2"}])
    pipeline.fail(task)
    reinvoked(pipeline, task, attempt=3)


def test_two_failures_that_are_told_alike_are_two(pipeline):
    """Who tells whole seconds and no attempt says the same of two failures within one."""
    task = new_task(pipeline, failed_at=now_ms() // 1000 * 1000)
    for attempt in (2, 3):
        pipeline.fail(task)
        reinvoked(pipeline, task, attempt)


def test_a_handler_that_forgets_the_attempt_does_not_loop(pipeline):
    task = new_task(pipeline)
    for attempt in (2, 3):
        pipeline.fail(task)
        reinvoked(pipeline, task, attempt)
        task = task | {"failed_at": now_ms()}
    pipeline.fail(task)
    dead(pipeline, task, "EXHAUSTED")


def test_an_event_sent_twice_counts_once(pipeline):
    task = new_task(pipeline)
    pipeline.fail(task)
    pipeline.fail(task)
    reinvoked(pipeline, task)
    pipeline.handler.poll(1)
    assert len(pipeline.handler.of_task(task["task_id"])) == 1


def test_a_stop_drains_and_a_start_goes_on(pipeline):
    tasks = [new_task(pipeline, kind) for kind in ("default", "tiered") for _ in range(50)]
    for task in tasks:
        pipeline.send(contract.single_object(task))
    assert pipeline.producer.flush(30) == 0
    for service in pipeline.services:
        assert service.stop() == 0
    for service in pipeline.services:
        service.start()
    for service in pipeline.services:
        service.wait_ready()
    for task in tasks:
        reinvoked(pipeline, task)


def test_nothing_came_twice_in_all_of_that(pipeline):
    """Last of this file: over all that the tests above have sent."""
    pipeline.handler.poll(1)
    seen = collections.Counter(
        (ours(r)["reprise-task-id"], ours(r)["reprise-attempt"]) for r in pipeline.handler.records
    )
    assert [key for key, count in seen.items() if count > 1] == []
    rows = pipeline.dead_letters()
    tasks = collections.Counter(row["task_id"] for row in rows if row["task_id"])
    assert [task for task, count in tasks.items() if count > 1] == []
