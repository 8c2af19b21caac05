# SPDX-License-Identifier: Apache-2.0
"""What each measurement stands on: real servers, a pipeline of its own, programs that load and measure."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/integration"))

from confluent_kafka import (  # noqa: E402
    Consumer,
    ConsumerGroupState,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from pipeline import BUILD, Pipeline, memory_kib, now_ms, wait_for  # noqa: E402
from servers import Kafka, Postgres, end_like_an_interrupt, running  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")
# As a database is run that shall keep what it has; and it knows when each transaction was committed.
DURABLE = ("fsync=on", "max_wal_size=4GB", "track_commit_timestamp=on")
HEAP = "1g"  # that Kafka's own scripts give a broker
# Its collector has one thread: where two cores are shared with all that is measured, the threads of one
# that has more wait for a core in mid-pause.
GC = "-XX:+UseParallelGC -XX:ParallelGCThreads=1 -Xmn64m"
# What was deleted goes soon, and not a minute later, while something else is measured. With no delay
# brokers look for it each millisecond.
BROKER = ("log.segment.delete.delay.ms=1000",)
TAIL = 3000  # offsets at the end of a partition, marks of transactions among them


def program(name, **arguments):
    return ["setpriv", "--pdeathsig", "KILL", "--", str(BUILD / "bin" / f"bench_{name}")] + [
        f"{key}={value}" for key, value in arguments.items()
    ]


def start(name, **arguments):
    return subprocess.Popen(
        program(name, **arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )


def finish(process, timeout=900):
    out, _ = process.communicate(timeout=timeout)
    ended(process)
    return json.loads(out)


def ended(process, timeout=60):
    if process.wait(timeout) != 0:
        raise RuntimeError(f"{process.args[4]} failed")


def run(name, **arguments):
    return finish(start(name, **arguments))


def answer(process):
    """What a program prints, as soon as it does: it has not ended yet."""
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"{process.args[4]} failed")
    return json.loads(line)


class Fill:
    """A backlog in one transaction: on the broker, but nobody reads any of it before `release`."""

    def __init__(self, **arguments):
        self.process = subprocess.Popen(
            program("fill", hold=1, **arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if self.process.stdout.readline() != "filled\n":
            raise RuntimeError("the topic could not be filled")
        os.sync()  # else it is written to the disk while its reader is measured

    def release(self):
        out, _ = self.process.communicate("\n", timeout=120)
        if self.process.returncode != 0:
            raise RuntimeError("the backlog could not be committed")
        return json.loads(out)


def processor_us(pid):
    """What a process has used so far."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1_000_000 // TICKS


def resident_mib(pid):
    return memory_kib(pid) / 1024


class Stage:
    """Servers for all measurements."""

    def __init__(self, kafka, postgres):
        self.kafka, self.postgres, self.made = kafka, postgres, 0
        self.lateness_is_warm = False
        self.tried = {}  # by label: what the bare loop sends a second, by the ms that it lingers

    def topic(self, name, partitions):
        self.made += 1
        return self.kafka.create_topic(
            f"{name}-{self.made}", partitions, message_timestamp_type="LogAppendTime"
        )

    @contextlib.contextmanager
    def pipeline(self, name, partitions=4, **config):
        config.setdefault("tiers", ["1s", "10s", "60s"])
        config.setdefault("log", {"level": "warn"})
        config.setdefault("targets", {"allow": ["*"]})
        pipeline = None
        try:
            pipeline = Pipeline(
                self.kafka, self.postgres, f"bench-{name}", config, partitions, folder="bench"
            )
            yield pipeline
            # Whom we end we wait for, which notes its code.
            faults = [f"{s.label} ended by itself" for s in pipeline.services
                      if s.process.returncode is None and not s.running()]  # fmt: skip
            faults += pipeline.close()
            if faults:
                raise RuntimeError(faults)
        finally:
            if pipeline is not None:
                pipeline.close()
                pipeline.forget()
                self.postgres.drop_database(pipeline.name)
            self.drop_topics()

    def brokers(self):
        return self.kafka.bootstrap.count(",") + 1

    def payload(self, tasks):
        """How many bytes of payload are in each of the tasks that a fill with these arguments makes."""
        return run("fill", bootstrap=self.kafka.bootstrap, **{**tasks, "count": 0})["payload"]

    def drop_topics(self, prefix=""):
        """All of them: what one measurement leaves is not the next one's page cache."""
        names = self.kafka.admin.list_topics().topics
        mine = [t for t in names if t.startswith(prefix) and not t.startswith("__")]
        for done in self.kafka.admin.delete_topics(mine).values() if mine else ():
            done.result()
        wait_for(lambda: not self.has_files_of(mine), "the files to go", 60)

    def has_files_of(self, topics):
        names = tuple(f"{topic}-" for topic in topics)
        return any(f.name.startswith(names) for f in self.kafka.folder.glob("*/data/*"))

    def broker_us(self):
        """What all brokers have used of the processors."""
        pids = (self.kafka.folder / "pids").read_text().split()[1::2]
        return sum(map(processor_us, pids))

    def settle(self):
        """Until the brokers are through with what was just made: partitions, groups, a backlog."""
        last = float("inf")
        while True:
            before = self.broker_us()
            time.sleep(0.5)
            used = self.broker_us() - before
            if used > 0.8 * last:
                return
            last = used

    def wait_joined(self, group, topic, members):
        """Until each member of the group has a share of the topic, and all of it has an owner."""
        partitions = len(self.kafka.admin.list_topics(topic).topics[topic].partitions)

        def joined():
            try:
                found = self.kafka.admin.describe_consumer_groups([group])[group].result()
            except KafkaException:  # there is no such group yet
                return time.sleep(0.1)
            shares = [
                sum(tp.topic == topic for tp in member.assignment.topic_partitions)
                for member in found.members
            ]
            whole = len(shares) == members and all(shares) and sum(shares) == partitions
            return whole and found.state == ConsumerGroupState.STABLE or time.sleep(0.1)

        wait_for(joined, f"{members} members of {group}", 180)

    def reader(self):
        return Consumer(
            {
                "bootstrap.servers": self.kafka.bootstrap,
                "group.id": "bench-times",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 10,  # the next partition waits for the answer about the last one
            }
        )

    def appended(self, topic):
        """When the first and the last record of the topic were appended, in seconds."""
        first, last, reader = [], [], self.reader()
        for low, high, read in self.partitions(reader, topic):
            first += [m.timestamp()[1] for m in read(low, 1)]
            last += [m.timestamp()[1] for m in read(max(low, high - TAIL))[-1:]]
        reader.close()
        return min(first) / 1000, max(last) / 1000

    def partitions(self, reader, topic):
        """Of each: where it begins and ends, and a function that reads it from an offset on."""
        for p in self.kafka.admin.list_topics(topic).topics[topic].partitions:

            def read(offset, most=1 << 30, p=p):
                reader.assign([TopicPartition(topic, p, offset)])
                found = []
                while len(found) < most:
                    message = reader.poll(60)
                    if message is None:
                        raise RuntimeError(f"{topic}, partition {p}: no answer")
                    if message.error() and message.error().code() == KafkaError._PARTITION_EOF:
                        break
                    if message.error():
                        raise KafkaException(message.error())
                    found.append(message)
                return found

            yield *reader.get_watermark_offsets(TopicPartition(topic, p)), read


def wait_for_metric(services, name, count, timeout=900):
    """Looks seldom, since to look takes time of the processors that are measured."""

    def reached():
        for service in services:
            if not service.running():
                raise RuntimeError(f"{service.label} ended: {service.process.returncode}")
        return sum(s.metric(name) for s in services) >= count or time.sleep(0.2)

    wait_for(reached, f"{name} to reach {count}", timeout)


@contextlib.contextmanager
def servers(warm_up=100_000, gc=None):
    with running(Postgres, settings=DURABLE) as postgres, more_brokers(postgres, 1, warm_up, gc) as stage:
        yield stage


@contextlib.contextmanager
def more_brokers(postgres, brokers, warm_up, gc):
    """Other brokers, beside the same database."""
    jvm = ("--heap", HEAP, "--gc", gc or GC)
    with running(Kafka, brokers=brokers, settings=BROKER, jvm=jvm) as kafka:
        stage = Stage(kafka, postgres)
        warm(stage, warm_up)
        yield stage


def warm(stage, count):
    """A broker's first records pay for its compilation: these are counted nowhere."""
    source, target = stage.topic("warm-source", 4), stage.topic("warm-target", 4)
    run("fill", bootstrap=stage.kafka.bootstrap, topic=source, kind="event", count=count, target=target)
    run("raw_loop", bootstrap=stage.kafka.bootstrap, source=source, target=target,
        group=f"{target}-group", headers="tier", count=count)  # fmt: skip
    stage.drop_topics()


__all__ = [
    "BUILD", "HERE", "ROOT", "Fill", "Stage", "answer", "end_like_an_interrupt", "ended", "finish", "now_ms",
    "processor_us", "resident_mib", "run", "servers", "start", "wait_for", "wait_for_metric",
]  # fmt: skip
