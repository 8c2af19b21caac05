# SPDX-License-Identifier: Apache-2.0
"""Measures reprise beside raw loops of our own, on the same servers in the same run. See README.md."""

import argparse
import importlib
import json
import os
import pathlib

# Each part's name, which is its function's, and the module it is in.
PARTS = {
    "codec": "resources",
    "startup": "resources",
    "router": "throughput",
    "delayer": "throughput",
    "archiver": "archive",
    "replay": "archive",
    "retention": "archive",
    "burst": "lateness",
    "lateness": "lateness",
    "routed": "lateness",
    "memory": "resources",
    "recovery": "resources",
    "scale": "throughput",
    "transaction": "throughput",
}


def arguments():
    parser = argparse.ArgumentParser(
        prog="tests/bench/run",
        allow_abbrev=False,  # `run` looks for --json and --plot
        description="Measures reprise beside raw loops of our own, on a broker and a database that it "
        "starts itself. About 120 minutes on 2 cores; --quick takes a few minutes.",
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--peer", choices=["spring"], help="and Spring Kafka with @RetryableTopic; alone: "
                        "no other part")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="one small round of each")
    parser.add_argument("--json", metavar="FILE", help="write the figures there, too")
    parser.add_argument("--rounds", type=int, help="of all but memory and retention (default 4; the archiver, which "
                        "has three sides, 6; the delayer 8; lateness and routed 3; burst and the peer 2); where two "
                        "sides have an odd number, one goes first more often")  # fmt: skip
    parser.add_argument("--count", type=int, help="records of a throughput round (default 500000)")
    parser.add_argument("--gc", metavar="OPTIONS", help="of the broker's JVM, for its garbage collector (default: the "
                        "parallel one with one thread); as Kafka's own scripts have it: "
                        "--gc='-XX:+UseG1GC -XX:MaxGCPauseMillis=20'")  # fmt: skip
    parser.add_argument("--plot", metavar="FILE", help="draw the distributions of lateness there (SVG)")
    options = parser.parse_args()
    for part in options.parts:
        if part not in PARTS:
            parser.error(f"there is no part {part}")
    return sized(options)


def sized(options):
    """How much of everything there is."""
    small = options.quick
    options.lateness_rounds = options.rounds or (1 if small else 3)
    options.burst_rounds = options.peer_rounds = options.rounds or (1 if small else 2)
    options.archiver_rounds = options.rounds or (1 if small else 6)  # all orders of three sides
    options.delayer_rounds = options.rounds or (1 if small else 8)
    options.rounds = options.rounds or (1 if small else 4)
    options.unsettled = 0 if small else 3  # rounds of a part that are counted nowhere, first
    options.count = options.count or (50_000 if small else 500_000)
    options.pending = [100_000, 200_000] if small else [1_000_000, 10_000_000]
    options.days = [20_000, 50_000] if small else [1_000_000, 10_000_000]
    options.held = 20_000 if small else 100_000
    options.burst = 50_000 if small else 500_000
    options.transactions = 200 if small else 500
    options.sizes = [200] if small else [200, 1024]
    options.rates = [200] if small else [200, 2000, 10_000]
    options.load = {"seconds": 5, "max": 3000} if small else {"seconds": 10, "max": 10_000}
    options.lateness_warm_up = 0 if small else 120
    options.warm_up = 5000 if small else 500_000
    options.peer_count = 5000 if small else 20_000
    options.peer_times = 60 if small else 20
    options.peer_warm_up = 500 if small else 50_000
    options.peer_rates = [200] if small else [200, 1000]
    options.peer_seconds = 5 if small else 15
    return options


def measure(options):
    """Whatever ends it, what was measured until then is kept."""
    from figures import Figures, print_table
    from stage import servers

    figures = Figures()
    parts = options.parts or ([] if options.peer else list(PARTS))
    try:
        with servers(options.warm_up, options.gc) as stage:
            for name in parts:
                before = processor_ticks()
                getattr(importlib.import_module(PARTS[name]), name)(stage, figures, options)
                stolen = stolen_percent(before, processor_ticks())
                figures.add(f"{name}: processor time that the host gave to others", "%", stolen)
                keep(figures, options)
            if options.peer:
                importlib.import_module(options.peer).peer(stage, figures, options)
                keep(figures, options)
    finally:
        keep(figures, options)
        print_table(figures.all())


def processor_ticks():
    """Of all since the machine began: user, nice, system, idle, iowait, irq, softirq, steal."""
    with open("/proc/stat") as stat:
        return [int(field) for field in stat.readline().split()[1:9]]


def stolen_percent(before, after):
    """Of what was wanted. Where it is much, latencies are the host's."""
    spent = [b - a for a, b in zip(before, after)]
    wanted = sum(spent) - spent[3] - spent[4]
    return 100 * spent[7] / wanted if wanted else 0


def keep(figures, options):
    if options.json and figures.rounds:
        write(options.json, json.dumps(figures.all(), indent=2) + "\n")
    if options.plot and figures.curves:
        from plot import draw

        write(options.plot, draw(figures.all()))


def write(path, text):
    """Whole or not at all."""
    pathlib.Path(f"{path}.new").write_text(text)
    os.replace(f"{path}.new", path)


def main():
    options = arguments()
    from stage import end_like_an_interrupt

    end_like_an_interrupt()  # servers and services go, and what they wrote
    try:
        measure(options)
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
