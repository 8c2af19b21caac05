# SPDX-License-Identifier: Apache-2.0
"""A database with the archive's schema, without Kafka and without services."""

import json
import os
import subprocess
import uuid

import psycopg

from pipeline import BUILD


def run_unit_tests(program, postgres):
    """Those of tests in C that want a database: theirs is empty."""
    dsn = postgres.create_database(f"{program}-{uuid.uuid4().hex[:6]}")
    done = subprocess.run(
        [BUILD / "bin" / program], env={**os.environ, "REPRISE_TEST_DSN": dsn},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


class ArchiveDb:
    def __init__(self, postgres, folder, name):
        self.dsn = postgres.create_database(f"{name}-{uuid.uuid4().hex[:6]}")
        self.config = folder / "reprise.yaml"
        self.config.write_text(
            json.dumps({"postgres": {"dsn": self.dsn}, "kafka": {"bootstrap.servers": "none:1"}})
        )

    @classmethod
    def of(cls, dsn):
        """One that is there already."""
        db = cls.__new__(cls)
        db.dsn = dsn
        return db

    def migrate(self):
        return subprocess.run(
            [BUILD / "bin/reprise", "db", "migrate", "--config", self.config],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=True,
        ).stdout  # fmt: skip

    def connect(self):
        return psycopg.connect(self.dsn, autocommit=True, options="-c TimeZone=UTC")

    def query(self, sql, *values):
        with self.connect() as connection:
            if values and isinstance(values[0], dict):
                (values,) = values
            cursor = connection.execute(sql, values or None)
            return cursor.fetchall() if cursor.description else None

    def add_letters(self, count, first_at, days=1, types=6, groups=40, classes=1,
                    first_offset=0):  # fmt: skip
        """Rows made in the database, spread evenly over the days from `first_at` on."""
        self.query(
            "select dead_letter_add_day(day::date) from generate_series("
            "date_trunc('day', %s::timestamptz), %s::timestamptz + %s * interval '1 day' -"
            " interval '1 us', interval '1 day') as day", first_at, first_at, days,
        )  # fmt: skip
        self.query(
            "insert into dead_letter (dead_at, archived_at, record_topic, record_partition, record_offset, reason,"
            " category, attempts, task_id, task_type, target, payload, error_class, error_message,"
            " fingerprint)"
            " select at, at, 't', 0, %(first)s + n, case n %% 5 when 0 then 'NON_RETRYABLE' else 'EXHAUSTED' end,"
            "  case n %% 3 when 0 then 'NETWORK' when 1 then 'TIMEOUT' end, n %% 7, 'task-' || n,"
            "  'type-' || n %% %(types)s, 'orders', convert_to(repeat(md5(n::text), 8), 'UTF8'),"
            "  concat('java.io.IOException', nullif(n %% %(groups)s %% %(classes)s, 0)),"
            "  'no answer from host ' || n, n %% %(groups)s"
            " from generate_series(0, %(count)s - 1) as n, lateral (select %(at)s::timestamptz"
            "  + n * %(days)s * interval '1 day' / %(count)s as at) as t",
            {"at": first_at, "days": days, "count": count, "first": first_offset, "types": types,
             "groups": groups, "classes": classes},
        )  # fmt: skip

    KEYS = "task_type, reason, category, fingerprint, status"

    def assert_counted(self):
        """The rollup says what a count of the rows says."""
        with self.connect() as connection, connection.transaction():
            connection.execute("set transaction isolation level repeatable read")
            # Who was killed may be dropping a day yet, and a day that is dropped is gone from older snapshots, too.
            connection.execute("lock table dead_letter, dead_letter_state in access share mode")
            rows = connection.execute(
                f"select dead_letter_hour(dead_at), {self.KEYS}, count(*), count(came_back_at)"
                " from archive group by 1, 2, 3, 4, 5, 6"
            ).fetchall()
            counted = connection.execute(
                f"select hour, {self.KEYS}, sum(n)::bigint, sum(came_back)::bigint"
                " from dead_letter_count group by 1, 2, 3, 4, 5, 6"
                " having sum(n) <> 0 or sum(came_back) <> 0"
            ).fetchall()
        wrong = set(rows) ^ set(counted)
        assert len(rows) == len(set(rows)) and not wrong, sorted(map(str, wrong))[:20]
