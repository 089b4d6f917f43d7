"""Repeated phases of a long program: a few instances of each are run, and stand for those that are left out.

An *instance* is one iteration of a loop of a program (`run.steps`) or of a recording. A loop runs its first instances,
so that caches, pools and queues are warm and its threads have fallen out of step, if they do (`has_settled`). Then it
runs a few instances that are timed, and its last one. The others are left out. Their time is estimated as the mean of
the timed ones; what the machine counted in the timed ones is multiplied in the same way. `RepeatedPhases.estimates`
returns the estimates with their errors.
"""

from __future__ import annotations

import cmath
import math
import statistics
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

import attrs

from offloadrt.sim import Simulation
from offloadrt.study.running.statistics import Ledger, PhaseEstimate
from offloadrt.trace import Calls

WARM = 2
"""The number of instances at the begin of a loop that are run and not timed."""
_ONE_RUN_IN = 4
"""At most one in so many instances is run, however slowly the threads fall out of step."""
_MOST_RUN = 50
"""At most so many instances are run, however slowly the threads fall out of step."""
SAMPLED = 4
"""The number of instances that are timed."""
_LEAST_INSTANCES = 2 * (WARM + SAMPLED + 1)
"""Loops with fewer instances are run completely."""
WORTH_TIMERS = 50_000
"""A loop is run completely if the instances to leave out set fewer timers, which take about a second of real time."""
_RESOLUTION_S = 1e-12
"""Smaller differences of virtual times, in seconds, are rounding errors."""
_UNEVEN_ERRORS = 3.0
"""The work is uneven if the slowest thread differs from the mean by more than so many standard errors."""


@attrs.frozen
class LeftOut:
    """A loop of one thread of which some iterations were not run; times are in virtual seconds.

    An *instance* is one iteration. Some of those that were run are timed, and stand for those that were left out.
    """

    actor: int
    """The index of the thread."""
    group: _LoopGroup = attrs.field(repr=False, eq=False)
    """The loops of other threads that left out the same instances."""
    opened_s: float
    """When the loop began."""
    begin_s: float
    """When the first timed instance began."""
    end_s: float
    """When the last timed instance ended."""
    durations_s: tuple[float, ...]
    """The time that each timed instance took."""
    change_s: float
    """By how much a timed instance is longer, on average, than the instances before."""
    work_s: tuple[float, ...]
    """For each of `durations_s`, the part that is known to be the host's own work."""
    mean_work_s: float
    """The mean of the host's own work in an instance that was left out."""
    instances: int
    """How many instances the whole loop has."""
    skipped: int
    """How many instances were left out."""
    at_begin: Ledger = attrs.field(repr=False)
    """The counts of everything in the run (calls, bytes, times) at `begin_s`."""
    at_end: Ledger = attrs.field(repr=False)
    """These counts at `end_s`."""

    @property
    def seconds(self) -> float:
        """Return an estimate, in virtual seconds, of how long the iterations that were not run would have taken."""
        times, known = self._differing
        return self.skipped * (statistics.fmean(times) + known)

    @property
    def error_s(self) -> float:
        """Return the standard error of `seconds`, in virtual seconds."""
        return self.skipped * _standard_error(self._differing[0])

    @property
    def _differing(self) -> tuple[Sequence[float], float]:
        """Return the times of the timed instances whose mean is estimated, and a known time to add to the mean.

        If the host's own work explains most of the differences between timed instances, it is subtracted from their
        times, and the known work of the left-out instances is added. This makes the error smaller.
        """
        rest = [taken - work for taken, work in zip(self.durations_s, self.work_s, strict=True)]
        if _standard_error(rest) < _standard_error(self.durations_s):
            return rest, self.mean_work_s
        return self.durations_s, 0.0


@attrs.define(eq=False)
class _Loop:
    """A loop of one actor that is running."""

    actor: int
    first_of_its_own: int
    """Actors with this index or a higher one were spawned after the loop had begun, so they work for it."""
    starts: list[float]
    """Virtual seconds at which its instances began so far, and at which the last one ended."""


@attrs.define(eq=False)
class _LoopGroup:
    """Loops of several threads that run at the same time and leave out the same instances.

    Threads may wait for one another within an instance. So the first thread to reach an instance decides for all
    whether it is run.
    """

    count: int
    meets: bool
    """Whether the threads are known to wait for one another in every instance."""
    loops: list[_Loop] = attrs.field(factory=list)
    running: int = 0
    worthwhile: bool | None = None
    """Whether instances are left out; None while this is not decided."""
    settled: bool = True
    _waits: int = -1
    """How many instances, as decided so far, are run between the first ones and the timed ones."""
    _decided: bool = False

    @property
    def waited(self) -> bool:
        """Tell whether the threads had not settled after the first instances."""
        return self._waits > 0 or not self.settled

    def waits(self, number: int) -> bool:
        """Tell whether one more instance is run after `number` of them, before instances are timed."""
        if number > self._waits and not self._decided:
            self._waits = number
            self.settled = self.meets or has_settled([loop.starts for loop in self.loops], self.count, SAMPLED)
            patience = min(self.count // _ONE_RUN_IN, _MOST_RUN) - (WARM + SAMPLED + 1)
            self._decided = self.settled or number >= patience
        return number < self._waits or not self._decided


class RepeatedPhases:
    """Leaves out some iterations of a run's long loops (repeated phases), and estimates what they would have added.

    counted: returns the counts and times of the run since its start (`Ledger`); their growth in the iterations that run
    stands for those that do not. `wanted` tells whether iterations are left out at all.
    """

    wanted = True

    def __init__(self, sim: Simulation, counted: Callable[[], Ledger]) -> None:
        self._sim = sim
        self._counted = counted
        self._open: list[_Loop] = []
        self._groups: dict[Hashable, _LoopGroup] = {}
        self._ordinals: dict[int, int] = {}
        self._skipped: list[LeftOut] = []

    def steps(self, count: int, key: Hashable = None, work: Sequence[float] = ()) -> Iterator[int]:
        """Yield which iterations (instances) of a loop to run: a few that stand for all, or all of a short loop.

        count: how many instances the loop has. key: loops of several threads with the same key leave out the same
        instances, because the threads wait for one another in the loop; with None, the n-th loop of each thread leaves
        out the same instances as the n-th loops of other threads that are equally long. work: the seconds of the host's
        own work in each instance, if known; then instances are timed whose work is near the mean.
        """
        actor = self._sim.current.index
        is_inner = any(loop.actor == actor or actor >= loop.first_of_its_own for loop in self._open)
        if count < _LEAST_INSTANCES or is_inner:
            yield from range(count)
            return
        loop = _Loop(actor, 1 + max(self._sim.actors), [self._sim.now])
        name = key
        if key is None:
            self._ordinals[actor] = self._ordinals.get(actor, 0) + 1
            name = count, self._ordinals[actor]
        group = self._groups.setdefault(name, _LoopGroup(count, meets=key is not None))
        group.loops.append(loop)
        group.running += 1
        self._open.append(loop)
        try:
            yield from self._some(group, loop, work)
        finally:
            self._open.remove(loop)
            group.running -= 1
            if not group.running:  # a later loop with this name is another loop
                del self._groups[name]

    def _some(self, group: _LoopGroup, loop: _Loop, work: Sequence[float]) -> Iterator[int]:
        count, starts = group.count, loop.starts
        timers = self._sim.timers_set
        yield from self._run(loop, range(WARM))
        if group.worthwhile is None:
            saved = (self._sim.timers_set - timers) / WARM * (count - WARM - SAMPLED - 1)
            group.worthwhile = saved >= WORTH_TIMERS
        if not group.worthwhile:
            yield from range(WARM, count)
            return
        last = count - SAMPLED - 1
        first = begin = _typical(work) if work else WARM
        while first < last and group.waits(first - begin):
            yield from self._run(loop, range(first, first + 1))
            first += 1
        at_begin = self._counted()
        yield from self._run(loop, range(first, first + SAMPLED))
        taken = starts[-SAMPLED - 1 :]
        left_out = LeftOut(
            loop.actor,
            group,
            opened_s=starts[0],
            begin_s=taken[0],
            end_s=taken[-1],
            durations_s=tuple(end - begin for begin, end in pairwise(taken)),
            change_s=change(starts, SAMPLED),
            work_s=tuple(work[first : first + SAMPLED]) if work else (0.0,) * SAMPLED,
            mean_work_s=statistics.fmean([*work[WARM:begin], *work[first + SAMPLED : -1]]) if work else 0.0,
            instances=count,
            skipped=count - len(starts),
            at_begin=at_begin,
            at_end=self._counted(),
        )
        self._skipped.append(left_out)
        yield count - 1

    def _run(self, loop: _Loop, instances: Iterable[int]) -> Iterator[int]:
        for instance in instances:
            yield instance
            loop.starts.append(self._sim.now)

    # ------------------------------------------------------------------ the estimate

    def estimates(self, begin_s: float, end_s: float) -> list[PhaseEstimate]:
        """Return the estimates of what was left out between two virtual times in seconds, one for each phase.

        A phase is a loop of which only some iterations were run.
        """
        inside = [loop for loop in self._skipped if begin_s <= loop.begin_s and loop.end_s <= end_s]
        return [_estimate(loops) for loops in _together(inside)]


def _standard_error(values: Sequence[float]) -> float:
    spread = statistics.stdev(values)
    return spread / math.sqrt(len(values)) if spread > _RESOLUTION_S else 0.0


def _typical(work: Sequence[float]) -> int:
    """Return the first of the `SAMPLED` successive instances whose work is nearest to the mean of all instances."""
    mean = statistics.fmean(work)
    firsts = range(WARM, len(work) - SAMPLED)
    return min(firsts, key=lambda first: abs(statistics.fmean(work[first : first + SAMPLED]) - mean))


def _together(loops: Iterable[LeftOut]) -> list[list[LeftOut]]:
    """Group the loops that different actors ran at the same time: their time passes only once."""
    groups: dict[_LoopGroup, list[LeftOut]] = {}
    for loop in sorted(loops, key=lambda loop: (loop.opened_s, loop.actor)):
        groups.setdefault(loop.group, []).append(loop)
    phases: list[list[LeftOut]] = []
    for group in groups.values():
        actors = {loop.actor for loop in group}
        for phase in phases:
            if group[0].opened_s < max(loop.end_s for loop in phase) and actors.isdisjoint(one.actor for one in phase):
                phase.extend(group)
                break
        else:
            phases.append(group)
    return phases


def _estimate(loops: Sequence[LeftOut]) -> PhaseEstimate:
    """Estimate one phase from the loops of its threads.

    Threads that contend have the same pace, so their estimates are averaged. If work is uneven, the slowest is taken.
    """
    seconds = statistics.fmean(loop.seconds for loop in loops)
    error_s = math.sqrt(math.fsum(loop.error_s**2 for loop in loops)) / len(loops)
    slowest = max(loops, key=lambda loop: loop.seconds)
    if slowest.seconds - seconds > _UNEVEN_ERRORS * max(loop.error_s for loop in loops):
        seconds, error_s = slowest.seconds, slowest.error_s
    if any(loop.group.waited for loop in loops):  # the times changed before, so they may change as much again
        error_s = math.hypot(error_s, statistics.fmean(loop.skipped * loop.change_s for loop in loops))
    first = max(loops, key=lambda loop: loop.begin_s)
    last = min(loops, key=lambda loop: loop.end_s)
    if first.begin_s >= last.end_s:
        first = last = slowest
    more, calls = Ledger(), Calls()
    for loop in loops:  # counts of the whole machine during one thread's timed instances, averaged over the threads
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
        settled=all(loop.group.settled for loop in loops),
        more=attrs.evolve(more, calls=calls),
    )


# Threads that begin together do the same things at the same time, and wait more for one another than later. Small
# differences between their instances grow until each thread is somewhere else in its instance. How long that takes does
# not show in the instances' times, which stay the same at first; it shows in how far apart the threads are. The measure
# is the order parameter of coupled oscillators (Kuramoto, 1975): 1 for threads in step, near 0 for threads anywhere.
# Once they are out of step, the instances' times must have stopped changing.

Starts = Sequence[float]
"""Virtual seconds at which a thread began its instances so far, and at which the last one ended."""

_MIXED: Final = 0.7
"""Threads are out of step if their order is at most this: a standard deviation of an eighth of an instance."""
_TOGETHER: Final = 0.1
"""Threads stay in step if they will be at most so many instances apart (standard deviation) at the loop's end."""
_UNEVEN: Final = 0.75
"""Threads are uneven if one has done less than this part of the instances that another has done."""
_STEADY: Final = 0.01
"""Times of instances are steady if they differ from those just before by at most this part."""


def order_parameter(starts: Sequence[float], period: float) -> float:
    """Return how closely several threads go through a loop in step: 1 if all do, near 0 if they are spread evenly.

    This is the order parameter of coupled oscillators. starts: for each thread, the virtual time in seconds at which
    it began an iteration. period: the mean length of the threads' iterations, in seconds.
    """
    return abs(sum(cmath.exp(2j * math.pi * (start - starts[0]) / period) for start in starts)) / len(starts)


def change(starts: Starts, taken: int) -> float:
    """Return by how many seconds the last `taken` iterations are longer, on average, than as many before them.

    starts: when a thread began each iteration. The very first iteration, in which a thread does everything for the
    first time, is left out.
    """
    before = min(taken, len(starts) - 2 - taken)
    if before < 1:
        return 0.0
    middle = starts[-1 - taken]
    return (starts[-1] - middle) / taken - (middle - starts[-1 - taken - before]) / before


def has_settled(threads: Sequence[Starts], count: int, taken: int) -> bool:
    """Tell whether the threads of a loop have settled, so that its instances can be timed.

    They have settled if some have run far fewer instances than others; if they will stay in step until the loop of
    `count` instances ends; or if they are out of step and steady, so that the last `taken` instances of each thread
    take as long as the `taken` before.
    """
    if len(threads) < 2:
        return True
    done, most = (extreme(map(len, threads)) - 1 for extreme in (min, max))
    if done + 1 <= _UNEVEN * most:
        return True  # threads whose instances differ were never in step; later, the fast ones will be through
    period = statistics.fmean((starts[done] - starts[0]) / done for starts in threads) if done else 0.0
    if period <= 0.0:
        return False
    latest = [starts[done] for starts in threads]
    if statistics.pstdev(latest) / period * count / done <= _TOGETHER:
        return True
    return order_parameter(latest, period) <= _MIXED and _is_steady(threads, taken)


def _is_steady(threads: Sequence[Starts], taken: int) -> bool:
    known = [starts for starts in threads if len(starts) >= 2 * taken + 2]
    if not known:
        return False
    changed = statistics.fmean(change(starts, taken) * taken / (starts[-1] - starts[-1 - taken]) for starts in known)
    return abs(changed) <= _STEADY
