# SPDX-License-Identifier: Apache-2.0
"""The archive: each dead letter once in PostgreSQL, whatever is killed, and whatever is in it."""

import os
import subprocess
import uuid

from pipeline import BUILD


def test_the_store(postgres):
    dsn = postgres.create_database(f"store-{uuid.uuid4().hex[:6]}")
    done = subprocess.run(
        [BUILD / "bin/store_test"], env={**os.environ, "REPRISE_TEST_DSN": dsn},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
