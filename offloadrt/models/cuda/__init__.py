"""CUDA and HIP programs: host threads that call the driver library themselves, without an offloading runtime between.

    run.options = cuda.CUDAOptions()

    async def main(t):
        here = await t.host_alloc("here", n, np.float32, fill=1.0)
        there = await t.malloc(n, np.float32)
        copied, stream = await t.event_create(), await t.stream_create(non_blocking=True)
        await t.memcpy_async(there, here, stream=stream)
        await t.event_record(copied, stream)
        await t.stream_wait_event(None, copied)
        await t.launch(scale, there, grid=n // 256, block=256)
        await t.device_synchronize()

    await run.parallel(main)

A thread's calls have the names of the CUDA runtime API without their prefix; ``host_thread.py`` has them all.
``calling_thread.py`` knows a thread's current device, its streams and what the program has allocated. What the threads
of a program share is in ``program.py``. On a machine of AMD's the calls have HIP's
names in reports. Kernels are those of `offloadrt.kernels`.
"""

from offloadrt.driver import BuiltGraph, CapturedGraph, GraphExec, MemPool, TimedEvent
from offloadrt.machine import DeviceArray
from offloadrt.models.cuda.calling_thread import STREAM_LEGACY, STREAM_PER_THREAD
from offloadrt.models.cuda.host_thread import HostThread
from offloadrt.models.cuda.program import CUDA, CUDAOptions

__all__ = [
    "CUDA",
    "STREAM_LEGACY",
    "STREAM_PER_THREAD",
    "BuiltGraph",
    "CUDAOptions",
    "CapturedGraph",
    "DeviceArray",
    "GraphExec",
    "HostThread",
    "MemPool",
    "TimedEvent",
]
