"""First touch on an APU without huge pages: how much of memory one service of a fault maps."""

import pytest
from test_page_faults import HUGE, SERVICE, SMALL, alone
from test_page_faults import apu as apu

from offloadrt.kernels import Kernel
from offloadrt.machine import load

COSTS = load("mi300a")


def test_without_huge_pages_a_service_still_maps_a_range(apu):
    rig = apu({"page.thp": False})
    array = rig.array(3 * HUGE)
    populated = 512 * COSTS.value("fault.populate_4k")
    assert rig.elapsed(lambda: rig.kernel(SMALL, array)) == pytest.approx(alone(rig) + 3 * (SERVICE + populated))
    assert (rig.faults.faults, rig.faults.pages) == (3, 3 * 512)


def test_without_huge_pages_a_service_ends_with_the_program_s_memory(apu):
    rig = apu({"page.thp": False})
    array = rig.array(5 * 4096)
    populated = 5 * COSTS.value("fault.populate_4k")
    assert rig.elapsed(lambda: rig.kernel(SMALL, array)) == pytest.approx(alone(rig) + SERVICE + populated)
    assert (rig.faults.faults, rig.faults.pages) == (1, 5) and rig.machine.host_memory.pages.pages == 5
    more = rig.array(4096)  # huge pages of its own
    assert rig.kfd.device.pages.missing_pages(array[0], more[0] + 4096 - array[0]) == 512 - 5 + 1


def test_a_range_that_another_kernel_had_served_meanwhile_is_passed_also_at_the_end_of_memory(apu):
    rig = apu({"page.thp": False})
    array = rig.array(HUGE + 3 * 4096, touched=True)
    rig.together(*[lambda: rig.kernel(SMALL, array)] * 2)
    assert (rig.faults.faults, rig.faults.pages) == (2, 512 + 3)


@pytest.mark.parametrize("granularity", [HUGE, 65536, 4096])
def test_without_huge_pages_a_page_faults_at_most_once_whatever_a_service_maps(apu, granularity):
    rig = apu({"page.thp": False, "fault.range": granularity})
    array = rig.array(2 * HUGE)
    service = rig.elapsed(lambda: rig.kernel(SMALL, array, array)) - alone(rig)
    assert (rig.faults.faults, rig.faults.pages) == (2 * HUGE // granularity, 1024)
    assert service == pytest.approx(rig.faults.faults * SERVICE + 1024 * COSTS.value("fault.populate_4k"))


def test_without_huge_pages_first_touch_comes_close_to_the_published_rate(apu):
    """1.1 million pages a second for many faults; a service of 17 us for each page of 4 KiB would make 0.06 million."""
    rig = apu({"page.thp": False, "fault.skip": f"{1e6 * COSTS.value('fault.skip')} us"})
    array, launch = rig.array(100 * HUGE), Kernel("a double a thread").launch(100 * HUGE // 8 // 256, threads=256)
    seconds = rig.elapsed(lambda: rig.kernel(launch, array)) - alone(rig, launch)
    assert rig.faults.pages / seconds == pytest.approx(1.1e6, rel=0.05)


def test_without_huge_pages_a_range_of_which_a_part_was_prefaulted_faults_for_the_rest(apu):
    rig = apu({"page.thp": False})
    address = rig.array(HUGE, touched=True)[0]

    async def main():
        assert await rig.kfd.svm_attributes_set(address, 8192) == 2
        await rig.kernel(SMALL, (address, 8192))
        assert rig.faults.faults == 0
        await rig.kernel(SMALL, (address + 4096, 8192))

    rig.run(main)
    assert (rig.faults.faults, rig.faults.pages) == (1, 510)
