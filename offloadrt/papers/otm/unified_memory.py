"""A synthetic program: kernels touch arrays again and again, more or less densely, under one placement.

Its parameters decide whether managed memory pays (the OTM paper's Table 2: size, reuse, density). *Density* is the
fraction of the first array's pages that a kernel touches. The kernel accesses that array at random, as often as it
takes to touch this fraction in the mean. It sweeps all other arrays.

`computing_and_moving_s` is the time that the OTM paper measures: computation and data transfer, without allocations and
frees (section 3).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Literal, Protocol

import attrs

from offloadrt.kernels import ArrayUse, Kernel
from offloadrt.models import openmp as omp
from offloadrt.runtime.host_array import HostArray

DOUBLE: Final = 8
THREADS: Final = 256
PAGE: Final = 64 << 10
ALIGNMENT: Final = 2 << 20
"""The alignment of the arrays, as of large managed allocations: they share no block."""

UmPlacement = Literal["explicit", "managed", "prefetch", "host", "zero_copy", "hybrid"]
"""Where the arrays are, and how they get to the device.

explicit: device copies. managed: pages migrate by faults. prefetch: the arrays are prefetched once, before the first
kernel. host: all arrays prefer the host, and the device maps a page when a kernel faults on it. zero_copy: they prefer
the host, and the device's page table has them beforehand. hybrid: the first array prefers the host, the others migrate.
"""


@attrs.frozen
class UnifiedMemory:
    """A program whose host writes ``arrays`` arrays, ``nbytes`` in all, and whose ``reuse`` kernels touch all of them.

    `density`: the part of the first array that each kernel touches, 1 for all. `read_back`: how many bytes of each
    array the host reads after every kernel. `read_result`: whether the host reads all arrays at the end. `placement`:
    how the device gets at the arrays.
    """

    nbytes: int
    arrays: int = 2
    reuse: int = 1
    density: float = 1.0
    placement: UmPlacement = "managed"
    read_back: int = 0
    read_result: bool = False

    @property
    def configuration(self) -> str:
        """Return the memory configuration under which the program runs."""
        return "copy" if self.placement == "explicit" else "managed"

    @property
    def values(self) -> int:
        """Return the number of elements of each array."""
        return max(1, self.nbytes // self.arrays // DOUBLE)

    @property
    def kernel(self) -> Kernel:
        """Make a kernel with one iteration per element; it accesses the first array at random if that is sparse."""
        uses = [ArrayUse(f"array {k}", k, 1.0, 1.0, "affine", 0, 1.0, 1.0) for k in range(self.arrays)]
        if self.density < 1.0:
            pages = self.values * DOUBLE / PAGE
            # n random accesses leave a page untouched with probability (1 - 1/pages)^n, about exp(-n / pages); this is
            # solved for n. The approximation makes n too large by a part of 1 / (2 pages), which is below 0.1 % from
            # 500 pages (32 MiB) on.
            each = min(1.0, -math.log1p(-self.density) * pages / self.values)
            uses[0] = ArrayUse("array 0", 0, each, each, "irregular", 1, each, 0.0)
        moved = math.fsum(use.bytes for use in uses)
        return Kernel("touch", None, float(self.arrays), moved, THREADS, arrays=tuple(uses))

    async def run(self, t: omp.HostThread) -> None:
        """Run the whole program on one host thread."""
        arrays = [t.array(f"array {k}", self.values, fill=0.0, align=ALIGNMENT) for k in range(self.arrays)]
        await self._place(t, arrays)
        region = t.construct_target(
            self.kernel, *arrays, teams=max(1, -(-self.values // THREADS)), threads=THREADS, iterations=self.values
        )
        async with t.target_data(omp.map(tofrom=arrays)):
            for _ in range(self.reuse):
                await t.run(region)
                await self._look(t, arrays)
        for array in arrays if self.read_result else ():
            await t.host_access(array)

    async def _place(self, t: omp.HostThread, arrays: list[HostArray]) -> None:
        for k, array in enumerate(arrays):
            if self.placement == "prefetch":
                await t.prefetch(array)
            elif self.placement in ("host", "zero_copy") or (self.placement == "hybrid" and k == 0):
                await t.advise(array, "prefer_host")
                if self.placement == "zero_copy":
                    await t.advise(array, "accessed_by")

    async def _look(self, t: omp.HostThread, arrays: list[HostArray]) -> None:
        values = min(self.values, self.read_back // DOUBLE)
        for array in arrays if values else ():
            if self.placement == "explicit":
                await t.target_update(omp.from_(omp.section(array, 0, values)))
            else:
                await t.host_access(omp.section(array, 0, values))


ALLOCATIONS: Final = ("cuMemAlloc", "cuMemAllocManaged", "cuMemFree")
"""Driver calls that allocate device or managed memory, or free it."""


class _Timed(Protocol):
    @property
    def total_s(self) -> float: ...


def computing_and_moving_s(elapsed_s: float, calls: Mapping[str, _Timed]) -> float:
    """Return the seconds of computation and data transfer: `elapsed_s` less those of allocations and frees.

    calls: by name, the calls of the only host thread with their times.
    """
    return elapsed_s - math.fsum(calls[name].total_s for name in ALLOCATIONS if name in calls)
