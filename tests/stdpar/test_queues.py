"""In-order queues of threads: order, overlap, waits, and the prefetches that go into them."""

from __future__ import annotations

import itertools
from typing import Any

import attrs
import numpy as np
import pytest
from stdpar_rig import alone, made, play, ramp, scale, triad

from offloadrt import stdpar as std
from offloadrt.kernels import Kernel
from offloadrt.trace import events

N = 1 << 16
FIRST, ALWAYS, AFTER_SYNC, NEVER = (
    std.PrefetchMode.FIRST, std.PrefetchMode.ALWAYS, std.PrefetchMode.AFTER_SYNC, std.PrefetchMode.NEVER
)  # fmt: skip


def spans(run: Any) -> list[tuple[str, int, int]]:
    """Name, begin and end of each kernel, in the order of their submission."""
    recorded = run.trace.events
    names = {one.kernel: one.name for one in recorded if isinstance(one, events.KernelSubmit)}
    begins = {one.kernel: one.time_ps for one in recorded if isinstance(one, events.KernelStart)}
    ends = {one.kernel: one.time_ps for one in recorded if isinstance(one, events.KernelEnd)}
    return [(name, begins[number], ends[number]) for number, name in names.items()]


def test_operations_of_one_thread_run_in_order() -> None:
    async def body(t: std.HostThread) -> Any:
        a, b = await t.new_array("a", N), await t.new_array("b", N)
        await t.fill(std.par_unseq, a, 1.0)
        for _ in range(4):
            await t.for_each_n(std.par_unseq, N, scale, a, 3.0)
            await t.copy(std.par_unseq, a, b)
        return (await t.read(b)).sum()

    run, total = alone(body, record=True)
    assert total == 81.0 * N
    found = spans(run)
    assert len(found) == 9
    assert all(end <= begin for (_, _, end), (_, begin, _) in itertools.pairwise(found))


SMALL = Kernel("one SM", None, flops_per_iteration=1e6)


def test_threads_have_queues_of_their_own_that_overlap() -> None:
    async def body(t: std.HostThread) -> None:
        a = await t.new_array("a", 128, phantom=True)
        await t.for_each(std.par_unseq, SMALL, a)

    run = made(record=True)
    play(run, body, threads=4)
    kernels = [span for span in spans(run) if span[0] == SMALL.name]
    alone_ps = max(end - begin for _, begin, end in kernels)
    assert max(end for *_, end in kernels) - min(begin for _, begin, _ in kernels) < 2 * alone_ps


def test_the_streams_go_back_at_the_threads_ends() -> None:
    async def body(t: std.HostThread) -> None:
        a = await t.new_array("a", N)
        await t.fill(std.par_unseq, a, 1.0)

    run = made()

    async def main() -> None:
        for _ in range(5):
            await run.parallel(body)

    run.sim.run(main)
    assert run.calls.table()["cuStreamCreate"].count == 1


def test_a_kernel_that_fails_fails_the_wait_and_says_why() -> None:
    @attrs.frozen
    class Broken(Exception):
        pass

    def body_of(_: Any) -> None:
        raise Broken

    broken = Kernel("broken", body_of, 1.0)

    async def body(t: std.HostThread) -> None:
        a = await t.new_array("a", N)
        await t.for_each(std.par_unseq, broken, a)
        await t.wait()

    with pytest.raises(Broken):
        alone(body)


# prefetches: C5 on one scripted sequence


async def scripted(t: std.HostThread) -> list[int]:
    """Prefetches so far behind each step: use, use again, wait and use, two in one batch, free and allocate again."""
    seen: list[int] = []
    counts = t.program.counts

    async def use(array: std.UsmArray) -> None:
        await t.fill(std.par_unseq, array, 1.0)
        seen.append(counts.prefetches)

    a, b = await t.new_array("a", N), await t.new_array("b", N)
    await use(a)  # batch 0, nothing outstanding
    await use(a)
    await use(b)
    await t.wait()
    await use(a)  # batch 1
    await use(b)
    await use(a)
    await t.delete(a)  # waits: batch 2
    a = await t.new_array("a", N)
    await use(a)
    await use(b)
    return seen


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (NEVER, [0, 0, 0, 0, 0, 0, 0, 0]),
        (FIRST, [1, 1, 2, 2, 2, 2, 3, 3]),
        (ALWAYS, [1, 1, 2, 3, 4, 4, 5, 6]),
        (AFTER_SYNC, [1, 1, 1, 2, 2, 2, 3, 3]),
    ],
)
def test_prefetches_of_each_mode(mode: std.PrefetchMode, expected: list[int]) -> None:
    run, seen = alone(scripted, implementation=attrs.evolve(std.implementation("acpp"), prefetch=mode))
    assert seen == expected
    assert run.calls.count("cuMemPrefetchAsync") == expected[-1]
    assert run.stdpar.counts.prefetched_bytes == expected[-1] * N * 8


def test_the_papers_reading_of_always_is_before_every_kernel() -> None:
    every = attrs.evolve(std.implementation("acpp"), prefetch=ALWAYS, always=std.AlwaysReading.EVERY)
    assert alone(scripted, implementation=every)[1] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_prefetch_is_of_the_whole_allocation_of_an_interior_pointer() -> None:
    async def body(t: std.HostThread) -> None:
        a = await t.new_array("a", N)
        inner = attrs.evolve(a, name="inner", address=a.address + 8 * 100, shape=(8,), values=a.values[100:108])
        await t.fill(std.par_unseq, inner, 1.0)

    assert alone(body)[0].stdpar.counts.prefetched_bytes == N * 8


def test_a_machine_whose_software_crashes_at_prefetches() -> None:
    async def body(t: std.HostThread) -> None:
        await t.fill(std.par_unseq, await t.new_array("a", N), 1.0)

    with pytest.raises(std.PrefetchCrash, match=r"isambard-mi100 \(usm.prefetch = crashes\).*array 'a'"):
        alone(body, machine="isambard-mi100", overrides={"usm.prefetch": "crashes"})


def test_a_submission_of_sycl_takes_longer() -> None:
    async def body(t: std.HostThread) -> float:
        a = await t.new_array("a", 8)
        begin = t.sim.now
        await t.fill(std.par_unseq, a, 1.0)
        return t.sim.now - begin

    direct = attrs.evolve(std.implementation("acpp"), prefetch=NEVER)
    layered = attrs.evolve(direct, submit=std.implementation("sycl").submit)
    run, fast = alone(body, implementation=direct)
    slow = alone(body, implementation=layered)[1]
    assert slow - fast == pytest.approx(run.spec.value("sycl.submit") - run.spec.value("stdpar.submit"))


def test_a_team_of_threads_computes_what_one_does() -> None:
    async def body(t: std.HostThread) -> Any:
        a, b = await t.new_array("a", N), await t.new_array("b", N)
        await t.write(b, ramp(N, t.number))
        await t.transform(std.par_unseq, triad, a, b, b, 1.0)
        return np.array(await t.read(a))

    for number, values in enumerate(play(made(), body, threads=3)):
        assert np.array_equal(values, 2.0 * ramp(N, number))


@pytest.mark.parametrize(("machine", "overlaps"), [("isambard-mi100", False), ("isambard-a100", True)])
def test_kernels_of_two_threads_in_one_hardware_queue_follow_one_another_under_hip(
    machine: str, overlaps: bool
) -> None:
    """HIP sets the barrier bit of each kernel's packet, whichever model calls HIP."""

    async def body(t: std.HostThread) -> None:
        a = await t.new_array("a", 128, phantom=True)
        await t.for_each(std.par_unseq, SMALL, a)

    run = made(machine, record=True, overrides={"gpu.max_connections": 1})
    play(run, body, threads=2)
    first, second = sorted((begin, end) for name, begin, end in spans(run) if name == SMALL.name)
    assert (second[0] < first[1]) is overlaps
