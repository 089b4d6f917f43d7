"""Pinned memory of the host that kernels use in place (zero-copy): mapped for each device from its allocation on.

Under unified addressing, which CUDA and HIP have, pinned memory needs no flag to be mapped.  Kernels fault on none of
its pages, and what they load and store moves over the link, whole sectors at a time, each time that it is used.
"""

from __future__ import annotations

from offloadrt.driver import Driver
from offloadrt.runtime.host_array import HostArray


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
