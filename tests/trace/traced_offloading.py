"""A small offloading run made of generators, for the tests of the trace: every kind of event, and no simulation.

Host threads enter data, launch a kernel and exit data, on one device with a table lock, two copy engines and two
places for kernels. Run as a script it prints the trace hash.
"""

from collections import deque
from collections.abc import Generator
from heapq import heappop, heappush
from itertools import count

from offloadrt.trace import Trace, events

Step = Generator[float | None, None, None]


class Actor:
    """A thread or a service."""

    def __init__(self, index: int, name: str) -> None:
        self.index = index
        self.name = name
        self.cause = 0


class StandIn:
    """What a trace asks of a simulation, over one heap of timers."""

    def __init__(self) -> None:
        self.now = 0.0
        self.current = Actor(0, "main")
        self.trace: Trace | None = None
        self._heap: list[tuple[float, int, Actor, Step]] = []
        self._order = count()

    def start(self, actor: Actor, steps: Step) -> None:
        self.resume(actor, steps)

    def resume(self, actor: Actor, steps: Step, dt: float = 0.0) -> None:
        heappush(self._heap, (self.now + dt, next(self._order), actor, steps))

    def run(self) -> None:
        while self._heap:
            self.now, _, self.current, steps = heappop(self._heap)
            self.steps = steps
            dt = next(steps, -1.0)
            if dt is not None and dt >= 0.0:
                self.resume(self.current, steps, dt)


class Places:
    """`capacity` places and a queue; yields None while it waits."""

    def __init__(self, sim: StandIn, capacity: int) -> None:
        self.sim = sim
        self.free = capacity
        self.queue: deque[tuple[Actor, Step]] = deque()

    def take(self) -> Step:
        if self.free:
            self.free -= 1
        else:
            self.queue.append((self.sim.current, self.sim.steps))
            yield None

    def give(self) -> None:
        if self.queue:
            self.sim.resume(*self.queue.popleft())
        else:
            self.free += 1


class Device:
    def __init__(self, sim: StandIn, trace: Trace) -> None:
        self.sim, self.trace = sim, trace
        self.table = Places(sim, 1)
        self.engines = {"h2d": Places(sim, 1), "d2h": Places(sim, 1)}
        self.compute = Places(sim, 2)
        self.directives, self.copies, self.kernels = count(1), count(1), count(1)

    def locked(self, me: Actor, body: Step) -> Step:
        if not self.table.free:
            self.trace(events.LockWait, 0, -1, me.cause, "device table")
        yield from self.table.take()
        self.trace(events.LockAcquire, 0, -1, me.cause, "device table")
        yield from body
        self.trace(events.LockRelease, 0, -1, me.cause, "device table")
        self.table.give()

    def call(self, me: Actor, api: str, dt: float) -> Step:
        self.trace(events.CallBegin, 0, -1, me.cause, api)
        yield dt
        self.trace(events.CallEnd, 0, -1, me.cause, api)

    def copy(self, me: Actor, direction: str, nbytes: int, memory: str) -> Step:
        number = next(self.copies)
        what = (0, me.index, me.cause, number, direction, f"copy engine {direction}", nbytes, memory)
        yield from self.engines[direction].take()
        self.trace(events.CopyBegin, *what)
        yield nbytes / 20e9
        self.trace(events.CopyEnd, *what)
        self.engines[direction].give()

    def kernel(self, me: Actor, name: str, dt: float) -> Step:
        number = next(self.kernels)
        self.trace(events.KernelSubmit, 0, me.index, me.cause, number, name)
        yield from self.compute.take()
        self.trace(events.KernelStart, 0, me.index, me.cause, number, name, 108)
        yield dt
        self.trace(events.KernelEnd, 0, me.index, me.cause, number, name)
        self.compute.give()


def thread(device: Device, me: Actor, directives: int) -> Step:
    trace = device.trace
    trace.actor_spawned(me)
    for turn in range(directives):
        size = 8192 + 512 * ((7 * me.index + 3 * turn) % 11)
        begin, block = 4096 * (me.index * directives + turn), 0x7F00_0000_0000 + 65536 * me.index
        number = me.cause = next(device.directives)
        trace(events.DirectiveBegin, 0, -1, 0, number, "target")

        def enter(size: int = size, begin: int = begin, block: int = block) -> Step:
            trace(events.MapLookup, 0, -1, me.cause, "a", begin, size, False)
            yield from device.call(me, "cuMemAlloc", 3e-6 + me.index * 1e-9)
            trace(events.Allocate, 0, -1, me.cause, block, size, "cuMemAlloc")
            trace(events.MapInsert, 0, -1, me.cause, "a", begin, size, block, 1, 0)

        yield from device.locked(me, enter())
        trace(events.Attach, 0, -1, me.cause, "p", begin + 8, block)
        yield from device.copy(me, "h2d", size, "staged")
        yield from device.kernel(me, "update", 5e-6 + 1e-7 * turn)
        trace(events.SignalWaitBegin, 0, me.index, me.cause, f"stream {me.index}")
        yield from device.copy(me, "d2h", size, "pinned")
        trace(events.SignalWaitEnd, 0, me.index, me.cause, f"stream {me.index}")
        trace(events.MapCount, 0, -1, me.cause, "a", begin, size, 0, 0)
        trace(events.MapRemove, 0, -1, me.cause, "a", begin, size, block)
        trace(events.Drain, 0, -1, me.cause, "cuMemFree")
        yield from device.call(me, "cuMemFree", 2e-6)
        trace(events.Resume, 0, -1, me.cause, "cuMemFree")
        trace(events.Free, 0, -1, me.cause, block, size, "cuMemFree")
        trace(events.DirectiveEnd, 0, -1, 0, number, "target")
        me.cause = 0
    if me.index == 1:
        trace(events.RuntimeError_, 0, -1, 0, "omp_target_alloc", "out of device memory")
    trace.actor_finished(me)


def offload(trace: Trace, sim: StandIn, threads: int = 4, directives: int = 3) -> Trace:
    """Run it; the trace is closed."""
    device = Device(sim, trace)
    for index in range(1, threads + 1):
        actor = Actor(index, f"host thread {index}")
        sim.start(actor, thread(device, actor, directives))
    sim.run()
    trace.close()
    return trace


if __name__ == "__main__":
    standin = StandIn()
    print(offload(Trace(standin, record=False), standin, threads=8, directives=40).hash())
