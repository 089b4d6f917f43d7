"""The calls of CUDA's driver library that copy, from and to the host, within a device and between devices.

Copy engines reach page-locked (pinned) memory themselves. Pageable memory is staged (``Staging``), or its pages are
locked for the copy, as HIP's library does. On a device that uses the host's page table, the engines reach pageable
memory, too (``ats.copies``). When both ends have bytes, the bytes move at the copy's completion in virtual time. A
transfer ends up as a ``CopyPacket`` in a stream; ``machine/queues.py`` takes it from there.

As in CUDA, a copy uses the link of two devices only when its context has enabled access to the other device; otherwise,
or without a link, the driver stages the copy (`PeerRelay`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

import attrs
import numpy as np

from offloadrt.driver.calls import INVALID, DriverError, driver_lock
from offloadrt.driver.cuda.context import UNSUPPORTED, Context
from offloadrt.machine import DeviceMemory, InvalidDeviceAddress, Peers, Stream
from offloadrt.machine.host_lock import HostLock, lock_policy
from offloadrt.machine.links.link import Link, Shared, Way
from offloadrt.machine.memory import Bytes
from offloadrt.machine.messages import CopyPacket, Move, PeerPacket
from offloadrt.sim import Signal

DeviceBytes = Callable[[int, int], Bytes]
"""Returns, for (offset, n), a view of n bytes of the device's end of a copy."""


class Steps(Protocol):
    """The two steps by which one piece of a copy passes through staging memory (a pinned buffer); `Copies` has them."""

    def submit(
        self, stream: Stream, direction: str, nbytes: int, memory: str, move: Move | None, cause: int, /
    ) -> Awaitable[Signal]:
        """Submit a transfer (h2d, d2h) for directive ``cause``; return its completion, at which ``move`` runs.

        memory: the kind of the host memory, such as ``staged``.
        """

    def host_copy(self, nbytes: int, /) -> Awaitable[None]:
        """Copy ``nbytes`` bytes between the program's memory and a pinned buffer."""


@attrs.define(eq=False)
class Staging:
    """The staging memory of one stream: ``used`` of ``capacity`` bytes hold pieces of at most ``chunk`` bytes.

    To the device, the calling thread copies a piece into the staging memory, submits its transfer and goes on; when the
    staging memory is full it waits for the oldest piece. The call returns when everything is staged. From the device,
    pieces are transferred into the staging memory and the thread copies each to its place; the call returns when
    everything has arrived. CUDA documents when its calls return ("API synchronization behavior" of its manual), not the
    size and number of its buffers: those are profile entries (``staging.chunk``, ``staging.buffers``). Each stream has
    its own, unless the context has some for all (`ContextStaging`). cause, in its methods: the directive's number.
    """

    context: Context = attrs.field(repr=False)
    chunk: int
    capacity: int
    used: int = 0
    uploads: deque[tuple[int, Signal]] = attrs.field(factory=deque, repr=False)
    """(bytes, completion) of the pieces on their way to the device, the oldest first."""

    async def upload(
        self, steps: Steps, stream: Stream, cause: int, source: Bytes | None, target: DeviceBytes | None, nbytes: int
    ) -> None:
        """Copy ``nbytes`` from host ``source`` to device ``target`` (None: no data) by ``steps``, piece by piece."""
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
            # The bytes are those of now: the program may change its array as soon as the call has returned.
            staged = None if source is None else source[offset : offset + size].copy()
            move = _moving("h2d", staged, target, size, offset)
            try:
                await steps.host_copy(size)
                self.uploads.append((size, await steps.submit(stream, "h2d", size, "staged", move, cause)))
            except BaseException:
                self.used -= size
                raise

    async def download(
        self, steps: Steps, stream: Stream, cause: int, target: Bytes | None, source: DeviceBytes | None, nbytes: int
    ) -> None:
        """Copy ``nbytes`` from device ``source`` to host ``target`` (None: no data) by ``steps``, piece by piece."""
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
                    move = _moving("d2h", staged, source, size, submitted)
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


class ContextStaging:
    """The pinned buffers of one context; ``packet`` makes the packet of a transfer.

    How long one thread's calls wait for another thread's copies, as measured on an H200 with driver 580
    (bench/hardware/h200, rows ``beside_pageable``), shows that the context has such buffers. A pageable copy to the
    device makes only other such copies wait until it has ended, except small ones that travel within their command. A
    copy from the device makes every call wait at times for a part of that copy: the context lock is held while a piece
    is transferred and copied.
    """

    def __init__(self, context: Context, packet: Callable[..., CopyPacket]) -> None:
        machine = context.machine
        self._context = context
        self._packet = packet
        name = machine.named("staging memory", context.device.index)
        self._uploading = driver_lock(machine, name, "driver.context.uncontended")

    def upload(self, nbytes: int, staging: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None]:
        """Copy to the device through pinned buffers by awaiting `staging`; only one such copy runs at a time.

        Copies of few bytes (``staging_inline``) do not wait for others.
        """
        return staging if nbytes <= self._context.costs.staging_inline else holding(self._uploading, staging)

    async def download(self, stream: Stream, steps: Steps, staged: Callable[[Steps], Awaitable[None]]) -> None:
        """Copy from the device through pinned buffers; each piece is submitted and copied under the context lock.

        ``staged`` makes the copy, piece by piece, with the two steps (`Steps`) that it is given. No lock is held while
        this waits for earlier commands of the stream, because other threads' calls need the lock meanwhile.
        """
        if stream.last is not None and not stream.last.is_set:
            await self._context.settled(stream, stream.last)
        locking = _LockingSteps(self._context, steps, self._packet)
        try:
            await staged(locking)
        finally:
            locking.release()


class _LockingSteps:
    """Steps that hold the context lock from a piece's submission until the piece is copied."""

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
        """Release the lock, if this object holds it."""
        if self._held:
            self._held = False
            self._context.lock.release()


async def holding(lock: HostLock, work: Coroutine[Any, Any, None]) -> None:
    """Take a lock, await the coroutine ``work``, and release the lock; close ``work`` if the lock cannot be taken."""
    try:
        await lock.enter(0.0)
    except BaseException:
        work.close()
        raise
    try:
        await work
    finally:
        lock.release()


_PAGEABLE = "its host memory is pageable, whose staging is not emulated in graphs"


class HostRange(Protocol):
    """The host's end of a copy: an address range and its ``bytes``, which are None for a phantom (without data)."""

    @property
    def address(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def bytes(self) -> Bytes | None: ...


class Copies:
    """The copies of one device's context from and to the host, and within the device.

    All of them raise DriverError when the device's range lies in no block. ``dst``, ``src``: device addresses or host
    ranges; ``cause``: the number of the directive.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._process = context.process
        self._locking = context.process.locking
        self._sim = context.sim
        self._next_number = context.machine.next_number
        self._memory = context.device.memory
        self._host_memory = context.machine.host_memory
        self._cost = context.costs.copy_submit
        self._reaches_pageable = context.costs.copies_pageable
        self._staging: dict[int, tuple[Staging, Staging]] = {}
        per_byte = context.costs.staging_copy_per_byte
        self._copy_rate = 1.0 / per_byte if per_byte else None
        self.buffer: HostLock | None = None
        """The lock of the device's pinned buffer, which stages one copy at a time; None: copies exclude no others."""
        shares = context.costs.staging_memory == "context"
        self._shared = ContextStaging(context, self.packet) if shares else None
        """The context's pinned buffers; None if each stream has its own."""

    def open(self, stream: Stream) -> None:
        """Make the staging memory (pinned buffers) of a stream."""
        chunk, buffers = self._context.costs.staging_chunk, self._context.costs.staging_buffers
        self._staging[stream.index] = (
            Staging(self._context, chunk, chunk * buffers),
            Staging(self._context, chunk, chunk * buffers),
        )

    def share_buffer(self) -> None:
        """Copy only one piece of pageable memory at a time, over all streams, through one pinned buffer."""
        machine = self._context.machine
        self.buffer = HostLock(
            machine,
            machine.named("pinned buffer", self._context.device.index),
            lock_policy(machine.spec.text("table.handoff")),
            machine.spec.value("table.handover"),
            category="runtime",
            wait_category="driver lock",
            uncontended=machine.spec.flag("acc.pinned_buffer.uncontended"),
        )

    def close(self, stream: Stream) -> None:
        """Remove the staging memory (pinned buffers) of a stream."""
        del self._staging[stream.index]

    async def htod(
        self, dst: int, src: HostRange, nbytes: int, stream: Stream, cause: int | None = None, pinned: bool = False
    ) -> None:
        """Copy from the host to the device (cuMemcpyHtoDAsync) for directive number ``cause``.

        Pinned memory is read when the copy completes, pageable memory before the call returns. pinned: the caller
        knows that the memory is pinned; otherwise the driver finds out.
        """
        with self._context.call("cuMemcpyHtoDAsync", stream, cause) as call:
            call.takes(bytes=nbytes, address=dst)
            target, source, address = self.device_bytes(call.api, dst, nbytes), src.bytes, src.address
            # A program has written what it copies, even where the emulated one does not, as for a phantom.
            if not (pages := self._host_memory.pages).covers(address, nbytes):
                pages.insert(address, address + nbytes)
            if pinned or self._is_pinned(address, nbytes):
                move = _moving("h2d", source, target, nbytes)
                await self.submit(stream, "h2d", nbytes, "pinned", move, call.cause, self._over(address, "h2d"))
            elif self._goes_in_place(call.api, stream, nbytes):
                await self._in_place(stream, "h2d", address, nbytes, source, target, call.cause)
            else:
                steps = self._steps(address, to_device=True)
                upload = self._staging[stream.index][0].upload(steps, stream, call.cause, source, target, nbytes)
                await self._in_buffer(upload if self._shared is None else self._shared.upload(nbytes, upload))

    async def dtoh(
        self, dst: HostRange, src: int, nbytes: int, stream: Stream, cause: int | None = None, pinned: bool = False
    ) -> None:
        """Copy from the device to the host (cuMemcpyDtoHAsync) for directive number ``cause``.

        Pinned memory is written when the copy completes, pageable memory before the call returns. pinned: the caller
        knows that the memory is pinned; otherwise the driver finds out.
        """
        with self._context.call("cuMemcpyDtoHAsync", stream, cause) as call:
            call.takes(bytes=nbytes, address=src)
            source, target, address = self.device_bytes(call.api, src, nbytes), dst.bytes, dst.address
            if pinned or self._is_pinned(address, nbytes):
                move = _moving("d2h", target, source, nbytes)
                await self.submit(stream, "d2h", nbytes, "pinned", move, call.cause, self._over(address, "d2h"))
                return
            await self._host_memory.populate(address, nbytes)
            if self._goes_in_place(call.api, stream, nbytes):
                await self._in_place(stream, "d2h", address, nbytes, target, source, call.cause)
            else:
                staging, shared = self._staging[stream.index][1], self._shared

                def download(steps: Steps) -> Coroutine[Any, Any, None]:
                    return staging.download(steps, stream, call.cause, target, source, nbytes)

                steps = self._steps(address, to_device=False)
                await self._in_buffer(download(steps) if shared is None else shared.download(stream, steps, download))

    async def dtod(self, dst: int, src: int, nbytes: int, stream: Stream, cause: int | None = None) -> None:
        """Copy within the device (cuMemcpyDtoDAsync) for directive number ``cause``."""
        with self._context.call("cuMemcpyDtoDAsync", stream, cause) as call:
            call.takes(bytes=nbytes, address=dst)
            await self.within(call.api, dst, src, nbytes, stream, call.cause)

    def _is_pinned(self, address: int, nbytes: int) -> bool:
        return self._process.pinned_for(self._context.number).covers(address, nbytes)

    def _over(self, address: int, direction: str) -> Shared | None:
        """Return the path of a transfer between the device and another socket's memory; None for near memory."""
        machine, device = self._context.machine, self._context.device
        link = machine.sockets.link(address, device.local, to_device=direction == "h2d")
        engine = device.engines[direction]
        return None if link is None else Way(self._sim, link.name, (engine.share_link(), link))

    def _steps(self, address: int, *, to_device: bool) -> Steps:
        """Return the staging steps; for another socket's memory, host copies pass the link between the sockets."""
        link = self._context.machine.sockets.link(address, self._context.device.local, to_device=to_device)
        return self if link is None else _FarSteps(self, link)

    def _in_buffer(self, staging: Coroutine[Any, Any, None]) -> Awaitable[None]:
        """Stage a copy; where all threads share one pinned buffer, it excludes their copies."""
        # Pieces that are still under way leave the buffer's lock to the next copy: their memory is that of the stream,
        # so that a thread alone copies as it would without the buffer.
        return staging if self.buffer is None else holding(self.buffer, staging)

    def host_copy(self, nbytes: int, over: Shared | None = None) -> Awaitable[None]:
        """Copy to or from a pinned buffer on the thread's core. over: the link to another socket's memory, if any."""
        return self._context.machine.host_memory.copy(nbytes, over=over, rate=self._copy_rate)

    async def _in_place(
        self,
        stream: Stream,
        direction: str,
        address: int,
        nbytes: int,
        host: Bytes | None,
        device: DeviceBytes | None,
        cause: int,
    ) -> None:
        """Copy directly from or to the program's pages, piece by piece, and wait for each piece.

        The pages of a piece are locked for its transfer, unless engines reach pageable memory. When a call that copies
        pageable memory returns, the host may reuse the memory, and here nothing else holds the bytes.
        """
        locks, over = not self._reaches_pageable, self._over(address, direction)
        most = self._locking.spec.piece if locks else max(1, nbytes)
        for offset in range(0, nbytes, most):
            size = min(most, nbytes - offset)
            move = _moving(direction, None if host is None else host[offset:], device, size, offset)
            if locks:
                await self._locking.lock(size)
            memory = "pinned" if locks else "pageable"
            await self._context.wait(stream, await self.submit(stream, direction, size, memory, move, cause, over))
            if locks:
                await self._locking.unlock()

    def within(self, api: str, dst: int, src: int, nbytes: int, stream: Stream, cause: int) -> Awaitable[object]:
        """Submit a copy within the device for the call named ``api``; return, when awaited, the copy's completion."""
        return self.submit(stream, "d2d", nbytes, "device", self._moving_within(api, dst, src, nbytes), cause)

    def _moving_within(self, api: str, dst: int, src: int, nbytes: int) -> Move | None:
        target, source = self.device_bytes(api, dst, nbytes), self.device_bytes(api, src, nbytes)
        return _moving_between(source, target, nbytes)

    def submit(
        self,
        stream: Stream,
        direction: str,
        nbytes: int,
        memory: str,
        move: Move | None,
        cause: int,
        over: Shared | None = None,
    ) -> Awaitable[Signal]:
        """Submit one transfer; return its completion. The method `packet` explains the arguments."""
        return self._context.submit(self.packet(stream, direction, nbytes, memory, move, cause, over), self._cost)

    def packet(
        self,
        stream: Stream,
        direction: str,
        nbytes: int,
        memory: str,
        move: Move | None,
        cause: int,
        over: Shared | None = None,
    ) -> CopyPacket:
        """Return the packet of one transfer, in the ``direction`` h2d, d2h or d2d.

        memory: the kind of memory at the other end, such as ``pinned``. move: moves the bytes when the transfer ends;
        None without bytes. cause: the directive's number. over: the path to take; None: the device's link to the host.
        """
        number = self._next_number()
        done = Signal(self._sim, f"copy {number} ({direction})")
        return CopyPacket(number, stream, cause, direction, nbytes, memory, move, done, over)

    def of_node(
        self, api: str, to: HostRange | int, begin: HostRange | int, nbytes: int, stream: Stream, cause: int
    ) -> CopyPacket:
        """Return the packet of a graph's copy from ``begin`` to ``to``, each a device address (int) or a host range.

        stream, cause: a stream and a directive's number that stand for those of a later launch. Raises DriverError, in
        the name of the call ``api``, for pageable memory.
        """
        for end in (to, begin):
            if not isinstance(end, int) and not self._is_pinned(end.address, nbytes):
                raise DriverError(api, UNSUPPORTED, _PAGEABLE)
        if isinstance(to, int) and isinstance(begin, int):
            return self.packet(stream, "d2d", nbytes, "device", self._moving_within(api, to, begin, nbytes), cause)
        if isinstance(to, int):
            assert not isinstance(begin, int)
            move = _moving("h2d", begin.bytes, self.device_bytes(api, to, nbytes), nbytes)
            return self.packet(stream, "h2d", nbytes, "pinned", move, cause)
        assert isinstance(begin, int)
        move = _moving("d2h", to.bytes, self.device_bytes(api, begin, nbytes), nbytes)
        return self.packet(stream, "d2h", nbytes, "pinned", move, cause)

    def _goes_in_place(self, api: str, stream: Stream, nbytes: int) -> bool:
        """Tell whether a copy of pageable memory goes without staging. Raises DriverError in a capturing stream."""
        if (capture := self._context.captures.streams.get(stream)) is not None:
            violation = self._context.captures.invalidate(capture, UNSUPPORTED, _PAGEABLE)
            raise DriverError(api, violation.code, violation.why)
        return self._reaches_pageable or self._locking.takes(nbytes)

    def device_bytes(
        self, api: str, address: int, nbytes: int, memory: DeviceMemory | None = None
    ) -> DeviceBytes | None:
        """Return a function that views the bytes of a range of this device or of ``memory``; None if it has no data.

        The view is made at the copy's completion, because the array behind an older view may be replaced (``Backing``).
        Raises DriverError, in the name of ``api``, when the range does not lie in one block.
        """
        memory = memory or self._memory
        try:
            block = memory.block_around(address, nbytes)
        except InvalidDeviceAddress as error:
            raise DriverError(api, INVALID, str(error)) from None
        return None if block.phantom else lambda offset, size: memory.view(address + offset, size)


class _FarSteps:
    """Staging steps for memory of another socket, whose host copies pass the link between the sockets."""

    def __init__(self, copies: Copies, link: Link) -> None:
        self._copies = copies
        self._link = link

    def submit(
        self, stream: Stream, direction: str, nbytes: int, memory: str, move: Move | None, cause: int, /
    ) -> Awaitable[Signal]:
        return self._copies.submit(stream, direction, nbytes, memory, move, cause)

    def host_copy(self, nbytes: int, /) -> Awaitable[None]:
        return self._copies.host_copy(nbytes, over=self._link)


def _moving(
    direction: str, host: Bytes | None, device: DeviceBytes | None, nbytes: int, offset: int = 0
) -> Move | None:
    """Return the function that moves the first bytes of ``host`` to or from the device's ``offset``; None for phantoms.

    It is to be called when the transfer completes.
    """
    there = None if device is None else lambda _, size: device(offset, size)
    here = None if host is None else lambda _, size: host[:size]
    return _moving_between(here, there, nbytes) if direction == "h2d" else _moving_between(there, here, nbytes)


def _moving_between(source: DeviceBytes | None, target: DeviceBytes | None, nbytes: int) -> Move | None:
    """Return the function that moves a copy's bytes, to be called when the copy completes; None for phantoms."""
    if source is None or target is None:
        return None

    def move() -> None:
        target(0, nbytes)[:] = source(0, nbytes)

    return move


class PeerCopies:
    """The copies of one device's context to and from other devices, and its access to them."""

    def __init__(self, context: Context, copies: Copies) -> None:
        self._context = context
        self._copies = copies
        self._sim = context.sim
        self._number = context.device.local
        self._machine = context.machine
        self._devices = context.machine.devices
        self._next_number = context.machine.next_number
        self._names = [f"device {device.index}" for device in context.machine.devices]
        self.enabled: set[int] = set()

    async def copy(
        self,
        stream: Stream,
        cause: int | None,
        dst_device: int,
        dst_address: int,
        src_device: int,
        src_address: int,
        nbytes: int,
    ) -> None:
        """Copy ``nbytes`` between two devices (cuMemcpyPeerAsync), by the engine of the device whose stream is given.

        The copy uses the devices' link if this context has enabled access to the other device, and else goes through
        the host. If there is no link, ``p2p.without_link`` says how it goes. cause: the directive's number. Raises
        DriverError for a device that does not exist, for a third device's stream, and when a range lies in no block.
        """
        with self._context.call("cuMemcpyPeerAsync", stream, cause) as call:
            api = call.api
            call.takes(bytes=nbytes, address=dst_address, to_device=dst_device)
            if dst_device == src_device == self._number:
                await self._copies.within(api, dst_address, src_address, nbytes, stream, call.cause)
                return
            self._check(api, dst_device)
            peers = self._check(api, src_device)
            if self._number not in (dst_device, src_device):
                reason = f"a copy from device {src_device} to {dst_device} in a stream of device {self._number}"
                raise DriverError(api, INVALID, reason)
            target = self._copies.device_bytes(api, dst_address, nbytes, self._devices[dst_device].memory)
            source = self._copies.device_bytes(api, src_address, nbytes, self._devices[src_device].memory)
            move = _moving_between(source, target, nbytes)
            peer = src_device if dst_device == self._number else dst_device
            route = peers.route(src_device, dst_device, peer in self.enabled)
            packet: CopyPacket | PeerPacket
            if route.link is None:
                done = Signal(self._sim, f"copy of {nbytes} bytes from device {src_device} to {dst_device}")
                packet = PeerPacket(stream, call.cause, src_device, dst_device, route.via, nbytes, move, done)
            else:
                number = self._next_number()
                done = Signal(self._sim, f"copy {number} (p2p)")
                packet = CopyPacket(
                    number, stream, call.cause, "p2p", nbytes, self._names[dst_device], move, done, route.link
                )
            await self._context.submit(packet, self._context.costs.copy_submit)

    async def can_access(self, peer: int) -> bool:
        """Tell whether this device can access device ``peer`` (cuDeviceCanAccessPeer). DriverError if there is none."""
        with self._context.call("cuDeviceCanAccessPeer") as call:
            return self._check(call.api, peer).can_access(self._number, peer)

    async def enable_access(self, peer: int) -> None:
        """Let copies, and managed memory, use the link to another device from now on (cuCtxEnablePeerAccess).

        Raises DriverError when there is no link, and when access is enabled already.
        """
        with self._context.call("cuCtxEnablePeerAccess") as call:
            await self._context.locked_work(self._context.costs.enable_peer_access)
            if peer == self._number or not self._check(call.api, peer).can_access(self._number, peer):
                why = f"device {self._number} has no link to {peer}"
                raise DriverError(call.api, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", why)
            if peer in self.enabled:
                why = f"device {self._number} has access to {peer}"
                raise DriverError(call.api, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", why)
            self.enabled.add(peer)
        self._context.kernel_driver.space.enable_peer(self._number, peer)

    def _check(self, api: str, device: int) -> Peers:
        """Return the machine's peers, after a check that ``device`` is one of them. Raises DriverError."""
        peers, count = self._machine.peers, len(self._devices)
        if peers is None or device not in range(count):
            reason = f"no device {device}; the program has devices 0 to {count - 1}"
            raise DriverError(api, "CUDA_ERROR_INVALID_DEVICE", reason)
        return peers
