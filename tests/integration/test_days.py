# SPDX-License-Identifier: Apache-2.0
"""The archive's days: what somebody took out by hand, and what becomes of dead letters that belong there."""

import datetime

import psycopg
import pytest

import contract
from archive_db import ArchiveDb
from pipeline import now_ms, wait_for
from test_archiver import Archive, letter

DAY_MS = 86_400_000
NAME = "dead_letter_{:%Y%m%d}"


def day(days_ago):
    return datetime.datetime.now(datetime.timezone.utc).date() - datetime.timedelta(days=days_ago)


def detach(archive, name):
    archive.query(f"alter table dead_letter detach partition {name}")


def drop(archive, name):
    archive.query(f"drop table {name}")


def begin_to_detach(archive, name):
    """It waits for a reader, and the operator gives up."""
    with psycopg.connect(archive.pipeline.dsn) as reader:
        reader.execute("select from dead_letter limit 1")
        with psycopg.connect(archive.pipeline.dsn, autocommit=True) as operator:
            operator.execute("set lock_timeout = 200")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                operator.execute(f"alter table dead_letter detach partition {name} concurrently")


def rows_of(archive, name):
    there = archive.query("select to_regclass(%s) is not null", name) == [(True,)]
    return archive.query(f"select count(*) from {name}") if there else []


@pytest.mark.parametrize("days_ago", [0, 9])
@pytest.mark.parametrize("take_out", [detach, drop, begin_to_detach])
def test_a_day_that_was_taken_out_stalls_nothing(new_pipeline, take_out, days_ago):
    """Before the archiver has seen it, and while it has rows for it. Retention goes on, too."""
    archive = Archive(new_pipeline, "days", archiver={"batch": 100})
    name, old = NAME.format(day(days_ago)), day(40)
    archive.query("select dead_letter_add_day(d::date) from unnest(array[%s, %s]) as d", day(days_ago), old)
    take_out(archive, name)
    (service,) = archive.pipeline.start("archiver")
    for i in range(600):
        at = now_ms() - (days_ago * DAY_MS if i % 3 == 0 else DAY_MS)
        archive.send(contract.write_dead_letter(letter(i, decided_at=at)), b"k")
    archive.wait_for_all()
    if take_out is drop:
        assert archive.query(f"select count(*) from {name}") == [(200,)]
        assert rows_of(archive, name.replace("letter_", "letter_state_")) == [(0,)]
        take_out(archive, name)  # while the archiver believes it to be there
        archive.sent -= 200
        archive.send(contract.write_dead_letter(letter(0, decided_at=now_ms() - days_ago * DAY_MS)), b"k")
        archive.wait_for_all()
        ArchiveDb.of(archive.pipeline.dsn).assert_counted()
    else:
        assert rows_of(archive, name) == [(0,)]
        moved = archive.query("select count(*), min(dead_at) > now() - interval '1 hour' from dead_letter"
                              " where dead_at::date <> %s", day(1))  # fmt: skip
        assert moved == [(200, True)]
        assert "day-has-no-room" in service.log.read_text()
    dropped = "select detail->>'day' from audit where action = 'drop-day'"
    wait_for(lambda: archive.query(dropped) == [(str(old),)], "retention")
    assert service.metric("reprise_archiver_database_errors_total") == 0


def test_a_day_that_is_taken_out_while_it_is_known_stalls_nothing(new_pipeline):
    """Batches are so large that PostgreSQL is given their beginning before they are full."""
    archive = Archive(new_pipeline, "days")
    archive.pipeline.start("archiver")
    archive.send_letters(300)
    archive.wait_for_all()
    name = NAME.format(day(0))
    detach(archive, name)
    archive.query("select dead_letter_recount(%s)", day(0))
    archive.sent = 0
    archive.send_letters(3000)
    archive.wait_for_all()
    assert archive.query(f"select count(*) from {name}") == [(300,)]


def test_a_day_whose_states_were_dropped_goes_all_the_same(new_pipeline):
    archive = Archive(new_pipeline, "days")
    db = ArchiveDb.of(archive.pipeline.dsn)
    db.add_letters(10, f"{day(40)} 00:00Z")
    drop(archive, NAME.format(day(40)).replace("letter_", "letter_state_"))
    archive.pipeline.start("archiver")
    wait_for(lambda: archive.rows() == 0, "the old day to go")
    db.assert_counted()
