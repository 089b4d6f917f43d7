"""What the device memory routines of OpenMP have in common: who calls them, where, and with which places."""

from __future__ import annotations

import math
from collections.abc import Awaitable
from typing import Any, Protocol, TypeGuard

from numpy.typing import DTypeLike

from offloadrt.kernels.integers import is_integer
from offloadrt.machine import Machine
from offloadrt.models.host.directive import Work, in_directive
from offloadrt.models.host.program import OffloadProgram
from offloadrt.models.host.section import Section
from offloadrt.models.openmp.initial_device import INITIAL_DEVICE
from offloadrt.models.openmp.tasks import HiddenHelpers, TaskRegion
from offloadrt.runtime.configurations.managed import why_nothing_migrates
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.device_pointer import DevicePointer
from offloadrt.runtime.errors import UnifiedMemoryUnavailable
from offloadrt.runtime.host_array import HostArray, Kind
from offloadrt.sim import Simulation

OFFLOAD_SUCCESS = 0
OFFLOAD_FAIL = -1

Place = HostArray | Section | DevicePointer


class Caller(Protocol):
    """What the routines need of the host thread that calls them."""

    program: OffloadProgram[Any]
    helpers: HiddenHelpers
    tasks: TaskRegion
    default_device: int

    @property
    def sim(self) -> Simulation: ...
    def array(
        self,
        name: str,
        shape: int | tuple[int, ...],
        dtype: DTypeLike = ...,
        fill: Any = None,
        phantom: bool | None = None,
        kind: Kind = "static",
        align: int = 16,
    ) -> HostArray: ...
    def managed_array(
        self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike = ...
    ) -> Awaitable[HostArray]: ...
    def free(self, array: HostArray) -> object: ...


def initial_device(t: Caller) -> int:
    """Return the host's device number."""
    return t.program.num_devices


def in_routine(
    t: Caller, name: str, device: int | None, work: Work, *, mandatory: bool = True
) -> Awaitable[OffloadDevice]:
    """Do the work of a routine on a device; mandatory: whether a driver's call that fails ends the program."""
    return in_directive(t.program, name, chosen(t, device), work, mandatory=mandatory)


def is_host(t: Caller, device: int | None) -> bool:
    """Return whether it is the initial device, on which memory is the host's and everything is present."""
    return chosen(t, device) == initial_device(t)


def chosen(t: Caller, device: int | None) -> int:
    """Return the device's number. Raises TypeError for what is no number.

    Where the program can use no device, the initial one stands in for all. InvalidDevice if it must not
    (OMP_TARGET_OFFLOAD=mandatory).
    """
    number = t.default_device if device is None else integer(device, "device", "its number")
    if number == INITIAL_DEVICE:
        return initial_device(t)
    if t.program.num_devices:
        return number
    if not t.program.falls_back:
        t.program.device(number)  # raises InvalidDevice, with the reason
    return initial_device(t)


def in_place(array: HostArray, address: int, initial: int, shape: tuple[int, ...]) -> DevicePointer:
    """Return the pointer of the initial device to an array, which is where the host has it."""
    nbytes = math.prod(shape) * array.itemsize
    return DevicePointer(address, nbytes, initial, array.phantom, array.dtype, shape, array)


def integer(value: int, call: str, what: str) -> int:
    """Return a whole number. Raises TypeError for anything else."""
    if not is_integer(value):
        raise TypeError(f"{call}: {what} is {value!r}, which is no whole number")
    return value


def on_device(place: Place) -> TypeGuard[DevicePointer]:
    """Return whether it is memory of a device other than the initial one."""
    return isinstance(place, DevicePointer) and place.host is None


def host_place(place: Place) -> tuple[HostArray, int]:
    if isinstance(place, DevicePointer):
        assert place.host is not None, "a pointer of the initial device"
        return place.host, place.address
    return (place.array, place.begin) if isinstance(place, Section) else (place, place.address)


def check_managed_memory(machine: Machine, what: str) -> None:
    """Raise UnifiedMemoryUnavailable, naming `what` asks for managed memory, where the machine has none."""
    if why := why_nothing_migrates(machine):
        raise UnifiedMemoryUnavailable(f"managed memory for {what} on {machine.spec.name}: {why}")
