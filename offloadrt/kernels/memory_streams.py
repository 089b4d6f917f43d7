"""The orders in which a launch accesses the elements of an array, and the elements that it moves in each.

Accesses with an affine index, and accesses that `expect` calls near, follow the iterations. An array is *swept* when
one of these accesses happens in every iteration, or when index ranges alone decide in which iterations all of them do;
else its elements are visited *in order*, some here and some there. A cache holds neighbours, so that an element moves
once, however often it is accessed. All other accesses are *random*.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

import attrs

from offloadrt.kernels.accesses import (
    ArrayAccess,
    Branch,
    Frequency,
    Loop,
    Path,
    elements,
    jointly,
    loads_own_store,
    loops_of,
    same_elements,
)
from offloadrt.kernels.algebra import Polynomial
from offloadrt.kernels.counting import CountedLaunch, extent
from offloadrt.kernels.ranges import (
    ElementRuns,
    Reach,
    Shape,
    covered,
    ends,
    even_places,
    first_runs,
    lowest,
    reached_ranges,
    shape_of,
    steps_of,
    touched,
)

Order = Literal["swept", "in order", "random"]


@attrs.frozen
class AccessStream:
    """The elements of one array that a launch accesses in one `order`: "swept", "in order" or "random".

    "swept": the iterations go through the array in order, and data do not decide which elements they access. "in
    order": they do so, but data, as in a condition, decide which elements are left out. A run: neighbouring elements.
    """

    order: Order
    level: int
    """Number of loads of other arrays, each dependent on the one before, that must precede the first access."""
    read: float
    """Number of elements loaded from memory."""
    written: float
    """Number of elements stored to memory."""
    places: float
    """The number of accessed runs; a run that is accessed again counts again."""
    among: float
    """Number of runs if no condition excluded any; infinite when not known, or for the order "swept"."""
    _reach: Callable[[], Reach] = attrs.field(repr=False, eq=False)

    @property
    def reach(self) -> Reach:
        """Return what the accesses touch: ranges of elements, and the runs of neighbours that are loaded and stored."""
        return self._reach()


def runs_without(launch: CountedLaunch, access: ArrayAccess, shared: Callable[[Loop], bool]) -> float:
    """Return how often a launch makes an access if some loops count as one iteration each.

    shared: tells of a loop whether it counts as one iteration.
    """
    once = {loop.symbol for loop in loops_of(access.path) if shared(loop)}
    path = tuple(part for part in access.path if not (isinstance(part, Branch) and part.symbols & once))
    path = _without_slants(launch, path, once)
    often = launch.runs(path)
    for loop in loops_of(path):
        if shared(loop):
            often /= max(1.0, launch.mean_trips(path, loop))
    return min(often, launch.runs(access.path))


def _without_slants(launch: CountedLaunch, path: Path, once: set[str]) -> Path:
    """Return a path whose loops do not depend on those of `once`: each runs over all of its ranges together."""
    outer = [loop for loop in loops_of(path) if loop.symbol in once]
    made: list[Loop | Branch] = []
    for part in path:
        if isinstance(part, Loop) and part.start and part.stop and part.symbol not in once and part.step == 1:
            slanted = (part.start.symbols | part.stop.symbols) & once
            reached = extent(Polynomial.symbol(part.symbol), (*outer, part), launch.numbers) if slanted else None
            if reached is not None:
                part = attrs.evolve(part, start=reached[0], stop=reached[1] + Polynomial.number(1))
        made.append(part)
    return tuple(made)


def moved_elements(launch: CountedLaunch, accesses: Sequence[ArrayAccess]) -> tuple[float, float]:
    """Return how many elements of one array a launch's affine accesses load from memory, and how many they store.

    An element counts once, even if several loops access it, as in ``a[i + k]``.
    """
    read, written = elements(accesses, functools.partial(runs_without, launch))
    if any(_come_back(launch, access) for access in accesses):
        different = [
            touched(launch, of_kind, shape_of(launch, of_kind[0]), None)[0] if of_kind else 0.0
            for of_kind in ([access for access in accesses if access.kind == kind] for kind in ("read", "write"))
        ]
        read, written = min(read, different[0]), min(written, different[1])
    return read, written


def _come_back(launch: CountedLaunch, access: ArrayAccess) -> bool:
    """Tell whether different iterations of the loops in an index access the same element."""
    rectangle = steps_of(launch, access, shape_of(launch, access))
    if rectangle is None:  # no rectangle
        return access.pattern == "affine"
    reached = 0
    for step, count in sorted((abs(step), count) for step, count in rectangle[1] if step and count > 1):
        if step <= reached:
            return True
        reached += step * (count - 1)
    return False


def streams_of(launch: CountedLaunch, accesses: Sequence[ArrayAccess], size: int | None) -> tuple[AccessStream, ...]:
    """Group a launch's accesses to one array of `size` elements by the order in which they go through the array.

    Accesses that never happen are left out.
    """
    moves = functools.partial(runs_without, launch)
    happening = [access for access in accesses if launch.runs(access.path)]
    affine = [access for access in happening if access.pattern in ("constant", "affine")]
    by_data = [access for access in happening if access.pattern in ("irregular", "indirect")]
    nearness = {access: nearness_of(launch, access) for access in by_data}
    made = []
    along = affine + [access for access in by_data if nearness[access]]
    if along:
        read, written = moved_elements(launch, affine)
        for part in sorted(set(nearness.values()) - {0.0}):
            near_read, near_written = elements([access for access in by_data if nearness[access] == part], moves)
            read, written = max(read, near_read * part), max(written, near_written * part)
        if size is not None and len(along) > len(affine):
            read, written = min(read, size), min(written, size)
        places = jointly((access, _places(launch, access) * nearness.get(access, 1.0)) for access in along)
        # Data that say `near` in every iteration cover the array only if there is an access for each element.
        enough = size is None or max(read, written) >= size
        covering = [access for access in along if (nearness.get(access, 0.0) == 1.0 and enough) or access in affine]
        swept = all(_certain(launch, access) for access in along) or _in_every_iteration(launch, covering)
        level = min(access.level for access in along)
        reach = functools.cache(functools.partial(_reach_along, launch, along, nearness, size))
        among = math.inf if swept else _among(launch, along, nearness)
        made.append(AccessStream("swept" if swept else "in order", level, read, written, places, among, reach))
    read = written = places = 0.0
    away = [access for access in by_data if nearness[access] < 1.0]
    for part in sorted({nearness[access] for access in away}):
        far_read, far_written = elements([access for access in away if nearness[access] == part], moves)
        read, written = read + far_read * (1.0 - part), written + far_written * (1.0 - part)
    if away:
        reach = functools.cache(functools.partial(_reach_away, launch, away, read, written))
        level = min(access.level for access in away)
        made.append(AccessStream("random", level, read, written, read + written, math.inf, reach))
    return tuple(made)


def _reach_along(
    launch: CountedLaunch, accesses: Sequence[ArrayAccess], nearness: Mapping[ArrayAccess, float], size: int | None
) -> Reach:
    """Find where accesses lie that follow the iterations; `nearness` has those whose index is data."""
    limit = math.inf if size is None else size
    moving = [
        access
        for number, access in enumerate(accesses)
        if not any(loads_own_store(earlier, access) for earlier in accesses[:number])
    ]
    loads, stores = (
        _places_along(launch, [access for access in moving if access.kind == kind], nearness, limit)
        for kind in ("read", "write")
    )
    return Reach(reached_ranges(launch, accesses, lambda access: nearness.get(access, 0.0)), loads, stores)


def _places_along(
    launch: CountedLaunch, accesses: Sequence[ArrayAccess], nearness: Mapping[ArrayAccess, float], limit: float
) -> tuple[ElementRuns, ...]:
    """Find the runs of loads or stores: evenly spaced runs of accesses in every iteration, and other runs."""
    moves = functools.partial(runs_without, launch)
    unconditional = [access for access in accesses if nearness.get(access, 1.0) == 1.0]
    dense = [access for access in unconditional if _in_every_iteration(launch, [access]) or _certain(launch, access)]
    if _in_every_iteration(launch, unconditional) and not _in_every_iteration(launch, dense):
        dense = unconditional  # the sides of a branch together
    others: dict[float, list[ArrayAccess]] = {}
    for access in accesses:
        if access not in dense:
            others.setdefault(nearness.get(access, 1.0), []).append(access)
    by_data = any(access in nearness for access in dense)
    runs = None if by_data else even_places(launch, dense, moves)
    if runs is None:  # taken as one run, in which the accesses leave no element out
        runs = (ElementRuns(1.0, min(max(elements(dense, moves)), limit), True),)
    count = jointly((access, _places(launch, access) * near) for near, some in others.items() for access in some)
    if count:
        moved = max([max(elements(some, moves)) * near for near, some in others.items()])
        among = _among(launch, [access for some in others.values() for access in some], nearness)
        runs = (*runs, ElementRuns(count, min(moved, limit) / count, among=among))
    return runs


def _reach_away(launch: CountedLaunch, accesses: Sequence[ArrayAccess], read: float, written: float) -> Reach:
    """Find where random accesses lie; each access is a run of its own."""
    loads, stores = ((ElementRuns(count, 1.0),) if count else () for count in (read, written))
    return Reach(reached_ranges(launch, accesses, lambda access: 0.0), loads, stores)


def nearness_of(launch: CountedLaunch, access: ArrayAccess) -> float:
    """Return the fraction (0 to 1) of an access's executions in a launch whose element lies near their iteration.

    The kernel's source gives it, as in ``a[expect(neighbours[i], near=0.9)]``; without such a hint it is 0.
    """
    hint = access.near
    return 0.0 if hint is None else launch.hinted(hint, "the part of accesses that lies near")


def _places(launch: CountedLaunch, access: ArrayAccess) -> float:
    """Return how often an access runs, not counting loops that step through contiguous elements."""
    often = launch.runs(access.path)
    *others, index = access.index
    for part in reversed(access.path):
        if index is None or isinstance(part, Branch) or part.distributed:
            break
        if any(other is None or part.symbol in other.symbols for other in others):
            continue
        if abs(index.coefficient(part.symbol).constant or 0) * abs(part.step) == 1:
            often /= max(1.0, launch.mean_trips(access.path, part))
    return often


def _among(launch: CountedLaunch, accesses: Sequence[ArrayAccess], nearness: Mapping[ArrayAccess, float]) -> float:
    """Count the runs that accesses would have without the conditions around them; infinite if one has a nearness."""
    if any(access in nearness for access in accesses):
        return math.inf
    return max(
        [_places(launch, access) * launch.runs(loops_of(access.path)) / launch.runs(access.path) for access in accesses]
    )


def _certain(launch: CountedLaunch, access: ArrayAccess) -> bool:
    """Tell whether array contents decide neither where an affine access lies nor whether it happens."""
    return access.pattern in ("constant", "affine") and launch.exact(access.path)


def _in_every_iteration(launch: CountedLaunch, accesses: Sequence[ArrayAccess]) -> bool:
    """Tell whether accesses to the same elements together happen in every iteration of loops of known length."""
    nests: dict[tuple[Path, int], list[ArrayAccess]] = {}
    for number, alike in enumerate(same_elements(accesses)):
        for access in alike:
            loops = loops_of(access.path)
            if all(map(launch.counted, loops)):
                nests.setdefault((loops, number), []).append(access)
    return any(
        any(not access.guarded for access in nest)
        or math.isclose(jointly((access, launch.runs(access.path)) for access in nest), launch.runs(loops))
        for (loops, _), nest in nests.items()
    )


_WINDOW = 1 << 12
"""Number of element runs from which the density of a pattern is computed."""


@attrs.frozen(eq=False)
class Moved:
    """The elements of one array that a launch loads, or those that it stores, in one order of access."""

    nbytes: float
    """Bytes of the elements alone, without the rest of their sectors."""
    element_size: int
    array: float
    """Bytes of the array; infinite when not known."""
    pieces: float = 0.0
    """Number of runs of elements that may begin anywhere in a sector; 0 if `spread` gives the bytes."""
    ordered: bool = True
    """Whether neighbouring runs are accessed at nearly the same time."""
    spread: Callable[[int], float] = lambda sector: 1.0
    """Returns the bytes moved per byte of elements, for a sector size in bytes; used where `pieces` is 0."""
    name: str = ""
    """The array's name if its indices are not affine: `Moves.at` then sets `known`, if the index arrays have values."""
    known: tuple[float, float] | None = None
    """Bytes moved per byte of elements, from the cache to the SMs and from memory; None without known index arrays."""

    def bytes(self, sector: int, cache: float) -> float:
        """Return the bytes that move to or from memory. sector: bytes of a memory sector; cache: bytes of the cache."""
        if self.known is not None:
            return self.nbytes * self.known[cache > 0.0]
        if not self.pieces:
            return self.nbytes * self.spread(sector)
        pieces = self.nbytes + self.pieces * max(0, sector - self.element_size)
        if self.ordered:
            return min(pieces, max(self.array, self.nbytes))
        return min(pieces, self.array) if self.array <= cache else pieces


@attrs.frozen(eq=False)
class Moves:
    """Gives the bytes that a launch moves from and to memory, over all arrays, for each byte of accessed elements."""

    _find: Callable[[], Sequence[Moved]]
    _known: dict[tuple[int, float], float] = attrs.field(factory=dict, init=False, repr=False)

    @functools.cached_property
    def _moved(self) -> Sequence[Moved]:
        return [moved for moved in self._find() if moved.nbytes]

    def at(self, places: Mapping[str, tuple[float, float]]) -> Moves:
        """Return a copy with exact numbers for the arrays in `places`, in place of estimates.

        places: by array, the bytes that move per byte of its elements: from the cache to the SMs, and from memory.
        """
        return Moves(lambda: [attrs.evolve(part, known=places.get(part.name)) for part in self._moved])

    def per_byte(self, sector: int, cache: float) -> float:
        """Return the bytes moved per byte of elements, for memory sectors of `sector` and a cache of `cache` bytes."""
        known = self._known.get((sector, cache))
        if known is None:
            moved = math.fsum(part.bytes(sector, cache) for part in self._moved)
            known = moved / math.fsum(part.nbytes for part in self._moved) if self._moved else 1.0
            self._known[sector, cache] = known
        return known


def moved_of(
    launch: CountedLaunch, accesses: Sequence[ArrayAccess], shape: Shape, array: float, element_size: int, name: str
) -> list[Moved]:
    """Return what `accesses` to the array `name` load from memory and store in a launch.

    shape, array: the array's shape and its bytes. element_size: the bytes of an element.
    """
    happening = [access for access in accesses if launch.runs(access.path)]
    runs = functools.partial(runs_without, launch)
    beginning = functools.partial(_pieces, launch)
    moves: list[Moved] = []
    steady: list[ArrayAccess] = []
    for group in same_elements(access for access in happening if access.pattern in ("constant", "affine")):
        if not any(launch.decides(access.path) for access in group):
            moves += _moved(group, runs, beginning, 1.0, element_size, array)
        else:
            steady += group
    for kind, nbytes in zip(("read", "write"), moved_elements(launch, steady), strict=True):
        of_kind = [access for access in steady if access.kind == kind]
        spread = functools.cache(functools.partial(_spread, launch, of_kind, shape, element_size))
        moves.append(Moved(nbytes * element_size, element_size, array, spread=spread))
    by_data = {access: nearness_of(launch, access) for access in happening if access.pattern == "indirect"}
    for part in sorted(set(by_data.values())):
        some = [access for access, near in by_data.items() if near == part]
        moves += _moved(some, runs, beginning, part, element_size, array, name=name)
        moves += _moved(some, runs, beginning, 1.0 - part, element_size, array, ordered=False, name=name)
    irregular = sum(elements([access for access in happening if access.pattern == "irregular"], runs))
    return [*moves, Moved(irregular * element_size, element_size, array, name=name)]


def _moved(
    accesses: Sequence[ArrayAccess],
    runs: Frequency,
    beginning: Frequency,
    part: float,
    element_size: int,
    array: float,
    ordered: bool = True,
    name: str = "",
) -> list[Moved]:
    """Find what the fraction `part` of the accesses loads, and stores, at positions that data or conditions choose."""
    return [
        Moved(moved * part * element_size, element_size, array, pieces * part, ordered, name=name)
        for moved, pieces in zip(elements(accesses, runs), elements(accesses, beginning), strict=True)
    ]


def _pieces(launch: CountedLaunch, access: ArrayAccess, shared: Callable[[Loop], bool]) -> float:
    """Return how often an access runs, not counting a thread's loops that step through contiguous elements."""
    often = runs_without(launch, access, shared)
    last = access.index[-1]
    if last is None:
        return often
    for loop in loops_of(access.path):
        if loop.distributed or shared(loop):
            continue
        if abs((last.coefficient(loop.symbol).constant or 0) * loop.step) == 1:
            often /= max(1.0, launch.mean_trips(access.path, loop))
    return often


def _spread(
    launch: CountedLaunch, accesses: Sequence[ArrayAccess], shape: Shape, element_size: int, sector: int
) -> float:
    """Return the bytes of the sectors that affine accesses touch over the bytes of their elements.

    Only a window of each access is examined, in loops that depend on one another of the rectangle around them. Bytes
    before the first element and after the last one do not count.
    """
    patterns: dict[tuple[int, tuple[tuple[int, int], ...]], None] = {}
    for access in accesses:
        steps = steps_of(launch, access, shape, around=True)
        if steps is None:
            return 1.0
        patterns[steps[0], tuple(steps[1])] = None
    if not patterns:
        return 1.0
    runs = [first_runs(lowest(*steps), steps[1], _WINDOW) for steps in patterns]
    first, after = ends(runs)
    low, high = int(first.min()), int(after.max())
    sectors = covered(first * element_size // sector, -(-after * element_size // sector)) * sector
    outside = low * element_size % sector + -high * element_size % sector
    return (sectors - outside) / (covered(first, after) * element_size)


ELEMENT = 8.0
"""Bytes of a double."""
UNROLLED = 16
"""Largest number of iterations of a loop that is unrolled completely (GCC, max-completely-peel-times)."""
SECTOR = 32
"""Smallest unit of a memory access in bytes: a sector of a cache line (CUDA Programming Guide, device memory)."""


@attrs.frozen
class Waits:
    """Counts a kernel's `loads` from memory, and how often a thread `waits` until some of them have come."""

    loads: float
    waits: float

    @property
    def loads_in_flight(self) -> float:
        """Return how many loads of a thread are in flight at once; infinite for a thread that only stores."""
        return self.loads / self.waits if self.waits else math.inf

    def bytes_per_load(self, nbytes: float) -> float:
        """Return the mean bytes of a load if all loads move `nbytes` in total; an element's bytes if there is none."""
        return nbytes / self.loads if self.loads and nbytes else ELEMENT


def waits(accesses: Iterable[ArrayAccess], sizes: Mapping[str, int], frequency: Frequency) -> Waits:
    """Count the loads of a kernel's accesses, and how often a thread must wait until some of them have come.

    sizes: bytes of each array's elements. frequency: how often an access runs (`Frequency`).
    """
    by_array: dict[str, list[ArrayAccess]] = {}
    for access in accesses:
        by_array.setdefault(access.array, []).append(access)
    total = 0.0
    together: dict[object, list[tuple[ArrayAccess, float]]] = {}
    for array, of_array in by_array.items():
        for group in same_elements(of_array):
            brought = [
                access
                for number, access in enumerate(group)
                if access.kind == "read" and not any(loads_own_store(earlier, access) for earlier in group[:number])
            ]
            own = [access for access in brought if _differs_by_thread(access)]
            if not own:
                continue
            # A thread, or one thread after another, accesses different elements along the loops that are left out.
            runs = [
                frequency(access, lambda loop, near=access: not (loop.distributed or loop.symbol in near.loops))  # type: ignore[misc]
                for access in own
            ]
            inner = [loop for loop in loops_of(own[0].path) if not loop.distributed and loop.symbol in own[0].loops]
            at_once = max(1, SECTOR // sizes[array]) if _along_a_row(own[0], inner) else 1
            total += jointly(zip(own, runs, strict=True)) / at_once
            rolled = [loop for loop in inner if not _unrolled(loop)]
            unrolled = math.prod(loop.literal_trips or 1 for loop in inner if _unrolled(loop))
            brings = unrolled * (at_once if inner[-1:] == rolled[-1:] else 1)
            block = (tuple(map(id, rolled)), own[0].level)
            for access, often in zip(own, runs, strict=True):
                together.setdefault(block, []).append((access, often / brings))
    return Waits(total, math.fsum(map(jointly, together.values())))


def _differs_by_thread(access: ArrayAccess) -> bool:
    return any(loop.distributed and loop.symbol in access.loops for loop in loops_of(access.path))


def _unrolled(loop: Loop) -> bool:
    return loop.literal_trips is not None and loop.literal_trips <= UNROLLED


def _along_a_row(access: ArrayAccess, inner: Sequence[Loop]) -> bool:
    """Tell whether the innermost loop steps through contiguous elements, while the next thread begins elsewhere."""
    index = access.index[-1]
    if not inner or index is None:
        return False
    outer = [loop for loop in loops_of(access.path) if loop.distributed]
    next_thread = abs(index.coefficient(outer[-1].symbol).constant or 0)
    return abs(index.coefficient(inner[-1].symbol).constant or 0) * abs(inner[-1].step) == 1 and next_thread != 1
