# SPDX-License-Identifier: Apache-2.0
"""Our codec as a program, and random records for it."""

import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("REPRISE_BUILD", "build")


def run(mode, record, values, *arguments):
    """The lines that come of these values (bytes)."""
    done = subprocess.run(
        [BUILD / "bin" / "codec_tool", mode, record, *arguments],
        input="".join(value.hex() + "\n" for value in values),
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert len(lines) == len(values), done.stderr
    return lines


def random_text(rng):
    return "".join(rng.choice("abc xyz.-/ä€😀\x00\n\"\\") for _ in range(rng.choice([0, 3, 20, 300])))


def random_bytes(rng):
    return rng.choice([None, b"", rng.randbytes(5), rng.randbytes(3000)])


def random_time(rng):
    return rng.choice([0, 1, rng.randrange(1 << 20), rng.randrange(1 << 41)])


def random_task(rng):
    def maybe(value):
        return rng.choice([None, value])

    return {
        "task_id": "id-" + random_text(rng),
        "task_type": "type-" + random_text(rng),
        "target": maybe(random_text(rng)),
        "key": random_bytes(rng),
        "payload": random_bytes(rng),
        "headers": [
            {"key": random_text(rng), "value": random_bytes(rng)}
            for _ in range(rng.choice([0, 1, 3, 100]))
        ],
        "attempt": rng.choice([1, 63, 64, (1 << 31) - 1]),
        "error": {
            "class": random_text(rng),
            "message": random_text(rng),
            "category": maybe("TIMEOUT"),
            "causes": [
                {"class": random_text(rng), "message": random_text(rng)}
                for _ in range(rng.choice([0, 1, 5]))
            ],
        },
        "source": random_text(rng),
        "first_failed_at": maybe(random_time(rng)),
        "failed_at": random_time(rng),
    }


def random_letter(rng, reasons):
    return {
        "task": rng.choice([None, random_task(rng)]),
        "raw": random_bytes(rng),
        "reason": rng.choice(reasons),
        "detail": rng.choice([None, random_text(rng)]),
        "category": None,
        "policy": rng.choice([None, "payment"]),
        "attempts": rng.randrange(100),
        "decided_at": random_time(rng),
        "topic": "failed-tasks",
        "partition": rng.randrange(1 << 31),
        "offset": rng.randrange(1 << 63),
    }


def with_hex(value):
    """What `codec_tool decode` prints: the same with bytes in hexadecimal."""
    if isinstance(value, dict):
        return {name: with_hex(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [with_hex(inner) for inner in value]
    return value.hex() if isinstance(value, bytes) else value
