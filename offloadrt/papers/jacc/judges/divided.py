"""Judges of predicate-based filtering and of the adaptive controller, on a kernel that is made for them."""

from __future__ import annotations

from offloadrt.models.openacc import Execution, KernelState, Mode, Rules, after_execution
from offloadrt.papers.jacc.judges.places import bench
from offloadrt.study.judging import Asking, Judgement, Places
from offloadrt.study.measured import listed, number
from offloadrt.study.scripts.parameters import Value

PROBES = f"{__file__.rpartition('/')[0]}/divided_probes.py"
DIVISION = f"{PROBES}:division"
FILTERING = f"{PROBES}:filtering"
DEVICES = 4
STEPS = 12
TIMES = 5
"""Executions for which an inequality has to hold."""
SAME = 0.01
"""By which part two times or two counts may differ."""
FAST, SLOW = 25.0, 1.0
"""Bandwidths of links in GB/s: as the controller believes them to be, and far less."""

SMALL: dict[str, Value] = {"planes": 3, "rows": 9, "steps": 3, "data": True}


@bench.judge(
    "jacc.mech.pred_dup",
    f"each of {DEVICES} devices does all iterations and operations, and 1/{DEVICES} of the accesses (bytes, within "
    f"{SAME:.0%}); a compute-bound kernel takes as long as alone; the values are those of NumPy",
)
def duplicated(grid: Places) -> Asking:
    (counts,) = yield from grid.facts(FILTERING)
    alone, divided, small = yield from grid.facts(
        DIVISION, [{"bound": "compute", "strategy": "single"}, {"bound": "compute"}, SMALL]
    )
    ratio = number(divided["kernel_s"]) / number(alone["kernel_s"])
    said = f"operations {counts['flops']:g}, bytes {counts['bytes']:.3g}; compute-bound: {ratio:.4g} of the time"
    wrong = [
        *(["iterations are divided"] if counts["least_iterations"] != counts["iterations"] else []),
        *(["operations are divided"] if number(counts["flops"]) < 1.0 else []),
        *(["accesses are not divided"] if abs(number(counts["bytes"]) * DEVICES - 1.0) > SAME else []),
        *(["a compute-bound kernel takes another time"] if abs(ratio - 1.0) > SAME else []),
        *(["the values are wrong"] if not small["equal"] else []),
    ]
    return Judgement(said, not wrong, "; ".join(wrong))


@bench.judge(
    "jacc.mech.pred_write_even",
    f"each of {DEVICES} devices owns 1/{DEVICES} of the written array, to a row; it sends that to each other one after "
    "each execution, and nothing else",
)
def even(grid: Places) -> Asking:
    (counts,) = yield from grid.facts(FILTERING)
    (fact,) = yield from grid.facts(DIVISION)
    expected = number(fact["written_bytes"]) * number(fact["executions"]) / DEVICES * (DEVICES - 1)
    owned = f"{counts['least_owned']} to {counts['most_owned']} of {counts['written_bytes']} bytes"
    said = f"{owned}; {fact['most_sent']} bytes sent by each"
    uneven = number(counts["most_owned"]) - number(counts["least_owned"]) > number(counts["row_bytes"])
    wrong = [
        *(["parts are not even"] if uneven else []),
        *(["parts are not the whole"] if counts["owned"] != counts["written_bytes"] else []),
        *(["more or less is sent"] if {fact["least_sent"], fact["most_sent"]} != {expected} else []),
    ]
    return Judgement(said, not wrong, "; ".join(wrong))


@bench.judge(
    "jacc.mech.pred_comm",
    "an exchange follows each divided execution; the next kernel, which reads what was written, begins after its last "
    "copy; no kernel runs during a copy between devices",
)
def exchange(grid: Places) -> Asking:
    (fact,) = yield from grid.facts(DIVISION)
    each = number(fact["transfers"]) / number(fact["executions"])
    said = f"{each:g} copies an execution, between the end of a kernel and the begin of the next"
    wrong = [
        *(["not every pair exchanges"] if each != DEVICES * (DEVICES - 1) else []),
        *(["kernels do not wait for the exchange"] if number(fact["least_wait_s"]) <= 0.0 else []),
        *(["a copy runs while a kernel does"] if fact["shared_ps"] != 0 else []),
    ]
    return Judgement(said, not wrong, "; ".join(wrong))


@bench.judge(
    "jacc.detail.sum",
    "time with divided kernels = kernels + exchanges: no picosecond in which a copy between devices and a kernel run",
)
def no_overlap(grid: Places) -> Asking:
    facts = yield from grid.facts(DIVISION, [{}, {"strategy": "adaptive"}])
    together = [number(fact["shared_ps"]) for fact in facts]
    said = f"{together[0] * 1e-6:g} and {together[1] * 1e-6:g} us together (always, adaptive)"
    return Judgement(said, not any(together), "copies are hidden behind kernels")


@bench.judge(
    "jacc.mech.pred_multidim",
    "the dimension with the most parallel iterators, of equals the outermost in memory (leftmost in C, rightmost in "
    "Fortran): a[i, j] over both: 0; over j, i carried: 1; a[k, i * n + j]: 1, in as many pieces as there are k",
)
def dimensions(grid: Places) -> Asking:
    (fact,) = yield from grid.facts(FILTERING)
    found = {name: fact[f"{name}_dimension"] for name in ("outermost", "carried", "joined")}
    pieces = {name: fact[f"{name}_segments"] for name in found}
    said = ", ".join(f"{name}: {one} ({pieces[name]} pieces)" for name, one in found.items())
    wrong = [
        *(["another dimension"] if found != {"outermost": 0, "carried": 1, "joined": 1} else []),
        *(
            ["the pieces are not those of the dimension"]
            if pieces != {"outermost": 1, "carried": fact["rows"], "joined": fact["planes"]}
            else []
        ),
    ]
    return Judgement(said, not wrong, "; ".join(wrong))


@bench.judge(
    "jacc.mech.enable",
    f"long memory-bound kernel: divided after exactly {TIMES} executions; one that writes much for its time: never",
)
def enabled(grid: Places) -> Asking:
    long, short = yield from grid.facts(
        DIVISION, [{"strategy": "adaptive", "steps": STEPS}, {"strategy": "adaptive", "steps": STEPS, "planes": 2}]
    )
    before = number(long["executions"]) - number(long["divided"])
    said = f"divided after {before:g}; {short['divided']} of {short['executions']} divided"
    wrong = [
        *(["not after five"] if before != TIMES else []),
        *(["a kernel that would lose is divided"] if short["divided"] else []),
    ]
    return Judgement(said, not wrong, "; ".join(wrong))


@bench.judge(
    "jacc.mech.disable1",
    f"t_K + t_Comm > t_K * n: duplicated again after exactly {TIMES}; not if left - right is negative on average; "
    f"emulated: links of {SLOW:g} GB/s, where the controller reckons with {FAST:g}",
)
def disabled_by_devices(grid: Places) -> Asking:
    asked: dict[str, Value] = {"strategy": "adaptive", "steps": 2 * TIMES + 1, "link_gb_s": SLOW}
    (fact,) = yield from grid.facts(DIVISION, [asked])
    # 2 + 7 > 2 * 4, and 10 + 1 < 10 * 4
    pure = _disabled(Rules(DEVICES, eff_dup="infinite"), Execution(2.0, 7.0, 1.0), Execution(10.0, 1.0, 1.0))
    return _and_emulated(pure, [number(fact["divided"])], [TIMES])


@bench.judge(
    "jacc.mech.disable2",
    f"t_K + t_Comm > eff_dup * WriteSize, eff_dup read as duplicated time per byte: duplicated again after exactly "
    f"{TIMES}; not if left - right is negative on average; emulated: a kernel that computes, which stays divided where "
    "eff_dup is read as infinite",
)
def disabled_by_duplication(grid: Places) -> Asking:
    asked: dict[str, Value] = {"strategy": "adaptive", "bound": "compute", "steps": 2 * TIMES + 1}
    facts = yield from grid.facts(DIVISION, [{**asked, "eff_dup": "measured"}, asked])
    # 4 + 7 > 10 * 1, but not > 4 * 4; 4 + 0 < 10
    pure = _disabled(Rules(DEVICES, eff_dup="measured"), Execution(4.0, 7.0, 1.0), Execution(4.0, 0.0, 1.0))
    return _and_emulated(pure, [number(fact["divided"]) for fact in facts], [TIMES, TIMES + 1])


def _and_emulated(pure: Judgement, divided: list[float], expected: list[int]) -> Judgement:
    """What the pure controller does, and how many of eleven executions are divided in emulated runs."""
    said = f"{pure.emulated}; emulated: {' and '.join(f'{count:g}' for count in divided)} of {2 * TIMES + 1} divided"
    wrong = [pure.reason] if not pure.holds else []
    wrong += ["an emulated kernel is divided more or less often"] if divided != expected else []
    return Judgement(said, not wrong, "; ".join(wrong))


ALONE = Execution(10.0, 0.0, 1.0)
"""Duplicated, with a byte to send: eff_dup is 10 s a byte."""


def _disabled(rules: Rules, losing: Execution, winning: Execution) -> Judgement:
    """What the pure controller does: after executions that lose, and after as many among which one wins by far."""
    divided = _after(rules, KernelState(), [ALONE] * TIMES)
    four, five = (_after(rules, divided, [losing] * count) for count in (TIMES - 1, TIMES))
    mixed = _after(rules, divided, [winning, *[losing] * TIMES])
    modes = {"four": four.mode, "five": five.mode, "five and one that wins": mixed.mode}
    said = ", ".join(f"after {name}: {mode.value}" for name, mode in modes.items())
    right = divided.mode is Mode.DIVIDED and list(modes.values()) == [Mode.DIVIDED, Mode.DUPLICATED, Mode.DIVIDED]
    return Judgement(said, right, "the rule is another one")


def _after(rules: Rules, state: KernelState, executions: list[Execution]) -> KernelState:
    for execution in executions:
        state = after_execution(rules, state, execution)
    return state


@bench.judge(
    "jacc.detail.longer_better",
    "gain t(1 GPU) / (t_K + t_Comm) of a kernel, its bytes written in proportion to its time: rises with that time",
)
def longer_is_better(grid: Places) -> Asking:
    lengths = (256, 1024, 4096, 16384, 65536)
    pairs = [{"rows": rows, "strategy": one} for rows in lengths for one in ("single", "always")]
    facts = yield from grid.facts(DIVISION, [{**pair, "steps": 2} for pair in pairs])
    gains = {}
    for alone, divided in zip(facts[::2], facts[1::2], strict=True):
        time = number(alone["kernel_s"])
        gains[f"{time * 1e3:.3g} ms"] = time / (number(divided["kernel_s"]) + number(divided["communication_s"]))
    rising = list(gains.values())
    return Judgement(listed(gains), rising == sorted(set(rising)), "a longer kernel gains less")
