# SPDX-License-Identifier: Apache-2.0
"""Bad records, one by one: what each is, and what it gets. The services' README files print these lists
as tables; test_hostile.py sends each, and holds the tables against the lists.

`gets` begins with what the test looks for: a reason of dead letters, `re-invoked`, `stored` (as a row)
or `waits`. What it says of bytes and times is looked for, too."""

import collections
import datetime
import re
import struct
import uuid

import contract

Case = collections.namedtuple("Case", "what gets record row", defaults=[None])
"""`record(world)` returns the keyword arguments of produce(), and the task where it can be told. `row` has
the columns of a stored one that are altered, or are to be compared though `altered` is None."""

MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1
MIB = 1 << 20


class World:
    """What a record may have to know of the pipeline."""

    def __init__(self, prefix, target, unwritable, elsewhere):
        self.prefix, self.target, self.unwritable = prefix, target, unwritable
        self.elsewhere = elsewhere  # a topic that targets.allow does not allow


def task(world, **fields):
    return contract.failed_task(world.target) | fields


def letter(**fields):
    return {
        "task": None,
        "raw": None,
        "reason": "EXHAUSTED",
        "detail": "a test",
        "category": None,
        "policy": None,
        "attempts": 1,
        "decided_at": contract.now_ms(),
        "topic": "made-up",
        "partition": 0,
        "offset": 0,
    } | fields


def varint(n):
    """Avro's zigzag encoding; of any size, also of what is no long."""
    n = n << 1 if n >= 0 else (-n << 1) - 1
    out = bytearray()
    while True:
        out.append(n & 0x7F | (0x80 if n > 0x7F else 0))
        n >>= 7
        if n == 0:
            return bytes(out)


SINGLE_OBJECT = contract.MAGIC_OF_TASK


def raw(value, **options):
    return lambda world: ({"value": value, **options}, None)


def event(encode=contract.single_object, options=None, **fields):
    def record(world):
        filled = {k: v(world) if callable(v) else v for k, v in fields.items()}
        made = task(world, **filled)
        return {"value": encode(made), "key": made["key"], **(options or {})}, made

    return record


def cut(value):
    return value[:-10]


def in_task_id(count):
    """A single object whose first length lies."""
    return raw(SINGLE_OBJECT + varint(count) + b"abc")


def headers_block(*counts):
    """A whole event up to its headers, whose array lies about its size."""
    begin = varint(2) + b"id" + varint(1) + b"t" + varint(0) + varint(0) + varint(0)
    return raw(SINGLE_OBJECT + begin + b"".join(map(varint, counts)) + b"\x02a\x00" * 20)


def invalid_texts(made):
    """fastavro writes no invalid UTF-8, so texts are changed behind its back."""
    spoilt = made | {"task_type": "@@@@", "source": "@@@@"}
    return contract.single_object(spoilt).replace(b"@@@@", b"\xff\xfe\xc0\x80")


def invalid_json(made):
    return contract.as_json(made | {"source": "@@@@"}).replace(b"@@@@", b"\xff\xfe\xc0\x80")


def invalid_category(size):
    """It goes three times as long into a dead letter, which has U+FFFD for each of its bytes."""

    def encode(made):
        error = made["error"] | {"category": size * "@"}
        return contract.single_object(made | {"error": error}).replace(size * b"@", size * b"\xff")

    return encode


def bomb(codec, size):
    """A record of zeros, sent in a compressed batch."""
    return raw(bytes(size), codec=codec)


FAILED_TASKS = [
    Case("no value (a tombstone)", "UNDECODABLE", raw(None)),
    Case("an empty value", "UNDECODABLE", raw(b"")),
    Case("text", "UNDECODABLE", raw(b"hello, world")),
    Case("NUL bytes", "UNDECODABLE", raw(bytes(100))),
    Case("a wrong magic byte", "UNDECODABLE", event(lambda t: b"\xc3\x02" + contract.bare(t))),
    Case("an event that is cut short", "UNDECODABLE", event(lambda t: cut(contract.single_object(t)))),
    Case("an unknown fingerprint", "UNDECODABLE", event(lambda t: b"\xc3\x01" + bytes(8) + contract.bare(t))),
    Case("a schema id that the registry does not know", "UNDECODABLE", event(lambda t: contract.confluent(t, 99))),
    Case("a schema id, and nothing else", "UNDECODABLE", raw(struct.pack(">BI", 0, 7))),
    Case("a negative length", "UNDECODABLE", in_task_id(-5)),
    Case("a length of 2^31", "UNDECODABLE", in_task_id(2**31)),
    Case("a length of 2^63 - 1", "UNDECODABLE", in_task_id(MAX_LONG)),
    Case("a length that is longer than 64 bits", "UNDECODABLE", in_task_id(2**80)),
    Case("an array of 2^62 headers", "UNDECODABLE", headers_block(2**62)),
    Case("an array of -2^63 headers in a block of -1 bytes", "UNDECODABLE", headers_block(-(2**63), -1)),
    Case("JSON that is cut short", "UNDECODABLE", raw(b'{"task_id": ')),
    Case("JSON without its fields", "UNDECODABLE", raw(b'{"task_id": "x"}')),
    Case("JSON that is 100,000 levels deep", "UNDECODABLE", raw(b'{"payload_json": ' + b"[" * 100_000)),
    Case("JSON with a number that is none of ours", "UNDECODABLE", event(lambda t: contract.as_json(t).replace(b'"attempt": 1', b'"attempt": 1e400'))),
    Case("JSON that is no UTF-8", "UNDECODABLE", event(invalid_json)),
    Case("an Avro event whose type and source are no UTF-8", "re-invoked, by the policy `default`", event(invalid_texts)),
    Case("NUL bytes in id, type and error", "re-invoked", event(task_id=lambda _: f"a\0{uuid.uuid4()}", task_type="\0", error={"class": "\0", "message": "\0", "category": None, "causes": []})),
    Case("an empty id", "INVALID", event(task_id="")),
    Case("an empty type", "INVALID", event(task_type="")),
    Case("a type without a policy", "re-invoked, by the policy `default`", event(task_type="never heard of")),
    Case("attempt 0", "INVALID", event(attempt=0)),
    Case("a negative attempt", "INVALID", event(attempt=-(2**31))),
    Case("attempt 2^31 - 1", "EXHAUSTED", event(attempt=MAX_INT)),
    Case("attempt 2^31 - 1, and a policy without a limit", "re-invoked, as attempt 2^31 - 1", event(attempt=MAX_INT, task_type="endless")),
    Case("`failed_at` before 1970", "INVALID", event(failed_at=-1)),
    Case("`failed_at` in 1970", "re-invoked at once", event(failed_at=1, task_type="later")),
    Case("`failed_at` in 2100", "re-invoked, counted from its append", event(failed_at=4102444800000, task_type="a second")),
    Case("`failed_at` 2^63 - 1", "re-invoked, counted from its append", event(failed_at=MAX_LONG, task_type="a second")),
    Case("`first_failed_at` in 2100", "re-invoked, with `failed_at` in its place", event(first_failed_at=4102444800000, task_type="deadline")),
    Case("`first_failed_at` in 1970, and a deadline", "DEADLINE_EXCEEDED", event(first_failed_at=1, task_type="deadline")),
    Case("a delay of 30 days", "waits in the longest tier, lap after lap", event(task_type="later")),
    Case("no target, neither here nor in the policy", "NO_TARGET", event(target=None)),
    Case("a target that does not exist", "NO_TARGET", event(target=lambda w: w.target + "-not")),
    Case("a target that is not allowed", "TARGET_FORBIDDEN", event(target="somebody-elses-topic")),
    Case("a topic of reprise's own as the target", "TARGET_FORBIDDEN", event(target=lambda w: w.prefix + "dead-letter")),
    Case("a topic of reprise's own behind a NUL", "TARGET_FORBIDDEN", event(target=lambda w: w.prefix + "dead-letter\0")),
    Case("a target that the brokers deny", "TARGET_FORBIDDEN", event(target=lambda w: w.unwritable)),
    Case("an empty target", "TARGET_FORBIDDEN", event(target="")),
    Case("a target of 1,000 characters", "TARGET_FORBIDDEN", event(target=lambda w: w.target + 1000 * "x")),
    Case("a target that is no legal name", "TARGET_FORBIDDEN", event(target=lambda w: w.target + "/../x y")),
    Case("10,000 headers in the event", "re-invoked, with all of them", event(headers=[{"key": f"k{i}", "value": b"v"} for i in range(10_000)])),
    Case("10,000 headers on the record", "re-invoked, without them", event(options={"headers": [(f"k{i}", b"v") for i in range(10_000)]})),
    Case("headers of ours that make no sense", "re-invoked, without them", event(headers=[{"key": "reprise-attempt", "value": b"-1"}, {"key": "reprise-first-failed-at", "value": b"99999999999999999999"}, {"key": "reprise-due", "value": None}, {"key": "reprise-task-id", "value": b""}])),
    Case("a header with an empty name, and one with a NUL in it", "re-invoked, with both", event(headers=[{"key": "", "value": b"1"}, {"key": "a\0b", "value": b"2"}])),
    Case("a record key that is not the task's", "re-invoked, with the task's", event(options={"key": b"another"})),
    Case("the same event twice", "re-invoked once (where its time has milliseconds, or it waits longer than `router.clock_skew`)", event(options={"times": 2})),
    Case("a payload of 10 MB that its target takes", "re-invoked (`topics.max_message_bytes` must let it in)", event(payload=10_000_000 * b"x")),
    Case("a payload of 10 MB that its target refuses", "OVERSIZED", event(payload=10_000_000 * b"x", target=lambda w: w.target + "-small")),
    Case("50 MiB of zeros, compressed to a few KiB", "UNDECODABLE, with the first KiB where `dead-letter` cannot take more", bomb("gzip", 50 * MIB)),
    Case("an event of 50 MiB, compressed to a few KiB", "OVERSIZED", event(payload=bytes(50 * MIB), options={"codec": "zstd"})),
    Case("a category of 50 MiB, compressed to a few KiB, and no target", "NO_TARGET", event(target=None, error={"class": "E", "message": "", "category": 50 * MIB * "x", "causes": []}, options={"codec": "zstd"})),
    Case("a category of 6 MB that is no UTF-8, and no target", "NO_TARGET", event(invalid_category(6_000_000), target=None)),
    Case("150 MiB of zeros (gzip): more than a request can carry", "UNDECODABLE, with the first KiB", bomb("gzip", 150 * MIB)),
    Case("JSON of 15 million empty objects (gzip), which would take 3 GiB to read", "UNDECODABLE, with the first KiB where `dead-letter` cannot take more", raw(b'{"x": [' + 15_000_000 * b"{}," + b"0]}", codec="gzip")),
    Case("300 MiB of zeros (zstd): more than `receive.message.max.bytes`", "UNDECODABLE, without the bytes", bomb("zstd", 300 * MIB)),
]  # fmt: skip
REGISTRY_AWAY = Case("a schema id, while the registry is away", "UNDECODABLE after `schema_registry.patience`; until then its partition waits, and no other", event(lambda t: contract.confluent(t, 1000)))  # fmt: skip


def tier_record(value=None, **own):
    """What a stranger writes into a tier: `own` are headers of ours; None leaves one out."""

    def record(world):
        made = task(world)
        passage = {
            "reprise-task-id": made["task_id"],
            "reprise-attempt": "2",
            "reprise-due": str(contract.now_ms()),
            "reprise-target": world.target,
            "reprise-policy": "default",
            "reprise-first-failed-at": str(made["failed_at"]),
        }
        for name, text in own.items():
            name = "reprise-" + name.replace("_", "-")
            passage[name] = text(world) if callable(text) else text
        encoded = contract.single_object(made) if value is None else value(made)
        headers = [(k, v) for k, v in passage.items() if v is not None]
        return {"value": encoded, "key": made["key"], "headers": headers}, made

    return record


def without_target(made):
    return contract.single_object(made | {"target": None})


def plain_tier_record(value, headers=()):
    def record(world):
        made = task(world)
        return {"value": value(made), "key": b"k", "headers": list(headers)}, made

    return record


TIERS = [
    Case("no value (a tombstone)", "UNDECODABLE", raw(None)),
    Case("an empty value", "UNDECODABLE", raw(b"")),
    Case("bytes that are no event", "UNDECODABLE", raw(bytes(range(256)))),
    Case("an event that is cut short", "UNDECODABLE", tier_record(lambda t: cut(contract.single_object(t)))),
    Case("an array of 2^62 headers", "UNDECODABLE", headers_block(2**62)),
    Case("an event that breaks the contract", "INVALID", tier_record(lambda t: contract.single_object(t | {"attempt": 0}))),
    Case("an event without our headers", "re-invoked, one length of the tier after its append", plain_tier_record(contract.single_object)),
    Case("an event with 10,000 headers", "re-invoked, without them", plain_tier_record(contract.single_object, [(f"k{i}", b"v") for i in range(10_000)])),
    Case("`reprise-due` that is no number", "re-invoked, one length of the tier after its append", tier_record(due="soon")),
    Case("a negative `reprise-due`", "re-invoked, one length of the tier after its append", tier_record(due="-1")),
    Case("a `reprise-due` above 2^63", "re-invoked, one length of the tier after its append", tier_record(due="99999999999999999999")),
    Case("`reprise-due` in 1970", "re-invoked at once", tier_record(due="0")),
    Case("`reprise-due` in 2100", "waits, lap after lap", tier_record(due="4102444800000")),
    Case("`reprise-due` 2^63 - 1", "waits, lap after lap", tier_record(due=str(MAX_LONG))),
    Case("`reprise-attempt` 0", "re-invoked, as the attempt after the event's", tier_record(attempt="0")),
    Case("`reprise-attempt` above 2^31", "re-invoked, as the attempt after the event's", tier_record(attempt="99999999999")),
    Case("no `reprise-target`", "re-invoked, at the event's", tier_record(target=None)),
    Case("an empty `reprise-target`", "TARGET_FORBIDDEN", tier_record(target="")),
    Case("the same where the event names no target", "TARGET_FORBIDDEN", tier_record(without_target, target="")),
    Case("`reprise-target` that does not exist", "NO_TARGET", tier_record(target=lambda w: w.target + "-not")),
    Case("`reprise-target` that is not allowed, where the event names a target", "TARGET_FORBIDDEN", tier_record(target=lambda w: w.elsewhere)),
    Case("the same where the event names none", "re-invoked there: a policy may have named it", tier_record(without_target, target=lambda w: w.elsewhere)),
    Case("a topic of reprise's own as `reprise-target`", "TARGET_FORBIDDEN", tier_record(target=lambda w: w.prefix + "dead-letter")),
    Case("the same behind a NUL", "TARGET_FORBIDDEN", tier_record(target=lambda w: w.prefix + "dead-letter\0")),
    Case("both where the event names no target", "TARGET_FORBIDDEN", tier_record(without_target, target=lambda w: w.prefix + "dead-letter\0")),
    Case("`reprise-target` that the brokers deny", "TARGET_FORBIDDEN", tier_record(target=lambda w: w.unwritable)),
    Case("a `reprise-policy` of 6 MB that is no UTF-8, and a target that does not exist", "NO_TARGET", tier_record(policy=6_000_000 * b"\xff", target=lambda w: w.target + "-not")),
    Case("50 MiB of zeros, compressed to a few KiB", "UNDECODABLE, with the first KiB where `dead-letter` cannot take more", bomb("gzip", 50 * MIB)),
]  # fmt: skip


def letter_record(encode=contract.write_dead_letter, task_fields=None, **fields):
    def record(world):
        made = letter(task=task(world, **(task_fields or {})), **fields)
        return {"value": encode(made), "key": b"k"}, made["task"]

    return record


def nuls(mib):
    error = {"class": "E", "message": "\0" * (mib * MIB), "category": None, "causes": []}

    def record(world):
        sent, made = letter_record(task_fields={"error": error})(world)
        return {**sent, "codec": "gzip"}, made

    return record


NUL = "\\x00"
MANY = [{"key": f"k{i}", "value": b"v"} for i in range(10_000)]
FIRST_TIME = datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)
LAST_TIME = datetime.datetime(9999, 12, 31, 23, 59, 59, 999000, datetime.UTC)

DEAD_LETTERS = [
    Case("no value (a tombstone)", "UNDECODABLE", raw(None)),
    Case("an empty value", "UNDECODABLE", raw(b"")),
    Case("bytes that are no dead letter", "UNDECODABLE", raw(bytes(range(256)))),
    Case("a FailedTask", "UNDECODABLE", event()),
    Case("a dead letter that is cut short", "UNDECODABLE", letter_record(lambda d: cut(contract.write_dead_letter(d)))),
    Case("NUL bytes in every text", "stored, as `\\x00`", letter_record(detail="\0", task_fields={"task_type": "\0", "source": "\0", "error": {"class": "\0", "message": "\0", "category": "\0", "causes": [{"class": "\0", "message": "\0"}]}}), {"detail": NUL, "task_type": NUL, "error_class": NUL, "error_message": NUL, "error_category": NUL, "cause_classes": [NUL], "cause_messages": [NUL], "source": NUL}),
    Case("text that is no UTF-8", "stored, as `\\xFF`", letter_record(lambda d: contract.write_dead_letter(d | {"detail": "@@@@"}).replace(b"@@@@", b"\xff\xfe\xc0\x80")), {"detail": "\\xFF\\xFE\\xC0\\x80"}),
    Case("`decided_at` 2^63 - 1", "stored, on the day of its append", letter_record(decided_at=MAX_LONG), {"decided_at": LAST_TIME}),
    Case("`decided_at` -2^63", "stored, on the day of its append", letter_record(decided_at=-(2**63)), {"decided_at": FIRST_TIME}),
    Case("a type of 1 MB", "stored, cut at 1 KiB", letter_record(task_fields={"task_type": 1_000_000 * "x"}), {"task_type": 1024 * "x"}),
    Case("10,000 headers in its task", "stored", letter_record(task_fields={"headers": MANY}), {"altered": None, "header_keys": [h["key"] for h in MANY], "header_values": [h["value"] for h in MANY]}),
    Case("50 MiB of zeros, compressed to a few KiB", "UNDECODABLE", bomb("gzip", 50 * MIB)),
    Case("an error message of 90 MiB of NUL bytes, compressed", "stored, cut at 8 MiB", nuls(90), {"error_message": NUL * (2 * MIB)}),
    Case("the same of 220 MiB", "OVERSIZED, with the first 128 MiB", nuls(220)),
]  # fmt: skip


TABLES = {"router": [*FAILED_TASKS, REGISTRY_AWAY], "delayer": TIERS, "archiver": DEAD_LETTERS}


def table(cases):
    lines = ["| record | gets |", "|---|---|"]
    for case in cases:
        gets = re.sub(r"^[A-Z_]+", lambda reason: f"`{reason[0]}`", case.gets)
        lines.append(f"| {case.what} | {gets} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for name, cases in TABLES.items():
        print(f"services/{name}/README.md\n\n{table(cases)}")
