# SPDX-License-Identifier: Apache-2.0
"""The archive: each dead letter once in PostgreSQL, whatever is killed, and whatever is in it."""

import datetime
import os
import pathlib
import signal
import subprocess
import threading
import time

import psycopg
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec

import contract
from archive_db import ArchiveDb, run_unit_tests
from cluster import library_of_faketime
from crash_points import all_points
from pipeline import BUILD, now_ms, wait_for

PARTITIONS = 4  # of those that the topic has


def letter(number, **fields):
    """What the router would say of a task; `task` updates the task's own fields."""
    task = {
        "task_id": f"task-{number}",
        "task_type": "payment",
        "target": "payments",
        "key": None,
        "payload": b"x" * 200,
        "headers": [{"key": "traceparent", "value": b"00-ab"}],
        "attempt": 3,
        "error": {"class": "java.io.IOException", "message": "boom", "category": None, "causes": []},
        "source": "test",
        "first_failed_at": None,
        "failed_at": now_ms(),
    }
    task.update(fields.pop("task", {}))
    return {
        "task": task,
        "raw": None,
        "reason": "EXHAUSTED",
        "detail": "execution 3, max_attempts 3",
        "category": "NETWORK",
        "policy": "default",
        "attempts": 3,
        "decided_at": now_ms(),
        "topic": "failed-tasks",
        "partition": 1,
        "offset": number,
        **fields,
    }


# Members that stand still are soon given up.
SHORT_SESSION = {"session.timeout.ms": 2000, "heartbeat.interval.ms": 300}


def ended(service):
    """It is dead, or stands still."""
    status = pathlib.Path(f"/proc/{service.process.pid}/stat").read_text()
    return service.process.poll() is not None or status.rsplit(")")[1].split()[0] == "T"


class Archive:
    """A pipeline that has an archiver only; its dead letters come from the test."""

    def __init__(self, new_pipeline, name, **config):
        self.pipeline = new_pipeline(name, **config)
        self.topic = f"{self.pipeline.prefix}dead-letter"
        self.sent = 0
        self.undelivered = []

    def send(self, value, key=b"k"):
        """To PARTITIONS partitions in turn; not flushed."""

        def delivered(error, _):
            if error:
                self.undelivered.append(error)

        self.pipeline.producer.produce(
            self.topic, value, key, partition=self.sent % PARTITIONS, on_delivery=delivered
        )
        self.pipeline.producer.poll(0)
        self.sent += 1

    def flush(self):
        assert self.pipeline.producer.flush(30) == 0 and not self.undelivered, self.undelivered

    def send_letters(self, count, pause_every=0):
        for i in range(count):
            self.send(contract.write_dead_letter(letter(self.sent)), f"key-{self.sent}".encode())
            if pause_every and i % pause_every == 0:
                time.sleep(0.01)
        self.flush()

    def in_topic(self):
        """How many records there are, and ever were."""
        partitions = {TopicPartition(self.topic, p): OffsetSpec.latest() for p in range(PARTITIONS)}
        found = self.pipeline.kafka.admin.list_offsets(partitions)
        return sum(offset.result().offset for offset in found.values())

    def query(self, sql, *values):
        return self.pipeline.database.query(sql, values or None)

    def rows(self):
        return self.query("select count(*) from dead_letter")[0][0]

    def wait_for_all(self, timeout=60):
        """Until each record has a row; then none may have two."""
        self.flush()
        wait_for(lambda: self.rows() >= self.sent, f"{self.sent} rows", timeout)
        distinct = "count(distinct (record_topic, record_partition, record_offset))"
        assert self.query(f"select count(*), {distinct} from dead_letter") == [
            (self.sent, self.sent)
        ]
        ArchiveDb.of(self.pipeline.dsn).assert_counted()


@pytest.fixture
def archive(new_pipeline):
    return Archive(new_pipeline, "archive")


@pytest.mark.parametrize("test", ["parts_test", "pulse_test", "store_test", "store_rows_test"])
def test_the_store(postgres, test):
    run_unit_tests(test, postgres)


@pytest.mark.parametrize("run", [1, 300, 2000])
def test_letters_of_several_days_are_counted(new_pipeline, run):
    """So many of one day, then so many of the next: a batch may be of one day or of more, and may turn out
    to be when some of it was sent."""
    archive = Archive(new_pipeline, "days", archiver={"batch": 1000})
    for i in range(6000):
        days_ago = i // run % 3
        archive.send(contract.write_dead_letter(letter(i, decided_at=now_ms() - days_ago * 86_400_000)))
    archive.pipeline.start("archiver")
    archive.wait_for_all()
    assert len(archive.query("select distinct dead_at::date from dead_letter")) >= 3


def test_a_dead_letter_comes_back_whole(archive):
    archive.pipeline.start("archiver")
    sent = letter(
        7,
        task={
            "key": b"\0key",
            "payload": b"\xff\0",
            "headers": [{"key": "a", "value": None}, {"key": "a", "value": b"\0"}],
            "error": {
                "class": "E",
                "message": "m\u20ac",
                "category": "TIMEOUT",
                "causes": [{"class": "C", "message": "c"}],
            },
            "first_failed_at": now_ms() - 60000,
        },
    )
    archive.send(contract.write_dead_letter(sent), b"\0key")
    archive.wait_for_all()
    (row,) = archive.pipeline.dead_letters(task_id="task-7")
    task = sent["task"]
    for name in ("task_type", "target", "payload", "attempt", "source"):
        assert row[name] == task[name]
    assert row["task_key"] == row["record_key"] == b"\0key"
    assert list(zip(row["header_keys"], row["header_values"])) == [("a", None), ("a", b"\0")]
    assert (row["error_class"], row["error_message"], row["error_category"]) == ("E", "m€", "TIMEOUT")
    assert list(zip(row["cause_classes"], row["cause_messages"])) == [("C", "c")]
    for name in ("reason", "detail", "category", "policy", "attempts"):
        assert row[name] == sent[name]
    source = [row[f"source_{name}"] for name in ("topic", "partition", "offset")]
    assert source == ["failed-tasks", 1, 7]
    ms = {name: row[name].timestamp() * 1000 for name in ("failed_at", "first_failed_at", "dead_at")}
    assert round(ms["failed_at"]) == task["failed_at"]
    assert round(ms["first_failed_at"]) == task["first_failed_at"]
    assert round(ms["dead_at"]) == sent["decided_at"]
    assert row["altered"] is None and row["record"] is None and row["raw"] is None


def test_killed_again_and_again_it_neither_loses_nor_doubles(new_pipeline, rng):
    """Two archivers of two workers, small batches, so that a kill meets each step of many transactions. The
    database drops their connections as well, which leaves outcomes unknown."""
    archive = Archive(new_pipeline, "kills", archiver={"workers": 2, "batch": 300, "linger": "1ms"})
    services = archive.pipeline.start("archiver", count=2)
    load = threading.Thread(target=archive.send_letters, args=(40000, 30))
    load.start()
    kills = 0
    while load.is_alive() or kills < 12:
        time.sleep(rng.uniform(0.05, 0.6))
        if rng.random() < 0.4:
            archive.query(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
            continue
        victim = rng.choice(services)
        victim.kill()
        victim.start()
        kills += 1
    load.join()
    archive.wait_for_all()
    known = sum(s.metric("reprise_archiver_known_rows_total") for s in services)
    print(f"{archive.sent} dead letters, {kills} kills")
    assert known == 0  # the epoch kept them apart, not the primary key


def test_a_zombie_is_fenced(new_pipeline, rng):
    """One stands still past its session, with rows in hand, and wakes up again."""
    archive = Archive(new_pipeline, "zombie", archiver={"batch": 10000, "linger": "1s"})
    services = archive.pipeline.start("archiver", count=2)
    owners = "select distinct owner from archive_offset"
    wait_for(lambda: len(archive.query(owners)) == 2, "both to have partitions")
    load = threading.Thread(target=archive.send_letters, args=(30000, 20))
    load.start()
    try:
        wait_for(lambda: len(archive.query(f"{owners} where next_offset > 0")) == 2, "both to archive")
        time.sleep(rng.uniform(0, 1))
        services[0].process.send_signal(signal.SIGSTOP)
        wait_for(lambda: len(archive.query(owners)) == 1, "the other to take over")
    finally:
        services[0].process.send_signal(signal.SIGCONT)
    load.join()
    archive.wait_for_all()
    assert services[0].running() and services[1].running()
    # Its epoch is old, or the other one ended its session, in which it was sending rows.
    fenced = ("reprise_archiver_fenced_total", "reprise_archiver_database_errors_total")
    assert sum(services[0].metric(name) for name in fenced) >= 1
    assert all(s.metric("reprise_archiver_known_rows_total") == 0 for s in services)


# A commit takes that long, so that the next batch is sent meanwhile.
SLOW_COMMIT = """
    create function wait() returns trigger language plpgsql as
        $$ begin perform pg_sleep({seconds}); return null; end $$;
    create trigger slow after update on archive_offset
        for each statement execute function wait()
"""
COMMITS = "pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'"
IS_SENT = (
    "pg_stat_activity where datname = current_database() and wait_event = 'ClientRead'"
    " and query like '%COPY dead_letter_20%' and state = 'active'"
)


@pytest.fixture
def two_at_once(new_pipeline, kafka):
    """Full batches, each of which is sent while the one before is committed."""
    archive = Archive(
        new_pipeline, "two", archiver={"batch": 500},
        kafka={"bootstrap.servers": kafka.bootstrap, "consumer": SHORT_SESSION},
    )  # fmt: skip
    archive.query(SLOW_COMMIT.format(seconds=0.2))
    archive.send_letters(5000)
    yield archive
    for service in archive.pipeline.services:
        service.kill()  # the server has only so many connections


POINTS = ["batch_given", "copy_begun", "copy_sent", "copy_ended", "database_committed"]


@pytest.mark.parametrize(
    "point, stands_still",
    [(point, False) for point in POINTS] + [("copy_begun", True), ("copy_ended", True)],
)
def test_one_that_ends_with_two_batches_under_way(two_at_once, point, stands_still):
    (number,) = [number for number, name, _ in all_points() if name == point]
    victim = two_at_once.pipeline.add("archiver")
    victim.start(REPRISE_CRASH_POINT=f"{number}:4:S" if stands_still else f"{number}:4")
    wait_for(lambda: ended(victim), "the crash point")
    (other,) = two_at_once.pipeline.start("archiver")
    two_at_once.wait_for_all()
    if stands_still:
        victim.process.send_signal(signal.SIGCONT)
        fenced = ("reprise_archiver_fenced_total", "reprise_archiver_database_errors_total")
        wait_for(lambda: sum(victim.metric(name) for name in fenced), "it to be refused")
        two_at_once.wait_for_all()
    assert other.metric("reprise_archiver_known_rows_total") == 0


@pytest.mark.parametrize("lost", [COMMITS, IS_SENT])
def test_one_of_two_connections_is_lost(two_at_once, lost):
    (service,) = two_at_once.pipeline.start("archiver")
    wait_for(
        lambda: two_at_once.query(
            f"select pg_terminate_backend(pid) from {lost}"
            f" and exists (select from {COMMITS}) and exists (select from {IS_SENT})"
        ),
        "two batches under way",
    )
    two_at_once.wait_for_all()
    assert "database-away" in service.log.read_text()
    assert service.metric("reprise_archiver_known_rows_total") == 0


def test_a_batch_that_waits_for_the_one_before_does_not_lock_the_table_for_long(new_pipeline):
    archive = Archive(new_pipeline, "slow", archiver={"batch": 500})
    archive.query(SLOW_COMMIT.format(seconds=1.5))
    archive.send_letters(2000)
    archive.pipeline.start("archiver")
    ages = []
    with psycopg.connect(archive.pipeline.dsn, autocommit=True) as connection:
        while archive.rows() < archive.sent:
            # Looked at once: what a backend waits for is read anew each time, and who has just
            # committed, and waits for the client, would be taken for who is sent to.
            ages += connection.execute(
                "with pg_stat_activity as materialized (select * from pg_catalog.pg_stat_activity)"
                f" select extract(epoch from clock_timestamp() - xact_start) from {IS_SENT}"
                f" and xact_start is not null and exists (select from {COMMITS})"
            ).fetchall()
    assert ages and max(ages)[0] < 1
    archive.wait_for_all()


def test_while_postgres_is_away_it_waits_and_says_so(archive, postgres):
    (service,) = archive.pipeline.start("archiver")
    archive.send_letters(2000)
    archive.wait_for_all()
    postgres.stop()
    try:
        archive.send_letters(2000)
        wait_for(lambda: service.get("/readyz")[0] == 503, "readyz to say no")
        time.sleep(8)  # longer than the session: it is still a member
        assert service.get("/healthz")[0] == 200
        assert service.metric("reprise_archiver_database_up") == 0
    finally:
        postgres.start()
    archive.wait_for_all()
    service.wait_ready()
    log = service.log.read_text()
    assert "database-away" in log and "partition-lost" not in log
    assert service.metric("reprise_archiver_database_up") == 1


def test_an_idle_one_says_so_too(archive, postgres):
    (service,) = archive.pipeline.start("archiver")
    postgres.stop()
    try:
        wait_for(lambda: service.get("/readyz")[0] == 503, "readyz to say no")
        assert service.metric("reprise_archiver_database_up") == 0
    finally:
        postgres.start()
    service.wait_ready()


def test_it_stops_also_while_postgres_is_away(archive, postgres):
    (service,) = archive.pipeline.start("archiver")
    postgres.stop()
    try:
        archive.send_letters(100)
        wait_for(lambda: service.get("/readyz")[0] == 503, "readyz to say no")
        assert service.stop() == 0
    finally:
        postgres.start()
    service.start()
    archive.wait_for_all()


def test_a_stop_writes_what_is_in_hand(new_pipeline):
    archive = Archive(new_pipeline, "stop", archiver={"linger": "10s", "batch": 10000})
    (service,) = archive.pipeline.start("archiver")
    archive.send_letters(200)
    lag = "reprise_archiver_lag_records"
    wait_for(lambda: service.metric(lag) == 200, "all to be in hand")
    assert archive.rows() == 0
    assert service.stop() == 0
    assert archive.rows() == 200


SENDERS = "pg_locks where relation = 'dead_letter'::regclass and mode = 'RowExclusiveLock'"


def test_a_long_linger_does_not_lock_the_table_for_long(new_pipeline):
    """A batch that PostgreSQL has the beginning of keeps others from dropping a day, which wait for 2 s."""
    archive = Archive(new_pipeline, "linger", archiver={"linger": "10s", "batch": 10000})
    archive.pipeline.start("archiver")
    archive.query("select dead_letter_add_day('2020-01-01')")
    archive.send_letters(2000)
    wait_for(lambda: archive.query(f"select 1 from {SENDERS}") or archive.rows(), "rows to be sent")
    assert archive.query("select dead_letter_drop_day('2020-01-01', 'me', 'a test')") == [(0,)]
    archive.wait_for_all()


def test_a_connection_that_is_lost_while_rows_are_sent_is_said(new_pipeline):
    archive = Archive(new_pipeline, "cut", archiver={"linger": "10s", "batch": 10000})
    (service,) = archive.pipeline.start("archiver")

    def cut():
        archive.send_letters(500)
        return archive.query(f"select pg_terminate_backend(pid) from {SENDERS}")

    wait_for(cut, "rows to be sent")
    archive.send_letters(2000)
    archive.wait_for_all()
    log = service.log.read_text()
    assert "database-away" in log and log.count("database-connected") == 2
    assert service.metric("reprise_archiver_known_rows_total") == 0


def hostile():
    """Values that Avro takes and PostgreSQL does not, and records that are no dead letters."""

    def raw(old, new):
        value = contract.write_dead_letter(letter(0, task={"error": {**letter(0)["task"]["error"], "message": old}}))
        assert len(old) == len(new) and value.count(old.encode()) == 1
        return value.replace(old.encode(), new)

    noise = os.urandom(20000).hex()
    yield "nul", contract.write_dead_letter(letter(0, detail="a\0b"))
    yield "invalid UTF-8", raw("BADBYTES", b"a\xff\xc0\x80\xed\xa0\x80b")
    yield "long type", contract.write_dead_letter(letter(0, task={"task_type": noise, "task_id": noise}))
    yield "header", contract.write_dead_letter(letter(0, task={"headers": [{"key": "\0", "value": None}]}))
    yield "times", contract.write_dead_letter(letter(0, decided_at=(1 << 63) - 1, task={"failed_at": -(1 << 62)}))
    yield "year 9999", contract.write_dead_letter(letter(0, decided_at=253402300799999))
    yield "1970", contract.write_dead_letter(letter(0, decided_at=0))
    yield "large", contract.write_dead_letter(letter(0, task={"payload": os.urandom(700000)}))
    yield "many headers", contract.write_dead_letter(
        letter(0, task={"headers": [{"key": "h", "value": b"v"}] * 50000})
    )
    yield "no task", contract.write_dead_letter(letter(0, task={}) | {"task": None, "raw": b"\0", "reason": "UNDECODABLE"})
    yield "empty", b""
    yield "null", None
    yield "junk", os.urandom(100)
    yield "cut short", contract.write_dead_letter(letter(0))[:-20]
    yield "another schema", b"\xc3\x01" + bytes(8) + b"abc"


def test_whatever_comes_is_stored(archive):
    archive.pipeline.start("archiver")
    expected = {}
    for name, value in hostile():
        expected[archive.sent] = (name, value)
        archive.send(value, str(archive.sent).encode())
        archive.send_letters(3)
    archive.wait_for_all()
    rows = {
        int(row["record_key"]): row
        for row in archive.pipeline.dead_letters()
        if not row["record_key"].startswith(b"key-")
    }
    today = datetime.datetime.now(datetime.timezone.utc)
    for number, (name, value) in expected.items():
        row = rows[number]
        assert abs(row["dead_at"] - today) < datetime.timedelta(minutes=5), name
        if row["altered"] or row["task_id"] is None and row["raw"] is None:
            assert row["record"] == value, name
    by_name = {name: rows[number] for number, (name, _) in expected.items()}
    assert by_name["nul"]["detail"] == r"a\x00b" and by_name["nul"]["altered"] == ["detail"]
    assert by_name["invalid UTF-8"]["reason"] in ("EXHAUSTED", "UNDECODABLE")
    assert by_name["invalid UTF-8"]["record"]
    assert by_name["long type"]["altered"] == ["task_id", "task_type"]
    assert set(by_name["times"]["altered"]) == {"decided_at", "failed_at"}
    assert len(by_name["many headers"]["header_keys"]) == 50000
    assert len(by_name["large"]["payload"]) == 700000
    for name in ("empty", "null", "junk", "cut short", "another schema"):
        assert by_name[name]["reason"] == "UNDECODABLE", name
        assert "cannot be decoded" in by_name[name]["detail"], name
    days = archive.query("select count(*) from dead_letter_day")[0][0]
    assert days <= 6  # nobody's clock makes partitions


CHECK = "alter table dead_letter add check (error_message <> 'no')"
TRIGGER = """
    create function refuse() returns trigger language plpgsql as
        $$begin if new.error_message = 'no' then raise check_violation; end if; return new; end$$;
    create trigger refuse before insert on dead_letter for each row execute function refuse()"""


@pytest.mark.parametrize(
    "batch, refuse, why",
    [(5000, CHECK, "check constraint"), (300, CHECK, "check constraint"), (300, TRIGGER, "check_violation")],
)
def test_a_row_that_is_refused_does_not_hold_up_the_others(new_pipeline, batch, refuse, why):
    """Whatever an operator's constraint or trigger says no to goes in as bare bytes."""
    archive = Archive(new_pipeline, "refused", archiver={"batch": batch})
    archive.query(refuse)
    no = {"error": {**letter(0)["task"]["error"], "message": "no"}}
    for i in range(1000):
        archive.send(contract.write_dead_letter(letter(i, task=no if i % 300 == 7 else {})), b"k")
    (service,) = archive.pipeline.start("archiver")
    archive.wait_for_all()
    bare = archive.query("select detail, reason, record from dead_letter where task_id is null")
    assert len(bare) == 4
    assert all(why in d and r == "EXHAUSTED" and v for d, r, v in bare)
    assert ("it has a trigger" in service.log.read_text()) == (refuse == TRIGGER)


def test_offsets_that_went_lost_double_nothing(archive):
    """The primary key is the second line: a record that is read again is known."""
    archive.send_letters(3000)
    (service,) = archive.pipeline.start("archiver")
    archive.wait_for_all()
    assert service.stop() == 0
    archive.query("delete from archive_offset")
    service.start()
    wait_for(
        lambda: service.metric("reprise_archiver_known_rows_total") == 3000, "all to be read again"
    )
    archive.wait_for_all()


def test_what_the_topic_dropped_unread_is_told(archive):
    archive.send_letters(400)
    (service,) = archive.pipeline.start("archiver")
    archive.wait_for_all()
    assert service.stop() == 0
    archive.send_letters(400)
    ends = [TopicPartition(archive.topic, p, 150) for p in range(PARTITIONS)]
    for future in archive.pipeline.kafka.admin.delete_records(ends).values():
        future.result()
    service.start()
    read = "select sum(next_offset) from archive_offset"
    wait_for(lambda: archive.query(read)[0][0] == 800, "the rest to be read")
    assert "dead-letters-gone" in service.log.read_text()
    assert archive.rows() == 400 + PARTITIONS * 50


@pytest.mark.parametrize("count", [100, 900])
def test_a_topic_that_is_created_again_is_read_from_its_beginning(archive, count):
    """With fewer records than before, and with more: the offset alone does not tell."""
    archive.send_letters(400)
    (service,) = archive.pipeline.start("archiver")
    archive.wait_for_all()
    assert service.stop() == 0
    admin = archive.pipeline.kafka.admin
    admin.delete_topics([archive.topic])[archive.topic].result()
    wait_for(lambda: archive.topic not in admin.list_topics().topics, "the topic to go")
    archive.pipeline.kafka.create_topic(archive.topic, PARTITIONS)
    # One that knew the old topic now and then loses what is acknowledged of the new one.
    archive.pipeline.producer = archive.pipeline.new_producer()
    archive.send_letters(count)
    assert archive.in_topic() == count, "the client has lost some"
    service.start()
    wait_for(lambda: archive.rows() == 400 + count, "all rows")


def test_an_unmigrated_database_is_refused(archive):
    archive.query("drop schema public cascade; create schema public")
    pipeline = archive.pipeline
    done = subprocess.run(
        [BUILD / "bin/reprise-archiver", "--config", pipeline.config_file],
        capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert done.returncode == 1 and "reprise db migrate" in done.stderr
    assert "0001_archive is missing" in pipeline.cli("db", "check", code=3)
    both = [
        subprocess.Popen(
            [BUILD / "bin/reprise", "db", "migrate", "--config", pipeline.config_file],
            stdout=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    said = [process.communicate(timeout=30)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sum("0001_archive: done" in text for text in said) == 1
    assert "nothing is missing" in pipeline.cli("db", "check")


@pytest.mark.skipif(library_of_faketime() is None, reason="needs libfaketime")
def test_a_clock_that_is_behind_has_no_dead_letter_dropped(archive):
    service, clock = archive.pipeline.add("archiver"), archive.pipeline.folder / "clock"
    clock.write_text("+0")
    service.start(
        LD_PRELOAD=str(library_of_faketime()), FAKETIME_TIMESTAMP_FILE=str(clock),
        FAKETIME_DONT_FAKE_MONOTONIC="1", FAKETIME_NO_CACHE="1",
        # The sanitizer wants to be the first that is loaded.
        ASAN_OPTIONS=os.environ["ASAN_OPTIONS"] + ":verify_asan_link_order=0",
    ).wait_ready()  # fmt: skip
    clock.write_text("-40d")
    archive.send_letters(1)
    archive.wait_for_all()
    assert service.stop() == 0
    service.start().wait_ready()
    wait_for(lambda: service.log.read_text().count("retention-run") == 2, "retention")
    assert service.log.read_text().count("days_to_drop=0") == 2
    assert archive.query("select dead_at = decided_at from dead_letter") == [(True,)]
    days = archive.query("select count(*) from dead_letter_day where day < current_date - 1")
    assert days == [(0,)]
