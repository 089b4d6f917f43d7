"""How many bytes a launch moves where memory gives whole sectors: what accesses leave out of a sector moves with it.

Affine accesses move the sectors that they touch, each once: with a step of s bytes min(s, sector) for each element,
unless other accesses or loops come to what lies between. Where data decide (a branch of which nothing is known, an
index from another array), a run of neighbouring elements begins anywhere in a sector, and fills its last one only in
part. A cache holds what lies `near`, or an array that fits into it, so that of those no more moves than the array.
Where an index is irregular, but not read from an array, the elements alone move: nothing is known of its steps.
Conditions on an index are taken to leave runs of elements.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import attrs

from offloadrt.kernels.accesses.access import ArrayAccess
from offloadrt.kernels.accesses.frequency import Loop, loops_of
from offloadrt.kernels.accesses.traffic import Frequency, elements, same_elements
from offloadrt.kernels.costs.streams import moved_elements, nearness_of, runs_without
from offloadrt.kernels.counting import Counting
from offloadrt.kernels.ranges import footprint
from offloadrt.kernels.ranges.touched import Shape, steps_of

_WINDOW = 1 << 12
"""Runs of elements from which the density of a pattern is told."""


@attrs.frozen(eq=False)
class Moved:
    """Elements of one array that move in one order and one direction."""

    nbytes: float
    """Bytes of the elements alone."""
    element_size: int
    array: float
    """Bytes of the array; without an end where they are not known."""
    pieces: float = 0.0
    """Runs of elements that begin anywhere."""
    ordered: bool = True
    """Whether pieces lie near one another in time."""
    spread: Callable[[int], float] = lambda sector: 1.0
    """Bytes that move for each byte of elements."""

    def bytes(self, sector: int, cache: float) -> float:
        """Return the bytes that move in sectors of so many bytes, with a cache of so many."""
        if not self.pieces:
            return self.nbytes * self.spread(sector)
        pieces = self.nbytes + self.pieces * max(0, sector - self.element_size)
        if self.ordered:
            return min(pieces, max(self.array, self.nbytes))
        return min(pieces, self.array) if self.array <= cache else pieces


@attrs.frozen(eq=False)
class Moves:
    """What a launch moves."""

    _find: Callable[[], Sequence[Moved]]
    _known: dict[tuple[int, float], float] = attrs.field(factory=dict, init=False, repr=False)

    @functools.cached_property
    def _moved(self) -> Sequence[Moved]:
        return [moved for moved in self._find() if moved.nbytes]

    def per_byte(self, sector: int, cache: float) -> float:
        """Return the bytes that move for each byte of elements, with sectors and a cache of so many bytes."""
        known = self._known.get((sector, cache))
        if known is None:
            moved = math.fsum(part.bytes(sector, cache) for part in self._moved)
            known = moved / math.fsum(part.nbytes for part in self._moved) if self._moved else 1.0
            self._known[sector, cache] = known
        return known


def moved_of(
    counting: Counting, accesses: Sequence[ArrayAccess], shape: Shape, array: float, element_size: int
) -> list[Moved]:
    """Find what the accesses to one array of so many bytes move."""
    happening = [access for access in accesses if counting.runs(access.path)]
    runs = functools.partial(runs_without, counting)
    beginning = functools.partial(_pieces, counting)
    moves: list[Moved] = []
    steady: list[ArrayAccess] = []
    for group in same_elements(access for access in happening if access.pattern in ("constant", "affine")):
        if not any(counting.decides(access.path) for access in group):
            moves += _moved(group, runs, beginning, 1.0, element_size, array)
        else:
            steady += group
    for kind, nbytes in zip(("read", "write"), moved_elements(counting, steady), strict=True):
        of_kind = [access for access in steady if access.kind == kind]
        spread = functools.cache(functools.partial(_spread, counting, of_kind, shape, element_size))
        moves.append(Moved(nbytes * element_size, element_size, array, spread=spread))
    by_data = {access: nearness_of(counting, access) for access in happening if access.pattern == "indirect"}
    for part in sorted(set(by_data.values())):
        some = [access for access, near in by_data.items() if near == part]
        moves += _moved(some, runs, beginning, part, element_size, array)
        moves += _moved(some, runs, beginning, 1.0 - part, element_size, array, ordered=False)
    irregular = sum(elements([access for access in happening if access.pattern == "irregular"], runs))
    return [*moves, Moved(irregular * element_size, element_size, array)]


def _moved(
    accesses: Sequence[ArrayAccess],
    runs: Frequency,
    beginning: Frequency,
    part: float,
    element_size: int,
    array: float,
    ordered: bool = True,
) -> list[Moved]:
    """Find a part of what some accesses move at places that data choose, for either direction."""
    return [
        Moved(moved * part * element_size, element_size, array, pieces * part, ordered)
        for moved, pieces in zip(elements(accesses, runs), elements(accesses, beginning), strict=True)
    ]


def _pieces(counting: Counting, access: ArrayAccess, shared: Callable[[Loop], bool]) -> float:
    """Return how often an access runs, but for loops of the thread that step through neighbouring elements."""
    often = runs_without(counting, access, shared)
    last = access.index[-1]
    if last is None:
        return often
    for loop in loops_of(access.path):
        if loop.distributed or shared(loop):
            continue
        if abs((last.coefficient(loop.symbol).constant or 0) * loop.step) == 1:
            often /= max(1.0, counting.mean_trips(access.path, loop))
    return often


def _spread(counting: Counting, accesses: Sequence[ArrayAccess], shape: Shape, element_size: int, sector: int) -> float:
    """Return the bytes of the sectors that affine accesses touch over the bytes of their elements.

    Only a window of each access is looked at. What lies before the first element and after the last one does not count.
    The result is 1 where loops are no rectangle.
    """
    patterns: dict[tuple[int, tuple[tuple[int, int], ...]], None] = {}
    for access in accesses:
        steps = steps_of(counting, access, shape)
        if steps is None:
            return 1.0
        patterns[steps[0], tuple(steps[1])] = None
    if not patterns:
        return 1.0
    runs = [footprint.first_runs(footprint.lowest(*steps), steps[1], _WINDOW) for steps in patterns]
    first, after = footprint.ends(runs)
    low, high = int(first.min()), int(after.max())
    sectors = footprint.covered(first * element_size // sector, -(-after * element_size // sector)) * sector
    outside = low * element_size % sector + -high * element_size % sector
    return (sectors - outside) / (footprint.covered(first, after) * element_size)
