# SPDX-License-Identifier: Apache-2.0
"""Draws how late tasks come, ours beside the raw loop, from the JSON of a run: plot.py FIGURES.json >FILE.svg"""

import json
import math
import sys

WIDTH, HEIGHT, LEFT, TOP, GAP = 300, 240, 72, 60, 24
QUANTILES = {0.5: "50%", 0.9: "90%", 0.99: "99%", 0.999: "99.9%", 0.9999: "99.99%", 1: "max"}
LEAST, MOST = 0.3, 3000  # ms

STYLE = """
  text { font: 12px system-ui, "DejaVu Sans", sans-serif; fill: #24292f; }
  .title { font-weight: 600; }
  .quiet { fill: #57606a; }
  .grid { stroke: #d0d7de; stroke-width: 1; }
  .line { fill: none; stroke-width: 2.2; stroke-linejoin: round; }
  .ours { stroke: #0969da; } text.ours { stroke: none; fill: #0969da; font-weight: 600; }
  .raw { stroke: #bc4c00; stroke-dasharray: 6 4; } text.raw { stroke: none; fill: #bc4c00; font-weight: 600; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .quiet { fill: #9198a1; } .grid { stroke: #3d444d; }
    .ours { stroke: #58a6ff; } text.ours { fill: #58a6ff; }
    .raw { stroke: #f0883e; } text.raw { fill: #f0883e; }
  }
"""


def x_of(quantile):
    """By nines: 90%, 99% and 99.9% are as far from each other. The end stands for the maximum."""
    nines = 5 if quantile >= 1 else -math.log10(1 - quantile)
    return min(nines, 5) / 5 * WIDTH


def y_of(late_ms):
    share = math.log(min(max(late_ms, LEAST), MOST) / LEAST) / math.log(MOST / LEAST)
    return HEIGHT * (1 - share)


def text(x, y, what, kind="", anchor="start"):
    return f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}" text-anchor="{anchor}">{what}</text>'


def line(x1, y1, x2, y2):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="grid"/>'


def grid(with_labels):
    for late_ms in (1, 10, 100, 1000):
        yield line(0, y_of(late_ms), WIDTH, y_of(late_ms))
        if with_labels:
            yield text(-8, y_of(late_ms) + 4, f"{late_ms:,} ms", "quiet", "end")
    for quantile, label in QUANTILES.items():
        yield line(x_of(quantile), 0, x_of(quantile), HEIGHT)
        yield text(x_of(quantile), HEIGHT + 18, label, "quiet", "middle")


def curve(quantiles, late_ms, kind):
    points = " ".join(f"{x_of(q):.1f},{y_of(late):.1f}" for q, late in zip(quantiles, late_ms))
    return f'<polyline points="{points}" class="line {kind}"/>'


def panel(figure, column, row):
    x = LEFT + column * (WIDTH + GAP)
    y = TOP + row * (HEIGHT + 70)
    found = figure["curve"]
    yield f'<g transform="translate({x},{y})">'
    yield text(0, -10, figure["name"].removeprefix("lateness, ").removesuffix(": p50"), "title")
    yield from grid(column == 0)
    for kind in ("raw", "ours"):
        yield curve(found["quantiles"], found[kind], kind)
    yield "</g>"


def rows_of(figures):
    """A row for each guarantee, a column for each rate, as they were measured."""
    rows = {}
    for figure in figures:
        if "curve" in figure:
            rows.setdefault(figure["name"].split(", ")[1], []).append(figure)
    return list(rows.values())


def draw(figures):
    rows = rows_of(figures)
    width = LEFT + max(map(len, rows)) * (WIDTH + GAP)
    height = TOP + len(rows) * (HEIGHT + 70)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        "<title>How late tasks come, by share of tasks</title>",
        f"<style>{STYLE}</style>",
        text(LEFT, 20, "How late tasks come (both axes logarithmic)", "title"),
        text(width - GAP, 20, "reprise", "ours", "end"),
        text(width - GAP - 60, 20, "raw loop in memory", "raw", "end"),
    ]
    for row, panels in enumerate(rows):
        for column, figure in enumerate(panels):
            parts += panel(figure, column, row)
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        sys.stdout.write(draw(json.load(file)))
