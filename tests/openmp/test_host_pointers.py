"""Kernels follow host pointers where the device uses host memory in place, and touch its pages; nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from openmp_rig import MakeRig

from offloadrt import openmp as omp
from offloadrt.kernels import kernel
from offloadrt.machine import MemoryAccessFault

PAGE = 2 << 20
IN_PLACE = [("mi300a", "usm"), ("mi300a", "implicit_zero_copy"), ("mi300a", "eager_maps")]
MIGRATING = [("summitdev-p100", "managed"), ("summitdev-p100", "managed+prefetch")]


@kernel(bytes_per_iteration=16)
def double_each(pointees: Any) -> None:
    for values in pointees:
        values *= 2.0


@kernel
def double(values: Any) -> None:
    values *= 2.0


def two_arrays(t: omp.HostThread) -> list[omp.HostArray]:
    """One on the heap, one on the stack, in pages of their own."""
    return [t.array("heap", 6, fill=1.0, kind="heap", align=PAGE), t.array("stack", 6, fill=3.0, align=PAGE)]


async def follow(t: omp.HostThread, arrays: list[omp.HostArray], length: int = 6, offset: int = 0) -> None:
    addresses = [array.address + offset for array in arrays]
    pointers = t.array("pointers", len(arrays), np.uint64, fill=addresses, align=PAGE)
    await t.target(double_each, omp.pointees(pointers, length, np.float64), maps=omp.map(to=pointers))


@pytest.mark.parametrize(("machine", "configuration"), [*IN_PLACE, *MIGRATING])
def test_pointers_are_followed_in_the_host_s_memory(rig: MakeRig, machine: str, configuration: str) -> None:
    async def body(t: omp.HostThread) -> list[list[float]]:
        arrays = two_arrays(t)
        await follow(t, arrays)
        await follow(t, arrays, length=2, offset=8)
        return [array.data.tolist() for array in arrays]

    expected = [[2.0, 4.0, 4.0, 2.0, 2.0, 2.0], [6.0, 12.0, 12.0, 6.0, 6.0, 6.0]]
    assert rig(machine_name=machine, configuration=configuration).alone(body) == expected


@pytest.mark.parametrize(("machine", "configuration"), [*IN_PLACE, *MIGRATING])
def test_a_pointer_of_use_device_addr_is_the_host_s(rig: MakeRig, machine: str, configuration: str) -> None:
    async def body(t: omp.HostThread) -> list[float]:
        _, a = two_arrays(t)
        async with t.target_data(omp.map(tofrom=a), omp.use_device_addr(a)) as pointers:
            pointer = pointers[a]
            assert pointer is not None and pointer.address == a.address
            await t.target(double, pointer.viewed(np.float64))
            await t.target(double, (pointer + 40).viewed(np.float64))
        return a.data.tolist()

    assert rig(machine_name=machine, configuration=configuration).alone(body) == [6.0, 6.0, 6.0, 6.0, 6.0, 12.0]


@pytest.mark.parametrize("configuration", ["usm", "copy"])
def test_what_is_pointed_to_faults_once(rig: MakeRig, configuration: str) -> None:
    async def body(t: omp.HostThread) -> list[int]:
        arrays, faults = two_arrays(t), []
        for _ in range(2):
            await follow(t, arrays)
            faults.append(made.machine.devices[0].fault_statistics().faults)
        return faults

    made = rig(machine_name="mi300a", configuration=configuration)
    first, second = made.alone(body)
    pointers = 1 if configuration == "usm" else 0
    assert (first, second - first) == (2 + pointers, pointers), "each list of pointers is new"


def test_what_is_pointed_to_migrates(rig: MakeRig) -> None:
    async def body(t: omp.HostThread) -> None:
        await follow(t, two_arrays(t))

    made = rig(machine_name="summitdev-p100", configuration="managed")
    made.alone(body)
    assert made.device.driver.managed.uvm.blocks.counters.gpu_fault_groups == 3, "a block each"


def test_without_xnack_the_kernel_dies_of_what_is_pointed_to(rig: MakeRig) -> None:
    async def body(t: omp.HostThread) -> None:
        arrays = two_arrays(t)
        await t.target_enter_data(omp.map(to=arrays[0]))
        await follow(t, arrays)

    made = rig({"gpu.xnack": False}, machine_name="mi300a", configuration="eager_maps")
    with pytest.raises(MemoryAccessFault, match="launched by host thread 0, touched it of array 'stack'"):
        made.alone(body)


@pytest.mark.parametrize(
    ("machine", "configuration", "message"),
    [
        ("alex-a100", "copy", "lies in no allocated block"),
        ("mi300a", "usm", r"48 bytes at <heap\+16> reach beyond the array of 48 bytes"),
    ],
)
def test_a_pointer_to_what_the_device_does_not_reach(
    rig: MakeRig, machine: str, configuration: str, message: str
) -> None:
    async def body(t: omp.HostThread) -> None:
        await follow(t, two_arrays(t), offset=16)

    with pytest.raises(omp.IllegalAddress, match=message):
        rig(machine_name=machine, configuration=configuration).alone(body)


@pytest.mark.parametrize(("machine", "configuration"), [*IN_PLACE, *MIGRATING])
def test_what_the_program_forgets_without_freeing_it_is_there_still(
    rig: MakeRig, machine: str, configuration: str
) -> None:
    async def body(t: omp.HostThread) -> list[list[float]]:
        addresses = [array.address for array in two_arrays(t)]
        pointers = t.array("pointers", 2, np.uint64, fill=addresses, align=PAGE)
        await t.target(double_each, omp.pointees(pointers, 6, np.float64), maps=omp.map(to=pointers))
        view = made.machine.host_memory.contents.view
        return [view(address, 48).view(np.float64).tolist() for address in addresses]

    made = rig(machine_name=machine, configuration=configuration)
    assert made.alone(body) == [[2.0] * 6, [6.0] * 6]


def test_freed_memory_is_not_there_any_more(rig: MakeRig) -> None:
    async def body(t: omp.HostThread) -> None:
        heap, stack = two_arrays(t)
        find, addresses = made.machine.host_memory.contents.find, (heap.address, stack.address)
        assert find(heap.address + 47) is heap and find(heap.address + 48) is None
        t.free(heap)
        assert [find(address) for address in addresses] == [None, stack]
        again = t.array("again", 6, kind="heap", align=PAGE)
        assert again.address == heap.address and find(heap.address) is again
        t.free(again)
        await follow(t, [heap])

    made = rig(machine_name="mi300a", configuration="usm")
    with pytest.raises(omp.IllegalAddress, match="lies in no allocated block"):
        made.alone(body)


def test_a_phantom_has_no_values_to_follow_to(rig: MakeRig) -> None:
    async def body(t: omp.HostThread) -> None:
        await follow(t, [t.array("ghost", 6, phantom=True)])

    with pytest.raises(omp.IllegalAddress, match="array 'ghost' is a phantom"):
        rig(machine_name="mi300a", configuration="usm").alone(body)
