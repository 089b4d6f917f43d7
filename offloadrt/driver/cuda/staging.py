"""Copies from and to pageable memory: in pieces, through pinned buffers.

To the device, the calling thread copies a piece into the staging memory, submits its transfer and goes on; when the
staging memory is full it waits for the oldest piece.  The call returns when everything is staged.  From the device,
pieces are transferred into the staging memory and the thread copies each to its place; the call returns when everything
has arrived.  CUDA documents when its calls return ("API synchronization behavior" of its manual), not the size and
number of its buffers: those are entries (``staging.chunk``, ``staging.buffers``).  Each stream has buffers of its own
(`Staging`), unless the context has them for all (`ContextStaging`, as ``staging.memory`` says).

What calls of one thread wait for beside another thread's copies shows the context's buffers on an H200 with driver 580
(bench/hardware/h200, rows ``beside_pageable``).  Beside a copy to the device, only other such copies wait, for all of
it, unless they are small enough to travel with their command.  Beside a copy from the device, every call waits now and
then, for a part of one: the context lock is held while a piece is transferred and copied.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

import attrs
import numpy as np

from offloadrt.driver.cuda.context import Context
from offloadrt.machine import Stream
from offloadrt.machine.host_lock import HostLock, lock_policy
from offloadrt.machine.memory.device_memory import Bytes
from offloadrt.machine.messages import CopyPacket, Move
from offloadrt.sim import Signal

DeviceBytes = Callable[[int, int], Bytes]
"""Returns, for (offset, n), a view of n bytes of the device's end of a copy."""


class Steps(Protocol):
    """The two steps of staging a piece; ``Copies`` provides them."""

    def submit(
        self, stream: Stream, direction: str, nbytes: int, memory: str, move: Move | None, cause: int, /
    ) -> Awaitable[Signal]:
        """Submit a transfer and return its completion."""

    def host_copy(self, nbytes: int, /) -> Awaitable[None]:
        """Copy within the host."""


@attrs.define(eq=False)
class Staging:
    """The staging memory of one stream: ``capacity`` bytes, used in pieces of at most ``chunk`` bytes."""

    context: Context = attrs.field(repr=False)
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
                    await self.context.wait(stream, done)
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
                    await self.context.wait(stream, done)
                await steps.host_copy(size)
                if target is not None and staged is not None and not self.context.broken:
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


class ContextStaging:
    """The pinned buffers of one context; ``packet`` makes the packet of a transfer."""

    def __init__(self, context: Context, packet: Callable[..., CopyPacket]) -> None:
        machine = context.machine
        self._context = context
        self._packet = packet
        self._uploading = HostLock(
            machine,
            machine.named("staging memory", context.device.index),
            lock_policy(machine.spec.text("driver.handoff")),
            context.costs.handover,
            category="driver",
            wait_category="driver lock",
            uncontended=machine.spec.flag("driver.context.uncontended"),
        )

    def upload(self, nbytes: int, staging: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None]:
        """Stage a copy to the device, one at a time but for small ones."""
        return staging if nbytes <= self._context.costs.staging_inline else holding(self._uploading, staging)

    async def download(self, stream: Stream, steps: Steps, staged: Callable[[Steps], Awaitable[None]]) -> None:
        """Stage a copy from the device, with the context lock from a piece's submission until it is in its place.

        ``staged`` makes the copy of these steps.  What the stream has to do before is waited for without the lock, for
        other threads' calls need it meanwhile.
        """
        if stream.last is not None and not stream.last.is_set:
            await self._context.settled(stream, stream.last)
        locking = _LockingSteps(self._context, steps, self._packet)
        try:
            await staged(locking)
        finally:
            locking.release()


class _LockingSteps:
    """The same steps, but the context lock is held from a submission until the piece is copied."""

    def __init__(self, context: Context, steps: Steps, packet: Callable[..., CopyPacket]) -> None:
        self._context = context
        self._steps = steps
        self._packet = packet
        self._held = False

    async def submit(
        self, stream: Stream, direction: str, nbytes: int, memory: str, move: Move | None, cause: int, /
    ) -> Signal:
        packet, cost = self._packet(stream, direction, nbytes, memory, move, cause), self._context.costs.copy_submit
        if self._held:
            await self._context.work(cost)
        else:
            await self._context.enter(cost)
            self._held = True
        await self._context.append(packet)
        return packet.done

    async def host_copy(self, nbytes: int, /) -> None:
        await self._steps.host_copy(nbytes)
        self.release()

    def release(self) -> None:
        """Give the lock back, if it is held."""
        if self._held:
            self._held = False
            self._context.lock.release()


async def holding(lock: HostLock, work: Coroutine[Any, Any, None]) -> None:
    """Do work that is to be awaited while holding a lock."""
    try:
        await lock.enter(0.0)
    except BaseException:
        work.close()
        raise
    try:
        await work
    finally:
        lock.release()
