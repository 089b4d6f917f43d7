"""Graphs that a program builds node by node, and memory that is freed before a graph is launched."""

import numpy as np
import pytest
from cuda_rig import SMALL, add, double, run_of, small

from offloadrt.driver import DriverError

N = 512


async def diamond(t, here, there, calls):
    """Copy in, two kernels that nothing orders, one that adds their results, a host function and a copy out."""
    graph = await t.graph_create()
    copied = await t.graph_add_memcpy_node(graph, there[0], here)
    cleared = await t.graph_add_memset_node(graph, there[1], 0)
    shape = {"grid": 2, "block": 256}
    left = await t.graph_add_kernel_node(graph, add, there[1], there[0], after=[copied, cleared], **shape)
    right = await t.graph_add_kernel_node(graph, double, there[1], after=[left], **shape)
    both = await t.graph_add_kernel_node(graph, add, there[0], there[1], after=[right], **shape)
    await t.graph_add_memcpy_node(graph, here, there[0], after=[both])
    await t.graph_add_host_node(graph, lambda: calls.append(t.sim.now), after=[both])
    return graph


def test_a_built_graph_computes_what_its_nodes_say_at_each_launch():
    async def body(t):
        calls = []
        here = await t.host_alloc("here", N, np.float64, fill=np.arange(N))
        there = [await t.malloc(N, np.float64) for _ in "ab"]
        graph = await t.graph_instantiate(await diamond(t, here, there, calls))
        before = here.values.copy()
        for _ in range(3):
            await t.graph_launch(graph)
        await t.device_synchronize()
        return before, here.values.copy(), len(calls)

    before, values, calls = run_of(body)[1]
    assert np.array_equal(before, np.arange(N))
    assert np.array_equal(values, 27.0 * np.arange(N)) and calls == 3


def test_nodes_that_nothing_orders_run_at_one_time():
    def took(chained):
        async def body(t):
            graph, last = await t.graph_create(), []
            for _ in range(4):
                node = await t.graph_add_kernel_node(graph, SMALL, grid=1, block=32, iterations=320_000, after=last)
                last = [node] if chained else []
            ready = await t.graph_instantiate(graph)
            begin = t.sim.now
            await t.graph_launch(ready)
            await t.device_synchronize()
            return t.sim.now - begin

        return run_of(body)[1]

    assert took(True) > 3.5 * took(False)


def test_a_node_costs_its_own_price_without_the_context_lock_and_a_launch_that_of_a_captured_graph():
    def costs(built, nodes=30):
        async def body(t):
            stream = await t.stream_create(non_blocking=True)
            begin = t.sim.now
            if built:
                graph = await t.graph_create()
                for _ in range(nodes):
                    await t.graph_add_kernel_node(graph, SMALL, grid=1, block=32, iterations=320)
            else:
                await t.stream_begin_capture(stream)
                for _ in range(nodes):
                    await small(t, stream)
                graph = await t.stream_end_capture(stream)
            made = t.sim.now
            ready = await t.graph_instantiate(graph)
            before = t.sim.now
            await t.graph_launch(ready, stream=stream)
            return made - begin, t.sim.now - before

        return run_of(body, settings={"graph.add_node": "3 us"})

    (run, (making, launching)), (_, (_, expected)) = costs(True), costs(False)
    assert making == pytest.approx(31 * 3e-6)
    assert launching == pytest.approx(expected)
    assert run.calls.count("cuGraphAddKernelNode") == 30


def test_threads_build_graphs_side_by_side():
    async def body(t):
        begin = t.sim.now
        graph = await t.graph_create()
        for _ in range(10):
            await t.graph_add_kernel_node(graph, SMALL, grid=1, block=32, iterations=320)
        return t.sim.now - begin

    assert run_of(body, threads=8)[1] == pytest.approx(run_of(body)[1])


def test_an_executable_graph_keeps_the_nodes_that_there_were():
    async def body(t):
        there = await t.malloc(N, np.float64)
        here = await t.host_alloc("here", N, np.float64, fill=1.0)
        await t.memcpy(there, here)
        graph = await t.graph_create()
        first = await t.graph_add_kernel_node(graph, double, there, grid=2, block=256)
        early = await t.graph_instantiate(graph)
        await t.graph_add_kernel_node(graph, double, there, grid=2, block=256, after=[first])
        await t.graph_launch(early)
        await t.graph_launch(await t.graph_instantiate(graph))
        await t.memcpy(here, there)
        return here.values[0]

    assert run_of(body)[1] == 8.0


# bad use


async def names_a_node_that_there_is_not(t):
    await t.graph_add_kernel_node(await t.graph_create(), SMALL, grid=1, block=32, after=[0])


async def copies_pageable_memory(t):
    here, there = t.array("here", N), await t.malloc(N, np.float64)
    await t.graph_add_memcpy_node(await t.graph_create(), there, here)


async def copies_more_than_fits(t):
    here, there = await t.host_alloc("here", N), await t.malloc(8)
    await t.graph_add_memcpy_node(await t.graph_create(), there, here)


async def uses_freed_memory_at_once(t):
    there = await t.malloc(N)
    await t.free(there)
    await t.graph_add_memset_node(await t.graph_create(), there, 0)


async def frees_before_a_built_graph_is_launched(t):
    there, graph = await t.malloc(N), await t.graph_create()
    await t.graph_add_kernel_node(graph, double, there, grid=1, block=32)
    ready = await t.graph_instantiate(graph)
    await t.free(there)
    await t.graph_launch(ready)


async def frees_before_a_captured_graph_is_launched(t):
    there, stream = await t.malloc(N), await t.stream_create(non_blocking=True)
    await t.stream_begin_capture(stream)
    await t.memset_async(there, 0, stream=stream)
    ready = await t.graph_instantiate(await t.stream_end_capture(stream))
    await t.graph_launch(ready, stream=stream)
    await t.stream_synchronize(stream)
    await t.free(there)
    await t.graph_launch(ready, stream=stream)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (names_a_node_that_there_is_not, "cuGraphAddKernelNode .*INVALID_VALUE: 0 is no node of graph 0"),
        (copies_pageable_memory, "cuGraphAddMemcpyNode .*its host memory is pageable"),
        (copies_more_than_fits, "cuGraphAddMemcpyNode .*INVALID_VALUE: the source has 2048 bytes, its destination 8"),
        (
            uses_freed_memory_at_once,
            "cuGraphAddMemsetNode .*ILLEGAL_ADDRESS: its destination, .* was freed by",
        ),
        (
            frees_before_a_built_graph_is_launched,
            "cuGraphLaunch .*ILLEGAL_ADDRESS: argument 1 of kernel 'double', .* was freed by cuMemFree",
        ),
        (
            frees_before_a_captured_graph_is_launched,
            "cuGraphLaunch .*ILLEGAL_ADDRESS: the destination of a memset, .* was freed by cuMemFree",
        ),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_bad_use_is_refused_with_call_thread_and_time(body, message):
    with pytest.raises(DriverError, match=message + r".*\(host thread 0 at 0\.0"):
        run_of(body)


def test_hosts_memory_that_was_freed_is_refused_too():
    async def body(t):
        here, there = await t.host_alloc("here", N, np.uint8), await t.malloc(N)
        graph = await t.graph_create()
        await t.graph_add_memcpy_node(graph, there, here)
        ready = await t.graph_instantiate(graph)
        await t.free_host(here)
        await t.graph_launch(ready)

    with pytest.raises(Exception, match="here"):
        run_of(body)
