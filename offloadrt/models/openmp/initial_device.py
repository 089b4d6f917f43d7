"""Directives on the initial device, which is the host: target regions run there in place, maps do nothing."""

from __future__ import annotations

from typing import Any, Final

import attrs

from offloadrt.kernels import Launch
from offloadrt.machine import Machine
from offloadrt.models.host.host_thread import ProgramThread
from offloadrt.runtime.device_pointer import DevicePointer
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.launch.kernel_arguments import Pointees

INITIAL_DEVICE: Final = -1
"""omp_initial_device: another number of the host, besides the number of devices."""


@attrs.frozen(eq=False)
class HostRegion:
    """A target region on the host. own: arrays of which it has a copy of its own (firstprivate and private)."""

    launch: Launch
    arguments: tuple[Any, ...]
    own: tuple[HostArray, ...]

    async def run(self, t: ProgramThread, machine: Machine) -> None:
        """Run the region on the host's cores: on all of them, on one inside a parallel region of several threads.

        Raises TypeError for an argument that is memory of another device.
        """
        arrays = [
            argument.pointers if isinstance(argument, Pointees) else argument
            for argument in self.arguments
            if isinstance(argument, HostArray | Pointees)
        ]
        values = [self._value(argument) for argument in self.arguments]
        for array in arrays:
            await t.host_access(array)
        await machine.host_workers.execute(self.launch, t.num_threads == 1)
        body = self.launch.kernel.body
        if body is not None and not any(array.phantom for array in arrays):
            body(*values)

    def _value(self, argument: Any) -> Any:
        if isinstance(argument, HostArray):
            if argument.phantom:
                return None
            return argument.data.copy() if argument in self.own else argument.data
        if isinstance(argument, DevicePointer):
            if argument.host is None:
                raise TypeError(f"a target region on the initial device cannot use memory of device {argument.device}")
            seen = argument.host.viewed(argument.dtype).data
            return seen if argument.shape is None else seen.reshape(argument.shape)
        if isinstance(argument, Pointees):
            if argument.pointers.phantom:
                return None
            raise TypeError("a target region on the initial device follows no stored device pointers")
        return argument
