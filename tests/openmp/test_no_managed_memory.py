"""What only managed memory can do is refused elsewhere by a named error."""

from __future__ import annotations

import pytest
from openmp_rig import MakeRig

from offloadrt import openmp as omp
from offloadrt.driver import DriverError
from offloadrt.study.errors import UserError
from offloadrt.study.running.run import Run


@pytest.mark.parametrize("machine", ["mi300a", "alex-a100"])
@pytest.mark.parametrize("call", ["prefetch", "advise"])
def test_prefetch_and_advise_need_managed_memory(machine: str, call: str) -> None:
    run = Run(machine=machine)

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 8, fill=1.0)
        with pytest.raises(DriverError):
            await (t.prefetch(a) if call == "prefetch" else t.advise(a, "prefer_host"))

    run.sim.run(lambda: run.parallel(body))


@pytest.mark.parametrize("machine", ["alex-a100", "summitdev-p100"])
@pytest.mark.parametrize("configuration", ["usm", "implicit_zero_copy", "eager_maps"])
def test_a_discrete_device_does_not_use_host_memory_in_place(machine: str, configuration: str) -> None:
    """What its kernels would pay for it, over the link, nobody says: they would have it as fast as their own memory."""
    run = Run(machine=machine)
    run.configuration = configuration
    message = rf"'{configuration}' on {machine}: only the kernels of an APU .*machine\.apu is false.*; take 'managed'"

    async def main() -> None:
        with pytest.raises(UserError, match=message):
            await run.parallel(lambda t: t.barrier())

    run.sim.run(main)


def test_a_gpu_that_cannot_use_host_memory_has_no_managed_memory(rig: MakeRig) -> None:
    with pytest.raises(ValueError, match=r"'managed'.*its GPU cannot use host memory \(gpu\.unified_memory is false\)"):
        rig({"gpu.unified_memory": "false"}, configuration="managed")
