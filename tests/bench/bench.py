# SPDX-License-Identifier: Apache-2.0
"""Measures reprise beside raw loops of our own, on the same servers in the same run. See README.md."""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
CORES = 2


class Figures:
    """What was measured, by name; a figure is the median of its rounds."""

    def __init__(self):
        self.rounds, self.about = {}, {}

    def add(self, name, unit, ours, raw=None, goal=None, better="lower"):
        """`goal` is for the ratio to `raw`; without a raw loop it is for `ours`."""
        self.rounds.setdefault(name, []).append((ours, raw))
        self.about[name] = (unit, goal, better)
        shown = f"{name}: {ours:,.4g} {unit}"
        print(shown + ("" if raw is None else f", raw {raw:,.4g}: {ours / raw:.2f}"), file=sys.stderr)

    def all(self):
        return [self.one(name) for name in self.rounds]

    def one(self, name):
        unit, goal, better = self.about[name]
        ours = statistics.median(o for o, _ in self.rounds[name])
        with_raw = all(raw is not None for _, raw in self.rounds[name])
        ratios = [o / raw for o, raw in self.rounds[name]] if with_raw else None
        judged = statistics.median(ratios) if ratios else ours
        met = None if goal is None else judged >= goal if better == "higher" else judged <= goal
        spread = ratios or [o for o, _ in self.rounds[name]]
        return {
            "name": name,
            "unit": unit,
            "ours": ours,
            "raw": statistics.median(raw for _, raw in self.rounds[name]) if ratios else None,
            "ratio": judged if ratios else None,
            "goal": goal,
            "better": better,
            "met": met,
            "spread": [min(spread), max(spread)],
            "rounds": len(self.rounds[name]),
        }


def in_turn(number, *measurements):
    """Calls both, the other one first in every other round; returns the results in order."""
    results = {}
    for i in range(len(measurements)):
        which = (i + number) % len(measurements)
        results[which] = measurements[which]()
    return [results[i] for i in range(len(measurements))]


# Throughput


def raw_rate(stage, source, workers, headers, partitions, value=100_000_000):
    """Records a second and microseconds of processor each, of the bare loop."""
    target = stage.topic("raw-target", partitions)
    loops = [
        start(
            "raw_loop", bootstrap=stage.kafka.bootstrap, source=source, target=target, id=i,
            group=f"{target}-group", headers=headers, value=value,
        )
        for i in range(workers)
    ]  # fmt: skip
    done = [finish(loop) for loop in loops]
    count = sum(d["records"] for d in done)
    begin, end = stage.appended([target])
    return count / (end - begin), sum(d["records"] * d["cpu_us"] for d in done) / count


def our_rate(stage, pipeline, service, metric, count, topics):
    (process,) = pipeline.start(service)
    wait_for_metric([process], metric, count)
    time.sleep(0.3)
    cpu_us = processor_us(process.process.pid) / count
    assert process.stop() == 0
    begin, end = stage.appended(topics)
    return count / (end - begin), cpu_us


def router(stage, figures, options):
    for size in options.sizes:
        for workers in (1, CORES):
            for number in range(options.rounds):
                router_round(stage, figures, options, number, size, workers)


def router_round(stage, figures, options, number, size, workers, partitions=8, label=None):
    count = options.count
    policies = {"default": {"max_attempts": 9, "backoff": {"fixed": "1h"}, "jitter": "0%"}}
    with stage.pipeline(
        "router", partitions, policies=policies, router={"workers": workers}
    ) as pipeline:
        source = f"{pipeline.prefix}failed-tasks"
        run("fill", bootstrap=stage.kafka.bootstrap, topic=source, kind="event", count=count,
            size=size, target=pipeline.create_target("t"))  # fmt: skip
        ours, raw = in_turn(
            number,
            lambda: our_rate(stage, pipeline, "router", "reprise_router_events_total", count,
                             [f"{pipeline.prefix}retry-60s"]),
            lambda: raw_rate(stage, source, workers, "tier", partitions),
        )  # fmt: skip
    label = label or f"router, {size} B, {workers} worker{'s' if workers > 1 else ''}"
    figures.add(f"{label}: throughput", "events/s", ours[0], raw[0], 0.9, "higher")
    figures.add(f"{label}: processor", "us/event", ours[1], raw[1])


def delayer(stage, figures, options):
    for size in options.sizes:
        for number in range(options.rounds):
            delayer_round(stage, figures, options, number, size)


def delayer_round(stage, figures, options, number, size, partitions=8):
    count = options.count
    with stage.pipeline("delayer", partitions) as pipeline:
        target = pipeline.create_target("t", partitions=partitions,
                                        message_timestamp_type="LogAppendTime")  # fmt: skip
        tier, source = f"{pipeline.prefix}retry-1s", stage.topic("raw-source", partitions)
        for topic in (tier, source):
            filled = run("fill", bootstrap=stage.kafka.bootstrap, topic=topic, kind="tier",
                         count=count, size=size, target=target, due=now_ms() - 60_000)  # fmt: skip
        ours, raw = in_turn(
            number,
            lambda: our_rate(stage, pipeline, "delayer", "reprise_delayer_settled_total", count,
                             [target]),
            lambda: raw_rate(stage, source, 1, "target", partitions, filled["payload"]),
        )  # fmt: skip
    label = f"delayer, {size} B, a backlog that is due"
    figures.add(f"{label}: throughput", "tasks/s", ours[0], raw[0], 0.85, "higher")
    figures.add(f"{label}: processor", "us/task", ours[1], raw[1])


# Lateness


def our_lateness(stage, guarantee, load):
    policy = {"backoff": {"uniform": {"min": f"{load['min']}ms", "max": f"{load['max']}ms"}}}
    with stage.pipeline(
        "lateness",
        guarantee=guarantee,
        tiers=["1s", "4s", "10s"],
        policies={"load": {"max_attempts": 2, "jitter": "0%", **policy}},
    ) as pipeline:
        target = pipeline.create_target("t", partitions=4)
        pipeline.start("router", "delayer")
        return run("load", bootstrap=stage.kafka.bootstrap, topic=f"{pipeline.prefix}failed-tasks",
                   target=target, **load)  # fmt: skip


def raw_lateness(stage, guarantee, load):
    source, target = stage.topic("raw-source", 4), stage.topic("raw-target", 4)
    count = load["rate"] * (load["seconds"] + load["warmup"])
    loop = start("raw_delay", bootstrap=stage.kafka.bootstrap, source=source, target=target,
                 group=f"{target}-group", count=count, value=200,
                 transactional=int(guarantee == "exactly-once"))  # fmt: skip
    result = run("load", bootstrap=stage.kafka.bootstrap, topic=source, target=target, raw=1, **load)
    finish(loop)
    return result


def lateness(stage, figures, options):
    for guarantee in ("exactly-once", "at-least-once"):
        for rate in options.rates:
            load = {"rate": rate, "min": 100, **options.load}
            for number in range(options.rounds):
                ours, raw = in_turn(
                    number,
                    lambda: our_lateness(stage, guarantee, load),
                    lambda: raw_lateness(stage, guarantee, load),
                )
                add_lateness(figures, guarantee, rate, ours, raw)


def add_lateness(figures, guarantee, rate, ours, raw):
    label = f"lateness, {guarantee}, {rate:,}/s"
    wrong = ours["lost"] + ours["doubled"] + ours["early"]
    figures.add(f"{label}: lost, doubled or early", "tasks", wrong, goal=0)
    for quantile in ("p50", "p99", "p99.9", "max"):
        goal, beside = None, raw[quantile]
        if guarantee == "exactly-once" and quantile in ("p50", "p99"):
            goal = 0.6
        if guarantee == "at-least-once" and quantile == "p99":
            goal, beside = 10, None
        figures.add(f"{label}: {quantile}", "ms", ours[quantile], beside, goal)


# A burst, memory, start


def fill_burst(stage, options, topic, target):
    """Tasks that are due in one and the same second; returns its beginning."""
    due = now_ms() + 17_000 + options.burst // 20
    run("fill", bootstrap=stage.kafka.bootstrap, topic=topic, kind="tier", count=options.burst,
        size=200, target=target, due=due, spread=1000)  # fmt: skip
    assert now_ms() < due - 10_000, "too slow a machine: they were due before they waited"
    return due / 1000


def our_burst(stage, options):
    with stage.pipeline("burst", 4) as pipeline:
        target = pipeline.create_target("t", partitions=4, message_timestamp_type="LogAppendTime")
        (process,) = pipeline.start("delayer")
        due = fill_burst(stage, options, f"{pipeline.prefix}retry-10s", target)
        wait_for_metric([process], "reprise_delayer_settled_total", options.burst)
        time.sleep(0.3)
        return stage.appended([target])[1] - due


def raw_burst(stage, options):
    source, target = stage.topic("raw-source", 4), stage.topic("raw-target", 4)
    loop = start("raw_delay", bootstrap=stage.kafka.bootstrap, source=source, target=target,
                 group=f"{target}-group", count=options.burst, value=90)  # fmt: skip
    due = fill_burst(stage, options, source, target)
    finish(loop)
    return stage.appended([target])[1] - due


def burst(stage, figures, options):
    for number in range(options.rounds):
        ours, raw = in_turn(
            number, lambda: our_burst(stage, options), lambda: raw_burst(stage, options)
        )
        figures.add(f"burst, {options.burst:,} tasks due in one second: until the last is out", "s",
                    ours, raw, 1.2)  # fmt: skip


def memory(stage, figures, options):
    with stage.pipeline("memory", 4) as pipeline:
        target = pipeline.create_target("t", partitions=4)
        (process,) = pipeline.start("delayer")
        figures.add("memory, delayer: 0 tasks", "MiB", resident_mib(process.process.pid))
        due = now_ms() + 3_600_000
        run("fill", bootstrap=stage.kafka.bootstrap, topic=f"{pipeline.prefix}retry-60s", kind="tier",
            count=options.pending, size=1024, target=target, due=due)  # fmt: skip
        time.sleep(2)
        what = f"memory, delayer: {options.pending:,} tasks of 1 KiB wait"
        figures.add(what, "MiB", resident_mib(process.process.pid), goal=64)
        process.kill()
        process.start().wait_ready(60)
        time.sleep(2)
        figures.add(f"{what}, after a restart", "MiB", resident_mib(process.process.pid), goal=64)


def recovery(stage, figures, options):
    held = "reprise_delayer_held_tasks"
    with stage.pipeline("recovery", 4, tiers=["60s", "10m"]) as pipeline:
        target = pipeline.create_target("t", partitions=4)
        (process,) = pipeline.start("delayer")
        before = resident_mib(process.process.pid)
        run("fill", bootstrap=stage.kafka.bootstrap, topic=f"{pipeline.prefix}retry-60s", kind="tier",
            count=options.held, size=200, target=target, due=now_ms() + 300_000)  # fmt: skip
        wait_for_metric([process], held, options.held)
        grown = (resident_mib(process.process.pid) - before) * 2**20 / options.held
        figures.add("memory, delayer: per held task of 200 B", "B", grown)
        process.kill()
        began = time.monotonic()
        process.start()
        wait_for_metric([process], held, options.held)
        figures.add(f"recovery after SIGKILL with {options.held:,} held tasks", "s",
                    time.monotonic() - began)  # fmt: skip


def startup(stage, figures, options):
    for _ in range(options.rounds):
        with stage.pipeline("start", 4) as pipeline:
            target = pipeline.create_target("t", message_timestamp_type="LogAppendTime")
            run("fill", bootstrap=stage.kafka.bootstrap, topic=f"{pipeline.prefix}failed-tasks",
                kind="event", count=1, target=target)  # fmt: skip
            time.sleep(1.5)  # then nothing is left to wait
            began = time.time()
            pipeline.start("router")
            sent = wait_for(lambda: first_append(stage, target), "the first task", 60)
            figures.add("start, from exec to the first task sent", "s", sent - began)
            for service in pipeline.start("delayer", "archiver") + pipeline.services[:1]:
                figures.add(f"memory, {service.name}: idle", "MiB", resident_mib(service.process.pid))
    for service in ("router", "delayer", "archiver"):
        size = (BUILD / f"bin/reprise-{service}").stat().st_size
        figures.add(f"size of reprise-{service}, with debug information", "MiB", size / 2**20)


def first_append(stage, topic):
    try:
        return stage.appended([topic])[0]
    except ValueError:  # nothing there yet
        return None


# The archive


def fill_archive(pipeline, count, size, target):
    """Dead letters of two hours, each with a payload of this size."""
    import psycopg

    with psycopg.connect(pipeline.dsn) as db:
        db.execute("select dead_letter_add_day(d::date) from generate_series(current_date - 1, current_date, '1 day') d")
        db.execute(
            "insert into dead_letter (dead_at, record_topic, record_partition, record_offset, reason, attempts,"
            " task_id, task_type, target, payload, header_keys, header_values, attempt, error_class, error_message,"
            " source, failed_at) select now() - n * interval '7200 s' / %(count)s, 'rows', 0, n, 'EXHAUSTED', 3,"
            " gen_random_uuid(), 'payment', %(target)s, convert_to(repeat(md5(n::text), %(size)s / 32), 'UTF8'),"
            " '{}', '{}', 3, 'java.io.IOException', 'boom ' || n, 'bench', now() from generate_series(1, %(count)s) n",
            {"count": count, "size": size, "target": target},
        )
    with psycopg.connect(pipeline.dsn, autocommit=True) as db:
        db.execute("vacuum analyze dead_letter")


def replay(stage, figures, options):
    for number in range(options.rounds):
        with stage.pipeline("replay", 4) as pipeline:
            target = pipeline.create_target("t", partitions=4, message_timestamp_type="LogAppendTime")
            fill_archive(pipeline, options.count, 1024, target)
            ours, raw = in_turn(
                number,
                lambda: our_replay(stage, pipeline, target, options.count),
                lambda: raw_replay(stage, pipeline, options.count),
            )
        figures.add("replay, 1 KiB: throughput", "rows/s", ours[0], raw, 0.5, "higher")
        figures.add("replay, 1 KiB: throughput alone", "rows/s", ours[0], None, 20_000, "higher")
        figures.add("replay, 1 KiB: to plan", "us/row", ours[1])


def our_replay(stage, pipeline, target, count):
    began = time.time()
    command = [BUILD / "bin/reprise", "dlq", "replay", "--where", "all", "--reason", "bench", "--yes"]
    subprocess.run([*command, "--config", pipeline.config_file], check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    begin, end = stage.appended([target])
    return count / (end - begin), (begin - began) * 1e6 / count


def raw_replay(stage, pipeline, count):
    target = stage.topic("raw-target", 4)
    run("raw_replay", bootstrap=stage.kafka.bootstrap, dsn=pipeline.dsn, target=target)
    begin, end = stage.appended([target])
    return count / (end - begin)


def archiver(stage, figures, options):
    for number in range(options.rounds):
        with stage.pipeline("archiver", 4) as pipeline:
            run("fill", bootstrap=stage.kafka.bootstrap, topic=f"{pipeline.prefix}dead-letter",
                kind="letter", count=options.count, size=options.sizes[-1])  # fmt: skip
            ours = our_rows(pipeline, options.count)
            raw = raw_rows(pipeline)
        label = f"archiver, dead letters of {options.sizes[-1]} B"
        figures.add(f"{label}: throughput", "rows/s", ours, raw, 0.8, "higher")


def our_rows(pipeline, count):
    rows = "reprise_archiver_rows_total"
    (process,) = pipeline.start("archiver")
    wait_for_metric([process], rows, 1)
    first, began = metric_sum(process, rows), time.monotonic()
    wait_for_metric([process], rows, count)
    rate = (count - first) / (time.monotonic() - began)
    assert process.stop() == 0
    return rate


def raw_rows(pipeline, batch=5000):
    """The same rows, by COPY into a table like that one, in transactions of the same size."""
    import psycopg

    with psycopg.connect(pipeline.dsn) as db:
        count = db.execute("select count(*) from dead_letter").fetchone()[0]
        db.execute("create table numbered as select row_number() over () as n, d.* from dead_letter d")
        db.execute("create table bare (like dead_letter including all)")
        columns = ", ".join(
            row[0]
            for row in db.execute(
                "select quote_ident(attname) from pg_attribute where attrelid = 'dead_letter'::regclass"
                " and attnum > 0 and not attisdropped and attidentity = '' and attgenerated = ''"
                " order by attnum"
            )
        )
        parts = []
        for first in range(1, count + 1, batch):
            query = f"copy (select {columns} from numbered where n between {first} and {first + batch - 1})"
            with db.cursor().copy(f"{query} to stdout (format binary)") as out:
                parts.append(b"".join(map(bytes, out)))
        db.commit()
        began = time.monotonic()
        for part in parts:
            with db.cursor().copy(f"copy bare ({columns}) from stdin (format binary)") as into:
                into.write(part)
            db.commit()
        return count / (time.monotonic() - began)


def scale(stage, figures, options):
    for workers in (1, 2, 4):
        for partitions in (4, 16, 64):
            label = f"scale, router, 200 B, {workers} workers, {partitions} partitions"
            router_round(stage, figures, options, 0, 200, workers, partitions, label)


def codec(_stage, figures, _options):
    done = subprocess.run([BUILD / "bin/codec_bench"], capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        what, took = line.split(" million/s")
        figures.add(f"codec, {' '.join(what.split()[:-1])}", "ns", float(took.split()[0]))


PARTS = {
    "codec": codec,
    "startup": startup,
    "router": router,
    "delayer": delayer,
    "archiver": archiver,
    "replay": replay,
    "burst": burst,
    "lateness": lateness,
    "memory": memory,
    "recovery": recovery,
    "scale": scale,
}


def arguments():
    parser = argparse.ArgumentParser(
        prog="tests/bench/run",
        description="Measures reprise beside raw loops of our own, on a broker and a database that it "
        "starts itself. About an hour; --quick takes some minutes.",
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="one small round of each")
    parser.add_argument("--json", metavar="FILE", help="write the figures there, too")
    parser.add_argument("--rounds", type=int, help="of each measurement (default 3)")
    parser.add_argument("--count", type=int, help="records of a throughput round (default 300000)")
    parser.add_argument("--pending", type=int, help="waiting tasks of `memory` (default 1000000)")
    options = parser.parse_args()
    for part in options.parts:
        if part not in PARTS:
            parser.error(f"there is no part {part}")
    small = options.quick
    options.rounds = options.rounds or (1 if small else 3)
    options.count = options.count or (50_000 if small else 300_000)
    options.pending = options.pending or (100_000 if small else 1_000_000)
    options.held = 20_000 if small else 100_000
    options.burst = 50_000 if small else 500_000
    options.sizes = [200, 1024]
    options.rates = [200, 2000] if small else [200, 2000, 10_000]
    options.load = (
        {"warmup": 2, "seconds": 5, "max": 3000}
        if small
        else {"warmup": 5, "seconds": 20, "max": 15_000}
    )
    return options


def print_table(figures):
    def text(number):
        return "" if number is None else f"{number:,.4g}" if number < 1000 else f"{number:,.0f}"

    print("| | ours | raw | ratio | of rounds | goal | |\n|---|---|---|---|---|---|---|")
    for f in figures:
        sign = "≥" if f["better"] == "higher" else "≤"
        goal = "" if f["goal"] is None else f"{sign} {text(f['goal'])}"
        met = {None: "", True: "met", False: "missed"}[f["met"]]
        spread = f"{text(f['spread'][0])} to {text(f['spread'][1])}"
        print(f"| {f['name']} | {text(f['ours'])} {f['unit']} | {text(f['raw'])} | {text(f['ratio'])} "
              f"| {spread} | {goal} | {met} |")  # fmt: skip


def main():
    figures = Figures()
    with servers() as stage:
        for name in OPTIONS.parts or PARTS:
            PARTS[name](stage, figures, OPTIONS)
            if OPTIONS.json:
                pathlib.Path(OPTIONS.json).write_text(json.dumps(figures.all(), indent=2) + "\n")
    print_table(figures.all())


if __name__ == "__main__":
    OPTIONS = arguments()
    from stage import (
        BUILD,
        finish,
        metric_sum,
        now_ms,
        processor_us,
        resident_mib,
        run,
        servers,
        start,
        wait_for,
        wait_for_metric,
    )

    main()
