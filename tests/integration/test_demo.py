# SPDX-License-Identifier: Apache-2.0
"""deploy/local/run, as somebody types it who has never seen reprise."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

from pipeline import BUILD, wait_for
from servers import ROOT

pytestmark = pytest.mark.plain


def processes_in(folder):
    """The processes that name the folder in their command line, or work in it."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(folder) in words or str(folder) in os.readlink(process / "cwd"):
                found.append(f"{process.name}: {words[:200]}")
        except OSError:
            continue  # it has ended meanwhile
    return found


class Run:
    """A run in a session of its own, as in a terminal of its own."""

    def __init__(self, folder, *options):
        self.folder = folder
        self.process = subprocess.Popen(
            [ROOT / "deploy/local/run", "--build", BUILD, *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, start_new_session=True, env={**os.environ, "TMPDIR": str(folder)},
        )  # fmt: skip
        self.output = ""

    def read_until(self, text, timeout):
        deadline = time.monotonic() + timeout
        for line in self.process.stdout:
            self.output += line
            if text in line:
                return
            assert time.monotonic() < deadline, self.output
        raise AssertionError(f"it ended without '{text}':\n{self.output}")

    def interrupt(self):
        """Ctrl-C: to the whole foreground group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self, timeout):
        rest, _ = self.process.communicate(timeout=timeout)
        self.output += rest
        return self.process.returncode

    def assert_nothing_is_left(self):
        deadline = time.monotonic() + 15
        while left := processes_in(self.folder):
            assert time.monotonic() < deadline, left
            time.sleep(0.1)
        assert list(self.folder.iterdir()) == []


@pytest.fixture
def start():
    runs = []
    # Not pytest's folder, which every run of pytest shuts to the user that PostgreSQL runs as.
    folder = pathlib.Path(tempfile.mkdtemp(prefix="reprise-demo-"))
    folder.chmod(0o711)

    def begin(*options):
        runs.append(Run(folder, *options))
        return runs[-1]

    yield begin
    for run in runs:
        if run.process.poll() is None:
            run.process.terminate()
            run.end(60)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.timeout(240)
def test_every_task_of_the_demo_is_accounted_for(start):
    run = start("--once")
    began = time.monotonic()
    assert run.end(200) == 0, run.output
    assert "\nEvery task is accounted for" in run.output
    assert re.search(r"doubled: 0 +lost: 0 +early: 0", run.output)
    assert time.monotonic() - began < 150
    run.assert_nothing_is_left()


@pytest.mark.timeout(240)
def test_the_demo_without_java_accounts_for_every_task_too(start):
    run = start("--once", "--broker", "embedded", "--tasks", "1500")
    assert run.end(200) == 0, run.output
    assert "What it leaves out: transactions" in run.output
    assert "\nEvery task is accounted for" in run.output
    run.assert_nothing_is_left()


@pytest.mark.timeout(180)
def test_an_interrupted_demo_leaves_nothing_behind(start):
    run = start()
    run.read_until("00:03", 60)
    run.interrupt()
    assert run.end(60) == 130, run.output
    assert "interrupted" in run.output
    run.assert_nothing_is_left()


@pytest.mark.timeout(180)
def test_a_killed_demo_leaves_nothing_behind(start):
    run = start()
    run.read_until("00:03", 60)
    run.process.kill()
    run.process.wait()
    wait_for(lambda: not any(run.folder.iterdir()), "the folder to be gone", 60)
    run.assert_nothing_is_left()
