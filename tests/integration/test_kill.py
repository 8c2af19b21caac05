# SPDX-License-Identifier: Apache-2.0
"""Everything is killed again and again while tasks fail and recover; then all is counted."""

import collections
import time

import pytest

import contract
from pipeline import header, now_ms

TASKS, RATE = 3000, 150
POLICIES = {
    "flaky": {
        "max_attempts": 5,
        "backoff": {"uniform": {"min": "100ms", "max": "5s"}},
        "jitter": "10%",
    },
    "doomed": {"max_attempts": 3, "backoff": {"fixed": "400ms"}},
}


class Chaos:
    """Kills a random victim every second or two and starts it again a moment later: each of them once, then again."""

    def __init__(self, rng, victims, pause=(1.0, 2.0)):
        self.rng, self.victims, self.pause = rng, victims, pause
        self.down, self.kills, self.bag = None, collections.Counter(), []
        self.next = time.monotonic() + rng.uniform(*pause)

    def step(self):
        if time.monotonic() < self.next:
            return
        if self.down:
            self.mend()
        else:
            self.bag = self.bag or self.rng.sample(self.victims, len(self.victims))
            self.down = self.bag.pop()
            self.down.kill()
            self.kills[self.down.label] += 1
            self.next = time.monotonic() + self.rng.uniform(0, 0.5)

    def mend(self):
        if self.down:
            self.down.start()
        self.down = None
        self.next = time.monotonic() + self.rng.uniform(*self.pause)


class Load:
    """Emits tasks at a steady rate, and handles their re-invocations, which fail as planned."""

    def __init__(self, pipeline, rng):
        self.pipeline, self.rng = pipeline, rng
        self.reader = pipeline.reader(pipeline.create_target("handler", partitions=4))
        self.tasks, self.fails_until, self.succeeded = {}, {}, set()
        self.came = collections.Counter()
        self.early, self.lateness = [], []

    def emit(self):
        number = len(self.tasks)
        task_id = f"task-{number}"
        kind = "doomed" if number % 10 == 0 else "flaky"
        self.fails_until[task_id] = 99 if kind == "doomed" else self.rng.randint(2, 4)
        self.tasks[task_id] = contract.failed_task(
            self.reader.topic, kind, task_id=task_id, payload=task_id.encode() * 20,
            key=f"key-{number % 50}".encode() if number % 2 else None,
        )  # fmt: skip
        self.send(self.tasks[task_id])

    def send(self, task):
        self.pipeline.send(contract.single_object(task), task["key"] or task["task_id"].encode())

    def handle(self, seconds=0.02):
        for record in self.reader.poll(seconds):
            task_id, attempt = header(record, "reprise-task-id"), int(header(record, "reprise-attempt"))
            late = record.received_ms - int(header(record, "reprise-due"))
            self.lateness.append(late)
            if late < 0:
                self.early.append((task_id, attempt, late))
            self.came[task_id, attempt] += 1
            task = self.tasks[task_id]
            assert (record.key, record.value) == (task["key"], task["payload"])
            if attempt >= self.fails_until[task_id]:
                self.succeeded.add(task_id)
                continue
            headers = [{"key": key, "value": value} for key, value in record.headers]
            self.send(task | {"attempt": attempt, "headers": headers, "failed_at": now_ms()})

    def run(self, chaos, kills):
        """Emits until all tasks are out and so many kills are done."""
        begin = time.monotonic()
        while len(self.tasks) < TASKS or chaos.kills.total() < kills:
            while len(self.tasks) < min(TASKS, (time.monotonic() - begin) * RATE):
                self.emit()
            self.handle()
            chaos.step()
        chaos.mend()
        print(f"kills: {dict(chaos.kills)}")
        assert set(chaos.kills) == {victim.label for victim in chaos.victims}

    def finish(self, timeout=60):
        """Handles on until every task has succeeded or is dead."""
        doomed = {task_id for task_id, until in self.fails_until.items() if until == 99}
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            self.handle(0.2)
            if len(self.succeeded) == len(self.tasks) - len(doomed):
                if len(self.pipeline.dead_letters()) >= len(doomed):
                    break
        self.handle(2)  # whatever comes twice
        assert self.pipeline.producer.flush(10) == 0
        return doomed

    def check(self, doomed):
        lost = set(self.tasks) - doomed - self.succeeded
        doubled = {key: n for key, n in self.came.items() if n > 1}
        rows = collections.Counter(row["task_id"] for row in self.pipeline.dead_letters())
        late = sorted(self.lateness)
        print(
            f"{len(self.tasks)} tasks, {sum(self.came.values())} re-invocations, "
            f"{len(rows)} dead letters; lateness p50 {late[len(late) // 2]} ms, "
            f"p99 {late[len(late) * 99 // 100]} ms"
        )
        assert not lost, f"{len(lost)} lost: {sorted(lost)[:10]}"
        assert not doubled, f"{len(doubled)} doubled: {list(doubled.items())[:10]}"
        assert not self.early, f"{len(self.early)} early: {self.early[:10]}"
        assert set(rows) == doomed
        assert not [task_id for task_id, count in rows.items() if count > 1]
        wrong = [task_id for task_id in doomed if self.came[task_id, 2] + self.came[task_id, 3] != 2]
        assert not wrong, f"not invoked as often as the policy says: {wrong[:10]}"


@pytest.mark.timeout(240)
def test_services_that_are_killed_lose_double_and_hurry_nothing(new_pipeline, rng):
    pipeline = new_pipeline(
        "kill-services",
        partitions=6,
        policies=POLICIES,
        router={"workers": 2},
        delayer={"workers": 2},
    )
    load = Load(pipeline, rng)
    pipeline.start("router", "delayer", count=2)
    pipeline.start("archiver")
    load.run(Chaos(rng, pipeline.services), kills=12)
    load.check(load.finish())


class Server:
    def __init__(self, label, kill, start):
        self.label, self.kill, self.start = label, kill, start


@pytest.mark.timeout(400)
def test_servers_that_crash_lose_double_and_hurry_nothing(own_kafka, new_pipeline, postgres, rng):
    pipeline = new_pipeline("kill-servers", kafka_server=own_kafka, policies=POLICIES)
    load = Load(pipeline, rng)
    pipeline.start("router", "delayer", "archiver")
    chaos = Chaos(
        rng,
        [
            Server("kafka", own_kafka.stop, own_kafka.start),
            Server("postgres", postgres.stop, postgres.start),
        ],
        pause=(3.0, 5.0),
    )
    load.run(chaos, kills=4)
    load.check(load.finish())
