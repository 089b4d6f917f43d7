"""Algorithms 1 and 2: operations and bytes per batch are exactly those that the paper's listings imply."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from offloadrt.papers.exahype.program import Setup

CASES = [("euler2d", 17), ("euler3d", 5), ("ccz4", 5)]


@pytest.mark.parametrize(("equations", "patch"), CASES)
@pytest.mark.parametrize("n", [1, 3, 16])
def test_map_clauses_per_batch(equations: str, patch: int, n: int, update: Callable[..., Any]) -> None:
    """n + 2 allocations and frees, n + 1 copies in, n copies out, one kernel; closed-form bytes."""
    setup = Setup(equations=equations, patch=patch, batch=n, patches=n, threads=1)
    ran = update(setup, allocator="direct")
    geometry = setup.geometry
    assert ran.count("Allocate") == ran.count("Free") == n + 2
    assert ran.count("MapInsert") == ran.count("MapRemove") == n + 2
    assert ran.copies("h2d") == [geometry.input_bytes] * n + [8 * n]
    assert ran.copies("d2h") == [geometry.output_bytes] * n
    assert ran.count("KernelEnd") == 1
    calls = ran.run.calls.table()
    assert calls["cuMemAlloc"].count == calls["cuMemFree"].count == n + 2
    assert calls["cuLaunchKernel"].count == 1


def test_map_clauses_over_many_batches_and_threads(update: Callable[..., Any]) -> None:
    """The last batch of each thread is smaller; every count follows from the batches."""
    setup = Setup(batch=4, patches=10, threads=3)
    ran = update(setup, allocator="direct")
    batches = [4, 4, 2] * 3
    assert ran.updates[0].batches == len(batches) and ran.updates[0].patches == 30
    assert ran.count("Allocate") == ran.count("Free") == sum(n + 2 for n in batches)
    assert len(ran.copies("h2d")) == sum(n + 1 for n in batches)
    assert sum(ran.copies("h2d")) == 30 * (11_552 + 8)
    assert ran.copies("d2h") == [9_248] * 30
    assert ran.count("KernelEnd") == len(batches)


@pytest.mark.parametrize(("equations", "patch"), CASES)
def test_pool_with_gathered_batches(equations: str, patch: int, update: Callable[..., Any]) -> None:
    """Per batch one copy in, one kernel, one copy out; blocks are acquired once and never given back."""
    setup = Setup(equations=equations, patch=patch, batch=4, patches=12, threads=1, memory="pool")
    ran = update(setup)
    geometry = setup.geometry
    assert ran.copies("h2d") == [4 * geometry.input_bytes] * 3
    assert ran.copies("d2h") == [4 * geometry.output_bytes] * 3
    assert ran.count("KernelEnd") == 3
    assert ran.count("MapInsert") == ran.count("Free") == 0
    sizes = [event.size for event in ran.run.trace.events if type(event).__name__ == "Allocate"]
    assert sizes == [4 * (geometry.input_bytes + geometry.output_bytes), 4 * geometry.temporary_bytes]
    assert (ran.updates[0].blocks, ran.updates[0].hits) == (2, 4)


def test_pool_with_a_copy_per_patch(update: Callable[..., Any]) -> None:
    ran = update(Setup(batch=4, patches=10, threads=1, memory="pool", gather="patch"))
    assert ran.copies("h2d") == [11_552] * 10
    assert ran.copies("d2h") == [9_248] * 10
    assert ran.count("KernelEnd") == 3


def test_a_second_pass_finds_all_its_blocks_in_the_pool(update: Callable[..., Any]) -> None:
    """Blocks are as many as were in use at once: two per thread and size; afterwards nothing is allocated.

    Threads poll, as under ExaHyPE's runtime: later wakings would have more of them at work at once in the second pass.
    """
    polling = {"runtime.schedule": "auto"}
    ran = update(Setup(batch=4, patches=8, threads=4, memory="pool"), steps=2, overrides=polling)
    first, second = ran.updates
    assert 2 <= first.blocks <= 2 * 4
    assert second.blocks == first.blocks
    assert ran.count("Allocate") == first.blocks and ran.count("Free") == 0


def test_after_a_warm_up_nothing_is_allocated(update: Callable[..., Any]) -> None:
    setup = Setup(batch=8, patches=8, threads=8, memory="pool")
    cold, warm = update(setup), update(setup, warm_up=True)
    begin = warm.run.sim.now - warm.run.elapsed
    allocations = [event for event in warm.run.trace.events if type(event).__name__ == "Allocate"]
    assert allocations and all(event.time_ps * 1e-12 < begin for event in allocations)
    assert warm.run.elapsed < cold.run.elapsed


def test_gathering_costs_host_time_and_saves_copies(update: Callable[..., Any]) -> None:
    """One thread alone: both ways move the same bytes."""
    gathered, single = (
        update(Setup(batch=16, patches=32, threads=1, memory="pool", gather=way)) for way in ("batch", "patch")
    )
    assert sum(gathered.copies("h2d")) == sum(single.copies("h2d"))
    assert sum(gathered.copies("d2h")) == sum(single.copies("d2h"))


@pytest.mark.parametrize("memory", ["map", "pool"])
def test_enclave_tasks_fill_batches_across_threads(memory: str, update: Callable[..., Any]) -> None:
    """Pooled tasks leave one batch that is not full, where a burst leaves one per thread."""
    pooled = update(Setup(batch=4, patches=5, threads=3, memory=memory, arrival="enclave"))
    burst = update(Setup(batch=4, patches=5, threads=3, memory=memory))
    assert pooled.updates[0].patches == burst.updates[0].patches == 15
    assert pooled.updates[0].batches == 4
    assert burst.updates[0].batches == 6
    assert pooled.run.trace is not None
    kernels = Counter(event.teams for event in pooled.run.trace.events if type(event).__name__ == "KernelStart")
    assert kernels == {4: 3, 3: 1}


def test_threads_take_the_devices_in_turn(update: Callable[..., Any]) -> None:
    ran = update(Setup(batch=4, patches=4, threads=4, devices=2))
    kernels = Counter(event.device for event in ran.run.trace.events if type(event).__name__ == "KernelEnd")
    assert kernels == {0: 2, 1: 2}


@pytest.mark.parametrize("memory", ["map", "pool"])
def test_one_thread_waits_for_no_lock(memory: str, update: Callable[..., Any]) -> None:
    ran = update(Setup(batch=4, patches=10, threads=1, memory=memory))
    assert {name: lock.contended for name, lock in ran.run.locks.items() if lock.contended} == {}


def test_nothing_stays_mapped(update: Callable[..., Any]) -> None:
    ran = update(Setup(batch=4, patches=8, threads=4), allocator="direct")
    assert len(ran.run.openmp.device(0).table) == 0
    held = {event.address for event in ran.run.trace.events if type(event).__name__ == "Allocate"}
    freed = {event.address for event in ran.run.trace.events if type(event).__name__ == "Free"}
    assert held == freed
    assert ran.count("Allocate") == ran.count("Free")
