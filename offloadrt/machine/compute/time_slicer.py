"""The scheduler of contexts: an actor that gives the compute units to one process after the other, in time slices.

It stands for the runlist of a GPU's host interface. NVIDIA's driver puts a channel group for each context on it, with
a time slice (`kfifoChannelGroupGetDefaultTimeslice_GV100` of open-gpu-kernel-modules); the hardware goes round. At the
end of its slice a context is preempted if another one has work; then, or as soon as it has none itself, the next one
with work comes. A context that is the only one with work goes on. The hardware scheduler of an AMD GPU does the same
with as many processes at a time as it has address spaces (`process.concurrent`).
"""

from __future__ import annotations

import math
from typing import Annotated

import attrs

from offloadrt.machine.level import LevelOverTime
from offloadrt.machine.messages import ContextHasWork, RunContexts
from offloadrt.sim import TIMED_OUT, Mailbox, Simulation
from offloadrt.trace import Trace, events


@attrs.frozen
class SliceSpec:
    """What switching contexts takes, in virtual seconds."""

    length: Annotated[float, "process.time_slice"]
    switch: Annotated[float, "process.context_switch"]
    """From the stop of one context's kernels to the start of the next one's: its state is saved, the other's loaded."""


@attrs.frozen
class SlicerStatistics:
    """What the scheduler of contexts did; virtual seconds, up to now.  busy_s + idle_s is the time elapsed."""

    busy_s: float
    """Time in which it switched contexts, so that no kernel ran."""
    idle_s: float
    wait_s: float
    """Time for which contexts with work waited for a slice, summed over them."""
    switches: int


class TimeSlicer:
    """Decides whose kernels run on one device; at most ``slots`` of its ``contexts`` processes at a time."""

    def __init__(
        self, sim: Simulation, device: int, spec: SliceSpec, slots: int, contexts: int, trace: Trace | None
    ) -> None:
        self.sim = sim
        self.device = device
        self.spec = spec
        self.trace = trace
        self.mailbox = Mailbox(sim, f"device {device} time slicer")
        self._slots = slots
        self._with_work = [False] * contexts
        self._running: tuple[int, ...] = ()
        """Whose kernels run now."""
        self._last = contexts - 1
        """Who was given the compute units last: the next one comes after it."""
        self._used = False
        """Whether anybody's context has been loaded: the first one replaces none."""
        self._waiting = LevelOverTime(sim)
        self._switching = LevelOverTime(sim)
        self._switches = 0
        self._born = sim.now

    async def run(self, compute: Mailbox) -> None:
        """Give the compute units, whose mailbox this is, to those who have work, for ever (the actor)."""
        while True:
            while not any(self._with_work):
                self._note(await self.mailbox.get())
            await self._give_to(self._next(), compute)
            await self._wait_for_end_of_slice()

    def _next(self) -> tuple[int, ...]:
        """Return the next contexts with work in turn, as many as run at a time; some of these may run already."""
        contexts = len(self._with_work)
        turn = [(self._last + 1 + place) % contexts for place in range(contexts)]
        return tuple([process for process in turn if self._with_work[process]][: self._slots])

    async def _give_to(self, processes: tuple[int, ...], compute: Mailbox) -> None:
        """Stop those who run, switch, and let others run, unless they do so already."""
        self._last = processes[-1]
        if sorted(processes) == sorted(self._running):
            return
        if (trace := self.trace) is not None:
            for process in self._running:
                trace(events.TimeSliceEnd, self.device, -1, 0, process)
        self._running = ()
        self._count_waiting()
        await compute.call(RunContexts(()))
        if self._used:
            self._switching.rise()
            self._switches += 1
            await self.sim.sleep(self.spec.switch)
            self._switching.fall()
        self._used = True
        self._running = processes
        self._count_waiting()
        if trace is not None:
            for process in processes:
                trace(events.TimeSliceBegin, self.device, -1, 0, process)
        await compute.call(RunContexts(processes))

    async def _wait_for_end_of_slice(self) -> None:
        """Return at the end of a slice for which somebody waits, or when a place is free for one who has work."""
        begin, length = self.sim.now, self.spec.length
        while self._work_of_running():
            if not self._others_wait():
                self._note(await self.mailbox.get())  # nobody to switch to: one slice follows the other
                continue
            if len(self._work_of_running()) < self._slots:
                return
            passed = math.floor((self.sim.now - begin) / length)
            message = await self.mailbox.get_until(begin + (passed + 1) * length)
            if message is TIMED_OUT:
                return
            self._note(message)

    def _work_of_running(self) -> list[int]:
        return [process for process in self._running if self._with_work[process]]

    def _others_wait(self) -> bool:
        return any(work and process not in self._running for process, work in enumerate(self._with_work))

    def _note(self, message: object) -> None:
        if not isinstance(message, ContextHasWork):
            raise TypeError(f"a time slicer does not understand {message!r}")
        self._with_work[message.process] = message.has_work
        self._count_waiting()

    def _count_waiting(self) -> None:
        """Bring the statistics up to date: who has work and does not run."""
        waiting = [work and process not in self._running for process, work in enumerate(self._with_work)].count(True)
        while self._waiting.number < waiting:
            self._waiting.rise()
        while self._waiting.number > waiting:
            self._waiting.fall()

    def statistics(self) -> SlicerStatistics:
        """Return what it did so far."""
        busy_s = self._switching.total_s
        idle_s = self.sim.now - self._born - busy_s
        return SlicerStatistics(busy_s, idle_s, self._waiting.total_s, self._switches)
