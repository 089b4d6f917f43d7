"""Tables and figures made of results."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offloadrt.extensions.drawing.figures import _over_baseline, draw, draw_time, figure_for
from offloadrt.extensions.drawing.panels import label, spaced
from offloadrt.study import Figure, Result, UserError, execute, find_scenario
from offloadrt.study.reporting.results import row, to_polars, write_tables
from offloadrt.study.reporting.words import figure, seconds
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import InProcess, grid, sweep

QUEUEING = find_scenario(f"{Path(__file__).with_name('toys.py')}:queueing")
AXES = {"threads": (1, 2, 4), "policy": ("fair", "rude")}


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return sweep(grid(QUEUEING, AXES, RunSpec()), InProcess()).finished


def test_a_row_is_flat(results: list[Result]) -> None:
    cells = row(results[0])
    assert cells["threads"] == 1 and cells["per_thread_s"] == 0.5 and cells["bytes.h2d"] == 0
    assert cells["note"] is None and "measured.note" in cells, "a figure that is called like a parameter keeps apart"


def test_parquet_and_csv_say_the_same(results: list[Result], tmp_path: Path) -> None:
    parquet, csv = write_tables(results, tmp_path)
    back = polars.read_parquet(parquet)
    assert back.height == 6 and back["threads"].to_list() == [1, 1, 2, 2, 4, 4]
    assert polars.read_csv(csv)["elapsed_s"].to_list() == back["elapsed_s"].to_list() == [0.5, 0.5, 1.0, 1.0, 2.0, 2.0]


def test_columns_that_differ_become_null_or_wider(results: list[Result]) -> None:
    other = attrs.evolve(results[1], measured={"per_thread_s": 1, "extra": 2.5})
    table = to_polars([results[0], other])
    assert table["extra"].to_list() == [None, 2.5] and table["per_thread_s"].to_list() == [0.5, 1.0]


@pytest.mark.parametrize(
    ("figure", "axes", "x", "y", "lines", "panels"),
    [
        (QUEUEING.figure, AXES, "threads", "per_thread_s", ("policy",), None),
        (None, AXES, "threads", "per_thread_s", ("policy",), None),
        (Figure("threads", "elapsed_s", panels="policy"), AXES, "threads", "elapsed_s", (), "policy"),
        (Figure("hold_s", "elapsed_s"), AXES, "threads", "elapsed_s", ("policy",), None),
        (
            Figure("threads", "elapsed_s", lines=("policy", "note")),
            {"threads": (1, 2)},
            "threads",
            "elapsed_s",
            (),
            None,
        ),
    ],
)
def test_what_a_figure_shows(
    results: list[Result],
    figure: Figure | None,
    axes: dict[str, tuple[object, ...]],
    x: str,
    y: str,
    lines: tuple[str, ...],
    panels: str | None,
) -> None:
    chosen = figure_for(figure, axes, results)
    assert chosen is not None
    assert (chosen.x, chosen.y, chosen.lines, chosen.panels) == (x, y, lines, panels)


def test_texts_that_were_swept_are_bars(results: list[Result]) -> None:
    chosen = figure_for(None, {"policy": ("fair", "rude")}, results)
    assert chosen is not None and (chosen.x, chosen.bars) == ("policy", True)
    assert figure_for(None, {"policy": ("fair",)}, results) is None


def test_a_figure_is_drawn_twice(results: list[Result], tmp_path: Path) -> None:
    figure = figure_for(QUEUEING.figure, AXES, results)
    assert figure is not None
    png, svg, pdf = draw(figure, results, tmp_path)
    assert pdf.read_bytes().startswith(b"%PDF")
    assert png.read_bytes().startswith(b"\x89PNG") and png.stat().st_size > 5000
    text = svg.read_text()
    assert text.count("<svg") == 1


def test_a_figure_of_ratios_leaves_its_baseline_out(results: list[Result]) -> None:
    figure = Figure("policy", "elapsed_s", lines="threads", baseline={"threads": 4})
    drawn = _over_baseline(figure, results, [row(result) for result in results])
    assert [(cells["threads"], cells["policy"], cells["elapsed_s"]) for cells in drawn] == [
        (1, "fair", 4.0), (1, "rude", 4.0), (2, "fair", 2.0), (2, "rude", 2.0),
    ]  # fmt: skip


def test_ratios_have_no_unit_and_the_baseline_has_no_place(
    results: list[Result], tmp_path: Path, drawn: dict[str, Any]
) -> None:
    alone = [result for result in results if result.parameters["threads"] == 4]
    draw(Figure("policy", "elapsed_s", baseline={"policy": "fair"}, bars=True), alone, tmp_path)
    (area,) = drawn[".png"].axes
    assert area.get_ylabel() == "baseline over variant, elapsed"
    assert [text.get_text() for text in area.get_xticklabels()] == ["rude"]
    assert "baseline: policy=fair" in drawn[".png"]._supxlabel.get_text()


def test_a_figure_of_ratios_over_texts(results: list[Result], tmp_path: Path) -> None:
    figure = figure_for(Figure("policy", "elapsed_s", baseline={"threads": 4}), AXES, results)
    assert figure is not None and figure.lines == ("threads",)
    assert draw(figure, results, tmp_path)[0].stat().st_size > 5000
    lost = figure_for(Figure("policy", "elapsed_s", baseline={"threads": 3}), AXES, results)
    assert lost is not None and lost.baseline == {}, "no run has three threads: the figure shows times"
    with pytest.raises(UserError, match="no run beside its baseline threads=3"):
        draw(Figure("policy", "elapsed_s", baseline={"threads": 3}), results, tmp_path)


def test_nothing_lies_over_the_lines_and_nothing_is_cut_off(
    results: list[Result], tmp_path: Path, drawn: dict[str, Any]
) -> None:
    figure = Figure(
        "threads",
        "per_thread_s",
        lines=("policy",),
        title=" ".join(["a title that is too long for one line"] * 4),
        legend="who comes first",
    )
    draw(figure, results, tmp_path)
    canvas = drawn[".png"]
    canvas.draw_without_rendering()
    (area,) = canvas.axes
    names = [text for text in area.texts if text.get_text()]
    assert [text.get_text() for text in names] == ["fair", "rude", "who comes first"]
    whole = canvas.bbox
    for part in (*names, canvas._suptitle, canvas._supxlabel, area.xaxis.label, area.yaxis.label):
        box = part.get_window_extent()
        assert box.x0 >= whole.x0 and box.x1 <= whole.x1 and box.y0 >= whole.y0 and box.y1 <= whole.y1
    boxes = [text.get_bbox_patch() or text for text in names]
    assert not any(one.get_window_extent().overlaps(area.bbox) for one in boxes[2:])
    assert abs(names[0].xyann[1] - names[1].xyann[1]) > 0, "the lines end at one height, and their names do not"


def test_too_many_lines_have_a_legend_outside_of_the_panel(
    results: list[Result], tmp_path: Path, drawn: dict[str, Any]
) -> None:
    many = [attrs.evolve(one, parameters={**one.parameters, "note": f"{n}"}) for one in results for n in range(40)]
    draw(Figure("threads", "per_thread_s", lines="note", legend="told"), many, tmp_path)
    canvas = drawn[".png"]
    canvas.draw_without_rendering()
    (legend,) = canvas.legends
    assert legend.get_title().get_text() == "told" and len(legend.get_texts()) == 40
    assert not legend.get_window_extent().overlaps(canvas.axes[0].bbox)


def test_panels_have_titles_of_their_own(results: list[Result], tmp_path: Path) -> None:
    figure = Figure("threads", "per_thread_s", panels="policy", names={"fair": "First come, first served"})
    _, svg, _ = draw(figure, results, tmp_path)
    text = svg.read_text()
    assert "<!-- First come, first served -->" in text and "<!-- policy = rude -->" in text


def test_a_figure_of_nothing_says_what_there_is(results: list[Result], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nonsense is no number in every result \(there are: .*per_thread_s"):
        draw(Figure("threads", "nonsense"), results, tmp_path)


@pytest.mark.parametrize(
    ("name", "text"),
    [("time_per_volume_s", "time per volume (s)"), ("moved_bytes", "moved (B)"), ("threads", "threads")],
)
def test_labels_have_units(name: str, text: str) -> None:
    assert label(name) == text


@given(st.lists(st.floats(0.1, 100.0), min_size=2, max_size=12, unique=True), st.booleans())
def test_labels_below_the_axis_do_not_run_into_one_another(values: list[float], log: bool) -> None:
    ticks = sorted(values)
    kept = spaced(ticks, log=log)
    assert kept[0] == ticks[0] and kept[-1] == ticks[-1] and set(kept) <= set(ticks)
    places = [math.log(tick) if log else tick for tick in kept]
    room = 0.05 * (places[-1] - places[0])
    assert len(kept) == 2 or all(after - before >= room for before, after in pairwise(places))


def test_lines_are_named_where_they_end_and_times_have_a_readable_unit(
    results: list[Result], tmp_path: Path, drawn: dict[str, Any]
) -> None:
    apart = [
        attrs.evolve(one, measured={**one.measured, "own_s": 2e-6 * (1 + 9 * (one.parameters["policy"] == "rude"))})
        for one in results
    ]
    draw(Figure("threads", "own_s", lines=("policy",), legend="served"), apart, tmp_path)
    canvas = drawn[".png"]
    (area,) = canvas.axes
    assert area.get_ylabel() == "own (µs)" and not canvas.legends
    assert [text.get_text() for text in area.texts] == ["fair", "rude", "served"]
    assert {tuple(line.get_ydata()) for line in area.get_lines()} == {(2.0,) * 3, (20.0,) * 3}


def test_the_figure_of_a_run_stacks_where_its_time_went(tmp_path: Path) -> None:
    run = execute(find_scenario("exahype"), {"threads": 2, "patches": 4})
    draw_time(run, tmp_path / "time.svg")
    text = (tmp_path / "time.svg").read_text()
    assert all(f"<!-- {name}: " in text for name, part in run.where_time_went.items() if part.share > 1e-3)


def test_times_are_rounded_before_their_unit_is_chosen_and_statistics_have_that_of_their_figure() -> None:
    assert [seconds(value) for value in (9.99999e-7, 1e-6, 9.994e-7, 0.99999)] == ["1 µs", "1 µs", "999.4 ns", "1 s"]
    assert figure("batch_s_mean", 5.7579e-4) == "575.8 µs" and figure("replay_s_p90", 0.0) == "0 s"
    assert figure("pages_per_batch_p10", 256) == "256"
