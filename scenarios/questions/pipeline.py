"""Do copies in, kernels and copies out of several chunks overlap?"""

from __future__ import annotations

from typing import Annotated, Any

from offloadrt import Range, Run, kernel, scenario
from offloadrt import openacc as acc


@kernel(flops_per_iteration=2000, bytes_per_iteration=16)
def work(a: Any) -> None:
    a += 1.0


@scenario(machine="dgx1-v100", sweep={"copy_out": (True, False), "asynchronous": (True, False)})
async def pipeline(
    run: Run,
    chunks: Annotated[int, Range(1, 1024)] = 8,
    queues: Annotated[int, Range(1, 64)] = 4,
    mib: Annotated[int, Range(1, 1 << 14)] = 64,
    copy_out: bool = True,
    asynchronous: bool = True,
) -> dict[str, float]:
    """A loop over chunks of pageable memory, each copied in, worked on and copied out.

    Parameters:
        chunks: of the data
        queues: async queues that take the chunks in turn
        mib: of a chunk, in MiB
        copy_out: whether the results are copied out
        asynchronous: whether there is an async clause
    """
    run.options = acc.OpenACCOptions(phantom=True)

    async def body(t: acc.HostThread) -> None:
        arrays = [t.array(f"chunk {i}", mib << 17) for i in range(chunks)]
        await t.enter_data(acc.create(*arrays))
        async with run.measure():
            for i, a in enumerate(arrays):
                queue = i % queues if asynchronous else None
                await t.update(acc.device(a), async_=queue)
                await t.parallel(work, a, default="present", iterations=mib << 17, async_=queue)
                if copy_out:
                    await t.update(acc.host(a), async_=queue)
            await t.wait()

    await run.parallel(body)
    return {"pipeline_s": run.elapsed}
