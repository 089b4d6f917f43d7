"""Judges of JACC's layer on one device: generated code, queues, specialization, and what an allocation costs."""

from __future__ import annotations

from collections.abc import Mapping

from offloadrt.papers.jacc.judges.places import bench
from offloadrt.study.validation.judging import Hearing, JudgingGrid, unless
from offloadrt.study.validation.measured import number

PROBES = f"{__file__.rpartition('/')[0]}/probes.py"
ROUTINES = ("jacc_copyin", "jacc_create", "jacc_kernel_push", "jacc_copyout", "jacc_delete")


@bench.judge("jacc.mech.layer")
def layer(grid: JudgingGrid) -> Hearing:
    (fact,) = yield from grid.facts(f"{PROBES}:layer")
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
    (fact,) = yield from grid.facts(f"{PROBES}:slides", [{"execution": "overlap"}])
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
    (fact,) = yield from grid.facts(f"{PROBES}:specialization")
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
        f"{PROBES}:launches",
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
    gcc, pgi = yield from grid.facts(f"{PROBES}:launches", [{"compiler": "gcc"}, {"compiler": "pgi"}])
    shares = [number(fact["allocating_s"]) / number(fact["elapsed_s"]) for fact in (gcc, pgi)]
    difference = number(gcc["elapsed_s"]) - number(pgi["elapsed_s"])
    caused = (number(gcc["allocating_s"]) - number(pgi["allocating_s"])) / difference if difference > 0 else 0.0
    emulated = f"{shares[0]:.2g} and {shares[1]:.2g} of the time; {caused:.2g} of the difference"
    wrong = {
        "GCC's share is not far above PGI's": shares[1] > cheap * shares[0],
        "something else makes most of the difference": caused < most,
    }
    return unless(emulated, wrong)
