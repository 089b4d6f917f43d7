"""Whatever several threads do with data regions and async queues, nothing is lost, leaked or counted below zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from acc_kernels import increment
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from openacc_rig import MakeRig, Rig
from property_examples import examples

from offloadrt import openacc as acc
from offloadrt.sim import Random
from offloadrt.trace import events

ELEMENTS = 16
QUEUES = (0, 1, 2)


@attrs.frozen
class Step:
    """One construct, or a region with steps in it. array: 0 is shared by all threads, 1 is the thread's own.

    Asynchronous constructs and updates, which keep no reference, use the thread's own array, and whatever uses it comes
    behind the queues: without that order the program itself would be wrong.
    """

    kind: str
    array: int
    queue: int
    inner: tuple[Step, ...] = ()
    delay_us: int = 0


def steps(kinds: list[str], inner: Any) -> Any:
    return st.builds(Step, st.sampled_from(kinds), st.integers(0, 1), st.integers(0, 2), inner, st.integers(0, 40))


STEPS = st.recursive(
    steps(["parallel", "async", "wait", "update", "half"], st.just(())),
    lambda inner: steps(["data", "enter"], st.lists(inner, max_size=3).map(tuple)),
    max_leaves=6,
)
PROGRAMS = st.lists(st.lists(STEPS, max_size=4), min_size=1, max_size=3)


class Program:
    """Threads that run their steps; counts how often each array is to be incremented."""

    def __init__(self, rig: Rig, threads: Sequence[Sequence[Step]]) -> None:
        self.rig = rig
        self.threads = threads
        self.shared: list[acc.HostArray] = []
        self.wanted: dict[acc.HostArray, int] = {}

    async def body(self, t: acc.HostThread) -> None:
        if t.number == 0:
            self.shared.append(t.array("shared", ELEMENTS))
        await t.barrier()
        arrays = [self.shared[0], t.array(f"own {t.number}", ELEMENTS)]
        for array in arrays:
            self.wanted.setdefault(array, 0)
        for step in self.threads[t.number]:
            await self._do(t, step, arrays)
        await t.wait()

    async def _do(self, t: acc.HostThread, step: Step, arrays: list[acc.HostArray]) -> None:
        a = arrays[1 if step.kind in ("async", "update") else step.array]
        await t.compute(step.delay_us * 1e-6)
        if step.kind == "parallel":
            self.wanted[a] += 1
            await t.parallel(increment, a, wait=QUEUES)
        elif step.kind == "async":
            self.wanted[a] += 1
            await t.parallel(increment, a, data=[acc.copy(a)], async_=step.queue, wait=QUEUES)
        elif step.kind == "wait":
            await t.wait(step.queue)
        elif step.kind == "update":
            await t.update(acc.device(acc.section(a, ELEMENTS, 0)), if_present=True, wait=QUEUES)
        elif step.kind == "half":
            await t.enter_data(acc.copyin(a), wait=QUEUES)
            await t.exit_data(acc.copyout(a), wait=QUEUES)
        elif step.kind == "data":
            async with t.data(acc.copy(a), wait=QUEUES):
                for inner in step.inner:
                    await self._do(t, inner, arrays)
                await t.wait(*QUEUES)
        else:
            await t.enter_data(acc.copyin(a), wait=QUEUES)
            for inner in step.inner:
                await self._do(t, inner, arrays)
            await t.exit_data(acc.copyout(a), wait=QUEUES)


@pytest.mark.parametrize("seed", [2, 3, 5])
def test_two_threads_that_wait_for_a_queue_both_get_its_results(acc_rig: MakeRig, seed: int) -> None:
    """Where streams are for one thread at a time, the second one waits until the first has given back its signals."""
    rig = acc_rig(strategy=Random(seed), machine_name="mi300a")
    program = Program(rig, [[Step("async", 0, queue)] for queue in (0, 1)])
    rig.run(program.body, 2)
    assert all((array.data == count).all() for array, count in program.wanted.items())


@examples(60, HealthCheck.function_scoped_fixture)
@given(
    threads=PROGRAMS,
    seed=st.integers(0, 1000),
    gear=st.sampled_from(["native", "turbo"]),
    machine=st.sampled_from(["alex-a100", "mi300a"]),
    compiler=st.sampled_from([{"compiler": "pgi"}, {"compiler": "gcc"}, {"compiler": "gcc", "pools": True}]),
)
def test_random_constructs_of_several_threads(
    acc_rig: MakeRig, threads: list[list[Step]], seed: int, gear: Any, machine: str, compiler: Any
) -> None:
    rig = acc_rig(gear=gear, strategy=Random(seed), machine_name=machine, **compiler)
    program = Program(rig, threads)
    rig.run(program.body, len(threads))
    for array, count in program.wanted.items():
        assert (array.data == count).all(), f"updates of {array.name} were lost"
    inserted: dict[int, int] = {}
    for event in rig.trace.events:
        if isinstance(event, events.MapInsert):
            assert event.device_address not in inserted
            inserted[event.device_address] = event.size
        elif isinstance(event, events.MapRemove):
            assert inserted.pop(event.device_address) == event.size
        elif isinstance(event, events.MapCount):
            assert event.dynamic >= 0 and event.hold >= 0
    assert inserted == {}
    device = rig.program.devices[0]
    assert len(device.table) == len(device.blocks) == 0
    assert machine != "alex-a100" or device.memory.allocated_bytes == 0
    for name, lock in device.locks().items():
        assert lock.owner is None and lock.tasks_waiting == 0, name
