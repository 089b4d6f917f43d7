"""Staging of pageable copies in pinned buffers that a context has for all its streams (``staging.memory``).

What calls of one thread wait for beside another thread's copies shows it, on an H200 with driver 580
(bench/hardware/h200, rows ``beside_pageable``).  Beside a copy to the device, only other such copies wait, for all of
it, unless they are small enough to travel with their command.  Beside a copy from the device, every call waits now and
then, for a part of one: the context lock is held while a piece is transferred and copied.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from offloadrt.driver.cuda.context import Context
from offloadrt.driver.cuda.staging import Steps
from offloadrt.machine import Stream
from offloadrt.machine.host_lock import HostLock, lock_policy
from offloadrt.machine.messages import CopyPacket, Move
from offloadrt.sim import Signal


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
        self.wait = steps.wait
        self._context = context
        self._steps = steps
        self._packet = packet
        self._held = False

    @property
    def broken(self) -> bool:
        return self._steps.broken

    async def submit(
        self, stream: Stream, direction: str, nbytes: int, memory: str, move: Move | None, cause: int, /
    ) -> Signal:
        packet, cost = self._packet(stream, direction, nbytes, memory, move, cause), self._context.costs.copy_submit
        if self._held:
            await self._context.work(cost)
        else:
            await self._context.enter(cost)
            self._held = True
        await self._context.append_in_order(packet)
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
