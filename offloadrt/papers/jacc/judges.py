"""Judges of the JACC paper's claims: each asks for the runs that its claim needs.

First come the parameters of the runs, and how all iterations are extrapolated from a few. Then come the judges of
figures of one GPU and of several, comparisons of assumed inputs with what follows from them, and the judges of how
JACC's layer works on one device and how it divides kernels (predicates, the controller), with the small recorded runs
of `probes`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from offloadrt.extensions.evidence.validation.claims import Claim
from offloadrt.extensions.evidence.validation.judging import (
    Asking,
    Bench,
    Extent,
    Hearing,
    Judgement,
    JudgingGrid,
    Paper,
    Reading,
    listed,
    longer,
    mean,
    not_rising,
    number,
    numbers,
    unless,
)
from offloadrt.extensions.openacc import Execution, KernelState, Mode, Rules, after_execution
from offloadrt.papers.jacc import probes
from offloadrt.papers.jacc.programs import BENCHMARKS, benchmark
from offloadrt.papers.jacc.programs.benchmark import extent
from offloadrt.study.reporting.results import Result
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.spec import RunSpec

SCENARIO = "jacc"
MACHINE = "dgx1-v100"
HIMENO_SIZES = ("M", "L", "XL")
CANDIDATES: dict[str, dict[str, str]] = {}
SENSITIVITY: tuple[dict[str, Value], ...] = (
    {"benchmark": "Himeno", "gpus": 4, "fraction": 0.01},
    {"benchmark": "EP", "gpus": 4, "fraction": 0.02},
    {"benchmark": "CG", "gpus": 1, "strategy": "single", "compiler": "gcc", "fraction": 0.0005},
)
"""Short runs that show whether an entry of the machine's profile has any influence on times."""

SHORT = ("CG", "EP", "FT", "MG", "Himeno", "CloverLeaf")
"""The benchmarks of the smallest grid: their iterations have few launches."""

bench = Bench.of("offloadrt.papers.jacc")

Case = tuple[str, Mapping[str, Value]]
"""A benchmark and the parameters of its run."""


@attrs.frozen
class AllIterations:
    """The figures of a benchmark with all its iterations, extrapolated from two shorter runs.

    fewer, more: the results of the two runs, which differ in the number of iterations.
    """

    iterations: int
    fewer: Result
    more: Result

    def of(self, figure: str) -> float:
        """Return the figure of this name for all iterations of the benchmark.

        Beyond the longer run, the figure is taken to grow by the same amount with each iteration.
        """
        return self._ran(self.more, figure) + self.each(figure) * (self.iterations - self._ran(self.more, "iterations"))

    def each(self, figure: str) -> float:
        """Return by how much the figure of this name grows with each iteration between the shorter and the longer run.

        JACC's controller decides in the first iterations which kernels are divided; these are in both runs and do not
        count.
        """
        more, fewer = (self._ran(run, figure) for run in (self.more, self.fewer))
        return (more - fewer) / (self._ran(self.more, "iterations") - self._ran(self.fewer, "iterations"))

    def execution_s(self, kernel: str) -> float:
        """Return the seconds of one execution of a kernel, once JACC's controller has decided whether it is divided.

        kernel: its name.
        """
        return self.each(f"{kernel}.kernel_s") / self.each(f"{kernel}.executions")

    @property
    def adapted(self) -> list[str]:
        """Return the names of the kernels that JACC's controller divides among devices at the end of the run."""
        names = [name.removesuffix(".adapted") for name, value in self.more.measured.items() if value is True]
        return [name for name in names if f"{name}.adapted" in self.more.measured]

    @property
    def adapted_s(self) -> float:
        """Return the total seconds of the executions of the kernels in `adapted` that were divided."""
        return math.fsum(self.of(f"{name}.divided") * self.execution_s(name) for name in self.adapted)

    @property
    def both_s(self) -> float:
        """Return the seconds that kernels and exchanges between devices take together."""
        return self.of("kernel_s") + self.of("communication_s")

    @staticmethod
    def _ran(run: Result, figure: str) -> float:
        return number(run.measured[figure])


@attrs.frozen
class BenchmarkGrid(JudgingGrid):
    """How many iterations of each benchmark are run to judge the paper's claims.

    alone: the two numbers of iterations on one GPU. several: those on several GPUs, which are larger, since JACC's
    controller needs some iterations to decide which kernels it divides. benchmarks: the names of those that are run.
    """

    alone: tuple[int, int]
    several: tuple[int, int]
    benchmarks: tuple[str, ...]

    def lacks(self, *names: str) -> Judgement | None:
        """Return the verdict that a claim cannot be judged, if the grid lacks a benchmark in `names`; else None."""
        lacking = [name for name in names if name not in self.benchmarks]
        return Judgement("–", None, f"needs {', '.join(lacking)}") if lacking else None

    @property
    def described(self) -> str:
        """Describe in words the runs on which the paper's claims are judged."""
        return (
            f"{', '.join(self.benchmarks)}: {self.alone[0]} and {self.alone[1]} iterations on one GPU, "
            f"{self.several[0]} and {self.several[1]} on several"
        )


def grid(extent: Extent, options: RunSpec) -> BenchmarkGrid:
    """Choose the runs on which claims are judged. extent: `full`, `quick` or `ends`, with ever fewer runs.

    Smaller extents have fewer iterations and benchmarks. options: those of every run.
    """
    # a rule has to hold five times before a kernel is divided, and another five times before it no longer is
    counts = {"full": ((2, 4), (12, 15)), "quick": ((1, 2), (11, 13)), "ends": ((1, 2), (11, 12))}
    alone, several = counts[extent]
    benchmarks = SHORT if extent == "ends" else tuple(BENCHMARKS)
    return BenchmarkGrid(SCENARIO, alone, several, benchmarks, options=options)


def all_iterations(grid: BenchmarkGrid, cases: Iterable[Case]) -> Asking[list[AllIterations]]:
    """Extrapolate the benchmarks in `cases` to all their iterations.

    A function that judges a claim calls this with `yield from`, which hands on its requests for runs.
    """
    wanted = list(cases)
    points = []
    for name, asked in wanted:
        counts = grid.alone if asked.get("strategy") == "single" else grid.several
        points += [
            grid.point(
                {"benchmark": name, "fraction": count / iterations_of(name, str(asked.get("size", ""))), **asked}
            )
            for count in counts
        ]
    results: list[Result] = yield points
    return [
        AllIterations(iterations_of(name, str(asked.get("size", ""))), *results[2 * place : 2 * place + 2])
        for place, (name, asked) in enumerate(wanted)
    ]


@functools.cache
def iterations_of(name: str, size: str = "") -> int:
    """Return the number of iterations of a benchmark at a size, by default the paper's."""
    return benchmark(name).program(extent, size).iterations


DETAILED = ("BT", "CG", "EP", "SP", "Himeno")
"""Benchmarks whose rows of the detail table are judged."""
ADAPTIVE: dict[str, Value] = {"gpus": 4, "strategy": "adaptive"}
SINGLE: dict[str, Value] = {"gpus": 1, "strategy": "single", "execution": "sync"}

COLUMNS: dict[str, Callable[[AllIterations], float]] = {
    "kernels and exchanges": lambda run: run.both_s,
    "kernels": lambda run: run.of("kernel_s"),
    "divided kernels": lambda run: run.adapted_s,
    "exchanges": lambda run: run.of("communication_s"),
}
"""The columns of the detail table, in seconds over all iterations."""


@bench.judge(*(f"jacc.detail.*.{column}" for column in ("commkernel", "ktotal", "kadapted", "comm")))
def detail(grid: BenchmarkGrid, name: str, what: str) -> Hearing:
    """Judge whether one figure of a benchmark's row in the paper's table of details agrees with the emulated one.

    name: the benchmark. what: the figure's name.
    """
    if lacking := grid.lacks(name):
        yield []
        return lacking
    (run,) = yield from all_iterations(grid, [(name, ADAPTIVE)])
    value = 1e3 * COLUMNS[what](run)
    divided = sum(run.of(f"{kernel}.divided") for kernel in run.adapted)
    written, rate = numbers(run.more.measured, "write_bytes", "bandwidth_gb_s")
    times_ms = {kernel: 1e3 * run.execution_s(kernel) for kernel in sorted(run.adapted, key=run.execution_s)}
    kernels = ", ".join(f"{kernel} {ms:.3g} ms" for kernel, ms in times_ms.items())
    emulated = f"{value:.5g} ms ({len(times_ms)} kernels divided, {divided:.3g} executions, {written / 1e6:.3g} MB)"
    reason = (
        f"{what} take that long: an execution of divided kernels takes {kernels or 'nothing, as there is none'}; "
        f"exchanges of {written / 1e6:.3g} MB a pair (paper: {_reported_mb(name)} MB) run at {rate:.3g} GB/s"
    )
    return Reading(emulated, value, reason)


@bench.judge("jacc.detail.*.bw")
def bandwidth(grid: BenchmarkGrid, name: str) -> Hearing:
    """Judge a benchmark's bandwidth of exchanges between GPUs: WriteSize over the mean time of an exchange.

    WriteSize is the paper's name for the bytes that a GPU sends to each other one.
    """
    if lacking := grid.lacks(name):
        yield []
        return lacking
    (run,) = yield from all_iterations(grid, [(name, ADAPTIVE)])
    written, value = numbers(run.more.measured, "write_bytes", "bandwidth_gb_s")
    emulated = f"{value:.3g} GB/s ({written / 1e6:.3g} MB, {written / value / 1e3:.4g} us)"
    reason = (
        "an exchange is copies over links of 23.95 GB/s, with the calls that start them and the wait for the last one; "
        f"here it is one of {written / 1e6:.3g} MB, in the paper of {_reported_mb(name)} MB"
    )
    return Reading(emulated, value, reason)


def _reported_mb(name: str) -> object:
    """Return the paper's WriteSize of a benchmark, in MB."""
    return bench.claims[f"jacc.detail.{name}.write"].value


def one_and_four(grid: BenchmarkGrid, name: str, compiler: str = "pgi") -> Asking[list[AllIterations]]:
    """Run a benchmark, compiled by `compiler`, on one GPU and on four, where JACC decides which kernels are divided."""
    strategies = [{**strategy, "compiler": compiler} for strategy in (SINGLE, ADAPTIVE)]
    return (yield from all_iterations(grid, [(name, strategy) for strategy in strategies]))


@bench.judge("jacc.multi.kernel.*")
def kernel_speedup(grid: BenchmarkGrid, name: str, compiler: str) -> Hearing:
    if lacking := grid.lacks(name):
        yield []
        return lacking
    alone, four = yield from one_and_four(grid, name, compiler)
    if not four.adapted:
        return Judgement("–", False, "no kernel is divided")
    speedups = {kernel: alone.execution_s(kernel) / four.execution_s(kernel) for kernel in four.adapted}
    together = sum(alone.execution_s(kernel) for kernel in speedups) / sum(
        four.execution_s(kernel) for kernel in speedups
    )
    low = "what every device does anew, and accesses that no predicate divides, stay as they are"
    high = "the accesses of these kernels are divided almost completely"
    return Reading(f"{together:.3g} ({listed(speedups)})", together, low, high)


@bench.judge("jacc.multi.ep")
def compute_bound(grid: BenchmarkGrid) -> Hearing:
    alone, four = yield from one_and_four(grid, "EP")
    value = four.both_s / alone.of("kernel_s")
    return Reading(f"{value:.4g}", value, "computation is divided", "exchanges take long")


@bench.judge("jacc.multi.other")
def other_factors(grid: BenchmarkGrid) -> Hearing:
    names = [name for name in DETAILED if name in grid.benchmarks]
    results = yield from all_iterations(grid, [(name, strategy) for name in names for strategy in (SINGLE, ADAPTIVE)])
    total, inner = {}, {}
    for name, alone, four in zip(names, results[::2], results[1::2], strict=True):
        total[name] = alone.of("total_s") / four.of("total_s")
        inner[name] = alone.both_s / four.both_s
    more = [name for name in names if longer(total[name], inner[name])]
    wrong = {
        f"the total gains more in {', '.join(more)}": more,
        "what else the host does takes no longer with four GPUs": not longer(
            mean(inner.values()), mean(total.values())
        ),
    }
    return unless(f"total {listed(total)}; kernels and exchanges {listed(inner)}", wrong)


def himeno(grid: BenchmarkGrid, size: str, gpus: int) -> Asking[AllIterations]:
    """Run Himeno at a size (its name); on several GPUs, every kernel that can be divided is divided."""
    strategy: dict[str, Value] = SINGLE if gpus == 1 else {"gpus": gpus, "strategy": "always"}
    (run,) = yield from all_iterations(grid, [("Himeno", {**strategy, "size": size})])
    return run


def ratios(grid: BenchmarkGrid, size: str) -> Asking[tuple[float, float]]:
    """Measure Himeno's speed-up at a size: of its kernel from one GPU to four, of its exchanges from two to four."""
    on_one = yield from himeno(grid, size, 1)
    on_two = yield from himeno(grid, size, 2)
    on_four = yield from himeno(grid, size, 4)
    kernel = on_one.execution_s("jacobi") / on_four.execution_s("jacobi")
    return kernel, on_two.each("jacobi.communication_s") / on_four.each("jacobi.communication_s")


@bench.judge("jacc.himeno.XL.kernel")
def himeno_kernel(grid: BenchmarkGrid) -> Hearing:
    kernel, _ = yield from ratios(grid, "XL")
    return Reading(f"{kernel:.3g}", kernel, "planes are read twice", "accesses are divided")


@bench.judge("jacc.himeno.XL.comm")
def himeno_exchange(grid: BenchmarkGrid) -> Hearing:
    _, exchange = yield from ratios(grid, "XL")
    reason = "each GPU sends half or a quarter of the array to each other one, over a link of its own"
    return Reading(f"{exchange:.4g}", exchange, reason)


@bench.judge("jacc.himeno.size_trend")
def himeno_sizes(grid: BenchmarkGrid) -> Hearing:
    kernel, exchange = {}, {}
    for size in HIMENO_SIZES:
        kernel[size], exchange[size] = yield from ratios(grid, size)
    emulated = f"kernel {listed(kernel, '.4g')}; exchange {listed(exchange, '.4g')}"
    names = [name for name, curve in (("kernel", kernel), ("exchange", exchange)) if not_rising(curve)]
    reason = f"{' and '.join(names)}: the speed-up does not rise; mean {mean(kernel.values()):.3g}"
    return Judgement(emulated, not names, reason)


def improvement(grid: BenchmarkGrid, compiler: str, before: str, after: str) -> Asking[dict[str, float]]:
    """Return, by benchmark, by how many percent the way of execution `after` is faster than the way `before`.

    The ways are `sync`, `async` and `overlap`, in which kernels are ordered. compiler: that of the benchmarks.
    """
    times = {}
    for execution in (before, after):
        parameters: dict[str, Value] = {"gpus": 1, "strategy": "single", "compiler": compiler, "execution": execution}
        results = yield from all_iterations(grid, [(name, parameters) for name in grid.benchmarks])
        times[execution] = [run.of("total_s") for run in results]
    pairs = zip(grid.benchmarks, times[before], times[after], strict=True)
    return {name: 100.0 * (slow / fast - 1.0) for name, slow, fast in pairs}


def lacking(grid: BenchmarkGrid) -> str:
    """Return in words how many of the ten benchmarks the grid has; an empty text if it has all."""
    return "" if len(grid.benchmarks) == 10 else f" ({len(grid.benchmarks)} of 10 benchmarks)"


@bench.judge("jacc.async.pgi", "jacc.async.gcc")
def asynchronous(grid: BenchmarkGrid, compiler: str) -> Hearing:
    results = yield from improvement(grid, compiler, "sync", "async")
    most = max(results, key=lambda name: results[name])
    emulated = f"{mean(results.values()):.3g} %{lacking(grid)}: {listed(results)}"
    low = (
        "what the host no longer waits for (the end of each kernel, under GCC also the calls for its block of "
        "arguments) is microseconds a launch, which only benchmarks of short kernels feel"
    )
    high = f"the wait for each kernel costs {most} the most: its kernels are short"
    return Reading(emulated, mean(results.values()), low, high)


@bench.judge("jacc.async.gcc_gt_pgi")
def more_with_gcc(grid: BenchmarkGrid) -> Hearing:
    gcc = yield from improvement(grid, "gcc", "sync", "async")
    pgi = yield from improvement(grid, "pgi", "sync", "async")
    gain_gcc, gain_pgi = mean(gcc.values()), mean(pgi.values())
    emulated = f"{gain_gcc:.3g} and {gain_pgi:.3g} %{lacking(grid)}"
    reason = (
        f"{gain_gcc / gain_pgi:.3g} times: under GCC the calls for each launch's block of arguments are "
        "hidden behind kernels as well, but kernels that are longer than these calls gain as little as under PGI"
    )
    return Reading(emulated, gain_gcc / gain_pgi, reason)


@bench.judge("jacc.async.overlap")
def overlapping(grid: BenchmarkGrid) -> Hearing:
    results = yield from improvement(grid, "pgi", "async", "overlap")
    value = abs(mean(results.values()))
    reason = "kernels that depend on one another are put on several queues, or independent ones share the device"
    return Reading(f"{value:.2g} %{lacking(grid)}: {listed(results)}", value, reason)


@bench.judge("jacc.gcc.pool_competitive")
def pools(grid: BenchmarkGrid) -> Hearing:
    names = [name for name in grid.benchmarks if name != "EP"]
    pgi: dict[str, Value] = {"gpus": 1, "strategy": "single", "compiler": "pgi"}
    results = yield from all_iterations(grid, [(name, pgi) for name in names])
    pooled = yield from all_iterations(grid, [(name, {**pgi, "compiler": "gcc", "pools": True}) for name in names])
    percent = {
        name: 100.0 * (with_pgi.of("total_s") / with_gcc.of("total_s") - 1.0)
        for name, with_pgi, with_gcc in zip(names, results, pooled, strict=True)
    }
    claim = bench.claims["jacc.gcc.pool_competitive"]
    reason = (
        f"{{outside}} lie outside {claim.lo:g} to {claim.hi:g} %: a copy of each launch's block of arguments "
        "is left, which a short kernel does not hide"
    )
    return Reading(f"{listed(percent)}{lacking(grid)}", percent, reason)


def _run(grid: BenchmarkGrid, claim: Claim, strategy: dict[str, Value]) -> Asking[AllIterations]:
    """Run the benchmark that a claim is about, whose name is in the claim's id."""
    name = claim.id.split(".")[2]
    (run,) = yield from all_iterations(grid, [(name, strategy)])
    return run


@bench.beside("jacc.bench.*")
def memory_and_kernels(grid: BenchmarkGrid, claim: Claim) -> Asking[Sequence[float]]:
    run = yield from _run(grid, claim, ADAPTIVE)
    kernels = sum(name.endswith(".executions") for name in run.more.measured)
    return number(run.more.measured["array_bytes"]) / 1e9, kernels


@bench.beside("jacc.detail.*.dup")
def time_on_one_device(grid: BenchmarkGrid, claim: Claim) -> Asking[Sequence[float]]:
    run = yield from _run(grid, claim, SINGLE)
    return (1e3 * run.of("kernel_s"),)


@bench.beside("jacc.detail.*.launches")
def executions(grid: BenchmarkGrid, claim: Claim) -> Asking[Sequence[float]]:
    run = yield from _run(grid, claim, ADAPTIVE)
    return (run.of("executions"),)


@bench.beside("jacc.detail.*.adapted")
def divided_kernels(grid: BenchmarkGrid, claim: Claim) -> Asking[Sequence[float]]:
    run = yield from _run(grid, claim, ADAPTIVE)
    return (len(run.adapted),)


@bench.beside("jacc.detail.*.write")
def bytes_written(grid: BenchmarkGrid, claim: Claim) -> Asking[Sequence[float]]:
    run = yield from _run(grid, claim, ADAPTIVE)
    return (number(run.more.measured["write_bytes"]) / 1e6,)


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
"""The number of devices of the probes."""
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
    (fact,) = yield from grid.facts(DIVISION, [{**parameters, "eff_dup": "infinite"}])
    # 2 + 7 > 2 * 4, and 10 + 1 < 10 * 4
    pure = _disabled(times, Rules(DEVICES, eff_dup="infinite"), Execution(2.0, 7.0, 1.0), Execution(10.0, 1.0, 1.0))
    return _and_emulated(pure, [number(fact["divided"])], [times], 2 * times + 1)


@bench.judge("jacc.mech.disable2")
def disabled_by_duplication(grid: JudgingGrid, times: int) -> Hearing:
    parameters: dict[str, Value] = {"strategy": "adaptive", "bound": "compute", "steps": 2 * times + 1}
    facts = yield from grid.facts(DIVISION, [{**parameters, "eff_dup": each} for each in ("measured", "infinite")])
    # 4 + 7 > 10 * 1, but not > 4 * 4; 4 + 0 < 10
    pure = _disabled(times, Rules(DEVICES, eff_dup="measured"), Execution(4.0, 7.0, 1.0), Execution(4.0, 0.0, 1.0))
    return _and_emulated(pure, [number(fact["divided"]) for fact in facts], [times, times + 1], 2 * times + 1)


def _and_emulated(pure: Judgement, divided: list[float], expected: list[int], executions: int) -> Judgement:
    """Judge both what the pure controller does and how many executions are divided in emulated runs."""
    emulated = f"{pure.emulated}; emulated: {' and '.join(f'{count:g}' for count in divided)} of {executions} divided"
    wrong = [pure.reason] if not pure.holds else []
    wrong += ["an emulated kernel is divided more or less often"] if divided != expected else []
    return unless(emulated, wrong)


ALONE = Execution(10.0, 0.0, 1.0)
"""A duplicated execution with one byte to send, which makes eff_dup 10 s per byte."""


def _disabled(times: int, rules: Rules, losing: Execution, winning: Execution) -> Judgement:
    """Judge whether the pure controller stops dividing after losing executions.

    It must stop after `times` of them, and must not if one execution among them wins by far.
    """
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


PAPER = Paper("jacc", MACHINE, bench, grid, SENSITIVITY, CANDIDATES, uses=["process.driver_lock"])
