"""What `offloadrt calibrate` does and prints."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import attrs
import numpy as np
from rich.console import RenderableType
from rich.markup import escape

from offloadrt.cli.render import table_of
from offloadrt.extensions.calibration.calibration import CalibratedEntry, Calibration, calibrate, write
from offloadrt.extensions.calibration.device_trace import CalibrationError, DeviceTrace
from offloadrt.extensions.recording.format import Recording, RecordingError, RecordingFile
from offloadrt.extensions.recording.format.summary import KernelSummary, kernels_of
from offloadrt.kernels import Kernel, Launch
from offloadrt.machine import ComputeSpec, LaunchOutOfResources, MachineSpec, ProfileError
from offloadrt.study.errors import UserError
from offloadrt.study.reporting.words import seconds
from offloadrt.study.running import profiles
from offloadrt.trace.events import plain_kernel


@attrs.frozen
class ComparedKernel:
    """One kernel, in the trace and by its counts."""

    name: str
    launches: int
    """In the trace."""
    median: float
    low: float
    high: float
    """Seconds in the trace: the median, the tenth and the ninetieth percentile."""
    counted: float
    """Seconds that a launch with the recording's average counts takes on the machine, alone."""


def compare(traces: Sequence[DeviceTrace], recording: Recording, machine: MachineSpec) -> list[ComparedKernel]:
    """Return the kernels that both know, those that take longest first."""
    times: dict[str, list[float]] = defaultdict(list)
    for trace in traces:
        for command in trace.commands:
            if command.kind == "kernel":
                times[plain_kernel(command.name)].append(command.seconds)
    compute = machine.read(ComputeSpec)
    found = []
    for kernel in kernels_of(recording):
        seconds = times.get(plain_kernel(kernel.name))
        if seconds and (counted := _counted(kernel, compute)) is not None:
            low, median, high = np.quantile(seconds, [0.1, 0.5, 0.9]).tolist()
            found.append(
                (sum(seconds), ComparedKernel(plain_kernel(kernel.name), len(seconds), median, low, high, counted))
            )
    return [kernel for _, kernel in sorted(found, key=lambda one: -one[0])]


def _counted(kernel: KernelSummary, compute: ComputeSpec) -> float | None:
    """Return what the average launch takes alone; None where nothing was counted, or where it does not fit."""
    iterations = kernel.trip or max(1, kernel.teams * kernel.threads)
    operations = iterations * kernel.launches
    moved = kernel.moved or kernel.loaded + kernel.stored
    if not (kernel.flops + kernel.single_flops + moved and kernel.threads):
        return None
    counts = Kernel(
        kernel.name,
        None,
        kernel.flops / operations,
        moved / operations,
        kernel.threads,
        single_flops_per_iteration=kernel.single_flops / operations,
    )
    try:
        return compute.seconds_on_idle_device(Launch(counts, max(1, kernel.teams), kernel.threads, iterations))
    except LaunchOutOfResources:
        return None


def calibrated(
    files: Sequence[Path], base: str, output: Path, recording: Path | None
) -> tuple[Calibration, list[ComparedKernel]]:
    """Write the profile; return what the files said, and their kernels beside the recording's.

    Raises UserError.
    """
    if not files:
        raise UserError("calibrate: name at least one file")
    if any(path.exists() and output.exists() and path.samefile(output) for path in (*files, Path(base))):
        raise UserError(f"{output}: would be overwritten, but it is read; choose another file for --output")
    try:
        found = calibrate(files, profiles.load(base))
        write(found, base, output)
        compared = [] if recording is None else _compared(found, recording, str(output))
    except (CalibrationError, ProfileError, RecordingError) as error:
        raise UserError(str(error)) from None
    return found, compared


def calibration(found: Calibration, compared: list[ComparedKernel], output: Path) -> Iterable[RenderableType]:
    """Show what the files said, and their kernels beside the recording's."""
    return [*_shown(found, output), *([_kernels(compared)] if compared else [])]


def _compared(calibration: Calibration, path: Path, machine: str) -> list[ComparedKernel]:
    file = RecordingFile.read(path)
    found = compare(calibration.traces, file.load(file.runs[0]), profiles.load(machine))
    if not found:
        raise CalibrationError(f"{path}: no kernel with counts has a name that the files know")
    return found


def _shown(calibration: Calibration, output: Path) -> Iterable[RenderableType]:
    """Show the measured entries, what disagrees with the base, and what stays as it was."""
    yield f"[bold]{escape(str(output))}[/]: {len(calibration.entries)} entries of {calibration.base.name} measured"
    for key, text in calibration.sources.items():
        yield f"  {key}: {escape(text)}"
    yield _table("", calibration.entries)
    if differing := [entry for entry in calibration.entries if entry.factor != 1.0]:
        yield "\n[bold]outside of what the base holds possible[/]"
        for entry in differing:
            yield f"  {escape(entry.base.key)}: {entry.factor:.3g} times {escape(_base(entry))}"
    if calibration.superseded:
        yield _table("\nnot taken, because another file shows the same", calibration.superseded)
    yield from (f"\n{escape(remark)}" for remark in calibration.remarks)
    if calibration.not_shown:
        yield f"\n[bold]not in the files, as in the base[/]: {escape(', '.join(calibration.not_shown))}"
    others = [key for key in calibration.kept if key not in calibration.not_shown]
    if others:
        yield f"[bold]other ranges of the base that stay[/]: {escape(', '.join(others))}"
    if calibration.not_used:
        calls = ", ".join(f"{count} {name}" for name, count in calibration.not_used.items())
        yield f"[bold]calls that belong to no entry[/]: {escape(calls)}"


def _table(title: str, entries: Iterable[CalibratedEntry]) -> RenderableType:
    table = table_of(title, "entry", "base", "median", "middle 80 %", "n", "of", right=(2, 4))
    for entry in entries:
        measured = entry.measurement
        spread = f"{_value(entry, measured.low)} to {_value(entry, measured.high)}"
        cells = (entry.base.key, _base(entry), _value(entry, measured.value), spread, f"{measured.count:,}")
        table.add_row(*map(escape, (*cells, measured.what)))
    return table


def _value(entry: CalibratedEntry, value: float) -> str:
    unit = entry.base.unit
    assert unit is not None  # what is measured is a number
    return seconds(value) if unit.dimension == "time" else f"{value / unit.factor:.4g} {unit.text}"


def _base(entry: CalibratedEntry) -> str:
    if entry.base.low is None or entry.base.high is None:
        return entry.base.shown
    return f"{_value(entry, entry.base.low)} to {_value(entry, entry.base.high)}"


def _kernels(compared: Iterable[ComparedKernel]) -> RenderableType:
    title = "\nkernels: times in the files, and what the recording's counts say of this machine"
    table = table_of(title, "kernel", "launches", "median", "middle 80 %", "by counts", "ratio", right=(1, 2, 4, 5))
    for kernel in compared:
        spread = f"{seconds(kernel.low)} to {seconds(kernel.high)}"
        ratio = f"{kernel.counted / kernel.median:.3g}" if kernel.median else "–"
        cells = (kernel.name, f"{kernel.launches:,}", seconds(kernel.median), spread, seconds(kernel.counted), ratio)
        table.add_row(*map(escape, cells))
    return table
