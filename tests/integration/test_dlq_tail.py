# SPDX-License-Identifier: Apache-2.0
"""`reprise dlq tail`: what comes is shown, all of it, once."""

import contextlib
import json
import select
import signal
import time

import psycopg
import pytest

from dlq import DAY, maker


@pytest.fixture
def make(postgres, tmp_path):
    return maker(postgres, tmp_path)


def test_tail_shows_what_comes_and_misses_nothing(make):
    db = make("tail", 20)
    process = db.start("tail", "--lines", 5, "--format", "json", "--where", "type != type-5")
    seen = []

    def read(count):
        while len(seen) < count:
            seen.append(json.loads(process.stdout.readline())["id"])

    read(5)
    assert seen == sorted(db.ids("--where", "type != type-5"))[-5:]
    # Somebody whose ids are drawn earlier commits later.
    with psycopg.connect(db.dsn) as slow:
        slow.execute(
            "insert into dead_letter (dead_at, record_topic, record_partition, record_offset, reason)"
            f" select '{DAY} 11:00+00', 'slow', 0, n, 'OTHER' from generate_series(1, 3) as n"
        )
        db.add_letters(12, f"{DAY} 12:00:00+00", first_offset=1000)
        read(15)
        slow.commit()
    read(18)
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0
    assert len(set(seen)) == 18 and set(seen[5:]) == set(db.ids("--where", "type != type-5 and id > 20"))


def add_until_shown(db, process):
    """Whatever it takes to begin."""
    n = 0
    while not select.select([process.stdout], [], [], 0.2)[0]:
        db.add_letters(1, f"{DAY} 12:00:00+00", first_offset=1000 + n)
        n += 1
    return n


@contextlib.contextmanager
def slow_batch(db):
    """What is committed behind it is shown, behind what came meanwhile."""
    process = db.start("tail", "--lines", 0)
    add_until_shown(db, process)
    with psycopg.connect(db.dsn) as batch:
        ids = batch.execute(
            "insert into dead_letter (dead_at, record_topic, record_partition, record_offset, reason)"
            f" select '{DAY} 11:00+00', 'slow', 0, n, 'OTHER' from generate_series(1, 3) as n returning id"
        ).fetchall()
        db.add_letters(12, f"{DAY} 12:00:00+00", first_offset=2000)
        yield
    seen = []
    while len(seen) < 15:
        shown = int(process.stdout.readline().split()[0])
        seen += [shown] if shown >= ids[0][0] else []
    assert sorted(seen[12:]) == [id for (id,) in ids]
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0


def test_tail_that_lags_misses_nothing(make):
    """Whoever reads stops for longer than late rows are looked for; and meanwhile, elsewhere, a batch takes 30 s."""
    db = make("lag", 3000)
    process = db.start("tail", "--lines", 3000, "--format", "json")
    seen = [json.loads(process.stdout.readline())["id"] for _ in range(1500)]
    with slow_batch(make("batch", 20)):
        time.sleep(31)
    time.sleep(16)
    seen += [json.loads(process.stdout.readline())["id"] for _ in range(1500)]
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0 and process.stdout.read() == b""
    assert seen == db.ids("--where", "all")


def test_tail_shows_what_was_under_way_when_it_began(make):
    """Its ids are below those that are shown first."""
    db = make("early", 20)
    with psycopg.connect(db.dsn) as slow:
        slow.execute(
            "insert into dead_letter (dead_at, record_topic, record_partition, record_offset, reason)"
            f" select '{DAY} 11:00+00', 'slow', 0, n, 'OTHER' from generate_series(1, 3) as n"
        )
        db.add_letters(12, f"{DAY} 12:00:00+00", first_offset=1000)
        db.query("update dead_letter set archived_at = now() where id > 20")
        process = db.start("tail", "--lines", 2)
        lines = [process.stdout.readline() for _ in range(2)]
        slow.commit()
    lines += [process.stdout.readline() for _ in range(3)]
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0 and process.stdout.read() == b""
    assert [int(line.split()[0]) for line in lines] == [34, 35, 21, 22, 23]


def test_tail_begins_with_what_comes(make):
    db = make("none", 20)
    process = db.start("tail", "--lines", 0)
    seen = 20 + add_until_shown(db, process)
    first = int(process.stdout.readline().split()[0])
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0 and 20 < first <= seen


def test_tail_holds_few_large_ones_at_once(make):
    db = make("large", 60)
    db.query("update dead_letter set payload = convert_to(repeat('x', 1000000), 'UTF8')")
    process = db.start("tail", "--lines", 60, "--format", "json")
    seen = [json.loads(process.stdout.readline())["id"] for _ in range(60)]
    peak_kb = int(open(f"/proc/{process.pid}/status").read().split("VmHWM:")[1].split()[0])
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0 and seen == db.ids("--where", "all")
    assert peak_kb < 150_000
