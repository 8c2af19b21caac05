# SPDX-License-Identifier: Apache-2.0
"""The checker on small histories with replays, made up like those of test_checker.py."""

import pytest
from checker import judge
from histories import counted, delivery, event, good, letter, replayed, row, rules
from history import Item, Replay


def lose_replayed(h):
    h.deliveries.pop()


def lose_replayed_event(h):
    h.events.pop(5)
    for rows in (h.letters, h.rows):
        rows.pop(2)
    h.replays.pop(2)
    h.replays.pop(2)


def fail_again_in_a_replay(h):
    """The third attempt was its last one."""
    h.events.append(h.events[6]._replace(offset=9, task=h.events[6].task | {"attempt": 4}))


def tell_of_more(h):
    h.replays[1] = h.replays[1]._replace(told=(2, 1, 0, ["replay", "replay-done"]))


def audit_twice(h):
    h.replays[1] = h.replays[1]._replace(told=(1, 1, 0, ["replay", "replay", "replay-done"]))


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
        (come_back_of_nothing, "state"), (fail_again_in_a_replay, "attempt"), (tell_of_more, "replay"),
        (audit_twice, "replay"),
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


def test_each_copy_of_a_replayed_event_is_looked_at():
    history = replayed()
    history.may_double = True
    double_replayed_event(history)
    assert judge(history) == []
    history.events[-1] = history.events[-1]._replace(task=history.events[5].task | {"payload": b"!"})
    assert rules(history) == {"altered"}
