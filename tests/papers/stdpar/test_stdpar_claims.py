"""The stdpar claims are the paper's, each has a judge, and the judges judge."""

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
from offloadrt.papers.stdpar import probes
from offloadrt.papers.stdpar.judges import MACHINE, MAX1550, MI100, MILAN, PAGE, PAPER, SCRIPT, SWEPT, VENDORS
from offloadrt.study import execute
from offloadrt.study.reporting.results import DeviceFigures, Result
from offloadrt.study.scripts import registry
from offloadrt.study.scripts.definition import Scenario
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import Point

GRID = PAPER.grid("full", RunSpec())
Measure = Callable[[Mapping[str, Any]], dict[str, Any]]


def test_a_change_of_the_machine_is_one_of_the_others_where_they_have_a_range_or_a_choice() -> None:
    changed = RunSpec(
        overrides={"sync.latency": "1 us", "usm.prefetch": "nothing"},
        range_end={"sync.latency": "low", "alloc.cudaFree": "high"},
    )
    grid = PAPER.grid("ends", changed)
    own, other = (grid.at(machine, {}).options for machine in (MACHINE, MI100))
    assert own == changed
    assert other.machine == MI100
    assert dict(other.overrides) == {"usm.prefetch": "nothing"}
    assert dict(other.range_end) == {"sync.latency": "low", "alloc.cudaFree": "high"}


def _invented(measure: Measure) -> Callable[[Sequence[Point]], list[Result]]:
    """Answers that `measure(parameters and machine)` makes up."""

    def answer(point: Point) -> Result:
        parameters = dict(point.parameters)
        machine = point.options.machine or MACHINE
        return attrs.evolve(
            result_of(point, **measure({**parameters, "machine": machine})),
            parameters=parameters,
            machine=machine,
            devices={"device 0 page fault handler": DeviceFigures(0.5, 0.5, 0.0)},
        )

    return lambda points: [answer(point) for point in points]


def judged(claim: str, measure: Measure) -> Judgement:
    return hear([PAPER.bench.judges[f"acpp.{claim}"]], GRID, _invented(measure))[f"acpp.{claim}"]


def times(**by_name: float) -> Measure:
    """Times by implementation."""
    return lambda of: {"time_s": by_name[of["implementation"]], "host_faults": 0}


def triads(**by_name: float) -> Measure:
    return lambda of: {"triad_gbs": by_name["never" if of["prefetch"] == "never" else of["implementation"]]}


def gains(**by_application: float) -> Measure:
    """How many times as long vendors take; under `acpp` and `native` all takes a second."""

    def run(of: Mapping[str, Any]) -> dict[str, Any]:
        slower = by_application.get(of["application"], 1.0)
        return {"time_s": slower if of["implementation"] in VENDORS.values() else 1.0}

    return run


def switched(**gain: float) -> Measure:
    """Times with one optimization of AdaptiveCpp on, over none of them."""

    def run(of: Mapping[str, Any]) -> dict[str, Any]:
        on = {"pool": of["pool"] == "on", "elision": of["elision"] == "on", "prefetch": of["prefetch"] == "first"}
        time_s = 1.0
        for name, is_on in on.items():
            time_s /= gain[name] if is_on else 1.0
        return {"time_s": time_s}

    return run


def over_size(on: float) -> Measure:
    """XNACK pays from this size on."""
    return lambda of: {"time_s": 1.0 if of["xnack"] == "off" else 2.0 if of["size"] < on else 0.5}


def share(value: float) -> Measure:
    names = ("algorithms", "elided", "kept_access", "kept_allocation", "kept_value")
    return lambda of: {"elided_share": value, **dict.fromkeys(names, 1)}


@pytest.mark.parametrize(
    ("claim", "measure", "holds"),
    [
        ("babel.cpu", triads(acpp=2.0, sycl=1.9), True),
        ("babel.cpu", triads(acpp=2.0, sycl=2.0), False),
        ("babel.roc", triads(acpp=600.0, rocstdpar=51.0), True),
        ("babel.roc", triads(acpp=600.0, rocstdpar=53.0), False),
        ("babel.roc", triads(acpp=400.0, rocstdpar=51.0), False),
        ("babel.acpp_noxnack", triads(acpp=8.0, sycl=10.0, never=1.0), True),
        ("babel.acpp_noxnack", triads(acpp=7.9, sycl=10.0, never=1.0), False),
        ("apps.two_thirds", gains(tealeaf=1.02, cloverleaf=1.02), True),
        ("apps.two_thirds", gains(tealeaf=1.02, cloverleaf=1.005), False),
        ("apps.order_of_mag", gains(tealeaf=10.0), True),
        ("apps.order_of_mag", gains(tealeaf=9.9), False),
        ("apps.icpx", gains(tealeaf=2.0, cloverleaf=2.0, minibude=1.1), True),
        ("apps.icpx", gains(tealeaf=2.0, cloverleaf=1.9, minibude=1.1), False),
        ("apps.icpx", gains(tealeaf=2.0, cloverleaf=2.0, minibude=1.2), False),
        ("concl.majority", gains(tealeaf=2.0, cloverleaf=2.0, lulesh=2.0), True),
        ("concl.majority", gains(tealeaf=2.0, cloverleaf=2.0, lulesh=1.0), False),
        ("concl.majority", gains(tealeaf=2.0, minibude=1.0, lulesh=2.0), False),
        ("lulesh.a100.mp", switched(pool=1.5, elision=1.4, prefetch=0.9), True),
        ("lulesh.a100.mp", switched(pool=1.5, elision=1.6, prefetch=0.9), False),
        ("lulesh.a100.mp", switched(pool=1.0, elision=0.9, prefetch=0.9), False),
        ("lulesh.a100.se", times(nvcpp=1.5, acpp=1.0), True),
        ("lulesh.a100.se", times(nvcpp=1.4, acpp=1.0), False),
        ("lulesh.a100.se", times(nvcpp=2.1, acpp=1.0), False),
        ("lulesh.a100.elided", share(0.7), True),
        ("lulesh.a100.elided", share(0.69), False),
        ("lulesh.a100.elided", share(0.91), False),
        ("lulesh.mi100.challenged", times(acpp=1.1, rocstdpar=1.1, host=1.0), True),
        ("lulesh.mi100.challenged", times(acpp=1.0, rocstdpar=1.1, host=1.0), False),
        ("lulesh.mi100.challenged", times(acpp=1.1, rocstdpar=0.9, host=1.0), False),
        ("lulesh.mi100.xnack", over_size(1000), True),
        ("lulesh.mi100.xnack", over_size(90), False),
    ],
)
def test_relations_are_taken_literally(claim: str, measure: Measure, holds: bool) -> None:
    judgement = judged(claim, measure)
    assert judgement.holds is holds
    assert holds or judgement.reason


def test_each_figure_is_of_the_machine_that_the_claim_is_about() -> None:
    asked: dict[str, set[str]] = {}

    def seen(claim: str, measure: Measure) -> None:
        def note(of: Mapping[str, Any]) -> dict[str, Any]:
            asked.setdefault(claim, set()).add(of["machine"])
            return measure(of)

        judged(claim, note)

    seen("babel.cpu", triads(acpp=1.0, sycl=1.0))
    seen("babel.roc", triads(acpp=1.0, rocstdpar=1.0))
    seen("apps.icpx", gains())
    seen("concl.majority", gains())
    seen("lulesh.a100.elided", share(0.8))
    seen("lulesh.mi100.xnack", over_size(1))
    assert asked == {
        "babel.cpu": {MILAN},
        "babel.roc": {MI100},
        "apps.icpx": {MAX1550},
        "concl.majority": {MACHINE, MI100, MAX1550},
        "lulesh.a100.elided": {MACHINE},
        "lulesh.mi100.xnack": {MI100},
    }


RIGHT: dict[str, Any] = {
    "heap": "shared", "aligned": "shared", "own": "heap", "foreign": "heap", "stack": "stack", "late": "heap",
    "interior": True, "first": True, "beyond": False, "of_libc": False, "freed": False, "interposed": 2,
    "offloaded": 0, "on_host": 1, "waits": 1, "ended": "well", "right": True, "host_pointers": 1,
}  # fmt: skip
ON_DEVICE = {"offloaded": 1, "on_host": 0, "waits": 0, "host_pointers": 0}
OF_LIBC = {**RIGHT, "heap": "heap", "aligned": "heap", "interposed": 0, "prefetches": 0}


def memory(of: Mapping[str, Any]) -> dict[str, Any]:
    """What the probes of the memory measure where all is as it should be."""
    if of.get("system_usm"):
        return {**OF_LIBC, **ON_DEVICE}
    if of["implementation"] == "host":
        return OF_LIBC
    return {**RIGHT, **(ON_DEVICE if of.get("memory") == "heap" else {})}


@pytest.mark.parametrize(
    ("claim", "wrong"),
    [
        ("interpose", {"heap": "heap"}),
        ("interpose", {"foreign": "shared"}),
        ("heap_only", {"stack": "shared"}),
        ("heap_only", {"offloaded": 1}),
        ("no_interpose_recursion", {"own": "shared"}),
        ("no_interpose_recursion", {"late": "shared"}),
        ("alloc_map", {"interior": False}),
        ("alloc_map", {"beyond": True}),
        ("alloc_map", {"of_libc": True}),
        ("system_usm", {"interposed": 1}),
        ("system_usm", {"prefetches": 1}),
        ("system_usm", {"host_pointers": 1}),
        ("system_usm", {"right": False}),
        ("ptr_validation", {"ended": "HostPointerInKernel"}),
        ("ptr_validation", {"waits": 0}),
        ("ptr_validation", {"right": False}),
    ],
)
def test_memory_is_judged_by_its_facts(claim: str, wrong: dict[str, Any]) -> None:
    assert judged(f"mech.{claim}", memory).holds
    refuted = judged(f"mech.{claim}", lambda of: {**memory(of), **wrong})
    assert refuted.holds is False and refuted.reason


def frees(acpp: int, crash: str | None) -> Measure:
    return lambda of: (
        {"freed": acpp, "failed": None, "left": 0} if of["implementation"] == "acpp" else {"freed": 2, "failed": crash}
    )


def churned(driver: int, each_s: float) -> Measure:
    return lambda of: {"driver": driver, "each_s": each_s if of["pool"] else 1.0}


def moved(prefetched: float, on_demand: float, faults: int = 0) -> Measure:
    """A page takes 1 s by itself."""

    def run(of: Mapping[str, Any]) -> dict[str, Any]:
        whole = prefetched if of["prefetch"] == "first" else on_demand
        return {"moving_s": 1.0 if of["nbytes"] == PAGE else whole, "faults": faults}

    return run


def ordered(within: int = 0, between: int = 1, queues: int = 2) -> Measure:
    facts = {"kernels": 9, "right": True, "overlaps_within": within, "overlaps_between": between}
    return lambda of: {**facts, "queues": 1 if of["threads"] == 1 else queues}


def looped(**waits: int) -> Measure:
    """Waits of a loop of 20 algorithms, by what is in it."""
    return lambda of: {"calls": 20, "waits": waits.get(of["body"], 20), "right": True}


def each_waits(nvcpp: int) -> Measure:
    of_loop = looped(inside=20)
    return lambda of: (
        of_loop(of) if "body" in of else {"algorithms": 15, "waits": nvcpp if of["implementation"] == "nvcpp" else 15}
    )


def prefetched(**changed: str) -> Measure:
    """`changed`: modes of which other prefetches are counted."""
    return lambda of: {"each": changed.get(of["mode"], SCRIPT[of["mode"], of["always"]]), "whole": True}


def dots(off: float) -> Measure:
    return lambda of: {"dot_gbs": off if of["xnack"] == "off" else 1000.0}


@pytest.mark.parametrize(
    ("claim", "right", "wrong"),
    [
        ("alloc_local_free_global", frees(3, "ours"), frees(2, "ours")),
        ("alloc_local_free_global", frees(3, "ours"), frees(3, None)),
        ("pool", churned(1, 0.1), churned(2, 0.1)),
        ("pool", churned(1, 0.1), churned(1, 0.11)),
        ("prefetch_rationale", moved(10.0, 11.0), moved(10.0, 10.0)),
        ("prefetch_rationale", moved(SWEPT / PAGE - 1, 1e9), moved(SWEPT / PAGE, 1e9)),
        ("prefetch_rationale", moved(10.0, 11.0), moved(10.0, 11.0, faults=1)),
        ("no_xnack_usm", dots(25.0), dots(27.0)),
        ("queue", ordered(), ordered(within=1)),
        ("queue", ordered(), ordered(between=0)),
        ("queue", ordered(), ordered(queues=1)),
        ("wait_each", each_waits(15), each_waits(14)),
        ("elision", looped(inside=1, stack=1), looped(inside=2, stack=1)),
        ("elision", looped(inside=1, stack=1), looped(inside=1, stack=10)),
        (
            "elision_tu",
            looped(external=10, allocation=10, access=10),
            looped(external=10, allocation=10, access=1),
        ),
        ("elision_result", looped(sum=10), looped(sum=1)),
        ("prefetch_modes", prefetched(), prefetched(never="1 0 0 0 0")),
        ("prefetch_modes", prefetched(), prefetched(first="1 1 0 0 0")),
    ],
)
def test_a_mechanism_is_judged_by_its_facts(claim: str, right: Measure, wrong: Measure) -> None:
    assert judged(f"mech.{claim}", right).holds
    refuted = judged(f"mech.{claim}", wrong)
    assert refuted.holds is False and refuted.reason


def deciding(tolerance: float, slow_side: str = "on_host", stayed: bool = True, sampled: bool = True) -> Measure:
    """A heuristic that offloads from this ratio on, and without samples of the host always if `sampled`."""

    def run(of: Mapping[str, Any]) -> dict[str, Any]:
        if "host_s" in of:
            ratio = of["host_s"] / (of["offload_s"] + 0.002)
            return {"stayed": stayed, "offload": ratio > tolerance, "transfer_s": 0.002}
        on_host = of["prefetch"] == "never" and (of["host"] or not sampled)
        side = slow_side if on_host else "offloaded"
        return {"on_host": 0, "offloaded": 0, side: 10, "host_s": 1.0, "offload_s": 1.0}

    return run


def test_the_heuristic_is_judged_by_its_decisions() -> None:
    assert judged("mech.heuristic", deciding(1.2)).holds
    assert judged("mech.heuristic", deciding(1.0)).holds is False, "no tolerance"
    assert judged("mech.heuristic", deciding(1.2, slow_side="offloaded")).holds is False
    assert judged("mech.heuristic", deciding(1.2, stayed=False)).holds is False
    assert judged("mech.heuristic_hostrun", deciding(1.2)).holds
    assert judged("mech.heuristic_hostrun", deciding(1.2, sampled=False)).holds is False
    assert judged("mech.heuristic_hostrun", deciding(1.2, slow_side="offloaded")).holds is False, "shows nothing"


@pytest.mark.parametrize("probe", [probes.memory, probes.host_pointer, probes.loop, probes.prefetches])
def test_the_probes_are_deterministic(probe: Scenario) -> None:
    first, second = (execute(probe, {}, record=True) for _ in range(2))
    assert first.trace_hash == second.trace_hash
    assert first.measured == second.measured


def test_mechanisms_hold_on_the_emulator() -> None:
    judges = [judge for claim, judge in PAPER.bench.judges.items() if claim.startswith("acpp.mech.")]

    def answers(points: Sequence[Point]) -> list[Result]:
        return [
            execute(
                registry.find(point.scenario),
                dict(point.parameters),
                machine=point.options.machine,
                record=point.options.record,
            )
            for point in points
        ]

    quick = PAPER.grid("quick", RunSpec())
    small = attrs.evolve(quick, work={**quick.work, "babelstream": {"size": 1 << 22, "steps": 2}})
    said = hear(judges, small, answers)
    assert {claim: judgement.reason for claim, judgement in said.items() if not judgement.holds} == {}


@pytest.mark.slow
def test_the_quick_comparison_leaves_no_claim_and_no_reason_out() -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        report = validate(PAPER, pool, jobs=2, quick=True)
    told = [claim.id for claim in PAPER.bench.claims.values() if claim.role != "input"]
    assert [finding.claim for finding in report.findings] == told
    assert [finding.claim for finding in report.findings if finding.verdict == "fails" and not finding.reason] == []
