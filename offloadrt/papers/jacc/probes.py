"""Small recorded runs that show a mechanism of JACC's layer at work: generated code, queues, specialization, pools."""

from __future__ import annotations

import itertools
import math
from typing import Annotated, Any, Final, Literal

import numpy as np

from offloadrt.extensions import openacc as acc
from offloadrt.extensions.evidence.validation.judging import Facts, copies, kernels, overlap, recorded
from offloadrt.extensions.openacc.multi_device import predicate
from offloadrt.kernels import Kernel, kernel
from offloadrt.models.host.directive import launch_of
from offloadrt.study.running.run import Run
from offloadrt.study.scripts.definition import scenario
from offloadrt.study.scripts.parameters import Range
from offloadrt.trace import events

Count = Annotated[int, Range(1, 10_000)]

N: Final = 1 << 18
FEW: Final = 1 << 13
"""The number of iterations of the slides' kernels: two of these kernels fit on the device at the same time."""
STARTED: Final = 1e6
"""Flops per iteration of the slides' kernels, so that each runs for longer than the host needs to push the next one."""
SHORT: Final = Kernel("short", flops_per_iteration=1e4)


@kernel
def scale(factor: Any, x: Any, y: Any) -> None:
    for i in range(len(y)):
        y[i] = factor * x[i]


@kernel
def shift(offset: Any, x: Any, y: Any) -> None:
    for i in range(len(y)):
        y[i] = x[i] + offset


@scenario(machine="dgx1-v100")
async def layer(run: Run, rounds: Count = 20) -> Facts:
    """Launch two kernels in turn by JACC, `rounds` times; return what is compiled, when, and the results."""
    run.options = acc.OpenACCOptions()
    times: list[float] = []

    async def body(t: acc.HostThread) -> float:
        jacc = acc.Jacc(t, execution="sync")
        x, y, z = t.array("x", N, fill=3.0), t.array("y", N, fill=0.0), t.array("z", N, fill=0.0)
        await jacc.jacc_copyin(x)
        await jacc.jacc_create(y, z)
        for _ in range(rounds):
            for pushed, value, source, target in ((scale, 2.0, x, y), (shift, 1.0, y, z)):
                begin = run.sim.now
                await jacc.jacc_kernel_push(pushed, acc.jacc_args(pushed, value, source, target))
                times.append(run.sim.now - begin)
        await jacc.jacc_copyout(z)
        await jacc.jacc_delete(x, y)
        return float(z.data.min() + z.data.max()) / 2.0

    (value,) = await run.parallel(body)
    called = [event.name for event in recorded(run, events.DirectiveBegin)]
    compiled = run.calls.table()["jacc_compile"]
    return {
        "value": value,
        "pushes": called.count("jacc_kernel_push"),
        "routines": ", ".join(dict.fromkeys(called)),
        "compilations": run.program_as(acc.OpenACC).code.compilations,
        "compile_s": compiled.total_s / compiled.count,
        "first_s": min(times[:2]),
        "later_s": max(times[2:]),
    }


@scenario(machine="dgx1-v100")
async def slides(run: Run, execution: Literal["sync", "async", "overlap"] = "overlap") -> Facts:
    """Run the example of the JACC authors' slides: K1(a), K2(b), K3(c = a + b), K4(c = b + c), then copy c to the host.

    Returns the queue, begin and end of each kernel, and the begin of the copy. execution: whether the host waits after
    each kernel (sync), kernels share one async queue (async), or independent kernels get queues of their own (overlap).
    """
    run.options = acc.OpenACCOptions()

    async def body(t: acc.HostThread) -> None:
        jacc = acc.Jacc(t, execution=execution)
        a, b, c = (t.array(name, FEW, phantom=True) for name in "abc")
        await jacc.jacc_create(a, b, c)
        reads = {"K1": (), "K2": (), "K3": (a, b), "K4": (b,)}
        for (name, read), written in zip(reads.items(), (a, b, c, c), strict=True):
            pushed = Kernel(name, flops_per_iteration=STARTED)
            args = [acc.jacc_arg_build(x.name, x, acc.Attribute.PRESENT) for x in read]
            args.append(acc.jacc_arg_build(written.name, written, acc.Attribute.PRESENT | acc.Attribute.WRITE))
            await jacc.jacc_kernel_push(pushed, tuple(args), iterations=FEW)
        await jacc.jacc_copyout(c)
        await jacc.jacc_delete(a, b)

    run.set("jit.compile", "0 s")
    await run.parallel(body)
    facts: Facts = {"out_begin": min(copy.begin for copy in copies(run) if copy.first.direction == "d2h")}
    for span in sorted(kernels(run), key=lambda span: span.first.kernel):
        name = span.first.name
        facts |= {f"{name}_queue": span.first.queue, f"{name}_begin": span.begin, f"{name}_end": span.end}
    return facts


@scenario(machine="dgx1-v100")
async def specialization(run: Run) -> Facts:
    """Count how often a kernel is compiled when its arguments change, for each way in which JACC specialises it."""
    run.options = acc.OpenACCOptions()
    facts: Facts = {}

    async def body(t: acc.HostThread) -> None:
        jacc = acc.Jacc(t, execution="sync")
        x, y = t.array("x", N, fill=3.0), t.array("y", N, fill=0.0)
        await jacc.jacc_copyin(x, y)
        none, restrict, constants = acc.PushFlags.NONE, acc.PushFlags.RESTRICT, acc.PushFlags.VAR_OPT
        for name, values, flags in (
            ("plain", (2.0, 3.0, 2.0), none),
            ("var_opt", (2.0, 3.0, 2.0), constants),
            ("restrict", (2.0, 3.0, 2.0), restrict),
            ("both", (2.0, 2.0, 2.0), restrict | constants),
        ):
            before = run.program_as(acc.OpenACC).code.compilations
            for value in values:
                await jacc.jacc_kernel_push(scale, acc.jacc_args(scale, value, x, y), flags)
            facts[name] = run.program_as(acc.OpenACC).code.compilations - before
            await jacc.jacc_host_access(y)
        try:
            await jacc.jacc_kernel_push(scale, acc.jacc_args(scale, 2.0, y, y), restrict)
            facts["aliased"] = ""
        except acc.AliasedArgument as error:
            facts["aliased"] = error.array
        await jacc.jacc_kernel_push(scale, acc.jacc_args(scale, 2.0, y, y), none)
        await jacc.jacc_copyout(y)
        await jacc.jacc_delete(x)
        facts["value"] = float(y.data[0])

    await run.parallel(body)
    return facts


@scenario(machine="dgx1-v100")
async def launches(
    run: Run,
    compiler: Literal["pgi", "gcc"] = "gcc",
    pools: bool = False,
    execution: Literal["sync", "async"] = "sync",
    rounds: Count = 200,
) -> Facts:
    """Launch a short kernel on its own data `rounds` times; count the calls of the driver's library.

    compiler: whose run-time library is used. pools: whether GCC's library has JACC's pools of device memory. execution:
    whether the host waits for each launch (`sync`).
    """
    run.options = acc.OpenACCOptions(compiler=compiler, pools=pools)
    run.set("jit.compile", "0 s")

    async def body(t: acc.HostThread) -> None:
        jacc = acc.Jacc(t, execution=execution)
        for _ in range(rounds):
            data = t.array("data", N, phantom=True)
            await jacc.jacc_create(data)
            await jacc.jacc_kernel_push(SHORT, acc.jacc_args(SHORT, data))
            await jacc.jacc_delete(data)

    async with run.measure():
        await run.parallel(body)
    calls = run.measured.calls.table()
    allocating = [calls[name] for name in ("cuMemAlloc", "cuMemFree") if name in calls]
    return {
        "allocations": calls["cuMemAlloc"].count,
        "frees": calls["cuMemFree"].count if "cuMemFree" in calls else 0,
        "allocating_s": math.fsum(call.total_s for call in allocating),
        "elapsed_s": run.elapsed,
    }


Length = Annotated[int, Range(1, 100_000)]
Strategies = Literal["single", "adaptive", "always"]

DOUBLE: Final = 8
COLUMNS: Final = 512


@kernel(collapse=2)
def weigh(c: Any, x: Any, y: Any, planes: Any, rows: Any, columns: Any) -> None:
    for i in range(rows):
        for j in range(columns):
            s = 0.0
            for k in range(planes):
                s += c[k, i, j] * x[i, j]
            y[i, j] = s


@kernel(collapse=2)
def series(x: Any, y: Any, terms: Any, rows: Any, columns: Any) -> None:
    for i in range(rows):
        for j in range(columns):
            s = 0.0
            for _ in range(terms):
                s = s * x[i, j] + 1.0
            y[i, j] = s


@kernel(collapse=2)
def outermost(a: Any, b: Any, rows: Any, columns: Any) -> None:
    for i in range(rows):
        for j in range(columns):
            a[i, j] = 2.0 * b[i, j]


@kernel
def carried(a: Any, rows: Any, columns: Any) -> None:
    for j in range(columns):
        for i in range(1, rows):
            a[i, j] = a[i, j] + a[i - 1, j]


@kernel(collapse=3)
def joined(a: Any, b: Any, planes: Any, rows: Any, columns: Any) -> None:
    for k in range(planes):
        for i in range(rows):
            for j in range(columns):
                a[k, i * columns + j] = 2.0 * b[k, i * columns + j]


@scenario(machine="dgx1-v100")
async def division(
    run: Run,
    gpus: Annotated[int, Range(1, 8)] = 4,
    strategy: Strategies = "always",
    bound: Literal["memory", "compute"] = "memory",
    planes: Length = 40,
    terms: Length = 5000,
    rows: Length = 8192,
    steps: Length = 12,
    link_gb_s: Annotated[float, Range(0.0, 1000.0)] = 0.0,
    eff_dup: Literal["measured", "infinite"] = "measured",
    data: bool = False,
) -> Facts:
    """Run, `steps` times, a kernel that is limited by memory or by computing, on several GPUs.

    A memory-bound kernel reads `planes` elements for each that it writes, a compute-bound one does `terms`
    multiplications and additions. rows: those of the written array. strategy: which kernels are divided among the GPUs.
    link_gb_s: of each link between GPUs; 0 leaves it as the machine has it. eff_dup: the paper's undefined quantity in
    the rule that ends a division: measured seconds of undivided executions per byte sent, or infinite, so that this
    rule never holds. data: compute values, and say whether they are right.
    """
    run.options = acc.OpenACCOptions(num_devices=gpus, phantom=not data)
    run.set("jit.compile", "0 s")
    if link_gb_s:
        run.set("nvlink.link_bw", f"{link_gb_s} GB/s")
    runtimes: list[acc.Jacc] = []

    async def body(t: acc.HostThread) -> bool:
        chosen: str | acc.DeviceStrategy = strategy
        if strategy == "adaptive":
            chosen = acc.DeviceStrategy(acc.AdaptiveController(acc.Rules(gpus, eff_dup=eff_dup)), predicate)
        jacc = acc.Jacc(t, execution="async", devices=gpus, strategy=chosen)
        runtimes.append(jacc)
        values = np.random.default_rng(1).normal(size=(planes, rows, COLUMNS)) if data else None
        c = t.array("c", (planes, rows, COLUMNS), fill=values)
        x = t.array("x", (rows, COLUMNS), fill=None if values is None else values[0])
        y = t.array("y", (rows, COLUMNS), fill=0.0 if data else None)
        await jacc.jacc_copyin(c, x, y)
        for _ in range(steps):
            if bound == "memory":
                await jacc.jacc_kernel_push(weigh, acc.jacc_args(weigh, c, x, y, planes, rows, COLUMNS))
            else:
                await jacc.jacc_kernel_push(series, acc.jacc_args(series, x, y, terms, rows, COLUMNS))
            x, y = y, x
        await jacc.jacc_copyout(x, y)
        await jacc.jacc_delete(c)
        return values is None or bool(np.array_equal(x.data, _in_numpy(values, steps)[0]))

    (equal,) = await run.parallel(body)
    used = 1 if strategy == "single" else gpus
    spans = sorted(kernels(run), key=lambda span: span.first.kernel)  # in the order of submission
    sent = [copy for copy in copies(run) if copy.first.direction == "p2p"]
    executions = [spans[start : start + used] for start in range(0, len(spans), used)]
    times = [max(span.end for span in group) - min(span.begin for span in group) for group in executions]
    before, after = itertools.tee(executions)
    next(after, None)
    waiting = [
        (min(span.begin for span in now) - max(span.end for span in last)) * 1e-12
        for last, now in zip(before, after, strict=False)
    ]
    measured = next(iter(runtimes[0].times.values()), acc.KernelTimes())
    by_device = [sum(copy.first.bytes for copy in sent if copy.first.device == device) for device in range(used)]
    return {
        "equal": equal,
        "executions": len(executions),
        "divided": measured.divided,
        "kernel_s": math.fsum(times) * 1e-12 / len(times),
        "last_kernel_s": times[-1] * 1e-12,
        "communication_s": measured.communication_s / max(1, measured.divided),
        "least_sent": min(by_device),
        "most_sent": max(by_device),
        "all_sent": sum(by_device),
        "transfers": len(sent),
        "waits_s": max(waiting, default=0.0),
        "least_wait_s": min(waiting, default=0.0),
        "shared_ps": overlap(spans, sent),
        "written_bytes": rows * COLUMNS * DOUBLE,
    }


def _in_numpy(c: Any, steps: int) -> tuple[Any, Any]:
    """Compute the result of the kernel `weigh` with NumPy, adding in the same order."""
    x, y = c[0], np.zeros_like(c[0])
    for _ in range(steps):
        y = np.zeros_like(x)
        for plane in c:
            y = y + plane * x
        x, y = y, x
    return x, y


@scenario(machine="dgx1-v100")
async def filtering(run: Run, gpus: Annotated[int, Range(2, 8)] = 4) -> Facts:
    """Measure which accesses of a kernel each device makes when JACC divides it, and how written arrays are divided.

    JACC puts each access under a condition (predicate), so that a device makes only those that its part needs.
    """
    run.options = acc.OpenACCOptions(num_devices=gpus, phantom=True)
    facts: Facts = {}

    async def body(t: acc.HostThread) -> None:
        planes, rows = 40, 1024
        c = t.array("c", (planes, rows, COLUMNS))
        x, y = (t.array(name, (rows, COLUMNS)) for name in ("x", "y"))
        arguments = (c, x, y, planes, rows, COLUMNS)
        undivided, divided = launch_of(weigh, arguments), predicate(weigh)
        parts = divided.parts(gpus, arguments)
        launches = [launch_of(divided.kernel, divided.arguments(part.share, arguments)) for part in parts]
        facts["iterations"] = undivided.iterations
        facts["least_iterations"] = min(launch.iterations for launch in launches)
        facts["flops"] = min(launch.flops for launch in launches) / undivided.flops
        facts["bytes"] = max(launch.bytes for launch in launches) / undivided.bytes
        facts["least_owned"], facts["most_owned"] = _ends([part.segments["y"] for part in parts])
        facts["owned"] = sum(nbytes for part in parts for _, nbytes in part.segments["y"])
        facts["written_bytes"] = rows * COLUMNS * DOUBLE
        facts["row_bytes"] = COLUMNS * DOUBLE
        flat = t.array("flat", (planes, rows * COLUMNS))
        for divisible, arguments_of_kernel in (
            (outermost, (x, y, rows, COLUMNS)),
            (carried, (x, rows, COLUMNS)),
            (joined, (flat, t.array("b", (planes, rows * COLUMNS)), planes, rows, COLUMNS)),
        ):
            facts[f"{divisible.name}_dimension"], facts[f"{divisible.name}_segments"] = _dimension(
                divisible, gpus, arguments_of_kernel
            )
        facts["rows"], facts["planes"] = rows, planes

    await run.parallel(body)
    return facts


def _ends(owned: Any) -> tuple[int, int]:
    totals = [sum(nbytes for _, nbytes in segments) for segments in owned]
    return min(totals), max(totals)


def _dimension(original: Kernel, gpus: int, arguments: Any) -> tuple[int | None, int]:
    """Return the dimension along which an array is divided, and in how many pieces the first device's part lies."""
    divided = predicate(original)
    return divided.written[0].dimension, len(divided.parts(gpus, arguments)[0].segments["a"])
