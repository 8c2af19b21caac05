# SPDX-License-Identifier: Apache-2.0
"""The archive on the command line."""

import base64
import json

import pytest

import contract
from test_archiver import Archive, letter

EVIL = "\x1b[2J\x07\u009b31m\u202ered\nsecond"


@pytest.fixture(scope="module")
def archive(new_pipeline):
    archive = Archive(new_pipeline, "dlq")
    archive.pipeline.start("archiver")
    evil = {"class": "E\x1b", "message": EVIL, "category": None, "causes": [{"class": EVIL, "message": EVIL}]}
    archive.send(contract.write_dead_letter(letter(1, task={"task_type": "payment", "payload": b'{"n": 0.10, "s": "\xc2\x9b"}'})))
    archive.send(contract.write_dead_letter(letter(2, task={"task_type": "pay_out", "payload": b"\0\1"}, reason="NON_RETRYABLE")))
    archive.send(contract.write_dead_letter(letter(3, task={"task_type": "mail", "error": evil, "payload": EVIL.encode()})))
    archive.send(contract.write_dead_letter(letter(4, task={"headers": [{"key": EVIL, "value": EVIL.encode()}]}, detail=EVIL)))
    archive.send(contract.write_dead_letter(letter(5) | {"task": None, "raw": EVIL.encode(), "reason": "UNDECODABLE"}), b"\x1b")
    archive.wait_for_all()
    return archive


def listed(archive, *arguments, code=0):
    text = archive.pipeline.cli("dlq", "list", "--format", "json", *arguments, code=code)
    return [json.loads(line) for line in text.splitlines()]


def types(rows):
    return sorted(row["task"]["task_type"] for row in rows if row["task"])


def test_list_filters(archive):
    assert len(listed(archive)) == 5
    assert types(listed(archive, "--type", "payment")) == ["payment", "payment"]
    assert types(listed(archive, "--type", "pay*")) == ["pay_out", "payment", "payment"]
    assert types(listed(archive, "--type", "pay_*")) == ["pay_out"]  # _ is no wildcard
    assert types(listed(archive, "--reason", "non_retryable")) == ["pay_out"]
    assert len(listed(archive, "--limit", "2")) == 2
    assert len(listed(archive, "--since", "1h")) == 5
    assert len(listed(archive, "--since", "2020-01-01T00:00Z", "--type", "mail")) == 1
    assert listed(archive, "--since", "2099-01-01", code=4) == []
    assert listed(archive, "--type", "x' or true --", code=4) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["list", "--reason", "nonsense"], ["list", "--since", "yesterdayish"],
        ["list", "--limit", "0"], ["list", "--format", "xml"],
        ["show"], ["show", "abc"], ["show", "1", "--task", "x"], ["show", "1", "--payload", "raw"],
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(archive, arguments):
    archive.pipeline.cli("dlq", *arguments, code=2)


def test_the_task_of_the_json_form_is_an_event_that_fail_takes(archive):
    (row,) = listed(archive, "--type", "pay_out")
    task = row["task"]
    assert base64.b64decode(task["payload"]) == b"\0\1"
    assert base64.b64decode(task["headers"][0]["value"]) == b"00-ab"
    reader = archive.pipeline.reader(f"{archive.pipeline.prefix}failed-tasks")
    path = archive.pipeline.folder / "events.jsonl"
    path.write_text(json.dumps(task) + "\n")
    archive.pipeline.cli("fail", str(path))
    reader.wait(1)


def test_show_says_all_and_json_keeps_its_numbers(archive):
    (row,) = (r for r in listed(archive, "--type", "payment") if r["task"]["task_id"] == "task-1")
    text = archive.pipeline.cli("dlq", "show", str(row["id"]))
    for part in ("EXHAUSTED", "execution 3, max_attempts 3", "java.io.IOException", "boom", "traceparent: 00-ab"):
        assert part in text
    assert '"n": 0.10,' in text
    hexed = archive.pipeline.cli("dlq", "show", "--task", "task-2", "--payload", "hex")
    assert "00000000  00 01" in hexed
    archive.pipeline.cli("dlq", "show", "999999", code=4)


def test_nothing_reaches_the_terminal_raw(archive):
    texts = [archive.pipeline.cli("dlq", "list"), archive.pipeline.cli("dlq", "stats")]
    texts.append(archive.pipeline.cli("dlq", "list", "--format", "json"))
    for row in listed(archive):
        for form in ("auto", "text", "json", "hex"):
            texts.append(archive.pipeline.cli("dlq", "show", str(row["id"]), "--payload", form))
    for text in texts:
        assert not set(text) & set("\x1b\x07\u009b\u202e\x7f\0"), text
    # A message cannot pass for lines of ours.
    assert "\nsecond" not in texts[0]


def test_stats_count(archive):
    text = archive.pipeline.cli("dlq", "stats", "--format", "json")
    rows = [json.loads(line) for line in text.splitlines()]
    assert sum(row["count"] for row in rows) == 5
    assert {"payment", "pay_out", "mail", None} == {row["type"] for row in rows}
    assert "COUNT" in archive.pipeline.cli("dlq", "stats", "--type", "pay*")
