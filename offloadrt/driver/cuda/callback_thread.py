"""The thread of CUDA's driver library that runs the functions which programs put into streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import attrs

from offloadrt.machine import Machine
from offloadrt.machine.servers import LevelOverTime, Servers, numbered_from_the_second
from offloadrt.sim import Mailbox, Signal


@attrs.frozen(eq=False)
class RunHostFunction:
    """Work for ``seconds`` on a core, call ``function``, then set ``done``."""

    function: Callable[[], object] | None
    seconds: float
    done: Signal


MESSAGES = (RunHostFunction,)


@attrs.frozen
class CallbackSpec:
    """How the thread works."""

    wake: Annotated[float, "stream.host_function"]
    """Seconds from the moment at which a stream comes to a function until it runs, on a core."""
    uncontended: Annotated[bool, "stream.callback_thread.uncontended"]
    """Whether every function finds a thread of its own (an ablation)."""


@attrs.frozen
class CallbackStatistics:
    """What the thread did; virtual seconds, up to now.  busy_s + idle_s is the time elapsed (without the ablation)."""

    busy_s: float
    idle_s: float
    wait_s: float
    """Time for which functions whose turn had come in their streams waited for the thread, summed over them."""
    functions: int
    """Functions that have run."""


class CallbackThread:
    """The actor of one context: functions of all its streams run in it, one after the other.

    That there is one thread for all streams is an assumption: CUDA says only that functions of different streams may
    run in any order, and may run one after the other (cuLaunchHostFunc).
    """

    def __init__(self, machine: Machine, device: int) -> None:
        self._machine = machine
        self._sim = machine.sim
        self.mailbox = Mailbox(machine.sim, machine.named(f"device {device} callback thread"))
        self._spec = spec = machine.spec.read(CallbackSpec)
        names = numbered_from_the_second(self.mailbox.name, "thread")
        self._servers: Servers[RunHostFunction] = Servers(
            machine.sim, self.mailbox, self._run, names, grow=spec.uncontended
        )
        self.submit = self._servers.submit
        """Leave a function whose turn has come."""
        self._busy = LevelOverTime(machine.sim)
        self._functions = 0
        self._born = machine.sim.now
        self._servers.start()

    async def _run(self) -> None:
        """Run one function after the other, for ever (the actor)."""
        while True:
            message = await self.mailbox.get()
            if not isinstance(message, RunHostFunction):
                raise TypeError(f"the callback thread does not understand {message!r}")
            self._busy.rise()
            cores = self._machine.cores
            await cores.take()
            try:
                await self._sim.sleep(self._machine.jitter(self._spec.wake) + message.seconds)
            finally:
                cores.give_back()
            if message.function is not None:
                message.function()
            self._busy.fall()
            self._functions += 1
            self._servers.done()
            message.done.set()

    def statistics(self) -> CallbackStatistics:
        """Return what the thread did so far."""
        busy_s = self._busy.total_s
        idle_s = max(self._sim.now - self._born - busy_s, 0.0)
        return CallbackStatistics(busy_s, idle_s, self._servers.queued.total_s, self._functions)
