# SPDX-License-Identifier: Apache-2.0
"""The real servers, run by the scripts of deploy/local. They end with this process, whatever ends it."""

import contextlib
import itertools
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import psycopg
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from psycopg.rows import tuple_row

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run_script(script, *arguments, check=True):
    done = subprocess.run(
        [ROOT / "deploy/local" / script, *map(str, arguments)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    if check and done.returncode != 0:
        raise RuntimeError(f"{script} {' '.join(map(str, arguments))}: {done.stderr}{done.stdout}")


def own_ports():
    """Where processes share the tests between them (pytest-xdist), each has ports of its own, and so has one beside."""
    share = 5000 // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    first = 10000 + share * int(worker[2:]) if worker else 5000
    begin = random.SystemRandom().randrange(share)
    return itertools.cycle([first + (begin + i) % share for i in range(share)])


ports = own_ports()


def free_port():
    """Below the range that the system hands out to outgoing connections, and another at each call:
    whoever was given one may not listen yet."""
    for port in ports:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port


def end_like_an_interrupt():
    """SIGTERM and SIGHUP end this program like Ctrl-C does: what is running goes with it."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup has it
            signal.signal(number, signal.default_int_handler)


@contextlib.contextmanager
def running(kind, **options):
    """A server in a folder of its own; nothing of it is left, also when its start is interrupted."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"reprise-{kind.__name__.lower()}-"))
    folder.chmod(0o711)  # PostgreSQL runs as another user
    try:
        yield kind(folder, **options)
    finally:
        run_script(kind.SCRIPT, "stop", "--dir", folder, "--kill", check=False)
        shutil.rmtree(folder, ignore_errors=True)


class Kafka:
    SCRIPT = "kafka/broker"

    # The authorizer lets everybody do everything but what a test forbids.
    AUTHORIZER = (
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found=true",
    )

    def __init__(self, folder, brokers=1, settings=AUTHORIZER, jvm=("--brief",), bootstrap=None):
        """`bootstrap`: where the settings have other listeners than the script's."""
        self.folder = folder
        run_script(
            self.SCRIPT, "start", "--dir", folder, "--owner", os.getpid(), "--brokers", brokers, *jvm,
            *[argument for setting in settings for argument in ("--set", setting)],
        )  # fmt: skip
        self.bootstrap = bootstrap or (folder / "bootstrap").read_text().strip()
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})

    def start(self):
        """Again, after a stop, on the same ports."""
        run_script(self.SCRIPT, "start", "--dir", self.folder)

    def stop(self):
        run_script(self.SCRIPT, "stop", "--dir", self.folder, "--kill")

    def create_topic(self, name, partitions=2, **config):
        config = {key.replace("_", "."): str(value) for key, value in config.items()}
        self.admin.create_topics([NewTopic(name, partitions, config=config)])[name].result()
        deadline = time.monotonic() + 10
        while True:  # until every partition has its leader
            topic = self.admin.list_topics(name).topics[name]
            if len(topic.partitions) == partitions and not topic.error:
                return name
            if time.monotonic() > deadline:
                raise KafkaException(topic.error)
            time.sleep(0.05)

    def permit(self, topic, **operations):
        """ACLs for everybody: permit("a-topic", WRITE="DENY", DESCRIBE="ALLOW"). Once a topic has some, they
        say all that is allowed."""
        acls = [
            AclBinding(
                ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:*", "*",
                AclOperation[operation], AclPermissionType[permission],
            )
            for operation, permission in operations.items()
        ]  # fmt: skip
        for done in self.admin.create_acls(acls).values():
            done.result()
        mine = AclBindingFilter(
            ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, None, None, AclOperation.ANY,
            AclPermissionType.ANY,
        )  # fmt: skip
        deadline = time.monotonic() + 30
        while len(self.admin.describe_acls(mine).result()) < len(acls):  # until the broker heeds them
            assert time.monotonic() < deadline, f"no ACLs of {topic}"
            time.sleep(0.05)


class Database:
    """A connection that is kept, since to make one takes longer than to ask. Where it broke, it is made anew, and what
    was asked is asked again."""

    def __init__(self, dsn):
        self.dsn, self.connection = dsn, None

    def query(self, sql, values=None, row_factory=tuple_row):
        """The rows; None where the statement has none."""
        kept = self.connection is not None
        try:
            if not kept:  # no prepared statements: what a table is may change
                self.connection = psycopg.connect(self.dsn, autocommit=True, prepare_threshold=None)
            cursor = self.connection.cursor(row_factory=row_factory).execute(sql, values)
            return cursor.fetchall() if cursor.description else None
        except psycopg.Error:
            if self.connection is None or not self.connection.closed:
                raise
            self.connection = None
            if not kept:
                raise
        return self.query(sql, values, row_factory)

    def close(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None


class Postgres:
    SCRIPT = "postgres"
    # Tests look in pg_stat_activity for the end of statements that are longer than its 1 KiB.
    SETTINGS = ["track_activity_query_size=16384"]

    def __init__(self, folder, settings=()):
        self.folder = folder
        run_script(
            self.SCRIPT, "start", "--dir", folder, "--owner", os.getpid(),
            *[argument for setting in [*self.SETTINGS, *settings] for argument in ("--set", setting)],
        )  # fmt: skip
        self.dsn = (folder / "dsn").read_text().strip()

    def start(self):
        """Again, after a stop, on the same port."""
        run_script(self.SCRIPT, "start", "--dir", self.folder)

    def stop(self):
        run_script(self.SCRIPT, "stop", "--dir", self.folder, "--kill")

    def create_database(self, name):
        """A database of its own; returns its data source name."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(f'create database "{name}"')
        return self.dsn.rsplit("/", 1)[0] + "/" + name

    def drop_database(self, name):
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(f'drop database "{name}" with (force)')
