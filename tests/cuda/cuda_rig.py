"""A CUDA program of one body for the tests of this folder, and kernels: one takes a known time on few SMs."""

from offloadrt import cuda
from offloadrt.kernels import Kernel, kernel
from offloadrt.study import Run

SMALL = Kernel("small", flops_per_iteration=1e3)
"""On one SM; many of them run at one time."""


@kernel(threads_per_team=256)
def double(a):
    a *= 2.0


@kernel(threads_per_team=256)
def add(a, b):
    a += b


def run_of(body, machine="alex-a100", threads=1, start="warm", settings=None, made=None, **options):
    """Run ``body(t)`` in each thread; returns the run and what thread 0 returned. made: options of `Run`."""
    run = Run(machine=machine, **(made or {}))
    run.set("runtime.start", start)
    for key, value in (settings or {}).items():
        run.set(key, value)
    run.options = cuda.CUDAOptions(**options)

    async def main():
        results = await run.parallel(body, threads)
        await run.finish()
        return results[0]

    return run, run.sim.run(main)


async def small(t, stream=None, size=1.0):
    """Launch a kernel that takes ``size`` times as long as the smallest."""
    await t.launch(SMALL, grid=1, block=32, iterations=round(320 * size), stream=stream)
