# SPDX-License-Identifier: Apache-2.0
"""What the archiver does beside archiving: statistics, retention and the export before it, and being
killed in the middle of each."""

import datetime
import json
import signal
import subprocess
import time

import pytest
from confluent_kafka import Producer

import contract
from archive_db import ArchiveDb
from crash_points import crash_points
from pipeline import memory_kib, wait_for
from test_archiver import Archive, letter

TODAY = datetime.datetime.now(datetime.timezone.utc).date()


class Keeper:
    """An archiver without dead letters of its own; the test makes them in the database."""

    def __init__(self, new_pipeline, tmp_path, **config):
        self.folder = tmp_path / "exports"
        self.folder.mkdir()
        self.pipeline = new_pipeline("keeper", **config)
        self.db = ArchiveDb.of(self.pipeline.dsn)
        self.query = self.db.query

    def start(self):
        (service,) = self.pipeline.start("archiver")
        return service

    def add(self, days_ago, count, **more):
        day = TODAY - datetime.timedelta(days=days_ago)
        self.db.add_letters(count, f"{day} 00:00Z", first_offset=days_ago * 1_000_000, **more)
        return day

    def exported(self):
        """The dead letters of all exports, by file."""
        assert not list(self.folder.glob("*.part")), "an export that was not finished"
        files = {}
        for path in sorted(self.folder.glob("*.jsonl.zst")):
            done = subprocess.run(["zstd", "-dcq", path], capture_output=True, check=True)
            files[path.name] = [json.loads(line) for line in done.stdout.splitlines()]
        return files

    def rows(self):
        return self.query("select count(*) from dead_letter")[0][0]

    def status(self, day, status, count):
        self.query(
            "insert into dead_letter_state (dead_at, id, status, task_type, reason, category,"
            " fingerprint) select dead_at, id, %s, task_type, reason, category, fingerprint"
            " from dead_letter where dead_at >= %s::date and dead_at < %s::date + 1"
            " order by dead_at limit %s",
            status, day, day, count,
        )  # fmt: skip


@pytest.fixture
def new_keeper(new_pipeline, tmp_path):
    def make(export=True, **config):
        retention = {"keep": "30d", "schedule": "00:00", **config.pop("retention", {})}
        if export:
            retention["export"] = str(tmp_path / "exports")
        return Keeper(new_pipeline, tmp_path, retention=retention, **config)

    return make


def test_statistics_and_the_backlog(new_keeper):
    keeper = new_keeper(archiver={"statistics": "1s"})
    day = keeper.add(3, 600, types=2)
    keeper.status(day, "discarded", 50)
    services = keeper.pipeline.start("archiver", count=2)
    wait_for(lambda: len(keeper.query("select distinct at from dead_letter_stat")) >= 3, "statistics")
    sums = "sum(dead)::int, sum(replaying)::int, sum(replayed)::int, sum(discarded)::int"
    assert set(keeper.query(f"select {sums} from dead_letter_stat group by at")) == {(550, 0, 0, 50)}
    twice = "select at from dead_letter_stat group by at, task_type, reason, category having count(*) > 1"
    assert keeper.query(twice) == []

    def metric(service, line):
        lines = service.get("/metrics")[1].splitlines()
        return [float(l.rsplit(" ", 1)[1]) for l in lines if l.startswith(line)]

    for service in services:
        name = "reprise_archiver_dead_letters"
        wait_for(lambda: metric(service, name + '{status="dead"}') == [550], "the gauge")
        assert metric(service, name + '{status="discarded"}') == [50]
        assert sum(metric(service, "reprise_archiver_backlog{")) == 550
        for category in ("NETWORK", "TIMEOUT", ""):
            assert metric(service, 'reprise_archiver_backlog{type="type-1",reason="EXHAUSTED",category="%s"}' % category)
        (age,) = metric(service, "reprise_archiver_oldest_dead_seconds")
        assert 2 * 86400 < age < 4.1 * 86400
    keeper.query("delete from dead_letter")
    for service in services:
        wait_for(lambda: metric(service, name + '{status="dead"}') == [0], "an empty archive")
        assert sum(metric(service, "reprise_archiver_backlog{")) == 0
        assert metric(service, "reprise_archiver_oldest_dead_seconds") == [0]
    wait_for(lambda: keeper.query("select * from dead_letter_count") == [], "the fold")


def test_a_clock_that_was_ahead_stops_no_statistics(new_keeper):
    keeper = new_keeper(export=False, archiver={"statistics": "1s"})
    keeper.query(
        "insert into dead_letter_stat values (now() + interval '10 days', 'a', 'OTHER', null, 1, 0, 0, 0, 0)"
    )
    keeper.add(3, 10)
    keeper.start()
    taken = "select count(distinct at) from dead_letter_stat where at <= now()"
    wait_for(lambda: keeper.query(taken)[0][0] >= 2, "statistics", 15)


def test_a_type_is_kept_for_less_and_exported_before(new_keeper):
    keeper = new_keeper(retention={"by_type": {"type-1": "7d", "type-2*": "10d"}})
    old = keeper.add(12, 2400, types=4)
    keeper.add(8, 1200, types=4)
    keeper.add(3, 400, types=4)
    keeper.query(
        "insert into dead_letter_state (dead_at, id, status, task_type, reason, category, fingerprint)"
        " select dead_at, id, 'replaying', task_type, reason, category, fingerprint from dead_letter"
        " where task_type = 'type-1' and dead_at >= %s::date and dead_at < %s::date + 1 limit 10",
        old, old,
    )  # fmt: skip
    keeper.start()
    wait_for(lambda: keeper.rows() == 4000 - 590 - 300 - 600, "what is too old to go")
    left = keeper.query("select task_type, count(*) from dead_letter group by 1 order by 1")
    assert left == [("type-0", 1000), ("type-1", 110), ("type-2", 400), ("type-3", 1000)]
    keeper.db.assert_counted()
    files = keeper.exported()
    assert sorted(len(rows) for rows in files.values()) == [600, 890]
    for name, rows in files.items():
        (kind,) = {row["task"]["task_type"] for row in rows}
        assert name.startswith(f"dead-letters-of-{kind}"), name
    audit = keeper.query("select detail from audit where action = 'retention' order by id")
    assert [(a["rows"], a["finished"]) for (a,) in audit] == [(890, True), (600, True)]
    assert {a["export"] for (a,) in audit} == {str(keeper.folder / name) for name in files}
    assert all("type" in a["filter"] for (a,) in audit)


def test_what_was_archived_late_is_kept_as_long_as_ever(new_keeper):
    """After an outage nobody could have seen it before."""
    keeper = new_keeper(export=False, retention={"by_type": {"type-1": "7d"}})
    keeper.add(12, 400, types=2)
    keeper.query("update dead_letter set archived_at = now() - interval '6 days' where id % 4 = 0")
    late = "select count(*) from dead_letter where task_type = 'type-1' and archived_at > dead_at"
    assert keeper.query(late) == [(100,)]
    keeper.start()
    wait_for(lambda: keeper.rows() == 300, "what is too old to go")
    assert keeper.query(late) == [(100,)]


def test_the_name_of_a_type_is_no_filter(new_keeper):
    types = ("type-1,type-2", "!=type-0", "it's", "type-3")
    keeper = new_keeper(export=False, retention={"by_type": dict.fromkeys(types, "7d")})
    keeper.add(12, 400, types=4)
    keeper.start()
    wait_for(lambda: keeper.rows() == 300, "what is too old to go")
    left = keeper.query("select distinct task_type from dead_letter order by 1")
    assert left == [("type-0",), ("type-1",), ("type-2",)]


@pytest.mark.plain
@pytest.mark.parametrize("by_type", [{}, {"type-0": "7d"}], ids=["day", "type"])
def test_an_export_of_large_ones_takes_no_more_memory(new_keeper, by_type):
    """200 MB in all, in batches of as many rows as without."""
    keeper = new_keeper(retention={"by_type": by_type})
    keeper.add(12 if by_type else 40, 100, types=1)
    keeper.query(
        "update dead_letter set header_keys = '{large}',"
        " header_values = array[decode(repeat('00', 2000000), 'hex')]"
    )
    keeper.add(3, 5, types=2)
    service = keeper.start()
    wait_for(lambda: keeper.rows() == 5, "what is too old to go", 60)
    ((_, rows),) = keeper.exported().items()
    assert len({row["id"] for row in rows}) == len(rows) == 100
    assert memory_kib(service.process.pid, "VmHWM") < 120_000


@pytest.mark.timeout(300)
@pytest.mark.parametrize("text_mib, payload_mib, reason", [(100, 25, "EXHAUSTED"), (180, 0, "OVERSIZED")])
def test_the_largest_one_can_be_exported(new_pipeline, tmp_path, text_mib, payload_mib, reason):
    """In JSON each byte of its texts takes six."""
    archive = Archive(new_pipeline, "largest")
    archive.pipeline.producer = Producer(
        {"bootstrap.servers": archive.pipeline.kafka.bootstrap, "compression.type": "gzip",
         "message.max.bytes": 1_000_000_000}
    )  # fmt: skip
    text = "\1" * (text_mib * 2**20 // 3)
    error = {"class": "E", "message": text, "category": None, "causes": [{"class": text, "message": text}]}
    task = {"payload": bytes(payload_mib * 2**20), "error": error}
    archive.send(contract.write_dead_letter(letter(0, task=task)))
    archive.pipeline.start("archiver")
    archive.wait_for_all(120)
    assert "exported 1 dead letter" in archive.pipeline.cli("dlq", "export", str(tmp_path / "all.jsonl"))
    assert archive.query("select reason from dead_letter") == [(reason,)]


def test_a_day_is_exported_before_it_is_dropped(new_keeper):
    keeper = new_keeper()
    day, empty = keeper.add(40, 3000), TODAY - datetime.timedelta(days=39)
    keeper.query("select dead_letter_add_day(%s::date)", empty)
    keeper.add(5, 10)
    service = keeper.start()
    dropped = "select detail from audit where action = 'drop-day' order by detail->>'day'"
    wait_for(lambda: len(keeper.query(dropped)) == 2, "the old days to go")
    assert keeper.rows() == 10
    (name, rows), = keeper.exported().items()  # fmt: skip
    assert name == f"dead-letters-{day}.jsonl.zst"
    assert len({row["id"] for row in rows}) == len(rows) == 3000
    assert keeper.query(dropped) == [
        ({"day": str(day), "rows": 3000, "export": str(keeper.folder / name)},), ({"day": str(empty), "rows": 0},)
    ]  # fmt: skip
    assert "export-left" not in service.log.read_text()
    keeper.db.assert_counted()


def test_statistics_go_on_while_retention_takes_long(new_keeper):
    keeper = new_keeper(export=False, retention={"by_type": {"type-*": "7d"}}, archiver={"statistics": "1s"})
    keeper.add(8, 100)
    keeper.query(
        "create function wait() returns trigger language plpgsql as"
        " 'begin perform pg_sleep(600); return new; end';"
        "create trigger wait before insert on audit for each row execute function wait()"
    )
    service = keeper.start()
    sleeping = "select pid from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()"
    ((pid,),) = wait_for(lambda: keeper.query(sleeping), "retention to be at it")
    taken = "select count(distinct at) from dead_letter_stat"
    ((before,),) = keeper.query(taken)
    wait_for(lambda: keeper.query(taken)[0][0] >= before + 3, "statistics")
    assert keeper.query(sleeping) == [(pid,)]
    service.stop()
    wait_for(lambda: keeper.query(sleeping) == [], "the server to end what nobody waits for", 40)


def test_old_replay_jobs_go_once_they_are_finished(new_keeper):
    keeper = new_keeper(export=False)
    keeper.query(
        "insert into replay_job (job, created_at, created_by, reason, filter, state, finished_at)"
        " select job, now() - interval '50 days', 'ann', 'a test', 'all', state,"
        "  now() - days * interval '1 day' from (values ('old', 'done', 31), ('young', 'cancelled', 29),"
        "  ('open', 'paused', null), ('lost', 'failed', null)) as j (job, state, days);"
        "insert into replay_item (job, n, dead_at, id) select job, n, now(), n"
        " from replay_job, generate_series(1, 12000) as n"
    )
    keeper.start()
    wait_for(lambda: not keeper.query("select 1 from replay_job where job = 'old'"), "the old job to go")
    left = keeper.query("select job, count(*) from replay_item group by 1 order by 1")
    assert left == [("lost", 12000), ("open", 12000), ("young", 12000)]
    assert keeper.query("select count(*) from replay_job") == [(3,)]


def test_nothing_is_dropped_when_the_export_fails(new_keeper):
    keeper = new_keeper(retention={"by_type": {"type-1": "7d"}})
    keeper.add(40, 100)
    keeper.add(8, 100)
    keeper.folder.rmdir()
    service = keeper.start()
    wait_for(lambda: "cannot write" in service.log.read_text(), "retention to fail")
    assert "reprise_archiver_retention_failures_total 1" in service.get("/metrics")[1]
    assert keeper.rows() == 200
    assert keeper.query("select count(*) from audit") == [(0,)]


@pytest.mark.parametrize("days_ago, lock", [
    (40, "lock table audit in exclusive mode"),  # what a drop asks for last
    (8, "lock table audit in exclusive mode"),
    (40, "select count(*) from dead_letter"),
])  # fmt: skip
def test_no_export_is_left_of_what_did_not_go(new_keeper, days_ago, lock):
    keeper = new_keeper(retention={"by_type": {"type-1": "7d"}} if days_ago == 8 else {})
    keeper.add(days_ago, 100)
    with keeper.db.connect() as other, other.transaction():
        other.execute(lock)
        service = keeper.start()
        wait_for(lambda: "55P03" in service.log.read_text(), "retention to fail", 90)
        assert "reprise_archiver_retention_failures_total 1" in service.get("/metrics")[1]
        assert keeper.exported() == {}
    assert keeper.rows() == 100


def test_a_day_that_cannot_go_keeps_nothing_else(new_keeper):
    keeper = new_keeper(export=False, retention={"by_type": {"type-1": "7d"}})
    first, second = keeper.add(41, 100), keeper.add(40, 100)
    keeper.add(8, 100)
    with keeper.db.connect() as other, other.transaction():
        other.execute(f"lock table dead_letter_{first:%Y%m%d} in access share mode")
        service = keeper.start()
        wait_for(lambda: "retention-failed" in service.log.read_text(), "retention to fail", 90)
        left = keeper.query("select distinct dead_at::date from dead_letter where task_type <> 'type-1'")
        assert first in {day for (day,) in left} and second not in {day for (day,) in left}
        assert keeper.query("select 1 from dead_letter where task_type = 'type-1' and dead_at < now() - interval '7 days'") == []


def test_a_type_that_cannot_go_keeps_no_other(new_keeper):
    keeper = new_keeper(export=False, retention={"by_type": {"type-1": "7d", "type-2": "7d"}})
    keeper.add(8, 120)
    keeper.query(
        "create function refuse() returns trigger language plpgsql as 'begin raise exception ''it is held''; end';"
        "create trigger refuse before delete on dead_letter for each row when (old.task_type = 'type-1')"
        " execute function refuse()"
    )
    service = keeper.start()
    left = "select count(*) filter (where task_type = 'type-1'), count(*) filter (where task_type = 'type-2')" \
        " from dead_letter"
    wait_for(lambda: keeper.query(left) == [(20, 0)], "the other type to go")
    wait_for(lambda: "it is held" in service.log.read_text(), "the failure to be told")
    assert service.metric("reprise_archiver_retention_failures_total") == 1


def test_a_day_that_was_counted_wrongly_goes_the_next_time(new_keeper):
    """It is exported, and the counts are what says whether that was all of it."""
    keeper = new_keeper()
    keeper.add(40, 100)
    keeper.query("select dead_letter_fold(); update dead_letter_count set n = n + 1")
    service = keeper.start()
    wait_for(lambda: "than its counts say; to count it anew: done" in service.log.read_text(), "retention to find that out")
    assert keeper.rows() == 100 and list(keeper.folder.iterdir()) == []
    keeper.db.assert_counted()
    assert service.stop() == 0
    service.start()
    wait_for(lambda: keeper.rows() == 0, "the day to go")


def test_a_clock_that_jumped_drops_and_deletes_nothing(new_keeper):
    """The archiver's and the database's together: what was last counted was so long ago."""
    stat = ("insert into dead_letter_stat (at, reason, dead, replaying, replayed, discarded, came_back)"
            " values (now() - interval '{} hours', 'OTHER', 1, 0, 0, 0, 0)")  # fmt: skip
    keeper = new_keeper(export=False, archiver={"statistics": "1s"}, retention={"by_type": {"type-1": "7d"}})
    keeper.add(40, 100)
    keeper.query(stat.format(24 * 365))
    service = keeper.start()
    wait_for(lambda: "retention-waits" in service.log.read_text(), "retention to see it")
    wait_for(lambda: keeper.query("select count(distinct at) from dead_letter_stat")[0][0] >= 2, "statistics")
    assert keeper.rows() == 100 and keeper.query("select 1 from dead_letter_stat where at < now() - interval '300 days'")
    keeper.query(stat.format(30))  # a day later
    service.stop()
    service.start().wait_ready()
    wait_for(lambda: keeper.rows() == 0, "the day to go")
    wait_for(lambda: not keeper.query("select 1 from dead_letter_stat where at < now() - interval '300 days'"),
             "old statistics to go")  # fmt: skip


def test_statistics_that_are_kept_for_hours_go(new_keeper):
    keeper = new_keeper(export=False, archiver={"statistics": "1s"}, retention={"statistics": "1h"})
    keeper.add(1, 10)
    keeper.query("insert into dead_letter_stat (at, reason, dead, replaying, replayed, discarded, came_back)"
                 " values (now() - interval '2 hours', 'OTHER', 1, 0, 0, 0, 0)")  # fmt: skip
    keeper.start()
    wait_for(lambda: not keeper.query("select 1 from dead_letter_stat where at < now() - interval '1 hour'"),
             "old statistics to go")  # fmt: skip


def test_a_day_waits_for_its_replays_but_not_for_ever(new_keeper):
    keeper = new_keeper(export=False)
    held, overdue = keeper.add(33, 100), keeper.add(45, 100)
    for day in (held, overdue):
        keeper.status(day, "replaying", 7)
    service = keeper.start()
    wait_for(lambda: keeper.rows() == 100, "the older day to go")
    wait_for(lambda: f"day-held day={held}" in service.log.read_text(), "the other to be held")
    assert keeper.query("select detail from audit") == [
        ({"day": str(overdue), "rows": 100, "replaying": 7},)
    ]
    keeper.query("update dead_letter_state set status = 'replayed'")
    service.stop()
    service.start().wait_ready()
    wait_for(lambda: keeper.rows() == 0, "the day to go once nothing of it is replayed")
    keeper.db.assert_counted()


def test_a_day_waits_for_its_replays_also_where_it_is_to_go_sooner(new_keeper):
    keeper = new_keeper(export=False)
    overdue, held = keeper.add(21, 100), keeper.add(20, 100)
    for day, job, planned in ((held, "young", 6), (overdue, "old", 8)):
        keeper.status(day, "replaying", 7)
        keeper.query("update dead_letter_state set job = %s where dead_at >= %s and job is null", job, day)
        keeper.query(
            "insert into replay_job (job, created_at, created_by, reason, filter)"
            " values (%s, now() - %s * interval '1 day', 'ann', 'a test', 'all')", job, planned,
        )  # fmt: skip
    service = keeper.start()
    wait_for(lambda: "retention-run" in service.log.read_text(), "retention")
    assert keeper.rows() == 200
    service.stop()
    config = json.loads(service.config.read_text())
    config["retention"]["keep"] = "7d"
    service.config.write_text(json.dumps(config))
    service.start().wait_ready()
    wait_for(lambda: keeper.rows() == 100, "the day to go that has waited")
    wait_for(lambda: f"day-held day={held}" in service.log.read_text(), "the other to be held")
    assert keeper.rows() == 100


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["types", "days"])
def test_a_killed_archiver_loses_no_row_that_is_in_no_export(new_keeper, rng, kind):
    keeper = new_keeper(retention={"by_type": {"type-1": "7d", "type-2": "8d"}},
                        archiver={"statistics": "1s"})  # fmt: skip
    total = 0
    for days_ago in (12, 13) if kind == "types" else (40, 41, 42):
        keeper.add(days_ago, 6000, types=4)
        total += 6000
    all_ids = {id for (id,) in keeper.query("select id from dead_letter")}
    goal = total // 2 if kind == "types" else 0
    (service,) = keeper.pipeline.start("archiver")
    for kills in range(40):
        time.sleep(rng.uniform(0.02, 0.6))
        if keeper.rows() == goal:
            break
        service.process.send_signal(signal.SIGKILL)
        service.process.wait()
        keeper.db.assert_counted()
        service.start()
    print("killed", kills, "times")
    wait_for(lambda: keeper.rows() == goal, "the rest to go", 60)
    service.stop()
    keeper.db.assert_counted()
    for path in keeper.folder.glob("*.part"):
        path.unlink()  # of a name that was not needed again
    left = {id for (id,) in keeper.query("select id from dead_letter")}
    exported = {row["id"] for rows in keeper.exported().values() for row in rows}
    assert all_ids - left <= exported and len(all_ids - left) == total - goal
    audited = "select coalesce(sum((detail->>'rows')::int), 0)::int from audit"
    assert keeper.query(audited) == [(total - goal,)]
    assert kills > 0


@pytest.mark.timeout(180)
def test_killed_at_each_point_of_retention_it_loses_nothing(new_keeper):
    """A day that goes, types of which some go, and statistics, each time."""
    keeper = new_keeper(retention={"by_type": {"type-1": "7d", "type-2": "8d"}},
                        archiver={"statistics": "1s"})  # fmt: skip
    service = keeper.pipeline.add("archiver")
    points, all_ids = crash_points("retention"), set()
    for n, (number, name) in enumerate(points):
        keeper.add(12 + n, 400, types=4)
        keeper.add(40 + n, 300, types=4)
        all_ids |= {id for (id,) in keeper.query("select id from dead_letter")}
        service.start(REPRISE_CRASH_POINT=f"{number}")
        wait_for(lambda: service.process.poll() is not None, f"the death at {name}", 60)
        assert service.process.returncode == -signal.SIGKILL
        keeper.db.assert_counted()
        service.start()
        wait_for(lambda: keeper.rows() == 200 * (n + 1), f"the rest to go after {name}", 60)
        service.stop()
        keeper.db.assert_counted()
    for path in keeper.folder.glob("*.part"):
        path.unlink()
    left = {id for (id,) in keeper.query("select id from dead_letter")}
    exported = {row["id"] for rows in keeper.exported().values() for row in rows}
    assert all_ids - left <= exported
    audited = "select coalesce(sum((detail->>'rows')::int), 0)::int from audit"
    assert keeper.query(audited) == [(500 * len(points),)]


@pytest.mark.alone
@pytest.mark.timeout(300)  # to make the rows takes most of it
def test_retention_drops_a_day_of_a_million_in_a_moment(new_pipeline):
    archive = Archive(new_pipeline, "archive")
    old = datetime.date.today() - datetime.timedelta(days=40)
    archive.query(f"select dead_letter_add_day('{old}'), dead_letter_add_day('{old}'::date + 15)")
    archive.query(
        "insert into dead_letter (dead_at, record_topic, record_partition, record_offset, reason,"
        " task_id, task_type, payload) select %s::timestamptz + make_interval(secs => n * 0.05), 't',"
        " 0, n, 'EXHAUSTED', 'task-' || n, 'payment', decode(repeat(md5(n::text), 64), 'hex')"
        " from generate_series(1, 1000000) as n",
        f"{old} 00:00:00+00",
    )
    archive.query(
        "insert into dead_letter (dead_at, record_topic, record_partition, record_offset, reason)"
        " values (%s, 't', 0, 1, 'OTHER')", f"{old + datetime.timedelta(days=15)} 12:00:00+00",
    )  # fmt: skip
    (first, second) = archive.pipeline.start("archiver", count=2)
    wait_for(lambda: archive.rows() == 1, "the old day to go")

    def told():
        log = first.log.read_text() + second.log.read_text()
        return [l for l in log.splitlines() if "day-dropped" in l]

    (line,) = wait_for(told, "the drop to be told")
    assert f"day={old}" in line
    print(line)
    # A quarter of a second on a quiet machine; to delete the rows would take a minute.
    assert int(line.rsplit("took_ms=", 1)[1]) < 4000
    audit = archive.query("select actor, action, detail from audit")
    assert [entry[:2] for entry in audit] == [("reprise-archiver", "drop-day")]
    detail = audit[0][2]
    assert detail == {"day": str(old), "rows": 1_000_000}
    archive.send_letters(10)
    wait_for(lambda: archive.rows() == 11, "new rows")


def test_the_backlog_of_many_types_is_whole(new_keeper):
    keeper = new_keeper(archiver={"statistics": "1s"})
    keeper.add(3, 3000, types=1500)
    service = keeper.start()
    wait_for(lambda: service.metric("reprise_archiver_backlog") == 3000, "the gauges")
    assert service.metric(r'reprise_archiver_backlog{type="other"') > 2000
    assert service.metric(r'reprise_archiver_dead_letters{status="dead"}') == 3000
