"""What a slow operation costs the other threads: the experiments on LLVM 22 with 8 threads and 50 ms, measured on a
real machine.

The device of the measurements has no driver lock, so that of the emulated driver is switched off; its memory is not
pooled.
"""

from __future__ import annotations

from typing import Any

import pytest
from openmp_rig import MakeRig, Rig

from offloadrt import kernel
from offloadrt import openmp as omp

THREADS = 8
SLOW = 50e-3
NBYTES = 512
SLOW_COPY = {"host.memcpy_1t": f"{NBYTES / SLOW} B/s"}
SLOW_DELETE = {"alloc.cudaFree": "50 ms"}
SLOW_LAUNCH = {"driver.launch": "50 ms"}
SLOW_ALLOCATION = {"alloc.cudaMalloc_small": "50 ms"}
NO_DRIVER_LOCK = {"driver.context.uncontended": True}


@kernel
def touch(p):  # type: ignore[no-untyped-def]  # a kernel's arguments are views of device memory
    p[0] = 1.0


class Times:
    """When the threads, all together, began and ended each phase."""

    def __init__(self) -> None:
        self.marks: list[float] = []

    async def mark(self, t: omp.HostThread) -> None:
        await t.barrier()
        if t.number == 0:
            self.marks.append(t.sim.now)
        await t.barrier()

    def phase(self, number: int) -> float:
        return self.marks[number + 1] - self.marks[number]


def run_phases(rig: Rig, shared: bool = False) -> Times:
    """locks/serial.c: enter data map(always, to), a kernel, exit data map(always, from); own blocks or one array for
    all.
    """
    times = Times()
    arrays: dict[str, Any] = {}

    async def body(t: omp.HostThread) -> None:
        if t.number == 0:
            warm = t.array("warm", 1)
            await t.target_enter_data(omp.map(alloc=warm))
            await t.target_exit_data(omp.map(release=warm))
            if shared:
                arrays["s"] = t.array("s", NBYTES // 8)
                await t.target_enter_data(omp.map(to=arrays["s"]))
        await t.barrier()
        p = arrays["s"] if shared else t.array("p", NBYTES // 8, kind="heap")
        await times.mark(t)
        await t.target_enter_data(omp.map(to=p, always=True))
        await times.mark(t)
        await t.target(touch, p, maps=[omp.map(alloc=p)])
        await times.mark(t)
        await t.target_exit_data(omp.map(from_=p, always=True))
        await times.mark(t)

    rig.run(body, THREADS)
    return times


def enter(rig: Rig, guard: bool) -> float:
    """locks/neighbour.c: new blocks of 512 bytes, with quiet mapped neighbours on both sides or without."""
    times = Times()
    block: dict[str, omp.HostArray] = {}

    async def body(t: omp.HostThread) -> None:
        if t.number == 0:
            block["m"] = m = t.array("m", 4096 * (THREADS + 1), "u1", kind="heap", align=4096)
            if guard:
                for p in range(THREADS + 1):
                    await t.target_enter_data(omp.map(alloc=omp.section(m, p * 4096, 64)))
        await times.mark(t)
        b = omp.section(block["m"], t.number * 4096 + 2048, NBYTES)
        await t.target_enter_data(omp.map(to=b))
        await times.mark(t)

    rig.run(body, THREADS)
    return times.phase(0)


@pytest.fixture
def slow(rig: MakeRig, gear: Any) -> MakeRig:
    return lambda overrides: rig({**NO_DRIVER_LOCK, **overrides}, gear, allocator="direct")


def serial(duration: float) -> bool:
    return 0.98 * THREADS * SLOW < duration < 1.05 * THREADS * SLOW


def parallel(duration: float) -> bool:
    return SLOW <= duration < 1.05 * SLOW


@pytest.mark.parametrize("gear", ["native", "turbo"])
class TestMeasured:
    def test_allocation_is_serial(self, slow: MakeRig) -> None:
        assert serial(run_phases(slow(SLOW_ALLOCATION)).phase(0)), "401 ms: it happens under the table lock"

    def test_transfer_to_new_blocks_is_nearly_serial(self, slow: MakeRig) -> None:
        duration = enter(slow(SLOW_COPY), guard=False)
        assert 240e-3 <= duration <= 360e-3, "251 to 351 ms: a lookup waits for the neighbour that is being copied"

    def test_transfer_to_new_blocks_with_quiet_neighbours_is_parallel(self, slow: MakeRig) -> None:
        assert parallel(enter(slow(SLOW_COPY), guard=True)), "50 ms: no neighbour is being copied"

    def test_transfer_back_is_parallel(self, slow: MakeRig) -> None:
        assert parallel(run_phases(slow(SLOW_COPY)).phase(2)), "50 ms"

    def test_delete_is_parallel(self, slow: MakeRig) -> None:
        assert parallel(run_phases(slow(SLOW_DELETE)).phase(2)), "50 ms: blocks are freed outside the table lock"

    def test_launch_is_parallel(self, slow: MakeRig) -> None:
        assert parallel(run_phases(slow(SLOW_LAUNCH)).phase(1)), "50 ms: no map lock is held"

    def test_always_to_one_shared_array_is_serial(self, slow: MakeRig) -> None:
        times = run_phases(slow(SLOW_COPY), shared=True)
        assert serial(times.phase(0)), "401 ms: the entry lock is held across the copy"
        assert serial(times.phase(2)), "401 ms"
