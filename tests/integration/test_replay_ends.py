# SPDX-License-Identifier: Apache-2.0
"""How replays end that do not go through: what was sent is marked, and what is printed is true."""

import contextlib
import signal
import time

import psycopg
import pytest

from crash_points import crash_points
from lossy import Lossy
from pipeline import wait_for
from servers import free_port
from test_replay import KILLED, Replays, begun, check_once


@pytest.fixture(scope="module")
def replays(new_pipeline):
    return Replays.with_handler(new_pipeline, "replayends")


@contextlib.contextmanager
def configured(replays, **sections):
    """The commands in it have another configuration."""
    usual, pipeline = replays.pipeline.config_file, replays.pipeline
    pipeline.config_file = pipeline.folder / "other.yaml"
    pipeline.write_config(pipeline.config_file, sections)
    try:
        yield
    finally:
        pipeline.config_file = usual


def brokers_away(replays):
    return configured(replays, kafka={"bootstrap.servers": f"127.0.0.1:{free_port()}"})


def killed(replays, name, count=100, point="89:2"):
    """A job that died behind the commit of its second batch."""
    replays.insert(name, count, replays.target)
    assert replays.replay(name, "--rate", "40", crash=point)[0] == KILLED
    replays.age()
    return replays.job()["job"]


def came(replays, name):
    """How many tasks arrived: the first ones, each once."""
    replays.reader.poll(1)
    n = len({r.value for r in replays.reader.records for k, v in r.headers if k == "reprise-task-id"
             and v.decode().startswith(f"{name}-")})  # fmt: skip
    check_once(replays.reader, name, range(n))
    return n


def test_killed_while_it_gives_up_a_transaction(replays):
    """One that has a record in it which the broker refuses, and of which it does not tell before that it will."""
    small = replays.pipeline.create_target("small", max_message_bytes=2000)
    replays.pipeline.kafka.permit(small, READ="ALLOW", WRITE="ALLOW", DESCRIBE="ALLOW", DESCRIBE_CONFIGS="DENY")
    reader = replays.pipeline.reader(small)
    for number, point in crash_points("replay-abort"):
        replays.insert(point, 30, small)
        replays.query("update dead_letter set payload = convert_to(repeat('x', 5000), 'UTF8') where task_id = %s", f"{point}-10")
        assert replays.replay(point, crash=f"{number}")[0] == KILLED
        replays.age()
        code, text = replays.run("replay", "resume", replays.job()["job"])
        assert code == 5 and "1 refused" in text, text
        check_once(reader, point, sorted(set(range(30)) - {10}))
        assert replays.states(point) == {"replayed": 29, "dead": 1}


def test_what_a_failed_job_sent_is_marked_and_it_can_be_cancelled(replays):
    """Its program does not load any more, which only stops what is still to be sent."""
    job = killed(replays, "program")
    replays.query("update replay_job set options = options || '{\"jq\": \"(((\"}' where job = %s", job)
    assert replays.job(job)["marked"] < came(replays, "program")
    code, text = replays.run("replay", "resume", job)
    row, sent = replays.job(job), came(replays, "program")
    assert code == 5 and "jq" in text and f"{sent} of 100 sent" in text, text
    assert (row["state"], row["marked"], row["heartbeat_at"]) == ("failed", sent, None)
    assert replays.states("program") == {"replayed": sent, "replaying": 100 - sent}
    assert replays.run("replay", "cancel", job)[0] == 0
    assert replays.states("program") == {"replayed": sent, "dead": 100 - sent}
    replays.check_counts()


def test_a_job_whose_options_cannot_be_read_can_be_cancelled(replays):
    job = killed(replays, "options")
    replays.query("update replay_job set options = options || '{\"order\": \"by moon\"}' where job = %s", job)
    code, text = replays.run("replay", "resume", job)
    assert code == 5 and "options cannot be read" in text, text
    assert replays.run("replay", "cancel", job)[0] == 0
    sent = came(replays, "options")
    assert replays.states("options") == {"replayed": sent, "dead": 100 - sent}


def renamed(replays, table, column):
    replays.query(f"alter table {table} rename column {column} to {column}_gone")


def put_back(replays, table, column):
    replays.query(f"alter table {table} rename column {column}_gone to {column}")


def test_it_does_not_wait_for_a_column_that_is_missing(replays):
    replays.insert("column", 100, replays.target)
    process, job = begun(replays, "column", "--rate", "40", count=5)
    assert replays.run("replay", "pause", job)[0] == 0
    process.wait(30)
    renamed(replays, "replay_item", "edited")
    try:
        code, text = replays.run("replay", "resume", job, timeout=60)
    finally:
        put_back(replays, "replay_item", "edited")
    row = replays.job(job)
    assert code == 5 and "edited does not exist" in text and "failed" in text, text
    assert (row["state"], row["heartbeat_at"]) == ("failed", None) and "edited" in row["outcome"]
    assert replays.run("replay", "rate", job, "none")[0] == 0
    assert replays.run("replay", "resume", job)[0] == 0
    check_once(replays.reader, "column", range(100))


def test_what_cannot_be_marked_now_is_marked_later(replays):
    """Without an archiver: by whoever goes on."""
    replays.insert("unmarked", 400, replays.target)
    process, job = begun(replays, "unmarked", "--rate", "40", count=5)
    renamed(replays, "replay_item", "was_came_back_at")
    try:
        text = process.communicate(timeout=60)[0]
    finally:
        put_back(replays, "replay_item", "was_came_back_at")
    assert process.returncode == 5 and "was_came_back_at\" does not exist" in text, text
    row = replays.job(job)
    assert f"at least {row['marked']} of 400 sent" in text and "More may have been sent" in text, text
    assert row["state"] == "failed" and row["marked"] < came(replays, "unmarked")
    assert replays.run("replay", "pause", job)[0] == 0
    row = replays.job(job)
    assert (row["state"], row["marked"], row["heartbeat_at"]) == ("failed", came(replays, "unmarked"), None)
    assert "was_came_back_at" in row["outcome"]
    assert replays.run("replay", "rate", job, "none")[0] == 0
    assert replays.run("replay", "resume", job)[0] == 0
    check_once(replays.reader, "unmarked", range(400))


def test_the_answer_to_its_end_is_lost(replays):
    lossy = Lossy(replays.pipeline.dsn)
    replays.insert("ended", 20, replays.target)
    with configured(replays, postgres={"dsn": lossy.dsn}):
        lossy.lose_answer_to("SET finished_at")
        code, text = replays.replay("ended")
        assert lossy.lost.is_set()
        assert code == 0 and "done. 20 of 20 sent" in text, text
        job = killed(replays, "given")
        lossy.lose_answer_to("SET finished_at")
        code, text = replays.run("replay", "cancel", job)
        assert lossy.lost.is_set()
        assert code == 0 and "cancelled" in text, text
    lossy.close()
    assert replays.query("select action, count(*) from audit where detail->>'job' = %s and action"
                         " = 'replay-cancelled' group by 1", job) == [("replay-cancelled", 1)]  # fmt: skip


def test_a_wish_does_not_wait_for_brokers_that_are_away(replays):
    job = killed(replays, "away")
    with brokers_away(replays):
        code, text = replays.run("replay", "cancel", job, timeout=100)
    assert code == 5 and "cannot be done now" in text, text
    row = replays.job(job)
    assert row["wish"] == "cancel" and row["finished_at"] is None
    code, text = replays.run("replay", "cancel", job)
    assert code == 0 and "cancelled" in text, text
    sent = came(replays, "away")
    assert replays.states("away") == {"replayed": sent, "dead": 100 - sent}


def test_ctrl_c_before_it_knows_how_far_it_is(replays):
    """It says paused, and so it is: somebody else goes on at once."""
    job = killed(replays, "early")
    with brokers_away(replays):
        process = replays.start("replay", "resume", job)
        wait_for(lambda: replays.job(job)["epoch"] == 2, "it to take the job", 60)
        process.send_signal(signal.SIGINT)
        text = process.communicate(timeout=60)[0]
    assert process.returncode == 5 and "paused" in text, text
    assert replays.job(job)["state"] == "paused"
    assert replays.run("replay", "rate", job, "none")[0] == 0
    assert replays.run("replay", "resume", job)[0] == 0
    check_once(replays.reader, "early", range(100))


def test_a_producer_that_is_made_after_a_takeover_sends_nothing(replays):
    """A runner whose producer was fenced stands still while it makes another; meanwhile the job is paused. When it
    wakes up, it hears no news, since the table is locked: only its look at the epoch can keep it from sending."""
    from confluent_kafka import Producer

    replays.insert("late", 200, replays.target)
    process, job = begun(replays, "late", "--rate", "20", count=5, crash="1:4:S")  # it made three at first
    Producer({
        "bootstrap.servers": replays.pipeline.kafka.bootstrap, "transactional.id": f"reprise-replay-{job}",
    }).init_transactions(30)  # fmt: skip
    state = f"/proc/{process.pid}/stat"
    wait_for(lambda: open(state).read().split()[2] in "Tt", "the runner to stand still", 60)
    replays.age()
    assert replays.run("replay", "pause", job)[0] == 0
    sent = replays.job(job)["marked"]
    with psycopg.connect(replays.pipeline.dsn) as lock:
        lock.execute("lock table replay_job in access exclusive mode")
        process.send_signal(signal.SIGCONT)
        waits = ("select 1 from pg_stat_activity where application_name = 'reprise replay'"
                 " and datname = current_database() and wait_event_type = 'Lock'")  # fmt: skip
        wait_for(lambda: replays.query(waits), "the runner to look at the job", 60)
    text = process.communicate(timeout=60)[0]
    assert process.returncode == 5 and "taken over" in text, text
    assert came(replays, "late") == sent == replays.job(job)["marked"]


@pytest.mark.parametrize("wish, ends_with", [("pause", 0), ("cancel", 4)])
def test_what_had_sent_all_when_its_runner_died_is_done(replays, wish, ends_with):
    """Whoever settles it: there is nothing left to pause, and nothing to keep back."""
    replays.insert(f"through-{wish}", 20, replays.target)
    assert replays.replay(f"through-{wish}", crash="95")[0] == KILLED
    replays.age()
    job = replays.job()["job"]
    code, text = replays.run("replay", wish, job)
    assert code == ends_with and "done. 20 of 20 sent" in text, text
    assert replays.job(job)["state"] == "done"
    assert replays.query("select action from audit where detail->>'job' = %s order by id desc limit 1", job) == [
        ("replay-done",)
    ]


def waiting_for_lock(replays, application):
    """The server's processes of it that wait for a lock."""
    return replays.query(
        "select pid from pg_stat_activity where application_name = %s and datname = current_database()"
        " and wait_event_type = 'Lock'", application,
    )  # fmt: skip


def test_canaries_had_their_time_only_once_somebody_has_looked(replays):
    """What comes back of them is not to be counted for a while."""
    replays.insert("unseen", 50, replays.target)
    process, job = begun(replays, "unseen", "--canary", "5", "--canary-wait", "100s", count=5)
    wait_for(lambda: replays.job(job)["canary_at"], "the canaries to be out", 60)
    with psycopg.connect(replays.pipeline.dsn) as other:
        other.execute("lock table dead_letter in access exclusive mode")
        ((counts,),) = wait_for(lambda: waiting_for_lock(replays, "reprise replay pulse"), "the count to wait", 60)
        replays.query("update replay_job set canary_at = now() - interval '1 hour' where job = %s", job)
        beat = replays.job(job)["heartbeat_at"]
        replays.query("select pg_cancel_backend(%s)", counts)
        wait_for(lambda: replays.job(job)["heartbeat_at"] > beat, "the next beat", 60)
        time.sleep(2)  # or it would send on
        other.execute(
            "insert into dead_letter (dead_at, record_topic, record_partition, record_offset, reason, replay_job,"
            " task_id) values (now(), 'back', 0, 97, 'EXHAUSTED', %s, 'back')", [job],
        )  # fmt: skip
    assert process.wait(60) == 5
    row = replays.job(job)
    assert (row["state"], row["marked"]) == ("stopped", 5) and "came back dead" in row["outcome"]


def test_a_stop_that_is_interrupted_is_a_stop(replays):
    """Its connection goes while it gives back; when it goes on, its own wish has come round as news."""
    replays.insert("interrupted", 50, replays.target)
    process, job = begun(replays, "interrupted", "--canary", "5", "--canary-wait", "100s", count=5)
    wait_for(lambda: replays.job(job)["canary_at"], "the canaries to be out", 60)
    with psycopg.connect(replays.pipeline.dsn) as lock:
        lock.execute("lock table dead_letter_state in exclusive mode")
        replays.query(
            "insert into dead_letter (dead_at, record_topic, record_partition, record_offset, reason, replay_job,"
            " task_id) values (now(), 'interrupted', 0, 0, 'EXHAUSTED', %s, 'back')", job,
        )  # fmt: skip
        (pid,) = wait_for(lambda: waiting_for_lock(replays, "reprise replay"), "it to give back", 60)[0]
        assert replays.job(job)["wish"] == "cancel"
        for _ in range(2):  # the second begins when the first has been heard
            beat = replays.job(job)["heartbeat_at"]
            wait_for(lambda: replays.job(job)["heartbeat_at"] > beat, "a beat", 60)
        replays.query("select pg_terminate_backend(%s)", pid)
    text = process.communicate(timeout=60)[0]
    assert process.returncode == 5 and "stopped. 5 of 50 sent" in text and "came back dead" in text, text
    assert replays.job(job)["state"] == "stopped"


@contextlib.contextmanager
def waiting_for_letters(replays, job, items, wish="run"):
    """Some of a job's dead letters are another plan's, which found them taken and has not ended yet."""
    with psycopg.connect(replays.pipeline.dsn) as plan:
        plan.execute("select from dead_letter_state as s join replay_item as i using (dead_at, id)"
                     f" where i.job = %s and {items} for update of s", [job])  # fmt: skip
        replays.query("update replay_job set wish = %s where job = %s", wish, job)
        yield wait_for(lambda: waiting_for_lock(replays, "reprise replay"), "it to wait", 60)


def check_beats(replays, job):
    for _ in range(2):
        beat = replays.job(job)["heartbeat_at"]
        wait_for(lambda: replays.job(job)["heartbeat_at"] > beat, "a beat", 14)  # after 15 s it counts as dead


def test_a_heart_beats_while_dead_letters_are_waited_for(replays):
    """Else an archiver would take the job from one who lives."""
    replays.insert("beating", 400, replays.target)
    process, job = begun(replays, "beating", "--rate", "10", count=5)
    with waiting_for_letters(replays, job, "n < 390"):  # to mark them
        check_beats(replays, job)
    with waiting_for_letters(replays, job, "n >= 390", wish="cancel"):  # to give them back
        check_beats(replays, job)
    assert process.wait(60) == 5
    sent = replays.job(job)["marked"]
    assert replays.states("beating") == {"replayed": sent, "dead": 400 - sent}


def test_a_mark_that_waited_while_the_job_was_taken_marks_nothing(replays):
    replays.insert("outdated", 400, replays.target)
    process, job = begun(replays, "outdated", "--rate", "20", count=5)
    with waiting_for_letters(replays, job, "n < 400"):
        replays.query("update replay_job set epoch = epoch + 1 where job = %s", job)
    assert "taken over" in process.communicate(timeout=60)[0]
    marked = replays.job(job)["marked"]
    assert replays.states("outdated") == {"replayed": marked, "replaying": 400 - marked}


def while_locked(replays, job, application, change, begin=lambda: None):
    """Changes a job while somebody waits to, who has seen it as it was before; gives what `begin` does."""
    with psycopg.connect(replays.pipeline.dsn) as lock:
        lock.execute("select from replay_job where job = %s for update", [job])
        result = begin()
        wait_for(lambda: waiting_for_lock(replays, application), f"{application} to change it", 60)
        lock.execute(f"update replay_job set {change} where job = %s", [job])
    return result


def test_what_somebody_else_took_meanwhile_is_not_resumed(replays):
    job = killed(replays, "taken")
    process = while_locked(replays, job, "reprise", "epoch = epoch + 1, heartbeat_at = clock_timestamp()",
                           lambda: replays.start("replay", "resume", job, "--detach"))  # fmt: skip
    text = process.communicate(timeout=60)[0]
    assert process.returncode == 1 and "is running" in text, text
    assert not replays.job(job)["detached"]
    replays.query("update replay_job set state = 'failed' where job = %s", job)
    code, text = replays.run("replay", "resume", job)
    assert code == 1 and "is failed" in text and "try again in 15 s" in text, text
    replays.age()
    assert replays.run("replay", "cancel", job)[0] == 0


def looks(replays):
    """When an archiver last looked for replays."""
    found = replays.query("select query_start from pg_stat_activity where application_name = 'reprise-archiver jobs'"
                          " and datname = current_database() and state = 'idle'")  # fmt: skip
    return found[0][0] if found else None


def standing_still(replays, name):
    """A replay whose runner was stopped after some tasks, and its job."""
    replays.insert(name, 100, replays.target)
    process, job = begun(replays, name, "--rate", "40", count=5, crash="91:2:S")
    state = f"/proc/{process.pid}/stat"
    wait_for(lambda: open(state).read().split()[2] in "Tt", "the runner to stand still", 60)
    return process, job


def test_an_archiver_leaves_alone_who_lives_and_what_is_handed_over(replays):
    process, alive = standing_still(replays, "alive")
    left = killed(replays, "handed")  # from here on both look dead
    replays.query("update replay_job set heartbeat_at = to_timestamp(0) where job = %s", left)
    # One is handed over while the archiver is about to mark what it sent.
    (archiver,) = while_locked(replays, left, "reprise replay", "wish = 'run', state = 'running', detached = true",
                               lambda: replays.pipeline.start("archiver"))  # fmt: skip
    # The database was away for so long that nobody's heart has beaten, and the archiver is back first.
    first = wait_for(lambda: looks(replays), "the archiver to look", 60)
    wait_for(lambda: (looks(replays) or first) > first, "it to look again", 60)
    process.send_signal(signal.SIGCONT)
    text = process.communicate(timeout=60)[0]
    assert process.returncode == 0 and "done. 100 of 100 sent" in text, text
    assert replays.job(alive)["epoch"] == 1
    wait_for(lambda: replays.job(left)["finished_at"] or replays.job(left)["state"] == "paused", "its end", 60)
    assert replays.job(left)["state"] == "done"
    check_once(replays.reader, "handed", range(100))
    assert archiver.stop() == 0


def test_what_kafka_has_forgotten_is_said(replays):
    """What was sent and not marked goes out once more: nobody can tell any more."""
    for name, forgets in (("known", False), ("forgotten", True)):
        job = killed(replays, name)
        if forgets:
            (done,) = replays.pipeline.kafka.admin.delete_consumer_groups([f"reprise-replay-{job}"]).values()
            done.result()
        code, text = replays.run("replay", "resume", job)
        assert code == 0 and ("Kafka does not say how far an earlier runner came" in text) == forgets, text
    check_once(replays.reader, "known", range(100))


def test_a_program_s_targets_are_judged_in_the_preview(replays):
    replays.insert("aimed", 2, replays.target)
    code, text = replays.replay("aimed", "--dry-run", "--jq", '.target = "elsewhere"')
    assert code == 0 and "Targets:    as the program leaves them" in text, text
    assert "targets.allow does not allow the target elsewhere" in text
    replays.query("update dead_letter set target = 'elsewhere' where task_id like 'aimed-%%'")
    code, text = replays.replay("aimed", "--dry-run", "--jq", f'.target = "{replays.target}"')
    assert code == 0 and "does not allow" not in text and "Refused" not in text, text


def test_whoever_cannot_be_told_to_stop_sends_nothing_and_says_why(replays):
    """The connection by which it hears what is wished, and shows that it lives, is one too many."""
    replays.insert("deaf", 50, replays.target)
    (owner,), = replays.query("select current_user")  # fmt: skip
    replays.query(f"create role few login password 'x' connection limit 1; grant \"{owner}\" to few")
    dsn = psycopg.conninfo.make_conninfo(replays.pipeline.dsn, user="few", password="x")
    with configured(replays, postgres={"dsn": dsn}):
        code, text = replays.replay("deaf")
        job = replays.job()["job"]
        assert code == 1 and f"Go on:   reprise replay resume {job}" in text, text
        replays.query("alter role few connection limit 2")
        process = replays.start("replay", "resume", job)
        told = iter(process.stdout.readline, "")
        assert any("waiting: " in line and "too many connections" in line for line in told)
        assert replays.states("deaf") == {"replaying": 50} and replays.job()["marked"] == 0
        replays.query("alter role few connection limit 10")
        text = process.communicate(timeout=60)[0]
    assert process.returncode == 0, text
    check_once(replays.reader, "deaf", range(50))


def test_what_comes_back_while_a_replay_is_planned_is_not_taken(replays):
    """Else its mark would be gone, and the one who looks for what came back would not find it."""
    replays.insert("back", 20, replays.target)
    assert replays.replay("back")[0] == 0
    with psycopg.connect(replays.pipeline.database.dsn) as marker:
        marker.execute("update dead_letter_state set came_back_at = now() where job = %s", [replays.job()["job"]])
        process = replays.start(
            "dlq", "replay", "--task", "back-*", "--status", "replayed", "--reason", "again", "--yes"
        )
        waits = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        wait_for(lambda: replays.query(waits), "the plan to wait", 60)
        marker.commit()
    text = process.communicate(timeout=60)[0]
    assert process.returncode == 4 and "somebody else has it" in text, text
    came_back = "select count(*) from archive where task_id like 'back-%%' and came_back_at is not null"
    assert replays.query(came_back) == [(20,)]
