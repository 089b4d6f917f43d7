"""Judges of predicate-based filtering and of the adaptive controller, on a kernel that is made for them."""

from __future__ import annotations

from offloadrt.models.openacc import Execution, KernelState, Mode, Rules, after_execution
from offloadrt.papers.jacc.judges.places import bench
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.validation.judging import Hearing, Judgement, JudgingGrid, Reading, not_rising, unless
from offloadrt.study.validation.measured import listed, number

PROBES = f"{__file__.rpartition('/')[0]}/divided_probes.py"
DIVISION = f"{PROBES}:division"
FILTERING = f"{PROBES}:filtering"
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
