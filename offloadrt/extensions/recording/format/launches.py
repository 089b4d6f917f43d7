"""The launches of kernels in a recording: the counters of each, and what traced launches did with each array."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Final, TypeVar

import attrs
import msgspec
import numpy as np

from offloadrt.extensions.recording.format.blocks import ArrayPlace, DeviceBlocks, HostArrays, HostBlock
from offloadrt.extensions.recording.format.findings import (
    Findings,
    KernelRace,
    KernelStray,
    MissedSection,
    Party,
    StrayKind,
)
from offloadrt.extensions.recording.format.recording import (
    GONE,
    NONE,
    Column,
    Dictionaries,
    Step,
    list_columns,
    row_columns,
)
from offloadrt.extensions.recording.format.slots import (
    COUNTERS,
    COUNTERS_A_SLOT,
    STORES,
    SYNC,
    Row,
    Slot,
    a_of,
    b_of,
    kind_of,
)
from offloadrt.runtime.mapping.map_types import ATTACH, LITERAL

PAGE: Final = 4096
ALGORITHMS_HEADER: Final = "offload_algorithms.hpp"
"""The header in which parallel algorithms access their elements; lines in it are not the user's, so they are not
reported.
"""
_OF_TEAM: Final = 0xFFFFFFFF
"""Stands in a slot for the number of an array where a race is about a variable of a team."""
F = TypeVar("F", KernelRace, KernelStray)
Run = tuple[int, int, int, int, int]
"""(1: loads or 2: stores, first page of 4 KiB counted from the array's first page, number of pages, the teams that
touched the first and the last page).
"""


@attrs.frozen
class ArrayTouches:
    """What a traced launch of a kernel did with one block of device memory: a mapped one, or one of omp_target_alloc.

    It has the bytes loaded and stored, the memory sectors, and the ranges touched. nbytes: the size of the block.
    load_bytes, store_bytes: the bytes that its threads load and store; a byte counts with each access. runs: the pages
    touched (`Run`).
    """

    item: int
    """The index of the directive's item that maps it; -1: it was mapped before, and the kernel follows a pointer to it.
    """
    array: int
    """The number of the array; -1: memory of omp_target_alloc."""
    begin: int
    """The host address that the block is a copy of, or the recorded address of a block of omp_target_alloc; 0: neither.
    """
    nbytes: int
    load_bytes: int
    store_bytes: int
    sectors: tuple[int, int, int, int]
    """Distinct 32 B sectors loaded, and stored; then both as sums over the teams."""
    runs: tuple[Run, ...]
    ranges: tuple[tuple[int, int, int], ...] = ()
    """(1: loads or 2: stores, first byte in the block, byte after the last): exactly these bytes were accessed."""


@attrs.frozen
class TracedLaunch:
    """What a traced launch of a kernel did with memory, as recorded.

    It has its warps' memory instructions and the sectors that they touched, the uses of arrays, and the mistakes found.
    warp_instructions: how often a warp (32 threads) executed an instruction that accesses memory. warp_sectors: the
    sectors of 32 B that these touched, and lanes: the threads that took part in them, both summed over the
    instructions. other_bytes: the bytes loaded and stored outside of the arrays. findings: races and accesses to
    forbidden memory.
    """

    warp_instructions: int
    warp_sectors: int
    lanes: int
    other_bytes: int
    uses: tuple[ArrayTouches, ...]
    findings: Findings = attrs.field(factory=Findings)


@attrs.frozen
class LaunchRow:
    """A launch of a kernel as it was executed while it was recorded; equal launches share one row.

    trip: the number of iterations. gpu_threads: the threads of the whole grid, as a GPU runs them. trace: the number of
    a trace (recorded memory accesses), its own or that of an earlier launch like it. counts: the counted work. teams,
    threads: how many teams, and threads in each, the host used to execute the launch. barriers: how often the teams
    passed a barrier, all teams together.
    """

    trip: int
    teams: int
    threads: int
    gpu_threads: int
    barriers: int
    trace: int
    counts: tuple[int, ...]
    traced: bool = False
    """Whether `trace` is a trace of this launch, and not of an earlier one of the same shape."""


@attrs.define(eq=False)
class _TracedParts:
    """The slots of one traced launch, by the number that the launch gives each array."""

    warp: Row | tuple[int, ...] = (0,) * 8
    heads: dict[int, Row] = attrs.field(factory=dict)
    sectors: dict[int, tuple[int, int, int, int]] = attrs.field(factory=dict)
    runs: dict[int, list[Run]] = attrs.field(factory=dict)
    ranges: dict[int, list[tuple[int, int, int]]] = attrs.field(factory=dict)
    findings: list[Row] = attrs.field(factory=list)

    def add(self, part: Row) -> None:
        """Take the next row of the launch (a slot of the raw files)."""
        match kind_of(part):
            case Slot.WARP:
                self.warp = part
            case Slot.ARRAY:
                self.heads[a_of(part)] = part
            case Slot.SECTORS:
                self.sectors[a_of(part)] = part[1], part[2], part[3], part[4]
            case Slot.PAGES:
                self.runs.setdefault(b_of(part), []).append((a_of(part), *part[1:5]))
            case Slot.RANGES:
                pairs = zip(part[1:7:2], part[2:7:2], strict=True)
                self.ranges.setdefault(b_of(part), []).extend((a_of(part), *pair) for pair in pairs if pair[1])
            case Slot.RACE | Slot.STRAY:
                self.findings.append(part)


@attrs.define(eq=False)
class LaunchTables:
    """Collects a recording's launches of kernels, and the traces of those launches whose memory accesses were recorded.

    ``add`` reads what the recorder wrote about one launch.
    """

    _arrays: HostArrays
    _device: DeviceBlocks
    _strings: Mapping[int, str]
    """Strings of the process, by their addresses."""
    _rows: dict[LaunchRow, int] = attrs.field(factory=dict)
    _traces: dict[TracedLaunch, int] = attrs.field(factory=dict)
    _by_shape: dict[tuple[int, ...], int] = attrs.field(factory=dict)
    """By kernel and shape: the last trace."""
    _launch_of: dict[int, int] = attrs.field(factory=dict)
    """By trace: the number of the launch that was traced."""

    def add(
        self, kernel: int, row: Row, parts: Sequence[Row], items: Sequence[Row], within: str = ""
    ) -> tuple[int, list[tuple[HostBlock, int, Run]]]:
        """Add a launch; return its number, and for a traced launch the runs of consecutive pages that it accessed.

        Each of these is (array, host address of the mapped bytes in which the pages are, the run of pages). kernel: its
        address in the program. row, parts: the launch's row in the recorder's raw files, and those that follow it.
        items: the rows of its map items. within: the line of the parallel algorithm that launches it. A launch that was
        not traced refers to the last trace of the same kernel and shape.
        """
        counts: list[int] = []
        touched: list[tuple[HostBlock, int, Run]] = []
        shape = (kernel, *row[3:6])
        for part in parts:
            if kind_of(part) == Slot.COUNTS:
                counts += part[1 : 1 + COUNTERS_A_SLOT]
        trace = self._by_shape.get(shape, NONE)
        counted = LaunchRow(row[5], row[3], row[4], row[6], row[7], trace, tuple(counts[: len(COUNTERS)]))
        if a_of(row) == 1:
            found, touched = self._trace(parts, items, within)
            trace = self._by_shape[shape] = self._traces.setdefault(found, len(self._traces))
            counted = attrs.evolve(counted, trace=trace, traced=True)
        number = self._rows.setdefault(counted, len(self._rows))
        if a_of(row) == 1:
            self._launch_of[trace] = number
        return number, touched

    def uncounted(self, trip: int) -> int:
        """Add a launch of which only the trip count is known; return its number."""
        return self._rows.setdefault(LaunchRow(trip, 0, 0, 0, 0, NONE, ()), len(self._rows))

    def _trace(
        self, parts: Sequence[Row], items: Sequence[Row], within: str
    ) -> tuple[TracedLaunch, list[tuple[HostBlock, int, Run]]]:
        traced = _TracedParts()
        for part in parts:
            traced.add(part)
        uses: list[ArrayTouches] = []
        touched: list[tuple[HostBlock, int, Run]] = []
        for number, head in traced.heads.items():
            _, host, device, nbytes, loads, stores, *_rest = head
            block = self._arrays.at(host) if host else None
            begin = 0 if host else self._device.given(device)
            if block is not None:
                begin = host
                self._arrays.use(block)
                touched += [(block, host, run) for run in traced.runs.get(number, ())]
            uses.append(
                ArrayTouches(
                    GONE if b_of(head) else _item_of(items, host, device, nbytes),
                    NONE if block is None else block.number,
                    begin,
                    nbytes,
                    loads,
                    stores,
                    traced.sectors.get(number, (0, 0, 0, 0)),
                    tuple(traced.runs.get(number, ())),
                    tuple(traced.ranges.get(number, ())),
                )
            )
        warp, findings = traced.warp, self._findings(traced.findings, traced.heads, items, within)
        return TracedLaunch(warp[1], warp[2], warp[3], warp[4] + warp[5], tuple(uses), findings), touched

    def _findings(self, rows: Sequence[Row], heads: Mapping[int, Row], items: Sequence[Row], within: str) -> Findings:
        races, strays = [], []
        for row in rows:
            if kind_of(row) == Slot.RACE:
                parties = self._party(row[2:5], within), self._party(row[5:8], within)
                if b_of(row) == _OF_TEAM:
                    name = self._strings.get(row[1], "") or "a variable of the team"
                    races.append(KernelRace(NONE, 0, parties, name))
                    continue
                array, begin = self._array_at(heads[b_of(row)][1])  # offsets are addresses until all is known
                races.append(KernelRace(array, row[1] + begin, parties))
            elif (kind := StrayKind(a_of(row))) in (StrayKind.LOST, StrayKind.UNSET):
                name, party = self._strings.get(row[1], ""), self._party(row[2:5], within)
                strays.append(KernelStray(kind, NONE, 0, party, name))
            elif kind == StrayKind.HOST:
                block = self._arrays.at(row[1])
                name = "" if block is None else block.title
                strays.append(KernelStray(kind, NONE, row[1], self._party(row[2:5], within), name))
            else:
                array, begin = self._array_at(row[6])
                offset = row[1] - row[7] + begin if array != NONE else row[1]
                if kind == StrayKind.FREED and array == NONE:
                    offset = self._device.given(row[1]) or offset
                sizes = (item[3] for item in items if item[2] == row[6] and not item[4] & ATTACH)
                section, nbytes = None, max(sizes, default=0)
                if b_of(row) and nbytes:
                    begin = b_of(row) - 1  # as the recorder counts it, from 1
                    section = MissedSection(begin, nbytes, begin + row[1] - row[7], row[5])
                strays.append(KernelStray(kind, array, offset, self._party(row[2:5], within), section=section))
        return Findings(tuple(races), tuple(strays))

    def _array_at(self, host: int) -> tuple[int, int]:
        """Return the number of the array at a host address, and that address; (NONE, 0) if there is none."""
        block = self._arrays.at(host) if host else None
        if block is None:
            return NONE, 0
        return self._arrays.use(block).number, host

    def _party(self, words: Sequence[int], within: str) -> Party:
        file, how, who = words
        way, line = how >> 32, how & 0xFFFFFFFF
        name = PurePath(self._strings.get(file, "")).name
        where = within if within and name == ALGORITHMS_HEADER else f"{name}:{line}" if line else ""
        return Party(where, bool(way & STORES), bool(way & SYNC), who >> 32, who & 0xFFFFFFFF)

    def findings(self, arrays: Sequence[ArrayPlace]) -> dict[int, Findings]:
        """Return races, and accesses to memory that a kernel may not use, by the number of the launch's trace.

        arrays: where each array finally lies.
        """

        def renumbered(one: F) -> F:
            if one.array == NONE:
                return one
            place = arrays[one.array]
            return msgspec.structs.replace(one, array=place.number, offset=one.offset - place.address)

        return {
            number: Findings(
                tuple(renumbered(race) for race in trace.findings.races),
                tuple(renumbered(stray) for stray in trace.findings.strays),
            )
            for trace, number in self._traces.items()
            if trace.findings != Findings()
        }

    def columns(self, arrays: Sequence[ArrayPlace]) -> dict[str, Column]:
        """Make the columns of launches and traces. arrays: where each array finally lies."""
        traces = list(self._traces)
        uses = [use for trace in traces for use in trace.uses]
        use_fields = (
            "item", "array", "offset", "nbytes", "load_bytes", "store_bytes", "sectors_read", "sectors_written",
            "team_sectors_read", "team_sectors_written",
        )  # fmt: skip
        nowhere = ArrayPlace(NONE, 0)
        use_rows = [
            (use.item, place.number, use.begin - place.address, use.nbytes, use.load_bytes, use.store_bytes,
             *use.sectors)
            for use in uses
            for place in (nowhere if use.array == NONE else arrays[use.array],)
        ]  # fmt: skip
        trace_fields = ("warp_instructions", "warp_sectors", "lanes", "other_bytes")
        trace_rows = [(one.warp_instructions, one.warp_sectors, one.lanes, one.other_bytes) for one in traces]
        runs = list_columns(
            "use", "run", ("kind", "page", "pages", "first_team", "last_team"), [use.runs for use in uses]
        )
        ranges = list_columns("use", "range", ("kind", "begin", "end"), [use.ranges for use in uses])
        launches = list(self._rows)
        launch_fields = "trip", "teams", "threads", "gpu_threads", "barriers", "trace", "traced"
        launch_rows = [tuple(getattr(one, field) for field in launch_fields) for one in launches]
        counts = np.zeros((len(launches), len(COUNTERS)), "u8")
        for number, launch in enumerate(launches):
            counts[number, : len(launch.counts)] = launch.counts
        return {
            "use.first_run": runs.pop("use.first"),
            **runs,
            "use.first_range": ranges.pop("use.first"),
            **ranges,
            **row_columns("use", use_fields, use_rows),
            "trace.launch": np.array([self._launch_of[number] for number in range(len(traces))], "i4"),
            "trace.first": np.cumsum([0, *(len(trace.uses) for trace in traces)], dtype="u8"),
            **row_columns("trace", trace_fields, trace_rows),
            **row_columns("launch", launch_fields, launch_rows),
            "launch.counts": counts,
        }


def _item_of(items: Sequence[Row], host: int, device: int, nbytes: int) -> int:
    """Return the index of the item that maps a block, or passes its device address by value; NONE if none does."""
    for number, item in enumerate(items):
        begin, size, type_bits = item[2], item[3], item[4]
        if type_bits & LITERAL:
            if device <= item[1] < device + max(1, nbytes) and (not host or host == device):
                return number
        elif not type_bits & ATTACH and host and begin < host + nbytes and host < begin + max(1, size):
            return number
    return NONE


_FLOPS: Final = ("f64", "f32", "f16", "div64", "div32", "div16", "special64", "special32")
_BYTES: Final = ("load_bytes", "store_bytes")
_OF_A_THREAD: Final = {_FLOPS: 3, _BYTES: 32}
"""Operations, and bytes, that each thread of a traced launch may add for partial sums, besides its iterations. A launch
that is only counted does them once.
"""
_AS_TRACED: Final = 0.02
"""Work that differs by at most this fraction counts as equal to that of the traced launch."""
_FARTHEST: Final = 1e3


def cost_errors(dictionaries: Dictionaries, columns: Mapping[str, Column]) -> dict[str, float]:
    """Compare, for each kernel, the counted work of its launches with the work that a replay gives them.

    A replay gives a launch whose memory accesses were not traced those of a traced launch that is like it. Returns, by
    kernel, counted work over replayed work: of arithmetic or of bytes loaded and stored, the quotient that is farther
    from 1. Kernels for which both agree are left out. dictionaries, columns: those of one process.
    """
    directive = (columns["record.step"] == Step.DIRECTIVE) & (columns["record.launch"] != NONE)
    kernels = np.array([site.kernel for site in dictionaries.sites] or [NONE], "i4")
    pairs = np.stack([kernels[columns["record.subject"][directive]], columns["record.launch"][directive]], axis=1)
    seen, times = np.unique(pairs, axis=0, return_counts=True)
    sums: dict[tuple[str, tuple[str, ...]], tuple[float, float]] = {}
    for counters in (_FLOPS, _BYTES):
        work = columns["launch.counts"][:, [COUNTERS.index(name) for name in counters]].sum(axis=1, dtype="f8")
        stands_for = _work_as_played(columns, work, _OF_A_THREAD[counters])
        for (kernel, launch), often in zip(seen.tolist(), times.tolist(), strict=True):
            if kernel != NONE and columns["launch.trace"][launch] != NONE:
                key = dictionaries.kernels[kernel], counters
                counted, played = sums.get(key, (0.0, 0.0))
                sums[key] = counted + often * float(work[launch]), played + often * float(stands_for[launch])
    errors: dict[str, float] = {}
    for (name, _), (counted, played) in sums.items():
        if played and abs(counted / played - 1.0) > _AS_TRACED:
            quotient = min(max(counted / played, 1.0 / _FARTHEST), _FARTHEST)
            errors[name] = max(errors.get(name, 1.0), quotient, key=lambda one: abs(math.log(one)))
    return errors


def _work_as_played(columns: Mapping[str, Column], work: Column, of_a_thread: int) -> Column:
    """Return for each launch the work of its traced launch, without what only traced threads add."""
    played: Column = work.copy()
    for trace, own in enumerate(columns["trace.launch"].tolist()):
        rows = np.flatnonzero((columns["launch.trace"] == trace) & (columns["launch.traced"] == 0))
        if not len(rows):
            continue
        least, most, traced = float(work[rows].min()), float(work[rows].max()), float(work[own])
        alike = most - least <= _AS_TRACED * most
        beside = 0.0 < traced - most <= of_a_thread * float(columns["launch.gpu_threads"][own])
        played[rows] = work[rows] if alike and beside else traced
    return played
