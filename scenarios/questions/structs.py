"""What does it cost to map a struct, its members, or what its pointers lead to, with each kernel?"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np

from offloadrt import Range, Run, kernel, scenario
from offloadrt import openmp as omp

How = Literal["present", "implicit", "attached", "struct", "members"]


@kernel(flops_per_iteration=2, bytes_per_iteration=24)
def work(s: Any) -> None:
    pass


@scenario(machine="isambard-mi100", sweep={"how": ("present", "implicit", "attached", "struct", "members")})
async def structs(
    run: Run,
    how: How = "implicit",
    members: Annotated[int, Range(1, 64)] = 8,
    n: Annotated[int, Range(1, 1 << 32)] = 1 << 13,
    launches: Annotated[int, Range(1, 100_000)] = 100,
) -> dict[str, float]:
    """Kernels that use a struct of pointers, whose arrays are on the device already.

    Parameters:
        how: the struct is present; implicitly mapped; each launch maps its pointees; the whole struct; each member
        members: pointers of the struct
        n: doubles of the array behind each pointer, and iterations of a kernel
        launches: that are timed
    """
    run.phantom = True
    kind = np.dtype([(f"p{i}", "u8") for i in range(members)])

    async def body(t: omp.HostThread) -> None:
        s = t.array("s", 1, kind)
        data = [t.array(f"d{i}", n, kind="heap") for i in range(members)]
        await t.target_enter_data(omp.map(to=data), *([omp.map(to=s)] if how == "present" else []))
        pointees = [omp.pointee(s, f"p{i}", data[i]) for i in range(members)]
        maps = {"struct": [s], "members": [omp.member(s, f"p{i}") for i in range(members)], "attached": pointees}
        clauses = [omp.map(to=maps[how])] if how in maps else []
        async with run.measure():
            for _ in range(launches):
                await t.target(work, s, maps=clauses, teams=256, threads=256, iterations=n)

    await run.parallel(body)
    return {"per_launch_s": run.elapsed / launches}
