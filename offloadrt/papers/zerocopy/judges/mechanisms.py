"""Judges of SPECaccel, and of mechanisms: facts counted in small recorded runs, and how a configuration is chosen.

First come the judges of SPECaccel: Table II (ratios), Table III (memory management and initialisation), and the lessons
that the paper draws.

Every benchmark runs once under each configuration, on one parameter set of the machine; sizes, run lengths and kernel
work are inputs of the programs. Table III cannot hold in full with one set of unit costs, as its cells contradict one
another; what does not hold is stated, and nothing is fitted to it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import attrs

from offloadrt.extensions.evidence.validation.judging import (
    Asking,
    Hearing,
    Judgement,
    Reading,
    listed,
    longer,
    number,
    numbers,
    unless,
)
from offloadrt.papers.zerocopy.judges import probes
from offloadrt.papers.zerocopy.judges.figures import (
    CONFIGURATIONS,
    COPY,
    EAGER,
    IZC,
    S2,
    SHORT,
    THREADS,
    USM,
    QmcpackGrid,
    bench,
    ratios_of,
)
from offloadrt.runtime.environment import select_configuration
from offloadrt.study.reporting.results import Result
from offloadrt.study.scripts.definition import Scenario
from offloadrt.study.scripts.parameters import Value
from offloadrt.trace import HOST_TIME

SPECACCEL = "specaccel"
BENCHMARKS = ("stencil", "lbm", "ep", "spC", "bt")
INITIALIZATION = "memory_initialization_s"
PARTS = (0.04, 0.08)
"""The parts of a run from which the smallest grid extrapolates. In both, every benchmark has a whole number of
iterations.
"""
MICRO = 1e6
"""Microseconds in a second: the unit of Table III."""

LESS_DATA = "Copy's allocations, frees and copies are a smaller part of the run beside kernels and faults"
MORE_DATA = (
    "Copy allocates GB at each call, and clears them (alloc.pool_per_gib), beside kernels of at most 6 % of one "
    "allocation (an input of the paper); zero-copy faults on an array once, not at each call (the paper's reading, the "
    "program's flag lose_translation)"
)
DEAR_TOUCH = "first touch on the GPU costs a larger part of the run"
CHEAP_TOUCH = (
    "first touch of 2 MiB (fault.service_2m and fault.populate_2m, about 0.2 ms) costs two to three times what the "
    "pool's allocation of as many bytes does: both clear the pages (the paper's figures contradict one another here)"
)
FEW_FAULTS = (
    "at about 0.2 ms for a fault of 2 MiB (the page being populated, too, where the host never touched it) seconds "
    "need more than 10 GiB, more than the program touches (the paper's figures contradict one another here)"
)
DEAR_PREFAULT = (
    "a prefault populates pages that the host never touched as a fault does: one cost for both "
    "(fault.populate_2m; the paper's figures contradict one another here)"
)

Place = tuple[str, str]
"""A run: benchmark and configuration."""


def spec(
    grid: QmcpackGrid, benchmarks: Iterable[str] = BENCHMARKS, configurations: Iterable[str] = CONFIGURATIONS
) -> Asking[dict[Place, Result]]:
    """Run SPECaccel's benchmarks under memory configurations; return the results by benchmark and configuration.

    A function that judges a claim calls this with `yield from`, which hands on its requests for runs.
    """
    places = [(benchmark, configuration) for benchmark in benchmarks for configuration in configurations]
    parts = (1.0,) if grid.whole else PARTS
    results = yield [
        grid.at(SPECACCEL, {"benchmark": benchmark, "configuration": configuration, "fraction": part})
        for benchmark, configuration in places
        for part in parts
    ]
    if grid.whole:
        return dict(zip(places, results, strict=True))
    return {place: _whole(*results[2 * at : 2 * at + 2]) for at, place in enumerate(places)}


def _whole(shorter: Result, longer_: Result) -> Result:
    """Extrapolate the times of a whole run from two parts of it: every iteration is assumed to take the same time."""
    further = (1.0 - PARTS[1]) / (PARTS[1] - PARTS[0])
    measured = {
        name: value + further * (value - number(shorter.measured[name])) if isinstance(value, float) else value
        for name, value in longer_.measured.items()
    }
    elapsed_s = longer_.elapsed_s + further * (longer_.elapsed_s - shorter.elapsed_s)
    return attrs.evolve(longer_, elapsed_s=elapsed_s, measured=measured)


def spec_ratios(
    grid: QmcpackGrid, benchmarks: Iterable[str] = BENCHMARKS, configurations: Iterable[str] = (IZC, USM, EAGER)
) -> Asking[dict[Place, float]]:
    """Measure time(copy) / time(configuration) of SPECaccel's benchmarks, by benchmark and memory configuration.

    A function that judges a claim calls this with `yield from`, which hands on its requests for runs.
    """
    benchmarks, configurations = tuple(benchmarks), tuple(configurations)
    results = yield from spec(grid, benchmarks, (COPY, *configurations))
    return {
        (benchmark, configuration): results[benchmark, COPY].elapsed_s / results[benchmark, configuration].elapsed_s
        for benchmark in benchmarks
        for configuration in configurations
    }


@bench.judge("mi300a.headline.spec")
def headline(grid: QmcpackGrid) -> Hearing:
    ratio = yield from spec_ratios(grid, configurations=(IZC, USM))
    loss = {
        benchmark: max(1 - ratio[benchmark, configuration] for configuration in (IZC, USM)) for benchmark in BENCHMARKS
    }
    worst = max(loss, key=loss.__getitem__)
    emulated, reason = listed(loss), f"the largest is that of {worst}, {loss[worst]:.3g}"
    if worst != "ep":
        return Judgement(emulated, False, f"{reason}; {CHEAP_TOUCH}")
    return Reading(emulated, loss["ep"], f"{reason}; {CHEAP_TOUCH}", reason)


@bench.judge("mi300a.table2.stencil.*", "mi300a.table2.ep.*", "mi300a.table2.spC.*")
def table2(grid: QmcpackGrid, benchmark: str, configuration: str) -> Hearing:
    ratio = yield from spec_ratios(grid, (benchmark,), (configuration,))
    (value,) = ratio.values()
    return Reading(
        f"{value:.3g}", value, *((LESS_DATA, MORE_DATA) if benchmark == "spC" else (DEAR_TOUCH, CHEAP_TOUCH))
    )


def _table2_of(grid: QmcpackGrid, benchmark: str) -> Asking[tuple[str, tuple[float, float, float]]]:
    """Measure the three ratios of a benchmark; return them in words, and as numbers for IZC, USM and Eager Maps."""
    ratio = yield from spec_ratios(grid, (benchmark,))
    emulated = listed(
        {SHORT[configuration]: ratio[benchmark, configuration] for configuration in (EAGER, IZC, USM)}, ".4g"
    )
    return emulated, (ratio[benchmark, IZC], ratio[benchmark, USM], ratio[benchmark, EAGER])


@bench.judge("mi300a.table2.order.spC")
def order_of_spc(grid: QmcpackGrid) -> Hearing:
    emulated, (izc, usm, eager) = yield from _table2_of(grid, "spC")
    reason = "with arrays that are faulted in once, Eager Maps pays a call for every map afterwards and IZC nothing"
    return Judgement(emulated, longer(eager, izc) and izc >= usm and longer(usm, 1.0), reason)


@bench.judge("mi300a.table2.order.ep")
def order_of_ep(grid: QmcpackGrid) -> Hearing:
    emulated, (izc, usm, eager) = yield from _table2_of(grid, "ep")
    wrong = {
        "Eager Maps is not slower than Copy: a prefault clears a page at the cost of the pool's allocation": not longer(
            1.0, eager
        ),
        "faults cost no more than prefaults": not longer(eager, izc),
        f"IZC and USM differ by {abs(izc / usm - 1):.2g}": izc != usm,
    }
    return unless(emulated, wrong)


@bench.judge("mi300a.table2.order.stencil")
def order_of_stencil(grid: QmcpackGrid) -> Hearing:
    claim = bench.claims["mi300a.table2.order.stencil"]
    emulated, ratios = yield from _table2_of(grid, "stencil")
    izc, _, eager = ratios
    low, high = f"{claim.at_least:g}", f"{claim.at_most:g}"
    outside = f"not all lie between {low} and {high}: first touch costs less than Copy's two transfers and allocation"
    inside = all(map(claim.admits, ratios))
    return unless(emulated, {outside: not inside, "Eager Maps is better than IZC": eager > izc})


@bench.judge("mi300a.table3.stencil.*", "mi300a.table3.ep.*")
def table3(grid: QmcpackGrid, benchmark: str, configuration: str, figure: str) -> Hearing:
    results = yield from spec(grid, (benchmark,), (configuration,))
    value = number(results[benchmark, configuration].measured[figure]) * MICRO
    if figure == INITIALIZATION:
        reasons = FEW_FAULTS, "the program touches more pages first on the GPU"
    elif configuration == EAGER:
        reasons = "prefaults find their pages populated, or fewer of them", DEAR_PREFAULT
    else:
        reasons = "less is allocated and copied", "more is allocated and copied"
    return Reading(f"{value:.3g} us", value, *reasons)


@bench.judge("mi300a.spec.ep_seconds")
def seconds_of_ep(grid: QmcpackGrid) -> Hearing:
    results = yield from spec(grid, ("ep",), (COPY, IZC))
    copy, izc = (results["ep", configuration].elapsed_s for configuration in (COPY, IZC))
    more = (izc - copy) * MICRO
    return Reading(f"{more:.3g} us ({izc:.4g} s against {copy:.4g} s)", more, CHEAP_TOUCH, "faults cost more")


DRIVER = ("driver", "driver lock", "drain")
"""Categories of host time to which the time of allocating and freeing calls belongs."""
WORK = ("compute", "kernels")
"""Categories of host time that are not overhead."""


@bench.judge("mi300a.lesson.fold")
def copy_pays_for_data(grid: QmcpackGrid) -> Hearing:
    results = yield from spec(grid, ("spC", "bt"), (COPY,))
    (qmcpack,) = yield [grid.point({"size": S2, "threads": THREADS, "fraction": grid.fraction, "configuration": COPY})]
    emulated, wrong = [], []
    for name, result in (("QMCPack", qmcpack), ("spC", results["spC", COPY]), ("bt", results["bt", COPY])):
        data, others = _overheads(result)
        largest = max(others, key=others.__getitem__)
        emulated.append(f"{name}: {data:.3g} s, {largest} {others[largest]:.3g} s")
        if data <= others[largest]:
            meaning = f", {HOST_TIME[largest]}" if largest in HOST_TIME else ""
            wrong.append(f"{name} ({largest}{meaning})")
    return Judgement("; ".join(emulated), not wrong, f"something else takes more in {'; '.join(wrong)}")


def _overheads(copy: Result) -> tuple[float, dict[str, float]]:
    """Split Copy's overhead on the host into two parts: copies, allocations and frees; and each other category.

    Returns the seconds of the first part, and those of the others by category.
    """
    shares = copy.where_time_went
    spent = {name: shares[name].total_s if name in shares else 0.0 for name in HOST_TIME if name not in WORK}
    memory = math.fsum(call.total_s for name, call in copy.calls.items() if name.startswith("memory_pool_"))
    data = spent.pop("copies") + memory
    rest = math.fsum(spent.pop(name) for name in DRIVER) - memory
    return data, {**spent, "driver, the rest": rest}


@bench.judge("mi300a.lesson.tlb")
def faults_matter_in_ep(grid: QmcpackGrid) -> Hearing:
    results = yield from spec(grid, ("ep", "stencil"), (IZC, USM))
    share = {
        f"{benchmark} {SHORT[configuration]}": number(result.measured[INITIALIZATION]) / result.elapsed_s
        for (benchmark, configuration), result in results.items()
    }
    holds = all(
        share[f"ep {SHORT[configuration]}"] > share[f"stencil {SHORT[configuration]}"] for configuration in (IZC, USM)
    )
    return Judgement(listed(share), holds, "faults are no larger part of ep")


@bench.judge("mi300a.lesson.always")
def nearly_always_better(grid: QmcpackGrid) -> Hearing:
    of_spec = yield from spec_ratios(grid, configurations=(IZC, USM))
    of_qmcpack = yield from ratios_of(grid, (IZC, USM))
    below = dict.fromkeys(benchmark for (benchmark, _), ratio in of_spec.items() if longer(1.0, ratio))
    below |= dict.fromkeys(
        f"QMCPack {size} {count}T" for (size, count, _), ratio in of_qmcpack.items() if longer(1.0, ratio)
    )
    reason = "Copy is faster elsewhere as well"
    return Judgement(", ".join(below) or "none below 1", set(below) <= {"ep", "stencil"}, reason)


@bench.judge("mi300a.lesson.eager_when")
def prefaulting_pays_beyond(grid: QmcpackGrid) -> Hearing:
    places = [(size, remaps) for remaps in (0, 10, 100) for size in (1, 4, 16, 64, 256, 1024, 4096)]
    results = yield [
        grid.at("first_touch", {"bytes": size << 20, "remaps": remaps, "configuration": configuration})
        for size, remaps in places
        for configuration in (IZC, EAGER)
    ]
    pays: list[float] = []
    does_not: list[float] = []
    for (size, remaps), izc, eager in zip(places, results[::2], results[1::2], strict=True):
        (pays if izc.elapsed_s > eager.elapsed_s else does_not).append(size / (remaps + 1))
    if not pays or not does_not:
        return Judgement("pays everywhere" if pays else "pays nowhere", False, "there is no crossover")
    emulated = f"pays from {min(pays):.3g} MiB a map, does not up to {max(does_not):.3g} MiB"
    return Judgement(emulated, max(does_not) < min(pays), "bytes per map alone do not decide it")


DISCRETE = "alex-a100"
"""A machine with a discrete GPU."""
COPIED_IN = (8 << 20, 512 << 10)
"""Two sizes in bytes of a copy: one larger than `copy.async_limit`, and one smaller."""


def _as_expected(expected: Mapping[str, Value], fact: Mapping[str, Value]) -> Judgement:
    """Judge that a probe measured the expected facts."""
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
"""Claims that state facts, each with the probe and the parameters of the runs that measure them."""


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
    """Measure the first or the repeated prefault for several numbers of pages; return times in words and seconds."""
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
