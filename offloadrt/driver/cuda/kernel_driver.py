"""The part of the driver that all processes on a device share: the kernel module with its lock, and managed memory.

Each process has a driver library of its own, with a context and its lock (``context.py``).  Below it, the kernel module
hands out segments of device memory under a lock of the GPU (``rmGpuLocksAcquire`` of open-gpu-kernel-modules), and
``nvidia-uvm`` serves the page faults of all processes with one handler.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from offloadrt.driver.uvm.uvm import Uvm
from offloadrt.driver.uvm.va_block import VaSpace
from offloadrt.machine import Device, Machine
from offloadrt.machine.host_lock import HostLock, lock_policy


class KernelDriver:
    """The kernel module of one device, as the driver libraries of all processes call it.

    Where one process has the machine to itself its calls are under the context lock already, and the module's lock is
    left out.
    """

    def __init__(self, machine: Machine, device: Device) -> None:
        self.uvm: Uvm | None = None
        """The unified-memory driver, once ``manage`` has been called."""
        self.space = VaSpace(machine)
        """The address space of managed memory."""
        self.devices: Sequence[KernelDriver] = (self,)
        """The kernel drivers of all devices that share the address space (``share_process``)."""
        self._machine = machine
        self._device = device
        self.lock: HostLock | None = None
        if machine.processes > 1:
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
        """Use managed memory from now on, on all devices of the address space, for whichever process asks first.

        Raises ProfileError on an APU, and when the profile lacks an entry.
        """
        for kernel_driver in self.devices:
            if kernel_driver.uvm is None:
                kernel_driver.uvm = Uvm(kernel_driver._machine, kernel_driver._device, self.space)
        assert self.uvm is not None, "it is one of the devices"
        return self.uvm

    def work(self, dt: float) -> Awaitable[None]:
        """Let the calling thread work in the kernel module; of several processes one at a time."""
        return self._machine.work(dt, "driver") if self.lock is None else self._locked_work(self.lock, dt)

    async def _locked_work(self, lock: HostLock, dt: float) -> None:
        await lock.enter(dt)
        lock.release()
