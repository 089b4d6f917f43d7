"""What cannot be an argument of a call: one error, which names the call, the argument, the thread and when."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
from cuda_rig import run_of
from test_cuda_programs import halve

from offloadrt.driver import DriverError

WRONG: list[tuple[Callable[[Any], Awaitable[object]], str]] = [
    (lambda t: t.event_record(None), "event_record: event cannot be None"),
    (lambda t: t.event_query("e"), "event_query: event cannot be 'e'"),
    (lambda t: t.event_destroy(7), "event_destroy: event cannot be 7"),
    (lambda t: t.stream_wait_event(None, event=3), "stream_wait_event: event cannot be 3"),
    (lambda t: t.stream_synchronize(5), "stream_synchronize: stream cannot be 5"),
    (lambda t: t.graph_instantiate(None), "graph_instantiate: graph cannot be None"),
    (lambda t: t.graph_launch(None), "graph_launch: executable cannot be None"),
    (lambda t: t.free(np.zeros(2)), r"free: array cannot be array\(\[0., 0.\]\)"),
    (lambda t: t.free_async(12), "free_async: array cannot be 12"),
    (lambda t: t.free_host(None), "free_host: memory cannot be None"),
    (lambda t: t.memset_async("a", 0), "memset_async: array cannot be 'a'"),
    (lambda t: t.memset_async(None, 0), "memset_async: array cannot be None; it takes .*DeviceArray"),
    (lambda t: t.malloc_host(2.5), "malloc_host: nbytes cannot be 2.5; it takes int"),
    (lambda t: t.malloc_host(10**30), "malloc_host: nbytes cannot be 1000000000000000000000000000000"),
    (lambda t: t.malloc_managed(None, 8), "malloc_managed: name cannot be None; it takes str"),
    (lambda t: t.malloc_managed("a", 8, written="no"), "malloc_managed: written cannot be 'no'; it takes bool"),
    (lambda t: t.stream_synchronize([]), r"stream_synchronize: stream cannot be \[\]; it takes .*Stream | Literal"),
    (lambda t: t.stream_create(priority=float("nan")), "stream_create: priority cannot be nan"),
    (lambda t: t.launch_host_func(None, seconds=float("inf")), "launch_host_func: seconds cannot be inf"),
    (
        lambda t: t.launch(halve, 1, grid=1, block=32, iterations=np.float32(2)),
        "launch: iterations cannot be np.float32",
    ),
    (lambda t: t.launch(halve, 1, grid=1, block=32, by_value="x"), "launch: by_value cannot be 'x'"),
    (lambda t: t.mem_pool_set_attribute(None, release_threshold=1), "mem_pool_set_attribute: pool cannot be None"),
    (lambda t: t.graph_add_host_node(None, None, after=[0.5]), "graph_add_host_node: graph cannot be None"),
    (lambda t: t.mem_pool_trim_to(None, 0), "mem_pool_trim_to: pool cannot be None"),
    (lambda t: t.malloc_async(64, pool=3), "malloc_async: pool cannot be 3"),
    (lambda t: t.host_register(None), "host_register: array cannot be None"),
    (lambda t: t.free(t.malloc(8)), r"free: its argument HostThread.malloc\(...\) was not awaited"),
    (
        lambda t: t.launch(halve, t.malloc(8), grid=1, block=32),
        r"launch: its argument HostThread.malloc\(...\) was not awaited",
    ),
]


@pytest.mark.parametrize("registered", [True, False])
def test_pinned_memory_ends_as_it_began(registered: bool) -> None:
    async def body(t: Any) -> None:
        a = t.array("a", 4) if registered else await t.host_alloc("a", 4)
        if registered:
            await t.host_register(a)
        await (t.free_host(a) if registered else t.host_unregister(a))

    with pytest.raises(DriverError, match=r"that it allocates|nothing is pinned at"):
        run_of(body)


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_an_error_names_the_call_and_its_argument(wrong: Callable[[Any], Awaitable[object]], message: str) -> None:
    async def body(t: Any) -> None:
        await wrong(t)

    with pytest.raises(TypeError, match=f"^{message}") as raised:
        run_of(body)
    assert raised.value.__notes__[0].startswith("raised in host thread 0 at t=")


def test_an_error_of_the_programs_own_is_left_alone() -> None:
    async def body(t: Any) -> None:
        await t.set_device(0)
        t.array("a", 4).nonsense()

    with pytest.raises(AttributeError, match="nonsense"):
        run_of(body)


def test_a_memset_takes_the_lowest_byte_of_its_value() -> None:
    async def body(t: Any) -> list[int]:
        device, host = await t.malloc(4), t.array("host", 4, np.uint8)
        await t.memset_async(device, 4000)
        await t.memcpy(host, device)
        return list(host.data)

    assert run_of(body)[1] == [4000 % 256] * 4
