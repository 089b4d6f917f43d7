"""Prints recordings for `offloadrt show`, `stats` and `kernels`, as tables or as records for JSON."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import attrs
from rich.console import RenderableType
from rich.markup import escape

from offloadrt.cli.render import table_of
from offloadrt.extensions.recording.doubts import doubts, doubts_of, loaded
from offloadrt.extensions.recording.format import Recording, summary
from offloadrt.extensions.recording.format.recording import Meta
from offloadrt.extensions.recording.format.summary import (
    ArraySummary,
    DirectiveRecord,
    KernelSummary,
    MessageSummary,
    ThreadSummary,
)
from offloadrt.study.reporting.words import seconds, size
from offloadrt.trace.events import plain_kernel

_ENDED = {
    "exit": "",
    "exec": "replaced itself by exec",
    "stopped": "stopped by --stop-after",
    "cut": "cut off: the program crashed or was killed",
}
_MOST_KERNELS = 3
"""How many kernels are named for an array."""


def recording(path: Path) -> Iterable[RenderableType]:
    """Yield what `show` prints: runs, and of the first run directives, kernels, arrays and threads.

    Raises UserError if the recording cannot be read.
    """
    runs = loaded(path)
    yield f"[bold]{escape(path.name)}[/]: {escape(' '.join(runs[0].meta.program))}  ({escape(str(path))})"
    yield _runs(runs)
    yield from _host_times(runs)
    if runs[0].meta.separate_copies:
        yield "\nit relies on host and device having copies of their own:"
        yield from (f"  {escape(text)}" for text in runs[0].meta.separate_copies)
    differences = list(summary.differences_of(runs)) if len(runs) > 1 else []
    if len(runs) > 1 and not differences:
        yield "\nall runs have the same directives, each as often"
    yield from (f"  {escape(text)}" for text in differences)
    yield from (escape(text) for text in doubts(runs))
    if phases := summary.phases_of(runs[0]):
        yield "\nphases: " + ", ".join(escape(f"{name} ({times:,})") for name, times in phases.items())
    yield from (_sites(runs[0]), _kernels(runs[0]), _arrays(runs[0]), _threads(runs[0]))
    if ranks := [run for run in runs if run.meta.mpi is not None]:
        yield _ranks(ranks)
        yield _messages(ranks[0])


def _host_times(runs: Iterable[Recording]) -> Iterable[str]:
    """Yield a sentence for each run with repeats on how much their host times differ."""
    for run in runs:
        if ratios := run.meta.host_times:
            least, most = min(ratios), max(ratios)
            yield (
                f"\n{run.run}: host times are medians of {len(ratios)} repeats, which took {least:.3g} to {most:.3g} "
                "times as long"
            )


def statistics(path: Path) -> Iterable[RenderableType]:
    """Yield what `stats` prints: what the real runtime did in each run. UserError for an unreadable recording."""
    for run in loaded(path):
        yield f"\n[bold]{escape(run.name)}[/]"
        shown = table_of("what the real runtime did", "operation", "times", "bytes", right=(1, 2))
        for name, (count, nbytes) in summary.operations_of(run).items():
            shown.add_row(name, f"{count:,}", size(nbytes) if nbytes else "")
        yield shown if shown.row_count else "the real runtime's operations were not recorded"
        yield _threads(run)


def kernels(path: Path) -> Iterable[RenderableType]:
    """Yield what `kernels` prints: the kernels of each run. Raises UserError for an unreadable recording."""
    for run in loaded(path):
        yield f"[bold]{escape(run.name)}[/]"
        yield _kernels(run)


def _runs(runs: list[Recording]) -> RenderableType:
    shown = table_of(
        "\nruns", "run", "threads", "rank", "directives", "costs", "host touches", "oracle", "", right=(1, 3)
    )
    for run in runs:
        meta = run.meta
        threads = str(meta.asked_threads or meta.threads)
        known = ["yes" if one else "no" for one in (meta.costs, meta.host_touches, meta.oracle)]
        rank = "" if meta.rank is None else str(meta.rank)
        shown.add_row(escape(run.run), threads, rank, f"{run.directives:,}", *known, escape(_ending(meta)))
    return shown


def _ending(meta: Meta) -> str:
    """Return how a run ended, in words, unless it came to its end."""
    return _ENDED.get(meta.ended, meta.ended) if meta.died is None else f"the program {meta.died}"


def _sites(run: Recording) -> RenderableType:
    shown = table_of("\ndirectives", "source", "call", "times", "items", "mapped", "operations", right=(2, 3, 4))
    for found in summary.sites_of(run):
        done = ", ".join(f"{count} {name}" for name, count in found.operations.items())
        call = found.call.removeprefix("__tgt_").removesuffix("_mapper")
        mapped = size(found.mapped_bytes) if found.mapped_bytes else ""
        shown.add_row(escape(found.source), call, f"{found.times:,}", str(found.items), mapped, done)
    return shown


def _kernels(run: Recording) -> RenderableType:
    heads = ("launches", "traced", "teams x threads", "trip", "flops", "single", "loads+stores", "memory", "flops/B")
    shown = table_of("\nkernels", "kernel", *heads, right=range(1, 10))
    for kernel in summary.kernels_of(run):
        intensity = kernel.intensity
        shown.add_row(
            escape(plain_kernel(kernel.name)),
            f"{kernel.launches:,}",
            str(kernel.traced),
            f"{kernel.teams} x {kernel.threads}",
            f"{kernel.trip:,}",
            f"{kernel.flops:,}",
            f"{kernel.single_flops:,}",
            size(kernel.loaded + kernel.stored),
            size(kernel.moved) if kernel.moved else "–",
            "–" if intensity is None else f"{intensity:.3g}",
        )
    return shown


def _arrays(run: Recording) -> RenderableType:
    shown = table_of("\narrays", "array", "size", "arrays", "origin", "items", "host", "kernels", right=(1, 2, 4))
    for array in summary.arrays_of(run):
        accesses = [kernel.rpartition(" ") for kernel in array.kernels[:_MOST_KERNELS]]
        users = ", ".join(f"{plain_kernel(kernel)} {ways}" for kernel, _, ways in accesses)
        more = len(array.kernels) - _MOST_KERNELS
        shown.add_row(
            escape(array.name),
            size(array.nbytes),
            str(array.count),
            array.origin,
            str(array.items),
            array.host,
            escape(users + (f" and {more} more" if more > 0 else "")),
        )
    return shown


def _threads(run: Recording) -> RenderableType:
    shown = table_of("\nthreads", "thread", "tasks", "directives", "CPU time between them", right=range(4))
    for thread in summary.threads_of(run):
        shown.add_row(str(thread.number), f"{thread.tasks:,}", f"{thread.directives:,}", seconds(thread.seconds))
    return shown


_LEVELS = ("single", "funneled", "serialized", "multiple")


def _ranks(runs: list[Recording]) -> RenderableType:
    shown = table_of(
        "\nranks", "run", "rank", "MPI", "threads may call it", "calls", "bytes given", "last call", right=(1, 4, 5)
    )
    for run in runs:
        assert run.meta.mpi is not None
        messages, last = summary.messages_of(run), summary.last_call_of(run)
        shown.add_row(
            escape(run.run),
            f"{run.meta.mpi.rank} of {run.meta.mpi.ranks}",
            escape(run.meta.mpi.library),
            _LEVELS[run.meta.mpi.level],
            f"{sum(one.times for one in messages):,}",
            size(sum(one.bytes for one in messages)),
            escape(last),
        )
    return shown


def _messages(run: Recording) -> RenderableType:
    rank = 0 if run.meta.mpi is None else run.meta.mpi.rank
    shown = table_of(
        f"\nmessages of rank {rank}", "source", "call", "times", "messages", "bytes given", "memory", "to ranks",
        right=(2, 3, 4),
    )  # fmt: skip
    for one in summary.messages_of(run):
        given = size(one.bytes) if one.bytes else ""
        sent = f"{one.messages:,}" if one.messages else ""
        shown.add_row(escape(one.source), one.call, f"{one.times:,}", sent, given, one.memory, one.ranks)
    return shown


@attrs.frozen
class RecordedRunRecord:
    """A run of a recorded program, for JSON: its host threads, how it ended, and what was recorded.

    rank: its rank in MPI_COMM_WORLD; None without MPI. directives: how many directives and routines it called. costs:
    whether the work of kernels was counted. host_touches: whether the memory accesses of the host were recorded.
    oracle: whether the operations of the real runtime were recorded. ended: exit, exec, stopped, or cut (it crashed or
    was killed).
    """

    run: str
    threads: int
    rank: int | None
    directives: int
    costs: bool
    host_touches: bool
    oracle: bool
    ended: str
    died: str
    """How, where and with which message it died; empty if it did not."""
    host_times: list[float]
    """For each repeat, its host time divided by that of the medians; empty without repeats."""
    doubts: list[str]
    """Sentences about numbers of it that may be wrong, such as outliers."""
    phases: dict[str, int]
    """How often each named range of the program began."""
    messages: list[MessageSummary]
    """The MPI calls of the rank, by place in the source; empty without any."""
    last_call: str
    """The last MPI call, in words that also say whether it never returned."""

    @classmethod
    def of(cls, run: Recording) -> RecordedRunRecord:
        """Convert a run to the record that `--json` prints."""
        meta = run.meta
        threads = meta.asked_threads or meta.threads
        known = (meta.costs, meta.host_touches, meta.oracle)
        died = "" if meta.died is None else str(meta.died)
        messages = summary.messages_of(run)
        last = summary.last_call_of(run) if messages else ""
        sure = list(meta.host_times), doubts_of(run), summary.phases_of(run)
        return cls(run.run, threads, meta.rank, run.directives, *known, meta.ended, died, *sure, messages, last)


@attrs.frozen
class RecordingRecord:
    """The JSON record that `show` prints of a recording; all fields but `runs` are about the first run.

    directives, kernels, arrays, threads: one entry for each of the source's directives, kernels, arrays and host
    threads, with its uses added up.
    """

    program: list[str]
    runs: list[RecordedRunRecord]
    directives: list[DirectiveRecord]
    kernels: list[KernelSummary]
    arrays: list[ArraySummary]
    threads: list[ThreadSummary]

    @classmethod
    def of(cls, path: Path) -> RecordingRecord:
        """Convert a recording to the record that `--json` prints. Raises UserError if it cannot be read."""
        runs = loaded(path)
        first = runs[0]
        return cls(
            program=list(first.meta.program),
            runs=[RecordedRunRecord.of(run) for run in runs],
            directives=summary.sites_of(first),
            kernels=list(summary.kernels_of(first)),
            arrays=list(summary.arrays_of(first)),
            threads=list(summary.threads_of(first)),
        )


@attrs.frozen
class OperationRecord:
    """Says how often (`count`) the real runtime did an operation, and how many bytes these moved or allocated."""

    count: int
    bytes: int


@attrs.frozen
class RealRuntimeRecord:
    """The JSON record that `stats` prints about one run of a recording.

    operations: by name of the operation. threads: the work of each host thread.
    """

    run: str
    operations: dict[str, OperationRecord]
    threads: list[ThreadSummary]

    @classmethod
    def all_of(cls, path: Path) -> list[RealRuntimeRecord]:
        """Convert all runs of a recording to the records that `--json` prints. UserError if it cannot be read."""
        return [
            cls(
                run.run,
                {name: OperationRecord(*numbers) for name, numbers in summary.operations_of(run).items()},
                list(summary.threads_of(run)),
            )
            for run in loaded(path)
        ]


@attrs.frozen
class RecordedKernelsRecord:
    """The JSON record that `kernels` prints about one run of a recording."""

    run: str
    kernels: list[KernelSummary]

    @classmethod
    def all_of(cls, path: Path) -> list[RecordedKernelsRecord]:
        """Convert all runs of a recording to the records that `--json` prints. UserError if it cannot be read."""
        return [cls(run.run, list(summary.kernels_of(run))) for run in loaded(path)]


RUNTIMES = list[RealRuntimeRecord]
"""What `offloadrt stats --json` prints of a recording."""
KERNELS = list[RecordedKernelsRecord]
"""What `offloadrt kernels --json` prints of a recording."""
