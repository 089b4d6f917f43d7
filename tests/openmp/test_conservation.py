"""Whatever several threads do to each other's mappings, nothing is lost, leaked or counted below zero."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import attrs
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from openmp_rig import MakeRig, Rig
from property_examples import examples

from offloadrt import kernel
from offloadrt import openmp as omp
from offloadrt.sim import Random
from offloadrt.trace import events

ELEMENTS = 64


@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def add_one(a):  # type: ignore[no-untyped-def]  # a kernel's arguments are views of device memory
    a[:] = a[:] + 1.0


@attrs.frozen
class Step:
    """One directive, or a region with steps in it. array: 0 and 1 are shared by all threads, 2 is the thread's own."""

    kind: str
    array: int
    inner: tuple[Step, ...] = ()
    delay_us: int = 0


ARRAYS = st.integers(0, 2)
DELAYS = st.integers(0, 40)
LEAVES = st.builds(Step, st.sampled_from(["target", "nowait", "half", "update"]), ARRAYS, st.just(()), DELAYS)
STEPS = st.recursive(
    LEAVES,
    lambda inner: st.builds(
        Step, st.sampled_from(["data", "enter", "hold"]), ARRAYS, st.lists(inner, max_size=3).map(tuple), DELAYS
    ),
    max_leaves=6,
)
PROGRAMS = st.lists(st.lists(STEPS, max_size=4), min_size=1, max_size=4)


class Program:
    """Threads that run their steps; counts how often each array is to be incremented."""

    def __init__(self, rig: Rig, threads: Sequence[Sequence[Step]]) -> None:
        self.rig = rig
        self.threads = threads
        self.shared: list[omp.HostArray] = []
        self.arrays: list[list[omp.HostArray]] = []
        self.wanted: dict[omp.HostArray, int] = {}

    def run(self) -> None:
        self.rig.run(self._body, len(self.threads))

    async def _body(self, t: omp.HostThread) -> None:
        if t.number == 0:
            self.shared = [t.array("static", ELEMENTS), t.array("pointer", ELEMENTS, kind="heap")]
        await t.barrier()
        arrays = [*self.shared, t.array(f"own {t.number}", ELEMENTS, kind="heap")]
        self.arrays.append(arrays)
        for step in self.threads[t.number]:
            await self._do(t, step, arrays)

    async def _do(self, t: omp.HostThread, step: Step, arrays: list[omp.HostArray]) -> None:
        a = arrays[step.array]
        await t.compute(step.delay_us * 1e-6)
        if step.kind in ("target", "nowait"):
            self.wanted[a] = self.wanted.get(a, 0) + 1
            await t.target(add_one, a, maps=[omp.map(tofrom=a)], teams=1, nowait=step.kind == "nowait")
            await t.taskwait()
        elif step.kind == "half":
            await t.target_enter_data(omp.map(to=a))
            await t.target_exit_data(omp.map(from_=a))
        elif step.kind == "update":
            await t.target_update(omp.to(omp.section(a, ELEMENTS, 0)))
        elif step.kind == "data":
            async with t.target_data(omp.map(tofrom=a)):
                await self._inner(t, step, arrays)
        elif step.kind == "hold":
            async with t.target_data(omp.map(tofrom=a, hold=True)):
                await self._inner(t, step, arrays)
        else:
            await t.target_enter_data(omp.map(to=a))
            await self._inner(t, step, arrays)
            await t.target_exit_data(omp.map(from_=a))

    async def _inner(self, t: omp.HostThread, step: Step, arrays: list[omp.HostArray]) -> None:
        for inner in step.inner:
            await self._do(t, inner, arrays)


def check(program: Program) -> None:
    rig = program.rig
    rig.assert_clean()
    for arrays in program.arrays:
        for array in arrays:
            assert (array.data == program.wanted.get(array, 0)).all(), f"updates of {array.name} were lost"
    inserted: dict[int, int] = {}
    for event in rig.trace.events:
        if isinstance(event, events.MapInsert):
            assert event.device_address not in inserted
            inserted[event.device_address] = event.size
        elif isinstance(event, events.MapRemove):
            assert inserted.pop(event.device_address) == event.size
        elif isinstance(event, events.MapCount):
            assert event.dynamic >= 0
            assert event.hold >= 0
    assert inserted == {}
    for lock in rig.program.locks().values():
        assert lock.wait_s >= 0.0
        assert math.isfinite(lock.hold_s)


@examples(60, HealthCheck.function_scoped_fixture)
@given(
    threads=PROGRAMS,
    seed=st.integers(0, 1000),
    allocator=st.sampled_from(["direct", "llvm"]),
    gear=st.sampled_from(["native", "turbo"]),
    where=st.sampled_from([("alex-a100", "copy"), ("alex-a100", "managed"), ("mi300a", "copy"), ("mi300a", "usm")]),
)
def test_random_directives_of_several_threads(
    rig: MakeRig, threads: list[list[Step]], seed: int, allocator: str, gear: Any, where: tuple[str, str]
) -> None:
    machine, configuration = where
    made = rig(gear=gear, strategy=Random(seed), allocator=allocator, machine_name=machine, configuration=configuration)
    program = Program(made, threads)
    program.run()
    check(program)
    if allocator == "direct":
        assert made.machine.devices[0].memory.allocated_bytes == 0


def test_shut_down_returns_pooled_memory(rig: MakeRig) -> None:
    made = rig()

    async def body(t: omp.HostThread) -> None:
        async with t.target_data(omp.map(tofrom=t.array("a", 16))):
            pass
        assert made.machine.devices[0].memory.allocated_bytes == 128
        await t.program.shutdown()

    made.alone(body)
    assert made.machine.devices[0].memory.allocated_bytes == 0
