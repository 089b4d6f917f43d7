"""The routines of a recorded program: `omp_target_alloc` and its sisters, with the addresses that they had then.

Addresses of device memory are those of the recording machine. Each block of omp_target_alloc is found again by the
address that it was given there, and an address that omp_get_mapped_ptr gave by the host address that it stood for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs

from offloadrt.machine.memory.address_map import AddressMap
from offloadrt.models import openmp as omp
from offloadrt.models.openmp import DevicePointer, HostArray, HostThread, LoweredProgram, Section
from offloadrt.recording.format.recording import Recording, Site
from offloadrt.recording.replay.changes import ReplayRefused

Place = HostArray | Section | DevicePointer


@attrs.define(eq=False)
class Routines:
    """Calls the routines of a recording."""

    _recording: Recording
    _program: LoweredProgram
    _blocks: AddressMap[DevicePointer] = attrs.field(factory=AddressMap)
    """By recorded address."""

    async def run(self, t: HostThread, site: Site, items: int) -> None:
        """Call a routine. Raises ReplayRefused for one that is not replayed, and for addresses that are not known."""
        routine: Callable[..., Awaitable[object]] | None = getattr(self, f"_{site.call}", None)
        if routine is None:
            raise ReplayRefused(f"{self._recording.name}: {site.where}: calls of {site.call} are not replayed")
        places = self._recording.range_of("items", items)
        words = self._recording.columns["item.base"][places.start : places.stop].tolist()
        try:
            await routine(t, *words)
        except LookupError as error:
            raise ReplayRefused(f"{self._recording.name}: {site.where}: {site.call}: {error.args[0]}") from None

    def _device(self, t: HostThread, number: int) -> int:
        """Return a device's number here: the initial device is the one after the last, on every machine."""
        if number >= 1 << 31 or number == self._recording.meta.devices:
            return len(t.program.devices)
        return number

    def _host(self, address: int, nbytes: int = 1) -> Section:
        array = self._program.at(address)
        if array is None or not array.holds(address, nbytes):
            raise LookupError(f"no array is known at {address:#x} ({nbytes} bytes)")
        return omp.section(array, address - array.address, nbytes)

    def _block(self, address: int) -> DevicePointer:
        found = self._blocks.before(address)
        if found is None or address > found[0] + found[1].nbytes:
            raise LookupError(f"no block of device memory is known at {address:#x}")
        return found[1] + (address - found[0])

    def _place(self, t: HostThread, address: int, nbytes: int, device: int) -> Place:
        if self._device(t, device) == len(t.program.devices):
            return self._host(address, nbytes)
        return self._block(address)

    # the routines, with C's arguments and the recorded result

    async def _omp_target_alloc(self, t: HostThread, nbytes: int, device: int, *rest: int) -> None:
        pointer = await t.omp_target_alloc(nbytes, self._device(t, device))
        if pointer is not None and rest[-1]:
            self._blocks.pop(rest[-1])
            self._blocks[rest[-1]] = pointer

    async def _omp_target_free(self, t: HostThread, address: int, device: int, *rest: int) -> None:
        await t.omp_target_free(self._blocks.pop(address))

    async def _omp_get_mapped_ptr(self, t: HostThread, address: int, device: int, *rest: int) -> None:
        array = self._program.at(address)
        if array is None or not array.holds(address, 1):
            return  # nothing is mapped there, and a search of the table for it is not worth a guess of its array
        place = omp.section(array, address - array.address)
        pointer = await t.omp_get_mapped_ptr(place, self._device(t, device))
        if pointer is not None and rest[-1]:
            self._blocks.pop(rest[-1])
            self._blocks[rest[-1]] = pointer

    async def _omp_target_is_present(self, t: HostThread, address: int, device: int, *rest: int) -> None:
        if self._program.at(address) is not None:
            await t.omp_target_is_present(self._host(address), self._device(t, device))

    async def _omp_target_is_accessible(
        self, t: HostThread, address: int, nbytes: int, device: int, *rest: int
    ) -> None:
        if self._program.at(address) is not None:
            await t.omp_target_is_accessible(self._host(address), nbytes, self._device(t, device))

    async def _omp_target_associate_ptr(
        self, t: HostThread, host: int, block: int, nbytes: int, offset: int, device: int, *rest: int
    ) -> None:
        await t.omp_target_associate_ptr(
            self._host(host, nbytes), self._block(block), nbytes, offset, self._device(t, device)
        )

    async def _omp_target_disassociate_ptr(self, t: HostThread, host: int, device: int, *rest: int) -> None:
        await t.omp_target_disassociate_ptr(self._host(host), self._device(t, device))

    async def _omp_target_memcpy(
        self, t: HostThread, dst: int, src: int, length: int, dst_offset: int, src_offset: int, into: int, out_of: int,
        *rest: int,
    ) -> None:  # fmt: skip
        destination = self._place(t, dst + dst_offset, length, into)
        await t.omp_target_memcpy(destination, self._place(t, src + src_offset, length, out_of), length)

    _omp_target_memcpy_async = _omp_target_memcpy
    """It waits here; the recorded order of its dependences is not known."""

    async def _omp_target_memset(
        self, t: HostThread, address: int, byte: int, nbytes: int, device: int, *rest: int
    ) -> None:
        if self._device(t, device) != len(t.program.devices):
            await t.omp_target_memset(self._block(address), byte, nbytes)
