"""Small recorded runs that show a mechanism of the OTM paper at work; they measure facts counted in the trace.

They use three objects of equal size. A kernel accesses each element of `c` and of `a`, and every fourth of `b`. Their
ranks are in this order.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from offloadrt.extensions.evidence.validation.judging import Facts, kernels, recorded
from offloadrt.extensions.otm.configuration import placements_on
from offloadrt.extensions.otm.ranking import HostProgram
from offloadrt.kernels import Kernel, kernel
from offloadrt.models import openmp as omp
from offloadrt.papers.otm.rodinia import Bfs, Cfd, Srad
from offloadrt.papers.otm.unified_memory import UnifiedMemory
from offloadrt.runtime.errors import ArrayOutOfDeviceMemory
from offloadrt.study.running.run import Run
from offloadrt.study.scripts.definition import scenario
from offloadrt.study.scripts.parameters import Range
from offloadrt.trace import events

BLOCK: Final = 2 << 20
DOUBLE: Final = 8
N: Final = BLOCK // DOUBLE
"""The number of elements of each object."""
ROUNDS: Final = 4
"""The number of target calls in the loop."""
SWEPT: Final = 256 << 20
"""Bytes of an array that is transferred as a whole."""


@kernel
def gather(a: Any, b: Any, c: Any) -> None:
    for i in range(len(c)):
        c[i] = c[i] + a[i]
        if c[i] > 0.5:  # noqa: SIM102  # two branches, each taken every second time
            if a[i] > 0.5:
                b[i] = 1.0


@kernel
def pair(a: Any, b: Any) -> None:
    for i in range(len(a)):
        a[i] = a[i] + b[i]


LAF: Final = {"c": 3.0, "a": 1.5, "b": 0.25}
"""Local access frequencies of `gather`, counted by hand: a branch is taken every second time."""
DENSITY: Final = {"c": 1.0, "a": 1.0, "b": 0.25}


async def three_objects(t: omp.HostThread) -> None:
    """Run a loop of target regions inside `target data`."""
    a = t.array("a", N, fill=1.0, align=BLOCK)
    b = t.array("b", N, fill=0.0, align=BLOCK)
    c = t.array("c", N, fill=1.0, align=BLOCK)
    async with t.target_data(omp.map(tofrom=[a, b, c])):
        for _ in range(4):
            await t.target(gather, a, b, c, maps=omp.map(tofrom=[a, b, c]))


async def two_then_three(t: omp.HostThread) -> None:
    """Run a target region on `a` and `b`, and then map `c` as well."""
    a = t.array("a", N, fill=1.0, align=BLOCK)
    b = t.array("b", N, fill=0.0, align=BLOCK)
    c = t.array("c", N, fill=1.0, align=BLOCK)
    async with t.target_data(omp.map(tofrom=[a, b])):
        await t.target(pair, a, b, maps=omp.map(tofrom=[a, b]))
        for _ in range(4):
            await t.target(gather, a, b, c, maps=omp.map(tofrom=[a, b, c]))


@scenario(machine="summitdev-p100")
async def objects(
    run: Run,
    room: Annotated[float, Range(0.0, 100.0)] = 3.0,
    lacking: Annotated[int, Range(0, None)] = 0,
    threshold: Annotated[float, Range(0.0, 2.0)] = 0.6,
    late: bool = False,
) -> Facts:
    """Place three equal objects in a device memory that holds `room` of them, less `lacking` bytes; count what moves.

    threshold: the accesses per element from which on OTM copies an object instead of letting it migrate. With `late`,
    the object `c`, which OTM ranks first, is mapped when the others are in use already.
    """
    body = two_then_three if late else three_objects
    run.configure(configuration="otm", host_program=HostProgram.of(body), phantom=True)
    run.set("mem.size", f"{round(room * N * DOUBLE)} B")
    run.set("mem.reserved", "0 B")
    run.set("otm.reserve", f"{lacking} B")
    run.set("otm.threshold", threshold)
    await run.parallel(body)
    await run.finish()
    placed = recorded(run, events.ObjectPlaced)
    copies = recorded(run, events.CopyBegin)
    managed, counters, port = run.device().managed, run.statistics.sections["otm"].figures, 0.0
    if managed is not None:
        port = managed.ports["h2d"].bytes + managed.ports["d2h"].bytes
    calls = run.calls.table()
    facts: Facts = {
        "decisions": len(placed),
        "explicit_bytes": counters["explicit_bytes"],
        "implicit_bytes": counters["implicit_bytes"],
        "budget_bytes": counters["budget_bytes"],
        "blocks": sum(event.size == N * DOUBLE for event in recorded(run, events.Allocate)),
        "entries": sum(event.size == N * DOUBLE for event in recorded(run, events.MapInsert)),
        "copied_in": _bytes(copies, "h2d", managed=False),
        "copied_out": _bytes(copies, "d2h", managed=False),
        "migrated": _bytes(copies, "h2d", managed=True) + _bytes(copies, "d2h", managed=True),
        "kernel_faults": len(recorded(run, events.PageFaultBegin)),
        "remote_bytes": port,
        "advice": calls["cuMemAdvise"].count if "cuMemAdvise" in calls else 0,
        "objects": len(placements_on(run.program.devices)),
        "object_bytes": N * DOUBLE,
    }
    for placement in placements_on(run.program.devices):
        facts[f"{placement.name}_mechanism"] = placement.mechanism
        facts[f"{placement.name}_rank"] = placement.rank
        facts[f"{placement.name}_density"] = placement.density
        facts[f"{placement.name}_gaf"] = placement.gaf
        facts[f"{placement.name}_bytes"] = placement.nbytes
        facts[f"{placement.name}_decisions"] = sum(event.array == placement.name for event in placed)
    return facts


@scenario(machine="summitdev-p100")
async def in_the_kernel(run: Run, threshold: Annotated[float, Range(0.0, 2.0)] = 0.6) -> Facts:
    """Find out whether a kernel writes to the host's array itself, or to a copy that comes back at the end.

    threshold: the accesses per element from which on OTM copies an object instead of letting it migrate.
    """
    run.configure(configuration="otm", host_program=HostProgram.of(one_object))
    run.set("otm.threshold", threshold)
    ((inside, after),) = await run.parallel(one_object)
    return {"inside": float(inside), "after": float(after)}


@kernel
def count(a: Any) -> None:
    for i in range(len(a)):
        a[i] = a[i] + 1.0


async def one_object(t: omp.HostThread) -> tuple[float, float]:
    """Return the host's value of an element while the object is mapped, and after that."""
    a = t.array("a", 1024, fill=0.0, align=BLOCK)
    async with t.target_data(omp.map(tofrom=a)):
        await t.target(count, a, maps=omp.map(tofrom=a))
        inside = float(a.data[0])
    await t.host_access(a)
    return inside, float(a.data[0])


@scenario(machine="summitdev-p100")
async def traditional(
    run: Run, benchmark: Literal["bfs", "cfd", "srad"] = "bfs", size_gb: Annotated[float, Range(1e-6, 128.0)] = 8.0
) -> Facts:
    """Tell whether a program with explicit copies can allocate the device memory that it needs."""
    nbytes = round(size_gb * 1e9)
    run.phantom, run.configuration = True, "copy"
    program: Bfs | Cfd | Srad
    if benchmark == "bfs":
        program = Bfs.of(nbytes, phantom=True)
    else:
        program = (Cfd if benchmark == "cfd" else Srad).of(nbytes, 1, phantom=True)
    failed: list[str] = []

    async def body(t: omp.HostThread) -> None:
        try:
            await program.run(t)
        except ArrayOutOfDeviceMemory as error:
            failed.append(error.array or "")

    await run.parallel(body)
    return {"failed": failed[0] if failed else None}


@scenario(machine="summitdev-p100")
async def bandwidth(run: Run, placement: Literal["managed", "explicit"] = "managed") -> Facts:
    """Measure the bandwidth at which an array comes to the device: `managed`, by page faults, or `explicit`, copied."""
    run.phantom = True
    program = UnifiedMemory(SWEPT, 1, 1, 1.0, placement)
    run.configuration = program.configuration
    sweep: Kernel = program.kernel

    async def body(t: omp.HostThread) -> float:
        values = SWEPT // DOUBLE
        array = t.array("array", values, fill=0.0, align=BLOCK)
        begin = run.sim.now
        await t.target_enter_data(omp.map(to=array))
        copied = run.sim.now - begin
        for _ in range(2):
            await t.target(sweep, array, teams=values // 256, threads=256, iterations=values)
        return copied

    (copied,) = await run.parallel(body)
    cold, warm = (span.duration * 1e-12 for span in kernels(run))
    moving = copied if placement == "explicit" else cold - warm
    return {"bytes_per_s": SWEPT / moving}


def _bytes(copies: list[events.CopyBegin], direction: str, *, managed: bool) -> int:
    """Return the bytes that copies in a direction move; with `managed`, those of migrations."""
    return sum(copy.bytes for copy in copies if copy.direction == direction and (copy.memory == "managed") is managed)
