# SPDX-License-Identifier: Apache-2.0
"""Runs a pipeline under load while faults come and go; then everything is counted."""

import collections
import concurrent.futures
import contextlib
import datetime
import os
import pathlib
import random
import re
import subprocess
import time

from checker import Judge, judge
from cluster import library_of_faketime
from faults import FAULTS, IN_VAIN, LURKING, add_worker, cut_spill, fill_disk, remove_worker, step_clock
from history import keep as keep_history
from load import KINDS, RESCUED, Load, policies
from pipeline import Pipeline, now_ms
from replays import Replays

TIERS = [
    {"tiers": ["1s", "3s"], "tiers_retired": ["2s", "5s"]},
    {"tiers": ["1s", "2s", "5s"], "tiers_retired": ["3s"]},
]
WORKERS = {"router": 2, "delayer": 2, "archiver": 2}
MOST = 3  # processes of each service
FEW = 3  # records in a batch of every other one: it is full, and the next is filled beside it
READY_S = 120
DRAIN_S = 150


class Harness:
    def __init__(self, seed, relay, kafka, postgres, rate, guarantee="exactly-once"):
        self.seed, self.rate, self.guarantee = seed, rate, guarantee
        self.relay, self.kafka, self.postgres = relay, kafka, postgres
        self.tiers, self.counts, self.complaints = 0, collections.Counter(), []
        self.tried, self.met = collections.Counter(), collections.Counter()  # of those that lie in wait, and for something
        self.active, self.victims, self.drawn, self.history = [], [], [], None
        self.pool = concurrent.futures.ThreadPoolExecutor(4)
        config = {
            "kafka": {
                "bootstrap.servers": kafka.relayed,
                "consumer": {"session.timeout.ms": 4000, "heartbeat.interval.ms": 500},
            },
            "guarantee": guarantee,
            "router": {"workers": 2},
            "delayer": {"workers": 2, "memory": "2MiB"},
            **TIERS[0],
        }
        # Names decide in which partitions of the brokers' own topics groups and transactions are kept.
        suffix = self.rng_of("names").randbytes(3).hex()
        self.pipeline = Pipeline(kafka, postgres, f"seed-{seed}", config, 6, folder="fault", suffix=suffix)
        self.pipeline.config["policies"] = policies(self.pipeline)
        self.pipeline.write_config(self.pipeline.config_file)
        with contextlib.ExitStack() as undo:
            self.spill = self.mount(undo)
            try:
                self.begin()
            except BaseException:
                self.pipeline.close()
                raise
            self.undo = undo.pop_all()

    def begin(self):
        self.relay.pids = self.pids
        self.unable = {
            *[fill_disk, cut_spill] * (self.spill is None), *[step_clock] * (library_of_faketime() is None)
        }  # fmt: skip
        self.left_out = [fault.__name__ for fault in FAULTS if fault in self.unable]
        if self.left_out:
            print(f"left out, since this machine cannot: {', '.join(self.left_out)}", flush=True)
        self.load = Load(self.pipeline, self.rng_of("load"), KINDS | RESCUED)
        self.replays = Replays(self.pipeline)
        for name, count in WORKERS.items():
            for _ in range(count):
                service = self.pipeline.add(name)
                self.configure(service)
                service.start()
        self.owed, self.last = 0.0, time.monotonic()

    def mount(self, undo):
        """A small disk for the spill files; None where we may not have one."""
        folder = self.pipeline.folder / "spill"
        folder.mkdir()
        as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
        command = [*as_root, "mount", "-t", "tmpfs", "-o", "size=8m,mode=0777", "tmpfs", folder]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
        except FileNotFoundError:  # no sudo
            return None
        if done.returncode != 0:
            return None
        undo.callback(subprocess.run, [*as_root, "umount", "-l", folder], stdin=subprocess.DEVNULL)
        return folder

    def close(self):
        with self.undo:
            self.relay.heal()
            self.replays.close()
            faults = self.pipeline.close()
            self.relay.pids = lambda: []
            self.pool.shutdown()
        return faults

    # What the faults need.

    now_ms = staticmethod(now_ms)

    def pids(self):
        services = [s.process.pid for s in list(self.pipeline.services) if s.running()]
        return services + self.replays.pids()

    def running(self):
        return [s for s in self.pipeline.services if s.running() and s not in self.victims]

    def servers_away(self):
        """Whether a broker or the database was, in this cycle."""
        return any(FAULTS[fault][1] in ("brokers", "network", "postgres") for fault in self.drawn)

    def ahead_ms(self, service, since_ms):
        """How far its clock was ahead when it last wrote into its log; None where that was before."""
        lines = re.findall(r"^(\S+)Z \w+ ", service.log.read_text(errors="replace"), re.MULTILINE)
        if not lines or (written_ms := service.log.stat().st_mtime * 1000) < since_ms:
            return None
        said = datetime.datetime.fromisoformat(lines[-1]).replace(tzinfo=datetime.timezone.utc)
        return said.timestamp() * 1000 - written_ms

    def wanting(self):
        """The kinds of services of which there may be one more."""
        names = [s.name for s in self.pipeline.services]
        return [name for name in WORKERS if names.count(name) < MOST]

    def one_too_many(self):
        """Whether there is a service that another one can do without."""
        return len(self.pipeline.services) > len(WORKERS)

    def choose(self, rng, *names):
        """A running service that no other fault of this cycle has."""
        service = rng.choice([s for s in self.running() if not names or s.name in names])
        self.victims.append(service)
        return service

    def background(self, work):
        """A condition: the work, on a thread of its own, is done."""
        future = self.pool.submit(work)

        def done():
            if future.done():
                future.result()
            return future.done()

        return done

    def unless(self, condition, seconds):
        """A condition: that one, or so much time has passed."""
        deadline = time.monotonic() + seconds
        return lambda: time.monotonic() > deadline or condition()

    def spills_said(self, words):
        """How often the delayers said so; " spill-failed " again only once a spill has worked."""
        logs = self.pipeline.folder.glob("delayer-*.log")
        return sum(log.read_bytes().count(words.encode()) for log in logs)

    def spill_files(self):
        """They have no names, but to the kernel."""
        for service in [s for s in self.running() if s.name == "delayer"]:
            for fd in pathlib.Path(f"/proc/{service.process.pid}/fd").glob("*"):
                with contextlib.suppress(FileNotFoundError):
                    if os.readlink(fd).startswith(str(self.spill)):
                        yield fd

    def complain(self, text):
        self.complaints.append(text)
        print(f"\n  {text}", flush=True)

    def configure(self, service):
        section = {"listen": f"127.0.0.1:{service.port}"}
        if service.number % 2 == 1:
            section["batch"] = FEW
        if service.name == "delayer" and self.spill is not None:
            section["spill_dir"] = str(self.spill)
        self.pipeline.write_config(service.config, {service.name: section})

    def reconfigure(self):
        self.pipeline.config |= TIERS[self.tiers]
        self.pipeline.write_config(self.pipeline.config_file)
        for service in self.pipeline.services:
            self.configure(service)

    # The course of a run.

    def step(self):
        """The load goes on, and so do the faults under way."""
        now = time.monotonic()
        self.owed = min(self.owed + (now - self.last) * self.rate, self.rate)
        self.last = now
        while self.owed >= 1:
            self.load.emit()
            self.owed -= 1
        self.load.handle(0.03)
        for course in list(self.active):
            if course.condition():
                course.go_on()
            if course.ended:
                self.active.remove(course)

    def run_for(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.step()

    def rng_of(self, *what):
        """A source of choices that depends on the seed and this alone: the load draws as often as time lets it."""
        return random.Random("/".join(map(str, (self.seed, *what))))

    def draw(self, rng):
        """One fault or two that do not exclude each other."""
        first = self.draw_one(rng, set())
        if first is None:
            raise RuntimeError("of the faults to draw from, none can happen here")
        two = rng.random() < 0.3
        second = self.draw_one(rng, {FAULTS[first][1]} - {None}) if two else None
        return [first] if second is None else [first, second]

    def draw_one(self, rng, taken):
        """None: only what excludes it is left."""
        able = {
            fault: weight / (1 + 2 * self.counts[fault.__name__])  # many kinds in few cycles
            for fault, (weight, kind) in FAULTS.items()
            if kind not in taken
            and fault not in self.unable
            and (fault is not add_worker or self.wanting())
            and (fault is not remove_worker or self.one_too_many())
        }
        return rng.choices(list(able), list(able.values()))[0] if able else None

    def cycle(self, number):
        self.victims, rng = [], self.rng_of(number)
        faults = self.drawn = self.draw(rng)
        began = time.monotonic()
        names = " + ".join(fault.__name__ for fault in faults)
        print(f"cycle {number}: {names}", end="", flush=True)
        for fault in faults:
            self.counts[fault.__name__] += 1
        self.tried.update(fault.__name__ for fault in faults if fault.__name__ in LURKING)
        self.active = [Course(fault(self, self.rng_of(number, i))) for i, fault in enumerate(faults)]
        while self.active:
            self.step()
        self.settle()
        print(f" {time.monotonic() - began:.1f} s", flush=True)
        self.run_for(rng.uniform(0.3, 1))

    def settle(self, meanwhile=None):
        """Until all services are ready again; one that ended by itself has failed."""
        deadline, waiting = time.monotonic() + READY_S, list(self.pipeline.services)
        while waiting and time.monotonic() < deadline:
            (meanwhile or self.step)()
            for service in list(waiting):
                if not service.running():
                    self.complain(f"{service.label} ended: {service.process.returncode}")
                    service.start()
                elif service.get("/readyz")[0] == 200:
                    waiting.remove(service)
        for service in waiting:
            self.complain(f"{service.label} not ready in {READY_S} s: {service.get('/readyz')[1]}")

    def finish_replays(self):
        """All jobs go on to their end; what the database has of them. Nobody looks at what a command could not do while
        servers were away, so where none has sent anything there is another one, while nothing is in its way."""
        replays = self.end_replays()
        if self.replays.begun and not any_sent(replays):
            self.replays.begin("--limit", 20)
            replays = self.end_replays()
            if not any_sent(replays):
                self.complain(f"{self.replays.begun} replays, and none sent anything")
        for crash in self.replays.crashes():
            self.complain(crash)
        return replays

    def end_replays(self):
        deadline = time.monotonic() + READY_S
        while not self.replays.finish(deadline) and time.monotonic() < deadline:
            self.load.handle(0.5)
        return self.replays.history()

    def check(self):
        """Lets all tasks end and judges; the faults, with what the services did wrong."""
        self.load.calm_ms = self.now_ms()
        replays = self.finish_replays()
        self.load.await_replayed(replays)
        self.load.finish(DRAIN_S)
        self.settle(self.load.handle)
        self.history = history = self.load.history(replays)
        for service in [s for s in self.pipeline.services if not s.running()]:
            self.complain(f"{service.label} ended: {service.process.returncode}")
        faults = judge(history)
        for name, times in sorted(self.tried.items()):
            print(f"{name}: {self.met[name]} of {times} met something")
        seen, of = Judge(history).waits()
        print(f"{seen} of {of} that must have waited in a tier were seen there")
        # How many has no bound: while brokers are away the delayers may be done with a tier before this reader is there.
        if seen * 50 < of:
            self.complain(f"only {seen} of {of} that must have waited in a tier were seen there")
        if history.may_double:
            doubled, of = Judge(history).doubled()
            print(f"{doubled} of {of} outcomes came more than once")
            if doubled > of // 10:  # in 25 cycles it was one of fifty
                self.complain(f"{doubled} of {of} outcomes came more than once")
        print(
            f"{len(self.load.plans)} tasks, {len(history.events)} events, {len(history.parked)} seen in tiers,"
            f" {len(history.deliveries)} re-invocations, {len(history.letters)} dead letters,"
            f" {sum(item.sent for job in replays for item in job.items)} sent by"
            f" {len(replays)} replays:"
            f" {len(faults)} faults, {len(self.complaints)} complaints",
            flush=True,
        )
        return history, faults


def in_vain(tried, met):
    """Those that lay in wait again and again, and never met anything."""
    return [f"{name} never met anything" for name, times in tried.items() if times >= IN_VAIN and met[name] == 0]


def unmet(must_meet, met, left_out):
    """What of those that must meet something did not; and that this machine cannot do all there is."""
    unmet = [f"{name} never met anything, and must" for name in must_meet if met[name] == 0]
    return unmet + [f"{name} was left out" for name in left_out if must_meet]


def any_sent(replays):
    return any(item.sent for job in replays for item in job.items)


class Course:
    """A fault under way."""

    def __init__(self, generator):
        self.generator, self.ended = generator, False
        self.go_on()

    def go_on(self):
        try:
            wait = next(self.generator)
        except StopIteration:
            self.ended = True
            return
        if callable(wait):
            self.condition = wait
        else:
            end = time.monotonic() + wait
            self.condition = lambda: time.monotonic() >= end

    def condition(self):
        return False


def tell(harness, lines=12):
    """What each service said last, and how far the archive is, where the folder itself is not to be had afterwards."""
    for label, text in harness.pipeline.logs().items():
        said = [line for line in text.splitlines() if " debug " not in line][-lines:]
        print(f"-- {label}", *said, sep="\n  ")
    print("-- archive_offset", *(harness.replays.query("select * from archive_offset") or []), sep="\n  ")


def keep(harness, history, faults):
    """What a failure leaves for whoever looks into it, the brokers' logs with it: who committed what, and
    who aborted it, is only told there."""
    folder = harness.pipeline.folder
    tell(harness)
    keep_history(history or harness.load.so_far(), folder)
    (folder / "faults.txt").write_text("\n".join(map(str, faults + harness.complaints)))
    copy = ["cp", "-r", "--sparse=always", harness.kafka.folder, folder / "kafka"]
    subprocess.run(copy, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return folder
