# SPDX-License-Identifier: Apache-2.0
"""README's table of permissions: who has what a row says, and nothing else, can do what it is about."""

import itertools
import types

import psycopg
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition, admin

import contract
from pipeline import wait_for
from servers import Kafka, free_port, running

# The table, of the prefix `shop.`; a name that ends in * is a prefix.
ACLS = """
router             READ   topic shop.failed-tasks
router             WRITE  topic shop.retry-1s shop.dead-letter payments small fallback
router             READ   group shop.reprise-router*
router             WRITE  transactional_id shop.reprise-router*
delayer            READ,WRITE,DELETE topic shop.retry-*
delayer            WRITE  topic shop.dead-letter payments small
delayer            READ   group shop.reprise-delayer*
delayer            WRITE  transactional_id shop.reprise-delayer*
archiver           READ   group shop.reprise-archiver*
archiver,replayer  READ   topic shop.dead-letter
archiver,replayer  WRITE  topic payments small shop.failed-tasks
archiver,replayer  READ   group reprise-replay-*
archiver,replayer  WRITE  transactional_id reprise-replay-*
topics             CREATE,DESCRIBE,DESCRIBE_CONFIGS,ALTER_CONFIGS topic shop.failed-tasks shop.retry-1s shop.dead-letter
topics             READ   topic shop.retry-*
topics             DESCRIBE,DESCRIBE_CONFIGS topic payments fallback
topics             DESCRIBE_CONFIGS broker kafka-cluster
handler            WRITE  topic shop.failed-tasks
handler            READ   topic payments fallback
handler            READ   group handlers
"""
USERS = ("router", "delayer", "archiver", "replayer", "topics", "handler", "reader")  # the last may do nothing
POLICIES = {
    "default": {"target": "payments", "backoff": {"fixed": "3s"}},  # so long that the delayer sends into a tier as well
    "now": {"max_attempts": 3, "backoff": "none"},
    "last": {"max_attempts": 3, "fallback": "fallback"},
}


def acl(of, user, operation, kind, name):
    pattern = admin.ResourcePatternType.PREFIXED if name.endswith("*") else admin.ResourcePatternType.LITERAL
    what = admin.ResourceType[kind.upper()], name.rstrip("*"), pattern
    return of(*what, f"User:{user}", "*", admin.AclOperation[operation], admin.AclPermissionType.ALLOW)


class Secured(Kafka):
    """By its first listener, which the broker itself and the tests take, all is allowed. By the second one has to say
    who one is, and may do what is allowed."""

    def __init__(self, folder):
        ours, self.secured, controller = (f"127.0.0.1:{free_port()}" for _ in range(3))
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        users = " ".join(f'user_{user}="x"' for user in USERS)
        settings = (
            f"listeners=PLAINTEXT://{ours},SECURED://{self.secured},CONTROLLER://{controller}",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SECURED:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            f"controller.quorum.voters=1@{controller}",
            "sasl.enabled.mechanisms=PLAIN",
            f"listener.name.secured.plain.sasl.jaas.config={module} required {users};",
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found=false",
            "super.users=User:ANONYMOUS",
        )
        super().__init__(folder, settings=settings, bootstrap=ours)

    def login(self, user):
        sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
        return sasl | {"bootstrap.servers": self.secured, "sasl.username": user, "sasl.password": "x"}

    def take(self, *permission):
        taken = acl(admin.AclBindingFilter, *permission)
        assert len(self.admin.delete_acls([taken])[taken].result()) == 1
        wait_for(lambda: not self.admin.describe_acls(taken).result(), "the broker to heed it")


@pytest.fixture(scope="module")
def kafka():
    with running(Secured) as server:
        acls = [
            acl(admin.AclBinding, user, operation, kind, name)
            for users, operations, kind, *names in map(str.split, ACLS.strip().splitlines())
            for user, operation, name in itertools.product(users.split(","), operations.split(","), names)
        ]
        for done in server.admin.create_acls(acls).values():
            done.result()
        for target in ("payments", "small", "fallback"):
            server.create_topic(target, max_message_bytes=20_000 if target == "small" else 2**20)
        yield server


@pytest.fixture(scope="module")
def postgres(postgres):
    """The session's; its databases are used by roles of their own."""
    def create_database(name):
        dsn = postgres.create_database(name)
        with psycopg.connect(dsn, autocommit=True) as connection:
            for user in ("archiver", "replayer", "reader"):
                connection.execute(f"create role \"{name}-{user}\" login password 'x'")
            connection.execute(f'revoke temporary on database "{name}" from public')
            connection.execute(f'grant temporary on database "{name}" to "{name}-archiver", "{name}-replayer"')
            connection.execute(f'grant create on schema public to "{name}-archiver"')
        return psycopg.conninfo.make_conninfo(dsn, user=f"{name}-archiver", password="x")

    return types.SimpleNamespace(create_database=create_database)


@pytest.fixture(scope="module")
def pipeline(new_pipeline, kafka):
    """Topics are made by their user, tables by the archiver's role."""
    made = new_pipeline(
        "permissions", kafka_server=kafka, kafka=kafka.login("topics"), tiers=["1s"], policies=POLICIES,
        targets={"allow": ["payments", "small"]}, topics={"prefix": "shop.", "partitions": 1},
    )  # fmt: skip
    for rights, user in (("select", "reader"), ("select, insert, update, delete", "replayer")):
        made.database.query(f'grant {rights} on all tables in schema public to "{made.name}-{user}"')
    for name in ("router", "delayer", "archiver"):
        service = made.add(name)
        made.write_config(service.config, {name: {"listen": f"127.0.0.1:{service.port}"}, "kafka": kafka.login(name)})
        service.start().wait_ready()
    made.handler = Handler(kafka.login("handler"))
    yield made
    made.handler.consumer.close()


class Handler:
    def __init__(self, client):
        group = {"group.id": "handlers", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        self.producer, self.consumer, self.came = Producer(client), Consumer(client | group), {}
        self.consumer.subscribe(["payments", "fallback"])

    def fail(self, task_type, target=None, **fields):
        """Emits an event; returns the task's id."""
        task = contract.failed_task(target, task_type, **fields)
        self.producer.produce("shop.failed-tasks", contract.single_object(task), task["task_id"])
        assert self.producer.flush(30) == 0
        return task["task_id"]

    def wait(self, *task_ids):
        """The payloads with which these tasks come."""
        def have_come():
            if (message := self.consumer.poll(0.1)) is not None:
                assert message.error() is None, message.error()
                self.came[dict(message.headers())["reprise-task-id"].decode()] = message.value()
            return set(task_ids) <= set(self.came)

        wait_for(have_come, task_ids)
        self.consumer.commit(asynchronous=False)
        return [self.came[task_id] for task_id in task_ids]


def run(pipeline, user, *arguments, code=0):
    """A command of a user of Kafka, with the role of the same name."""
    pipeline.config_file = pipeline.folder / f"{user}.yaml"
    postgres = {"dsn": psycopg.conninfo.make_conninfo(pipeline.dsn, user=f"{pipeline.name}-{user}")}
    pipeline.write_config(pipeline.config_file, {"kafka": pipeline.kafka.login(user), "postgres": postgres})
    return pipeline.cli(*arguments, code=code)


def die(pipeline, count):
    """So many tasks, archived a minute ago: what is new is left alone by who may not see an archiver's session."""
    ids = [pipeline.handler.fail("now", "payments", attempt=3) for _ in range(count)]
    for task_id in ids:
        pipeline.dead_letter(task_id=task_id)
    pipeline.database.query("update dead_letter set archived_at = archived_at - interval '1 minute'")
    return ids


def trimmed_to(pipeline):
    part = TopicPartition("shop.retry-1s", 0)
    return pipeline.kafka.admin.list_offsets({part: admin.OffsetSpec.earliest()})[part].result().offset


def test_topics_are_mended_and_checked(pipeline):
    changed = admin.ConfigEntry("retention.ms", "1000000", incremental_operation=admin.AlterConfigOpType.SET)
    tier = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, "shop.retry-1s", incremental_configs=[changed])
    pipeline.kafka.admin.incremental_alter_configs([tier])[tier].result()
    assert "altered retention.ms" in run(pipeline, "topics", "topics", "apply", "--alter")
    assert "\n0 faults\n" in run(pipeline, "topics", "topics", "check")
    # A tier that the configuration does not name is found, and looked into.
    pipeline.producer.produce(pipeline.kafka.create_topic("shop.retry-9s"), b"a task")
    assert pipeline.producer.flush(30) == 0
    assert "shop.retry-9s: nobody reads it" in run(pipeline, "topics", "topics", "check", code=3)


def test_tasks_come_back(pipeline):
    handler = pipeline.handler
    ids = [handler.fail("default"), handler.fail("now", "payments"), handler.fail("last", attempt=3)]
    # What the brokers refuse is a dead letter by the router or, after its delay, by the delayer.
    large = [handler.fail(kind, "small", payload=bytes(30_000)) for kind in ("now", "default")]
    said = run(pipeline, "handler", "fail", "--type", "now", "--target", "payments", "--error", "Oops")
    handler.wait(*ids, said.split()[0])
    assert [pipeline.dead_letter(task_id=task_id)["reason"] for task_id in large] == ["OVERSIZED"] * 2
    wait_for(lambda: trimmed_to(pipeline) > 0, "the delayer to trim")


def test_dead_letters_are_replayed(pipeline):
    def act(*arguments):
        run(pipeline, "replayer", "dlq", *arguments, "--reason", "a test", "--yes")

    here, to_router, detached, edited, *slow = die(pipeline, 7)
    act("replay", "--task", here)
    act("replay", "--task", to_router, "--to", "router")
    act("replay", "--task", detached, "--detach")
    act("edit", "--task", edited, "--jq", '.payload = "mended"')
    assert pipeline.handler.wait(here, detached, edited)[-1] == b"mended"
    wait_for(lambda: len(pipeline.dead_letters(task_id=to_router)) == 2, "it to be dead again")

    act("replay", "--task", ",".join(slow), "--detach", "--rate", "0.3")
    pipeline.handler.wait(slow[0])
    ((job,),) = pipeline.database.query("select job from replay_job where total = 3")
    for what in (["pause", job], ["rate", job, "none"], ["resume", job], ["show", job]):
        run(pipeline, "replayer", "replay", *what)
    pipeline.handler.wait(*slow)


def test_the_archive_is_looked_at_and_cleaned(pipeline, tmp_path):
    ids, letters = die(pipeline, 2), tmp_path / "letters"
    for command in ("dlq list", "dlq groups", "dlq stats", "dlq count", "dlq export", "replay list"):
        run(pipeline, "reader", *command.split())
    run(pipeline, "reader", "dlq", "show", "--task", ids[0])
    for what in (["discard"], ["discard", "--undo"], ["purge", "--export", letters]):
        run(pipeline, "replayer", "dlq", *what, "--task", ",".join(ids), "--reason", "a test", "--yes")
    assert not pipeline.dead_letters(task_id=ids[0])
    run(pipeline, "archiver", "dlq", "import", letters, "--reason", "a test")
    assert pipeline.dead_letter(task_id=ids[0])


def test_one_permission_less_is_not_enough(pipeline):
    """So the servers do deny what the table does not name. The last test: what is taken is not given back."""
    assert "authorization failed" not in str(pipeline.logs())
    run(pipeline, "reader", "fail", "--type", "now", "--target", "payments", "--error", "Oops", code=1)
    run(pipeline, "reader", "dlq", "discard", "--task", *die(pipeline, 1), "--reason", "a test", "--yes", code=1)

    router, delayer, _ = pipeline.services
    kept = trimmed_to(pipeline)
    pipeline.kafka.take("delayer", "DELETE", "topic", "shop.retry-*")
    pipeline.handler.wait(pipeline.handler.fail("default"))
    wait_for(lambda: "trim-failed" in delayer.log.read_text(), "the delayer to say so")
    assert trimmed_to(pipeline) == kept

    pipeline.kafka.take("router", "WRITE", "transactional_id", "shop.reprise-router*")
    pipeline.handler.fail("now", "payments")
    assert router.process.wait(30) == 1
