"""Deferred target tasks: nowait, depend, taskwait, barriers."""

from __future__ import annotations

from typing import Any

import pytest
from openmp_rig import MakeRig

from offloadrt import kernel
from offloadrt import openmp as omp
from offloadrt.trace import events

SLOW_LAUNCH = {"driver.launch": "1 ms", "driver.context.uncontended": True}


def noting(order: list[str], name: str) -> Any:
    """A kernel that says when it has run."""

    @kernel(name=name)
    def body(a: Any) -> None:
        order.append(name)

    return body


@pytest.mark.parametrize("gear", ["native", "turbo"])
class TestNowait:
    def test_the_thread_goes_on(self, rig: MakeRig, gear: Any) -> None:
        made = rig(SLOW_LAUNCH, gear)

        async def body(t: omp.HostThread) -> tuple[float, float]:
            a = t.array("a", 4)
            begin = t.sim.now
            await t.target(noting([], "k"), a, nowait=True)
            generated = t.sim.now - begin
            await t.taskwait()
            return generated, t.sim.now - begin

        generated, completed = made.alone(body)
        assert generated < 1e-4
        assert completed > 1e-3
        made.assert_clean()

    def test_dependences_order_tasks(self, rig: MakeRig, gear: Any) -> None:
        made = rig(SLOW_LAUNCH, gear)
        order: list[str] = []

        async def body(t: omp.HostThread) -> None:
            a, b = t.array("a", 4), t.array("b", 4)
            for name, array, depend in (
                ("write", a, omp.depend(out=a)),
                ("read 1", a, omp.depend(in_=a)),
                ("read 2", a, omp.depend(in_=a)),
                ("other", b, omp.depend(inout=b)),
                ("rewrite", a, omp.depend(inout=a)),
            ):
                await t.target(noting(order, name), array, nowait=True, depend=depend)
            await t.taskwait()

        made.alone(body)
        assert sorted(order[:2]) == ["other", "write"]
        assert sorted(order[2:4]) == ["read 1", "read 2"]
        assert order[4] == "rewrite"

    def test_data_directives_may_be_deferred_too(self, rig: MakeRig, gear: Any) -> None:
        made = rig({}, gear)

        @kernel
        def double(a: Any) -> None:
            a[:] = 2.0 * a[:]

        async def body(t: omp.HostThread) -> None:
            a = t.array("a", 4, fill=1.0)
            await t.target_enter_data(omp.map(to=a), omp.depend(out=a), nowait=True)
            await t.target(double, a, nowait=True, depend=omp.depend(inout=a))
            await t.target_update(omp.from_(a), omp.depend(inout=a), nowait=True)
            await t.target_exit_data(omp.map(release=a), omp.depend(inout=a), nowait=True)
            await t.taskwait()
            assert (a.data == 2.0).all()

        made.alone(body)
        made.assert_clean()

    def test_a_task_that_is_not_deferred_waits_for_its_predecessors(self, rig: MakeRig, gear: Any) -> None:
        made = rig(SLOW_LAUNCH, gear)
        order: list[str] = []

        async def body(t: omp.HostThread) -> None:
            a = t.array("a", 4)
            await t.target(noting(order, "first"), a, nowait=True, depend=omp.depend(out=a))
            await t.target(noting(order, "second"), a, depend=omp.depend(in_=a))
            assert order == ["first", "second"]

        made.alone(body)

    def test_taskwait_depend_waits_for_those_only(self, rig: MakeRig, gear: Any) -> None:
        made = rig({}, gear)
        order: list[str] = []

        @kernel(name="long", flops_per_iteration=1e12)
        def long(a: Any) -> None:
            order.append("long")

        async def body(t: omp.HostThread) -> None:
            a, b = t.array("a", 4), t.array("b", 4)
            await t.target(noting(order, "short"), a, nowait=True, depend=omp.depend(out=a))
            await t.target(long, b, nowait=True, depend=omp.depend(out=b))
            await t.taskwait(omp.depend(in_=a))
            assert order == ["short"]

        made.alone(body)
        assert order == ["short", "long"], "the end of the parallel region waits for all"

    def test_hidden_helpers_are_few(self, rig: MakeRig, gear: Any) -> None:
        made = rig({**SLOW_LAUNCH, "runtime.hidden_helper_threads": 2}, gear)

        async def body(t: omp.HostThread) -> float:
            arrays = [t.array(f"a{i}", 4) for i in range(6)]
            begin = t.sim.now
            for a in arrays:
                await t.target(noting([], "k"), a, nowait=True)
            await t.taskwait()
            return t.sim.now - begin

        assert 3e-3 < made.alone(body) < 4e-3, "six launches of 1 ms by two threads"


def test_an_error_in_a_deferred_task_ends_the_run(rig: MakeRig) -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 4)
        await t.target_enter_data(omp.map(to=a, present=True), nowait=True)
        await t.taskwait()

    with pytest.raises(omp.MappingError) as caught:
        rig().alone(body)
    assert caught.value.thread.startswith("hidden helper thread")


def test_barrier(rig: MakeRig) -> None:
    made = rig()

    async def body(t: omp.HostThread) -> list[float]:
        times = []
        for _ in range(3):
            await t.compute(t.number * 1e-3)
            await t.barrier()
            times.append(t.sim.now)
        return times

    results = made.run(body, 4)
    assert results[0] == results[1] == results[2] == results[3]
    assert results[0] == pytest.approx([3e-3, 6e-3, 9e-3])


def running(log: list[str], name: str, flops: float = 1e6) -> Any:
    """A kernel that takes its time, and says when it has run."""

    @kernel(name=name, flops_per_iteration=flops)
    def body(a: Any) -> None:
        log.append(name)

    return body


class TestSets:
    """Sets of tasks, as libomp orders them: among themselves not, against others like one task."""

    @pytest.mark.parametrize(("kind", "at_most"), [("mutexinoutset", 1), ("inoutset", 3)])
    def test_members_of_a_set(self, rig: MakeRig, kind: str, at_most: int) -> None:
        made = rig({"driver.context.uncontended": True})
        log: list[str] = []

        async def body(t: omp.HostThread) -> None:
            a = t.array("a", 4)

            def step(name: str, **depend: Any) -> Any:
                return t.target(running(log, name), a, nowait=True, depend=omp.depend(**depend))

            await step("before", out=a)
            for name in ("one", "two", "three"):
                await step(name, **{kind: a})
            await step("after", in_=a)
            await t.taskwait()

        made.alone(body)
        assert (log[0], log[-1], sorted(log[1:-1])) == ("before", "after", ["one", "three", "two"])
        at_once = most = 0
        for event in made.trace.events:
            at_once += isinstance(event, events.DirectiveBegin) - isinstance(event, events.DirectiveEnd)
            most = max(most, at_once)
        assert most == at_most
        made.assert_clean()

    def test_one_that_is_not_deferred_takes_its_turn(self, rig: MakeRig) -> None:
        made = rig()
        log: list[str] = []

        async def body(t: omp.HostThread) -> None:
            a = t.array("a", 4)
            depend = omp.depend(mutexinoutset=a)
            await t.target(running(log, "deferred"), a, nowait=True, depend=depend)
            await t.target(running(log, "waited for", 1.0), a, depend=depend)
            assert log == ["deferred", "waited for"]

        made.alone(body)
