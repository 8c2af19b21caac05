# SPDX-License-Identifier: Apache-2.0
"""The command line dies at each point of what it does to dead letters; it is run again, and all is counted."""

import os
import signal
import subprocess

import pytest

from dlq import BUILD, Dlq

ROWS = 3000


def numbers():
    lines = subprocess.check_output([BUILD / "bin/crash_points"], text=True).splitlines()
    return {name: number for number, name, _ in (line.split("\t") for line in lines)}


@pytest.fixture
def db(postgres, tmp_path):
    db = Dlq(postgres, tmp_path, "dlq-crash")
    db.migrate()
    db.add_letters(ROWS, "2026-11-20 10:00:00+00")
    return db


def die_at(db, point, *arguments):
    process = db.start(*arguments, env={**os.environ, "REPRISE_CRASH_POINT": f"{numbers()[point]}:2"})
    out, err = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL, f"{point} is not reached: {out} {err}"


def audited(db, action):
    return sum(detail["rows"] for _, _, detail in db.audited(action))


@pytest.mark.parametrize("point", ["discard_changed", "discard_committed"])
def test_discard(db, point):
    arguments = ["discard", "--where", "all", "--reason", "x", "--yes"]
    die_at(db, point, *arguments)
    done = db.count("status = 'discarded'")
    assert done == audited(db, "discard") == (1000 if point == "discard_changed" else 2000)
    db.run(*arguments)
    assert db.count("status = 'discarded'") == audited(db, "discard") == ROWS
    db.assert_counted()


@pytest.mark.parametrize("point", ["purge_deleted", "purge_committed"])
def test_purge(db, point):
    arguments = ["purge", "--where", "all", "--reason", "x", "--yes"]
    die_at(db, point, *arguments)
    assert ROWS - db.count() == audited(db, "purge") == (1000 if point == "purge_deleted" else 2000)
    db.run(*arguments)
    assert db.count() == 0 and audited(db, "purge") == ROWS
    db.assert_counted()


def test_an_export_before_a_purge(db, tmp_path):
    path = tmp_path / "gone.jsonl.zst"
    arguments = ["purge", "--where", "all", "--reason", "x", "--yes", "--export", path]
    die_at(db, "export_batch_written", *arguments)
    assert not path.exists() and db.count() == ROWS
    db.run(*arguments)
    assert db.count() == 0
    assert f"{ROWS:,} imported" in db.run("import", path)


@pytest.mark.parametrize("point", ["import_added", "import_committed"])
def test_import(db, tmp_path, point):
    path = tmp_path / "all.jsonl.gz"
    db.run("export", path)
    before = db.query("select to_jsonb(a) - 'state_status' from archive as a order by dead_at, id")
    db.run("purge", "--where", "all", "--reason", "x", "--yes")
    die_at(db, point, "import", path)
    assert db.count() == audited(db, "import") == (500 if point == "import_added" else 1000)
    db.run("import", path)
    assert audited(db, "import") == ROWS
    assert db.query("select to_jsonb(a) - 'state_status' from archive as a order by dead_at, id") == before
    db.assert_counted()
