# SPDX-License-Identifier: Apache-2.0
"""What was measured: medians of rounds, ratios with their spread, goals. figures.py FIGURES.json... prints them."""

import itertools
import json
import pathlib
import statistics
import sys


class Figures:
    """What was measured, by name; a figure is the median of its rounds."""

    def __init__(self):
        self.rounds, self.about, self.curves = {}, {}, {}

    def add(self, name, unit, ours, raw=None, goal=None, better="lower", note=None):
        """`goal` is for the ratio to `raw`; without a raw loop it is for `ours`."""
        if goal is not None and raw == 0:
            raise ValueError(f"{name}: a raw of 0 leaves no ratio to judge")
        self.rounds.setdefault(name, []).append((ours, raw))
        self.about[name] = (unit, goal, better, note)
        shown = f"{name}: {ours:,.4g} {unit}"
        beside = f", raw {raw:,.4g}" + (f": {ours / raw:.2f}" if raw else "") if raw is not None else ""
        print(shown + beside, file=sys.stderr)

    def add_curve(self, name, quantiles, ours, raw):
        """The whole distribution of a figure, for the plot."""
        self.curves.setdefault(name, []).append((quantiles, ours, raw))

    def all(self):
        return [self.one(name) for name in self.rounds]

    def one(self, name):
        unit, goal, better, note = self.about[name]
        ours = statistics.median(o for o, _ in self.rounds[name])
        with_raw = all(raw for _, raw in self.rounds[name])
        ratios = [o / raw for o, raw in self.rounds[name]] if with_raw else None
        judged = statistics.median(ratios) if ratios else ours
        met = None if goal is None else judged >= goal if better == "higher" else judged <= goal
        spread = ratios or [o for o, _ in self.rounds[name]]
        figure = {
            "name": name,
            "unit": unit,
            "ours": ours,
            "raw": statistics.median(raw for _, raw in self.rounds[name]) if ratios else None,
            "ratio": judged if ratios else None,
            "goal": goal,
            "better": better,
            "met": met,
            "note": note,
            "spread": [min(spread), max(spread)],
            "rounds": len(self.rounds[name]),
            "each": self.rounds[name],  # in their order
        }
        if name in self.curves:
            figure["curve"] = self.curve(name)
        return figure

    def curve(self, name):
        """Point by point the median of the rounds."""
        quantiles = self.curves[name][0][0]
        sides = ([side[which] for side in self.curves[name]] for which in (1, 2))
        ours, raw = ([statistics.median(points) for points in zip(*side)] for side in sides)
        return {"quantiles": quantiles, "ours": ours, "raw": raw}


def in_turn(number, *measurements):
    """Calls all, in each round in another order, until all orders were had; returns the results in order. After as
    many rounds as there are sides each had each place once."""
    sides = range(len(measurements))
    circles = [order for order in itertools.permutations(sides) if order[0] == 0]
    orders = [order[i:] + order[:i] for order in circles for i in sides]
    results = {which: measurements[which]() for which in orders[number % len(orders)]}
    return [results[i] for i in range(len(measurements))]


def print_table(figures):
    def text(number):
        return "" if number is None else f"{number:,.4g}" if number < 1000 else f"{number:,.0f}"

    print("| | ours | raw | ratio | of rounds | goal | |\n|---|---|---|---|---|---|---|")
    for f in figures:
        sign = "≥" if f["better"] == "higher" else "≤"
        goal = "" if f["goal"] is None else f"{sign} {text(f['goal'])}"
        met = {None: "", True: "met", False: "missed"}[f["met"]]
        said = "; ".join(filter(None, (met, f.get("note"))))
        spread = f"{text(f['spread'][0])} to {text(f['spread'][1])}" if f["rounds"] > 1 else "one round"
        print(f"| {f['name']} | {text(f['ours'])} {f['unit']} | {text(f['raw'])} | {text(f['ratio'])} "
              f"| {spread} | {goal} | {said} |")  # fmt: skip


if __name__ == "__main__":
    print_table(figure for path in sys.argv[1:] for figure in json.loads(pathlib.Path(path).read_text()))
