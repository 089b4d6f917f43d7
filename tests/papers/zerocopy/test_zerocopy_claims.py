"""The zero-copy claims are the paper's, each has a judge, and the judges judge."""

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
from offloadrt.papers.zerocopy.judges import PAPER
from offloadrt.papers.zerocopy.judges.figures import correlation
from offloadrt.papers.zerocopy.judges.probes import allocated_for, waited_for
from offloadrt.study.reporting.results import Result, TimeShare
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import Point
from offloadrt.trace import CallStatistics

GRID = PAPER.grid("quick", RunSpec())


def _invented(measure: Callable[[Mapping[str, Any]], dict[str, Any]]) -> Callable[[Sequence[Point]], list[Result]]:
    """Answers that `measure(parameters)` makes up: attributes of a result, else measured figures."""

    def answer(point: Point) -> Result:
        made = measure(point.parameters)
        fields = {field.name for field in attrs.fields(Result)}
        plain = result_of(point, **{name: value for name, value in made.items() if name not in fields})
        return attrs.evolve(plain, **{name: value for name, value in made.items() if name in fields})

    return lambda points: [answer(point) for point in points]


def judged(claim: str, measure: Callable[[Mapping[str, Any]], dict[str, Any]]) -> Judgement:
    return hear([PAPER.bench.judges[claim]], GRID, _invented(measure))[claim]


ORDER = ("S1", "S2", "S4", "S8", "S16", "S24", "S32", "S48", "S64", "S128")


def as_the_paper(of: Mapping[str, Any]) -> dict[str, Any]:
    """Times in which zero-copy gains, more with threads and less with the size."""
    gain = 2.0 + 0.1 * of["threads"] - 0.08 * ORDER.index(of["size"])
    shared = {"usm": gain, "implicit_zero_copy": gain, "eager_maps": gain - 0.02 * of["threads"], "copy": 1.0}
    return {"elapsed_s": 2.0 / shared[of["configuration"]]}


def the_other_way_round(of: Mapping[str, Any]) -> dict[str, Any]:
    return {"elapsed_s": 2.0 / as_the_paper(of)["elapsed_s"]}


@pytest.mark.parametrize(
    "claim",
    [
        "fig3.always_better.izc",
        "fig3.always_better.usm",
        "fig3.threads_up",
        "fig4.size_down",
        "fig4.s2_max",
        "fig3.s1_extreme",
        "eager.small_lower",
    ],
)
def test_orderings_of_the_figures(claim: str) -> None:
    assert judged(f"mi300a.{claim}", as_the_paper).holds
    refuted = judged(f"mi300a.{claim}", the_other_way_round)
    assert refuted.holds is False and refuted.reason


def ratio_of(value: float) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    return lambda of: {"elapsed_s": value if of["configuration"] == "copy" else 1.0}


@pytest.mark.parametrize(
    ("claim", "value", "holds"),
    [
        ("headline.qmc", 1.2, True),
        ("headline.qmc", 2.31, False),
        ("headline.qmc", 1.19, False),
        ("fig3.always_better.izc", 1.0, False),
        ("fig3.always_better.izc", 1.009, False),
        ("table2.ep.eager", 0.97, True),
        ("table2.ep.eager", 0.95, False),
        ("table2.ep.eager", 1.0, False),
        ("table2.stencil.implicit_zc", 1.005, False),
        ("table2.spC.usm", 6.4, False),
        ("table2.order.stencil", 1.0, True),
        ("table2.order.stencil", 0.94, False),
        ("table2.order.ep", 0.9, False),
    ],
)
def test_relations_are_taken_literally(claim: str, value: float, holds: bool) -> None:
    assert judged(f"mi300a.{claim}", ratio_of(value)).holds is holds


def test_orders_of_the_table() -> None:
    times = {"copy": 8.0, "eager_maps": 1.0, "implicit_zero_copy": 1.1, "usm": 1.2}
    assert judged("mi300a.table2.order.spC", lambda of: {"elapsed_s": times[of["configuration"]]}).holds
    times = {"copy": 8.0, "eager_maps": 8.5, "implicit_zero_copy": 9.0, "usm": 9.0}
    assert judged("mi300a.table2.order.ep", lambda of: {"elapsed_s": times[of["configuration"]]}).holds


def test_overheads_are_in_microseconds() -> None:
    made = {"memory_management_s": 0.0, "memory_initialization_s": 2.0}
    assert judged("mi300a.table3.ep.zc.mi", lambda of: made).holds
    assert judged("mi300a.table3.ep.zc.mm", lambda of: made).holds
    assert not judged("mi300a.table3.ep.eager.mi", lambda of: made).holds
    low = judged("mi300a.table3.ep.zc.mi", lambda of: {**made, "memory_initialization_s": 0.5})
    assert not low.holds and "more than 10 GiB" in low.reason


def _calls(**totals: float) -> dict[str, CallStatistics]:
    return {name: CallStatistics(10, dt, dt / 10, 0.0, dt) for name, dt in totals.items()}


def test_start_up_calls_count_in_table_1() -> None:
    def run(of: Mapping[str, Any]) -> dict[str, Any]:
        if of["configuration"] == "copy":
            return {"calls": _calls(memory_async_copy=0.402)}
        return {"calls_outside": _calls(memory_async_copy=0.002)}

    assert judged("mi300a.table1.1t.lat_copy", run).emulated.startswith("2e+03"), "a tenth of the steps, scaled up"
    assert judged("mi300a.table1.copy_dominates", run).holds


def test_counts_of_a_part_of_the_steps_are_scaled_up() -> None:
    made = {"kernels": 9_963, "copies": 30_761, "calls": {"signal_wait_scacquire": CallStatistics(35_165, 1, 1, 1, 1)}}
    judgement = judged("mi300a.table1.1t.waits_copy", lambda of: made)
    assert judgement.holds and "351,650" in judgement.emulated and "scaled up" in judgement.emulated


def test_what_copy_spends_on_data_is_weighed_against_each_other_overhead() -> None:
    def spent(**seconds: float) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
        shares = {name.replace("_", " "): TimeShare(dt, 0.0) for name, dt in seconds.items()}
        return lambda of: {"where_time_went": shares, "calls": _calls(memory_pool_allocate=3.0)}

    fold = "mi300a.lesson.fold"
    assert judged(fold, spent(driver=3.5, copies=1.0, kernels=93.0, compute=9.0, table_lock=3.0, device=1.0)).holds
    assert not judged(fold, spent(driver=3.5, copies=1.0, table_lock=5.0, device=1.0)).holds
    assert not judged(fold, spent(driver=9.0, copies=1.0)).holds, "the rest of the driver is larger"
    assert not judged(fold, spent(driver=3.5, copies=1.0, threads=4.0)).holds, "as much is not the largest"
    queued = judged(fold, spent(driver=3.5, copies=1.0, device=4.5))
    assert not queued.holds and "QMCPack (device" in queued.reason


def facts(**found: Any) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    return lambda of: found


PAGES = {"faults_first": 8, "faults_again": 0, "pages": 8, "kernel_first_s": 3e-4, "kernel_again_s": 1e-4}
EAGER = {"covered_first": True, "faults_first": 0, "allocations_from_first_map": 0, "copies_from_first_map": 0}
UNIFIED = "UserError: memory configuration 'usm' on mi300a: (gpu.unified_memory is false)"
REGIONS = {
    "regions_side_by_side": True,
    "regions_with_fewer_allocations": 0,
    "launches_before_an_allocation_ended": 0,
    "regions_with_overlapping_allocations": 0,
}
STORAGE = {
    "pool_bytes": 8,
    "mapped_bytes": 8,
    "engine": "an engine",
    "copied_in_kernel": True,
    "traffic_per_byte": 2.0,
}
WAITS = {"waits": 30, "kernels": 10, "for_kernels": 10, "for_copies": 20, "for_nothing": 0}


@pytest.mark.parametrize(
    ("claim", "right", "wrong"),
    [
        ("xnack_first_touch", {**PAGES, "stalled_s": 2e-4}, {"faults_first": 7}),
        ("xnack_first_touch", {**PAGES, "stalled_s": 2e-4}, {"faults_again": 1}),
        ("xnack_first_touch", {**PAGES, "stalled_s": 2e-4}, {"stalled_s": 0.0, "kernel_first_s": 1e-4}),
        ("eager_prefault", EAGER, {"allocations_from_first_map": 2}),
        ("eager_prefault", EAGER, {"copies_from_first_map": 2}),
        ("usm_not_portable", {"error": UNIFIED, "copies": 0}, {"error": "NameError: gpu.unified_memory is false"}),
        ("usm_not_portable", {"error": UNIFIED, "copies": 0}, {"error": "UserError: another"}),
        ("usm_not_portable", {"error": UNIFIED, "copies": 0}, {"error": None}),
        ("usm_not_portable", {"error": UNIFIED, "copies": 0}, {"copies": 1}),
        ("eager_no_xnack", {"mapped": "ok", "unmapped": "MemoryAccessFault: x"}, {"unmapped": "NameError: x"}),
        ("eager_no_xnack", {"mapped": "ok", "unmapped": "MemoryAccessFault: x"}, {"unmapped": "ok"}),
        ("alloc_sync", REGIONS, {"regions_side_by_side": False}),
        ("alloc_sync", REGIONS, {"launches_before_an_allocation_ended": 1}),
        ("alloc_sync", REGIONS, {"regions_with_overlapping_allocations": 1}),
        ("copy_same_storage", STORAGE, {"traffic_per_byte": 0.0}),
        ("copy_same_storage", STORAGE, {"traffic_per_byte": 1.0}),
        ("copy_same_storage", STORAGE, {"copied_in_kernel": False}),
        ("copy_same_storage", STORAGE, {"pool_bytes": 4}),
    ],
)
def test_a_mechanism_is_judged_by_its_facts(claim: str, right: dict[str, Any], wrong: dict[str, Any]) -> None:
    assert judged(f"mi300a.mech.{claim}", facts(**right)).holds
    refuted = judged(f"mi300a.mech.{claim}", facts(**{**right, **wrong}))
    assert refuted.holds is False and refuted.reason


@pytest.mark.parametrize(
    ("copy", "izc", "holds"),
    [
        ({}, {"waits": 10}, True),
        ({"waits": 31, "for_nothing": 1}, {"waits": 10}, False),
        ({"kernels": 11}, {"waits": 10}, False),
        ({"waits": 10, "for_copies": 0}, {"waits": 10}, False),
        ({}, {"waits": 11}, False),
    ],
)
def test_waits_are_for_kernels_and_copies(copy: dict[str, int], izc: dict[str, int], holds: bool) -> None:
    made = {"copy": {**WAITS, **copy}, "implicit_zero_copy": {**WAITS, **izc}}
    assert judged("mi300a.mech.signals", lambda of: made[of["configuration"]]).holds is holds


def test_a_wait_is_for_what_its_directive_asked_for_since_its_last() -> None:
    asked = [(1, "copy"), (1, "kernel"), (2, "copy"), (1, "copy"), (1, "wait"), (1, "copy"), (1, "wait"), (1, "wait")]
    assert waited_for([*asked, (2, "wait")]) == {
        "waits": 4,
        "kernels": 1,
        "for_kernels": 1,
        "for_copies": 2,
        "for_nothing": 1,
    }


def test_allocations_are_looked_at_by_region() -> None:
    good = {1: [(0, 2), (2, 4)], 2: [(1, 3), (3, 5)]}
    assert allocated_for({1: 6, 2: 5}, good, 2) == {"regions": 2, **REGIONS}
    found = allocated_for({1: 3, 2: 5, 3: 9}, {1: [(0, 2), (2, 4)], 2: [(1, 3), (2, 5)]}, 2)
    assert found["launches_before_an_allocation_ended"] == 1
    assert found["regions_with_overlapping_allocations"] == 1
    assert found["regions_with_fewer_allocations"] == 1
    assert not allocated_for({1: 4, 2: 9}, {1: [(0, 2)], 2: [(5, 7)]}, 1)["regions_side_by_side"]


def test_every_call_has_to_get_longer_with_threads() -> None:
    def longer(**means: float) -> Judgement:
        at = {1: _calls(**dict.fromkeys(means, 1.0)), 8: _calls(**means)}
        return judged("mi300a.mech.shared_stack", lambda of: {"calls": at[of["threads"]]})

    assert longer(signal_wait_scacquire=2.0, memory_pool_allocate=1.1).holds
    some = longer(signal_wait_scacquire=9.0, memory_pool_allocate=0.9, signal_async_handler=1.0)
    assert not some.holds
    assert some.reason.endswith(": memory_pool_allocate, signal_async_handler")
    assert not longer().holds


def test_half_rate_is_of_what_copy_adds() -> None:
    def run(of: Mapping[str, Any]) -> dict[str, Any]:
        large = of["size"] == "S24"
        izc = 100.0 if large else 1.0
        added = 0.0 if of["configuration"] != "copy" else 5.0 if large else 1.0
        return {"kernel_s": 10.0 if large else 1.0, "calls": _calls(signal_wait_scacquire=izc + added)}

    assert judged("mi300a.scale.half_rate", run).holds
    flat = judged("mi300a.scale.half_rate", lambda of: {"kernel_s": 1.0, "calls": _calls(signal_wait_scacquire=1.0)})
    assert not flat.holds and "no longer" in flat.reason


def test_a_threshold_of_bytes_per_map() -> None:
    def times(of: Mapping[str, Any]) -> dict[str, Any]:
        eager = of["configuration"] == "eager_maps"
        calls = of["remaps"] + 1
        return {"elapsed_s": 2e-6 * calls if eager else 17e-6 * of["bytes"] / (2 << 20)}

    assert judged("mi300a.lesson.eager_when", times).holds
    assert not judged("mi300a.lesson.eager_when", lambda of: {"elapsed_s": 1.0}).holds


def test_variation_is_a_declared_input() -> None:
    judgement = judged("mi300a.cov.usm", lambda of: {"elapsed_s": 1.0})
    assert judgement.holds is None and "declared input" in judgement.reason


@pytest.mark.parametrize(
    ("curve", "value"),
    [((3.0, 2.0, 1.0), -1.0), ((1.0, 2.0, 4.0), 1.0), ((1.0, 1.0, 1.0), 0.0), ((2.0, 1.0, 2.0), 0.0)],
)
def test_rank_correlation(curve: Sequence[float], value: float) -> None:
    from scipy.stats import spearmanr

    assert correlation(curve) == pytest.approx(value)
    if len(set(curve)) > 1:
        assert correlation(curve) == pytest.approx(spearmanr(range(len(curve)), curve).statistic)


@pytest.mark.slow
def test_the_quick_comparison_leaves_no_claim_and_no_reason_out() -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        report = validate(PAPER, pool, jobs=2, quick=True)
    told = [claim.id for claim in PAPER.bench.claims.values() if claim.role != "input"]
    assert [finding.claim for finding in report.findings] == told
    assert [finding.claim for finding in report.findings if finding.verdict == "fails" and not finding.reason] == []
    mechanisms = [finding for finding in report.findings if finding.claim.startswith("mi300a.mech.")]
    assert [finding.claim for finding in mechanisms if finding.verdict != "holds"] == []
