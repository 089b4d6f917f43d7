"""Address spaces: device memory with its allocator and its bytes, and page tables.  Plain data, without actors or time.

The driver decides what allocations and faults cost, and changes these structures under its locks. Addresses are the
model's, never NumPy's, so that runs are reproducible. ``Holes`` finds free ranges, ``Backing`` keeps the bytes.
"""

from __future__ import annotations

import copy
import math
import mmap
from bisect import bisect_left, bisect_right, insort

import attrs
import numpy as np
import numpy.typing as npt

from offloadrt.address_map import AddressMap
from offloadrt.kernels.memo import Memo

# ---------------------------------------------------------------------- bytes
# Real bytes behind modelled addresses.
#
# NumPy arrays are made when somebody first looks at a range, so memory that only has a size costs nothing. They are
# kept when a block is freed: as on a real machine, a new block holds the bytes that were left where it lies.
Bytes = npt.NDArray[np.uint8]


class Backing:
    """Holds the contents of memory as arrays of bytes, by base address; the arrays do not overlap.

    Unwritten memory holds ``fill`` (0 by default); another value exposes programs that read unwritten memory.
    """

    __slots__ = ("_arrays", "_bases", "_fill")

    def __init__(self, fill: int | None = None) -> None:
        self._arrays: dict[int, Bytes] = {}
        self._bases: list[int] = []
        """The base addresses in order. Making a sorted dictionary instead cost a short run more than it saved."""
        self._fill = 0 if fill is None else fill

    def view(self, address: int, nbytes: int, base: int, size: int) -> Bytes:
        """Return the bytes [address, address + nbytes) of the region [base, base + size).

        The region becomes one array, so that views of its parts share memory.
        """
        array = self._arrays.get(base)
        if array is None or array.size < size:
            array = self._gather(base, size)
        return array[address - base : address - base + nbytes]

    def _gather(self, base: int, size: int) -> Bytes:
        """Make one array for a region, and move into it what older arrays hold of the region.

        The parts of an older array before and behind the region stay unchanged, as arrays of their own.
        """
        array = np.full(size, self._fill, dtype=np.uint8) if self._fill else _zeros(size)
        first = max(bisect_right(self._bases, base) - 1, 0)
        for start in self._bases[first : bisect_left(self._bases, base + size)]:
            piece = self._arrays[start]
            end = start + piece.size
            if end <= base:
                continue
            low, high = max(start, base), min(end, base + size)
            array[low - base : high - base] = piece[low - start : high - start]
            if start < base:
                self._arrays[start] = piece[: base - start]
            else:
                del self._arrays[start]
                del self._bases[bisect_left(self._bases, start)]
            if end > base + size:
                self._add(base + size, piece[base + size - start :])
        self._add(base, array)
        return array

    def _add(self, base: int, array: Bytes) -> None:
        self._arrays[base] = array
        insort(self._bases, base)


_PAGED = 1 << 18
"""Size in bytes from which arrays are mapped from the operating system, which clears each page at its first touch.

NumPy's memory comes from the C library, which may clear all 2 MiB of a segment of which a kernel uses only one line.
"""


def _zeros(size: int) -> Bytes:
    return np.zeros(size, np.uint8) if size < _PAGED else np.frombuffer(mmap.mmap(-1, size, mmap.MAP_PRIVATE), np.uint8)


# ---------------------------------------------------------------------- free ranges
# Free ranges of an address space, for a best-fit allocator.
#
# Best fit, with the lowest address among equal ranges and with neighbours merged, is a choice: CUDA's driver does not
# publish its policy. It decides which addresses blocks get and when a segment becomes empty, but no duration.
class Holes:
    """A set of free address ranges (holes): ``take`` uses the smallest that fits, ``give`` adds a range back."""

    __slots__ = ("_by_address", "_by_size")

    def __init__(self) -> None:
        self._by_address: AddressMap[int] = AddressMap()
        self._by_size: list[tuple[int, int]] = []

    def take(self, size: int) -> int | None:
        """Take ``size`` bytes from the smallest hole that holds them; return their address, or None if none does.

        Among holes of the same size, the lowest is taken.
        """
        index = bisect_left(self._by_size, (size, -1))
        if index == len(self._by_size):
            return None
        extent, address = self._by_size.pop(index)
        self._by_address.pop(address)
        if extent > size:
            self._add(address + size, extent - size)
        return address

    def fits(self, size: int) -> bool:
        """Return whether a hole holds ``size`` bytes."""
        return bool(self._by_size) and self._by_size[-1][0] >= size

    def give(self, address: int, size: int, low: int, high: int) -> tuple[int, int]:
        """Add a free range, merged with the holes beside it in [low, high); return the new hole as (address, size)."""
        end = address + size
        if end < high and (after := self._by_address.get(end)) is not None:
            self.remove(end, after)
            size += after
        if (neighbour := self._by_address.before(address)) is not None:
            before, extent = neighbour
            if before >= low and before + extent == address:
                self.remove(before, extent)
                address, size = before, size + extent
        self._add(address, size)
        return address, size

    def of_size(self, size: int) -> list[int]:
        """Return the addresses of all holes of exactly this size in bytes, ascending."""
        begin, end = bisect_left(self._by_size, (size, -1)), bisect_left(self._by_size, (size + 1, -1))
        return [address for _, address in self._by_size[begin:end]]

    def remove(self, address: int, size: int) -> None:
        """Remove the hole with exactly this address and size."""
        self._by_address.pop(address)
        del self._by_size[bisect_left(self._by_size, (size, address))]

    def _add(self, address: int, size: int) -> None:
        self._by_address[address] = size
        insort(self._by_size, (size, address))


BASE_ADDRESS = 0x7F00_0000_0000
DEVICE_STRIDE = 1 << 40
"""Distance between the address spaces of two devices, so that an address tells which device it belongs to."""
PROCESS_STRIDE = 1 << 48
"""Distance between the address spaces of two processes, so that an address identifies the process."""


class OutOfSegments(Exception):
    """Raised when the allocator finds no memory; the driver library turns this into the error of its call."""


class InvalidDeviceAddress(Exception):
    """Raised for an address range that lies in no allocated block of this device."""


@attrs.frozen
class Block:
    """An allocated block of device memory."""

    address: int
    size: int
    """Requested bytes."""
    phantom: bool
    """Whether the block has a size but no bytes."""
    region: tuple[int, int]
    """(base, size) of the segments that contain the block."""
    extent: int
    """Bytes that the block occupies, a multiple of the alignment."""

    @property
    def is_large(self) -> bool:
        """Tell whether the block has whole memory segments, not shared with smaller blocks."""
        return self.region == (self.address, self.extent)


@attrs.frozen
class DeviceArray:
    """An array in device memory as an argument of a kernel, whose body sees a NumPy view of its bytes."""

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic] = attrs.field(converter=np.dtype)

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


@attrs.define
class _HandedOut:
    """Bytes of a device's memory that the kernel driver has handed out, to all processes."""

    held: int = 0
    managed: int = 0
    peak: int = 0


class DeviceMemory:
    """``capacity`` bytes of memory in segments of ``segment`` bytes; blocks are aligned to ``alignment``.

    ``returns_empty``: whether a shared segment goes back to the kernel driver when its last block is freed; otherwise
    it is held until memory is short (``alloc.empty_segment``). ``fill`` is the value of each unwritten byte; default 0.
    The processes have separate blocks (``of_process``) and share the capacity.

    The allocator follows the observed behaviour of CUDA's driver. Memory comes from the kernel driver in segments of 2
    MiB. A block smaller than a segment shares its segment with others. A larger one has its own, freed with the block.
    """

    __slots__ = (
        "_backing", "_blocks", "_fill", "_handed_out", "_held", "_large", "_returns_empty", "_small", "_top",
        "alignment", "base", "capacity", "segment",
    )  # fmt: skip

    def __init__(
        self,
        index: int,
        capacity: int,
        segment: int,
        alignment: int,
        fill: int | None = None,
        returns_empty: bool = False,
    ) -> None:
        self.base = BASE_ADDRESS + index * DEVICE_STRIDE
        self.capacity = capacity - capacity % segment
        self.segment = segment
        self.alignment = alignment
        self._handed_out = _HandedOut()
        self._fill = fill
        self._returns_empty = returns_empty
        self._blocks: AddressMap[Block] = AddressMap()
        self._small = Holes()
        self._large = Holes()
        self._top = self.base
        self._held = 0
        self._backing = Backing(fill)

    def of_process(self, number: int) -> DeviceMemory:
        """Return the view of this memory for a process, without blocks; no segment has blocks of two processes."""
        memory = copy.copy(self)
        memory.base += number * PROCESS_STRIDE
        memory._blocks, memory._small, memory._large = AddressMap(), Holes(), Holes()
        memory._top, memory._held, memory._backing = memory.base, 0, Backing(self._fill)
        return memory

    def reaches(self, address: int) -> bool:
        """Tell whether an address belongs to this process's part of the address space, allocated or not."""
        return self.base <= address < self.base + DEVICE_STRIDE

    @property
    def managed(self) -> int:
        """Return the bytes of managed pages in this memory: they take space here, but have no addresses here."""
        return self._handed_out.managed

    @property
    def peak(self) -> int:
        """Return the largest number of bytes that all processes together held from the kernel driver."""
        return self._handed_out.peak

    @property
    def used(self) -> int:
        """Return the bytes that this process holds from the kernel driver, in whole segments."""
        return self._held

    @property
    def free_bytes(self) -> int:
        """Return the bytes of device memory that the kernel driver has not handed out."""
        handed_out = self._handed_out
        return self.capacity - handed_out.held - handed_out.managed

    def needs(self, nbytes: int) -> int:
        """Return the bytes that the kernel driver must hand out for a new block; 0 if the block fits in a hole."""
        extent = self._extent(nbytes)
        return 0 if extent < self.segment and self._small.fits(extent) else -(-extent // self.segment) * self.segment

    def has_room(self, nbytes: int) -> bool:
        """Return whether the kernel driver can hand out `nbytes` bytes.

        When memory is short, shared segments without a block are given back first.
        """
        if nbytes <= self.free_bytes:
            return True
        if not self._small.fits(self.segment):
            return False
        self._trim()
        return nbytes <= self.free_bytes

    def take_managed(self, nbytes: int) -> bool:
        """Give `nbytes` bytes to managed memory; return False, and change nothing, when there is no room."""
        if not self.has_room(nbytes):
            return False
        self._handed_out.managed += nbytes
        return True

    def give_managed(self, nbytes: int) -> None:
        """Take `nbytes` bytes back from managed memory."""
        self._handed_out.managed -= nbytes

    @property
    def allocated_bytes(self) -> int:
        """Return the requested bytes of all allocated blocks."""
        return sum(block.size for block in self._blocks)

    def blocks(self) -> list[Block]:
        """Return the allocated blocks in the order of their addresses."""
        return list(self._blocks)

    def allocate(self, nbytes: int, phantom: bool = False) -> tuple[Block, int]:
        """Allocate a block; return it and the number of segments that the kernel driver had to hand out for it.

        A phantom block has an address and a size, but no bytes. Raises OutOfSegments, ValueError for a size below 1.
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
        """Free the block at ``address``; return it and the number of segments that went back to the kernel driver.

        Raises InvalidDeviceAddress when no block begins there.
        """
        block = self._blocks.pop(address)
        if block is None:
            raise InvalidDeviceAddress(f"no block begins at {address:#x}")
        base, size = block.region
        if block.is_large:
            self._release(base, size)
            return block, size // self.segment
        low, extent = self._small.give(address, block.extent, base, base + size)
        if extent < self.segment or not self._returns_empty:
            return block, 0
        self._small.remove(low, extent)
        self._release(base, size)
        return block, 1

    def block_of(self, address: int) -> Block:
        """Return the block that holds ``address``, anywhere within it. Raises InvalidDeviceAddress if none does."""
        if (block := self._blocks.get(address)) is not None:  # nearly always the address at which a block begins
            return block
        if (nearest := self._blocks.before(address)) is not None:
            begin, block = nearest
            if address < begin + block.size:
                return block
        raise InvalidDeviceAddress(f"{address:#x} lies in no allocated block")

    def block_around(self, address: int, nbytes: int) -> Block:
        """Return the block that holds a range of bytes. Raises InvalidDeviceAddress when no block holds all of it."""
        block = self.block_of(address)
        if nbytes < 0 or address + nbytes > block.address + block.size:
            raise InvalidDeviceAddress(f"{nbytes} bytes at {address:#x} reach beyond their block")
        return block

    def begins(self, address: int) -> bool:
        """Return whether a block begins at ``address``."""
        return self._blocks.get(address) is not None

    def is_phantom(self, address: int) -> bool:
        """Tell whether the block that holds ``address`` has no bytes. InvalidDeviceAddress if no block holds it."""
        return self.block_of(address).phantom

    def view(self, address: int, nbytes: int) -> npt.NDArray[np.uint8]:
        """Return the bytes [address, address + nbytes) as a writable NumPy view.

        Raises InvalidDeviceAddress unless they lie in one block, and that block has bytes (is no phantom).
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
        """Return a NumPy view of an array. Raises InvalidDeviceAddress unless it lies in one block that has bytes."""
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
        """Take ``size`` bytes of segments from the kernel driver; return their address. Raises OutOfSegments."""
        if not self.has_room(size):
            raise OutOfSegments
        address = self._large.take(size)
        if address is None:
            address = self._top
            self._top += size
        self._held += size
        handed_out = self._handed_out
        handed_out.held += size
        handed_out.peak = max(handed_out.peak, handed_out.held)
        return address

    def _trim(self) -> None:
        """Give shared segments back that hold no block; done only when memory is short, as CUDA's driver does."""
        for address in self._small.of_size(self.segment):
            self._small.remove(address, self.segment)
            self._release(address, self.segment)

    def _release(self, address: int, size: int) -> None:
        """Give segments back to the kernel driver.

        A hole at the end of the used addresses is dropped, so that addresses do not depend on earlier frees.
        """
        self._held -= size
        self._handed_out.held -= size
        low, extent = self._large.give(address, size, self.base, self._top)
        if low + extent == self._top:
            self._large.remove(low, extent)
            self._top = low


Ranges = tuple[tuple[int, int], ...]
"""(address, bytes) of pieces of host memory."""

_REMEMBERED = 4096
"""Largest number of covered ranges that a table remembers; beyond, it forgets all, so that memory stays bounded."""


class PageTable:
    """A set of pages of ``page_size`` bytes.

    Ranges given to it are rounded out to whole pages; a range of 0 bytes has no pages.

    A table says which pages of host memory a processor can translate. An APU has two tables for one memory: the CPU's
    (pages that the operating system has given to the program) and the GPU's. The table keeps ranges, not pages, so that
    gigabytes cost as much as one page.
    """

    __slots__ = ("_covered", "_ends", "_starts", "_whole", "generation", "page_size", "pages")

    def __init__(self, page_size: int) -> None:
        if page_size < 1:
            raise ValueError(f"pages of {page_size} bytes")
        self.page_size = page_size
        self.pages = 0
        """Number of pages in the table."""
        self.generation = 0
        """Changes whenever a page is removed: a range that is covered stays covered while this number is the same."""
        self._starts: list[int] = []
        self._ends: list[int] = []  # ends[i] belongs to starts[i]; ranges ascend and never touch
        # A program launches the same kernels on the same arrays many times over, so two memories of positive answers
        # pay off: of single ranges, and of whole tuples by identity.  Any removal clears both.
        self._covered: set[tuple[int, int]] = set()
        self._whole: Memo[int, Ranges] = Memo()

    def bounds(self, begin: int, nbytes: int) -> tuple[int, int]:
        """Return (low, high), the whole pages that hold [begin, begin + nbytes). ValueError for a negative size."""
        if nbytes < 0:
            raise ValueError(f"a range of {nbytes} bytes at {begin:#x}")
        size = self.page_size
        low = begin - begin % size
        return low, low if nbytes == 0 else -(-(begin + nbytes) // size) * size

    def missing(self, begin: int, nbytes: int) -> list[tuple[int, int]]:
        """Return the parts of a range that are not in the table, as page-aligned ranges (low, high), ascending."""
        low, high = self.bounds(begin, nbytes)
        starts, ends = self._starts, self._ends
        gaps: list[tuple[int, int]] = []
        index = bisect_right(ends, low)
        while low < high:
            start = starts[index] if index < len(starts) else high
            if start > low:
                gaps.append((low, min(start, high)))
            if start >= high:
                break
            low = ends[index]
            index += 1
        return gaps

    def missing_pages(self, begin: int, nbytes: int) -> int:
        """Return how many pages of a range are not in the table."""
        if self.covers(begin, nbytes):
            return 0
        count = 0
        for low, high in self.missing(begin, nbytes):
            count += (high - low) // self.page_size
        return count

    def covers(self, begin: int, nbytes: int) -> bool:
        """Return whether the table has all pages of a range."""
        if nbytes <= 0:
            self.bounds(begin, nbytes)
            return True
        index = bisect_right(self._starts, begin) - 1
        return index >= 0 and begin + nbytes <= self._ends[index]

    def covers_all(self, ranges: Ranges) -> bool:
        """Return whether the table has all pages of all ranges.

        The answer is quick for ranges of an earlier call, and immediate for the same tuple.
        """
        if self._whole.get(id(ranges)) is ranges:
            return True
        covered = self._covered
        if not covered.issuperset(ranges):
            for begin, nbytes in ranges:
                if not self.covers(begin, nbytes):
                    return False
            if len(covered) > _REMEMBERED:
                covered.clear()
            covered.update(ranges)
        self._whole[id(ranges)] = ranges
        return True

    def insert(self, low: int, high: int) -> int:
        """Add the pages of [low, high); return how many are new."""
        low, high = self.bounds(low, high - low)
        if low == high:
            return 0
        starts, ends = self._starts, self._ends
        first, last = bisect_left(ends, low), bisect_right(starts, high)  # ranges that only touch are merged as well
        new = (high - low - self._held(low, high, first, last)) // self.page_size
        if first < last:
            low, high = min(low, starts[first]), max(high, ends[last - 1])
        starts[first:last], ends[first:last] = [low], [high]
        self.pages += new
        return new

    def remove(self, low: int, high: int) -> int:
        """Remove the pages of [low, high); return how many were in the table."""
        low, high = self.bounds(low, high - low)
        starts, ends = self._starts, self._ends
        first, last = bisect_right(ends, low), bisect_left(starts, high)
        gone = self._held(low, high, first, last) // self.page_size
        if gone:
            left = [(starts[first], low)] if starts[first] < low else []
            right = [(high, ends[last - 1])] if ends[last - 1] > high else []
            starts[first:last] = [start for start, _ in left + right]
            ends[first:last] = [end for _, end in left + right]
            self.pages -= gone
            self.generation += 1
            self._covered.clear()
            self._whole.clear()
        return gone

    def _held(self, low: int, high: int, first: int, last: int) -> int:
        """Return the bytes of [low, high) that lie in the ranges with indices from ``first`` to before ``last``."""
        held = 0
        for index in range(first, last):
            held += max(0, min(self._ends[index], high) - max(self._starts[index], low))
        return held


# ---------------------------------------------------------------------- page faults
# Statistics of kernels' page faults on an APU, and the error when a kernel may not fault.
@attrs.frozen
class AccessFault:
    """An access to a page that the GPU cannot translate, by the kernel `name`, on a `device` (number) without XNACK."""

    address: int
    """The first byte without translation that the kernel accessed in host memory."""
    kernel: int
    """Number of the kernel's launch in the run."""
    name: str
    device: int
    cause: int
    """The directive that launched the kernel."""
    time: float
    """Time of the access, in virtual seconds."""

    def __str__(self) -> str:
        return (
            f"Memory access fault by GPU node-{self.device + 1} on address {self.address:#x}. "
            "Reason: Page not present or supervisor privilege."
        )


class MemoryAccessFault(Exception):
    """Raised when a kernel's access to a page without translation ends the program (XNACK is off).

    The message has the ``fault``, and names ``array`` and the ``thread`` that launched the kernel, if known.
    """

    def __init__(self, fault: AccessFault, array: str = "", thread: str = "") -> None:
        super().__init__(fault, array, thread)
        self.fault, self.array, self.thread = fault, array, thread

    def __str__(self) -> str:
        of = f" of array {self.array!r}" if self.array else ""
        by = f", launched by {self.thread}," if self.thread else ""
        fault = self.fault
        return f"{fault} (kernel {fault.name!r}{by} touched it{of} at {fault.time:.9f} s; XNACK is off)"


@attrs.frozen
class FaultStatistics:
    """Statistics of page faults of a device's kernels; virtual seconds. busy_s + idle_s is the time elapsed."""

    faults: int
    """Number of faults that were handled by mapping at least one page."""
    duplicates: int
    """Number of faults on pages that another actor had mapped before the handler came to them."""
    pages: int
    """Number of pages that were mapped to handle faults."""
    service_s: float
    """Time in which the handler mapped pages."""
    wait_s: float
    """Time that kernels were stalled at faults."""
    violations: int
    """Number of kernels that died because XNACK is off."""
    skip_s: float
    """Time in which the handler dropped faults on other pages of ranges that it had just mapped."""
    idle_s: float

    @property
    def busy_s(self) -> float:
        """Return the virtual seconds in which the handler mapped pages or dropped faults."""
        return self.service_s + self.skip_s
