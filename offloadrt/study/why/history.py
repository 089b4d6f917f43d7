"""What every actor did when, and who let it go on: the events and the resumptions of a run, put in order by actor."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import attrs

from offloadrt.trace import Resumption, Row
from offloadrt.trace.events import plain_kernel

_NUMBERS = re.compile(r"[\s_.\[(]*\d[\d\s_.,\])]*$")

NOTHING = 0
"""The number of the directive of what no directive asked for."""


@attrs.define(eq=False)
class ApiCall:
    """One call of the driver's API; `array` is what it worked for, as far as an event tells."""

    api: str
    array: str = ""


class Doing(NamedTuple):
    """What an actor does from one of its events to the next.

    A tuple, because a run has hundreds of thousands of them.
    """

    directive: int = NOTHING
    call: ApiCall | None = None
    locks: tuple[str, ...] = ()
    """The locks that it holds, the last one taken last."""
    copy: str = ""
    """The direction of the copy that it makes, if it is an engine that makes one."""
    migrates: bool = False
    """Whether that copy is of pages of managed memory."""


@attrs.define(eq=False)
class KernelRun:
    """One kernel on the compute units: when it arrived there, began and ended, and when it waited for pages."""

    number: int
    name: str
    teams: int
    directive: int
    queue: int
    actor: int
    start: int
    end: int = -1
    submitted: tuple[int, int] = (-1, -1)
    """Who submitted it, and when."""
    stalls: list[tuple[int, int]] = attrs.field(factory=list)


@attrs.define(eq=False)
class ActorSteps:
    """The changes in what one actor does: three parallel lists, in order."""

    rows: list[int] = attrs.field(factory=list)
    """Number of the event with which it changes."""
    times: list[int] = attrs.field(factory=list)
    doing: list[Doing] = attrs.field(factory=list)

    def add(self, row: int, time_ps: int, doing: Doing) -> None:
        self.rows.append(row)
        self.times.append(time_ps)
        self.doing.append(doing)

    @property
    def now(self) -> Doing:
        return self.doing[-1] if self.doing else IDLE


IDLE = Doing()


@attrs.define(eq=False)
class History:
    """A run by actor. Times are integer picoseconds."""

    names: dict[int, str] = attrs.field(factory=dict)
    steps: dict[int, ActorSteps] = attrs.field(factory=dict)
    directives: dict[int, str] = attrs.field(factory=dict)
    """Name of each directive by number."""
    source_lines: dict[int, str] = attrs.field(factory=dict)
    resumptions: Sequence[Resumption] = ()
    taken: dict[int, list[int]] = attrs.field(factory=dict)
    """For each actor the numbers of the resumptions to it, in order."""
    kernels: dict[int, KernelRun] = attrs.field(factory=dict)
    ends: dict[tuple[int, int], list[int]] = attrs.field(factory=dict)
    """Kernels that ended or met a missing page, by actor and time."""
    arrivals: dict[int, tuple[int, int]] = attrs.field(factory=dict)
    """When each kernel reached the compute units, and how many resumptions there had been."""
    arrays: dict[int, set[str]] = attrs.field(factory=dict)
    """What each directive maps."""
    lock_waits: dict[tuple[int, int], tuple[str, int]] = attrs.field(factory=dict)
    """The lock that an actor was granted, or woken for, at a time, and since when it had waited; by actor and time."""
    waits: list[tuple[str, int, int]] = attrs.field(factory=list)
    """Every wait for a lock that got it: the lock, when it began and ended."""

    def last_taken(self, actor: int, before: int) -> int | None:
        """Return the number of the last resumption to an actor that has a lower number than `before`."""
        numbers = self.taken.get(actor, ())
        place = bisect.bisect_left(numbers, before) - 1
        return numbers[place] if place >= 0 else None

    def handovers_until(self, time_ps: int) -> int:
        """Count the resumptions up to a time, that instant included."""
        return bisect.bisect_right(self.resumptions, time_ps, key=_time_of)

    def is_program(self, actor: int) -> bool:
        """Tell whether an actor is a thread of the program, and no part of the machine or of the driver."""
        name = self.names.get(actor, "")
        return name == "main" or name.startswith(("host thread", "hidden helper thread"))

    def actor_named(self, name: str) -> int | None:
        """Return the actor of a name; None if there is none."""
        return next((actor for actor, known in self.names.items() if known == name), None)


def plain(array: str) -> str:
    """Return an array's name without the numbers at its end: the arrays of one kind have one name."""
    return _NUMBERS.sub("", array)


def _time_of(resumption: Resumption) -> int:
    return resumption.time_ps


def history_of(
    rows: Iterable[Row],
    resumptions: Sequence[Resumption],
    source_lines: dict[int, str],
    arrivals: dict[int, tuple[int, int]],
) -> History:
    """Put a run's events and resumptions in order by actor."""
    history = History(source_lines=source_lines, resumptions=resumptions, arrivals=arrivals)
    for number, resumption in enumerate(resumptions):
        history.taken.setdefault(resumption.taker, []).append(number)
    reading = _Reading(history)
    for number, row in enumerate(rows):
        reading.read(number, row)
    return history


class _Reading:
    """Reads the events of a run, one after the other."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._blocks: dict[int, str] = {}
        self._submitted: dict[int, tuple[int, int]] = {}
        self._waiting: dict[int, tuple[str, int]] = {}

    def read(self, number: int, row: Row) -> None:
        history = self._history
        label, time_ps, actor = row[:3]
        if label == "ActorSpawned":
            history.names[actor] = row[6]
            history.steps[actor] = ActorSteps()
            return
        if label.startswith(("Kernel", "PageFault")):
            self._kernel(row)
            return
        steps = history.steps.get(actor)
        if steps is None:
            return
        if label in ("LockWait", "LockAcquire"):
            self._wait(actor, row[6], time_ps, got=label == "LockAcquire")
        doing = self._changed(steps.now, row)
        if doing is not None:
            steps.add(number, time_ps, doing)

    def _changed(self, now: Doing, row: Row) -> Doing | None:
        """Return what an actor does from an event on; None if it goes on with the same."""
        label, cause = row[0], row[5]
        directive, call, locks, copy, migrates = now
        match label:
            case "LockAcquire":
                return Doing(directive, call, (*locks, row[6]), copy, migrates)
            case "LockRelease":
                if row[6] not in locks:
                    return None
                left = list(locks)
                left.remove(row[6])
                return Doing(directive, call, tuple(left), copy, migrates)
            case "CallBegin":
                return Doing(cause or directive, ApiCall(row[6]), locks, copy, migrates)
            case "CallEnd":
                return Doing(directive, None, locks, copy, migrates)
            case "DirectiveBegin":
                self._history.directives[row[6]] = row[7]
                return Doing(row[6], call, locks, copy, migrates)
            case "DirectiveEnd":
                return Doing(NOTHING if cause == row[6] else cause, None, locks, copy, migrates)
            case "CopyBegin":
                return Doing(cause, call, locks, row[7], row[10] == "managed")
            case "CopyEnd":
                return Doing(NOTHING, call, locks)
            case "MapInsert" | "MapRemove":
                self._blocks[row[9]] = row[6]
                self._history.arrays.setdefault(cause, set()).add(row[6])
            case "MapLookup":
                self._history.arrays.setdefault(cause, set()).add(row[6])
            case "Allocate" | "Free":
                if now.call is not None:
                    now.call.array = self._blocks.get(row[6], "")
            case _:
                pass
        return None

    def _wait(self, actor: int, lock: str, time_ps: int, *, got: bool) -> None:
        """Follow the waits for a lock: a second one for the same lock shows that the actor was woken to try again."""
        waiting = self._waiting.get(actor)
        waits_for_it = waiting is not None and waiting[0] == lock
        if waiting is not None and waits_for_it:
            self._history.lock_waits[actor, time_ps] = waiting
            if got:
                self._history.waits.append((lock, waiting[1], time_ps))
                del self._waiting[actor]
        elif not got:
            self._waiting[actor] = lock, time_ps

    def _kernel(self, row: Row) -> None:
        history = self._history
        label, time_ps, actor, _, queue, cause, kernel = row[:7]
        if label == "KernelSubmit":
            self._submitted[kernel] = actor, time_ps
            if (known := history.kernels.get(kernel)) is not None:
                known.submitted = actor, time_ps
            return
        if label == "KernelStart":
            run = KernelRun(kernel, plain_kernel(row[7]), row[8], cause, queue, actor, time_ps)
            run.submitted = self._submitted.get(kernel, run.submitted)
            history.kernels[kernel] = run
            return
        if (begun := history.kernels.get(kernel)) is None:
            return
        if label == "PageFaultEnd":
            if begun.stalls:
                begun.stalls[-1] = begun.stalls[-1][0], time_ps
            return
        history.ends.setdefault((actor, time_ps), []).append(kernel)
        if label == "PageFaultBegin":
            begun.stalls.append((time_ps, -1))
        else:
            begun.end = time_ps
