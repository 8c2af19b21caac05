# SPDX-License-Identifier: Apache-2.0
"""Router and delayer beside bare loops, by size, workers, partitions and brokers; a transaction's cost.

A backlog is written in one transaction while who reads it has joined and waits; then it is committed.
So start-up, rebalances and the first connections are in no figure, and both sides meet the same batches,
just written. Throughput is counted from the first to the last append at the destination, as the broker
stamps them; processor time from the commit of the backlog on."""

import itertools
import os
import tempfile

from figures import in_turn
from stage import Fill, answer, ended, more_brokers, now_ms, processor_us, run, start, wait_for_metric

CORES = len(os.sched_getaffinity(0))
# What the bare loop's producer lingers, in ms: both are tried, as often, before a label's first round.
LINGERS = (0, 1)
TRIES = 2
POLICIES = {"default": {"max_attempts": 9, "backoff": {"fixed": "1h"}, "jitter": "0%"}}


def rates(stage, count, target, processor, broker):
    """Records a second, and microseconds a record of ours and of the broker."""
    begin, end = stage.appended(target)
    return count / (end - begin), processor / count, broker / count


def our_rate(stage, pipeline, service, metric, backlog, workers, target):
    (process,) = pipeline.start(service)
    stage.wait_joined(f"{pipeline.prefix}reprise-{service}", backlog["topic"], workers)
    fill = Fill(bootstrap=stage.kafka.bootstrap, **backlog)
    stage.settle()
    before, broker = processor_us(process.process.pid), stage.broker_us()
    fill.release()
    wait_for_metric([process], metric, backlog["count"])
    processor, broker = processor_us(process.process.pid) - before, stage.broker_us() - broker
    assert process.stop() == 0
    return rates(stage, backlog["count"], target, processor, broker)


def raw_rate(stage, backlog, workers, headers, partitions, linger, value=100_000_000):
    """Of the bare loop, a process for each worker."""
    source, target = (stage.topic(name, partitions) for name in ("raw-source", "raw-target"))
    group = f"{target}-group"
    with tempfile.NamedTemporaryFile(prefix="reprise-counter-") as counter:
        counter.truncate(8)
        loops = [
            start(
                "raw_loop", bootstrap=stage.kafka.bootstrap, source=source, target=target, id=i,
                group=group, headers=headers, value=value, handler=backlog["target"], count=backlog["count"],
                counter=counter.name, linger=linger, offsets="first" if stage.brokers() > 1 else "last",
            )
            for i in range(workers)
        ]  # fmt: skip
        stage.wait_joined(group, source, workers)
        fill = Fill(bootstrap=stage.kafka.bootstrap, **{**backlog, "topic": source})
        stage.settle()
        before, broker = sum(processor_us(loop.pid) for loop in loops), stage.broker_us()
        fill.release()
        done = [answer(loop) for loop in loops]
        broker = stage.broker_us() - broker
        for loop in loops:
            ended(loop)
    assert sum(d["records"] for d in done) == backlog["count"], done
    return rates(stage, backlog["count"], target, sum(d["cpu_us"] for d in done) - before, broker)


def one_round(stage, figures, number, label, what, goal, ours, raw):
    """Of both sides; counted nowhere, without figures. `raw` is given how many ms to linger."""
    if figures is None:
        return in_turn(number, ours, lambda: raw(0))
    if label not in stage.tried:
        tried = stage.tried[label] = dict.fromkeys(LINGERS, 0)
        for linger in LINGERS * TRIES:
            tried[linger] += raw(linger)[0] / TRIES
            stage.drop_topics("raw-")
    tried = stage.tried[label]
    linger = max(tried, key=tried.get)
    rates = " and ".join(f"{rate:,.0f} with {ms}" for ms, rate in tried.items())
    note = f"the bare loop lingers {linger} ms: tried before, it sent {rates}"
    ours, raw = in_turn(number, ours, lambda: raw(linger))
    figures.add(f"{label}: throughput", f"{what}s/s", ours[0], raw[0], goal, "higher", note)
    figures.add(f"{label}: processor", f"us/{what}", ours[1], raw[1], goal and round(1 / goal, 2))
    figures.add(f"{label}: the broker's processor", f"us/{what}", ours[2], raw[2])


def router(stage, figures, options):
    settle(stage, options, router_round)
    for size in options.sizes:
        for workers in sorted({1, CORES}):
            label = f"router, {size} B, {workers} worker{'s' if workers > 1 else ''}"
            for number in range(options.rounds):
                router_round(stage, figures, options.count, number, label, size, workers, max(8, workers))


def router_round(stage, figures, count, number, label, size=200, workers=1, partitions=8, goal=0.9):
    with stage.pipeline(
        "router", partitions, policies=POLICIES, router={"workers": workers}
    ) as pipeline:
        backlog = {"topic": f"{pipeline.prefix}failed-tasks", "kind": "event", "count": count,
                   "size": size, "target": pipeline.create_target("t")}  # fmt: skip
        one_round(
            stage, figures, number, label, "event", goal,
            lambda: our_rate(stage, pipeline, "router", "reprise_router_events_total", backlog,
                             workers, f"{pipeline.prefix}retry-60s"),
            lambda linger: raw_rate(stage, backlog, workers, "tier", partitions, linger),
        )  # fmt: skip


def settle(stage, options, *rounds):
    """Of each kind of round some that are counted nowhere."""
    for one in rounds:
        for number in range(options.unsettled):
            one(stage, None, options.count, number, "")


def delayer(stage, figures, options):
    settle(stage, options, delayer_round)
    for size in options.sizes:
        label = f"delayer, {size} B, a backlog that is due"
        for number in range(options.delayer_rounds):
            delayer_round(stage, figures, options.count, number, label, size)


def delayer_round(stage, figures, count, number, label, size=200, workers=1, partitions=8, goal=0.85):
    with stage.pipeline("delayer", partitions, delayer={"workers": workers}) as pipeline:
        target = pipeline.create_target("t", partitions=partitions,
                                        message_timestamp_type="LogAppendTime")  # fmt: skip
        backlog = {"topic": f"{pipeline.prefix}retry-1s", "kind": "tier", "count": count, "size": size,
                   "target": target, "due": now_ms() - 60_000}  # fmt: skip
        payload = stage.payload(backlog)
        one_round(
            stage, figures, number, label, "task", goal,
            lambda: our_rate(stage, pipeline, "delayer", "reprise_delayer_settled_total", backlog,
                             workers, target),
            lambda linger: raw_rate(stage, backlog, workers, "target", partitions, linger, payload),
        )  # fmt: skip


def scale(stage, figures, options):
    settle(stage, options, router_round)
    shapes = [(router_round, "router", partitions) for partitions in (4, 16, 64)]
    shapes.append((delayer_round, "delayer", 16))
    for number, workers, (one, service, partitions) in itertools.product(range(options.rounds), (1, 2, 4), shapes):
        label = f"scale, {service}, 200 B, workers: {workers}, partitions: {partitions}"
        one(stage, figures, options.count // 2, number, label, 200, workers, partitions, None)


def transaction(stage, figures, options):
    transaction_costs(stage, figures, options, "1 broker")
    with more_brokers(stage.postgres, 3, options.warm_up, options.gc) as replicated:
        transaction_costs(replicated, figures, options, "3 brokers")
        settle(replicated, options, router_round, delayer_round)
        for number in range(options.rounds):
            # No goal: what the bare loop ends one by one, we have under way at once, and that counts for more here.
            router_round(replicated, figures, options.count // 2, number, "router, 200 B, 3 brokers", goal=None)
            delayer_round(replicated, figures, options.count // 2, number, "delayer, 200 B, 3 brokers", goal=None)


def transaction_costs(stage, figures, options, label):
    for _, batch in itertools.product(range(options.rounds), (1, 100, 1000)):
        source, target = stage.topic("raw-source", 1), stage.topic("raw-target", 1)
        took = run("raw_transaction", bootstrap=stage.kafka.bootstrap, source=source, target=target,
                   group=f"{target}-group", batch=batch, count=options.transactions)  # fmt: skip
        for quantile in ("p50", "p99"):
            figures.add(f"a transaction of {batch:,} records of 200 B, {label}: {quantile}", "ms",
                        took[quantile])  # fmt: skip
    stage.drop_topics()
