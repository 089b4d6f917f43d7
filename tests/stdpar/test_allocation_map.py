"""The allocation map: every byte of an allocation leads to it, and no other byte does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offloadrt.models.stdpar.implementations import NEVER, AllocationMap


def test_an_interior_pointer_finds_root_and_size() -> None:
    map_ = AllocationMap()
    map_.add(0x1000, 100)
    for address in (0x1000, 0x1001, 0x1000 + 99):
        found = map_.find(address)
        assert found is not None and (found.root, found.size) == (0x1000, 100)


def test_bytes_before_and_behind_belong_to_nothing() -> None:
    map_ = AllocationMap()
    map_.add(0x1000, 100)
    assert map_.find(0x1000 - 1) is None and map_.find(0x1000 + 100) is None


def test_an_allocation_begins_without_a_batch_also_where_one_was_freed() -> None:
    map_ = AllocationMap()
    map_.add(0x1000, 100).most_recent_batch = 7
    map_.remove(0x1000)
    assert map_.add(0x1000, 100).most_recent_batch == NEVER == -1


def test_only_its_first_address_removes_an_allocation() -> None:
    map_ = AllocationMap()
    map_.add(0x1000, 100)
    assert map_.remove(0x1001) is None
    assert map_.remove(0x1000) is not None
    assert map_.remove(0x1000) is None and map_.find(0x1000) is None


@pytest.mark.parametrize("address", [0x1000, 0x0FFF, 0x1000 + 99])
def test_allocations_do_not_overlap(address: int) -> None:
    map_ = AllocationMap()
    map_.add(0x1000, 100)
    with pytest.raises(ValueError, match="lies over the 100 bytes at 0x1000"):
        map_.add(address, 2)


def test_an_allocation_over_several_smaller_ones_is_refused() -> None:
    map_ = AllocationMap()
    map_.add(10, 1)
    map_.add(20, 1)
    with pytest.raises(ValueError, match="lies over"):
        map_.add(5, 100)


def test_an_allocation_has_bytes() -> None:
    with pytest.raises(ValueError, match="0 bytes"):
        AllocationMap().add(1, 0)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 60), st.integers(1, 12)), max_size=40))
def test_the_map_says_what_an_array_of_bytes_says(steps: list[tuple[bool, int, int]]) -> None:
    map_ = AllocationMap()
    owner: list[int | None] = [None] * 80
    for add, address, size in steps:
        span = range(address, address + size)
        if not add:
            assert (map_.remove(address) is not None) == (address in owner and owner[address] == address)
            owner = [None if one == address else one for one in owner]
        elif all(owner[byte] is None for byte in span):
            map_.add(address, size)
            for byte in span:
                owner[byte] = address
        else:
            with pytest.raises(ValueError, match="lies over"):
                map_.add(address, size)
    found = [map_.find(byte) for byte in range(80)]
    assert [None if one is None else one.root for one in found] == owner
    assert [one.root for one in map_] == sorted({one for one in owner if one is not None})
