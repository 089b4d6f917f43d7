"""Faults arrive one after another: a batch is what the handler finds, and its flush drops what has come since."""

from __future__ import annotations

import statistics

import pytest
from managed_rig import BLOCK, SWEEP, sweep

from offloadrt.kernels import Kernel
from offloadrt.machine.managed.sweep import ManagedAccess

PAGE = 4096
SLOW = {
    "page.uvm_page": "4 KiB", "prefetch.tree": False, "fault.reports": 1, "utlb.outstanding_faults": 1000,
    "fault.arrival": "1 us", "fault.look": "4 us", "fault.interrupt": "10 us", "launch.latency": 0,
}  # fmt: skip
ONE = SWEEP.launch(1, 128, 1)


def batches_of(uvm, pages, launch=ONE, **overrides):
    """The batches of a kernel that misses so many pages at one time, and the rig."""
    rig = uvm(SLOW | {key.replace("__", "."): value for key, value in overrides.items()})
    address = rig.array(4 * BLOCK, touched=True)
    rig.run(lambda: rig.kernel(launch, ManagedAccess(address, pages * PAGE)))
    return rig.driver.fault_batches(), rig


def test_the_first_batch_is_what_came_until_the_handler_looks(uvm):
    first, *_ = batches_of(uvm, 100)[0]
    assert first.begin == pytest.approx(10e-6)
    assert first.faults == 10 + 1


def test_what_came_while_a_batch_without_duplicates_was_served_is_in_the_next_one(uvm):
    """The flush goes by the put pointer that was read when the batch was fetched."""
    (first, second, *_), _ = batches_of(uvm, 100)
    assert second.faults == int((second.begin - first.begin) * 1e6)


def test_a_batch_of_duplicates_drops_what_came_since_which_faults_again(uvm):
    """Each page is reported by four thread blocks, so the put pointer is read anew: all batches are small."""
    launch = Kernel("fill").launch(256, 16)
    batches, rig = batches_of(uvm, 64, launch, fault__reports=4)
    assert batches[0].faults == 11
    assert statistics.median(batch.faults for batch in batches) < 11
    assert len(batches) > 256 // 11
    assert sum(batch.nbytes for batch in batches) == rig.counters.bytes_htod == 64 * PAGE


def test_faults_that_come_at_once_fill_the_batches_whatever_the_duplicates(uvm):
    launch = Kernel("fill").launch(256, 16)
    batches, _ = batches_of(uvm, 64, launch, fault__reports=4, fault__arrival="0 s", fault__batch_max=64)
    assert [batch.faults for batch in batches] == [64] * 4


@pytest.mark.parametrize("arrival", ["10 ns", "100 ns", "1 us"])
def test_every_page_comes_once_however_slowly_faults_arrive(uvm, arrival):
    _, rig = batches_of(uvm, 1500, fault__arrival=arrival)
    assert rig.counters.faults == 1500
    assert rig.counters.bytes_htod == 1500 * PAGE


def test_slower_faults_make_smaller_batches(uvm):
    launch = Kernel("fill").launch(1024, 16)
    sizes = [
        statistics.median(
            batch.faults for batch in batches_of(uvm, 256, launch, fault__reports=4, fault__arrival=arrival)[0]
        )
        for arrival in ("20 ns", "200 ns", "2 us")
    ]
    assert sizes[0] > sizes[1] > sizes[2]


@pytest.mark.parametrize("arrays", [1, 2, 3])
def test_arrays_that_are_loaded_together_share_each_batch(uvm, arrays):
    """A warp loads them one after another without waiting, so that their pages are reported in turns, each time."""
    rig = uvm(SLOW | {"fault.arrival": 0, "fault.batch_max": 12})
    addresses = [rig.array(BLOCK, touched=True) for _ in range(arrays)]
    rig.run(lambda: rig.kernel(sweep(24 * PAGE), *(ManagedAccess(address, 24 * PAGE) for address in addresses)))
    batches = rig.driver.fault_batches()
    assert [(batch.blocks, batch.pages) for batch in batches] == [(arrays, 12)] * (2 * arrays)


def test_a_warp_whose_lanes_have_each_a_page_loads_all_of_one_array_and_then_of_the_next(uvm):
    rig = uvm(SLOW | {"fault.arrival": 0, "fault.batch_max": 32})
    addresses = [rig.array(BLOCK, touched=True) for _ in range(2)]
    launch = Kernel("pages").launch(1, 64, 64)
    rig.run(lambda: rig.kernel(launch, *(ManagedAccess(address, 64 * PAGE) for address in addresses)))
    assert [(batch.blocks, batch.pages) for batch in rig.driver.fault_batches()] == [(1, 32)] * 4
