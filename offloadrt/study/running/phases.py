"""Repeated phases of a long program: a few instances of each are run, and stand for those that are left out.

A loop of a program (`run.steps`) or of a recording runs its first instances, so that caches, pools and queues are warm
and its threads have fallen out of step, if they do (`has_settled`); then a few whose time is taken, and its last one.
The others do not happen. Their time is the mean of those that were taken; what the machine did between is multiplied in
the same way. `RepeatedPhases.estimates` says with which error.

`Windows` are the measured parts of a run. The measured windows of a run: virtual time, figures and API calls between
their starts and their ends.
"""

from __future__ import annotations

import cmath
import math
import statistics
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import reduce
from itertools import pairwise
from types import TracebackType
from typing import Final

import attrs

from offloadrt.sim import Actor, Simulation
from offloadrt.sim.errors import AsyncOnly
from offloadrt.study.errors import UserError
from offloadrt.study.running.statistics import Ledger
from offloadrt.trace import Calls

StepNumbers = Callable[[int], Iterable[int]]
"""Gives the numbers of the steps that are run, of so many: `range`, or `run.steps`, which leaves some out."""

WARM = 2
"""Instances that are run first."""
_ONE_RUN_IN = 4
"""Of so many instances at most one is run, however slowly the threads fall out of step."""
_MOST_RUN = 50
"""At most so many instances are run for that."""
SAMPLED = 4
"""Instances whose time is taken."""
_LEAST_INSTANCES = 2 * (WARM + SAMPLED + 1)
"""Loops of fewer instances are run as they are."""
WORTH_TIMERS = 50_000
"""A loop is run as it is where all that could be left out sets fewer timers: that takes about a second."""
_RESOLUTION_S = 1e-12
"""Differences below a picosecond are those of rounding."""
_UNEVEN_ERRORS = 3.0
"""Standard errors by which the slowest thread differs from the mean where the work is uneven."""


@attrs.frozen
class LeftOut:
    """One loop of one actor of which instances were left out; times are virtual seconds."""

    actor: int
    group: _LoopGroup = attrs.field(repr=False, eq=False)
    opened_s: float
    """When the loop began. The instances that were taken lie between `begin_s` and `end_s`."""
    begin_s: float
    end_s: float
    durations_s: tuple[float, ...]
    """The times of the instances that were taken."""
    change_s: float
    """By how much they are longer, on average, than instances before."""
    work_s: tuple[float, ...]
    """The part of each of these times that is known to be the host's own work."""
    mean_work_s: float
    """The mean of the host's own work in the instances that were left out."""
    instances: int
    """How many instances the whole loop has."""
    skipped: int
    at_begin: Ledger = attrs.field(repr=False)
    at_end: Ledger = attrs.field(repr=False)

    @property
    def seconds(self) -> float:
        """Return what the instances that were left out take, by estimate."""
        times, known = self._differing
        return self.skipped * (statistics.fmean(times) + known)

    @property
    def error_s(self) -> float:
        """Return the standard error of `seconds`."""
        return self.skipped * _standard_error(self._differing[0])

    @property
    def _differing(self) -> tuple[Sequence[float], float]:
        """Return what differs from instance to instance for unknown reasons, and what is known of those left out.

        Where the host's own work explains how the instances that were taken differ, it is no reason for doubt.
        """
        rest = [taken - work for taken, work in zip(self.durations_s, self.work_s, strict=True)]
        if _standard_error(rest) < _standard_error(self.durations_s):
            return rest, self.mean_work_s
        return self.durations_s, 0.0


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
    settled: bool
    """Whether its threads were in their lasting state when instances were taken."""
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
    starts: list[float]
    """When its instances began so far, and when the last one ended."""


@attrs.define(eq=False)
class _LoopGroup:
    """Loops of several threads that are run at the same time and leave out the same instances.

    Threads may meet within the instances. So whoever comes to an instance first decides for all.
    """

    count: int
    meets: bool
    """Whether it is known that threads meet in every instance."""
    loops: list[_Loop] = attrs.field(factory=list)
    running: int = 0
    worthwhile: bool | None = None
    """Whether instances are left out; None as long as that is open."""
    settled: bool = True
    _waits: int = -1
    """How many instances are run, as far as is decided, between the first ones and those that are taken."""
    _decided: bool = False

    @property
    def waited(self) -> bool:
        """Return whether the threads had not settled after the first instances."""
        return self._waits > 0 or not self.settled

    def waits(self, number: int) -> bool:
        """Tell whether one more instance is run after `number` of them, before instances are taken."""
        if number > self._waits and not self._decided:
            self._waits = number
            self.settled = self.meets or has_settled([loop.starts for loop in self.loops], self.count, SAMPLED)
            patience = min(self.count // _ONE_RUN_IN, _MOST_RUN) - (WARM + SAMPLED + 1)
            self._decided = self.settled or number >= patience
        return number < self._waits or not self._decided


class RepeatedPhases:
    """The repeated phases of one run.

    wanted: whether anything is left out. counted: gives what the run has counted since its start.
    """

    def __init__(self, sim: Simulation, wanted: bool, counted: Callable[[], Ledger]) -> None:
        self.wanted = wanted
        self._sim = sim
        self._counted = counted
        self._open: list[_Loop] = []
        self._groups: dict[Hashable, _LoopGroup] = {}
        self._ordinals: dict[int, int] = {}
        self._skipped: list[LeftOut] = []

    def steps(self, count: int, key: Hashable = None, work: Sequence[float] = ()) -> Iterator[int]:
        """Yield the numbers of a loop's instances: all of them, or, where phases are wanted, those that stand for all.

        key: loops of one key, in several threads that meet in the loop, leave out the same instances; without it, loops
        that are as long and come as the same in their threads. work: seconds of the host's own work in each instance,
        where these are known; instances are taken whose work is about the mean.
        """
        if not self.wanted or count < _LEAST_INSTANCES or self._is_inner():
            yield from range(count)
            return
        actor = self._sim.current.index
        loop = _Loop(actor, 1 + max(self._sim.actors), [self._sim.now])
        name = (count, self._ordinal(actor)) if key is None else key
        group = self._groups.setdefault(name, _LoopGroup(count, meets=key is not None))
        group.loops.append(loop)
        group.running += 1
        self._open.append(loop)
        try:
            yield from self._some(group, loop, work)
        finally:
            self._open.remove(loop)
            group.running -= 1
            if not group.running:  # a later loop of this name is another one
                del self._groups[name]

    def _is_inner(self) -> bool:
        actor = self._sim.current.index
        return any(loop.actor == actor or actor >= loop.first_of_its_own for loop in self._open)

    def _ordinal(self, actor: int) -> int:
        self._ordinals[actor] = number = self._ordinals.get(actor, 0) + 1
        return number

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
        """Return what was left out between two times, phase by phase."""
        inside = [loop for loop in self._skipped if begin_s <= loop.begin_s and loop.end_s <= end_s]
        return [_estimate(loops) for loops in _together(inside)]


def _standard_error(values: Sequence[float]) -> float:
    spread = statistics.stdev(values)
    return spread / math.sqrt(len(values)) if spread > _RESOLUTION_S else 0.0


def _typical(work: Sequence[float]) -> int:
    """Return the first of the instances in a row whose work is nearest to the mean, without the warm and the last."""
    mean = statistics.fmean(work)
    firsts = range(WARM, len(work) - SAMPLED)
    return min(firsts, key=lambda first: abs(statistics.fmean(work[first : first + SAMPLED]) - mean))


def _together(loops: Iterable[LeftOut]) -> list[list[LeftOut]]:
    """Group the loops that were run at the same time by different actors: time passes once for all of them."""
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
    """Estimate one phase: threads that contend go on at one pace; where work is uneven, the slowest counts."""
    seconds = statistics.fmean(loop.seconds for loop in loops)
    error_s = math.sqrt(math.fsum(loop.error_s**2 for loop in loops)) / len(loops)
    slowest = max(loops, key=lambda loop: loop.seconds)
    if slowest.seconds - seconds > _UNEVEN_ERRORS * max(loop.error_s for loop in loops):
        seconds, error_s = slowest.seconds, slowest.error_s
    if any(loop.group.waited for loop in loops):  # what has changed may change as much again
        error_s = math.hypot(error_s, statistics.fmean(loop.skipped * loop.change_s for loop in loops))
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
        settled=all(loop.group.settled for loop in loops),
        more=attrs.evolve(more, calls=calls),
    )


# Threads that begin together do the same things at the same time, and wait more for one another than later. Small
# differences between their instances grow until each thread is somewhere else in its instance. How long that takes does
# not show in the instances' times, which stay the same at first; it shows in how far apart the threads are. The measure
# is the order parameter of coupled oscillators (Kuramoto, 1975): 1 for threads in step, near 0 for threads anywhere.
# Once they are out of step, the instances' times must have stopped changing.

Starts = Sequence[float]
"""The times at which a thread began its instances so far, and at which the last one ended."""

_MIXED: Final = 0.7
"""Order below which threads count as out of step: they are an eighth of an instance apart, as a standard deviation."""
_TOGETHER: Final = 0.1
"""Instances by which threads may be apart at a loop's end and count as in step all the time."""
_UNEVEN: Final = 0.75
"""Threads are uneven when one has done less than this part of the instances that another has done."""
_STEADY: Final = 0.01
"""Part by which instances may differ from those just before and count as steady."""


def order_parameter(starts: Sequence[float], period: float) -> float:
    """Return the order of threads that began an instance at these times; their instances take a period on average."""
    return abs(sum(cmath.exp(2j * math.pi * (start - starts[0]) / period) for start in starts)) / len(starts)


def change(starts: Starts, taken: int) -> float:
    """Return by how many seconds the last instances, `taken` in number, differ on average from as many before them.

    The first instance, in which a thread meets everything for the first time, is none of those before.
    """
    before = min(taken, len(starts) - 2 - taken)
    if before < 1:
        return 0.0
    middle = starts[-1 - taken]
    return (starts[-1] - middle) / taken - (middle - starts[-1 - taken - before]) / before


def has_settled(threads: Sequence[Starts], count: int, taken: int) -> bool:
    """Tell whether threads are uneven, in step until a loop of `count` instances ends, or out of step and steady.

    Threads are steady when the last instances of each, `taken` in number, take as long as those before.
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


class Windows:
    """The measured windows; several add up. Until the first one is opened, everything from the run's start is measured.

    `ledger` gives what the run has counted up to now; `calls` is where the machine counts API calls. What the program's
    `phases` leave out of a window is in all figures, by estimate; `spans` are as the run was.
    """

    def __init__(
        self, sim: Simulation, ledger: Callable[[], Ledger], calls: Calls, sample_phases: bool = False
    ) -> None:
        self._sim = sim
        self.phases = RepeatedPhases(sim, sample_phases, lambda: attrs.evolve(ledger(), calls=self.calls))
        self._ledger_now = ledger
        self._counting = calls
        self._outside = Calls()
        self._inside = Calls()
        self._closed = Ledger()
        self._at_start = Ledger()
        self._closed_s = 0.0
        self._open: float | None = 0.0
        self._explicit = False
        self.spans: list[tuple[float, float, Actor]] = []
        """Begin and end of each window that is over, in virtual seconds, and who ended it."""

    def start(self) -> None:
        """Open a window. Raises UserError where one is open."""
        if not self._explicit:
            self._explicit, self._open = True, None
        if self._open is not None:
            raise UserError(
                "run.measure(): a measured window is open already; in a team, open it around `run.parallel`, or let "
                "thread 0 alone open it between two barriers"
            )
        self._open = self._sim.now
        self._at_start = self._ledger_now()
        self._outside.include(self._counting.cut())

    def end(self) -> None:
        """Close the window. Raises UserError where none is open."""
        if not self._explicit or self._open is None:
            raise UserError("run.measure(): no measured window is open")
        self._close(self._open)

    def finish(self) -> None:
        """End the program: where no window was ever opened, everything up to here is measured."""
        if self._open is not None and not self._explicit:
            self._close(self._open)

    def _close(self, opened: float) -> None:
        self._closed_s += self._since(opened)
        self.spans.append((opened, self._sim.now, self._sim.current))
        self._open = None
        self._closed += self._counted_since(opened)
        self._inside.include(self._counting.cut())
        for phase in self.phases.estimates(opened, self._sim.now):
            self._inside.include(phase.more.calls)

    def _since(self, opened: float) -> float:
        skipped = math.fsum(phase.seconds for phase in self.phases.estimates(opened, self._sim.now))
        return self._sim.now - opened + skipped

    def _counted_since(self, opened: float) -> Ledger:
        counted = self._ledger_now() - self._at_start
        for phase in self.phases.estimates(opened, self._sim.now):
            counted += phase.more
        return counted

    @property
    def elapsed(self) -> float:
        """Return the virtual seconds in the windows so far."""
        running = 0.0 if self._open is None else self._since(self._open)
        return self._closed_s + running

    @property
    def measured(self) -> Ledger:
        """Return what was counted in the windows so far."""
        figures = self._closed if self._open is None else self._closed + self._counted_since(self._open)
        calls = _all_of(self._inside)
        if self._open is not None:
            left_out = self.phases.estimates(self._open, self._sim.now)
            calls = _all_of(calls, self._counting, *(phase.more.calls for phase in left_out))
        return attrs.evolve(figures, calls=calls)

    @property
    def counted(self) -> Ledger:
        """Return what has been counted since the start, measured or not, with what was left out of windows."""
        phases = self.phases.estimates(0.0, self._sim.now)
        return reduce(Ledger.__add__, (phase.more for phase in phases), self._ledger_now())

    @property
    def skipped(self) -> list[PhaseEstimate]:
        """Return the sampled phases whose left-out instances belong to windows that are over."""
        return [phase for begin, end, _ in self.spans for phase in self.phases.estimates(begin, end)]

    @property
    def calls_outside(self) -> Calls:
        """Return the API calls that returned outside of the windows so far; none when no window was opened."""
        if not self._explicit:
            return Calls()
        return _all_of(self._outside, self._counting) if self._open is None else _all_of(self._outside)

    @property
    def calls(self) -> Calls:
        """Return all API calls so far."""
        return _all_of(self._outside, self._inside, self._counting)


def _all_of(*parts: Calls) -> Calls:
    calls = Calls()
    for part in parts:
        calls.include(part)
    return calls


class MeasuredPart(AsyncOnly):
    """Measures the block of `async with run.measure():`."""

    directive = "run.measure()"

    def __init__(self, windows: Windows) -> None:
        self._windows = windows

    async def __aenter__(self) -> None:
        self._windows.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._windows.end()
