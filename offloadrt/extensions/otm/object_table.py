"""OTM's object table of one device: what the compiler knows about each object, and what the runtime decided about it.

The compile-time part is the program's `HostProgram` (name, rank, GAF, accesses per iteration of each region); the
run-time part is an entry for each array. `decide` places the objects of a call in order of rank, as long as they fit,
and pins the others to the CPU (OTM, section 4.3). Only the size decides on the place, and only the density on the
mechanism. An object that is placed is *active*, and keeps its placement until it leaves (``otm.leave``). All this is
pure data, like the present table; `configuration.py` is what the runtime does with it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Annotated, Literal, cast

import attrs

from offloadrt.driver import Advice
from offloadrt.extensions.otm.ranking import HostProgram, ObjectFrequency
from offloadrt.machine import Device, MachineSpec
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.map_item import MapItem
from offloadrt.runtime.mapping.map_types import TO

Place = Literal["gpu", "cpu"]
Mechanism = Literal["explicit", "implicit", "pinned"]
"""How the device reaches an object.

``explicit``: a block of device memory and copies.  ``implicit``: managed memory, which migrates on demand.  ``pinned``:
managed memory that stays with the CPU and is reached over the link.
"""


@attrs.frozen
class ObjectPlacement:
    """The latest decision where an object lies and how the device reaches it; `name` is the program's variable.

    `mechanism` is how the device reaches it: `explicit` (copied), `implicit` (migrating) or `pinned` on the host.
    """

    name: str
    nbytes: int
    rank: int
    """Its rank by global access frequency; 1 is the object that is accessed most."""
    gaf: float
    """Global access frequency: over all regions, how often the region runs times the accesses in an iteration."""
    density: float
    """Accesses per element in the target call that decided, at most 1; 0 when no target call has used it."""
    place: Place
    """The processor in whose memory the object lies."""
    mechanism: Mechanism


@attrs.frozen
class PlacementRules:
    """The entries of the machine's profile by which OTM, which places objects one by one, decides how they are reached.

    An object is copied to the device or migrates there; the density of an object is the number of accesses per element.
    """

    threshold: Annotated[float, "otm.threshold"]
    """The density from which on an object is copied rather than migrated, in accesses per element."""
    strict: Annotated[bool, "otm.strict"]
    """Whether at least one byte must stay free when an object is placed."""
    evicts: Annotated[bool, "otm.evicts"]
    """Whether an object may replace implicit ones of worse rank, which are then pinned."""


@attrs.frozen
class Candidate:
    """An object (array) of a target region or data directive, for which the runtime must decide where it lies.

    key: identifies the object. rank: by how often it is accessed; 1 is the object that is accessed most.
    """

    key: Hashable
    nbytes: int
    """The bytes that it takes on the GPU."""
    rank: int
    density: float | None
    """How often a call of the region accesses each element on average, at most 1; None at a data directive."""
    can_copy: bool = True
    """Whether a map clause says what to copy. Only then may the object be `explicit`, that is, copied to the GPU."""


@attrs.frozen
class Placed:
    """Says how the device reaches an object (array) that is in use: copied, migrating or pinned on the host.

    nbytes: the object's size. rank: its rank by the frequency of accesses; 1 is the object that is accessed most.
    density: accesses per element; None where it is not known. mechanism: `explicit` (copied), `implicit` (migrating) or
    `pinned` on the host.
    """

    nbytes: int
    rank: int
    density: float | None
    mechanism: Mechanism

    @property
    def place(self) -> Place:
        return "cpu" if self.mechanism == "pinned" else "gpu"


@attrs.frozen
class ActiveBytes:
    """The bytes that objects (arrays) in use take on one GPU: copied (explicit) and migrating (implicit) ones apart.

    In use are the objects of running target regions and data directives. Those pinned on the host take none. `explicit`
    are the bytes of the copied, `implicit` those of the migrating ones.
    """

    explicit: int = 0
    implicit: int = 0

    @property
    def total(self) -> int:
        return self.explicit + self.implicit

    def plus(self, placed: Placed) -> ActiveBytes:
        """Return the bytes that the objects in use take if the object `placed` is added to them."""
        return self._changed(placed, placed.nbytes)

    def minus(self, placed: Placed) -> ActiveBytes:
        """Return the bytes that the objects in use take if the object `placed` is no longer one of them."""
        return self._changed(placed, -placed.nbytes)

    def _changed(self, placed: Placed, nbytes: int) -> ActiveBytes:
        if placed.mechanism == "explicit":
            return ActiveBytes(self.explicit + nbytes, self.implicit)
        return ActiveBytes(self.explicit, self.implicit + nbytes) if placed.mechanism == "implicit" else self


@attrs.frozen
class Decision:
    """The result of `decide`: which placements of objects (arrays) have changed, and the bytes that all take then.

    changed: placements that are new or have changed, in the order in which they were decided. counters: the bytes of
    all objects in use.
    """

    changed: dict[Hashable, Placed]
    counters: ActiveBytes


def decide(
    candidates: Sequence[Candidate],
    active: Mapping[Hashable, Placed],
    counters: ActiveBytes,
    budget: int,
    rules: PlacementRules,
) -> Decision:
    """Choose for each object of a call (a target region or data directive) where it lies and how the device reaches it.

    Objects are placed in order of rank; those of equal rank in the order in which they are given. active: the
    placements of objects that are in use, by key. counters: the bytes that these take. budget: bytes of device memory.
    An object that fits but has no density stays undecided; room is kept for it. candidates: the objects of the call.
    rules: the profile's thresholds.
    """
    changed: dict[Hashable, Placed] = {}
    undecided = 0
    for one in sorted(candidates, key=attrgetter("rank")):
        known = changed.get(one.key) or active.get(one.key)
        if known is not None:
            if known.density is None and one.density is not None:
                changed[one.key] = attrs.evolve(known, density=one.density)
            continue
        free = budget - counters.total - undecided
        if rules.evicts and not _fits(one.nbytes, free, rules.strict):
            for key, victim in _victims(one, {**active, **changed}, free, rules.strict):
                changed[key] = attrs.evolve(victim, mechanism="pinned")
                counters = counters.minus(victim)
            free = budget - counters.total - undecided
        mechanism: Mechanism = "pinned"
        if _fits(one.nbytes, free, rules.strict):
            if one.density is None:
                undecided += one.nbytes
                continue
            mechanism = "explicit" if one.density >= rules.threshold and one.can_copy else "implicit"
        changed[one.key] = placed = Placed(one.nbytes, one.rank, one.density, mechanism)
        counters = counters.plus(placed)
    return Decision(changed, counters)


def _fits(nbytes: int, free: int, strict: bool) -> bool:
    return nbytes < free if strict else nbytes <= free


def _victims(
    one: Candidate, active: Mapping[Hashable, Placed], free: int, strict: bool
) -> list[tuple[Hashable, Placed]]:
    """Return the implicit objects of worse rank that must go to make room for `one`, the worst rank first.

    Returns none if all of them together do not make enough room.
    """
    worse = [(key, other) for key, other in active.items() if other.mechanism == "implicit" and other.rank > one.rank]
    taken: list[tuple[Hashable, Placed]] = []
    for key, other in sorted(worse, key=lambda entry: -entry[1].rank):
        taken.append((key, other))
        free += other.nbytes
        if _fits(one.nbytes, free, strict):
            return taken
    return []


@attrs.frozen
class ObjectSpec:
    """The profile's entries on placing objects (OTM): the cost in seconds of a decision, and the `rules`."""

    rules: PlacementRules
    reserve: Annotated[int, "otm.reserve"]
    """Bytes of device memory that stay free of objects."""
    leave: Annotated[str, "otm.leave"]
    """When an object stops being active: ``region``, ``data`` or ``program``."""
    decision: Annotated[float, "otm.decision"]
    """Host time of the decision on one object, in seconds."""


@attrs.define(eq=False)
class ManagedObject:
    """An array of the program that its target regions use (an object), and its state on one device."""

    array: HostArray
    known: ObjectFrequency
    """What the compiler knows about it."""
    latest: Placed | None = None
    """The latest decision about it."""
    by_data: bool = False
    """Whether the latest decision was made at a data directive."""
    open: list[MapItem] = attrs.field(factory=list)
    """Deferred maps: maps of data directives that have not ended. They were not carried out, because the array had no
    device block then."""
    used_in_place: bool = False
    """Whether the device or an update has used the host's bytes since a map was deferred. These bytes must then be
    copied to the device, whatever the map says.
    """
    running: int = 0
    """How many target calls use it now."""
    prefers_host: bool = False
    """Whether the driver's advice to keep it on the host is in force."""

    @property
    def placement(self) -> ObjectPlacement | None:
        """Return where the object lies and how the device reaches it, as decided last; None without a decision."""
        placed, known = self.latest, self.known
        if placed is None:
            return None
        density = placed.density or 0.0
        return ObjectPlacement(
            known.name, self.array.nbytes, placed.rank, known.gaf, density, placed.place, placed.mechanism
        )


class ObjectTable:
    """The objects (arrays that target regions use) of one device, with where each lies and the bytes that they take.

    Raises ProfileError when the machine's profile lacks an entry that OTM needs.
    """

    def __init__(self, spec: MachineSpec, device: Device, program: HostProgram) -> None:
        self.spec = spec.read(ObjectSpec)
        self.budget = max(0, device.memory.capacity - self.spec.reserve)
        """Bytes for objects on the device. Like the counters, it counts whole segments, as the allocator gives them."""
        self.counters = ActiveBytes()
        self.peak = ActiveBytes()
        """The largest number of bytes of each mechanism at one time."""
        self._segment = device.memory.segment
        self.program = program
        self._known = {one.name: one for one in program.objects}
        self._objects: dict[HostArray, ManagedObject] = {}
        self._active: dict[Hashable, Placed] = {}
        """The placements in force, by array."""
        self._freed: list[ObjectPlacement] = []

    def find(self, array: HostArray) -> ManagedObject | None:
        """Return the object (state on this device) of an array; None if no target region uses one of that name."""
        found = self._objects.get(array)
        if found is None and (known := self._known.get(array.name)) is not None:
            found = self._objects[array] = ManagedObject(array, known)
        return found

    def extent(self, one: ManagedObject, items: Iterable[MapItem]) -> int:
        """Return how many bytes of device memory an object takes at most with these map items and its deferred maps.

        one: the object. The bytes of each section are rounded up to whole segments of device memory, as if no two
        sections shared a segment.
        """
        own = [(item.begin, item.size) for item in (*items, *one.open) if item.array is one.array]
        segments = 0
        for _, size in dict.fromkeys(own):
            segments += -(-size // self._segment)
        return max(segments, -(-one.array.nbytes // self._segment)) * self._segment

    def mechanism(self, array: HostArray | None) -> Mechanism | None:
        """Return how the device reaches an object: `explicit`, `implicit` or `pinned`; None for an array not in use."""
        placed = self._active.get(array)
        return None if placed is None else placed.mechanism

    def decide(self, candidates: Sequence[Candidate]) -> list[tuple[HostArray, Mechanism]]:
        """Decide where the objects (arrays) of a target region or data directive lie, and record the decisions.

        candidates: the objects; their keys are arrays of the table. Returns the objects whose mechanism (how the device
        reaches them) has changed.
        """
        decision = decide(candidates, self._active, self.counters, self.budget, self.spec.rules)
        self.counters = now = decision.counters
        self.peak = ActiveBytes(max(self.peak.explicit, now.explicit), max(self.peak.implicit, now.implicit))
        changes: list[tuple[HostArray, Mechanism]] = []
        for key, placed in decision.changed.items():
            one, before = self._objects[cast(HostArray, key)], self._active.get(key)
            self._active[key] = one.latest = placed
            if before is None or before.mechanism != placed.mechanism:
                one.by_data = placed.density is None
                changes.append((one.array, placed.mechanism))
        return changes

    def advice_due(self, array: HostArray) -> Advice | None:
        """Return the memory advice about an array in use that the driver has not got yet; None if none is needed."""
        one, mechanism = self._objects[array], self.mechanism(array)
        if mechanism is None or mechanism == "explicit" or one.prefers_host is (mechanism == "pinned"):
            return None
        return "prefer_host" if mechanism == "pinned" else "prefer_nothing"

    def advised(self, array: HostArray, advice: Advice) -> None:
        """Record that the driver was given this memory advice for an array."""
        self._objects[array].prefers_host = advice == "prefer_host"

    def placements(self) -> tuple[ObjectPlacement, ...]:
        """Return the latest decision about every object, in order of rank; those of one rank in order of first use."""
        found = [*self._freed, *(one.placement for one in self._objects.values())]
        return tuple(sorted((one for one in found if one is not None), key=lambda placement: placement.rank))

    # maps of data directives

    def put_off(self, item: MapItem) -> None:
        """Defer the map of an item of a data directive until its object, which has no device block, is copied."""
        if item.array is not None and item.size and (one := self.find(item.array)) is not None:
            one.used_in_place = one.used_in_place and bool(one.open)
            one.open.append(item)

    def drop(self, item: MapItem, all_of_them: bool) -> None:
        """Drop the latest deferred map (with `all_of_them` every one) that contains the section of this item."""
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
        """Record that the device or an update uses the host's bytes of an array while maps of it are deferred."""
        one = self._objects.get(array)
        if one is not None and one.open:
            one.used_in_place = True

    def has_open(self, array: HostArray) -> bool:
        """Tell whether an array is now to be copied (explicit) and has deferred maps, which must be carried out."""
        return self.mechanism(array) == "explicit" and bool(self._objects[array].open)

    def take_open(self, array: HostArray) -> tuple[MapItem | None, int]:
        """Remove the oldest deferred map of an array from the list, to carry it out.

        Returns its map item, and the map type with which it is carried out; (None, 0) if none is left.
        """
        if not self.has_open(array):
            return None, 0
        one = self._objects[array]
        item = one.open.pop(0)
        return item, item.type | TO if one.used_in_place else item.type

    def put_back(self, item: MapItem) -> None:
        """Put back the map of an item that was taken out of the list and could not be carried out."""
        if item.array is not None and (one := self._objects.get(item.array)) is not None:
            one.open.insert(0, item)

    # the end

    def ended(self, array: HostArray) -> None:
        """Record that a target region that uses an array has ended: count one less."""
        if (one := self._objects.get(array)) is not None:
            one.running -= 1

    def leave(self, array: HostArray, has_block: bool) -> bool:
        """Release an object if the end of a construct that used it makes it inactive; tell whether it was released.

        array: the object. has_block: whether any of it is in the present table. An explicit (copied) object stays
        active as long as it has a block. For others, the profile's entry ``leave`` decides. ``region``: they leave at
        the end of the target region, or of the data directive that has pinned them. ``data``: at the end of the last
        construct that maps them. ``program``: never.
        """
        one = self._objects.get(array)
        if one is None or array not in self._active or one.running or has_block or self.spec.leave == "program":
            return False
        if one.open and (one.by_data or self.spec.leave == "data"):
            return False
        self._release(array)
        return True

    def remove(self, array: HostArray) -> None:
        """Drop an array that the program frees. Its latest decision is kept for the results."""
        one = self._objects.pop(array, None)
        if one is not None:
            self._release(array)
            if (placement := one.placement) is not None:
                self._freed.append(placement)

    def _release(self, array: HostArray) -> None:
        if (placed := self._active.pop(array, None)) is not None:
            self.counters = self.counters.minus(placed)
