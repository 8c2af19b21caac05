# SPDX-License-Identifier: Apache-2.0
import argparse
import collections
import json
import pathlib
import random
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

from cluster import Cluster, Postgres
from faults import FAULTS, LURKING
from harness import Harness, in_vain, keep, unmet
from pipeline import BUILD
from relay import Relay
from servers import end_like_an_interrupt, free_port, running


def arguments():
    parser = argparse.ArgumentParser(
        prog="tests/fault/run",
        description="A pipeline on three brokers and PostgreSQL under load, and one fault after the"
        " other; then everything is counted. A part of the run that failed is kept in build/fault/"
        " with its seed.",
    )
    parser.add_argument("--cycles", type=int, default=20, metavar="N", help="how many (20)")
    parser.add_argument("--seed", type=int, metavar="S", help="of the choices; else drawn, and told")
    parser.add_argument(
        "--part", type=int, default=25, metavar="N",
        help="cycles between two counts, each part with a pipeline and a seed of its own (25)",
    )  # fmt: skip
    parser.add_argument("--rate", type=float, default=30, help="new tasks a second (30)")
    parser.add_argument(
        "--guarantee", choices=["exactly-once", "at-least-once"], default="exactly-once",
        help="what may be doubled with the second, and nothing else (exactly-once)",
    )  # fmt: skip
    parser.add_argument("--only", choices=[fault.__name__ for fault in FAULTS], help="no fault but this one")
    parser.add_argument(
        "--must-meet", type=lurking, default=[], metavar="KIND[,KIND...]",
        help="faults that must meet something at least once, each; then none may be left out either, for want of what"
        f" this machine has not. Of these kinds: {', '.join(LURKING)}",
    )  # fmt: skip
    return parser.parse_args()


def lurking(text):
    kinds = text.split(",")
    if unknown := [kind for kind in kinds if kind not in LURKING]:
        raise argparse.ArgumentTypeError(f"not one of those that lie in wait: {', '.join(unknown)}")
    return kinds


def part(servers, seed, cycles, rate, guarantee):
    """Runs one pipeline and writes down its result; returns how much was wrong with it, and its harness. Where it breaks
    off, there is as much as was learnt until then."""
    harness = Harness(seed, *servers, rate, guarantee)
    number, faults, broken_off = 0, [], None
    try:
        harness.settle()
        for number in range(1, cycles + 1):
            harness.cycle(number)
        _, faults = harness.check()
    except (Exception, KeyboardInterrupt) as error:
        broken_off, faults = error, [f"broken off: {error!r}"]
    finally:
        ends = harness.close()
    wrong = faults + harness.complaints + ends
    for fault in wrong[:20]:
        print(f"  {fault}")
    if wrong:
        print(f"kept in {keep(harness, harness.history, faults + ends)}")
    else:
        harness.pipeline.forget()
    result = {
        "seed": seed, "guarantee": guarantee, "cycles": number, "tasks": len(harness.load.plans), "wrong": len(wrong),
        "faults": dict(harness.counts.most_common()), "tried": dict(harness.tried), "met": dict(harness.met),
    }  # fmt: skip
    if broken_off is not None:
        result["broken_off"] = repr(broken_off)
    with open(BUILD / "fault" / "results.jsonl", "a") as f:
        print(json.dumps(result), file=f)
    if broken_off is not None:
        raise broken_off
    return len(wrong), harness


def main():
    options = arguments()
    end_like_an_interrupt()
    # A shell has what it puts into the background ignore it, and the replays that are interrupted would do so as well.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    seed = random.SystemRandom().randrange(1 << 31) if options.seed is None else options.seed
    for fault in [f for f in FAULTS if options.only not in (None, f.__name__)]:
        del FAULTS[fault]
    wrong, tasks, done = 0, 0, 0
    counts, tried, met = (collections.Counter() for _ in range(3))
    left_out = []
    relay = Relay([free_port() for _ in range(3)], lambda: [])
    began = time.monotonic()
    with running(Cluster, relay=relay) as kafka, running(Postgres) as postgres:
        while done < options.cycles:
            n = min(options.part, options.cycles - done)
            print(f"== seed {seed}, {n} cycles", flush=True)
            more, harness = part((relay, kafka, postgres), seed, n, options.rate, options.guarantee)
            wrong, tasks = wrong + more, tasks + len(harness.load.plans)
            counts, tried, met = counts + harness.counts, tried + harness.tried, met + harness.met
            done, seed, left_out = done + n, seed + 1, harness.left_out
    relay.stop()
    for vain in in_vain(tried, met) + unmet(options.must_meet, met, left_out):
        print(vain)
        wrong += 1
    print(f"{done} cycles, {tasks} tasks, {time.monotonic() - began:.0f} s: {dict(counts)}")
    doubled = "doubled, " if options.guarantee == "exactly-once" else ""
    print(f"nothing lost, {doubled}early or altered" if wrong == 0 else f"{wrong} wrong")
    return 0 if wrong == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
