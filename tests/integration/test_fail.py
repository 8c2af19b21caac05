# SPDX-License-Identifier: Apache-2.0
"""`reprise fail` on a real broker: from arguments, a file, and standard input."""

import base64
import json
import re
import subprocess
import uuid

import contract
import pytest
from pipeline import BUILD, now_ms

PAYLOAD = bytes(range(256))


@pytest.fixture(scope="module")
def pipeline(new_pipeline):
    pipeline = new_pipeline("fail")
    pipeline.events = pipeline.reader(f"{pipeline.prefix}failed-tasks")
    return pipeline


def fail(pipeline, *arguments, code=0, stdin=b"", config=None):
    """Standard output and standard error of `reprise fail`."""
    done = subprocess.run(
        [BUILD / "bin/reprise", "fail", *arguments, "--config", config or pipeline.config_file],
        input=stdin, capture_output=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == code, (arguments, done)
    return done.stdout.decode(), done.stderr.decode()


def event_of(pipeline, task_id):
    """The one event of a task, and its record."""
    mine = lambda record: contract.read_failed_task(record.value)["task_id"] == task_id
    (record,) = pipeline.events.wait(1, mine)
    return contract.read_failed_task(record.value), record


def line(task_id, **fields):
    event = {
        "task_id": task_id,
        "task_type": "mail",
        "attempt": 1,
        "error": {"class": "Oops", "message": "it broke"},
        "source": "tests",
        "failed_at": now_ms(),
    }
    return json.dumps(event | fields).encode() + b"\n"


def test_an_event_in_full(pipeline):
    began = now_ms()
    said, _ = fail(
        pipeline, "--type", "payment", "--id", "order-1", "--target", "orders", "--key", "a key",
        "--payload", "héllo", "--header", "trace=1=2", "--header", "empty=", "--error", "a::B",
        "--message", "it broke", "--category", "TIMEOUT", "--cause", "c::D:deep: down",
        "--cause", "E", "--attempt", "3", "--source", "by hand",
    )  # fmt: skip
    event, record = event_of(pipeline, "order-1")
    topic = re.escape(f"{pipeline.prefix}failed-tasks")
    assert re.fullmatch(rf"order-1 is in {topic}, partition \d, offset \d+\n", said)
    assert f"partition {record.partition}, offset {record.offset}\n" in said
    assert record.key == b"a key"
    assert began <= event.pop("failed_at") <= now_ms()
    assert event == {
        "task_id": "order-1",
        "task_type": "payment",
        "target": "orders",
        "key": b"a key",
        "payload": "héllo".encode(),
        "headers": [{"key": "trace", "value": b"1=2"}, {"key": "empty", "value": b""}],
        "attempt": 3,
        "error": {
            "class": "a::B",
            "message": "it broke",
            "category": "TIMEOUT",
            "causes": [{"class": "c::D", "message": "deep: down"}, {"class": "E", "message": ""}],
        },
        "source": "by hand",
        "first_failed_at": None,
    }


def test_an_event_as_short_as_it_gets(pipeline):
    said, _ = fail(pipeline, "--type", "mail", "--error", "Oops")
    task_id = said.split()[0]
    assert uuid.UUID(task_id).version == 4
    event, record = event_of(pipeline, task_id)
    assert record.key == task_id.encode()
    assert (event["target"], event["key"], event["payload"]) == (None, None, None)
    assert (event["attempt"], event["source"]) == (1, "reprise-cli")


def test_a_payload_from_a_file_and_from_standard_input(pipeline, tmp_path):
    file = tmp_path / "payload"
    file.write_bytes(PAYLOAD)
    fail(pipeline, "--type", "x", "--error", "E", "--id", "of-a-file", "--payload", f"@{file}")
    fail(pipeline, "--type", "x", "--error", "E", "--id", "of-stdin", "--payload", "@-", stdin=PAYLOAD)
    fail(pipeline, "--type", "x", "--error", "E", "--id", "of-nothing", "--payload", "@-")
    assert event_of(pipeline, "of-a-file")[0]["payload"] == PAYLOAD
    assert event_of(pipeline, "of-stdin")[0]["payload"] == PAYLOAD
    assert event_of(pipeline, "of-nothing")[0]["payload"] == b""


@pytest.mark.parametrize("way", ["file", "standard-input"])
def test_lines_of_events(pipeline, tmp_path, way):
    lines = [
        line(f"{way}-1", payload=base64.b64encode(PAYLOAD).decode()),
        b"\n",
        line(f"{way}-2", payload_json={"n": 0.10}, key_text="a key"),
        line(f"{way}-3", payload_text="héllo", failed_at="2024-05-06T07:08:09.010Z")[:-1],
    ]
    file = tmp_path / "events"
    file.write_bytes(b"".join(lines))
    arguments = (str(file),) if way == "file" else ("-",)
    said, _ = fail(pipeline, *arguments, stdin=b"" if way == "file" else b"".join(lines))
    assert said == "3 of 3 events sent, 0 refused\n"
    assert event_of(pipeline, f"{way}-1")[0]["payload"] == PAYLOAD
    event, record = event_of(pipeline, f"{way}-2")
    assert json.loads(event["payload"]) == {"n": 0.10}
    assert record.key == event["key"] == b"a key"
    event, _ = event_of(pipeline, f"{way}-3")
    assert (event["payload"], event["failed_at"]) == ("héllo".encode(), 1714979289010)


def test_what_a_line_says_wrong_is_told_and_the_rest_is_sent(pipeline):
    lines = [
        line("some-1"), b"not json\n", b'{"task_id": \n', line("some-0", attempt=0), line("some-2"),
    ]  # fmt: skip
    said, errors = fail(pipeline, "-", code=5, stdin=b"".join(lines))
    assert said == "2 of 5 events sent, 3 refused\n"
    for number in (2, 3, 4):
        assert f"line {number}: " in errors
    assert "line 1: " not in errors and "line 5: " not in errors
    event_of(pipeline, "some-1")
    event_of(pipeline, "some-2")


def test_nothing_sent_is_no_success(pipeline):
    said, _ = fail(pipeline, "-", code=1, stdin=b"nonsense\n")
    assert said == "0 of 1 events sent, 1 refused\n"
    fail(pipeline, "-", code=4)
    fail(pipeline, "-", code=4, stdin=b"\n  \n")


@pytest.mark.parametrize(
    "arguments, because",
    [
        ([], "an event needs --type and --error"),
        (["--type", "x"], "an event needs --type and --error"),
        (["--type", "x", "--error", "E", "-"], "do not go together"),
        (["--type", "x", "--error", "E", "--attempt", "0"], "--attempt is a number from 1 on"),
        (["--type", "x", "--error", "E", "--attempt", "2x"], "--attempt is a number from 1 on"),
        (["--type", "x", "--error", "E", "--header", "name"], "--header is NAME=VALUE"),
        (["--type", "", "--error", "E"], "task_type"),
        (["/no/such/file"], "/no/such/file: No such file"),
        (["--nonsense"], "nonsense"),
    ],
)
def test_what_cannot_be_meant_is_refused(pipeline, arguments, because):
    said, errors = fail(pipeline, *arguments, code=2)
    assert because in errors and said == ""


def test_a_payload_that_is_too_large_is_refused(pipeline):
    too_large = bytes(2**20 + 1)
    _, errors = fail(
        pipeline, "--type", "x", "--error", "E", "--payload", "@-", code=2, stdin=too_large
    )
    assert "topics.max_message_bytes" in errors
    padded = b'{"' + b"x" * (2 * 2**20 + 2**17) + b'"}\n'
    said, errors = fail(pipeline, "-", code=5, stdin=padded + line("behind-a-long-line"))
    assert said == "1 of 2 events sent, 1 refused\n" and "line 1: longer than" in errors
    event_of(pipeline, "behind-a-long-line")


def test_a_broker_that_is_away_is_a_failure(pipeline, tmp_path):
    config = tmp_path / "away.yaml"
    kafka = {
        "bootstrap.servers": "127.0.0.1:1",
        "producer": {"message.timeout.ms": 3000, "delivery.timeout.ms": 3000},
    }
    config.write_text(json.dumps(pipeline.config | {"kafka": kafka}))
    said, errors = fail(pipeline, "--type", "x", "--error", "E", code=1, config=config)
    assert said == "" and errors
