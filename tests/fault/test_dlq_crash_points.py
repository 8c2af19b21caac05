# SPDX-License-Identifier: Apache-2.0
"""The command line dies at each point of what it does to dead letters; it is run again, and all is counted. Replays die
in tests/integration/test_replay.py, retention in test_retention.py."""

import os
import pathlib
import re
import signal

import pytest

from crash_points import all_points, crash_points
from dlq import Dlq
from test_crash_points import SERVICES

ROWS = 3000


def names(*kinds):
    return [name for _, name in crash_points(*kinds)]


def number_of(point):
    return next(number for number, name, _ in all_points() if name == point)


@pytest.fixture
def db(postgres, tmp_path):
    db = Dlq(postgres, tmp_path, "dlq-crash")
    db.migrate()
    db.add_letters(ROWS, "2026-11-20 10:00:00+00")
    return db


def die_at(db, point, *arguments, nth=2):
    process = db.start(*arguments, env={**os.environ, "REPRISE_CRASH_POINT": f"{number_of(point)}:{nth}"})
    out, err = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL, f"{point} is not reached: {out} {err}"


def audited(db, action):
    return sum(detail["rows"] for _, _, detail in db.audited(action))


@pytest.mark.parametrize("point", names("discard"))
def test_discard(db, point):
    arguments = ["discard", "--where", "all", "--reason", "x", "--yes"]
    die_at(db, point, *arguments)
    done = db.count("status = 'discarded'")
    assert done == audited(db, "discard") == (1000 if point == "discard_changed" else 2000)
    db.run(*arguments)
    assert db.count("status = 'discarded'") == audited(db, "discard") == ROWS
    db.assert_counted()


@pytest.mark.parametrize("point", names("purge"))
def test_purge(db, point):
    arguments = ["purge", "--where", "all", "--reason", "x", "--yes"]
    die_at(db, point, *arguments)
    assert ROWS - db.count() == audited(db, "purge") == (1000 if point == "purge_deleted" else 2000)
    db.run(*arguments)
    assert db.count() == 0 and audited(db, "purge") == ROWS
    db.assert_counted()


@pytest.mark.parametrize("point", names("export"))
def test_an_export_before_a_purge(db, tmp_path, point):
    path = tmp_path / "gone.jsonl.zst"
    arguments = ["purge", "--where", "all", "--reason", "x", "--yes", "--export", path]
    die_at(db, point, *arguments, nth=2 if point == "export_batch_written" else 1)
    assert path.exists() == (point == "export_named") and db.count() == ROWS
    if path.exists():  # whole, and in the way of the next one
        assert "exists" in db.run(*arguments, code=(1, 2)) + db.stderr and db.count() == ROWS
        path.rename(tmp_path / "first.jsonl.zst")
        db.run(*arguments)
        assert db.count() == 0
        assert f"{ROWS:,} imported" in db.run("import", tmp_path / "first.jsonl.zst")
        return
    db.run(*arguments)
    assert db.count() == 0
    assert f"{ROWS:,} imported" in db.run("import", path)


@pytest.mark.parametrize("point", names("import"))
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


def test_no_point_is_forgotten():
    """Each kind of points has a test that takes them from the list, all of them."""
    tests = [pathlib.Path(__file__), *pathlib.Path(__file__).parents[1].glob("integration/test_re*.py")]
    asked = re.findall(r"\b(?:crash_points|names|numbers)\(([^()]*)\)", "".join(t.read_text() for t in tests))
    swept = {kind for kinds in asked for kind in re.findall(r'"([\w-]+)"', kinds)}
    ours = {*SERVICES, "delayer-at-least-once"}
    assert {kind for _, _, kinds in all_points() for kind in kinds} - ours <= swept
