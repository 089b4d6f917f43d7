"""Small benchmarks of the driver's calls: launches, allocations and copies, by one host thread or several.

`contend` is a program of host threads that do nothing but take a lock: folly's SmallLocksBenchmark on `std::mutex`.
Threads in groups share a mutex; each repeats a loop of some turns outside of the lock and some inside. How long a turn
takes is an input, as it is the compiler's and the core's matter. The work outside varies by 20 %, lest threads that do
the same march in step.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Literal

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels import kernel
from offloadrt.machine.host_lock import HostLock, lock_policy
from offloadrt.models import cuda
from offloadrt.papers.independent.programs.managed import BLOCK
from offloadrt.study import Run

Floats = NDArray[np.float32]

Allocated = Literal["device", "managed", "pinned"]
CopyKind = Literal["pinned", "pageable"]
CopyDirection = Literal["h2d", "d2h"]


@kernel(threads_per_team=BLOCK, precision="single")
def add(a: Floats, b: Floats, c: Floats) -> None:
    """Add two vectors."""
    for i in range(len(c)):
        c[i] = a[i] + b[i]


@attrs.define
class MeanTime:
    """The mean time of an operation over all threads and repetitions."""

    run: Run
    total_s: float = 0.0
    count: int = 0

    async def of(self, operation: Callable[[], Awaitable[object]], times: int = 1) -> None:
        """Time an operation that does something so many times."""
        begin = self.run.sim.now
        await operation()
        self.total_s += self.run.sim.now - begin
        self.count += times

    @property
    def mean_s(self) -> float:
        """Return the mean."""
        return self.total_s / self.count


async def launches(t: cuda.HostThread, times: dict[str, MeanTime], elements: int, repeats: int) -> None:
    """Launch a kernel again and again in a stream of this thread's own: back to back, then each waited for."""
    a, b, c = [await t.malloc(elements, np.float32) for _ in range(3)]
    stream = await t.stream_create(non_blocking=True)
    grid = -(-elements // BLOCK)

    async def launch() -> None:
        await t.launch(add, a, b, c, grid=grid, block=BLOCK, stream=stream)

    async def fenced() -> None:
        await launch()
        await t.stream_synchronize(stream)

    async def back_to_back() -> None:
        for _ in range(repeats):
            await times["call"].of(launch)
        await t.stream_synchronize(stream)

    await fenced()
    await times["back_to_back"].of(back_to_back, repeats)
    for _ in range(repeats):
        await times["fenced"].of(fenced)


async def allocations(
    t: cuda.HostThread, times: dict[str, MeanTime], memory: Allocated, nbytes: int, repeats: int
) -> None:
    """Allocate and free again and again."""
    for number in range(repeats):
        made: list[object] = []

        async def allocate(number: int = number, made: list[object] = made) -> None:
            if memory == "device":
                made.append(await t.malloc(nbytes))
            elif memory == "managed":
                made.append(await t.malloc_managed(f"block {number}", nbytes, np.uint8))
            else:
                made.append(await t.malloc_host(nbytes))

        async def free(made: list[object] = made) -> None:
            (block,) = made
            if isinstance(block, int):
                await t.free_host(block)
            else:
                await t.free(block)  # type: ignore[arg-type]  # an array of device or managed memory

        await times["alloc"].of(allocate)
        await times["free"].of(free)


async def copies(
    t: cuda.HostThread,
    times: dict[str, MeanTime],
    direction: CopyDirection,
    memory: CopyKind,
    nbytes: int,
    repeats: int,
) -> None:
    """Copy the same bytes again and again, each copy waited for, between the device and host memory that exists."""
    there = await t.malloc(nbytes)
    here = await t.malloc_host(nbytes) if memory == "pinned" else t.array("host", nbytes, np.uint8, fill=0).address

    async def copy() -> None:
        if direction == "h2d":
            await t.memcpy_htod(there, here, nbytes, memory=memory)
        else:
            await t.memcpy_dtoh(here, there, nbytes, memory=memory)

    for _ in range(repeats):
        await times["copy"].of(copy)


VARIES: Final = 0.2


@attrs.define
class SharedMutex:
    """A mutex with the threads that share it; its hand-over is that of the run-time library's `std::mutex`."""

    run: Run
    number: int
    operations: int = 0
    lock: HostLock = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        spec = self.run.machine.spec
        self.lock = HostLock(
            self.run.machine,
            f"mutex {self.number}",
            lock_policy(spec.text("table.handoff")),
            spec.value("table.handover"),
            category="compute",
            wait_category="threads",
        )

    async def use(self, until: float, inside_s: float, outside_s: float) -> None:
        """Take it again and again until an instant."""
        sim, machine = self.run.sim, self.run.machine
        while sim.now < until:
            if outside_s:
                await machine.work(outside_s * sim.rng.uniform(1.0 - VARIES, 1.0 + VARIES), "compute")
            await self.lock.enter(inside_s)
            self.lock.release()
            self.operations += 1


async def contend(run: Run, sharing: int, threads: int, inside_s: float, outside_s: float, seconds: float) -> int:
    """Let so many threads work in groups that share a mutex each; return the operations of all."""
    mutexes = [SharedMutex(run, number) for number in range(max(1, threads // sharing))]
    until = run.sim.now + seconds
    async with run.sim.open_nursery() as nursery:
        for mutex in mutexes:
            for _ in range(sharing):
                nursery.spawn(mutex.use, until, inside_s, outside_s)
    return sum(mutex.operations for mutex in mutexes)
