"""Synchronization elision: which of the barriers behind offloaded algorithms stay, told from what a thread does.

A parallel algorithm of C++ has ended when it returns, so behind each one stands a barrier. AdaptiveCpp's compiler
delays it past what cannot see the algorithm's results, and drops it where another algorithm follows, which has a
barrier of its own. What ends such a *window* (``SyncElision.cpp``, ``doc/stdpar.md``):

- a load or store of the host; one of the stack does not, unless the device can reach the stack (system USM). What only
  builds the arguments of an algorithm is none;
- any call that is not of an algorithm and not inlined, malloc and free included;
- the exit of the function;
- an algorithm that returns a value waits itself, for everything before it as well.

`Window` is fed with operations as they come, `windows` with a recorded list. `elision_pass.py` decides the same from
the source of a host function, where no run is at hand.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from pathlib import PurePath

import attrs


class Marker(enum.Enum):
    """What a thread does, as far as it matters to a barrier.

    HOST_ALGORITHM: an algorithm that is not offloaded. CALL: of a function that is not inlined. RETURN: from one.
    """

    ALGORITHM = "algorithm"
    RETURNING = "algorithm that returns a value"
    HOST_ALGORITHM = "algorithm on the host"
    HOST_ACCESS = "host access"
    STACK_ACCESS = "stack access"
    CALL = "call"
    ALLOCATION = "malloc or free"
    RETURN = "return"


class Reason(enum.Enum):
    """Why a barrier stays."""

    ACCESS = "the host loads or stores"
    STACK = "the host accesses the stack, which the device can reach (system USM)"
    CALL = "a function is called that is not inlined"
    ALLOCATION = "memory is allocated or freed, a call as any other"
    EXIT = "the function ends"
    VALUE = "it returns a value"
    HOST = "an algorithm runs on the host"
    OFF = "elision is switched off"


_STOPS = {
    Marker.HOST_ALGORITHM: Reason.HOST,
    Marker.HOST_ACCESS: Reason.ACCESS,
    Marker.CALL: Reason.CALL,
    Marker.ALLOCATION: Reason.ALLOCATION,
    Marker.RETURN: Reason.EXIT,
}


def stops(marker: Marker, system_usm: bool = False) -> Reason | None:
    """Tell why a barrier cannot be delayed past this; None where it can, and for algorithms that are offloaded."""
    if marker is Marker.STACK_ACCESS and system_usm:
        return Reason.STACK
    return _STOPS.get(marker)


@attrs.frozen
class Operation:
    """One thing that a thread does. name: of the algorithm, the function called, the object accessed."""

    marker: Marker
    name: str = ""
    file: str = ""
    line: int = 0

    @property
    def place(self) -> str:
        """Return ``FILE:LINE``, as far as known; the file without its folder."""
        return f"{PurePath(self.file).name}:{self.line}" if self.file else f"line {self.line}" if self.line else "?"

    def __str__(self) -> str:
        return f"{self.name or self.marker.value} ({self.place})"


@attrs.frozen
class RecordedLoop:
    """Operations that were recorded once and happened so many times."""

    times: int
    body: tuple[Operation | RecordedLoop, ...]


@attrs.frozen
class Elided:
    """No wait behind `algorithm`: `by`, an algorithm, follows, and its wait is for both."""

    algorithm: Operation
    by: Operation

    def __str__(self) -> str:
        return f"elided, up to {self.by}"


@attrs.frozen
class Kept:
    """The thread waits for `algorithm`, and for all before it, for this reason.

    It waits at `at`: before it, or behind it where it is the algorithm itself.
    """

    algorithm: Operation
    reason: Reason
    at: Operation

    @property
    def line(self) -> int:
        return self.at.line

    def __str__(self) -> str:
        where = "" if self.at == self.algorithm else f": {self.at}"
        return f"kept, {self.reason.value}{where}"


@attrs.frozen
class Endless:
    """No barrier for `algorithm`, since no path from it comes to anything that needs one: it loops for ever."""

    algorithm: Operation

    def __str__(self) -> str:
        return "none, nothing follows: an endless loop"


Decision = Elided | Kept | Endless


@attrs.define
class Window:
    """What one thread has outstanding. Where `elision` is off, each algorithm is waited for at once."""

    elision: bool = True
    system_usm: bool = False
    _open: Operation | None = None
    """The last algorithm, while it is not waited for."""

    def meets(self, operation: Operation) -> tuple[Decision, ...]:
        """Decide about barriers when the thread comes to `operation`.

        With a `Kept` among the decisions the thread waits: behind the operation if that is an offloaded algorithm, else
        before it.
        """
        last = self._open
        if operation.marker not in (Marker.ALGORITHM, Marker.RETURNING):
            reason = stops(operation.marker, self.system_usm)
            if last is None or reason is None:
                return ()
            self._open = None
            return (Kept(last, reason, operation),)
        before: tuple[Decision, ...] = () if last is None else (Elided(last, operation),)
        self._open = None
        if operation.marker is Marker.RETURNING:
            return (*before, Kept(operation, Reason.VALUE, operation))
        if not self.elision:
            return (*before, Kept(operation, Reason.OFF, operation))
        self._open = operation
        return before


def windows(
    operations: Iterable[Operation | RecordedLoop], elision: bool = True, system_usm: bool = False
) -> list[Decision]:
    """Decide about each offloaded algorithm of a recorded list, in the order in which the decisions are made.

    The end of the list is the exit of the function.
    """
    window = Window(elision, system_usm)
    decisions = [decision for operation in unrolled(operations) for decision in window.meets(operation)]
    return [*decisions, *window.meets(Operation(Marker.RETURN))]


def unrolled(operations: Iterable[Operation | RecordedLoop]) -> Iterator[Operation]:
    """Repeat what loops hold, so that operations come in the order in which they happen."""
    for recorded in operations:
        if isinstance(recorded, Operation):
            yield recorded
        else:
            for _ in range(recorded.times):
                yield from unrolled(recorded.body)


def waits(decisions: Iterable[Decision]) -> int:
    """Count how often the thread waits."""
    return sum(isinstance(decision, Kept) for decision in decisions)


def table(decisions: Iterable[Decision]) -> str:
    """Print a line for each place and what became of its barrier: where, which algorithm, how often, and why.

    The lines come in the order of their first decision.
    """
    counts: dict[tuple[str, str, str], int] = {}
    for decision in decisions:
        row = (decision.algorithm.place, decision.algorithm.name, str(decision))
        counts[row] = counts.get(row, 0) + 1
    head = ("where", "algorithm", "times", "barrier")
    rows = [head, *((place, name, f"{times}", what) for (place, name, what), times in counts.items())]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        f"{place:<{widths[0]}}  {name:<{widths[1]}}  {times:>{widths[2]}}  {what}" for place, name, times, what in rows
    )
