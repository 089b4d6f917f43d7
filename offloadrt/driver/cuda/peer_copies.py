"""Copies between devices, and the peer access that they need to use a link.

As in CUDA, a copy uses the link of two devices only when the context that makes it has enabled access to the other
one; without that, or without a link, the driver stages it (``machine/links/engines.py``).
"""

from __future__ import annotations

from collections.abc import Awaitable

from offloadrt.driver.cuda.context import Context
from offloadrt.driver.cuda.copies import Copies, moving
from offloadrt.driver.errors import INVALID, DriverError
from offloadrt.machine import Peers, Stream
from offloadrt.machine.messages import CopyPacket, PeerPacket
from offloadrt.sim import Signal


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
