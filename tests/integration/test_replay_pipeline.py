# SPDX-License-Identifier: Apache-2.0
"""Replay in the whole pipeline: handlers that still fail, archivers that take jobs over, servers that go."""

import json
import time

import pytest

import contract
from pipeline import header, now_ms, wait_for
from test_replay import Replays, begun, check_once

POLICIES = {
    "payment": {"max_attempts": 4, "backoff": "none"},
    "patient": {"max_attempts": 9, "backoff": "none"},
}


class Handler:
    """Takes what is sent to a target; what fails comes back as an event, as a handler's library sends it."""

    def __init__(self, replays, name, fails=lambda record: True):
        self.pipeline, self.fails = replays.pipeline, fails
        self.topic = self.pipeline.create_target(name)
        self.reader = self.pipeline.reader(self.topic)

    def serve(self, seconds=0.1):
        for record in self.reader.poll(seconds):
            if self.fails(record):
                self.fail(record)
        self.pipeline.producer.poll(0)

    def fail(self, record):
        task_id = header(record, "reprise-task-id")
        task = contract.failed_task(
            self.topic, "payment", task_id=task_id, key=None, payload=record.value,
            headers=[{"key": k, "value": v} for k, v in record.headers],
            attempt=int(header(record, "reprise-attempt")),
        )  # fmt: skip
        self.pipeline.send(contract.single_object(task), task_id.encode())

    def serve_until_end(self, process, timeout=120):
        """Works on while a replay runs; returns its exit code and what it printed."""
        deadline = time.monotonic() + timeout
        while process.poll() is None:
            assert time.monotonic() < deadline, "the replay did not end"
            self.serve()
        return process.returncode, process.communicate()[0]


@pytest.fixture(scope="module")
def replays(new_pipeline):
    replays = Replays(new_pipeline, "replaypipe", policies=POLICIES)
    replays.archivers = replays.pipeline.start("archiver", count=2)
    replays.pipeline.start("router", "delayer")
    return replays


def start(replays, name, *arguments):
    return replays.start("dlq", "replay", "--task", f"{name}-*", "--reason", "test", "--yes", *arguments)


@pytest.mark.timeout(180)
def test_canaries_that_come_back_dead_stop_it(replays):
    handler = Handler(replays, "broken")
    replays.insert("canary", 60, handler.topic)
    process = start(replays, "canary", "--canary", "5", "--canary-wait", "100s", "--canary-share", "40%")
    code, text = handler.serve_until_end(process)
    assert code == 5 and "canaries came back dead" in text, text
    job = replays.job()
    assert (job["state"], job["marked"]) == ("stopped", 5)
    assert len(handler.reader.records) == 5
    wait_for(lambda: replays.query("select count(*) from dead_letter where replay_job = %s", job["job"]) == [(5,)],
             "all to come back", 60)  # fmt: skip
    # Each is linked to the one that it came from, in both directions.
    linked = replays.query(
        "select o.task_id = d.task_id, o.came_back_at is not null, o.status from dead_letter as d join archive as o"
        " on o.dead_at = d.replay_of_at and o.id = d.replay_of where d.replay_job = %s", job["job"],
    )  # fmt: skip
    assert linked == [(True, True, "replayed")] * 5
    assert replays.states("canary") == {"replayed": 5, "dead": 60}  # 55 never sent, and 5 dead again
    replays.check_counts()
    # A task that came back three times is held back, though each time it is another dead letter.
    for i in range(2):
        code, text = handler.serve_until_end(start(replays, "canary", "--sent-by", job["job"]))
        assert code == 0, text
        job = replays.job()
        wait_for(lambda: replays.query("select count(*) from dead_letter where replay_job = %s", job["job"])
                 == [(5,)] or handler.serve(), f"round {i} to come back", 60)  # fmt: skip
    code, text = replays.replay("canary", "--sent-by", job["job"], "--dry-run")
    assert code == 4 and "5 that were replayed 3 times" in text, text


@pytest.mark.timeout(180)
def test_canaries_are_judged_once_all_that_died_is_archived(replays):
    """They came back dead and had their time before an archiver read of it."""
    for archiver in replays.archivers:
        assert archiver.stop() == 0
    handler = Handler(replays, "unread")
    dead = replays.pipeline.reader(f"{replays.prefix}dead-letter")
    replays.insert("unread", 60, handler.topic)
    process = start(replays, "unread", "--canary", "5", "--canary-wait", "10m")

    def died():
        handler.serve()
        dead.poll(0.1)
        return sum(b"unread-" in record.value for record in dead.records) == 5

    wait_for(died, "the canaries to die", 60)
    job = wait_for(lambda: replays.job()["canary_at"] and replays.job()["job"], "the canaries to be out", 60)
    replays.query("update replay_job set canary_at = now() - interval '1 hour' where job = %s", job)
    for _ in range(3):
        beat = replays.job(job)["heartbeat_at"]
        wait_for(lambda: process.poll() is not None or replays.job(job)["heartbeat_at"] > beat, "a beat", 60)
        assert replays.job(job)["marked"] == 5  # it sends nothing on
    for archiver in replays.archivers:
        archiver.start()
    assert process.wait(60) == 5 and "canaries came back dead" in process.communicate()[0]
    assert replays.job(job)["marked"] == len(handler.reader.records) == 5


@pytest.mark.timeout(180)
def test_canaries_that_succeed_let_it_go_on(replays):
    handler = Handler(replays, "mended", fails=lambda record: False)
    replays.insert("fine", 60, handler.topic)
    began = time.monotonic()
    code, text = handler.serve_until_end(
        start(replays, "fine", "--canary", "5", "--canary-wait", "3s", "--success-within", "1s")
    )
    assert code == 0 and time.monotonic() - began > 3, text
    check_once(handler.reader, "fine", range(60))
    times = sorted(r.timestamp_ms for r in handler.reader.records)
    assert times[5] - times[4] > 2000
    job = replays.job()["job"]
    wait_for(lambda: "60 succeeded" in replays.run("replay", "show", job)[1], "the time to pass", 30)


@pytest.mark.timeout(180)
def test_canaries_are_not_waited_for_once_their_outcome_is_known(replays):
    """All came back, and may; or too many did, while others are still to be sent. Both wait for ten minutes else."""
    handler = Handler(replays, "known")
    replays.insert("known", 30, handler.topic)
    canaries = ["--canary-wait", "10m", "--canary-share"]
    code, text = handler.serve_until_end(start(replays, "known", "--canary", "5", *canaries, "100%"))
    assert code == 0 and "30 of 30 sent" in text, text
    check_once(handler.reader, "known", range(30))
    replays.insert("early", 1000, handler.topic)
    process = start(replays, "early", "--canary", "900", "--rate", "20", *canaries, "0")
    code, text = handler.serve_until_end(process)
    assert code == 5 and "canaries came back dead" in text, text
    assert replays.job()["state"] == "stopped" and replays.job()["marked"] < 800


@pytest.mark.timeout(180)
def test_too_many_that_come_back_stop_it_on_its_way(replays):
    handler = Handler(replays, "half", fails=lambda r: int(r.value.split()[1]) % 2)
    replays.insert("share", 1000, handler.topic)
    process = start(replays, "share", "--stop-if-dead", "20%", "--rate", "40")
    code, text = handler.serve_until_end(process)
    assert code == 5 and "tasks came back dead" in text, text
    job = replays.job()
    assert job["state"] == "stopped" and 20 <= job["marked"] < 1000
    check_once(handler.reader, "share", range(job["marked"]))


@pytest.mark.timeout(120)
def test_to_the_router_todays_policies_decide(replays):
    handler = Handler(replays, "patient", fails=lambda record: False)
    replays.insert("routed", 20, handler.topic, task_type="patient")
    replays.insert("hopeless", 3, handler.topic)
    replays.query("update dead_letter set attempt = 4, attempts = 4 where task_id like 'hopeless-%%'")
    event = {
        "task_id": "routed-raw", "task_type": "patient", "target": handler.topic, "payload_text": "raw",
        "attempt": 1, "error": {"class": "E", "message": "m"}, "source": "s", "failed_at": now_ms(),
    }  # fmt: skip
    replays.query(
        "insert into dead_letter (dead_at, record_topic, record_partition, record_offset, record_key, reason, detail,"
        " raw) values (now(), 'rows', 1, 0, 'k', 'UNDECODABLE', 'what it was', convert_to(%s, 'UTF8'))",
        json.dumps(event),
    )
    code, text = replays.run(
        "dlq", "replay", "--where", "task in (routed-*, hopeless-*) or reason = undecodable", "--to", "router",
        "--reason", "new policy", "--yes",
    )  # fmt: skip
    assert code == 0 and "24 of 24 sent" in text, text
    job = replays.job()["job"]
    handler.reader.wait(21, timeout=60)
    for record in handler.reader.records:
        assert header(record, "reprise-replay-id") == job
        assert header(record, "reprise-attempt") == ("2" if record.value == b"raw" else "4")
    check_once(handler.reader, "routed", [*range(20), "raw"])
    # What is dead again at once is linked, too.
    wait_for(lambda: replays.query("select count(*) from dead_letter where replay_job = %s and replay_of is not null",
                                   job) == [(3,)], "the hopeless ones to come back", 60)  # fmt: skip


def archiver_of(replays, job):
    """The archiver that runs the job."""
    runner = wait_for(lambda: replays.job(job)["runner"], "a runner", 60)
    instance = runner.rsplit("-", 1)[0]  # the number of its worker follows
    # Who was started anew may have the name that the other one had before.
    (found,) = [
        a for a in replays.archivers
        if a.log.read_text(errors="replace").rsplit(" instance=", 1)[1].split()[0] == instance
    ]  # fmt: skip
    return found, runner


@pytest.mark.timeout(240)
def test_what_is_handed_over_goes_on_whoever_dies(replays):
    handler = Handler(replays, "detached", fails=lambda record: False)
    replays.insert("detached", 600, handler.topic, none_every=100)
    code, text = replays.replay("detached", "--detach", "--rate", "60")
    assert code == 0 and "handed to the archiver" in text
    job = replays.job()["job"]
    wait_for(lambda: replays.job(job)["marked"] > 20, "it to begin", 60)
    # SIGTERM hands back: another goes on at once.
    first, runner = archiver_of(replays, job)
    assert first.stop() == 0
    wait_for(lambda: replays.job(job)["runner"] != runner, "the other archiver to take it", 60)
    marked = replays.job(job)["marked"]
    wait_for(lambda: replays.job(job)["marked"] > marked + 20, "the other archiver to go on", 60)
    # kill -9: once its heart has not beaten for a while.
    runner = replays.job(job)["runner"]
    second = next(a for a in replays.archivers if a is not first)
    second.kill()
    first.start().wait_ready(60)
    replays.age()
    wait_for(lambda: replays.job(job)["runner"] != runner, "the first one to take it back", 60)
    assert replays.run("replay", "pause", job)[0] == 0
    assert replays.run("replay", "rate", job, "none")[0] == 0
    assert "handed to the archiver" in replays.run("replay", "resume", job)[1]
    wait_for(lambda: replays.job(job)["finished_at"], "the end", 60)
    second.start().wait_ready(60)
    row = replays.job(job)
    assert (row["state"], row["marked"], row["refused"]) == ("done", 600, 6)
    check_once(handler.reader, "detached", [n for n in range(600) if n % 100])
    replays.check_counts()


@pytest.mark.timeout(120)
def test_what_a_dead_terminal_left_is_marked_and_paused(replays):
    handler = Handler(replays, "left", fails=lambda record: False)
    replays.insert("left", 200, handler.topic)
    process, job = begun(replays, "left", "--rate", "50", count=10)
    process.kill()
    process.wait()
    replays.age()
    wait_for(lambda: replays.job(job)["state"] == "paused", "an archiver to see to it", 60)
    row = replays.job(job)
    assert row["outcome"] == "its runner died"
    check_once(handler.reader, "left", range(row["marked"]))
    assert replays.run("replay", "rate", job, "none")[0] == 0
    assert replays.run("replay", "resume", job)[0] == 0
    check_once(handler.reader, "left", range(200))


@pytest.mark.timeout(120)
def test_what_a_failed_replay_could_not_mark_an_archiver_marks(replays):
    handler = Handler(replays, "unmarked", fails=lambda record: False)
    replays.insert("unmarked", 400, handler.topic)
    process, job = begun(replays, "unmarked", "--rate", "40", count=5)
    replays.query("alter table replay_item rename column was_came_back_at to gone")
    try:
        assert process.wait(60) == 5
    finally:
        replays.query("alter table replay_item rename column gone to was_came_back_at")
    assert replays.job(job)["state"] == "failed"
    replays.age()  # an archiver may have tried meanwhile
    wait_for(lambda: replays.job(job)["heartbeat_at"] is None, "an archiver to see to it", 60)
    row = replays.job(job)
    assert row["state"] == "failed" and "was_came_back_at" in row["outcome"]
    check_once(handler.reader, "unmarked", range(row["marked"]))
    assert replays.states("unmarked") == {"replayed": row["marked"], "replaying": 400 - row["marked"]}


def replay_while_away(replays, name, server):
    """A replay of 900 whose server goes twice; 10 of them have no target."""
    handler = Handler(replays, name, fails=lambda record: False)
    replays.insert(name, 900, handler.topic, none_every=90)
    process, job = begun(replays, name, "--rate", "200", count=50)
    for _ in range(2):
        server.stop()
        time.sleep(2)
        assert process.poll() is None
        server.start()
        marked = replays.job(job)["marked"]
        wait_for(lambda: replays.job(job)["marked"] > min(marked + 50, 890), "it to go on", 90)
    code, text = handler.serve_until_end(process)
    assert code == 5 and "890 of 900 sent, 10 refused" in text, text
    check_once(handler.reader, name, [n for n in range(900) if n % 90])
    assert replays.states(name) == {"replayed": 890, "dead": 10}


@pytest.mark.timeout(240)
def test_the_database_goes_in_the_middle(replays, postgres):
    replay_while_away(replays, "nodb", postgres)
    replays.check_counts()


@pytest.mark.timeout(300)
def test_the_broker_goes_in_the_middle(own_kafka, new_pipeline):
    replays = Replays(new_pipeline, "replaybroker", kafka_server=own_kafka)
    replay_while_away(replays, "nobroker", own_kafka)
