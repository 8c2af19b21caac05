# SPDX-License-Identifier: Apache-2.0
"""The walk-through of services/cli/README.md, run as it stands."""

import collections
import gzip
import json
import os
import re
import subprocess
import time

import pytest

import contract
from pipeline import BUILD, header
from servers import ROOT
from test_archiver import Archive, letter

README = ROOT / "services/cli/README.md"

# type, how many, error class, message of number n, payload of number n, reason
KINDS = [
    ("payment", 21000, "java.net.SocketTimeoutException", "read timed out after {n} ms", '{{"order": {n}, "amount": 10.10}}',
     "EXHAUSTED"),
    ("invoice", 11000, "NullPointerException", "order {n} has no currency",
     '{{"id": 90071992548{n:05}, "order": {n}, "currency": null}}', "NON_RETRYABLE"),
    ("mail", 5000, "SMTPRecipientsRefused", "550 no mailbox 'user{n}@example.com'", '{{"to": "user{n}@example.com"}}',
     "NON_RETRYABLE"),
    ("report", 2000, "MemoryError", "report {n} takes {n} rows", '{{"report": {n}}}', "EXHAUSTED"),
    ("stock", 900, "OptimisticLockException", "row {n} was changed", '{{"row": {n}}}', "DEADLINE_EXCEEDED"),
]  # fmt: skip
UNDECODABLE = 100
CATEGORIES = {"payment": "TIMEOUT", "invoice": "BUG", "mail": "NOT_FOUND", "stock": "CONFLICT"}


def commands():
    """The lines of the section that begin with a prompt."""
    section = README.read_text().split("## A walk-through")[1].split("\n## ")[0]
    return re.findall(r"^    \$ (.*(?:\\\n.*)*)", section, re.M)


class Night:
    def __init__(self, new_pipeline):
        archive = Archive(new_pipeline, "walk", policies={"payment": {"max_attempts": 6}})
        self.pipeline = archive.pipeline
        self.query = archive.query
        self.readers = {}
        for kind in ("payment", "invoice"):
            target = self.pipeline.create_target(kind)
            self.readers[kind] = self.pipeline.reader(target)
        self.pipeline.start("archiver")
        for kind, count, error, message, payload, reason in KINDS:
            for n in range(count):
                category = CATEGORIES.get(kind, "UNKNOWN")
                policy = kind if kind == "payment" else "default"
                archive.send(contract.write_dead_letter(letter(archive.sent, reason=reason, category=category, policy=policy, task={
                    "task_id": f"{kind}-{n}", "task_type": kind, "target": self.pipeline.target(kind),
                    "payload": payload.format(n=n).encode(), "key": f"{kind}-{n}".encode(),
                    "error": {"class": error, "message": message.format(n=n), "category": None, "causes": []},
                })))  # fmt: skip
        for n in range(UNDECODABLE):
            bad = letter(archive.sent, reason="UNDECODABLE", detail="byte 0: no event") | {"task": None, "raw": b"\1\2"}
            archive.send(contract.write_dead_letter(bad | {"attempts": 0}))
        archive.wait_for_all(timeout=240)

    def run(self, command, folder):
        path = f"{BUILD / 'bin'}:{os.environ['PATH']}"
        env = dict(os.environ, REPRISE_CONFIG=str(self.pipeline.config_file), PATH=path)
        done = subprocess.run(["bash", "-c", command], env=env, cwd=folder, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=240)  # fmt: skip
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def status(self):
        rows = self.query("select task_type, status, count(*) from archive group by 1, 2")
        return {(kind, status): n for kind, status, n in rows}


@pytest.mark.timeout(900)
def test_the_walk_through_of_the_readme(new_pipeline, tmp_path):
    night = Night(new_pipeline)
    began = time.monotonic()
    said = {}
    for command in commands():
        started = time.monotonic()
        # Nothing fails here, so nobody has to be waited for.
        said[command] = night.run(command.replace("--canary-wait 2m", "--canary-wait 3s"), tmp_path)
        print(f"{time.monotonic() - started:.1f} s: {command}\n{said[command]}")
    print(f"{len(said)} commands in {time.monotonic() - began:.1f} s")
    assert len(said) >= 10

    groups = next(text for command, text in said.items() if command == "reprise dlq groups")
    assert sum(count in groups for count in ("21,000", "11,000", "5,000", "2,000", "900", "100")) == 6
    assert "policy payment would retry it" in said["reprise dlq show --task payment-17"]
    assert night.status() == {
        ("payment", "replayed"): 21000,
        ("invoice", "replayed"): 11000,
        ("mail", "discarded"): 5000,
        ("report", "dead"): 2000,
        ("stock", "dead"): 900,
        (None, "dead"): UNDECODABLE,
    }
    for kind, count in (("payment", 21000), ("invoice", 11000)):
        reader = night.readers[kind]
        reader.wait(count, timeout=120)
        came = collections.Counter(header(record, "reprise-task-id") for record in reader.records)
        assert came == {f"{kind}-{n}": 1 for n in range(count)}
    for record in night.readers["invoice"].records:
        n = int(header(record, "reprise-task-id").split("-")[1])
        assert json.loads(record.value) == {"id": int(f"90071992548{n:05}"), "order": n, "currency": "EUR"}
    (exported,) = tmp_path.glob("*.gz")
    assert len(gzip.open(exported).read().splitlines()) == 2000
    audit = dict(night.query("select action, count(*) from audit group by 1"))
    assert audit["edit"] == 1 and audit["replay"] == 2
