"""What a replay may change, and what it refuses, with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from offloadrt.recording.format.container import RunSummary
from offloadrt.recording.format.errors import RecordingError
from offloadrt.recording.format.recording import NONE, Recording

_UNIFIED_SHARED_MEMORY: Final = 0x8
"""OMP_REQ_UNIFIED_SHARED_MEMORY of `requires`, by LLVM's numbers."""
_SHOWN: Final = 3


class ReplayRefused(RecordingError):
    """A recording does not say enough for what is asked of its replay."""


def requires_unified_shared_memory(recording: Recording) -> bool:
    """Tell whether the program says `requires unified_shared_memory`."""
    return bool(recording.meta.requires & _UNIFIED_SHARED_MEMORY)


def as_recorded(recording: Recording) -> str:
    """Return the configuration that the program was recorded in: with copies, unless it requires one memory."""
    return "usm" if requires_unified_shared_memory(recording) else "copy"


def check_configuration(recording: Recording, configuration: str) -> None:
    """Raise ReplayRefused unless the program does the same under this configuration, and it is known what it costs.

    Host and device must not need copies of their own (`format/separate_copies.py` watched for that), and what the host
    touches between directives must have been recorded, as pages come back to it then.
    """
    meta, recorded = recording.meta, as_recorded(recording)
    if configuration == recorded:
        return
    if recorded == "usm" and configuration == "copy":
        raise ReplayRefused(
            "configuration=copy: the program requires unified shared memory, so it need not map what its kernels use; "
            "take configuration=managed, or configuration=usm on an APU (--machine mi300a)"
        )
    if not meta.costs:
        raise ReplayRefused(
            f"configuration={configuration}: {recording.name} has no costs of kernels, so it is not known what these "
            "touch; build the program with `offloadrt cc`, `cxx` or `fc`, and record it again"
        )
    launches, traces = recording.columns["launch.teams"], recording.columns["launch.trace"]
    if untraced := int(np.count_nonzero((launches > 0) & (traces == NONE))):
        raise ReplayRefused(
            f"configuration={configuration}: of {untraced} launches in {recording.name} it was not recorded which "
            "pages they touch; record the program again with `--samples 1` or more"
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
