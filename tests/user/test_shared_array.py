"""A user's question: is my reference counting right in every order that threads may run in?"""

from __future__ import annotations

import pytest

from offloadrt import Run, kernel
from offloadrt import openmp as omp


@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def increment(a):  # type: ignore[no-untyped-def]  # a kernel's arguments are views of device memory
    a += 1.0


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("gear", ["native", "turbo"])
class TestAnyOrder:
    @pytest.fixture
    def offload_options(self, seed: int, gear: str) -> dict[str, object]:
        return {"strategy": "random", "seed": seed, "gear": gear}

    async def test_a_shared_array_is_mapped_once_and_comes_back(self, offload: Run) -> None:
        shared: dict[str, omp.HostArray] = {}

        async def body(t: omp.HostThread) -> None:
            if t.number == 0:
                shared["a"] = t.array("a", 1024, fill=0.0)
            await t.barrier()
            a = shared["a"]
            async with t.target_data(omp.map(tofrom=a)):
                await t.barrier()
                if t.number == 0:
                    await t.target(increment, a, maps=[omp.map(tofrom=a)], teams=8)
                await t.barrier()

        await offload.parallel(body, num_threads=6)
        assert (shared["a"].data == 1.0).all()
        assert len(offload.openmp.device(0).table) == 0, "every reference was given back"
