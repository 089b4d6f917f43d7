"""The end of a program: deferred work that nobody waited for, and memory that is still pooled."""

from __future__ import annotations

from typing import Any

import pytest
from openmp_rig import MakeRig

from offloadrt import Kernel, Run, kernel
from offloadrt import openmp as omp


@pytest.mark.parametrize("gear", ["native", "turbo"])
def test_deferred_work_that_nobody_waited_for_is_done(rig: MakeRig, gear: Any) -> None:
    made = rig({"driver.launch": "1 ms"}, gear)
    ran: list[str] = []

    @kernel
    def first(a: Any) -> None:
        ran.append("first")

    @kernel
    def second(a: Any) -> None:
        ran.append("second")

    async def main() -> None:
        t = made.program.host_thread()
        a = t.array("a", 4)
        await t.target(first, a, nowait=True, depend=omp.depend(out=a))
        await t.target(second, a, nowait=True, depend=omp.depend(in_=a))
        assert ran == []
        await made.program.finish()

    made.sim.run(main)
    assert ran == ["first", "second"]
    made.assert_clean()


def test_pooled_memory_is_returned(rig: MakeRig) -> None:
    made = rig()

    async def main() -> None:
        t = made.program.host_thread()
        async with t.target_data(omp.map(to=t.array("a", 4))):
            pass
        assert made.calls.count("cuMemFree") == 0, "the block stays in its bucket"
        await made.program.finish()

    made.sim.run(main)
    assert made.calls.count("cuMemFree") == 1


def test_an_error_in_deferred_work_ends_the_run(rig: MakeRig) -> None:
    made = rig()

    async def main() -> None:
        t = made.program.host_thread()
        await t.target_enter_data(omp.map(to=t.array("a", 4), present=True), nowait=True)
        await made.program.finish()

    with pytest.raises(omp.MappingError):
        made.sim.run(main)


def test_a_program_that_used_nothing(rig: MakeRig) -> None:
    made = rig()
    made.sim.run(made.program.finish)
    assert made.sim.now == 0.0


@pytest.mark.parametrize("end", [lambda run: run.finish(), lambda run: run.program.finish()], ids=["run", "program"])
def test_memory_goes_back_after_the_rest_of_a_directive_that_was_left(end: Any) -> None:
    run = Run()

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 512, phantom=True)
        with t.sim.move_on_after(5e-3):
            await t.target(Kernel("long", flops_per_iteration=1e12), a, maps=omp.map(to=a), iterations=32)

    async def main() -> None:
        await run.parallel(body)
        await end(run)

    run.sim.run(main)
    assert run.device().memory.blocks() == []
    assert run.calls.count("cuMemFree") == run.calls.count("cuMemAlloc") > 0
