"""The thread for asynchronous handlers: ROCr has one for all signals, which runs one handler after the other.

The handlers of the OpenMP plugin copy between staging memory and the program's memory, so they share the host's cores
and its bandwidth with the program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import attrs
import msgspec

from offloadrt.driver.kfd.kfd import Kfd
from offloadrt.machine.servers import LevelOverTime, Servers, numbered_from_the_second
from offloadrt.sim import Mailbox, Signal


class RunHandler(msgspec.Struct, frozen=True, eq=False):
    """Copy ``nbytes`` from or to host memory, call ``move``, then set ``done``."""

    nbytes: int
    move: Callable[[], None] | None
    """Moves the bytes; None when an end is a phantom."""
    done: Signal
    written: int = 0
    """The host address to which the handler writes, 0 for none; pages that nobody has touched are populated first."""


MESSAGES = (RunHandler,)


@attrs.frozen
class HandlerSpec:
    """How the thread works."""

    cost: Annotated[float, "signal.handler"]
    """Seconds that each handler takes besides its copy."""
    uncontended: Annotated[bool, "async_handler.uncontended"]
    """Whether every handler finds an idle thread (an ablation)."""


@attrs.frozen
class HandlerStatistics:
    """What the thread did; virtual seconds, up to now.  busy_s + idle_s is the time elapsed (without the ablation)."""

    busy_s: float
    """Time in which it ran a handler."""
    idle_s: float
    """Time in which it did not."""
    wait_s: float
    """Time for which handlers whose signals were set waited for their turn, summed over them."""
    handlers: int
    """Handlers that have ended."""


class AsyncHandler:
    """The actor of one device's library: ``start`` it, and ``submit`` handlers when their signals are set."""

    def __init__(self, kfd: Kfd) -> None:
        machine = kfd.machine
        name = f"device {kfd.device.index} async handler"
        self.mailbox = Mailbox(machine.sim, machine.named(name))
        self._kfd = kfd
        self._machine = machine
        self._sim = machine.sim
        self._spec = machine.spec.read(HandlerSpec)
        names, grow = numbered_from_the_second(self.name, "thread"), self._spec.uncontended
        self._servers: Servers[RunHandler] = Servers(machine.sim, self.mailbox, self._run, names, grow=grow)
        self.start = self._servers.start
        """Spawn the thread."""
        self.submit = self._servers.submit
        """Leave a handler whose signal is set."""
        self._busy = LevelOverTime(machine.sim)
        self._handlers = 0
        self._born = machine.sim.now

    @property
    def name(self) -> str:
        """Return the actor's name, as "device 0 async handler"."""
        return self.mailbox.name

    async def _run(self) -> None:
        """Run one handler after the other, for ever (the actor)."""
        sim, machine, cores, servers = self._sim, self._machine, self._machine.cores, self._servers
        copy, pages = machine.host_memory.copy_on_core, machine.host_memory.pages
        while True:
            handler = await self.mailbox.get()
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
            servers.done()
            handler.done.set(("copies", begin, sim.now))

    def statistics(self) -> HandlerStatistics:
        """Return what the thread did so far."""
        busy_s = self._busy.total_s
        idle_s = max(self._sim.now - self._born - busy_s, 0.0)
        return HandlerStatistics(busy_s, idle_s, self._servers.queued.total_s, self._handlers)
