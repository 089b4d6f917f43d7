"""What `show`, `stats` and `kernels` print of a recording with `--json`."""

from __future__ import annotations

from pathlib import Path

import attrs

from offloadrt.recording.format import Recording, summary
from offloadrt.recording.format.summary import ArraySummary, KernelSummary, ThreadSummary
from offloadrt.recording.shown import loaded


@attrs.frozen
class RecordedRunRecord:
    """A run of a recorded program: with how many host threads, and what is known of it."""

    run: str
    threads: int
    rank: int | None
    directives: int
    costs: bool
    host_touches: bool
    oracle: bool
    ended: str

    @classmethod
    def of(cls, run: Recording) -> RecordedRunRecord:
        """Describe a run."""
        meta = run.meta
        threads = meta.asked_threads or meta.threads
        known = (meta.costs, meta.host_touches, meta.oracle)
        return cls(run.run, threads, meta.rank, run.directives, *known, meta.ended)


@attrs.frozen
class DirectiveRecord:
    """The directives of one place in the source, and how often the real runtime did what for them."""

    source: str
    call: str
    times: int
    items: int
    mapped_bytes: int
    operations: dict[str, int]


@attrs.frozen
class RecordingRecord:
    """What `show` prints of a recording; all but `runs` is of the first run."""

    program: list[str]
    runs: list[RecordedRunRecord]
    directives: list[DirectiveRecord]
    kernels: list[KernelSummary]
    arrays: list[ArraySummary]
    threads: list[ThreadSummary]

    @classmethod
    def of(cls, path: Path) -> RecordingRecord:
        """Describe a recording. Raises UserError."""
        runs = loaded(path)
        first = runs[0]
        directives = [
            DirectiveRecord(
                found.site.where,
                found.site.call,
                found.directives,
                len(found.site.items),
                found.mapped_bytes,
                found.operations,
            )
            for found in summary.sites_of(first)
        ]
        return cls(
            program=list(first.meta.program),
            runs=[RecordedRunRecord.of(run) for run in runs],
            directives=directives,
            kernels=list(summary.kernels_of(first)),
            arrays=list(summary.arrays_of(first)),
            threads=list(summary.threads_of(first)),
        )


@attrs.frozen
class OperationRecord:
    """How often the real runtime did something, and the bytes that it moved or allocated by it."""

    count: int
    bytes: int


@attrs.frozen
class RealRuntimeRecord:
    """What `stats` prints of a run of a recording."""

    run: str
    operations: dict[str, OperationRecord]
    threads: list[ThreadSummary]

    @classmethod
    def all_of(cls, path: Path) -> list[RealRuntimeRecord]:
        """Describe every run of a recording. Raises UserError."""
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
    """What `kernels` prints of a run of a recording."""

    run: str
    kernels: list[KernelSummary]

    @classmethod
    def all_of(cls, path: Path) -> list[RecordedKernelsRecord]:
        """Describe every run of a recording. Raises UserError."""
        return [cls(run.run, list(summary.kernels_of(run))) for run in loaded(path)]


RUNTIMES = list[RealRuntimeRecord]
"""What `offloadrt stats --json` prints of a recording."""
KERNELS = list[RecordedKernelsRecord]
"""What `offloadrt kernels --json` prints of a recording."""
