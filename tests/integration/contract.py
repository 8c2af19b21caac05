# SPDX-License-Identifier: Apache-2.0
"""The wire contract as DESIGN.md states it, written without a look at our own code or schemas."""

import base64
import datetime
import io
import json
import time
import uuid

import fastavro
from fastavro.schema import to_parsing_canonical_form

TIME = {"type": "long", "logicalType": "timestamp-millis"}


def nullable(name, kind):
    return {"name": name, "type": ["null", kind], "default": None}


HEADER = {
    "type": "record",
    "name": "reprise.v1.Header",
    "fields": [{"name": "key", "type": "string"}, nullable("value", "bytes")],
}
CAUSE = {
    "type": "record",
    "name": "reprise.v1.Cause",
    "fields": [{"name": "class", "type": "string"}, {"name": "message", "type": "string"}],
}
ERROR = {
    "type": "record",
    "name": "reprise.v1.Error",
    "fields": [
        {"name": "class", "type": "string"},
        {"name": "message", "type": "string"},
        nullable("category", "string"),
        {"name": "causes", "type": {"type": "array", "items": CAUSE}, "default": []},
    ],
}
FAILED_TASK = {
    "type": "record",
    "name": "reprise.v1.FailedTask",
    "fields": [
        {"name": "task_id", "type": "string"},
        {"name": "task_type", "type": "string"},
        nullable("target", "string"),
        nullable("key", "bytes"),
        nullable("payload", "bytes"),
        {"name": "headers", "type": {"type": "array", "items": HEADER}, "default": []},
        {"name": "attempt", "type": "int"},
        {"name": "error", "type": ERROR},
        {"name": "source", "type": "string"},
        nullable("first_failed_at", TIME),
        {"name": "failed_at", "type": TIME},
    ],
}
REASONS = [
    "EXHAUSTED", "DEADLINE_EXCEEDED", "NON_RETRYABLE", "NO_TARGET", "TARGET_FORBIDDEN",
    "UNDECODABLE", "OVERSIZED", "CANCELLED", "INVALID", "OTHER",
]  # fmt: skip
DEAD_LETTER = {
    "type": "record",
    "name": "reprise.v1.DeadLetter",
    "fields": [
        nullable("task", FAILED_TASK),
        nullable("raw", "bytes"),
        {
            "name": "reason",
            "type": {
                "type": "enum",
                "name": "reprise.v1.Reason",
                "symbols": REASONS,
                "default": "OTHER",
            },
        },
        nullable("detail", "string"),
        nullable("category", "string"),
        nullable("policy", "string"),
        {"name": "attempts", "type": "int"},
        {"name": "decided_at", "type": TIME},
        {"name": "topic", "type": "string"},
        {"name": "partition", "type": "int"},
        {"name": "offset", "type": "long"},
    ],
}

PARSED_TASK = fastavro.parse_schema(FAILED_TASK)
PARSED_LETTER = fastavro.parse_schema(DEAD_LETTER)


def fingerprint(schema):
    """CRC-64-AVRO of the parsing canonical form, in the byte order of the single-object header."""
    empty = 0xC15D213AA4D7A795
    crc = empty
    for byte in to_parsing_canonical_form(schema).encode():
        entry = (crc ^ byte) & 0xFF
        for _ in range(8):
            entry = (entry >> 1) ^ (empty if entry & 1 else 0)
        crc = (crc >> 8) ^ entry
    return crc.to_bytes(8, "little")


MAGIC_OF_TASK = b"\xc3\x01" + fingerprint(FAILED_TASK)
MAGIC_OF_LETTER = b"\xc3\x01" + fingerprint(DEAD_LETTER)


def bare(task):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, PARSED_TASK, task)
    return out.getvalue()


def single_object(task):
    return MAGIC_OF_TASK + bare(task)


def confluent(task, schema_id):
    return b"\x00" + schema_id.to_bytes(4, "big") + bare(task)


def as_json(task):
    """Bytes as base64, defaults left out."""

    def text(value):
        return None if value is None else base64.b64encode(value).decode()

    out = {name: value for name, value in task.items() if value not in (None, [])}
    for name in ("key", "payload"):
        if name in out:
            out[name] = text(out[name])
    if "headers" in out:
        out["headers"] = [{"key": h["key"], "value": text(h["value"])} for h in out["headers"]]
    return json.dumps(out).encode()


def now_ms():
    return time.time_ns() // 1_000_000


def failed_task(target, task_type="a-type", **fields):
    """The first failure of a task, a moment ago."""
    return {
        "task_id": str(uuid.uuid4()),
        "task_type": task_type,
        "target": target,
        "key": b"a key",
        "payload": b"a payload",
        "headers": [],
        "attempt": 1,
        "error": {"class": "Oops", "message": "it broke", "category": None, "causes": []},
        "source": "tests",
        "first_failed_at": None,
        "failed_at": now_ms(),
    } | fields


def read_failed_task(value):
    """What reprise writes: single-object encoding, in the current schema. Times are in ms."""
    assert value[:10] == MAGIC_OF_TASK
    return times_as_ms(fastavro.schemaless_reader(io.BytesIO(value[10:]), PARSED_TASK, None))


def read_event(value):
    """A FailedTask in any framing that needs no registry; None for bytes that are none."""
    try:
        if value[:1] == b"{":
            return from_json(json.loads(value))
        if value[:1] in (b"\xc3", b"\0"):
            return read_failed_task(value)
        return times_as_ms(fastavro.schemaless_reader(io.BytesIO(value), PARSED_TASK, None))
    except (AssertionError, EOFError, IndexError, TypeError, ValueError):
        return None


def from_json(task):
    """What as_json has made."""

    def data(text):
        return None if text is None else base64.b64decode(text, validate=True)

    left_out = {"target": None, "first_failed_at": None, "headers": []}
    error = {"category": None, "causes": []} | task["error"]
    headers = [{"key": h["key"], "value": data(h["value"])} for h in task.get("headers", [])]
    fields = {"key": data(task.get("key")), "payload": data(task.get("payload")), "headers": headers}
    return left_out | task | fields | {"error": error}


def times_as_ms(record):
    """fastavro reads times as datetimes."""
    for name in ("first_failed_at", "failed_at", "decided_at"):
        if isinstance(record.get(name), datetime.datetime):
            record[name] = round(record[name].timestamp() * 1000)
    if isinstance(record.get("task"), dict):
        times_as_ms(record["task"])
    return record


def read_dead_letter(value):
    if value[:10] != MAGIC_OF_LETTER:
        raise ValueError(f"not a DeadLetter in single-object encoding: {value[:16].hex()}")
    return fastavro.schemaless_reader(io.BytesIO(value[10:]), PARSED_LETTER, None)


def write_dead_letter(letter):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, PARSED_LETTER, letter)
    return MAGIC_OF_LETTER + out.getvalue()
