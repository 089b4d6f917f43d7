"""Prefetch modes on one scripted sequence of operations, allocations and waits."""

from __future__ import annotations

import pytest

from offloadrt.models.stdpar.implementations import (
    Allocation,
    AllocationMap,
    AlwaysReading,
    PrefetchMode,
    prefetches,
    take_prefetches,
)

SCRIPT = ("ab", "ab", "c", "wait", "ac", "b", "free a", "a", "wait", "b", "a")
"""Letters: an operation whose kernel has pointers into these allocations."""


def run(mode: PrefetchMode, always: AlwaysReading = AlwaysReading.ONCE_PER_BATCH) -> list[str]:
    """What each operation prefetches."""
    map_ = AllocationMap()
    place = {"a": 0, "b": 1000, "c": 2000}
    for address in place.values():
        map_.add(address, 100)
    batch = outstanding = 0
    done = []
    for step in SCRIPT:
        if step == "wait":
            batch, outstanding = batch + 1, 0
        elif step.startswith("free"):
            map_.remove(place[step[-1]])
            map_.add(place[step[-1]], 100)
        else:
            used = [map_.find(place[name] + 50) for name in step]
            found = take_prefetches(mode, [one for one in used if one is not None], batch, outstanding, always)
            done.append("".join(name for one in found for name in place if place[name] == one.root))
            outstanding += 1
    return done


def test_never() -> None:
    assert run(PrefetchMode.NEVER) == [""] * 8


def test_first_is_once_in_the_life_of_an_allocation() -> None:
    assert run(PrefetchMode.FIRST) == ["ab", "", "c", "", "", "a", "", ""]


def test_always_is_once_in_a_batch_as_the_code_reads() -> None:
    assert run(PrefetchMode.ALWAYS) == ["ab", "", "c", "ac", "b", "a", "b", "a"]


def test_always_is_before_every_operation_as_the_paper_reads() -> None:
    assert run(PrefetchMode.ALWAYS, AlwaysReading.EVERY) == ["ab", "ab", "c", "ac", "b", "a", "b", "a"]


def test_after_sync_is_for_the_first_operation_after_a_wait_only() -> None:
    assert run(PrefetchMode.AFTER_SYNC) == ["ab", "", "", "ac", "", "", "b", ""]


def test_what_another_thread_has_prefetched_in_this_batch_is_not_prefetched_after_a_wait() -> None:
    allocation = Allocation(0, 100, most_recent_batch=3)
    assert not prefetches(PrefetchMode.AFTER_SYNC, allocation, batch=3, outstanding=0)
    assert prefetches(PrefetchMode.AFTER_SYNC, allocation, batch=4, outstanding=0)


@pytest.mark.parametrize("mode", PrefetchMode)
def test_two_pointers_into_one_allocation_are_one_prefetch(mode: PrefetchMode) -> None:
    one = Allocation(0, 100)
    found = take_prefetches(mode, [one, one], 0, 0, AlwaysReading.EVERY)
    assert found == ([] if mode is PrefetchMode.NEVER else [one])


@pytest.mark.parametrize("always", AlwaysReading)
@pytest.mark.parametrize("mode", PrefetchMode)
def test_asking_changes_nothing(mode: PrefetchMode, always: AlwaysReading) -> None:
    one = Allocation(0, 100)
    assert prefetches(mode, one, 3, 0, always) == prefetches(mode, one, 3, 0, always)
    assert one.most_recent_batch == -1


def test_the_modes_have_the_names_of_the_environment_variable() -> None:
    assert [mode.value for mode in PrefetchMode] == ["never", "first", "always", "after-sync"]
