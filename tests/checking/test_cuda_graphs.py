"""Graphs of CUDA under the checker: nodes without an edge, graphs beside streams, and a host that does not wait."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from checked_programs import add, double, fill
from test_cuda import DEVICE, HOST, Body, N, found, launch

from offloadrt import Run, cuda
from offloadrt.extensions.checking.checked import reports_mistakes

SHAPE = {"grid": N // 256, "block": 256}


async def built(t: cuda.HostThread, nodes: list[tuple[Any, ...]]) -> cuda.GraphExec:
    """Make a graph of nodes: ``(kind, arguments, those that it comes after)``."""
    graph = await t.graph_create()
    for kind, arguments, after in nodes:
        match kind:
            case "kernel":
                await t.graph_add_kernel_node(graph, *arguments, N, **SHAPE, after=after)
            case "memset":
                await t.graph_add_memset_node(graph, *arguments, after=after)
            case "memcpy":
                await t.graph_add_memcpy_node(graph, *arguments, after=after)
            case "host":
                await t.graph_add_host_node(graph, *arguments, after=after)
    return await t.graph_instantiate(graph)


def test_nodes_without_an_edge() -> None:
    def body(shape: str, first: str, second: str) -> Body:
        async def main(t: cuda.HostThread) -> None:
            a, there, out = await t.host_alloc("a", N, fill=1.0), await t.malloc(N, "f4"), await t.malloc(N, "f4")
            kinds = {
                "kernel": ("kernel", (double, there)),
                "reads": ("kernel", (add, out, there)),
                "memset": ("memset", (there, 0)),
                "to": ("memcpy", (there, a)),
                "from": ("memcpy", (a, there)),
            }
            spare, after = await t.malloc(16), {"edge": [2], "path": [3], "siblings": [1], "none": []}[shape]
            zeros = [("memset", (there, 0), []), ("memset", (out, 0), [0])]
            between = ("memset", (spare, 0), [2] if shape == "path" else [1])
            graph = await built(t, [*zeros, (*kinds[first], [1]), between, (*kinds[second], after)])
            await t.graph_launch(graph)
            await t.device_synchronize()
            a[0].item()

        return main

    for pair in (("kernel", "memset"), ("to", "reads"), ("memset", "from"), ("reads", "to"), ("kernel", "kernel")):
        assert (pair, found(body("edge", *pair))) == (pair, [])
        assert (pair, found(body("path", *pair))) == (pair, [])
        for shape in ("siblings", "none"):
            races = found(body(shape, *pair))
            assert (pair, shape, {kind for kind, _ in races}) == (pair, shape, {"race"})
    assert found(body("siblings", "reads", "from")) == []  # both read


@pytest.mark.parametrize("joins", ["before", "behind"])
def test_streams_that_join_a_capture(joins: Literal["before", "behind"]) -> None:
    async def main(t: cuda.HostThread) -> None:
        there, fork, join = await t.malloc(N, "f4"), await t.event_create(), await t.event_create()
        one, other = await t.stream_create(), await t.stream_create()
        await t.stream_begin_capture(one)
        await t.memset_async(there, 0, stream=one)
        if joins == "before":
            await t.event_record(fork, one)
        await launch(t, double, there, stream=one)
        if joins == "behind":
            await t.event_record(fork, one)
        await t.stream_wait_event(other, fork)
        await launch(t, fill, there, stream=other)
        await t.event_record(join, other)
        await t.stream_wait_event(one, join)
        await launch(t, double, there, stream=one)
        graph = await t.graph_instantiate(await t.stream_end_capture(one))
        for _ in range(3):
            await t.graph_launch(graph, stream=one)
        await t.device_synchronize()

    assert found(main) == (DEVICE if joins == "before" else [])


def test_a_graph_beside_another_stream() -> None:
    def body(order: str) -> Body:
        async def main(t: cuda.HostThread) -> None:
            there, event = await t.malloc(N, "f4"), await t.event_create()
            one, other = await t.stream_create(), await t.stream_create()
            graph = await built(t, [("kernel", (fill, there), [])])
            if order == "before":
                await launch(t, fill, there, stream=other)
                await t.event_record(event, other)
                await t.stream_wait_event(one, event)
            await t.graph_launch(graph, stream=one)
            await t.event_record(event, one)
            match order:
                case "event":
                    await t.stream_wait_event(other, event)
                case "host":
                    await t.stream_synchronize(one)
                case "default":
                    await t.memset_async(await t.malloc(16), 0)
            if order != "before":
                await launch(t, double, there, stream=one if order == "same" else other)
            await t.device_synchronize()

        return main

    for order in ("event", "host", "default", "before", "same"):
        assert (order, found(body(order))) == (order, [])
    assert found(body("nothing")) == DEVICE


def test_executable_graphs_of_one_graph() -> None:
    def body(executables: int) -> Body:
        async def main(t: cuda.HostThread) -> None:
            there, graph = await t.malloc(N, "f4"), await t.graph_create()
            await t.graph_add_kernel_node(graph, fill, there, N, **SHAPE)
            made = [await t.graph_instantiate(graph) for _ in range(executables)]
            for number in range(4):
                await t.graph_launch(made[number % executables], stream=await t.stream_create())
            await t.device_synchronize()

        return main

    assert found(body(1)) == []  # a launch comes after the one before
    assert found(body(2)) == DEVICE


def test_the_host_uses_what_a_graph_uses() -> None:
    def body(waits: str, writes: bool, managed: bool) -> Body:
        async def main(t: cuda.HostThread) -> None:
            make = t.malloc_managed if managed else t.host_alloc
            a, there, stream = await make("a", N, fill=1.0), await t.malloc(N, "f4"), await t.stream_create()
            event = await t.event_create()
            nodes = [("kernel", (double, a), [])] if managed else []
            if not managed:
                nodes = [("memcpy", (there, a), []), ("kernel", (double, there), [0]), ("memcpy", (a, there), [1])]
            graph = await built(t, nodes)
            for _ in range(2):
                await t.graph_launch(graph, stream=stream)
                await t.event_record(event, stream)
                match waits:
                    case "stream":
                        await t.stream_synchronize(stream)
                    case "event":
                        await t.event_synchronize(event)
                if writes:
                    a[5] = 3.0
                else:
                    a[5].item()
            await t.device_synchronize()

        return main

    for writes in (True, False):
        for managed in (True, False):
            assert found(body("stream", writes, managed)) == found(body("event", writes, managed)) == []
            assert found(body("nothing", writes, managed)) == HOST


def test_a_function_of_the_host_in_a_graph() -> None:
    def body(edge: bool, host_waits: bool) -> Body:
        async def main(t: cuda.HostThread) -> None:
            a, b = await t.host_alloc("a", N, fill=0.0), t.array("b", N, "f4", fill=0.0)
            there, stream, seen = await t.malloc(N, "f4"), await t.stream_create(), []

            def read() -> None:
                seen.append(float(a[3]) + float(b[3]))

            nodes = [("kernel", (fill, there), []), ("memcpy", (a, there), [0]), ("host", (read,), [1] if edge else [])]
            graph = await built(t, nodes)
            for step in range(3):
                await t.graph_launch(graph, stream=stream)
                if host_waits:
                    await t.stream_synchronize(stream)
                b[3] = step
            await t.device_synchronize()
            assert len(seen) == 3

        return main

    assert found(body(True, True)) == []
    assert found(body(False, True)) == HOST
    assert found(body(True, False)) == [("race", "b on the host")]


def test_a_function_that_was_captured_from_a_stream() -> None:
    def body(waits: bool) -> Body:
        async def main(t: cuda.HostThread) -> None:
            a, stream = await t.host_alloc("a", N, fill=1.0), await t.stream_create()
            there = await t.malloc(N, "f4")
            await t.stream_begin_capture(stream)
            await t.memcpy_async(there, a, stream=stream)
            await launch(t, double, there, stream=stream)
            await t.memcpy_async(a, there, stream=stream)
            await t.memcpy_async(t.array("to", 4), t.array("from", 4, fill=1.0), stream=stream)  # within the host
            await t.launch_host_func(lambda: a.__setitem__(0, a[0] + 1.0), stream=stream)
            graph = await t.graph_instantiate(await t.stream_end_capture(stream))
            for _ in range(3):
                await t.graph_launch(graph, stream=stream)
                if waits:
                    await t.stream_synchronize(stream)
                    a[0] = a[0] * 2.0
            if not waits:
                a[0] = 5.0
            await t.device_synchronize()

        return main

    assert found(body(True)) == []
    assert found(body(False)) == HOST


def test_memory_that_is_freed_beside_a_graph() -> None:
    def body(waits: bool) -> Body:
        async def main(t: cuda.HostThread) -> None:
            one, other, event = await t.stream_create(), await t.stream_create(), await t.event_create()
            there = await t.malloc_async(N, "f4", stream=one)
            graph = await built(t, [("kernel", (fill, there), [])])
            await t.graph_launch(graph, stream=one)
            await t.event_record(event, one)
            if waits:
                await t.stream_wait_event(other, event)
            await t.free_async(there, stream=other)
            await t.device_synchronize()

        return main

    assert found(body(True)) == []
    assert found(body(False)) == DEVICE


def test_what_a_graph_reads_before_anybody_has_written_it() -> None:
    def body(writes: bool) -> Body:
        async def main(t: cuda.HostThread) -> None:
            a, there = await t.host_alloc("a", N, fill=0.0), await t.malloc(N, "f4")
            first = [("memset", (there, 0), [])] if writes else []
            graph = await built(
                t, [*first, ("kernel", (double, there), [0] * writes), ("memcpy", (a, there), [int(writes)])]
            )
            await t.graph_launch(graph)
            await t.device_synchronize()
            a[5].item()

        return main

    assert found(body(True)) == []
    assert found(body(False)) == [("uninitialised data", "device memory")]


def test_graphs_of_several_threads() -> None:
    def body(waits: bool) -> Body:
        shared: list[Any] = []

        async def main(t: cuda.HostThread) -> None:
            stream = await t.stream_create()
            if t.number == 0:
                shared.append(await t.malloc(N, "f4"))
            await t.barrier()
            graph = await built(t, [("kernel", (fill, shared[0]), [])])
            for number in range(2):
                if t.number == number:
                    await t.graph_launch(graph, stream=stream)
                    if waits:
                        await t.stream_synchronize(stream)
                await t.barrier()
            await t.device_synchronize()

        return main

    assert found(body(True), threads=2) == []
    assert found(body(False), threads=2) == DEVICE


def test_the_line_at_which_a_node_was_made_is_told() -> None:
    run = Run(machine="alex-a100")
    run.options = cuda.CUDAOptions()
    reports = reports_mistakes(run)

    async def body(t: cuda.HostThread) -> None:
        there, graph = await t.malloc(N, "f4"), await t.graph_create()
        await t.graph_add_kernel_node(graph, fill, there, N, **SHAPE)
        await t.graph_add_kernel_node(graph, double, there, N, **SHAPE)
        await t.graph_launch(await t.graph_instantiate(graph))
        await t.device_synchronize()

    async def main() -> None:
        await run.parallel(body)
        await run.finish()

    run.sim.run(main)
    text = "\n".join(reports())
    line = body.__code__.co_firstlineno
    launched = f"of a graph launched at test_cuda_graphs.py:{line + 4}"
    assert (
        f"graph 0 of device 0 writes device memory in kernel 'fill' {launched} at test_cuda_graphs.py:{line + 2}"
        in text
    )
    assert f"in kernel 'double' {launched} at test_cuda_graphs.py:{line + 3}" in text
    assert "Nothing orders the two nodes" in text
