# SPDX-License-Identifier: Apache-2.0
"""A million dead letters: what the usual questions of the command line read, as PostgreSQL explains
it, and how long they take."""

import json
import os
import re
import subprocess

import pytest

from archive_db import ArchiveDb
from pipeline import BUILD

pytestmark = [pytest.mark.alone, pytest.mark.timeout(900)]

ROWS = 1_000_000
FIRST = "2026-11-14 00:00Z"
PGOPTIONS = " ".join(
    f"-c {setting}"
    for setting in (
        "session_preload_libraries=auto_explain", "auto_explain.log_min_duration=0",
        "auto_explain.log_analyze=on", "auto_explain.log_timing=off", "auto_explain.log_format=json",
        "auto_explain.sample_rate=1", "log_min_messages=log",
    )
)  # fmt: skip


def new_db(postgres, tmp_path_factory, name):
    db = ArchiveDb(postgres, tmp_path_factory.mktemp(name), name)
    db.log = postgres.folder / "log"
    db.migrate()
    return db


@pytest.fixture(scope="module")
def million(postgres, tmp_path_factory):
    """Over a week, in 6 types and 40 groups of 5 classes; of each fifth something was done. Group 999
    is rare, and so is its class."""
    db = new_db(postgres, tmp_path_factory, "million")
    db.add_letters(ROWS, FIRST, days=7, classes=5)
    db.query(
        "update dead_letter set fingerprint = 999, error_class = 'Rare' where record_offset = 4711"
    )
    db.query(
        "insert into error_group select distinct on (fingerprint) fingerprint, task_type, error_class,"
        " 'no answer from host #' from dead_letter where dead_at < '2026-11-14 02:00Z'"
    )
    db.query("select dead_letter_recount('2026-11-14')")
    db.query(
        "insert into dead_letter_state (dead_at, id, status, task_type, reason, category, fingerprint,"
        " replays, came_back_at) select dead_at, id, case when id % 3 = 0 then 'discarded' else"
        " 'replayed' end, task_type, reason, category, fingerprint, 1, case when id % 12 = 1 then now()"
        " end from dead_letter where id % 5 = 1"
    )
    db.query("select dead_letter_fold()")
    db.query("vacuum analyze")
    return db


def plans(log):
    """Each as (milliseconds, plan)."""
    text = log.replace("\n\t", "\n")
    decoder = json.JSONDecoder()
    for found in re.finditer(r"duration: ([0-9.]+) ms  plan:\s*", text):
        yield float(found[1]), decoder.raw_decode(text, found.end())[0]


def scans(node, tables="dead_letter_[0-9]"):
    """Of the letters' partitions: (node type, rows looked at)."""
    if re.match(tables, node.get("Relation Name", "")):
        rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        yield node["Node Type"], rows * node["Actual Loops"]
    for child in node.get("Plans", []):
        yield from scans(child, tables)


def ask(db, *arguments):
    """What the command says, and the plans of its statements."""
    begin = db.log.stat().st_size
    done = subprocess.run(
        [BUILD / "bin/reprise", "dlq", *arguments, "--config", db.config],
        env={**os.environ, "PGOPTIONS": PGOPTIONS}, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode in (0, 4), done.stderr
    with db.log.open("rb") as log:
        log.seek(begin)
        return done.stdout, list(plans(log.read().decode()))


HOURS = ["--since", "2026-11-16T05:17Z", "--until", "2026-11-16T09:43Z"]
GROUP = ["--group", "0000000000000007"]
QUESTIONS = [
    ["list"],
    ["list", "--type", "type-1"],
    ["list", "--type", "type-?"],
    ["list", "--type", "type-2", "--status", "dead"],
    ["list", *GROUP],
    ["list", *GROUP, "--status", "dead"],
    ["list", "--group", "00000000000003e7"],
    ["list", "--class", "*Exception3"],
    ["list", "--class", "R?re"],
    ["list", "--category", "BUSY"],
    ["list", *GROUP, "--status", "replaying"],
    ["list", "--class", "*Exception3", "--status", "discarded"],
    ["list", "--type", "type-2", "--status", "replayed"],
    ["list", *HOURS],
    ["list", *HOURS, "--type", "type-1", "--reason", "EXHAUSTED"],
    ["groups"],
    ["groups", "--type", "type-1"],
    ["groups", *HOURS],
    ["groups", "--class", "*Exception3"],
    ["groups", "--class", "*a*", "--type", "type-1"],
    ["groups", "--status", "dead"],
    ["groups", "--status", "discarded", "--limit", "100"],
    ["stats"],
    ["stats", "--type", "type-1"],
    ["count", "--type", "type-1"],
    ["count", *GROUP],
    ["count", "--class", "R*", "--status", "dead"],
    ["count", *HOURS],
    ["count", "--status", "dead"],
    ["count", "--status", "replayed", "--type", "type-1", *HOURS],
]


@pytest.mark.parametrize("question", QUESTIONS, ids=" ".join)
def test_a_usual_question_reads_little_and_takes_less_than_a_second(million, question):
    took = []
    for _ in range(3):
        _, asked = ask(million, *question)
        assert asked, "auto_explain said nothing"
        took.append(sum(ms for ms, _ in asked))
        if took[-1] < 500:
            break
    read = [scan for _, plan in asked for scan in scans(plan["Plan"])]
    print(" ".join(question), f"{min(took):.0f} ms, {sum(rows for _, rows in read)} rows read")
    # A range of hours is cut in two, each of some 6,000 rows; a list looks at a page.
    assert sum(rows for _, rows in read) < 30_000, read
    assert all(rows < 100 for kind, rows in read if kind == "Seq Scan"), read
    assert min(took) < 1000, took


@pytest.mark.parametrize(
    "filter, condition",
    [
        (["--class", "*Exception3"], "error_class = 'java.io.IOException3'"),
        (["--type", "type-1"], "task_type = 'type-1'"),
        (GROUP, "fingerprint = 7"),
        (["--status", "dead"], "status = 'dead'"),
        (["--status", "replayed", "--type", "type-1"], "status = 'replayed' and task_type = 'type-1'"),
        (HOURS, "dead_at >= '2026-11-16 05:17Z' and dead_at < '2026-11-16 09:43Z'"),
    ],
)
def test_the_rollup_says_what_a_count_of_the_rows_says(million, filter, condition):
    said, _ = ask(million, "count", *filter)
    assert [(int(said),)] == million.query(f"select count(*) from archive where {condition}")


def rows_read(asked):
    return sum(
        rows for _, plan in asked for _, rows in scans(plan["Plan"], "dead_letter_(state_)?[0-9]")
    )


HOUR = ["--since", "2026-11-17T05:00Z", "--until", "2026-11-17T06:00Z"]


@pytest.mark.parametrize(
    "command, listing", [(["export"], 0), (["discard", "--reason", "a test", "--yes"], ROWS // 5)]
)
def test_what_goes_through_many_rows_reads_each_but_once(million, command, listing):
    """The hour has some 6,000 dead letters, in many batches. Before its first one, a discard lists
    them, for which PostgreSQL may read the table of states, once."""
    assert rows_read(ask(million, *command, *HOUR)[1]) < 60_000 + listing


def test_an_import_looks_for_its_own_rows_alone(postgres, tmp_path_factory, tmp_path):
    """In an archive so small that PostgreSQL would rather read all of it, for each batch."""
    db = new_db(postgres, tmp_path_factory, "import")
    db.add_letters(12_000, "2026-11-17 00:00Z")
    db.query("vacuum analyze")
    ask(db, "export", *HOUR, tmp_path / "hour.jsonl")
    said, asked = ask(db, "import", tmp_path / "hour.jsonl", "--reason", "a test")
    assert "500 were there already" in said
    assert rows_read(asked) < 5_000
