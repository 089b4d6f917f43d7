"""The memory pool: its limits, and what every sub-allocator owes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offloadrt.models.stdpar.heap import GB, PAGE, MemoryPool, pool_size

MIB = 1 << 20


def test_the_pool_is_two_fifths_of_the_smaller_limit() -> None:
    assert pool_size(10_000, 20_000) == pool_size(20_000, 10_000) == 4_000


def test_system_usm_needs_no_pool() -> None:
    assert pool_size(10_000, 20_000, system_usm=True) == 0


def test_the_requested_size_goes_before_everything() -> None:
    assert pool_size(10_000, 20_000, requested_gb=1.5) == 3 * GB // 2
    assert pool_size(10_000, 20_000, system_usm=True, requested_gb=2) == 2 * GB
    assert pool_size(10_000, 20_000, requested_gb=0) == 0
    with pytest.raises(ValueError, match=r"-1 GB"):
        pool_size(10_000, 20_000, requested_gb=-1)


def test_a_pool_of_nothing_serves_nothing() -> None:
    assert MemoryPool(0).claim(1) is None
    with pytest.raises(ValueError, match="-1 bytes"):
        MemoryPool(-1)


def test_half_of_the_pool_and_more_is_left_to_the_driver() -> None:
    pool = MemoryPool(16 * MIB)
    assert pool.claim(8 * MIB) is None
    assert pool.claim(8 * MIB - 1) is not None


def test_an_aligned_request_is_left_to_the_driver() -> None:
    assert MemoryPool(16 * MIB).claim(64, alignment=64) is None


@pytest.mark.parametrize("nbytes", [0, 1, PAGE - 1, PAGE])
def test_the_least_block_is_a_page(nbytes: int) -> None:
    pool = MemoryPool(16 * MIB)
    assert pool.claim(nbytes) is not None
    assert pool.in_use == PAGE


def test_blocks_are_powers_of_two_of_which_the_last_freed_is_used_again() -> None:
    pool = MemoryPool(16 * MIB)
    first = pool.claim(3 * PAGE)
    assert first is not None and pool.in_use == 4 * PAGE
    pool.release(first)
    assert pool.claim(4 * PAGE) == first


def test_a_full_pool_leaves_the_rest_to_the_driver_until_something_is_freed() -> None:
    pool = MemoryPool(4 * PAGE)
    blocks = [pool.claim(1) for _ in range(4)]
    assert sorted(block for block in blocks if block is not None) == [0, PAGE, 2 * PAGE, 3 * PAGE]
    assert pool.claim(1) is None
    assert blocks[2] is not None
    pool.release(blocks[2])
    assert pool.claim(1) == blocks[2]


def test_freeing_what_is_not_in_use_is_an_error() -> None:
    pool = MemoryPool(16 * MIB)
    block = pool.claim(2 * PAGE)
    assert block is not None
    with pytest.raises(ValueError, match=f"offset {block + PAGE}"):
        pool.release(block + PAGE)
    pool.release(block)
    with pytest.raises(ValueError, match="in use"):
        pool.release(block)


def test_what_is_all_freed_is_one_block_again() -> None:
    pool = MemoryPool(16 * PAGE)
    blocks = [block for block in (pool.claim(PAGE) for _ in range(16)) if block is not None]
    for block in blocks[::2] + blocks[1::2]:
        pool.release(block)
    assert pool.claim(8 * PAGE - 1) is not None and pool.claim(8 * PAGE - 1) is not None


@given(
    st.integers(2, 200),
    st.integers(0, PAGE - 1),
    st.lists(st.one_of(st.integers(0, 60 * PAGE), st.integers(-20, -1)), max_size=60),
)
def test_blocks_are_within_the_pool_and_apart_and_nothing_is_lost(pages: int, rest: int, steps: list[int]) -> None:
    size = pages * PAGE + rest
    pool = MemoryPool(size)
    held: dict[int, int] = {}
    for step in steps:
        if step >= 0:
            offset = pool.claim(step)
            assert offset is None or step * 2 < size
            if offset is not None:
                assert offset % PAGE == 0 and offset >= 0 and offset + max(step, PAGE) <= size
                held[offset] = step
        elif held:
            offset = list(held)[step % len(held)]
            assert pool.release(offset) >= held.pop(offset)
        spans = sorted((offset, offset + nbytes) for offset, nbytes in held.items())
        assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))
        assert len(pool) == len(held) and pool.in_use >= sum(held.values())
    for offset in list(held):
        pool.release(offset)
    largest = max(block for block in (PAGE << power for power in range(9)) if block <= size)
    if largest * 2 < size:
        assert pool.claim(largest) == 0
    assert MemoryPool(size).claim(PAGE) is not None or size <= 2 * PAGE
