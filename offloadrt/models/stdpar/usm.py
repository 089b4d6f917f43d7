"""SYCL's unified shared memory (USM) of one device: where each kind lies, and what reaching it takes.

Shared USM is, as the machine's profile says (``usm.shared``), managed memory whose pages migrate, host memory that the
device reaches over the link, or memory that host and device have in common. Device memory has bytes of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from offloadrt.driver import NOTHING, OutOfDeviceMemory, Touching, Uvm
from offloadrt.kernels import Launch
from offloadrt.kernels.memo import Memo
from offloadrt.machine import Machine
from offloadrt.models.stdpar.arrays import Memory, UsmArray
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.errors import ArrayOutOfDeviceMemory
from offloadrt.runtime.launch.touching import accesses_of

_WITH_PAGES = ("migrates", "host")
"""Where the device has translations of its own for shared USM."""


class Usm:
    """Allocations are addresses. Calls take the driver's time. Without a device they raise ValueError."""

    def __init__(self, machine: Machine, device: OffloadDevice | None, system: bool = False) -> None:
        """system: does the device fault for all memory of the host (system USM)? ValueError where it cannot."""
        self.device = device
        self.mode = machine.spec.text("usm.shared")
        self.on_prefetch = machine.spec.text("usm.prefetch")
        if system and self.mode == "host":
            raise ValueError(f"system USM on {machine.spec.name}: its device cannot fault (usm.shared = host)")
        self._memories: tuple[Memory, ...] = ("shared", "host", "heap", "stack") if system else ("shared", "host")
        """Kinds of memory of which kernels say what they do with its pages."""
        self._machine = machine
        self._pages = machine.host_memory.pages
        self._touchings: Memo[tuple[int, ...], tuple[Launch, Touching]] = Memo()
        """What launches do with managed memory in these places; a launch is kept, so that its number stays its own."""
        self._host: dict[int, int] = {}
        """Bytes of what `malloc_host` gave, by address."""

    # allocations

    async def malloc_shared(self, nbytes: int, name: str) -> int:
        """Call cuMemAllocManaged, or what is like it; nobody has touched the pages yet. name: of the object."""
        address = await self._device("malloc_shared").plugin.alloc_managed(nbytes, name)
        if self.mode == "host":
            self._uvm.keep_on_host(address, nbytes)
        return address

    async def free_shared(self, address: int) -> None:
        """Call cuMemFree, which waits for the device where the driver does."""
        await self._device("free").plugin.free_managed(address)

    async def malloc_device(self, nbytes: int, phantom: bool, name: str) -> int:
        """Call cuMemAlloc. name: of the object. Raises ArrayOutOfDeviceMemory."""
        try:
            address: int = await self._driver("malloc_device").mem_alloc(nbytes, phantom)
        except OutOfDeviceMemory as failed:
            raise ArrayOutOfDeviceMemory(failed, name) from None
        return address

    async def malloc_host(self, nbytes: int) -> int:
        """Call cuMemAllocHost: pinned memory of the host."""
        address: int = await self._driver("malloc_host").mem_alloc_host(nbytes)
        if self.mode != "one_memory":
            self._manage().add(address, nbytes, True)
            self._uvm.keep_on_host(address, nbytes)
        self._host[address] = nbytes
        return address

    async def free(self, array: UsmArray) -> None:
        """Free USM of any kind. Raises DriverError where none of that kind begins."""
        array.check_host_access(writes=True)
        if array.memory == "device":
            await self._device("free").driver.mem_free(array.address)
        elif array.memory == "host":
            await self._driver("free").mem_free_host(array.address)
            nbytes = self._host.pop(array.address)
            if self.mode != "one_memory":
                self._uvm.remove(array.address, nbytes)
        else:
            await self.free_shared(array.address)
        array.freed = True

    def add_system(self, address: int, nbytes: int) -> None:
        """Add memory of the C library or a stack, which the device may fault for."""
        if self.mode in _WITH_PAGES and "heap" in self._memories:
            self._manage().add(address, nbytes, populated=False)

    # accesses

    async def host_touch(self, array: UsmArray, begin: int = 0, nbytes: int | None = None) -> None:
        """Touch bytes of an array (all of them) from the calling thread: pages that the device owns come back."""
        size = array.nbytes - begin if nbytes is None else nbytes
        if array.memory != "host" and array.memory in self._memories and self.mode in _WITH_PAGES:
            await self._uvm.host_access(array.address + begin, size)
        else:
            self._pages.insert(array.address + begin, array.address + begin + size)

    def touching(self, launch: Launch, arguments: Sequence[Any]) -> Touching:
        """Tell what a kernel does with managed memory; nothing where that lies where the kernel runs."""
        if self.mode not in _WITH_PAGES:
            return NOTHING
        arrays = [argument for argument in arguments if isinstance(argument, UsmArray)]
        key = (id(launch), *[place for array in arrays for place in (array.address, array.nbytes)])
        entry = self._touchings.get(key)
        if entry is None:
            managed = [array.memory in self._memories for array in arrays]
            touching = accesses_of(self._device("kernel").number, launch, (), arguments, arrays, managed)
            entry = self._touchings[key] = (launch, touching)
        return entry[1]

    def view(self, array: UsmArray) -> Any:
        """Return what a kernel sees of an array."""
        if array.memory != "device":
            return array.values
        memory = self._device("kernel").memory
        return memory.view(array.address, array.nbytes).view(array.dtype).reshape(array.shape)

    @property
    def _uvm(self) -> Uvm:
        managed = self._device("shared USM").plugin.managed
        assert managed is not None, "memory of both is there before anybody touches it"
        return managed

    def _manage(self) -> Uvm:
        return self._device("shared USM").plugin.manage()

    def _device(self, call: str) -> OffloadDevice:
        if self.device is None:
            raise ValueError(f"{call}: {self._machine.spec.name} has no device (usm.shared = no_device)")
        return self.device

    def _driver(self, call: str) -> Any:
        return self._device(call).driver
