# SPDX-License-Identifier: Apache-2.0
"""The archive's schema: migrations, counts that are right whatever is done at once, and how fast it
answers."""

import contextlib
import datetime
import random
import threading

import psycopg
import pytest

from archive_db import ArchiveDb, run_unit_tests
from servers import ROOT

DAY = "2026-11-20"


@pytest.fixture
def new_db(postgres, tmp_path):
    return ArchiveDb(postgres, tmp_path, "archive-db")


@pytest.fixture
def db(new_db):
    new_db.migrate()
    return new_db


def test_a_database_with_dead_letters_is_brought_up_to_date(new_db):
    first = (ROOT / "schemas/postgres/0001_archive.sql").read_text()
    with new_db.connect() as connection:
        connection.execute(
            "create table schema_migration (version integer primary key, name text not null,"
            " applied_at timestamptz not null default now())"
        )
        connection.execute(first)
        connection.execute("insert into schema_migration values (1, '0001_archive')")
        connection.execute(f"select dead_letter_add_day('{DAY}'::date + n) from generate_series(0, 2) n")
        connection.execute(
            "insert into dead_letter (dead_at, record_topic, record_partition, record_offset, reason,"
            f" task_type) select '{DAY}'::date + n * interval '1 minute', 't', 0, n, 'EXHAUSTED',"
            " nullif('type-' || n % 3, 'type-0') from generate_series(0, 2999) as n"
        )
    assert "0002_replay: done" in new_db.migrate()
    new_db.assert_counted()
    assert new_db.query("select sum(n)::int from dead_letter_count") == [(3000,)]
    assert new_db.query("select status, fingerprint, count(*) from archive group by 1, 2") == [
        ("dead", 0, 3000)
    ]
    new_db.query(
        "insert into dead_letter_state (dead_at, id, status, task_type, reason, fingerprint) select"
        " dead_at, id, 'discarded', task_type, reason, fingerprint from archive where id % 10 = 0"
    )
    assert new_db.query(f"select dead_letter_drop_day('{DAY}', 'me', 'a test')") == [(1440,)]
    new_db.assert_counted()
    assert "nothing to do" in new_db.migrate()


def test_statistics_of_many_types_have_an_end(db):
    db.add_letters(3000, f"{DAY} 10:00Z", types=1500)
    assert db.query("select dead_letter_snapshot('1 day', '90 days')") == [(True,)]
    whole = "count(*)::int, sum(dead)::int, count(*) filter (where task_type = 'other')::int"
    (found,) = db.query(f"select {whole} from dead_letter_stat")
    assert found == (1001, 3000, 1)
    db.query("select dead_letter_skip_snapshot('1 day')")  # there is one
    assert db.query(f"select {whole} from dead_letter_stat") == [found]
    db.query("delete from dead_letter_stat")
    db.query("select dead_letter_skip_snapshot('1 day')")
    assert db.query("select reason, dead from dead_letter_stat") == [("", 0)]
    assert db.query("select dead_letter_snapshot('1 day', '90 days')") == [(False,)]


def test_what_came_back_again_and_again_knows_how_often(db):
    db.add_letters(5, f"{DAY} 10:00Z", days=3)
    db.query("update dead_letter as d set replay_of_at = o.dead_at, replay_of = o.id from dead_letter as o where o.id = d.id - 1")
    generations = "select dead_letter_generation(replay_of_at, replay_of, %s) from archive where replay_of is not null order by id"
    assert db.query(generations, 9) == [(1,), (2,), (3,), (4,)]
    assert db.query(generations, 2) == [(1,), (2,), (2,), (2,)]
    db.query("update dead_letter set replay_of_at = dead_at, replay_of = id")
    assert db.query(generations, 7) == 5 * [(7,)]
    db.query("update dead_letter set replay_of_at = now(), replay_of = -1")
    assert db.query(generations, 7) == 5 * [(1,)]


def test_counts_are_added_up_some_hours_at_a_time(db):
    for _ in range(2):
        db.add_letters(5000, f"{DAY} 00:00Z", first_offset=db.query("select count(*)::int from dead_letter")[0][0])
    assert db.query("select dead_letter_fold(10)") == [(10,)]
    db.assert_counted()
    assert db.query("select dead_letter_fold(10)") == [(10,)]
    assert db.query("select dead_letter_fold(10)") == [(4,)]
    assert db.query("select dead_letter_fold(10)") == [(0,)]
    db.assert_counted()
    assert db.query("select count(*) from dead_letter_count where not folded") == [(0,)]


def test_purge_and_export(postgres):
    run_unit_tests("purge_test", postgres)


STATE = "dead_at, id, status, job, task_type, reason, category, fingerprint"


def claim(connection, rng, job):
    """As a replay claims rows: two at once never have the same one."""
    with connection.transaction():
        connection.execute("select dead_letter_keep()")
        connection.execute(
            f"insert into dead_letter_state ({STATE})"
            " select dead_at, id, 'replaying', %s, task_type, reason, category, fingerprint"
            " from archive where status = 'dead' and id %% 17 = %s order by dead_at, id"
            " on conflict (dead_at, id) do update set status = 'replaying', job = excluded.job"
            " where dead_letter_state.status = 'dead'",
            (job, rng.randrange(17)),
        )


def settle(connection, rng, job):
    """What a job has claimed is marked, given back, or comes back dead."""
    new = rng.choice(["replayed", "dead"])
    connection.execute(
        "with mine as (select dead_at, id from dead_letter_state where job = %s and"
        " status = 'replaying' and id %% 3 = %s order by dead_at, id for update)"
        " update dead_letter_state as s set status = %s, replays = replays + 1,"
        " came_back_at = case when s.id %% 2 = 0 then now() end from mine"
        " where mine.dead_at = s.dead_at and mine.id = s.id",
        (job, rng.randrange(3), new),
    )


def discard(connection, rng, job):
    with connection.transaction():
        connection.execute("select dead_letter_keep()")
        connection.execute(
            f"insert into dead_letter_state ({STATE})"
            " select dead_at, id, 'discarded', null, task_type, reason, category, fingerprint"
            " from archive where status = 'dead' and id %% 31 = %s order by dead_at, id"
            " on conflict (dead_at, id) do update set status = 'discarded'"
            " where dead_letter_state.status = 'dead'",
            (rng.randrange(31),),
        )


def purge(connection, rng, job):
    with connection.transaction():
        connection.execute("select dead_letter_take()")
        connection.execute(
            "with going as (select dead_at, id from archive where status <> 'replaying' and"
            " id %% 41 = %s order by dead_at, id limit 50)"
            " delete from dead_letter as d using going as g where d.dead_at = g.dead_at and d.id = g.id",
            (rng.randrange(41),),
        )


def test_a_day_of_a_young_replay_stays(db):
    """Which was planned while an archiver exported it, for want of nothing but older ones."""
    db.add_letters(10, f"{DAY} 00:00Z")
    db.query(f"insert into dead_letter_state ({STATE}) select dead_at, id, 'replaying', 'a-job', task_type, reason,"
             " category, fingerprint from dead_letter")  # fmt: skip
    db.query("insert into replay_job (job, created_at, created_by, reason, filter)"
             " values ('a-job', now() - interval '6 days', 'ann', 'a test', 'all')")  # fmt: skip
    drop = f"select dead_letter_drop_day('{DAY}', 'me', 'a test', {{}})"
    assert db.query(drop.format("true")) == [(-1,)]
    db.query("update replay_job set created_at = now() - interval '8 days'")
    assert db.query(drop.format("false")) == [(-1,)]
    assert db.query(drop.format("true")) == [(10,)]


def test_counts_are_right_whatever_is_done_at_once(db, rng):
    days = [datetime.date.fromisoformat(DAY) + datetime.timedelta(days=n) for n in range(4)]
    for number, day in enumerate(days):
        db.add_letters(500, f"{day} 00:00Z", first_offset=number * 500)
    failures = []

    def insert(connection, rng, job):
        connection.execute(
            "insert into dead_letter (dead_at, record_topic, record_partition, record_offset, reason,"
            " task_type, fingerprint) select %s::timestamptz + n * interval '47 minutes', %s, 1,"
            " %s + n, 'EXHAUSTED', 'type-' || n %% 4, n %% 5 from generate_series(0, 29) as n"
            " on conflict do nothing",
            (f"{rng.choice(days[2:])} 00:00Z", f"t-{job}", rng.randrange(300)),
        )

    def fold(connection, rng, job):
        connection.execute("select dead_letter_fold()")

    def drop(connection, rng, job):
        connection.execute(
            "select dead_letter_drop_day(%s, 'me', 'a test', %s)",
            (rng.choice(days[:2]), rng.random() < 0.2),
        )

    actions = [insert, insert, claim, claim, settle, settle, discard, purge, fold, drop]
    done = []

    def work(seed):
        rng = random.Random(seed)
        try:
            with db.connect() as connection:
                for _ in range(60):
                    with contextlib.suppress(psycopg.errors.LockNotAvailable):
                        rng.choice(actions)(connection, rng, f"job-{rng.randrange(5)}")
                        done.append(seed)
        except Exception as error:  # pylint: disable=broad-except
            failures.append(error)

    threads = [threading.Thread(target=work, args=(rng.randrange(1 << 32),)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    assert len(done) > 6 * 60 / 2
    db.assert_counted()
    orphans = db.query(
        "select count(*) from dead_letter_state as s where not exists"
        " (select from dead_letter as d where d.dead_at = s.dead_at and d.id = s.id)"
    )
    assert orphans == [(0,)]
    db.query("select dead_letter_fold()")
    db.assert_counted()
    assert db.query("select count(*) from dead_letter_count where not folded") == [(0,)]
    assert db.query("select count(*) from dead_letter_count where n < 0") == [(0,)]
