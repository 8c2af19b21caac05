# SPDX-License-Identifier: Apache-2.0
"""`reprise dlq purge --export`: a file is written once, and what is said of the next one is true."""

import signal

import pytest

from dlq import WAITING, maker
from pipeline import wait_for


@pytest.fixture
def make(postgres, tmp_path):
    return maker(postgres, tmp_path)


def purge(db, path, *more):
    return ["purge", "--where", "all", "--export", path, "--reason", "x", *more]


@pytest.mark.parametrize("more", ["--yes", "--dry-run"])
def test_a_name_that_is_taken_is_refused_at_once(make, tmp_path, more):
    db, path = make("taken", 10), tmp_path / "all.jsonl"
    path.write_text("mine\n")
    assert db.run(*purge(db, path, more), code=2) == ""
    assert f"{path} exists already; name another file" in db.stderr and "again" not in db.stderr
    assert db.count() == 10 and path.read_text() == "mine\n"


def test_a_name_that_is_taken_meanwhile_is_no_reason_to_run_it_again(make, tmp_path):
    db, path = make("part", 10), tmp_path / "all.jsonl"
    with db.connect() as other:
        other.execute("begin; lock table dead_letter in access exclusive mode")
        process = db.start(*purge(db, path, "--yes"))
        wait_for(lambda: db.query(WAITING) == [(1,)], "the purge to wait", 60)
        path.write_text("mine\n")
    err = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 1 and "exists already" in err and "again" not in err, err
    assert db.count() == 10 and path.read_text() == "mine\n"


def stopped(db, path):
    """Ctrl-C in the second batch, of 1,000 like the first."""
    db.query("create function wait() returns trigger language plpgsql as"
             " 'begin perform pg_advisory_xact_lock_shared(1); return old; end'")  # fmt: skip
    db.query("create trigger wait before delete on dead_letter for each row when (old.id = 1500)"
             " execute function wait()")  # fmt: skip
    with db.connect() as gate:
        gate.execute("select pg_advisory_lock(1)")
        process = db.start(*purge(db, path, "--yes"))
        wait_for(lambda: db.query(WAITING) == [(1,)], "a batch to wait", 60)
        process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 5 and "deleted 2,000 of 3,000; run it again for the rest" in err, err
    return err


def test_the_rest_goes_into_another_file(make, tmp_path):
    db, other = make("rest", 3000), make("other")
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    assert f"name another file then: {first} stays as it is" in stopped(db, first)
    db.run(*purge(db, first, "--yes"), code=2)
    db.run(*purge(db, second, "--yes"))
    assert db.count() == 0
    assert [len(path.read_bytes().splitlines()) for path in (first, second)] == [3000, 1000]
    other.run("import", first)
    assert other.count() == 3000
