# SPDX-License-Identifier: Apache-2.0
"""What the command line does to dead letters: discard, purge, export, import."""

import concurrent.futures
import json
import os
import signal
import subprocess

import psycopg
import pytest

from dlq import DAY, EVIL, WAITING, answered, maker, on_terminal
from pipeline import BUILD, wait_for


@pytest.fixture
def make(postgres, tmp_path):
    return maker(postgres, tmp_path)


def test_discard_sets_aside_what_is_dead_and_says_so(make):
    db = make("discard", 3000)
    db.set_status("replayed", "id % 10 = 1")
    db.set_status("replaying", "id % 10 = 2")
    dead = db.count("task_type = 'type-1' and status = 'dead'")
    text = db.run("discard", "--type", "type-1", "--dry-run")
    assert f"{dead:,} dead letters of " in text and db.count("status = 'discarded'") == 0
    text = db.run("discard", "--type", "type-1", "--reason", "not wanted", "--as", "ann", "--yes")
    assert text.endswith(f"discarded {dead:,} dead letters\n")
    assert db.count("task_type = 'type-1' and status = 'discarded'") == dead
    assert db.count("status = 'discarded'") == dead
    assert db.count("status = 'replaying'") == 300 and db.count("status = 'replayed'") == 300
    assert db.audited("discard") == [
        ("ann", "not wanted", {"rows": dead, "filter": "type = 'type-1' and status = dead", "finished": True})
    ]
    db.run("discard", "--type", "type-1", "--reason", "again", "--yes", code=4)
    text = db.run("discard", "--undo", "--group", "0000000000000007", "--reason", "needed", "--yes")
    restored = db.query("select (detail->>'rows')::int from audit where action = 'restore'")[0][0]
    assert 0 < restored < dead and db.count("status = 'discarded'") == dead - restored
    db.assert_counted()


def test_nothing_is_done_without_filter_reason_and_consent(make):
    db = make("consent", 100)
    for command in ("discard", "purge"):
        db.run(command, "--reason", "x", "--yes", code=2)
        assert "--where all means all" in db.stderr
        db.run(command, "--type", "type-1", "--yes", code=2)
        db.run(command, "--type", "type-1", "--reason", "", "--yes", code=2)
        db.run(command, "--type", "type-1", "--reason", "exhausted", "--yes", code=2)
        assert "--dead-for" in db.stderr
        db.run(command, "--message", "", "--reason", "x", "--yes", code=2)
        assert "--message: an empty text is in all of them" in db.stderr
        db.run(command, "--type", "type-1", "--reason", "x", code=6)
        db.run(command, "--type", "nobody", "--reason", "x", "--yes", code=4)
        db.run(command, "--where", "type = ", "--reason", "x", "--yes", code=2)
    assert db.count("status = 'dead'") == 100 and db.query("select count(*) from audit") == [(0,)]
    assert len(db.ids("--reason", "non_retryable")) == 20
    assert "20 dead letters" in db.run("discard", "--dead-for", "non_retryable", "--dry-run")


def test_it_asks_on_a_terminal(make):
    db = make("ask", 60)
    arguments = [db.config, "discard", "--type", "type-1", "--reason", "x"]
    assert answered(b"n\n", *arguments)[0] == 6
    assert answered(b"\n", *arguments)[0] == 6
    assert db.count("status = 'discarded'") == 0
    assert answered(b"y\n", *arguments)[0] == 0
    assert db.count("status = 'discarded'") == 10


def test_a_yes_is_to_no_more_than_was_shown(make):
    """Others import while it asks, or take back what they discarded."""
    db = make("shown", 60)
    db.set_status("discarded", "task_type = 'type-1' and id <= 30")
    dead = db.count("task_type = 'type-1' and status = 'dead'")

    def restore():
        db.query("delete from dead_letter_state")

    def bring():
        db.add_letters(60, f"{DAY} 11:00:00+00")
        db.query(f"update dead_letter set archived_at = '{DAY}'")

    for command, meanwhile, now in (("discard", restore, 10), ("purge", bring, 20)):
        arguments = [db.config, command, "--where", "type = type-1 and status = dead", "--reason", "x"]
        code, text = answered(b"y\n", *arguments, meanwhile=meanwhile)
        assert code == 1 and f"nothing was done: {dead} dead letters were shown, and now there are {now}" in text
        assert db.count("task_type = 'type-1' and status = 'dead'") == now
        dead = now
    assert db.query("select count(*) from audit") == [(0,)]
    db.run("purge", "--type", "type-1", "--reason", "x", "--yes")
    assert db.count("task_type = 'type-1'") == 0


def by_another_role(db):
    """The commands are those of a role that is told nothing of other roles' sessions."""
    role = db.query("select current_database()")[0][0]
    db.query(f"create role \"{role}\" login password 'x'")
    for what in ("tables", "sequences"):
        db.query(f'grant all on all {what} in schema public to "{role}"')
    dsn = psycopg.conninfo.make_conninfo(db.dsn, user=role, password="x")
    db.config.write_text(db.config.read_text().replace(db.dsn, dsn))


@pytest.mark.parametrize("another_role", [False, True])
def test_what_an_archiver_has_under_way_is_left_alone(make, another_role):
    """It shows only once it is committed, with the time at which that transaction began."""
    db = make("underway", 60)
    db.query("update dead_letter set archived_at = now() - interval '1 minute'")
    if another_role:
        by_another_role(db)
    db.query(
        "insert into archive_offset (topic, partition, epoch, next_offset, owner) values ('t', 0, 1, 1, 'archiver/1')"
    )
    dead = db.count("task_type = 'type-1'")
    with psycopg.connect(db.dsn, application_name="archiver/1") as archiver:
        archiver.execute("create temp table copy as select * from dead_letter where task_type = 'type-1'")
        archiver.commit()
        archiver.execute(
            "insert into dead_letter (dead_at, record_topic, record_partition, record_offset, reason, task_type)"
            " select dead_at, 'under way', 0, record_offset, reason, task_type from copy"
        )
        arguments = [db.config, "discard", "--type", "type-1", "--reason", "x"]
        code, text = answered(b"y\n", *arguments, meanwhile=archiver.commit)
    assert code == 0 and f"discarded {dead} dead letters" in text, text
    assert db.count("task_type = 'type-1' and status = 'dead' and record_topic = 'under way'") == dead


def test_what_may_have_come_with_something_under_way_is_left_alone_and_said_to_be(make):
    db = make("fresh", 60)
    fresh = db.count("task_type = 'type-1'")
    db.query(
        "update dead_letter set archived_at = now() - CASE WHEN task_type = 'type-1' THEN interval '1 s'"
        " ELSE interval '1 minute' END"
    )
    by_another_role(db)
    db.query(
        "insert into archive_offset (topic, partition, epoch, next_offset, owner) values ('t', 0, 1, 1, 'archiver/1')"
    )
    with psycopg.connect(db.dsn, application_name="archiver/1"):
        text = db.run("discard", "--where", "all", "--reason", "x", "--yes", code=5)
    assert f"discarded {60 - fresh} dead letters" in text, text
    assert f"{fresh} of those shown were left alone" in db.stderr, db.stderr
    assert db.count("status = 'dead'") == fresh == db.count("status = 'dead' and task_type = 'type-1'")


def test_two_people_discard_at_once_and_each_row_is_one_s(make):
    db = make("two", 12000)
    filters = [["--where", "all"], ["--where", "id > 3000"], ["--type", "type-1,type-2"], ["--where", "all"]]

    def discard(number):
        text = db.run("discard", *filters[number], "--reason", "x", "--as", f"p{number}", "--yes", code=(0, 4, 5))
        return int(text.rsplit("discarded ", 1)[1].split()[0].replace(",", "")) if "discarded" in text else 0

    with concurrent.futures.ThreadPoolExecutor() as pool:
        done = list(pool.map(discard, range(len(filters))))
    assert sum(done) == 12000 == db.count("status = 'discarded'")
    assert db.query("select sum((detail->>'rows')::bigint)::int from audit") == [(12000,)]
    db.assert_counted()


def test_discard_and_restore_and_purge_at_once(make):
    """Locks are taken in one order: nothing waits for ever, and no row is counted twice."""
    db = make("mixed", 6000)
    commands = [
        ["discard", "--where", "all"], ["discard", "--undo", "--where", "all"],
        ["purge", "--type", "type-1"], ["discard", "--where", "id > 100"],
    ]  # fmt: skip
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(lambda c: db.run(*c, "--reason", "x", "--yes", code=(0, 4, 5)), commands))
    db.assert_counted()
    assert db.count("task_type = 'type-1'") == 0


def kill_when(process, condition, what):
    wait_for(lambda: condition() or process.poll() is not None, what, 60)
    process.send_signal(signal.SIGKILL)
    process.communicate()


@pytest.mark.parametrize("undo", [False, True])
def test_a_killed_discard_is_run_again_for_the_rest(make, undo):
    db = make("killed-discard", 30000)
    if undo:
        db.set_status("discarded", "true")
    status = "dead" if undo else "discarded"
    arguments = ["discard", "--where", "all", "--reason", "x", "--yes"] + (["--undo"] if undo else [])
    kills = 0
    for threshold in (1, 9000, 20000):
        process = db.start(*arguments)
        kill_when(process, lambda: db.count(f"status = '{status}'") >= threshold, "a batch")
        kills += process.returncode == -signal.SIGKILL
    assert kills > 0
    db.run(*arguments, code=(0, 4))
    assert db.count(f"status = '{status}'") == 30000
    action = "restore" if undo else "discard"
    assert sum(detail["rows"] for _, _, detail in db.audited(action)) == 30000
    db.assert_counted()


def test_a_stopped_discard_says_what_is_left(make):
    db = make("stopped", 40000)
    db.query("create function wait() returns trigger language plpgsql as"
             " 'begin perform pg_advisory_xact_lock_shared(1); return new; end'")  # fmt: skip
    db.query("create trigger wait before insert on dead_letter_state for each row when (new.id = 20000)"
             " execute function wait()")  # fmt: skip
    with db.connect() as gate:
        gate.execute("select pg_advisory_lock(1)")
        process = db.start("discard", "--where", "all", "--reason", "x", "--yes")
        wait_for(lambda: db.query(WAITING) == [(1,)], "a batch to wait", 60)
        process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    done = db.count("status = 'discarded'")
    assert 20000 <= done < 40000  # the batch that waited is among it
    assert db.audited("discard")[0][2]["rows"] == done
    assert process.returncode == 5 and b"run it again for the rest" in err
    assert f"discarded {done:,} dead letters".encode() in out


@pytest.mark.parametrize(
    "verb, act, code, said",
    [
        ("discard", ("--reason", "x", "--yes"), 5, b"0 of 100; run it again for the rest"),
        ("purge", ("--reason", "x", "--yes"), 5, b"0 of 100; run it again for the rest"),
        ("export", (), 1, b"the export was stopped"),
    ],
)
def test_ctrl_c_ends_a_statement_that_takes_long(make, verb, act, code, said):
    """The list may take minutes. Here it waits for a lock, which what is asked before does not need."""
    db = make(f"listing-{verb}", 100)
    with psycopg.connect(db.dsn) as other:
        other.execute("lock table dead_letter in access exclusive mode")
        process = db.start(verb, "--where", "all", *act)
        waiting = (
            "select count(*) from pg_locks where not granted"
            " and database = (select oid from pg_database where datname = current_database())"
        )
        wait_for(lambda: db.query(waiting) == [(1,)], "the list", 30)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=10)
        assert process.returncode == code and said in err, err
        assert db.query(waiting) == [(0,)] and process.poll() is not None
    assert db.count("status = 'dead'") == 100 and db.audited(verb) == []
    db.assert_counted()


def whole(db):
    """All that there is, but for what cannot be the same."""
    return db.query("select to_jsonb(a) - 'state_status' from archive as a order by dead_at, id")


def add_odd_letters(db):
    db.query(f"select dead_letter_add_day('{DAY}'::date + n) from generate_series(0, 1) as n")
    insert = (
        "insert into dead_letter (id, dead_at, archived_at, record_topic, record_partition, record_offset,"
        " record_key, reason, detail, category, policy, attempts, decided_at, source_topic,"
        " source_partition, source_offset, task_id, task_type, target, task_key, payload, header_keys,"
        " header_values, attempt, error_class, error_message, error_category, cause_classes,"
        " cause_messages, source, first_failed_at, failed_at, raw, altered, record, fingerprint,"
        " replay_job, replay_of_at, replay_of) values (%s" + ", %s" * 38 + ")"
    )
    at = f"{DAY} 12:34:56.789+00"
    all_bytes = bytes(range(256))
    with db.connect() as connection:
        for i, text in enumerate((EVIL, "", "'\"\\{},$1%s", "\u20ac\U0001f600", "a" * 100000)):
            connection.execute(insert, (
                10007 + i, at, f"{DAY} 23:59:59.123456+00", text[:900] or "t", i, i, all_bytes, "EXHAUSTED", text, text,
                text, -1, f"{DAY} 00:00:00.001+00", text, 2147483647, 9223372036854775807, text[:900] or "id",
                text[:900], text, b"", all_bytes * (i + 1), [text, "", text], [all_bytes, None, b""], 3, text,
                text, None, [text, text], ["", text], text, "0001-01-01 00:00:00+00", "9999-12-31 23:59:59.999+00",
                None, ["payload", text], b"\0", -1 - i, "job-1", at, 4,
            ))  # fmt: skip
            connection.execute("insert into error_group values (%s, %s, %s, %s)", (-1 - i, text[:900], text, text))
        connection.execute(insert, (
            10040, at, at, "t", 9, 9, None, "UNDECODABLE", None, None, None, None, None, None, None, None, *(None,) * 14,
            None, None, all_bytes, None, None, 0, None, None, None,
        ))  # fmt: skip
    db.set_status("discarded", "id = 10008")
    db.set_status("replayed", "id = 10009", "now()")


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_what_is_exported_comes_back_exactly(make, tmp_path, suffix):
    db, other = make("from"), make("to")
    add_odd_letters(db)
    db.add_letters(500, f"{DAY} 10:00:00+00", first_offset=100)
    before = whole(db)
    path = tmp_path / f"letters.jsonl{suffix}"
    assert "exported 506 dead letters" in db.run("export", path)
    db.run("export", path, code=1)
    assert "exists already" in db.stderr
    assert "506 imported" in other.run("import", path)
    assert whole(other) == before
    assert other.query("select fingerprint, task_type, error_class, message from error_group order by 1") == db.query(
        "select fingerprint, task_type, error_class, message from error_group order by 1"
    )
    assert "506 were there already" in other.run("import", path)
    assert whole(other) == before
    # And into the same database, after a purge that exported as well.
    again = tmp_path / f"purged.jsonl{suffix}"
    db.run("purge", "--where", "all", "--export", "-", "--reason", "x", "--yes", code=2)
    assert "--export takes a file here" in db.stderr and db.count() == 506
    assert "deleted 506 dead letters" in db.run("purge", "--where", "all", "--export", again, "--reason", "x", "--yes")
    assert db.count() == 0
    assert "506 imported" in db.run("import", again, "--as", "ann", "--reason", "back")
    assert whole(db) == before
    assert db.audited("import") == [("ann", "back", {"rows": 506, "file": str(again), "finished": True})]
    db.assert_counted()
    other.assert_counted()


def test_export_takes_a_filter_and_writes_to_stdout(make, tmp_path):
    db = make("stdout", 600)
    lines = db.run("export", "--type", "type-1").splitlines()
    assert sorted(json.loads(line)["id"] for line in lines) == db.ids("--type", "type-1")
    times = [json.loads(line)["dead_at"] for line in lines]
    assert times == sorted(times)
    assert db.run("export", "--type", "nobody", code=4) == ""
    for _ in range(2):
        db.run("export", tmp_path / "none.gz", "--type", "nobody", code=4)
    assert list(tmp_path.glob("none*")) == []


def test_what_a_terminal_gets_of_an_export_comes_back_exactly(make, tmp_path):
    db, other = make("typed"), make("typed-to")
    add_odd_letters(db)
    text = on_terminal(db, "export")
    assert not set(text) & set("\x1b\x07\x7f\u009b\u202e")
    path = tmp_path / "typed.jsonl"
    path.write_text(text.replace("\r\n", "\n").replace("exported 6 dead letters\n", ""))
    assert "6 imported" in other.run("import", path)
    assert whole(other) == whole(db)


def test_lines_that_are_refused_leave_no_days(make, tmp_path):
    db = make("junk")
    path = tmp_path / "junk.jsonl"
    path.write_text("".join(json.dumps({"id": n, "dead_at": f"20{n}-01-01T00:00:00Z"}) + "\n" for n in range(10, 30))
                    + json.dumps({"id": 30, "dead_at": "10000-01-01T00:00:00Z"}) + "\n")
    days = "select count(*) from dead_letter_day"
    before = db.query(days)
    assert "21 lines cannot be imported" in db.run("import", path, code=5)
    assert db.query(days) == before


def test_bad_lines_are_told_by_their_number(make, tmp_path):
    db, other = make("bad-from", 20), make("bad-to")
    lines = db.run("export").splitlines()
    broken = json.loads(lines[3])
    bad = {
        2: "no json at all " + EVIL.replace("\n", " "), 5: "{}", 7: "[1, 2]", 9: "\0",
        11: json.dumps({**broken, "task": {**broken["task"], "payload": "!!!"}, "record": {**broken["record"], "offset": 99}}),
        13: json.dumps({**broken, "dead_at": "some day"}), 15: json.dumps({**broken, "status": "undead", "status_at": DAY, "record": {**broken["record"], "offset": 98}}),
        17: lines[0][:-5], 19: '{"id": 1}',
    }  # fmt: skip
    for number in sorted(bad):
        lines.insert(number - 1, bad[number])
    path = tmp_path / "bad.jsonl"
    path.write_bytes("\n".join(lines).encode().replace(b"undead", b"und\xff") + b"\n\n")
    text = other.run("import", path, code=5)
    assert "20 imported" in text and f"{len(bad)} lines cannot be imported" in text
    told = [int(l.split()[2].rstrip(":")) for l in other.stderr.splitlines() if l.startswith("reprise: line ")]
    assert sorted(told) == sorted(bad)
    assert "line 5: it has no dead_at" in other.stderr
    assert not set(other.stderr) & set("\x1b\x07\u009b\u202e\0")
    assert other.count() == 20
    other.assert_counted()
    assert "20 were there already" in other.run("import", path, code=5)


def test_a_line_that_a_constraint_refuses_is_told_so(make, tmp_path):
    db, other = make("constraint-from", 3), make("constraint-to")
    path = tmp_path / "all.jsonl"
    path.write_text(db.run("export"))
    other.query("alter table dead_letter add constraint no_second check (record_offset % 3 <> 1)")
    other.run("import", path, code=5)
    assert "no_second" in other.stderr and "dead_at" not in other.stderr


def test_purge_deletes_all_but_what_is_being_replayed(make, tmp_path):
    db = make("purge", 3000)
    db.set_status("replaying", "id % 10 = 2")
    db.set_status("discarded", "id % 7 = 3 and id % 10 <> 2")
    stay = db.count("task_type = 'type-1' and status = 'replaying'")
    go = db.count("task_type = 'type-1'") - stay
    text = db.run("purge", "--type", "type-1", "--dry-run")
    dead = db.count("task_type = 'type-1' and status = 'dead'")
    assert stay > 0 and f"{go} dead letters" in text
    assert 0 < dead < go and f"{dead}  of them are dead: neither replayed nor discarded" in text
    path = tmp_path / "gone.jsonl.zst"
    db.run("purge", "--type", "type-1", "--export", tmp_path / "no/folder/x", "--reason", "x", "--yes", code=1)
    assert db.count() == 3000
    text = db.run("purge", "--type", "type-1", "--export", path, "--reason", "old", "--as", "bob", "--yes")
    assert f"deleted {go} dead letters" in text
    assert db.count("task_type = 'type-1'") == db.count("task_type = 'type-1' and status = 'replaying'") == stay
    assert db.count() == 3000 - go
    ((actor, reason, detail),) = db.audited("purge")
    assert (actor, reason, detail["rows"], detail["export"]) == ("bob", "old", go, str(path))
    assert f"{go} imported" in db.run("import", path) and db.count() == 3000
    db.assert_counted()


def test_a_killed_purge_and_import_are_run_again_for_the_rest(make, tmp_path):
    db = make("killed-purge", 20000)
    before, path = whole(db), tmp_path / "all.jsonl.zst"
    db.run("export", path)
    arguments, kills = ["purge", "--where", "all", "--reason", "x", "--yes"], 0
    for threshold in (19000, 10000):
        process = db.start(*arguments)
        kill_when(process, lambda: db.count() <= threshold, "a batch")
        kills += process.returncode == -signal.SIGKILL
        db.assert_counted()
    db.run(*arguments, code=(0, 4))
    assert db.count() == 0
    assert sum(detail["rows"] for _, _, detail in db.audited("purge")) == 20000
    for threshold in (1, 8000):
        process = db.start("import", path)
        kill_when(process, lambda: db.count() >= threshold, "a batch")
        kills += process.returncode == -signal.SIGKILL
        db.assert_counted()
    assert kills > 0
    db.run("import", path)
    assert whole(db) == before
    assert sum(detail["rows"] for _, _, detail in db.audited("import")) == 20000


def test_a_killed_export_leaves_no_half_file(make, tmp_path):
    db, path = make("killed-export", 30000), tmp_path / "all.jsonl"
    part = tmp_path / "all.jsonl.part"
    process = db.start("export", path)
    kill_when(process, lambda: part.exists() and part.stat().st_size > 0, "a part")
    assert process.returncode == -signal.SIGKILL and not path.exists()
    db.run("export", path)
    assert len(path.read_bytes().splitlines()) == 30000 and not part.exists()
    # Ctrl-C takes its part away.
    process = db.start("export", tmp_path / "more.jsonl")
    wait_for(lambda: (tmp_path / "more.jsonl.part").exists(), "a part")
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode != 0 and not list(tmp_path.glob("more*"))


def test_what_cannot_be_written_is_a_failure(make):
    db = make("full", 10)
    for command in (["list"], ["count"], ["list", "--format", "json"], ["tail"], ["export"]):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [BUILD / "bin/reprise", "dlq", *command, "--config", db.config],
                stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, timeout=30,
            )  # fmt: skip
        assert done.returncode == 1 and b"stdout" in done.stderr, command


def test_no_file_takes_the_place_of_a_closed_stdout(make):
    """Or what is printed would go to the database's socket."""
    db = make("closed", 10)
    close = lambda: (os.close(1), os.close(2))  # noqa: E731
    command = [BUILD / "bin/reprise", "dlq", "list", "--config", db.config]
    assert subprocess.run(command, stdin=subprocess.DEVNULL, preexec_fn=close, timeout=30).returncode == 1


def test_what_people_say_is_data(make):
    db = make("data", 30)
    evil = f"{EVIL}'); drop table audit; --"
    text = db.run("discard", "--type", "type-1", "--reason", evil, "--as", evil, "--yes")
    assert not set(text + db.stderr) & set("\x1b\x07\u009b\u202e")
    assert db.audited("discard")[0][:2] == (evil, evil)
    for flag in ("--type", "--class", "--message", "--dead-for", "--where", "--group", "--since", "--id"):
        for command in ("discard", "purge"):
            db.run(command, flag, "x' or true) --", "--reason", "x", "--yes", code=(2, 4))
    db.run("export", "--type", "x' or true --", code=4)
    assert db.count("status = 'dead'") == 25 and db.count() == 30
