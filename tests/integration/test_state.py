# SPDX-License-Identifier: Apache-2.0
"""The delayer's state: what is settled goes, what waits outlives a stop, and lost state is told."""

import contract
import pytest
from confluent_kafka import Consumer, TopicPartition
from pipeline import header, wait_for

POLICIES = {
    "soon": {"max_attempts": 2, "backoff": {"fixed": "2s"}, "jitter": 0},  # long enough to be parked
    "later": {"max_attempts": 2, "backoff": {"fixed": "12s"}, "jitter": 0},
    "latest": {"max_attempts": 2, "backoff": {"fixed": "25s"}, "jitter": 0},
}


@pytest.fixture(scope="module")
def pipeline(new_pipeline):
    pipeline = new_pipeline("state", policies=POLICIES)
    pipeline.create_target("handler")
    pipeline.handler = pipeline.reader(pipeline.target("handler"))
    pipeline.start("router", "delayer")
    return pipeline


def fail(pipeline, kind, number, key=None):
    target, task_id, key = pipeline.target("handler"), f"{kind}-{number}", key or str(number).encode()
    pipeline.fail(contract.failed_task(target, kind, task_id=task_id, key=key))


def offsets(pipeline, tier):
    """How many of a tier were deleted, over its partitions, and how many are committed as settled."""
    group = f"{pipeline.prefix}reprise-delayer"
    consumer = Consumer({"bootstrap.servers": pipeline.kafka.bootstrap, "group.id": group})
    parts = [TopicPartition(f"{pipeline.prefix}{tier}", p) for p in range(4)]
    try:
        low = [consumer.get_watermark_offsets(part, timeout=10)[0] for part in parts]
        return sum(low), sum(max(part.offset, 0) for part in consumer.committed(parts, timeout=10))
    finally:
        consumer.close()


def routed(pipeline, task_id):
    (router,) = [s for s in pipeline.services if s.name == "router"]
    return f"task_id={task_id} " in router.log.read_text()


def assert_came_once_and_not_early(pipeline, task_id):
    (record,) = pipeline.handler.of_task(task_id, timeout=60)
    assert record.received_ms >= int(header(record, "reprise-due"))
    pipeline.handler.poll(1)
    assert len(pipeline.handler.of_task(task_id)) == 1


def test_what_is_settled_is_deleted(pipeline):
    for number in range(20):
        fail(pipeline, "soon", number)
    for number in range(20):
        pipeline.handler.of_task(f"soon-{number}")

    def gone():
        low, settled = offsets(pipeline, "retry-1s")
        return low == settled >= 20

    wait_for(gone, "what is settled to be deleted")


def test_what_waits_outlives_a_stop(pipeline):
    (delayer,) = [s for s in pipeline.services if s.name == "delayer"]
    fail(pipeline, "latest", 1)
    wait_for(lambda: routed(pipeline, "latest-1"), "the router to park it")
    assert delayer.stop() == 0
    delayer.start().wait_ready()
    wait_for(lambda: delayer.metric("reprise_delayer_held_tasks") == 1, "it to be held again")
    wait_for(lambda: delayer.metric("reprise_delayer_frontier_lag") > 0, "it to be read again where this one dies")
    assert_came_once_and_not_early(pipeline, "latest-1")
    wait_for(lambda: delayer.metric("reprise_delayer_frontier_lag") == 0, "nothing to be read again")
    assert delayer.metric("reprise_delayer_lateness_seconds_count") == 1
    assert delayer.metric("reprise_delayer_lateness_seconds_sum") < 10
    assert delayer.metric("reprise_delayer_held_tasks") == delayer.metric("reprise_delayer_overdue_seconds") == 0


def test_a_state_that_the_broker_forgot_is_told_and_nothing_is_lost(pipeline):
    (delayer,) = [s for s in pipeline.services if s.name == "delayer"]
    deleted, _ = offsets(pipeline, "retry-1s")
    fail(pipeline, "soon", 30, key=b"same")
    pipeline.handler.of_task("soon-30")
    wait_for(lambda: offsets(pipeline, "retry-1s")[0] > deleted, "what is settled to be deleted")
    assert delayer.stop() == 0
    fail(pipeline, "soon", 31, key=b"same")  # it lies where a deleted one shows that there was state
    wait_for(lambda: routed(pipeline, "soon-31"), "the router to park it")
    group = f"{pipeline.prefix}reprise-delayer"
    for done in pipeline.kafka.admin.delete_consumer_groups([group]).values():
        done.result()
    delayer.start().wait_ready()
    assert pipeline.handler.of_task("soon-31")
    assert "state-lost" in delayer.log.read_text()


def restart_with(pipeline, *services, **config):
    pipeline.config |= config
    pipeline.write_config(pipeline.config_file)
    for service in services:
        pipeline.write_config(service.config, {service.name: {"listen": f"127.0.0.1:{service.port}"}})
        if service.running():
            assert service.stop() == 0
        service.start().wait_ready()


def test_a_tier_that_was_taken_out_is_told_and_can_be_emptied(new_pipeline):
    pipeline = new_pipeline("retired", policies=POLICIES)
    pipeline.create_target("handler")
    pipeline.handler = pipeline.reader(pipeline.target("handler"))
    router, delayer = pipeline.start("router", "delayer")
    assert delayer.stop() == 0
    for number in range(20):
        fail(pipeline, "later", number)
    tier = f"{pipeline.prefix}retry-3s"
    waiting = pipeline.reader(tier)
    waiting.wait(20)
    assert router.stop() == 0

    restart_with(pipeline, delayer, tiers=["1s"])
    unread = f"tier-unread topic={tier}"
    wait_for(lambda: unread in delayer.log.read_text(), "the delayer to tell of it", 30)
    assert f"{tier}: nobody reads it, and up to " in pipeline.cli("topics", "check", code=3)

    moved = pipeline.reader(f"{pipeline.prefix}retry-1s")
    restart_with(pipeline, delayer, tiers_retired=["3s"])
    # It goes before it has deleted what it settled, so the next one must.
    moved.wait(20)
    restart_with(pipeline, delayer)
    for number in range(20):
        (record,) = pipeline.handler.of_task(f"later-{number}")
        assert record.received_ms >= int(header(record, "reprise-due"))
    empty = f"note: {tier} is retired and empty: "
    wait_for(lambda: empty in pipeline.cli("topics", "check"), "the tier to be empty", 30)
    assert len(pipeline.handler.records) == 20


def test_who_was_killed_and_comes_back_with_other_tiers_reads_those(new_pipeline):
    pipeline = new_pipeline("tiers", policies=POLICIES)
    pipeline.create_target("handler")
    pipeline.handler = pipeline.reader(pipeline.target("handler"))
    router, delayer = pipeline.start("router", "delayer")
    for number, tiers in enumerate((["1s", "1500ms", "3s"], ["1s"])):
        pipeline.config["tiers"] = tiers
        pipeline.write_config(pipeline.config_file)
        pipeline.cli("topics", "apply")
        delayer.kill()
        restart_with(pipeline, router, delayer)
        fail(pipeline, "soon", number)
        assert_came_once_and_not_early(pipeline, f"soon-{number}")
    assert delayer.running()
