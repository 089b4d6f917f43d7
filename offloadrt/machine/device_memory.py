"""The memory of a device: modelled addresses, a modelled allocator, and real bytes for whoever looks at them.

The allocator works as the CUDA driver is observed to: memory comes from the kernel driver in segments (2 MiB).  A
block smaller than a segment lies in one that it shares with others, and such a segment stays held when its last
block is freed, until memory is short; a larger block has segments of its own, which its free gives back.  Addresses
are the model's, never NumPy's, so runs are reproducible.
"""

from __future__ import annotations

import math

import attrs
import numpy as np
import numpy.typing as npt

from offloadrt.machine.address_map import AddressMap
from offloadrt.machine.backing import Backing
from offloadrt.machine.holes import Holes

BASE_ADDRESS = 0x7F00_0000_0000
DEVICE_STRIDE = 1 << 40
"""Distance between the address spaces of two devices, so that an address tells its device."""


class OutOfSegments(Exception):
    """The allocator has no room; the driver turns this into the error of its call."""


class InvalidDeviceAddress(Exception):
    """An address range that lies in no allocated block of this device."""


@attrs.frozen
class Block:
    """An allocated block."""

    address: int
    size: int
    """Bytes that were asked for."""
    phantom: bool
    region: tuple[int, int]
    """(base, size) of the segments that it lies in."""
    extent: int
    """Bytes that it takes up, a multiple of the alignment."""

    @property
    def is_large(self) -> bool:
        """Whether its segments are its own."""
        return self.region == (self.address, self.extent)


@attrs.frozen
class DeviceArray:
    """An array in device memory, as an argument of a kernel: its body sees a NumPy view of the bytes there."""

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic] = attrs.field(converter=np.dtype)

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


class DeviceMemory:
    """``capacity`` bytes of memory in segments of ``segment`` bytes; blocks are aligned to ``alignment``.

    ``fill`` is the byte that memory holds which nobody has written; default 0.
    """

    __slots__ = (
        "_backing", "_blocks", "_held", "_large", "_small", "_top", "alignment", "base", "capacity", "managed", "peak",
        "segment",
    )  # fmt: skip

    def __init__(self, index: int, capacity: int, segment: int, alignment: int, fill: int | None = None) -> None:
        self.base = BASE_ADDRESS + index * DEVICE_STRIDE
        self.capacity = capacity - capacity % segment
        self.segment = segment
        self.alignment = alignment
        self.peak = 0
        """The most bytes that were held from the kernel driver at one time."""
        self._blocks: AddressMap[Block] = AddressMap()
        self._small = Holes()
        self._large = Holes()
        self._top = self.base
        self._held = 0
        self.managed = 0
        """Bytes that hold pages of managed memory."""
        self._backing = Backing(fill)

    @property
    def used(self) -> int:
        """Bytes held from the kernel driver, in whole segments."""
        return self._held

    @property
    def free_bytes(self) -> int:
        """Bytes that the kernel driver can still give."""
        return self.capacity - self._held - self.managed

    def needs(self, nbytes: int) -> int:
        """Bytes that the kernel driver has to give for a new block of so many; 0 for one that finds a hole."""
        extent = self._extent(nbytes)
        return 0 if extent < self.segment and self._small.fits(extent) else -(-extent // self.segment) * self.segment

    def has_room(self, nbytes: int) -> bool:
        """Whether the kernel driver can give so many bytes; when memory is short, empty shared segments go back."""
        if nbytes <= self.free_bytes:
            return True
        if self._small.fits(self.segment):
            self._trim()
        return nbytes <= self.free_bytes

    def take_managed(self, nbytes: int) -> bool:
        """Give so many bytes to managed memory, if there are any."""
        if not self.has_room(nbytes):
            return False
        self.managed += nbytes
        return True

    def give_managed(self, nbytes: int) -> None:
        """Have them back."""
        self.managed -= nbytes

    @property
    def allocated_bytes(self) -> int:
        """Bytes in allocated blocks, as they were asked for."""
        total = 0
        for block in self._blocks:
            total += block.size
        return total

    def blocks(self) -> list[Block]:
        """The allocated blocks by address."""
        return list(self._blocks)

    def allocate(self, nbytes: int, phantom: bool = False) -> tuple[Block, int]:
        """A new block and the number of segments that had to come from the kernel driver for it.

        A phantom block has an address and a size, but no bytes.  Raises OutOfSegments.
        """
        if nbytes <= 0:
            raise ValueError(f"a block of {nbytes} bytes")
        extent = self._extent(nbytes)
        if extent < self.segment:
            block, new = self._allocate_small(nbytes, extent, phantom)
        else:
            new = -(-extent // self.segment)
            extent = new * self.segment
            base = self._reserve(extent)
            block = Block(base, nbytes, phantom, (base, extent), extent)
        self._blocks[block.address] = block
        return block, new

    def free(self, address: int) -> tuple[Block, int]:
        """Free the block at ``address``; returns it and the number of segments given back.

        Raises InvalidDeviceAddress.
        """
        block = self._blocks.pop(address)
        if block is None:
            raise InvalidDeviceAddress(f"no block begins at {address:#x}")
        base, size = block.region
        if block.is_large:
            self._release(base, size)
            return block, size // self.segment
        self._small.give(address, block.extent, base, base + size)
        return block, 0

    def block_of(self, address: int) -> Block:
        """The block that holds ``address`` (any address within it).  Raises InvalidDeviceAddress."""
        if (block := self._blocks.get(address)) is not None:
            return block
        if (found := self._blocks.before(address)) is not None:
            begin, block = found
            if address < begin + block.size:
                return block
        raise InvalidDeviceAddress(f"{address:#x} lies in no allocated block")

    def begins(self, address: int) -> bool:
        """Whether a block begins at ``address``."""
        return self._blocks.get(address) is not None

    def is_phantom(self, address: int) -> bool:
        """Whether the block that holds ``address`` has no bytes.  Raises InvalidDeviceAddress."""
        return self.block_of(address).phantom

    def view(self, address: int, nbytes: int) -> npt.NDArray[np.uint8]:
        """The bytes [address, address + nbytes), writable.

        Raises InvalidDeviceAddress unless they lie in one block that is no phantom.
        """
        block = self.block_of(address)
        if address + nbytes > block.address + block.size:
            raise InvalidDeviceAddress(
                f"[{address:#x}, {address + nbytes:#x}) reaches beyond the block "
                f"[{block.address:#x}, {block.address + block.size:#x})"
            )
        if block.phantom:
            raise InvalidDeviceAddress(f"the block at {block.address:#x} is a phantom: it has a size but no bytes")
        return self._backing.view(address, nbytes, *block.region)

    def array(self, array: DeviceArray) -> npt.NDArray[np.generic]:
        """A NumPy view of an array in this memory.  Raises InvalidDeviceAddress."""
        return self.view(array.address, array.nbytes).view(array.dtype).reshape(array.shape)

    def _extent(self, nbytes: int) -> int:
        return -(-nbytes // self.alignment) * self.alignment

    def _allocate_small(self, nbytes: int, extent: int, phantom: bool) -> tuple[Block, int]:
        new = 0
        address = self._small.take(extent)
        if address is None:
            base = self._reserve(self.segment)
            self._small.give(base, self.segment, base, base + self.segment)
            new = 1
            address = self._small.take(extent)
            assert address is not None
        base = address - (address - self.base) % self.segment
        return Block(address, nbytes, phantom, (base, self.segment), extent), new

    def _reserve(self, size: int) -> int:
        """Address of ``size`` bytes of segments from the kernel driver."""
        if not self.has_room(size):
            raise OutOfSegments
        address = self._large.take(size)
        if address is None:
            address = self._top
            self._top += size
        self._held += size
        self.peak = max(self.peak, self._held)
        return address

    def _trim(self) -> None:
        """Give shared segments back that hold no block; done only when memory is short."""
        for address in self._small.of_size(self.segment):
            self._small.remove(address, self.segment)
            self._release(address, self.segment)

    def _release(self, address: int, size: int) -> None:
        """Give segments back; the end of the used address range shrinks again."""
        self._held -= size
        low, extent = self._large.give(address, size, self.base, self._top)
        if low + extent == self._top:
            self._large.remove(low, extent)
            self._top = low
