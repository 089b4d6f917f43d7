"""The critical path by the phases that a program names: `Run.phase`, and the ranges of a recorded program.

A part of the path on a host thread belongs to the innermost phase that the thread is in. A device's part belongs to the
phase of the next host thread on the path, since this thread waits for the device. A thread that is in no phase itself,
such as one of a team, counts as being in the phase of the first thread that is in one.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from offloadrt.extensions.explaining.causal_log import Annotation
from offloadrt.extensions.explaining.critical_path import PathPart

ACTIVITIES = {
    "compute": "computes on the host",
    **dict.fromkeys(
        ("barrier", "taskwait", "taskgroup", "depend", "critical", "lock", "ordered", "the creation of the thread"),
        "waits for other threads",
    ),
}
"""Activities (`CausalLog.begin`) that are no named phase, each with its kind of work (`tracks.KINDS`)."""
NO_PHASE = "no phase"


@attrs.frozen
class _Steps:
    """The phase that an actor is in, from each time on; the empty name means none. Times are picoseconds."""

    times: list[int] = attrs.field(factory=list)
    names: list[str] = attrs.field(factory=list)

    def add(self, time_ps: int, name: str) -> None:
        if not self.names or self.names[-1] != name:
            self.times.append(time_ps)
            self.names.append(name)

    def at(self, time_ps: int) -> str:
        place = bisect.bisect_right(self.times, time_ps) - 1
        return self.names[place] if place >= 0 else ""

    def between(self, begin_ps: int, end_ps: int) -> Sequence[int]:
        """Return the times between two others at which the phase changes."""
        return self.times[bisect.bisect_right(self.times, begin_ps) : bisect.bisect_left(self.times, end_ps)]


@attrs.frozen
class NamedPhases:
    """The phases (parts of a program that it has named with `Run.phase`) of a run, by thread and time."""

    _of_actor: Mapping[str, _Steps]
    _of_first: _Steps
    """At each time, the innermost phase of the first thread that is in one."""

    @classmethod
    def of(cls, annotations: Iterable[Annotation], names: Mapping[int, str]) -> NamedPhases:
        """Collect the phases that a program has named from a run's annotations.

        names: the name of each actor (a thread, or a part of the machine), by its index.
        """
        of_actor: dict[str, _Steps] = {}
        stacks: dict[int, list[str]] = {}
        first = _Steps()
        for one in annotations:
            if one.what not in ("begin", "end") or one.name in ACTIVITIES:
                continue
            stack = stacks.setdefault(one.actor, [])
            if one.what == "begin":
                stack.append(one.name)
            elif stack:
                stack.pop()
            of_actor.setdefault(names.get(one.actor, "?"), _Steps()).add(one.time_ps, stack[-1] if stack else "")
            inside = next((stacks[actor][-1] for actor in sorted(stacks) if stacks[actor]), "")
            first.add(one.time_ps, inside)
        return cls(of_actor, first)

    def __bool__(self) -> bool:
        return bool(self._of_actor)

    def parts(self, path: Sequence[PathPart]) -> Iterator[tuple[PathPart, str]]:
        """Yield the parts of a critical path, each with the name of the phase in which it lies.

        A phase is a named part of the program. A part of the path is cut where a phase begins or ends.
        """
        waiting = _Steps()
        found: list[tuple[PathPart, str]] = []
        for part in reversed(path):
            own = self._of_actor.get(part.actor)
            waiting = waiting if own is None else own
            span = part.begin_ps, part.end_ps
            changes = sorted({*waiting.between(*span), *self._of_first.between(*span), *span})
            for begin, end in reversed([*itertools.pairwise(changes)]):
                phase = waiting.at(begin) or self._of_first.at(begin) or NO_PHASE
                found.append((attrs.evolve(part, begin_ps=begin, end_ps=end), phase))
        yield from reversed(found)
