"""CUDA programs: host threads that call the driver library themselves, without an offloading runtime between.

    run.options = cuda.CUDAOptions(phantom=True)

    async def main(t):
        a = await t.malloc_managed("a", n, np.float32, written=True)
        await t.launch(scale, a, grid=n // 256, block=256)
        await t.device_synchronize()

    await run.parallel(main)

``host_thread.py`` has the calls, under the names of the CUDA runtime API without their prefix; ``program.py`` what the
threads of a program share: the default stream. Kernels are those of `offloadrt.kernels`.
"""

from offloadrt.models.cuda.host_thread import HostThread
from offloadrt.models.cuda.options import CUDAOptions
from offloadrt.models.cuda.program import CUDA

__all__ = ["CUDA", "CUDAOptions", "HostThread"]
