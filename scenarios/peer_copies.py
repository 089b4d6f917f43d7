"""What copies between the devices of a node take while others go on, over links, a switch, PCIe or the host."""

from __future__ import annotations

from typing import Annotated, Literal

from offloadrt import Range, Run, scenario
from offloadrt import openmp as omp
from offloadrt.study import ParameterError
from offloadrt.study.scripts.parameters import Value

LISTED_AS = "single mechanisms"

Pattern = Literal["pair", "ring", "one_to_all", "all_to_one"]


def ends(pattern: Pattern, devices: int) -> list[tuple[int, int]]:
    """Return source and destination of each copy."""
    if pattern == "pair":
        return [(0, 1)]
    if pattern == "ring":
        return [(device, (device + 1) % devices) for device in range(devices)]
    others = range(1, devices)
    return [(0, device) if pattern == "one_to_all" else (device, 0) for device in others]


@scenario(machine="a100-node8", sweep={"pattern": ("pair", "ring", "one_to_all", "all_to_one"), "devices": (2, 4, 8)})
async def peer_copies(
    run: Run,
    pattern: Pattern = "ring",
    devices: Annotated[int, Range(2, 64)] = 4,
    nbytes: Annotated[int, Range(1, 1 << 40)] = 1 << 28,
    repeats: Annotated[int, Range(1, 1_000_000)] = 4,
) -> dict[str, Value]:
    """A host thread for each copy calls `omp_target_memcpy` between two devices again and again, all at once.

    Parameters:
        pattern: device 0 to 1; each to the next; device 0 to all others; all others to device 0
        devices: in use
        nbytes: of a copy
        repeats: of each thread, after one that is not timed
    """
    copies, took = ends(pattern, devices), 0.0

    async def body(t: omp.HostThread) -> None:
        nonlocal took
        source, destination = copies[t.number]
        there = await t.omp_target_alloc(nbytes, device=source, phantom=True)
        here = await t.omp_target_alloc(nbytes, device=destination, phantom=True)
        if there is None or here is None:
            raise ParameterError("nbytes", f"{nbytes} bytes: omp_target_alloc returned no memory")
        await t.omp_target_memcpy(here, there, nbytes)
        await t.barrier()
        begin = run.sim.now
        for _ in range(repeats):
            await t.omp_target_memcpy(here, there, nbytes)
        took += run.sim.now - begin

    await run.parallel(body, num_threads=len(copies))
    copy_s = took / (repeats * len(copies))
    return {"copy_s": copy_s, "copy_bytes_per_s": nbytes / copy_s}
