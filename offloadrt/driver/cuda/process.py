"""The state that the contexts of one process share, and the kernel driver that all processes on a device share.

`DriverProcess` owns the ranges of host memory that are page-locked (pinned), the lock of the driver library, the
locking of pages for copies, and the process's way to the kernel module.  Each process has a driver library of its own,
with a context and its lock for each device (``context.py``).  Below it, the kernel module hands out segments of device
memory under a lock of the GPU (``rmGpuLocksAcquire`` of open-gpu-kernel-modules), and ``nvidia-uvm`` serves page faults
of all processes with one handler.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Annotated

import attrs

from offloadrt.driver.uvm.uvm import Uvm
from offloadrt.driver.uvm.va_block import VaSpace
from offloadrt.machine import Device, Machine
from offloadrt.machine.host_lock import HostLock, lock_policy
from offloadrt.machine.memory.address_map import AddressMap


class PinnedRanges:
    """Registered ranges of host memory; they do not overlap."""

    __slots__ = ("_ends",)

    def __init__(self) -> None:
        self._ends: AddressMap[int] = AddressMap()

    def covers(self, address: int, nbytes: int) -> bool:
        """Return whether all of [address, address + nbytes) lies in one registered range.

        A range that reaches over two registered ranges counts as pageable, even where these touch.
        """
        nearest = self._ends.before(address)
        return nearest is not None and address + nbytes <= nearest[1]

    def overlaps(self, address: int, nbytes: int) -> bool:
        """Return whether any byte of the range is registered."""
        nearest = self._ends.before(address + nbytes - 1)
        return nearest is not None and nearest[1] > address

    def add(self, address: int, nbytes: int) -> None:
        """Register a range."""
        self._ends[address] = address + nbytes

    def remove(self, address: int) -> bool:
        """Unregister the range that begins at ``address``; return False when there is none."""
        return self._ends.pop(address) is not None


@attrs.frozen
class ProcessLockSpec:
    """The rules by which calls on different devices exclude one another."""

    part: Annotated[float, "process.driver_lock"]
    """The part of a call's work under the context lock that it does under this lock as well."""
    handover: Annotated[float, "driver.handover"]
    uncontended: Annotated[bool, "process.driver_lock.uncontended"]


class ProcessLock:
    """The lock of one process's driver library."""

    def __init__(self, machine: Machine) -> None:
        self.spec = machine.spec.read(ProcessLockSpec)
        self.lock = HostLock(
            machine,
            machine.named("driver library"),
            lock_policy(machine.spec.text("driver.handoff")),
            self.spec.handover,
            category="driver",
            wait_category="driver lock",
            uncontended=self.spec.uncontended,
        )
        self._work = machine.work

    async def work(self, dt: float) -> None:
        """Work for ``dt`` seconds, the first part of them under the lock."""
        part = dt * self.spec.part
        if part:
            await self.lock.enter(part)
            self.lock.release()
        if part < dt:
            await self._work(dt - part, "driver")


@attrs.frozen
class PageLockingSpec:
    """When pages are locked, and what that costs."""

    more_than: Annotated[int, "hip.pin_from"]
    """Bytes; 0 is never."""
    piece: Annotated[int, "hip.pin_piece"]
    lock: Annotated[float, "hip.pin"]
    """Seconds, besides the bytes."""
    lock_per_byte: Annotated[float, "hip.pin_per_gib"]
    unlock: Annotated[float, "hip.unpin"]
    uncontended: Annotated[bool, "hip.pin.uncontended"]


class PageLocking:
    """The locking of pages for copies of one process, whose devices share it."""

    def __init__(self, machine: Machine) -> None:
        self.spec = machine.spec.read(PageLockingSpec)
        self.kernel = HostLock(
            machine,
            machine.named("page locking"),
            lock_policy("fifo"),
            # No hand-over is charged, as profiles have none for a mutex of the kernel.
            0.0,
            category="driver",
            wait_category="driver lock",
            uncontended=self.spec.uncontended,
        )

    def takes(self, nbytes: int) -> bool:
        """Tell whether a copy of so many bytes locks the program's pages."""
        return 0 < self.spec.more_than < nbytes

    async def lock(self, nbytes: int) -> None:
        """Lock the pages of a piece."""
        await self._work(self.spec.lock + nbytes * self.spec.lock_per_byte)

    async def unlock(self) -> None:
        """Unlock the pages of a piece."""
        await self._work(self.spec.unlock)

    async def _work(self, dt: float) -> None:
        await self.kernel.enter(dt)
        self.kernel.release()


class KernelDriver:
    """The kernel module of one device, as the driver libraries of all processes call it.

    Where one process has the machine to itself its calls are under the context lock already, and the module's lock is
    left out.
    """

    def __init__(self, machine: Machine, device: Device, space: VaSpace, lock: HostLock | None = None) -> None:
        self.uvm: Uvm | None = None
        """The unified-memory driver, once ``manage`` has been called."""
        self.space = space
        """The address space of managed memory."""
        self._machine = machine
        self._device = device
        self.lock = lock
        if lock is None and machine.processes > 1:
            self.lock = HostLock(
                machine,
                f"kernel driver {device.index}" if device.index else "kernel driver",
                lock_policy("fifo"),
                machine.spec.value("driver.handover"),
                category="driver",
                wait_category="driver lock",
                uncontended=machine.spec.flag("process.kernel_driver.uncontended"),
            )

    def manage(self) -> Uvm:
        """Use managed memory on this device from now on, for whichever process asks first."""
        if self.uvm is None:
            self.uvm = Uvm(self._machine, self._device, self.space)
        return self.uvm

    def work(self, dt: float) -> Awaitable[None]:
        """Let the calling thread work in the kernel module; of several processes one at a time."""
        return self._machine.work(dt, "driver") if self.lock is None else self._locked_work(self.lock, dt)

    async def _locked_work(self, lock: HostLock, dt: float) -> None:
        await lock.enter(dt)
        lock.release()


class DriverProcess:
    """Owns what the contexts of one process share; ``devices`` is how many there are, from number ``first``.

    ``beside`` is another process, with which it shares the kernel drivers of the devices, and so managed memory. MIG
    instances have managed memory of their own, and the lock of one kernel module.
    """

    def __init__(self, machine: Machine, devices: int = 1, beside: DriverProcess | None = None, first: int = 0) -> None:
        numbers = range(first, first + devices)
        self.machine = machine
        self.lock = ProcessLock(machine) if devices > 1 else None
        """The library's lock; None while the process has one device."""
        self.locking = PageLocking(machine)
        self.kernel_drivers: Mapping[int, KernelDriver]
        """The kernel drivers by number of the device."""
        if beside is not None and self.instance == beside.instance:
            self.kernel_drivers = beside.kernel_drivers
        else:
            space, module = VaSpace(machine), {} if beside is None else beside.kernel_drivers
            self.kernel_drivers = {
                n: KernelDriver(machine, machine.devices[n], space, module[n].lock if module else None) for n in numbers
            }
        self._pinned = {number: PinnedRanges() for number in numbers}

    @property
    def instance(self) -> int:
        """Return the number of the MIG instance that the process finds; without MIG that of the first device."""
        return self.machine.devices[0].index

    def pinned_for(self, number: int) -> PinnedRanges:
        """Return the host memory that copies of a device reach without staging."""
        return self._pinned[number]

    def share_pinned(self) -> None:
        """Let copies of all contexts find what any has pinned, as CUDA does; call it before anything is pinned."""
        self._pinned = dict.fromkeys(self._pinned, PinnedRanges())

    def manage(self) -> None:
        """Use managed memory from now on, on all devices of the process.

        Raises ProfileError on an APU, and when the profile lacks an entry.
        """
        for kernel_driver in self.kernel_drivers.values():
            kernel_driver.manage()

    def start_managed(self) -> None:
        """Spawn the actors of the unified-memory driver on all devices that have none yet."""
        for kernel_driver in self.kernel_drivers.values():
            if kernel_driver.uvm is not None:
                kernel_driver.uvm.start()
