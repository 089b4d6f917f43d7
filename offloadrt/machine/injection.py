"""Faults that are injected into a run on purpose: failing calls, lost doorbells, stuck engines, devices that disappear.

`InjectedFault` is one fault as a user writes it, with the event that it strikes. `FaultPlan` holds all faults of a run;
it is a pure policy that says whether an event is struck. `Injector` counts a run's events, and records what it does.

A fault strikes where the real thing would happen: the driver libraries ask at each call (``driver/calls.py``), queues
at each doorbell, copy engines and DMA rings at each transfer, the compute units at the end of each kernel, whoever
reports page faults at each interrupt, and the handlers of page faults at each fault.  Each has an ``injector`` that is
None in a run without faults.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from heapq import heappush
from typing import Any, Final, Literal

import attrs

from offloadrt.sim import Signal, Simulation

FaultKind = Literal[
    "call", "kernel", "page_fault", "doorbell", "interrupt", "stuck", "slow", "thread", "device"
]  # fmt: skip

EVERYWHERE: Final = "everywhere"
"""The value of ``--faults`` that asks for a fault at each await, each in a run of its own; no single run accepts it."""


class ThreadDied(BaseException):
    """Raised in a host thread that the injected fault ``thread:NUMBER@TIME`` ends.

    It is a BaseException, so that no ``except Exception`` of the program catches it: it unwinds the thread as a
    cancellation does, and the run ends.
    """


@attrs.frozen
class InjectedFault:
    """One fault of a `kind` (such as a failing call) to inject into a run; ``text`` is how the user wrote it."""

    kind: FaultKind
    name: str = ""
    """Name of the call, of the engine's direction, or of the thread; empty for any call."""
    number: int = 1
    """Which event is struck, counted from 1 among matching events from ``since`` on; or a device's number."""
    onwards: bool = False
    """Whether the fault strikes all later matching events, too."""
    since: float = 0.0
    """Virtual seconds from which on events count."""
    code: str = ""
    """The error that a struck call returns; empty for the usual error."""
    factor: float = 1.0
    """For a slow engine: the factor by which a transfer takes longer."""
    text: str = ""

    def concerns(self, kind: FaultKind, name: str, now: float) -> bool:
        """Tell whether an event of this kind and name at virtual time ``now`` (seconds) counts toward this fault."""
        return kind == self.kind and now >= self.since and self.name in ("", name)

    def strikes(self, count: int) -> bool:
        """Tell whether the fault strikes the event that is the ``count``-th of those for which `concerns` is true."""
        return count >= self.number if self.onwards else count == self.number


_RANDOM_KINDS: Final = ("call", "kernel", "page_fault", "doorbell", "interrupt", "stuck")


@attrs.frozen
class RandomFaults:
    """Makes each event fail with probability ``rate``; only the seed and the event's number decide."""

    seed: int
    rate: float

    def strike(self, kind: FaultKind, name: str, number: int) -> InjectedFault | None:
        """Return the fault that affects the event of this kind and number, or None if none does."""
        if kind not in _RANDOM_KINDS or random.Random(f"{self.seed} {kind} {number}").random() >= self.rate:
            return None
        written = f"{kind}:{name}:{number}" if kind == "stuck" else f"{kind}:{number}"
        return InjectedFault(kind, name if kind == "stuck" else "", number, text=f"random:{self.seed}, {written}")


@attrs.frozen
class FaultPlan:
    """The faults to inject into a run, in the order in which the user wrote them; ``at_random`` adds random faults."""

    faults: tuple[InjectedFault, ...] = ()
    at_random: tuple[RandomFaults, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.faults or self.at_random)


@attrs.frozen
class DeviceFailure:
    """Says why a device does no more work for the process that used it: the injected fault, a text, an error code."""

    kind: FaultKind
    """The kind: kernel, page_fault, device, or call, for a call that returned a sticky error."""
    why: str
    code: str = ""
    """The error that the call returned; empty for other kinds."""


class Injector:
    """Counts the events of one run and carries out the faults that ``plan`` decides."""

    def __init__(self, sim: Simulation, plan: FaultPlan) -> None:
        self.plan = plan
        self.failures: dict[int, DeviceFailure] = {}
        """The cause of failure of each broken device, by the device's number.

        A broken device's engines and compute units go on without moving bytes or computing results. So all submitted
        work completes, and the call that waits for it can return the error.
        """
        self.struck: list[str] = []
        """What the injector has done, in order, each entry with its virtual time."""
        self.calls: list[str] = []
        """The names of all calls of the driver libraries so far."""
        self._sim = sim
        self._counts = [0] * len(plan.faults)
        self._events: Counter[FaultKind] = Counter()
        self.unstruck = dict.fromkeys(fault.text for fault in plan.faults)
        """The faults that have struck nothing, in the user's wording and order, as keys."""

    def arm(self) -> None:
        """Set timers for the faults that strike at a given time, not at an event. Call this once, before the run."""
        for fault in self.plan.faults:
            if fault.kind == "thread":
                FaultAlarm(self._sim, fault.since, partial(self._kill, fault))
            elif fault.kind == "device":
                FaultAlarm(self._sim, fault.since, partial(self._lose, fault))

    def strike(self, kind: FaultKind, name: str, where: str) -> InjectedFault | None:
        """Count an event of a kind and name; return the fault it suffers, or None. ``where``: a text for reports."""
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
        if struck is not None and not (struck.kind == "slow" and struck.text not in self.unstruck):
            self._note(struck, where)
        return struck

    def fail(self, device: int, failure: DeviceFailure) -> None:
        """Mark a device as broken by ``failure``, unless it is broken already."""
        self.failures.setdefault(device, failure)

    def kernel_ends(self, device: int, kernel: str) -> bool:
        """Tell whether a kernel completes; an injected fault ends it without results and breaks the device."""
        if self.strike("kernel", kernel, f"kernel {kernel!r} on device {device} fails"):
            self.fail(device, DeviceFailure("kernel", f"kernel {kernel!r} failed at {self._sim.now:.9f} s"))
        return device not in self.failures

    def page_fault(self, device: int, kernel: int) -> None:
        """Count a page fault of the launch number ``kernel``; an injected fault breaks the device instead."""
        if self.strike("page_fault", "", f"nobody can serve a page fault of kernel {kernel} on device {device}"):
            why = f"nobody could serve a page fault of kernel {kernel} at {self._sim.now:.9f} s"
            self.fail(device, DeviceFailure("page_fault", why))

    async def transfer(self, direction: str, engine: str) -> float:
        """Return how many times longer a transfer (h2d, d2h) by an engine takes; never return if a fault blocks it."""
        if self.strike("stuck", direction, f"{engine} is stuck"):
            await Signal(self._sim, f"{engine}, which is stuck").wait()
        fault = self.strike("slow", direction, f"{engine} is slow")
        return 1.0 if fault is None else fault.factor

    def _kill(self, fault: InjectedFault) -> bool:
        """End a waiting host thread; return False if it is about to be resumed, so that the caller tries again."""
        running = (actor for actor in self._sim.actors.values() if not actor.finished)
        actor = next((actor for actor in running if fault.name in (actor.name, f"#{actor.index}")), None)
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
        self.unstruck.pop(fault.text, None)
        line = f"t={self._sim.now:g}: {what} (fault {fault.text})"
        self.struck.append(line)
        self._sim.incidents.append(line)


class FaultAlarm:
    """A timer for an injected fault: calls ``action`` at a given virtual time, again and again until it returns True.

    ``action`` returns False while the fault cannot strike, because its thread is about to be resumed. The next call
    comes at the same virtual time, after that thread. After 1000 calls the alarm gives up, so that time can go on.
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
        """Call the action; the scheduler calls this when the time has come."""
        self._tries += 1
        if not self._action() and self._tries < self._MOST:
            self._set(self._sim.now)

    def _set(self, time: float) -> None:
        self._sim.timers_set += 1
        heappush(self._sim.heap, (time, self._sim.timers_set, self))
