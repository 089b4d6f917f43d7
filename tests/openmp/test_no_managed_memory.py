"""What only managed memory can do is refused elsewhere by a named error."""

from __future__ import annotations

import pytest

from offloadrt import openmp as omp
from offloadrt.driver import DriverError
from offloadrt.study.errors import UserError
from offloadrt.study.run import Run


@pytest.mark.parametrize("machine", ["mi300a", "alex-a100"])
@pytest.mark.parametrize("call", ["prefetch", "advise"])
def test_prefetch_and_advise_need_managed_memory(machine: str, call: str) -> None:
    run = Run(machine=machine)

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 8, fill=1.0)
        with pytest.raises(DriverError):
            await (t.prefetch(a) if call == "prefetch" else t.advise(a, "prefer_host"))

    run.sim.run(lambda: run.parallel(body))


def test_eager_maps_on_a_cuda_machine_is_refused() -> None:
    run = Run(machine="alex-a100")
    run.configuration = "eager_maps"

    async def main() -> None:
        with pytest.raises(UserError, match=r"no page table for host memory.*machine\.apu is false"):
            await run.parallel(lambda t: t.barrier())

    run.sim.run(main)
