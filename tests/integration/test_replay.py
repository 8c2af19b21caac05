# SPDX-License-Identifier: Apache-2.0
"""Replay: each dead letter that is meant goes out once, whoever dies when."""

import collections
import json
import os
import pathlib
import subprocess
import time

import pytest
from psycopg.rows import dict_row

from crash_points import crash_points
from dlq import answered
from pipeline import BUILD, header, now_ms, wait_for

INSERT = """
insert into dead_letter (dead_at, record_topic, record_partition, record_offset, record_key, reason,
    detail, category, policy, attempts, decided_at, source_topic, source_partition, source_offset,
    task_id, task_type, target, task_key, payload, header_keys, header_values, attempt, error_class,
    error_message, cause_classes, cause_messages, source, failed_at)
select date_trunc('day', now()) + n * interval '1 ms', 'rows', 0, coalesce((select max(record_offset) + 1
    from dead_letter), 0) + n, 'k', 'EXHAUSTED', '3 of 3', 'NETWORK', 'default', 3, now(), 'failed', 0, n,
    %(name)s || '-' || n, %(type)s, case when %(every)s > 0 and n %% %(every)s = 0 then %(target)s || '-none'
    else %(target)s end, null, convert_to('payload ' || n, 'UTF8'), array['trace', 'trace'],
    array['\\x00ff'::bytea, null], 3, 'java.io.IOException', 'boom ' || n, array['Cause'], array['why'],
    'test', now() - interval '1 minute'
from generate_series(0, %(count)s - 1) as n
"""


class Replays:
    """A pipeline, and dead letters that are put right into its database."""

    def __init__(self, new_pipeline, name, **config):
        self.pipeline = new_pipeline(name, **config)
        self.prefix = self.pipeline.prefix
        self.query("select dead_letter_add_day(current_date)")

    @classmethod
    def with_handler(cls, new_pipeline, name):
        """The same with a target and a handler's reader of it."""
        replays = cls(new_pipeline, name)
        replays.target = replays.pipeline.create_target("handler")
        replays.reader = replays.pipeline.reader(replays.target)
        return replays

    def query(self, sql, *values, **named):
        return self.pipeline.database.query(sql, named or values or None)

    def insert(self, name, count, target, none_every=0, task_type="payment"):
        """So many dead letters, of tasks NAME-0...; each none_every-th has a target that is not there."""
        self.query(INSERT, name=name, count=count, target=target, every=none_every, type=task_type)

    def start(self, *arguments, crash=None, group="dlq"):
        env = dict(os.environ)
        if crash:
            env["REPRISE_CRASH_POINT"] = crash
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", BUILD / "bin/reprise", *arguments,
             "--config", self.pipeline.config_file],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env,
        )  # fmt: skip

    def run(self, *arguments, crash=None, timeout=120):
        process = self.start(*arguments, crash=crash)
        text = process.communicate(timeout=timeout)[0]
        return process.returncode, text

    def replay(self, name, *arguments, **options):
        return self.run("dlq", "replay", "--task", f"{name}-*", "--reason", "test", "--yes", *arguments, **options)

    def job(self, of=None):
        """The newest job, or the one of this id."""
        where = "where job = %s" if of else "where %s::text is null order by created_at desc limit 1"
        rows = self.pipeline.database.query(f"select * from replay_job {where}", [of], dict_row)
        return rows[0] if rows else None

    def age(self):
        """As if some time had passed since a runner died, and what it had asked of the server were over."""
        busy = "state = 'active' and application_name like 'reprise replay%' and datname = current_database()"
        wait_for(lambda: not self.query(f"select pid from pg_stat_activity where {busy}"), "the server to be through", 60)
        self.query("update replay_job set heartbeat_at = now() - interval '1 minute' where heartbeat_at is not null")

    def states(self, name):
        rows = self.query("select status, count(*) from archive where task_id like %s group by 1", f"{name}-%")
        return dict(rows)

    def check_counts(self):
        """What the triggers counted is what is there."""
        counted = self.query("select status, sum(n) from dead_letter_count group by 1 having sum(n) <> 0 order by 1")
        there = self.query("select status, count(*) from archive group by 1 order by 1")
        assert [(s, int(n)) for s, n in counted] == there


def check_once(reader, name, numbers, job=None):
    """Each of the tasks came, each once."""
    wanted = {f"{name}-{n}" for n in numbers}
    reader.wait(len(wanted), lambda r: header(r, "reprise-task-id").startswith(f"{name}-"), timeout=60)
    reader.poll(0.5)
    came = collections.Counter(
        header(r, "reprise-task-id") for r in reader.records if header(r, "reprise-task-id").startswith(f"{name}-")
    )
    assert set(came) == wanted, (len(came), len(wanted))
    doubled = {task: n for task, n in came.items() if n > 1}
    assert not doubled, f"{len(doubled)} doubled: {list(doubled.items())[:5]}"


@pytest.fixture(scope="module")
def replays(new_pipeline):
    return Replays.with_handler(new_pipeline, "replay")


def test_a_task_goes_out_as_it_was(replays):
    replays.insert("plain", 20, replays.target)
    code, text = replays.replay("plain")
    assert code == 0, text
    check_once(replays.reader, "plain", range(20))
    job = replays.job()
    (record,) = replays.reader.of_task("plain-7")
    assert (record.key, record.value) == (None, b"payload 7")
    assert record.headers[:2] == [("trace", b"\0\xff"), ("trace", None)]
    assert header(record, "reprise-attempt") == "4"
    assert header(record, "reprise-replay-id") == job["job"]
    assert abs(int(header(record, "reprise-due")) - now_ms()) < 60000
    assert int(header(record, "reprise-first-failed-at")) < now_ms() - 50000
    assert (job["state"], job["total"], job["marked"], job["refused"]) == ("done", 20, 20, 0)
    assert replays.states("plain") == {"replayed": 20}
    audit = replays.query("select action from audit where detail->>'job' = %s order by id", job["job"])
    assert audit == [("replay",), ("replay-done",)]
    assert replays.replay("plain")[0] == 4  # nothing is dead any more
    replays.check_counts()


KILLED = -9


def test_killed_while_it_is_planned_all_or_nothing_is_claimed(replays):
    def newest():
        return (replays.job() or {}).get("job")

    replays.insert("planning", 50, replays.target)
    before = newest()
    (early, _), (late, _) = crash_points("replay-plan")
    assert replays.replay("planning", crash=f"{early}")[0] == KILLED
    assert newest() == before and replays.states("planning") == {"dead": 50}
    assert replays.replay("planning", crash=f"{late}")[0] == KILLED
    job = newest()
    assert job != before and replays.states("planning") == {"replaying": 50}
    assert "abandoned" in replays.run("replay", "list")[1]
    assert replays.run("replay", "resume", job)[0] == 0
    check_once(replays.reader, "planning", range(50))


def test_marks_look_up_keys_whatever_the_statistics_say(replays):
    """PostgreSQL has counted the items, and the states not yet: it takes those that are being replayed for few."""
    replays.insert("uncounted", 20000, replays.target)
    assert replays.replay("uncounted", crash=numbers("replay-plan")[1])[0] == KILLED
    replays.query("analyze replay_item")
    assert replays.run("replay", "resume", replays.job()["job"], timeout=20)[0] == 0
    check_once(replays.reader, "uncounted", range(20000))


def test_planning_sorts_no_payloads(new_pipeline):
    """What PostgreSQL sorts goes to its disk where it is more than a few MB. So may what it joins with the states, where
    it takes payloads for small or letters for few; here it has counted them."""
    replays = Replays.with_handler(new_pipeline, "sorts")

    def wrote():
        replays.pipeline.database.close()
        wait_for(lambda: replays.query("select count(*) from pg_stat_activity where datname = current_database()") == [(1,)],
                 "its sessions to end")  # fmt: skip
        return replays.query("select temp_bytes from pg_stat_database where datname = current_database()")[0][0]

    replays.insert("wide", 10000, replays.target)
    replays.query("update dead_letter set payload = convert_to(repeat('x', 1000), 'UTF8') where task_id like 'wide-%'")
    replays.query("vacuum analyze dead_letter, dead_letter_state")
    few = ["--limit", "9000"]
    for arguments in (["--dry-run"], ["--dry-run", *few], ["--dry-run", "--order", "key", *few], few):
        before = wrote()
        code, text = replays.replay("wide", *arguments)
        assert code == 0 and wrote() - before < 2e6, text
    replays.query("update dead_letter set task_key = convert_to(repeat('k', 100000), 'UTF8') where task_id = 'wide-9999'")
    assert "the largest 101140 bytes" in replays.replay("wide", "--dry-run")[1]


def wait_for_sent(replays, job, count):
    wait_for(lambda: replays.job(job)["marked"] >= count, f"{count} marked", 60)


def begun(replays, name, *arguments, count=None, crash=None):
    """A replay that runs beside us, and its id."""
    jobs = len(replays.query("select job from replay_job"))
    process = replays.start(
        "dlq", "replay", "--task", f"{name}-*", "--reason", "test", "--yes", *arguments, crash=crash
    )
    wait_for(lambda: len(replays.query("select job from replay_job")) > jobs, "a job", 60)
    job = replays.job()["job"]
    if count:
        wait_for_sent(replays, job, count)
    return process, job


def numbers(*kinds):
    return [f"{number}" for number, _ in crash_points(*kinds)]


@pytest.mark.parametrize("point", numbers("replay-pause"))
def test_killed_while_it_pauses(replays, point):
    name = f"pausing{point}"
    replays.insert(name, 200, replays.target)
    process, job = begun(replays, name, "--rate", "50", count=10, crash=point)
    pause = replays.start("replay", "pause", job)
    assert process.wait(30) == KILLED
    replays.age()
    assert pause.wait(60) == 0, pause.stdout.read()
    assert replays.job(job)["state"] == "paused"
    sent = replays.job(job)["marked"]
    assert 0 < sent < 200
    assert replays.run("replay", "rate", job, "none")[0] == 0
    assert replays.run("replay", "resume", job)[0] == 0
    check_once(replays.reader, name, range(200))


@pytest.mark.parametrize("point", ["90", "91", *numbers("replay-cancel"), "95", "96"])
def test_killed_while_it_is_cancelled(replays, point):
    name = f"cancelling{point}"
    replays.insert(name, 200, replays.target)
    process, job = begun(replays, name, "--rate", "50", count=10)
    process.kill()
    process.wait()
    replays.age()
    code = replays.run("replay", "cancel", job, crash=point)[0]
    # Nothing is left to mark where the runner had marked all that it sent; the other points are on every way.
    assert code == KILLED or (code == 0 and point in ("90", "91"))
    replays.age()
    assert replays.run("replay", "cancel", job)[0] in (0, 4)
    row = replays.job(job)
    assert row["state"] == "cancelled" and 0 < row["marked"] < 200
    assert replays.states(name) == {"replayed": row["marked"], "dead": 200 - row["marked"]}
    check_once(replays.reader, name, range(row["marked"]))
    assert replays.replay(name)[0] == 0
    check_once(replays.reader, name, range(200))
    replays.check_counts()


def test_one_that_waits_has_no_query_open(replays):
    """It would keep retention from dropping a day. The second window is more than a socket holds."""
    replays.insert("ahead", 8001, replays.target)
    replays.query("update dead_letter set payload = decode(repeat('00', 60000000), 'hex') where task_id = 'ahead-8000'")
    process, job = begun(replays, "ahead", "--canary", "5", "--canary-wait", "100s")
    wait_for(lambda: replays.job(job)["canary_at"], "the canaries to be out", 60)
    reading = "state = 'active' and application_name = 'reprise replay rows' and datname = current_database()"
    wait_for(lambda: not replays.query(f"select pid from pg_stat_activity where {reading}"), "the query to end", 20)
    assert replays.run("replay", "cancel", job, "--reason", "test")[0] == 0
    assert process.wait(60) == 5


@pytest.mark.parametrize("point", numbers("replay-canary"))
def test_killed_when_the_canaries_are_out(replays, point):
    replays.insert("canaries", 50, replays.target)
    assert replays.replay("canaries", "--canary", "5", "--canary-wait", "1s", crash=point)[0] == KILLED
    job = replays.job()
    assert job["marked"] == 5 and job["canary_at"] is not None
    replays.age()
    assert replays.run("replay", "resume", job["job"])[0] == 0
    assert replays.job(job["job"])["canary_at"] == job["canary_at"]  # their time goes on
    check_once(replays.reader, "canaries", range(50))


def test_others_go_in_the_place_of_canaries_that_are_refused(replays):
    """A canary that was never sent says nothing of what would become of the rest."""
    replays.insert("few", 60, replays.target, none_every=2)
    process, job = begun(replays, "few", "--canary", "5", "--canary-wait", "100s")
    wait_for(lambda: replays.job(job)["canary_at"], "the canaries to be out", 60)
    row = replays.job(job)
    assert row["marked"] - row["refused"] == 5 and row["refused"] in (4, 5), row
    assert replays.run("replay", "cancel", job)[0] == 0
    process.wait(60)
    assert replays.states("few") == {"replayed": 5, "dead": 55}


@pytest.mark.parametrize("point", [*numbers("replay-stop", "replay-cancel"), "95", "96"])
def test_killed_while_it_stops(replays, point):
    """A canary came back dead, and the job is stopped whoever has it."""
    name = f"stopping{point}"
    replays.insert(name, 50, replays.target)
    process, job = begun(replays, name, "--canary", "5", "--canary-wait", "100s", count=5, crash=point)
    replays.query(
        "insert into dead_letter (dead_at, record_topic, record_partition, record_offset, reason, replay_job, task_id)"
        " values (now(), 'back', 0, %s, 'EXHAUSTED', %s, 'back')", int(point), job,
    )  # fmt: skip
    assert process.wait(60) == KILLED
    replays.age()
    assert replays.run("replay", "cancel", job)[0] in (0, 4)
    row = replays.job(job)
    assert (row["state"], row["marked"]) == ("stopped", 5) and "came back dead" in row["outcome"]
    check_once(replays.reader, name, range(5))
    assert replays.states(name) == {"replayed": 5, "dead": 45}
    replays.check_counts()


def test_a_yes_is_to_no_more_than_was_shown(replays):
    replays.insert("shown", 20, replays.target)
    replays.query(
        "insert into dead_letter_state (dead_at, id, status, reason, task_type, fingerprint)"
        " select dead_at, id, 'discarded', reason, task_type, fingerprint from dead_letter"
        " where task_id like 'shown-1%'"
    )
    text = replays.run("dlq", "replay", "--task", "shown-*", "--where", "status != replayed", "--dry-run")[1]
    assert "To replay:  20 dead letters" in text and "Discarded:  11 of them were\n" in text, text
    jobs = replays.query("select count(*) from replay_job")
    code, text = answered(
        b"y\n", replays.pipeline.config_file, "replay", "--task", "shown-*", "--reason", "test",
        meanwhile=lambda: replays.query("delete from dead_letter_state where status = 'discarded'"),
    )  # fmt: skip
    assert code == 1 and "nothing was done: 9 dead letters were shown, and now there are 20" in text
    assert replays.query("select count(*) from replay_job") == jobs
    assert replays.states("shown") == {"dead": 20}


def test_two_at_once_share_nothing(replays):
    replays.insert("two", 3000, replays.target)
    both = [
        replays.start("dlq", "replay", "--task", "two-*", "--reason", "test", "--yes", "--order", order)
        for order in ("oldest", "newest", "key")
    ]
    codes = sorted(process.wait(120) for process in both)
    assert codes[0] == 0 and set(codes) <= {0, 4}, codes
    check_once(replays.reader, "two", range(3000))
    replays.check_counts()


def test_a_runner_that_stood_still_is_fenced(replays):
    """It stops in the middle of a transaction, or just before one, and wakes up when another has gone on."""
    for point in ("88:3:S", "8:3:S", "89:3:S", "86:1:S", "90:2:S"):
        name = "still" + point.replace(":", "")
        replays.insert(name, 300, replays.target, none_every=50)
        # However slow it goes, no batch has more than half a second's worth: there are three at least.
        process, job = begun(replays, name, "--rate", "200", crash=point)
        state = pathlib.Path(f"/proc/{process.pid}/stat")
        wait_for(lambda: state.read_text().split()[2] in "Tt", "the runner to stand still", 60)
        replays.age()
        assert replays.run("replay", "resume", job)[0] == 5
        process.send_signal(18)  # SIGCONT
        text = process.communicate(timeout=60)[0]
        assert process.returncode == 5 and "taken over" in text, text
        assert replays.job(job)["state"] == "done"
        check_once(replays.reader, name, [n for n in range(300) if n % 50])
        assert replays.states(name) == {"replayed": 294, "dead": 6}
    replays.check_counts()


def test_pause_resume_rate_and_cancel_from_another_terminal(replays):
    replays.insert("remote", 400, replays.target)
    process, job = begun(replays, "remote", "--rate", "20", count=5)
    assert "running" in replays.run("replay", "list", "--open")[1]
    assert replays.run("replay", "resume", job)[0] == 1  # it runs
    assert replays.run("replay", "pause", job, "--as", "somebody")[0] == 0
    assert process.wait(30) == 5
    sent = replays.job(job)["marked"]
    assert 0 < sent < 200 and replays.states("remote") == {"replayed": sent, "replaying": 400 - sent}
    assert replays.replay("remote")[0] == 4  # the job still has them
    process = replays.start("replay", "resume", job)
    wait_for(lambda: replays.job(job)["heartbeat_at"], "the job to run", 60)
    assert replays.run("replay", "rate", job, "200")[0] == 0
    wait_for_sent(replays, job, sent + 60)
    assert replays.run("replay", "cancel", job, "--reason", "enough")[0] == 0
    assert process.wait(30) == 5
    sent = replays.job(job)["marked"]
    assert replays.states("remote") == {"replayed": sent, "dead": 400 - sent}
    check_once(replays.reader, "remote", range(sent))
    text = replays.run("replay", "show", job)[1]
    assert "cancelled" in text and f"{sent}" in text
    shown = json.loads(replays.run("replay", "show", job, "--format", "json")[1])
    assert (shown["state"], shown["sent"], shown["total"]) == ("cancelled", sent, 400)
    audit = replays.query(
        "select action, actor, reason from audit where detail->>'job' = %s order by id", job
    )
    actions = [action for action, _, _ in audit]
    assert actions == ["replay", "replay-pause-wished", "replay-resume", "replay-rate",
                       "replay-cancel-wished", "replay-cancelled"]  # fmt: skip
    assert audit[1][1] == "somebody" and audit[4][2] == "enough"
    assert replays.run("replay", "pause", job)[0] == 4
    assert replays.run("replay", "show", "251111-000000")[0] == 4


def test_ctrl_c_pauses(replays):
    replays.insert("interrupted", 200, replays.target)
    process, job = begun(replays, "interrupted", "--rate", "40", count=10)
    process.send_signal(2)
    text = process.communicate(timeout=30)[0]
    assert process.returncode == 5 and f"reprise replay resume {job}" in text
    sent = replays.job(job)["marked"]
    check_once(replays.reader, "interrupted", range(sent))
    assert replays.run("replay", "rate", job, "none")[0] == 0
    assert replays.run("replay", "resume", job)[0] == 0
    check_once(replays.reader, "interrupted", range(200))


def test_the_rate_holds(replays):
    replays.insert("paced", 300, replays.target)
    began = time.monotonic()
    assert replays.replay("paced", "--rate", "100")[0] == 0
    took = time.monotonic() - began
    assert took >= 2.4, took
    times = sorted(r.timestamp_ms for r in check_times(replays.reader, "paced"))
    # No second has more than its share, but for what was saved up and the brokers' clock.
    for i, t in enumerate(times):
        assert sum(1 for u in times[i:] if u < t + 1000) <= 170


def check_times(reader, name):
    check_once(reader, name, range(300))
    return [r for r in reader.records if header(r, "reprise-task-id").startswith(f"{name}-")]


def test_where_kafka_forgot_the_marks_decide(replays):
    replays.insert("forgot", 200, replays.target)
    process, job = begun(replays, "forgot", "--rate", "100", count=20)
    assert replays.run("replay", "pause", job)[0] == 0
    process.wait(30)
    group = f"reprise-replay-{job}"
    replays.pipeline.kafka.admin.delete_consumer_groups([group])[group].result()
    assert replays.run("replay", "resume", job)[0] == 0
    check_once(replays.reader, "forgot", range(200))


def test_what_retention_dropped_meanwhile_is_refused(replays):
    replays.insert("dropped", 100, replays.target)
    process, job = begun(replays, "dropped", "--rate", "50", count=10)
    assert replays.run("replay", "pause", job)[0] == 0
    process.wait(30)
    replays.query("delete from dead_letter where task_id = 'dropped-99'")
    code, text = replays.run("replay", "resume", job)
    assert code == 5 and "1 refused" in text and "does not have it any more" in text
    check_once(replays.reader, "dropped", range(99))


def test_all_that_may_be_large_counts_for_a_window(replays):
    replays.insert("heavy", 3, replays.target)
    replays.query(
        "update dead_letter set error_message = repeat('e', 50000), header_keys = '{large}',"
        " header_values = array[decode(repeat('00', 70000), 'hex')], cause_classes = '{c}',"
        " cause_messages = array[repeat('c', 30000)] where task_id like 'heavy-%'"
    )
    code, text = replays.replay("heavy")
    assert code == 0, text
    sizes = replays.query("select size from replay_item where task_id like 'heavy-%'")
    assert len(sizes) == 3 and min(sizes) >= (150_000,)


def test_what_cannot_be_sent_is_refused_and_stays_dead(replays):
    small = replays.pipeline.create_target("small", max_message_bytes=2000)
    replays.insert("large", 60, small)
    replays.query(
        "update dead_letter set payload = convert_to(repeat('x', 5000), 'UTF8')"
        " where task_id in ('large-10', 'large-11', 'large-50')"
    )
    replays.query("update dead_letter set target = %s where task_id = 'large-20'", "elsewhere")
    replays.query("update dead_letter set target = %s where task_id = 'large-21'", f"{replays.prefix}failed-tasks")
    replays.query("update dead_letter set target = %s where task_id = 'large-22'", replays.pipeline.target("gone"))
    code, text = replays.replay("large")
    assert code == 5 and "54 of 60 sent, 6 refused" in text, text
    for why in ("max.message.bytes", "targets.allow does not allow", "there is no topic"):
        assert why in text
    reader = replays.pipeline.reader(small)
    check_once(reader, "large", sorted(set(range(60)) - {10, 11, 50, 20, 21, 22}))
    assert replays.states("large") == {"replayed": 54, "dead": 6}
    code, text = replays.replay("large", "--dry-run")
    assert code == 0 and f"Refused:    at least 3: larger than the 2000 bytes that topic {small} takes\n" in text, text
    assert text.count("Refused:    1: ") == 3, text
    code, text = replays.replay("large")
    assert code == 1  # again none of them


def test_what_topics_do_not_take_is_counted_before(replays):
    """By the target of the task, of the policy or of the command line, and of few as of all."""
    small = replays.pipeline.create_target("smaller", max_message_bytes=2000)
    replays.insert("big", 9, small)
    replays.insert("big-elsewhere", 2, replays.target)
    replays.query("update dead_letter set payload = convert_to(repeat('x', 3000), 'UTF8') where task_id like 'big-%%'"
                  " and task_id not in ('big-1', 'big-2')")  # fmt: skip
    said = f"larger than the 2000 bytes that topic {small} takes"
    assert f"Refused:    at least 7: {said}" in replays.replay("big", "--dry-run")[1]
    assert f"Refused:    at least 9: {said}" in replays.replay("big", "--dry-run", "--send-to", small)[1]
    assert f"Refused:    at least 2: {said}" in replays.replay("big", "--dry-run", "--limit", "6")[1]
    assert "Refused" not in replays.replay("big", "--dry-run", "--send-to", replays.target)[1]
    (big,), (fits,) = replays.query("select id from dead_letter where task_id in ('big-0', 'big-1') order by task_id")
    text = replays.run("dlq", "show", str(big))[1]
    assert f"{small}: takes 2000 bytes, less than the payload has" in text and "dlq replay" not in text, text
    assert f"{small}: is there" in replays.run("dlq", "show", str(fits))[1]


def test_what_does_not_go_to_the_router_is_counted_before(replays):
    replays.insert("lost", 4, replays.target)
    replays.query("update dead_letter set task_id = null, task_type = null, attempt = null, error_class = null,"
                  " error_message = null, failed_at = null, payload = null, category = 'LOST', reason = 'UNDECODABLE',"
                  " raw = case when task_id < 'lost-2' then '\\xff'::bytea end where task_id like 'lost-%%'"
                  )  # fmt: skip
    code, text = replays.run("dlq", "replay", "--where", "reason = undecodable", "--dry-run", "--to", "router")
    assert code == 0 and "Refused:    2: the dead letter itself could not be decoded" in text, text


def test_what_is_given_back_is_as_it_was(replays):
    """Also by which job it was sent before, and that it came back."""
    replays.insert("restored", 3, replays.target)
    assert replays.replay("restored")[0] == 0
    job = replays.job()["job"]
    replays.query("update dead_letter_state set came_back_at = now() where job = %s", job)
    sql = "select task_id, status, job, came_back_at from archive where task_id like 'restored-%%' order by 1"
    before = replays.query(sql)
    assert [row[1:3] for row in before] == [("replayed", job)] * 3 and all(row[3] for row in before)
    assert replays.replay("restored", "--status", "replayed", "--detach")[0] == 0
    assert replays.run("replay", "cancel", replays.job()["job"])[0] == 0
    assert replays.query(sql) == before
    replays.query("update dead_letter set target = 'elsewhere' where task_id like 'restored-%%'")
    code, text = replays.replay("restored", "--status", "replayed")
    assert code == 1 and "3 refused" in text, text
    assert replays.query(sql) == before
    replays.check_counts()


def test_dry_run_changes_nothing(replays):
    replays.insert("dry", 50, replays.target, none_every=10)
    code, text = replays.replay("dry", "--dry-run", "--rate", "10", "--canary", "5")
    assert code == 0, text
    for part in ("50 dead letters", "5s at 10 a second", "5 canaries", "there is no topic", "dry-0"):
        assert part in text
    assert replays.states("dry") == {"dead": 50}
    code, text = replays.run("dlq", "replay", "--task", "dry-*", "--reason", "x")
    assert code == 6 and replays.states("dry") == {"dead": 50}  # nobody said yes
    assert replays.run("dlq", "replay", "--task", "dry-*", "--yes")[0] == 2  # no reason
    assert replays.run("dlq", "replay", "--reason", "x", "--yes")[0] == 2  # no filter


@pytest.mark.parametrize(
    "arguments",
    [
        ["--rate", "0"], ["--rate", "x"], ["--canary", "-1"], ["--canary-share", "2"], ["--order", "up"],
        ["--to", "moon"], ["--set-header", "reprise-attempt=1"], ["--set-header", "x"], ["--send-to", "a/b"],
        ["--canary-wait", "1m"], ["--jq", "."*3 + "("],
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(replays, arguments):
    replays.insert("meant", 1, replays.target)
    code, text = replays.replay("meant", *arguments)
    assert code == 2, text


def test_order_limit_and_changes(replays):
    replays.insert("changed", 40, replays.target)
    other = replays.pipeline.create_target("other", partitions=1)
    code, text = replays.replay(
        "changed", "--order", "newest", "--limit", "15", "--send-to", other,
        "--set-header", "fixed=yes", "--set-header", "trace=new",
        "--jq", '.key = "k-" + .task.id | .payload |= ascii_upcase',
    )  # fmt: skip
    assert code == 0, text
    reader = replays.pipeline.reader(other)
    check_once(reader, "changed", range(25, 40))
    record = reader.records[0]
    assert header(record, "reprise-task-id") == "changed-39"
    assert (record.key, record.value) == (b"k-changed-39", b"PAYLOAD 39")
    assert [h for h in record.headers if not h[0].startswith("reprise-")] == [("fixed", b"yes"), ("trace", b"new")]
    assert replays.states("changed") == {"replayed": 15, "dead": 25}


def test_what_was_replayed_often_is_held_back(replays):
    replays.insert("often", 3, replays.target)
    for _ in range(3):
        assert replays.replay("often", "--status", "dead,replayed")[0] == 0
    code, text = replays.replay("often", "--status", "dead,replayed", "--dry-run")
    assert code == 4 and "3 that were replayed 3 times" in text, text
    assert replays.replay("often", "--status", "dead,replayed", "--max-replays", "4")[0] == 0
    assert replays.query("select distinct replays from archive where task_id like 'often-%%'") == [(4,)]
