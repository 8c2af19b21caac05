# SPDX-License-Identifier: Apache-2.0
"""tests/bench/run writes figures that a program can judge. What they say is this machine's business."""

import json
import os
import subprocess
import sys

import pytest

from pipeline import BUILD
from servers import ROOT

BENCH = ROOT / "tests/bench"


@pytest.mark.timeout(400)
def test_a_part_alone_writes_its_figures(tmp_path):
    path = tmp_path / "figures.json"
    done = subprocess.run(
        [BENCH / "run", "--quick", "--count", "2000", "--json", path, "delayer"],
        env=os.environ | {"REPRISE_BUILD": str(BUILD)},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=380,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    figures = json.loads(path.read_text())
    assert [f["name"].rsplit(": ", 1)[1] for f in figures] == [
        "throughput", "processor", "the broker's processor",
    ]  # fmt: skip
    for figure in figures:
        check(figure)
        assert f"| {figure['name']} |" in done.stdout
    assert (figures[0]["goal"], figures[0]["better"]) == (0.85, "higher")
    assert list((BUILD / "bench").iterdir()) == [], "something was left behind"


def check(figure):
    assert figure["better"] in ("higher", "lower")
    assert figure["ours"] >= 0
    if figure["raw"] is None:
        assert figure["ratio"] is None
    else:  # with one round the median of the ratios is the ratio of the medians
        assert figure["ratio"] == pytest.approx(figure["ours"] / figure["raw"])
    judged = figure["ours"] if figure["ratio"] is None else figure["ratio"]
    met = judged >= (figure["goal"] or 0) if figure["better"] == "higher" else judged <= (figure["goal"] or 0)
    assert figure["met"] is (None if figure["goal"] is None else met)


def test_the_page_is_computed_from_the_figures():
    sys.path.insert(0, str(BENCH))
    try:
        import million
    finally:
        sys.path.remove(str(BENCH))
    figures = [{"name": name, "ours": 50_000} for name, _ in million.MEASURED.values()]
    filled = million.page(figures, "a test")
    assert "?" not in filled
    assert "| `router_workers` | `ceil(tasks / (router_worker * use))` | 34 |" in filled
    assert (BENCH / "MILLION.md").read_text().startswith(filled.splitlines()[0])
