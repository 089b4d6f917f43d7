"""What many short kernels cost the host: launched one by one, or as a CUDA graph that was captured or built."""

from __future__ import annotations

from typing import Annotated, Literal

from offloadrt import Range, Run, cuda, scenario
from offloadrt.kernels import Kernel
from offloadrt.study.scripts.parameters import Value

STEP = Kernel("step", bytes_per_iteration=8.0, threads_per_team=256)


@scenario(machine="alex-a100", sweep={"launches": ("one_by_one", "graph"), "threads": (1, 2, 4, 8)})
async def graph_launches(
    run: Run,
    launches: Literal["one_by_one", "graph", "built"] = "one_by_one",
    threads: Annotated[int, Range(1, 1024)] = 1,
    nodes: Annotated[int, Range(1, 100_000)] = 20,
    nbytes: Annotated[int, Range(256, 1 << 36)] = 1 << 16,
    steps: Annotated[int, Range(1, 1_000_000)] = 50,
) -> dict[str, Value]:
    """Each host thread puts a sequence of kernels into a stream of its own and waits, step after step.

    Parameters:
        launches: one_by_one (cudaLaunchKernel), graph (cudaGraphLaunch of what was captured before), built (of a graph
            to which the kernels were added as nodes)
        threads: host threads
        nodes: kernels of a step
        nbytes: of the array that each kernel goes through
        steps: of each thread
    """
    run.options = cuda.CUDAOptions(phantom=True)

    async def body(t: cuda.HostThread) -> tuple[float, float, float]:
        stream, array = await t.stream_create(non_blocking=True), await t.malloc(nbytes)

        async def sequence() -> None:
            for _ in range(nodes):
                await t.launch(STEP, array, grid=-(-nbytes // 2048), block=256, iterations=nbytes // 8, stream=stream)

        async def chain() -> cuda.BuiltGraph:
            graph = await t.graph_create()
            last: list[int] = []
            for _ in range(nodes):
                node = await t.graph_add_kernel_node(
                    graph, STEP, array, grid=-(-nbytes // 2048), block=256, iterations=nbytes // 8, after=last
                )
                last = [node]
            return graph

        await t.barrier()
        began, graph = t.sim.now, None
        if launches == "graph":
            await t.stream_begin_capture(stream, mode="thread_local")
            await sequence()
            graph = await t.graph_instantiate(await t.stream_end_capture(stream))
        elif launches == "built":
            graph = await t.graph_instantiate(await chain())
        await t.barrier()
        begin, submitting = t.sim.now, 0.0
        for _ in range(steps):
            submitted = t.sim.now
            await (sequence() if graph is None else t.graph_launch(graph, stream=stream))
            submitting += t.sim.now - submitted
            await t.stream_synchronize(stream)
        await t.barrier()
        return t.sim.now - begin, submitting, begin - began

    times = await run.parallel(body, threads)
    elapsed, submitting, preparing = (max(column) for column in zip(*times, strict=True))
    return {"step_s": elapsed / steps, "submit_s": submitting / steps, "prepare_s": preparing}
