"""The kernel driver of an APU (amdkfd): memory of the pool, page tables and prefaults.

Its calls run in the calling host thread. Three locks order them, and each process has its own locks. A thread that sets
attributes of a range of host memory (as a prefault does) takes the *mmap lock* of the process (`RWLock`) for writing,
and for reading while it maps pages. First touches by the host and services of kernels' faults hold it for reading, but
the first fault in a range first takes it for writing, to make the range (``svm_range_restore_pages``). The *svms lock*
keeps services and attribute settings apart throughout. Allocations and frees that need the kernel, and attribute
settings, hold the driver's *process lock*. Memory of the pool never faults: the GPU's page table is filled in bulk at
the allocation. An actor, `PageFaultHandler`, serves the faults of kernels, for all processes in turn.
"""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Annotated

import attrs

from offloadrt.machine import Apu, Block, Device, Machine, MachineSpec, ProfileError
from offloadrt.machine.compute.residency import KernelFaults
from offloadrt.machine.memory import PageTable
from offloadrt.machine.messages import FaultServed, PageFault
from offloadrt.machine.servers import Servers, numbered_from_the_second
from offloadrt.sim import Lock, RWLock
from offloadrt.sim.resources import LockStatistics, RWLockStatistics
from offloadrt.trace import events, fault_phases


@attrs.frozen
class KfdCosts:
    """Costs of AMD's kernel driver (KFD) in seconds; page costs are those of the page size in use."""

    allocate: Annotated[float, "alloc.pool_base"]
    """Time of a kernel call that allocates memory of the pool."""
    allocate_per_byte: Annotated[float, "alloc.pool_per_gib"]
    """Additional time for each byte: clearing, and filling the GPU's page table."""
    allocate_fragment: Annotated[float, "alloc.pool_fragment"]
    """Time of an allocation from memory that the library holds already."""
    allocate_host: Annotated[float, "alloc.host_pool"]
    """Time of a kernel call that allocates memory of the host's pool, which is mapped for all GPUs."""
    allocate_host_per_byte: Annotated[float, "alloc.host_pinned_per_gib"]
    """Additional time for each byte: taking, clearing and mapping pages."""
    free: Annotated[float, "free.pool_base"]
    """Time of a kernel call that gives memory of the pool back."""
    free_per_byte: Annotated[float, "free.pool_per_gib"]
    """Additional time for each byte: unmapping and flushing translations."""
    free_fragment: Annotated[float, "free.pool_fragment"]
    """Time of a free of a block that goes back to memory which the library keeps."""
    prefault: Annotated[float, "prefault.call"]
    """Time of a prefault call outside of the process lock and the mmap lock."""
    prefault_locked: Annotated[float, "prefault.locked"]
    """Time under the locks that does not depend on the range."""
    prefault_insert: Annotated[float, "prefault.insert_{page}"]
    """Additional time for each page that is new to the GPU."""
    fault_service: Annotated[float, "fault.service_2m"]
    """Time to serve one fault of a kernel, which maps a range of ``fault.range`` bytes."""
    skip_entry: Annotated[float, "fault.skip"]
    """Time for each fault on another page of a range that is mapped by then; the driver drops such a fault."""
    populate: Annotated[float, "fault.populate_{page}"]
    """Time to populate an untouched page, by allocating and clearing it, whoever requests the page.

    ``handle_mm_fault`` clears it from back to front; TTM's memory of the pool is cleared in order (``__GFP_ZERO``).
    """
    repeat: Annotated[float, "fault.repeat_{page}"]
    """Additional time if a GPU requests the page: ``hmm_vma_fault`` calls ``handle_mm_fault`` for each small page."""
    host_fault: Annotated[float, "fault.cpu_touch"]
    """Additional time for a page that the host touches first: the CPU's exception."""

    @classmethod
    def of(cls, spec: MachineSpec, page_size: int) -> KfdCosts:
        """Return a machine's costs with pages of ``page_size`` bytes. Raises ProfileError when an entry is missing."""
        page = "2m" if page_size == int(spec.value("page.size_thp")) else "4k"
        return spec.read(cls, page=page)


@attrs.frozen
class AddressSpace:
    """What the kernel driver needs to serve a process's page faults: page table, locks, and ranges it knows already."""

    host_pages: PageTable
    """The CPU's page table."""
    mmap_lock: RWLock
    svms: AbstractAsyncContextManager[object]
    """The lock of the process's ranges."""
    ranges: PageTable
    """The ranges of the process's memory that the kernel driver has recorded at earlier requests."""


class PageFaultHandler:
    """Serves a device's page ``faults`` one by one, or all at once with ``uncontended``; ``start`` spawns the actor."""

    def __init__(
        self, machine: Machine, device: Apu, faults: KernelFaults, costs: KfdCosts, *, uncontended: bool = False
    ) -> None:
        self._sim = machine.sim
        self._injector = machine.injector
        self._device = device.index
        self._phase = fault_phases(machine.trace, machine.sim, device.index)
        self._jitter = machine.jitter
        self._pages = device.pages
        self._compute = device.compute.mailbox
        self._costs = costs
        self._spaces: dict[int, AddressSpace] = {}
        self._mailbox = faults.handler
        self._serving, self._skipping = faults.serving, faults.skipping
        names = numbered_from_the_second(faults.handler.name, "worker")
        self._workers: Servers[PageFault] = Servers(self._sim, faults.handler, self._run, names, grow=uncontended)
        self._started = False

    def serve_process(self, process: int, space: AddressSpace) -> None:
        """Serve the faults of another process's kernels as well, in that process's address space."""
        self._spaces[process] = space

    def start(self) -> None:
        """Spawn the worker that serves faults, once."""
        if not self._started:
            self._started = True
            self._workers.start()

    async def _run(self) -> None:
        """Serve one fault after another, for ever (the actor)."""
        while True:
            fault = await self._mailbox.get()
            if not isinstance(fault, PageFault):
                raise TypeError(f"the page-fault handler does not understand {fault!r}")
            self._workers.took_from_mailbox()
            if self._injector is not None:
                self._injector.page_fault(self._device, fault.kernel)
            pages, service_s = await self._serve(fault)
            self._compute.put(FaultServed(fault.kernel, pages, service_s))
            if fault.others:
                # They lie before the kernel's next fault in the interrupt ring; each holds the locks but shortly.
                self._skipping.rise()
                await self._sim.sleep(self._jitter(self._costs.skip_entry * fault.others))
                self._skipping.fall()
            self._workers.done()

    async def _serve(self, fault: PageFault) -> tuple[int, float]:
        """Map the range unless it has been mapped already; return the number of mapped pages and the seconds taken.

        Two simplifications. A duplicate costs nothing here; amdkfd looks the range up and drops the fault. The service
        takes no core here, though on a real host a kernel worker runs it: a program that keeps all cores busy is
        predicted too fast, by at most the handler's ``busy_s``.
        """
        nbytes, space = fault.high - fault.low, self._spaces[fault.process]
        if self._pages.covers(fault.low, nbytes):
            return 0, 0.0
        if space.ranges.covers(fault.low, nbytes):
            await space.mmap_lock.acquire_read()
        else:  # svm_range_create_unregistered_range needs the lock for writing
            await space.mmap_lock.acquire_write()
            space.ranges.insert(fault.low, fault.high)
            space.mmap_lock.downgrade()
        try:
            async with space.svms:
                return await self._serve_locked(fault, space.host_pages)
        finally:
            space.mmap_lock.release()

    async def _serve_locked(self, fault: PageFault, host_pages: PageTable) -> tuple[int, float]:
        """Map the range; a prefault may have mapped it while this service waited for the locks."""
        nbytes, begin = fault.high - fault.low, self._sim.now
        self._serving.rise()
        try:
            if self._pages.covers(fault.low, nbytes):
                return 0, 0.0
            unpopulated = host_pages.missing_pages(fault.low, nbytes)
            service = self._costs.fault_service + unpopulated * (self._costs.populate + self._costs.repeat)
            pages = self._pages.missing_pages(fault.low, nbytes)
            opened = self._phase and self._phase("service", fault.cause, events.NONE, pages, 1)
            await self._sim.sleep(self._jitter(service))
            if opened:
                opened.end()
            host_pages.insert(fault.low, fault.high)
            return self._pages.insert(fault.low, fault.high), self._sim.now - begin
        finally:
            self._serving.fall()


@attrs.frozen
class KfdStatistics:
    """Counts and times (virtual seconds) of the work of AMD's kernel driver (KFD) for a process's host memory."""

    prefaults: int
    """Number of calls of ``svm_attributes_set``."""
    prefault_pages: int
    """Number of pages that these calls added to the GPU's page table."""
    prefault_s: float
    """Time of these calls, including their waits for the mmap lock."""
    cpu_faults: int
    """Number of pages that the host populated by touching them first."""
    unmapped: int
    """Number of pages that lost their translation on the GPU."""
    mmap: RWLockStatistics
    """Waits for the mmap lock of the process."""
    process: LockStatistics
    """Waits for the process lock of the driver."""
    svms: LockStatistics
    """Waits for the lock of the process's ranges."""


@attrs.define
class _Counts:
    """Accumulates the counts of ``KfdStatistics`` over all processes."""

    prefaults: int = 0
    prefault_pages: int = 0
    prefault_s: float = 0.0
    cpu_faults: int = 0
    unmapped: int = 0


class Kfd:
    """The kernel driver of one device, as one process calls it. Raises ProfileError when the machine is no APU.

    ``beside``: the object through which another process calls this driver; both share the page-fault handler. Calls of
    the methods do not count as API calls; the library above counts those.
    """

    def __init__(self, machine: Machine, device: Device, beside: Kfd | None = None) -> None:
        if not isinstance(device, Apu):
            raise ProfileError(machine.spec.path, "machine.apu", "is false, so that kfd has nothing to drive")
        self.machine = machine
        self.device = device
        self.faults = device.faults
        self.costs = KfdCosts.of(machine.spec, device.pages.page_size)
        self.host_pages = machine.host_memory.pages
        """The CPU's page table: pages that the operating system has given to the program."""
        sim, flag, number = machine.sim, machine.spec.flag, device.index
        self.mmap_lock = RWLock(sim, machine.named("mmap lock", number), uncontended=flag("mmap.uncontended"))
        self.process_lock = Lock(sim, machine.named("kfd process lock", number))
        uncontended = flag("process_lock.uncontended")
        self._process: AbstractAsyncContextManager[object] = nullcontext() if uncontended else self.process_lock
        self.svms_lock = Lock(sim, machine.named("kfd svms lock", number))
        alone = flag("svms_lock.uncontended")
        self._svms: AbstractAsyncContextManager[object] = nullcontext() if alone else self.svms_lock
        if beside is None:
            uncontended = flag("fault_handler.uncontended")
            self._handler = PageFaultHandler(machine, device, device.faults, self.costs, uncontended=uncontended)
            self._counts = _Counts()
        else:
            self._handler, self._counts = beside._handler, beside._counts
        self._ranges = PageTable(self.faults.spec.range)
        space = AddressSpace(self.host_pages, self.mmap_lock, self._svms, self._ranges)
        self._handler.serve_process(machine.local_process, space)
        self._host_time = machine.host_time

    def start(self) -> None:
        """Spawn, once, the page-fault handler and the device's own actors; called within a run."""
        self.device.start()
        self._handler.start()

    # Memory of the pool

    async def allocate(self, nbytes: int, phantom: bool = False) -> int:
        """Return the address of a new block of the device's memory pool; a phantom block has no bytes.

        A block that fits into a fragment which the library holds needs no kernel call. Raises OutOfSegments if no
        memory is left, and ValueError for a size that is not positive.
        """
        # The block is taken before the time passes, so that no other thread gets the same one meanwhile.
        block, segments = self.device.memory.allocate(nbytes, phantom)
        try:
            if segments:
                cost = self.costs.allocate + segments * self.device.memory.segment * self.costs.allocate_per_byte
                await self.in_kernel(cost)
            else:
                await self._work(self.costs.allocate_fragment)
        except BaseException:
            self.device.memory.free(block.address)
            raise
        return block.address

    async def allocate_host(self, nbytes: int) -> int:
        """Return the address of new memory of the host's pool, which the GPU can translate at once.

        The library keeps fragments of the device's memory only, so that each of these allocations is a kernel call.
        """
        await self.in_kernel(self.costs.allocate_host + nbytes * self.costs.allocate_host_per_byte)
        return self.machine.host_memory.allocate(nbytes)

    async def free_host(self) -> None:
        """Charge the time to free memory of the host's pool; its addresses are not used again, so none is given."""
        await self.in_kernel(self.costs.free)

    async def free(self, address: int) -> Block:
        """Free the block of the device's pool at ``address``, and return the block; InvalidDeviceAddress if none is."""
        # The block is given back after the time has passed: nobody else may get it while the kernel unmaps it.
        memory = self.device.memory
        if memory.block_of(address).is_large:
            await self.in_kernel(self.costs.free + memory.block_of(address).extent * self.costs.free_per_byte)
        else:
            await self._work(self.costs.free_fragment)
        return memory.free(address)[0]

    # Pages of host memory

    async def svm_attributes_set(self, begin: int, nbytes: int) -> int:
        """Prefault a range of host memory, so that the GPU can translate all of it; return how many pages are new.

        Pages that are mapped already cost nothing, so a repeated call has the same cost for every range.
        """
        sim, entry = self.machine.sim, self.machine.sim.now
        new = await self._set_attributes(begin, nbytes)
        self._counts.prefaults += 1
        self._counts.prefault_pages += new
        self._counts.prefault_s += sim.now - entry
        if (trace := self.machine.trace) is not None:
            trace(events.Prefault, self.device.index, -1, sim.current.cause, nbytes, new)
        return new

    async def memory_lock(self, begin: int, nbytes: int) -> None:
        """Let the GPU use a range of host memory, as libhsakmt does where the kernel driver has the SVM API.

        The call sets the range's coherence (``fmm_register_mem_svm_api``) and then the GPU's access
        (``fmm_map_mem_svm_api``), which maps missing pages. Nothing is pinned, and unlocking needs no kernel call, so
        the pages stay mapped. Locking them again costs two calls that find nothing to do.
        """
        await self._set_attributes(begin, 0)
        await self._set_attributes(begin, nbytes)

    async def _set_attributes(self, begin: int, nbytes: int) -> int:
        """Set attributes of a range of host memory and map its pages for the GPU; return the number of new pages.

        Follows ``svm_range_set_attr``: it holds the process lock to the end, so that it excludes allocations and frees;
        under that, the mmap lock for writing, and the svms lock. The mmap lock is downgraded before pages are mapped,
        so that the host may touch other pages meanwhile, but the svms lock keeps services of faults out.

        The pages appear all at once at the end; the real driver maps them range by range.  A kernel that starts during
        the call may fault for pages which the real driver would have mapped by then.  Its fault waits for the svms lock
        and finds the pages, so the kernel loses at most the rest of this call.
        """
        costs, pages, sim = self.costs, self.device.pages, self.machine.sim
        await self._work(costs.prefault)
        since = sim.now
        async with self._process:
            await self.mmap_lock.acquire_write()
            try:
                async with self._svms:
                    self._host_time.add("driver lock", sim.now - since)
                    await self._work(costs.prefault_locked)
                    self._ranges.insert(begin, begin + nbytes)
                    new = pages.missing_pages(begin, nbytes)
                    if not new:
                        return 0
                    self.mmap_lock.downgrade()
                    unpopulated = self.host_pages.missing_pages(begin, nbytes)
                    await self._work(new * costs.prefault_insert + unpopulated * (costs.populate + costs.repeat))
                    self.host_pages.insert(begin, begin + nbytes)
                    return pages.insert(begin, begin + nbytes)  # fewer than counted if the locks exclude nobody
            finally:
                self.mmap_lock.release()

    async def host_touch(self, begin: int, nbytes: int, *, of_program: bool = True) -> int:
        """Touch a range of host memory as the calling thread; return how many pages the thread populated.

        ``of_program``: whether the time counts as host time of the program, as it does for a thread of the program.

        The thread takes the mmap lock once for each range of ``fault.range`` bytes in which it has to populate pages. A
        real thread takes the lock once for each page. The total is the same, but here others wait longer at a time.
        """
        populated, size = 0, self.faults.spec.range
        for low, high in self.host_pages.missing(begin, nbytes):
            for piece in range(low - low % size, high, size):
                populated += await self._host_fault(max(low, piece), min(high, piece + size), of_program)
        self._counts.cpu_faults += populated
        return populated

    async def _host_fault(self, low: int, high: int, of_program: bool) -> int:
        """Populate the pages of [low, high), unless it was done while the calling thread waited for the lock."""
        since = self.machine.sim.now
        await self.mmap_lock.acquire_read()
        if of_program:
            self._host_time.add("driver lock", self.machine.sim.now - since)
        try:
            cost = self.host_pages.missing_pages(low, high - low) * (self.costs.host_fault + self.costs.populate)
            await (self._work(cost) if of_program else self._work_unaccounted(cost))
            return self.host_pages.insert(low, high)
        finally:
            self.mmap_lock.release()

    def unmap(self, begin: int, nbytes: int) -> int:
        """Remove the GPU's translations of a range, for an experiment; return how many pages had one.

        This takes no time: the experiment asks what the loss of translations costs, not their removal.
        """
        gone = self.device.pages.remove(begin, begin + nbytes)
        self._counts.unmapped += gone
        return gone

    def statistics(self) -> KfdStatistics:
        """Return the driver's counts for all processes, and the lock waits of this process."""
        counts = self._counts
        return KfdStatistics(
            counts.prefaults, counts.prefault_pages, counts.prefault_s, counts.cpu_faults, counts.unmapped,
            self.mmap_lock.statistics(), self.process_lock.statistics(), self.svms_lock.statistics(),
        )  # fmt: skip

    # Work

    async def in_kernel(self, dt: float) -> None:
        """Work for ``dt`` seconds in a call of the kernel driver, under the process lock, for which others may wait."""
        since = self.machine.sim.now
        # No hand-over is charged, because profiles have none for a mutex of the kernel. A contended process lock is
        # predicted too fast, by one wake-up for each wait.
        async with self._process:
            self._host_time.add("driver lock", self.machine.sim.now - since)
            await self._work(dt)

    def _work(self, dt: float) -> Awaitable[None]:
        """Work for ``dt`` seconds on a core."""
        return self.machine.work(dt, "driver")

    async def _work_unaccounted(self, dt: float) -> None:
        """Work for ``dt`` seconds on a core, in a thread outside of the program, without accounting for host time."""
        cores = self.machine.cores
        await cores.take()
        try:
            await self.machine.sim.sleep(self.machine.jitter(dt))
        finally:
            cores.give_back()
