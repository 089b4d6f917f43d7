"""The operations of each directive, compared with those that the real runtime did when the program was recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from offloadrt.recording.format.recording import OmptOperation, Recording, Site
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.map_item import MapItem
from offloadrt.sim import Simulation

Operations = Counter[tuple[int, int]]
"""How often each (kind, bytes) occurs."""

_KINDS: Final = {
    "alloc": OmptOperation.ALLOC,
    "h2d": OmptOperation.H2D,
    "attach": OmptOperation.H2D,
    "d2h": OmptOperation.D2H,
    "delete": OmptOperation.DELETE,
    "associate": OmptOperation.ASSOCIATE,
    "disassociate": OmptOperation.DISASSOCIATE,
}
_WITHOUT_BYTES: Final = (OmptOperation.DELETE, OmptOperation.DISASSOCIATE)


@attrs.frozen
class OperationDifference:
    """Operations of a site that only the emulator, or only the real runtime, did; of how many of its directives."""

    where: str
    call: str
    directives: int
    emulated: tuple[str, ...]
    recorded: tuple[str, ...]

    def __str__(self) -> str:
        sides = [
            f"only {side}: {', '.join(operations)}"
            for side, operations in (("emulated", self.emulated), ("recorded", self.recorded))
            if operations
        ]
        return f"{self.where} ({self.call}, {self.directives} directives): {'; '.join(sides)}"


@attrs.frozen
class Outcome:
    """What came of a replay."""

    directives: int
    compared: int
    """Directives whose operations were recorded; 0 under another configuration than copy."""
    equal: int
    moved: int
    """Directives that differ though the operations of all of them together are the same: which of several threads
    maps a shared array first, and so copies it, depends on the order in which they come.
    """
    differences: tuple[OperationDifference, ...]

    @property
    def agrees(self) -> bool:
        return not self.differences


class OperationLog:
    """The tool of a device: notes what is done in the directive that an actor runs."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._of_actor: dict[object, Operations] = {}

    def begin(self) -> Operations:
        """Begin a directive in the current actor; its operations come into what is returned."""
        operations = self._of_actor[self._sim.current] = Counter()
        return operations

    def target_map(self, device: int, call: str, items: Sequence[MapItem]) -> None:
        """Note nothing; items are not compared."""

    def target_data_op(
        self, device: int, op: str, array: HostArray | None, host_address: int, device_address: int, nbytes: int
    ) -> None:
        kind = _KINDS[op]
        self._note(kind, 0 if kind in _WITHOUT_BYTES else nbytes)

    def target_submit(self, device: int, kernel: str) -> None:
        self._note(OmptOperation.SUBMIT, 0)

    def _note(self, kind: OmptOperation, nbytes: int) -> None:
        if (operations := self._of_actor.get(self._sim.current)) is not None:
            operations[int(kind), nbytes] += 1


@attrs.define(eq=False)
class Oracle:
    """Compares directive by directive; `outcome` sums up by site."""

    recording: Recording
    directives: int = 0
    compared: int = 0
    _differing: list[tuple[int, Operations, Operations]] = attrs.field(factory=list)
    """Site, operations emulated, operations recorded."""
    _lists: dict[int, Operations] = attrs.field(factory=dict)

    def compare(self, site: int, number: int, emulated: Operations) -> None:
        """Compare a directive's operations with list `number`; nothing was recorded of it where that is -1."""
        if number < 0:
            return
        recorded = self._lists.get(number)
        if recorded is None:
            columns = self.recording.columns
            places = self.recording.range_of("operations", number)
            rows = slice(places.start, places.stop)
            kinds, sizes = columns["operation.kind"][rows].tolist(), columns["operation.bytes"][rows].tolist()
            recorded = self._lists[number] = Counter(zip(kinds, sizes, strict=True))
        self.compared += 1
        if emulated != recorded:
            self._differing.append((site, emulated, recorded))

    def outcome(self) -> Outcome:
        """Sum up, with the differences by site."""
        mine: Operations = Counter()
        theirs: Operations = Counter()
        for _, emulated, recorded in self._differing:
            mine += emulated
            theirs += recorded
        different = mine != theirs
        equal = self.compared - len(self._differing)
        moved = 0 if different else len(self._differing)
        return Outcome(self.directives, self.compared, equal, moved, tuple(self._differences()) if different else ())

    def _differences(self) -> Iterator[OperationDifference]:
        by_site: dict[int, list[tuple[Operations, Operations]]] = {}
        for number, emulated, recorded in self._differing:
            by_site.setdefault(number, []).append((emulated, recorded))
        for number, pairs in sorted(by_site.items()):
            site: Site = self.recording.dictionaries.sites[number]
            more: Operations = Counter()
            less: Operations = Counter()
            for emulated, recorded in pairs:
                more += emulated - recorded
                less += recorded - emulated
            yield OperationDifference(site.where, site.call, len(pairs), _words(more), _words(less))


def _words(operations: Operations) -> tuple[str, ...]:
    names = {int(kind): kind.name.lower() for kind in OmptOperation}
    return tuple(
        f"{count} x {names.get(kind, f'operation {kind}')}" + (f" of {nbytes} B" if nbytes else "")
        for (kind, nbytes), count in sorted(operations.items())
    )
