"""A kernel that is loaded at its first launch, and processes that start together."""

import numpy as np
import pytest
from cuda_rig import SMALL, run_of

from offloadrt import Run, cuda
from offloadrt.kernels import Kernel

MIB = 1 << 20
LONG = Kernel("long", flops_per_iteration=1e3)
STEADY = {"driver.handover": "0 us"}


def beside_a_long_kernel(loading, known=False):
    """Return when a kernel ended, and when another thread's copy was submitted that met the first launch of another."""

    async def body(t):
        stream = await t.stream_create(non_blocking=True)
        there, here = await t.malloc(MIB), await t.host_alloc("here", MIB, np.uint8)
        if t.number == 0 and known:
            await t.launch(SMALL, grid=1, block=32, iterations=1)
        await t.device_synchronize()
        await t.barrier()
        begin = t.sim.now
        if t.number == 0:
            await t.launch(LONG, grid=1, block=32, iterations=32 * 20_000, stream=stream)
            await t.stream_synchronize(stream)
        elif t.number == 1:
            await t.sleep(1e-3)
            await t.launch(SMALL, grid=1, block=32, iterations=1, stream=stream)
        else:
            await t.sleep(2e-3)
            await t.memcpy_async(there, here, stream=stream)
        ends[t.number] = t.sim.now - begin

    ends = {}
    run, _ = run_of(body, threads=3, start="loaded", settings=STEADY | {"module.loading": loading}, phantom=True)
    return ends[0], ends[2], run


def test_the_first_launch_of_a_kernel_holds_the_calls_of_other_threads_until_the_device_is_idle():
    """As a pull request to torchcomms reports (2334): the copy waits as long as the kernel runs."""
    kernel, copy, run = beside_a_long_kernel("lazy")
    assert kernel > 5e-3
    assert copy == pytest.approx(kernel + run.spec.value("module.kernel"), rel=0.02)


@pytest.mark.parametrize(("loading", "known"), [("eager", False), ("lazy", True)])
def test_a_kernel_that_is_there_holds_nobody_up(loading, known):
    assert beside_a_long_kernel(loading, known)[1] < 2.1e-3


def starting(processes, **settings):
    """Return the seconds from the start of so many processes until the last has launched its first kernel."""
    run = Run(machine="alex-a100")
    run.options = cuda.CUDAOptions(phantom=True, num_processes=processes)
    run.set("runtime.start", "cold")
    for key, value in settings.items():
        run.set(key.replace("__", "."), value)

    async def of_thread(t):
        await t.launch(SMALL, grid=1, block=32, iterations=1)
        return t.sim.now

    async def main(process):
        return (await process.parallel(of_thread, 1))[0]

    return run, max(run.sim.run(lambda: run.mpiexec(main)))


def test_processes_that_start_together_wait_for_one_another_in_the_kernel_module():
    run, one = starting(1)
    _, four = starting(4)
    _, alone = starting(4, process__kernel_driver__uncontended=True)
    value = run.spec.value
    together = value("init.library") + value("init.device") + value("init.context")
    # The last waits for the parts of three others in the module, less what it does in the library meanwhile.
    assert 2 < (four - one) / (value("init.kernel_part") * together) <= 3
    assert alone == pytest.approx(one, rel=0.02)
