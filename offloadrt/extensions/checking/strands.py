"""Happens-before among host threads, tasks and device queues, by vector clocks.

A *strand* is a host thread, a task or a queue of a device; its operations happen in order. Its vector clock has, for
each other strand, the last epoch that is known to have happened before now. A strand that signals something adds its
clock to the signal and begins a new epoch; a strand that awaits the signal merges that clock into its own. A *chain* is
a sequence of strands of which each began after the one before had ended. Clocks have one entry per chain, so a program
of many tasks has short clocks. Clocks of deeply nested tasks are long, but share what they have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from itertools import islice
from typing import Any, Final

import attrs

from offloadrt.runtime.events import WorkQueue
from offloadrt.sim import Actor, Simulation

_BITS: Final = 4
_WIDTH: Final = 1 << _BITS
_NOTHING: Final[list[tuple[Any, ...]]] = [(0,) * _WIDTH]
"""By height: the tree in which all epochs are 0, one shared object each."""
while len(_NOTHING) < 32 // _BITS:
    _NOTHING.append((_NOTHING[-1],) * _WIDTH)


class Clock:
    """A vector clock: for each chain of strands, the number of the last epoch that is known to have ended, or 0.

    A strand is a host thread, a task or a queue; a chain is several of them, one after the other. An epoch is what a
    strand does between two signals. The clock is a tree of immutable tuples. A copy shares the whole tree, and two
    clocks are joined without visiting subtrees that they share. So a task that is nested in 100,000 others costs one
    path of the tree, not a list of them all.
    """

    __slots__ = ("_height", "_root")

    def __init__(self, other: Clock | None = None) -> None:
        self._root: tuple[Any, ...] = _NOTHING[0] if other is None else other._root
        self._height: int = 0 if other is None else other._height

    def __getitem__(self, chain: int) -> int:
        node: Any = self._root
        height = self._height
        if chain >> _BITS * (height + 1):
            return 0
        while height:
            node = node[chain >> _BITS * height & _WIDTH - 1]
            height -= 1
        epoch: int = node[chain & _WIDTH - 1]
        return epoch

    @property
    def is_empty(self) -> bool:
        return self._root is _NOTHING[self._height]

    def begin_epoch(self, chain: int) -> None:
        """Increment a chain's entry of the vector clock, so that later acts of the chain differ from earlier ones.

        A chain is several strands (threads, tasks or queues), one after the other; an epoch is one value of its entry.
        """
        while chain >> _BITS * (self._height + 1):
            self._raise()
        self._root = _next_of(self._root, chain, self._height)

    def join(self, other: Clock) -> None:
        """Make this vector clock know all that it or the other knows: keep the larger of each entry's two values."""
        if self.is_empty:
            self._root, self._height = other._root, other._height
        else:
            self._merge(other, max)

    def meet(self, other: Clock) -> None:
        """Make this vector clock know only what both it and `other` know: keep the smaller value of each entry."""
        self._merge(other, min)

    def _merge(self, other: Clock, keep: Callable[[int, int], int]) -> None:
        if other._height != self._height:
            other = Clock(other)
            while other._height != self._height:
                (self if self._height < other._height else other)._raise()
        self._root = _merged(self._root, other._root, self._height, keep)

    def _raise(self) -> None:
        self._root = (self._root, *_NOTHING[self._height + 1][1:])
        self._height += 1


def _next_of(node: tuple[Any, ...], chain: int, height: int) -> tuple[Any, ...]:
    place = chain >> _BITS * height & _WIDTH - 1
    changed = _next_of(node[place], chain, height - 1) if height else node[place] + 1
    return (*node[:place], changed, *node[place + 1 :])


def _merged(one: Any, other: Any, height: int, keep: Callable[[int, int], int]) -> Any:
    """Merge two trees by `keep` (max or min). If possible, return one of them, so that clocks share subtrees."""
    nothing = _NOTHING[height]
    if one is other or one is nothing or other is nothing:
        return one if (other is nothing) == (keep is max) else other
    if height:
        pairs = zip(one, other, strict=True)
        merged = tuple([a if a is b else _merged(a, b, height - 1, keep) for a, b in pairs])
    else:
        merged = tuple(map(keep, one, other))
    return one if merged == one else other if merged == other else merged


_TRIED: Final = 16
"""How many ended chains are tried when a strand begins; most often the first one fits."""


@attrs.define(eq=False)
class EndedChains:
    """Chains of strands whose last strand has ended, so that a new strand can continue one of them.

    A strand is a host thread, a task or a queue; a chain is several of them, one after the other, which share one entry
    of a vector clock.
    """

    _chains: list[tuple[int, int]] = attrs.field(factory=list)

    def add(self, chain: int, epoch: int) -> None:
        """Let a chain of strands be continued: its last strand (thread, task or queue) has ended.

        chain: the index of its entry in all vector clocks. epoch: the last value of that entry.
        """
        self._chains.append((chain, epoch))

    def take_over(self, other: EndedChains) -> None:
        """Move all chains of strands (threads, tasks, queues) that have ended from `other` into this object.

        Of the two lists, the shorter one is appended to the longer one, for speed.
        """
        if other is self:
            return
        if len(self._chains) < len(other._chains):
            self._chains, other._chains = other._chains, self._chains
        self._chains += other._chains
        other._chains = []

    def known_to(self, clock: Clock) -> int | None:
        """Return a chain whose end is known to have happened by the clock, and remove it here; None if there is none.

        A new strand (thread, task or queue) with this clock can continue the chain.
        """
        for place, (chain, epoch) in enumerate(islice(self._chains, _TRIED)):
            if clock[chain] >= epoch:
                self._chains[place] = self._chains[-1]
                self._chains.pop()
                return chain
        return None


@attrs.define(eq=False)
class Strand:
    """A part of the run whose operations have an order: a host thread, a task, a device queue or a message.

    chain: the number of its entry in vector clocks, which strands may share that come one after the other. clock: what
    is known to have happened before now.
    """

    name: str
    chain: int
    clock: Clock
    deferred: bool = False
    """Whether it is a deferred task, which need not run where it is made."""
    is_queue: bool = False
    """Whether it is the work of a device queue."""
    is_message: bool = False
    """Whether it is a message of MPI that is under way."""
    has_nodes: bool = False
    """Whether the queue is a part of a CUDA graph."""
    source: str = ""
    """The line of the program that a recording says it has reached; "": the Python stack gives it."""
    ended: EndedChains = attrs.field(factory=EndedChains)
    """Chains of strands that have ended before this strand's present time, so that a new strand can continue them."""
    is_half_known: bool = False
    """Whether another strand comes after only the first part of what this strand did between two of its signals."""

    @property
    def epoch(self) -> int:
        return self.clock[self.chain]

    def comes_after(self, chain: int, epoch: int) -> bool:
        """Tell whether an act of another strand (thread, task, queue) is known to have happened before what comes now.

        chain, epoch: when it happened: the other strand's entry in vector clocks, and the value of that entry then.
        """
        return self.clock[chain] >= epoch


@attrs.define(eq=False)
class _Signal:
    """What a strand learns when it awaits something: the clock of those that have signalled it."""

    clock: Clock = attrs.field(factory=Clock)
    ended: EndedChains = attrs.field(factory=EndedChains)
    ends_strand: bool = False
    source: str = ""
    """The line that the strand had reached which signalled it last."""
    last: tuple[int, int] | None = None
    """The (chain, epoch) at whose end it was signalled; None if it was signalled more than once. A strand that knows
    this epoch need not join the clock.
    """

    def add(self, strand: Strand) -> None:
        """Add the clock of a strand that signals."""
        is_first = self.clock.is_empty and not strand.is_queue and not strand.is_half_known
        self.last = (strand.chain, strand.epoch) if is_first else None
        self.clock.join(strand.clock)
        self.source = strand.source


@attrs.define(eq=False)
class Strands:
    """Follows which strands (host threads, tasks, device queues) of a program run, and what orders them.

    An actor (a thread or a part of the machine, as the simulation runs it) may run several strands, one inside the
    other, such as a task inside a thread. sim: the simulation, which tells the running actor.
    """

    sim: Simulation
    awaited: set[Hashable] = attrs.field(factory=set)
    """The signals that some strand has awaited."""
    concurrent: bool = False
    """Whether two strands have existed at one time, or a task that had not begun yet."""
    _running: dict[Actor, list[Strand]] = attrs.field(factory=dict)
    _signals: dict[Hashable, _Signal] = attrs.field(factory=dict)
    _queues: dict[WorkQueue, Strand] = attrs.field(factory=dict)
    _strangers: dict[Actor, Strand] = attrs.field(factory=dict)
    """Strands of actors that a script has spawned itself, outside of any region."""
    _chains: int = 0

    def current(self) -> Strand:
        """Return the strand (host thread, task or queue) that runs now.

        If the running actor is in several, such as a task inside a thread, it is the innermost one.
        """
        actor = self.sim.running or self.sim.current
        running = self._running.get(actor)
        if running:
            return running[-1]
        return self._stranger(actor)

    def _stranger(self, actor: Actor) -> Strand:
        """Return the strand of an actor that the program's own constructs did not begin.

        How a script orders such actors is not known. So their strands come after all that has happened when they are
        first seen.
        """
        strand = self._strangers.get(actor)
        if strand is None:
            strand = self._new(actor.name, Clock())
            for other in self._live():
                strand.clock.join(other.clock)
                other.is_half_known = True
            for signal in self._signals.values():
                strand.clock.join(signal.clock)
            self._strangers[actor] = strand
        for other_actor, other in self._strangers.items():
            if other_actor.finished:
                strand.clock.join(other.clock)
        return strand

    def _live(self) -> list[Strand]:
        return [*[strand for running in self._running.values() for strand in running], *self._strangers.values()]

    def _new(
        self, name: str, clock: Clock, deferred: bool = False, offered: Iterable[EndedChains] = (), source: str = ""
    ) -> Strand:
        chain = next((chain for ended in offered if (chain := ended.known_to(clock)) is not None), None)
        if chain is None:
            chain = self._chains
            self._chains += 1
        clock.begin_epoch(chain)
        return Strand(name, chain, clock, deferred, source=source)

    # events

    def signalled(self, what: Hashable) -> None:
        """Record that the running strand (host thread or task) signals `what`: all that it has done so far.

        Whoever awaits `what` comes after that, but not after what the strand does from now on.
        """
        strand = self.current()
        signal = self._signals.setdefault(what, _Signal())
        signal.add(strand)
        signal.ended = strand.ended
        strand.clock.begin_epoch(strand.chain)

    def take_over(self, what: Hashable, queue: WorkQueue | None = None) -> None:
        """Record that the running strand (host thread or task) comes after all that was signalled under the key `what`.

        queue: if given, later work of this queue comes after that, instead of the running strand.
        """
        self.awaited.add(what)
        signal = self._signals.get(what)
        if signal is not None:
            strand = self.current() if queue is None else self._queues[queue]
            if signal.last is None or not strand.comes_after(*signal.last):
                strand.clock.join(signal.clock)
            if signal.ends_strand:
                strand.ended.take_over(signal.ended)

    def began(self, name: str, after: tuple[Hashable, ...], deferred: bool = False, source: str = "") -> None:
        """Begin a strand (host thread or task) in the running actor, inside the strand that the actor runs already.

        An actor is a thread or a part of the machine, as the simulation runs it. When the new strand ends, the actor
        continues its earlier one. after: the signals that the new strand awaits. deferred: it is a deferred task.
        source: its source line; by default the line that was reached by the strand that gave the first of these
        signals.
        """
        clock = Clock()
        offered: list[EndedChains] = []
        for what in after:
            self.awaited.add(what)
            signal = self._signals.get(what)
            if signal is not None:
                clock.join(signal.clock)
                offered.append(signal.ended)
                source = source or signal.source
        actor = self.sim.running or self.sim.current
        self.concurrent = self.concurrent or bool(self._running)
        self._running.setdefault(actor, []).append(self._new(name, clock, deferred, offered, source))

    def ended(self, what: Hashable) -> None:
        """End the strand (thread or task) that the running thread began last; signal `what` with all that it did."""
        actor = self.sim.running or self.sim.current
        strand = self._running[actor].pop()
        if not self._running[actor]:
            del self._running[actor]
        signal = self._signals.setdefault(what, _Signal())
        if not signal.ends_strand:
            signal.ends_strand, signal.ended = True, EndedChains()
        signal.add(strand)
        signal.ended.take_over(strand.ended)
        signal.ended.add(strand.chain, strand.epoch)

    # the queues of devices

    @property
    def has_queues(self) -> bool:
        return bool(self._queues)

    def entered(self, queue: WorkQueue) -> Strand:
        """Record that the running strand (host thread or task) adds work to a queue; return the queue's own strand.

        What the queue does from now on comes after all that the running strand has done.
        """
        strand = self._queues.get(queue)
        if strand is None:
            strand = self._queues[queue] = self._new(queue.name, Clock())
            strand.is_queue = True
        host = self.current()
        strand.clock.join(host.clock)
        host.clock.begin_epoch(host.chain)
        return strand

    def queue_awaited(self, queue: WorkQueue, by: Strand) -> None:
        """Record that the strand `by` (host thread, task or queue) waits for all work that is in a queue now."""
        strand = self._queues.get(queue)
        if strand is not None and strand is not by:
            by.clock.join(strand.clock)
            strand.clock.begin_epoch(strand.chain)

    def marked(self, queue: WorkQueue, what: Hashable) -> None:
        """Record that `what`, such as a CUDA event, completes after all work that is in a queue now.

        If `what` was recorded before, as a CUDA event may be, the earlier record no longer counts.
        """
        strand = self._queues[queue]
        self._signals[what] = _Signal(Clock(strand.clock))
        strand.clock.begin_epoch(strand.chain)

    def began_in(self, queue: WorkQueue, name: str, mark: Hashable) -> None:
        """Record that a thread or driver service begins a host function for a queue, as cudaLaunchHostFunc asks for.

        What it does counts as work of the queue. name: the function's name in reports. mark: what the program recorded
        in the queue (`Strands.marked`) just before the function.
        """
        strand = Strand(name, self._queues[queue].chain, Clock(self._signals[mark].clock), is_queue=True)
        self._running.setdefault(self.sim.running or self.sim.current, []).append(strand)

    def known_to_all(self) -> Clock:
        """Return what has happened before anything that a thread or task can do from now on, as a vector clock.

        The clocks of queues are left out, as work that enters a queue comes after what the thread or task has done that
        puts it there.
        """
        first, *others = [strand.clock for strand in self._live()] or [Clock()]
        known = Clock(first)
        for clock in others:
            known.meet(clock)
        return known
