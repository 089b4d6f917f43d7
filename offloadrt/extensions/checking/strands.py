"""Happens-before among host threads and tasks, by vector clocks.

A *strand* is a host thread, a task or a queue of a device: what it does is done in order. A vector clock says of each
strand up to which of its epochs all is known to have happened. A strand that signals something adds its clock to it
and begins an epoch; one that awaits it takes that clock over. The clocks have one entry for a chain of strands of
which each began after the last had ended, so that a program of many tasks has short clocks.
"""

from __future__ import annotations

from collections.abc import Hashable

import attrs

from offloadrt.runtime.events import WorkQueue
from offloadrt.sim import Actor, Simulation

Clock = dict[int, int]
"""By chain: the last epoch that is known to have happened."""


@attrs.define(eq=False)
class Strand:
    """A host thread or a task, in the epoch that it is in."""

    name: str
    chain: int
    clock: Clock
    deferred: bool = False
    is_queue: bool = False
    """Whether it is the work in a queue of a device."""
    source: str = ""
    """The line of the program that it has said to be at; "": its Python source says."""
    ended: list[tuple[int, int]] = attrs.field(factory=list)
    """Chains of strands that have ended and that this one comes after, with their last epochs."""

    @property
    def epoch(self) -> int:
        return self.clock[self.chain]

    def comes_after(self, chain: int, epoch: int) -> bool:
        """Tell whether what a strand of that chain did in that epoch has happened before."""
        return self.clock.get(chain, 0) >= epoch


@attrs.define(eq=False)
class _Signal:
    """What is known to whoever awaits a thing."""

    clock: Clock = attrs.field(factory=dict)
    ended: list[tuple[int, int]] = attrs.field(factory=list)
    ends_strand: bool = False


@attrs.define(eq=False)
class Strands:
    """The strands of a program, by the actors that run them."""

    sim: Simulation
    awaited: set[Hashable] = attrs.field(factory=set)
    """What somebody has awaited."""
    concurrent: bool = False
    """Whether there have been two strands at one time, or a task that was still to begin."""
    _running: dict[Actor, list[Strand]] = attrs.field(factory=dict)
    _signals: dict[Hashable, _Signal] = attrs.field(factory=dict)
    _queues: dict[WorkQueue, Strand] = attrs.field(factory=dict)
    _strangers: dict[Actor, Strand] = attrs.field(factory=dict)
    """Strands of actors that a script has spawned itself."""
    _chains: int = 0

    def current(self) -> Strand:
        """Return the strand that runs now."""
        actor = self.sim.running or self.sim.current
        running = self._running.get(actor)
        if running:
            return running[-1]
        return self._stranger(actor)

    def _stranger(self, actor: Actor) -> Strand:
        """Return the strand of an actor that no region of the program began.

        How a script orders such actors is not known. So they come after all that has happened when they are first seen.
        """
        strand = self._strangers.get(actor)
        if strand is None:
            strand = self._new(actor.name, {})
            for other in self._live():
                _join(strand.clock, other.clock)
            for signal in self._signals.values():
                _join(strand.clock, signal.clock)
            self._strangers[actor] = strand
        for other_actor, other in self._strangers.items():
            if other_actor.finished:
                _join(strand.clock, other.clock)
        return strand

    def _live(self) -> list[Strand]:
        return [*[strand for running in self._running.values() for strand in running], *self._strangers.values()]

    def _new(
        self,
        name: str,
        clock: Clock,
        deferred: bool = False,
        offered: list[tuple[int, int]] | None = None,
        source: str = "",
    ) -> Strand:
        chain = None
        for number, (ended, epoch) in enumerate(offered or ()):
            if clock.get(ended, 0) >= epoch:
                chain = ended
                del (offered or [])[number]
                break
        if chain is None:
            self._chains += 1
            chain = self._chains
        clock[chain] = clock.get(chain, 0) + 1
        return Strand(name, chain, clock, deferred, source=source)

    # events

    def signalled(self, what: Hashable) -> None:
        """Let what the running strand has done be known to whoever awaits `what`."""
        strand = self.current()
        signal = self._signals.setdefault(what, _Signal())
        _join(signal.clock, strand.clock)
        signal.ended = strand.ended
        strand.clock[strand.chain] += 1

    def take_over(self, what: Hashable, queue: WorkQueue | None = None) -> None:
        """Let the running strand, or the work of a queue, come after all that has signalled `what`."""
        self.awaited.add(what)
        signal = self._signals.get(what)
        if signal is not None:
            strand = self.current() if queue is None else self._queues[queue]
            _join(strand.clock, signal.clock)
            if signal.ends_strand and signal.ended is not strand.ended:
                strand.ended += signal.ended
                signal.ended = []

    def began(self, name: str, after: tuple[Hashable, ...], deferred: bool = False, source: str = "") -> None:
        """Begin a strand in the running actor; at its end the actor goes on with the strand that it was in before."""
        clock: Clock = {}
        offered: list[tuple[int, int]] | None = None
        for what in after:
            self.awaited.add(what)
            signal = self._signals.get(what)
            if signal is not None:
                _join(clock, signal.clock)
                offered = offered or signal.ended
        actor = self.sim.running or self.sim.current
        self.concurrent = self.concurrent or bool(self._running)
        self._running.setdefault(actor, []).append(self._new(name, clock, deferred, offered, source))

    def ended(self, what: Hashable) -> None:
        """End the strand that the running actor began last."""
        actor = self.sim.running or self.sim.current
        strand = self._running[actor].pop()
        if not self._running[actor]:
            del self._running[actor]
        signal = self._signals.setdefault(what, _Signal())
        signal.ends_strand = True
        _join(signal.clock, strand.clock)
        signal.ended = [*signal.ended, (strand.chain, strand.epoch), *strand.ended]

    # the queues of devices

    @property
    def has_queues(self) -> bool:
        return bool(self._queues)

    def entered(self, queue: WorkQueue) -> Strand:
        """Return the strand of a queue into which the running strand puts something, behind all that it has done."""
        strand = self._queues.get(queue)
        if strand is None:
            strand = self._queues[queue] = self._new(queue.name, {})
            strand.is_queue = True
        host = self.current()
        _join(strand.clock, host.clock)
        host.clock[host.chain] += 1
        return strand

    def queue_awaited(self, queue: WorkQueue, by: Strand) -> None:
        """Let a strand come after all that is in a queue."""
        strand = self._queues.get(queue)
        if strand is not None and strand is not by:
            _join(by.clock, strand.clock)
            strand.clock[strand.chain] += 1

    def marked(self, queue: WorkQueue, what: Hashable) -> None:
        """Let what is in a queue be known to whoever awaits `what`, and nothing that signalled it before."""
        strand = self._queues[queue]
        self._signals[what] = _Signal(dict(strand.clock))
        strand.clock[strand.chain] += 1

    def began_in(self, queue: WorkQueue, name: str, mark: Hashable) -> None:
        """Begin a function of the host in the running actor: a part of a queue's work, where that was marked."""
        strand = Strand(name, self._queues[queue].chain, dict(self._signals[mark].clock), is_queue=True)
        self._running.setdefault(self.sim.running or self.sim.current, []).append(strand)

    def known_to_all(self) -> Clock:
        """Return what has happened before whatever any strand does from now on.

        What comes into a queue comes after what the strand has done that puts it there.
        """
        clocks = [strand.clock for strand in self._live()]
        if not clocks:
            return {}
        first, *others = clocks
        return {chain: min([epoch, *[clock.get(chain, 0) for clock in others]]) for chain, epoch in first.items()}


def _join(clock: Clock, other: Clock) -> None:
    for chain, epoch in other.items():
        if epoch > clock.get(chain, 0):
            clock[chain] = epoch
