"""What the stdpar applications have in common: memory that is the host's, loops on one core, what is counted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest

from offloadrt import stdpar as std
from offloadrt.extensions.stdpar.elision import Marker
from offloadrt.kernels import Kernel
from offloadrt.papers.stdpar.programs import Application, BabelStream, CloverLeaf, Lulesh, MiniBude, Stopwatch, TeaLeaf
from offloadrt.papers.stdpar.programs.frame import host_array, loads, sequential_loop, stores
from offloadrt.study.running.run import Run

SCAN = Kernel("scan", None, flops_per_iteration=1.0, bytes_per_iteration=8.0)


def made(implementation: str | std.Implementation = "acpp") -> Run:
    run = Run(machine="isambard-a100")
    run.options = std.StdParOptions(implementation=implementation)
    return run


def play(run: Run, body: Callable[[std.HostThread], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        found = (await run.parallel(body))[0]
        await run.finish()
        return found

    return run.sim.run(main)


def test_a_loop_of_the_host_has_one_core_and_brings_pages_back() -> None:
    n = 1 << 22

    async def body(t: std.HostThread) -> tuple[float, float]:
        a = await t.new_array("a", n, phantom=True)
        await t.fill(std.par_unseq, a, 1.0)
        await t.read(a)
        begin = t.sim.now
        await sequential_loop(t, SCAN, a)
        alone = t.sim.now - begin
        await t.fill(std.par_unseq, a, 1.0)
        await t.external("wait here")
        begin = t.sim.now
        await sequential_loop(t, SCAN, a)
        return alone, t.sim.now - begin

    run = made()
    alone, after_kernel = play(run, body)
    assert alone == pytest.approx(8 * n / run.spec.value("cpu.stream_1t"))
    assert after_kernel > alone + 8 * n / run.spec.value("link.d2h_pinned")


@pytest.mark.parametrize(("implementation", "memory"), [("acpp", "shared"), ("native", "heap"), ("host", "heap")])
def test_an_array_of_the_host_is_shared_where_the_heap_is(implementation: str, memory: str) -> None:
    async def body(t: std.HostThread) -> tuple[str, int]:
        a, other = await host_array(t, "a", 4), await t.new_array("b", 1 << 20, phantom=True)
        await t.fill(std.par_unseq, other, 1.0)
        await loads(t, a)
        await stores(t, std.section(a, 1, 1), 5.0)
        return a.memory, t.program.counts.waits

    found, waits = play(made(implementation), body)
    assert found == memory
    assert waits == (1 if implementation == "acpp" else 0)


def test_a_stopwatch_that_timed_nothing_has_no_figures() -> None:
    run = made()
    with pytest.raises(ValueError, match="timed nothing"):
        Stopwatch(run).figures()


@pytest.mark.parametrize("implementation", ["acpp", "sycl", "native"])
@pytest.mark.parametrize(
    "program", [BabelStream(256, 1), MiniBude(64, 1), CloverLeaf(16, 1), TeaLeaf(16, 1), Lulesh(3, 1)]
)
def test_the_stopwatch_starts_when_the_application_is_set_up(program: Application, implementation: str) -> None:
    outstanding: list[object] = []

    async def body(t: std.HostThread) -> None:
        @asynccontextmanager
        async def timed() -> AsyncIterator[None]:
            assert t.executor.queue is not None
            outstanding.append(t.executor.queue.outstanding)
            yield

        await program.run(t, timed)

    play(made(implementation), body)
    assert outstanding == [0]


class Careless(std.Window):
    """A compiler pass with a bug: it delays barriers past the frees of what kernels still use."""

    def meets(self, operation: std.Operation) -> Any:
        return () if operation.marker is Marker.ALLOCATION else super().meets(operation)


def test_a_wrongly_elided_barrier_in_an_application_is_caught() -> None:
    run = made(attrs.evolve(std.implementation("acpp"), heuristic=False))
    run.stdpar.runtime.make_window = Careless

    async def body(t: std.HostThread) -> None:
        await Lulesh(4, steps=1).run(t, run.measure)

    with pytest.raises(std.UnfinishedRead, match=r"host writes array 'z8n', which 'HourglassForce' reads"):
        play(run, body)
