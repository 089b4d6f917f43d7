"""ROCr, the driver library of an APU's device: the calls of the HSA runtime, made by host threads.

Every call runs in the calling thread, costs what the profile says (``costs.py``), and is counted under its name in
rocprof, without the prefix ``hsa_`` or ``hsa_amd_``.  What goes down to the kernel driver takes the kernel driver's
locks (``driver/kfd``); copies and packets take those of their ring or queue (``locks.py``).
"""

from __future__ import annotations

from offloadrt.driver.calls import CallAccounts
from offloadrt.driver.kfd.kfd import Kfd
from offloadrt.driver.rocr.async_handler import AsyncHandler, HandlerStatistics
from offloadrt.driver.rocr.costs import RocrCosts
from offloadrt.driver.rocr.dma_calls import DmaCalls
from offloadrt.driver.rocr.locks import RocrLocks
from offloadrt.driver.rocr.pool_calls import PoolCalls
from offloadrt.driver.rocr.queue_calls import QueueCalls
from offloadrt.driver.rocr.signal_calls import SignalCalls
from offloadrt.driver.rocr.start_calls import RocrStartCalls
from offloadrt.machine import Device, Machine
from offloadrt.sim import LockStatistics


class Rocr:
    """The library on one device with all its calls; ``start`` it within a run.

    ``beside`` is the library of another process on the same device, with which it shares the kernel driver.
    Wide because it is the one list of the library's calls; each group of calls is a class of its own.

    Raises ProfileError when the machine is no APU.
    """

    def __init__(self, machine: Machine, device: Device, beside: Rocr | None = None) -> None:
        self.machine = machine
        self.sim = machine.sim
        self.kfd: Kfd = Kfd(machine, device, None if beside is None else beside.kfd)
        self.device = apu = self.kfd.device
        self.costs = costs = machine.spec.read(RocrCosts)
        self.handler = AsyncHandler(self.kfd)
        self._started = False
        calls = CallAccounts(machine, device, {})
        locks = RocrLocks(machine, device, costs.handover)

        start = RocrStartCalls(machine, costs, calls)
        self.init = start.init
        self.executable_load_agent_code_object = start.executable_load_agent_code_object

        pool = PoolCalls(machine, device, costs, calls, self.kfd)
        self.memory_pool_allocate = self.mem_alloc = pool.memory_pool_allocate
        self.memory_pool_free = self.mem_free = pool.memory_pool_free
        self.host_pool_allocate = pool.host_pool_allocate
        self.host_pool_free = pool.host_pool_free
        self.memory_lock = pool.memory_lock
        self.memory_unlock = pool.memory_unlock
        self.svm_attributes_set = pool.svm_attributes_set

        signals = SignalCalls(machine, device, costs, calls, self.handler)
        self.signal_create = signals.signal_create
        self.signal_async_handler = signals.signal_async_handler
        self.signal_wait_scacquire = signals.signal_wait_scacquire

        self._queues = queues = QueueCalls(machine, apu, costs, calls, locks)
        self.take_queue = queues.take_queue
        self.queue_create = queues.queue_create
        self.dispatch = queues.dispatch
        self.barrier = queues.barrier

        self._copies = copies = DmaCalls(machine, apu, costs, calls, locks)
        self.memory_async_copy = copies.memory_async_copy
        self.memory_async_copy_by_kernel = copies.memory_async_copy_by_kernel

    @classmethod
    def of(cls, machine: Machine, number: int = 0, beside: Rocr | None = None) -> Rocr:
        """Return the library on a machine's device ``number``."""
        return cls(machine, machine.devices[number], beside)

    def start(self) -> None:
        """Spawn the actors of the device, the kernel driver and the library, once."""
        if not self._started:
            self._started = True
            self.kfd.start()
            self.handler.start()

    def locks(self) -> dict[str, LockStatistics]:
        """Return the statistics of its locks and the kernel driver's, by name."""
        kfd = self.kfd.statistics()
        locks = {lock.name: lock.statistics() for lock in (*self._copies.locks.values(), *self._queues.locks.values())}
        locks[self.kfd.process_lock.name] = kfd.process
        locks[self.kfd.svms_lock.name] = kfd.svms
        locks[self.kfd.mmap_lock.name] = kfd.mmap.combined()
        return locks

    def engines(self) -> dict[str, HandlerStatistics]:
        """Return what its own actors did, by name."""
        return {self.handler.name: self.handler.statistics()}

    def faults(self) -> dict[str, int]:
        """Return how many pages of host memory came into page tables, by how they did.

        ``study.run.Run.faults`` explains the names.
        """
        gpu, kfd = self.device.fault_statistics(), self.kfd.statistics()
        return {
            "gpu": gpu.faults,
            "gpu_pages": gpu.pages,
            "gpu_duplicates": gpu.duplicates,
            "cpu_pages": kfd.cpu_faults,
            "prefault_pages": kfd.prefault_pages,
        }
