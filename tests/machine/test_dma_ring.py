"""A DMA ring transfers in order, and waits at its head for what a transfer depends on."""

import pytest

from offloadrt.machine.messages import DmaPacket
from offloadrt.sim import Signal
from offloadrt.trace import events

MIB = 1 << 20
ALONE = 6e-6 + MIB / 72e9
RING = {"dma.latency": "6 us", "dma.occupancy": "6 us", "dma.bw": "72 GB/s"}


class Ring:
    """The ring of an APU, and what was moved."""

    def __init__(self, rig, overrides=None):
        self.rig = rig(RING | (overrides or {}), profile="mi300a")
        self.device = self.rig.machine.devices[0]
        self.moved = []

    def signal(self):
        return Signal(self.rig.sim)

    def submit(self, name, depends=None, nbytes=MIB):
        done = Signal(self.rig.sim, name)
        packet = DmaPacket(
            self.rig.machine.next_number(), 0, "h2d", nbytes, "staged", lambda: self.moved.append(name), done, depends
        )
        self.device.start()
        self.device.next_ring().submit(packet)
        return done


def test_a_transfer_takes_its_latency_and_its_bytes(rig):
    ring = Ring(rig)

    async def main():
        return await ring.submit("a").wait()

    assert ring.rig.run(main) == ("copies", 0.0, pytest.approx(ALONE))
    assert ring.moved == ["a"] and ring.device.bytes_moved() == {"h2d": MIB, "d2h": 0, "d2d": 0, "p2p": 0}
    ring.device.add_moved("d2h", 5)
    assert ring.device.bytes_moved()["d2h"] == 5


def test_transfers_in_a_row_overlap_but_for_what_occupies_the_ring(rig):
    ring = Ring(rig, {"dma.occupancy": "2 us"})

    async def main():
        return [(await done.wait())[2] for done in [ring.submit(name) for name in "abc"]]

    occupied = 2e-6 + MIB / 72e9
    assert ring.rig.run(main) == pytest.approx([ALONE, ALONE + occupied, ALONE + 2 * occupied])
    assert ring.device.rings[0].statistics().busy_s == pytest.approx(3 * occupied)


def test_an_unmet_dependency_holds_up_all_that_is_behind_it(rig):
    ring = Ring(rig)

    async def main():
        met = ring.signal()
        first, second = ring.submit("a", met), ring.submit("b")
        await ring.rig.sim.sleep(1.0)
        assert not second.is_set
        met.set()
        return (await first.wait())[2], (await second.wait())[2]

    assert ring.rig.run(main) == pytest.approx((1 + ALONE, 1 + 2 * ALONE))
    did = ring.device.rings[0].statistics()
    assert did.blocked_s == pytest.approx(1.0) and did.busy_s == pytest.approx(2 * ALONE)
    assert did.busy_s + did.idle_s == pytest.approx(ring.rig.sim.now)
    assert did.wait_s == pytest.approx(1 + ALONE)
    assert ring.moved == ["a", "b"]


def test_rings_take_turns(rig):
    ring = Ring(rig, {"dma.multiple_engines": True})

    async def main():
        return [(await done.wait())[2] for done in [ring.submit(name) for name in "abcd"]]

    assert ring.rig.run(main) == pytest.approx([ALONE, ALONE, 2 * ALONE, 2 * ALONE])
    begins = [row.engine for row in ring.rig.trace.events if isinstance(row, events.CopyBegin)]
    assert begins == ["dma ring 0", "dma ring 1"] * 2
