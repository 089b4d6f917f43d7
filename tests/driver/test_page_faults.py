"""First touch on an APU: page faults of kernels, prefaults, first touch by the host, and the locks between them.

Oracles are sums of unit costs: what something takes alone is what the profile says for each of its steps.
"""

import math

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from property_examples import examples

from offloadrt.driver import Kfd
from offloadrt.kernels import Kernel
from offloadrt.machine import MemoryAccessFault, ProfileError, load
from offloadrt.machine.messages import DrainKernels, ResumeKernels, SuspendKernels
from offloadrt.trace import events

MIB = 1 << 20
HUGE = 2 * MIB
COSTS = load("mi300a")
SERVICE, CLEAR = COSTS.value("fault.service_2m"), COSTS.value("fault.populate_2m")
POPULATE = CLEAR + COSTS.value("fault.repeat_2m")
CALL, LOCKED = COSTS.value("prefault.call"), COSTS.value("prefault.locked")
INSERT, TOUCH = COSTS.value("prefault.insert_2m"), CLEAR + COSTS.value("fault.cpu_touch")
LATENCY = COSTS.value("launch.latency")
SMALL = Kernel("small", None, 1e6, 0.0, 256).launch(4)


@pytest.fixture
def apu(apu):
    """Let faults on other pages of a range that was served cost nothing, unless a test asks for them."""
    return lambda overrides=None, **options: apu({"fault.skip": 0.0, **(overrides or {})}, **options)


def alone(rig, launch=SMALL):
    return LATENCY + rig.kfd.device.compute.spec.seconds_on_idle_device(launch)


@pytest.mark.parametrize("launch", [SMALL, Kernel("empty").launch(1)], ids=lambda one: one.kernel.name)
@pytest.mark.parametrize("ranges", [1, 2, 7, 300])
@pytest.mark.parametrize("touched", [True, False], ids=["touched by the host", "by nobody"])
def test_a_first_touch_costs_the_sum_of_its_services(apu, launch, ranges, touched):
    rig = apu()
    array = rig.array(ranges * HUGE, touched)
    services = ranges * (SERVICE if touched else SERVICE + POPULATE)
    assert rig.elapsed(lambda: rig.kernel(launch, array)) == pytest.approx(alone(rig, launch) + services)
    assert (rig.faults.faults, rig.faults.pages, rig.faults.duplicates) == (ranges, ranges, 0)
    assert rig.faults.service_s == pytest.approx(services)
    assert rig.faults.wait_s == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("teams", [1, 8, 400])
@pytest.mark.parametrize("ranges", [2, 7, 300])
def test_a_fault_waits_for_the_driver_to_drop_those_on_other_pages_of_the_range_before(apu, teams, ranges):
    """Threads of a kernel whose iterations are all resident are spread over its array; each touches one page.

    The hardware has faults in flight for 272 of these pages.
    """
    skip, rig = 0.2e-6, apu({"fault.skip": "0.2 us"})
    launch = Kernel("empty").launch(teams, threads=256)
    others = math.ceil(min(teams * 256, 512 * ranges, 272) / ranges) - 1
    array = rig.array(ranges * HUGE, touched=True)
    dropping = (ranges - 1) * others * skip  # nobody waits for those of the last range
    seconds = rig.elapsed(lambda: rig.kernel(launch, array)) - alone(rig, launch)
    assert seconds == pytest.approx(ranges * SERVICE + dropping)
    assert rig.faults.faults == ranges and rig.faults.service_s == pytest.approx(ranges * SERVICE)
    assert rig.faults.wait_s == pytest.approx(dropping, abs=1e-12)


def test_a_device_full_of_threads_has_faults_in_several_ranges_at_once(apu):
    """2048 threads of 228 compute units have a double each: 912 pages, of which a range holds 512."""
    skip, rig = 0.2e-6, apu({"fault.skip": "0.2 us"})
    launch = Kernel("empty").launch(1 << 16, threads=256)
    array = rig.array((1 << 24) * 8, touched=True)
    seconds = rig.elapsed(lambda: rig.kernel(launch, array)) - alone(rig, launch)
    assert seconds == pytest.approx(64 * SERVICE + 63 * (math.ceil(272 * 512 / 912) - 1) * skip)


def test_the_kth_of_m_ranges_is_met_after_k_parts_of_the_work(apu):
    rig = apu()
    rig.run(lambda: rig.kernel(SMALL, rig.array(4 * HUGE, touched=True)))
    begins = [row.time_ps for row in rig.trace.events if isinstance(row, events.PageFaultBegin)]
    part = rig.kfd.device.compute.spec.seconds_on_idle_device(SMALL) / 4
    assert begins == pytest.approx([1e12 * (LATENCY + k * (part + SERVICE)) for k in range(4)], abs=2)


def test_pages_fault_once_and_never_again_until_they_are_unmapped(apu):
    rig = apu()
    one, other = rig.array(3 * HUGE), rig.array(2 * HUGE)

    async def main():
        times = []
        for touches in ((one,), (one,), (one, other), (other, one)):
            begin = rig.sim.now
            await rig.kernel(SMALL, *touches)
            times.append(rig.sim.now - begin - alone(rig))
        assert rig.kfd.unmap(*one) == 3
        begin = rig.sim.now
        await rig.kernel(SMALL, one)
        return [*times, rig.sim.now - begin - alone(rig)]

    each = SERVICE + POPULATE
    assert rig.run(main) == pytest.approx([3 * each, 0, 2 * each, 0, 3 * SERVICE], abs=1e-12)


def test_small_arrays_share_huge_pages(apu):
    rig = apu()
    address, _ = rig.array(HUGE, touched=True)
    rig.run(lambda: rig.kernel(SMALL, *[(address + 100 * place, 100) for place in range(15)]))
    assert rig.faults.faults == 1


def test_an_overlap_is_met_once(apu):
    rig = apu()
    address, _ = rig.array(4 * HUGE)
    rig.run(lambda: rig.kernel(SMALL, (address, 3 * HUGE), (address + HUGE, 3 * HUGE), (address, 0)))
    assert rig.faults.faults == 4


def test_two_kernels_on_the_same_pages_fault_them_once(apu):
    rig = apu()
    array = rig.array(20 * HUGE, touched=True)
    ends = rig.together(*[lambda: rig.kernel(SMALL, array)] * 2)
    assert rig.faults.pages == rig.faults.faults == 20
    assert max(ends) <= alone(rig) + 20 * SERVICE + 1e-9


def test_kernels_that_fault_take_turns_and_their_services_add_up(apu):
    rig = apu()
    empty, arrays = Kernel("empty").launch(1), [rig.array(5 * HUGE, True) for _ in range(3)]
    ends = rig.together(*[lambda array=array: rig.kernel(empty, array) for array in arrays])
    served = [row.kernel for row in rig.trace.events if isinstance(row, events.PageFaultEnd)]
    assert served == [1, 2, 3] * 5, "one fault a kernel, in turns"
    assert ends == pytest.approx([LATENCY + served * SERVICE for served in (13, 14, 15)])


@examples(40, HealthCheck.function_scoped_fixture)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), max_size=4), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), max_size=2),
)
def test_whatever_kernels_touch_a_page_faults_at_most_once(apu, kernels, prefaults):
    rig = apu()
    base, _ = rig.array(16 * HUGE)

    def touches(pieces):
        return [(base + low * HUGE, size * HUGE) for low, size in pieces]

    bodies = [lambda pieces=pieces: rig.kernel(SMALL, *touches(pieces)) for pieces in kernels]
    bodies += [lambda one=one: rig.kfd.svm_attributes_set(*touches([one])[0]) for one in prefaults]
    rig.together(*bodies)
    pages = {page for pieces in [*kernels, prefaults] for low, size in pieces for page in range(low, low + size)}
    assert rig.faults.faults == rig.faults.pages, "one range is one page here"
    assert rig.faults.pages + rig.kfd.statistics().prefault_pages == len(pages) == rig.kfd.device.pages.pages


def test_what_was_prefaulted_does_not_fault(apu):
    rig = apu()
    array = rig.array(50 * HUGE)

    async def main():
        await rig.kfd.svm_attributes_set(*array)
        begin = rig.sim.now
        await rig.kernel(SMALL, array)
        return rig.sim.now - begin

    assert rig.run(main) == pytest.approx(alone(rig))
    assert rig.faults.faults == rig.faults.duplicates == 0


@pytest.mark.parametrize("touched", [True, False])
def test_a_prefault_costs_its_pages_once_and_then_the_call(apu, touched):
    def twice(pages):
        rig = apu()
        array = rig.array(pages * HUGE, touched)

        async def main():
            times = []
            for _ in range(2):
                begin = rig.sim.now
                await rig.kfd.svm_attributes_set(*array)
                times.append(rig.sim.now - begin)
            return times

        return rig.run(main)

    for pages in (1, 10, 10_000):
        first, again = twice(pages)
        assert first == pytest.approx(CALL + LOCKED + pages * (INSERT + (0 if touched else POPULATE)))
        assert again == pytest.approx(CALL + LOCKED), "whatever the size"


def test_concurrent_prefaults_serialise_under_the_lock_and_only_there(apu):
    rig = apu()
    arrays = [rig.array(100 * HUGE, touched=True) for _ in range(5)]
    ends = rig.together(*[lambda array=array: rig.kfd.svm_attributes_set(*array) for array in arrays])
    held = LOCKED + 100 * INSERT
    assert ends == pytest.approx([CALL + held * (place + 1) for place in range(5)])
    found = rig.kfd.statistics()
    mmap, process = found.mmap, found.process
    assert process.hold_s == found.svms.hold_s == pytest.approx(5 * held)
    assert mmap.write_hold_s == pytest.approx(5 * LOCKED), "it is held for reading while pages are mapped"
    assert process.wait_s == pytest.approx((1 + 2 + 3 + 4) * held) and mmap.wait_s == found.svms.wait_s == 0.0
    assert rig.machine.host_time.seconds["driver lock"] == pytest.approx(process.wait_s)


def test_a_prefault_and_an_allocation_wait_for_one_another(apu):
    """svm_range_set_attr takes the process lock at its entry, which allocations of the pool hold, too."""
    rig = apu({"prefault.call": 0})
    array = rig.array(HUGE, touched=True)
    prefaulted, allocated = rig.together(
        lambda: rig.kfd.svm_attributes_set(*array), lambda: rig.kfd.allocate(HUGE, phantom=True)
    )
    allocation = COSTS.value("alloc.pool_base") + HUGE * COSTS.value("alloc.pool_per_gib")
    assert allocated == pytest.approx(allocation), "its work begins first"
    assert prefaulted == pytest.approx(allocation + LOCKED + INSERT)


def test_prefaults_that_exclude_nobody_count_each_page_once(apu):
    rig = apu({"mmap.uncontended": True})
    array = rig.array(16 * HUGE)
    rig.together(*[lambda: rig.kfd.svm_attributes_set(*array)] * 8)
    found = rig.kfd.statistics()
    assert (found.prefaults, found.prefault_pages) == (8, 16)
    assert sum(row.pages for row in rig.trace.events if isinstance(row, events.Prefault)) == 16


def test_a_prefault_excludes_the_service_of_faults(apu):
    rig = apu({"launch.latency": "5 us"})
    ours, theirs = rig.array(1000 * HUGE, touched=True), rig.array(HUGE, touched=True)
    ends = rig.together(lambda: rig.kfd.svm_attributes_set(*ours), lambda: rig.kernel(SMALL, theirs))
    prefaulted = CALL + LOCKED + 1000 * INSERT
    assert ends[0] == pytest.approx(prefaulted)
    work = rig.kfd.device.compute.spec.seconds_on_idle_device(SMALL)
    assert ends[1] == pytest.approx(prefaulted + SERVICE + work), "it waited for the lock"
    assert rig.faults.wait_s == pytest.approx(prefaulted - 5e-6)


def test_the_host_touches_memory_while_a_prefault_maps_pages(apu):
    """svm_range_set_attr downgrades the mmap lock before it maps: a fault of the CPU waits for what is before only."""
    rig = apu()
    ours, theirs = rig.array(1000 * HUGE, touched=True), rig.array(HUGE)

    async def touch():
        await rig.sim.sleep(CALL)
        await rig.kfd.host_touch(*theirs)

    ends = rig.together(lambda: rig.kfd.svm_attributes_set(*ours), touch)
    assert ends == pytest.approx([CALL + LOCKED + 1000 * INSERT, CALL + LOCKED + TOUCH])


def test_locking_memory_maps_it_once_and_then_costs_two_calls(apu):
    rig = apu()
    array = rig.array(10 * HUGE, touched=True)

    async def main():
        times = []
        for _ in range(2):
            begin = rig.sim.now
            await rig.kfd.memory_lock(*array)
            times.append(rig.sim.now - begin)
        return times

    calls = 2 * (CALL + LOCKED)
    assert rig.run(main) == pytest.approx([calls + 10 * INSERT, calls])
    assert rig.kfd.device.pages.covers(*array)


def test_a_service_excludes_prefaults(apu):
    rig = apu({"launch.latency": 0, "prefault.call": "5 us"})
    ours, theirs = rig.array(HUGE, touched=True), rig.array(HUGE, touched=True)
    ends = rig.together(lambda: rig.kernel(SMALL, ours), lambda: rig.kfd.svm_attributes_set(*theirs))
    assert ends[1] == pytest.approx(SERVICE + LOCKED + INSERT)


def test_a_range_that_is_prefaulted_while_the_fault_waits_costs_nothing_more(apu):
    rig = apu({"launch.latency": "5 us"})
    array = rig.array(1000 * HUGE, touched=True)
    ends = rig.together(lambda: rig.kfd.svm_attributes_set(*array), lambda: rig.kernel(SMALL, array))
    assert rig.faults.faults == 0 and rig.faults.duplicates == 1
    assert ends[1] == pytest.approx(ends[0] + rig.kfd.device.compute.spec.seconds_on_idle_device(SMALL))


def test_what_the_host_touched_first_need_not_be_populated(apu):
    rig = apu()
    array = rig.array(10 * HUGE)

    async def main():
        begin = rig.sim.now
        assert await rig.kfd.host_touch(*array) == 10
        touched = rig.sim.now - begin
        assert await rig.kfd.host_touch(*array) == 0
        await rig.kernel(SMALL, array)
        return touched, rig.sim.now - begin - touched

    touched, kernel = rig.run(main)
    assert touched == pytest.approx(10 * TOUCH)
    assert kernel == pytest.approx(alone(rig) + 10 * SERVICE)
    assert rig.kfd.statistics().cpu_faults == 10


def test_a_long_first_touch_by_the_host_lets_prefaults_in_between(apu):
    rig = apu()
    large, small = rig.array(1000 * HUGE), rig.array(HUGE, touched=True)
    ends = rig.together(lambda: rig.kfd.host_touch(*large), lambda: rig.kfd.svm_attributes_set(*small))
    held = TOUCH
    assert ends[1] == pytest.approx(held + LOCKED + INSERT)
    assert ends[0] == pytest.approx(1000 * held + LOCKED), "pages are mapped beside the host's next fault"


def test_threads_of_the_host_populate_a_page_once(apu):
    rig = apu()
    array = rig.array(100 * HUGE)
    rig.together(*[lambda: rig.kfd.host_touch(*array)] * 3)
    assert rig.kfd.statistics().cpu_faults == rig.machine.host_memory.pages.pages == 100


def test_a_machine_whose_service_maps_parts_of_pages_is_refused(apu, rig):
    with pytest.raises(ProfileError, match=r"fault\.range: is 65536 bytes, no multiple of a page"):
        apu({"fault.range": "64 KiB"})
    assert apu({"fault.range": "64 KiB", "page.thp": False}).kfd.faults.spec.range == 65536
    discrete = rig().machine
    with pytest.raises(ProfileError, match=r"machine\.apu: is false"):
        Kfd(discrete, discrete.devices[0])


def test_xnack_off_kills_the_kernel(apu):
    rig = apu({"gpu.xnack": False})
    address = rig.array(3 * HUGE, touched=True)[0]
    told = []

    async def main():
        await rig.kfd.svm_attributes_set(address, HUGE)
        await rig.kernel(SMALL, (address + 8, 100))
        begin = rig.sim.now
        await rig.kernel(SMALL, (address + 8, HUGE), fault=told.append)
        assert rig.sim.now == begin + LATENCY
        await rig.kernel(SMALL, (address + 8, HUGE))

    with pytest.raises(MemoryAccessFault) as caught:
        rig.run(main)
    assert [fault.address for fault in told] == [address + HUGE]
    assert str(caught.value).startswith(
        f"Memory access fault by GPU node-1 on address {address + HUGE:#x}. Reason: Page not present or supervisor "
        "privilege. (kernel 'small'"
    )
    assert rig.faults.violations == 2 and rig.faults.faults == 0


def test_memory_of_the_pool_costs_its_bytes_when_the_kernel_driver_gives_it(apu):
    rig = apu()

    async def main():
        times = []
        for nbytes in (100, 100, 3 * MIB):
            begin = rig.sim.now
            address = await rig.kfd.allocate(nbytes, phantom=True)
            times.append(rig.sim.now - begin)
        for block in [rig.kfd.device.memory.blocks()[0].address, address]:
            begin = rig.sim.now
            await rig.kfd.free(block)
            times.append(rig.sim.now - begin)
        return times

    value = COSTS.value
    new, gone = value("alloc.pool_per_gib") * HUGE, value("free.pool_per_gib") * HUGE
    assert rig.run(main) == pytest.approx(
        [
            value("alloc.pool_base") + new,
            value("alloc.pool_fragment"),
            value("alloc.pool_base") + 2 * new,
            value("free.pool_fragment"),
            value("free.pool_base") + 2 * gone,
        ]
    )


def test_a_drain_waits_for_stalled_kernels(apu):
    rig = apu()
    array = rig.array(10 * HUGE, touched=True)

    async def drains():
        await rig.sim.sleep(LATENCY + SERVICE / 2)
        await rig.kfd.device.compute.mailbox.call(DrainKernels("test"))
        rig.kfd.device.compute.mailbox.put(ResumeKernels("test", False))

    ends = rig.together(lambda: rig.kernel(SMALL, array), drains)
    assert ends == pytest.approx([alone(rig) + 10 * SERVICE] * 2)
    units = rig.kfd.device.compute.statistics()
    assert units.stalled_s == pytest.approx(10 * SERVICE) == pytest.approx(units.wall_s - units.alone_s)


def test_a_suspended_device_serves_faults_and_works_on_afterwards(apu):
    rig = apu()
    array = rig.array(HUGE, touched=True)

    async def suspends():
        await rig.kfd.device.compute.mailbox.call(SuspendKernels("test"))
        await rig.sim.sleep(SERVICE)
        rig.kfd.device.compute.mailbox.put(ResumeKernels("test", True))

    async def later():
        await rig.sim.sleep(LATENCY + SERVICE / 4)
        await suspends()

    ends = rig.together(lambda: rig.kernel(SMALL, array), later)
    assert ends[0] == pytest.approx(ends[1] + rig.kfd.device.compute.spec.seconds_on_idle_device(SMALL))


def test_both_gears_have_the_same_history(apu):
    def history(gear):
        rig = apu(gear=gear)
        arrays = [rig.array(10 * HUGE) for _ in range(4)]
        bodies = [lambda array=array: rig.kernel(SMALL, array, arrays[0]) for array in arrays]
        bodies += [lambda array=array: rig.kfd.svm_attributes_set(*array) for array in arrays]
        rig.together(*bodies)
        return rig.trace.hash()

    assert history("native") == history("turbo")


def test_whoever_touches_a_page_first_pays_the_same_for_clearing_it(apu):
    """All three end in the kernel's handle_mm_fault, which a device's request calls for each of the 512 small pages."""

    def extra(of, nbytes=10 * HUGE):
        seconds = []
        for touched in (False, True):
            rig = apu()
            array = rig.array(nbytes, touched=touched)
            seconds.append(rig.elapsed(lambda rig=rig, array=array: of(rig, array)))
        return seconds[0] - seconds[1]

    assert extra(lambda rig, array: rig.kernel(SMALL, array)) == pytest.approx(10 * POPULATE)
    assert extra(lambda rig, array: rig.kfd.svm_attributes_set(*array)) == pytest.approx(10 * POPULATE)
    assert extra(lambda rig, array: rig.kfd.host_touch(*array)) == pytest.approx(10 * TOUCH)


def test_the_first_fault_in_a_range_waits_until_the_host_has_touched_its_page(apu):
    """svm_range_restore_pages takes the mmap lock for writing to make a range, and for reading when there is one."""

    def wait(of_known):
        rig = apu({"launch.latency": 0, "launch.gap": 0})
        array, other = rig.array(HUGE, touched=True), rig.array(HUGE)

        async def main():
            if of_known:
                await rig.kfd.svm_attributes_set(*array)
                rig.kfd.unmap(*array)
            begin = rig.sim.now
            async with rig.sim.open_nursery() as nursery:
                nursery.spawn(rig.kfd.host_touch, *other, name="host")
                await rig.sim.sleep(1e-6)
                await rig.kernel(SMALL, array)
                return rig.sim.now - begin - 1e-6

        return rig.run(main) - SERVICE - rig.kfd.device.compute.spec.seconds_on_idle_device(SMALL)

    assert wait(of_known=False) == pytest.approx(TOUCH - 1e-6)
    assert wait(of_known=True) == pytest.approx(0.0, abs=1e-12)
