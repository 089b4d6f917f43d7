"""The routines of a recorded program: `omp_target_alloc` and its sisters, with the addresses that they had then.

Addresses of device memory are those of the recording machine. Each block of omp_target_alloc is found again by the
address that it was given there, and an address that omp_get_mapped_ptr gave by the host address that it stood for.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

import attrs

from offloadrt.machine.memory.address_map import AddressMap
from offloadrt.models import openmp as omp
from offloadrt.models.openmp import DevicePointer, HostArray, HostThread, LoweredProgram, Section
from offloadrt.recording.format.recording import NONE, Recording, Site
from offloadrt.recording.format.routines import Box
from offloadrt.recording.replay.changes import ReplayRefused

Place = HostArray | Section | DevicePointer


class _Mapped(int):
    """An argument that is an address of the device memory of a mapped array."""

    host: int

    def __new__(cls, address: int, host: int) -> _Mapped:
        made = super().__new__(cls, address)
        made.host = host
        return made


@attrs.define(eq=False)
class Routines:
    """Calls the routines of a recording."""

    _recording: Recording
    _program: LoweredProgram
    _blocks: AddressMap[DevicePointer] = attrs.field(factory=AddressMap)
    """The blocks of omp_target_alloc, by the addresses that were recorded."""

    async def run(self, t: HostThread, site: Site, items: int) -> None:
        """Call a routine. Raises ReplayRefused for one that is not replayed, and for addresses that are not known."""
        routine: Callable[..., Awaitable[object]] | None = getattr(self, f"_{site.call}", None)
        if routine is None:
            raise ReplayRefused(f"{self._recording.name}: {site.where}: calls of {site.call} are not replayed")
        places = self._recording.range_of("items", items)
        base, begin, array = (
            self._recording.columns[f"item.{name}"][places.start : places.stop].tolist()
            for name in ("base", "begin", "array")
        )
        words = [
            _Mapped(address, host) if number != NONE else address
            for address, host, number in zip(base, begin, array, strict=True)
        ]
        try:
            inspect.signature(routine).bind(t, *words)
        except TypeError:
            raise ReplayRefused(
                f"{self._recording.name}: {site.where}: {site.call} cannot have {len(words) - 1} arguments"
            ) from None
        try:
            await routine(t, *words)
        except LookupError as error:
            raise ReplayRefused(f"{self._recording.name}: {site.where}: {site.call}: {error.args[0]}") from None

    def _is_initial(self, number: int) -> bool:
        """Tell whether a recorded number is that of the initial device, which is the one after the last."""
        return number >= 1 << 31 or number == self._recording.meta.devices

    def _device(self, t: HostThread, number: int) -> int:
        """Return a device's number on this machine."""
        return t.omp_get_initial_device() if self._is_initial(number) else number

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

    def block_at(self, address: int) -> DevicePointer | None:
        """Return the block of omp_target_alloc that has an address of the recording; None: none that is there now."""
        found = self._blocks.before(address)
        return None if found is None or address >= found[0] + found[1].nbytes else found[1]

    def _place(self, t: HostThread, address: int, offset: int, nbytes: int, device: int) -> Place:
        if self._is_initial(device):
            return self._host(address + offset, nbytes)
        if not isinstance(address, _Mapped):
            return self._block(address + offset)
        host = address.host + offset
        if not t.program.num_devices:
            return self._host(host, nbytes)
        found = t.program.devices[device].table.lookup(host, nbytes)
        if not found.overlaps or found.pointer.address is None:  # the device uses the host's memory
            return self._host(host, nbytes)
        return DevicePointer(found.pointer.address, nbytes, device, phantom=True)

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
        if length:
            destination = self._place(t, dst, dst_offset, length, into)
            await t.omp_target_memcpy(destination, self._place(t, src, src_offset, length, out_of), length)

    async def _omp_target_memcpy_rect(self, t: HostThread, dst: int, src: int, *rest: int) -> None:
        if not dst and not src:  # asks how many dimensions it may have
            return
        box = Box.of((dst, src, *rest[:-1]))
        if box is None:
            raise LookupError("its dimensions were not recorded; record the program anew")
        to, begin = box.span(box.to_offsets, box.to_dimensions), box.span(box.from_offsets, box.from_dimensions)
        nowhere = (0,) * len(box.volume)
        if to[1]:
            await t.omp_target_memcpy_rect(
                self._place(t, dst, *to, rest[2]), self._place(t, src, *begin, rest[3]), box.element, box.volume,
                nowhere, nowhere, box.to_dimensions, box.from_dimensions,
            )  # fmt: skip

    async def _omp_target_memset(
        self, t: HostThread, address: int, byte: int, nbytes: int, device: int, *rest: int
    ) -> None:
        if self._is_initial(device):
            return
        place = self._place(t, address, 0, nbytes, device)
        if isinstance(place, DevicePointer):
            await t.omp_target_memset(place, byte, nbytes)
        else:  # nothing is copied: the host's own memory is set
            await t.host_access(place)

    # in the task that the routine made
    _omp_target_memcpy_async = _omp_target_memcpy
    _omp_target_memcpy_rect_async = _omp_target_memcpy_rect
    _omp_target_memset_async = _omp_target_memset
