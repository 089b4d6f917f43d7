"""What probes read from a recording: typed events, and the intervals that a begin and an end enclose.

A probe is a small recorded scenario that shows a mechanism at work. It measures facts, which a judge then reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

import attrs

from offloadrt.study.running.run import Run
from offloadrt.trace import Event, events
from offloadrt.trace.events import decode

Facts: TypeAlias = dict[str, int | float | bool | str | None]
"""What a probe measured."""

E = TypeVar("E", bound=Event)
B = TypeVar("B", bound=Event)


def recorded(run: Run, *kinds: type[E]) -> list[E]:
    """Decode the recorded events of some kinds, in order."""
    assert run.trace is not None, "a probe is run with a recording"
    labels = frozenset(kind.label for kind in kinds)
    return [decode(row) for row in run.trace.rows if row[0] in labels]  # type: ignore[misc]


@attrs.frozen
class Span(Generic[B]):
    """An interval of virtual time, in picoseconds, with the event that began it."""

    begin: int
    end: int
    first: B

    @property
    def duration(self) -> int:
        """Return how long it lasts."""
        return self.end - self.begin


def calls(run: Run, api: str | None = None) -> list[Span[events.CallBegin]]:
    """List the calls of the driver's API, or of one function of it, in the order of their ends."""
    spans = _spans(run, events.CallBegin, events.CallEnd, lambda event: (event.actor, event.api))
    return [span for span in spans if api is None or span.first.api == api]


def copies(run: Run) -> list[Span[events.CopyBegin]]:
    """List the transfers of copy engines, in the order of their ends."""
    return _spans(run, events.CopyBegin, events.CopyEnd, lambda event: (event.device, event.copy))


def kernels(run: Run) -> list[Span[events.KernelStart]]:
    """List the kernels while they were resident, in the order of their starts."""
    spans = _spans(run, events.KernelStart, events.KernelEnd, lambda event: (event.device, event.kernel))
    return sorted(spans, key=lambda span: (span.begin, span.end))


def _spans(run: Run, begin: type[B], end: type[Event], key: Callable[[Any], object]) -> list[Span[B]]:
    """Pair every end with the begin of the same key."""
    begun: dict[object, B] = {}
    spans = []
    for event in recorded(run, begin, end):
        if isinstance(event, begin):
            begun[key(event)] = event
        elif (first := begun.pop(key(event), None)) is not None:
            spans.append(Span(first.time_ps, event.time_ps, first))
    return spans


def overlap(some: Iterable[Span[Any]], others: Sequence[Span[Any]]) -> int:
    """Add up over all pairs the picoseconds for which one span runs while the other does."""
    return sum(max(0, min(a.end, b.end) - max(a.begin, b.begin)) for a in some for b in others)
