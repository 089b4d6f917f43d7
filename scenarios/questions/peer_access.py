"""How fast are copies between two GPUs with peer access and without?"""

from __future__ import annotations

from typing import Annotated

from offloadrt import Range, Run, cuda, scenario


@scenario(machine="dgx1-v100", sweep={"enabled": (True, False)})
async def peer_access(
    run: Run, enabled: bool = True, nbytes: Annotated[int, Range(1, 1 << 36)] = 1 << 28
) -> dict[str, float]:
    """Copy from device 0 to device 1.

    Parameters:
        enabled: whether device 0 has enabled access to device 1 before
        nbytes: of the copy
    """
    run.options = cuda.CUDAOptions(phantom=True, num_devices=2)

    async def body(t: cuda.HostThread) -> None:
        source = await t.malloc(nbytes)
        if enabled:
            await t.device_enable_peer_access(1)
        stream = await t.stream_create(non_blocking=True)
        await t.set_device(1)
        destination = await t.malloc(nbytes)
        await t.set_device(0)
        async with run.measure():
            await t.memcpy_async(destination, source, stream=stream)
            await t.stream_synchronize(stream)

    await run.parallel(body)
    return {"copy_s": run.elapsed}
