# SPDX-License-Identifier: Apache-2.0
"""The first digits of a group: a range for who looks, one group for who acts."""

import pytest

from dlq import maker

COMMON = "c57b"  # begins ONE and TWO
ONE, TWO = "c57bd4465aefda83", "c57b0000000000ff"


def signed(group):
    return int(group, 16) - (1 << 64)


@pytest.fixture
def db(postgres, tmp_path):
    db = maker(postgres, tmp_path)("prefix", 120)
    with db.connect() as connection:  # rows that come and go are counted, and those that change are not
        connection.execute("create temp table moved as select * from dead_letter where fingerprint in (1, 2)")
        connection.execute("delete from dead_letter where fingerprint in (1, 2)")
        for group, new in ((1, ONE), (2, TWO)):
            connection.execute("update moved set fingerprint = %s where fingerprint = %s", (signed(new), group))
        connection.execute("insert into dead_letter select * from moved")
    db.assert_counted()
    return db


def refused(db, *arguments, groups):
    text = db.run(*arguments, code=2)
    assert text == "" and f"fits more than one group: {', '.join(groups)}" in db.stderr, (text, db.stderr)
    assert "more of its digits" in db.stderr


@pytest.mark.parametrize("command", ["discard", "purge", "replay"])
@pytest.mark.parametrize("consent", [["--reason", "x", "--yes"], ["--dry-run"]])
def test_what_acts_refuses_digits_that_fit_several_groups(db, command, consent):
    refused(db, command, "--group", COMMON, *consent, groups=[TWO, ONE])
    refused(db, command, "--group", f"{ONE},{COMMON}", *consent, groups=[TWO, ONE])
    refused(db, command, "--where", f"task = task-1 or (group = {COMMON} and attempts >= 0)", *consent,
            groups=[TWO, ONE])  # fmt: skip
    assert db.count("status = 'dead'") == 120 and db.query("select count(*) from audit") == [(0,)]


def test_not_more_are_named_than_can_be_read(db):
    db.run("purge", "--group", "0000", "--dry-run", code=2)
    assert db.stderr.count("00000000000000") == 5 and "0000000000000006 and more" in db.stderr


def test_digits_that_fit_one_group_of_those_that_match_are_enough(db):
    assert "3 dead letters of 1 group" in db.run("purge", "--group", "c57bd", "--dry-run")
    both = f"{ONE[:6]},{TWO[:6]}"
    assert "3 dead letters of 2 groups" in db.run("purge", "--group", both, "--id", "<=42", "--dry-run")
    db.run("discard", "--group", ONE[:5], "--reason", "x", "--yes")
    assert db.count("status = 'discarded'") == 3
    # What is discarded is not among what is discarded next; and what looks sees all.
    assert "3 dead letters of 1 group" in db.run("discard", "--group", COMMON, "--dry-run")
    assert "6 dead letters of 2 groups" in db.run("purge", "--group", f"{ONE},{TWO}", "--dry-run")


def test_what_looks_takes_them_for_a_range(db):
    assert len(db.ids("--group", COMMON)) == 6
    assert db.run("count", "--group", COMMON).strip() == "6"
    assert len(db.run("export", "--group", COMMON).splitlines()) == 6
    for look in (["groups"], ["stats", "--by", "group"]):
        text = db.run(*look, "--group", COMMON)
        assert ONE in text and TWO in text, text
