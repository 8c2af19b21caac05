# SPDX-License-Identifier: Apache-2.0
"""`reprise topics apply | check` against a real cluster."""

import json
import subprocess
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)

from pipeline import BUILD, wait_for
from servers import Kafka, run_script, running

OURS = ["failed-tasks", "retry-1s", "retry-10s", "retry-60s", "dead-letter"]


class Cluster:
    """The topics of one prefix on a server that others use, too."""

    def __init__(self, kafka, folder, **config):
        self.kafka, self.prefix = kafka, f"topics-{uuid.uuid4().hex[:8]}."
        self.admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        self.config = folder / "reprise.yaml"
        self.write(**config)

    def write(self, topics=None, **config):
        # JSON is YAML.
        self.config.write_text(
            json.dumps(
                {
                    "kafka": {"bootstrap.servers": self.kafka.bootstrap},
                    "topics": {"prefix": self.prefix, "partitions": 2, **(topics or {})},
                    **config,
                }
            )
        )

    def reprise(self, *arguments, code=0):
        done = subprocess.run(
            [BUILD / "bin/reprise", "topics", *arguments, "--config", self.config],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert code in (None, done.returncode), done.stderr + done.stdout
        return done.stdout

    def settings(self, topic):
        resource = ConfigResource(ConfigResource.Type.TOPIC, self.prefix + topic)
        entries = self.admin.describe_configs([resource])[resource].result()
        return {name: entry.value for name, entry in entries.items()}

    def topics(self):
        every = self.admin.list_topics(timeout=10).topics
        return {n.removeprefix(self.prefix): t for n, t in every.items() if n.startswith(self.prefix)}


@pytest.fixture
def cluster(kafka, tmp_path):
    return Cluster(kafka, tmp_path)


def test_apply_creates_what_the_promises_need(cluster):
    said = cluster.reprise("apply")
    assert sorted(cluster.topics()) == sorted(OURS)
    for topic in OURS:
        assert f"{cluster.prefix}{topic}: created, 2 partitions, 1 replica" in said
        assert len(cluster.topics()[topic].partitions) == 2
        settings = cluster.settings(topic)
        assert settings["cleanup.policy"] == "delete"
        assert settings["message.timestamp.type"] == "LogAppendTime"
        assert settings["retention.bytes"] == "-1"
    for tier in OURS[1:4]:
        assert cluster.settings(tier)["retention.ms"] == "-1"
    room = [int(cluster.settings(topic)["max.message.bytes"]) for topic in OURS]
    assert room[0] == 2**20 and room[0] < room[1] == room[2] == room[3] < room[4]


def test_check_finds_nothing_wrong_with_what_apply_created(cluster):
    cluster.reprise("apply")
    said = cluster.reprise("check")
    assert "\n0 faults\n" in said
    assert "a stop of routers and delayers is safe for 7.0 days" in said
    assert "a stop of the routers is safe for 7.0 days" in said
    assert "a stop of the archivers is safe for 30.0 days" in said


def test_apply_may_be_repeated_and_run_at_once(cluster):
    with ThreadPoolExecutor(4) as pool:
        said = "".join(pool.map(lambda _: cluster.reprise("apply"), range(4)))
    for topic in OURS:
        assert said.count(f"{cluster.prefix}{topic}: created") == 1
        assert said.count(f"{cluster.prefix}{topic}: exists") == 3


def test_check_names_what_is_missing(cluster):
    said = cluster.reprise("check", code=3)
    for topic in OURS:
        assert f"{cluster.prefix}{topic}: missing; " in said
    assert "\n5 faults\n" in said
    assert cluster.topics() == {}


def test_a_topic_with_the_cluster_s_defaults_is_found_and_mended_on_request(cluster):
    tier = cluster.kafka.create_topic(cluster.prefix + "retry-10s")
    cluster.reprise("apply", code=3)
    said = cluster.reprise("check", code=3)
    assert f"{tier}: retention.ms is 604800000, needed -1: " in said
    assert f"{tier}: message.timestamp.type is CreateTime, needed LogAppendTime: " in said
    assert f"{tier}: max.message.bytes is 1048588, needed at least 1114112: " in said
    assert "\n3 faults\n" in said
    assert cluster.settings("retry-10s")["retention.ms"] == "604800000"

    said = cluster.reprise("apply", "--alter")
    assert f"{tier}: altered retention.ms from 604800000 to -1\n" in said
    assert "\n0 faults\n" in cluster.reprise("check")


def test_what_failed_tasks_takes_must_fit_into_the_rest(cluster):
    cluster.reprise("apply")
    cluster.write(topics={"max_message_bytes": "4MiB"}, delayer={"memory": "64MiB"})
    said = cluster.reprise("check", code=3)
    for topic in OURS:
        assert f"{cluster.prefix}{topic}: max.message.bytes is " in said
    cluster.reprise("apply", "--alter")
    assert cluster.settings("dead-letter")["max.message.bytes"] == str(4 * 2**20 + 128 * 1024)
    assert "\n0 faults\n" in cluster.reprise("check")


def test_check_looks_at_the_targets_of_policies(cluster):
    cluster.reprise("apply")
    small = cluster.kafka.create_topic(f"handlers-{uuid.uuid4().hex}", max_message_bytes=1000)
    gone = f"handlers-{uuid.uuid4().hex}"
    cluster.write(policies={"payment": {"target": small, "fallback": gone}})
    said = cluster.reprise("check", code=3)
    assert f"{small}: max.message.bytes is 1000, needed at least 1048576: " in said
    assert f"{gone}: missing, the fallback of policy payment: " in said
    assert "\n2 faults\n" in said


def test_check_knows_what_the_broker_refuses(cluster):
    cluster.reprise("apply")
    cluster.write(
        kafka={
            "bootstrap.servers": cluster.kafka.bootstrap,
            "producer": {"transaction.timeout.ms": 1_000_000},
            "consumer": {"session.timeout.ms": 500},
        }
    )
    said = cluster.reprise("check", code=3)
    assert "broker 1: transaction.max.timeout.ms is 900000, needed at least 1000000: " in said
    assert "broker 1: group.min.session.timeout.ms is 1000, needed at most 500: " in said


def test_a_broker_that_does_not_let_us_look_is_a_fault(cluster):
    cluster.reprise("apply")
    cluster_wide = (ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL)
    denied = AclBinding(
        *cluster_wide, "User:*", "*", AclOperation.DESCRIBE_CONFIGS, AclPermissionType.DENY
    )
    allowed = AclBinding(*cluster_wide, "User:*", "*", AclOperation.ALL, AclPermissionType.ALLOW)
    for future in cluster.admin.create_acls([allowed, denied]).values():
        future.result()
    try:
        wait_for(lambda: "vouched for" in cluster.reprise("check", code=None), "the denial")
        assert "\n1 fault\n" in cluster.reprise("check", code=3)
    finally:
        every = AclBindingFilter(
            *cluster_wide, None, None, AclOperation.ANY, AclPermissionType.ANY
        )
        for future in cluster.admin.delete_acls([every]).values():
            future.result()


def test_a_replication_that_the_cluster_cannot_give_is_refused(cluster):
    cluster.write(topics={"replication_factor": 3})
    cluster.reprise("apply", code=1)
    assert cluster.topics() == {}


def test_a_cluster_that_is_away_is_said_to_be(cluster):
    cluster.write(kafka={"bootstrap.servers": "127.0.0.1:1"})
    cluster.reprise("check", code=1)


@pytest.fixture
def three_brokers():
    # Without the other tests' authorizer, which a quorum of three needs to be up before it can vote.
    with running(Kafka, brokers=3, settings=()) as server:
        yield server


def test_on_three_brokers_each_record_is_on_two(three_brokers, tmp_path):
    cluster = Cluster(three_brokers, tmp_path)
    cluster.reprise("apply")
    for topic in OURS:
        replicas = [len(p.replicas) for p in cluster.topics()[topic].partitions.values()]
        assert replicas == [3, 3]
        assert cluster.settings(topic)["min.insync.replicas"] == "2"
    assert "\n0 faults\n" in cluster.reprise("check")


def test_a_broker_that_is_away_makes_no_topic_smaller(three_brokers, tmp_path):
    cluster = Cluster(three_brokers, tmp_path)
    run_script(Kafka.SCRIPT, "stop", "--dir", three_brokers.folder, "--broker", 3, "--kill")
    wait_for(lambda: len(cluster.admin.list_topics(timeout=10).brokers) == 2, "the broker's end")
    cluster.write(topics={"replication_factor": 2})
    cluster.reprise("apply")
    cluster.write()
    said = cluster.reprise("check", code=3)
    for topic in OURS:
        assert f"{cluster.prefix}{topic}: replication.factor is 2, needed at least 3: " in said

    cluster = Cluster(three_brokers, tmp_path)
    cluster.reprise("apply")
    for topic in OURS:
        replicas = [sorted(p.replicas) for p in cluster.topics()[topic].partitions.values()]
        assert replicas == [[1, 2, 3], [1, 2, 3]]
        assert cluster.settings(topic)["min.insync.replicas"] == "2"
    assert "\n0 faults\n" in cluster.reprise("check")
