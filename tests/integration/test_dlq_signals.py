# SPDX-License-Identifier: Apache-2.0
"""What whoever starts `reprise dlq` has it ignore, it ignores."""

import contextlib
import signal

import pytest

from dlq import maker
from pipeline import wait_for
from test_replay import Replays, begun, check_once


@contextlib.contextmanager
def ignored(number):
    """What is started in it ignores the signal, as nohup has it, or a shell for its background."""
    usual = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, usual)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_a_replay_goes_on_where_a_signal_is_ignored(new_pipeline, number):
    replays = Replays.with_handler(new_pipeline, f"ignored{number}")
    replays.insert("ignored", 100, replays.target)
    with ignored(number):
        process, job = begun(replays, "ignored", "--rate", "40", count=5)
    process.send_signal(number)
    text = process.communicate(timeout=60)[0]
    assert process.returncode == 0 and f"Replay {job}: done." in text, text
    check_once(replays.reader, "ignored", range(100))


def test_tail_goes_on_where_an_interrupt_is_ignored(postgres, tmp_path):
    db = maker(postgres, tmp_path)("ignored", 3)
    with ignored(signal.SIGINT):
        process = db.start("tail", "--lines", 1)
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    db.add_letters(1, "2026-11-20 12:00:00+00", first_offset=1000)
    assert process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
