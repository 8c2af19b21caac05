# SPDX-License-Identifier: Apache-2.0
"""What waits in a tier, or is late, waits in the log: so memory hardly notices."""

import os
import threading
import time

import contract
import pytest
from confluent_kafka import Producer
from pipeline import memory_kib, now_ms, wait_for

pytestmark = pytest.mark.plain

TASKS = int(os.environ.get("REPRISE_MEMORY_TASKS", 1_000_000))
OVERDUE = TASKS // 5
PAYLOAD = 1024
MIB = 1 << 20


class Watch(threading.Thread):
    """The most that a process was resident, by the kernel's count, in each phase."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.phase, self.most, self.over = pid, "waiting", {}, False

    def resident(self):
        return memory_kib(self.pid) * 1024

    def run(self):
        while not self.over:
            self.most[self.phase] = max(self.most.get(self.phase, 0), self.resident())
            time.sleep(0.2)


def event(target, payload):
    return contract.single_object(
        {
            "task_id": "t",
            "task_type": "work",
            "target": target,
            "payload": b"p" * payload,
            "attempt": 1,
            "error": {"class": "TimeoutError", "message": "", "causes": []},
            "source": "test",
            "headers": [],
            "failed_at": 1,
        }
    )


def headers_of(number, target, due):
    return [
        ("reprise-task-id", f"t-{number}"),
        ("reprise-attempt", "2"),
        ("reprise-due", str(due)),
        ("reprise-target", target),
        ("reprise-policy", "default"),
        ("reprise-first-failed-at", "1"),
    ]


def park(pipeline, tier, target, count, due_first, due_spread):
    """Puts tasks into the tier as the router does, due one after another."""
    value = event(target, PAYLOAD)
    producer = Producer(
        {
            "bootstrap.servers": pipeline.kafka.bootstrap,
            "linger.ms": 20,
            "queue.buffering.max.messages": 200_000,
        }
    )
    for i in range(count):
        headers = headers_of(i, target, due_first + i * due_spread // count)
        while True:
            try:
                producer.produce(pipeline.prefix + tier, value, str(i), headers=headers)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(60) == 0


@pytest.mark.timeout(480)
def test_a_million_waiting_tasks_cost_little_memory(new_pipeline):
    pipeline = new_pipeline("memory", tiers=["1s", "10s", "60s"], log={"level": "info"})
    target = pipeline.create_target("work", partitions=4)
    (delayer,) = pipeline.start("delayer")
    watch = Watch(delayer.process.pid)
    watch.start()
    due_first, due_spread = now_ms() + 100_000, 15_000
    park(pipeline, "retry-60s", target, TASKS, due_first, due_spread)
    assert now_ms() < due_first - 45_000, "too slow a machine: they were due before they waited"
    # A tier is read a slack before its records can be due, and what is read is held.
    time.sleep(2)
    watch.phase = "due"
    reader, seen, doubled, early = pipeline.reader(target), set(), 0, 0
    deadline = time.monotonic() + 300
    while len(seen) < TASKS and time.monotonic() < deadline:
        for record in reader.poll(0.2):
            headers = dict(record.headers)
            task, due = headers["reprise-task-id"], int(headers["reprise-due"])
            doubled += task in seen
            early += record.received_ms < due
            seen.add(task)
        reader.records.clear()
    watch.over = True
    watch.join()
    waiting, due = watch.most["waiting"] // MIB, watch.most["due"] // MIB
    print(f"{TASKS} tasks of {PAYLOAD} B: resident {waiting} MiB while they waited, {due} MiB while due")
    assert (len(seen), doubled, early) == (TASKS, 0, 0)
    assert waiting < 64
    assert due < 256


@pytest.mark.timeout(240)
def test_a_few_tasks_that_wait_keep_nothing_of_what_streams_by(new_pipeline):
    """What is fetched of both comes in one answer of the broker's, which goes as a whole."""
    pipeline = new_pipeline("stream", tiers=["1s", "60s"], log={"level": "info"})
    target = pipeline.create_target("work", partitions=4)
    (delayer,) = pipeline.start("delayer")
    large, small, rounds, each = event(target, 10_240), event(target, 100), 2500, 8
    before, began = memory_kib(delayer.process.pid) // 1024, time.monotonic()
    for i in range(rounds):
        now = now_ms()
        for n in range(each):
            pipeline.producer.produce(
                pipeline.prefix + "retry-1s", large, str(n), headers=headers_of(i * each + n, target, now + 1000)
            )
        pipeline.producer.produce(
            pipeline.prefix + "retry-60s", small, str(i), headers=headers_of(-i, target, now + 60_000)
        )
        pipeline.producer.poll(max(0, began + i * 0.01 - time.monotonic()))
    assert pipeline.producer.flush(60) == 0
    settled = 'reprise_delayer_settled_total{.*retry-1s.*}'
    wait_for(lambda: delayer.metric(settled) == rounds * each, "what streamed by to be sent", 120)
    after = memory_kib(delayer.process.pid) // 1024
    print(f"{rounds * each * 10_240 // MIB} MiB streamed by: resident {before} MiB, then {after} MiB")
    assert after - before < 80


@pytest.mark.parametrize("memory, tiers", [("32MiB", 1), ("8MiB", 8)])
def test_an_overdue_backlog_is_read_as_it_goes_out(new_pipeline, memory, tiers):
    pipeline = new_pipeline(
        "overdue", tiers=[f"{i + 1}s" for i in range(tiers)], log={"level": "info"},
        delayer={"memory": memory, "slack": "10s"},
    )  # fmt: skip
    target = pipeline.create_target("work", partitions=4)
    for i in range(tiers):
        park(pipeline, f"retry-{i + 1}s", target, OVERDUE // tiers, now_ms() - 60_000, 0)
    (delayer,) = pipeline.start("delayer")
    spilled = []

    def all_sent():
        spilled.append(delayer.metric('reprise_delayer_held_bytes{.*where="spill"'))
        return delayer.metric("reprise_delayer_settled_total") == OVERDUE // tiers * tiers or time.sleep(0.2)

    wait_for(all_sent, "the backlog to be sent", 120)
    assert max(spilled) == 0
