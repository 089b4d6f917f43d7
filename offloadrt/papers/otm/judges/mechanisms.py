"""Judges of how OTM works: what the compiler counts, how objects are placed, and what a placement means."""

from __future__ import annotations

import math

from offloadrt.papers.otm.judges import probes
from offloadrt.papers.otm.judges.figures import BENCHMARKS, OTM, RodiniaGrid, bench, pinned, program, runs
from offloadrt.papers.otm.judges.probes import DENSITY, LAF, ROUNDS
from offloadrt.study.reporting.results import Result
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.validation.judging import Hearing, Judgement, Reading, number, unless

OBJECTS = probes.objects
EXPLICIT_ALL: dict[str, Value] = {"threshold": 0.0}
IMPLICIT_ALL: dict[str, Value] = {"threshold": 2.0}


@bench.judge("otm.mech.got")
def object_table(grid: RodiniaGrid) -> Hearing:
    size = grid.fitting[0]
    results = yield from runs(grid, [(benchmark, size, OTM) for benchmark in BENCHMARKS])
    emulated, wrong = [], []
    for benchmark in BENCHMARKS:
        result, host_program = results[benchmark, size, OTM], program(benchmark)
        made = {name.removesuffix("_bytes"): nbytes for name, nbytes in result.measured.items() if "_bytes" in name}
        entries = {name: placement.nbytes for name, placement in result.figures("placements").items()}
        emulated.append(f"{benchmark}: {len(entries)} entries for {len(made)} arrays")
        if entries != made:
            wrong.append(f"{benchmark}: entries and arrays differ")
        for name in entries:
            ranked = host_program.object(name)
            if not ranked.regions or not all(region.laf(name) > 0 for region in ranked.regions):
                wrong.append(f"{benchmark}: {name} has no uses")
            if result.figures("placements")[name].gaf != ranked.gaf:
                wrong.append(f"{benchmark}: {name}'s GAF is not what the compiler says")
    return unless("; ".join(emulated), wrong)


@bench.judge("otm.mech.laf")
def local_frequency(grid: RodiniaGrid) -> Hearing:
    (fact,) = yield from grid.facts(OBJECTS)
    frequencies = [
        region.laf(name) for benchmark in BENCHMARKS for region in program(benchmark).regions for name in region.objects
    ]
    counted = {name: number(fact[f"{name}_gaf"]) / ROUNDS for name in LAF}
    emulated = f"{min(frequencies):g} to {max(frequencies):g} in {len(frequencies)} uses; counted: {counted}"
    wrong = {"some are negative": min(frequencies) < 0, "not as by hand": counted != LAF}
    return unless(emulated, wrong)


@bench.judge("otm.mech.gaf")
def global_frequency(grid: RodiniaGrid) -> Hearing:
    (fact,) = yield from grid.facts(OBJECTS)
    wrong, count = [], 0
    for benchmark in BENCHMARKS:
        host_program = program(benchmark)
        for ranked in host_program.objects:
            count += 1
            total = math.fsum(
                region.frequency * use.laf
                for region in host_program.regions
                for use, name in zip(region.kernel.arrays, region.objects, strict=True)
                if name == ranked.name
            )
            if not math.isclose(total, ranked.gaf):
                wrong.append(f"{benchmark}'s {ranked.name}: {ranked.gaf:g}, not {total:g}")
    for name, laf in LAF.items():
        count += 1
        if number(fact[f"{name}_gaf"]) != ROUNDS * laf:
            wrong.append(f"the probe's {name}: {fact[f'{name}_gaf']}, not {ROUNDS * laf:g}")
    return unless(f"{count - len(wrong)} of {count} objects", wrong)


@bench.judge("otm.mech.rank")
def ranks(grid: RodiniaGrid) -> Hearing:
    size = grid.fitting[0]
    results = yield from runs(grid, [(benchmark, size, OTM) for benchmark in BENCHMARKS])
    emulated, wrong = [], []
    for benchmark in BENCHMARKS:
        placements = results[benchmark, size, OTM].figures("placements")
        order = sorted(placements, key=lambda name: placements[name].rank)
        gafs = [placements[name].gaf for name in order]
        emulated.append(f"{benchmark}: {', '.join(order)}")
        if [placements[name].rank for name in order] != list(range(1, len(order) + 1)):
            wrong.append(f"{benchmark}'s are no permutation")
        if gafs != sorted(gafs, reverse=True):
            wrong.append(f"{benchmark}'s are not in order of GAF")
    return unless("; ".join(emulated), wrong)


@bench.judge("otm.mech.density")
def density(grid: RodiniaGrid) -> Hearing:
    places = [(benchmark, size, OTM) for benchmark in BENCHMARKS for size in (grid.fitting[0], grid.over[0])]
    results = yield from runs(grid, places)
    (fact,) = yield from grid.facts(OBJECTS)
    densities = [
        placement.density for result in results.values() for placement in result.figures("placements").values()
    ]
    estimated = {name: number(fact[f"{name}_density"]) for name in DENSITY}
    wrong = {
        "some lie outside": not all(0.0 <= density_of_object <= 1.0 for density_of_object in densities),
        "the probe's are not min(LAF * iterations / elements, 1)": estimated != DENSITY,
    }
    return unless(f"{min(densities):.3g} to {max(densities):.3g}; probe: {estimated}", wrong)


@bench.judge("otm.mech.map_order")
def greedy(grid: RodiniaGrid) -> Hearing:
    places = [(benchmark, size, OTM) for benchmark in BENCHMARKS for size in grid.over]
    results = yield from runs(grid, places)
    wrong, count = [], 0
    for place, result in results.items():
        expected = _greedy(result)
        count += len(expected)
        wrong += [f"{name} of {place[0]} at {place[1]:g} GB" for name in expected ^ pinned(result)]
    emulated = f"{len(wrong)} of the placements of {len(results)} runs are others; {count} objects are pinned in all"
    return Judgement(emulated, not wrong, f"placed otherwise: {', '.join(wrong)}")


def _greedy(result: Result) -> set[str]:
    """Choose what has to be pinned: each object that does not fit beside those that rank before it."""
    free, left_out = result.figures("otm")["budget_bytes"], set()
    for name, placement in sorted(result.figures("placements").items(), key=lambda item: item[1].rank):
        if placement.nbytes <= free:
            free -= placement.nbytes
        else:
            left_out.add(name)
    return left_out


@bench.judge("otm.mech.pin")
def pin(grid: RodiniaGrid) -> Hearing:
    (fact,) = yield from grid.facts(OBJECTS, [{**EXPLICIT_ALL, "room": 2.0}])
    remote, advice = number(fact["remote_bytes"]), fact["advice"]
    emulated = f"b: {fact['b_mechanism']}, {advice} advice, {fact['migrated']} B migrate, {remote:,.0f} B over the link"
    wrong = {
        "b is not pinned": fact["b_mechanism"] != "pinned" or advice != 1,
        "it migrates": fact["migrated"],
        "nobody reaches it over the link": remote <= 0,
    }
    return unless(emulated, wrong)


@bench.judge("otm.mech.explicit")
def explicit(grid: RodiniaGrid) -> Hearing:
    (fact,) = yield from grid.facts(OBJECTS, [EXPLICIT_ALL])
    (values,) = yield from grid.facts(probes.in_the_kernel, [EXPLICIT_ALL])
    all_bytes = number(fact["objects"]) * number(fact["object_bytes"])
    emulated = (
        f"{fact['blocks']} blocks for {fact['objects']} objects, {fact['copied_in']:,} B copied in, "
        f"{fact['copied_out']:,} B out, {fact['kernel_faults']} faults; the original is {values['inside']:g} after the "
        f"kernel, {values['after']:g} at the end"
    )
    wrong = {
        "not a block each": fact["blocks"] != fact["objects"] or fact["entries"] != fact["objects"],
        "not copied once each way": (fact["copied_in"], fact["copied_out"]) != (all_bytes, all_bytes),
        "kernels fault": fact["kernel_faults"] or fact["migrated"],
        "the kernel writes to the original": (values["inside"], values["after"]) != (0.0, 1.0),
    }
    return unless(emulated, wrong)


@bench.judge("otm.mech.implicit")
def implicit(grid: RodiniaGrid) -> Hearing:
    (fact,) = yield from grid.facts(OBJECTS, [IMPLICIT_ALL])
    (values,) = yield from grid.facts(probes.in_the_kernel, [IMPLICIT_ALL])
    all_bytes = number(fact["objects"]) * number(fact["object_bytes"])
    emulated = (
        f"{fact['blocks']} blocks, {fact['copied_in']} B copied in, {fact['kernel_faults']} faults, "
        f"{fact['migrated']:,} of {all_bytes:,.0f} B migrate; the original is {values['inside']:g} after the kernel"
    )
    wrong = {
        "there are blocks or copies": fact["blocks"] or fact["copied_in"] or fact["copied_out"],
        "kernels do not fault": not fact["kernel_faults"] or fact["migrated"] != all_bytes,
        "the kernel does not write to the original": values["inside"] != 1.0,
    }
    return unless(emulated, wrong)


@bench.judge("otm.mech.counters")
def counters(grid: RodiniaGrid) -> Hearing:
    exact, less = yield from grid.facts(OBJECTS, [{}, {"lacking": 1}])
    each = number(exact["object_bytes"])
    counted = (number(exact["explicit_bytes"]) / each, number(exact["implicit_bytes"]) / each)
    short = number(less["explicit_bytes"]) + number(less["implicit_bytes"])
    emulated = (
        f"room for 3: {counted[0]:g} explicit, {counted[1]:g} implicit; "
        f"{3 * each - number(less['budget_bytes']):.0f} B less: {short / each:g} placed, b {less['b_mechanism']}"
    )
    wrong = {
        "the counters are not the sizes of what is placed": counted != (2.0, 1.0) or short != 2 * each,
        "an object that fits exactly is pinned": exact["b_mechanism"] != "implicit",
        "an object that lacks a byte is placed": less["b_mechanism"] != "pinned",
    }
    return unless(emulated, wrong)


@bench.judge("otm.mech.table")
def active_table(grid: RodiniaGrid) -> Hearing:
    once, late = yield from grid.facts(OBJECTS, [{}, {"room": 2.0, "late": True}])
    emulated = (
        f"{once['decisions']} decisions on {once['objects']} objects in {ROUNDS} calls; c of rank {late['c_rank']} "
        f"comes late: a {late['a_mechanism']}, b {late['b_mechanism']}, c {late['c_mechanism']}"
    )
    kept = late["a_decisions"] == late["b_decisions"] == 1
    wrong = {
        "an object is decided on again while it is active": once["decisions"] != once["objects"],
        "what is active gives way": not kept or "pinned" in (late["a_mechanism"], late["b_mechanism"]),
        "c takes a place that there is not": late["c_rank"] != 1 or late["c_mechanism"] != "pinned",
    }
    return unless(emulated, wrong)


@bench.judge("otm.mech.trad_fail")
def no_room(grid: RodiniaGrid) -> Hearing:
    places = [(benchmark, size) for benchmark in BENCHMARKS for size in (*grid.fitting, *grid.over)]
    facts = yield from grid.facts(
        probes.traditional, [grid.sized(size, {"benchmark": benchmark}) for benchmark, size in places]
    )
    failed = {place: fact["failed"] for place, fact in zip(places, facts, strict=True)}
    above = [place for place in places if place[1] in grid.over]
    wrong = [
        f"{benchmark} at {size:g} GB"
        for benchmark, size in places
        if bool(failed[benchmark, size]) is not (size in grid.over)
    ]
    lacking = sum(bool(failed[place]) for place in above)
    fewer = sum(bool(results) for place, results in failed.items() if place not in above)
    emulated = f"{lacking} of {len(above)} runs above fail, {fewer} of {len(places) - len(above)} below"
    return Judgement(emulated, not wrong, f"otherwise: {', '.join(wrong)}")


@bench.judge("otm.mech.um_bw")
def slower_on_demand(grid: RodiniaGrid) -> Hearing:
    managed, copied = yield from grid.facts(probes.bandwidth, [{"placement": "managed"}, {"placement": "explicit"}])
    demand, copy = number(managed["bytes_per_s"]), number(copied["bytes_per_s"])
    emulated = f"{demand / 1e9:.3g} and {copy / 1e9:.3g} GB/s (pageable)"
    return Reading(emulated, demand / copy, "faults take less time than the host's copy into a pinned buffer")
