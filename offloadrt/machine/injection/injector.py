"""Injects the faults of a plan into a run: counts events, remembers what it did, and knows which devices are broken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from heapq import heappush
from typing import Any

import attrs

from offloadrt.machine.injection.fault import FaultKind, InjectedFault, ThreadDied
from offloadrt.machine.injection.plan import FaultPlan
from offloadrt.sim import Actor, Signal, Simulation


@attrs.frozen
class DeviceFailure:
    """Why a device does nothing any more for the process that used it."""

    kind: FaultKind
    """kernel, page_fault, device, or call: a call that returned an error after which there is no other."""
    why: str
    code: str = ""
    """Of a call: the error that it returned."""


class Injector:
    """The faults of one run. ``plan`` decides, this object counts and acts."""

    def __init__(self, sim: Simulation, plan: FaultPlan) -> None:
        self.plan = plan
        self.failures: dict[int, DeviceFailure] = {}
        """What has broken each device that is broken, by number.

        Its engines and compute units go on, without moving bytes or computing results: so everything that was
        submitted completes, and the call that waits for it can return the error.
        """
        self.struck: list[str] = []
        """What it did, in order, each with its virtual time."""
        self.calls: list[str] = []
        """Every call of the driver libraries so far, by name."""
        self._sim = sim
        self._counts = [0] * len(plan.faults)
        self._events: Counter[FaultKind] = Counter()
        self._unstruck = dict.fromkeys(fault.text for fault in plan.faults)  # in order, for the warning

    def arm(self) -> None:
        """Set the alarms of the faults that have a time and no event. Call it once, before the run goes on."""
        for fault in self.plan.faults:
            if fault.kind == "thread":
                FaultAlarm(self._sim, fault.since, partial(self._kill, fault))
            elif fault.kind == "device":
                FaultAlarm(self._sim, fault.since, partial(self._lose, fault))

    def strike(self, kind: FaultKind, name: str, where: str) -> InjectedFault | None:
        """Count an event; return the fault that strikes it, if one does. ``where`` says in reports what is struck."""
        self._events[kind] += 1
        if kind == "call":
            self.calls.append(name)
        struck: InjectedFault | None = None
        for place, fault in enumerate(self.plan.faults):
            if fault.concerns(kind, name, self._sim.now):
                self._counts[place] += 1
                if struck is None and fault.strikes(self._counts[place]):
                    struck = fault
        for random_faults in self.plan.at_random:
            struck = struck or random_faults.strike(kind, name, self._events[kind])
        if struck is not None and not (struck.kind == "slow" and struck.text not in self._unstruck):
            self._note(struck, where)
        return struck

    def fail(self, device: int, failure: DeviceFailure) -> None:
        """Break a device, unless it is broken already."""
        self.failures.setdefault(device, failure)

    def kernel_ends(self, device: int, kernel: str) -> bool:
        """Tell whether a kernel ends with its results; a fault ends it without, and breaks the device."""
        if self.strike("kernel", kernel, f"kernel {kernel!r} on device {device} fails"):
            self.fail(device, DeviceFailure("kernel", f"kernel {kernel!r} failed at {self._sim.now:.9f} s"))
        return device not in self.failures

    def page_fault(self, device: int, kernel: int) -> None:
        """Count a page fault that a handler serves; one that nobody can serve breaks the device."""
        if self.strike("page_fault", "", f"nobody can serve a page fault of kernel {kernel} on device {device}"):
            why = f"nobody could serve a page fault of kernel {kernel} at {self._sim.now:.9f} s"
            self.fail(device, DeviceFailure("page_fault", why))

    async def transfer(self, direction: str, engine: str) -> float:
        """Return how many times as long a transfer takes that begins now; one that gets stuck never returns."""
        if self.strike("stuck", direction, f"{engine} is stuck"):
            await Signal(self._sim, f"{engine}, which is stuck").wait()
        fault = self.strike("slow", direction, f"{engine} is slow")
        return 1.0 if fault is None else fault.factor

    def unstruck(self) -> list[str]:
        """Return the faults that struck nothing, as they were written."""
        return list(self._unstruck)

    def _kill(self, fault: InjectedFault) -> bool:
        """Let a host thread die where it waits; False if it is on its way, so that it has to be tried again."""
        actor = next((actor for actor in self._sim.actors.values() if _is_called(actor, fault.name)), None)
        if actor is None:
            return True
        if actor.interruption is not None or actor in self._sim.ready:
            return False
        waits = "" if actor.waits_for is None else f" while it waited for {actor.waits_for.name}"
        died = f"{actor.name} died at {self._sim.now:.9f} s{waits}"

        def die() -> None:
            raise ThreadDied(died)

        if actor.interrupt(die):
            self._note(fault, died)
        return True

    def _lose(self, fault: InjectedFault) -> bool:
        why = f"device {fault.number} disappeared at {self._sim.now:.9f} s"
        self.fail(fault.number, DeviceFailure("device", why))
        self._note(fault, why)
        return True

    def _note(self, fault: InjectedFault, what: str) -> None:
        self._unstruck.pop(fault.text, None)
        line = f"t={self._sim.now:g}: {what} (fault {fault.text})"
        self.struck.append(line)
        self._sim.incidents.append(line)


def _is_called(actor: Actor, name: str) -> bool:
    """Tell whether an actor has this name, or this index, which is written #12."""
    return name in (actor.name, f"#{actor.index}") and not actor.finished


class FaultAlarm:
    """A timer that is no actor's: calls ``action`` at a virtual time, again at that time until it returns True.

    It gives up after 1000 calls, because a thread that never stops being on its way would stop virtual time.
    """

    __slots__ = ("_action", "_sim", "_tries")
    is_actor = False
    _MOST = 1000

    def __init__(self, sim: Simulation, time: float, action: Callable[[], bool]) -> None:
        self._action = action
        self._sim = sim
        self._tries = 0
        self._set(max(time, sim.now))

    def send(self, _: Any) -> None:
        """Act; called by the scheduler when the time has come."""
        self._tries += 1
        if not self._action() and self._tries < self._MOST:
            self._set(self._sim.now)

    def _set(self, time: float) -> None:
        self._sim.timers_set += 1
        heappush(self._sim.heap, (time, self._sim.timers_set, self))
