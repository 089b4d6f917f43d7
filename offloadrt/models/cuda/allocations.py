"""What a CUDA program has allocated, so that a wrong pointer is told with its story."""

from __future__ import annotations

from typing import Any

import attrs

from offloadrt.driver import Driver
from offloadrt.driver.calls import INVALID, DriverCall
from offloadrt.machine import DeviceArray, InvalidDeviceAddress
from offloadrt.machine.memory.device_memory import BASE_ADDRESS, DEVICE_STRIDE
from offloadrt.runtime.host_array import HostArray
from offloadrt.sim import Simulation

ILLEGAL_ADDRESS = "CUDA_ERROR_ILLEGAL_ADDRESS"


def device_of(address: int) -> int:
    """Return the number of the device in whose memory an address lies."""
    return (address - BASE_ADDRESS) // DEVICE_STRIDE


@attrs.frozen
class Freed:
    """Who freed a block, by which call and when."""

    call: str
    thread: str
    time: float

    def __str__(self) -> str:
        return f"was freed by {self.call} ({self.thread} at {self.time:.9f} s)"


class Allocations:
    """The blocks of device memory that a program has freed, and those that it frees in the order of a stream."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._freed: dict[int, Freed] = {}

    def made(self, address: int) -> None:
        """Record that device or managed memory begins at an address from now on."""
        self._freed.pop(address, None)

    def freed(self, call: str, address: int) -> None:
        """Record that the block at an address is no longer the program's."""
        self._freed[address] = Freed(call, self._sim.current.name, self._sim.now)

    def check_free(self, driver: Driver, call: DriverCall, address: int) -> None:
        """Raise DriverError for a block that is freed already, or is another device's."""
        if (story := self._freed.get(address)) is not None:
            raise driver.refusal(call, INVALID, f"{address:#x} {story}")
        if address >= BASE_ADDRESS and device_of(address) != driver.device.index:
            why = f"{address:#x} is memory of device {device_of(address)}, and the current device is another"
            raise driver.refusal(call, INVALID, why)

    def check_use(self, driver: Driver, call: DriverCall, what: str, argument: Any, *, anywhere: bool = False) -> None:
        """Raise DriverError for device memory that is freed, foreign or another device's, and for pageable memory.

        anywhere: memory of other devices is allowed.
        """
        if isinstance(argument, HostArray):
            if argument.freed:
                raise driver.refusal(call, ILLEGAL_ADDRESS, f"{what}, array {argument.name!r}, was freed")
            if not argument.managed and not driver.is_pinned(argument.address, argument.nbytes):
                why = "is pageable memory of the host: a kernel has managed, pinned or device memory here"
                raise driver.refusal(call, ILLEGAL_ADDRESS, f"{what}, array {argument.name!r}, {why}")
        elif isinstance(argument, DeviceArray) and (error := self._misuse(driver, argument, anywhere)) is not None:
            raise driver.refusal(call, ILLEGAL_ADDRESS, f"{what}, {argument.address:#x}, {error}")

    def _misuse(self, driver: Driver, array: DeviceArray, anywhere: bool) -> str | None:
        if (story := self._freed.get(array.address)) is not None:
            return str(story)
        device, devices = device_of(array.address), driver.machine.devices
        if device != driver.device.index and not (anywhere and 0 <= device < len(devices)):
            return f"is memory of device {device}" if 0 <= device < len(devices) else "is no memory of a device"
        try:
            devices[device].memory.block_of(array.address)
        except InvalidDeviceAddress:
            return "lies in no allocated block of the device"
        return None


class MappedMemory:
    """The ranges of pinned memory that kernels have used, by address, with the devices that have them."""

    def __init__(self) -> None:
        self._ranges: dict[int, tuple[int, list[Driver]]] = {}

    def use(self, driver: Driver, array: HostArray) -> None:
        """Let a device's kernels reach an array of pinned memory; do nothing for a managed one."""
        if array.managed or not array.nbytes:
            return
        _, drivers = self._ranges.setdefault(array.address, (array.nbytes, []))
        if driver not in drivers:
            uvm = driver.manage()
            uvm.add(array.address, array.nbytes, populated=True, name=array.name)
            uvm.keep_on_host(array.address, array.nbytes)
            drivers.append(driver)

    def end(self, address: int) -> None:
        """Take the range that begins at an address away from all devices, as it is unpinned."""
        nbytes, drivers = self._ranges.pop(address, (0, []))
        for driver in drivers:
            driver.manage().remove(address, nbytes)
