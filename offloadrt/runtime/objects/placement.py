"""OTM's decision: which objects of a call lie on the GPU, and how they get there. Pure: nothing here waits.

Objects are taken in order of rank, as many as fit; what does not fit is pinned to the CPU (OTM, section 4.3). Size is
all that counts for the place, density for the mechanism. An object that is active keeps its placement.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Annotated

import attrs

from offloadrt.machine import Mechanism, Place


@attrs.frozen
class PlacementRules:
    """What the profile says of the decision."""

    threshold: Annotated[float, "otm.threshold"]
    """Density from which on an object is copied."""
    strict: Annotated[bool, "otm.strict"]
    """Whether a byte must be left when an object is placed."""
    evicts: Annotated[bool, "otm.evicts"]
    """Whether an object takes the place of implicit ones of worse rank, which are then pinned."""


@attrs.frozen
class Candidate:
    """An object of a call."""

    key: Hashable
    nbytes: int
    """Bytes that it takes on the GPU."""
    rank: int
    density: float | None
    """Accesses an element in this call, at most 1; None at a data directive, where no loop says so."""
    can_copy: bool = True
    """Whether a map clause says what to copy."""


@attrs.frozen
class Placed:
    """An entry of the table of active objects."""

    nbytes: int
    rank: int
    density: float | None
    mechanism: Mechanism

    @property
    def place(self) -> Place:
        return "cpu" if self.mechanism == "pinned" else "gpu"


@attrs.frozen
class ActiveBytes:
    """Bytes of the active objects on one GPU, by mechanism; those that are pinned take none."""

    explicit: int = 0
    implicit: int = 0

    @property
    def total(self) -> int:
        return self.explicit + self.implicit

    def plus(self, placed: Placed) -> ActiveBytes:
        """Return the bytes with one more object."""
        return self._changed(placed, placed.nbytes)

    def minus(self, placed: Placed) -> ActiveBytes:
        """Return the bytes without this object."""
        return self._changed(placed, -placed.nbytes)

    def _changed(self, placed: Placed, nbytes: int) -> ActiveBytes:
        if placed.mechanism == "explicit":
            return ActiveBytes(self.explicit + nbytes, self.implicit)
        return ActiveBytes(self.explicit, self.implicit + nbytes) if placed.mechanism == "implicit" else self


@attrs.frozen
class Decision:
    """changed: entries that are new or other than before, in the order in which they were decided."""

    changed: dict[Hashable, Placed]
    counters: ActiveBytes


def decide(
    candidates: Sequence[Candidate],
    active: Mapping[Hashable, Placed],
    counters: ActiveBytes,
    budget: int,
    rules: PlacementRules,
) -> Decision:
    """Place the objects of a call; those of equal rank in the order in which they are given.

    A candidate without a density that fits is left undecided; the others of its call have to fit beside it.
    """
    changed: dict[Hashable, Placed] = {}
    undecided = 0
    for one in sorted(candidates, key=_rank):
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


def _rank(one: Candidate) -> int:
    return one.rank


def _victims(
    one: Candidate, active: Mapping[Hashable, Placed], free: int, strict: bool
) -> list[tuple[Hashable, Placed]]:
    """Implicit objects of worse rank, the worst first, as many as make room; none when all together do not."""
    worse = [(key, other) for key, other in active.items() if other.mechanism == "implicit" and other.rank > one.rank]
    taken: list[tuple[Hashable, Placed]] = []
    for key, other in sorted(worse, key=lambda entry: -entry[1].rank):
        taken.append((key, other))
        free += other.nbytes
        if _fits(one.nbytes, free, strict):
            return taken
    return []
