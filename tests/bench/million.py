# SPDX-License-Identifier: Apache-2.0
"""Works out what a million tasks a second would need, from the JSON of a run: million.py [FIGURES.json] >MILLION.md
Without a file the page names what it needs, and computes nothing."""

import json
import math
import sys

SOURCE = "the figures below"

# What is measured: the name here, the figure's name, and what it says.
MEASURED = {
    "router_rate": ("router, 200 B, 3 brokers: throughput", "events/s of a router's worker on 2 cores"),
    "delayer_rate": ("delayer, 200 B, 3 brokers: throughput", "tasks/s of a delayer's worker on 2 cores"),
    "router_cpu": ("router, 200 B, 3 brokers: processor", "us of processor an event"),
    "delayer_cpu": ("delayer, 200 B, 3 brokers: processor", "us of processor a task"),
    "router_rate_1": ("router, 200 B, 1 worker: throughput", "events/s, beside one broker"),
    "router_cpu_1": ("router, 200 B, 1 worker: processor", "us an event, beside one broker"),
    "delayer_rate_1": ("delayer, 200 B, a backlog that is due: throughput", "tasks/s, beside one broker"),
    "delayer_cpu_1": ("delayer, 200 B, a backlog that is due: processor", "us a task, beside one broker"),
    "broker_router": ("router, 200 B, 3 brokers: the broker's processor", "us an event, of all three brokers"),
    "broker_delayer": ("delayer, 200 B, 3 brokers: the broker's processor", "us a task, of all three brokers"),
    "transaction": ("a transaction of 1,000 records of 200 B, 3 brokers: p50", "ms"),
    "held": ("memory, delayer: per held task of 200 B", "B"),
    "archiver_rate": ("archiver, dead letters of 1024 B: throughput beside two connections", "rows/s of an archiver's worker"),
}

# What is assumed: change it here.
ASSUMED = {
    "tasks": (1_000_000, "tasks a second"),
    "longest": (180, "s that a task waits at most, at least 0, and anything between as often"),
    "tiers": ((1, 10, 60), "s, the tiers' lengths"),
    "slack": (1, "s before its length is over that a tier's record is read (`delayer.slack`)"),
    "dead": (0.001, "share of tasks that become dead letters"),
    "record": (400, "B a record on the log: 200 B and what is around it"),
    "replicas": (3, "of each partition"),
    "keep": (3600, "s that failed-tasks and targets keep what was read"),
    "use": (0.6, "of what a core, a worker or a link could do is planned for"),
    "broker_cores": (16, "cores of a broker"),
    "broker_link": (1.25e9, "B/s of a broker's network, each way (10 Gbit/s)"),
    "spread": (4, "partitions a worker, so that no worker waits for another's"),
    "core_price": (0.04, "$ an hour for a core with its memory"),
    "traffic_price": (0.02, "$ a GB from zone to zone, of three with a copy in each"),
    "disk_price": (0.08, "$ a GB and month"),
}

# What follows: the name, the formula over the names above and those before it, the unit, what it is.
FORMULAS = [
    ("wait", "longest / 2", "s", "that a task waits, on average"),
    ("laps", "laps_of(tiers, slack, longest)", "", "tiers that a task waits in, on average"),
    ("stretch", "held_for(tiers, slack, longest)", "s", "that a task is held in memory, on average, after it was read from its tier"),
    ("full", "router_rate * (router_cpu + broker_router) / 1e6", "", "cores of 2 that router and three brokers used: so these bound `router_rate`"),
    ("full_too", "delayer_rate * (delayer_cpu + broker_delayer) / 1e6", "", "the same of the delayer"),
    ("router_worker", "router_rate_1 * router_cpu_1 / router_cpu", "events/s", "of a router's worker that has as much of a core as it had beside one broker"),
    ("delayer_worker", "delayer_rate_1 * delayer_cpu_1 / delayer_cpu", "tasks/s", "the same of a delayer's"),
    ("router_workers", "ceil(tasks / (router_worker * use))", "", "workers of the router"),
    ("delayer_workers", "ceil(tasks * laps / (delayer_worker * use))", "", "workers of the delayer"),
    ("partitions", "spread * max(router_workers, delayer_workers)", "", "of failed-tasks, and of each tier"),
    ("our_cores", "ceil(tasks * (router_cpu + laps * delayer_cpu) / 1e6 / use)", "", "cores for both"),
    ("written", "tasks * (2 + laps) * record / 1e9", "GB/s", "written by producers: event, tiers, target"),
    ("inbound", "written * replicas", "GB/s", "into all brokers, copies included"),
    ("outbound", "written * replicas", "GB/s", "out of them: copies, and one reader each"),
    ("broker_task", "broker_router + (laps + 1) * broker_delayer", "us", "of all brokers a task; that reporters produce and handlers fetch was not measured, and stands there as one more lap"),
    ("broker_cpu", "tasks * broker_task / 1e6 / use", "", "cores of brokers"),
    ("for_cores", "ceil(broker_cpu / broker_cores)", "", "brokers, for their cores"),
    ("for_links", "ceil(inbound * 1e9 / (broker_link * use))", "", "brokers, for their network"),
    ("brokers", "max(3, for_cores, for_links)", "", "brokers"),
    ("transactions", "tasks * (1 + laps) / 1000", "/s", "transactions, if they are full"),
    ("way", "2 * transaction", "ms", "that the transactions of router and delayer add to a task's way, which its delay hides"),
    ("memory", "tasks * stretch * held / 1e9", "GB", "of held tasks, in all delayers; what is over `delayer.memory` of each is on its disk"),
    ("disk", "written * replicas * (2 * keep + wait) / (2 + laps)", "GB", "on the brokers' disks"),
    ("rows", "tasks * dead", "rows/s", "into PostgreSQL"),
    ("archivers", "ceil(rows / (archiver_rate * use))", "", "workers of the archiver"),
    ("cores_cost", "(our_cores + brokers * broker_cores) * core_price", "$/h", "cores"),
    ("crossing", "written * (2 / 3 + replicas - 1 + 2 / 3)", "GB/s", "between zones: 2/3 of what is sent, both copies, 2/3 of what is read"),
    ("traffic_cost", "crossing * 3600 * traffic_price", "$/h", "traffic between zones"),
    ("disk_cost", "disk * disk_price / 730", "$/h", "disks"),
    ("cost", "cores_cost + traffic_cost + disk_cost", "$/h", "all of it"),
    ("cost_each", "cost / (tasks * 3600) * 1e6", "$", "a million tasks"),
]

# How many tasks a second one of each bears: the least of them is what there must first be more of.
LIMITS = [
    ("one worker of the router", "router_worker"),
    ("one worker of the delayer", "delayer_worker / laps"),
    ("one archiver, by its share of dead letters", "archiver_rate / dead"),
    ("three brokers' cores", "3 * broker_cores * 1e6 / broker_task"),
    ("three brokers' network", "3 * broker_link / ((2 + laps) * record * replicas)"),
    ("64 GB for held tasks", "64e9 / (stretch * held)"),
]


def course(tiers, slack, left):
    """How many tiers a task waits in that has so long to wait, and how long it is held: see services/delayer/README.md."""
    laps, held = 0, 0
    while left > 0:
        at = max((i for i, length in enumerate(tiers) if length <= left), default=0)
        length, reach = tiers[at], tiers[at + 1] if at + 1 < len(tiers) else 2 * tiers[at]
        stays = left if left <= reach else length
        unread = 0 if at == 0 or length <= slack else length - slack
        laps, held, left = laps + 1, held + stays - unread, left - stays
    return laps, held


def mean_course(which, tiers, slack, longest, steps=1800):
    return sum(course(tiers, slack, (i + 0.5) * longest / steps)[which] for i in range(steps)) / steps


def laps_of(tiers, slack, longest):
    return mean_course(0, tiers, slack, longest)


def held_for(tiers, slack, longest):
    return mean_course(1, tiers, slack, longest)


PAGE = """# A million tasks a second

What it would take, worked out by `million.py` from what `tests/bench/run --json` measured ({source}). It is arithmetic, not a
measurement: nobody ran it, and a machine of 2 cores that brokers and services share says little about one where they do not. What a
record takes of the processors is of three brokers; how much of a core a worker keeps busy, of one, since with three on that machine it is the cores that end first.
Change what is assumed in `million.py`, and print the page anew: `python3 tests/bench/million.py FIGURES.json >tests/bench/MILLION.md`.

## Measured

| name | | |
|---|---|---|
{measured}

## Assumed

| name | | |
|---|---|---|
{assumed}

## What follows

| name | formula | | |
|---|---|---|---|
{follows}

A worker is one thread (an archiver's has a second that writes), shares nothing with others, and takes whole partitions, so workers and partitions add up as long as the brokers
do. That a worker with cores of its own gets as far as `router_worker` and `delayer_worker` say is worked out, too; `router_rate` and `delayer_rate` are what it did.

## What breaks first

One of each bears so many tasks a second; the first line is what there must first be more of.

| | tasks/s |
|---|---|
{limits}

Workers and archivers are added by configuration, partitions with Kafka's own tools. What costs is the traffic between zones, since each task is written {writes} times,
{replicas} copies each. What cannot be added is a partition's order: one key's tasks go through one partition, and a single key bears no more
than one worker does. The coordinator of a transaction is a partition of `__transaction_state`; there are 50 by default,
and {transactions} transactions a second spread over them by transactional id.
"""


def number(value):
    if value is None:
        return "?"
    if isinstance(value, tuple):
        return ", ".join(map(number, value))
    return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"


FUNCTIONS = {"ceil": math.ceil, "max": max, "laps_of": laps_of, "held_for": held_for}


def compute(formula, known):
    """None where something that it needs is not measured."""
    try:
        return eval(formula, FUNCTIONS, known)
    except TypeError:
        return None


def table(rows):
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def page(figures, source):
    by_name = {figure["name"]: figure["ours"] for figure in figures}
    known = {name: by_name.get(figure) for name, (figure, _) in MEASURED.items()}
    known.update({name: value for name, (value, _) in ASSUMED.items()})
    follows = []
    for name, formula, unit, about in FORMULAS:
        known[name] = compute(formula, known)
        follows.append((f"`{name}`", f"`{formula}`", f"{number(known[name])} {unit}".strip(), about))
    limits = sorted(
        ((about, formula, compute(formula, known)) for about, formula in LIMITS),
        key=lambda limit: limit[2] or 0,
    )
    return PAGE.format(
        source=source,
        measured=table((f"`{n}`", number(known[n]), f"{about}: *{figure}*") for n, (figure, about) in MEASURED.items()),
        assumed=table((f"`{n}`", number(value), about) for n, (value, about) in ASSUMED.items()),
        follows=table(follows),
        limits=table((f"{about}: `{formula}`", number(value)) for about, formula, value in limits),
        writes=number(2 + known["laps"]),
        replicas=known["replicas"],
        transactions=number(known["transactions"]),
    )


def main():
    figures, source = [], "not yet: a question mark stands for what depends on it"
    if len(sys.argv) > 1:
        with open(sys.argv[1]) as file:
            figures, source = json.load(file), SOURCE
    sys.stdout.write(page(figures, source))


if __name__ == "__main__":
    main()
