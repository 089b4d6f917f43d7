"""What managed memory does that several devices read and write in turn, by the advice that the program gives."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from offloadrt import Range, Run, scenario
from offloadrt import openmp as omp
from offloadrt.kernels import ArrayUse, Kernel
from offloadrt.study.scripts.parameters import Value

Given = Literal["none", "read_mostly", "prefer_device", "accessed_by", "prefetch"]
ELEMENT = 8

READ = Kernel("read", bytes_per_iteration=ELEMENT, arrays=(ArrayUse("a", 0, reads=1.0),))
WRITE = Kernel("write", bytes_per_iteration=ELEMENT, arrays=(ArrayUse("a", 0, writes=1.0),))


@scenario(
    machine="dgx1-v100",
    sweep={"given": ("none", "read_mostly", "prefer_device", "accessed_by", "prefetch"), "devices": (2, 4)},
)
async def managed_peers(
    run: Run,
    given: Given = "none",
    devices: Annotated[int, Range(2, 8)] = 2,
    nbytes: Annotated[int, Range(1 << 12, 1 << 34)] = 1 << 26,
    reads: Annotated[int, Range(1, 1000)] = 4,
    rounds: Annotated[int, Range(1, 1000)] = 2,
) -> dict[str, Value]:
    """In each round device 0 writes an array of managed memory, then all devices read it, one after the other.

    Parameters:
        given: advice at the beginning (prefer_device: device 0; accessed_by: each), or a prefetch before each kernel
        devices: in use
        nbytes: of the array
        reads: of each device in a round
        rounds: after one that is not timed
    """
    run.options = omp.OpenMPOptions(num_devices=devices, phantom=True)
    took = {"write_s": 0.0, "first_read_s": 0.0, "later_read_s": 0.0}

    async def body(t: omp.HostThread) -> None:
        a = await t.managed_array("a", nbytes // ELEMENT, np.float64)
        await t.host_access(a)

        async def sweep(kernel: Kernel, device: int) -> float:
            since = run.sim.now
            if given == "prefetch":
                t.omp_set_default_device(device)
                await t.prefetch(a)
            await t.target(
                kernel, a, iterations=nbytes // ELEMENT, is_device_ptr=a, device=device, teams=640, threads=128
            )
            return run.sim.now - since

        for device in range(devices):
            t.omp_set_default_device(device)
            if given == "accessed_by" or (given in ("read_mostly", "prefer_device") and device == 0):
                await t.advise(a, given)
        for number in range(rounds + 1):
            found = dict.fromkeys(took, 0.0)
            found["write_s"] += await sweep(WRITE, 0)
            for device in range(1, devices):
                found["first_read_s"] += await sweep(READ, device)
                for _ in range(1, reads):
                    found["later_read_s"] += await sweep(READ, device)
            if number:
                for name, seconds in found.items():
                    took[name] += seconds

    await run.parallel(body)
    later = rounds * (devices - 1)
    return {
        "write_s": took["write_s"] / rounds,
        "first_read_s": took["first_read_s"] / later,
        "later_read_s": took["later_read_s"] / (later * (reads - 1)) if reads > 1 else 0.0,
        **{
            name: count for name, count in run.statistics.faults.items() if name.startswith(("bytes", "read", "remote"))
        },
    }
