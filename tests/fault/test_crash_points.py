# SPDX-License-Identifier: Apache-2.0
"""Each service dies at each of its crash points in turn, and is started again; then all is counted."""

import collections
import contextlib
import pathlib
import signal
import time

import pytest
from checker import judge
from cluster import transactional_id
from confluent_kafka import KafkaException, Producer
from crash_points import all_points
from history import keep
from load import POLICIES, Load
from pipeline import BUILD

SERVICES = ("router", "delayer", "archiver")
# What is done otherwise without transactions, and what hangs on it.
AT_LEAST_ONCE = (
    "produce_before", "produce_after", "acknowledged", "commit_before", "commit_after", "revoked_before", "revoked_after",
    "settled", "take_over_before", "take_over_after", "trim_before", "trim_sent", "trim_answered",
    "states_before", "states_sent", "states_answered",
)  # fmt: skip
BATCHES = (1, 1000)  # always full, so that the next is filled beside it, and never
RATE = 40  # tasks a second, where that few are under way
# With more, a router that sends one at a time would fall behind by longer than tasks are to be delayed, and pass them
# by a delayer that is to die of one.
MOST_OPEN = 200


def fence(pipeline, service):
    """Takes the name of the service's first worker: what that one sends next is refused. Says what came of it."""
    began, came = time.monotonic(), "taken"
    name = f"{pipeline.prefix}reprise-{service.name}-{transactional_id(service)}-0"
    try:
        Producer(
            {"bootstrap.servers": pipeline.kafka.bootstrap, "transactional.id": name}
        ).init_transactions(10)
    except KafkaException as error:
        came = str(error)  # the worker, or its successor, took it back meanwhile
    return f"{name} after {time.monotonic() - began:.1f} s: {came}"


class Victim:
    """A service that goes from one of its crash points to the next."""

    PATIENCE_S = 90  # before a point counts as one that is not reached; another service may die meanwhile, and again

    def __init__(self, pipeline, service, points, rng):
        self.pipeline, self.service, self.rng = pipeline, service, rng
        self.left = [(number, name, rng.randint(1, 3)) for number, name in points]
        self.died, self.missed = [], []
        self.now = None
        self.arm()

    def arm(self):
        """Starts it with the next point; with none, as it is."""
        self.now = self.left.pop(0) if self.left else None
        self.since, self.pushes, self.fences = time.monotonic(), 0, []
        if self.now is None:
            self.service.start()
            return
        number, name, nth = self.now
        if name.startswith(("init", "revoked", "rewind", "abort", "trim", "day", "assigned")):
            nth = 1  # seldom comes a second time
        batch = 1 if name.endswith("beside") else self.rng.choice(BATCHES)  # two transactions at once
        section = {"listen": f"127.0.0.1:{self.service.port}", "batch": batch}
        self.pipeline.write_config(self.service.config, {self.service.name: section})
        self.service.start(REPRISE_CRASH_POINT=f"{number}:{nth}")

    def push(self, waited):
        """Brings about what the load does not lead to, each two seconds."""
        if waited < 2 * (self.pushes + 1):
            return
        self.pushes += 1
        if self.now[1].startswith("revoked"):
            if self.service.get("/readyz")[0] != 200:
                return  # it has nothing to give up yet
            self.service.process.send_signal(signal.SIGTERM)
            self.since = time.monotonic() + 3600
        elif self.now[1].startswith(("abort", "rewind")):
            self.fences.append(fence(self.pipeline, self.service))

    def step(self):
        if self.now is None:
            return
        code = self.service.process.poll()
        if code is None:
            waited = time.monotonic() - self.since
            self.push(waited)
            if waited > self.PATIENCE_S:
                self.missed.append((self.now, self.state()))
                self.service.kill()
                self.arm()
            return
        if code == -signal.SIGKILL:
            self.died.append(self.now)
        else:
            self.missed.append((self.now, f"exit {code}"))
        self.arm()

    def state(self):
        """What may tell why it does not come there."""
        threads = collections.Counter()
        for task in pathlib.Path(f"/proc/{self.service.process.pid}/task").glob("*/comm"):
            with contextlib.suppress(OSError):  # it may end meanwhile
                threads[task.read_text().strip()] += 1
        lines = self.service.log.read_text(errors="replace").split(" started ")[-1].splitlines()
        rare = [line for line in lines if " debug " not in line or "-waits" in line][-60:]
        return [self.fences, self.service.get("/readyz"), self.service.samples(), threads, rare]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_a_service_may_die_anywhere(new_pipeline, rng, guarantee):
    points = all_points()
    if guarantee == "at-least-once":
        points = [point for point in points if point[1] in AT_LEAST_ONCE]
        assert len(points) == len(AT_LEAST_ONCE)
    assert points
    pipeline = new_pipeline(
        "crash", policies=POLICIES, router={"workers": 2}, delayer={"workers": 2}, guarantee=guarantee
    )
    load = Load(pipeline, rng)
    victims = [
        Victim(
            pipeline, pipeline.add(name),
            [(number, point) for number, point, whose in points if {name, f"{name}-{guarantee}"} & set(whose)],
            rng,
        )
        for name in SERVICES
    ]
    emit_at = bury_at = time.monotonic()
    while any(victim.now for victim in victims):
        now = time.monotonic()
        if now >= bury_at:
            load.bury()
            bury_at = now + 1
        if now >= emit_at and len(load.open) < MOST_OPEN:
            load.emit()
            emit_at = max(emit_at + 1 / RATE, now - 1)
        load.handle(0.01)
        for victim in victims:
            victim.step()
    load.finish()
    history = load.history()
    ended = [v.service.label for v in victims if not v.service.running()]
    assert not ended, f"ended by themselves: {ended}"
    deaths = {v.service.name: len(v.died) for v in victims}
    print(f"{len(load.plans)} tasks, deaths: {deaths}")
    if faults := judge(history):
        pytest.fail(f"{len(faults)}: {faults[:10]}; {keep(history, BUILD / 'fault' / f'crash-{guarantee}')}")
    missed = {v.service.name: v.missed for v in victims if v.missed}
    assert not missed, f"not reached, or ended otherwise: {missed}"
