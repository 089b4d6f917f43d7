"""Each mechanism of the fault handler alone: the buffer, the batch's limit, duplicates, copies, mappings for DMA."""

from __future__ import annotations

import itertools

import attrs
import pytest
from managed_rig import BLOCK, SWEEP, small, sweep

from offloadrt.kernels import Kernel, Tile
from offloadrt.machine.managed.sweep import ManagedAccess

FOUR_KIB = {"page.uvm_page": "4 KiB", "prefetch.tree": False, "fault.arrival": "0 s", "fault.look": "0 s"}
"""Pages of an x86 host, and a fault brings its page only: a page has one entry in the buffer, and all come at once."""
ONCE = {**FOUR_KIB, "fault.reports": 1}
ONE = SWEEP.launch(1, 128, 1)


def batches_of(rig, *kernels):
    """The batches of kernels that start together, each with one access."""
    rig.together(*[lambda launch=launch, access=access: rig.kernel(launch, access) for launch, access in kernels])
    return rig.driver.fault_batches()


def test_a_page_of_64_kib_is_reported_4_kib_at_a_time(uvm):
    rig = uvm({"prefetch.tree": False})
    address = rig.array(BLOCK, touched=True)
    (batch,) = batches_of(rig, (ONE, ManagedAccess(address + (4 << 10), 128 << 10)))
    assert (batch.faults, batch.pages) == (32, 3)  # from 4 to 132 KiB
    assert batch.nbytes == 3 * (64 << 10)


@pytest.mark.parametrize(
    ("page", "host_page", "sorted_entries"), [("64 KiB", "64 KiB", 4), ("4 KiB", "4 KiB", 64), ("64 KiB", "4 KiB", 64)]
)
def test_the_fetch_merges_the_reports_of_one_page(uvm, page, host_page, sorted_entries):
    """Fetched are all 64 entries, sorted and served those that are left (``fetch_fault_buffer_try_merge_entry``).

    A host of 4 KiB pages has one report for each, also where a run tracks 64 KiB at a time.
    """
    costs = {"fault.preprocess": "1 us", "fault.service": "100 us"}
    rig = uvm(ONCE | costs | {"utlb.outstanding_faults": 1000, "page.uvm_page": page, "page.size": host_page})
    address = rig.array(BLOCK, touched=True)
    (batch,) = batches_of(rig, (ONE, ManagedAccess(address, 256 << 10)))
    value = rig.machine.spec.value
    assert batch.faults == 64
    assert batch.fetched - batch.begin == pytest.approx(value("fault.fetch_base") + 64 * value("fault.fetch"))
    assert batch.preprocessed - batch.fetched == pytest.approx(sorted_entries * 1e-6)
    assert (batch.served - batch.locked) // 100e-6 == sorted_entries  # and a little for the block


@pytest.mark.parametrize(("reports", "teams", "faults"), [(1, 64, 64), (4, 64, 256), (4, 8, 64), (1.5, 64, 96)])
def test_a_page_that_many_blocks_touch_is_reported_several_times(uvm, reports, teams, faults):
    """Never more often than by each block: 64 teams have four for a page of 4 KiB, 8 teams half of one."""
    rig = uvm(FOUR_KIB | {"fault.reports": reports})
    address = rig.array(256 << 10, touched=True)
    launch = Kernel("fill").launch(teams * 4, 16) if teams == 64 else Kernel("fill").launch(teams, 128)
    (batch,) = batches_of(rig, (launch, ManagedAccess(address, 256 << 10)))
    assert (batch.faults, batch.pages) == (faults, 64)


def test_duplicates_use_up_the_limit_of_a_batch(uvm):
    rig = uvm(FOUR_KIB | {"fault.reports": 4, "fault.batch_max": 64})
    address = rig.array(256 << 10, touched=True)
    batches = batches_of(rig, (Kernel("fill").launch(256, 16), ManagedAccess(address, 256 << 10)))
    assert [(batch.faults, batch.pages) for batch in batches] == [(64, 16)] * 4


def test_what_does_not_fit_into_the_buffer_is_reported_by_the_next_replay(uvm):
    rig = uvm(ONCE | {"fault.buffer": 40, "utlb.outstanding_faults": 1000})
    address = rig.array(BLOCK, touched=True)
    batches = batches_of(rig, (ONE, ManagedAccess(address, 100 * 4096)))
    assert [batch.faults for batch in batches] == [40, 40, 20]


def test_a_fault_that_came_during_a_batch_is_fetched_after_it_even_if_its_page_is_there(uvm):
    """Two kernels on one page: the second reports it while the handler is at work."""
    rig = uvm(ONCE | {"launch.latency": 0})
    address = rig.array(BLOCK, touched=True)

    async def second():
        await rig.sim.sleep(rig.uvm.handler.costs.interrupt + 1e-6)
        await rig.kernel(ONE, ManagedAccess(address, 4096))
        await rig.sim.sleep(1e-3)  # the handler has its entry still

    rig.together(lambda: rig.kernel(ONE, ManagedAccess(address, 4096)), second)
    first, late = rig.driver.fault_batches()
    assert (first.nbytes, late.faults, late.nbytes) == (4096, 1, 0)
    assert late.served == late.locked
    assert rig.counters.duplicates == 1


def test_what_was_seen_and_did_not_fit_is_dropped_at_a_cost_for_each_entry(uvm):
    rig = uvm(ONCE | {"fault.batch_max": 10})
    address = rig.array(BLOCK, touched=True)
    first, second, third = batches_of(rig, (ONE, ManagedAccess(address, 25 * 4096)))
    costs = rig.uvm.handler.costs
    for batch, dropped in ((first, 15), (second, 5), (third, 0)):
        assert batch.end - batch.served == pytest.approx(costs.flush + dropped * costs.flush_entry)


def test_the_handler_goes_on_while_a_block_is_copied_and_waits_at_the_end(uvm):
    """Two blocks in a batch: their copies follow one another while the second is served; the replay is after both."""
    rig = uvm({"prefetch.threshold": 0.0})
    blocks = [rig.array(BLOCK, touched=True) for _ in range(2)]
    rig.run(lambda: rig.kernel(ONE, *[ManagedAccess(block, 4096) for block in blocks]))
    (batch,), value = rig.driver.fault_batches(), rig.machine.spec.value
    copy = value("copy.latency") + BLOCK / value("link.h2d_pinned")
    each = (batch.served - batch.locked) / 2
    assert batch.served - batch.locked == pytest.approx(rig.uvm.handler.statistics().block_s)
    assert rig.sim.now == pytest.approx(batch.locked + each + max(2 * copy, each + copy), rel=1e-3)


def test_an_eviction_is_submitted_and_the_copy_into_its_memory_waits_for_it(uvm):
    rig = uvm(small(1) | {"prefetch.threshold": 0.0})
    first, second = (rig.array(BLOCK, touched=True) for _ in range(2))

    async def main():
        await rig.kernel(ONE, ManagedAccess(first, 4096))
        await rig.kernel(ONE, ManagedAccess(second, 4096))

    rig.run(main)
    (before, batch), value = rig.driver.fault_batches(), rig.machine.spec.value
    back, there = (value("copy.latency") + BLOCK / value(f"link.{way}_pinned") for way in ("d2h", "h2d"))
    evict = value("evict.block")
    assert batch.served - batch.locked == pytest.approx(before.served - before.locked + evict)
    assert rig.sim.now == pytest.approx(max(batch.served, batch.locked + evict + back) + there, rel=1e-3)


def test_host_memory_is_mapped_for_copies_once_and_unmapped_each_time(uvm):
    """A block that goes to and fro costs its mapping for DMA the first time only."""
    rig = uvm({"prefetch.threshold": 0.0, "thrash.detection": False})
    address = rig.array(BLOCK, touched=True)

    async def main():
        for _ in range(3):
            await rig.kernel(ONE, ManagedAccess(address, 4096))
            await rig.uvm.host_access(address, BLOCK)

    rig.run(main)
    service = [batch.served - batch.locked for batch in rig.driver.fault_batches()]
    assert service[0] - service[1] == pytest.approx(rig.uvm.blocks.costs.dma_map)
    assert service[1] == pytest.approx(service[2])
    assert service[2] > rig.uvm.blocks.costs.unmap


def test_an_interrupt_is_paid_for_the_first_fault_in_an_empty_buffer(uvm):
    rig = uvm(ONCE | {"launch.latency": 0})
    address = rig.array(BLOCK, touched=True)
    (batch,) = batches_of(rig, (ONE, ManagedAccess(address, 4096)))
    assert batch.begin == pytest.approx(rig.uvm.handler.costs.interrupt)


# thread blocks


def test_a_grid_of_two_dimensions_comes_to_a_piece_of_each_row(uvm):
    """Blocks of 16 x 16 floats in rows of 8 KiB: those that are resident reach half of each of 16 rows."""
    launch = Kernel("tile", registers_per_thread=32).launch(128 * 4, 256)
    rows = ONCE | {"gpu.sms": 8, "launch.latency": 0}
    nbytes = 128 * 4 * 256 * 4
    tiled = uvm(rows)
    tile = Tile(16, 16, 128)
    fits = 8 * tiled.machine.devices[0].compute.kernels.spec.limits.resident_teams(launch)
    assert fits == 64
    batches = batches_of(
        tiled, (attrs.evolve(launch, tile=tile), ManagedAccess(tiled.array(nbytes, touched=True), nbytes))
    )
    assert [batch.pages for batch in batches] == [16] * 8
    plain = uvm(rows)
    batches = batches_of(plain, (launch, ManagedAccess(plain.array(nbytes, touched=True), nbytes)))
    assert [batch.pages for batch in batches] == [16] * 8


def test_phases_of_a_batch_follow_one_another(uvm):
    rig = uvm()
    address = rig.array(8 * BLOCK, touched=True)
    rig.run(lambda: rig.kernel(sweep(8 * BLOCK), ManagedAccess(address, 8 * BLOCK)))
    batches = rig.driver.fault_batches()
    assert len(batches) > 4
    assert all(before.end <= after.begin for before, after in itertools.pairwise(batches))


def test_a_store_does_not_hold_its_thread_back_but_a_block_ends_after_it(uvm):
    """Each thread of a grid has four iterations: its stores fault with the loads of the next one."""
    rig = uvm(ONCE | {"launch.latency": 0})
    loads, stores = rig.array(64 << 10, touched=True), rig.array(64 << 10, touched=True)
    launch = attrs.evolve(Kernel("triad").launch(4, 128, 4 * 512), strided=True)
    written = ManagedAccess(stores, 64 << 10, level=1, reads=())
    rig.run(lambda: rig.kernel(launch, ManagedAccess(loads, 64 << 10), written))
    assert [batch.pages for batch in rig.driver.fault_batches()] == [4, 8, 8, 8, 4]
    assert [batch.blocks for batch in rig.driver.fault_batches()] == [1, 2, 2, 2, 1]


def test_a_block_leaves_as_many_entries_as_its_utlb_holds_back_and_the_rest_after_a_replay(uvm):
    rig = uvm(ONCE | {"utlb.outstanding_faults": 56})
    address = rig.array(BLOCK, touched=True)
    batches = batches_of(rig, (Kernel("warp").launch(1, 32), ManagedAccess(address, 64 * 4096)))
    assert [batch.faults for batch in batches] == [56, 8]


def test_blocks_on_different_sms_report_their_pages_side_by_side(uvm):
    """A page a thread, two blocks of 512 threads on two SMs, each in a block of managed memory of its own."""
    rig = uvm(ONCE | {"utlb.outstanding_faults": 64, "utlb.sms": 1, "fault.batch_max": 32})
    address = rig.array(2 * BLOCK, touched=True)
    launch = Kernel("touch").launch(2, 512, 1024)
    batches = batches_of(rig, (launch, ManagedAccess(address, 2 * BLOCK)))
    assert {(batch.pages, batch.blocks) for batch in batches} == {(32, 2)}
    assert len(batches) == 1024 // 32


def test_threads_that_fill_pages_together_report_them_in_order(uvm):
    """A thread for each 4 bytes: all blocks are in one part of the array at a time."""
    rig = uvm(ONCE | {"fault.batch_max": 32})
    address = rig.array(2 * BLOCK, touched=True)
    launch = Kernel("fill").launch(1024, 1024, 1 << 20)
    batches = batches_of(rig, (launch, ManagedAccess(address, 2 * BLOCK)))
    assert {batch.blocks for batch in batches} == {1}


def test_what_the_cpu_has_mapped_is_unmapped_stretch_by_stretch(uvm):
    """Eight pages in a row, or every other page: seven calls of unmap_mapping_range more."""

    def service_s(step):
        rig = uvm(ONCE | {"block.unmap_range": "2 us"})
        address = rig.array(BLOCK, touched=True)
        rig.run(lambda: rig.kernel(ONE, *[ManagedAccess(address + k * step * 4096, 4096) for k in range(8)]))
        (batch,) = rig.driver.fault_batches()
        return batch.served - batch.locked

    assert service_s(2) - service_s(1) == pytest.approx(7 * 2e-6)
