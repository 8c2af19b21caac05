# SPDX-License-Identifier: Apache-2.0
"""A replay dies at each of its crash points, and what goes on with it too: each task goes out once."""

import collections

import pytest
from crash_points import crash_points
from test_replay import KILLED, Replays, check_once

# Where a job of 300 may come once only, and where it need not come again: what is marked, or finished, stays so.
ONCE = {f"replay_{n}" for n in "claimed fenced cursor_read recovered mark_asked marked finish_before finished".split()}
NOT_AGAIN = {"replay_mark_asked", "replay_marked", "replay_finished"}


@pytest.fixture(scope="module")
def replays(new_pipeline):
    return Replays.with_handler(new_pipeline, "sweep")


class Sweep:
    """Lets a replay die at each point in turn, and goes on with it until it is through."""

    def __init__(self, replays):
        self.replays, self.number = replays, 0
        self.deaths, self.resumed_deaths = collections.Counter(), collections.Counter()

    def prepare(self, count=300):
        self.number += 1
        self.name = f"sweep{self.number}"
        self.replays.insert(self.name, count, self.replays.target, none_every=50)
        self.wanted = [n for n in range(count) if n % 50]
        self.refused = count - len(self.wanted)

    def begin(self, *arguments, crash):
        """Whether it died there."""
        code, text = self.replays.replay(self.name, "--rate", "1000", *arguments, crash=crash)
        assert code in (KILLED, 5), text
        self.deaths[crash] += code == KILLED
        self.job = self.replays.job()["job"]
        return code == KILLED

    def resume(self, crash=None):
        self.replays.age()
        code, text = self.replays.run("replay", "resume", self.job, crash=crash)
        assert code in ((KILLED, 5) if crash else (5,)), text
        self.resumed_deaths[crash] += code == KILLED

    def check(self):
        job = self.replays.job(self.job)
        assert (job["state"], job["marked"], job["refused"]) == ("done", job["total"], self.refused)
        assert self.replays.states(self.name) == {"replayed": len(self.wanted), "dead": self.refused}
        check_once(self.replays.reader, self.name, self.wanted)


@pytest.mark.timeout(600)
def test_killed_at_each_point_it_sends_each_once(replays):
    """At the first and the second time that it comes there, and again at the same place when it is resumed."""
    sweep = Sweep(replays)
    points = crash_points("replay")
    assert len(points) >= 20
    for number, name in points:
        for nth in (1, 2):
            sweep.prepare()
            if sweep.begin(crash=f"{number}:{nth}"):
                job = replays.job(sweep.job)
                if job["finished_at"] is None:
                    sweep.resume(crash=f"{number}:1")
                    if replays.job(sweep.job)["finished_at"] is None:
                        sweep.resume()
            sweep.check()
    replays.check_counts()
    print(f"{sweep.deaths.total()} deaths at {len(points)} points, {sweep.resumed_deaths.total()} when resumed")
    never = {name for number, name in points if not sweep.deaths[f"{number}:1"]}
    assert not never, f"it never came to {never}"
    never = {name for number, name in points if not sweep.deaths[f"{number}:2"]} - ONCE
    assert not never, f"it never came to {never} a second time"
    never = {name for number, name in points if not sweep.resumed_deaths[f"{number}:1"]} - NOT_AGAIN
    assert not never, f"it never came to {never} when it was resumed"
