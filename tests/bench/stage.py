# SPDX-License-Identifier: Apache-2.0
"""What each measurement stands on: real servers, a pipeline of its own, programs that load and measure."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration"))

from confluent_kafka import Consumer, TopicPartition  # noqa: E402
from pipeline import BUILD, Pipeline, now_ms, wait_for  # noqa: E402
from servers import Kafka, Postgres, running  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")


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
    if process.returncode != 0:
        raise RuntimeError(f"{process.args[4]} failed")
    return json.loads(out)


def run(name, **arguments):
    return finish(start(name, **arguments))


def processor_us(pid):
    """What a process has used so far."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1_000_000 // TICKS


def resident_mib(pid):
    with open(f"/proc/{pid}/status") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    return 0


class Stage:
    """Servers for all measurements."""

    def __init__(self, kafka, postgres):
        self.kafka, self.postgres, self.made = kafka, postgres, 0

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
        pipeline = Pipeline(self.kafka, self.postgres, f"bench-{name}", config, partitions)
        try:
            yield pipeline
            faults = pipeline.close()
            if faults:
                raise RuntimeError(faults)
        finally:
            pipeline.close()
            self.drop(pipeline)

    def drop(self, pipeline):
        pipeline.forget()
        mine = [t for t in self.kafka.admin.list_topics().topics if pipeline.name in t]
        for done in self.kafka.admin.delete_topics(mine).values():
            done.result()

    def appended(self, topics):
        """When the first and the last record of these topics were appended, in seconds."""
        reader = Consumer(
            {
                "bootstrap.servers": self.kafka.bootstrap,
                "group.id": "bench-times",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
            }
        )
        first, last = [], []
        for topic in topics:
            for p in self.kafka.admin.list_topics(topic).topics[topic].partitions:
                low, high = reader.get_watermark_offsets(TopicPartition(topic, p))
                first += read_times(reader, topic, p, low)[:1]
                last += read_times(reader, topic, p, max(low, high - 3000))[-1:]
        reader.close()
        return min(first) / 1000, max(last) / 1000


def read_times(reader, topic, partition, offset):
    times = []
    reader.assign([TopicPartition(topic, partition, offset)])
    while True:
        message = reader.poll(10)
        if message is None or message.error():
            return times
        times.append(message.timestamp()[1])


def metric_sum(service, name):
    total = 0
    for line in service.get("/metrics")[1].splitlines():
        if line.startswith((name + "{", name + " ")):
            total += float(line.rsplit(" ", 1)[1])
    return total


def wait_for_metric(services, name, count, timeout=900):
    wait_for(
        lambda: sum(metric_sum(s, name) for s in services) >= count or time.sleep(0.05),
        f"{name} to reach {count}",
        timeout,
    )


@contextlib.contextmanager
def servers(brokers=1):
    with running(Kafka, brokers=brokers, settings=()) as kafka, running(Postgres) as postgres:
        yield Stage(kafka, postgres)


__all__ = [
    "BUILD", "ROOT", "Stage", "finish", "metric_sum", "now_ms", "processor_us", "resident_mib", "run",
    "servers", "start", "wait_for", "wait_for_metric",
]  # fmt: skip
