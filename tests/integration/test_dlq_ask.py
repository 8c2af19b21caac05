# SPDX-License-Identifier: Apache-2.0
"""Questions about dead letters on the command line: list, groups, stats, count, and their filter."""

import datetime
import itertools
import json
import subprocess
import sys

import pytest

from dlq import BUILD, EVIL, Dlq, on_terminal

@pytest.fixture(scope="module")
def make(postgres, tmp_path_factory):
    def make(name):
        db = Dlq(postgres, tmp_path_factory.mktemp(name), name)
        db.migrate()
        return db

    return make


@pytest.fixture(scope="module")
def db(make):
    """Some thousand rows of the last two days, in all states, and one that is out to deceive."""
    db = make("ask")
    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=2)
    db.add_letters(3000, start.isoformat(), days=2)
    db.set_status("replayed", "id % 10 = 1")
    db.set_status("replayed", "id % 10 = 2", "now()")
    db.set_status("discarded", "id % 10 = 3")
    db.set_status("replaying", "id % 100 = 4")
    db.query(
        "insert into dead_letter (dead_at, record_topic, record_partition, record_offset, reason,"
        " detail, category, policy, task_id, task_type, target, payload, error_class,"
        " error_message, source, fingerprint) values (now(), 't', 1, 0, 'EXHAUSTED', %(e)s, %(e)s,"
        " %(e)s, %(e)s, %(e)s, %(e)s, convert_to(%(e)s, 'UTF8'), %(e)s, %(e)s, %(e)s, 77)", {"e": EVIL},
    )  # fmt: skip
    db.query("insert into error_group values (77, %(e)s, %(e)s, %(e)s)", {"e": EVIL})
    # Some groups are not known, as those of rows that are older than groups.
    db.query("update dead_letter set error_class = 'Odd' where fingerprint % 4 = 1 and fingerprint < 77")
    db.query(
        "insert into error_group select distinct on (fingerprint) fingerprint, task_type, error_class,"
        " 'no answer from host #' from dead_letter where fingerprint between 1 and 30"
    )
    return db


CASES = [
    ("all", "true"),
    ("type = type-1", "task_type = 'type-1'"),
    ("type = type-? and not type in (type-1, 'type-2')", "task_type in ('type-0', 'type-3', 'type-4', 'type-5')"),
    ("type = t_pe*", "false"),
    ("category = none", "category is null"),
    ("category != NETWORK", "category is distinct from 'NETWORK'"),
    ("not category = NETWORK and not (category = TIMEOUT or id < 5)", "coalesce(category, '') not in ('NETWORK', 'TIMEOUT') and id >= 5"),
    ("class = *IOException and message contains 'HOST 29'", "error_class like '%IOException' and error_message like '%host 29%'"),
    ("message ~ 'host 1\\d$'", "error_message ~ 'host 1.$'"),
    ("message !~ 'host'", "task_id not like 'task-%'"),
    ("reason = non_retryable and attempts >= 3 and attempts != 5", "reason = 'NON_RETRYABLE' and attempts in (3, 4, 6)"),
    ("attempts > 99999999999", "false"),
    ("id in (1, 2, 3) or task = task-9", "id in (1, 2, 3) or task_id = 'task-9'"),
    ("status = dead", "status = 'dead'"),
    ("status != dead", "status <> 'dead'"),
    ("status in (replayed, discarded)", "status in ('replayed', 'discarded')"),
    ("not status in (dead, replayed)", "status in ('replaying', 'discarded')"),
    ("replays = 1 and job = job-*", "replays = 1"),
    ("came_back", "came_back_at is not null"),
    ("not came_back and status = replayed", "came_back_at is null and status = 'replayed'"),
    ("group = 000000000000000f", "fingerprint = 15"),
    ("group in (000000000000000, 0000000000000010)", "fingerprint between 0 and 16"),
    ("target = order? and source = none", "target = 'orders'"),
    ("until 9999-12-31T23:59:59-01:00", "true"),
    ("dead_at >= 1d and until 3h", "dead_at >= now() - interval '1 day' and dead_at < now() - interval '3 hours'"),
    ("status_at != none", "status_at is not null"),
    ("class = Odd and status = discarded", "error_class = 'Odd' and status = 'discarded'"),
    ("class = Odd or group = 000000000000004d", "error_class = 'Odd' or fingerprint = 77"),
    ("status = discarded and type = type-2", "status = 'discarded' and task_type = 'type-2'"),
    ("job = job-* and id > 2000", "job = 'job-1' and id > 2000"),
]  # fmt: skip


@pytest.mark.parametrize("expression, sql", CASES)
def test_a_filter_finds_what_its_sql_would(db, expression, sql):
    found = db.ids("--where", expression)
    expected = sorted(id for (id,) in db.query(f"select id from archive where {sql}"))
    # Rows at the edge of a range may have passed it meanwhile.
    assert len(set(found) ^ set(expected)) <= (2 if "dead_at" in sql else 0), expression
    count = int(db.run("count", "--where", expression, code=(0, 4)))
    assert abs(count - len(expected)) <= (2 if "dead_at" in sql else 0)


def test_flags_say_the_same(db):
    assert db.ids("--type", "type-1,type-2", "--reason", "exhausted") == db.ids(
        "--where", "type in (type-1, type-2) and reason = EXHAUSTED"
    )
    assert db.ids("--attempts", ">=5", "--status", "!=dead") == db.ids(
        "--where", "attempts >= 5", "--where", "status != dead"
    )
    assert db.ids("--message", "HOST 29", "--came-back") == db.ids(
        "--where", "message contains 'host 29' and came_back"
    )
    assert db.ids("--message", "~host 2[0-5]$") == [21, 22, 23, 24, 25, 26]


def test_a_mistake_is_shown_at_its_place(db):
    db.run("list", "--where", "type = a and (clas = b)", code=2)
    first, expression, caret = db.stderr.splitlines()
    assert first == "reprise: --where: at 15: there is no field 'clas' (did you mean class?)"
    assert expression[caret.index("^") :] == "clas = b)"
    db.run("list", "--where", "message ~ '('", code=2)
    assert "invalid regular expression" in db.stderr
    for arguments in (
        ["--type", "a", "--type", "b"], ["--since", "yesterdayish"], ["--id", "x"], ["--where", ""],
        ["--limit", "0"], ["--format", "xml"], ["--before", "x"], ["--payload", "raw"],
    ):  # fmt: skip
        db.run("list", *arguments, code=2)
    db.run("stats", "--by", "type,nonsense", code=2)
    db.run("groups", "--hours", "1000", code=2)


def test_what_the_rollup_says_the_rows_say(db, rng):
    """A condition that is always true and that the rollup does not have sends the same question to
    the rows."""
    always = "(id > 0 or id < 1)"
    terms = (
        ["type = type-1", "type = type-*", "type in (type-2, none)", "category = none", "status = dead"]
        + ["status != dead", "reason = exhausted", "group = 000000000000000", "category != TIMEOUT"]
        + ["class = Odd", "class = java.*", "class in (O*, none)"]
    )
    for _ in range(15):
        chosen = rng.sample(terms, rng.randint(1, 3))
        expression = rng.choice([" and ", " or "]).join(rng.choice(["", "not "]) + t for t in chosen)
        bounds = rng.choice(["", " and since 30h", " and until 90m", " and since 1000m and until 999m"])
        expression = f"({expression}){bounds}"
        for question in (["groups", "--limit", 100], ["stats"], ["stats", "--by", "hour,status"]):
            rollup = db.rows(*question, "--where", expression, code=(0, 4))
            rows = db.rows(*question, "--where", f"{expression} and {always}", code=(0, 4))
            if not bounds:
                assert rollup == rows, expression
            else:  # what is near the edge of the range moves on meanwhile
                assert abs(sum(r["count"] for r in rollup) - sum(r["count"] for r in rows)) <= 3


def test_the_list_that_the_rollup_leads_to_is_the_list(db, rng):
    """The same, for pages that begin anywhere."""
    (middle,) = db.query("select to_char(dead_at, 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') || '/' || id"
                         " from dead_letter where id = 1700")[0]  # fmt: skip
    terms = (
        ["type = type-1", "category = none", "status = dead", "status = discarded", "status != dead"]
        + ["class = Odd", "class = java.*", "group = 0000000000000007", "reason = exhausted"]
    )
    for _ in range(20):
        chosen = rng.sample(terms, rng.randint(1, 3))
        expression = rng.choice([" and ", " or "]).join(rng.choice(["", "not "]) + t for t in chosen)
        bounds = rng.choice(["", " and since '{0}'", " and until '{0}'"]).format(middle[:10] + "T12:34Z")
        page = rng.choice([["--limit", 30], ["--limit", 7, "--before", middle]])
        ids = [
            [row["id"] for row in db.rows("list", "--where", where, *page, code=(0, 4))]
            for where in (f"({expression}){bounds}", f"({expression}){bounds} and (id > 0 or id < 1)")
        ]
        assert ids[0] == ids[1], (expression, bounds, page)


def test_groups_show_what_became_of_them(db):
    groups = db.rows("groups", "--limit", 100)
    assert sum(g["count"] for g in groups) == 3001
    by_sql = db.query(
        "select lpad(to_hex(fingerprint), 16, '0'), count(*), count(*) filter (where status = 'dead'),"
        " count(*) filter (where status = 'replayed'), count(came_back_at), max(id)"
        " from archive group by 1 order by 2 desc, 1"
    )
    assert [
        (g["group"], g["count"], g["dead"], g["replayed"], g["came_back"], g["sample"]["id"])
        for g in groups
    ] == by_sql
    assert all(len(g["trend"]) == 24 for g in groups)
    last_day = db.query("select count(*) from archive where dead_at >= date_trunc('hour', now()) - interval '23 hours'")
    assert abs(sum(sum(g["trend"]) for g in groups) - last_day[0][0]) <= 2
    text = db.run("groups", "--limit", 1, env={"LC_ALL": "C.UTF-8"})
    assert "there may be more than these 1: --limit N" in db.stderr
    assert set("\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588") & set(text)
    assert "replayed 2" in text or "replayed 1" in text
    assert db.run("groups", env={"LC_ALL": "C"}).isascii()


def test_pages_follow_each_other(db):
    seen, arguments = [], ["list", "--where", "type = type-1", "--limit", 120, "--format", "json"]
    for _ in range(6):
        page = [json.loads(line)["id"] for line in db.run(*arguments).splitlines()]
        seen += page
        if "more: " not in db.stderr:
            break
        command = db.stderr.strip().removeprefix("more: ")
        assert command.startswith("reprise dlq list --config ")
        arguments = [*arguments[:7], "--before", command.rsplit(" ", 1)[1]]
    expected = db.query("select id from archive where task_type = 'type-1' order by dead_at desc, id desc")
    assert seen == [id for (id,) in expected]


def test_a_terminal_gets_colours_and_a_pager(db, tmp_path):
    plain = on_terminal(db, "list", "--limit", "3", PAGER="cat", NO_COLOR="1")
    assert "\x1b" not in plain and "STATUS" in plain
    assert "\x1b[1m" in on_terminal(db, "list", "--limit", "3", PAGER="cat", NO_COLOR="")
    paged = tmp_path / "paged"
    on_terminal(db, "list", "--limit", "50", PAGER=f"cat > '{paged}'", NO_COLOR="1")
    assert len(paged.read_text().splitlines()) == 51
    assert "\x1b" not in db.run("list", "--limit", 3)


def test_a_list_fits_a_narrow_terminal(db):
    for columns, heads in ((80, "ERROR"), (119, "ERROR"), (120, "TASK")):
        text = on_terminal(db, "list", "--type", "type-1", columns=columns, PAGER="cat", NO_COLOR="1")
        table = [line for line in text.splitlines() if not line.startswith("more: ")]
        assert heads in table[0] and max(map(len, table)) <= columns
        assert ("TASK" in table[0]) == (columns >= 120)


@pytest.fixture(scope="module")
def large(make):
    """120 MB, all of one task."""
    db = make("large")
    db.add_letters(24, "2026-11-20 10:00:00+00")
    db.query("update dead_letter set task_id = 't', payload = convert_to(repeat('x', 5000000), 'UTF8')")
    return db


# Runs a command, and says what was resident of it at most. A child of this process itself may be
# said to have had as much as this one.
MOST_KIB = """import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)"""


@pytest.mark.parametrize(
    "arguments, shown",
    [(["list", "--payload", "auto"], "(cut; "), (["list", "--payload", "json"], "(is no JSON; "),
     (["list", "--format", "json"], '"payload"'), (["show", "--task", "t"], "payload, 5000000 bytes")],
)  # fmt: skip
def test_large_payloads_are_not_all_in_memory_at_once(large, tmp_path, arguments, shown):
    with open(tmp_path / "out", "w+") as out:
        done = subprocess.run(
            [sys.executable, "-c", MOST_KIB, BUILD / "bin/reprise", "dlq", *arguments, "--config", large.config],
            stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE, text=True, timeout=120, check=True,
        )  # fmt: skip
        out.seek(0)
        assert sum(shown in line for line in out) == 24
    assert int(done.stderr.split()[-1]) < 150_000


def test_pages_of_any_size_are_the_whole_list(large):
    expected = [id for (id,) in large.query("select id from archive order by dead_at desc, id desc")]
    assert [row["id"] for row in large.rows("list", "--limit", 7)] == expected[:7]
    before = large.stderr.rsplit(" --before ", 1)[1].strip()
    page = large.rows("list", "--limit", 17, "--before", before)
    assert [row["id"] for row in page] == expected[7:] and large.stderr == ""


def test_what_matches_nothing_says_so(db):
    for command in ("list", "groups", "stats"):
        assert db.run(command, "--type", "no-such-type", code=4) == ""
        assert db.stderr == "reprise: nothing matched\n"


@pytest.mark.parametrize(
    "arguments",
    [["list"], ["list", "--format", "wide"], ["list", "--format", "json"], ["list", "--payload", "auto"],
     ["list", "--payload", "hex"], ["groups"], ["groups", "--format", "wide"], ["groups", "--format", "json"],
     ["stats"], ["stats", "--by", "type,category,hour"], ["stats", "--format", "json"]],
)  # fmt: skip
def test_nothing_reaches_the_terminal_raw(db, arguments):
    text = db.run(*arguments, "--where", "task != task-*")
    assert not set(text) & set("\x1b\x07\u009b\u202e\x7f\0")
    assert "\nsecond" not in text or "--payload" in arguments
    assert "1b[2J" in text or "1b 5b" in text or "u001b" in text


def test_what_is_wrong_reaches_the_terminal_escaped(db):
    for arguments in (["--where", f"type = a {EVIL}"], ["--type", "a", "--since", EVIL], ["--message", f"~({EVIL}"]):
        db.run("list", *arguments, code=2)
        assert not set(db.stderr) & set("\x1b\x07\u009b\u202e")


def test_show_tells_the_newest_of_a_long_story(make):
    db = make("story")
    db.add_letters(120, "2026-11-20 10:00:00+00")
    db.query("update dead_letter set task_id = 'the same', decided_at = dead_at")
    said = db.run("show", 120).split("what happened, UTC\n")[1].split("why it stopped")[0].splitlines()
    assert len(said) == 101 and "what was before is left out" in said[0]
    assert "dead letter 21:" in said[1] and "dead letter 120:" in said[-1]


INJECTIONS = ["x' or true; drop table audit; --", "\\'; drop table audit; --", '"} or true',
              "%s$1$$", "*') or ('' = '"]  # fmt: skip


def test_sql_in_any_field_and_flag_is_data(db, rng):
    help_text = subprocess.run([BUILD / "bin/reprise", "help", "filter"], capture_output=True, text=True).stdout
    fields = [l.split() for l in help_text.splitlines() if l.startswith("  ") and l[2:3].islower() and l[13:14] in "- "]
    names = [f[0] for f in fields]
    flags = [f[1] for f in fields if len(f) > 1 and f[1].startswith("--") and f[1] != "--came-back"]
    assert len(names) > 20 and len(flags) > 15
    before = db.query("select count(*) from archive"), db.query("select count(*) from audit")
    texts = itertools.cycle(rng.sample(INJECTIONS, len(INJECTIONS)))  # each field and flag has one, by the seed
    for flag, text in zip(flags, texts):
        for value in (text, f"!=a,{text}"):
            assert db.run("count", flag, value, code=(0, 2, 4)).strip() in ("", "0", "3000", "3001"), (flag, value)
    for name, text in zip(names, texts):
        quoted = "'" + text.replace("'", "''") + "'"
        for form in (f"{name} in (none, {quoted})", f"{name} contains {quoted} or {name} = {quoted}"):
            db.run("count", "--where", form, code=(0, 2, 4))
    for text in INJECTIONS:
        for option in ("--limit", "--before", "--format", "--payload"):
            db.run("list", option, text, code=2)
        db.run("stats", "--by", text, code=2)
        db.run("groups", "--hours", text, code=2)
    assert (db.query("select count(*) from archive"), db.query("select count(*) from audit")) == before
