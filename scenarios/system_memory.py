"""Which is fastest for kernels that use the memory of malloc repeatedly: copies, system memory, or managed memory?"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from offloadrt import Range, Run, scenario
from offloadrt import openmp as omp
from offloadrt.kernels import ArrayUse, Kernel
from offloadrt.study.scripts.parameters import Value

ELEMENT = 8
SWEEP = Kernel("sweep", bytes_per_iteration=2 * ELEMENT, arrays=(ArrayUse("a", 0, reads=1.0, writes=1.0),))


@scenario(
    machine="gh200",
    sweep={"memory": ("copy", "usm", "managed"), "sweeps": (1, 10, 100)},
)
async def system_memory(
    run: Run,
    memory: Literal["copy", "usm", "managed"] = "usm",
    sweeps: Annotated[int, Range(1, 10_000)] = 10,
    nbytes: Annotated[int, Range(1 << 16, 1 << 34)] = 1 << 30,
    written: bool = True,
) -> dict[str, Value]:
    """Kernels read and write all of an array again and again, which the host has made before.

    Set access_counter.migration to false on the machine to see `usm` without access counters.

    Parameters:
        memory: copy (around all kernels), usm (in place), managed (migrates by faults)
        sweeps: kernels, one after the other
        nbytes: of the array
        written: the host has touched the pages; otherwise the device is the first
    """
    run.options = omp.OpenMPOptions(configuration=memory, phantom=True)
    seconds: list[float] = []

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", nbytes // ELEMENT, np.float64)
        if written:
            await t.first_touch(a)
        begin = run.sim.now
        async with t.target_data(omp.map(tofrom=a)):
            for _ in range(sweeps):
                since = run.sim.now
                await t.target(SWEEP, a, iterations=nbytes // ELEMENT, teams=4096, threads=256)
                seconds.append(run.sim.now - since)
        seconds.append(run.sim.now - begin)

    await run.parallel(body)
    ports = run.device().managed.ports if run.device().managed is not None else {}
    faults = run.statistics.faults
    return {
        "time_s": seconds[-1],
        "first_sweep_s": seconds[0],
        "last_sweep_s": seconds[-2],
        "over_link_gb": sum(ports[direction].bytes for direction in sorted(ports)) / 1e9,
        "migrated_gb": int(faults.get("bytes_transfer_htod", 0)) / 1e9,
        "notifications": int(faults.get("access_counter_notifications", 0)),
        "faults": int(faults.get("faults", 0)),
    }
