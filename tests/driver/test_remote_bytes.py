"""Bytes over the link of kernels of which some pages stay on the host: by hand, each way by itself."""

from __future__ import annotations

import pytest
from managed_rig import BLOCK, SWEEP, assert_sound, sweep

from offloadrt.machine.managed.sweep import ByteRuns, ManagedAccess

BLOCKS = 40
NBYTES = BLOCKS * BLOCK
SECTOR = 32


def over_the_link(uvm, pinned, *, launches=1, gear="turbo", **fields):
    """Bytes in and out of kernels with an access to an array of which the last so many blocks are pinned to the host,
    and the others on the device.
    """
    rig = uvm(gear=gear)
    address = rig.array(NBYTES, touched=True)
    kept = (BLOCKS - pinned) * BLOCK

    async def main():
        stream = await rig.driver.streams.create()
        await rig.driver.managed.prefetch(address, kept, stream)
        await rig.driver.streams.synchronize(stream)
        await rig.driver.managed.advise(address + kept, NBYTES - kept, "prefer_host")
        for _ in range(launches):
            await rig.kernel(sweep(NBYTES), ManagedAccess(address, NBYTES, **fields))

    rig.run(main)
    assert_sound(rig)
    ports = rig.machine.devices[0].compute.managed.ports
    return ports["h2d"].bytes, ports["d2h"].bytes


@pytest.mark.parametrize("gear", ["native", "turbo"])
@pytest.mark.parametrize("pinned", [0, 1, 20, 40])
def test_a_sweep_moves_what_is_pinned(uvm, pinned, gear):
    """But for the step in which pinned pages begin: its bytes are shared out by whole pages."""
    by_hand = pinned * BLOCK
    assert over_the_link(uvm, pinned, gear=gear) == pytest.approx((by_hand, by_hand), abs=64 << 10)


def test_what_is_only_read_does_not_go_back(uvm):
    assert over_the_link(uvm, 40, writes=()) == pytest.approx((NBYTES, 0))


def test_a_sweep_moves_a_sector_once_however_many_places_lie_in_it(uvm):
    crowded = ByteRuns(NBYTES / 8, 8.0, 8, even=True)
    assert over_the_link(uvm, 40, reads=(crowded,), writes=()) == pytest.approx((NBYTES, 0))


@pytest.mark.parametrize("pinned", [10, 20, 40])
@pytest.mark.parametrize("launches", [1, 3])
def test_accesses_at_random_go_over_the_link_as_often_as_pages_are_pinned(uvm, pinned, launches):
    count = 1e5
    reads, writes = (ByteRuns(count, 8.0, 8),), (ByteRuns(count / 4, 8.0, 8),)
    found = over_the_link(uvm, pinned, launches=launches, scattered=1.25 * count, reads=reads, writes=writes)
    by_hand = launches * count * SECTOR * pinned / BLOCKS
    assert found == pytest.approx((by_hand, by_hand / 4), rel=0.02)


@pytest.mark.parametrize("gear", ["native", "turbo"])
@pytest.mark.parametrize("count", [10, 300, 10_000])
def test_all_that_a_sweep_picks_goes_over_the_link(uvm, count, gear):
    """However few of the pages it comes to."""
    picked = ByteRuns(count, 8.0, 8)
    read, written = over_the_link(uvm, 40, gear=gear, picked=picked, writes=())
    assert (read, written) == (pytest.approx(count * SECTOR, rel=0.01), 0)


def test_of_what_a_sweep_picks_the_pinned_half_goes_over_the_link(uvm):
    picked = ByteRuns(2000, 8.0, 8)
    read, written = over_the_link(uvm, 20, picked=picked)
    assert read == written == pytest.approx(1000 * SECTOR, rel=0.1)


def seconds_of(uvm, *accesses):
    """Time of a kernel that reaches arrays on the host, with a link that is fast."""
    rig = uvm({
        "remote.access_bw": "10 TB/s", "link.h2d_pinned": "10 TB/s", "link.d2h_pinned": "10 TB/s",
        "mem.bw": "1000 TB/s", "remote.requests": 100, "remote.latency": "1 us",
        "remote.partial_write": "50 ns", "launch.latency": 0,
    })  # fmt: skip
    arrays, ends = [rig.array(NBYTES, touched=True) for _ in accesses], []

    async def main():
        for address in arrays:
            await rig.driver.managed.advise(address, NBYTES, "prefer_host")
            await rig.driver.managed.advise(address, NBYTES, "accessed_by")
        begin = rig.sim.now
        reached = [ManagedAccess(address, NBYTES, **fields) for address, fields in zip(arrays, accesses, strict=True)]
        await rig.kernel(SWEEP.launch(1, 128, 128), *reached)
        ends.append(rig.sim.now - begin)

    rig.run(main)
    return ends[0]


def test_reads_are_as_many_as_may_be_under_way_each_for_its_latency(uvm):
    """One word of each page: a sector by a request; without a gap: a line by a request."""
    pages = NBYTES // 4096
    words = (ByteRuns(pages, 8.0, 8, even=True),)
    assert seconds_of(uvm, {"reads": words, "writes": ()}) == pytest.approx(pages * 1e-6 / 100, rel=0.02)
    assert seconds_of(uvm, {"reads": None, "writes": ()}) == pytest.approx(NBYTES / 128 * 1e-6 / 100, rel=0.02)


def test_writes_of_parts_of_lines_are_merged_one_after_the_other(uvm):
    pages = NBYTES // 4096
    words = (ByteRuns(pages, 8.0, 8, even=True),)
    assert seconds_of(uvm, {"reads": (), "writes": words}) == pytest.approx(pages * 50e-9, rel=0.02)


def test_writes_of_whole_lines_are_as_fast_as_the_link(uvm):
    assert seconds_of(uvm, {"reads": (), "writes": None}) == pytest.approx(NBYTES / 10e12, rel=0.2)


@pytest.mark.parametrize("links", [1, 2, 3])
def test_each_load_of_a_chain_waits_for_the_one_before(uvm, links):
    """One word each, as when a thread follows pointers: nothing overlaps. The kernel alone takes 0.1 µs."""
    word = {"reads": (ByteRuns(1, 8.0, 8, even=True),), "writes": ()}
    chain = [word | {"level": level} for level in range(links)]
    assert seconds_of(uvm, *chain) == pytest.approx(links * 1e-6, abs=0.2e-6)


def test_loads_that_need_no_other_wait_together(uvm):
    word = {"reads": (ByteRuns(1, 8.0, 8, even=True),), "writes": ()}
    assert seconds_of(uvm, word, word, word) == pytest.approx(1e-6, abs=0.2e-6)
