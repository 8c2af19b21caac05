# SPDX-License-Identifier: Apache-2.0
"""A reprise of a test's own on the shared servers: topics, a database, and service processes."""

import collections
import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
import uuid

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from psycopg.rows import dict_row

import contract
from contract import now_ms
from servers import ROOT, Database, free_port

BUILD = ROOT / os.environ.get("REPRISE_BUILD", "build")

Record = collections.namedtuple(
    "Record", "topic partition offset key value headers timestamp_ms received_ms"
)
# Prometheus' text format: name, labels, value.
SAMPLE = re.compile(
    r'[a-zA-Z_:][a-zA-Z0-9_:]*(\{[a-zA-Z_]\w*="([^"\\\n]|\\[\\"n])*"(,[a-zA-Z_]\w*="([^"\\\n]|\\[\\"n])*")*\})?'
    r" (NaN|[+-]Inf|-?\d+(\.\d+)?(e[+-]?\d+)?)"
)


def wait_for(condition, what, timeout=30):
    """Returns what `condition` returns once that is true."""
    deadline = time.monotonic() + timeout
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout} s in vain for {what}")
        time.sleep(0.02)
    return result


def memory_kib(pid, what="VmRSS"):
    """What of a process is resident; VmHWM: the most that ever was."""
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(rf"{what}:\s+(\d+)", status.read())[1])


def header(record, name):
    """The text of the one header of this name; None where there is none."""
    values = [value for key, value in record.headers if key == name]
    assert len(values) <= 1, f"{name} comes {len(values)} times"
    return values[0].decode() if values else None


def partitions_of(consumer, topic):
    """The numbers of a topic's partitions. A broker that does not know of the topic yet names none."""
    def known():
        found = consumer.list_topics(topic, timeout=10).topics[topic]
        return not found.error and list(found.partitions)

    return wait_for(known, f"a broker that knows of {topic}", 60)


def record_of(message, received_ms):
    return Record(
        message.topic(), message.partition(), message.offset(), message.key(), message.value(),
        message.headers() or [], message.timestamp()[1], received_ms,
    )  # fmt: skip


class Reader:
    """Reads all of a topic from its beginning, as a handler with isolation.level=read_committed does."""

    def __init__(self, bootstrap, topic):
        self.bootstrap, self.topic = bootstrap, topic
        self.records, self.next = [], {}
        self.open()

    def open(self):
        self.consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": f"reader-{uuid.uuid4()}",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        self.consumer.assign(
            [
                TopicPartition(self.topic, p, self.next.get(p, OFFSET_BEGINNING))
                for p in partitions_of(self.consumer, self.topic)
            ]
        )

    def restart(self):
        """Goes on where it was, on new connections."""
        self.close(0)
        self.open()

    def poll(self, seconds=0.05):
        """Reads on for so long; returns what came."""
        fresh, left, deadline = [], seconds, time.monotonic() + seconds
        while left >= 0:
            # For many at once it would wait on until time is up, and nobody would know when they came.
            messages = self.consumer.consume(1, left)
            messages += self.consumer.consume(499, 0) if messages else []
            received_ms = now_ms()
            fresh += [record_of(m, received_ms) for m in messages if self.is_record(m)]
            left = deadline - time.monotonic()
        self.records += fresh
        return fresh

    def is_record(self, message):
        if message.error() is not None:
            # Of a broker that does not know of the topic yet; librdkafka asks again.
            assert message.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART, message.error()
            return False
        self.next[message.partition()] = message.offset() + 1
        return True

    def wait(self, count, where=lambda record: True, timeout=30):
        """Reads until there are `count` records of this kind; returns them all."""
        deadline = time.monotonic() + timeout
        while len(found := [r for r in self.records if where(r)]) < count:
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.topic}: {len(found)} of {count} came in {timeout} s")
            self.poll()
        return found

    def of_task(self, task_id, count=1, timeout=30):
        return self.wait(count, lambda r: header(r, "reprise-task-id") == task_id, timeout)

    def close(self, patience=20):
        """A client that has stopped may not close either, and is left behind then."""
        closing = threading.Thread(target=self.consumer.close, daemon=True)
        closing.start()
        closing.join(patience)


def new_folder(path):
    """Made now: with a number behind it where there is one already, of an earlier run."""
    for n in itertools.count(1):
        folder = path if n == 1 else path.with_name(f"{path.name}-{n}")
        with contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True)
            return folder


class Service:
    """A process of ours, known by its pid."""

    def __init__(self, pipeline, name, number):
        self.name, self.number = name, number
        self.program = BUILD / "bin" / f"reprise-{name}"
        self.label = f"{name}-{number}"
        self.log = pipeline.folder / f"{self.label}.log"
        self.config = pipeline.folder / f"{self.label}.yaml"
        self.port = free_port()
        pipeline.write_config(self.config, {name: {"listen": f"127.0.0.1:{self.port}"}})
        self.process = None

    def start(self, **environment):
        # The kernel ends it with us.
        command = ["setpriv", "--pdeathsig", "KILL", "--", self.program]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*command, "--config", self.config], env=os.environ | environment,
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
        return self

    def get(self, path):
        """Status and text of a probe; status 0 where nobody answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=2) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def samples(self):
        """The lines of /metrics that are no comments, each as Prometheus reads it."""
        lines = [line for line in self.get("/metrics")[1].split("\n") if line[:1] not in ("", "#")]
        assert [line for line in lines if not SAMPLE.fullmatch(line)] == []
        return lines

    def metric(self, series):
        """The sum of all series of this name, which may go on with labels (a regular expression)."""
        found = (re.match(rf"{series}(?!\w).* (\S+)$", line) for line in self.samples())
        return sum(float(match[1]) for match in found if match)

    def wait_ready(self, timeout=60):
        def ready():
            assert self.process.poll() is None, f"{self.label} ended: {self.process.returncode}"
            return self.get("/readyz")[0] == 200

        wait_for(ready, f"{self.label} to be ready", timeout)
        return self

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self, timeout=40):
        """SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def running(self):
        return self.process is not None and self.process.poll() is None


class Pipeline:
    def __init__(
        self, kafka, postgres, name, config, partitions, max_message_bytes="1MiB",
        folder="integration", suffix=None,
    ):  # fmt: skip
        """`suffix`: of the names on the servers, where it is not to be drawn."""
        self.kafka, self.postgres = kafka, postgres
        self.name = f"{name}-{suffix or uuid.uuid4().hex[:6]}"
        self.prefix = f"{self.name}."
        self.folder = new_folder(BUILD / folder / self.name)
        self.dsn = postgres.create_database(self.name)
        self.database = Database(self.dsn)
        self.services, self.readers = [], []
        self.config = {
            "tiers": ["1s", "3s"],
            "kafka": {
                "bootstrap.servers": kafka.bootstrap,
                "consumer": {"session.timeout.ms": 6000},
            },
            "topics": {
                "prefix": self.prefix,
                "partitions": partitions,
                "max_message_bytes": max_message_bytes,
            },
            "targets": {"allow": [self.target("*")]},
            "postgres": {"dsn": self.dsn},
            "log": {"level": "debug"},
            **config,
        }
        self.config_file = self.folder / "reprise.yaml"
        self.write_config(self.config_file)
        self.cli("topics", "apply")
        self.cli("db", "migrate")
        self.producer = self.new_producer()

    def new_producer(self):
        return Producer(
            {
                "bootstrap.servers": self.kafka.bootstrap, "enable.idempotence": True, "linger.ms": 1,
                "log_level": 2,  # that a broker which a test killed is away is no news
            }  # fmt: skip
        )

    def target(self, name):
        """A handler's topic of this pipeline; never one of reprise's own."""
        return f"handlers-{self.name}-{name}"

    def write_config(self, path, sections=None):
        """JSON is YAML."""
        merged = dict(self.config)
        for name, section in (sections or {}).items():
            merged[name] = {**merged.get(name, {}), **section}
        path.write_text(json.dumps(merged, indent=2))

    def cli(self, *arguments, code=0):
        done = subprocess.run(
            [BUILD / "bin/reprise", *arguments, "--config", self.config_file],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == code, f"reprise {arguments}: {done.stderr}{done.stdout}"
        return done.stdout

    def add(self, name):
        """One more service, not started yet."""
        number = 1 + max((s.number for s in self.services if s.name == name), default=-1)
        self.services.append(Service(self, name, number))
        return self.services[-1]

    def start(self, *names, count=1):
        started = [self.add(name).start() for name in names for _ in range(count)]
        for service in started:
            service.wait_ready()
        return started

    def create_target(self, name, **config):
        return self.kafka.create_topic(self.target(name), **config)

    def reader(self, topic):
        self.readers.append(Reader(self.kafka.bootstrap, topic))
        return self.readers[-1]

    def send(self, value, key=None, headers=None):
        """A record in failed-tasks; not flushed."""
        self.producer.produce(f"{self.prefix}failed-tasks", value, key, headers=headers)
        self.producer.poll(0)

    def fail(self, task, encode=contract.single_object):
        """Emits a FailedTask and waits until the broker has it."""
        self.send(encode(task), task["key"] or task["task_id"].encode())
        assert self.producer.flush(30) == 0

    def dead_letters(self, **where):
        """Rows of PostgreSQL with these values."""
        conditions = " and ".join(f"{name} = %({name})s" for name in where) or "true"
        return self.database.query(f"select * from dead_letter where {conditions}", where, dict_row)

    def dead_letter(self, timeout=30, **where):
        """The one row with these values, once it is there."""
        rows = wait_for(lambda: self.dead_letters(**where), f"a dead letter {where}", timeout)
        assert len(rows) == 1, rows
        return rows[0]

    def logs(self):
        return {path.stem: path.read_text(errors="replace") for path in sorted(self.folder.glob("*.log"))}

    def close(self):
        """Ends all; returns what was not as it should be at the end."""
        faults = []
        while self.readers:
            self.readers.pop().close()
        self.database.close()
        self.producer = None
        running = [s for s in self.services if s.running()]
        for service in running:
            service.process.send_signal(signal.SIGTERM)
        for service in running:
            try:
                code = service.process.wait(40)
            except subprocess.TimeoutExpired:
                service.kill()
                code = "no end in 40 s"
            if code != 0:
                faults.append(f"{service.label} after SIGTERM: {code}")
        for label, text in self.logs().items():
            if "Sanitizer" in text or "runtime error:" in text:
                faults.append(f"{label}: a sanitizer's report in its log")
        return faults

    def forget(self):
        shutil.rmtree(self.folder, ignore_errors=True)
