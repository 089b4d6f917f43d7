"""What a replay may change, and what it refuses, with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from offloadrt.recording.format.container import RunSummary
from offloadrt.recording.format.errors import RecordingError
from offloadrt.recording.format.recording import Recording

AS_RECORDED: Final = "copy"
"""The configuration in which host and device have copies of their own, as every program may rely on."""
_SHOWN: Final = 3


class ReplayRefused(RecordingError):
    """A recording does not say enough for what is asked of its replay."""


def check_configuration(recording: Recording, configuration: str) -> None:
    """Raise ReplayRefused unless the program does the same under this configuration, and it is known what it costs.

    Host and device must not need copies of their own (`format/separate_copies.py` watched for that), and what the host
    touches between directives must have been recorded, as pages come back to it then.
    """
    meta = recording.meta
    if configuration == AS_RECORDED:
        return
    if not meta.costs:
        raise ReplayRefused(
            f"configuration={configuration}: {recording.name} has no costs of kernels, so it is not known what these "
            "touch; build the program with `offloadrt cc`, `cxx` or `fc`, and record it again"
        )
    if not meta.host_touches:
        raise ReplayRefused(
            f"configuration={configuration}: in {recording.name} the host's touches between directives were not "
            "recorded, so it is not known which pages come back; record the program again with them"
        )
    if meta.separate_copies:
        found = "; ".join(meta.separate_copies[:_SHOWN])
        raise ReplayRefused(
            f"configuration={configuration}: the program relies on host and device having copies of their own: {found}"
        )


def run_of(runs: Sequence[RunSummary], threads: int | None, process: int, path: object) -> RunSummary:
    """Choose a run by the number of threads that it was recorded with, and one of its processes.

    Raises ReplayRefused.
    """
    known = list(dict.fromkeys(run.threads for run in runs))
    chosen = known[0] if threads is None else threads
    of_threads = [run for run in runs if run.threads == chosen]
    if not of_threads:
        recorded = ", ".join(map(str, known))
        raise ReplayRefused(
            f"threads={chosen}: {path} was recorded with {recorded}; which thread does what is known of no other "
            f"number: record it with `offloadrt record --threads {chosen}`"
        )
    if not 0 <= process < len(of_threads):
        raise ReplayRefused(f"process={process}: {path} has {len(of_threads)} processes, from 0")
    return of_threads[process]
