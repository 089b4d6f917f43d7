"""The calls of CUDA's driver library that copy, from and to the host, within a device and between devices.

Copy engines reach page-locked (pinned) memory themselves; pageable memory is staged (``staging.py``), or its pages are
locked for the copy, as HIP's library does.  On a device that uses the page table of the host they reach that, too
(``ats.copies``).  When both ends have bytes, these really move, at the copy's completion in virtual time.  A transfer
ends up as a ``CopyPacket`` in a stream; ``machine/queues/hardware_queue.py`` takes it from there.

As in CUDA, a copy uses the link of two devices only when the context that makes it has enabled access to the other
one; without that, or without a link, the driver stages it (``machine/links/peer_relay.py``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from offloadrt.driver.calls import INVALID, DriverError
from offloadrt.driver.cuda.context import Context
from offloadrt.driver.cuda.order import UNSUPPORTED
from offloadrt.driver.cuda.process import PageLocking, PinnedRanges
from offloadrt.driver.cuda.staging import ContextStaging, DeviceBytes, Staging, Steps, holding
from offloadrt.machine import DeviceMemory, InvalidDeviceAddress, Peers, Stream
from offloadrt.machine.host_lock import HostLock, lock_policy
from offloadrt.machine.links.link import Link, Shared
from offloadrt.machine.links.sockets import passing
from offloadrt.machine.memory.backing import Bytes
from offloadrt.machine.messages import CopyPacket, Move, PeerPacket
from offloadrt.sim import Signal

_PAGEABLE = "its host memory is pageable, whose staging is not emulated in graphs"


class HostRange(Protocol):
    """The host's end of a copy: ``bytes`` is None for a phantom."""

    @property
    def address(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def bytes(self) -> Bytes | None: ...


class Copies:
    """The copies of one device's context.

    ``to_device``, ``to_host`` and ``within`` return what the call has to await: the submission of the copy, or its
    whole staging.  They raise DriverError when the device's range lies in no block.
    """

    def __init__(self, context: Context) -> None:
        self.pinned = PinnedRanges()
        self.locking = PageLocking(context.machine)
        self.wait = context.wait
        self._context = context
        self._sim = context.sim
        self._next_number = context.machine.next_number
        self._memory = context.device.memory
        self._cost = context.costs.copy_submit
        self._reaches_pageable = context.costs.copies_pageable
        self._staging: dict[int, tuple[Staging, Staging]] = {}
        per_byte = context.costs.staging_copy_per_byte
        self._copy_rate = 1.0 / per_byte if per_byte else None
        self.buffer: HostLock | None = None
        """The device's pinned buffer, in which one copy at a time is staged; None: copies do not exclude others."""
        shares = context.costs.staging_memory == "context"
        self._shared = ContextStaging(context, self.packet) if shares else None
        """The context's pinned buffers; None: each stream has its own."""

    @property
    def broken(self) -> bool:
        """Tell whether the device moves no bytes any more."""
        return self._context.broken

    def open(self, stream: Stream) -> None:
        """Give a stream its staging memory."""
        chunk, buffers = self._context.costs.staging_chunk, self._context.costs.staging_buffers
        self._staging[stream.index] = (Staging(chunk, chunk * buffers), Staging(chunk, chunk * buffers))

    def share_buffer(self) -> None:
        """Have one copy of pageable memory at a time staged, whatever its stream, as in one pinned buffer."""
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
        """Take the staging memory of a stream away."""
        del self._staging[stream.index]

    def to_device(
        self, api: str, dst: int, src: HostRange, nbytes: int, stream: Stream, cause: int, pinned: bool
    ) -> Awaitable[object]:
        """Copy from the host to the device."""
        target, source = self.device_bytes(api, dst, nbytes), src.bytes
        if not (pinned or self.pinned.covers(src.address, nbytes)):
            self._check_capture(api, stream)
            if self._reaches_pageable or self.locking.takes(nbytes):
                return self._in_place(stream, "h2d", src.address, nbytes, source, target, cause)
            steps = self._steps(src.address, to_device=True)
            upload = self._staging[stream.index][0].upload(steps, stream, cause, source, target, nbytes)
            return self._in_buffer(upload if self._shared is None else self._shared.upload(nbytes, upload))
        move = _moving("h2d", source, target, nbytes)
        return self.submit(stream, "h2d", nbytes, "pinned", move, cause, self._over(src.address, "h2d"))

    def to_host(
        self, api: str, dst: HostRange, src: int, nbytes: int, stream: Stream, cause: int, pinned: bool
    ) -> Awaitable[object]:
        """Copy from the device to the host."""
        source, target = self.device_bytes(api, src, nbytes), dst.bytes
        if not (pinned or self.pinned.covers(dst.address, nbytes)):
            self._check_capture(api, stream)
            if self._reaches_pageable or self.locking.takes(nbytes):
                return self._in_place(stream, "d2h", dst.address, nbytes, target, source, cause)
            steps = self._steps(dst.address, to_device=False)
            staging = self._staging[stream.index][1]

            def download(steps: Steps) -> Coroutine[Any, Any, None]:
                return staging.download(steps, stream, cause, target, source, nbytes)

            shared = self._shared
            return self._in_buffer(download(steps) if shared is None else shared.download(stream, steps, download))
        move = _moving("d2h", target, source, nbytes)
        return self.submit(stream, "d2h", nbytes, "pinned", move, cause, self._over(dst.address, "d2h"))

    def _over(self, address: int, direction: str) -> Shared | None:
        """Return the way of a transfer between the device and host memory; None if the memory is at its socket."""
        machine, device = self._context.machine, self._context.device
        link = machine.sockets.link(address, device.index, to_device=direction == "h2d")
        return None if link is None else passing(self._sim, device.engines[direction].share_link(), link)

    def _steps(self, address: int, *, to_device: bool) -> Steps:
        """Return what staging does; from and to memory of another socket, its copies pass the link between the two."""
        link = self._context.machine.sockets.link(address, self._context.device.index, to_device=to_device)
        return self if link is None else _FarSteps(self, link)

    def _in_buffer(self, staging: Coroutine[Any, Any, None]) -> Awaitable[None]:
        """Stage a copy, which excludes those of other threads where all share one pinned buffer."""
        # Pieces that are still under way leave the buffer's lock to the next copy: their memory is that of the stream,
        # so that a thread alone copies as it would without the buffer.
        return staging if self.buffer is None else holding(self.buffer, staging)

    def host_copy(self, nbytes: int, over: Shared | None = None) -> Awaitable[None]:
        """Copy to or from a pinned buffer, which may be on the other side of a link."""
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
        """Copy from or to the program's own pages, piece by piece, and wait for each.

        The pages of a piece are locked for it, unless engines reach pageable memory. A call that copies pageable memory
        promises that the host may use it again when it returns, and here nothing else holds the bytes.
        """
        locks, over = not self._reaches_pageable, self._over(address, direction)
        most = self.locking.spec.piece if locks else max(1, nbytes)
        for offset in range(0, nbytes, most):
            size = min(most, nbytes - offset)
            move = _moving(direction, host, device, size, offset)
            if locks:
                await self.locking.lock(size)
            memory = "pinned" if locks else "pageable"
            await self.wait(stream, await self.submit(stream, direction, size, memory, move, cause, over))
            if locks:
                await self.locking.unlock()

    def within(self, api: str, dst: int, src: int, nbytes: int, stream: Stream, cause: int) -> Awaitable[object]:
        """Copy within the device."""
        return self.submit(stream, "d2d", nbytes, "device", self._moving_within(api, dst, src, nbytes), cause)

    def _moving_within(self, api: str, dst: int, src: int, nbytes: int) -> Move | None:
        target, source = self.device_bytes(api, dst, nbytes), self.device_bytes(api, src, nbytes)
        return None if source is None or target is None else moving(lambda: source(0, nbytes), target, nbytes)

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
        """Submit one transfer and return its completion."""
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
        """Return the packet of one transfer."""
        number = self._next_number()
        done = Signal(self._sim, f"copy {number} ({direction})")
        return CopyPacket(number, stream, cause, direction, nbytes, memory, move, done, over)

    def of_node(
        self, api: str, to: HostRange | int, begin: HostRange | int, nbytes: int, stream: Stream, cause: int
    ) -> CopyPacket:
        """Return the packet of a copy from or to pinned memory, or within the device; an address is the device's.

        Raises DriverError for pageable memory, and when a range of the device lies in no block.
        """
        for end in (to, begin):
            if not isinstance(end, int) and not self.pinned.covers(end.address, nbytes):
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

    def _check_capture(self, api: str, stream: Stream) -> None:
        if (capture := self._context.captures.streams.get(stream)) is not None:
            violation = self._context.captures.invalidate(capture, UNSUPPORTED, _PAGEABLE)
            raise DriverError(api, violation.code, violation.why)

    def device_bytes(
        self, api: str, address: int, nbytes: int, memory: DeviceMemory | None = None
    ) -> DeviceBytes | None:
        """Return a way to see the bytes of a range of the device, or of ``memory``; None for a phantom.

        The view is made at the copy's completion: the array behind an earlier one may have been replaced (``Backing``).

        Raises DriverError when the range does not lie in one block.
        """
        memory = memory or self._memory
        try:
            block = memory.block_of(address)
        except InvalidDeviceAddress as error:
            raise DriverError(api, INVALID, str(error)) from None
        if nbytes < 0 or address + nbytes > block.address + block.size:
            raise DriverError(api, INVALID, f"{nbytes} bytes at {address:#x} reach beyond their block")
        return None if block.phantom else lambda offset, size: memory.view(address + offset, size)


class _FarSteps:
    """What staging asks of the driver library for memory of another socket."""

    def __init__(self, copies: Copies, link: Link) -> None:
        self.submit = copies.submit
        self.wait = copies.wait
        self._copies = copies
        self._link = link

    @property
    def broken(self) -> bool:
        return self._copies.broken

    def host_copy(self, nbytes: int, /) -> Awaitable[None]:
        return self._copies.host_copy(nbytes, over=self._link)


def moving(source: Callable[[], Bytes], target: DeviceBytes, nbytes: int) -> Move:
    """Return what moves the bytes of a copy when it completes."""

    def move() -> None:
        target(0, nbytes)[:] = source()

    return move


def _moving(
    direction: str, host: Bytes | None, device: DeviceBytes | None, nbytes: int, offset: int = 0
) -> Move | None:
    """Return the move of a transfer between host and device, ``offset`` bytes behind both ends; None for phantoms."""
    if host is None or device is None:
        return None
    here, there = host[offset : offset + nbytes], device
    if direction == "h2d":
        return moving(lambda: here, lambda _, size: there(offset, size), nbytes)
    return moving(lambda: there(offset, nbytes), lambda _, size: here[:size], nbytes)


class PeerCopies:
    """The copies of one device's context to and from other devices."""

    def __init__(self, context: Context, copies: Copies) -> None:
        self._context = context
        self._copies = copies
        self._sim = context.sim
        self._number = context.device.index
        self._machine = context.machine
        self._devices = context.machine.devices
        self._next_number = context.machine.next_number
        self._names = [f"device {device.index}" for device in context.machine.devices]
        self._enabled: set[int] = set()

    def can_access(self, api: str, peer: int) -> bool:
        """Return whether the device has a link to another.

        Raises DriverError for a device that does not exist.
        """
        return self._check(api, peer).can_access(self._number, peer)

    def enable(self, api: str, peer: int) -> None:
        """Use the link to another device from now on.

        Raises DriverError when there is none, and when access is enabled already.
        """
        if peer == self._number or not self.can_access(api, peer):
            raise DriverError(api, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", f"device {self._number} has no link to {peer}")
        if peer in self._enabled:
            reason = f"device {self._number} has access to {peer}"
            raise DriverError(api, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", reason)
        self._enabled.add(peer)

    def copy(
        self,
        api: str,
        dst_device: int,
        dst: int,
        src_device: int,
        src: int,
        nbytes: int,
        stream: Stream,
        cause: int,
    ) -> Awaitable[object]:
        """Submit a copy between two devices, one of which is this one; return what the call has to await.

        Raises DriverError for a device that does not exist, for a stream of neither, and for a range in no block.
        """
        if dst_device == src_device == self._number:
            return self._copies.within(api, dst, src, nbytes, stream, cause)
        self._check(api, dst_device)
        peers = self._check(api, src_device)
        if self._number not in (dst_device, src_device):
            reason = f"a copy from device {src_device} to {dst_device} in a stream of device {self._number}"
            raise DriverError(api, INVALID, reason)
        target = self._copies.device_bytes(api, dst, nbytes, self._devices[dst_device].memory)
        source = self._copies.device_bytes(api, src, nbytes, self._devices[src_device].memory)
        move = None
        if source is not None and target is not None:
            move = moving(lambda: source(0, nbytes), target, nbytes)
        peer = src_device if dst_device == self._number else dst_device
        route = peers.route(src_device, dst_device, peer in self._enabled)
        packet: CopyPacket | PeerPacket
        if route.link is None:
            done = Signal(self._sim, f"copy of {nbytes} bytes from device {src_device} to {dst_device}")
            packet = PeerPacket(stream, cause, src_device, dst_device, route.via, nbytes, move, done)
        else:
            number = self._next_number()
            done = Signal(self._sim, f"copy {number} (p2p)")
            packet = CopyPacket(number, stream, cause, "p2p", nbytes, self._names[dst_device], move, done, route.link)
        return self._context.submit(packet, self._context.costs.copy_submit)

    def _check(self, api: str, device: int) -> Peers:
        """Return the machine's peers, after a check that ``device`` is one of them.

        Raises DriverError.
        """
        peers, count = self._machine.peers, len(self._devices)
        if peers is None or not 0 <= device < count:
            reason = f"no device {device}; the program has devices 0 to {count - 1}"
            raise DriverError(api, "CUDA_ERROR_INVALID_DEVICE", reason)
        return peers


class CopyCalls:
    """The copies of one context."""

    def __init__(self, context: Context, copies: Copies) -> None:
        self._context = context
        self._copies = copies
        self._peers = PeerCopies(context, copies)

    async def memcpy_htod_async(
        self, dst: int, src: HostRange, nbytes: int, stream: Stream, cause: int | None = None, pinned: bool = False
    ) -> None:
        """Copy from the host to the device (cuMemcpyHtoDAsync).

        Pinned memory is read when the copy completes, pageable memory before the call returns.

        Raises DriverError when the device's range lies in no block.
        """
        with self._context.call("cuMemcpyHtoDAsync", stream, cause) as call:
            call.takes(bytes=nbytes, address=dst)
            await self._copies.to_device(call.api, dst, src, nbytes, stream, call.cause, pinned)

    async def memcpy_dtoh_async(
        self, dst: HostRange, src: int, nbytes: int, stream: Stream, cause: int | None = None, pinned: bool = False
    ) -> None:
        """Copy from the device to the host (cuMemcpyDtoHAsync).

        Pinned memory is written when the copy completes, pageable memory before the call returns.

        Raises DriverError when the device's range lies in no block.
        """
        with self._context.call("cuMemcpyDtoHAsync", stream, cause) as call:
            call.takes(bytes=nbytes, address=src)
            await self._copies.to_host(call.api, dst, src, nbytes, stream, call.cause, pinned)

    async def memcpy_dtod_async(
        self, dst: int, src: int, nbytes: int, stream: Stream, cause: int | None = None
    ) -> None:
        """Copy within the device (cuMemcpyDtoDAsync).

        Raises DriverError when a range lies in no block.
        """
        with self._context.call("cuMemcpyDtoDAsync", stream, cause) as call:
            call.takes(bytes=nbytes, address=dst)
            await self._copies.within(call.api, dst, src, nbytes, stream, call.cause)

    async def memcpy_peer_async(
        self,
        stream: Stream,
        cause: int | None,
        dst_device: int,
        dst_address: int,
        src_device: int,
        src_address: int,
        nbytes: int,
    ) -> None:
        """Copy between two devices in a stream of one of them, whose copy engine does it (cuMemcpyPeerAsync).

        The copy goes over their link when this context has enabled access to the other device; otherwise through the
        host or, without a link, as ``p2p.without_link`` says.

        Raises DriverError for a device that does not exist, for a stream of neither, and when a range lies in no block.
        """
        with self._context.call("cuMemcpyPeerAsync", stream, cause) as call:
            call.takes(bytes=nbytes, address=dst_address, to_device=dst_device)
            await self._peers.copy(
                call.api, dst_device, dst_address, src_device, src_address, nbytes, stream, call.cause
            )

    async def device_can_access_peer(self, peer: int, cause: int | None = None) -> bool:
        """Return whether this device has a link to another (cuDeviceCanAccessPeer).

        Raises DriverError for a device that does not exist.
        """
        with self._context.call("cuDeviceCanAccessPeer", None, cause) as call:
            return self._peers.can_access(call.api, peer)

    async def ctx_enable_peer_access(self, peer: int, cause: int | None = None) -> None:
        """Let copies between this device and another use their link from now on (cuCtxEnablePeerAccess).

        Raises DriverError when they have none, and when access is enabled already.
        """
        with self._context.call("cuCtxEnablePeerAccess", None, cause) as call:
            await self._context.locked_work(self._context.costs.enable_peer_access)
            self._peers.enable(call.api, peer)
