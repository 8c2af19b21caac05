# SPDX-License-Identifier: Apache-2.0
"""The real servers, run by the scripts of deploy/local. They end with this process, whatever ends it."""

import os
import pathlib
import random
import socket
import subprocess
import time

import psycopg
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run_script(script, *arguments):
    done = subprocess.run(
        [ROOT / "deploy/local" / script, *map(str, arguments)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"{script} {' '.join(map(str, arguments))}: {done.stderr}{done.stdout}")


def free_port():
    """Below the range that the system hands out to outgoing connections."""
    while True:
        port = random.SystemRandom().randrange(10000, 15000)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port


class Kafka:
    def __init__(self, folder, brokers=1):
        self.folder = folder
        # The authorizer lets everybody do everything but what a test forbids.
        run_script(
            "kafka/broker", "start", "--dir", folder, "--owner", os.getpid(), "--brokers", brokers,
            "--set", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "--set", "allow.everyone.if.no.acl.found=true",
        )  # fmt: skip
        self.bootstrap = (folder / "bootstrap").read_text().strip()
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})

    def start(self):
        """Again, after a stop, on the same ports."""
        run_script("kafka/broker", "start", "--dir", self.folder)

    def stop(self):
        run_script("kafka/broker", "stop", "--dir", self.folder, "--kill")

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


class Postgres:
    def __init__(self, folder):
        self.folder = folder
        run_script("postgres", "start", "--dir", folder, "--owner", os.getpid())
        self.dsn = (folder / "dsn").read_text().strip()

    def start(self):
        """Again, after a stop, on the same port."""
        run_script("postgres", "start", "--dir", self.folder)

    def stop(self):
        run_script("postgres", "stop", "--dir", self.folder, "--kill")

    def create_database(self, name):
        """A database of its own; returns its data source name."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(f'create database "{name}"')
        return self.dsn.rsplit("/", 1)[0] + "/" + name
