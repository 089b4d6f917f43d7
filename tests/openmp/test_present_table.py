"""The present table against a plain list of intervals, and the reference counts of an entry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openmp_rig import MakeRig

from offloadrt import openmp as omp
from offloadrt.runtime.mapping.present_table import INFINITE, NOWHERE, Entry, PresentTable, ShadowPointer
from offloadrt.sim import Lock, Simulation

SIM = Simulation()
LOCK = Lock(SIM, "entry")


def entry(begin: int, end: int, base: int | None = None, dynamic: int = 1, hold: int = 0) -> Entry:
    return Entry("a", begin if base is None else base, begin, end, 1000 + begin, dynamic, hold, LOCK)


INTERVALS = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 8)), max_size=8)


@given(intervals=INTERVALS, begin=st.integers(0, 70), size=st.integers(0, 12))
def test_lookup_finds_what_overlaps(intervals: list[tuple[int, int]], begin: int, size: int) -> None:
    table = PresentTable()
    kept: list[tuple[int, int]] = []
    for low, length in intervals:
        if all(low + length <= other or end <= low for other, end in kept):
            kept.append((low, low + length))
            table.insert(entry(low, low + length))
    found = table.lookup(begin, size)
    end = begin + size
    if size == 0:
        assert found.contained == any(low <= begin < high for low, high in kept)
    else:
        assert found.contained == any(low <= begin and end <= high for low, high in kept)
        assert found.overlaps == any(low < end and begin < high for low, high in kept)
    assert len(found.visited) <= 2
    assert [one.host_begin for one in table] == sorted(low for low, _ in kept)


def test_a_lookup_visits_the_neighbours() -> None:
    table = PresentTable()
    before, after = entry(0, 8), entry(64, 72)
    table.insert(before)
    table.insert(after)
    assert table.lookup(32, 8).visited == (before, after), "neither overlaps, but both are locked in turn"
    assert table.lookup(4, 4).visited == (before,)
    assert table.lookup(80, 4).visited == (after,)


def test_a_pointer_is_found_by_the_extended_base_range() -> None:
    table = PresentTable()
    table.insert(entry(32, 64, base=0))
    assert table.lookup(0, 0).contained
    assert not table.lookup(0, 8).overlaps


@pytest.mark.parametrize(("entries", "levels"), [(0, 0), (1, 0), (31, 0), (32, 1), (63, 1), (64, 2), (1000, 5)])
def test_a_search_takes_longer_by_a_level_for_each_doubling(entries: int, levels: int) -> None:
    table = PresentTable(100.0, 3.0)
    for number in range(entries):
        table.insert(entry(8 * number, 8 * number + 8))
    assert table.search_s == 100.0 + 3.0 * levels
    for kept in list(table):
        table.erase(kept)
    assert table.search_s == 100.0


def test_a_program_pays_for_the_levels_of_its_table(rig: MakeRig) -> None:
    def took(entries: int) -> float:
        async def body(t: omp.HostThread) -> float:
            arrays = [t.array(f"a{number}", 8) for number in range(entries)]
            await t.target_enter_data(omp.map(alloc=arrays))
            begin = t.sim.now
            await t.target_enter_data(omp.map(alloc=arrays[:3]))
            return t.sim.now - begin

        return float(rig({"table.level": "1 us"}).alone(body))

    assert took(128) - took(3) == pytest.approx(3 * 3e-6), "three searches; 128 entries are three levels more than 31"


def test_begins_are_unique_and_only_what_is_there_is_erased() -> None:
    table = PresentTable()
    first = entry(0, 8)
    table.insert(first)
    with pytest.raises(KeyError, match="begins at 0x0 already"):
        table.insert(entry(0, 4))
    with pytest.raises(KeyError, match="has no entry"):
        table.erase(entry(0, 8))
    table.erase(first)
    assert len(table) == 0
    assert table.at(0) is None


class TestCounts:
    def test_dynamic_and_hold_are_apart(self) -> None:
        one = entry(0, 8, dynamic=1, hold=1)
        assert not one.would_be_last(hold=False, after_reset=False)
        one.decrement(hold=False)
        one.decrement(hold=False)
        assert (one.dynamic, one.hold, one.total) == (0, 1, 1), "never below zero"
        assert one.would_be_last(hold=True, after_reset=False)

    def test_delete_resets_to_one_first(self) -> None:
        one = entry(0, 8, dynamic=5)
        assert one.would_be_last(hold=False, after_reset=True)
        one.reset(hold=False)
        one.decrement(hold=False)
        assert one.total == 0

    def test_infinite_stays(self) -> None:
        one = entry(0, 8, dynamic=INFINITE)
        for change in (one.increment, one.decrement, one.reset):
            change(False)
        assert one.dynamic == one.total == INFINITE
        assert not one.would_be_last(hold=False, after_reset=True)

    def test_attaching_the_same_value_again_is_nothing_new(self) -> None:
        one = entry(0, 8)
        assert one.attach(ShadowPointer(0, 1000, 7, 2000, NOWHERE))
        assert not one.attach(ShadowPointer(0, 1000, 7, 2000, NOWHERE))
        assert one.attach(ShadowPointer(0, 1000, 7, 3000, NOWHERE))
