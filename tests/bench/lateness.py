# SPDX-License-Identifier: Apache-2.0
"""How late re-invocations come: under a steady load, and when very many are due at once."""

from figures import in_turn
from stage import finish, now_ms, run, start

LOAD_TYPES = 97
QUANTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 1}


def delays(least, most):
    """As load.c has them: of each type one, so that it knows when a task is due."""
    return [least + n * (most - least) // (LOAD_TYPES - 1) for n in range(LOAD_TYPES)]


def policies(load):
    return {
        f"load-{n}": {"max_attempts": 2, "jitter": "0%", "backoff": {"fixed": f"{delay}ms"}}
        for n, delay in enumerate(delays(load["min"], load["max"]))
    }


def our_lateness(stage, guarantee, load):
    with stage.pipeline(
        "lateness",
        guarantee=guarantee,
        tiers=["1s", "3s", "8s"],  # so that delays of up to 10 s use all of them
        policies=policies(load),
    ) as pipeline:
        target, source = pipeline.create_target("t", partitions=4), f"{pipeline.prefix}failed-tasks"
        pipeline.start("router", "delayer")
        stage.wait_joined(f"{pipeline.prefix}reprise-router", source, 1)
        stage.wait_joined(f"{pipeline.prefix}reprise-delayer", f"{pipeline.prefix}retry-1s", 1)
        return run("load", bootstrap=stage.kafka.bootstrap, topic=source, target=target, **load)


def raw_lateness(stage, guarantee, load):
    source, target = stage.topic("raw-source", 4), stage.topic("raw-target", 4)
    loop = start_loop(stage, source, target, load, guarantee)
    result = run("load", bootstrap=stage.kafka.bootstrap, topic=source, target=target, raw=1, **load)
    finish(loop)
    stage.drop_topics()
    return result


def start_loop(stage, source, target, load, guarantee="exactly-once"):
    count = load["rate"] * (load["seconds"] + load["max"] // 1000)
    loop = start("raw_delay", bootstrap=stage.kafka.bootstrap, source=source, target=target,
                 group=f"{target}-group", count=count, value=200,
                 transactional=int(guarantee == "exactly-once"))  # fmt: skip
    stage.wait_joined(f"{target}-group", source, 1)
    return loop


def routed_lateness(stage, load):
    """The bare loop in the delayer's place, behind our router: so tasks are appended as often as ours."""
    with stage.pipeline("routed", tiers=["10s"], policies=policies(load)) as pipeline:
        target, source = pipeline.create_target("t", partitions=4), f"{pipeline.prefix}failed-tasks"
        pipeline.start("router")
        stage.wait_joined(f"{pipeline.prefix}reprise-router", source, 1)
        loop = start_loop(stage, f"{pipeline.prefix}retry-10s", target, load)
        result = run("load", bootstrap=stage.kafka.bootstrap, topic=source, target=target, **load)
        finish(loop)
        return result


def warm_up(stage, options):
    """Of both sides, counted nowhere: small transactions compile late."""
    if options.lateness_warm_up and not stage.lateness_is_warm:
        load = {"rate": 2000, "min": 100, "max": 3000, "seconds": options.lateness_warm_up}
        our_lateness(stage, "exactly-once", load)
        raw_lateness(stage, "exactly-once", load)
    stage.lateness_is_warm = True


def lateness(stage, figures, options):
    warm_up(stage, options)
    for guarantee in ("exactly-once", "at-least-once"):
        for rate in options.rates:
            load = {"rate": rate, "min": 100, **options.load}
            for number in range(options.lateness_rounds):
                ours, raw = in_turn(
                    number,
                    lambda: our_lateness(stage, guarantee, load),
                    lambda: raw_lateness(stage, guarantee, load),
                )
                add_lateness(figures, guarantee, rate, ours, raw)


def routed(stage, figures, options):
    warm_up(stage, options)
    for rate in options.rates:
        # What has nothing left to wait goes straight to the target, past the bare loop.
        load = {"rate": rate, "min": 500, **options.load}
        for number in range(options.lateness_rounds):
            ours, raw, behind = in_turn(
                number,
                lambda: our_lateness(stage, "exactly-once", load),
                lambda: raw_lateness(stage, "exactly-once", load),
                lambda: routed_lateness(stage, load),
            )
            for which, other in (("the bare loop", raw), ("the bare loop behind our router", behind)):
                for name in ("p50", "p99"):
                    label = f"routed, {rate:,}/s, beside {which}: {name}"
                    figures.add(label, "ms", late_ms(ours, name), late_ms(other, name))


def late_ms(side, name, of="late_ms"):
    """One of QUANTILES of what `load` printed."""
    return side[of][side["quantiles"].index(QUANTILES[name])]


def add_lateness(figures, guarantee, rate, ours, raw):
    label = f"lateness, {guarantee}, {rate:,}/s"
    for side, who in ((ours, "lost, doubled or early"), (raw, "of the raw loop, lost or doubled")):
        # The raw loop looks at the clock as we do, but it promises nothing.
        wrong = side["lost"] + side["doubled"] + (side["early"] if side is ours else 0)
        figures.add(f"{label}: {who}", "tasks", wrong, goal=0)
        assert side["measured"] > 0, f"{label}: nothing was measured"
    for name in QUANTILES:
        late, goal = late_ms(ours, name), None
        if guarantee == "exactly-once" and name in ("p50", "p99"):
            goal = 0.6
        if guarantee == "at-least-once" and name == "p99":
            figures.add(f"{label}: {name} alone", "ms", late, None, 10)
        figures.add(f"{label}: {name}", "ms", late, late_ms(raw, name), goal)
    figures.add_curve(f"{label}: p50", ours["quantiles"], ours["late_ms"], raw["late_ms"])
    add_lateness_at_speed(figures, label, ours, raw)


def add_lateness_at_speed(figures, label, ours, raw):
    """Of the tasks that were due while the processor kept its speed: a host may slow its clock, which is no
    loop's doing, and the latest hundredth is then of those moments (pulse.h)."""
    for side, who in ((ours, ""), (raw, " of the raw loop")):
        slow = 100 * (1 - side["at_speed"] / side["measured"])
        figures.add(f"{label}: tasks{who} that were due while the processor was slowed", "%", slow)
    for name in ("p50", "p99"):
        late = [late_ms(side, name, "late_at_speed_ms") for side in (ours, raw)]
        figures.add(f"{label}, of those due while the processor kept its speed: {name}", "ms", *late)


# A burst

BURST_MS = 1000
LATER = {"count": 2000, "after_ms": 8000, "spread": 4000}  # tasks due some seconds after the burst


def fill_burst(stage, options, topic, target):
    """Tasks that are due in one and the same second, and some later ones; returns its beginning."""
    due = now_ms() + 12_000 + options.burst // 20
    tasks = {"bootstrap": stage.kafka.bootstrap, **burst_tasks(topic, target)}
    run("fill", **tasks, count=options.burst, due=due, spread=BURST_MS)
    run("fill", **tasks, count=LATER["count"], first=options.burst, due=due + LATER["after_ms"],
        spread=LATER["spread"])  # fmt: skip
    assert now_ms() < due - 10_000, "too slow a machine: they were due before they waited"
    return due


def burst_tasks(topic, target):
    return {"topic": topic, "kind": "tier", "target": target, "size": 200}


def burst_times(stage, options, target, due):
    """How long after the last of them was due a reader had all of the burst, and how late the 99th percentile of the later tasks was."""
    read = run("load", bootstrap=stage.kafka.bootstrap, target=target, max=60_000,
               count=options.burst + LATER["count"], later=due + LATER["after_ms"])  # fmt: skip
    assert (read["lost"], read["doubled"], read["measured"]) == (0, 0, LATER["count"]), read
    return (read["last_ms"] - due - BURST_MS) / 1000, late_ms(read, "p99")


def our_burst(stage, options):
    with stage.pipeline("burst", 4) as pipeline:
        target = pipeline.create_target("t", partitions=4)
        pipeline.start("delayer")
        due = fill_burst(stage, options, f"{pipeline.prefix}retry-10s", target)
        return burst_times(stage, options, target, due)


def raw_burst(stage, options):
    """Its offsets first or last in a transaction, whichever is the quicker."""
    return min(raw_burst_of(stage, options, offsets) for offsets in ("first", "last"))


def raw_burst_of(stage, options, offsets):
    source, target = stage.topic("raw-source", 4), stage.topic("raw-target", 4)
    loop = start("raw_delay", bootstrap=stage.kafka.bootstrap, source=source, target=target,
                 group=f"{target}-group", count=options.burst + LATER["count"], offsets=offsets,
                 value=stage.payload(burst_tasks(source, target)))  # fmt: skip
    due = fill_burst(stage, options, source, target)
    times = burst_times(stage, options, target, due)
    finish(loop)
    stage.drop_topics()
    return times


def burst(stage, figures, options):
    label = f"burst, {options.burst:,} tasks due in one second"
    for number in range(options.burst_rounds):
        ours, raw = in_turn(
            number, lambda: our_burst(stage, options), lambda: raw_burst(stage, options)
        )
        figures.add(f"{label}: from when the last is due until it is out", "s", ours[0], raw[0], 1.2)
        figures.add(f"{label}: p99 of the lateness of tasks due 8 to 12 s later", "ms", ours[1], raw[1])
