"""One graph: kernels that are recorded once and launched by one call."""

from __future__ import annotations

from typing import Annotated

from offloadrt import Range, Run, cuda, scenario
from offloadrt.kernels import Kernel

TINY = Kernel("tiny", threads_per_team=128)


@scenario(machine="alex-a100", sweep={"graph": (False, True)})
async def one_graph(run: Run, kernels: Annotated[int, Range(1, 1000)] = 20, graph: bool = False) -> dict[str, float]:
    """One thread has a row of tiny kernels done, a second time also.

    Parameters:
        kernels: in the row
        graph: whether they are captured into a graph before
    """
    run.options = cuda.CUDAOptions(phantom=True)

    async def body(t: cuda.HostThread) -> float:
        stream = await t.stream_create(non_blocking=True)

        async def row() -> None:
            for _ in range(kernels):
                await t.launch(TINY, grid=1, block=128, stream=stream)

        captured = None
        if graph:
            await t.stream_begin_capture(stream)
            await row()
            captured = await t.graph_instantiate(await t.stream_end_capture(stream))
        for _ in range(2):  # the second time nothing is loaded any more
            begin = t.sim.now
            await (row() if captured is None else t.graph_launch(captured, stream=stream))
            await t.stream_synchronize(stream)
        return t.sim.now - begin

    (row_s,) = await run.parallel(body)
    return {"row_s": row_s}
