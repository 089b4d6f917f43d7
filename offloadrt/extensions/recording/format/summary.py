"""Summaries of a recording for people: directives by site, kernels, arrays, threads, and how runs differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs
import numpy as np

from offloadrt.extensions.recording.format.ranks import ENDS_ALL
from offloadrt.extensions.recording.format.recording import (
    NONE,
    BufferPlace,
    OmptOperation,
    PartKind,
    Recording,
    Step,
)
from offloadrt.extensions.recording.format.slots import COUNTERS, LOADS, NEW_BLOCK, STORES

_SECTOR: Final = 32


@attrs.frozen
class DirectiveRecord:
    """The directives of one source line, and how often the real runtime did each operation for them.

    source: the line, as FILE:LINE. call: the runtime's entry point or the routine. times: how many directives ran
    there. items: the number of map items of each. mapped_bytes: the bytes of these items, all directives together.
    operations: by name, how often the real runtime did each.
    """

    source: str
    call: str
    times: int
    items: int
    mapped_bytes: int
    operations: dict[str, int]


@attrs.frozen
class KernelSummary:
    """The launches of one kernel, added up: work, and loads and stores in bytes.

    teams, threads, trip: the teams, the threads of each, and the iterations of the most frequent launch. flops,
    single_flops: operations in double precision, and those in single or half precision; a division or a function counts
    as one. loaded: the bytes that the kernel's code loads.
    """

    name: str
    launches: int
    traced: int
    """The number of different traces, which say what memory a launch touched."""
    teams: int
    threads: int
    """The threads of a team in the most frequent launch, as it was executed while recording."""
    trip: int
    flops: int
    single_flops: int
    loaded: int
    stored: int
    """The bytes that the kernel's code stores."""
    moved: int
    """The bytes of the distinct 32 B sectors of each launch, all launches together; 0: not known."""

    @property
    def intensity(self) -> float | None:
        """Return the arithmetic intensity: operations per byte of memory traffic, or per byte loaded and stored.

        Loads and stores count only if the traffic is not known. None if there are no bytes.
        """
        moved = self.moved or self.loaded + self.stored
        return (self.flops + self.single_flops) / moved if moved else None


@attrs.frozen
class ArraySummary:
    """The arrays of one name, size and `origin`, added up: how many, and who uses them.

    `origin` says how they came to be, such as ``malloc`` or ``global`` (see `RecordedArray`).
    """

    name: str
    nbytes: int
    origin: str
    count: int
    """The number of arrays with this name and size."""
    items: int
    """The number of map items that are in them."""
    host: str
    """What the host does with them between directives: `r`, `w`, `rw`, or nothing."""
    kernels: tuple[str, ...]
    """The traced kernels that access them: `name r`, `name w`, `name rw`."""


@attrs.frozen
class ThreadSummary:
    """The work of one host thread, added up: its number, and how many tasks and directives it ran."""

    number: int
    tasks: int
    directives: int
    seconds: float
    """Its CPU time between directives, in seconds."""


@attrs.frozen
class MessageSummary:
    """The MPI calls at one source line, added up: how many calls, messages and bytes, and from or to where.

    call: the name of the MPI call. times: how often it was called.
    """

    source: str
    call: str
    times: int
    messages: int
    """The number of sends that begin there, or of collective calls."""
    bytes: int
    """The bytes that the rank sends to others there."""
    memory: str
    """The memory of the buffers: `host`, `device`, or both."""
    ranks: str
    """The ranks to which it sends, as numbers of its communicators."""


def messages_of(recording: Recording) -> list[MessageSummary]:
    """Return a recording's MPI calls in the order of the source, without MPI_Init and MPI_Finalize."""
    columns = recording.columns
    rows = columns["record.step"] == Step.MPI
    pairs, often = np.unique(
        np.stack([columns["record.subject"][rows], columns["record.detail"][rows]], axis=1), axis=0, return_counts=True
    )
    found: dict[int, list[tuple[int, int]]] = {}
    for (call, parts), times in zip(pairs.tolist(), often.tolist(), strict=True):
        found.setdefault(call, []).append((parts, times))
    made = [_messages_at(recording, call, lists) for call, lists in found.items()]
    return sorted(made, key=lambda one: (one.source.rpartition(":")[0], _line_of(one.source), one.call))


def phases_of(recording: Recording) -> dict[str, int]:
    """Return how often each range that the recorded program names began, by name."""
    columns = recording.columns
    begun = columns["record.subject"][columns["record.step"] == Step.PHASE_BEGIN]
    times = np.bincount(begun, minlength=len(recording.dictionaries.phases)).tolist()
    return dict(zip(recording.dictionaries.phases, times, strict=True))


def last_call_of(recording: Recording) -> str:
    """Return in words which MPI call of a rank was the last, at which source line, and whether it never returned."""
    columns, calls = recording.columns, recording.dictionaries.mpi_calls
    made = columns["record.subject"][columns["record.step"] == Step.MPI].tolist()
    if not made:
        return ""
    ends = (calls[call] for call in made if not calls[call].returned or calls[call].call == ENDS_ALL)
    site = next(ends, calls[made[-1]])  # the records of other threads come behind those of the first
    where = f" at {site.where}" if site.line else ""
    return f"{site.call}{where}{'' if site.returned else ', which never returned'}"


def _line_of(source: str) -> int:
    line = source.rpartition(":")[2]
    return int(line) if line.isdigit() else 0


_HELD_IN: Final = {BufferPlace.HOST: "host", BufferPlace.MAPPED: "device", BufferPlace.GIVEN: "device"}


def _messages_at(recording: Recording, call: int, lists: Sequence[tuple[int, int]]) -> MessageSummary:
    columns, messages, nbytes = recording.columns, 0, 0
    peers: set[int] = set()
    held: dict[str, None] = {}
    for number, times in lists:
        for part in recording.range_of("parts", number):
            kind, size = int(columns["part.kind"][part]), int(columns["part.bytes"][part])
            if kind in (PartKind.SEND, PartKind.COLLECTIVE):
                messages += times
            if kind in (PartKind.SEND, PartKind.GIVES):
                nbytes += size * times
            if kind == PartKind.SEND and int(columns["part.peer"][part]) >= 0:
                peers.add(int(columns["part.peer"][part]))
            if kind in (PartKind.SEND, PartKind.RECEIVE, PartKind.GIVES, PartKind.TAKES) and size:
                held[_HELD_IN[BufferPlace(int(columns["part.memory"][part]))]] = None
    site = recording.dictionaries.mpi_calls[call]
    shown = [str(peer) for peer in sorted(peers)]
    ranks = ", ".join(shown[:_MOST_RANKS]) + (
        f" and {len(shown) - _MOST_RANKS} more" if len(shown) > _MOST_RANKS else ""
    )
    name = site.call if site.returned else f"{site.call}, which never returned"
    times = sum(times for _, times in lists)
    return MessageSummary(site.where, name, times, messages, nbytes, ", ".join(sorted(held)), ranks)


_MOST_RANKS: Final = 6


def sites_of(recording: Recording) -> list[DirectiveRecord]:
    """Return the directives of a recording, added up by source line, in the order of the source."""
    columns = recording.columns
    directive = columns["record.step"] == Step.DIRECTIVE
    subjects, details = columns["record.subject"][directive], columns["record.detail"][directive]
    operations = columns["record.operations"][directive]
    sizes = _sums(columns["items.first"], np.maximum(columns["item.size"], 0))
    names = {int(kind): kind.name.lower() for kind in OmptOperation}
    found = []
    for number, site in enumerate(recording.dictionaries.sites):
        of_site = subjects == number
        if not of_site.any():  # a place where the barrier of algorithms stays
            continue
        lists, times = np.unique(operations[of_site], return_counts=True)
        done: Counter[str] = Counter()
        for one, often in zip(lists.tolist(), times.tolist(), strict=True):
            for place in recording.range_of("operations", one):
                kind = int(columns["operation.kind"][place])
                done[names.get(kind, f"operation {kind}")] += often
        mapped = 0 if site.is_routine else int(sizes[details[of_site]].sum())
        record = DirectiveRecord(site.where, site.call, int(of_site.sum()), len(site.items), mapped, dict(done))
        found.append((site, record))
    return [record for _, record in sorted(found, key=lambda one: (one[0].file, one[0].line, one[0].call))]


def kernels_of(recording: Recording) -> list[KernelSummary]:
    """Return the kernels, those with most arithmetic operations first."""
    columns, sites = recording.columns, recording.dictionaries.sites
    directive = (columns["record.step"] == Step.DIRECTIVE) & (columns["record.launch"] != NONE)
    kernel_of_site = np.array([site.kernel for site in sites], "i4")
    kernels, launches = kernel_of_site[columns["record.subject"][directive]], columns["record.launch"][directive]
    uses = columns["trace.first"]
    sectors = _sums(uses, columns["use.sectors_read"] + columns["use.sectors_written"])
    found = []
    for number, name in enumerate(recording.dictionaries.kernels):
        rows, times = np.unique(launches[kernels == number], return_counts=True)
        if not len(rows):
            continue
        counts = (columns["launch.counts"][rows].astype(object) * times[:, None]).sum(axis=0)
        counted = dict(zip(COUNTERS, counts.tolist(), strict=True))
        traces = columns["launch.trace"][rows]
        known = traces != NONE
        most = rows[np.argmax(times)]
        found.append(
            KernelSummary(
                name,
                int(times.sum()),
                len(np.unique(traces[known])),
                int(columns["launch.teams"][most]),
                int(columns["launch.threads"][most]),
                int(columns["launch.trip"][most]),
                counted["f64"] + counted["div64"] + counted["special64"],
                sum(counted[kind] for kind in ("f32", "div32", "special32", "f16", "div16")),
                counted["load_bytes"],
                counted["store_bytes"],
                int((sectors[traces[known]] * times[known]).sum()) * _SECTOR if known.all() else 0,
            )
        )
    return sorted(found, key=lambda one: (-one.flops - one.single_flops, one.name))


def arrays_of(recording: Recording) -> list[ArraySummary]:
    """Return the arrays, the largest first; arrays with the same name and size are one entry."""
    columns, dictionaries = recording.columns, recording.dictionaries
    items = np.bincount(columns["item.array"][columns["item.array"] >= 0], minlength=len(dictionaries.arrays))
    host: dict[int, int] = {}
    for array, kind in zip(columns["touch.array"].tolist(), columns["touch.kind"].tolist(), strict=True):
        host[array] = host.get(array, 0) | (0 if kind == NEW_BLOCK else kind & (LOADS | STORES))
    kernels = _kernels_of_arrays(recording)
    lines: dict[tuple[str, int, str], list[int]] = {}
    for number, array in enumerate(dictionaries.arrays):
        lines.setdefault((array.name, array.nbytes, array.origin), []).append(number)
    found = []
    for (name, nbytes, origin), numbers in lines.items():
        touched = 0
        users: dict[str, int] = {}
        for number in numbers:
            touched |= host.get(number, 0)
            for kernel, kind in kernels.get(number, {}).items():
                users[kernel] = users.get(kernel, 0) | kind
        words = tuple(f"{kernel} {_ACCESS[kind]}" for kernel, kind in sorted(users.items()) if kind)
        of_items = int(items[numbers].sum())
        found.append(ArraySummary(name, nbytes, origin, len(numbers), of_items, _ACCESS[touched], words))
    return sorted(found, key=lambda one: (-one.nbytes * one.count, one.name))


_ACCESS: Final = {0: "", 1: "r", 2: "w", 3: "rw"}


def _kernels_of_arrays(recording: Recording) -> dict[int, dict[str, int]]:
    """Return by array and traced kernel whether the kernel loads (1) or stores (2); 3 is both."""
    columns, dictionaries = recording.columns, recording.dictionaries
    users: dict[int, dict[str, int]] = {}
    steps, launches = columns["record.step"], columns["record.launch"]
    chosen = np.flatnonzero((steps == Step.DIRECTIVE) & (launches != NONE))
    seen = np.unique(
        np.stack([columns["record.subject"][chosen], columns["launch.trace"][launches[chosen]]], axis=1), axis=0
    )
    first = columns["trace.first"]
    for site, trace in seen.tolist():
        if trace == NONE or trace >= len(first) - 1:
            continue
        kernel = dictionaries.kernels[dictionaries.sites[site].kernel]
        for use in range(int(first[trace]), int(first[trace + 1])):
            loads, stores = int(columns["use.load_bytes"][use]), int(columns["use.store_bytes"][use])
            kind = (1 if loads else 0) | (2 if stores else 0)
            of_array = users.setdefault(int(columns["use.array"][use]), {})
            of_array[kernel] = of_array.get(kernel, 0) | kind
    return users


def threads_of(recording: Recording) -> list[ThreadSummary]:
    """Return the host threads that have done anything, each with its work added up."""
    columns = recording.columns
    counts = columns["task.count"].astype("i8")
    of_record = np.repeat(columns["task.thread"], counts)
    directive = columns["record.step"] == Step.DIRECTIVE
    found = []
    for thread in sorted(set(columns["task.thread"][counts > 0].tolist())):
        own = of_record == thread
        tasks = int(np.count_nonzero((columns["task.thread"] == thread) & (counts > 0)))
        seconds = int(columns["record.cpu"][own].sum()) * 1e-9
        found.append(ThreadSummary(int(thread), tasks, int(np.count_nonzero(own & directive)), seconds))
    return found


def operations_of(recording: Recording) -> dict[str, tuple[int, int]]:
    """Return, by name, how often the real runtime did each operation, and the number of bytes of all of them."""
    columns = recording.columns
    lists = columns["record.operations"]
    times = np.bincount(lists[lists >= 0], minlength=len(columns["operations.first"]) - 1)
    often = np.repeat(times, np.diff(columns["operations.first"].astype("i8")))
    found = {}
    for kind in OmptOperation:
        of_kind = columns["operation.kind"] == kind
        if count := int(often[of_kind].sum()):
            found[kind.name.lower()] = count, int((often * columns["operation.bytes"].astype("i8"))[of_kind].sum())
    return found


def directives_of(recording: Recording) -> Counter[tuple[Any, ...]]:
    """Count the directives by source line and bytes of their map items; two runs that do the same have equal counts."""
    columns = recording.columns
    directive = columns["record.step"] == Step.DIRECTIVE
    pairs, times = np.unique(
        np.stack([columns["record.subject"][directive], columns["record.detail"][directive]], axis=1),
        axis=0,
        return_counts=True,
    )
    found: Counter[tuple[Any, ...]] = Counter()
    for (number, items), often in zip(pairs.tolist(), times.tolist(), strict=True):
        site = recording.dictionaries.sites[number]
        places = recording.range_of("items", items)
        sizes = tuple(columns["item.size"][places.start : places.stop].tolist())
        types = tuple(form.type for form in site.items)
        found[site.where, site.call, types, sizes if not site.is_routine else ()] += often
    return found


def differences_of(recordings: Sequence[Recording]) -> Iterator[str]:
    """Yield where the directives of other runs differ from those of the first run, each in a sentence."""
    first = directives_of(recordings[0])
    for other in recordings[1:]:
        found = directives_of(other)
        for (where, call, *_), often in sorted((found - first).items(), key=str):
            yield f"{other.run}: {often} more of {call} at {where} than in {recordings[0].run}"
        for (where, call, *_), often in sorted((first - found).items(), key=str):
            yield f"{other.run}: {often} fewer of {call} at {where} than in {recordings[0].run}"


def _sums(first: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the sum of the values of each list."""
    total = np.concatenate([[0], np.cumsum(values.astype("i8"))])
    places = first.astype("i8")
    sums: np.ndarray[Any, Any] = total[places[1:]] - total[places[:-1]]
    return sums
