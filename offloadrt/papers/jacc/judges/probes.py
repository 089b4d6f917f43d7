"""Small recorded runs that show a mechanism of JACC's layer at work: generated code, queues, specialization, pools."""

from __future__ import annotations

import math
from typing import Annotated, Any, Final, Literal

from offloadrt.kernels import Kernel, kernel
from offloadrt.models import openacc as acc
from offloadrt.study.running.run import Run
from offloadrt.study.scripts.definition import scenario
from offloadrt.study.scripts.parameters import Range
from offloadrt.study.validation.probing import Facts, copies, kernels, recorded
from offloadrt.trace import events

Count = Annotated[int, Range(1, 10_000)]

N: Final = 1 << 18
FEW: Final = 1 << 13
"""Iterations of the slides' kernels: two of them find places on the device at one time."""
STARTED: Final = 1e6
"""Flops an iteration of the slides' kernels, so that each runs for longer than the host needs to push the next one."""
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
    """Push two kernels in turn: what is compiled, when, and what comes out."""
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
    """Run the slides' example: K1(a), K2(b), K3(c = a + b), K4(c = b + c), then c goes to the host."""
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
    """Count how often a kernel is compiled for other values and arrays, for each way of specializing."""
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
    """Launch a short kernel on data of its own, again and again; count the calls of the driver's library."""
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
