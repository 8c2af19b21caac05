# SPDX-License-Identifier: Apache-2.0
"""Small histories that are made up, for the checker's own tests: good ones."""

import datetime

from checker import judge
from history import COUNTED, Delivery, Event, History, Item, Letter, Plan, Replay, replay_of

OWN = [("traceparent", b"00-1-2-01"), ("twice", b"a"), ("twice", None)]


def rules(history):
    """Those that it breaks."""
    return {fault.rule for fault in judge(history)}


def event(task_id, attempt, failed_at, offset, headers=OWN):
    task = {
        "task_id": task_id, "task_type": "t", "target": "handler", "key": b"k",
        "payload": b"\0\xff", "headers": [{"key": k, "value": v} for k, v in headers],
        "attempt": attempt, "source": "s", "first_failed_at": None, "failed_at": failed_at,
        "error": {
            "class": "E", "message": "", "category": None,
            "causes": [{"class": "C", "message": "because"}],
        },
    }  # fmt: skip
    return Event(0, offset, b"k", b"...", task)


def delivery(task_id, attempt, due, offset, **changed):
    headers = OWN + [
        ("reprise-task-id", task_id.encode()), ("reprise-attempt", str(attempt).encode()),
        ("reprise-due", str(due).encode()), ("reprise-first-failed-at", b"1000"),
    ]  # fmt: skip
    made = Delivery("handler", 0, offset, b"k", b"\0\xff", headers, due + 3, due + 1)
    return made._replace(**changed)


def parked(of, due, offset):
    """Before the delivery that was asked for so."""
    task = of.task
    attempt = str(task["attempt"] + 1).encode()
    headers = [
        ("reprise-task-id", task["task_id"].encode()), ("reprise-attempt", attempt), ("reprise-due", str(due).encode()),
        ("reprise-target", b"handler"), ("reprise-policy", b"p"), ("reprise-first-failed-at", b"1000"),
    ]  # fmt: skip
    return Delivery("retry-1s", 0, offset, b"k", of.value, headers, due - 900, due - 990)


def letter(of, offset, reason="EXHAUSTED", attempts=2):
    body = {
        "task": of.task, "raw": None if of.task else of.value, "reason": reason, "detail": None,
        "category": "UNKNOWN", "policy": "p", "attempts": attempts, "decided_at": 5000,
        "topic": "failed-tasks", "partition": 0, "offset": of.offset,
    }  # fmt: skip
    return Letter(0, offset, b"k" if of.task else of.key, body)


def time_of(ms):
    return None if ms is None else datetime.datetime.fromtimestamp(ms / 1000, datetime.timezone.utc)


def row(l):
    body, task = l.letter, l.letter["task"] or {}
    error = task.get("error", {})
    names = ("task_id", "task_type", "target", "payload", "attempt", "source")
    return {name: task.get(name) for name in names} | {
        "record_partition": l.partition, "record_offset": l.offset, "record_key": l.key,
        "reason": body["reason"], "detail": None, "category": "UNKNOWN", "policy": "p",
        "attempts": body["attempts"], "raw": body["raw"], "source_topic": "failed-tasks",
        "source_partition": 0, "source_offset": body["offset"], "task_key": task.get("key"),
        "header_keys": [h["key"] for h in task.get("headers", [])],
        "header_values": [h["value"] for h in task.get("headers", [])],
        "replay_job": replay_of([(h["key"], h["value"]) for h in task.get("headers", [])]),
        "decided_at": time_of(body["decided_at"]), "dead_at": time_of(body["decided_at"]),
        "first_failed_at": time_of(task.get("first_failed_at")),
        "failed_at": time_of(task.get("failed_at")),
        "error_class": error.get("class"), "error_message": error.get("message"),
        "error_category": error.get("category"),
        "cause_classes": [cause["class"] for cause in error.get("causes", [])],
        "cause_messages": [cause["message"] for cause in error.get("causes", [])],
        "id": l.offset + 100, "fingerprint": 7, "status": "dead", "job": None, "replays": 0,
        "altered": None, "record": None, "archived_at": time_of(body["decided_at"] + 20),
        "came_back_at": None, "replay_of_at": None, "replay_of": None,
    }  # fmt: skip


def counted(rows):
    """All of them died within one hour."""
    counts = {}
    for r in rows:
        n, came_back = counts.get(key := (time_of(0), *(r[name] for name in COUNTED)), (0, 0))
        counts[key] = n + 1, came_back + (r["came_back_at"] is not None)
    return counts


def good():
    """One task succeeds at its third execution, one dies after its second, one is no task at all."""
    ours = [("reprise-attempt", b"2")]
    plan = {"target": "handler", "key": b"k", "payload": b"\0\xff", "headers": OWN}
    lives = [event("lives", 1, 1000, 0), event("lives", 2, 3000, 2, OWN + ours)]
    dies = [event("dies", 1, 1000, 1), event("dies", 2, 3500, 3, OWN + ours)]
    noise = Event(0, 4, b"key", b"noise", None)
    letters = [letter(dies[1], 0), letter(noise, 1, "UNDECODABLE", 0)]
    deliveries = [
        delivery("lives", 2, 2000, 0), delivery("dies", 2, 2000, 1), delivery("lives", 3, 4000, 2),
    ]  # fmt: skip
    rows = [row(l) for l in letters]
    return History(
        plans={
            "lives": Plan("lives", **plan, min_delay_ms=1000, max_delay_ms=1000, succeeds_at=3),
            "dies": Plan("dies", **plan, min_delay_ms=1000, reason="EXHAUSTED", attempts=2, policy="p", category="UNKNOWN"),
            b"noise": Plan(b"noise", None, None, None, [], reason="UNDECODABLE", attempts=0),
        },
        events=lives + dies + [noise],
        deliveries=deliveries,
        letters=letters,
        rows=rows,
        archived_to={0: 2},
        seen={("handler", 0, offset) for offset in range(3)},
        counts=counted(rows),
        parked=[parked(lives[0], 2000, 0), parked(dies[0], 2000, 1), parked(lives[1], 4000, 2)],
    )


def replayed():
    """A task that is dead is replayed to the router, dies again, is replayed to its target, where it
    fails once more and is replayed for the last time; a job that was cancelled did not send it."""
    h = good()
    h.plans["dies"].revives_at = 4
    (dead, noise), dies = h.letters, h.events[3]

    def again(job, attempt, offset):
        ours = [("reprise-attempt", b"2"), ("reprise-replay-id", job)]
        return event("dies", attempt, 3500, offset, OWN + ours)

    def sent(job, attempt, offset):
        d = delivery("dies", attempt, 9000, offset)
        return d._replace(headers=d.headers + [("reprise-replay-id", job)])

    h.events += [again(b"a", 2, 5), again(b"b", 3, 6)]
    h.letters += [letter(h.events[5], 2), letter(h.events[6], 3, attempts=3)]
    h.deliveries += [sent(b"b", 3, 3), sent(b"c", 4, 4)]
    h.seen |= {("handler", 0, 3), ("handler", 0, 4)}
    h.rows += [row(l) for l in h.letters[2:]]
    h.archived_to[0] = 4
    h.replays = [
        Replay("never", "target", "cancelled", [Item("dies", (0, 0), False)], True),
        Replay("a", "router", "done", [Item("dies", (0, 0), True)], told=(1, 1, 0, ["replay", "replay-done"])),
        Replay("b", "target", "done", [Item("dies", (0, 2), True)]),
        Replay("c", "target", "stopped", [Item("dies", (0, 3), True)], True),
    ]
    first, _, second, third = h.rows
    for origin, job, back in ((first, "a", second), (second, "b", third), (third, "c", None)):
        origin |= {"status": "replayed", "job": job, "replays": 1}
        if back:
            origin["came_back_at"] = back["dead_at"]
            back |= {"replay_of_at": origin["dead_at"], "replay_of": origin["id"]}
    h.counts = counted(h.rows)
    return h
