"""The host: its cores, its memory, and algorithms that run on its worker threads.

None of this is an actor. Host threads are actors of the layers above. They take a core (``Cores``), copy within the
memory or execute an algorithm, and wait while these are busy: when all cores are taken, a thread waits for a core, in
order. Addresses are handed out in four regions, laid out as Linux lays out a process, so that addresses in reports look
familiar. ``HostContents`` says which array lies at which address, for devices that follow pointers.
"""

from __future__ import annotations

import copy
import types
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable
from math import inf
from typing import Annotated, Any, Final, Literal, Protocol

import attrs
import numpy as np
import numpy.typing as npt

from offloadrt.address_map import AddressMap
from offloadrt.kernels import Launch
from offloadrt.machine.links.link import Shared, Way
from offloadrt.machine.memory import InvalidDeviceAddress, PageTable
from offloadrt.machine.servers import LevelOverTime
from offloadrt.machine.share import SharedPool
from offloadrt.sim import PASSED, Actor, Simulation
from offloadrt.sim.errors import LONGEST_S, no_duration
from offloadrt.sim.scheduler import uninterrupted
from offloadrt.trace import HostTime


@attrs.frozen
class CoreStatistics:
    """Statistics of the cores so far; times are in virtual seconds, summed over cores or threads.

    busy_s + idle_s is the time elapsed times the number of cores.
    """

    cores: int
    computed: int
    """Number of times that a thread took a core."""
    waited: int
    """Number of times that a thread found no idle core."""
    wait_s: float
    """Time for which threads waited for a core, summed over the threads."""
    busy_s: float
    """Time of working cores."""
    idle_s: float
    """Time of idle cores."""


class Cores:
    """The host's ``count`` equal cores. A thread that waits for anything but a core gives its core up.

    A pinned thread (``pin``) has one core and takes turns with other threads that are pinned there. Other threads leave
    that core alone, as an operating system does while other cores are idle. ``host_time`` counts the work. With
    ``uncontended`` every thread has a core of its own (to find out what sharing costs).
    """

    takes_turns = True

    __slots__ = (
        "_born", "_busy", "_busy_s", "_computed", "_host_seconds", "_own", "_pinned", "_places", "_sim", "_slice",
        "_wait_s", "_waited", "_waiters", "count", "name",
    )  # fmt: skip

    def __init__(self, sim: Simulation, count: int, host_time: HostTime, *, uncontended: bool = False) -> None:
        self._sim = sim
        self.count = count
        self.name = "core"
        self._waiters: deque[tuple[Actor, float | None]] = deque()
        """Threads that wait for a core, with the seconds that each will work; None: until it gives the core back."""
        self._places = inf if uncontended else count
        self._own: dict[int, Cores] = {}
        """The cores to which threads are pinned, by the core's number."""
        self._pinned: dict[Actor, Cores] = {}
        self._slice = inf
        """Seconds of work after which a thread leaves its core to another thread that waits."""
        self._host_seconds = host_time.seconds
        self._computed = 0
        self._waited = 0
        self._wait_s = 0.0
        self._busy = 0
        self._busy_s = 0.0  # ends minus beginnings of work; for a core at work the statistics add the present time
        self._born = sim.now
        sim.primitives.append(self)

    @uninterrupted
    def compute(self, dt: float, category: str = "compute") -> Awaitable[None]:
        """Occupy one core for ``dt`` virtual seconds; count them, and the wait for a core, as host time.

        Await the result at once: the work begins with the call. ``category`` of ``trace.HOST_TIME``: the kind of work.
        """
        try:
            if not 0.0 <= dt <= LONGEST_S:
                raise no_duration("compute", dt)
        except TypeError:
            raise no_duration("compute", dt) from None
        sim = self._sim
        if (me := sim.running) is None:
            me = sim.current
        if self._pinned and me in self._pinned and dt > self._slice:
            return self._in_slices(dt, category)
        begin = sim.now
        if not self.begin(me, dt):
            return self._at_work(me, begin, category)
        self._host_seconds[category] += sim.now - begin  # done: nothing else was to happen before
        return PASSED

    @uninterrupted
    @types.coroutine
    def _at_work(self, me: Actor, begin: float, category: str) -> Generator[Any, Any, None]:
        """Wait for the end of work that has begun or that still waits for a core."""
        sim = self._sim
        sim.running = None  # it waits in virtual time, as in `sleep`
        yield me.trap
        self.ended(me)
        self._host_seconds[category] += sim.now - begin
        if me.interruption is not None:
            yield from me.interrupted()

    async def _in_slices(self, dt: float, category: str) -> None:
        """Work for ``dt`` seconds, and leave the core to other threads pinned there after each time slice."""
        while dt > 0.0:
            await self.compute(min(dt, self._slice), category)
            dt -= self._slice

    def pin(self, actor: Actor, core: int, time_slice: float) -> None:
        """Pin a thread to one core, whose threads take turns after ``time_slice`` virtual seconds each.

        Raises ValueError for a core that does not exist.
        """
        if not 0 <= core < self.count:
            raise ValueError(f"pin: core is {core!r}; there are cores 0 to {self.count - 1}")
        if core not in self._own and self._places < inf:
            self._own[core] = Cores(self._sim, 1, HostTime())
            self._own[core].name = f"core {core}"
            self._places = max(1, self.count - len(self._own))
        self._slice = time_slice
        if core in self._own:
            self._pinned[actor] = self._own[core]

    def inherit(self, actors: Iterable[Actor], parent: Actor) -> None:
        """Pin the new threads `actors` to the core of `parent`, which creates them, if `parent` itself is pinned."""
        if (own := self._pinned.get(parent)) is not None:
            self._pinned |= dict.fromkeys(actors, own)

    def is_pinned(self, actor: Actor) -> bool:
        return actor in self._pinned

    @uninterrupted
    def take(self) -> Awaitable[None]:
        """Wait for a core and keep it until ``give_back``."""
        return PASSED if self.begin(self._sim.current, None) else self._wait()

    @uninterrupted
    @types.coroutine
    def _wait(self) -> Generator[Any, Any, None]:
        me = self._sim.current
        self._sim.running = None  # it waits in virtual time, as in `sleep`
        yield me.trap
        if me.interruption is not None:
            self.ended(me)
            yield from me.interrupted()

    def give_back(self) -> None:
        """Give the calling thread's core up; the thread that has waited longest for a core gets it."""
        self.ended(self._sim.current)

    # ------------------------------------------------------------------ for a lock, which begins a thread's work

    def begin(self, actor: Actor, dt: float | None) -> bool:
        """Let ``actor``, which is parked or about to park, work on a core for ``dt`` seconds; then resume it.

        The actor then calls ``ended``, also when a cancellation resumed it earlier. If ``dt`` is None, it has the core
        until it calls ``ended``. Returns True if the actor need not wait: it has the core from now on (``dt`` None), or
        its work is over already, because nothing else was to happen before its end (`Simulation.set_timer`).
        """
        if self._pinned and (own := self._pinned.get(actor)) is not None:
            return own.begin(actor, dt)
        sim = self._sim
        self._computed += 1
        if self._busy < self._places:
            now = sim.now
            if dt is not None and sim.set_timer(actor, now + dt):
                self._busy_s = self._busy_s - now + sim.now
                return True
            self._busy += 1
            self._busy_s -= now
            return dt is None
        self._waited += 1
        self._waiters.append((actor, dt))
        actor.waits_for = self
        actor.waits_since = sim.now
        actor.story.append((sim.now, self.name))
        return False

    def ended(self, actor: Actor) -> None:
        """Take the core from ``actor``, whose work is over; the longest waiter gets it and begins to work at once.

        Nothing happens if the actor was cancelled while it waited for a core.
        """
        if self._pinned and (own := self._pinned.get(actor)) is not None:
            own.ended(actor)
            return
        sim = self._sim
        if actor.value is self:
            actor.value = None
        elif not self._waiters:
            self._busy -= 1
            self._busy_s += sim.now
        else:
            # The core passes from one to the other without being idle. Its successor's timer is set here, so waiting
            # and working are one suspension of that thread.
            successor, dt = self._waiters.popleft()
            self._wait_s += sim.now - successor.waits_since
            if dt is None:
                sim.ready.append(successor)
            else:
                sim.set_timer(successor, sim.now + dt)
            successor.waits_for = None

    def forget(self, actor: Actor) -> None:
        """Remove a cancelled ``actor`` from the queue of those that wait for a core."""
        self._waiters = deque(waiter for waiter in self._waiters if waiter[0] is not actor)
        self._wait_s += self._sim.now - actor.waits_since
        actor.waits_for = None
        actor.value = self  # it leaves the queue, not a core

    def statistics(self) -> CoreStatistics:
        """Return the statistics of the cores so far."""
        now = self._sim.now
        each = (self, *self._own.values())
        busy_s = sum([cores._busy_s + cores._busy * now for cores in each])
        idle_s = max((now - self._born) * self.count - busy_s, 0.0)
        computed, waited = (sum([getattr(cores, name) for cores in each]) for name in ("_computed", "_waited"))
        return CoreStatistics(self.count, computed, waited, sum([cores._wait_s for cores in each]), busy_s, idle_s)


# ---------------------------------------------------------------------- arrays by their addresses
# The program's arrays by their host addresses, for a device that follows pointers into host memory.
class HostArrayLike(Protocol):
    """A named array in host memory; ``bytes`` is None for a phantom, which has a size but no data."""

    name: str
    address: int
    nbytes: int

    @property
    def bytes(self) -> npt.NDArray[np.uint8] | None: ...


class HostContents:
    """Maps addresses to the program's arrays, from when an array is made until the program frees it.

    As in C, an array whose variable goes out of scope is not freed: pointers to it remain valid. So a kernel's result
    does not depend on when Python's garbage collector removes an object.
    """

    __slots__ = ("_arrays",)

    def __init__(self) -> None:
        self._arrays: AddressMap[HostArrayLike] = AddressMap()

    def add(self, array: HostArrayLike) -> None:
        """Record that an array lies at its address from now on; an array of 0 bytes is not recorded."""
        if array.nbytes:
            self._arrays[array.address] = array

    def remove(self, address: int) -> None:
        """Forget the array that begins at ``address``, whose memory the program has freed."""
        self._arrays.pop(address)

    def find(self, address: int) -> HostArrayLike | None:
        """Return the array that holds ``address``, or None."""
        nearest = self._arrays.before(address)
        if nearest is None:
            return None
        begin, array = nearest
        return array if address < begin + array.nbytes else None

    def view(self, address: int, nbytes: int) -> npt.NDArray[np.uint8]:
        """Return the bytes [address, address + nbytes) as a writable NumPy view.

        Raises InvalidDeviceAddress unless they lie in one array, and that array has data (is no phantom).
        """
        array = self.find(address)
        if array is None:
            raise InvalidDeviceAddress(f"{address:#x} lies in no array of the host")
        offset = address - array.address
        if offset + nbytes > array.nbytes:
            reach = f"{nbytes} bytes at <{array.name}+{offset}> reach beyond the array of {array.nbytes} bytes"
            raise InvalidDeviceAddress(reach)
        if array.bytes is None:
            raise InvalidDeviceAddress(f"array {array.name!r} is a phantom: it has a size but no values")
        return array.bytes[offset : offset + nbytes]


Region = Literal["heap", "stack", "global", "managed"]

_REGION_BASES: dict[Region, int] = {
    "global": 0x0060_0000,
    "heap": 0x5555_0000_0000,
    "managed": 0x7000_0000_0000,
    "stack": 0x7FFC_0000_0000,
}
ADDRESS_SPACE: Final = 1 << 48
"""Distance between the address spaces of two processes: the bits above an address say whose it is, as a PASID does."""
_HEADER = 16
"""Bytes that glibc's malloc keeps before each block, so that two blocks never touch."""


@attrs.frozen
class HostMemoryStatistics:
    """Statistics of copies within the host; times are in virtual seconds. busy_s + idle_s is the time elapsed."""

    busy_s: float
    """Time with a copy in progress, so far."""
    idle_s: float
    """Time without a copy in progress."""
    wait_s: float
    """Time by which contention prolonged the copies that have ended, summed over the copies."""
    copies: int
    """Copies that have ended."""
    bytes: int
    """Bytes of the copies that have ended."""


@attrs.frozen
class PopulationSpec:
    """The bytes of small and ``huge`` pages, and the costs of giving the program a page that it has not touched yet."""

    page: Annotated[int, "page.size"]
    huge: Annotated[int, "page.size_thp"]
    thp: Annotated[bool, "page.thp"]
    """Whether the system gives a huge page where all of that page is untouched."""
    fault: Annotated[float, "host.page_fault"]
    """Seconds of a CPU fault: the trap, the page and its mapping, without clearing the page."""
    clear_rate: Annotated[float, "host.clear_1t"]
    """Bytes per second that one core clears when it works alone."""

    def pages_of(self, low: int, high: int) -> tuple[int, int]:
        """Return how many small and how many huge pages hold the bytes [low, high)."""
        first, last = -(-low // self.huge) * self.huge, high - high % self.huge
        within = last - first if self.thp and last > first else 0
        return -(-(high - low - within) // self.page), within // self.huge


_POPULATED_AT_ONCE = 32 * 2**20
"""Bytes after which a thread that populates a range checks what others have populated meanwhile."""


@attrs.define
class _Copied:
    """Accumulates the counts of ``HostMemoryStatistics`` over all processes."""

    copies: int = 0
    wait_s: float = 0.0
    bytes: int = 0


class HostMemory:
    """The host's memory: gives out addresses in heap, stack and globals, makes copies, and gives pages on first touch.

    A copy runs on one of ``cores`` at ``bandwidth_1t`` bytes/s; all copies together run at most at ``bandwidth_all``.
    ``pages`` is the CPU's page table: the pages that the operating system has given to the program on first touch.
    ``population`` has the cost of such a page; it is read at the first use, as many programs touch none. ``contents``
    has the arrays that a device can reach by address. Each process has its own addresses, pages and contents
    (``of_process``); all processes share the bandwidth.
    """

    __slots__ = (
        "_bandwidth_1t", "_bases", "_born", "_copied", "_copying", "_cores", "_free", "_host_time", "_pool",
        "_population", "_sim", "_sizes", "_tops", "contents", "pages",
    )  # fmt: skip

    def __init__(
        self,
        sim: Simulation,
        cores: Cores,
        host_time: HostTime,
        bandwidth_1t: float,
        bandwidth_all: float,
        *,
        page_size: int = 4096,
        uncontended: bool = False,
        population: Callable[[], PopulationSpec] | None = None,
    ) -> None:
        self.pages = PageTable(page_size)
        self._population = population
        self.contents = HostContents()
        self._sim = sim
        self._cores = cores
        self._host_time = host_time
        self._bandwidth_1t = bandwidth_1t
        self._pool = SharedPool(sim, bandwidth_all, "host memory", uncontended=uncontended)
        self._bases = _REGION_BASES
        self._tops = dict(_REGION_BASES)
        self._free: dict[tuple[Region, int, int], list[int]] = {}
        self._sizes: dict[int, tuple[Region, int, int]] = {}
        self._born = sim.now
        self._copied = _Copied()
        self._copying = LevelOverTime(sim)

    def of_process(self, number: int) -> HostMemory:
        """Return the same memory with an empty address space for the process with this number.

        All processes have the same layout of addresses, ``ADDRESS_SPACE`` apart for each number.
        """
        memory = copy.copy(self)
        memory.pages = PageTable(self.pages.page_size)
        memory.contents = HostContents()
        memory._bases = {region: base + number * ADDRESS_SPACE for region, base in _REGION_BASES.items()}
        memory._tops = dict(memory._bases)
        memory._free, memory._sizes = {}, {}
        return memory

    def allocate(self, nbytes: int, align: int = 16, region: Region = "heap") -> int:
        """Return an address, a multiple of ``align``, for ``nbytes`` bytes in a region: heap, stack, global or managed.

        As in malloc, a block of the same size that was released last is reused. Blocks are neither split nor merged, so
        a program with blocks of many sizes touches more new pages than with glibc. Raises ValueError for a negative
        size or an alignment below 1.
        """
        if nbytes < 0 or align < 1:
            raise ValueError(f"a host block of {nbytes} bytes aligned to {align}")
        key = (region, nbytes, align)
        # The last block that was released comes first, as in glibc's caches. It matters, because its pages have been
        # touched.
        if released := self._free.get(key):
            address = released.pop()
        else:
            start = self._tops[region] + (_HEADER if region == "heap" else 0)
            address = -(-start // align) * align
            self._tops[region] = address + nbytes
        self._sizes[address] = key
        return address

    def release(self, address: int) -> None:
        """Free a block. Raises KeyError when no block begins at ``address``."""
        key = self._sizes.pop(address)
        self._free.setdefault(key, []).append(address)

    def mapped(self, low: int, high: int) -> tuple[int, int]:
        """Return the part of [low, high) that lies in memory which the operating system has mapped for the program.

        A region (heap, stack, …) grows: nothing is mapped beyond its top yet. Other addresses count as mapped.
        """
        for region, begin in self._bases.items():
            end = self._tops[region]
            if begin < high and low < end:
                return max(low, begin), min(high, end)
        return low, high

    async def copy(
        self, nbytes: int, category: str = "copies", over: Shared | None = None, rate: float | None = None
    ) -> None:
        """Copy ``nbytes`` bytes from host memory to host memory in the calling thread, on a core.

        ``category`` is one of ``trace.HOST_TIME``. ``over`` is the link that the bytes pass between two sockets.
        ``rate`` is the bytes per second of the core alone, if it differs from that for ordinary memory.
        """
        arrival = self._sim.now
        await self._cores.take()
        try:
            await self.copy_on_core(nbytes, over, rate)
        finally:
            self._cores.give_back()
            self._host_time.seconds[category] += self._sim.now - arrival

    async def copy_on_core(self, nbytes: int, over: Shared | None = None, rate: float | None = None) -> None:
        """Copy ``nbytes`` bytes within host memory, on a core that the caller holds; add nothing to the host time.

        ``over`` is the link that the bytes pass between two sockets (None: they pass none). ``rate`` is what the core
        copies alone, in bytes/s, by default ``bandwidth_1t``.
        """
        begin, alone = self._sim.now, rate or self._bandwidth_1t
        self._copying.rise()
        try:
            way = self._pool if over is None else Way(self._sim, "copy between sockets", (self._pool, over))
            await way.serve(nbytes, alone)
        finally:
            self._copying.fall()
        self._copied.copies += 1
        waited = self._sim.now - begin - nbytes / alone
        if waited > 0.0:
            self._copied.wait_s += waited
        self._copied.bytes += nbytes

    @property
    def population(self) -> PopulationSpec:
        """Return what the first touch of a page costs. Raises ProfileError when the profile lacks an entry."""
        if self._population is None:
            raise TypeError("host memory without a population populates no pages")
        return self._population()

    async def populate(self, begin: int, nbytes: int) -> int:
        """Have the calling thread fault in the untouched pages of a range; return the number of its faults.

        It follows Linux's ``do_anonymous_page`` and ``do_huge_pmd_anonymous_page``. The faulting thread takes a page
        and clears it, under the mmap lock for reading or the lock of its mapping, so threads never exclude one another.
        They divide the memory's bandwidth. Two threads that touch the same pages at once both pay, as on Linux, where
        the second page is given back.
        """
        faults, step = 0, _POPULATED_AT_ONCE
        for low, high in self.pages.missing(begin, nbytes) if not self.pages.covers(begin, nbytes) else ():
            for piece in range(low - low % step, high, step):
                first, last = max(low, piece), min(high, piece + step)
                new = sum(self.population.pages_of(first, last))
                await self.clear(last - first, new * self.population.fault)
                self.pages.insert(first, last)
                faults += new
        return faults

    async def clear(self, nbytes: int, besides: float = 0.0) -> None:
        """Clear ``nbytes`` bytes in the calling thread, which does other work of ``besides`` seconds in between."""
        arrival, seconds = self._sim.now, besides + nbytes / self.population.clear_rate
        # A byte that is cleared is written, one that is copied is read and written: half of the memory's work.
        work = nbytes / 2
        await self._cores.take()
        try:
            await self._pool.serve(work, work / seconds)
        finally:
            self._cores.give_back()
            self._host_time.seconds["driver"] += self._sim.now - arrival

    def stream(self, seconds: float, part: float) -> Awaitable[None]:
        """Let an algorithm on the host read and write memory; it shares the bandwidth with all copies and algorithms.

        ``seconds`` is the time in which the memory's full bandwidth would move the algorithm's bytes. ``part`` is the
        largest fraction of that bandwidth (0 to 1) that the algorithm can use. Await the result at once.
        """
        capacity = self._pool.share.capacity
        return self._pool.serve(seconds * capacity, part * capacity)

    def statistics(self) -> HostMemoryStatistics:
        """Return the statistics of the copies so far."""
        busy_s = self._copying.some_s
        idle_s = self._sim.now - self._born - busy_s
        return HostMemoryStatistics(busy_s, idle_s, self._copied.wait_s, self._copied.copies, self._copied.bytes)


# ---------------------------------------------------------------------- worker threads
# Algorithms that run in parallel on the host: worker threads that share its cores and its memory.
#
# An algorithm alone takes its roofline time on the workers that it can keep busy: the longer of its arithmetic and
# its memory traffic. Algorithms of several threads divide whichever of the two they wait for (``share.py``); copies
# within the host share the memory's bandwidth with them.
@attrs.frozen
class HostWorkersSpec:
    """The host's cores as an algorithm uses them: rates in flop/s and bytes/s, and times in seconds."""

    cores: Annotated[int, "cpu.cores"]
    flops: Annotated[float, "cpu.fp64_core"]
    """Arithmetic rate of one core."""
    bandwidth_1t: Annotated[float, "cpu.stream_1t"]
    """Memory bandwidth that one core uses at most."""
    bandwidth_all: Annotated[float, "cpu.stream_max"]
    """Memory bandwidth that all cores together use at most."""
    fork_join: Annotated[float, "cpu.fork_join"]
    """Time to start an algorithm's workers and to wait for the last one."""
    uncontended: Annotated[bool, "host_workers.uncontended"]
    """Whether each algorithm has all cores for itself (to find out what sharing costs)."""

    def width(self, launch: Launch, parallel: bool) -> float:
        """Return how many cores a ``launch`` can use: at most one per iteration, and only one if not ``parallel``."""
        return float(max(1, min(self.cores, launch.iterations))) if parallel else 1.0


@attrs.frozen
class HostWorkersStatistics:
    """Statistics of algorithms on the host; times are in virtual seconds. busy_s + idle_s is the time elapsed."""

    busy_s: float
    """Time with an algorithm in progress, so far."""
    idle_s: float
    """Time without an algorithm in progress."""
    wait_s: float
    """Time by which contention prolonged the algorithms that have ended, summed over the algorithms."""
    algorithms: int
    """Number of algorithms that have ended."""


class HostWorkers:
    """The host's worker threads, which execute parallel algorithms and share the bandwidth of ``memory``.

    A simplification: they do not compete for cores with the program's host threads (``Cores``). The thread that calls
    an algorithm waits for its end, so only other busy threads would be slowed down. A program with as many of them as
    cores is predicted too fast, by at most the time of its algorithms.
    """

    __slots__ = ("_algorithms", "_born", "_cores", "_host_time", "_memory", "_running", "_sim", "_wait_s", "spec")

    def __init__(self, sim: Simulation, spec: HostWorkersSpec, memory: HostMemory, host_time: HostTime) -> None:
        self.spec = spec
        self._sim = sim
        self._memory = memory
        self._host_time = host_time
        self._cores = SharedPool(sim, float(spec.cores), "host workers", uncontended=spec.uncontended)
        self._running = LevelOverTime(sim)
        self._born = sim.now
        self._algorithms = 0
        self._wait_s = 0.0

    async def execute(self, launch: Launch, parallel: bool = True) -> None:
        """Execute an algorithm (``launch``) and wait for its end; with ``parallel`` by all workers, else by one."""
        spec, sim = self.spec, self._sim
        width = spec.width(launch, parallel)
        bandwidth = min(width * spec.bandwidth_1t, spec.bandwidth_all)
        flops = launch.flops + launch.single_flops
        computing, streaming = flops / (spec.flops * width), launch.bytes / bandwidth
        begin = sim.now
        self._running.rise()
        try:
            if parallel:
                await sim.sleep(spec.fork_join)
            # An algorithm waits for the longer of its two parts and divides only that one with others. What it uses of
            # the other is left out, so two algorithms of which one computes and one streams do not slow each other
            # down.
            if streaming > computing:
                part = bandwidth / spec.bandwidth_all
                await self._memory.stream(launch.bytes / spec.bandwidth_all, part)
            elif computing:
                await self._cores.serve(flops / spec.flops, width)
        finally:
            self._running.fall()
            self._host_time.add("compute", sim.now - begin)
        alone = max(computing, streaming) + (spec.fork_join if parallel else 0.0)
        self._algorithms += 1
        self._wait_s += max(sim.now - begin - alone, 0.0)

    def statistics(self) -> HostWorkersStatistics:
        """Return the statistics of the workers so far."""
        busy_s = self._running.some_s
        idle_s = self._sim.now - self._born - busy_s
        return HostWorkersStatistics(busy_s, idle_s, self._wait_s, self._algorithms)
