# SPDX-License-Identifier: Apache-2.0
"""librdkafka fetches no more for a service, and says nothing (programs/stall.c): the service sees that its partitions
go on without it, and begins again."""

import os
import time

import pytest

import contract
from pipeline import BUILD, header, wait_for

NOTICED_S = 120  # two to three looks, 30 s apart, and to join the group anew


@pytest.fixture
def pipeline(new_pipeline):
    policies = {"soon": {"max_attempts": 2, "backoff": {"fixed": "200ms"}}, "once": {"max_attempts": 1}}
    made = new_pipeline("stall", policies=policies)
    for name in ("router", "delayer", "archiver"):
        made.add(name).start(
            LD_PRELOAD=str(BUILD / "bin/stall.so"),
            ASAN_OPTIONS=f"{os.environ.get('ASAN_OPTIONS', '')}:verify_asan_link_order=0",
            REPRISE_STALL=str(made.folder / f"stall-{name}"),
        )
    for service in made.services:
        service.wait_ready()
    made.handler = made.reader(made.create_target("handler"))
    return made


@pytest.mark.timeout(300)
def test_a_consumer_that_stands_still_is_replaced(pipeline):
    router, delayer, archiver = pipeline.services

    def stall(*services):
        files = [pipeline.folder / f"stall-{service.name}" for service in services]
        for file in files:
            file.touch()
        wait_for(lambda: not any(file.exists() for file in files), "it to stand still")
        time.sleep(1)  # the fetch under way would tell of what is sent next

    def fail(task_id, task_type):
        pipeline.fail(contract.failed_task(pipeline.handler.topic, task_type, task_id=task_id))

    fail("before", "soon")
    fail("before-dead", "once")
    pipeline.handler.of_task("before")
    pipeline.dead_letter(task_id="before-dead")
    stall(delayer, archiver)
    fail("later", "soon")
    fail("later-dead", "once")
    wait_for(lambda: router.metric("reprise_router_events_total") >= 4, "the router to have all")
    stall(router)
    fail("last", "soon")
    fail("last-dead", "once")
    assert pipeline.handler.poll(5) == []
    assert len(pipeline.dead_letters()) == 1
    for task_id in ("later", "last"):
        pipeline.handler.of_task(task_id, timeout=NOTICED_S)
        pipeline.dead_letter(task_id=f"{task_id}-dead", timeout=NOTICED_S)
    came = [header(r, "reprise-task-id") for r in pipeline.handler.records]
    assert sorted(came) == ["before", "last", "later"]
    for label, text in pipeline.logs().items():
        again = [line for line in text.splitlines() if " worker-begins-again " in line]
        assert len(again) == 1 and "nothing comes of" in again[0], label
    for service in pipeline.services:
        assert service.metric("reprise_worker_restarts_total") == 1
