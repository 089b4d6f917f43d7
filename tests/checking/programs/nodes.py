"""A graph of CUDA whose second node should come after the first."""

from __future__ import annotations

from typing import Any

from offloadrt import Run, cuda, kernel, scenario

N = 4096


@kernel
def fill(a: Any, n: int) -> None:
    for i in range(n):
        a[i] = 1.0


@kernel
def double(b: Any, a: Any, n: int) -> None:
    for i in range(n):
        b[i] = 2.0 * a[i]


@scenario(machine="alex-a100")
async def nodes(run: Run) -> None:
    run.options = cuda.CUDAOptions()

    async def body(t: cuda.HostThread) -> None:
        a, b, graph = await t.malloc(N, "f4"), await t.malloc(N, "f4"), await t.graph_create()
        await t.graph_add_kernel_node(graph, fill, a, N, grid=16, block=256)
        await t.graph_add_kernel_node(graph, double, b, a, N, grid=16, block=256)  # without after=[0]
        await t.graph_launch(await t.graph_instantiate(graph))
        await t.device_synchronize()

    await run.parallel(body)
