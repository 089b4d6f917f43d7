"""Kernels whose bodies are plain Python: what they use shows while they run, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from checked_programs import N, found

from offloadrt import openmp as omp
from offloadrt.kernels import Kernel


def between(first: int, after: int) -> Kernel:
    """A kernel that adds 1 to these elements, one after the other."""

    def body(a: Any) -> None:
        for i in range(first, after):
            a[i] = a[i] + 1.0

    return Kernel(f"add from {first}", body, flops_per_iteration=1.0, bytes_per_iteration=16.0)


@pytest.mark.parametrize("mapped", ["all", "a section"])
@pytest.mark.parametrize(("second", "expected"), [(300, []), (299, [("race", "a on device 0")])])
def test_two_kernels_race_where_they_use_the_same_element(mapped: str, second: int, expected: Any) -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", N, fill=1.0)
        what = a if mapped == "all" else omp.section(a, 256, 256)
        async with t.target_data(omp.map(tofrom=what)):
            await t.target(between(256, 300), a, nowait=True)
            await t.target(between(second, 400), a, nowait=True)
            await t.taskwait()
        assert a[350] == 2.0 and a[200] == 1.0

    assert list(dict.fromkeys(found(body))) == expected


@pytest.mark.parametrize("waits", [False, True])
def test_what_a_kernel_reaches_through_stored_pointers_is_used_too(waits: bool) -> None:
    def double_rows(rows: Any) -> None:
        for row in rows:
            row *= 2.0

    async def body(t: omp.HostThread) -> None:
        structs = t.array("structs", 2, np.dtype([("row", "u8")]))
        rows = [t.array(f"row {i}", 4, kind="heap", fill=1.0) for i in range(2)]
        structs["row"] = [row.address for row in rows]
        await t.target_enter_data(omp.map(to=structs))
        for i, row in enumerate(rows):
            await t.target_enter_data(omp.map(to=omp.pointee(structs, "row", row, i)))
        await t.target(Kernel("double", double_rows), omp.pointees(structs, 4, np.float64, member="row"), nowait=True)
        if waits:
            await t.taskwait()
        await t.target_update(omp.from_(rows[1]))
        await t.taskwait()
        for i, row in enumerate(rows):
            await t.target_exit_data(omp.map(release=omp.pointee(structs, "row", row, i)))
        await t.target_exit_data(omp.map(release=structs))

    races = [subject for kind, subject in found(body) if kind == "race"]
    assert bool(races) is not waits
