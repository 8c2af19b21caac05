# SPDX-License-Identifier: Apache-2.0
"""tests/bench/run writes figures that a program can judge. What they say is this machine's business."""

import argparse
import importlib
import json
import os
import subprocess

import pytest

from pipeline import BUILD
from servers import ROOT

BENCH = ROOT / "tests/bench"


@pytest.mark.timeout(400)
def test_a_part_alone_writes_its_figures(tmp_path):
    path = tmp_path / "figures.json"
    done = subprocess.run(
        [BENCH / "run", "--quick", "--count", "2000", f"--json={path.name}", "delayer"],
        env=os.environ | {"REPRISE_BUILD": str(BUILD)}, cwd=tmp_path,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=380,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    figures = json.loads(path.read_text())
    assert [f["name"].rsplit(": ", 1)[1] for f in figures] == [
        "throughput", "processor", "the broker's processor", "processor time that the host gave to others",
    ]  # fmt: skip
    for figure in figures:
        check(figure)
        assert f"| {figure['name']} |" in done.stdout
    assert (figures[0]["goal"], figures[0]["better"]) == (0.85, "higher")
    assert (figures[1]["goal"], figures[1]["better"]) == (1.18, "lower")  # of the processor as much more
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


@pytest.fixture
def module(monkeypatch):
    """Imports one of the bench's."""
    monkeypatch.syspath_prepend(BENCH)
    return importlib.import_module


def test_a_raw_loop_that_did_nothing_is_not_judged(module):
    figures = module("figures").Figures()
    figures.add("an uncounted one", "us", 5, 0)
    with pytest.raises(ValueError, match="a raw of 0"):
        figures.add("one", "tasks/s", 5, 0, 0.9, "higher")


def test_every_side_of_a_figure_has_every_place_as_often(module):
    for sides, rounds in ((2, 2), (3, 3), (3, 6)):
        orders = []
        for number in range(rounds):
            orders.append([])
            results = module("figures").in_turn(number, *(lambda n=n: orders[-1].append(n) or n for n in range(sides)))
            assert results == list(range(sides))
        assert all(sorted(places) == sorted(list(range(sides)) * (rounds // sides)) for places in zip(*orders))


def test_a_note_stands_beside_what_was_judged(module, capsys):
    figures = module("figures").Figures()
    figures.add("one", "tasks/s", 5, 5, 0.9, "higher", "a note")
    module("figures").print_table(figures.all())
    assert "| met; a note |" in capsys.readouterr().out


def test_a_run_that_measured_nothing_leaves_the_file_of_another(module, tmp_path):
    figures, path = module("figures").Figures(), tmp_path / "figures.json"
    options = argparse.Namespace(json=str(path), plot=None)
    path.write_text("another's")
    module("bench").keep(figures, options)
    assert path.read_text() == "another's"
    figures.add("one", "tasks/s", 5)
    module("bench").keep(figures, options)
    assert [figure["name"] for figure in json.loads(path.read_text())] == ["one"]
    assert [p.name for p in tmp_path.iterdir()] == ["figures.json"]


def test_what_the_host_took_is_a_part_of_what_was_wanted(module):
    stolen_percent, before = module("bench").stolen_percent, [10, 0, 10, 100, 0, 0, 0, 5]
    assert stolen_percent(before, before) == 0
    assert stolen_percent(before, [70, 0, 20, 900, 80, 0, 0, 35]) == 30


def test_the_page_is_computed_from_the_figures(module):
    million = module("million")
    figures = [{"name": name, "ours": 50_000} for name, _ in million.MEASURED.values()]
    filled = million.page(figures, "a test")
    assert "?" not in filled
    assert "| `router_workers` | `ceil(tasks / (router_worker * use))` | 34 |" in filled
    published = json.loads((BENCH / "figures.json").read_text())
    assert (BENCH / "MILLION.md").read_text() == million.page(published, million.SOURCE)
