# SPDX-License-Identifier: Apache-2.0
"""The archive: rows into PostgreSQL beside a bare COPY, replays beside a bare produce loop, retention."""

import concurrent.futures
import os
import re
import struct
import subprocess
import tempfile
import time

import psycopg

from figures import in_turn
from stage import BUILD, Fill, run, wait_for, wait_for_metric

BATCH = 5000  # rows in a transaction of the archiver's

# From the first to the last commit: the rows of all transactions but the first.
RATE = """
    with transactions as
        (select pg_xact_commit_timestamp(xmin) as at, count(*) as n from {table} group by xmin)
    select (select sum(n) from transactions where at > (select min(at) from transactions))
           / extract(epoch from max(at) - min(at)) from transactions
"""


def rows_a_second(db, table):
    return float(db.execute(RATE.format(table=table)).fetchone()[0])


def archiver(stage, figures, options):
    label = f"archiver, dead letters of {options.sizes[-1]} B: throughput"
    with tempfile.NamedTemporaryFile(prefix="reprise-rows-") as parts:
        columns = []  # once `parts` is written: in the first round, in which ours goes first
        for number in range(options.unsettled + options.archiver_rounds):
            with stage.pipeline("archiver", 4) as pipeline:

                def raw(connections):
                    columns[:] = columns or as_copied(pipeline.dsn, parts)
                    return raw_rows(pipeline.dsn, columns, parts.name, connections)

                ours, one, two = in_turn(
                    number, lambda: our_rows(stage, pipeline, options), lambda: raw(1), lambda: raw(2)
                )
            if number < options.unsettled:
                continue
            figures.add(f"{label} beside two connections", "rows/s", ours, two, 0.8, "higher")
            figures.add(f"{label} beside one connection", "rows/s", ours, one, None, "higher")


def checkpoint(dsn):
    """What was written before is on the disk: nobody else pays for it."""
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute("checkpoint")


def our_rows(stage, pipeline, options):
    (process,) = pipeline.start("archiver")
    topic = f"{pipeline.prefix}dead-letter"
    stage.wait_joined(f"{pipeline.prefix}reprise-archiver", topic, 1)
    fill = Fill(bootstrap=stage.kafka.bootstrap, topic=topic, kind="letter", count=options.count,
                size=options.sizes[-1])  # fmt: skip
    checkpoint(pipeline.dsn)
    fill.release()
    wait_for_metric([process], "reprise_archiver_rows_total", options.count)
    assert process.stop() == 0
    with psycopg.connect(pipeline.dsn) as db:
        return rows_a_second(db, "dead_letter")


def as_copied(dsn, parts):
    """Writes what was archived to a file, as COPY has it, in parts of as many rows as a transaction of the archiver's,
    each behind its size; returns the columns."""
    with psycopg.connect(dsn) as db:
        count = db.execute("select count(*) from dead_letter").fetchone()[0]
        db.execute("create temporary table numbered as select row_number() over () as n, d.* from dead_letter d")
        db.execute("create index on numbered (n)")
        columns = [
            row[0]
            for row in db.execute(
                "select quote_ident(attname) from pg_attribute where attrelid = 'dead_letter'::regclass"
                " and attnum > 0 and not attisdropped and attidentity = '' and attgenerated = ''"
                " and attname <> 'archived_at' order by attnum"
            )
        ]
        for first in range(1, count + 1, BATCH):
            rows = f"select {', '.join(columns)} from numbered where n between {first} and {first + BATCH - 1}"
            with db.cursor().copy(f"copy ({rows}) to stdout (format binary)") as out:
                part = b"".join(map(bytes, out))
            parts.write(struct.pack("=Q", len(part)) + part)
    parts.flush()
    os.fsync(parts.fileno())  # else it is written to the disk while somebody is measured
    return columns


def raw_rows(dsn, columns, parts, connections):
    """Rows a second of a bare COPY of them, by so many connections at the same time."""
    table = f"bare_{connections}"
    with psycopg.connect(dsn) as db:
        db.execute(f"create table {table} (like dead_letter including all)")
    checkpoint(dsn)
    copy = f"copy {table} ({', '.join(columns)}) from stdin (format binary)"
    run("raw_copy", dsn=dsn, copy=copy, parts=parts, connections=connections)
    with psycopg.connect(dsn) as db:
        return rows_a_second(db, table)


def fill_archive(pipeline, count, size, target):
    """Dead letters of two hours, each with a payload of this size."""
    with psycopg.connect(pipeline.dsn) as db:
        db.execute(
            "select dead_letter_add_day(d::date)"
            " from generate_series(current_date - 1, current_date, '1 day') d"
        )
        db.execute(
            "insert into dead_letter (dead_at, record_topic, record_partition, record_offset, reason,"
            " attempts, task_id, task_type, target, task_key, payload, header_keys, header_values,"
            " attempt, error_class, error_message, source, failed_at)"
            " select now() - n * interval '7200 s' / %(count)s, 'rows', 0, n, 'EXHAUSTED', 3, id,"
            "  'payment', %(target)s, convert_to(id, 'UTF8'),"
            "  convert_to(repeat(md5(n::text), %(size)s / 32), 'UTF8'), '{}', '{}', 3,"
            "  'java.io.IOException', 'boom ' || n, 'bench', now()"
            " from (select n, gen_random_uuid()::text as id from generate_series(1, %(count)s) n) as t",
            {"count": count, "size": size, "target": target},
        )
    with psycopg.connect(pipeline.dsn, autocommit=True) as db:
        db.execute("vacuum analyze dead_letter")


def replay(stage, figures, options):
    label = "replay, 1 KiB"
    for number in range(options.unsettled + options.rounds):
        with stage.pipeline("replay", 4) as pipeline:
            target = pipeline.create_target("t", partitions=4, message_timestamp_type="LogAppendTime")
            fill_archive(pipeline, options.count, 1024, target)
            ours, raw = in_turn(
                number,
                lambda: our_replay(stage, pipeline, target, options.count),
                lambda: raw_replay(stage, pipeline, options.count),
            )
        if number < options.unsettled:
            continue
        figures.add(f"{label}: sending alone", "rows/s", ours[0], raw, 0.8, "higher")
        figures.add(f"{label}: the whole command, planned, sent and marked", "rows/s", ours[2], None, 20_000,
                    "higher")  # fmt: skip
        figures.add(f"{label}: the whole command, beside the bare loop", "rows/s", ours[2], raw, None, "higher")
        figures.add(f"{label}: to plan", "us/row", ours[1])


def our_replay(stage, pipeline, target, count):
    """Rows a second while it sends, us a row before that, and rows a second from its begin to its end."""
    checkpoint(pipeline.dsn)
    began = time.time()
    command = [BUILD / "bin/reprise", "dlq", "replay", "--where", "all", "--reason", "bench", "--yes"]
    subprocess.run([*command, "--config", pipeline.config_file], check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    ended = time.time()
    with psycopg.connect(pipeline.dsn) as db:
        ((sent,),) = db.execute("select sum(marked - refused) from replay_job").fetchall()
    assert sent == count, sent
    begin, end = stage.appended(target)
    return count / (end - begin), (begin - began) * 1e6 / count, count / (ended - began)


def raw_replay(stage, pipeline, count):
    target = stage.topic("raw-target", 4)
    checkpoint(pipeline.dsn)
    sent = run("raw_replay", bootstrap=stage.kafka.bootstrap, dsn=pipeline.dsn, target=target)
    assert sent["records"] == count, sent
    begin, end = stage.appended(target)
    return count / (end - begin)


# Retention


def fill_day(dsn, days_ago, count, task_type="work"):
    """Rows of one day, put into its partition itself, by two sessions."""
    with psycopg.connect(dsn, autocommit=True) as db:
        table = db.execute(
            "select dead_letter_add_day(day), 'dead_letter_' || to_char(day, 'YYYYMMDD') from"
            " (values ((now() at time zone 'UTC')::date - %s::int)) as d (day)", [days_ago],
        ).fetchone()[1]  # fmt: skip

    def fill(part):
        with psycopg.connect(dsn, autocommit=True, options="-c TimeZone=UTC") as db:
            db.execute(
                f"insert into {table} (dead_at, record_topic, record_partition, record_offset, reason,"
                " attempts, task_id, task_type, target, payload, error_class, error_message)"
                " select (now() at time zone 'UTC')::date - %(ago)s::int"
                "  + n * interval '1 day' / %(count)s, 'rows', %(part)s, n, 'EXHAUSTED', 3, 'task-' || n,"
                "  %(type)s, 'orders', convert_to(repeat(md5(n::text), 8), 'UTF8'),"
                "  'java.io.IOException', 'boom' from generate_series(0, %(count)s - 1) n",
                {"ago": days_ago, "count": count // 2, "part": part, "type": task_type},
            )

    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(fill, (0, 1)))
    with psycopg.connect(dsn, autocommit=True) as db:
        # Its triggers were passed by, and retention looks for types among the counts.
        db.execute("select dead_letter_recount((now() at time zone 'UTC')::date - %s::int)", [days_ago])
        db.execute(f"vacuum analyze {table}")
        db.execute("checkpoint")


def said(service, event, timeout=900):
    """The values that follow the event in the service's log, once it is there."""
    found = wait_for(
        lambda: re.search(rf"\b{event}\b(.*)", service.log.read_text()) or time.sleep(0.1), event, timeout
    )
    return dict(re.findall(r"(\w+)=(\S+)", found[1]))


def retention(stage, figures, options):
    keep = {"keep": "30d", "schedule": "00:00", "by_type": {"newsletter": "7d"}}
    for count in options.days:
        with stage.pipeline("retention", retention=keep, log={"level": "info"}) as pipeline:
            fill_day(pipeline.dsn, 40, count)
            (process,) = pipeline.start("archiver")
            took = said(process, "day-dropped")
            figures.add(f"retention, a day of {count:,} dead letters: dropped in", "s",
                        int(took["took_ms"]) / 1000)  # fmt: skip
    with stage.pipeline("retention", retention=keep, log={"level": "info"}) as pipeline:
        fill_day(pipeline.dsn, 8, options.days[0] // 10, "newsletter")
        (process,) = pipeline.start("archiver")
        took = said(process, "type-deleted")
        rate = int(took["rows"]) / (int(took["took_ms"]) / 1000)
        figures.add("retention by type, which rests as long as it works: deleted", "rows/s", rate,
                    better="higher")  # fmt: skip
