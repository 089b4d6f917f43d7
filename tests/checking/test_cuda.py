"""Programs of CUDA under the checker: streams, events, copies, the default stream, managed and pinned memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from checked_programs import add, double, fill

from offloadrt import Run, cuda, kernel
from offloadrt.extensions.checking.checked import reports_mistakes

N = 4096
Body = Callable[[cuda.HostThread], Awaitable[Any]]


@kernel
def halve(a: Any, n: int) -> None:
    for i in range(n):
        a[i] = a[i] * 0.5


def reports_of(body: Body, threads: int = 1, machine: str = "alex-a100", **options: Any) -> list[str]:
    run = Run(machine=machine)
    run.options = cuda.CUDAOptions(**options)
    reports = reports_mistakes(run)

    async def main() -> None:
        await run.parallel(body, num_threads=threads)
        await run.finish()

    run.sim.run(main)
    return list(reports())


def found(body: Body, threads: int = 1, **options: Any) -> list[tuple[str, str]]:
    """Return kind and subject of the mistakes, each once."""
    heads = [text.partition("\n")[0].split(" (")[0].split(": ") for text in reports_of(body, threads, **options)]
    return list(dict.fromkeys((kind, subject) for kind, subject in heads))


DEVICE, HOST = [("race", "device memory on device 0")], [("race", "a on the host")]


def launch(t: cuda.HostThread, what: Any, *arguments: Any, **where: Any) -> Awaitable[None]:
    return t.launch(what, *arguments, N, grid=N // 256, block=256, **where)


@pytest.mark.parametrize("pinned", [True, False])
def test_the_host_reads_what_a_stream_has_yet_to_bring(pinned: bool) -> None:
    def body(wait: str) -> Body:
        async def main(t: cuda.HostThread) -> None:
            a = await t.host_alloc("a", N, fill=1.0) if pinned else t.array("a", N, "f4", fill=1.0)
            there, stream, event = await t.malloc(N, "f4"), await t.stream_create(), await t.event_create()
            await t.memcpy_async(there, a, stream=stream)
            await launch(t, double, there, stream=stream)
            await t.memcpy_async(a, there, stream=stream)
            await t.event_record(event, stream)
            match wait:
                case "stream":
                    await t.stream_synchronize(stream)
                case "event":
                    await t.event_synchronize(event)
                case "device":
                    await t.device_synchronize()
                case "default stream":  # which waits for blocking streams
                    await t.stream_synchronize()
                case "query":
                    while not await t.stream_query(stream):
                        await t.sleep(1e-6)
                case "free":  # waits for the device
                    await t.free(await t.malloc(16))
            a[3].item()
            await t.device_synchronize()

        return main

    for wait in ("stream", "event", "device", "default stream", "query", "free"):
        assert (wait, found(body(wait))) == (wait, [])
    assert found(body("nothing")) == (HOST if pinned else [])  # a copy to pageable memory ends before the call does


def test_managed_memory_is_copied_in_the_order_of_a_stream() -> None:
    def body(waits: bool, to_device: bool) -> Body:
        async def main(t: cuda.HostThread) -> None:
            a, there, stream = (
                await t.malloc_managed("a", N, fill=1.0),
                await t.malloc(N, "f4"),
                await t.stream_create(),
            )
            await t.memset_async(there, 0, stream=stream)
            await (t.memcpy_async(there, a, stream=stream) if to_device else t.memcpy_async(a, there, stream=stream))
            if waits:
                await t.stream_synchronize(stream)
            a[3] = 2.0
            await t.device_synchronize()
            await t.memcpy(there, a)  # has ended when the call returns
            a[3] = 3.0

        return main

    for to_device in (True, False):
        assert found(body(True, to_device)) == []
        assert found(body(False, to_device)) == HOST


@pytest.mark.parametrize("non_blocking", [True, False])
def test_a_stream_that_is_destroyed_with_work_left(non_blocking: bool) -> None:
    def body(waits: str) -> Body:
        async def main(t: cuda.HostThread) -> None:
            a, there, event = await t.host_alloc("a", N, fill=1.0), await t.malloc(N, "f4"), await t.event_create()
            stream = await t.stream_create(non_blocking=non_blocking)
            await t.launch_host_func(None, seconds=1e-3, stream=stream)
            await t.memset_async(there, 0, stream=stream)
            await t.memcpy_async(a, there, stream=stream)
            await t.event_record(event, stream)
            await t.stream_destroy(stream)
            match waits:
                case "device":
                    await t.device_synchronize()
                case "event":
                    await t.event_synchronize(event)
                case "free":
                    await t.free(await t.malloc(16))
            assert a[3].item() == (1.0 if waits == "nothing" else 0.0)
            await t.device_synchronize()

        return main

    for waits in ("device", "event", "free"):
        assert (waits, found(body(waits))) == (waits, [])
    assert found(body("nothing")) == HOST


def test_two_streams_and_an_event() -> None:
    def body(order: str, **kind: Any) -> Body:
        async def main(t: cuda.HostThread) -> None:
            there, out, event = await t.malloc(N, "f4"), await t.malloc(N, "f4"), await t.event_create()
            one, other = await t.stream_create(**kind), await t.stream_create(**kind)
            if order == "too early":
                await t.event_record(event, one)
            await launch(t, fill, there, stream=one)
            if order in ("event", "too late"):
                await t.event_record(event, one)
            if order in ("event", "too early"):
                await t.stream_wait_event(other, event)
            if order == "host":
                await t.stream_synchronize(one)
            if order == "default":
                await launch(t, fill, out)
            await launch(t, add, out, there, stream=other)
            if order == "too late":
                await t.stream_wait_event(other, event)
            await t.device_synchronize()

        return main

    assert found(body("event")) == found(body("host")) == found(body("default")) == []
    assert found(body("nothing")) == found(body("too early")) == found(body("too late")) == DEVICE
    assert found(body("default", non_blocking=True)) == DEVICE


@pytest.mark.parametrize(("default_stream", "expected"), [("legacy", []), ("per-thread", DEVICE)])
def test_the_legacy_default_stream_orders_threads(default_stream: str, expected: list[tuple[str, str]]) -> None:
    shared: list[Any] = []

    async def body(t: cuda.HostThread) -> None:
        if t.number == 0:
            shared.append(await t.malloc(N, "f4"))
            await launch(t, fill, shared[0])
        await t.barrier()
        if t.number == 1:
            await launch(t, double, shared.pop())
        await t.device_synchronize()

    assert found(body, threads=2, default_stream=default_stream) == expected


def test_managed_memory_that_a_kernel_still_uses() -> None:
    def body(waits: bool) -> Body:
        async def main(t: cuda.HostThread) -> None:
            a = await t.malloc_managed("a", N, fill=1.0)
            for _ in range(2):
                await launch(t, double, a)
                if waits:
                    await t.device_synchronize()
                a[0].item()
                await t.device_synchronize()

        return main

    assert found(body(True)) == []
    assert found(body(False)) == HOST


def test_a_buffer_that_is_filled_again_too_early() -> None:
    def body(events: bool) -> Body:
        async def main(t: cuda.HostThread) -> None:
            a, stream = await t.host_alloc("a", N, fill=0.0), await t.stream_create()
            there, copied = await t.malloc(N, "f4"), await t.event_create()
            for step in range(3):
                if events:
                    await t.event_synchronize(copied)
                a[:] = step
                await t.memcpy_async(there, a, stream=stream)
                await t.event_record(copied, stream)
                await launch(t, double, there, stream=stream)
            await t.device_synchronize()

        return main

    assert found(body(True)) == []
    assert found(body(False)) == HOST


def test_memory_in_the_order_of_streams() -> None:
    def body(waits: bool) -> Body:
        async def main(t: cuda.HostThread) -> None:
            one, other, used = await t.stream_create(), await t.stream_create(), await t.event_create()
            there = await t.malloc_async(N, "f4", stream=one)
            await launch(t, fill, there, stream=one)
            await t.event_record(used, one)
            await t.stream_wait_event(other, used)
            await launch(t, double, there, stream=other)
            await t.event_record(used, other)
            if waits:
                await t.stream_wait_event(one, used)
            await t.free_async(there, stream=one)
            await t.device_synchronize()

        return main

    assert found(body(True)) == []
    assert found(body(False)) == DEVICE


def test_memory_exists_in_the_order_of_the_stream_that_allocates_it() -> None:
    def body(wait: str) -> Body:
        async def main(t: cuda.HostThread) -> None:
            one, other = [await t.stream_create(non_blocking=True) for _ in range(2)]
            there, made = await t.malloc_async(N, "f4", stream=one), await t.event_create()
            await t.event_record(made, one)
            if wait == "event":
                await t.stream_wait_event(other, made)
            if wait == "host":
                await t.stream_synchronize(one)
            await launch(t, fill, there, stream=other)
            await t.device_synchronize()
            await t.free_async(there, stream=one)

        return main

    assert found(body("event")) == found(body("host")) == []
    assert found(body("nothing")) == DEVICE


@pytest.mark.parametrize(("machine", "call"), [("alex-a100", "cudaMemcpyAsync"), ("mi300a-hip", "hipMemcpyAsync")])
def test_reports_name_the_calls_of_the_machines_library(machine: str, call: str) -> None:
    async def body(t: cuda.HostThread) -> None:
        a, there, stream = await t.host_alloc("a", N, fill=1.0), await t.malloc(N, "f4"), await t.stream_create()
        await t.memcpy_async(there, a, stream=stream)
        a[0] = 2.0
        await t.device_synchronize()

    (report,) = reports_of(body, machine=machine)
    assert f"copies a to the device in {call} at" in report


def test_memory_that_nothing_has_written() -> None:
    def body(writes: bool) -> Body:
        async def main(t: cuda.HostThread) -> None:
            a, there = t.array("a", N, "f4"), await t.malloc(N, "f4")
            if writes:
                await t.memset_async(there, 0)
            await launch(t, double, there)
            await t.memcpy(a, there)
            a[5].item()

        return main

    assert found(body(True)) == []
    assert found(body(False)) == [("uninitialised data", "device memory")]


def test_a_function_of_the_host_is_a_part_of_its_stream() -> None:
    def body(waits: bool) -> Body:
        async def main(t: cuda.HostThread) -> None:
            a, stream = await t.host_alloc("a", N, fill=1.0), await t.stream_create()
            there = await t.malloc(N, "f4")
            for _ in range(2):
                await t.memcpy_async(there, a, stream=stream)
                await launch(t, double, there, stream=stream)
                await t.memcpy_async(a, there, stream=stream)
                await t.launch_host_func(lambda: a.data.__setitem__(0, a[0] + 1.0), stream=stream)
                if waits:
                    await t.stream_synchronize(stream)
                    a[0] = a[0] * 2.0
            await t.device_synchronize()
            assert a[0].item() in (7.0, 26.0)
            a[1] = a[0]

        return main

    assert found(body(True)) == found(body(False)) == []


def test_a_graph_is_a_part_of_its_stream() -> None:
    async def body(t: cuda.HostThread) -> None:
        a, stream = await t.host_alloc("a", N, fill=1.0), await t.stream_create()
        there = await t.malloc(N, "f4")
        await t.stream_begin_capture(stream)
        await t.memcpy_async(there, a, stream=stream)
        await launch(t, double, there, stream=stream)
        await launch(t, halve, there, stream=stream)
        await t.memcpy_async(a, there, stream=stream)
        graph = await t.graph_instantiate(await t.stream_end_capture(stream))
        for _ in range(2):
            await t.graph_launch(graph, stream=stream)
        await t.stream_synchronize(stream)
        assert a[0] == 1.0
        await launch(t, double, there)
        await t.memcpy(a, there)
        assert a[0] == 2.0

    assert found(body) == []


def test_it_is_told_who_uses_what() -> None:
    run = Run(machine="alex-a100")
    run.options = cuda.CUDAOptions()
    reports = reports_mistakes(run)

    async def body(t: cuda.HostThread) -> None:
        a, there = await t.host_alloc("a", N, fill=1.0), await t.malloc(N, "f4")
        await launch(t, fill, there, stream=await t.stream_create(non_blocking=True))
        await t.memcpy(a, there)
        await t.device_synchronize()

    async def main() -> None:
        await run.parallel(body)
        await run.finish()

    run.sim.run(main)
    (text,) = reports()
    assert "stream 1 of device 0 writes device memory in kernel 'fill' of a launch at test_cuda.py:" in text
    assert "default stream of device 0 copies a from the device in cudaMemcpy at test_cuda.py:" in text
    assert "Nothing orders the two queues" in text
