# SPDX-License-Identifier: Apache-2.0
"""`reprise dlq` on a database without services."""

import json
import os
import pty
import subprocess
import termios

from archive_db import ArchiveDb
from pipeline import BUILD

DAY = "2026-11-20"
WAITING = ("select count(*) from pg_locks where not granted and database ="
           " (select oid from pg_database where datname = current_database())")
EVIL = "\x1b[2J\x07\u009b31m\u202ered\nsecond"


def answered(answer, config, *arguments, meanwhile=lambda: None, columns=160, **env):
    """Runs `reprise dlq` on a terminal, and answers its question: its exit code, and what it says then. Without an
    answer, all that it says."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (30, columns))
    process = subprocess.Popen(
        [BUILD / "bin/reprise", "dlq", *arguments, "--config", config],
        stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm", **env},
    )  # fmt: skip
    os.close(theirs)
    out = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # it has closed the terminal
            break
        if not part:
            break
        out += part
        if answer and b"[y/N]" in out:
            meanwhile()
            os.write(ours, answer)
            answer, out = None, b""
    os.close(ours)
    return process.wait(30), out.decode()


def on_terminal(db, *arguments, **options):
    """What a terminal gets."""
    code, text = answered(None, db.config, *arguments, **options)
    assert code == 0
    return text


class Dlq(ArchiveDb):
    def run(self, *arguments, code=0, env=None, stdin=subprocess.DEVNULL):
        done = subprocess.run(
            [BUILD / "bin/reprise", "dlq", *map(str, arguments), "--config", self.config],
            stdin=stdin, capture_output=True, timeout=120, env={**os.environ, **(env or {})},
        )  # fmt: skip
        out, err = done.stdout.decode(), done.stderr.decode()
        codes = code if isinstance(code, tuple) else (code,)
        assert done.returncode in codes, f"{arguments}: {done.returncode} {err}{out}"
        self.stderr = err
        return out

    def rows(self, *arguments, code=0):
        text = self.run(*arguments, "--format", "json", code=code)
        return [json.loads(line) for line in text.splitlines()]

    def ids(self, *arguments, code=(0, 4)):
        return sorted(row["id"] for row in self.rows("list", "--limit", 100000, *arguments, code=code))

    def set_status(self, status, condition, more=""):
        self.query(
            "insert into dead_letter_state (dead_at, id, status, task_type, reason, category,"
            " fingerprint, replays, job, came_back_at) select dead_at, id, %s, task_type, reason,"
            f" category, fingerprint, 1, 'job-1', {more or 'null'} from dead_letter as d"
            f" where {condition.replace('%', '%%')}", status,
        )  # fmt: skip

    def start(self, *arguments, stdin=subprocess.DEVNULL, **options):
        return subprocess.Popen(
            [BUILD / "bin/reprise", "dlq", *map(str, arguments), "--config", self.config],
            stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options,
        )  # fmt: skip

    def count(self, condition="true"):
        return self.query(f"select count(*) from archive where {condition}")[0][0]

    def audited(self, action):
        """The entries of the audit: actor, reason, detail."""
        return self.query(
            "select actor, reason, detail from audit where action = %s order by id", action
        )


def maker(postgres, folder):
    """Makes databases of their own, with some letters of DAY."""

    def make(name, letters=0):
        (folder / name).mkdir()
        db = Dlq(postgres, folder / name, name)
        db.migrate()
        if letters:
            db.add_letters(letters, f"{DAY} 10:00:00+00")
        return db

    return make
