"""Judges of SPECaccel: Table II (ratios), Table III (memory management and initialisation), and the lessons drawn.

Every benchmark runs once under each configuration, on one parameter set of the machine; sizes, run lengths and kernel
work are inputs of the programs. Table III cannot hold in full with one set of unit costs, as its cells contradict one
another; what does not hold is said, and nothing is fitted to it.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable

from offloadrt.papers.zerocopy.judges.places import (
    CONFIGURATIONS,
    COPY,
    EAGER,
    IZC,
    S2,
    SHORT,
    THREADS,
    USM,
    Grid,
    banded,
    bench,
    in_band,
    ratios,
)
from offloadrt.study.judging import Asking, Judgement
from offloadrt.study.measured import listed, number
from offloadrt.study.points import Point
from offloadrt.study.reporting.results import Result
from offloadrt.trace import HOST_TIME

SPECACCEL = "specaccel"
BENCHMARKS = ("stencil", "lbm", "ep", "spC", "bt")
MANAGEMENT, INITIALIZATION = "memory_management_s", "memory_initialization_s"
MICRO = 1e6
"""Microseconds in a second: the unit of Table III."""
NAMES = {"zc": IZC, "copy": COPY, "eager": EAGER, "implicit_zc": IZC, "usm": USM}
"""Configurations as the claims' names have them."""

LESS_DATA = "Copy's allocations, frees and copies are a smaller part of the run beside kernels and faults"
MORE_DATA = (
    "Copy allocates and frees GB at each call (free.pool_per_gib is an estimate), beside kernels of at most 6 % of one "
    "allocation (an input of the paper); zero-copy faults on an array once, not at each call (the paper's reading, the "
    "program's flag lose_translation)"
)
DEAR_TOUCH = "first touch on the GPU costs a larger part of the run"
CHEAP_TOUCH = (
    "first touch of 2 MiB (fault.service_2m and fault.populate_2m, 90 to 250 us) costs hardly more than the pool's "
    "allocation and free of as many bytes: both clear the pages (the paper's figures contradict one another here)"
)
FEW_FAULTS = (
    "at 90 to 250 us for a fault of 2 MiB (the page being populated, too, where the host never touched it) seconds "
    "need tens of GiB, more than the program touches (the paper's figures contradict one another here)"
)
DEAR_PREFAULT = (
    "a prefault clears pages that the host never touched at the cost of the pool's allocation: one set of unit costs "
    "for both (the paper's figures contradict one another here)"
)

Runs = Generator[list[Point], list[Result], dict[tuple[str, str], Result]]


def spec(grid: Grid, benchmarks: Iterable[str] = BENCHMARKS, configurations: Iterable[str] = CONFIGURATIONS) -> Runs:
    """The benchmarks under the configurations; `yield from` it."""
    places = [(benchmark, one) for benchmark in benchmarks for one in configurations]
    results = yield [
        grid.at(SPECACCEL, {"benchmark": benchmark, "configuration": one, "fraction": 1.0}) for benchmark, one in places
    ]
    return dict(zip(places, results, strict=True))


def spec_ratios(
    grid: Grid, benchmarks: Iterable[str] = BENCHMARKS, configurations: Iterable[str] = (IZC, USM, EAGER)
) -> Generator[list[Point], list[Result], dict[tuple[str, str], float]]:
    """time(copy) / time(configuration)."""
    benchmarks, configurations = tuple(benchmarks), tuple(configurations)
    found = yield from spec(grid, benchmarks, (COPY, *configurations))
    return {
        (benchmark, one): found[benchmark, COPY].elapsed_s / found[benchmark, one].elapsed_s
        for benchmark in benchmarks
        for one in configurations
    }


@bench.judge("mi300a.headline.spec", "the largest 1 - t(Copy) / t(IZC or USM), in the band, and of ep only")
def headline(grid: Grid) -> Asking:
    found = yield from spec_ratios(grid, configurations=(IZC, USM))
    loss = {benchmark: max(1 - found[benchmark, one] for one in (IZC, USM)) for benchmark in BENCHMARKS}
    worst = max(loss, key=loss.__getitem__)
    holds = worst == "ep" and in_band("mi300a.headline.spec", loss[worst])
    reason = f"the largest is that of {worst}, {loss[worst]:.3g}"
    return Judgement(listed(loss), holds, f"{reason}; {CHEAP_TOUCH}" if loss["ep"] < 0.05 else reason)


def _ratio(benchmark: str, name: str) -> None:
    claim = f"mi300a.table2.{benchmark}.{name}"

    @bench.judge(claim, f"t(Copy) / t({SHORT[NAMES[name]]}), in the band ({benchmark})")
    def ratio(grid: Grid) -> Asking:
        found = yield from spec_ratios(grid, (benchmark,), (NAMES[name],))
        value = found[benchmark, NAMES[name]]
        return banded(claim, value, f"{value:.3g}", *_why(benchmark))


def _why(benchmark: str) -> tuple[str, str]:
    """Why a ratio is below and above its band."""
    return (LESS_DATA, MORE_DATA) if benchmark == "spC" else (DEAR_TOUCH, CHEAP_TOUCH)


for _benchmark in ("stencil", "ep", "spC"):
    for _name in ("implicit_zc", "usm", "eager"):
        _ratio(_benchmark, _name)


@bench.judge("mi300a.table2.order.spC", "ratio(Eager) > ratio(IZC) >= ratio(USM) > 1 (spC)")
def order_of_spc(grid: Grid) -> Asking:
    found = yield from spec_ratios(grid, ("spC",))
    izc, usm, eager = (found["spC", one] for one in (IZC, USM, EAGER))
    said = listed({SHORT[one]: found["spC", one] for one in (EAGER, IZC, USM)}, ".4g")
    reason = "with arrays that are faulted in once, Eager Maps pays a call for every map afterwards and IZC nothing"
    return Judgement(said, eager > izc >= usm > 1.0, reason)


@bench.judge("mi300a.table2.order.ep", "1 > ratio(Eager) > ratio(IZC) = ratio(USM) (ep)")
def order_of_ep(grid: Grid) -> Asking:
    found = yield from spec_ratios(grid, ("ep",))
    izc, usm, eager = (found["ep", one] for one in (IZC, USM, EAGER))
    said = listed({SHORT[one]: found["ep", one] for one in (EAGER, IZC, USM)}, ".4g")
    parts = []
    if not eager < 1:
        parts.append(
            "Eager Maps is not slower than Copy: a prefault clears a page at the cost of the pool's allocation"
        )
    if not eager > izc:
        parts.append("faults cost no more than prefaults")
    if izc != usm:
        parts.append(f"IZC and USM differ by {abs(izc / usm - 1):.2g}")
    return Judgement(said, not parts, "; ".join(parts))


@bench.judge("mi300a.table2.order.stencil", "0.95 <= each ratio <= 1, and ratio(Eager) <= ratio(IZC) (stencil)")
def order_of_stencil(grid: Grid) -> Asking:
    found = yield from spec_ratios(grid, ("stencil",))
    izc, usm, eager = (found["stencil", one] for one in (IZC, USM, EAGER))
    said = listed({SHORT[one]: found["stencil", one] for one in (EAGER, IZC, USM)}, ".4g")
    parts = []
    if not all(0.95 <= ratio <= 1.0 for ratio in (izc, usm, eager)):
        parts.append("not all lie between 0.95 and 1: first touch costs less than Copy's two transfers and allocation")
    if eager > izc:
        parts.append("Eager Maps is better than IZC")
    return Judgement(said, not parts, "; ".join(parts))


def _overhead(benchmark: str, name: str, kind: str) -> None:
    claim = f"mi300a.table3.{benchmark}.{name}.{kind}"
    figure = MANAGEMENT if kind == "mm" else INITIALIZATION

    @bench.judge(claim, f"{figure} in us, in the band ({benchmark}, {SHORT[NAMES[name]]})")
    def overhead(grid: Grid) -> Asking:
        found = yield from spec(grid, (benchmark,), (NAMES[name],))
        value = number(found[benchmark, NAMES[name]].measured[figure]) * MICRO
        return banded(claim, value, f"{value:.3g} us", *_why_overhead(name, kind))


def _why_overhead(name: str, kind: str) -> tuple[str, str]:
    """Why an overhead is below and above its band."""
    if kind == "mi":
        return FEW_FAULTS, "the program touches more pages first on the GPU"
    if name == "eager":
        return "prefaults find their pages populated, or fewer of them", DEAR_PREFAULT
    return "less is allocated and copied", "more is allocated and copied"


for _benchmark in ("stencil", "ep"):
    for _name in ("copy", "zc", "eager"):
        for _kind in ("mm", "mi"):
            _overhead(_benchmark, _name, _kind)


@bench.judge("mi300a.spec.ep_seconds", "t(IZC) - t(Copy) in us, in the band (ep)")
def seconds_of_ep(grid: Grid) -> Asking:
    found = yield from spec(grid, ("ep",), (COPY, IZC))
    copy, izc = (found["ep", one].elapsed_s for one in (COPY, IZC))
    more = (izc - copy) * MICRO
    return banded(
        "mi300a.spec.ep_seconds",
        more,
        f"{more:.3g} us ({izc:.4g} s against {copy:.4g} s)",
        CHEAP_TOUCH,
        "faults cost more",
    )


DRIVER = ("driver", "driver lock", "drain")
"""Categories of host time that calls of allocation and free lie in."""
WORK = ("compute", "kernels")
"""Categories of host time that are no overhead."""


@bench.judge(
    "mi300a.lesson.fold",
    "host time of Copy: in copies, pool allocations and frees > in any other category but kernels and compute (QMCPack "
    "S2 with 8 threads, spC, bt)",
)
def copy_pays_for_data(grid: Grid) -> Asking:
    found = yield from spec(grid, ("spC", "bt"), (COPY,))
    (qmcpack,) = yield [grid.point({"size": S2, "threads": THREADS, "fraction": grid.fraction, "configuration": COPY})]
    said, wrong = [], []
    for name, result in (("QMCPack", qmcpack), ("spC", found["spC", COPY]), ("bt", found["bt", COPY])):
        data, others = _overheads(result)
        largest = max(others, key=others.__getitem__)
        said.append(f"{name}: {data:.3g} s, {largest} {others[largest]:.3g} s")
        if data <= others[largest]:
            meaning = f", {HOST_TIME[largest]}" if largest in HOST_TIME else ""
            wrong.append(f"{name} ({largest}{meaning})")
    return Judgement("; ".join(said), not wrong, f"something else takes more in {'; '.join(wrong)}")


def _overheads(copy: Result) -> tuple[float, dict[str, float]]:
    """Host time of Copy: in copies, allocations and frees, and in each other category that is no work."""
    spent = {name: _spent(copy, name) for name in HOST_TIME if name not in WORK}
    memory = math.fsum(call.total_s for name, call in copy.calls.items() if name.startswith("memory_pool_"))
    data = spent.pop("copies") + memory
    rest = math.fsum(spent.pop(name) for name in DRIVER) - memory
    return data, {**spent, "driver, the rest": rest}


def _spent(result: Result, category: str) -> float:
    part = result.where_time_went.get(category)
    return 0.0 if part is None else part.total_s


@bench.judge("mi300a.lesson.tlb", f"{INITIALIZATION} over time, ep > stencil (IZC and USM)")
def faults_matter_in_ep(grid: Grid) -> Asking:
    found = yield from spec(grid, ("ep", "stencil"), (IZC, USM))
    share = {
        f"{benchmark} {SHORT[one]}": number(result.measured[INITIALIZATION]) / result.elapsed_s
        for (benchmark, one), result in found.items()
    }
    holds = all(share[f"ep {SHORT[one]}"] > share[f"stencil {SHORT[one]}"] for one in (IZC, USM))
    return Judgement(listed(share), holds, "faults are no larger part of ep")


@bench.judge("mi300a.lesson.always", "t(Copy) / t(IZC or USM) < 1 for ep and stencil only (all benchmarks and QMCPack)")
def nearly_always_better(grid: Grid) -> Asking:
    of_spec = yield from spec_ratios(grid, configurations=(IZC, USM))
    of_qmcpack = yield from ratios(grid, (IZC, USM))
    below = list(dict.fromkeys(benchmark for (benchmark, _), ratio in of_spec.items() if ratio < 1))
    below += list(dict.fromkeys(f"QMCPack {size} {count}T" for (size, count, _), r in of_qmcpack.items() if r < 1))
    holds = set(below) <= {"ep", "stencil"}
    return Judgement(", ".join(below) or "none below 1", holds, "Copy is faster elsewhere as well")


@bench.judge(
    "mi300a.lesson.eager_when",
    "there is a threshold: t(Eager) < t(IZC) exactly where the bytes first touched per map exceed it (first_touch, "
    "1 MiB to 4 GiB, mapped 1, 11 and 101 times)",
)
def prefaulting_pays_beyond(grid: Grid) -> Asking:
    places = [(size, remaps) for remaps in (0, 10, 100) for size in (1, 4, 16, 64, 256, 1024, 4096)]
    results = yield [
        grid.at("first_touch", {"bytes": size << 20, "remaps": remaps, "configuration": one})
        for size, remaps in places
        for one in (IZC, EAGER)
    ]
    times = [result.elapsed_s for result in results]
    gain = {place: times[2 * number] / times[2 * number + 1] for number, place in enumerate(places)}
    pays = [size / (remaps + 1) for (size, remaps), value in gain.items() if value > 1]
    does_not = [size / (remaps + 1) for (size, remaps), value in gain.items() if value <= 1]
    if not pays or not does_not:
        return Judgement("pays everywhere" if pays else "pays nowhere", False, "there is no crossover")
    said = f"pays from {min(pays):.3g} MiB a map, does not up to {max(does_not):.3g} MiB"
    return Judgement(said, max(does_not) < min(pays), "bytes per map alone do not decide it")
