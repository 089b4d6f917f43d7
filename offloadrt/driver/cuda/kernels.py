"""The calls of CUDA's driver library that launch kernels: those of the program, and the driver's own for a memset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from offloadrt.driver.calls import NOTHING, DriverError, Touching
from offloadrt.driver.cuda.context import Context
from offloadrt.driver.cuda.copies import Copies
from offloadrt.kernels import Kernel, Launch
from offloadrt.machine import DeviceArray, LaunchOutOfResources, Stream
from offloadrt.machine.messages import KernelPacket, Move
from offloadrt.sim import Signal
from offloadrt.trace import events


@attrs.frozen
class Computed:
    """Stands for a kernel's arguments where the caller computes the result, by a function that runs at its end."""

    run: Move | None


DeviceArguments = Sequence[Any] | Callable[[], Sequence[Any]] | Computed
"""Arguments of a kernel's body (a DeviceArray becomes a view), or a function that makes them when the kernel ends."""

_MEMSET_THREADS, _MEMSET_BYTES_PER_THREAD = 512, 16
"""Shape of the memset kernel.  It is our choice; it matters only for ranges too small to fill the device."""


class Kernels:
    """The launches of one context."""

    def __init__(self, context: Context, copies: Copies) -> None:
        self._context = context
        self._copies = copies
        self._device = context.device
        self._machine = context.machine

    async def launch(
        self,
        launch: Launch,
        device_args: DeviceArguments,
        stream: Stream,
        cause: int | None = None,
        touching: Touching = NOTHING,
    ) -> None:
        """Launch a kernel (cuLaunchKernel); ``touching`` says what it does with managed memory.

        The body runs when the kernel ends in virtual time, unless it has none or an argument is a phantom.

        Raises DriverError when no team of the launch fits on an SM.
        """
        with self._context.call("cuLaunchKernel", stream, cause) as call:
            packet = self.launching(call.api, launch, device_args, stream, call.cause, touching)
            await self._submit(packet)

    def launching(
        self,
        api: str,
        launch: Launch,
        device_args: DeviceArguments,
        stream: Stream,
        cause: int,
        touching: Touching = NOTHING,
    ) -> KernelPacket:
        """Return the packet of a launch by the call ``api``; raises what `launch` does."""
        try:
            self._device.compute.spec.limits.resident_teams(launch)
        except LaunchOutOfResources as error:
            raise DriverError(api, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", str(error)) from None
        return self._packet(launch, self._body(launch.kernel, device_args), stream, cause, touching)

    async def memset(self, dst: int, value: int, nbytes: int, stream: Stream, cause: int | None = None) -> None:
        """Write ``nbytes`` bytes of ``value`` by a kernel of the driver (cuMemsetD8Async).

        Raises DriverError when the range lies in no block.
        """
        with self._context.call("cuMemsetD8Async", stream, cause) as call:
            call.takes(bytes=nbytes, address=dst)
            await self._submit(self.filling(call.api, dst, value, nbytes, stream, call.cause))

    def filling(self, api: str, dst: int, value: int, nbytes: int, stream: Stream, cause: int) -> KernelPacket:
        """Return the packet of a memset by the call ``api``; raises what `memset` does."""
        target = self._copies.device_bytes(api, dst, nbytes)
        run = None if target is None else lambda: target(0, nbytes).fill(value)
        writing = Kernel("cuMemsetD8", bytes_per_iteration=1.0, threads_per_team=_MEMSET_THREADS)
        teams = max(1, -(-nbytes // (_MEMSET_THREADS * _MEMSET_BYTES_PER_THREAD)))
        return self._packet(writing.launch(teams, iterations=nbytes), run, stream, cause, NOTHING)

    def _body(self, kernel: Kernel, device_args: DeviceArguments) -> Move | None:
        """Return what computes the kernel's result at its end; None when there is nothing to compute."""
        if isinstance(device_args, Computed):
            return device_args.run
        memory, body = self._device.memory, kernel.body
        if body is None:
            return None
        if callable(device_args):
            return lambda: body(*device_args())
        arrays = [argument for argument in device_args if isinstance(argument, DeviceArray)]
        if any(memory.is_phantom(array.address) for array in arrays):
            return None
        return lambda: body(
            *(memory.array(argument) if isinstance(argument, DeviceArray) else argument for argument in device_args)
        )

    def _packet(self, launch: Launch, run: Move | None, stream: Stream, cause: int, touching: Touching) -> KernelPacket:
        number = self._machine.next_number()
        done = Signal(self._context.sim, f"kernel {number} ({launch.kernel.name})")
        return KernelPacket(number, stream, cause, launch, run, done, accesses=touching.accesses)

    async def _submit(self, packet: KernelPacket) -> None:
        """Put the packet of a kernel into its stream."""
        stream = packet.stream
        await self._context.submit(packet, self._context.costs.launch)
        if (trace := self._machine.trace) is not None and stream not in self._context.captures.streams:
            queue, name = stream.queue.number, packet.launch.kernel.name
            trace(events.KernelSubmit, self._device.index, queue, packet.cause, packet.number, name)
