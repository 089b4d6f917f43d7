"""Measures entries of a base profile from a machine's files, compares kernels with a recording, and shows both."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs
import numpy as np
from rich.console import RenderableType
from rich.markup import escape

from offloadrt.cli.render import table_of
from offloadrt.extensions.calibration import benchmark_entries, cuda_entries, rocr_entries
from offloadrt.extensions.calibration.device_trace import CalibrationError, DeviceTrace
from offloadrt.extensions.calibration.operations import Measurement, Operations
from offloadrt.extensions.calibration.readers import kinds
from offloadrt.extensions.calibration.readers.kinds import BenchmarkRun
from offloadrt.extensions.recording.format import Recording, RecordingError, RecordingFile
from offloadrt.extensions.recording.format.summary import KernelSummary, kernels_of
from offloadrt.kernels import Kernel, Launch
from offloadrt.machine import ComputeSpec, LaunchOutOfResources, MachineSpec, ProfileError
from offloadrt.machine.profile.entry import ProfileEntry
from offloadrt.study.errors import UserError
from offloadrt.study.reporting.words import counted, seconds
from offloadrt.study.running import profiles
from offloadrt.trace.events import plain_kernel

_SAME: Final = 1.1
"""The factor by which facts of a device may differ from the base, as usable memory from the size that is sold."""


@attrs.frozen
class CalibratedEntry:
    """An entry (cost or rate) of the base machine profile, with the new value that a file's measurements give.

    `base` is the entry as the base profile has it, `measurement` the new value with its percentiles.
    """

    base: ProfileEntry
    measurement: Measurement
    source: str
    """The key in the new profile's `[sources]`."""

    @property
    def factor(self) -> float:
        """Return how far the measured value lies outside the base profile's range, as a factor; 1 if it lies inside.

        The factor is the measured value over the nearest value of the range. If the base has no range, it is 1 if the
        base's value lies between the measured percentiles, and else the measured value over the base's value.
        """
        value, entry = self.measurement.value, self.base
        if entry.low is not None and entry.high is not None:
            return value / min(max(value, entry.low), entry.high)
        assert isinstance(entry.value, float)
        if entry.value == 0:
            return math.inf
        inside = self.measurement.low <= entry.value <= self.measurement.high
        return 1.0 if inside else value / entry.value


@attrs.frozen
class Calibration:
    """All that files of measurements say of a machine. `entries` go into the new profile, the rest into the report.

    `base` is the machine from whose profile everything else comes.
    """

    base: MachineSpec
    sources: dict[str, str]
    """By the key that entries use: a description of the file."""
    entries: tuple[CalibratedEntry, ...]
    """One for each measured entry, in the order of the base."""
    superseded: tuple[CalibratedEntry, ...]
    """Measurements of the same entries from other files, which were not taken."""
    not_shown: tuple[str, ...]
    """Names of entries that such files can measure, but these files do not."""
    not_used: dict[str, int]
    """By name of an API function: the number of its calls, if they belong to no entry."""
    remarks: tuple[str, ...]
    """Sentences about signs that the base is another machine, and about what could be recorded in addition."""
    traces: tuple[DeviceTrace, ...]
    """The files that are profilers' traces, with the kernels' times."""

    @property
    def kept(self) -> tuple[str, ...]:
        """Return the names of the entries with a range (of uncertain value) that no file has measured.

        They stay in the new profile as the base profile has them.
        """
        measured = {entry.base.key for entry in self.entries}
        return tuple(key for key in self.base.ranges() if key not in measured)


def calibrate(files: Sequence[Path], base: MachineSpec) -> Calibration:
    """Measure from files those entries (costs and rates) of the machine profile `base` that they can show.

    If several files measure an entry, a benchmark is preferred to a trace, since a profiler adds time to each call, and
    then the file with the most operations. Raises CalibrationError for a file that cannot be used.
    """
    sources: dict[str, str] = {}
    found: dict[str, list[tuple[bool, CalibratedEntry]]] = {}
    shown: set[str] = set()
    not_used: dict[str, int] = {}
    remarks: list[str] = []
    traces = []
    for number, path in enumerate(files, 1):
        file = kinds.read(path)
        key = f"calibration{number}"
        sources[key] = file.source
        remarks += [f"{path.name}: {text}" for text in _contradictions(file.facts, base)]
        if isinstance(file, BenchmarkRun):
            measurements = list(benchmark_entries.measure(file.rows, base))
            shown.update(benchmark_entries.MEASURED)
        else:
            traces.append(file)
            remarks += [f"{path.name}: {hint}" for hint in file.hints]
            measurements, can_show, unused = _of_trace(file, base)
            shown.update(can_show)
            for name, count in unused.items():
                not_used[name] = not_used.get(name, 0) + count
        for measured in measurements:
            if measured is not None and measured.key in base.entries:
                entry = CalibratedEntry(base.entries[measured.key], measured, key)
                found.setdefault(measured.key, []).append((isinstance(file, BenchmarkRun), entry))
    if not found:
        names = ", ".join(str(path) for path in files)
        raise CalibrationError(f"{names}: nothing in it says what an entry of {base.name} costs")
    ranked = {key: _ranked(entries) for key, entries in found.items()}
    order = [key for key in base.entries if key in ranked]
    return Calibration(
        base,
        sources,
        tuple(ranked[key][0] for key in order),
        tuple(entry for key in order for entry in ranked[key][1:]),
        tuple(key for key in base.entries if key in shown and key not in ranked),
        not_used,
        tuple(remarks),
        tuple(traces),
    )


def _ranked(entries: Iterable[tuple[bool, CalibratedEntry]]) -> list[CalibratedEntry]:
    by_trust = sorted(entries, key=lambda one: (one[0], one[1].measurement.count), reverse=True)
    return [entry for _, entry in by_trust]


def _of_trace(
    trace: DeviceTrace, base: MachineSpec
) -> tuple[list[Measurement | None], Collection[str], dict[str, int]]:
    """Return the measurements from a trace, the entries that it could measure, and the number of unused calls by name.

    Raises CalibrationError if the base is a machine of another vendor.
    """
    library = "hip" if base.text("driver.api") == "rocr" else base.text("driver.calls")
    if trace.library != library:
        raise CalibrationError(
            f"{trace.path}: has calls of {trace.library}, but the driver of {base.name} is {library}"
        )
    entries = cuda_entries if base.text("driver.api") == "cuda" else rocr_entries
    operations = Operations(trace, entries.WAITS)
    measurements = list(entries.measure(operations, base))
    unused = {name: count for name, count in operations.names.items() if name not in entries.USED | entries.WAITS}
    return measurements, entries.MEASURED, unused


def _contradictions(facts: dict[str, float], base: MachineSpec) -> Iterable[str]:
    """Yield a sentence for each fact in which a file's device differs from the base."""
    for key, value in facts.items():
        if key in base.entries and not 1 / _SAME <= value / base.value(key) <= _SAME:
            entry = base.entries[key]
            unit = entry.unit.factor if entry.unit is not None else 1.0
            text = "" if entry.unit is None else f" {entry.unit.text}"
            yield f"the device has {key} = {value / unit:.4g}{text}, but {base.name} has {entry.shown}"


def write(calibration: Calibration, base: str, path: Path) -> None:
    """Write the new profile to a file. `base` is the name or the file of the base profile, as the user gave it.

    calibration: what `calibrate` has returned. Raises CalibrationError when the file cannot be written.
    """
    text = "\n".join(_lines(calibration, base, path.stem)) + "\n"
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CalibrationError(f"{path}: cannot be written: {error.strerror or error}") from None


def _lines(calibration: Calibration, base: str, name: str) -> Iterator[str]:
    """Yield the profile's lines; a base that is a file gets its absolute path, so that the profile can be moved."""
    file = Path(base)
    yield "[machine]"
    yield f"name = {_quoted(name)}"
    yield f"base = {_quoted(str(file.resolve()) if file.is_file() else base)}"
    title = f"{calibration.base.name}, with {len(calibration.entries)} costs from files of a machine"
    note = (
        "`offloadrt calibrate` wrote this file. Values are medians. Calls in a trace include the profiler's own cost."
    )
    yield f"title = {_quoted(title)}"
    yield f"notes = [{_quoted(note)}]\n"
    yield "[sources]"
    for key, text in calibration.sources.items():
        yield f"{key} = {_quoted(text)}"
    for entry in calibration.entries:
        yield from _entry(entry)


def _entry(entry: CalibratedEntry) -> Iterator[str]:
    unit, measured = entry.base.unit, entry.measurement
    assert unit is not None  # what is measured is a number
    low, high = (f"{end / unit.factor:.4g}" for end in (measured.low, measured.high))
    yield f"\n[entry.{_quoted(entry.base.key)}]"
    yield f"value = {measured.value / unit.factor:.6g}"
    yield f"unit = {_quoted(unit.text)}"
    yield f"source = {_quoted(entry.source)}"
    yield 'source_type = "measured"'
    if entry.base.reference:
        yield "reference = true"
    spread = f"the middle 80 % from {low} to {high} {unit.text}"
    yield f"note = {_quoted(f'median of {measured.count}: {measured.what}; {spread}')}"


def _quoted(text: str) -> str:
    """Return a text as a TOML string: JSON has the same escapes, but does not escape DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


@attrs.frozen
class ComparedKernel:
    """A kernel's time in a trace beside the time that its counted work takes on the modelled machine.

    All times are in seconds. `name` is the kernel's, and `median` the median time of its launches in the trace.
    """

    name: str
    launches: int
    """The number of its launches in the trace."""
    median: float
    low: float
    high: float
    """The tenth (`low`) and the ninetieth (`high`) percentile of the launches in the trace."""
    counted: float
    """How long one launch takes alone on the modelled machine, with the recording's mean counts of work per launch."""


def compare(traces: Sequence[DeviceTrace], recording: Recording, machine: MachineSpec) -> list[ComparedKernel]:
    """Return the kernels that are in both the traces and the recording, the longest in total first.

    traces: profilers' files with measured times. recording: the recorded program, with each kernel's counted work
    (operations and bytes). machine: the modelled machine on which that work becomes a time.
    """
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
    """Return the seconds of a kernel's average launch alone; None if it has no counts or does not fit the device."""
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
    """Calibrate from files and write the new profile; return the calibration, and a comparison of kernels' times.

    recording: the recorded program whose counted kernels are compared with those of the files; None: no comparison.
    base: a machine's name or a profile's file. output: the file of the new profile. Raises UserError for files that
    cannot be read or written.
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
    """Show a calibration, and a table of kernels with their measured times and those modelled from counted work.

    found: the calibration. compared: the kernels of the table (`compare`). output: the file to which the new profile
    was written. Yields what the console prints.
    """
    return [*_shown(found, output), *([_kernels(compared)] if compared else [])]


def _compared(calibration: Calibration, path: Path, machine: str) -> list[ComparedKernel]:
    file = RecordingFile.read(path)
    found = compare(calibration.traces, file.load(file.runs[0]), profiles.load(machine))
    if not found:
        raise CalibrationError(f"{path}: no kernel with counts has a name that the files know")
    return found


def _shown(calibration: Calibration, output: Path) -> Iterable[RenderableType]:
    """Yield the measured entries, those that disagree with the base, and the names of those that stay."""
    entries = counted(len(calibration.entries), "entry")
    yield f"[bold]{escape(str(output))}[/]: {entries} of {calibration.base.name} measured"
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
