# SPDX-License-Identifier: Apache-2.0
"""Works out what a million tasks a second would need, from the JSON of a run: million.py [FIGURES.json] >MILLION.md
Without a file the page names what it needs, and computes nothing."""

import json
import math
import sys

# What is measured: the name here, the figure's name, and what it says.
MEASURED = {
    "router_rate": ("router, 200 B, 3 brokers: throughput", "events/s of a router's worker"),
    "delayer_rate": ("delayer, 200 B, 3 brokers: throughput", "tasks/s of a delayer's worker"),
    "router_cpu": ("router, 200 B, 1 worker: processor", "us of processor an event"),
    "delayer_cpu": ("delayer, 200 B, a backlog that is due: processor", "us of processor a task"),
    "broker_router": ("router, 200 B, 3 brokers: the broker's processor", "us an event, of all three brokers"),
    "broker_delayer": ("delayer, 200 B, 3 brokers: the broker's processor", "us a task, of all three brokers"),
    "few": ("scale, router, 200 B, workers: 4, partitions: 4: throughput", "events/s, 4 partitions"),
    "many": ("scale, router, 200 B, workers: 4, partitions: 64: throughput", "events/s, 64 partitions"),
    "transaction": ("a transaction of 1,000 records of 200 B, 3 brokers: p50", "ms"),
    "held": ("memory, delayer: per held task of 200 B", "B"),
    "archiver_rate": ("archiver, dead letters of 1024 B: throughput", "rows/s of an archiver's worker"),
}

# What is assumed: change it here.
ASSUMED = {
    "tasks": (1_000_000, "tasks a second"),
    "laps": (1.5, "tiers that a task waits in, on average"),
    "wait": (30, "s that a task waits, on average"),
    "stretch": (2, "s before its due time in which a task is held in memory"),
    "dead": (0.001, "share of tasks that become dead letters"),
    "record": (400, "B a record on the log: 200 B and what is around it"),
    "replicas": (3, "of each partition"),
    "keep": (3600, "s that failed-tasks and targets keep what was read"),
    "use": (0.6, "of what a core, a worker or a link could do is planned for"),
    "broker_cores": (16, "cores of a broker"),
    "broker_link": (1.25e9, "B/s of a broker's network, each way (10 Gbit/s)"),
    "spread": (4, "partitions a worker, so that no worker waits for another's"),
    "core_price": (0.04, "$ an hour for a core with its memory"),
    "traffic_price": (0.02, "$ a GB from zone to zone; of three zones, 2/3 of what is sent, copied or read crosses"),
    "disk_price": (0.08, "$ a GB and month"),
}

# What follows: the name, the formula over the names above and those before it, the unit, what it is.
FORMULAS = [
    ("router_workers", "ceil(tasks / (router_rate * use))", "", "workers of the router"),
    ("delayer_workers", "ceil(tasks * laps / (delayer_rate * use))", "", "workers of the delayer"),
    ("partitions", "spread * max(router_workers, delayer_workers)", "", "of failed-tasks, and of each tier"),
    ("our_cores", "ceil(tasks * (router_cpu + laps * delayer_cpu) / 1e6 / use)", "", "cores for both"),
    ("written", "tasks * (2 + laps) * record / 1e9", "GB/s", "written by producers: event, tiers, target"),
    ("inbound", "written * replicas", "GB/s", "into all brokers, copies included"),
    ("outbound", "written * replicas", "GB/s", "out of them: copies, and one reader each"),
    ("broker_cpu", "tasks * (broker_router + laps * broker_delayer) / 1e6 / use", "", "cores of brokers"),
    ("for_cores", "ceil(broker_cpu / broker_cores)", "", "brokers, for their cores"),
    ("for_links", "ceil(inbound * 1e9 / (broker_link * use))", "", "brokers, for their network"),
    ("brokers", "max(3, for_cores, for_links)", "", "brokers"),
    ("transactions", "tasks * (1 + laps) / 1000", "/s", "transactions, if they are full"),
    ("partition_cost", "1 - many / few", "", "share of its throughput that one machine loses by 64 partitions"),
    ("way", "2 * transaction", "ms", "that the transactions of router and delayer add to a task's way, which its delay hides"),
    ("memory", "tasks * stretch * held / 1e9", "GB", "of held tasks, in all delayers"),
    ("disk", "written * replicas * (2 * keep + wait) / (2 + laps)", "GB", "on the brokers' disks"),
    ("rows", "tasks * dead", "rows/s", "into PostgreSQL"),
    ("archivers", "ceil(rows / (archiver_rate * use))", "", "workers of the archiver"),
    ("cores_cost", "(our_cores + brokers * broker_cores) * core_price", "$/h", "cores"),
    ("traffic_cost", "written * (replicas + 1) * 2 / 3 * 3600 * traffic_price", "$/h", "traffic between zones"),
    ("disk_cost", "disk * disk_price / 730", "$/h", "disks"),
    ("cost", "cores_cost + traffic_cost + disk_cost", "$/h", "all of it"),
    ("cost_each", "cost / (tasks * 3600) * 1e6", "$", "a million tasks"),
]

# How many tasks a second one of each bears: the least of them is what there must first be more of.
LIMITS = [
    ("one worker of the router", "router_rate"),
    ("one worker of the delayer", "delayer_rate / laps"),
    ("one archiver, by its share of dead letters", "archiver_rate / dead"),
    ("three brokers' cores", "3 * broker_cores * 1e6 / (broker_router + laps * broker_delayer)"),
    ("three brokers' network", "3 * broker_link / ((2 + laps) * record * replicas)"),
    ("64 GB for held tasks", "64e9 / (stretch * held)"),
]

PAGE = """# A million tasks a second

What it would take, worked out by `million.py` from what `tests/bench/run --json` measured ({source}). It is arithmetic, not a
measurement: nobody ran it, and a machine of 2 cores that brokers and services share says little about one where they do not.
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
do. `partition_cost` is of one machine whose cores were all in use.

## What breaks first

One of each bears so many tasks a second; the first line is what there must first be more of.

| | tasks/s |
|---|---|
{limits}

Workers and partitions are added by configuration, archivers too. Brokers are what costs, since each task is written {writes} times and copied
{replicas} times over. What cannot be added is a partition's order: one key's tasks go through one partition, and a single key bears no more
than one worker does. The coordinator of a transaction is a partition of `__transaction_state`; there are 50 by default,
and {transactions} transactions a second spread over them by transactional id.
"""


def number(value):
    if value is None:
        return "?"
    return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"


def compute(formula, known):
    """None where something that it needs is not measured."""
    try:
        return eval(formula, {"ceil": math.ceil, "max": max}, known)
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
            figures, source = json.load(file), "the figures below"
    sys.stdout.write(page(figures, source))


if __name__ == "__main__":
    main()
