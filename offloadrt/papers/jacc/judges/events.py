"""What the judges' probes read from a recording: kernels, copies and directives by time, device and queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from offloadrt.study.running.run import Run
from offloadrt.trace import EVENTS, Row


@attrs.frozen
class Span:
    """Something that a device did; picoseconds."""

    name: str
    device: int
    queue: int
    begin: int
    end: int
    nbytes: int = 0


def kernels(run: Run) -> list[Span]:
    """Every kernel, in the order of submission."""
    begins = {(row[3], row[6]): row[1] for row in rows(run, "KernelStart")}
    ends = {(row[3], row[6]): row[1] for row in rows(run, "KernelEnd")}
    return [
        Span(row[7], row[3], row[4], begins[row[3], row[6]], ends[row[3], row[6]]) for row in rows(run, "KernelSubmit")
    ]


def copies(run: Run, direction: str) -> list[Span]:
    """Every copy in one direction, in the order of their begin."""
    ends = {(row[3], row[6]): row[1] for row in rows(run, "CopyEnd")}
    return [
        Span(direction, row[3], row[4], row[1], ends[row[3], row[6]], row[9])
        for row in rows(run, "CopyBegin")
        if row[7] == direction
    ]


def directives(run: Run) -> list[str]:
    """The names of all directives and routines, in the order of their begin."""
    return [row[7] for row in rows(run, "DirectiveBegin")]


def rows(run: Run, name: str) -> list[Row]:
    """The recorded rows of one kind of event, in order."""
    assert run.trace is not None, "a probe is run with a recording"
    assert name in EVENTS
    return [row for row in run.trace.rows if row[0] == name]


def shared(one: Iterable[Span], other: Sequence[Span]) -> int:
    """Picoseconds for which a span of one kind runs while one of the other does, added up over pairs."""
    return sum(max(0, min(a.end, b.end) - max(a.begin, b.begin)) for a in one for b in other)
