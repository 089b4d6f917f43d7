"""One fault: a kernel touches pages of managed memory that lie on the host."""

from __future__ import annotations

from typing import Annotated

from offloadrt import Range, Run, cuda, scenario
from offloadrt.kernels import kernel


@kernel
def touch(a, pages):  # type: ignore[no-untyped-def]  # a kernel's arguments are views of device memory
    for page in range(pages):
        a[page * 1024] = a[page * 1024] + 1.0


@scenario(machine="t4", sweep={"pages": (1, 2, 16, 256, 512)})
async def one_fault(run: Run, pages: Annotated[int, Range(1, 4096)] = 1, prefetch: bool = False) -> dict[str, float]:
    """The host writes an array of managed memory; then a kernel touches the first float of each of its pages.

    Parameters:
        pages: of 4 KiB
        prefetch: whether a fault brings neighbouring pages along
    """
    run.options = cuda.CUDAOptions()
    if not prefetch:
        run.set("prefetch.policy", "none")

    async def body(t: cuda.HostThread) -> float:
        a = await t.malloc_managed("a", pages * 1024, fill=1.0)
        begin = t.sim.now
        await t.launch(touch, a, pages, grid=-(-pages // 64), block=64)
        await t.device_synchronize()
        return t.sim.now - begin

    (kernel_s,) = await run.parallel(body)
    return {"kernel_s": kernel_s}
