"""Calls the recorded routines of OpenMP that allocate and copy device memory, on the emulated machine."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Final

import attrs

from offloadrt.address_map import AddressMap
from offloadrt.extensions.recording.format.recording import NONE, Recording, RecordingError, Site
from offloadrt.extensions.recording.format.slots import Box
from offloadrt.extensions.recording.replay.lowered import LoweredProgram
from offloadrt.models import openmp as omp
from offloadrt.models.openmp import DevicePointer, HostArray, HostThread, Section
from offloadrt.runtime.errors import OffloadError

_NOWHERE: Final = 1 << 62
"""Added to addresses of freed device memory, so that a later block at the same place is not taken for it."""


class ReplayRefused(RecordingError):
    """Raised for a replay that needs more than the recording contains."""


Place = HostArray | Section | DevicePointer


class _Mapped(int):
    """A routine's argument that is a device address of a mapped array; `host` is the host address that it copies."""

    host: int

    def __new__(cls, address: int, host: int) -> _Mapped:
        made = super().__new__(cls, address)
        made.host = host
        return made


@attrs.define(eq=False)
class Routines:
    """Calls the recorded OpenMP routines on the emulated machine."""

    _recording: Recording
    _program: LoweredProgram
    _own_device: int | None = None
    """The device of a rank that uses a single one; None: device numbers are those of the recording."""
    _blocks: AddressMap[DevicePointer] = attrs.field(factory=AddressMap)
    """By recorded address: the blocks of omp_target_alloc."""
    _freed: AddressMap[DevicePointer] = attrs.field(factory=AddressMap)
    """By recorded address: blocks of omp_target_alloc that were freed."""
    _at: str = ""
    """The current routine and its line, for messages."""

    async def run(self, t: HostThread, site: Site, items: int, shift_at: Callable[[int], int]) -> None:
        """Call a routine. Raises ReplayRefused if it cannot be replayed or uses memory that is not recorded.

        site, items: the call, and the number of its argument list. shift_at: returns the difference between the address
        of host memory in this run and its recorded address, which it gets.
        """
        routine: Callable[..., Awaitable[object]] | None = getattr(self, f"_{site.call}", None)
        if routine is None:
            raise ReplayRefused(f"{self._recording.name}: {site.where}: calls of {site.call} are not replayed")
        places = self._recording.range_of("items", items)
        base, begin, array = (
            self._recording.columns[f"item.{name}"][places.start : places.stop].tolist()
            for name in ("base", "begin", "array")
        )
        words = [
            _Mapped(address, host + shift_at(host))
            if number != NONE and host != address
            else address + shift_at(address)
            for address, host, number in zip(base, begin, array, strict=True)
        ]
        try:
            inspect.signature(routine).bind(t, *words)
        except TypeError:
            raise ReplayRefused(
                f"{self._recording.name}: {site.where}: {site.call} cannot have {len(words) - 1} arguments"
            ) from None
        self._at = f"{site.call} at {site.where}"
        try:
            await routine(t, *words)
        except LookupError as error:
            raise ReplayRefused(f"{self._recording.name}: {site.where}: {site.call}: {error.args[0]}") from None

    def _is_initial(self, number: int) -> bool:
        """Tell whether a recorded device number is that of the initial device, the number after the last device."""
        return number >= 1 << 31 or number == self._recording.meta.devices

    def _device(self, t: HostThread, number: int) -> int:
        """Return the number on this machine of a recorded device number."""
        if self._is_initial(number):
            return t.omp_get_initial_device()
        return number if self._own_device is None else self._own_device

    def _host(self, address: int, nbytes: int = 1) -> Section:
        array = self._program.at(address)
        if array is None or not array.holds(address, nbytes):
            raise LookupError(f"no array is known at {address:#x} ({nbytes} bytes)")
        return omp.section(array, address - array.address, nbytes)

    def _block(self, address: int) -> DevicePointer:
        found = self._blocks.before(address)
        if found is not None and address <= found[0] + found[1].nbytes:
            return found[1] + (address - found[0])
        if (freed := self._freed_block(address)) is not None:
            return freed
        raise LookupError(f"no block of device memory is known at {address:#x}")

    def _block_or_host(self, t: HostThread, address: int, nbytes: int, device: int) -> Place:
        """Return what lies at an address given for a device: a block, or host memory that the device can access.

        Raises OffloadError if it is a host address that the device cannot access: the program may have swapped the
        devices.
        """
        try:
            return self._block(address)
        except LookupError:
            array = self._program.at(address)
            if array is None:
                raise
        if t.program.devices[device].host_pointers:
            return self._host(address, nbytes)
        why = f"it takes the host's address of {array.name} for one of device {device}: are the two devices swapped?"
        raise OffloadError.now(t.program.sim, why, call=self._at, array=array.name, device=device)

    def _of_host(self, t: HostThread, address: int, offset: int, nbytes: int) -> Section:
        """Return the host memory behind an address. Raises OffloadError if it is an address of device memory."""
        host = address.host if isinstance(address, _Mapped) else address
        is_of_device = host is not address or self.block_at(address + offset) is not None
        if is_of_device and not t.program.devices[0].host_pointers:
            why = "it takes an address of device memory for one of the host: are the two devices swapped?"
            raise OffloadError.now(t.program.sim, why, call=self._at)
        return self._host(host + offset, nbytes)

    def _freed_block(self, address: int) -> DevicePointer | None:
        """Return a pointer to nothing for freed memory, so that its use is reported; None if none was freed there."""
        found = self._freed.before(address)
        if found is None or address > found[0] + found[1].nbytes or found[1].host is not None:
            return None
        return attrs.evolve(found[1], address=_NOWHERE | found[1].address) + (address - found[0])

    def block_at(self, address: int) -> DevicePointer | None:
        """Return the unfreed block of omp_target_alloc that holds a recorded device address; None if there is none."""
        found = self._blocks.before(address)
        return None if found is None or address >= found[0] + found[1].nbytes else found[1]

    def block_used_at(self, address: int, was_freed: bool) -> DevicePointer | None:
        """Return the block of omp_target_alloc that holds a device address which a kernel used; None if none does.

        address: as recorded. was_freed: whether the recorded program had freed the block before. If not, the block is
        returned even if this run, in which threads may take other turns, has freed it.
        """
        block = self.block_at(address)
        found = self._freed.before(address) if block is None and not was_freed else None
        return block if found is None or address >= found[0] + found[1].nbytes else found[1]

    def freed_at(self, address: int) -> int | None:
        """Return the device address in this run of a recorded one in a freed block; None if not freed, 0: unknown."""
        if self.block_at(address) is not None:
            return None
        found = self._freed.before(address)
        return 0 if found is None or address >= found[0] + found[1].nbytes else found[1].address + address - found[0]

    def _place(self, t: HostThread, address: int, offset: int, nbytes: int, device: int) -> Place:
        if self._is_initial(device):
            return self._of_host(t, address, offset, nbytes)
        if not isinstance(address, _Mapped):
            return self._block_or_host(t, address + offset, nbytes, self._device(t, device))
        host = address.host + offset
        if not t.program.num_devices:
            return self._host(host, nbytes)
        device = self._device(t, device)
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
        block = self._blocks.pop(address)
        if block is None:
            await t.omp_target_free(self._freed_block(address))
            return
        self._freed.pop(address)
        self._freed[address] = block
        await t.omp_target_free(block)

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
        for address, device in ((dst + dst_offset, into), (src + src_offset, out_of)):
            array = self._program.at(address) if self._is_initial(device) else None
            if array is not None:  # a copy beyond its end was reported
                length = min(length, array.address + array.nbytes - address)
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

    # the asynchronous routines run in the task that they made
    _omp_target_memcpy_async = _omp_target_memcpy
    _omp_target_memcpy_rect_async = _omp_target_memcpy_rect
    _omp_target_memset_async = _omp_target_memset
