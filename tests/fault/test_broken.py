# SPDX-License-Identifier: Apache-2.0
"""Services that are broken on purpose (CMakeLists.txt says how) do what breaks them: the checker must
catch each. The same is done to the real ones, which must come through."""

import pathlib
import random
import re
import signal
import time

import psycopg
import pytest
from checker import Judge, judge
from history import keep
from load import POLICIES, Load, unsettled_of
from pipeline import BUILD, wait_for

COMMIT_BEFORE, OFFSETS_BEFORE, SETTLED, COPY_BEFORE = 8, 5, 32, 44
# Members that stand still are soon given up.
KAFKA = {"session.timeout.ms": 2000, "heartbeat.interval.ms": 300}


@pytest.fixture
def scene(new_pipeline, kafka):
    """A pipeline in which one service is broken, or none."""

    def make(name, broken, others, kinds=None, repeats=0.0):
        pipeline = new_pipeline(
            name,
            policies=POLICIES,
            kafka={"bootstrap.servers": kafka.bootstrap, "consumer": KAFKA},
            delayer={"prepare_ahead": "0ms"},
        )
        load = Load(pipeline, random.Random(1), kinds or {"soon": (1,), "brisk": (3,)}, repeats)
        victim = pipeline.add(name.split("-")[0])
        if broken:
            victim.program = BUILD / f"bin/broken-{broken}/reprise-{victim.name}"
        pipeline.start(*others)
        return pipeline, load, victim

    return make


def emit(load, n):
    for _ in range(n):
        load.emit()
        load.handle(0.01)


def until_dead(load, victim, timeout=60):
    """The load goes on until the victim has died."""
    deadline = time.monotonic() + timeout
    while victim.process.poll() is None:
        assert time.monotonic() < deadline, "the crash point was not reached"
        emit(load, 1)
        load.handle(0.05)
    assert victim.process.returncode == -signal.SIGKILL


def stands_still(victim):
    return pathlib.Path(f"/proc/{victim.process.pid}/stat").read_text().rsplit(")")[1].split()[0] == "T"


def until_still(load, victim, more=1, timeout=60):
    """With `more` tasks each time it looks."""
    deadline = time.monotonic() + timeout
    while not stands_still(victim):
        assert time.monotonic() < deadline, "the crash point was not reached"
        emit(load, more)
        load.handle(0.05)


def rules_are(load, right):
    history = load.history()
    faults = judge(history)
    print(faults[:5])
    if right({fault.rule for fault in faults}):
        return True
    print(keep(history, BUILD / "fault" / f"broken-{load.pipeline.name}"))
    return False


def judged(load, broken, *wrong):
    """What is broken is caught for one of these, and what is sound for nothing at all."""
    return rules_are(load, lambda found: bool(found & set(wrong)) if broken else not found)


def test_a_tier_without_a_delayer(scene):
    """Nothing that lies in a tier looks settled, and everything once it was sent."""
    pipeline, load, victim = scene("delayer-away", None, ["router", "archiver"], {"lapping": (1,)})
    emit(load, 10)
    wait_for(lambda: len(unsettled_of(pipeline, "reprise-delayer", "retry-", 0)) >= 10, "the tasks in the tiers")
    victim.start().wait_ready()
    load.finish()
    assert judged(load, None)
    seen, _ = Judge(load.history()).waits()
    assert seen >= 10  # what lay there, at the least


@pytest.mark.parametrize("broken", [None, "guard"])
def test_a_repeated_event(scene, broken):
    pipeline, load, victim = scene("router-repeat", broken, ["delayer", "archiver"], repeats=0.5)
    victim.start().wait_ready()
    emit(load, 30)
    load.finish()
    # Where the repeat is taken for a failure of its own, it counts as another attempt.
    assert judged(load, broken, "doubled", "attempt")


@pytest.mark.parametrize("broken", [None, "transaction"])
@pytest.mark.parametrize("name, other", [("router", "delayer"), ("delayer", "router")])
def test_a_service_that_dies_before_its_commit(scene, name, other, broken):
    pipeline, load, victim = scene(f"{name}-dies", broken, [other, "archiver"])
    victim.start(REPRISE_CRASH_POINT=f"{COMMIT_BEFORE}:3")
    until_dead(load, victim)
    victim.start().wait_ready()
    load.finish()
    assert judged(load, broken, "doubled")


def test_a_delayer_that_is_early(scene):
    pipeline, load, victim = scene("delayer-hurries", "hurry", ["router", "archiver"])
    victim.start().wait_ready()
    emit(load, 30)
    load.finish()
    assert judged(load, "hurry", "early")


@pytest.mark.parametrize("broken, wrong", [(None, None), ("frontier", "doubled"), ("low", "lost")])
def test_a_delayer_that_dies_among_mixed_delays(scene, broken, wrong):
    pipeline, load, victim = scene("delayer-dies", broken, ["router", "archiver"])
    # One death among few tasks may find all of them sent in their order, and nothing to double.
    for _ in range(3):
        victim.start(REPRISE_CRASH_POINT=f"{SETTLED}:40").wait_ready()
        until_dead(load, victim)
    victim.start().wait_ready()
    load.finish(20 if broken == "low" else 90)  # what is lost is awaited in vain
    assert judged(load, broken, wrong)


@pytest.mark.parametrize("broken", [None, "fence"])
def test_a_delayer_that_comes_back_when_its_place_was_given_away(scene, broken):
    pipeline, load, victim = scene("delayer-zombie", broken, ["router", "archiver"])
    victim.start(REPRISE_CRASH_POINT=f"{OFFSETS_BEFORE}:1:S").wait_ready()
    # One task alone: with more that is due it would poll the consumer before it commits, and hear of it.
    emit(load, 1)
    until_still(load, victim, more=0)
    in_hand = sent(victim)[-1]
    heir = pipeline.add("delayer").start()
    wait_for(lambda: in_hand in committed(heir), "the heir to send what the zombie has in hand", 30)
    victim.process.send_signal(signal.SIGCONT)
    wait_for(lambda: in_hand in committed(victim) or gave_up(victim), "the zombie to commit, or not to")
    load.finish()
    assert judged(load, broken, "doubled")


def gave_up(delayer):
    return re.search(r" (batch-failed|worker-begins-again) ", delayer.log.read_text())


def sent(delayer):
    """The records that it began to send, in order, as its log tells."""
    return re.findall(r" sent (topic=\S+ partition=\d+ offset=\d+)", delayer.log.read_text())


def committed(delayer):
    """Those that are committed. Only it can tell: the target's readers wait for the victim's open transaction."""
    counts = re.findall(r'^reprise_delayer_settled_total\{decision="sent".* (\d+)$', delayer.get("/metrics")[1], re.M)
    return sent(delayer)[: sum(map(int, counts))]


def went_back(pipeline):
    with psycopg.connect(pipeline.dsn) as connection:
        return connection.execute("select from went_back").fetchone() is not None


@pytest.mark.parametrize("broken", [None, "fence"])
def test_an_archiver_that_comes_back_when_its_partitions_were_claimed(scene, broken):
    kinds = {"garbage": (1,), "persistent": (1,)}
    pipeline, load, victim = scene("archiver-zombie", broken, ["router", "delayer"], kinds)
    victim.start(REPRISE_CRASH_POINT=f"{COPY_BEFORE}:2:S").wait_ready()
    until_still(load, victim)
    emit(load, 30)
    pipeline.start("archiver")
    load.finish()
    victim.process.send_signal(signal.SIGCONT)
    deadline = time.monotonic() + 30
    while not (went_back(pipeline) or " partition-fenced " in victim.log.read_text()):
        assert time.monotonic() < deadline, "the zombie neither wrote nor was refused"
    victim.kill()
    assert went_back(pipeline) == bool(broken)
    assert rules_are(load, lambda found: found == ({"archive"} if broken else set()))
