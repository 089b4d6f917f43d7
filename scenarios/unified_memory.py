"""When does managed memory pay? Size, reuse and density of data decide, and whether they fit into the device."""

from __future__ import annotations

from typing import Annotated

from offloadrt import Range, Run, scenario
from offloadrt.papers.figures import figures_of
from offloadrt.papers.otm.unified_memory import UmPlacement, UnifiedMemory, computing_and_moving_s

LISTED_AS = "single mechanisms"

FIGURES = figures_of("otm")


@scenario(
    machine="summitdev-p100",
    figure=FIGURES["unified_memory"],
    sweep={
        "size_gb": (4.0, 8.0, 12.0, 15.0, 16.0, 17.0, 20.0, 24.0),
        "placement": ("managed", "prefetch", "host", "hybrid"),
        "reuse": (1, 4),
    },
)
async def unified_memory(
    run: Run,
    size_gb: Annotated[float, Range(1e-3, 64.0)] = 8.0,
    arrays: Annotated[int, Range(1, 64)] = 2,
    reuse: Annotated[int, Range(1, 1000)] = 1,
    density: Annotated[float, Range(1e-6, 1.0)] = 1.0,
    placement: UmPlacement = "managed",
    read_back: Annotated[int, Range(0, None)] = 0,
    read_result: bool = False,
) -> dict[str, float | int]:
    """Kernels touch arrays that the host has written, again and again.

    Under `managed` a kernel faults on what the device lacks, and what does not fit is evicted by least recent faults,
    so that a sweep over a little more than the memory misses on everything. What the host keeps is reached over the
    link each time.

    Parameters:
        size_gb: of all arrays together, in 1e9 bytes
        arrays: into which they are divided
        reuse: kernels that touch them all
        density: part of the first array's pages that a kernel touches, at random; 1 is a sweep
        placement: explicit (device copies), managed, prefetch (once, before the first kernel), host (all arrays stay
            there, and pages are mapped by faults), zero_copy (the same, mapped ahead), hybrid (the first stays there)
        read_back: bytes of each array that the host reads after every kernel
        read_result: the host reads all arrays at the end, to which explicit placement has copied them in any case
    """
    run.phantom = True
    program = UnifiedMemory(int(size_gb * 1e9), arrays, reuse, density, placement, read_back, read_result)
    run.configuration = program.configuration
    await run.parallel(program.run)
    device = run.device()
    moved = device.bytes_moved()
    return {
        "time_s": computing_and_moving_s(run.elapsed, run.measured.calls.table()),
        "size_over_memory": program.nbytes / device.memory.capacity,
        "to_device_gb": moved["h2d"] / 1e9,
        "to_host_gb": moved["d2h"] / 1e9,
        "fault_batches": int(run.measured.faults.get("fault_batches", 0)),
        "evicted_blocks": int(run.measured.faults.get("evicted_blocks", 0)),
    }
