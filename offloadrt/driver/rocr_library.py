"""ROCr on one device: its actors, locks and statistics, and what all its calls share."""

from __future__ import annotations

from offloadrt.driver.async_handler import AsyncHandler, HandlerStatistics
from offloadrt.driver.errors import DriverError
from offloadrt.driver.kfd import Kfd
from offloadrt.driver.rocr_costs import RocrCosts
from offloadrt.machine import Device, Machine
from offloadrt.sim import Lock, LockStatistics
from offloadrt.trace import events


class RocrLibrary:
    """The library's state, and how a call is counted and traced."""

    def __init__(self, machine: Machine, device: Device) -> None:
        self.machine = machine
        self.sim = machine.sim
        self.device = device
        self.kfd = Kfd(machine, device)
        self.costs = machine.spec.read(RocrCosts)
        self.handler = AsyncHandler(self.kfd)
        self._work = machine.work
        self._trace = machine.trace
        self._count = _uncounted if machine.calls is None else machine.calls.add
        self._suffix = f" of device {device.index}" if device.index else ""
        self._handoff = machine.spec.text("lock.handoff") == "barging"
        self._ring_locks = {ring.number: self._lock(f"dma ring {ring.number} lock") for ring in device.rings}
        self._queue_locks: dict[int, Lock] = {}
        self._rings_contend = not machine.spec.flag("ring_lock.uncontended")
        self._queues_contend = not machine.spec.flag("queue_lock.uncontended")
        self._started = False

    def start(self) -> None:
        """Spawn the actors of device, kernel driver and library, once."""
        if not self._started:
            self._started = True
            self.kfd.start()
            self.handler.start()

    def locks(self) -> dict[str, LockStatistics]:
        """Statistics of its locks and the kernel driver's, by name."""
        kfd = self.kfd.statistics()
        found = {lock.name: lock.statistics() for lock in (*self._ring_locks.values(), *self._queue_locks.values())}
        found[self.kfd.process_lock.name] = kfd.process
        found[self.kfd.mmap_lock.name] = kfd.mmap.together()
        return found

    def engines(self) -> dict[str, HandlerStatistics]:
        """What its own actors did, by name."""
        return {self.handler.name: self.handler.statistics()}

    def faults(self) -> dict[str, int]:
        """Pages of host memory that came into page tables, by how they did: `study.run.Run.faults` has the names."""
        gpu, kfd = self.device.fault_statistics(), self.kfd.statistics()
        return {
            "gpu": gpu.faults,
            "gpu_pages": gpu.pages,
            "gpu_duplicates": gpu.duplicates,
            "cpu_pages": kfd.cpu_faults,
            "prefault_pages": kfd.prefault_pages,
        }

    # for calls

    def _enter(self, api: str, queue: int = -1) -> float:
        if (trace := self._trace) is not None:
            trace(events.CallBegin, self.device.index, queue, self._cause(), api)
        return self.sim.now

    def _leave(self, api: str, begin: float, queue: int = -1) -> None:
        self._count(api, self.sim.now - begin)
        if (trace := self._trace) is not None:
            trace(events.CallEnd, self.device.index, queue, self._cause(), api)

    def _failed(self, error: DriverError) -> DriverError:
        if (trace := self._trace) is not None:
            trace(events.RuntimeError_, self.device.index, -1, self._cause(), error.call, str(error))
        return error

    def _cause(self) -> int:
        return (self.sim.running or self.sim.current).cause

    def _lock(self, name: str) -> Lock:
        return Lock(self.sim, name + self._suffix, "barging" if self._handoff else "fifo")

    async def _wait_for(self, lock: Lock) -> float:
        """Wait for a lock; returns what the thread owes for its hand-over."""
        since, contended = self.sim.now, lock.owner is not None
        await lock.acquire()
        if not contended:
            return 0.0
        self.machine.host_time.add("driver lock", self.sim.now - since)
        return self.costs.handover


def _uncounted(api: str, dt: float) -> None:
    """Of a machine whose calls nobody counts."""
