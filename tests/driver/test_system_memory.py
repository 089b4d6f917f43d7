"""System-allocated memory on a machine with a coherent link: in place, the access counters, and who waits for whom."""

from __future__ import annotations

import pytest
from hardware_rig import hardware
from managed_rig import BLOCK, PAGE, assert_sound, resident_pages, sweep

from offloadrt.driver import CudaDriver
from offloadrt.machine.managed.sweep import ByteRuns, ManagedAccess
from offloadrt.machine.messages import AccessNotification

BLOCKS = 16
NBYTES = BLOCKS * BLOCK
OFF = {"access_counter.migration": False}


@pytest.fixture
def system(uvm):
    """Rigs on a Grace Hopper superchip whose arrays are those of malloc."""
    rig_of = type(uvm())

    def make(overrides=None, gear="turbo", record=False):
        sim, machine, trace = hardware("gh200", overrides, gear, record=record)
        driver = CudaDriver.of(machine)
        rig = rig_of(sim, machine, trace, driver, driver.managed.manage())
        rig.uvm.use_system_memory()
        rig.uvm.add = rig.uvm.add_system
        return rig

    return make


def ports(rig):
    return rig.machine.devices[0].compute.managed.ports


def kernels(rig, address, launches, **fields):
    """Seconds of each of some kernels that sweep over the array, one after the other, each after a pause."""

    async def main():
        took = []
        for _ in range(launches):
            since = rig.sim.now
            await rig.kernel(sweep(NBYTES), ManagedAccess(address, NBYTES, **fields))
            took.append(rig.sim.now - since)
            await rig.sim.sleep(1.0)
        return took

    return rig.run(main)


def test_without_counters_every_sweep_goes_over_the_link_without_faults(system):
    rig = system(OFF)
    took = kernels(rig, rig.array(NBYTES, touched=True), 3, writes=())
    assert ports(rig)["h2d"].bytes == pytest.approx(3 * NBYTES) and ports(rig)["d2h"].bytes == 0
    assert took == pytest.approx([took[0]] * 3)
    assert took[0] == pytest.approx(NBYTES / rig.machine.spec.value("remote.access_bw"), rel=0.05)
    assert (rig.counters.faults, rig.counters.bytes_htod, rig.counters.notifications) == (0, 0, 0)
    assert_sound(rig)


def test_counted_regions_migrate_once_and_are_local_then(system):
    rig = system()
    first, second, third = kernels(rig, rig.array(NBYTES, touched=True), 3, writes=())
    counters, bandwidth = rig.counters, rig.machine.spec.value("mem.bw")
    assert (counters.notifications, counters.bytes_htod, counters.counted_htod) == (BLOCKS, NBYTES, NBYTES)
    assert ports(rig)["h2d"].bytes == pytest.approx(NBYTES)
    assert second == pytest.approx(third) and third < first / 3
    assert third == pytest.approx(2 * NBYTES / bandwidth, rel=0.3)
    assert_sound(rig)


@pytest.mark.parametrize(("reached", "notified"), [(255, 0), (257, BLOCKS)])
def test_a_region_is_notified_at_the_threshold(system, reached, notified):
    rig = system({"access_counter.access": 32})
    runs = (ByteRuns(reached * BLOCKS, 32.0, 32, even=True),)
    kernels(rig, rig.array(NBYTES, touched=True), 1, reads=runs, writes=())
    assert rig.counters.notifications == notified


def test_only_sub_regions_that_were_reached_migrate(system):
    rig = system()
    address = rig.array(BLOCK, touched=True)

    async def main():
        await rig.kernel(sweep(3 * PAGE), ManagedAccess(address, 3 * PAGE, writes=()))
        await rig.sim.sleep(1.0)

    rig.run(main)
    resident = rig.uvm.pages.block(address // BLOCK).resident
    assert (rig.counters.notifications, resident, rig.counters.bytes_htod) == (1, 0b111, 3 * PAGE)


def test_the_gpu_makes_pages_that_nobody_has_touched_by_faults_which_cost_more(system):
    took = {}
    for cost in (0.0, 10e-6):
        rig = system({"ats.first_touch": f"{cost} s"})
        took[cost], *_ = kernels(rig, rig.array(NBYTES), 1)
        assert rig.counters.first_on_gpu == NBYTES // PAGE and rig.counters.bytes_htod == 0
        assert ports(rig)["h2d"].bytes == 0
    assert took[10e-6] - took[0.0] == pytest.approx(NBYTES // PAGE * 10e-6, rel=0.01)


def test_the_host_reaches_what_has_migrated_without_faults(system):
    rig = system()
    address = rig.array(NBYTES, touched=True)

    async def main():
        await rig.kernel(sweep(NBYTES), ManagedAccess(address, NBYTES))
        await rig.sim.sleep(1.0)
        return await rig.uvm.host_access(address, NBYTES)

    assert rig.run(main) == 0
    assert (rig.counters.host_faults, rig.counters.bytes_dtoh) == (0, 0)
    assert resident_pages(rig.uvm.pages) == NBYTES // PAGE


def test_without_room_memory_stays_on_the_host_and_nothing_is_evicted(system):
    rig = system({"mem.size": f"{4 * BLOCK} B", "mem.reserved": 0})
    kernels(rig, rig.array(NBYTES, touched=True), 2)
    assert (rig.counters.bytes_htod, rig.counters.evictions) == (4 * BLOCK, 0)
    assert_sound(rig)


def test_pages_that_the_gpu_touches_first_lie_on_the_host_when_there_is_no_room(system):
    rig = system({"mem.size": f"{4 * BLOCK} B", "mem.reserved": 0} | OFF)
    kernels(rig, rig.array(NBYTES), 2)
    assert rig.counters.first_on_gpu == 4 * BLOCK // PAGE and rig.counters.evictions == 0
    assert_sound(rig)


def test_two_kernels_share_the_link(system):
    def elapsed(count):
        rig = system({"access_counter.migration": False, "link.h2d_pinned": 300, "remote.access_bw": 300})
        arrays = [rig.array(NBYTES, touched=True) for _ in range(count)]

        def reads(address):
            return lambda: rig.kernel(sweep(NBYTES), ManagedAccess(address, NBYTES, writes=()))

        return max(rig.together(*[reads(address) for address in arrays]))

    assert elapsed(2) == pytest.approx(2 * elapsed(1), rel=0.02)


def notified(system, count, overrides=None):
    """(the rig, when the last of so many notifications at one time was served, without bytes to move)."""
    rig = system(overrides)
    address = rig.array(count * BLOCK)
    worker = rig.uvm.counter_worker

    async def main():
        for k in range(count):
            worker.mailbox.put(AccessNotification(address // BLOCK + k, 1, 0, rig.sim.now))
        while worker.statistics().notifications < count:
            await rig.sim.sleep(1e-6)
        return rig.sim.now

    return rig, rig.run(main)


def test_notifications_are_served_one_after_the_other(system):
    (one, alone), (many, last) = notified(system, 1), notified(system, 7)
    costs, single, all_ = (
        one.uvm.counter_worker.costs,
        one.uvm.counter_worker.statistics(),
        many.uvm.counter_worker.statistics(),
    )
    assert single.service_s == pytest.approx(costs.service) == pytest.approx(all_.service_s / 7)
    assert last - alone == pytest.approx(6 * costs.service, abs=2e-6)
    assert all_.wait_s == pytest.approx(7 * costs.interrupt + costs.service * sum(range(7)))


def test_without_contention_every_notification_is_served_at_once(system):
    free = {"access_counter.uncontended": True}
    assert notified(system, 7, free)[1] == pytest.approx(notified(system, 1)[1])


def test_both_gears_give_the_same_history(system):
    hashes = set()
    for gear in ("native", "turbo"):
        rig = system(gear=gear, record=True)
        kernels(rig, rig.array(NBYTES, touched=True), 2)
        hashes.add(rig.trace.hash())
    assert len(hashes) == 1
