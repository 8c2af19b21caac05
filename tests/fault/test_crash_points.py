# SPDX-License-Identifier: Apache-2.0
"""Each service dies at each of its crash points in turn, and is started again; then all is counted."""

import signal
import subprocess
import time

import pytest
from checker import judge
from load import POLICIES, Load
from pipeline import BUILD

SERVICES = ("router", "delayer", "archiver")
# Only a batch that the brokers refuse comes there, and what this load sends is known to fit.
REFUSED = ("abort_before", "abort_after", "rewind_before", "rewind_after")


def crash_points():
    """(number, name, services) of each, from the build's own list."""
    lines = subprocess.check_output([BUILD / "bin/crash_points"], text=True).splitlines()
    for number, name, services in (line.split("\t") for line in lines):
        if name not in REFUSED:
            yield int(number), name, services.split()


class Victim:
    """A service that goes from one of its crash points to the next."""

    PATIENCE_S = 30  # before a point counts as one that is not reached

    def __init__(self, service, points, rng):
        self.service, self.rng = service, rng
        self.left = [(number, name, rng.randint(1, 3)) for number, name in points]
        self.died, self.missed = [], []
        self.now = None
        self.arm()

    def arm(self):
        """Starts it with the next point; with none, as it is."""
        self.now = self.left.pop(0) if self.left else None
        self.since = time.monotonic()
        if self.now is None:
            self.service.start()
            return
        number, name, nth = self.now
        if name.startswith(("init", "revoked", "rewind", "abort", "trim", "day", "assigned")):
            nth = 1  # seldom comes a second time
        self.service.start(REPRISE_CRASH_POINT=f"{number}:{nth}")

    def step(self):
        if self.now is None:
            return
        code = self.service.process.poll()
        if code is None:
            waited = time.monotonic() - self.since
            if self.now[1].startswith("revoked") and waited > 3:
                self.service.process.send_signal(signal.SIGTERM)
                self.since = time.monotonic() + 3600
            elif waited > self.PATIENCE_S:
                self.service.kill()
                self.missed.append(self.now)
                self.arm()
            return
        (self.died if code == -signal.SIGKILL else self.missed).append(self.now)
        self.arm()


@pytest.mark.timeout(400)
def test_a_service_may_die_anywhere(new_pipeline, rng):
    points = list(crash_points())
    assert points
    pipeline = new_pipeline("crash", policies=POLICIES, router={"workers": 2}, delayer={"workers": 2})
    load = Load(pipeline, rng)
    victims = [
        Victim(
            pipeline.add(name),
            [(number, point) for number, point, services in points if name in services],
            rng,
        )
        for name in SERVICES
    ]
    begin, emitted = time.monotonic(), 0
    while any(victim.now for victim in victims):
        if emitted < (time.monotonic() - begin) * 40:
            load.emit()
            emitted += 1
        load.handle(0.01)
        for victim in victims:
            victim.step()
    load.finish()
    deaths = {v.service.name: len(v.died) for v in victims}
    print(f"{len(load.plans)} tasks, deaths: {deaths}")
    assert not (faults := judge(load.history())), f"{len(faults)}: {faults[:10]}"
    missed = {v.service.name: v.missed for v in victims if v.missed}
    assert not missed, f"not reached, or ended otherwise: {missed}"
