"""Judges of mechanisms: facts counted in small recorded runs, and the rules that choose a configuration."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import attrs

from offloadrt.papers.zerocopy.judges.places import COPY, EAGER, IZC, S2, SHORT, USM, Grid, bench
from offloadrt.runtime.environment import select_configuration
from offloadrt.study.judging import Asking, Judgement
from offloadrt.study.measured import number
from offloadrt.study.scripts.parameters import Value

PROBES = f"{__file__.rpartition('/')[0]}/probes.py"
"""The file of small recorded runs."""
DISCRETE = "alex-a100"
"""A machine with a discrete GPU."""
COPIED_IN = (8 << 20, 512 << 10)
"""Bytes of a copy that is larger than `copy.async_limit`, and of one that is smaller."""


def _facts(expected: Mapping[str, Value], fact: Mapping[str, Value]) -> Judgement:
    """Holds when the facts are as expected."""
    wrong = [f"{name} is {fact[name]} instead of {value}" for name, value in expected.items() if fact[name] != value]
    said = ", ".join(f"{name.replace('_', ' ')}: {fact[name]}" for name in expected)
    return Judgement(said, not wrong, "; ".join(wrong))


@bench.judge(
    "mi300a.mech.copy_map",
    "map(to) and map(from) of an array each under Copy: 2 pool allocations, 1 copy before and 1 after the kernel",
)
def copy_map(grid: Grid) -> Asking:
    (fact,) = yield from grid.facts(f"{PROBES}:maps", [{"configuration": COPY}])
    return _facts({"allocations": 2, "copies_before_kernel": 1, "copies_after_kernel": 1, "copies": 2}, fact)


@bench.judge(
    "mi300a.mech.copy_same_storage",
    "the pool holds as many bytes as are mapped, besides the host's own (Copy); a kernel at full bandwidth takes 2 n / "
    "mem.bw longer, to 5 %, beside copies of n bytes: one by a blit kernel, and many through a DMA ring",
)
def copies_double_the_footprint(grid: Grid) -> Asking:
    (fact,) = yield from grid.facts(f"{PROBES}:maps", [{"configuration": COPY}])
    places: list[dict[str, Value]] = [{"configuration": COPY, "piece": piece} for piece in COPIED_IN]
    beside = yield from grid.facts(f"{PROBES}:copies_beside_a_kernel", places)
    said = [f"pool {fact['pool_bytes']} of {fact['mapped_bytes']} B"]
    wrong = []
    if fact["pool_bytes"] != fact["mapped_bytes"]:
        wrong.append("the pool holds another number of bytes")
    for copies in beside:
        traffic = number(copies["traffic_per_byte"])
        none = abs(traffic) < 0.05
        said.append(f"{copies['engine']}: {traffic:.3g} bytes of traffic a byte{' (not modelled)' if none else ''}")
        if not copies["copied_in_kernel"]:
            wrong.append(f"not all copies by the {copies['engine']} run beside the kernel")
        elif none:
            wrong.append(f"the memory traffic of copies by the {copies['engine']} is not modelled: kernels do not slow")
        elif not math.isclose(traffic, 2, rel_tol=0.05):
            wrong.append(f"copies by the {copies['engine']} take {traffic:.3g} n / mem.bw from kernels")
    return Judgement("; ".join(said), not wrong, "; ".join(wrong))


@bench.judge(
    "mi300a.mech.usm_globals",
    "under USM a map of a global copies nothing, kernels see the host's value at once, and take longer by an access",
)
def usm_globals(grid: Grid) -> Asking:
    (fact,) = yield from grid.facts(f"{PROBES}:global_variable", [{"configuration": USM}])
    judgement = _facts({"copies_per_map": 0, "seen_unmapped": 2.0, "seen_mapped": 2.0}, fact)
    more = number(fact["more_time_s"])
    reason = judgement.reason or "the kernel with the global takes no longer"
    return Judgement(f"{judgement.emulated}, {more * 1e6:.3g} us more", bool(judgement.holds) and more > 0, reason)


@bench.judge(
    "mi300a.mech.izc_globals",
    "under IZC a map(always, to) of a global is one copy, and kernels see the old value until then",
)
def izc_globals(grid: Grid) -> Asking:
    (fact,) = yield from grid.facts(f"{PROBES}:global_variable", [{"configuration": IZC}])
    return _facts({"copies_per_map": 1, "seen_unmapped": 1.0, "seen_mapped": 2.0}, fact)


@bench.judge(
    "mi300a.mech.usm_not_portable", "USM on a device without unified memory: the error that says so, and no copy"
)
def usm_is_not_portable(grid: Grid) -> Asking:
    (fact,) = yield from grid.facts(f"{PROBES}:without_unified_memory", [{"configuration": USM}])
    error = str(fact["error"])
    refused = error.startswith(("UserError: ", "UnifiedMemoryUnavailable: ")) and "gpu.unified_memory is false" in error
    return Judgement(error, refused and fact["copies"] == 0, "it runs, falls back to Copy, or fails for another reason")


@bench.judge(
    "mi300a.mech.izc_detect",
    "without requires unified_shared_memory: zero-copy if and only if (APU and XNACK) or (OMPX_APU_MAPS=1 and XNACK), "
    "over all inputs",
)
def detection(grid: Grid) -> Asking:
    yield []
    wrong = []
    for apu, xnack, unified, maps in itertools.product((False, True), repeat=4):
        environ = {"OMPX_APU_MAPS": "1"} if maps else {}
        chosen = select_configuration(False, apu, xnack, unified, environ)
        expected = IZC if (apu and xnack) or (maps and xnack) else COPY
        if chosen != expected:
            wrong.append(f"APU {apu}, XNACK {xnack}, OMPX_APU_MAPS {maps}: {chosen}")
    return Judgement(f"{16 - len(wrong)} of 16 rows", not wrong, "; ".join(wrong))


@bench.judge(
    "mi300a.mech.izc_discrete",
    "on a discrete GPU without OMPX_APU_MAPS the environment chooses Copy, and both runs have one trace hash",
)
def discrete(grid: Grid) -> Asking:
    points = [grid.point({"configuration": one}, scenario=f"{PROBES}:maps") for one in (COPY, "environment")]
    copy, chosen = yield [
        attrs.evolve(point, options=attrs.evolve(point.options, machine=DISCRETE, hash=True, record=True))
        for point in points
    ]
    same = copy.trace_hash == chosen.trace_hash
    return Judgement(f"trace hashes {'equal' if same else 'differ'}", same, "the program behaves otherwise than Copy")


@bench.judge(
    "mi300a.mech.izc_usm_differ_only_globals", "trace hashes of USM and IZC are equal without globals (QMCPack S2)"
)
def only_globals_differ(grid: Grid) -> Asking:
    hashes = yield [
        grid.at("qmcpack", {"size": S2, "threads": 8, "configuration": one, "fraction": 0.001}, hash=True)
        for one in (IZC, USM)
    ]
    same = hashes[0].trace_hash == hashes[1].trace_hash
    return Judgement(
        f"{hashes[0].events:,} and {hashes[1].events:,} events, hashes {'equal' if same else 'differ'}",
        same,
        "the two configurations do something differently besides globals",
    )


def _zero_copy(count: int = 8, *, configuration: str = IZC, filled: bool = True) -> dict[str, Value]:
    return {"configuration": configuration, "count": count, "filled": filled}


@bench.judge(
    "mi300a.mech.xnack_first_touch",
    "faults in the first kernel = pages, in the second 0; first kernel less second = time stalled > 0 (IZC and USM)",
)
def faults_once(grid: Grid) -> Asking:
    facts = yield from grid.facts(f"{PROBES}:pages", [_zero_copy(configuration=one) for one in (IZC, USM)])
    said, wrong = [], []
    for one, fact in zip((IZC, USM), facts, strict=True):
        longer = number(fact["kernel_first_s"]) - number(fact["kernel_again_s"])
        stalled = number(fact["stalled_s"])
        said.append(
            f"{SHORT[one]}: {fact['faults_first']} then {fact['faults_again']} faults for {fact['pages']} pages, "
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
    return Judgement("; ".join(said), not wrong, "; ".join(wrong))


@bench.judge("mi300a.mech.rocr_bulk_prefault", "faults in kernels on pool memory: none (Copy, pages never touched)")
def pool_never_faults(grid: Grid) -> Asking:
    (fact,) = yield from grid.facts(f"{PROBES}:pages", [_zero_copy(configuration=COPY, filled=False)])
    return _facts({"faults_first": 0, "faults_again": 0}, fact)


@bench.judge(
    "mi300a.mech.xnack_page_by_page", "every fault lies inside its kernel and maps one page of 2 MiB (IZC and USM)"
)
def page_by_page(grid: Grid) -> Asking:
    facts = yield from grid.facts(f"{PROBES}:pages", [_zero_copy(configuration=one) for one in (IZC, USM)])
    judged = [_facts({"faults_in_kernel": True, "most_pages_a_fault": 1, "faults_first": 8}, fact) for fact in facts]
    return judged[0] if not judged[0].holds else judged[1]


@bench.judge(
    "mi300a.mech.eager_prefault",
    "after a map every page of the range has a translation; pool allocations and copies from the first map on: none "
    "(Eager)",
)
def eager_covers(grid: Grid) -> Asking:
    (fact,) = yield from grid.facts(f"{PROBES}:pages", [_zero_copy(64, configuration=EAGER)])
    expected = {"covered_first": True, "faults_first": 0, "allocations_from_first_map": 0, "copies_from_first_map": 0}
    return _facts(expected, fact)


def _prefaults(grid: Grid, counts: tuple[int, ...], turn: str) -> Asking:
    facts = yield from grid.facts(f"{PROBES}:pages", [_zero_copy(count, configuration=EAGER) for count in counts])
    times = [number(fact[f"prefault_{turn}_s"]) for fact in facts]
    said = ", ".join(f"{count}: {dt * 1e6:.4g} us" for count, dt in zip(counts, times, strict=True))
    if turn == "again":
        return Judgement(
            said, times[0] > 0 and max(times) - min(times) < 1e-12, "the repeated call depends on the pages"
        )
    slopes = [(b - a) / (n - m) for (m, a), (n, b) in itertools.pairwise(zip(counts, times, strict=True))]
    straight = all(math.isclose(slope, slopes[0], rel_tol=1e-6) for slope in slopes)
    return Judgement(said, straight and slopes[0] > 0, "the first call is no straight line over the pages")


@bench.judge("mi300a.mech.eager_cost_first", "first prefault = a + b pages with b > 0, at 1, 4, 16 and 64 pages")
def first_prefault(grid: Grid) -> Asking:
    return (yield from _prefaults(grid, (1, 4, 16, 64), "first"))


@bench.judge("mi300a.mech.eager_cost_repeat", "repeated prefault takes the same at 1, 4, 16 and 64 pages, and not 0")
def repeated_prefault(grid: Grid) -> Asking:
    return (yield from _prefaults(grid, (1, 4, 16, 64), "again"))


@bench.judge(
    "mi300a.mech.eager_vs_xnack_repeat", "repeated map under Eager costs a call; a repeated touch under IZC nothing"
)
def repeats(grid: Grid) -> Asking:
    eager, izc = yield from grid.facts(f"{PROBES}:pages", [_zero_copy(configuration=one) for one in (EAGER, IZC)])
    cost = number(eager["prefault_again_s"])
    touch = number(izc["faults_again"])
    said = f"{cost * 1e6:.3g} us a call; {touch:g} faults, {number(izc['prefault_again_s']):g} s under IZC"
    return Judgement(said, cost > 0 and touch == 0, "a repeat costs nothing under Eager, or something under IZC")


@bench.judge(
    "mi300a.mech.eager_no_xnack", "Eager with XNACK off: a mapped array is fine, an unmapped one a memory access fault"
)
def eager_without_xnack(grid: Grid) -> Asking:
    (fact,) = yield from grid.facts(f"{PROBES}:touches_unmapped", [{"configuration": EAGER, "xnack": False}])
    holds = fact["mapped"] == "ok" and str(fact["unmapped"]).startswith("MemoryAccessFault: ")
    said = f"mapped: {fact['mapped']}, unmapped: {fact['unmapped']}"
    return Judgement(said, holds, "a mapped array fails, or an unmapped one does not die of a memory access fault")


@bench.judge("mi300a.mech.eager_requires_map", "pages of an array that is not mapped have no translation (Eager)")
def only_maps_prefault(grid: Grid) -> Asking:
    (fact,) = yield from grid.facts(f"{PROBES}:pages", [_zero_copy(configuration=EAGER)])
    return _facts({"covered_first": True, "other_covered": False, "other_touched": False}, fact)


@bench.judge(
    "mi300a.mech.alloc_sync",
    "each kernel is launched after the allocations of its own maps have returned, and those do not overlap: regions of "
    "4 threads side by side (Copy)",
)
def allocations_come_first(grid: Grid) -> Asking:
    (fact,) = yield from grid.facts(f"{PROBES}:regions", [{"configuration": COPY, "threads": 4}])
    expected = {
        "regions_side_by_side": True,
        "regions_with_fewer_allocations": 0,
        "launches_before_an_allocation_ended": 0,
        "regions_with_overlapping_allocations": 0,
    }
    return _facts(expected, fact)


@bench.judge(
    "mi300a.mech.signals",
    "Copy: waits = those for kernels (one each) + those for copies, and there are both; IZC: waits = kernels, to 1 % "
    "(QMCPack S2, 1 thread, 1 % of the steps, start-up included)",
)
def what_is_waited_for(grid: Grid) -> Asking:
    copy, izc = yield from grid.facts(f"{PROBES}:waits", [{"configuration": one} for one in (COPY, IZC)])
    said, wrong = [], []
    for one, fact in (("Copy", copy), ("IZC", izc)):
        said.append(
            f"{one}: {fact['waits']} waits for {fact['kernels']} kernels, {fact['for_kernels']} for kernels, "
            f"{fact['for_copies']} for copies"
        )
    if number(copy["waits"]) != number(copy["for_kernels"]) + number(copy["for_copies"]):
        wrong.append(f"Copy waits {copy['for_nothing']} times for neither")
    if copy["for_kernels"] != copy["kernels"] or copy["for_copies"] == 0:
        wrong.append("Copy does not wait for each kernel, or for no copy")
    if abs(number(izc["waits"]) - number(izc["kernels"])) > 0.01 * number(izc["kernels"]):
        wrong.append("IZC waits for something else than kernels, or not for all of them")
    return Judgement("; ".join(said), not wrong, "; ".join(wrong))


@bench.judge("mi300a.mech.init_calls", "pool allocations and copies after the start of the first kernel: none (IZC)")
def calls_at_start_up(grid: Grid) -> Asking:
    facts = yield from grid.facts(
        f"{PROBES}:steps", [{"configuration": IZC, "large": large} for large in (False, True)]
    )
    names = ("memory_pool_allocate_after_first_kernel", "memory_async_copy_after_first_kernel")
    judged = [_facts(dict.fromkeys(names, 0), fact) for fact in facts]
    return judged[0] if not judged[0].holds else judged[1]
