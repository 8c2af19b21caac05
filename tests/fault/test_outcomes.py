# SPDX-License-Identifier: Apache-2.0
"""Transactions whose outcome the one who commits does not learn, on three brokers behind the relay. Each
task has exactly one outcome all the same. tests/unit/publisher_test.c has what librdkafka's mock injects."""

import re
import signal
import struct
import time

import pytest
from cluster import Cluster, Postgres
from faults import ABANDONED, kill_in_commit
from harness import Course, Harness, keep
from pipeline import wait_for
from relay import END_TXN, TXN_OFFSET_COMMIT, Relay, Rule, Trap
from servers import free_port, running

INVALID_PRODUCER_EPOCH, PRODUCER_FENCED = 47, 90
RATE = 15  # new tasks a second
EACH = 60  # dead letters of a replay


@pytest.fixture(scope="module")
def harness(request):
    relay = Relay([free_port() for _ in range(3)], lambda: [])
    with running(Cluster, relay=relay) as kafka, running(Postgres) as postgres:
        failed_before = request.session.testsfailed
        try:
            h = Harness(0, relay, kafka, postgres, RATE)
            try:
                h.settle()
                yield h
            finally:
                ends = h.close()
        finally:
            relay.stop()
        assert not ends
        if request.session.testsfailed == failed_before:
            h.pipeline.forget()


def run(h, *generators):
    """All of them at once, beside the load, whose handlers restart; then everything is judged."""
    h.active = [Course(generator) for generator in generators]
    h.load.restart()
    try:
        while h.active:
            h.step()
    finally:  # one that failed leaves nothing to the next
        h.active = []
        h.relay.heal()
        for service in h.running():
            service.process.send_signal(signal.SIGCONT)
    h.settle()
    history, faults = h.check()
    if wrong := faults + h.complaints:
        keep(h, history, faults)
    assert not wrong


def begin_replays(h, count):
    """Replays that are long enough to be met."""
    dead = len(h.pipeline.dead_letters(reason="NON_RETRYABLE"))
    for _ in range(count * EACH):
        h.load.emit("persistent")
    wait_for(
        lambda: h.load.handle(0.1)
        or len(h.pipeline.dead_letters(reason="NON_RETRYABLE")) >= dead + count * EACH,
        "dead letters to replay", 200,
    )  # fmt: skip
    options = ("--type", "flaky", "--limit", EACH, "--rate", 2, "--order")
    # From both ends: who comes second to the same ones has nothing to replay.
    return [h.replays.begin(*options, order)[1] for order in ("oldest", "newest")[:count]]


def lose_outcome(h, process, lost):
    """Its next commit is not answered, nor what it asks that broker afterwards, until it gives up.
    `lost`: the commit did not arrive either, else it was done."""
    rules, service = [], next((s for s in h.pipeline.services if s.process is process), None)
    log = service.log if service else process.log
    unknown = lambda: log.read_text(errors="replace").count("commit transaction") > before
    before = log.read_text(errors="replace").count("commit transaction")
    trap = Trap(
        END_TXN, process.pid,
        lambda broker: rules.append(h.relay.add(Rule(broker, process.pid, cut=True))), lost,
    )  # fmt: skip
    h.relay.traps.append(trap)
    yield h.unless(trap.done.is_set, 120)
    assert rules, f"{process.args}: no commit came"
    # A replay prints what it waits for at once, where it has printed nothing for 5 s; the commit has taken longer.
    yield h.unless(unknown, 120)
    assert unknown(), f"{log}: it knew the outcome"
    h.relay.remove(rules[0], close=True)


def kill_in_commits(h, *processes):
    """The broker that is asked to commit dies with the question, once for each of these."""
    for process in processes:
        met = yield from kill_in_commit(h, process, 0.003, 0, 120)
        assert met, "no commit came"


def transaction_of(request):
    """The transactional id in an EndTxn of librdkafka's, as it is found elsewhere: others have -next or -third behind it."""
    client = 4 + 2 + 2 + 4
    at = client + 2 + struct.unpack_from(">h", request, client)[0]
    length = struct.unpack_from(">h", request, at)[0]
    return re.compile(re.escape(request[at + 2 : at + 2 + length]) + b"(?!-[nt])")


def repeat_commit(h, service):
    """A commit does not arrive, so it is asked for again, and done; the first copy arrives in the midst of the next transaction,
    whose offsets are sent, and not all of its records. Then its owner dies."""
    brokers, process = [], service.process
    first = Trap(END_TXN, process.pid, brokers.append, lost=True)
    h.relay.traps.append(first)
    yield h.unless(first.done.is_set, 120)
    stop = lambda _: process.send_signal(signal.SIGSTOP)
    following = Trap(TXN_OFFSET_COMMIT, process.pid, stop, having=transaction_of(first.request))
    h.relay.disarm(first)
    h.relay.traps.append(following)
    yield h.unless(following.done.is_set, 120)
    assert following.done.is_set(), "no transaction followed"
    yield 0.3  # the offsets are in the broker's log
    answer = h.relay.repeat(brokers[0], first.request)
    yield 0.5
    service.kill()
    service.start()
    (error,) = struct.unpack_from(">h", answer, 12)
    assert error in (INVALID_PRODUCER_EPOCH, PRODUCER_FENCED)


def services_of(h, name):
    return [s for s in h.pipeline.services if s.name == name]


def two_of(h, name):
    return [s.process for s in services_of(h, name)]


@pytest.mark.timeout(600)
def test_a_commit_that_is_not_answered(harness):
    """Of a router, a delayer and a replay each once where it was done, and where it never arrived."""
    h = harness
    done, lost = zip(two_of(h, "router"), two_of(h, "delayer"), begin_replays(h, 2))
    run(
        h, *[lose_outcome(h, process, False) for process in done],
        *[lose_outcome(h, process, True) for process in lost],
    )  # fmt: skip


@pytest.mark.timeout(600)
def test_the_coordinators_broker_dies_in_mid_commit(harness):
    h = harness
    (replay,) = begin_replays(h, 1)
    run(h, kill_in_commits(h, replay, two_of(h, "router")[0], two_of(h, "delayer")[0]))


@pytest.mark.timeout(600)
def test_a_commit_that_arrives_once_more_and_late(harness):
    """The brokers know transactions of one producer apart by nothing, so they would take it for the next one's."""
    h = harness
    run(h, *[repeat_commit(h, services_of(h, name)[0]) for name in ("router", "delayer")])


@pytest.mark.timeout(300)
def test_services_may_be_ended_while_their_groups_form(harness):
    """librdkafka hands partitions out and takes them back while it closes, and its group may be over by then."""
    h = harness
    try:
        for i in range(5):
            young = Harness(f"young-{i}", h.relay, h.kafka, h.postgres, RATE)
            time.sleep(0.2 + 0.15 * i)
            ends = young.close()
            # On a busy machine one may not have come to heed the signal.
            wrong = [end for end in ends if not end.endswith((f" {ABANDONED}", f" {-signal.SIGTERM}"))]
            assert not wrong, f"{wrong}: {young.pipeline.folder}"
            young.pipeline.forget()
    finally:
        h.relay.pids = h.pids
