"""ROCr, the driver library of an APU's device: the calls of the HSA runtime, made by host threads.

``Rocr`` lists all calls by topic. Every call runs in the calling thread, costs what the profile says (`RocrCosts`), and
is counted under its name in rocprof, without the prefix ``hsa_`` or ``hsa_amd_``. Calls of the kernel driver take that
driver's locks (``kfd.py``); copies and packets take the locks of their ring or queue. The library has one actor, the
thread for asynchronous handlers (`AsyncHandler`). It receives ``RunHandler`` when a signal is set, and runs one handler
after another, as ROCr's thread does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Final

import attrs
import msgspec

from offloadrt.driver.calls import (
    INVALID_ARGUMENT,
    NOTHING,
    OUT_OF_RESOURCES,
    CallAccounts,
    DriverError,
    KernelAccesses,
    OutOfDeviceMemory,
    driver_lock,
)
from offloadrt.driver.kfd import Kfd
from offloadrt.driver.uvm.faults import FaultBatch
from offloadrt.driver.uvm.uvm import Advice, Uvm
from offloadrt.kernels import Kernel, Launch
from offloadrt.kernels.memo import Memo
from offloadrt.machine import Apu, Device, InvalidDeviceAddress, LaunchOutOfResources, Machine, OutOfSegments, Stream
from offloadrt.machine.host_lock import HostLock
from offloadrt.machine.messages import BarrierPacket, BlitCopy, DmaPacket, KernelPacket, Move
from offloadrt.machine.servers import LevelOverTime, Servers, numbered_from_the_second
from offloadrt.sim import Actor, LockStatistics, Mailbox, Signal, Simulation
from offloadrt.sim.messages import NOBODY
from offloadrt.trace import events


@attrs.frozen
class RocrCosts:
    """Seconds of host time of each call, and from how many bytes on a copy is made by a kernel.

    The kernel driver's work in a call costs extra (``KfdCosts``).
    """

    init: Annotated[float, "init.library"]
    init_device: Annotated[float, "init.device"]
    """Additional time for each device that the program sees."""
    load_module: Annotated[float, "module.load"]
    """Time to load the program's code object."""
    copy_submit: Annotated[float, "dma.submit"]
    """Time to submit a copy to a DMA ring, under the ring's lock."""
    dispatch: Annotated[float, "hsa.dispatch"]
    """Time to write a kernel's packet to memory, under the queue's lock; this is no library call."""
    barrier: Annotated[float, "hsa.barrier"]
    """Time to write a barrier's packet."""
    queue_create: Annotated[float, "hsa.queue_create"]
    ring_create: Annotated[float, "dma.ring_create"]
    """Additional time of the first copy through a DMA ring."""
    signal_create: Annotated[float, "signal.create"]
    handler: Annotated[float, "signal.register"]
    """Time to register an asynchronous handler, under the list's lock; the handler costs ``signal.handler``."""
    blit_from: Annotated[int, "dma.blit_from"]
    """Bytes from which on a kernel of the library makes a copy, instead of a DMA ring."""
    names_engine: Annotated[bool, "dma.multiple_engines"]
    """Whether the plugin says which DMA ring makes a copy, of any size."""
    pin: Annotated[float, "pin.lock"]
    """Time to lock host memory, without its kernel calls."""
    unpin: Annotated[float, "pin.unlock"]
    wake: Annotated[float, "sync.latency"]
    """Time from a completion to the return of the call that waits for it."""
    """Time that a woken thread pays, with the lock, after it had to wait for the lock of a ring or a queue."""


class RocrContext:
    """The state that all calls of the library (ROCr) on one device share.

    There is no lock for all calls like CUDA's context lock: a copy takes its DMA ring's lock, a packet its HSA queue's.
    """

    def __init__(self, machine: Machine, device: Apu) -> None:
        self.machine = machine
        self.device = device
        self.costs = machine.spec.read(RocrCosts)
        self.calls = CallAccounts(machine, device, {})

    def make_lock(self, name: str, uncontended: str) -> HostLock:
        """Make the lock of a DMA ring or a queue; ``uncontended`` is the entry that makes it exclude nobody."""
        index = self.device.index
        name = self.machine.named(f"{name} of device {index}" if index else name)
        return driver_lock(self.machine, name, uncontended)


class RocrLoading:
    """Charges the time of the driver library's work before a program's first kernel on one device."""

    def __init__(self, context: RocrContext) -> None:
        self._machine = context.machine
        self._costs = context.costs
        self._calls = context.calls

    async def init(self) -> None:
        """Initialize the library in the process (hsa_init), which looks at every GPU that the program sees."""
        with self._calls.call("init"):
            seconds = self._costs.init + len(self._machine.devices) * self._costs.init_device
            await self._machine.work(seconds, "driver")

    async def load_code_object(self) -> None:
        """Load the program's code object with all its kernels (hsa_executable_load_agent_code_object)."""
        with self._calls.call("executable_load_agent_code_object"):
            await self._machine.work(self._costs.load_module, "driver")


class HsaSignal(Signal):
    """The HSA signal that is set when a command of ``stream`` completes."""

    __slots__ = ("stream",)

    def __init__(self, sim: Simulation, name: str, stream: object = None) -> None:
        # Sets what Signal's constructor sets, without calling it: an APU's program makes one for every command.
        self.sim = sim
        self.name = name
        self.is_set = False
        self.value: Any = None
        self.waiters: list[Actor] = NOBODY
        self.stream = stream
        self._callback: Callable[[], None] | None = None


_THREADS, _BYTES_PER_THREAD = 256, 64

BLIT = Kernel("blit copy", bytes_per_iteration=2.0, threads_per_team=_THREADS)
"""The kernel of all blit copies. One iteration copies one byte: a read and a write, so two bytes of traffic."""


def blit(nbytes: int) -> Launch:
    """Return the launch of a kernel that copies ``nbytes`` bytes.

    Each thread copies 64 bytes. This shape is the emulator's, not ROCr's; it matters only for copies that are too small
    to fill the device, since larger ones are limited by the memory's bandwidth.
    """
    return BLIT.launch(max(1, -(-nbytes // (_THREADS * _BYTES_PER_THREAD))), iterations=nbytes)


class RocrCopies:
    """The calls by which ROCr copies; users of a DMA ring take turns. ``cause``: the number of the directive."""

    def __init__(self, context: RocrContext) -> None:
        self._machine = context.machine
        self._device = context.device
        self._costs = context.costs
        self._calls = context.calls
        self.locks = {
            ring.number: context.make_lock(f"dma ring {ring.number} lock", "ring_lock.uncontended")
            for ring in context.device.rings
        }
        """The locks of the rings, by the ring's number."""
        self._created: set[int] = set()
        """The rings whose queue exists; the first copy through a ring creates its queue."""

    async def copy(
        self,
        stream: Stream,
        cause: int,
        direction: str,
        nbytes: int,
        move: Move | None,
        done: HsaSignal,
        depends: HsaSignal | None = None,
    ) -> None:
        """Copy (h2d, d2h or d2d) once ``depends`` is set; at the end ``move`` moves the bytes, and ``done`` is set.

        ROCr gives copies of ``dma.blit_from`` bytes and more to a kernel (``GpuAgent::GetBlitObject``: only compute
        units saturate the device's memory). Smaller copies go to a DMA ring, which needs no flush of caches. So do all
        copies if LLVM's plugin names a ring for each (``dma.multiple_engines``: ``async_copy_on_engine``), and copies
        that depend on a signal, because barriers before copies by a kernel are not emulated.
        """
        if depends is None and nbytes >= self._costs.blit_from and not self._costs.names_engine:
            await self.copy_by_kernel(stream, cause, direction, nbytes, move, done)
            return
        queue = stream.queue.number
        with self._calls.call("memory_async_copy", queue) as call:
            call.takes(bytes=nbytes, direction=direction)
            ring = self._device.next_ring()
            lock = self.locks[ring.number]
            await lock.enter(self._costs.copy_submit)
            try:
                if ring.number not in self._created:
                    await self._machine.work(self._costs.ring_create, "driver")
                    self._created.add(ring.number)
                stream.note(done)
                number = self._machine.next_number()
                memory = "device" if direction == "d2d" else "staged"
                now = self._machine.sim.now
                ring.submit(DmaPacket(number, cause, direction, nbytes, memory, move, done, depends, queue, now))
            finally:
                lock.release()

    async def copy_by_kernel(
        self, stream: Stream, cause: int, direction: str, nbytes: int, move: Move | None, done: HsaSignal
    ) -> None:
        """Copy (h2d, d2h, d2d) by a kernel that waits for no work of the stream; then call ``move``, set ``done``."""
        with self._calls.call("memory_async_copy", stream.queue.number) as call:
            call.takes(bytes=nbytes, direction=direction)
            await self._machine.work(self._costs.copy_submit, "driver")

            def run() -> None:
                self._device.add_moved(direction, nbytes)
                if move is not None:
                    move()

            copy = BlitCopy(direction, nbytes, "device" if direction == "d2d" else "pinned")
            number = self._machine.next_number()
            packet = KernelPacket(number, stream, cause, blit(nbytes), run, done, blit=copy)
            # ROCr has an internal queue for blits: they go to the compute units past the stream's queue.
            self._device.compute.mailbox.put(packet)


class RunHandler(msgspec.Struct, frozen=True, eq=False):
    """Asks the handler thread to copy ``nbytes`` from or to host memory, call ``move``, and then set ``done``."""

    nbytes: int
    move: Callable[[], None] | None
    """Moves the bytes when the copy ends; None when an end is a phantom (memory without bytes)."""
    done: Signal
    written: int = 0
    """The host address to which the handler writes, 0 for none; untouched pages are populated first."""


class HandlerAdded(msgspec.Struct, frozen=True):
    """Tells the idle handler thread that a new handler was added, so that it wakes up."""


MESSAGES = (RunHandler, HandlerAdded)


@attrs.frozen
class HandlerSpec:
    """The costs of the thread that runs handlers of HSA signals, and whether every handler finds an idle thread."""

    cost: Annotated[float, "signal.handler"]
    """Seconds that each handler takes in addition to its copy."""
    take: Annotated[float, "signal.take"]
    """Seconds for which the woken thread holds the list's lock, to take new handlers."""
    uncontended: Annotated[bool, "async_handler.uncontended"]
    """Whether every handler finds an idle thread (an ablation)."""


@attrs.frozen
class HandlerStatistics:
    """Times of the thread that handles signals, in virtual seconds so far.

    ``busy_s + idle_s`` is the time elapsed, unless ``uncontended`` gives each handler a thread of its own.
    """

    busy_s: float
    """Time in which the thread ran a handler."""
    idle_s: float
    """Time in which the thread ran no handler."""
    wait_s: float
    """Time for which handlers with a set signal waited for their turn, summed over the handlers."""
    handlers: int
    """Number of handlers that have ended."""


class AsyncHandler:
    """The library's thread for handlers of HSA signals: ``start`` spawns it; ``submit`` queues a handler to run.

    Each new handler wakes the thread (``wake``). It then takes the new ones from the library's list of handlers, under
    the list's lock (``Runtime::AsyncEventsLoop``).
    """

    def __init__(self, kfd: Kfd, context: RocrContext) -> None:
        machine = kfd.machine
        name = f"device {kfd.device.index} async handler"
        self.mailbox = Mailbox(machine.sim, machine.named(name))
        self.lock = context.make_lock("async events lock", "async_events_lock.uncontended")
        """The lock of the list of handlers (``AsyncEventsInfo``)."""
        self._kfd = kfd
        self._machine = machine
        self._sim = machine.sim
        self._spec = machine.spec.read(HandlerSpec)
        names, grow = numbered_from_the_second(self.name, "thread"), self._spec.uncontended
        self._servers: Servers[RunHandler] = Servers(machine.sim, self.mailbox, self._run, names, grow=grow)
        self._busy = LevelOverTime(machine.sim)
        self._handlers = 0
        self._born = machine.sim.now

    @property
    def name(self) -> str:
        """Return the actor's name, such as "device 0 async handler"."""
        return self.mailbox.name

    def start(self) -> None:
        """Spawn the actor (simulated task) of the thread that runs handlers."""
        self._servers.start()

    def submit(self, handler: RunHandler) -> None:
        """Queue a handler whose signal is set; the thread runs it after those queued before."""
        self._servers.submit(handler)

    def wake(self) -> None:
        """Wake the thread to take a new handler; a busy thread takes it afterwards, with other new ones."""
        if self._servers.claim():
            self.mailbox.put(HandlerAdded())

    async def _run(self) -> None:
        """Run one handler after another, for ever (the actor)."""
        sim, machine, cores, servers = self._sim, self._machine, self._machine.cores, self._servers
        copy, pages = machine.host_memory.copy_on_core, machine.host_memory.pages
        while True:
            handler = await self.mailbox.get()
            if isinstance(handler, HandlerAdded):
                await self._take_new()
                servers.done()
                continue
            if not isinstance(handler, RunHandler):
                raise TypeError(f"the thread for asynchronous handlers does not understand {handler!r}")
            begin = sim.now
            self._busy.rise()
            # Before the core is taken: the fault may wait for the mmap lock, and a thread that waits has no core.
            if handler.written and not pages.covers(handler.written, handler.nbytes):
                await self._kfd.host_touch(handler.written, handler.nbytes, of_program=False)
            await cores.take()
            try:
                await sim.sleep(machine.jitter(self._spec.cost))
                await copy(handler.nbytes)
            finally:
                cores.give_back()
            if handler.move is not None:
                handler.move()
            self._busy.fall()
            self._handlers += 1
            handler.done.set(("copies", begin, sim.now))
            await self._take_new()
            servers.done()

    async def _take_new(self) -> None:
        begin = self._sim.now
        await self.lock.work(self._spec.take)
        self._machine.host_time.lived(self._sim.now - begin)  # the lock counts it as a host thread's

    def statistics(self) -> HandlerStatistics:
        """Return the statistics of the thread so far."""
        busy_s = self._busy.total_s
        idle_s = max(self._sim.now - self._born - busy_s, 0.0)
        return HandlerStatistics(busy_s, idle_s, self._servers.queued.total_s, self._handlers)


class RocrSignals:
    """The calls for HSA signals on one device; ``handler`` is the thread that runs the handlers of set signals."""

    def __init__(self, context: RocrContext, handler: AsyncHandler) -> None:
        self._machine = context.machine
        self._device = context.device
        self._costs = context.costs
        self._calls = context.calls
        self._handler = handler
        self._work = context.machine.work
        self.lock = handler.lock

    async def create(self) -> None:
        """Charge the time of hsa_signal_create; the caller, LLVM's plugin, makes the signal and keeps it in a pool."""
        with self._calls.call("signal_create"):
            await self._work(self._costs.signal_create, "driver")

    async def async_handler(self, signal: HsaSignal, handler: RunHandler) -> None:
        """Have the library's thread run a handler when a signal is set (hsa_amd_signal_async_handler).

        ``Runtime::SetAsyncSignalHandler`` adds the handler to the list of all handlers and wakes the thread, both under
        the list's lock.
        """
        with self._calls.call("signal_async_handler"):
            await self.lock.enter(self._costs.handler)
            try:
                self._handler.wake()
                signal.set_callback(partial(self._handler.submit, handler))
            finally:
                self.lock.release()

    async def wait(self, stream: Stream, signal: Signal, category: str = "") -> None:
        """Wait for the completion of the last command submitted to a stream (hsa_signal_wait_scacquire).

        The wait counts as host time of copies or of kernels, by what the stream executed meanwhile. With ``category``,
        an entry of ``trace.HOST_TIME``, all of the wait counts for that category.
        """
        with self._calls.call("signal_wait_scacquire"):
            if signal.is_set:
                stream.spans()  # forgets what the stream did: nobody waited for it
                return
            sim, trace, index = self._machine.sim, self._machine.trace, self._device.index
            begin, queue = sim.now, stream.queue.number
            if trace is not None:
                cause = sim.current.cause
                trace(events.SignalWaitBegin, index, queue, cause, signal.name)
            try:
                await signal.wait()
            finally:
                if trace is not None:
                    trace(events.SignalWaitEnd, index, queue, cause, signal.name)
                if category:
                    self._machine.host_time.add(category, sim.now - begin)
                else:
                    self._machine.host_time.add_wait(begin, sim.now, stream.spans())
            await self._work(self._costs.wake, "driver")


class RocrQueues:
    """The calls by which host threads submit kernels and barriers to the HSA queues of one device."""

    def __init__(self, context: RocrContext) -> None:
        self._machine = context.machine
        self._device = context.device
        self._costs = context.costs
        self._calls = context.calls
        self._make_lock = context.make_lock
        self.locks: dict[int, HostLock] = {}
        """The locks of the queues that have been created, by the queue's number."""
        self._fits: Memo[int, Launch] = Memo()  # by id

    def take(self, stream: Stream) -> None:
        """Give a stream the HSA queue to which it submits from now on; the first packet in a new queue creates it."""
        self._device.hsa_queues.take(stream)

    async def dispatch(
        self,
        stream: Stream,
        cause: int,
        launch: Launch,
        run: Move | None,
        done: HsaSignal,
        touching: KernelAccesses = NOTHING,
    ) -> None:
        """Write a kernel's packet into the stream's queue, after a barrier if the stream has unfinished work.

        HSA queues start packets without waiting for earlier ones; LLVM's plugin adds the barrier to get the semantics
        of a stream. ``run`` computes the result, ``touching`` is the memory used, ``cause`` the directive's number;
        then ``done`` is set. Raises DriverError when no team of the launch fits on a compute unit.
        """
        if self._fits.get(id(launch)) is not launch:
            self._check(launch)
        unfinished = None if stream.idle else stream.last
        cost = self._costs.dispatch if unfinished is None else self._costs.dispatch + self._costs.barrier
        number, queue = self._machine.next_number(), stream.queue.number
        if queue not in self.locks:
            await self.create(queue)
        lock = self.locks[queue]
        await lock.enter(cost)
        try:
            # Barrier and kernel go into the queue under one hold of its lock, so no other thread's packet comes
            # between.
            if unfinished is not None:
                self._device.hsa_queues.numbered(queue).submit(BarrierPacket(cause, unfinished))
            stream.submit(
                KernelPacket(
                    number,
                    stream,
                    cause,
                    launch,
                    run,
                    done,
                    touching.ranges,
                    touching.serial_s,
                    touching.fault,
                    data=touching.data,
                )
            )
        finally:
            lock.release()
        if (trace := self._machine.trace) is not None:
            trace(events.KernelSubmit, self._device.index, queue, cause, number, launch.kernel.name)

    async def barrier(self, stream: Stream, cause: int, depends: HsaSignal, done: HsaSignal) -> None:
        """Put a barrier into a stream for directive ``cause``: later work awaits ``depends``; then ``done`` is set."""
        number = stream.queue.number
        if number not in self.locks:
            await self.create(number)
        lock = self.locks[number]
        await lock.enter(self._costs.barrier)
        try:
            queue = self._device.hsa_queues.numbered(number)
            if stream.last is not None and not stream.last.is_set:
                queue.submit(BarrierPacket(cause, stream.last))
            stream.note(done)
            queue.submit(BarrierPacket(cause, depends, done))
        finally:
            lock.release()

    async def create(self, number: int) -> None:
        """Create the HSA queue with this number on the device (hsa_queue_create).

        The queue's lock is held meanwhile, so that nobody submits to a queue that does not exist yet.
        """
        lock = self.locks[number] = self._make_lock(f"hsa queue {number} lock", "queue_lock.uncontended")
        with self._calls.call("queue_create"):
            await lock.work(self._costs.queue_create)

    def _check(self, launch: Launch) -> None:
        """Check that a team of the launch fits on a compute unit. Raises DriverError."""
        try:
            self._device.compute.spec.limits.resident_teams(launch)
        except LaunchOutOfResources as error:
            failure = DriverError("queue_submit", INVALID_ARGUMENT, str(error))
            if (trace := self._machine.trace) is not None:
                cause = self._machine.sim.current.cause
                trace(events.RuntimeError_, self._device.index, -1, cause, failure.call, str(failure))
            raise failure from None
        self._fits[id(launch)] = launch


class RocrMemory:
    """The calls by which one device's library (ROCr) allocates, frees and locks memory."""

    def __init__(self, context: RocrContext, kfd: Kfd) -> None:
        self._sim = context.machine.sim
        self._work = context.machine.work
        self._trace = context.machine.trace
        self._device = context.device
        self._costs = context.costs
        self._calls = context.calls
        self._kfd = kfd

    async def alloc(self, nbytes: int, phantom: bool = False) -> int:
        """Return the address of a new block of the device's pool; a phantom block has no bytes.

        Raises OutOfDeviceMemory if it does not fit, and DriverError for a size that is not positive.
        """
        with self._calls.call("memory_pool_allocate", nbytes=nbytes) as call:
            if nbytes <= 0:
                raise DriverError(call.api, INVALID_ARGUMENT, f"{nbytes} bytes asked for")
            try:
                address = await self._kfd.allocate(nbytes, phantom)
            except OutOfSegments:
                free, thread, device = self._device.memory.free_bytes, self._sim.current.name, self._device.index
                raise OutOfDeviceMemory(
                    call.api, nbytes, free, thread, self._sim.now, device, OUT_OF_RESOURCES
                ) from None
            if self._trace is not None:
                self._trace(events.Allocate, self._device.index, -1, call.cause, address, nbytes, call.api)
            return address

    async def alloc_host(self, nbytes: int) -> int:
        """Return the address of new memory of the host's pool (hsa_amd_memory_pool_allocate)."""
        with self._calls.call("memory_pool_allocate"):
            return await self._kfd.allocate_host(nbytes)

    async def free_host(self) -> None:
        """Charge the call that frees memory of the host's pool (hsa_amd_memory_pool_free); no address is needed."""
        with self._calls.call("memory_pool_free"):
            await self._kfd.free_host()

    async def free(self, address: int) -> None:
        """Free a block of the device's memory pool. Raises DriverError for an address at which no block begins."""
        with self._calls.call("memory_pool_free") as call:
            try:
                block = await self._kfd.free(address)
            except InvalidDeviceAddress as error:
                raise DriverError(call.api, INVALID_ARGUMENT, str(error)) from None
            if self._trace is not None:
                self._trace(events.Free, self._device.index, -1, call.cause, address, block.size, call.api)

    async def lock(self, address: int, nbytes: int) -> None:
        """Let the device use host memory (hsa_amd_memory_lock): missing pages are mapped, and stay mapped.

        An address of 0 stands for host memory of unknown position that is mapped already.
        """
        with self._calls.call("memory_lock") as call:
            call.takes(bytes=nbytes, address=address)
            await self._work(self._costs.pin, "driver")
            await self._kfd.memory_lock(address, nbytes if address else 0)

    async def unlock(self, address: int) -> None:
        """End the use of host memory (hsa_amd_memory_unlock): the library has nothing to undo in the kernel."""
        with self._calls.call("memory_unlock"):
            await self._work(self._costs.unpin, "driver")

    async def set_svm_attributes(self, address: int, nbytes: int) -> int:
        """Prefault host memory, so that kernels find its pages; return how many were new to the device."""
        with self._calls.call("svm_attributes_set") as call:
            call.takes(bytes=nbytes, address=address)
            return await self._kfd.svm_attributes_set(address, nbytes)


_ONE_MEMORY: Final = "CPU and GPU share one memory: nothing is managed, and nothing could migrate"
_NO_PINNING: Final = "pinned memory is not emulated where CPU and GPU share one memory"


class RocrManagedMemory:
    """Refuses all calls for managed memory with DriverError, because an APU has one memory, where nothing migrates."""

    uvm = None
    """None, because there is no unified-memory driver."""

    def start(self) -> Uvm:
        raise DriverError("hipMallocManaged", INVALID_ARGUMENT, _ONE_MEMORY)

    async def alloc(self, nbytes: int, name: str = "") -> int:
        raise DriverError("hipMallocManaged", INVALID_ARGUMENT, _ONE_MEMORY)

    async def free(self, address: int) -> None:
        raise DriverError("hipFree", INVALID_ARGUMENT, _ONE_MEMORY)

    async def advise(self, address: int, nbytes: int, advice: Advice) -> None:
        raise DriverError("svm_attributes_set", INVALID_ARGUMENT, _ONE_MEMORY)


class RocrPinning:
    """Refuses all calls that pin host memory with DriverError, because an APU's copies do not depend on pinning."""

    async def register(self, address: int, nbytes: int) -> None:
        raise DriverError("memory_lock", INVALID_ARGUMENT, _NO_PINNING)

    async def unregister(self, address: int) -> None:
        raise DriverError("memory_unlock", INVALID_ARGUMENT, _NO_PINNING)

    async def alloc(self, nbytes: int) -> int:
        raise DriverError("hipHostMalloc", INVALID_ARGUMENT, _NO_PINNING)

    async def free(self, address: int) -> None:
        raise DriverError("hipHostFree", INVALID_ARGUMENT, _NO_PINNING)


class Rocr:
    """The driver library on one device, with its calls by topic; ``start`` spawns its actors within a run.

    ``beside`` is the library of another process on the same device, with which it shares the kernel driver. Raises
    ProfileError when the machine is no APU.
    """

    graphs = None
    """None, because graphs are not emulated."""

    def __init__(self, machine: Machine, device: Device, beside: Rocr | None = None) -> None:
        self.machine = machine
        self.sim = machine.sim
        self.kfd: Kfd = Kfd(machine, device, None if beside is None else beside.kfd)
        self.device = self.kfd.device
        context = RocrContext(machine, self.device)
        self.costs = context.costs
        self.handler = AsyncHandler(self.kfd, context)
        self.loading = RocrLoading(context)
        self.memory = RocrMemory(context, self.kfd)
        self.signals = RocrSignals(context, self.handler)
        self.queues = RocrQueues(context)
        self.copies = RocrCopies(context)
        self.managed = RocrManagedMemory()
        self.pinning = RocrPinning()
        self._started = False

    @classmethod
    def of(cls, machine: Machine, number: int = 0, beside: Rocr | None = None) -> Rocr:
        """Return the library on a machine's device ``number``; ``beside``: another process's library on it."""
        return cls(machine, machine.devices[number], beside)

    @classmethod
    def open(cls, views: Sequence[Machine], devices: int) -> list[list[Rocr]]:
        """Return, by process (in ``views``) and device, the libraries of the first ``devices`` devices."""
        first = [cls.of(views[0], number) for number in range(devices)]
        return [first, *([cls.of(view, number, first[number]) for number in range(devices)] for view in views[1:])]

    def start(self) -> None:
        """Spawn the actors (simulated tasks) of the device, the kernel driver and the library, once."""
        if not self._started:
            self._started = True
            self.kfd.start()
            self.handler.start()

    def locks(self) -> dict[str, LockStatistics]:
        """Return the statistics of the library's and the kernel driver's locks, by name."""
        kfd = self.kfd.statistics()
        own = (*self.copies.locks.values(), *self.queues.locks.values(), self.signals.lock)
        locks = {lock.name: lock.statistics() for lock in own}
        locks[self.kfd.process_lock.name] = kfd.process
        locks[self.kfd.svms_lock.name] = kfd.svms
        locks[self.kfd.mmap_lock.name] = kfd.mmap.combined()
        return locks

    def engines(self) -> dict[str, HandlerStatistics]:
        """Return the statistics of the library's own actors (simulated tasks), by name."""
        return {self.handler.name: self.handler.statistics()}

    def faults(self) -> dict[str, int]:
        """Count the pages of host memory that entered page tables, by the way they came in (a fault, a prefault, …).

        The keys are gpu, gpu_pages, gpu_duplicates, cpu_pages and prefault_pages (see `RunStatistics.faults`).
        """
        gpu, kfd = self.device.fault_statistics(), self.kfd.statistics()
        return {
            "gpu": gpu.faults,
            "gpu_pages": gpu.pages,
            "gpu_duplicates": gpu.duplicates,
            "cpu_pages": kfd.cpu_faults,
            "prefault_pages": kfd.prefault_pages,
        }

    def fault_batches(self) -> Sequence[FaultBatch]:
        """Return an empty sequence, because the kernel driver serves one fault after another."""
        return ()

    def share_buffer(self) -> None:
        """Do nothing: LLVM's plugin stages small copies in its own blocks, and other copies need no buffer."""
