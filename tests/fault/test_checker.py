# SPDX-License-Identifier: Apache-2.0
"""The checker on small histories that are made up: a good one, and one for each thing that can go
wrong. test_broken.py has it on pipelines that really do wrong."""

import copy

import pytest
from checker import Judge, judge
from histories import OWN, counted, delivery, event, good, letter, parked, row, rules, time_of


def without_header(d, name):
    return d._replace(headers=[(k, v) for k, v in d.headers if k != name])


def with_header(d, name, value):
    """That value in place of its own."""
    d = without_header(d, name)
    return d._replace(headers=d.headers + [(name, value)])


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


def send_before_due(h):
    h.deliveries[0] = h.deliveries[0]._replace(sent_ms=1989)


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
    h.deliveries[2] = with_header(h.deliveries[2], "reprise-first-failed-at", b"3000")


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


def come_from_nowhere(h):
    h.letters[0].letter["topic"] = h.rows[0]["source_topic"] = "elsewhere"


def keep_raw_bytes_as_well(h):
    h.letters[0].letter["raw"] = h.rows[0]["raw"] = b"junk"


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


def park_a_stranger(h):
    h.parked.append(parked(event("stranger", 1, 1000, 9), 2000, 9))


def park_something_else(h):
    h.parked[0] = h.parked[0]._replace(value=b"....")


def park_under_another_key(h):
    h.parked[0] = h.parked[0]._replace(key=None)


def park_without_policy(h):
    h.parked[0] = without_header(h.parked[0], "reprise-policy")


def park_for_another(h):
    h.parked[0] = with_header(h.parked[0], "reprise-target", b"elsewhere")


def park_with_its_own_headers(h):
    h.parked[0] = h.parked[0]._replace(headers=OWN + h.parked[0].headers)


def park_too_briefly(h):
    h.parked[0] = parked(h.events[0], 1999, 0)


def send_as_if_due_before(h):
    h.parked[2] = parked(h.events[1], 4500, 2)


def wait_too_long(h):
    h.deliveries[2] = delivery("lives", 3, 4001, 2)
    h.parked[2] = parked(h.events[1], 4001, 2)._replace(sent_ms=3000)


def stall(h):
    h.deliveries[0] = h.deliveries[0]._replace(sent_ms=2000 + 120_001)


def stall_in_calm(h):
    h.calm_ms = 1500
    h.deliveries[0] = h.deliveries[0]._replace(sent_ms=2000 + 60_001)


def part_a_key(h):
    h.deliveries[1] = h.deliveries[1]._replace(partition=1)
    h.seen = {("handler", d.partition, d.offset) for d in h.deliveries}


def archive_late(h):
    h.rows[0]["archived_at"] = time_of(h.letters[0].letter["decided_at"] + 120_001)


def alter_row(h):
    h.rows[0]["altered"] = ["payload"]


def part_a_group(h):
    h.letters.append(letter(h.events[1], 2))
    h.rows.append(row(h.letters[-1]) | {"fingerprint": 8})
    h.archived_to[0] = 3


def lose_group(h):
    h.groupless.append(7)


def blur_due(h):
    h.deliveries[0] = with_header(h.deliveries[0], "reprise-due", b"soon")


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
        (read_before_due, "early"), (send_before_due, "early"), (due_before_delay, "early"),
        (change_payload, "altered"), (change_key, "altered"), (reorder_headers, "altered"),
        (pile_up_headers, "altered"), (leave_out_due, "altered"),
        (forget_first_failure, "altered"), (wrong_topic, "altered"), (change_letter, "altered"),
        (change_oversized_letter, "altered"), (shrink_what_fits, "altered"),
        (change_shrunk_letter, "altered"), (change_key_of_letter, "altered"),
        (change_key_of_noise, "altered"), (change_place_in_letter, "altered"),
        (come_from_nowhere, "altered"), (keep_raw_bytes_as_well, "altered"),
        (change_policy, "altered"), (change_category, "altered"),
        (bury_a_stranger, "altered"), (leave_something_in_a_tier, "unsettled"), (blur_due, "altered"),
        (park_a_stranger, "altered"), (park_something_else, "altered"),
        (park_under_another_key, "altered"), (park_without_policy, "altered"),
        (park_for_another, "altered"), (park_with_its_own_headers, "altered"),
        (wait_too_long, "late"), (stall, "late"), (stall_in_calm, "late"), (part_a_key, "altered"),
        (archive_late, "archive"), (alter_row, "archive"), (part_a_group, "archive"), (lose_group, "archive"),
        (park_too_briefly, "early"), (send_as_if_due_before, "altered"),
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


def test_a_clock_that_was_ahead_excuses_as_much_and_no_more():
    history = good()
    read_before_due(history)
    history.ahead = [(1900, 2100, 1)]
    assert judge(history) == []
    history.deliveries[0] = history.deliveries[0]._replace(received_ms=1998)
    assert rules(history) == {"early"}


def test_a_transaction_begins_ahead_by_as_much_and_no_more():
    history = good()
    history.deliveries[0] = history.deliveries[0]._replace(sent_ms=1990)
    assert judge(history) == []
    history.lead_ms = 9
    assert rules(history) == {"early"}


def test_a_clock_that_was_ahead_excuses_nothing_of_what_is_sent_by_it():
    history = good()
    send_before_due(history)
    history.ahead = [(1900, 2100, 100)]
    assert rules(history) == {"early"}


@pytest.mark.parametrize("at, wrong", [(1989, set()), (1990, {"early"}), (1988, set()), (1987, {"early"})])
def test_a_clock_that_is_set_back_excuses_what_was_in_hand(at, wrong):
    history = good()
    send_before_due(history)
    history.set_back = [(at, 1)]
    assert rules(history) == wrong


def buried_from(offset, due=4500):
    """A dead letter of the delayer's, whose record in a tier was seen at offset 3."""
    history = good()
    history.parked.append(parked(history.events[3], due, 3))
    body, r = history.letters[0].letter, history.rows[0]
    body["topic"] = r["source_topic"] = "retry-1s"
    body["offset"] = r["source_offset"] = offset
    return history


def test_a_delayers_dead_letter_says_where_its_event_was_in_the_tier():
    assert judge(buried_from(3)) == []
    assert rules(buried_from(4)) == {"altered"}
    unseen = buried_from(4)
    unseen.parked.pop()
    twice = buried_from(4)
    twice.may_double = True
    # It was appended 990 ms before it was due; one that waits on is appended again.
    on = buried_from(4)
    on.parked[3] = on.parked[3]._replace(sent_ms=3499)
    assert judge(unseen) == judge(twice) == judge(on) == []


def test_those_that_must_have_waited_are_counted():
    """Both of "lives"; that of "dies" has no longest delay."""
    history = good()
    assert Judge(history).waits() == (2, 2)
    history.parked.pop(0)
    assert Judge(history).waits() == (1, 2)
    history.deliveries[0] = delivery("lives", 2, 2001, 0)  # the router was late, and sent it
    assert Judge(history).waits() == (1, 1)
    history = rescued()
    history.deliveries[2] = with_header(history.deliveries[2], "reprise-due", b"4000")
    assert Judge(history).waits() == (1, 1)


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
    history.parked.pop()
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


def hurried(deadline_ms):
    history = good()
    plan, body, r = history.plans["dies"], history.letters[0].letter, history.rows[0]
    plan.reason = body["reason"] = r["reason"] = "DEADLINE_EXCEEDED"
    plan.attempts, plan.deadline_ms = None, deadline_ms
    history.counts = counted(history.rows)
    return history


def test_a_deadline_is_kept_and_nothing_dies_of_it_before():
    """Its second execution was due 1,000 ms after the first failure; the third would have been 4,000 ms after it."""
    assert judge(hurried(1000)) == judge(hurried(3999)) == []
    assert rules(hurried(999)) == rules(hurried(4000)) == {"deadline"}
    history = hurried(2000)
    count_wrong(history)
    assert rules(history) == {"attempt"}


def double_again_and_again(h):
    for _ in range(8):
        double_delivery(h)


def test_at_least_once_may_double_and_nothing_else():
    for spoil in (double_delivery, double_letter):
        history = good()
        spoil(history)
        history.seen.add(("handler", 0, 9))
        history.counts = counted(history.rows)
        assert "doubled" in rules(history)
        history.may_double = True
        assert not rules(history) - {"vanished"}
    for spoil, rule in (
        (deliver_and_bury, "doubled"), (double_again_and_again, "doubled"), (lose_delivery, "lost"), (wrong_reason, "end"),
    ):  # fmt: skip
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
