# SPDX-License-Identifier: Apache-2.0
"""The checker on small histories that are made up: a good one, and one for each thing that can go
wrong. test_broken.py has it on pipelines that really do wrong."""

import copy
import datetime

import pytest
from checker import COUNTED, Delivery, Event, History, Item, Letter, Plan, Replay, judge, replay_of

OWN = [("traceparent", b"00-1-2-01"), ("twice", b"a"), ("twice", None)]


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
    made = Delivery("handler", 0, offset, b"k", b"\0\xff", headers, due + 3)
    return made._replace(**changed)


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
            "lives": Plan("lives", **plan, min_delay_ms=1000, succeeds_at=3),
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
        Replay("a", "router", "done", [Item("dies", (0, 0), True)]),
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


def rules(history):
    return {fault.rule for fault in judge(history)}


def without_header(d, name):
    return d._replace(headers=[(k, v) for k, v in d.headers if k != name])


def test_a_good_history_has_no_faults():
    assert judge(good()) == []


def lose_delivery(h):
    h.deliveries.pop()
    h.seen.remove(("handler", 0, 2))


def double_delivery(h):
    h.deliveries.append(h.deliveries[0]._replace(offset=9))


def deliver_and_bury(h):
    h.letters.append(letter(h.events[0], 2))
    h.rows.append(row(h.letters[-1]))
    h.archived_to[0] = 3


def lose_letter(h):
    h.letters.pop(0)
    h.rows.pop(0)


def double_letter(h):
    h.letters.append(h.letters[0]._replace(offset=2))
    h.rows.append(row(h.letters[-1]))
    h.archived_to[0] = 3


def lose_noise(h):
    h.letters.pop(1)
    h.rows.pop(1)


def skip_attempt(h):
    h.deliveries[2] = delivery("lives", 4, 4000, 2)


def repeat_attempt(h):
    h.deliveries[2] = delivery("lives", 2, 4000, 2)


def count_wrong(h):
    h.letters[0].letter["attempts"] = h.rows[0]["attempts"] = 3


def read_before_due(h):
    h.deliveries[0] = h.deliveries[0]._replace(received_ms=1999)


def due_before_delay(h):
    h.deliveries[0] = delivery("lives", 2, 1999, 0)


def change_payload(h):
    h.deliveries[0] = h.deliveries[0]._replace(value=b"\0\xfe")


def change_key(h):
    h.deliveries[0] = h.deliveries[0]._replace(key=None)


def reorder_headers(h):
    headers = h.deliveries[0].headers
    h.deliveries[0] = h.deliveries[0]._replace(headers=headers[2::-1] + headers[3:])


def pile_up_headers(h):
    headers = h.deliveries[2].headers
    h.deliveries[2] = h.deliveries[2]._replace(headers=headers + [("reprise-attempt", b"2")])


def leave_out_due(h):
    h.deliveries[0] = without_header(h.deliveries[0], "reprise-due")


def forget_first_failure(h):
    d = without_header(h.deliveries[2], "reprise-first-failed-at")
    h.deliveries[2] = d._replace(headers=d.headers + [("reprise-first-failed-at", b"3000")])


def wrong_topic(h):
    h.deliveries[0] = h.deliveries[0]._replace(topic="elsewhere")
    h.seen.clear()


def change_letter(h):
    h.letters[0].letter["task"] = h.letters[0].letter["task"] | {"payload": b"!"}
    h.rows[0]["payload"] = b"!"


def refuse_as_oversized(h):
    h.plans["dies"].reason = h.letters[0].letter["reason"] = h.rows[0]["reason"] = "OVERSIZED"


def change_oversized_letter(h):
    refuse_as_oversized(h)
    change_letter(h)


def shrink_what_fits(h):
    refuse_as_oversized(h)
    h.letters[0].letter["task"] = h.letters[0].letter["task"] | {"payload": None, "headers": []}
    h.rows[0] = row(h.letters[0])


def change_shrunk_letter(h):
    shrink_what_fits(h)
    h.fits = 2
    h.letters[0].letter["task"]["source"] = h.rows[0]["source"] = "x"


def change_key_of_letter(h):
    h.letters[0] = h.letters[0]._replace(key=b"x")
    h.rows[0]["record_key"] = b"x"


def change_key_of_noise(h):
    h.letters[1] = h.letters[1]._replace(key=None)
    h.rows[1]["record_key"] = None


def change_place_in_letter(h):
    h.letters[0].letter["offset"] = h.rows[0]["source_offset"] = 9


def change_policy(h):
    h.letters[0].letter["policy"] = h.rows[0]["policy"] = "x"


def change_category(h):
    h.letters[0].letter["category"] = h.rows[0]["category"] = "BUG"


def bury_a_stranger(h):
    h.events.append(event("stranger", 1, 3000, 9))
    h.letters.append(letter(h.events[-1], 2))
    h.rows.append(row(h.letters[-1]))
    h.archived_to[0] = 3


def leave_something_in_a_tier(h):
    h.unsettled.append(("retry-1s", 0, 5))


def blur_due(h):
    d = without_header(h.deliveries[0], "reprise-due")
    h.deliveries[0] = d._replace(headers=d.headers + [("reprise-due", b"soon")])


def wrong_reason(h):
    h.letters[0].letter["reason"] = h.rows[0]["reason"] = "OTHER"


def lose_row(h):
    h.rows.pop()


def double_row(h):
    h.rows.append(h.rows[0])


def invent_row(h):
    h.rows.append(h.rows[0] | {"record_offset": 7})


def change_row(h):
    h.rows[0]["task_key"] = b"x"


def change_message_of_row(h):
    h.rows[0]["error_message"] = "x"


def lose_cause_of_row(h):
    h.rows[0]["cause_classes"] = h.rows[0]["cause_messages"] = []


def change_failure_of_row(h):
    h.rows[0]["failed_at"] = time_of(3501)


def change_death_of_row(h):
    h.rows[1]["dead_at"] = time_of(5001)


def set_archive_back(h):
    h.archived_to[0] = 1


def go_back_for_a_while(h):
    h.went_back.append(0)


def count_one_more(h):
    h.counts[next(iter(h.counts))] = (2, 0)


def count_what_is_not_there(h):
    h.counts[time_of(0), "t", "OTHER", None, 7, "dead"] = (1, 0)


def leave_replaying(h):
    h.rows[0] |= {"status": "replaying", "job": "x"}
    h.counts = counted(h.rows)


def vanish(h):
    h.seen.add(("handler", 0, 3))


def withhold(h):
    h.seen.remove(("handler", 0, 1))


def never_end(h):
    lose_delivery(h)
    h.events.pop(1)


@pytest.mark.parametrize(
    "spoil, rule",
    [
        (lose_delivery, "lost"), (lose_letter, "lost"), (lose_noise, "lost"),
        (double_delivery, "doubled"), (double_letter, "doubled"), (deliver_and_bury, "doubled"),
        (skip_attempt, "attempt"), (repeat_attempt, "doubled"), (count_wrong, "attempt"),
        (read_before_due, "early"), (due_before_delay, "early"),
        (change_payload, "altered"), (change_key, "altered"), (reorder_headers, "altered"),
        (pile_up_headers, "altered"), (leave_out_due, "altered"),
        (forget_first_failure, "altered"), (wrong_topic, "altered"), (change_letter, "altered"),
        (change_oversized_letter, "altered"), (shrink_what_fits, "altered"),
        (change_shrunk_letter, "altered"), (change_key_of_letter, "altered"),
        (change_key_of_noise, "altered"), (change_place_in_letter, "altered"),
        (change_policy, "altered"), (change_category, "altered"),
        (bury_a_stranger, "altered"), (leave_something_in_a_tier, "unsettled"), (blur_due, "altered"),
        (never_end, "end"), (wrong_reason, "end"),
        (lose_row, "archive"), (double_row, "archive"), (invent_row, "archive"),
        (change_row, "archive"), (change_message_of_row, "archive"),
        (lose_cause_of_row, "archive"), (change_failure_of_row, "archive"),
        (change_death_of_row, "archive"), (set_archive_back, "archive"),
        (go_back_for_a_while, "archive"), (count_one_more, "state"),
        (count_what_is_not_there, "state"), (leave_replaying, "state"), (vanish, "vanished"),
        (withhold, "unread"),
    ],
)  # fmt: skip
def test_a_fault_is_found(spoil, rule):
    history = copy.deepcopy(good())
    spoil(history)
    assert rule in rules(history)


def test_what_was_shrunk_to_fit_is_no_fault():
    history = copy.deepcopy(good())
    shrink_what_fits(history)
    history.fits, history.counts = 2, counted(history.rows)
    assert judge(history) == []


def lose_replayed(h):
    h.deliveries.pop()


def lose_replayed_event(h):
    h.events.pop(5)
    for rows in (h.letters, h.rows):
        rows.pop(2)
    h.replays.pop(2)
    h.replays.pop(2)


def double_replayed(h):
    h.deliveries.append(h.deliveries[-1]._replace(offset=9))


def double_replayed_event(h):
    """The router knows a repeated event, so nothing but the event itself tells."""
    h.events.append(h.events[5]._replace(offset=9))


def double_replayed_letter(h):
    h.letters.append(h.letters[-1]._replace(offset=4))
    h.rows.append(row(h.letters[-1]))
    h.archived_to[0] = 5


def replay_twice(h):
    h.replays.append(Replay("d", "target", "done", [Item("dies", (0, 3), True)]))
    d = h.deliveries[-1]
    h.deliveries.append(d._replace(offset=9, headers=d.headers[:-1] + [("reprise-replay-id", b"d")]))


def send_although_cancelled(h):
    d = h.deliveries[-2]
    headers = d.headers[:-1] + [("reprise-replay-id", b"never")]
    h.deliveries.append(d._replace(offset=9, headers=headers))


def replay_what_nobody_asked_for(h):
    d = h.deliveries[0]
    h.deliveries.append(d._replace(offset=9, headers=d.headers + [("reprise-replay-id", b"x")]))


def same_attempt_again(h):
    h.deliveries[-1] = delivery("dies", 3, 9000, 4, headers=[
        (k, b"3" if k == "reprise-attempt" else v) for k, v in h.deliveries[-1].headers
    ])  # fmt: skip


def change_replayed_payload(h):
    h.deliveries[-1] = h.deliveries[-1]._replace(value=b"!")


def change_replayed_event(h):
    h.events[5] = h.events[5]._replace(task=h.events[5].task | {"payload": b"!"})


def change_key_of_replayed_event(h):
    h.events[5] = h.events[5]._replace(key=b"x")


def never_finish(h):
    h.replays[3] = h.replays[3]._replace(state="paused")


def say_sent_but_not(h):
    """The cursor passed an item that never went out."""
    h.replays[0].items[0] = Item("dies", (0, 0), True)


def be_done_without_one(h):
    h.replays[0] = h.replays[0]._replace(state="done")


def refuse(h):
    h.replays[0].items[0] = Item("dies", (0, 0), False, True)


def stop_by_itself(h):
    h.replays[3] = h.replays[3]._replace(cancelled=False)


def lose_link(h):
    h.rows[-1]["replay_job"] = None


def forget_mark(h):
    h.rows[0] |= {"status": "dead", "job": None, "replays": 0}
    h.counts = counted(h.rows)


def mark_for_another_job(h):
    h.rows[0]["job"] = "b"


def mark_twice(h):
    h.rows[0]["replays"] = 2


def link_to_another_row(h):
    h.rows[2]["replay_of"] = h.rows[1]["id"]


def forget_that_it_came_back(h):
    h.rows[0]["came_back_at"] = None
    h.counts = counted(h.rows)


def come_back_of_nothing(h):
    h.rows[3]["came_back_at"] = h.rows[3]["dead_at"]
    h.counts = counted(h.rows)


def fail_and_not_bury(h):
    h.letters.pop()
    h.rows.pop()
    h.replays.pop()
    h.deliveries.pop()


def test_a_good_history_of_replays_has_no_faults():
    assert judge(replayed()) == []


@pytest.mark.parametrize(
    "spoil, rule",
    [
        (lose_replayed, "lost"), (lose_replayed_event, "lost"), (fail_and_not_bury, "lost"),
        (double_replayed, "doubled"), (double_replayed_event, "doubled"),
        (double_replayed_letter, "doubled"), (replay_twice, "doubled"),
        (send_although_cancelled, "replay"), (replay_what_nobody_asked_for, "replay"),
        (same_attempt_again, "lost"), (change_replayed_payload, "altered"),
        (change_replayed_event, "altered"), (change_key_of_replayed_event, "altered"), (never_finish, "replay"), (say_sent_but_not, "lost"),
        (lose_link, "archive"), (be_done_without_one, "lost"), (refuse, "replay"),
        (stop_by_itself, "replay"), (forget_mark, "state"), (mark_for_another_job, "state"),
        (mark_twice, "state"), (link_to_another_row, "state"), (forget_that_it_came_back, "state"),
        (come_back_of_nothing, "state"),
    ],
)  # fmt: skip
def test_a_fault_of_a_replay_is_found(spoil, rule):
    history = replayed()
    spoil(history)
    assert rule in rules(history)


def test_what_has_no_target_may_be_refused_there():
    history = good()
    history.plans["dies"].reason = history.letters[0].letter["reason"] = history.rows[0]["reason"] = "NO_TARGET"
    history.counts = counted(history.rows)
    history.replays = [Replay("a", "target", "done", [Item("dies", (0, 0), False, True)])]
    assert judge(history) == []
    history.replays = [history.replays[0]._replace(to="router")]
    assert rules(history) == {"replay"}


def test_a_clock_that_was_ahead_excuses_as_much_and_no_more():
    history = good()
    read_before_due(history)
    history.ahead = [(1900, 2100, 1)]
    assert judge(history) == []
    history.deliveries[0] = history.deliveries[0]._replace(received_ms=1998)
    assert rules(history) == {"early"}


def test_an_event_that_is_said_twice_leads_to_one_re_invocation():
    history = good()
    history.events.append(history.events[0]._replace(offset=9))
    assert judge(history) == []
    double_delivery(history)
    assert "doubled" in rules(history)


def rescued():
    """The third execution is the fallback topic's."""
    history = good()
    history.plans["lives"].rescue, history.plans["lives"].rescued_at = "rescue", 3
    d = delivery("lives", 3, 3000, 2)  # at once
    history.deliveries[2] = d._replace(topic="rescue", headers=d.headers + [("reprise-fallback", b"1")])
    history.seen.remove(("handler", 0, 2))
    history.seen.add(("rescue", 0, 2))
    return history


def test_the_last_try_goes_to_the_fallback_topic_and_says_so():
    assert judge(rescued()) == []
    for spoil in ({"topic": "handler"}, {"headers": good().deliveries[2].headers}):
        history = rescued()
        history.deliveries[2] = history.deliveries[2]._replace(**spoil)
        assert "altered" in rules(history)
    history = good()
    d = history.deliveries[2]
    history.deliveries[2] = d._replace(headers=d.headers + [("reprise-fallback", b"1")])
    assert rules(history) == {"altered"}


def test_at_least_once_may_double_and_nothing_else():
    for spoil in (double_delivery, double_letter):
        history = good()
        spoil(history)
        history.seen.add(("handler", 0, 9))
        history.counts = counted(history.rows)
        assert "doubled" in rules(history)
        history.may_double = True
        assert not rules(history) - {"vanished"}
    for spoil, rule in ((deliver_and_bury, "doubled"), (lose_delivery, "lost"), (wrong_reason, "end")):
        history = good()
        history.may_double = True
        spoil(history)
        assert rule in rules(history)


def test_what_is_decided_again_behind_its_deadline_may_be_decided_otherwise():
    history = good()
    deliver_and_bury(history)
    history.may_double = True
    assert "doubled" in rules(history)
    history.plans["lives"].reason = "DEADLINE_EXCEEDED"
    assert "doubled" not in rules(history)
