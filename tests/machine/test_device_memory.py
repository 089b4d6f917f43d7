"""Device memory: the modelled allocator and the bytes behind it."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offloadrt.machine import DeviceArray, DeviceMemory, InvalidDeviceAddress, OutOfSegments

MIB = 1 << 20


def memory(capacity=64 * MIB, fill=None):
    return DeviceMemory(0, capacity, 2 * MIB, 512, fill)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 5 * MIB), st.integers(0, 99)), max_size=60))
def test_blocks_never_overlap_and_segments_are_conserved(steps):
    device = memory()
    live = {}
    for free, size, which in steps:
        if free and live:
            address = sorted(live)[which % len(live)]
            device.free(address)
            del live[address]
        else:
            try:
                block, _ = device.allocate(size)
            except OutOfSegments:
                continue
            live[block.address] = block
        ordered = [live[address] for address in sorted(live)]
        assert all(low.address + low.extent <= high.address for low, high in pairwise(ordered))
        assert all(block.address % 512 == 0 for block in ordered)
        assert device.allocated_bytes == sum(block.size for block in ordered)
        assert device.allocated_bytes <= device.used <= device.capacity and device.used % (2 * MIB) == 0
    large = sum(block.extent for block in live.values() if block.is_large)
    for address in live:
        device.free(address)
    assert device.used <= device.peak - large
    block, _ = device.allocate(device.capacity)  # all memory can be had again in one piece
    assert block.address == device.base


def test_small_blocks_share_a_segment_that_stays_held():
    device = memory()
    first, new = device.allocate(1000)
    second, none = device.allocate(1000)
    assert (new, none) == (1, 0)
    assert device.free(first.address)[1] == device.free(second.address)[1] == 0
    assert device.used == 2 * MIB
    assert device.allocate(MIB)[1] == 0


def test_an_empty_shared_segment_can_go_back_at_once():
    device = DeviceMemory(0, 64 * MIB, 2 * MIB, 512, returns_empty=True)
    first, second = device.allocate(1000)[0], device.allocate(1000)[0]
    assert [device.free(block.address)[1] for block in (first, second)] == [0, 1]
    assert device.used == 0
    assert device.allocate(1000)[1] == 1


def test_large_blocks_have_segments_of_their_own():
    device = memory()
    block, new = device.allocate(5 * MIB)
    assert (new, block.extent, device.used) == (3, 6 * MIB, 6 * MIB)
    assert device.free(block.address) == (block, 3)
    assert device.used == 0


def test_a_freed_block_is_used_again_best_fit_first():
    device = memory()
    blocks = [device.allocate(size)[0] for size in (4096, 512, 1024, 512, 4096)]
    device.free(blocks[0].address)
    device.free(blocks[2].address)
    assert device.allocate(1000)[0].address == blocks[2].address
    assert device.allocate(1000)[0].address == blocks[0].address


def test_memory_runs_out_in_whole_segments():
    device = memory(capacity=5 * MIB)
    assert device.capacity == 4 * MIB
    device.allocate(3 * MIB)
    with pytest.raises(OutOfSegments):
        device.allocate(1)


def test_new_memory_holds_what_was_there_before():
    device = memory()
    first, _ = device.allocate(1 << 12)
    device.view(first.address, 1 << 12)[:] = 7
    device.free(first.address)
    again, _ = device.allocate(1 << 11)
    assert again.address == first.address
    assert (device.view(again.address, 1 << 11) == 7).all()


def test_contents_survive_in_blocks_of_other_sizes():
    device = memory()
    pair = [device.allocate(2 * MIB)[0] for _ in range(2)]
    for value, block in enumerate(pair, start=1):
        device.view(block.address, 2 * MIB)[:] = value
        device.free(block.address)
    both, _ = device.allocate(4 * MIB)
    bytes_of_both = device.view(both.address, 4 * MIB)
    assert (bytes_of_both[: 2 * MIB] == 1).all() and (bytes_of_both[2 * MIB :] == 2).all()
    device.free(both.address)
    upper = [device.allocate(2 * MIB)[0] for _ in range(2)][1]
    assert (device.view(upper.address, 2 * MIB) == 2).all()


def test_untouched_memory_holds_the_fill():
    device = memory(fill=205)
    block, _ = device.allocate(100)
    assert (device.view(block.address, 100) == 205).all()


def test_views_reach_into_a_block_and_not_beyond():
    device = memory()
    block, _ = device.allocate(80)
    device.array(DeviceArray(block.address, (2, 5), np.dtype(float)))[:] = np.arange(10.0).reshape(2, 5)
    assert device.array(DeviceArray(block.address + 16, (2,), np.dtype(float))).tolist() == [2.0, 3.0]
    with pytest.raises(InvalidDeviceAddress, match="beyond"):
        device.view(block.address + 8, 80)
    with pytest.raises(InvalidDeviceAddress, match="no allocated block"):
        device.view(block.address - 1, 1)
    with pytest.raises(InvalidDeviceAddress, match="no block begins"):
        device.free(block.address + 8)


def test_a_phantom_has_a_size_but_no_bytes():
    device = memory()
    block, _ = device.allocate(60 * MIB, phantom=True)
    assert device.is_phantom(block.address + MIB)
    with pytest.raises(InvalidDeviceAddress, match="phantom"):
        device.view(block.address, 1)


def test_an_address_tells_its_device():
    other = DeviceMemory(1, 64 * MIB, 2 * MIB, 512)
    assert other.allocate(1)[0].address - memory().allocate(1)[0].address == 1 << 40
