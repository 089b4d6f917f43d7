"""Judges of JACC's layer on one device: generated code, queues, specialization, and what an allocation costs."""

from __future__ import annotations

from offloadrt.papers.jacc.judges.places import bench
from offloadrt.study.judging import Asking, Judgement, Places
from offloadrt.study.measured import number

PROBES = f"{__file__.rpartition('/')[0]}/probes.py"
ROUTINES = ("jacc_copyin", "jacc_create", "jacc_kernel_push", "jacc_copyout", "jacc_delete")
CHEAP = 0.1
"""Of the time of the driver's calls: at most so much is far less."""
MOST = 0.5
"""Of a difference: from here on it is the primary cause."""


@bench.judge(
    "jacc.mech.layer",
    "two kernels, pushed 20 times each: 2 compilations, only the first pushes wait for them; all work is routines; the "
    "result is right",
)
def layer(grid: Places) -> Asking:
    (fact,) = yield from grid.facts(f"{PROBES}:layer")
    compile_s, later = number(fact["compile_s"]), number(fact["later_s"])
    said = (
        f"{fact['compilations']} compilations of {compile_s:.3g} s for {fact['pushes']} pushes; the first takes "
        f"{number(fact['first_s']):.3g} s, a later one at most {later * 1e6:.3g} us"
    )
    wrong = [
        *(["kernels are compiled more or less than once"] if fact["compilations"] != 2 else []),
        *(["a first push does not wait for the compiler"] if number(fact["first_s"]) < compile_s else []),
        *(["a later push waits for the compiler"] if later >= compile_s else []),
        *(["not all is done by routines"] if fact["routines"] != ", ".join(ROUTINES) else []),
        *(["the result is wrong"] if fact["value"] != 7.0 else []),
    ]
    return Judgement(said, not wrong, "; ".join(wrong))


@bench.judge(
    "jacc.mech.async",
    "the slides' example: K1 and K2 on different queues at once, K3 after both, K4 after K3, the copy after K4",
)
def queues(grid: Places) -> Asking:
    (fact,) = yield from grid.facts(f"{PROBES}:slides", [{"execution": "overlap"}])
    begin = {name: number(fact[f"{name}_begin"]) for name in ("K1", "K2", "K3", "K4", "out")}
    end = {name: number(fact[f"{name}_end"]) for name in ("K1", "K2", "K3", "K4")}
    said = "queues " + ", ".join(f"{name}: {fact[f'{name}_queue']}" for name in end)
    wrong = [
        *(["K1 and K2 share a queue"] if fact["K1_queue"] == fact["K2_queue"] else []),
        *(["K1 and K2 do not run together"] if max(begin["K1"], begin["K2"]) >= min(end["K1"], end["K2"]) else []),
        *(["K3 does not wait for K1 and K2"] if begin["K3"] < max(end["K1"], end["K2"]) else []),
        *(["K4 does not wait for K3"] if begin["K4"] < end["K3"] else []),
        *(["the copy does not wait for K4"] if begin["out"] < end["K4"] else []),
    ]
    return Judgement(said, not wrong, "; ".join(wrong))


@bench.judge(
    "jacc.mech.specialize",
    "compilations for the values 2, 3, 2 of a scalar: 1 without, 2 with var_opt, 1 with restrict; for 2, 2, 2 with "
    "both: 1; an aliased argument is refused under restrict and runs without",
)
def specialized(grid: Places) -> Asking:
    (fact,) = yield from grid.facts(f"{PROBES}:specialization")
    found = {name: fact[name] for name in ("plain", "var_opt", "restrict", "both")}
    said = ", ".join(f"{name}: {count}" for name, count in found.items())
    wrong = [
        *(["variants are not told apart"] if found != {"plain": 1, "var_opt": 2, "restrict": 1, "both": 1} else []),
        *(["an aliased argument is not refused"] if not fact["aliased"] else []),
        *(["the result is wrong"] if fact["value"] != 12.0 else []),
    ]
    return Judgement(said, not wrong, "; ".join(wrong))


@bench.judge(
    "jacc.mech.gcc_pools",
    f"a launch with data of its own: cuMemAlloc for each under GCC, hardly any with two pools and under PGI; what the "
    f"pools take is <= {CHEAP:g} of the calls that they save",
)
def two_pools(grid: Places) -> Asking:
    rounds = 200
    gcc, pooled, pgi = yield from grid.facts(
        f"{PROBES}:launches",
        [
            {"compiler": "gcc", "rounds": rounds},
            {"compiler": "gcc", "pools": True, "rounds": rounds},
            {"compiler": "pgi", "rounds": rounds},
        ],
    )
    saved = number(gcc["allocating_s"]) - number(pooled["allocating_s"])
    pools_s = max(0.0, saved - (number(gcc["elapsed_s"]) - number(pooled["elapsed_s"])))
    said = (
        f"{gcc['allocations']}, {pooled['allocations']} and {pgi['allocations']} allocations in {rounds} launches; "
        f"pools take {pools_s / saved:.2g} of the {saved * 1e3:.3g} ms that they save"
    )
    wrong = [
        *(["GCC does not ask for two blocks a launch"] if gcc["allocations"] != 2 * rounds else []),
        *(["the pools ask for more than their first blocks"] if number(pooled["allocations"]) > 2 else []),
        *(["PGI's pool asks for more than its first block"] if number(pgi["allocations"]) > 1 else []),
        *(["a block of a pool costs as much as a call"] if pools_s > CHEAP * saved else []),
    ]
    return Judgement(said, not wrong, "; ".join(wrong))


@bench.judge(
    "jacc.mech.alloc_latency",
    f"share of cuMemAlloc and cuMemFree in the time: GCC >> PGI; of t(GCC) - t(PGI), at least {MOST:g} is theirs",
)
def latency(grid: Places) -> Asking:
    gcc, pgi = yield from grid.facts(f"{PROBES}:launches", [{"compiler": "gcc"}, {"compiler": "pgi"}])
    shares = [number(fact["allocating_s"]) / number(fact["elapsed_s"]) for fact in (gcc, pgi)]
    difference = number(gcc["elapsed_s"]) - number(pgi["elapsed_s"])
    caused = (number(gcc["allocating_s"]) - number(pgi["allocating_s"])) / difference if difference > 0 else 0.0
    said = f"{shares[0]:.2g} and {shares[1]:.2g} of the time; {caused:.2g} of the difference"
    wrong = [
        *(["GCC's share is not far above PGI's"] if shares[1] > CHEAP * shares[0] else []),
        *(["something else makes most of the difference"] if caused < MOST else []),
    ]
    return Judgement(said, not wrong, "; ".join(wrong))
