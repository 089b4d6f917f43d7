"""The calls of CUDA's driver library that copy, and those for access to other devices.

They account for the call and take its arguments apart; ``copies.py`` knows the way of each copy from and to the host,
``peer_copies.py`` that of copies between devices.
"""

from __future__ import annotations

from offloadrt.driver.cuda.context import Context
from offloadrt.driver.cuda.copies import Copies, HostRange
from offloadrt.driver.cuda.peer_copies import PeerCopies
from offloadrt.machine import Stream


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
