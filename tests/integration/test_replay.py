# SPDX-License-Identifier: Apache-2.0
"""Replay: each dead letter that is meant goes out once, whoever dies when."""

import collections
import json
import os
import pathlib
import re
import subprocess
import time

import psycopg
import pytest

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

    def query(self, sql, *values, **named):
        with psycopg.connect(self.pipeline.dsn, autocommit=True) as connection:
            cursor = connection.execute(sql, named or values or None)
            return cursor.fetchall() if cursor.description else None

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
        with psycopg.connect(self.pipeline.dsn, row_factory=psycopg.rows.dict_row) as connection:
            return connection.execute(f"select * from replay_job {where}", [of]).fetchone()

    def age(self):
        """As if some time had passed since a runner died."""
        self.query("update replay_job set heartbeat_at = now() - interval '1 minute' where heartbeat_at is not null")

    def states(self, name):
        rows = self.query("select status, count(*) from archive where task_id like %s group by 1", f"{name}-%")
        return dict(rows)

    def check_counts(self):
        """What the triggers counted is what is there."""
        counted = self.query("select status, sum(n) from dead_letter_count group by 1 having sum(n) <> 0 order by 1")
        there = self.query("select status, count(*) from archive group by 1 order by 1")
        assert [(s, int(n)) for s, n in counted] == there


def crash_points(*services):
    """The points of these kinds, by name, as the build has them; a build without any is not for this test."""
    listed = subprocess.run([BUILD / "bin/crash_points"], capture_output=True, text=True, check=True).stdout
    lines = [line.split() for line in listed.splitlines()]
    return [(int(n), name) for n, name, *kinds in lines if set(kinds) & set(services)]


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
    replays = Replays(new_pipeline, "replay")
    replays.target = replays.pipeline.create_target("handler")
    replays.reader = replays.pipeline.reader(replays.target)
    return replays


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


class Sweep:
    """Lets a replay die at each point in turn, and goes on with it until it is through."""

    def __init__(self, replays):
        self.replays, self.number, self.deaths = replays, 0, collections.Counter()

    def prepare(self, count=300):
        self.number += 1
        self.name = f"sweep{self.number}"
        self.replays.insert(self.name, count, self.replays.target, none_every=50)
        self.wanted = [n for n in range(count) if n % 50]
        self.refused = count - len(self.wanted)

    def begin(self, *arguments, crash):
        """Whether it died there."""
        code, text = self.replays.replay(self.name, "--rate", "3000", *arguments, crash=crash)
        assert code in (KILLED, 5), text
        self.deaths[crash] += code == KILLED
        self.job = self.replays.job()["job"]
        return code == KILLED

    def resume(self, crash=None):
        self.replays.age()
        code, text = self.replays.run("replay", "resume", self.job, crash=crash)
        assert code in ((KILLED, 5) if crash else (5,)), text
        return code == KILLED

    def check(self):
        job = self.replays.job(self.job)
        assert (job["state"], job["marked"], job["refused"]) == ("done", job["total"], self.refused)
        assert self.replays.states(self.name) == {"replayed": len(self.wanted), "dead": self.refused}
        check_once(self.replays.reader, self.name, self.wanted)


@pytest.mark.timeout(600)
def test_killed_at_each_point_it_sends_each_once(replays):
    """At the first and the second time that it comes there, and again at the same place when it is resumed."""
    sweep = Sweep(replays)
    points = crash_points("replay")
    assert len(points) >= 20
    for number, name in points:
        for nth in (1, 2):
            sweep.prepare()
            if sweep.begin(crash=f"{number}:{nth}"):
                job = replays.job(sweep.job)
                if job["finished_at"] is None:
                    sweep.resume(crash=f"{number}:1")
                    if replays.job(sweep.job)["finished_at"] is None:
                        sweep.resume()
            sweep.check()
    replays.check_counts()
    print(f"{sweep.deaths.total()} deaths at {len(points)} points")
    never = [name for number, name in points if not sweep.deaths[f"{number}:1"]]
    assert set(never) <= {"replay_canaries_out"}, f"it never came to {never}"
