"""Repeated phases of a long program: a few instances of each are run, and stand for those that are left out.

A loop of a program (`run.steps`) or of a recording runs its first instances, so that caches, pools and queues are warm,
then a few whose time is taken, and its last one. The others do not happen. Their time is the mean of those that were
taken; what the machine did between is multiplied in the same way. `RepeatedPhases.estimate` says with which error.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

import attrs

from offloadrt.sim import Simulation
from offloadrt.study.running.ledger import Ledger
from offloadrt.trace import Calls

WARM = 2
"""Instances that are run first."""
SAMPLED = 4
"""Instances whose time is taken."""
_LEAST = 2 * (WARM + SAMPLED + 1)
"""Loops of fewer instances are run as they are."""
WORTH_TIMERS = 50_000
"""A loop is run as it is where all that could be left out sets fewer timers: that takes about a second."""
_APART = 3.0
"""Standard errors by which the slowest thread differs from the mean where the work is uneven."""


@attrs.frozen
class LeftOut:
    """One loop of one actor of which instances were left out; times are virtual seconds."""

    actor: int
    begin_s: float
    end_s: float
    durations_s: tuple[float, ...]
    """Of the instances that were taken."""
    instances: int
    """Of the whole loop."""
    skipped: int
    at_begin: Ledger = attrs.field(repr=False)
    at_end: Ledger = attrs.field(repr=False)

    @property
    def seconds(self) -> float:
        """Return what the instances that were left out take, by estimate."""
        return self.skipped * statistics.fmean(self.durations_s)

    @property
    def error_s(self) -> float:
        """Return the standard error of `seconds`."""
        if len(self.durations_s) < 2:
            return self.seconds
        return self.skipped * statistics.stdev(self.durations_s) / math.sqrt(len(self.durations_s))


@attrs.frozen
class PhaseEstimate:
    """One repeated phase: the loops of all actors that ran it at the same time."""

    begin_s: float
    end_s: float
    """The time in which all of them were in instances that were taken."""
    threads: int
    instances: int
    skipped: int
    seconds: float
    """What was left out of the run's time."""
    error_s: float
    more: Ledger = attrs.field(repr=False)
    """What the machine did in what was left out."""

    @property
    def weight(self) -> float:
        """Return how many times over the time between begin and end counts."""
        return 1.0 + self.seconds / (self.end_s - self.begin_s)


@attrs.define(eq=False)
class _Loop:
    """A loop that is being run."""

    actor: int
    first_of_its_own: int
    """The index from which on actors were spawned after it had begun: they work for it."""


class RepeatedPhases:
    """The repeated phases of one run.

    wanted: whether anything is left out. counted: gives what the run has counted since its start.
    """

    def __init__(self, sim: Simulation, wanted: bool, counted: Callable[[], Ledger]) -> None:
        self.wanted = wanted
        self.sampled = SAMPLED
        self._sim = sim
        self._counted = counted
        self._open: list[_Loop] = []
        self._decided: dict[Hashable, bool] = {}
        self._ordinals: dict[int, int] = {}
        self._skipped: list[LeftOut] = []

    def steps(self, count: int, key: Hashable = None, typical: int = WARM) -> Iterator[int]:
        """Yield the numbers of a loop's instances: all of them, or, where phases are wanted, those that stand for all.

        key: loops of one key, in several threads that meet in the loop, leave out the same instances; without it, loops
        that are as long and come as the same in their threads. typical: the first instance whose time is taken.
        """
        if not self.wanted or count < _LEAST or self._is_inner():
            yield from range(count)
            return
        actor = self._sim.current.index
        loop = _Loop(actor, 1 + max(self._sim.actors))
        self._open.append(loop)
        try:
            yield from self._some(count, (count, self._ordinal(actor)) if key is None else key, actor, typical)
        finally:
            self._open.remove(loop)

    def _is_inner(self) -> bool:
        actor = self._sim.current.index
        return any(loop.actor == actor or actor >= loop.first_of_its_own for loop in self._open)

    def _ordinal(self, actor: int) -> int:
        self._ordinals[actor] = number = self._ordinals.get(actor, 0) + 1
        return number

    def _some(self, count: int, key: Hashable, actor: int, typical: int) -> Iterator[int]:
        typical = min(max(typical, WARM), count - SAMPLED - 1)
        skipped = count - WARM - SAMPLED - 1
        timers = self._sim.timers_set
        yield from range(WARM)
        saved = (self._sim.timers_set - timers) / WARM * skipped
        if not self._decided.setdefault(key, saved >= WORTH_TIMERS):
            yield from range(WARM, count)
            return
        at_begin = self._counted()
        begin = since = self._sim.now
        durations = []
        for instance in range(typical, typical + SAMPLED):
            yield instance
            durations.append(self._sim.now - since)
            since = self._sim.now
        at_end = self._counted()
        self._skipped.append(LeftOut(actor, begin, since, tuple(durations), count, skipped, at_begin, at_end))
        yield count - 1

    # ------------------------------------------------------------------ the estimate

    def estimates(self, begin_s: float, end_s: float) -> list[PhaseEstimate]:
        """Return what was left out between two times, phase by phase."""
        inside = [loop for loop in self._skipped if begin_s <= loop.begin_s and loop.end_s <= end_s]
        return [_estimate(loops) for loops in _together(inside)]


def _together(loops: Iterable[LeftOut]) -> Iterator[list[LeftOut]]:
    """Group the loops that were run at the same time."""
    group: list[LeftOut] = []
    until = 0.0
    for loop in sorted(loops, key=lambda loop: (loop.begin_s, loop.actor)):
        if group and loop.begin_s >= until:
            yield group
            group = []
        group.append(loop)
        until = max(until, loop.end_s) if len(group) > 1 else loop.end_s
    if group:
        yield group


def _estimate(loops: Sequence[LeftOut]) -> PhaseEstimate:
    """Estimate one phase: threads that contend go on at one pace; where work is uneven, the slowest counts."""
    seconds = statistics.fmean(loop.seconds for loop in loops)
    error_s = math.sqrt(math.fsum(loop.error_s**2 for loop in loops)) / len(loops)
    slowest = max(loops, key=lambda loop: loop.seconds)
    if slowest.seconds - seconds > _APART * max(loop.error_s for loop in loops):
        seconds, error_s = slowest.seconds, slowest.error_s
    first = max(loops, key=lambda loop: loop.begin_s)
    last = min(loops, key=lambda loop: loop.end_s)
    if first.begin_s >= last.end_s:
        first = last = slowest
    more, calls = Ledger(), Calls()
    for loop in loops:  # what all of the machine did while one thread went on, averaged over the threads
        factor = seconds / (loop.end_s - loop.begin_s) / len(loops) if loop.end_s > loop.begin_s else 0.0
        more += (loop.at_end - loop.at_begin).times(factor)
        calls.include(loop.at_end.calls.since(loop.at_begin.calls).times(factor))
    return PhaseEstimate(
        begin_s=first.begin_s,
        end_s=last.end_s,
        threads=len(loops),
        instances=max(loop.instances for loop in loops),
        skipped=max(loop.skipped for loop in loops),
        seconds=seconds,
        error_s=error_s,
        more=attrs.evolve(more, calls=calls),
    )
