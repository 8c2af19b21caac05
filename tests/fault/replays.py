# SPDX-License-Identifier: Apache-2.0
"""Replay jobs of a pipeline under faults: they are begun, disturbed, and at the end brought to theirs."""

import os
import signal
import subprocess
import time

import psycopg
from cluster import transactional_id
from history import ENDED_JOBS, Item, Replay
from pipeline import BUILD
from psycopg.rows import dict_row

# What is dead for these reasons; what has no target is refused again and again.
REASONS = "exhausted,non_retryable,no_target"
ITEMS = """
select j.job, j.state, j.wish, j.marked, coalesce(j.options->>'to', 'target') as "to", i.n, i.refused, i.task_id,
       d.record_partition, d.record_offset, j.total, j.refused as n_refused,
       (select array_agg(action order by id) from audit
         where detail->>'job' = j.job and action in ('replay', 'replay-done')) as audit
  from replay_job as j left join replay_item as i using (job)
  left join dead_letter as d on d.dead_at = i.dead_at and d.id = i.id
 order by j.created_at, j.job, i.n
"""


class Replays:
    """The jobs of a pipeline. What the command line says is only looked at for crashes: whatever it
    could not do, since servers were away, is done at the end."""

    def __init__(self, pipeline):
        self.pipeline = pipeline
        self.begun = 0
        self.processes, self.killed = [], set()
        self.cancelled = set()  # jobs

    def spawn(self, *arguments):
        command = [BUILD / "bin/reprise", *map(str, arguments), "--config", self.pipeline.config_file]
        path = self.pipeline.folder / f"replay-{len(self.processes)}.log"
        with open(path, "wb") as log:
            log.write(f"-- {' '.join(map(str, arguments))}\n".encode())
            log.flush()
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *command], env=os.environ,
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
        process.log = path
        self.processes.append(process)
        return process

    def begin(self, *options):
        """A process that plans a job and, unless the archiver is to, runs it; and its name."""
        self.begun += 1
        name = f"fault-{self.begun}"
        return name, self.spawn(
            "dlq", "replay", "--dead-for", REASONS, "--as", name, "--reason", "tests", "--yes", *options
        )

    def query(self, sql, **values):
        """None while the database is away."""
        try:
            with psycopg.connect(self.pipeline.dsn, connect_timeout=5, row_factory=dict_row) as connection:
                return connection.execute(sql, values).fetchall()
        except psycopg.OperationalError:
            return None

    def job_of(self, name):
        rows = self.query("select job from replay_job where created_by = %(name)s", name=name)
        return rows[0]["job"] if rows else None

    def pids(self):
        return [p.pid for p in self.processes if p.poll() is None]

    def kill(self, process):
        if process.poll() is None:
            self.killed.add(process.pid)
            process.kill()
            process.wait()

    def crashes(self):
        return [
            f"a replay ended by signal {-p.returncode}: {p.args[4:]}"
            for p in self.processes
            if p.poll() is not None and p.returncode < 0 and p.pid not in self.killed
        ]

    def runner_of(self, job):
        """Who runs it, where anybody does; None where it is not under way."""
        sql = "select runner from replay_job where job = %(job)s and state <> all(%(states)s)"
        rows = self.query(sql, job=job, states=list(ENDED_JOBS))
        return rows[0]["runner"] or "" if rows else None

    def open_jobs(self):
        rows = self.query("select job from replay_job where state <> all(%(states)s)", states=list(ENDED_JOBS))
        return None if rows is None else [row["job"] for row in rows]

    def finish(self, deadline):
        """One step on the way to the end of all jobs: True when they have come there."""
        running = self.pids()
        jobs = self.open_jobs()
        if jobs is None or time.monotonic() > deadline:
            return jobs == []
        for job in [] if running else jobs:
            self.spawn("replay", "rate", job, "none").wait(60)
            self.spawn("replay", "resume", job)
        return not running and not jobs

    def history(self):
        """What the database says of all jobs."""
        replays = {}
        for row in self.query(ITEMS):
            job = row["job"]
            told = (row["total"], row["marked"], row["n_refused"], row["audit"])
            new = Replay(job, row["to"], row["state"], [], row["wish"] == "cancel" and job in self.cancelled, told)
            replay = replays.setdefault(job, new)
            if row["n"] is not None:
                place = (row["record_partition"], row["record_offset"])
                refused = row["refused"] is not None
                sent = not refused and row["n"] < row["marked"]
                replay.items.append(Item(row["task_id"], place, sent, refused))
        return list(replays.values())

    def close(self):
        for process in self.processes:
            self.kill(process)


def replay(h, rng):
    """A job, run by a terminal or by the archiver, which is then left alone, or disturbed."""
    disturb = rng.choice([leave, kill_runner, interrupt, pause, stand_still, cancel])
    detached = rng.random() < 0.4 and disturb not in (interrupt, stand_still)
    to = rng.choice(["target", "target", "router"])
    options = ["--to", to, "--limit", rng.randint(20, 80), *["--detach"] * detached]
    # Without a limit it would be over before anybody disturbs it.
    if (rate := rng.choice([None, 4, 20] if disturb is leave else [4, 10])) is not None:
        options += ["--rate", rate]
    name, process = h.replays.begin(*options)
    if disturb is not leave:
        h.tried[name_of(disturb)] += 1
    found = []

    def begun():
        found[:] = filter(None, [h.replays.job_of(name)])
        return found or process.poll() is not None

    yield h.unless(begun, 15)
    yield rng.uniform(0, 3)
    if found:
        if disturb is not leave:
            h.met[name_of(disturb)] += h.replays.runner_of(found[0]) is not None
        yield from disturb(h, rng, found[0], None if detached else process)


def name_of(disturb):
    return f"replay: {disturb.__name__}"


def leave(h, rng, job, process):
    """It goes on beside the faults that follow."""
    return iter(())


def kill_runner(h, rng, job, process):
    if process is not None:
        h.replays.kill(process)
        return
    archivers = [s for s in h.running() if s.name == "archiver"]
    if archivers:
        archiver, runner = rng.choice(archivers), h.replays.runner_of(job) or ""
        archiver = next((s for s in archivers if runner.startswith(f"{transactional_id(s)}/")), archiver)
        h.victims.append(archiver)
        archiver.kill()
        yield rng.uniform(0, 2)
        archiver.start()


def interrupt(h, rng, job, process):
    """Ctrl-C pauses; somebody hands it to the archiver."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    yield h.unless(lambda: process.poll() is not None, 20)
    h.replays.spawn("replay", "resume", job, "--detach")


def pause(h, rng, job, process):
    asking = h.replays.spawn("replay", "pause", job)
    yield h.unless(lambda: asking.poll() is not None, 20)
    yield rng.uniform(0, 2)
    h.replays.spawn("replay", "resume", job)


def stand_still(h, rng, job, process):
    """Longer than a runner may be silent; another one goes on meanwhile."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGSTOP)
    yield rng.uniform(15, 18)
    h.replays.spawn("replay", "resume", job)
    yield rng.uniform(0, 2)
    process.send_signal(signal.SIGCONT)


def cancel(h, rng, job, process):
    h.replays.cancelled.add(job)
    h.replays.spawn("replay", "cancel", job)
    yield rng.uniform(0, 1)
