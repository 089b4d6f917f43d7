"""A construct is lowered once; running it is the same as writing the directive again."""

from __future__ import annotations

import pytest

from offloadrt import kernel
from offloadrt import openmp as omp
from offloadrt.study.running.run import Run


@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def add_one(a: object) -> None:
    a += 1.0  # type: ignore[operator]


def run_with(prepared: bool, gear: str) -> tuple[str | None, float]:
    run = Run(hash=True, gear=gear)

    async def body(t: omp.HostThread) -> float:
        a = t.array("a", 64, fill=1.0)
        step = t.construct_target(add_one, a, maps=omp.map(tofrom=a), iterations=64)
        back = t.construct_target_update(omp.from_(a))
        async with t.target_data(omp.map(to=a)):
            for _ in range(3):
                if prepared:
                    await t.run(step)
                    await t.run(back)
                else:
                    await t.target(add_one, a, maps=omp.map(tofrom=a), iterations=64)
                    await t.target_update(omp.from_(a))
        return float(a[0])

    async def main() -> list[float]:
        values = await run.parallel(body, num_threads=2)
        await run.finish()
        return values

    values = run.sim.run(main)
    assert values == [4.0, 4.0]
    assert run.trace is not None
    return run.trace.hash(), run.sim.now


@pytest.mark.parametrize("gear", ["native", "turbo"])
def test_a_prepared_construct_runs_as_the_directive_does(gear: str) -> None:
    assert run_with(True, gear) == run_with(False, gear)


async def test_a_deferred_construct_runs_on_a_hidden_helper(offload: Run) -> None:
    async def body(t: omp.HostThread) -> float:
        a = t.array("a", 64, fill=1.0)
        step = t.construct_target(add_one, a, maps=omp.map(tofrom=a), iterations=64, nowait=True)
        await t.run(step)
        await t.taskwait()
        await t.run(step)
        await t.taskwait()
        return float(a[0])

    assert await offload.parallel(body, num_threads=1) == [3.0]
