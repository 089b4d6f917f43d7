"""The OTM claims are the paper's, each has a judge, and the judges judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import attrs
import pytest
from invented_results import result_of

from offloadrt.extensions.evidence.validation.judging import Judgement, hear
from offloadrt.extensions.evidence.validation.validate import validate
from offloadrt.extensions.otm.configuration import placements_of
from offloadrt.extensions.otm.object_table import ObjectPlacement
from offloadrt.papers.otm import probes
from offloadrt.papers.otm.judges import PAPER
from offloadrt.papers.otm.probes import DENSITY, LAF, ROUNDS
from offloadrt.runtime.configurations import ResultSection
from offloadrt.study import execute, find_scenario
from offloadrt.study.reporting.results import DeviceFigures, Result
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import Point

GRID = PAPER.grid("full", RunSpec())
Measure = Callable[[Mapping[str, Any]], dict[str, Any]]


def test_a_candidate_is_a_machine() -> None:
    assert PAPER.candidates
    for overrides in PAPER.candidates.values():
        assert execute(find_scenario("rodinia"), {"size_gb": 0.01}, overrides=overrides).elapsed_s > 0


def test_smaller_grids_keep_the_memory_to_the_sizes() -> None:
    def over_memory(extent: Any, size: float) -> float:
        grid = PAPER.grid(extent, RunSpec())
        point = grid.point(grid.sized(size, {"benchmark": "srad", "placement": "otm"}))
        result = execute(find_scenario("rodinia"), dict(point.parameters), overrides=dict(point.options.overrides))
        assert sum(one.place == "cpu" for one in placements_of(result).values()) == (1 if size == 18.0 else 0)
        found = result.measured["size_over_memory"]
        assert isinstance(found, float)
        return found

    assert over_memory("ends", 14.0) == pytest.approx(14e9 / (17071734784 - (307 << 20)), rel=5e-3)
    assert over_memory("ends", 18.0) == pytest.approx(over_memory("quick", 18.0), rel=5e-3)


def test_smaller_grids_divide_what_is_changed_of_the_memory_as_well() -> None:
    grid = PAPER.grid("ends", RunSpec(overrides={"otm.reserve": "512 MiB"}))
    overrides = grid.point({"benchmark": "bfs", "placement": "otm", "size_gb": 1.0}).options.overrides
    assert overrides["otm.reserve"] == f"{16 << 20} B" and overrides["mem.size"] == f"{17071734784 // 32} B"


def _invented(measure: Measure) -> Callable[[Sequence[Point]], list[Result]]:
    """Answers that `measure(parameters and overrides)` makes up: attributes of a result, else measured figures."""

    def answer(point: Point) -> Result:
        parameters = dict(point.parameters)
        made = measure({**parameters, **point.options.overrides})
        fields = {field.name for field in attrs.fields(Result)}
        moved = {"to_device_gb": 1.0, "to_host_gb": 0.0, "remote_gb": 0.0}
        plain = attrs.evolve(
            result_of(point, **moved | {name: value for name, value in made.items() if name not in fields}),
            parameters=parameters,
            devices={"device 0 page fault handler": DeviceFigures(0.5, 0.5, 0.0)},
            sections=sections(placed(edges="gpu", cost="cpu")),
        )
        return attrs.evolve(plain, **{name: value for name, value in made.items() if name in fields})

    return lambda points: [answer(point) for point in points]


def judged(claim: str, measure: Measure) -> Judgement:
    return hear([PAPER.bench.judges[f"otm.{claim}"]], GRID, _invented(measure))[f"otm.{claim}"]


def placed(**places: str) -> dict[str, ObjectPlacement]:
    """Objects of 8 bytes, in order of rank."""
    mechanism = {"gpu": "explicit", "cpu": "pinned"}
    return {
        name: ObjectPlacement(name, 8, rank, 10.0 - rank, 1.0, place, mechanism[place])
        for rank, (name, place) in enumerate(places.items(), start=1)
    }


def sections(placements: dict[str, ObjectPlacement]) -> dict[str, ResultSection]:
    figures = {name: attrs.asdict(placed, filter=attrs.filters.exclude("name")) for name, placed in placements.items()}
    return {"placements": ResultSection(figures), "otm": ResultSection({"budget_bytes": 8})}


def times(**by_placement: float) -> Measure:
    """Times a byte that are the same at each size."""
    return lambda of: {"time_s": by_placement[of["placement"]] * of["size_gb"]}


def jumping(**by_benchmark: float) -> Measure:
    """So many times as long a byte above 16 GB; as many times the traffic."""

    def run(of: Mapping[str, Any]) -> dict[str, Any]:
        more = by_benchmark[of["benchmark"]] if of["size_gb"] > 16 and of["placement"] == "um" else 1.0
        moved = of["size_gb"] * more
        return {"time_s": moved, "to_device_gb": moved, "to_host_gb": moved / 10}

    return run


@pytest.mark.parametrize(
    ("claim", "measure", "holds"),
    [
        ("obs1.bfs", times(um=1.0, explicit=1.1), True),
        ("obs1.bfs", times(um=1.0, explicit=1.0), False),
        ("obs1.cfd", times(um=1.0, explicit=0.9), True),
        ("obs1.cfd", times(um=1.0, explicit=1.0), False),
        ("obs2.thrash", jumping(bfs=9, cfd=1.1, srad=8), True),
        ("obs2.thrash", jumping(bfs=8, cfd=1.1, srad=8), False),
        ("obs2.thrash", jumping(bfs=9, cfd=1.0, srad=8), False),
        ("obs2.bfs_log", jumping(bfs=5 * 14 / 18), True),
        ("obs2.bfs_log", jumping(bfs=4.9 * 14 / 18), False),
        ("fig2.traffic", jumping(bfs=2, cfd=2, srad=2), True),
        ("fig2.traffic", jumping(bfs=2, cfd=2, srad=1.9), False),
        ("bfs.fit.vs_trad", times(explicit=1.7, otm=1.0), True),
        ("bfs.fit.vs_trad", times(explicit=1.69, otm=1.0), False),
        ("bfs.fit.vs_trad", times(explicit=2.61, otm=1.0), False),
        ("bfs.fit.vs_um", times(um=1.0, otm=1.1), True),
        ("bfs.fit.vs_um", times(um=1.0, otm=0.89), False),
        ("bfs.over", times(um=2.5, otm=1.0), True),
        ("bfs.over", times(um=4.6, otm=1.0), False),
        ("traffic_reduced", lambda of: {"to_device_gb": 1.0 if of["placement"] == "otm" else 1.1}, True),
        ("traffic_reduced", lambda of: {"to_device_gb": 1.0}, False),
    ],
)
def test_relations_are_taken_literally(claim: str, measure: Measure, holds: bool) -> None:
    judgement = judged(claim, measure)
    assert judgement.holds is holds
    assert holds or judgement.reason


def test_extra_traffic_to_the_host_where_all_fits_is_no_traffic_of_results() -> None:
    def run(of: Mapping[str, Any]) -> dict[str, Any]:
        extra = 0.06 * of["size_gb"] if of["placement"] == "um" else 0.0
        return {**jumping(bfs=9, cfd=9, srad=9)(of), "to_host_gb": extra * (10 if of["size_gb"] > 16 else 1) + 1e-9}

    refuted = judged("fig2.traffic", run)
    assert refuted.holds is False and "which fit" in refuted.reason


def test_what_is_pinned_at_which_size() -> None:
    def pinning(edges_from: float) -> Measure:
        return lambda of: {
            "sections": sections(placed(edges="cpu", cost="gpu"))
            if of["size_gb"] >= edges_from
            else sections(placed(edges="gpu", cost="cpu"))
        }

    assert judged("bfs.edges_pinned", pinning(24.0)).holds
    assert judged("bfs.edges_pinned", pinning(28.0)).holds is False
    assert judged("bfs.larger_ok", pinning(24.0)).holds
    refuted = judged("bfs.larger_ok", pinning(28.0))
    assert refuted.holds is False and "24 GB" in refuted.reason


def test_every_region_of_cfd_needs_a_pinned_argument() -> None:
    def with_pinned(*names: str) -> Measure:
        return lambda of: {"sections": sections(placed(**dict.fromkeys(names, "cpu")))}

    assert judged("cfd.reason", with_pinned("variables")).holds
    assert judged("cfd.reason", with_pinned("old_variables", "areas", "fluxes")).holds
    refuted = judged("cfd.reason", with_pinned("fluxes"))
    assert refuted.holds is False and "copy, step_factor have none" in refuted.reason


@pytest.mark.parametrize(("host", "holds"), [(1.3, True), (1.2, False)])
def test_the_place_against_the_manner(host: float, holds: bool) -> None:
    def run(of: Mapping[str, Any]) -> dict[str, Any]:
        return {"time_s": host if "otm.reserve" in of else 1.2 if of["otm.threshold"] == "2" else 1.0}

    assert judged("transfer_minor", run).holds is holds


@pytest.mark.parametrize(("free", "holds"), [(0.991, True), (0.99, False)])
def test_decisions_take_less_than_a_hundredth(free: float, holds: bool) -> None:
    assert judged("mech.overhead", lambda of: {"time_s": free if "otm.decision" in of else 1.0}).holds is holds


def test_objects_are_placed_as_far_as_they_fit() -> None:
    assert judged("mech.map_order", lambda of: {"sections": sections(placed(edges="gpu", cost="cpu"))}).holds
    assert judged("mech.map_order", lambda of: {"sections": sections(placed(edges="cpu", cost="gpu"))}).holds is False
    assert judged("mech.map_order", lambda of: {"sections": sections(placed(edges="cpu", cost="cpu"))}).holds is False


def synthetic(um: float, explicit: float = 1.0, large: float = 3.0) -> Measure:
    return lambda of: {
        "elapsed_s": (um if of["placement"] == "managed" else explicit) * (large if of["size_gb"] > 16 else 1)
    }


@pytest.mark.parametrize(
    ("claim", "measure", "holds"),
    [
        ("table2.fit_high", synthetic(2.0), True),
        ("table2.fit_high", synthetic(1.0), False),
        ("table2.fit_high", synthetic(2.01), False),
        ("table2.fit_low", synthetic(0.98), True),
        ("table2.fit_low", synthetic(1.0), False),
        ("table2.over_high", synthetic(1.1), True),
        ("table2.over_high", synthetic(1.0), False),
        ("table2.over_low", synthetic(1.0, large=3.5), True),
        ("table2.over_low", synthetic(1.0, large=3.7), False),
        ("obs3.noreuse", synthetic(1.0, large=2.5), True),
        ("obs3.noreuse", synthetic(1.0, large=2.3), False),
        ("mech.lru", lambda of: {"to_device_gb": 4 * of["size_gb"]}, True),
        ("mech.lru", lambda of: {"to_device_gb": 3.7 * of["size_gb"]}, False),
        (
            "fit.density_threshold",
            lambda of: {"elapsed_s": of["density"] if of["placement"] == "managed" else 0.6},
            True,
        ),
        (
            "fit.density_threshold",
            lambda of: {"elapsed_s": of["density"] if of["placement"] == "managed" else 0.3},
            False,
        ),
        ("fit.density_threshold", synthetic(1.1), False),
        ("fit.density_threshold", synthetic(0.9), False),
    ],
)
def test_the_synthetic_program(claim: str, measure: Measure, holds: bool) -> None:
    judgement = judged(claim, measure)
    assert judgement.holds is holds
    assert holds or judgement.reason


def test_the_crossover_is_found_to_a_hundredth() -> None:
    found = judged(
        "fit.density_threshold", lambda of: {"elapsed_s": of["density"] if of["placement"] == "managed" else 0.55}
    )
    assert float(found.emulated) == pytest.approx(0.55, abs=0.01)


OBJECTS: dict[str, Any] = {
    **{f"{name}_gaf": ROUNDS * laf for name, laf in LAF.items()},
    **{f"{name}_density": density for name, density in DENSITY.items()},
    "decisions": 3, "objects": 3, "object_bytes": 8, "blocks": 3, "entries": 3, "copied_in": 24, "copied_out": 24,
    "migrated": 0, "kernel_faults": 0, "remote_bytes": 1.0, "advice": 1, "explicit_bytes": 16, "implicit_bytes": 8,
    "budget_bytes": 24, "a_mechanism": "explicit", "b_mechanism": "pinned", "c_mechanism": "pinned", "c_rank": 1,
    "a_decisions": 1, "b_decisions": 1, "inside": 0.0, "after": 1.0,
}  # fmt: skip
IMPLICIT = {"blocks": 0, "copied_in": 0, "copied_out": 0, "kernel_faults": 3, "migrated": 24, "inside": 1.0}
LATE = {"b_mechanism": "explicit"}


@pytest.mark.parametrize(
    ("claim", "right", "wrong"),
    [
        ("pin", {}, {"migrated": 8}),
        ("pin", {}, {"remote_bytes": 0.0}),
        ("pin", {}, {"b_mechanism": "implicit"}),
        ("explicit", {}, {"blocks": 2}),
        ("explicit", {}, {"copied_out": 16}),
        ("explicit", {}, {"kernel_faults": 1}),
        ("explicit", {}, {"inside": 1.0}),
        ("implicit", IMPLICIT, {"kernel_faults": 0}),
        ("implicit", IMPLICIT, {"migrated": 16}),
        ("implicit", IMPLICIT, {"copied_in": 8}),
        ("implicit", IMPLICIT, {"inside": 0.0}),
        ("table", LATE, {"decisions": 12}),
        ("table", LATE, {"b_mechanism": "pinned"}),
        ("table", LATE, {"a_decisions": 2}),
        ("table", LATE, {"c_mechanism": "explicit"}),
        ("laf", {}, {"b_gaf": 2.0}),
        ("gaf", {}, {"b_gaf": 2.0}),
        ("density", {}, {"b_density": 1.0}),
    ],
)
def test_a_mechanism_is_judged_by_its_facts(claim: str, right: dict[str, Any], wrong: dict[str, Any]) -> None:
    assert judged(f"mech.{claim}", lambda of: {**OBJECTS, **right}).holds
    refuted = judged(f"mech.{claim}", lambda of: {**OBJECTS, **right, **wrong})
    assert refuted.holds is False and refuted.reason


def test_counters_count_to_the_byte() -> None:
    def room(exact: str, less: str) -> Measure:
        def run(of: Mapping[str, Any]) -> dict[str, Any]:
            if of["lacking"] == 0:
                return {**OBJECTS, "b_mechanism": exact}
            return {**OBJECTS, "implicit_bytes": 8 if less != "pinned" else 0, "b_mechanism": less, "budget_bytes": 23}

        return run

    assert judged("mech.counters", room("implicit", "pinned")).holds
    assert judged("mech.counters", room("pinned", "pinned")).holds is False
    assert judged("mech.counters", room("implicit", "implicit")).holds is False


def test_ranks_are_a_permutation_by_frequency() -> None:
    good = placed(a="gpu", b="gpu")
    assert judged("mech.rank", lambda of: {"sections": sections(good)}).holds
    twice = {**good, "b": attrs.evolve(good["b"], rank=1)}
    assert judged("mech.rank", lambda of: {"sections": sections(twice)}).holds is False
    turned = {**good, "b": attrs.evolve(good["b"], gaf=99.0)}
    assert judged("mech.rank", lambda of: {"sections": sections(turned)}).holds is False


def test_densities_are_parts() -> None:
    more = {"a": attrs.evolve(placed(a="gpu")["a"], density=1.5)}
    assert judged("mech.density", lambda of: {**OBJECTS, "sections": sections(more)}).holds is False


def test_allocations_fail_above_the_memory_only() -> None:
    def failing(above: float) -> Measure:
        return lambda of: {"failed": "an array" if of["size_gb"] > above else None}

    assert judged("mech.trad_fail", failing(16.0)).holds
    assert judged("mech.trad_fail", failing(18.0)).holds is False
    assert judged("mech.trad_fail", failing(13.0)).holds is False


@pytest.mark.parametrize(("demand", "holds"), [(9.0, True), (10.0, False)])
def test_bandwidth_on_demand_is_less(demand: float, holds: bool) -> None:
    measure: Measure = lambda of: {"bytes_per_s": demand if of["placement"] == "managed" else 10.0}  # noqa: E731
    assert judged("mech.um_bw", measure).holds is holds


def test_the_probe_s_frequencies_are_those_counted_by_hand() -> None:
    found = execute(probes.objects, {}, record=True).measured
    assert {name: found[f"{name}_gaf"] for name in LAF} == {"c": 12.0, "a": 6.0, "b": 1.0}
    assert {name: found[f"{name}_density"] for name in DENSITY} == {"c": 1.0, "a": 1.0, "b": 0.25}


@pytest.mark.slow
def test_the_quick_comparison_leaves_no_claim_and_no_reason_out() -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        report = validate(PAPER, pool, jobs=2, quick=True)
    told = [claim.id for claim in PAPER.bench.claims.values() if claim.role != "input"]
    assert [finding.claim for finding in report.findings] == told
    assert [finding.claim for finding in report.findings if finding.verdict == "fails" and not finding.reason] == []
    mechanisms = [finding for finding in report.findings if finding.claim.startswith("otm.mech.")]
    assert [finding.claim for finding in mechanisms if finding.verdict != "holds"] == []
