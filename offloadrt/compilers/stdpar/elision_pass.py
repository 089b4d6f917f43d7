"""The compile-time pass of synchronization elision on a host function's source: where its barriers go, and why.

Behind each call of an algorithm the pass follows all paths, past what `elision.stops` lets pass, to the next algorithm
or to what ends the window; barriers go before the latter. They wait only where something is outstanding, so a run waits
exactly where `elision.Window` says that it does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from offloadrt.compilers.host.flow_graph import Node
from offloadrt.compilers.stdpar.elision import Decision, Elided, Endless, Kept, Marker, Operation, Reason, stops, table
from offloadrt.compilers.stdpar.host_flow import flow_of
from offloadrt.compilers.stdpar.translation_unit import TranslationUnit
from offloadrt.kernels.source.function_source import Source


@attrs.frozen
class CallSite:
    """A call of an algorithm: what comes next on the paths behind it. A function that is inlined at several places has
    its calls as often.
    """

    algorithm: Operation
    stops: tuple[Kept, ...] = ()
    followed_by: tuple[Operation, ...] = ()
    """Other algorithms."""

    @property
    def decision(self) -> Decision:
        """The first reason why the call keeps a barrier of its own; `Elided` where no path needs one, `Endless` where
        none comes to anything.
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
        """The same for a source that has been read."""
        flow = flow_of(source, unit)
        reachable = {id(node) for node in flow.entry.reachable()}
        calls = tuple(
            _call_site(node, node.operation, elision, system_usm)
            for node in flow.places
            if id(node) in reachable
            and node.operation is not None
            and node.operation.marker in (Marker.ALGORITHM, Marker.RETURNING)
        )
        stopping = {kept.at for call in calls for kept in call.stops if kept.at != call.algorithm}
        barriers = dict.fromkeys(node.operation for node in flow.places if node.operation in stopping)
        plain = {node.operation for node in flow.places if node.plain}
        return cls(
            source.tree.name,
            calls,
            tuple(one for one in barriers if one is not None),
            tuple(one for one in barriers if one is not None and one in plain),
            tuple(dict.fromkeys(flow.unresolved)),
        )

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """One for each call, in the order of the source."""
        return tuple(call.decision for call in self.calls)

    @property
    def elided(self) -> int:
        """Calls without a barrier of their own."""
        return sum(isinstance(decision, Elided) for decision in self.decisions)

    def __str__(self) -> str:
        """The table, with every reason of every call."""
        rows: list[Decision] = []
        for call in self.calls:
            rows += [*call.stops, *(Elided(call.algorithm, by) for by in call.followed_by)] or [call.decision]
        lines = [f"{self.function}: {self.elided} of {len(self.calls)} barriers elided", table(rows)]
        if self.unseen:
            lines.append("a run does not see: " + ", ".join(map(str, self.unseen)))
        if self.unresolved:
            lines.append("called by another name: " + ", ".join(map(str, self.unresolved)))
        return "\n".join(lines)


def _call_site(node: Node, algorithm: Operation, elision: bool, system_usm: bool) -> CallSite:
    if algorithm.marker is Marker.RETURNING:
        return CallSite(algorithm, (Kept(algorithm, Reason.VALUE, algorithm),))
    if not elision:
        return CallSite(algorithm, (Kept(algorithm, Reason.OFF, algorithm),))
    kept: dict[Operation, Kept] = {}
    followed: dict[Operation, None] = {}
    seen: set[int] = set()
    waiting = list(reversed(node.next))
    while waiting:
        place = waiting.pop()
        if id(place) in seen:
            continue
        seen.add(id(place))
        met = place.operation
        reason = None if met is None else stops(met.marker, system_usm)
        if met is not None and reason is not None:
            kept[met] = Kept(algorithm, reason, met)
        elif met is not None and met.marker in (Marker.ALGORITHM, Marker.RETURNING):
            followed[met] = None
        else:
            waiting.extend(reversed(place.next))
    return CallSite(algorithm, tuple(kept.values()), tuple(followed))
