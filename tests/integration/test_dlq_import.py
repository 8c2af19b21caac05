# SPDX-License-Identifier: Apache-2.0
"""What an import makes of its lines: groups, ids, and what came back from what."""

import gzip
import json
import pathlib
import signal
import subprocess

import pytest
from dlq import DAY, WAITING, maker
from pipeline import wait_for


@pytest.fixture
def make(postgres, tmp_path):
    return maker(postgres, tmp_path)


def test_a_line_without_a_fingerprint_makes_no_group(make, tmp_path):
    """Zero stands for those that have none, whatever they died of."""
    db, other = make("groupless-from", 1), make("groupless-to")
    path = tmp_path / "one.jsonl"
    line = {**json.loads(db.run("export")), "group": {"message": "gone"}}
    path.write_text(json.dumps({k: v for k, v in line.items() if k != "fingerprint"}) + "\n")
    other.run("import", path)
    assert other.query("select fingerprint from dead_letter") == [(0,)]
    assert other.query("select count(*) from error_group") == [(0,)]


def test_a_damaged_file_gives_what_it_has(make, tmp_path):
    db, other = make("damaged-from", 3000), make("damaged-to")
    path, cut = tmp_path / "all.jsonl.gz", tmp_path / "cut.gz"
    db.run("export", path)
    cut.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    other.run("import", cut, code=5)
    assert "ends too early" in other.stderr and 0 < other.count() < 3000
    other.run("import", path)
    assert other.count() == 3000
    other.run("import", tmp_path / "nowhere", code=2)
    # What gzip itself has packed, in two parts, is read as well.
    parts = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    path.write_bytes(gzip.compress(b"".join(parts[:1000])) + gzip.compress(b"".join(parts[1000:])))
    assert "3,000 were there already" in other.run("import", path)


def test_an_id_that_is_taken_is_replaced_and_none_is_given_out_twice(make, tmp_path):
    db, other = make("ids-from", 100), make("ids-to", 40)
    other.query("update dead_letter set record_topic = 'other'")
    db.query("update dead_letter set id = id + 5000000 where id > 60")
    path = tmp_path / "ids.jsonl"
    db.run("export", path)
    text = other.run("import", path)
    assert "100 imported" in text and "40 of them with another id" in text
    other.add_letters(50, f"{DAY} 10:00:00+00", first_offset=1000)
    assert other.query("select count(*), count(distinct id) from dead_letter") == [(190, 190)]


def test_who_came_back_from_a_letter_with_another_id_names_that(make, tmp_path):
    """Be it of an earlier batch of the import (500 lines), of the same, or of an import before."""
    db, other = make("back-from", 1000), make("back-to", 600)
    db.query(
        "update dead_letter as d set replay_of_at = o.dead_at, replay_of = o.id, replay_job = 'j'"
        " from dead_letter as o where d.id > 400 and"
        " o.id = d.id - case when d.id between 401 and 500 or d.id between 701 and 800 then 400 else 500 end"
    )
    for _ in range(2):
        db.query(
            "update dead_letter as d set task_id = o.task_id from dead_letter as o"
            " where o.dead_at = d.replay_of_at and o.id = d.replay_of"
        )
    other.query("update dead_letter set record_topic = 'other', task_id = 'other-' || task_id")
    links = (
        "select d.record_offset, o.record_offset from dead_letter as d join dead_letter as o"
        " on o.dead_at = d.replay_of_at and o.id = d.replay_of and o.record_topic = 't' where d.record_topic = 't'"
        " order by d.record_offset"
    )
    first, rest = tmp_path / "first.jsonl", tmp_path / "rest.jsonl"
    db.run("export", first, "--where", "id <= 300")
    db.run("export", rest, "--where", "id > 300")
    for path in (first, rest):
        other.run("import", path)
    assert other.query(links) == db.query(links) and len(db.query(links)) == 600


def test_no_two_lines_get_one_id(make, tmp_path):
    """Those of two archives in one file, each of them twice."""
    one, two, both = make("ids-of-one", 100), make("ids-of-two", 100), make("ids-of-both")
    two.query("update dead_letter set record_topic = 'other'")
    lines = zip(*(db.run("export").splitlines(keepends=True) for db in (one, two)))
    path = tmp_path / "both.jsonl"
    path.write_text("".join(line for pair in lines for line in pair + pair))
    text = both.run("import", path)
    assert "200 imported" in text and "100 of them with another id" in text
    assert both.query("select count(*), count(distinct id) from dead_letter") == [(200, 200)]
    assert "400 were there already" in both.run("import", path)


def test_no_two_imports_at_once_give_one_id(make, tmp_path):
    one, two, both = make("import-one", 100), make("import-two", 100), make("import-both")
    two.query("update dead_letter set record_topic = 'other'")
    for db, name in ((one, "one"), (two, "two")):
        db.run("export", tmp_path / name)
    # An import that makes a day keeps the other one waiting for that.
    both.query(f"select dead_letter_add_day('{DAY}'::date + n) from generate_series(0, 1) as n")
    both.query("create function wait() returns trigger language plpgsql as"
               " 'begin perform pg_advisory_xact_lock_shared(1); return null; end'")
    both.query("create trigger wait after insert on dead_letter execute function wait()")
    with both.connect() as gate:
        gate.execute("select pg_advisory_lock(1)")
        imports = [both.start("import", tmp_path / name) for name in ("one", "two")]
        wait_for(lambda: both.query(WAITING) == [(2,)], "both to wait", 30)
    texts = [process.communicate()[0].decode() for process in imports]
    assert all("100 imported" in text for text in texts)
    assert sum("100 of them with another id" in text for text in texts) == 1
    assert both.query("select count(*), count(distinct id) from dead_letter") == [(200, 200)]


def test_an_import_from_a_quiet_pipe_hears_the_first_interrupt(make, tmp_path):
    db, path = make("quiet", 20), tmp_path / "some.jsonl"
    db.run("export", path)
    db.query("truncate dead_letter, dead_letter_state, dead_letter_count")
    process = db.start("import", "-", stdin=subprocess.PIPE)
    process.stdin.write(path.read_bytes())
    process.stdin.flush()
    wait_for(lambda: "R" not in pathlib.Path(f"/proc/{process.pid}/stat").read_text().split()[2]
             and db.query("select 1 from audit where action = 'import'"), "the import to wait")  # fmt: skip
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 5 and db.count() == 20
    process.stdin.close()


def test_the_first_id_of_all_is_not_given_out_again(make, tmp_path):
    path = tmp_path / "one.jsonl"
    make("first", 3).run("export", "--where", "id = 1", path)
    db = make("empty", 0)
    assert "1 imported" in db.run("import", path)
    assert db.query("select nextval('dead_letter_id_seq')") == [(2,)]


def test_no_import_gives_an_id_that_a_batch_of_the_archiver_has(make, tmp_path):
    """Which is not committed yet, so nobody sees which ids are taken."""
    db, other = make("batch-from", 100), make("batch-to")
    db.run("export", tmp_path / "all")
    other.query(f"select dead_letter_add_day('{DAY}'::date)")
    archive = ("insert into dead_letter (dead_at, record_topic, record_partition, record_offset, reason)"
               f" select '{DAY}', 'other', %s, n, 'EXHAUSTED' from generate_series(1, 40) as n")
    with other.connect() as archiver, archiver.transaction():
        archiver.execute(archive, (0,))
        process = other.start("import", tmp_path / "all")
        wait_for(lambda: other.query(WAITING) == [(1,)], "the import to wait", 30)
        other.query(archive, 1)  # another archiver's, which the import does not hold up
    assert "40 of them with another id" in process.communicate()[0].decode()
    assert other.query("select count(*), count(distinct id) from dead_letter") == [(180, 180)]
