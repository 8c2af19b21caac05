# SPDX-License-Identifier: Apache-2.0
"""The harness without servers."""

import collections
import os
import re
import signal
import socket
import subprocess
import time
from unittest.mock import MagicMock

import faults
import harness
import load
import pytest
from cluster import partition_for
from history import Item, Replay
from pipeline import Pipeline, Reader, new_folder, now_ms, wait_for
from relay import END_TXN, Relay, Rule, Trap
from replays import Replays
from servers import ROOT, free_port


class Service:
    """One that does as it is told, at once."""

    def __init__(self, name, number):
        self.name, self.number, self.label = name, number, f"{name}-{number}"
        self.process, self.log = MagicMock(pid=number, returncode=0), MagicMock()
        self.process.poll.return_value = 0
        self.log.read_text.return_value = ""
        self.start = self.kill = lambda **_: None

    def running(self):
        return True

    def get(self, path):
        return 200, ""


class Dry(harness.Harness):
    """A harness whose faults meet nothing, and which notes what was drawn. `load_draws`: how often the load draws between
    two of their steps; `leader`: what the brokers say of their controller and coordinators."""

    def __init__(self, seed, folder, load_draws=0, leader=None):
        self.seed, self.load_draws, self.told, self.guarantee = seed, load_draws, [], "exactly-once"
        self.relay, self.kafka, self.postgres, self.replays = (MagicMock() for _ in range(4))
        self.postgres.CONNECTIONS = 30
        self.kafka.controller.return_value = self.kafka.coordinator.return_value = leader
        self.relay.add = lambda rule: self.told.append((rule.broker, rule.cut, rule.delay_s))
        self.relay.disarm.return_value = False
        self.replays.begin = lambda *options: self.told.append(options) or ("name", MagicMock())
        self.pipeline = MagicMock(folder=folder, dsn="host=/nowhere")
        self.pipeline.services = [Service(name, i) for name in harness.WORKERS for i in range(2)]
        self.pipeline.add = self.add
        self.load, self.load.rng = MagicMock(), self.rng_of("load")
        self.tiers, self.complaints = 0, []
        self.counts, self.tried, self.met = (collections.Counter() for _ in range(3))
        self.active, self.victims, self.drawn, self.spill = [], [], [], None
        self.unable = {harness.fill_disk, harness.cut_spill}

    def add(self, name):
        self.told.append(name)
        self.pipeline.services.append(Service(name, len(self.pipeline.services)))
        return self.pipeline.services[-1]

    def choose(self, rng, *names):
        service = super().choose(rng, *names)
        self.told.append(service.label)
        return service

    def background(self, work):
        return lambda: True

    def configure(self, service):
        pass

    reconfigure = settle = lambda self: None

    def draw(self, rng):
        faults = super().draw(rng)
        self.told.append([fault.__name__ for fault in faults])
        return faults

    def step(self):
        for _ in range(self.load_draws):
            self.load.rng.random()
        for course in list(self.active):
            course.condition()
            course.go_on()
            if course.ended:
                self.active.remove(course)

    def run_for(self, seconds):
        self.told.append(seconds)


@pytest.fixture
def dry(tmp_path, monkeypatch):
    """Makes one, and runs some cycles of it."""

    class Noting(harness.Course):
        def __init__(self, generator):
            def noted():
                for wait in generator:
                    if not callable(wait):
                        h.told.append(wait)
                    yield wait

            super().__init__(noted())

    def run(seed, **how):
        nonlocal h
        h = Dry(seed, tmp_path, **how)
        for number in range(1, 61):
            h.cycle(number)
        return h

    h = None
    monkeypatch.setattr(harness, "Course", Noting)
    return run


def test_a_seed_repeats_its_faults(dry):
    told = [dry(1, load_draws=draws, leader=leader).told for draws, leader in ((0, None), (1, 2), (3, 1))]
    assert told[0] == told[1] == told[2]
    assert told[0] != dry(2).told


def test_faults_of_which_none_can_happen_are_told(dry, monkeypatch):
    monkeypatch.setattr(harness, "FAULTS", {harness.fill_disk: harness.FAULTS[harness.fill_disk]})
    with pytest.raises(RuntimeError, match="none can happen"):
        dry(1)


def judged(h, monkeypatch):
    """The harness after `check`, of whose calls to the load it returns the names."""
    monkeypatch.setattr(harness, "judge", lambda history: [])
    h.settle = lambda meanwhile: harness.Harness.settle(h, meanwhile)
    h.check()
    return [name for name, _, _ in h.load.mock_calls]


def test_the_quiet_time_comes_after_the_replays(tmp_path, monkeypatch):
    h = Dry(1, tmp_path)
    h.replays.begun = 0
    calls = judged(h, monkeypatch)
    assert calls.index("await_replayed") < calls.index("finish") < calls.index("history")
    assert not h.complaints and "emit" not in calls


def test_a_service_that_ended_at_last_is_told_of(tmp_path, monkeypatch):
    h = Dry(1, tmp_path)
    h.replays.begun = 0
    ended = h.pipeline.services[0]
    ended.running = lambda: False
    ended.start = lambda: setattr(ended, "running", lambda: True)
    judged(h, monkeypatch)
    assert len(h.complaints) == 1


@pytest.mark.parametrize("times, met, wrong", [(harness.IN_VAIN, 0, 1), (harness.IN_VAIN, 1, 0), (harness.IN_VAIN - 1, 0, 0)])
def test_a_fault_that_never_meets_anything_is_told_of(times, met, wrong):
    assert len(harness.in_vain({"slow_network": times}, {"slow_network": met})) == wrong


def test_what_must_meet_something_is_told_of_where_it_does_not():
    met = collections.Counter(slow_network=1)
    assert harness.unmet(["slow_network"], met, []) == harness.unmet([], met, ["step_clock"]) == []
    assert len(harness.unmet(["slow_network", "lose_answer"], met, ["step_clock"])) == 2


def test_what_the_short_run_demands_is_drawn_in_it(tmp_path, monkeypatch):
    monkeypatch.setattr(faults.os, "statvfs", lambda _: MagicMock(f_bavail=0, f_frsize=1))
    text = (ROOT / "tests/run").read_text()
    cycles, seed = map(int, re.search(r"--cycles (\d+) --seed (\d+)", text.split("\nfaults() {")[1]).groups())
    h = Dry(seed, tmp_path)
    h.unable, h.spill, h.spill_files = set(), tmp_path, lambda: []
    for number in range(1, cycles + 1):
        h.cycle(number)
    assert set(re.search(r"--must-meet (\S+)", text)[1].split(",")) <= set(h.tried)


@pytest.mark.parametrize("sent, begun, wrong", [(False, 2, 1), (True, 2, 0), (False, 0, 0)])
def test_replays_of_which_none_sends_anything_are_told_of(tmp_path, sent, begun, wrong):
    h = Dry(1, tmp_path)
    h.replays.begun = begun
    h.replays.history.return_value = [Replay("a", "target", "done", [Item("t", (0, 0), sent)])]
    h.finish_replays()
    assert len(h.complaints) == wrong


def test_a_replay_that_crashed_before_it_was_killed_is_told_of():
    process = subprocess.Popen(["sh", "-c", "kill -SEGV $$"])
    while process.poll() is None:
        time.sleep(0.01)
    replays = Replays(None)
    replays.processes.append(process)
    replays.kill(process)
    assert [f"signal {signal.SIGSEGV:d}" in crash for crash in replays.crashes()] == [True]


class Slow:
    """A consumer that waits until it has so many, or time is up, as librdkafka does."""

    def __init__(self, messages):
        self.messages = messages

    def consume(self, count, timeout):
        taken, self.messages = self.messages[:count], self.messages[count:]
        time.sleep(timeout if len(taken) < count else 0)
        return taken


def test_a_reader_knows_when_a_record_came_although_it_reads_on():
    reader, began_ms = Reader.__new__(Reader), now_ms()
    reader.records, reader.next = [], {}
    message = MagicMock()
    message.error.return_value = None
    message.offset.return_value = 1
    reader.consumer = Slow([message] * 3)
    assert len(reader.poll(0.3)) == 3
    assert now_ms() - began_ms >= 300
    assert all(record.received_ms - began_ms < 200 for record in reader.records)


def test_a_run_leaves_what_an_earlier_one_of_its_seed_kept(tmp_path):
    names = [new_folder(tmp_path / "fault" / "seed-1-abc").name for _ in range(3)]
    assert names == ["seed-1-abc", "seed-1-abc-2", "seed-1-abc-3"]


def test_a_seed_repeats_the_names_on_the_servers(monkeypatch):
    suffixes = []

    def made(*_, suffix, **__):
        suffixes.append(suffix)
        raise RuntimeError

    monkeypatch.setattr(harness, "Pipeline", made)
    for seed in (1, 1, 2):
        with pytest.raises(RuntimeError):
            harness.Harness(seed, MagicMock(), MagicMock(), MagicMock(), 1)
    assert suffixes[0] == suffixes[1] != suffixes[2]


def test_what_a_removed_service_logged_is_looked_at(tmp_path):
    pipeline = Pipeline.__new__(Pipeline)
    pipeline.folder, pipeline.services, pipeline.readers, pipeline.database = tmp_path, [], [], MagicMock()
    (tmp_path / "replay-0.log").write_text("x.c:1: runtime error: y")
    assert len(pipeline.close()) == 1


def test_a_clock_that_was_ahead_excuses_what_was_let_go_and_nothing_later(tmp_path):
    steps, back = [], []
    for seed in range(20):
        h, began_ms = Dry(seed, tmp_path), now_ms()
        list(faults.step_clock(h, h.rng_of(1)))
        ahead = [call.args[0] for call in h.load.ahead.append.call_args_list]
        ((at, by),) = [call.args[0] for call in h.load.set_back.append.call_args_list]
        steps += ahead
        back.append(at - began_ms + (0 if ahead else by))  # one that goes back shows a time that has been
    assert steps and all(0 <= end - begin - ahead < 1000 for begin, end, ahead in steps)
    assert all(0 <= after < 1000 for after in back) and len(steps) < len(back)


def test_the_disk_goes_when_a_harness_does_not_come_about(tmp_path, monkeypatch):
    ran = MagicMock(return_value=MagicMock(returncode=0))
    monkeypatch.setattr(harness.subprocess, "run", ran)
    monkeypatch.setattr(harness, "Pipeline", lambda *_, **__: MagicMock(folder=tmp_path))
    monkeypatch.setattr(harness, "Load", MagicMock(side_effect=RuntimeError))
    with pytest.raises(RuntimeError):
        harness.Harness(1, MagicMock(), MagicMock(), MagicMock(), 1)
    assert [call.args[0][0] for call in ran.call_args_list] == ["mount", "umount"]


def test_a_partition_is_found_as_the_brokers_do():
    """By Java: "polygenelubricants" has the one hash without an absolute value."""
    hashes = {"reprise-router": 940394000, "reprise-delayer": -747857015, "polygenelubricants": -(1 << 31)}
    for name, hashed in hashes.items():
        assert partition_for(name, 50) == (0 if hashed == -(1 << 31) else abs(hashed) % 50)


def test_of_each_service_there_are_so_many_at_most(dry, monkeypatch):
    monkeypatch.setattr(harness, "FAULTS", {faults.add_worker: (1, "services"), faults.kill_service: (1, None)})
    names = [service.name for service in dry(1).pipeline.services]
    assert [names.count(name) for name in harness.WORKERS] == [harness.MOST] * 3


def test_several_deaths_leave_one_whose_answers_can_be_lost(tmp_path):
    for seed in range(20):
        h = Dry(seed, tmp_path)
        del h.pipeline.services[3], h.pipeline.services[1]
        killed = []
        for service in h.pipeline.services:
            service.kill = lambda name=service.name: killed.append(name)
        list(faults.kill_several_services(h, h.rng_of(1)))
        assert len(killed) == 3 and not {"router", "delayer"} <= set(killed)


def test_a_service_that_does_not_end_is_killed_and_told_of(tmp_path, monkeypatch):
    h = Dry(1, tmp_path)
    service = h.pipeline.services[0]
    service.process.poll.return_value, service.kill = None, MagicMock()
    monkeypatch.setattr(faults, "END_S", -1)
    for condition in faults.stop(h, service):
        assert condition()
    assert service.kill.called and len(h.complaints) == 1


@pytest.mark.parametrize("drawn, wrong", [(faults.kill_broker, 0), (faults.kill_service, 1)])
def test_a_drain_may_be_abandoned_where_servers_are_away(tmp_path, drawn, wrong):
    h = Dry(1, tmp_path)
    h.drawn, service = [drawn], h.pipeline.services[0]
    service.process.poll.return_value = faults.ABANDONED
    list(faults.stop(h, service))
    assert len(h.complaints) == wrong


def test_a_clock_that_was_stepped_is_seen_in_the_log(tmp_path):
    h = Dry(1, tmp_path)
    service = h.pipeline.services[0]
    assert h.ahead_ms(service, 0) is None
    service.log.read_text.return_value = "1970-01-01T00:00:01.000Z info x\n1970-01-01T00:00:02.500Z debug y\n at z\n"
    service.log.stat.return_value.st_mtime = 2
    assert h.ahead_ms(service, 2000) == 500
    assert h.ahead_ms(service, 2001) is None


def test_a_trap_is_taken_out_alone():
    relay = Relay([free_port()], lambda: [])
    mine, other = Trap(END_TXN), Trap(END_TXN)
    relay.traps += [mine, other]
    assert not relay.disarm(mine)
    assert relay.traps == [other]
    link = MagicMock(deaf=False)
    link.requests.return_value = [END_TXN]
    assert relay.spring(link, b"\1") is other
    other.done.set()
    assert relay.disarm(other)
    relay.stop()
    assert link.close.called


def test_a_relay_slows_and_cuts_whose_it_is_told():
    echo = socket.create_server(("127.0.0.1", 0))
    relay = Relay([free_port()], lambda: [os.getpid()])
    relay.backends = {1: echo.getsockname()[1]}
    question = b"\0\0\0\4\0\0hi"

    def ask():
        """How long it took."""
        began = time.monotonic()
        client.sendall(question)
        there.sendall(there.recv(100))
        assert client.recv(100) == question
        return time.monotonic() - began

    with socket.create_connection(("127.0.0.1", relay.ports[0]), 20) as client, echo.accept()[0] as there:
        slow = relay.add(Rule(1, os.getpid(), delay_s=0.2))
        others = relay.add(Rule(1, 1, delay_s=20)), relay.add(Rule(2, delay_s=20))
        assert ask() >= 0.4
        relay.remove(slow, close=False)
        cut = relay.add(Rule(1, os.getpid(), cut=True))
        client.sendall(question)
        there.settimeout(0.3)
        with pytest.raises(TimeoutError):
            there.recv(100)
        relay.remove(cut, close=False)
        there.settimeout(20)
        assert there.recv(100) == question
        assert [rule.met for rule in (slow, cut, *others)] == [True, True, False, False]
    wait_for(lambda: not relay.links, "the connection to end")
    relay.stop()
    echo.close()


def test_a_relay_whose_port_is_taken_says_so():
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError):
        Relay([taken.getsockname()[1]], lambda: [])


def ask_for_ports(cache):
    script = f". {ROOT}/deploy/local/lib.sh; for _ in 1 2 3; do free_port; done"
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    return subprocess.Popen(["bash", "-euc", script], stdout=subprocess.PIPE, env=environment)


def ports_of(asker):
    return [int(line) for line in asker.communicate()[0].split()]


def test_ports_that_scripts_ask_for_at_once_differ(tmp_path):
    last = tmp_path / "reprise/port"
    last.parent.mkdir()
    last.write_text("31990\n")
    ports = [port for asker in [ask_for_ports(tmp_path) for _ in range(8)] for port in ports_of(asker)]
    assert len(set(ports)) == 24
    assert all(15000 <= port < 32000 for port in ports) and min(ports) < 15020  # begun anew
    taken = min(ports)
    with socket.create_server(("127.0.0.1", taken)):
        last.write_text(f"{taken - 1}\n")
        assert ports_of(ask_for_ports(tmp_path))[0] > taken
    last.write_text("")  # whoever wrote it was killed
    assert len(set(ports_of(ask_for_ports(tmp_path)))) == 3


@pytest.mark.parametrize(
    "config, lead", [({}, 10), ({"delayer": {"prepare_ahead": "0ms"}}, 0), ({"guarantee": "at-least-once"}, 0)]
)
def test_how_long_ahead_the_delayer_may_send(config, lead):
    assert load.lead_ms(config) == lead
