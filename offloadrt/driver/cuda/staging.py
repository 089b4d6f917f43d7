"""Copies from and to pageable memory: in pieces, through pinned buffers that the stream reuses.

To the device, the calling thread copies a piece into the staging memory, submits its transfer and goes on; when the
staging memory is full it waits for the oldest piece.  The call returns when everything is staged.  From the device,
pieces are transferred into the staging memory and the thread copies each to its place; the call returns when everything
has arrived.  CUDA documents when its calls return ("API synchronization behavior" of its manual), not the size and
number of its buffers: those are entries (``staging.chunk``, ``staging.buffers``).  Each stream has buffers of its own,
unless the context has them for all (``context_staging.py``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

import attrs
import numpy as np

from offloadrt.machine import Stream
from offloadrt.machine.memory.device_memory import Bytes
from offloadrt.machine.messages import Move
from offloadrt.sim import Signal

DeviceBytes = Callable[[int, int], Bytes]
"""Returns, for (offset, n), a view of n bytes of the device's end of a copy."""


class Steps(Protocol):
    """What staging asks of the driver library; ``Copies`` provides it."""

    def submit(
        self, stream: Stream, direction: str, nbytes: int, memory: str, move: Move | None, cause: int, /
    ) -> Awaitable[Signal]:
        """Submit a transfer and return its completion."""

    @property
    def broken(self) -> bool:
        """Tell whether the device moves no bytes any more."""

    def wait(self, stream: Stream, done: Signal, /) -> Awaitable[None]:
        """Wait for a completion in a stream."""

    def host_copy(self, nbytes: int, /) -> Awaitable[None]:
        """Copy within the host."""


@attrs.define(eq=False)
class Staging:
    """The staging memory of one stream: ``capacity`` bytes, used in pieces of at most ``chunk`` bytes."""

    chunk: int
    capacity: int
    used: int = 0
    uploads: deque[tuple[int, Signal]] = attrs.field(factory=deque, repr=False)
    """(bytes, completion) of the pieces on their way to the device, the oldest first."""

    async def upload(
        self,
        steps: Steps,
        stream: Stream,
        cause: int,
        source: Bytes | None,
        target: DeviceBytes | None,
        nbytes: int,
    ) -> None:
        """Copy from the host to the device; ``source`` and ``target`` are None for phantoms."""
        for offset in range(0, nbytes, self.chunk):
            size = min(self.chunk, nbytes - offset)
            while self.uploads and (self.uploads[0][1].is_set or self.used + size > self.capacity):
                oldest, done = self.uploads[0]
                if done.is_set:
                    self.uploads.popleft()
                    self.used -= oldest
                else:  # look again afterwards: another thread with copies in this stream may wait for the same piece
                    await steps.wait(stream, done)
            self.used += size
            move = None
            if source is not None and target is not None:
                # The bytes are those of now: the program may change its array as soon as the call has returned.
                move = _move(source[offset : offset + size].copy(), target, offset)
            try:
                await steps.host_copy(size)
                self.uploads.append((size, await steps.submit(stream, "h2d", size, "staged", move, cause)))
            except BaseException:
                self.used -= size
                raise

    async def download(
        self,
        steps: Steps,
        stream: Stream,
        cause: int,
        target: Bytes | None,
        source: DeviceBytes | None,
        nbytes: int,
    ) -> None:
        """Copy from the device to the host; ``target`` and ``source`` are None for phantoms."""
        # Transfers are submitted as far ahead as the staging memory reaches, so the engine works while the thread
        # copies: a long copy takes the slower of the two, not their sum.
        pieces: deque[tuple[int, int, Bytes | None, Signal]] = deque()
        taken = submitted = 0
        try:
            while pieces or submitted < nbytes:
                size = min(self.chunk, nbytes - submitted)
                if size and (not pieces or self.used + size <= self.capacity):
                    self.used += size
                    taken += size
                    staged = None if source is None or target is None else np.empty(size, dtype=np.uint8)
                    move = None if staged is None or source is None else _fetch(staged, source, submitted)
                    done = await steps.submit(stream, "d2h", size, "staged", move, cause)
                    pieces.append((submitted, size, staged, done))
                    submitted += size
                    continue
                offset, size, staged, done = pieces.popleft()
                if not done.is_set:
                    await steps.wait(stream, done)
                await steps.host_copy(size)
                if target is not None and staged is not None and not steps.broken:
                    target[offset : offset + size] = staged
                self.used -= size
                taken -= size
        finally:
            self.used -= taken


def _move(staged: Bytes, target: DeviceBytes, offset: int) -> Move:
    """Return what moves a staged piece to the device."""

    def move() -> None:
        target(offset, staged.size)[:] = staged

    return move


def _fetch(staged: Bytes, source: DeviceBytes, offset: int) -> Move:
    """Return what moves a piece from the device into the staging memory."""

    def move() -> None:
        staged[:] = source(offset, staged.size)

    return move
