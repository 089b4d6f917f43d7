"""The unified-memory driver of a discrete device (NVIDIA's ``nvidia-uvm``): who migrates managed memory, and when.

The page-fault handler, an actor, serves faults of the GPU (``gpu_faults.py``).  Two more actors serve prefetches and
access counters (``workers.py``).  The host thread that faults serves its fault itself (``host_faults.py``).  All of
them move a block by the steps of ``VaBlocks`` and take the same locks (``va_block.py``).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final, Literal, get_args

from offloadrt.driver.uvm.costs import SystemMemoryCosts, UvmCosts
from offloadrt.driver.uvm.counters import UvmCounters
from offloadrt.driver.uvm.gpu_faults import GpuFaults, UvmFaultHandler
from offloadrt.driver.uvm.host_faults import HostFaults
from offloadrt.driver.uvm.va_block import VaBlocks, VaSpace
from offloadrt.driver.uvm.workers import AccessCounterWorker, MigrationWorker
from offloadrt.machine import Device, DiscreteGpu, Machine, ProfileError
from offloadrt.machine.managed.block import ManagedBlock
from offloadrt.machine.managed.kernels import AccessCounters, CounterSpec
from offloadrt.machine.managed.pages import REMOTE, ManagedPages
from offloadrt.sim import Mailbox, RWLock

Advice = Literal[
    "prefer_host",
    "prefer_device",
    "prefer_nothing",
    "accessed_by",
    "not_accessed_by",
    "read_mostly",
    "not_read_mostly",
]
ADVICE: Final[tuple[Advice, ...]] = get_args(Advice)
"""CU_MEM_ADVISE_SET_PREFERRED_LOCATION with the CPU as location and with the device, UNSET_PREFERRED_LOCATION,
SET_ACCESSED_BY with the device, UNSET_ACCESSED_BY, SET_READ_MOSTLY, UNSET_READ_MOSTLY.
"""


class Uvm:
    """Managed memory of one device.  Make it before the first stream; ``start`` it within a run.

    ``space`` is the address space that the device joins; without one it is alone in a new one.

    Raises ProfileError on an APU, which has nothing to migrate, or when the profile lacks an entry.
    """

    def __init__(self, machine: Machine, device: Device, space: VaSpace | None = None) -> None:
        spec = machine.spec
        if not isinstance(device, DiscreteGpu):
            raise ProfileError(spec.path, "machine.apu", "is true, so that there is nothing to migrate")
        prefetches = Mailbox(machine.sim, f"device {device.index} migration worker")
        kernels = device.manage(prefetches)
        self.kernels = kernels
        self._machine = machine
        self._device = device
        self._space = space = space or VaSpace(machine)
        self._blocks = blocks = VaBlocks(machine, device, kernels, space)
        self._host_faults = HostFaults(blocks)
        self.worker = MigrationWorker(prefetches, blocks)
        self.counter_worker: AccessCounterWorker | None = None
        """What serves the access counters; None unless the device uses system-allocated memory in place and counts."""
        self._started = False
        uncontended = spec.flag("fault_handler.uncontended")
        self.handler = UvmFaultHandler(blocks, GpuFaults(blocks), kernels.buffer, uncontended=uncontended)
        space.join(blocks)

    def host_access(self, begin: int, nbytes: int, writes: bool = True) -> Awaitable[int]:
        """Let the calling thread touch managed memory; return the number of its faults.  Await it at once."""
        return self._host_faults.access(begin, nbytes, writes)

    def make_room(self, nbytes: int, cause: int) -> Awaitable[None]:
        """Evict until there is room for a block of the program.  Await it at once."""
        return self._blocks.make_room(nbytes, cause)

    def try_again(self) -> None:
        """Let pages that found no room fault and migrate now; called when the program has freed device memory."""
        self._blocks.try_again()

    @property
    def costs(self) -> UvmCosts:
        """Return what the driver's steps cost."""
        return self._blocks.costs

    @property
    def counters(self) -> UvmCounters:
        """Return what the driver did."""
        return self._blocks.counters

    @property
    def pages(self) -> ManagedPages:
        """Return who owns each page."""
        return self._blocks.pages

    @property
    def lock(self) -> RWLock:
        """Return the space lock."""
        return self._blocks.locks.space

    def start(self) -> None:
        """Spawn the actors of the device, the page-fault handler and the migration worker, once."""
        if not self._started:
            self._started = True
            self._device.start()
            self.handler.start()
            self.worker.start()
            if self.counter_worker is not None:
                self.counter_worker.start()

    def add(self, begin: int, nbytes: int, populated: bool, name: str = "") -> None:
        """Add an allocation, of the object of this name; ``populated``: the host has written it at some time before."""
        self.pages.add(begin, nbytes, populated, name)

    def use_system_memory(self) -> None:
        """Let the device use memory of the host's allocators in place; call it before ``start``, and once.

        Raises ProfileError when the profile lacks an entry.
        """
        spec, blocks = self._machine.spec, self._blocks
        blocks.system_costs = spec.read(SystemMemoryCosts)
        if blocks.system_costs.counts:
            name = f"device {self._device.index} access counters"
            counters = AccessCounters(self._machine.sim, name, spec.read(CounterSpec), self.pages)
            self.kernels.access_counters = counters
            self.counter_worker = AccessCounterWorker(blocks, counters)

    def add_system(self, begin: int, nbytes: int, populated: bool, name: str = "") -> None:
        """Add memory of the host's allocators, whose pages the device reaches as soon as the host has touched them."""
        self.pages.add(begin, nbytes, populated, name)
        for block, pages in self.pages.parts(begin, nbytes):
            block.use_in_place(pages)
            self._blocks.map_remote_again(block)

    def remove(self, begin: int, nbytes: int) -> None:
        """Remove an allocation; pages that it shares with others stay as they are until the last one goes."""
        self._blocks.remove(begin, nbytes)

    def keep_on_host(self, begin: int, nbytes: int) -> None:
        """Let an allocation lie on the host, where the device reaches it from the start, as without page faults."""
        for block, pages in self.pages.parts(begin, nbytes):
            block.prefer("host", pages)
            block.set_accessed_by(pages, True)
            self.pages.set_state(block, pages, REMOTE)

    async def advise(self, begin: int, nbytes: int, advice: Advice) -> None:
        """Change the rules for a range; nothing migrates by this.  Raises ValueError for an advice there is not."""
        if advice not in ADVICE:
            raise ValueError(f"no advice {advice!r}; there are {', '.join(ADVICE)}")
        blocks, sim = self._blocks, self._machine.sim
        since = sim.now
        await blocks.locks.write()
        self._machine.host_time.add("driver lock", sim.now - since)
        try:
            await self._machine.work(blocks.costs.advise, "driver")
            for block, pages in self.pages.parts(begin, nbytes):
                if advice.startswith("prefer"):
                    self._prefer(block, pages, advice)
                elif advice == "accessed_by":
                    block.set_accessed_by(pages, True)
                    blocks.map_remote_again(block)
                elif advice == "not_accessed_by":
                    block.set_accessed_by(pages, False)
                    blocks.unmap(block, pages & block.remote & ~block.prefers_host)
                elif advice == "read_mostly":
                    self._space.read_mostly(block.index, pages)
                else:
                    self._space.not_read_mostly(block.index, pages)
        finally:
            blocks.locks.release()

    def _prefer(self, block: ManagedBlock, pages: int, advice: Advice) -> None:
        """Set where pages of a block are to stay; this is one for all devices."""
        for record in self._space.records(block.index):
            if advice == "prefer_device":
                record.prefer("here" if record is block else "elsewhere", pages)
            else:
                record.prefer("host" if advice == "prefer_host" else "nowhere", pages)
        if advice != "prefer_host":
            for member, record in self._space.everywhere(block.index):
                member.unmap(record, pages & record.remote & ~record.accessed_by)
