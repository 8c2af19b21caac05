# SPDX-License-Identifier: Apache-2.0
"""A schema registry that hangs holds up the records that need it, and hardly anything else."""

import contract
from pipeline import header

POLICIES = {
    "soon": {"max_attempts": 3, "backoff": {"fixed": "300ms"}, "jitter": 0},
    "later": {"max_attempts": 3, "backoff": {"fixed": "5s"}, "jitter": 0},
}


def fail(pipeline, task_id, kind, partition, encode=contract.single_object):
    task = contract.failed_task(pipeline.target("handler"), kind, task_id=task_id)
    topic = f"{pipeline.prefix}failed-tasks"
    pipeline.producer.produce(topic, encode(task), partition=partition)
    assert pipeline.producer.flush(30) == 0


def test_a_registry_that_hangs_holds_up_only_what_needs_it(new_pipeline, registry):
    # A request may take longer than the others are given.
    pipeline = new_pipeline(
        "registry", policies=POLICIES, schema_registry={"url": registry.url, "timeout": "40s"}
    )
    handler = pipeline.reader(pipeline.create_target("handler"))
    pipeline.start("router", "delayer", "archiver")

    # The router knows the schema, the delayer does not yet.
    fail(pipeline, "parked", "later", 0, lambda task: contract.confluent(task, 7))
    pipeline.reader(f"{pipeline.prefix}retry-3s").of_task("parked")
    registry.hang()
    assert registry.asked.wait(30)
    # And here is one that the router cannot read.
    fail(pipeline, "unread", "soon", 0, lambda task: contract.confluent(task, 8))
    others = [f"other-{number}" for number in range(60)]
    for number, task_id in enumerate(others):
        fail(pipeline, task_id, "soon", 1 + number % 3)
    for task_id in others:
        handler.of_task(task_id, timeout=20)
    came = [header(record, "reprise-task-id") for record in handler.records]
    assert sorted(came) == sorted(others)

    registry.answers.set()
    handler.of_task("parked", timeout=60)
    handler.of_task("unread", timeout=60)
    assert pipeline.dead_letters() == []
