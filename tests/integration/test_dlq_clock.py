# SPDX-License-Identifier: Apache-2.0
"""Times like 2h are ago by the database's clock, whatever this machine's says."""

import datetime

import pytest

from dlq import maker


@pytest.fixture
def db(postgres, tmp_path):
    """Its clock is an hour behind ours. One letter died an hour and a half ago by ours."""
    db = maker(postgres, tmp_path)("clock")
    died = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=90)
    db.add_letters(1, died.isoformat())
    name = db.query("select current_database()")[0][0]
    db.query("create schema clock")
    db.query(
        "create function clock.now() returns timestamptz stable language sql as"
        " $$ select pg_catalog.now() - interval '1 hour' $$"
    )
    db.query(f'alter database "{name}" set search_path = clock, public, pg_catalog')
    return db


@pytest.mark.parametrize(
    "when", [["--since", "1h"], ["--where", "since = 1h and until now"], ["--where", "dead_at > 1h ago"]]
)
def test_ago_is_by_the_clock_of_the_database(db, when):
    assert db.run("count", *when).strip() == "1"
    assert "1 dead letter of 1 group" in db.run("discard", *when, "--dry-run")
    assert "To replay:  1 dead letters" in db.run("replay", *when, "--to", "router", "--dry-run")


def test_until_is_so_too(db):
    assert db.run("count", "--until", "1h", code=4).strip() == "0"
    assert db.run("count", "--until", "10m").strip() == "1"


def test_a_time_that_is_no_time_is_refused_without_a_database(db):
    db.config.write_text('{"postgres": {"dsn": "host=127.0.0.1 port=1"}, "kafka": {"bootstrap.servers": "none:1"}}')
    db.run("count", "--since", "soon", code=2)
    assert "'soon' is no time" in db.stderr
