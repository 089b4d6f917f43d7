"""Judges of mechanisms: facts counted in small recorded runs, and the rules that choose a configuration."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import partial

import attrs

from offloadrt.papers.zerocopy.judges import probes
from offloadrt.papers.zerocopy.judges.figures import COPY, EAGER, IZC, S2, SHORT, USM, QmcpackGrid, bench
from offloadrt.runtime.environment import select_configuration
from offloadrt.study.scripts.definition import Scenario
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.validation.judging import Asking, Hearing, Judgement, longer, number, numbers, unless

DISCRETE = "alex-a100"
"""A machine with a discrete GPU."""
COPIED_IN = (8 << 20, 512 << 10)
"""Bytes of a copy that is larger than `copy.async_limit`, and of one that is smaller."""


def _as_expected(expected: Mapping[str, Value], fact: Mapping[str, Value]) -> Judgement:
    """Judge that the facts are as expected."""
    wrong = [f"{name} is {fact[name]} instead of {value}" for name, value in expected.items() if fact[name] != value]
    emulated = ", ".join(f"{name.replace('_', ' ')}: {fact[name]}" for name in expected)
    return unless(emulated, wrong)


FACTS: dict[str, tuple[Scenario, list[dict[str, Value]]]] = {
    "copy_map": (probes.maps, [{"configuration": COPY}]),
    "izc_globals": (probes.global_variable, [{"configuration": IZC}]),
    "rocr_bulk_prefault": (probes.pages, [{"configuration": COPY, "count": 8, "filled": False}]),
    "xnack_page_by_page": (probes.pages, [{"configuration": zero_copy, "count": 8} for zero_copy in (IZC, USM)]),
    "eager_prefault": (probes.pages, [{"configuration": EAGER, "count": 64}]),
    "eager_requires_map": (probes.pages, [{"configuration": EAGER, "count": 8}]),
    "alloc_sync": (probes.regions, [{"configuration": COPY, "threads": 4}]),
    "init_calls": (probes.steps, [{"configuration": IZC, "large": large} for large in (False, True)]),
}
"""Claims that state facts, with the probe and the runs that measure them."""


def _measured(
    grid: QmcpackGrid, facts: Mapping[str, Value], *, probe: Scenario, runs: Sequence[Mapping[str, Value]]
) -> Hearing:
    """Judge that a probe measures the facts of a claim in each of its runs."""
    judgements = [_as_expected(facts, fact) for fact in (yield from grid.facts(probe, runs))]
    return next((judgement for judgement in judgements if not judgement.holds), judgements[-1])


for _name, (_probe, _runs) in FACTS.items():
    bench.judge(f"mi300a.mech.{_name}")(partial(_measured, probe=_probe, runs=_runs))


def _pages(grid: QmcpackGrid, *configurations: str) -> Asking[list[dict[str, Value]]]:
    """Run the probe on a kernel that sweeps twice over eight pages, under each configuration."""
    runs: list[dict[str, Value]] = [{"configuration": each, "count": 8} for each in configurations]
    return (yield from grid.facts(probes.pages, runs))


@bench.judge("mi300a.mech.copy_same_storage")
def copies_double_the_footprint(grid: QmcpackGrid, each: float, percent: float) -> Hearing:
    (fact,) = yield from grid.facts(probes.maps, [{"configuration": COPY}])
    places: list[dict[str, Value]] = [{"configuration": COPY, "piece": piece} for piece in COPIED_IN]
    beside = yield from grid.facts(probes.copies_beside_a_kernel, places)
    emulated = [f"pool {fact['pool_bytes']} of {fact['mapped_bytes']} B"]
    wrong = ["the pool holds another number of bytes"] if fact["pool_bytes"] != fact["mapped_bytes"] else []
    for copies in beside:
        traffic, engine = number(copies["traffic_per_byte"]), copies["engine"]
        none = abs(traffic) < percent / 100
        emulated.append(f"{engine}: {traffic:.3g} bytes of traffic a byte{' (not modelled)' if none else ''}")
        if not copies["copied_in_kernel"]:
            wrong.append(f"not all copies by the {engine} run beside the kernel")
        elif none:
            wrong.append(f"the memory traffic of copies by the {engine} is not modelled: kernels do not slow")
        elif not math.isclose(traffic, each, rel_tol=percent / 100):
            wrong.append(f"copies by the {engine} take {traffic:.3g} n / mem.bw from kernels")
    return unless("; ".join(emulated), wrong)


@bench.judge("mi300a.mech.usm_globals")
def usm_globals(grid: QmcpackGrid, facts: Mapping[str, Value]) -> Hearing:
    (fact,) = yield from grid.facts(probes.global_variable, [{"configuration": USM}])
    judgement, more = _as_expected(facts, fact), number(fact["more_time_s"])
    reason = judgement.reason or "the kernel with the global takes no longer"
    return Judgement(f"{judgement.emulated}, {more * 1e6:.3g} us more", bool(judgement.holds) and more > 0, reason)


@bench.judge("mi300a.mech.usm_not_portable")
def usm_is_not_portable(grid: QmcpackGrid) -> Hearing:
    (fact,) = yield from grid.facts(probes.without_unified_memory, [{"configuration": USM}])
    error = str(fact["error"])
    refused = error.startswith(("UserError: ", "UnifiedMemoryUnavailable: ")) and "gpu.unified_memory is false" in error
    return Judgement(error, refused and fact["copies"] == 0, "it runs, falls back to Copy, or fails for another reason")


@bench.judge("mi300a.mech.izc_detect")
def detection(grid: QmcpackGrid) -> Hearing:
    yield []
    wrong = []
    for apu, xnack, unified, maps in itertools.product((False, True), repeat=4):
        chosen = select_configuration(False, apu, xnack, unified, {"OMPX_APU_MAPS": "1"} if maps else {})
        if chosen != (IZC if (apu or maps) and xnack else COPY):
            wrong.append(f"APU {apu}, XNACK {xnack}, OMPX_APU_MAPS {maps}: {chosen}")
    return unless(f"{16 - len(wrong)} of 16 rows", wrong)


@bench.judge("mi300a.mech.izc_discrete")
def discrete(grid: QmcpackGrid) -> Hearing:
    points = [
        grid.point({"configuration": configuration}, scenario=probes.maps) for configuration in (COPY, "environment")
    ]
    copy, chosen = yield [
        attrs.evolve(point, options=attrs.evolve(point.options.elsewhere(DISCRETE), hash=True, record=True))
        for point in points
    ]
    same = copy.trace_hash == chosen.trace_hash
    return Judgement(f"trace hashes {'equal' if same else 'differ'}", same, "the program behaves otherwise than Copy")


@bench.judge("mi300a.mech.izc_usm_differ_only_globals")
def only_globals_differ(grid: QmcpackGrid) -> Hearing:
    izc, usm = yield [
        grid.at("qmcpack", {"size": S2, "threads": 8, "configuration": configuration, "fraction": 0.001}, hash=True)
        for configuration in (IZC, USM)
    ]
    same = izc.trace_hash == usm.trace_hash
    emulated = f"{izc.events:,} and {usm.events:,} events, hashes {'equal' if same else 'differ'}"
    return Judgement(emulated, same, "the two configurations do something differently besides globals")


@bench.judge("mi300a.mech.xnack_first_touch")
def faults_once(grid: QmcpackGrid) -> Hearing:
    facts = yield from _pages(grid, IZC, USM)
    emulated, wrong = [], []
    for configuration, fact in zip((IZC, USM), facts, strict=True):
        first, again, stalled = numbers(fact, "kernel_first_s", "kernel_again_s", "stalled_s")
        longer = first - again
        emulated.append(
            f"{SHORT[configuration]}: {fact['faults_first']} then {fact['faults_again']} faults "
            f"for {fact['pages']} pages, "
            f"{longer * 1e6:.4g} us longer"
        )
        if fact["faults_first"] != fact["pages"]:
            wrong.append("the first kernel does not fault once for each page")
        if fact["faults_again"] != 0:
            wrong.append("a page faults twice")
        if stalled <= 0:
            wrong.append("the kernel does not stall")
        if not math.isclose(longer, stalled, rel_tol=1e-6):
            wrong.append(f"the kernel is {longer:.4g} s longer and stalled for {stalled:.4g} s")
    return unless("; ".join(emulated), wrong)


def _prefaults(grid: QmcpackGrid, counts: Sequence[int], turn: str) -> Asking[tuple[str, list[float]]]:
    """Measure the first or the repeated prefault for several numbers of pages; return words and seconds."""
    asked: list[dict[str, Value]] = [{"configuration": EAGER, "count": count, "filled": True} for count in counts]
    facts = yield from grid.facts(probes.pages, asked)
    times = [number(fact[f"prefault_{turn}_s"]) for fact in facts]
    return ", ".join(f"{count}: {dt * 1e6:.4g} us" for count, dt in zip(counts, times, strict=True)), times


@bench.judge("mi300a.mech.eager_cost_first")
def first_prefault(grid: QmcpackGrid, counts: Sequence[int]) -> Hearing:
    emulated, times = yield from _prefaults(grid, counts, "first")
    places = itertools.pairwise(zip(counts, times, strict=True))
    slopes = [(after - before) / (more - fewer) for (fewer, before), (more, after) in places]
    straight = all(math.isclose(slope, slopes[0], rel_tol=1e-6) for slope in slopes)
    return Judgement(emulated, straight and slopes[0] > 0, "the first call is no straight line over the pages")


@bench.judge("mi300a.mech.eager_cost_repeat")
def repeated_prefault(grid: QmcpackGrid, counts: Sequence[int]) -> Hearing:
    emulated, times = yield from _prefaults(grid, counts, "again")
    holds = times[0] > 0 and not longer(max(times), min(times))
    return Judgement(emulated, holds, "the repeated call depends on the pages")


@bench.judge("mi300a.mech.eager_vs_xnack_repeat")
def repeats(grid: QmcpackGrid) -> Hearing:
    eager, izc = yield from _pages(grid, EAGER, IZC)
    cost = number(eager["prefault_again_s"])
    touch, no_call = numbers(izc, "faults_again", "prefault_again_s")
    emulated = f"{cost * 1e6:.3g} us a call; {touch:g} faults, {no_call:g} s under IZC"
    return Judgement(emulated, cost > 0 and touch == 0, "a repeat costs nothing under Eager, or something under IZC")


@bench.judge("mi300a.mech.eager_no_xnack")
def eager_without_xnack(grid: QmcpackGrid) -> Hearing:
    (fact,) = yield from grid.facts(probes.touches_unmapped, [{"configuration": EAGER, "xnack": False}])
    holds = fact["mapped"] == "ok" and str(fact["unmapped"]).startswith("MemoryAccessFault: ")
    emulated = f"mapped: {fact['mapped']}, unmapped: {fact['unmapped']}"
    return Judgement(emulated, holds, "a mapped array fails, or an unmapped one does not die of a memory access fault")


@bench.judge("mi300a.mech.signals")
def what_is_waited_for(grid: QmcpackGrid, percent: float) -> Hearing:
    copy, izc = yield from grid.facts(probes.waits, [{"configuration": configuration} for configuration in (COPY, IZC)])
    emulated = "; ".join(
        f"{name}: {fact['waits']} waits for {fact['kernels']} kernels, {fact['for_kernels']} for kernels, "
        f"{fact['for_copies']} for copies"
        for name, fact in (("Copy", copy), ("IZC", izc))
    )
    waits, kernels, for_kernels, for_copies = numbers(copy, "waits", "kernels", "for_kernels", "for_copies")
    izc_waits, izc_kernels = numbers(izc, "waits", "kernels")
    wrong = {
        f"Copy waits {copy['for_nothing']} times for neither": waits != for_kernels + for_copies,
        "Copy does not wait for each kernel, or for no copy": for_kernels != kernels or for_copies == 0,
        "IZC waits for something else than kernels, or not for all of them": (
            abs(izc_waits - izc_kernels) > percent / 100 * izc_kernels
        ),
    }
    return unless(emulated, wrong)
