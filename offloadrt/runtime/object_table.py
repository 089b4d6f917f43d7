"""OTM's object table of one device: what the compiler says of each object, and what the runtime decided on it.

The compile-time part is the program's `kernels.HostProgram` (name, rank, GAF, accesses an iteration of each region),
the run-time part an entry for each array. An array is placed by `placement.decide` and is *active* until it leaves
(``otm.leave``). Pure data, as the present table; `placing.py` is what the runtime does with it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Annotated, cast

import attrs

from offloadrt.driver import Advice
from offloadrt.machine import Device, MachineSpec, Mechanism, ObjectPlacement
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.map_item import MapItem
from offloadrt.runtime.map_type import TO
from offloadrt.runtime.placement import Candidate, Counters, Placed, PlacementRules, decide

if TYPE_CHECKING:
    from offloadrt.kernels import HostProgram, ObjectFrequency


@attrs.frozen
class ObjectSpec:
    """How objects are placed, from the profile."""

    rules: PlacementRules
    reserve: Annotated[int, "otm.reserve"]
    """Bytes of device memory that no object is placed in."""
    leave: Annotated[str, "otm.leave"]
    """When an object is active no more: ``region``, ``data`` or ``program``."""
    decision: Annotated[float, "otm.decision"]
    """Host time of the decision on one object."""


@attrs.define(eq=False)
class ManagedObject:
    """An array of the program that its target regions use."""

    array: HostArray
    known: ObjectFrequency
    """What the compiler says of it."""
    placed: Placed | None = None
    """The decision, while it is active."""
    latest: Placed | None = None
    """The decision that was taken last."""
    open: list[MapItem] = attrs.field(factory=list)
    """Maps of data directives that have not ended, and have not been carried out: the array had no device block."""
    used_in_place: bool = False
    """Has the device, or an update, used the original since such a map was put off? Then it is what has to be copied,
    whatever the map says.
    """
    running: int = 0
    """Target calls that use it now."""
    prefers_host: bool = False
    """Is the advice to keep it on the host in force?"""


class ObjectTable:
    """Objects and counters of one device. Raises ProfileError when the profile lacks an entry."""

    def __init__(self, spec: MachineSpec, device: Device, program: HostProgram) -> None:
        self.spec = spec.read(ObjectSpec)
        self.budget = max(0, device.memory.capacity - self.spec.reserve)
        self.counters = Counters()
        self.peak = Counters()
        """The most bytes of each mechanism at one time."""
        self.program = program
        self._device = device
        self._known = {one.name: one for one in program.objects}
        self._objects: dict[HostArray, ManagedObject] = {}

    def find(self, array: HostArray) -> ManagedObject | None:
        """The entry of an array, made when it is first asked for; None when no target region of the program uses an
        object of that name.
        """
        found = self._objects.get(array)
        if found is None and (known := self._known.get(array.name)) is not None:
            found = self._objects[array] = ManagedObject(array, known)
        return found

    def mechanism(self, array: HostArray | None) -> Mechanism | None:
        """How an active object is reached; None for all else."""
        found = None if array is None else self._objects.get(array)
        return None if found is None or found.placed is None else found.placed.mechanism

    def decide(self, candidates: Sequence[Candidate]) -> list[tuple[HostArray, Advice]]:
        """Place the objects of a call (keys are arrays of the table); returns the advice that the driver needs now."""
        active: dict[Hashable, Placed] = {
            array: one.placed for array, one in self._objects.items() if one.placed is not None
        }
        decision = decide(candidates, active, self.counters, self.budget, self.spec.rules)
        self.counters = decision.counters
        self.peak = Counters(
            max(self.peak.explicit, self.counters.explicit), max(self.peak.implicit, self.counters.implicit)
        )
        advices: list[tuple[HostArray, Advice]] = []
        for key, placed in decision.changed.items():
            one = self._objects[cast(HostArray, key)]
            one.placed = one.latest = placed
            if placed.mechanism == "pinned" and not one.prefers_host:
                advices.append((one.array, "prefer_host"))
            elif placed.mechanism == "implicit" and one.prefers_host:
                advices.append((one.array, "prefer_nothing"))
            one.prefers_host = placed.mechanism == "pinned" or (placed.mechanism == "explicit" and one.prefers_host)
        if decision.changed:
            self._device.placements = self.placements()
        return advices

    def placements(self) -> tuple[ObjectPlacement, ...]:
        """The latest decision on every object, in order of rank, those of one rank in order of first use."""
        found = []
        for one in self._objects.values():
            if (placed := one.latest) is not None:
                name, gaf, density = one.array.name, one.known.gaf, placed.density or 0.0
                found.append(
                    ObjectPlacement(name, placed.nbytes, placed.rank, gaf, density, placed.place, placed.mechanism)
                )
        return tuple(sorted(found, key=lambda placement: placement.rank))

    # maps of data directives

    def put_off(self, item: MapItem) -> None:
        """A data directive has mapped an object that has no device block."""
        if item.array is not None and item.size and (one := self.find(item.array)) is not None:
            one.used_in_place = one.used_in_place and bool(one.open)
            one.open.append(item)

    def drop(self, item: MapItem, all_of_them: bool) -> None:
        """Such a map ends: the latest one that holds the section of this item, or (delete) every one of them."""
        one = None if item.array is None else self._objects.get(item.array)
        if one is None:
            return
        begin, end = item.begin, item.begin + item.size
        for position in reversed(range(len(one.open))):
            known = one.open[position]
            if known.begin <= begin and end <= known.begin + known.size:
                del one.open[position]
                if not all_of_them:
                    return

    def use_in_place(self, array: HostArray) -> None:
        """The original is used, or updated, as what the device has of an object."""
        one = self._objects.get(array)
        if one is not None and one.open:
            one.used_in_place = True

    def has_open(self, array: HostArray) -> bool:
        """Is there a map that has to be carried out, as the object is explicit now?"""
        return self.mechanism(array) == "explicit" and bool(self._objects[array].open)

    def take_open(self, array: HostArray) -> tuple[MapItem | None, int]:
        """Such a map, which is then nobody else's, and its map type; None when there is none left."""
        if not self.has_open(array):
            return None, 0
        one = self._objects[array]
        item = one.open.pop(0)
        return item, item.type | TO if one.used_in_place else item.type

    # the end

    def leave(self, array: HostArray, has_block: bool) -> bool:
        """Is an object active no more, now that a construct that used it has ended? has_block: is any of it in the
        present table?

        An explicit object stays as long as it has a block. Otherwise it leaves at the end of the target region
        (``region``), at the end of the last construct that maps it (``data``), or not at all (``program``).
        """
        one = self._objects.get(array)
        if one is None or one.placed is None or one.running or has_block or self.spec.leave == "program":
            return False
        if one.open and self.spec.leave == "data":
            return False
        self._release(one)
        return True

    def remove(self, array: HostArray) -> None:
        """The program frees an array."""
        if (one := self._objects.get(array)) is not None:
            self._release(one)
            one.open.clear()
            one.prefers_host = False

    def _release(self, one: ManagedObject) -> None:
        if one.placed is not None:
            self.counters = self.counters.minus(one.placed)
            one.placed = None
