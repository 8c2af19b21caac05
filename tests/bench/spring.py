# SPDX-License-Identifier: Apache-2.0
"""A peer: Spring Kafka with @RetryableTopic, tuned (spring/Retrying.java), beside reprise with a handler in
C (handler.c), on the same broker. Both have handlers that fail each task once and succeed when it comes
again a second later, and who writes down what they saw in a file of their own."""

import collections
import contextlib
import struct
import subprocess
import tempfile
import time

import java
from figures import in_turn
from stage import (
    HERE,
    Fill,
    processor_us,
    resident_mib,
    run,
    start,
    wait_for,
)

ENTRY = struct.Struct("<IIqq")  # failures, again, failed_us, again_us: as handler.c has it
PARTITIONS = 8
DELAY_S = 1
WARM_UP_RATE = 2000  # tasks a second, which both do without falling behind
JARS = "bench-spring-kafka-3.3.10"


class Ledger:
    """What the handlers saw of each task: it outlives those who are killed. The first tasks warm up."""

    def __init__(self, count, warm_up):
        self.file = tempfile.NamedTemporaryFile(prefix="reprise-ledger-")
        self.count, self.warm_up, self.size = count, warm_up, count + warm_up
        self.file.truncate(self.size * ENTRY.size)
        self.path = self.file.name

    def entries(self):
        """Of the tasks that count."""
        self.file.seek(self.warm_up * ENTRY.size)
        return list(ENTRY.iter_unpack(self.file.read()))

    def warm(self):
        self.file.seek(0)
        entries = ENTRY.iter_unpack(self.file.read(self.warm_up * ENTRY.size))
        return all(again > 0 for _, again, *_ in entries)

    def done(self):
        return sum(again > 0 for _, again, *_ in self.entries())

    def wait(self, count, timeout):
        """Looks seldom, since to look takes time of the processors that are measured."""
        wait_for(lambda: self.done() >= count or time.sleep(0.2), f"{count} tasks to come again", timeout)

    def rate(self):
        """Failures to re-invocations a second, from the first failure on: while the first ones wait, others fail."""
        entries = self.entries()
        begin, end = min(e[2] for e in entries), max(e[3] for e in entries)
        return self.count / ((end - begin) / 1e6)

    def late_ms(self):
        """From the millisecond in which the handler failed, which is all that due times know of it."""
        return sorted(e[3] / 1000 - e[2] // 1000 - 1000 * DELAY_S for e in self.entries())


class Reprise:
    """Router, delayer and the handler."""

    name = "reprise"

    def __init__(self, stage, pipeline, ledger):
        prefix = pipeline.prefix
        self.stage, self.pipeline, self.ledger, self.handler = stage, pipeline, ledger, None
        self.work, self.published = (
            pipeline.create_target(name, partitions=PARTITIONS) for name in ("work", "again")
        )
        self.groups = [(f"{prefix}handler", self.work), (f"{prefix}reprise-router", f"{prefix}failed-tasks"),
                       (f"{prefix}reprise-delayer", f"{prefix}retry-1s")]  # fmt: skip

    def start(self):
        began = time.monotonic()
        self.handler = start(
            "handler", bootstrap=self.stage.kafka.bootstrap, group=self.groups[0][0], work=self.work,
            again=self.published, source=f"{self.work},{self.published}", ledger=self.ledger.path,
            failures=f"{self.pipeline.prefix}failed-tasks", count=self.ledger.size,
        )  # fmt: skip
        self.services = self.pipeline.start("router", "delayer")
        self.wait_joined()
        return time.monotonic() - began

    def wait_joined(self):
        for group, topic in self.groups:
            self.stage.wait_joined(group, topic, 1)

    def pids(self):
        return [self.handler.pid, *(s.process.pid for s in self.services)]

    def kill(self):
        """The handler stays: what is ours is killed, while there still is something to route."""
        routed = self.services[0].metric("reprise_router_events_total")
        assert routed < self.ledger.size, "killed when all was routed"
        for service in self.services:
            service.kill()
        self.killed_at = self.ledger.done()
        for service in self.services:
            service.start()

    def stop(self):
        if self.handler is not None:
            self.handler.kill()
            self.handler.wait()


class Spring:
    name = "Spring"

    def __init__(self, stage, classpath, ledger):
        self.stage, self.ledger, self.classpath, self.process = stage, ledger, classpath, None
        self.work = stage.topic("spring-work", PARTITIONS)
        self.published = f"{self.work}.retry"
        self.group = f"{self.work}-group"

    def start(self):
        began = time.monotonic()
        settings = {"bootstrap": self.stage.kafka.bootstrap, "group": self.group, "work": self.work,
                    "ledger": self.ledger.path, "partitions": PARTITIONS, "concurrency": PARTITIONS}  # fmt: skip
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", "java", "-Xmx512m",
             *(f"-D{name}={value}" for name, value in settings.items()), "-cp", self.classpath, "Retrying"],
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        self.stage.wait_joined(self.group, self.work, PARTITIONS)
        self.stage.wait_joined(f"{self.group}.retry", self.published, PARTITIONS)
        return time.monotonic() - began

    def pids(self):
        return [self.process.pid]

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.killed_at = self.ledger.done()
        self.start()

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def published_twice(stage, topic, tasks):
    """How many records more than tasks there are in the topic of the re-invocations."""
    reader, keys = stage.reader(), collections.Counter()
    for low, _, read in stage.partitions(reader, topic):
        keys.update(message.key() for message in read(low))
    reader.close()
    assert len(keys) == tasks, f"{len(keys)} of {tasks} tasks were published"
    return sum(n - 1 for n in keys.values())


@contextlib.contextmanager
def ours(stage, count, warm_up):
    policies = {"default": {"max_attempts": 3, "backoff": {"fixed": f"{DELAY_S}s"}, "jitter": "0%"}}
    with stage.pipeline("peer", PARTITIONS, policies=policies) as pipeline:
        side = Reprise(stage, pipeline, Ledger(count, warm_up))
        try:
            yield side
        finally:
            side.stop()


@contextlib.contextmanager
def springs(stage, count, warm_up, classpath):
    side = Spring(stage, classpath, Ledger(count, warm_up))
    try:
        yield side
    finally:
        side.stop()
        stage.drop_topics()


def tasks_of(stage, side):
    """Those that count, as arguments of a fill."""
    return {"bootstrap": stage.kafka.bootstrap, "topic": side.work, "kind": "event",
            "count": side.ledger.count, "first": side.ledger.warm_up}  # fmt: skip


def warm_up(stage, side, **how):
    """Java compiles what has run for a while, in Spring and in the broker: that is nobody's speed."""
    run("fill", **tasks_of(stage, side) | {"count": side.ledger.warm_up, "first": 0}, **how)
    wait_for(lambda: side.ledger.warm() or time.sleep(0.2), "the first tasks to come again", 900)


def throughput(stage, side):
    """Of a backlog of tasks that all fail; and what it took."""
    began = side.start()
    idle = sum(map(resident_mib, side.pids()))
    warm_up(stage, side)
    fill = Fill(**tasks_of(stage, side))
    before = sum(map(processor_us, side.pids()))
    fill.release()
    side.ledger.wait(side.ledger.count, 900)
    used = sum(map(processor_us, side.pids())) - before
    resident = sum(map(resident_mib, side.pids()))
    return {"rate": side.ledger.rate(), "processor": used / side.ledger.count, "start": began,
            "idle": idle, "resident": resident}  # fmt: skip


def steady(stage, side, rate):
    """Lateness under a steady load."""
    side.start()
    warm_up(stage, side, rate=WARM_UP_RATE)  # small transactions are other code
    run("fill", **tasks_of(stage, side), rate=rate)
    side.ledger.wait(side.ledger.count, 300)
    late = side.ledger.late_ms()
    return {"p50": late[len(late) // 2], "p99": late[len(late) * 99 // 100]}


def killed(stage, side):
    """SIGKILL while a backlog is under way: some of it has come again, and some has not."""
    side.start()
    warm_up(stage, side)
    Fill(**tasks_of(stage, side)).release()
    wait_for(lambda: side.ledger.done() > side.ledger.count // 10, "tasks to come again", 900)
    side.kill()
    assert side.killed_at < side.ledger.count, "killed when all was done"
    side.ledger.wait(side.ledger.count, 900)
    time.sleep(DELAY_S + 2)  # what is doubled may come last
    handled = sum(max(0, again - 1) for _, again, *_ in side.ledger.entries())
    return {"published": published_twice(stage, side.published, side.ledger.size), "handled": handled}


def peer(stage, figures, options):
    jars = java.fetch(HERE / "spring/pom.xml", JARS)
    with tempfile.TemporaryDirectory(prefix="reprise-spring-") as out:
        classpath = java.compile(HERE / "spring/Retrying.java", jars, out)

        def both(number, count, measure, times=1):
            def of(side):
                with side as open_side:
                    return measure(stage, open_side)

            return in_turn(
                number,
                lambda: of(ours(stage, times * count, options.peer_warm_up)),
                lambda: of(springs(stage, count, options.peer_warm_up, classpath)),
            )

        compare(figures, options, both)


def compare(figures, options, both):
    label = "peer, Spring Kafka"
    for number in range(options.peer_rounds):
        # So many that they take ours some seconds too: in the second that each waits, nothing may be caught up.
        mine, theirs = both(number, options.peer_count, throughput, times=options.peer_times)
        figures.add(f"{label}: failures to re-invocations", "tasks/s", mine["rate"], theirs["rate"], 10,
                    "higher")  # fmt: skip
        figures.add(f"{label}: processor, handlers included", "us/task", mine["processor"],
                    theirs["processor"], 0.1)  # fmt: skip
        figures.add(f"{label}: start, until all partitions are assigned", "s", mine["start"], theirs["start"])
        figures.add(f"{label}: resident, idle", "MiB", mine["idle"], theirs["idle"])
        figures.add(f"{label}: resident, after the backlog", "MiB", mine["resident"], theirs["resident"])
        for rate in options.peer_rates:
            mine, theirs = both(number, rate * options.peer_seconds, lambda *a: steady(*a, rate))
            for quantile in ("p50", "p99"):
                figures.add(f"{label}: lateness at {rate:,}/s: {quantile}", "ms", mine[quantile],
                            theirs[quantile])  # fmt: skip
        # So many of ours that some are still to be routed when others have come again.
        mine, theirs = both(number, options.peer_count, killed, times=options.peer_times)
        what = f"{label}: SIGKILL in the middle"
        figures.add(f"{what} of {options.peer_times * options.peer_count:,} tasks: re-invocations published twice",
                    "tasks", mine["published"], goal=0)  # fmt: skip
        figures.add(f"{what} of {options.peer_count:,} tasks of Spring's: re-invocations published twice",
                    "tasks", theirs["published"])  # fmt: skip
        figures.add(f"{what}: handled twice", "tasks", mine["handled"])
        figures.add(f"{what}: handled twice by Spring's, whose handler is in the same process", "tasks",
                    theirs["handled"])  # fmt: skip
