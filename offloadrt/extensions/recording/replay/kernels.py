"""Makes kernel launches from a recording's counts; the compute units run them as any other launch.

Arithmetic operations are counted one by one; a division or a function is one operation, as in kernels that are read
from source. Half precision counts as single. Memory moves the 32 B sectors that the traced launch touched, each once;
sectors that several teams touched come from the cache as far as the array fits into it. The touched pages are the
recorded ones. A launch without a trace moves all bytes that it loads and stores, in the sections that its items map.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal

import attrs

from offloadrt.extensions.checking.recorded import HostUse, split_atomic
from offloadrt.extensions.recording.format.launches import PAGE
from offloadrt.extensions.recording.format.recording import GONE, NONE, Recording, Site
from offloadrt.extensions.recording.format.slots import ATOMIC_RANGE, COPIED_RANGE, COUNTERS, LOADS, STORES
from offloadrt.kernels import ArrayUse, Kernel, Launch
from offloadrt.kernels.costs import ArrayCounts, LaunchCounts
from offloadrt.kernels.memory_streams import AccessStream, Moved, Moves, Waits
from offloadrt.kernels.ranges import ElementRuns, Reach
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.map_item import BlockUse, MapItem
from offloadrt.runtime.mapping.map_types import LITERAL, TARGET_PARAM
from offloadrt.runtime.mapping.present_table import DevicePointer
from offloadrt.runtime.plugins.plugin import GridDefaults

SECTOR: Final = 32
_KINDS: Final = {LOADS: "read", STORES: "write", ATOMIC_RANGE: "atomic", COPIED_RANGE: "copied"}
_MOST_RANGES: Final = 512
"""The largest number of ranges of an array that are kept apart; beyond it, the nearest neighbours are joined."""
_DOUBLE: Final = ("f64", "div64", "special64")
_SINGLE: Final = ("f32", "div32", "special32", "f16", "div16")
Range = tuple[int, int]
"""The first byte and the byte after the last; in `_Used.touched` the first and the last byte."""


@attrs.frozen
class _Used:
    """What a launch did with an array or with a block of omp_target_alloc; offsets in bytes from its beginning."""

    place: Literal["array", "block", "unknown"]
    """unknown: device memory that does not exist in this run. Its accesses cost time all the same."""
    array: HostArray | None
    address: int
    nbytes: int
    item: int
    ranges: tuple[Range, ...]
    touched: dict[str, tuple[Range, ...]]
    """By kind ("read", "write", "atomic"; "copied": read in copies of whole objects only): ranges of which every byte
    was accessed so. Empty if only pages are known.
    """
    sectors: tuple[int, int, int, int]
    loads: bool
    """Whether it loads anything that it has not stored itself before."""
    load_bytes: int
    store_bytes: int


@attrs.frozen
class RecordedLaunch:
    """A launch of a recorded kernel, and the memory that the kernel uses besides its arguments.

    reaches: host memory that the kernel accesses through pointers. blocks: bytes of omp_target_alloc's blocks, and of
    such host memory, that it accesses. launch: what the compute units run.
    """

    launch: Launch
    reaches: tuple[DevicePointer, ...] = ()
    blocks: tuple[BlockUse, ...] = ()


@attrs.define(eq=False)
class RecordedKernels:
    """Makes the launches of a replay from those in the recording, with their counted work and traced accesses.

    declared: by name, kernels whose costs were not recorded.
    """

    recording: Recording
    most_threads: int
    """The largest number of threads in a team on this machine; a launch gets no more, as in the runtime."""
    grid: GridDefaults
    """The teams and threads of a region that leaves them open."""
    block_at: Callable[[int, bool], DevicePointer | None]
    """Called with (recorded address, had it been freed when recorded); returns the block of omp_target_alloc there, or
    None.
    """
    declared: dict[str, Kernel] = attrs.field(factory=dict)
    _of_algorithms: dict[tuple[object, ...], Launch] = attrs.field(factory=dict)
    """By everything that decides a launch of an algorithm; for its arrays that is position in a page and size."""
    _uses_of: dict[int, list[tuple[int, int]]] = attrs.field(factory=dict)
    """By number of the trace: (item, array) of each use."""
    _some_copied: bool = attrs.field(init=False)
    """Whether any launch reads bytes only in copies of whole objects."""

    def __attrs_post_init__(self) -> None:
        self._some_copied = bool((self.recording.columns["range.kind"] == COPIED_RANGE).any())

    def launch(
        self, site: Site, number: int, items: Sequence[MapItem], arrays: Sequence[HostArray | None]
    ) -> RecordedLaunch:
        """Return the launch of a directive's kernel, and the memory that it uses besides its arguments.

        site: the directive's source line. number: the launch's number in the recording. arrays: by number, the
        recording's arrays as they are now. items: the directive's map items.
        """
        columns = self.recording.columns
        name = self.recording.dictionaries.kernels[site.kernel]
        declared = self.declared.get(name, Kernel(name))
        iterations, teams, threads = self._sizes(site, number, declared.threads_per_team)
        if not int(columns["launch.teams"][number]):
            return RecordedLaunch(declared.launch(teams, threads, iterations))
        uses = self._uses(number, items, arrays)
        places = [place for place, item in enumerate(items) if item.type & TARGET_PARAM]
        arguments = {place: n for n, place in enumerate(places) if not items[place].type & LITERAL}
        of_arrays = [used for used in uses if used.place == "array"]
        own = [(used, arguments[used.item]) for used in of_arrays if used.item in arguments]
        launch = self._counted(name, number, uses, own, (iterations, teams, threads))
        reached = [pointer for used in of_arrays if used.item not in arguments for pointer in _pointers(used)]
        blocks = _block_uses(
            [used for used in uses if used.place == "block" or (used.place == "array" and used.item not in arguments)]
        )
        return RecordedLaunch(launch, tuple(reached), tuple(blocks))

    def copied(self, number: int, arrays: Sequence[HostArray | None]) -> Iterator[tuple[bool, Range]]:
        """Yield (is in host memory, (begin, end)) of bytes that a launch reads only because it copies whole objects.

        Some of these may be padding, which nobody ever writes. number: the launch's number in the recording. arrays: by
        number, the recording's arrays as they are now.
        """
        for used in self._uses(number, (), arrays) if self._some_copied else ():
            for first, last in used.touched.get("copied", ()) if used.place != "unknown" else ():
                yield used.place == "array", (used.address + first, used.address + last + 1)

    def algorithm_launch(
        self, site: Site, number: int, items: int, arrays: Sequence[HostArray | None], elements: int
    ) -> tuple[Launch, tuple[HostArray, ...]]:
        """Return the launch of an algorithm's kernel, and the arrays that it uses in the order of its arguments.

        It has one iteration per element, as compilers offload algorithms, whatever loop was recorded. items: the list
        of the words that the kernel gets; a word that is a pointer has an array. site: the source line. number: the
        launch's number in the recording. arrays: by number, the recording's arrays as they are now. elements: how many
        the algorithm processes.
        """
        places = self.recording.range_of("items", items)
        given = self.recording.columns["item.array"][places.start : places.stop].tolist()
        columns = self.recording.columns
        played, trace, traced = (int(columns[f"launch.{name}"][number]) for name in ("teams", "trace", "traced"))
        used = [self._array_of(use, arrays, given) for use in self._of_trace(trace)] if played else []
        key = site.kernel, number if trace == NONE else trace, traced, played > 0, elements, *map(_where, used)
        if key not in self._of_algorithms:
            self._of_algorithms[key] = self._algorithm_launch(site, number, given, arrays, elements)
        return self._of_algorithms[key], tuple(array for array in used if array is not None)

    def _algorithm_launch(
        self, site: Site, number: int, given: Sequence[int], arrays: Sequence[HostArray | None], elements: int
    ) -> Launch:
        name = self.recording.dictionaries.kernels[site.kernel]
        grid = self.grid.over_threads(max(1, elements), None)
        if not int(self.recording.columns["launch.teams"][number]):
            return self.declared.get(name, Kernel(name)).launch(*grid, max(1, elements))
        uses = [used for used in self._uses(number, (), arrays, given) if used.place == "array"]
        own = [(used, position) for position, used in enumerate(uses)]
        return self._counted(name, number, uses, own, (max(1, elements), *grid))

    def _counted(
        self,
        name: str,
        number: int,
        uses: Sequence[_Used],
        own: Sequence[tuple[_Used, int]],
        sizes: tuple[int, int, int],
    ) -> Launch:
        """Make a launch with the recorded counts. own: arguments with positions; sizes: iterations, teams, threads."""
        columns, (iterations, teams, threads) = self.recording.columns, sizes
        trace = int(columns["launch.trace"][number])
        traced = number if trace == NONE else int(columns["trace.launch"][trace])
        counted = dict(zip(COUNTERS, columns["launch.counts"][traced].tolist(), strict=True))
        double = sum(counted[name] for name in _DOUBLE)
        single = sum(counted[name] for name in _SINGLE)
        moved = counted["load_bytes"] + counted["store_bytes"]
        if trace != NONE:
            moved = sum(SECTOR * (used.sectors[0] + used.sectors[1]) for used in uses)
        moves = Moves(functools.partial(_moves, uses)) if uses else None
        atomically = sum(last + 1 - first for used in uses for first, last in used.touched.get("atomic", ()))
        kernel = Kernel(
            name,
            None,
            double / iterations,
            moved / iterations,
            threads,
            single_flops_per_iteration=single / iterations,
            atomics_per_iteration=counted["atomics"] / iterations,
            atomic_addresses=max(1.0, atomically * counted["atomics"] / max(1, counted["atomic_bytes"])),
            moves=moves,
            arrays=tuple(_array_use(used, position, iterations) for used, position in own),
        )
        counts = None
        if trace != NONE:
            streams = tuple(_array_counts(used, position) for used, position in own)
            counts = LaunchCounts(
                iterations, double + single, moved, streams, Waits(0.0, 0.0), (), moves or Moves(lambda: ())
            )
        return Launch(kernel, teams, threads, iterations, counts)

    def _sizes(self, site: Site, number: int, declared: int | None) -> tuple[int, int, int]:
        """Return iterations, teams and threads of a launch.

        declared: the threads of a team that a file of declared kernels gives; None if it gives none.
        """
        columns = self.recording.columns
        trip, played = int(columns["launch.trip"][number]), int(columns["launch.teams"][number])
        iterations = trip or max(1, played * int(columns["launch.threads"][number]))
        limit = min(site.threads, self.most_threads)
        # Was each iteration a team of its own, by a `distribute` that is not combined with `parallel`?
        team_loop = not site.teams and played == trip > 1
        if limit > 0:
            given: int | None = limit
        elif not played:  # the recorder has not seen what the kernel does
            given = declared
        else:
            # A kernel that never forks keeps one thread of each team busy. One that is a loop over all threads has
            # forked, whatever was seen of it.
            forked = int(columns["launch.gpu_threads"][number]) > (played if team_loop else 1)
            given = None if forked or (trip and not team_loop) else 1
        threads = given or self.grid.threads
        if site.teams:
            return iterations, max(site.teams, 1), threads
        if team_loop:
            return iterations, self.grid.over_teams(iterations), threads
        # The rule for short loops is for loops: without a trip count a team keeps its threads.
        return iterations, *self.grid.over_threads(iterations, given if trip else threads)

    def _uses(
        self,
        number: int,
        items: Sequence[MapItem],
        arrays: Sequence[HostArray | None],
        given: Sequence[int] = (),
    ) -> list[_Used]:
        """Return what a launch uses; an empty list if it has no trace. given: arrays of words that it gets by value."""
        columns = self.recording.columns
        first, trace = columns["trace.first"], int(columns["launch.trace"][number])
        if trace == NONE:
            return []
        uses = [self._use(use, items, arrays, given) for use in range(int(first[trace]), int(first[trace + 1]))]
        if not columns["launch.traced"][number]:  # which bytes another launch touched says nothing of this one
            uses = [attrs.evolve(used, touched={}) for used in uses]
        return uses

    def _use(
        self, use: int, items: Sequence[MapItem], arrays: Sequence[HostArray | None], given: Sequence[int]
    ) -> _Used:
        columns = self.recording.columns
        place, number = int(columns["use.item"][use]), int(columns["use.array"][use])
        if 0 <= place < len(given) and given[place] != NONE:
            number = given[place]
        offset, nbytes = int(columns["use.offset"][use]), int(columns["use.nbytes"][use])
        item = items[place] if 0 <= place < len(items) else None
        array = item.array if item is not None else None
        if array is None and number != NONE and place != GONE:
            array = arrays[number]
        if array is not None:
            kind: Literal["array", "block", "unknown"] = "array"
            address, whole, begin, phase = array.address, array.nbytes, offset, (array.address + offset) % PAGE
        else:
            pointer = self._block(offset, item, place == GONE) if place != GONE or number == NONE else None
            kind = "unknown" if pointer is None else "block"
            address, whole, begin, phase = 0 if pointer is None else pointer.address, nbytes, 0, offset % PAGE
        touched = self._touched(use, begin)
        return _Used(
            kind,
            array,
            address,
            whole,
            place,
            self._ranges(use, begin, phase, min(whole, begin + nbytes)),
            touched,
            (
                int(columns["use.sectors_read"][use]), int(columns["use.sectors_written"][use]),
                int(columns["use.team_sectors_read"][use]), int(columns["use.team_sectors_written"][use]),
            ),
            "read" in touched or self._loads_pages(use),
            int(columns["use.load_bytes"][use]),
            int(columns["use.store_bytes"][use]),
        )  # fmt: skip

    def _of_trace(self, trace: int) -> list[tuple[int, int]]:
        if trace not in self._uses_of:
            columns, first = self.recording.columns, self.recording.columns["trace.first"]
            uses = slice(int(first[trace]), int(first[trace + 1])) if trace != NONE else slice(0)
            self._uses_of[trace] = list(
                zip(columns["use.item"][uses].tolist(), columns["use.array"][uses].tolist(), strict=True)
            )
        return self._uses_of[trace]

    def _array_of(
        self, use: tuple[int, int], arrays: Sequence[HostArray | None], given: Sequence[int]
    ) -> HostArray | None:
        """Return the array of a use (item, array) of a launch that gets its arrays by value; None if there is none."""
        place, number = use
        if 0 <= place < len(given) and given[place] != NONE:
            number = given[place]
        return arrays[number] if number != NONE and place != GONE else None

    def _block(self, recorded: int, item: MapItem | None, was_freed: bool) -> DevicePointer | None:
        """Return the block of omp_target_alloc that the launch gets by address, or else the traced launch's."""
        address = item.base if item is not None and item.type & LITERAL else recorded
        return self.block_at(address, was_freed) if address else None

    def _touched(self, use: int, shift: int) -> dict[str, tuple[Range, ...]]:
        """Return by kind the ranges (first, last) of bytes that were all loaded, stored, or accessed atomically."""
        columns = self.recording.columns
        first = columns["use.first_range"]
        found: dict[str, list[Range]] = {}
        for place in range(int(first[use]), int(first[use + 1])):
            begin, end = (int(columns[f"range.{name}"][place]) + shift for name in ("begin", "end"))
            found.setdefault(_KINDS[int(columns["range.kind"][place])], []).append((begin, end - 1))
        return {kind: tuple(ranges) for kind, ranges in found.items()}

    def _loads_pages(self, use: int) -> bool:
        """Tell whether a use has pages of loads; pages that the launch had stored before do not count as loads."""
        columns = self.recording.columns
        runs = slice(int(columns["use.first_run"][use]), int(columns["use.first_run"][use + 1]))
        return bool((columns["run.kind"][runs] == LOADS).any())

    def _ranges(self, use: int, begin: int, phase: int, end: int) -> tuple[Range, ...]:
        """Return the touched pages of a block as byte ranges of the array, clipped to the block.

        phase: the offset of the block's beginning in its page; the recorded pages count from that page.
        """
        columns = self.recording.columns
        first = columns["use.first_run"]
        runs = slice(int(first[use]), int(first[use + 1]))
        pages = zip(columns["run.page"][runs].tolist(), columns["run.pages"][runs].tolist(), strict=True)
        base = begin - phase
        ranges = [(base + page * PAGE, base + (page + count) * PAGE) for page, count in pages]
        clipped = [(max(begin, low), min(end, high)) for low, high in ranges]
        return _joined([(low, high) for low, high in clipped if low < high])


def _where(array: HostArray | None) -> tuple[int, int] | None:
    return None if array is None else (array.address % PAGE, array.nbytes)


def _joined(ranges: Sequence[Range]) -> tuple[Range, ...]:
    """Join ranges that meet; if more than `_MOST_RANGES` are left, also those with the smallest gaps."""
    found: list[Range] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    if len(found) <= _MOST_RANGES:
        return tuple(found)
    gaps = sorted(later[0] - earlier[1] for earlier, later in itertools.pairwise(found))
    widest = gaps[len(found) - _MOST_RANGES - 1]
    joined = [found[0]]
    for low, high in found[1:]:
        if low - joined[-1][1] <= widest:
            joined[-1] = joined[-1][0], high
        else:
            joined.append((low, high))
    return tuple(joined)


def _array_use(used: _Used, position: int, iterations: int) -> ArrayUse:
    read, written, _, _ = used.sectors
    return ArrayUse(
        f"{position}",
        position,
        reads=used.load_bytes / 8 / iterations,
        writes=used.store_bytes / 8 / iterations,
        elements_read=read * SECTOR / 8 / iterations,
        elements_written=written * SECTOR / 8 / iterations,
    )


def _array_counts(used: _Used, position: int) -> ArrayCounts:
    """Return the counts of a launch for one argument; its elements are bytes."""
    read, written = used.sectors[0] if used.loads else 0, used.sectors[1]
    touched = float(sum(high - low for low, high in used.ranges))
    reach = Reach(tuple((low, high - 1) for low, high in used.ranges), _sectors(read), _sectors(written))
    stream = AccessStream("swept", 0, read * SECTOR, written * SECTOR, 0.0, float("inf"), lambda: reach)

    def ranges(kind: str) -> Range | None:
        some = read if kind == "read" else written
        return (used.ranges[0][0], used.ranges[-1][1] - 1) if some and used.ranges else None

    return ArrayCounts(
        f"{position}",
        position,
        used.nbytes,
        1,
        float(used.load_bytes),
        float(used.store_bytes),
        ranges,
        lambda: (touched, False),
        lambda: bool(used.load_bytes or used.store_bytes),
        "affine",
        (stream,),
        used.touched,
    )


def _sectors(count: int) -> tuple[ElementRuns, ...]:
    return (ElementRuns(float(count), float(SECTOR), even=True, step=SECTOR),) if count else ()


def _moves(uses: Sequence[_Used]) -> list[Moved]:
    """Return what a launch moves: distinct sectors once, and shared ones again where caches do not hold them."""
    return [
        Moved(distinct * SECTOR, 0, distinct * SECTOR, float(max(0, of_teams - distinct)), ordered=False)
        for used in uses
        for distinct, of_teams in zip(used.sectors[:2], used.sectors[2:], strict=True)
        if distinct
    ]


def _pointers(used: _Used) -> list[DevicePointer]:
    return [DevicePointer(used.address + low, high - low, 0, phantom=True) for low, high in used.ranges]


def _block_uses(uses: Sequence[_Used]) -> Iterator[BlockUse]:
    """Yield what a launch does with memory that it reaches through pointers, reads first.

    For blocks of omp_target_alloc without known bytes that is their pages; for arrays pages are in
    `RecordedLaunch.reaches`.
    """
    for kind in ("read", "write"):
        for used in uses:
            for low, high, atomic in split_atomic(used.touched.get(kind, ()), used.touched.get("atomic", ())):
                begin, nbytes, writes = used.address + low, high + 1 - low, kind == "write"
                if used.array is not None:
                    yield HostUse(begin, nbytes, writes, True, atomic, True, used.array.name)
                else:
                    yield BlockUse(begin, nbytes, writes, True, atomic)
    for used in uses:
        for low, high in () if used.touched or used.place == "array" else used.ranges:
            yield BlockUse(used.address + low, high - low, True, False)
