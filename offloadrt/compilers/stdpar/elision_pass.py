"""The compile-time pass of synchronization elision on a host function's source: where its barriers go, and why.

Behind each call of an algorithm the pass follows all paths, past what `elision.stops` lets pass, to the next algorithm
or to what ends the window; barriers go before the latter. They wait only where something is outstanding, so a run waits
exactly where `elision.Window` says that it does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from offloadrt.compilers.host.flow_graph import Node, nodes_of
from offloadrt.compilers.stdpar.barrier_walk import BarrierWalk
from offloadrt.compilers.stdpar.elision import Decision, Elided, Endless, Kept, Marker, Operation, Reason, stops, table
from offloadrt.compilers.stdpar.translation_unit import TranslationUnit
from offloadrt.kernels.source import Source

_OFFLOADED = (Marker.ALGORITHM, Marker.RETURNING)


@attrs.frozen
class CallSite:
    """A call of an algorithm, and what comes next on the paths behind it.

    A function that is inlined at several places has its calls as often.
    """

    algorithm: Operation
    stops: tuple[Kept, ...] = ()
    followed_by: tuple[Operation, ...] = ()
    """Other algorithms."""

    @property
    def decision(self) -> Decision:
        """Return the first reason why the call keeps a barrier of its own.

        `Elided` where no path needs one, `Endless` where none comes to anything.
        """
        if self.stops:
            return self.stops[0]
        return Elided(self.algorithm, self.followed_by[0]) if self.followed_by else Endless(self.algorithm)


@attrs.frozen
class ElisionPass:
    """What became of the barriers of one host function."""

    function: str
    calls: tuple[CallSite, ...]
    barriers: tuple[Operation, ...]
    """What stands behind a barrier, each once, in the order of the source."""
    unseen: tuple[Operation, ...]
    """Those of `barriers` that are plain Python. A run does not see these and does not wait there: the program has to
    say ``t.external`` or ``t.host_access``.
    """
    unresolved: tuple[Operation, ...] = ()
    """Algorithms that are called by another name, as ``f = t.fill`` or in a function that is kept; not in `calls`."""

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        unit: TranslationUnit | None = None,
        *,
        inline: Sequence[Callable[..., Any]] = (),
        elision: bool = True,
        system_usm: bool = False,
    ) -> ElisionPass:
        """Read a host function.

        unit: what the compiler sees, the function's own file by default. inline: functions of other files that are
        inlined too, where `unit` is not given. KernelError when a source cannot be read.
        """
        return cls.of_source(
            Source.of(function, "host function"), unit or TranslationUnit.of(function, inline), elision, system_usm
        )

    @classmethod
    def of_source(
        cls, source: Source, unit: TranslationUnit, elision: bool = True, system_usm: bool = False
    ) -> ElisionPass:
        """Read a host function whose source is at hand."""
        walk = BarrierWalk(source, unit)
        reachable = _reachable(walk.entry)
        operations = [(node, met) for node in nodes_of(walk.pieces) if (met := node.operation) is not None]
        calls = tuple(
            _call_site(node, met, elision, system_usm)
            for node, met in operations
            if met.marker in _OFFLOADED and node in reachable
        )
        stopping = {kept.at for call in calls for kept in call.stops if kept.at != call.algorithm}
        barriers = tuple(dict.fromkeys(met for _, met in operations if met in stopping))
        return cls(
            source.tree.name,
            calls,
            barriers,
            tuple(barrier for barrier in barriers if barrier in walk.unseen),
            tuple(walk.unresolved),
        )

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """Return one for each call, in the order of the source."""
        return tuple(call.decision for call in self.calls)

    @property
    def elided(self) -> int:
        """Count the calls without a barrier of their own."""
        return sum(isinstance(decision, Elided) for decision in self.decisions)

    def __str__(self) -> str:
        """Print the table, with every reason of every call."""
        rows: list[Decision] = []
        for call in self.calls:
            rows += [*call.stops, *(Elided(call.algorithm, by) for by in call.followed_by)] or [call.decision]
        lines = [f"{self.function}: {self.elided} of {len(self.calls)} barriers elided", table(rows)]
        if self.unseen:
            lines.append("a run does not see: " + ", ".join(map(str, self.unseen)))
        if self.unresolved:
            lines.append("called by another name: " + ", ".join(map(str, self.unresolved)))
        return "\n".join(lines)


def _reachable(entry: Node[Operation]) -> set[Node[Operation]]:
    """Collect what control comes to, unless by an exception, which the compiler takes for the end of the program."""
    seen: set[Node[Operation]] = set()
    waiting = [entry]
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting.extend([] if node.raises else node.next)
    return seen


def _call_site(node: Node[Operation], algorithm: Operation, elision: bool, system_usm: bool) -> CallSite:
    """Follow all paths behind the call of an algorithm, to what each first meets."""
    if algorithm.marker is Marker.RETURNING:
        return CallSite(algorithm, (Kept(algorithm, Reason.VALUE, algorithm),))
    if not elision:
        return CallSite(algorithm, (Kept(algorithm, Reason.OFF, algorithm),))
    kept: dict[Operation, Kept] = {}
    followed: dict[Operation, None] = {}
    seen: set[Node[Operation]] = set()
    waiting = list(reversed(node.next))
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        met = node.operation
        reason = None if met is None else stops(met.marker, system_usm)
        if met is not None and reason is not None:
            kept[met] = Kept(algorithm, reason, met)
        elif met is not None and met.marker in _OFFLOADED:
            followed[met] = None
        else:
            waiting.extend(reversed(node.next))
    return CallSite(algorithm, tuple(kept.values()), tuple(followed))
