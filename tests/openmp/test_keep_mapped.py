"""`keep_mapped`: the operations of a `target data` around the whole program, and the values that it computes."""

from __future__ import annotations

from typing import Any

import pytest

from offloadrt import Run, execute, kernel, scenario
from offloadrt import openmp as omp

pytestmark = pytest.mark.needs_extensions  # the configuration is one

BYTES = 8 * 4096


@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def scale(a: Any, factor: float) -> None:
    a *= factor


@scenario(machine="alex-a100")
async def scaled(
    run: Run, threads: int = 2, around: bool = False, host: bool = False, fresh: bool = False
) -> dict[str, float]:
    """Each thread scales an array of its own four times; the host may change it, or make it anew, in between."""

    async def steps(t: omp.HostThread, a: omp.HostArray) -> omp.HostArray:
        for step in range(4):
            await t.target(scale, a, 2.0, maps=omp.map(tofrom=a), teams=8, iterations=4096)
            if host:
                a.data[0] += 1.0
            if fresh and step == 1:
                t.free(a)
                a = t.array(f"a{t.number}", 4096, fill=3.0, kind="heap")
        return a

    async def body(t: omp.HostThread) -> tuple[float, float]:
        a = t.array(f"a{t.number}", 4096, fill=1.0, kind="heap")
        if around:
            async with t.target_data(omp.map(tofrom=a)):
                a = await steps(t, a)
        else:
            a = await steps(t, a)
        return float(a.data[0]), float(a.data[-1])

    values = await run.parallel(body, threads)
    assert len({*values}) == 1
    return {"first": values[0][0], "last": values[0][1]}


def moved(**parameters: Any) -> dict[str, int]:
    moved = execute(scaled, **parameters).bytes
    return {"h2d": moved.h2d, "d2h": moved.d2h}


@pytest.mark.parametrize("gear", ["native", "turbo"])
def test_it_moves_what_a_target_data_around_the_program_moves(gear: str) -> None:
    kept = execute(scaled, configuration="keep_mapped", gear=gear)
    around = execute(scaled, around=True, gear=gear)
    assert kept.bytes == around.bytes and kept.bytes.h2d == kept.bytes.d2h == 2 * BYTES
    assert kept.calls["cuMemAlloc"].count == around.calls["cuMemAlloc"].count == 2
    besides = around.calls["cuMemFree"].total_s + around.calls["cuStreamSynchronize"].total_s
    assert kept.elapsed_s < around.elapsed_s < kept.elapsed_s + besides, "the end of `target data` waits and frees"
    assert kept.elapsed_s < 0.7 * execute(scaled, gear=gear).elapsed_s


@pytest.mark.parametrize("host", [False, True])
def test_values_are_those_of_copies(host: bool) -> None:
    found = [execute(scaled, host=host, configuration=name).measured for name in ("copy", "keep_mapped")]
    assert found[0] == found[1]


def test_what_the_host_has_changed_is_copied_again() -> None:
    assert moved(host=True, configuration="keep_mapped") == {"h2d": 8 * BYTES, "d2h": 2 * BYTES}


def test_an_array_that_is_freed_is_mapped_no_more() -> None:
    kept = execute(scaled, fresh=True, threads=1, configuration="keep_mapped")
    assert kept.measured == execute(scaled, fresh=True, threads=1).measured == {"first": 12.0, "last": 12.0}
    assert kept.calls["cuMemAlloc"].count == 2 and kept.bytes.h2d == 2 * BYTES


def test_delete_ends_it() -> None:
    @scenario(machine="alex-a100")
    async def deleted(run: Run) -> None:
        async def body(t: omp.HostThread) -> None:
            a = t.array("a", 4096, fill=1.0)
            for _ in range(3):
                await t.target_enter_data(omp.map(to=a))
                await t.target_exit_data(omp.map(delete=a))

        await run.parallel(body, 1)

    assert execute(deleted, configuration="keep_mapped").bytes.h2d == 3 * BYTES
