"""Makes a recording of the recorder's raw files.

If the program crashed or was stopped, the recording has what there is, and says so (`Meta.ended`).
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from offloadrt.extensions.recording.format.calls import Assembler
from offloadrt.extensions.recording.format.container import RunSummary, write
from offloadrt.extensions.recording.format.launches import cost_errors
from offloadrt.extensions.recording.format.recording import (
    AS_IT_EXITS,
    FIELDS,
    NONE,
    Column,
    Death,
    Dictionaries,
    ListTable,
    Meta,
    NotARecording,
    RecordingTooNew,
    Step,
    TaskTree,
    directives_in,
    row_columns,
    task_columns,
)
from offloadrt.extensions.recording.format.repeats import RepeatsDiffer, longest_of, together
from offloadrt.extensions.recording.format.slots import RAW_VERSION, RawProcess, events_of, processes_of
from offloadrt.extensions.recording.format.threads import halt_of
from offloadrt.trace.events import demangled


def convert(raw: Path, out: Path) -> list[RunSummary]:
    """Make a recording of a folder of raw files; return a summary of each process that offloads or calls MPI.

    Raises NotARecording if there is no such process, and RecordingDamaged or RecordingTooNew for files that cannot be
    read. raw: that folder. out: the file to write.
    """
    record = _record(raw)
    made: list[tuple[RunSummary, Dictionaries, Mapping[str, Column]]] = []
    for runs in _repeated(record["runs"]):
        of_repeats = [_processes(raw, record, run) for run in runs]
        folder = str(runs[0]["folder"])
        for name, dictionaries, columns in of_repeats[0] if len(runs) == 1 else _joined(folder, of_repeats):
            count = directives_in(columns, dictionaries.sites)
            meta = msgspec.structs.replace(dictionaries.meta, cost_errors=cost_errors(dictionaries, columns))
            summary = RunSummary(
                f"{folder}/{name}",
                meta.asked_threads or meta.threads,
                meta.rank,
                0 if meta.mpi is None else meta.mpi.ranks,
                meta.pid,
                meta.ended,
                count,
                "" if meta.died is None else str(meta.died),
            )
            made.append((summary, msgspec.structs.replace(dictionaries, meta=meta), columns))
    if not made:
        processes = [(run, process) for run in record["runs"] for process in processes_of(raw / run["folder"])]
        deaths = (tables_of(process, record, run)[0].meta.died for run, process in processes)
        died = next(filter(None, deaths), None)
        how = "" if died is None else f": it {died}"
        raise NotARecording(f"{raw}: the program came to no directive of OpenMP that offloads{how}")
    write(out, made)
    return [summary for summary, _, _ in made]


_Process = tuple[str, Dictionaries, Mapping[str, Column]]
"""The name of a process, and what was recorded of it: dictionaries and columns."""


def _processes(raw: Path, record: Mapping[str, Any], run: Mapping[str, Any]) -> list[_Process]:
    """Make the tables of those processes of a run that offload or call MPI."""
    found: list[_Process] = []
    for process in processes_of(raw / run["folder"]):
        dictionaries, columns = tables_of(process, record, run)
        if directives_in(columns, dictionaries.sites) or dictionaries.mpi_calls:
            found.append((process.name, dictionaries, columns))
    return found


def _repeated(runs: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Yield each run together with its repeats, which follow it in the list."""
    together: list[Mapping[str, Any]] = []
    for run in runs:
        if together and not run.get("repeat"):
            yield together
            together = []
        together.append(run)
    yield together


def _joined(name: str, repeats: Sequence[Sequence[_Process]]) -> list[_Process]:
    """Join the repeats of a run process by process: by MPI rank, or in the order in which they began."""
    ordered = [
        sorted(processes, key=lambda one: NONE if one[1].meta.rank is None else one[1].meta.rank)
        for processes in repeats
    ]
    if len({*map(len, ordered)}) > 1:
        counts = " and ".join(str(count) for count in dict.fromkeys(map(len, ordered)))
        raise RepeatsDiffer(f"{name}: the repeats differ: {counts} processes offload")
    tables = [[(dictionaries, columns) for _, dictionaries, columns in of] for of in zip(*ordered, strict=True)]
    joined, ratios = together(name, tables)
    found: list[_Process] = []
    for process, of_process, columns in zip(ordered[0], tables, joined, strict=True):
        kept = longest_of(of_process)
        meta = msgspec.structs.replace(kept.meta, host_times=ratios)
        found.append((process[0], msgspec.structs.replace(kept, meta=meta), columns))
    return found


def _record(raw: Path) -> dict[str, Any]:
    """Read `record.json` of `offloadrt record`; without it, each folder in `raw` is a run, or `raw` itself is one."""
    file = raw / "record.json"
    if not file.is_file():
        folders = sorted(path.name for path in raw.iterdir() if path.is_dir()) if raw.is_dir() else []
        return {"runs": [{"folder": folder} for folder in folders or ["."]]}
    try:
        record = msgspec.json.decode(file.read_bytes())
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotARecording(f"{file}: {error}") from None
    if not isinstance(record, dict) or not isinstance(record.get("runs"), list):
        raise NotARecording(f"{file}: lists no runs")
    if record.get("version", 0) > RAW_VERSION:
        raise RecordingTooNew(f"{file}: raw version {record['version']}; this offloadrt reads up to {RAW_VERSION}")
    return record


def tables_of(
    process: RawProcess, record: Mapping[str, Any], run: Mapping[str, Any]
) -> tuple[Dictionaries, dict[str, Column]]:
    """Make the tables of a recording for one process, from its raw files.

    record, run: the raw files' JSON lines on how the program was recorded, and on this run. Raises RecordingDamaged for
    a slot (row of a raw file) that the recorder cannot have written.
    """
    assembler = Assembler(process, touches=bool(run.get("host_touches", True)), exact=bool(run.get("exact")))
    memory, calls = assembler.memory, assembler.calls
    for line in process.lines:
        if line["k"] == "variable":
            block = memory.arrays.allocate(int(line["at"]), int(line["size"]), "variable", str(line["name"]))
            block.is_watched = True
        elif line["k"] == "constant":  # items give its name: the compiler merges equal constants
            memory.arrays.allocate(int(line["at"]), int(line["size"]), "constant")
    for line in _globals(process):
        name = demangled(str(line["name"]))
        memory.add_global(int(line["at"]), int(line["size"]), name, int(line.get("flags", 0)))
    for event in events_of(process):
        assembler.take(event)
    halted = _halt(process, run)
    death = _death(assembler, run, halted)
    assembler.finish()
    if assembler.exact:
        memory.use_shared()

    arrays, places = memory.arrays.table()
    numbers = [place.number for place in places]
    columns = task_columns(assembler.tasks)
    touches, lists = memory.columns(places)
    columns["record.touches"] = lists[columns["record.touches"]]
    _place_allocations(assembler, columns, numbers)
    locks = [(kind,) for _, kind in assembler.locks.numbers]
    columns |= {
        **touches,
        **_unmerged(calls.items, numbers),
        **_unmerged(assembler.ranks.parts, numbers),
        **calls.operations.columns(),
        **calls.copies.columns(),
        **calls.launches.columns(places),
        **assembler.dependences.columns(),
        **row_columns("lock", ("kind",), locks),
    }
    tree = TaskTree(columns)
    first = next(iter(tree.first_threads()), NONE)
    return Dictionaries(
        _meta(assembler, record, run, tree.widest(), death, halted[0]),
        tuple(calls.sites),
        tuple(calls.kernels),
        arrays,
        calls.launches.findings(places),
        tuple(memory.ends),
        tuple(assembler.ranks.sites),
        assembler.ranks.communicators(),
        tuple(assembler.phases.names),
        assembler.initial.beside(first, int(columns["task.count"][first])) if first != NONE else {},
    ), columns


def _globals(process: RawProcess) -> list[dict[str, Any]]:
    """Return the lines about declare target globals, which are offload entries with a size; kernels have none."""
    return [line for line in process.lines if line["k"] == "entry" and line.get("size")]


def _unset(process: RawProcess) -> list[tuple[str, str, int]]:
    found = [
        (str(line["name"]), f"{line['file']}:{line['line']}", int(line["thread"]))
        for line in process.lines
        if line["k"] == "unset"
    ]
    return [*dict.fromkeys(found)]


def _unmerged(table: ListTable, numbers: list[int]) -> dict[str, Column]:
    """Make the columns of items or parts, with the final numbers of arrays.

    Lists keep their numbers, although some may be equal now.
    """
    columns = table.columns()
    name = f"{table.row}.array"
    column = columns[name]
    if len(numbers):
        columns[name] = np.where(column == NONE, NONE, np.array(numbers, "i4")[column]).astype("i4")
    return columns


def _place_allocations(assembler: Assembler, columns: dict[str, Column], numbers: list[int]) -> None:
    """Put the final array numbers into records of allocations and frees; others only keep their time.

    Others are those of unused arrays, and allocations of small blocks that count as there from the beginning.
    """
    first = columns["task.first"]
    for task, place, block in assembler.memory.allocated:
        record = int(first[task.index]) + place // FIELDS
        is_there = block.origin == "small" and columns["record.step"][record] == Step.ALLOCATE
        if block.number == NONE or is_there:
            columns["record.step"][record] = Step.REST
        else:
            columns["record.subject"][record] = numbers[block.number]


_FROM_OUTSIDE: Final = (signal.SIGINT,)
"""Signals by which a user ends a program that would have gone on."""


def _halt(process: RawProcess, run: Mapping[str, Any]) -> tuple[str, str]:
    """Return what `halt_of` says of a process that the user stopped; of others empty texts."""
    from_outside = run.get("stopped") or run.get("signal") in _FROM_OUTSIDE
    return halt_of(process, int(run.get("ended_ns", 0))) if from_outside and not process.ending else ("", "")


def _death(assembler: Assembler, run: Mapping[str, Any], halted: tuple[str, str]) -> Death | None:
    """Return how a process died; None if it came to its end or was stopped, or if that is not known.

    The signal in `run` ended the process that was started; other processes without a last message died with it. A
    process that ends normally after a signal has handled the signal.
    """
    process, calls = assembler.process, assembler.calls
    ending, end = process.ending, process.line("end")
    if halted[1]:
        return Death("hangs", halted[1], halted[0])
    if run.get("stopped") or end.get("how") == "stopped" or process.is_replaced:
        return None
    is_own = process.pid == run.get("pid", process.pid)
    number = (run.get("signal") if is_own else None) or ending.get("signal") or (None if end else run.get("signal"))
    if number in _FROM_OUTSIDE:
        return None
    if number:
        known = {one.value: one.name for one in signal.Signals}
        how = f"is ended by {known.get(number, f'signal {number}')}{AS_IT_EXITS if end else ''}"
    elif ending.get("call"):
        code = run.get("exit") if is_own else None
        how = "exits inside of the runtime" + ("" if code is None else f" with code {code}")
    elif not ending and not is_own:
        how = "ends without exit, as one that is killed"
    else:
        return None
    after = f"after {calls.last_place}" if calls.last_place else ""
    where = calls.died_at() or process.place_of_death or after
    return Death(how, where, str(run.get("message") or ""))


def _meta(
    assembler: Assembler,
    record: Mapping[str, Any],
    run: Mapping[str, Any],
    threads: int,
    death: Death | None,
    halted: str,
) -> Meta:
    process, memory, calls = assembler.process, assembler.memory, assembler.calls
    begin, end, world = process.line("process"), process.line("end"), assembler.ranks.world()
    return Meta(
        program=[str(word) for word in begin.get("argv") or record.get("command", [])],
        pid=process.pid,
        rank=begin.get("rank") if world is None else world.rank,
        threads=threads,
        asked_threads=run.get("threads"),
        ended="cut" if death is not None else str(end.get("how", "exec" if process.is_replaced else "cut")),
        exit=run.get("exit"),
        signal=run.get("signal"),
        runtime=str(process.line("runtime").get("name", "")),
        compiler=str(record.get("compiler") or ""),
        costs=calls.has_launches,
        oracle=calls.has_operations,
        host_touches=bool(run.get("host_touches", memory.has_host_touches)),
        exact=run.get("exact"),
        instrumented=None if "exact" not in run else bool(process.line("instrumented")),
        died=death,
        halted=halted,
        separate_copies=list(memory.copies.findings),
        unset=_unset(process),
        device_uses=[("" if use[0] is None else use[0].title, *use[1:]) for use in memory.device_uses],
        orders_left_out=bool(process.line("orders_left_out")),
        globals={str(line["name"]): int(line["size"]) for line in _globals(process)},
        algorithms=any(site.is_algorithm for site in calls.sites),
        requires=int(process.line("requires").get("flags", 0)),
        devices=sum(line["k"] == "device" for line in process.lines),
        mpi=world,
    )
