"""Judges of JACC's layer on one device: generated code, queues, specialization, and what an allocation costs."""

from __future__ import annotations

from collections.abc import Mapping

from offloadrt.models.openacc import Execution, KernelState, Mode, Rules, after_execution
from offloadrt.papers.jacc.judges import probes
from offloadrt.papers.jacc.judges.figures import bench
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.validation.judging import (
    Hearing,
    Judgement,
    JudgingGrid,
    Reading,
    listed,
    not_rising,
    number,
    unless,
)

ROUTINES = ("jacc_copyin", "jacc_create", "jacc_kernel_push", "jacc_copyout", "jacc_delete")


@bench.judge("jacc.mech.layer")
def layer(grid: JudgingGrid) -> Hearing:
    (fact,) = yield from grid.facts(probes.layer)
    compile_s, later = number(fact["compile_s"]), number(fact["later_s"])
    emulated = (
        f"{fact['compilations']} compilations of {compile_s:.3g} s for {fact['pushes']} pushes; the first takes "
        f"{number(fact['first_s']):.3g} s, a later one at most {later * 1e6:.3g} us"
    )
    wrong = {
        "kernels are compiled more or less than once": fact["compilations"] != 2,
        "a first push does not wait for the compiler": number(fact["first_s"]) < compile_s,
        "a later push waits for the compiler": later >= compile_s,
        "not all is done by routines": fact["routines"] != ", ".join(ROUTINES),
        "the result is wrong": fact["value"] != 7.0,
    }
    return unless(emulated, wrong)


@bench.judge("jacc.mech.async")
def queues(grid: JudgingGrid) -> Hearing:
    (fact,) = yield from grid.facts(probes.slides, [{"execution": "overlap"}])
    begin = {name: number(fact[f"{name}_begin"]) for name in ("K1", "K2", "K3", "K4", "out")}
    end = {name: number(fact[f"{name}_end"]) for name in ("K1", "K2", "K3", "K4")}
    emulated = "queues " + ", ".join(f"{name}: {fact[f'{name}_queue']}" for name in end)
    wrong = {
        "K1 and K2 share a queue": fact["K1_queue"] == fact["K2_queue"],
        "K1 and K2 do not run together": max(begin["K1"], begin["K2"]) >= min(end["K1"], end["K2"]),
        "K3 does not wait for K1 and K2": begin["K3"] < max(end["K1"], end["K2"]),
        "K4 does not wait for K3": begin["K4"] < end["K3"],
        "the copy does not wait for K4": begin["out"] < end["K4"],
    }
    return unless(emulated, wrong)


@bench.judge("jacc.mech.specialize")
def specialized(grid: JudgingGrid, compilations: Mapping[str, int]) -> Hearing:
    (fact,) = yield from grid.facts(probes.specialization)
    made = {name: fact[name] for name in compilations}
    emulated = ", ".join(f"{name}: {count}" for name, count in made.items())
    wrong = {
        "variants are not told apart": made != compilations,
        "an aliased argument is not refused": not fact["aliased"],
        "the result is wrong": fact["value"] != 12.0,
    }
    return unless(emulated, wrong)


@bench.judge("jacc.mech.gcc_pools")
def two_pools(grid: JudgingGrid, cheap: float) -> Hearing:
    rounds = 200
    gcc, pooled, pgi = yield from grid.facts(
        probes.launches,
        [
            {"compiler": "gcc", "rounds": rounds},
            {"compiler": "gcc", "pools": True, "rounds": rounds},
            {"compiler": "pgi", "rounds": rounds},
        ],
    )
    saved = number(gcc["allocating_s"]) - number(pooled["allocating_s"])
    pools_s = max(0.0, saved - (number(gcc["elapsed_s"]) - number(pooled["elapsed_s"])))
    emulated = (
        f"{gcc['allocations']}, {pooled['allocations']} and {pgi['allocations']} allocations in {rounds} launches; "
        f"pools take {pools_s / saved:.2g} of the {saved * 1e3:.3g} ms that they save"
    )
    wrong = {
        "GCC does not ask for two blocks a launch": gcc["allocations"] != 2 * rounds,
        "the pools ask for more than their first blocks": number(pooled["allocations"]) > 2,
        "PGI's pool asks for more than its first block": number(pgi["allocations"]) > 1,
        "a block of a pool costs as much as a call": pools_s > cheap * saved,
    }
    return unless(emulated, wrong)


@bench.judge("jacc.mech.alloc_latency")
def latency(grid: JudgingGrid, cheap: float, most: float) -> Hearing:
    gcc, pgi = yield from grid.facts(probes.launches, [{"compiler": "gcc"}, {"compiler": "pgi"}])
    shares = [number(fact["allocating_s"]) / number(fact["elapsed_s"]) for fact in (gcc, pgi)]
    difference = number(gcc["elapsed_s"]) - number(pgi["elapsed_s"])
    caused = (number(gcc["allocating_s"]) - number(pgi["allocating_s"])) / difference if difference > 0 else 0.0
    emulated = f"{shares[0]:.2g} and {shares[1]:.2g} of the time; {caused:.2g} of the difference"
    wrong = {
        "GCC's share is not far above PGI's": shares[1] > cheap * shares[0],
        "something else makes most of the difference": caused < most,
    }
    return unless(emulated, wrong)


DIVISION = probes.division
FILTERING = probes.filtering
DEVICES = 4
"""Devices of the probes."""
STEPS = 12

SMALL: dict[str, Value] = {"planes": 3, "rows": 9, "steps": 3, "data": True}


@bench.judge("jacc.mech.pred_dup")
def duplicated(grid: JudgingGrid, devices: int, within: float) -> Hearing:
    (counts,) = yield from grid.facts(FILTERING)
    alone, divided, small = yield from grid.facts(
        DIVISION, [{"bound": "compute", "strategy": "single"}, {"bound": "compute"}, SMALL]
    )
    ratio = number(divided["kernel_s"]) / number(alone["kernel_s"])
    emulated = f"operations {counts['flops']:g}, bytes {counts['bytes']:.3g}; compute-bound: {ratio:.4g} of the time"
    wrong = {
        "iterations are divided": counts["least_iterations"] != counts["iterations"],
        "operations are divided": number(counts["flops"]) < 1.0,
        "accesses are not divided": abs(number(counts["bytes"]) * devices - 1.0) > within,
        "a compute-bound kernel takes another time": abs(ratio - 1.0) > within,
        "the values are wrong": not small["equal"],
    }
    return unless(emulated, wrong)


@bench.judge("jacc.mech.pred_write_even")
def even(grid: JudgingGrid, devices: int) -> Hearing:
    (counts,) = yield from grid.facts(FILTERING)
    (fact,) = yield from grid.facts(DIVISION)
    expected = number(fact["written_bytes"]) * number(fact["executions"]) / devices * (devices - 1)
    owned = f"{counts['least_owned']} to {counts['most_owned']} of {counts['written_bytes']} bytes"
    emulated = f"{owned}; {fact['most_sent']} bytes sent by each"
    uneven = number(counts["most_owned"]) - number(counts["least_owned"]) > number(counts["row_bytes"])
    wrong = {
        "parts are not even": uneven,
        "parts are not the whole": counts["owned"] != counts["written_bytes"],
        "more or less is sent": {fact["least_sent"], fact["most_sent"]} != {expected},
    }
    return unless(emulated, wrong)


@bench.judge("jacc.mech.pred_comm")
def exchange(grid: JudgingGrid, devices: int) -> Hearing:
    (fact,) = yield from grid.facts(DIVISION)
    transfers_each = number(fact["transfers"]) / number(fact["executions"])
    emulated = f"{transfers_each:g} copies an execution, between the end of a kernel and the begin of the next"
    wrong = {
        "not every pair exchanges": transfers_each != devices * (devices - 1),
        "kernels do not wait for the exchange": number(fact["least_wait_s"]) <= 0.0,
        "a copy runs while a kernel does": fact["shared_ps"] != 0,
    }
    return unless(emulated, wrong)


@bench.judge("jacc.detail.sum")
def no_overlap(grid: JudgingGrid) -> Hearing:
    facts = yield from grid.facts(DIVISION, [{}, {"strategy": "adaptive"}])
    together = [number(fact["shared_ps"]) for fact in facts]
    emulated = f"{together[0] * 1e-6:g} and {together[1] * 1e-6:g} us together (always, adaptive)"
    places = dict(zip(("always", "adaptive"), together, strict=True))
    return Reading(emulated, places, "copies are hidden behind kernels")


@bench.judge("jacc.mech.pred_multidim")
def dimensions(grid: JudgingGrid) -> Hearing:
    (fact,) = yield from grid.facts(FILTERING)
    results = {name: fact[f"{name}_dimension"] for name in ("outermost", "carried", "joined")}
    pieces = {name: fact[f"{name}_segments"] for name in results}
    emulated = ", ".join(f"{name}: {dimension} ({pieces[name]} pieces)" for name, dimension in results.items())
    wrong = {
        "another dimension": results != {"outermost": 0, "carried": 1, "joined": 1},
        "the pieces are not those of the dimension": (
            pieces != {"outermost": 1, "carried": fact["rows"], "joined": fact["planes"]}
        ),
    }
    return unless(emulated, wrong)


@bench.judge("jacc.mech.enable")
def enabled(grid: JudgingGrid, times: int) -> Hearing:
    long, short = yield from grid.facts(
        DIVISION, [{"strategy": "adaptive", "steps": STEPS}, {"strategy": "adaptive", "steps": STEPS, "planes": 2}]
    )
    before = number(long["executions"]) - number(long["divided"])
    emulated = f"divided after {before:g}; {short['divided']} of {short['executions']} divided"
    wrong = {
        "not after five": before != times,
        "a kernel that would lose is divided": short["divided"],
    }
    return unless(emulated, wrong)


@bench.judge("jacc.mech.disable1")
def disabled_by_devices(grid: JudgingGrid, times: int, slow: float) -> Hearing:
    parameters: dict[str, Value] = {"strategy": "adaptive", "steps": 2 * times + 1, "link_gb_s": float(slow)}
    (fact,) = yield from grid.facts(DIVISION, [parameters])
    # 2 + 7 > 2 * 4, and 10 + 1 < 10 * 4
    pure = _disabled(times, Rules(DEVICES, eff_dup="infinite"), Execution(2.0, 7.0, 1.0), Execution(10.0, 1.0, 1.0))
    return _and_emulated(pure, [number(fact["divided"])], [times], 2 * times + 1)


@bench.judge("jacc.mech.disable2")
def disabled_by_duplication(grid: JudgingGrid, times: int) -> Hearing:
    parameters: dict[str, Value] = {"strategy": "adaptive", "bound": "compute", "steps": 2 * times + 1}
    facts = yield from grid.facts(DIVISION, [{**parameters, "eff_dup": "measured"}, parameters])
    # 4 + 7 > 10 * 1, but not > 4 * 4; 4 + 0 < 10
    pure = _disabled(times, Rules(DEVICES, eff_dup="measured"), Execution(4.0, 7.0, 1.0), Execution(4.0, 0.0, 1.0))
    return _and_emulated(pure, [number(fact["divided"]) for fact in facts], [times, times + 1], 2 * times + 1)


def _and_emulated(pure: Judgement, divided: list[float], expected: list[int], executions: int) -> Judgement:
    """Judge what the pure controller does, and how many executions are divided in emulated runs."""
    emulated = f"{pure.emulated}; emulated: {' and '.join(f'{count:g}' for count in divided)} of {executions} divided"
    wrong = [pure.reason] if not pure.holds else []
    wrong += ["an emulated kernel is divided more or less often"] if divided != expected else []
    return unless(emulated, wrong)


ALONE = Execution(10.0, 0.0, 1.0)
"""An execution that is duplicated with one byte to send, where eff_dup is 10 s a byte."""


def _disabled(times: int, rules: Rules, losing: Execution, winning: Execution) -> Judgement:
    """Judge the pure controller after executions that lose, and after as many among which one wins by far."""
    divided = _after(rules, KernelState(), [ALONE] * times)
    four, five = (_after(rules, divided, [losing] * count) for count in (times - 1, times))
    mixed = _after(rules, divided, [winning, *[losing] * times])
    modes = {"four": four.mode, "five": five.mode, "five and one that wins": mixed.mode}
    emulated = ", ".join(f"after {name}: {mode.value}" for name, mode in modes.items())
    right = divided.mode is Mode.DIVIDED and list(modes.values()) == [Mode.DIVIDED, Mode.DUPLICATED, Mode.DIVIDED]
    return Judgement(emulated, right, "the rule is another one")


def _after(rules: Rules, state: KernelState, executions: list[Execution]) -> KernelState:
    for execution in executions:
        state = after_execution(rules, state, execution)
    return state


@bench.judge("jacc.detail.longer_better")
def longer_is_better(grid: JudgingGrid) -> Hearing:
    lengths = (256, 1024, 4096, 16384)
    pairs = [{"rows": rows, "strategy": strategy} for rows in lengths for strategy in ("single", "always")]
    facts = yield from grid.facts(DIVISION, [{**pair, "steps": 2} for pair in pairs])
    gains = {}
    for alone, divided in zip(facts[::2], facts[1::2], strict=True):
        time = number(alone["kernel_s"])
        gains[f"{time * 1e3:.3g} ms"] = time / (number(divided["kernel_s"]) + number(divided["communication_s"]))
    return Judgement(listed(gains), not not_rising(gains), "a longer kernel gains less")
