"""Managed memory on several devices: who has a page, over which link it comes, and what advice changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest
from hardware_rig import HardwareRig, hardware
from hypothesis import example, given
from hypothesis import strategies as st
from managed_rig import BLOCK, resident_pages, sweep

from offloadrt.driver import ADVICE, CudaDriver, Uvm
from offloadrt.machine import Stream
from offloadrt.machine.managed.pages import LOCAL
from offloadrt.machine.managed.sweep import ManagedAccess
from offloadrt.machine.messages import KernelPacket
from offloadrt.sim import Signal

LINK = 23.95e9


class _Queue:
    """What a kernel that is sent directly says that it comes from."""

    number = 0

    def submit(self, packet: Any) -> None:
        raise AssertionError(f"{packet!r} was submitted to a queue that is only a name")


@attrs.define
class Peers(HardwareRig):
    """Devices of a DGX-1 whose drivers share an address space; 0 to 3 are linked each with each, 0 and 5 are not."""

    drivers: list[CudaDriver]

    @property
    def uvms(self) -> list[Uvm]:
        found = [driver.managed.uvm for driver in self.drivers]
        return [uvm for uvm in found if uvm is not None]

    def run(self, main: Callable[[], Awaitable[Any]]) -> Any:
        async def started() -> Any:
            self.drivers[0].managed.start()
            return await main()

        return self.sim.run(started)

    async def array(self, nbytes: int) -> int:
        """Managed memory that the host has written."""
        address = await self.drivers[0].managed.alloc(nbytes)
        await self.uvms[0].host_access(address, nbytes)
        return address

    async def kernel(self, device: int, address: int, nbytes: int, writes: bool = True) -> float:
        """A sweep on a device; returns the seconds that it took."""
        done, since = Signal(self.sim, "sweep"), self.sim.now
        access = ManagedAccess(address, nbytes, writes=None if writes else ())
        number = self.machine.next_number()
        packet = KernelPacket(number, Stream(0, _Queue()), 0, sweep(nbytes), None, done, accesses=(access,))
        self.machine.devices[device].compute.mailbox.put(packet)
        await done.wait()
        return self.sim.now - since

    def moved(self, device: int) -> tuple[int, int, int]:
        """Bytes that came to a device from the host and from others, and that it gave back to the host."""
        counters = self.uvms[device].blocks.counters
        return counters.bytes_htod, counters.bytes_dtod, counters.bytes_dtoh

    def check(self) -> None:
        """A page that is written has one place; who has copies has them read-only; records agree."""
        for index in {index for uvm in self.uvms for index in uvm.pages.blocks}:
            blocks = [uvm.pages.block(index) for uvm in self.uvms]
            for block in blocks:
                others = 0
                for other in blocks:
                    others |= other.resident if other is not block else 0
                assert block.elsewhere == others
                assert not block.resident & block.remote
                assert not block.resident & (others | block.host_copy) & ~block.read_only
                for device, there in block.at_peers.items():
                    assert not there & ~self.uvms[device].pages.block(index).resident


@pytest.fixture
def peers():
    def make(devices: int = 2, overrides: dict[str, object] | None = None, gear: Any = "turbo") -> Peers:
        sim, machine, trace = hardware("dgx1-v100", overrides, gear, devices)
        (drivers,) = CudaDriver.open([machine], devices)
        drivers[0].managed.manage()
        return Peers(sim, machine, trace, drivers)

    return make


def test_a_fault_migrates_over_the_link_and_leaves_nothing_behind(peers):
    rig = peers()

    async def main():
        a = await rig.array(4 * BLOCK)
        await rig.kernel(0, a, 4 * BLOCK)
        await rig.kernel(1, a, 4 * BLOCK)

    rig.run(main)
    assert rig.moved(0) == (4 * BLOCK, 0, 0)
    assert rig.moved(1) == (0, 4 * BLOCK, 0)
    assert rig.machine.devices[0].bytes_moved()["p2p"] == 4 * BLOCK  # the source pushes
    assert [device.memory.managed for device in rig.machine.devices] == [0, 4 * BLOCK]
    rig.check()


def test_without_a_link_a_migration_goes_through_the_host(peers):
    rig = peers(6)

    async def main():
        a = await rig.array(BLOCK)
        await rig.kernel(0, a, BLOCK)
        await rig.kernel(5, a, BLOCK)

    rig.run(main)
    assert rig.moved(5) == (BLOCK, 0, 0)
    assert rig.moved(0) == (BLOCK, 0, BLOCK)
    rig.check()


def test_the_host_has_back_what_any_device_has(peers):
    rig = peers()

    async def main():
        a = await rig.array(2 * BLOCK)
        await rig.kernel(0, a, BLOCK)
        await rig.kernel(1, a + BLOCK, BLOCK)
        await rig.uvms[0].host_access(a, 2 * BLOCK)

    rig.run(main)
    assert rig.moved(0) == rig.moved(1) == (BLOCK, 0, BLOCK)
    rig.check()


def test_reads_of_what_is_read_mostly_copy_and_a_write_takes_the_copies_away(peers):
    rig = peers(3)

    async def main():
        a = await rig.array(BLOCK)
        await rig.drivers[0].managed.advise(a, BLOCK, "read_mostly")
        for device in range(3):
            await rig.kernel(device, a, BLOCK, writes=False)
        rig.check()
        assert [device.memory.managed for device in rig.machine.devices] == [BLOCK] * 3
        assert await rig.uvms[0].host_access(a, BLOCK, writes=False) == 0  # it has its own bytes still
        await rig.kernel(1, a, BLOCK)
        rig.check()
        assert [device.memory.managed for device in rig.machine.devices] == [0, BLOCK, 0]
        await rig.uvms[0].host_access(a, BLOCK, writes=False)

    rig.run(main)
    assert rig.moved(0) == (BLOCK, 0, 0)
    assert rig.moved(1) == (0, BLOCK, BLOCK)  # from device 0; back to the host, which keeps a copy
    assert rig.moved(2) == (0, BLOCK, 0)
    assert rig.uvms[1].blocks.counters.invalidations == BLOCK / rig.uvms[1].pages.page_size


def test_one_device_and_the_host_have_copies_of_what_is_read_mostly(uvm):
    rig = uvm({"mem.size": f"{2 * BLOCK} B", "mem.reserved": 0})
    address = rig.array(3 * BLOCK, touched=True)

    async def main():
        await rig.uvm.advise(address, 3 * BLOCK, "read_mostly")
        for _ in range(2):
            await rig.kernel(sweep(3 * BLOCK), ManagedAccess(address, 3 * BLOCK, writes=()))
        assert await rig.uvm.host_access(address, 3 * BLOCK, writes=False) == 0
        assert rig.counters.bytes_dtoh == 0  # what is evicted has its bytes on the host
        assert rig.counters.evictions >= 3
        assert await rig.uvm.host_access(address, 3 * BLOCK) > 0

    rig.run(main)
    assert rig.counters.bytes_dtoh == 0
    assert resident_pages(rig.uvm.pages) == 0


def test_what_prefers_a_device_stays_there_and_others_reach_it_over_the_link(peers):
    rig = peers(2, {"numa.peer_access": 0.5})
    took = []

    async def main():
        a = await rig.array(16 * BLOCK)
        await rig.drivers[0].managed.advise(a, 16 * BLOCK, "prefer_device")
        await rig.kernel(1, a, 16 * BLOCK)  # its fault brings the pages to device 0
        took.append(await rig.kernel(1, a, 16 * BLOCK, writes=False))

    rig.run(main)
    assert rig.moved(0) == (16 * BLOCK, 0, 0)
    assert rig.moved(1) == (0, 0, 0)
    assert took[0] == pytest.approx(16 * BLOCK / (0.5 * LINK), rel=0.02)
    rig.check()


def test_who_is_advised_to_access_pages_has_them_mapped_wherever_they_go(peers):
    rig = peers()

    async def main():
        a = await rig.array(BLOCK)
        await rig.drivers[1].managed.advise(a, BLOCK, "accessed_by")
        await rig.kernel(0, a, BLOCK)
        await rig.kernel(1, a, BLOCK)

    rig.run(main)
    assert rig.moved(1) == (0, 0, 0)
    assert rig.uvms[1].blocks.counters.gpu_fault_groups == 0
    rig.check()


def test_a_prefetch_between_devices_takes_the_time_of_the_link(peers):
    rig = peers(2, {"numa.peer_unmap": 0, "prefetch_async.block": 0, "p2p.raw_latency": 0})
    nbytes, took = 32 * BLOCK, []

    async def main():
        a = await rig.array(nbytes)
        await rig.kernel(0, a, nbytes)
        stream, since = await rig.drivers[1].streams.create(), rig.sim.now
        await rig.drivers[1].managed.prefetch(a, nbytes, stream)
        await rig.drivers[1].streams.synchronize(stream)
        took.append(rig.sim.now - since)

    rig.run(main)
    assert rig.moved(1) == (0, nbytes, 0)
    assert took[0] == pytest.approx(nbytes / LINK, rel=0.02)
    rig.check()


@pytest.mark.parametrize("uncontended", [False, True])
def test_kernels_of_two_devices_in_the_memory_of_a_third_share_no_link_and_those_of_one_do(peers, uncontended):
    """The links of two readers are two; two kernels of one reader divide its link."""

    def reads(*devices):
        rig = peers(3, {"peer_link.uncontended": uncontended, "compute.uncontended": True, "launch.latency": 0})
        took = []

        async def main():
            a = await rig.array(16 * BLOCK)
            await rig.drivers[0].managed.advise(a, 16 * BLOCK, "prefer_device")
            for device in range(3):
                await rig.kernel(device, a, 16 * BLOCK, writes=False)
            since = rig.sim.now
            async with rig.sim.open_nursery() as nursery:
                for device in devices:
                    nursery.spawn(rig.kernel, device, a, 16 * BLOCK, False)
            took.append(rig.sim.now - since)

        rig.run(main)
        return took[0]

    alone = reads(1)
    assert reads(1, 2) == pytest.approx(alone, rel=0.01)
    part = 0.7**0.5  # what one kernel attains of a link
    assert reads(1, 1) == pytest.approx(alone * (1 if uncontended else 2 * part), rel=0.02)


@pytest.mark.parametrize("gear", ["turbo", "native"])
def test_devices_that_are_full_swap_their_pages_without_a_deadlock(peers, gear):
    rig = peers(2, {"mem.size": f"{BLOCK} B", "mem.reserved": 0}, gear)

    async def main():
        a, b = await rig.array(BLOCK), await rig.array(BLOCK)
        await rig.kernel(0, a, BLOCK)
        await rig.kernel(1, b, BLOCK)
        async with rig.sim.open_nursery() as nursery:
            nursery.spawn(rig.kernel, 0, b, BLOCK)
            nursery.spawn(rig.kernel, 1, a, BLOCK)

    rig.run(main)
    rig.check()


def test_a_free_takes_the_pages_of_all_devices_whichever_driver_is_asked(peers):
    rig = peers(3)

    async def main():
        a = await rig.array(BLOCK)
        await rig.drivers[0].managed.advise(a, BLOCK, "read_mostly")
        for device in range(3):
            await rig.kernel(device, a, BLOCK, writes=False)
        await rig.drivers[2].memory.free(a)

    rig.run(main)
    assert [device.memory.managed for device in rig.machine.devices] == [0, 0, 0]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["kernel", "reader"]), st.integers(0, 2), st.integers(0, 3)),
        st.tuples(st.sampled_from(["host", "host_reads", "prefetch", "to_host"]), st.integers(0, 2), st.integers(0, 3)),
        st.tuples(st.sampled_from(ADVICE), st.integers(0, 2), st.integers(0, 3)),
    ),
    max_size=12,
)


BROUGHT_MEANWHILE = [("prefetch", 0, 1), ("reader", 1, 1), ("prefer_device", 0, 0), ("kernel", 2, 0)]
"""Who fetches a block to a full device gives up its lock for room, and another brings the same block there."""


@given(STEPS, st.integers(1, 3), st.booleans())
@example(BROUGHT_MEANWHILE, 1, True)
def test_records_agree_and_bytes_add_up_whatever_is_done(steps, room, together):
    sim, machine, trace = hardware(
        "dgx1-v100", {"mem.size": f"{room * BLOCK} B", "mem.reserved": 0}, devices=3, record=False
    )
    (drivers,) = CudaDriver.open([machine], 3)
    drivers[0].managed.manage()
    rig = Peers(sim, machine, trace, drivers)

    async def step(a: int, what: Any, device: int, place: int) -> None:
        begin = a + place * BLOCK // 2
        if what in ADVICE:
            await drivers[device].managed.advise(begin, BLOCK, what)
        elif what in ("host", "host_reads"):
            await rig.uvms[device].host_access(begin, BLOCK, writes=what == "host")
        elif what in ("prefetch", "to_host"):
            stream = await drivers[device].streams.create()
            await drivers[device].managed.prefetch(begin, BLOCK, stream, what == "to_host")
            await drivers[device].streams.synchronize(stream)
        else:
            await rig.kernel(device, begin, BLOCK, writes=what == "kernel")

    async def main() -> None:
        a = await rig.array(3 * BLOCK)
        if together:
            async with sim.open_nursery() as nursery:
                for one in steps:
                    nursery.spawn(step, a, *one)
        else:
            for one in steps:
                await step(a, *one)

    rig.run(main)
    rig.check()
    for device, uvm in zip(machine.devices, rig.uvms, strict=True):
        assert device.memory.managed == len(uvm.pages.chunks) * BLOCK
        assert device.bytes_moved()["h2d"] == uvm.blocks.counters.bytes_htod
        assert device.bytes_moved()["d2h"] == uvm.blocks.counters.bytes_dtoh
        for block in uvm.pages.blocks.values():
            assert bool(block.resident) == (block.index in uvm.pages.chunks)
            for table, found in ((uvm.pages.translations, 0), (uvm.pages.for_stores, block.read_only)):
                if table is not None:
                    low = block.index * uvm.pages.per_block
                    there = (block.resident & ~found).bit_count()
                    assert table.how_many(LOCAL, low, low + uvm.pages.per_block) == there
