"""A machine with its driver in virtual time, for the tests of this folder."""

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import numpy as np
import pytest
from hardware_rig import HardwareRig, hardware

from offloadrt.driver import CudaDriver, Kfd, Uvm
from offloadrt.kernels import Launch
from offloadrt.machine import Stream
from offloadrt.machine.managed.sweep import ManagedAccess
from offloadrt.machine.messages import KernelPacket
from offloadrt.runtime.host_array import HostSpan
from offloadrt.sim import Signal
from offloadrt.trace import Calls


@attrs.define
class Rig(HardwareRig):
    """A machine and the driver of its first device."""

    driver: CudaDriver
    calls: Calls

    def buffer(self, values: Any) -> HostSpan:
        """Host memory that holds ``values``, in pages that have been touched; a number of bytes makes a phantom."""
        flat = None if isinstance(values, int) else np.asarray(values).reshape(-1).view(np.uint8)
        memory, nbytes = self.machine.host_memory, values if flat is None else flat.size
        address = memory.allocate(nbytes)
        memory.pages.insert(address, address + nbytes)
        return HostSpan(address, nbytes, flat)


@pytest.fixture
def rig() -> Callable[..., Rig]:
    def make(overrides: dict[str, object] | None = None, gear: Any = "turbo", devices: int = 1) -> Rig:
        calls = Calls()
        sim, machine, trace = hardware("alex-a100", overrides, gear, devices, calls)
        return Rig(sim, machine, trace, CudaDriver.of(machine), calls)

    return make


@attrs.define
class ApuRig(HardwareRig):
    """An APU with its kernel driver, and the compute units, to which kernels are sent directly."""

    kfd: Kfd

    def run(self, main: Callable[[], Awaitable[Any]]) -> Any:
        async def started() -> Any:
            self.kfd.start()
            return await main()

        return self.sim.run(started)

    def elapsed(self, body: Callable[[], Awaitable[Any]]) -> float:
        """Virtual seconds that ``body`` takes; the rig can run only once."""

        async def main() -> float:
            begin = self.sim.now
            await body()
            return self.sim.now - begin

        return self.run(main)

    def array(self, nbytes: int, touched: bool = False) -> tuple[int, int]:
        """(address, bytes) of host memory with huge pages of its own, populated by the host or not."""
        address = self.machine.host_memory.allocate(nbytes, align=2 << 20)
        if touched:
            self.machine.host_memory.pages.insert(address, address + nbytes)
        return address, nbytes

    async def kernel(self, launch: Launch, *touches: tuple[int, int], **fields: Any) -> Any:
        """Run a kernel that touches these ranges; returns when it has ended what its completion says."""
        done = Signal(self.sim, launch.kernel.name)
        number = self.machine.next_number()
        packet = KernelPacket(number, Stream(0, QUEUE), 0, launch, None, done, touches=touches, **fields)
        self.kfd.device.compute.mailbox.put(packet)
        return await done.wait()

    @property
    def faults(self) -> Any:
        return self.kfd.device.fault_statistics()


class _Queue:
    """What a kernel that is sent directly says that it comes from."""

    number = 0

    def submit(self, packet: Any) -> None:
        raise AssertionError(f"{packet!r} was submitted to a queue that is only a name")


QUEUE = _Queue()


@pytest.fixture
def apu() -> Callable[..., ApuRig]:
    def make(overrides: dict[str, object] | None = None, gear: Any = "turbo") -> ApuRig:
        sim, machine, trace = hardware("mi300a", overrides, gear)
        return ApuRig(sim, machine, trace, Kfd(machine, machine.devices[0]))

    return make


@attrs.define
class UvmRig(HardwareRig):
    """A discrete device with managed memory, and the compute units, to which kernels are sent directly."""

    driver: CudaDriver
    uvm: Uvm

    def run(self, main: Callable[[], Awaitable[Any]]) -> Any:
        async def started() -> Any:
            self.uvm.start()
            return await main()

        return self.sim.run(started)

    def array(self, nbytes: int, touched: bool = False) -> int:
        """Address of managed memory with blocks of its own, written by the host or not."""
        address = self.machine.host_memory.allocate(nbytes, align=2 << 20)
        self.uvm.add(address, nbytes, touched)
        return address

    async def kernel(self, launch: Launch, *accesses: ManagedAccess) -> Any:
        """Run a kernel with these accesses; returns when it has ended what its completion says."""
        done = Signal(self.sim, launch.kernel.name)
        number = self.machine.next_number()
        packet = KernelPacket(number, Stream(0, QUEUE), 0, launch, None, done, accesses=accesses)
        self.machine.devices[0].compute.mailbox.put(packet)
        return await done.wait()

    @property
    def counters(self) -> Any:
        return self.uvm.blocks.counters


@pytest.fixture
def uvm() -> Callable[..., UvmRig]:
    def make(overrides: dict[str, object] | None = None, gear: Any = "turbo", **options: Any) -> UvmRig:
        sim, machine, trace = hardware("summitdev-p100", overrides, gear, **{"record": False, **options})
        driver = CudaDriver.of(machine)
        return UvmRig(sim, machine, trace, driver, driver.managed.manage())

    return make
