"""Is it slower to hand each launch to the next HSA queue of a pool, on a GPU that looks at fewer queues?"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

from offloadrt import Range, Run, scenario
from offloadrt import openmp as omp
from offloadrt.driver import HsaSignal, Rocr
from offloadrt.kernels import Kernel
from offloadrt.machine import Stream


@scenario(machine="mi300a", sweep={"queues": (1, 8, 17, 25)})
async def queue_pool(
    run: Run,
    queues: Annotated[int, Range(1, 1024)] = 17,
    launches: Annotated[int, Range(1, 1_000_000)] = 300,
    host_us: Annotated[float, Range(0.0, 1e6)] = 0.0,
) -> dict[str, float]:
    """A thread launches short kernels by ROCr and waits for each; the last queue of the pool is the first to be taken.

    Parameters:
        queues: HSA queues in the pool
        launches: that are timed, after one in each queue
        host_us: what the thread works before each launch, in us
    """
    run.set("hsa.queues", queues)
    store = Kernel("store", None, 0.0, 4.0, 256).launch(4096)

    async def body(t: omp.HostThread) -> None:
        rocr = Rocr.of(run.machine)
        rocr.start()
        pool = [rocr.device.open_stream() for _ in range(queues)]

        async def launch_and_wait(stream: Stream) -> None:
            await t.compute(host_us * 1e-6)
            done = HsaSignal(run.sim, "store")
            await rocr.queues.dispatch(stream, 0, store, None, done)
            await rocr.signals.wait(stream, done)

        with ExitStack() as held:
            for stream in pool:
                rocr.queues.take(stream)
                held.callback(rocr.device.hsa_queues.give_back, stream)
                await launch_and_wait(stream)
            async with run.measure():
                for number in range(launches):
                    await launch_and_wait(pool[-1 - number % queues])

    await run.parallel(body)
    return {"per_launch_s": run.elapsed / launches}
