"""A memory pool of stream-ordered allocations: which of its memory an allocation may get, and what it can give back.

This is data without time.  A pool holds chunks of device memory and hands out ranges of them.  A range that was freed
in a stream belongs at once to later allocations of that stream.  Others may get it when the free has completed, when
their stream is known to come after it, or, if nothing else is left, by waiting for it ("Stream ordered memory
allocator" of CUDA's manual).
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from offloadrt.machine import Stream
from offloadrt.sim import Signal


@attrs.define
class ReusePolicies:
    """Which memory an allocation may get besides that freed in its own stream (cudaMemPoolReuse…)."""

    follow_event_dependencies: bool = True
    """Memory of another stream, when the allocating one has waited for an event recorded behind the free."""
    allow_opportunistic: bool = True
    """Memory of another stream whose free has completed, as the host finds it at the moment of the call."""
    allow_internal_dependencies: bool = True
    """Where no memory is left, that of another stream, for which the allocating one is made to wait."""


@attrs.define
class FreeRange:
    """A range of a pool that nobody has."""

    address: int
    size: int
    chunk: int
    """The address of the chunk in which it lies."""
    stream: Stream | None = None
    """The stream in which it was freed; None when everybody may have it."""
    done: Signal | None = None
    """The memory is really free when this has completed."""
    order: int = 0
    """Which free of its stream it was, from 1."""

    @property
    def is_complete(self) -> bool:
        return self.done is None or self.done.is_set


@attrs.frozen
class PoolAttributes:
    """The memory that a pool holds (cudaMemPoolAttr…), in bytes."""

    reserved: int
    """Memory that it has from the driver."""
    reserved_high: int
    used: int
    """Memory of allocations whose free has not been submitted."""
    used_high: int
    reused: int
    """Allocations that needed no new memory."""
    waited: int
    """Of these, allocations whose stream was made to wait for another stream's free."""


class MemPool:
    """One pool (cudaMemPool_t) of a device.

    release_threshold: bytes that it keeps at a synchronization, even if nobody uses them.
    """

    def __init__(self, number: int, device: int, alignment: int) -> None:
        self.number = number
        self.device = device
        self.release_threshold = 0
        self.policies = ReusePolicies()
        self.destroyed = False
        self._alignment = alignment
        self._chunks: dict[int, int] = {}
        self._free: list[FreeRange] = []
        self._allocated: dict[int, tuple[int, int]] = {}
        self._used = self._used_high = self._reserved_high = 0
        self._reused = self._waited = 0

    @property
    def reserved(self) -> int:
        """Return the bytes that it has from the driver."""
        total = 0
        for size in self._chunks.values():
            total += size
        return total

    def add_chunk(self, address: int, size: int) -> None:
        """Take a chunk of device memory in."""
        self._chunks[address] = size
        self._free.append(FreeRange(address, size, address))
        self._reserved_high = max(self._reserved_high, self.reserved)

    def find(self, nbytes: int, stream: Stream, after: Mapping[int, int]) -> FreeRange | None:
        """Return the smallest range that an allocation of a stream may have at once; None when there is none.

        after: how many frees of other streams the stream comes after, by index of theirs.
        """
        self._settle(self.policies.allow_opportunistic)
        size = self._extent(nbytes)
        fitting = [free for free in self._free if free.size >= size and self._may_have(free, stream, after)]
        return min(fitting, key=lambda free: (free.stream is not stream, free.size, free.address), default=None)

    def find_pending(self, nbytes: int) -> FreeRange | None:
        """Return the range that was freed first of those that are large enough, whoever's it is."""
        size = self._extent(nbytes)
        return next((free for free in self._free if free.size >= size), None)

    def take(self, free: FreeRange, nbytes: int, *, new: bool, waits: bool = False) -> int:
        """Allocate from a range; returns the address."""
        size = self._extent(nbytes)
        address = free.address
        if free.size == size:
            self._free.remove(free)
        else:
            free.address += size
            free.size -= size
        self._allocated[address] = (size, free.chunk)
        self._used += size
        self._used_high = max(self._used_high, self._used)
        self._reused += not new
        self._waited += waits
        return address

    def give(self, address: int, stream: Stream | None, done: Signal | None, order: int) -> bool:
        """Free the allocation at an address; returns False when the pool has none there."""
        size, chunk = self._allocated.pop(address, (0, 0))
        if size:
            self._used -= size
            self._free.append(FreeRange(address, size, chunk, stream, done, order))
        return bool(size)

    def release(self, keep: int) -> list[int]:
        """Give up chunks that nobody uses until at most ``keep`` bytes are left; returns their addresses."""
        self._settle(True)
        whole = [free for free in self._free if free.stream is None and free.size == self._chunks[free.chunk]]
        released: list[int] = []
        for free in whole:
            if self.reserved <= keep:
                break
            self._free.remove(free)
            del self._chunks[free.chunk]
            released.append(free.chunk)
        return released

    def statistics(self) -> PoolAttributes:
        """Return what it holds."""
        return PoolAttributes(
            self.reserved, self._reserved_high, self._used, self._used_high, self._reused, self._waited
        )

    def _may_have(self, free: FreeRange, stream: Stream, after: Mapping[int, int]) -> bool:
        if free.stream is None or free.stream is stream:
            return True
        return self.policies.follow_event_dependencies and after.get(free.stream.index, 0) >= free.order

    def _settle(self, looks: bool) -> None:
        """Join neighbours that one stream or everybody may have.

        looks: ranges whose free has completed become everybody's before.
        """
        for free in self._free:
            if looks and free.is_complete:
                free.stream = free.done = None
        joined: list[FreeRange] = []
        for free in sorted(self._free, key=lambda one: one.address):
            last = joined[-1] if joined else None
            if (
                last is not None
                and last.address + last.size == free.address
                and (last.chunk, last.stream) == (free.chunk, free.stream)
            ):
                last.size += free.size
                if free.order > last.order:
                    last.done, last.order = free.done, free.order
            else:
                joined.append(free)
        self._free = joined

    def _extent(self, nbytes: int) -> int:
        return -(-nbytes // self._alignment) * self._alignment


class FreeClock:
    """Counts the frees of each stream, and keeps for each stream how many of the others' it comes after."""

    __slots__ = ("_before", "_counts")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._before: dict[int, dict[int, int]] = {}

    def count(self, stream: Stream) -> int:
        """Count one more free in a stream; returns its number, from 1."""
        self._counts[stream.index] = self._counts.get(stream.index, 0) + 1
        return self._counts[stream.index]

    def before(self, stream: Stream) -> Mapping[int, int]:
        """Return how many frees of other streams come before what is put into a stream now, by index of theirs."""
        return self._before.get(stream.index, {})

    def at(self, stream: Stream) -> Mapping[int, int]:
        """Return which frees come before a mark that is put into a stream now, its own included."""
        own = {stream.index: frees} if (frees := self._counts.get(stream.index)) else {}
        return {**self.before(stream), **own}

    def follow(self, stream: Stream, mark: Mapping[int, int]) -> None:
        """Let a stream come after a mark."""
        before = self._before.setdefault(stream.index, {})
        for index, frees in mark.items():
            before[index] = max(before.get(index, 0), frees)
