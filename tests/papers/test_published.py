"""Figures show what papers report beside what is emulated: the values of claims, where the parameters are the same."""

from __future__ import annotations

import itertools
import math
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

import offloadrt
from offloadrt.extensions.drawing.figures import draw, figure_for
from offloadrt.extensions.evidence.validation.judging import PAPERS
from offloadrt.papers.figures import FigureRefused, figures_of, read_figures
from offloadrt.study import Figure, Result, Run, UserError, find_scenario, scenario
from offloadrt.study.errors import ScenarioRefused
from offloadrt.study.reporting.results import Bytes
from offloadrt.study.scripts.definition import PublishedPoint, Scenario

PACKAGE = Path(offloadrt.__file__).parent / "papers"
SHOWN = [name for paper in PAPERS.names() for name, figure in figures_of(paper).items() if figure.published]


def claims(paper: str) -> dict[str, dict[str, Any]]:
    """The claims of a paper, read without the package."""
    return {one["id"]: one for one in tomllib.loads((PACKAGE / paper / "claims.toml").read_text())["claim"]}


def emulated(of: Scenario, value: Callable[[dict[str, Any]], float], **axes: Any) -> list[Result]:
    """Results of a sweep that was never run: what its figure shows is `value` of the parameters."""
    swept = {**of.sweep, **axes}
    assert of.figure is not None
    results = []
    for values in itertools.product(*swept.values()):
        parameters = {**{p.name: p.default for p in of.parameters.values()}, **dict(zip(swept, values, strict=True))}
        y = value(parameters)
        measured = {} if of.figure.y == "elapsed_s" else {of.figure.y: y}
        results.append(
            Result(of.name, parameters, of.machine, "llvm22", 0, y, measured, {}, {}, {}, Bytes(), {}, 0, None, {})
        )
    return results


def redraw(of: Scenario, results: list[Result], drawn: dict[str, Any], folder: Path) -> Any:
    """The figure of results, as matplotlib has it."""
    axes = {name: tuple(dict.fromkeys(one.parameters[name] for one in results)) for name in of.parameters}
    figure = figure_for(of.figure, axes, results, of.machine)
    assert figure is not None
    draw(figure, results, folder)
    return drawn[".png"]


def hollow(area: Any) -> Iterator[tuple[float, float]]:
    """Where the hollow markers of a panel are."""
    for line in area.get_lines():
        if line.get_markerfacecolor() == "white":
            yield from zip(line.get_xdata(), line.get_ydata(), strict=True)


def texts(canvas: Any) -> list[str]:
    return [text.get_text() for area in canvas.axes for text in area.texts]


@pytest.mark.parametrize("name", SHOWN)
def test_what_is_published_is_drawn_with_source_and_role(name: str, drawn: dict[str, Any], tmp_path: Path) -> None:
    of = find_scenario(name)
    assert of.figure is not None
    few = {}  # what no point is about is not swept: panels take their time
    for axis, values in of.sweep.items():
        named = [
            known for point in of.figure.published for known in (point.at, point.over, point.times) if axis in known
        ]
        asked = [one for known in named for one in (known[axis] if isinstance(known[axis], list) else [known[axis]])]
        kept = tuple(value for value in values if value in asked)
        few[axis] = kept if kept and axis != of.figure.x else values
    canvas = redraw(of, emulated(of, lambda parameters: 1.5, **few), drawn, tmp_path)
    marks = [
        line
        for area in canvas.axes
        for line in area.get_lines()
        if line.get_markerfacecolor() == "white"
        or not isinstance(line.get_linestyle(), str)
        or line.get_linestyle() == "--"
    ]
    assert len(marks) >= len({point.claim for point in of.figure.published})
    paper = of.figure.published[0].package.rpartition(".")[2]
    for claim in (claims(paper)[point.claim] for point in of.figure.published):
        role = (
            "predict"
            if any(point.claim == claim["id"] and point.per for point in of.figure.published)
            else claim["role"]
        )
        assert any(claim["where"] in text and role in text for text in texts(canvas)), claim["id"]


def test_published_ratios_stand_over_the_bars_of_their_runs(drawn: dict[str, Any], tmp_path: Path) -> None:
    of = find_scenario("zerocopy_table2")
    (area,) = redraw(of, emulated(of, lambda p: 1.0), drawn, tmp_path).axes
    reported = claims("zerocopy")
    bars = {0: "usm", 1: "implicit_zc", 2: "eager"}  # the order of the sweep, without Copy
    expected = {
        reported[f"mi300a.table2.{benchmark}.{bars[number]}"]["value"]: place + (number - 1) * 0.8 / 3
        for place, benchmark in ((0, "stencil"), (2, "ep"), (3, "spC"))
        for number in bars
        if benchmark == "spC"
    }
    standing = {y: x for x, y in hollow(area)}
    assert len(list(hollow(area))) == 9 and "lbm" not in standing
    assert all(math.isclose(standing[y], x) for y, x in expected.items())


def test_published_times_have_the_unit_of_the_axis(drawn: dict[str, Any], tmp_path: Path) -> None:
    of = find_scenario("zerocopy_table3")
    (area,) = redraw(of, emulated(of, lambda p: 2.0), drawn, tmp_path).axes
    assert "(ms)" in area.get_ylabel()
    claim = claims("zerocopy")["mi300a.table3.ep.zc.mi"]
    assert claim["unit"] == "us"
    heights = {y for _, y in hollow(area)}
    assert {claim["lo"] / 1e3, claim["hi"] / 1e3} <= heights, "an order of magnitude is drawn from end to end"


def test_a_published_ratio_in_a_figure_of_times_starts_from_the_emulated_time(
    drawn: dict[str, Any], tmp_path: Path
) -> None:
    of = find_scenario("exahype_fig1")
    canvas = redraw(of, emulated(of, lambda p: 1e-6 * p["batch"] * p["threads"] ** 2), drawn, tmp_path)
    (area,) = canvas.axes
    ratio = claims("exahype")["exahype.obs2.degrade"]["value"]
    expected = [(batch, ratio * batch / 1e3) for batch in of.sweep["batch"]]
    assert list(hollow(area)) == [(x, pytest.approx(y)) for x, y in expected], "milliseconds"
    assert any(f"≥ {ratio} × (host threads 1)" in text for text in texts(canvas))
    at = claims("exahype")["exahype.obs1.sat2d"]["value"]
    assert any(list(line.get_xdata()) == [at, at] for line in area.get_lines()), "where it saturates"


def test_two_claims_are_divided(drawn: dict[str, Any], tmp_path: Path) -> None:
    of = find_scenario("jacc_gpus")
    results = emulated(of, lambda p: 1.0, benchmark=("BT", "LU"), what=("kernels", "kernel_and_exchange"))
    reported = claims("jacc")
    alone, *shared = (reported[f"jacc.detail.BT.{name}"]["value"] for name in ("dup", "ktotal", "commkernel"))
    areas = redraw(of, results, drawn, tmp_path).axes
    assert [[y for _, y in hollow(area)] for area in areas] == [[pytest.approx(alone / time)] for time in shared]


def test_nothing_is_published_of_other_runs_or_of_another_machine(drawn: dict[str, Any], tmp_path: Path) -> None:
    of = find_scenario("zerocopy_table2")
    others = emulated(of, lambda p: 1.0, benchmark=("lbm", "bt"))
    elsewhere = [attrs.evolve(one, machine="mi250x") for one in emulated(of, lambda p: 1.0)]
    for results in (others, elsewhere):
        canvas = redraw(of, results, drawn, tmp_path)
        assert not any(list(hollow(area)) for area in canvas.axes)
        assert "published" not in canvas._supxlabel.get_text() + " ".join(texts(canvas))


@pytest.mark.parametrize(
    ("point", "told"),
    [
        ({"at": {"configuraton": "usm"}}, r"published point a\.b of its figure: at\.configuraton: there is no such"),
        ({"at": {"configuraton": "usm"}}, "did you mean configuration"),
        ({"over": {"configuration": "cpy"}}, r"over\.configuration: 'cpy' is not one of copy, usm"),
        ({"at": {"size": [1, "S2"]}}, r"at\.size: 'S2' is not a value: expected int"),
    ],
)
def test_a_point_at_an_unknown_parameter_is_refused(point: dict[str, Any], told: str) -> None:
    from typing import Literal

    figure = Figure("size", "elapsed_s", published=(PublishedPoint("some.paper", "a.b", **point),))

    async def program(run: Run, size: int = 1, configuration: Literal["copy", "usm"] = "copy") -> None: ...

    program.__annotations__["configuration"] = Literal["copy", "usm"]
    with pytest.raises(ScenarioRefused, match=told):
        scenario(figure=figure)(program)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"claim": "mi300a.table2.ep.usn"}, "mi300a.table2.ep.usn: there is none; did you mean mi300a.table2.ep.usm"),
        ({"claim": "mi300a.table2.ep.usm"}, "cannot be drawn over elapsed_s: its unit is ratio"),
        ({"claim": "mi300a.table2.order.ep"}, "cannot be drawn: it has no number"),
        ({"claim": "mi300a.table2.ep.usm", "per": "mi300a.eager.calls"}, "cannot divide .* it has another unit"),
    ],
)
def test_a_point_whose_claim_cannot_be_drawn_is_an_error(
    fields: dict[str, Any], told: str, drawn: dict[str, Any], tmp_path: Path
) -> None:
    of = find_scenario("zerocopy_table2")
    point = PublishedPoint("offloadrt.papers.zerocopy", **fields)
    with pytest.raises(UserError, match=told):
        draw(Figure("benchmark", "elapsed_s", published=(point,)), emulated(of, lambda p: 1.0), tmp_path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            '[figure.f]\nx = "a"\ny = "b"\ntitel = "c"',
            r"f\.toml: figure f: field titel: there is none; did you mean title",
        ),
        ('[figure.f]\nlike = "g"', "figure f: field like: there is no figure g"),
        (
            '[figure.f]\nx = "a"\ny = "b"\npublished = [{ claim = "c", att = {} }]',
            "figure f: published: field att: there is",
        ),
        ('[figure.f]\nx = "a"\ny = "b"\npublished = [{ at = {} }]', "figure f: published: a point without a claim: "),
        ("[figure.f", "is not valid TOML"),
    ],
)
def test_a_file_of_figures_names_what_is_wrong(text: str, told: str) -> None:
    with pytest.raises(FigureRefused, match=told):
        read_figures(text, "f.toml", "some.paper")
