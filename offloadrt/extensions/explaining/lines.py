"""A run by line of the program's source: times, waits, bytes, faults, and what the line's kernels do on the device.

`lines_of` adds up what the directives of each line did. `roofline_of` puts the kernels under the device's roofline
(Williams, Waterman and Patterson 2009). `verdicts_of` estimates for each line with target regions whether they are
faster on the device or on the host. `Sources` finds the files.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import attrs

from offloadrt.extensions.explaining.causal_log import FIRST_CALL
from offloadrt.extensions.explaining.critical_path import KernelRun
from offloadrt.extensions.explaining.sentence import Observed
from offloadrt.extensions.logs.statistics import LockWaits
from offloadrt.kernels import Launch
from offloadrt.machine import MachineSpec
from offloadrt.machine.compute.residency import ComputeSpec
from offloadrt.machine.host import HostWorkersSpec
from offloadrt.study.errors import UserError

# ---------------------------------------------------------------------- what the directives of a line did


@attrs.define
class LineUse:
    """What the directives of one source line took in the measured time; times are in picoseconds.

    `kernels` are the runs of the kernels that these directives launched.
    """

    place: str
    """File and line, as "patch.cpp:41"."""
    directives: dict[str, int] = attrs.field(factory=dict)
    """By name: how often each directive of the line was run, or each driver call that is outside of directives."""
    path_ps: int = 0
    """The line's time on the critical path."""
    threads_ps: int = 0
    """The time that all host threads spent in the line's directives, added up."""
    waits_ps: int = 0
    """The part of `threads_ps` in which the threads waited for locks, for the device, or for each other."""
    kernels_ps: int = 0
    """Time of its kernels on the device, added up."""
    bytes: dict[str, int] = attrs.field(factory=dict)
    """Bytes of its copies by direction ("h2d", "d2h"), migrations of pages included."""
    faulted_pages: int = 0
    """The number of pages that page faults of its kernels asked for."""
    stalled_ps: int = 0
    """Time for which its kernels waited for pages, added up."""
    threads: set[int] = attrs.field(factory=set)
    """Indices of the host threads that ran the line."""
    kernels: list[KernelRun] = attrs.field(factory=list)


def lines_of(observed: Observed) -> list[LineUse]:
    """Add up a recorded run by source line; sort lines by time on the critical path, then by their threads' time."""
    lines: dict[str, LineUse] = {}
    places = observed.causal_log.source_lines

    def line(place: str) -> LineUse:
        return lines.setdefault(place, LineUse(place))

    for part in observed.path:
        if part.place:
            line(part.place).path_ps += part.ps
    entered: dict[int, list[tuple[str, int]]] = {}
    waits, waiting = LockWaits(), dict[int, str]()
    signals: dict[int, tuple[str, int]] = {}
    for label, time_ps, actor, _, _, cause, *payload in observed.rows:
        # A wait that was given up ends where its thread leaves what it was in; the time after it is no wait.
        ended = waits.follow(label, time_ps, actor, payload[0] if payload else "")
        if ended is not None and (own := waiting.pop(actor, "")) and (ended.got or label in _ENDS):
            line(own).waits_ps += _measured(observed, ended.since_ps, time_ps)
        outer = entered.get(actor)
        place = places.get(cause, "") or (outer[-1][0] if outer and label in _OF_WAITS else "")
        if not place:
            continue
        if label == "DirectiveBegin" or (label == "CallBegin" and cause >= FIRST_CALL):
            entered.setdefault(actor, []).append((place, time_ps))
            use, name = line(place), payload[-1]
            use.directives[name] = use.directives.get(name, 0) + 1
            use.threads.add(actor)
        elif outer and (label == "DirectiveEnd" or (label == "CallEnd" and cause >= FIRST_CALL)):
            own, begin_ps = outer.pop()
            if all(one != own for one, _ in outer):  # else the outer directive counts this time
                line(own).threads_ps += _measured(observed, begin_ps, time_ps)
        elif label == "LockWait":
            waiting.setdefault(actor, place)
        elif label == "SignalWaitBegin":
            signals[actor] = place, time_ps
        elif label == "SignalWaitEnd" and actor in signals:
            own, begin_ps = signals.pop(actor)
            line(own).waits_ps += _measured(observed, begin_ps, time_ps)
        elif label == "CopyEnd" and _is_measured(observed, time_ps):
            moved = line(place).bytes
            moved[payload[1]] = moved.get(payload[1], 0) + payload[3]
        elif label == "PageFaultEnd" and _is_measured(observed, time_ps):
            line(place).faulted_pages += payload[1]
    for run in observed.history.kernels.values():
        if (place := places.get(run.directive, "")) and run.end >= 0:
            use = line(place)
            use.kernels_ps += _measured(observed, run.start, run.end)
            use.stalled_ps += sum(_measured(observed, *stall) for stall in run.stalls if stall[1] >= 0)
            use.kernels.append(run)
    return sorted(lines.values(), key=lambda use: (-use.path_ps, -use.threads_ps, use.place))


_ENDS = ("DirectiveEnd", "CallEnd", "LockRelease")
_OF_WAITS = ("LockWait", "LockAcquire", "SignalWaitBegin", "SignalWaitEnd")


def _measured(observed: Observed, begin_ps: int, end_ps: int) -> int:
    """Return how many picoseconds of a span lie in the measured windows."""
    return sum(max(0, min(end_ps, until) - max(begin_ps, since)) for since, until in observed.windows)


def _is_measured(observed: Observed, time_ps: int) -> bool:
    return any(since <= time_ps <= until for since, until in observed.windows)


# ---------------------------------------------------------------------- kernels under the roofline


@attrs.frozen
class RooflineKernel:
    """All launches of one kernel from one source line; `seconds` is the sum of their times on the device.

    `place` is the source line; `launches` is their number, and `flops` the floating-point operations of all of them.
    """

    name: str
    place: str
    launches: int
    seconds: float
    flops: float
    bytes: float
    """Bytes that move between the device's memory and its cache, in whole sectors."""

    @property
    def intensity(self) -> float:
        """Return flops per byte; infinite for a kernel that computes and moves no byte."""
        return self.flops / self.bytes if self.bytes else float("inf") if self.flops else 0.0


@attrs.frozen
class Roofline:
    """The ceilings of a device, bandwidth in bytes/s and peaks in flop/s, and a run's kernels, the longest first.

    `single_peak` is the peak of single-precision arithmetic.
    """

    bandwidth: float
    peak: float
    """The peak of double-precision arithmetic."""
    single_peak: float
    kernels: tuple[RooflineKernel, ...]

    def bound_of(self, kernel: RooflineKernel) -> str:
        """Return which ceiling limits a kernel: "memory" or "arithmetic"."""
        if not kernel.flops or kernel.intensity < self.peak / self.bandwidth:
            return "memory"
        return "arithmetic"

    def reached(self, kernel: RooflineKernel) -> float:
        """Return which part, 0 to 1, of the ceiling that limits it (bandwidth or flop/s) a kernel attains."""
        if not kernel.seconds:
            return 0.0
        if self.bound_of(kernel) == "memory":
            return kernel.bytes / kernel.seconds / self.bandwidth
        return kernel.flops / kernel.seconds / self.peak


def roofline_of(observed: Observed) -> Roofline | None:
    """Put a run's kernels under the roofline of its device, the longest first; None without a device or kernels."""
    if not _has_device(observed.spec):
        return None
    spec, places = observed.spec.read(ComputeSpec), observed.causal_log.source_lines
    sums: dict[tuple[str, str], list[float]] = {}
    for run, launch in _launches(observed, observed.history.kernels.values()):
        group = sums.setdefault((run.name, places.get(run.directive, "")), [0, 0.0, 0.0, 0.0])
        moved = launch.bytes_moved(spec.sector, spec.cache) if launch.bytes else 0.0
        one = 1, (run.end - run.start) * 1e-12, launch.flops + launch.single_flops, moved
        group[:] = [before + more for before, more in zip(group, one, strict=True)]
    if not sums:
        return None
    kernels = [RooflineKernel(name, place, int(count), *rest) for (name, place), (count, *rest) in sums.items()]
    kernels.sort(key=lambda kernel: (-kernel.seconds, kernel.name))
    return Roofline(spec.bandwidth, spec.flops, spec.flops_single, tuple(kernels))


def _has_device(spec: MachineSpec) -> bool:
    return "gpu.sms" in spec.entries


def _launches(observed: Observed, runs: Iterable[KernelRun]) -> list[tuple[KernelRun, Launch]]:
    """Return the kernels that began and ended in the measured time, each with its launch."""
    known = observed.causal_log.launches
    return [
        (run, known[run.number])
        for run in runs
        if run.number in known
        and run.end >= 0
        and _is_measured(observed, run.start)
        and _is_measured(observed, run.end)
    ]


# ---------------------------------------------------------------------- is a region worth a device?


AS_IT_IS: Final = "the device, as it is"


@attrs.frozen
class Verdict:
    """Compares how long a source line's target regions took with estimates for the host, or with data already mapped.

    All times are seconds, summed over the `runs` launches of the line. `place` is the line: file and number.
    """

    place: str
    runs: int
    as_run_s: float
    """The host threads' time in the regions as they ran: transfers, waits, launches and kernels."""
    mapped_s: float
    """The time that the regions would take if all data were on the device already: launch latencies and kernels."""
    host_s: float
    """The estimated time on the host: on all cores if one thread ran the regions, else on one core for each launch."""

    @property
    def best(self) -> str:
        """Say in words whether the regions belong on the device or on the host."""
        if self.host_s < min(self.as_run_s, self.mapped_s):
            return f"the host, {self.as_run_s / self.host_s:.3g} times as fast"
        if self.mapped_s < 0.8 * self.as_run_s:
            text = f"the device, with data kept mapped: up to {self.as_run_s / self.mapped_s:.3g} times as fast"
            return text + ("; as it is, the host is faster" if self.host_s < self.as_run_s else "")
        return AS_IT_IS


def verdicts_of(observed: Observed, lines: Iterable[LineUse]) -> list[Verdict]:
    """Estimate for each line with kernels whether the host would be faster; the longest lines first.

    The host's time is that of each launch alone, with the data in the host's memory and with cold caches. Empty for a
    machine without a device.
    """
    if not _has_device(observed.spec):
        return []
    compute, host = observed.spec.read(ComputeSpec), observed.spec.read(HostWorkersSpec)
    verdicts = []
    for use in lines:
        launches = _launches(observed, use.kernels)
        if not launches or not use.threads_ps:
            continue
        parallel = len(use.threads) < 2
        on_device = sum(run.end - run.start for run, _ in launches) * 1e-12 + len(launches) * compute.launch_latency
        on_host = sum(_alone_on(host, launch, parallel) for _, launch in launches)
        verdicts.append(Verdict(use.place, len(launches), use.threads_ps * 1e-12, on_device, on_host))
    return sorted(verdicts, key=lambda verdict: (-verdict.as_run_s, verdict.place))


def _alone_on(spec: HostWorkersSpec, launch: Launch, parallel: bool) -> float:
    """Return the seconds of a launch alone on the host (`HostWorkers.execute`)."""
    width = spec.width(launch, parallel)
    bandwidth = min(width * spec.bandwidth_1t, spec.bandwidth_all)
    flops = launch.flops + launch.single_flops
    return max(flops / (spec.flops * width), launch.bytes / bandwidth) + (spec.fork_join if parallel else 0.0)


# ---------------------------------------------------------------------- the files

_MOST_SEARCHED: Final = 20_000
"""The most matching files of a folder that are considered for a source file."""


@attrs.define
class Sources:
    """Finds a program's files by the names in source lines ("patch.cpp:41"). Raises UserError for a missing folder."""

    folders: Sequence[Path] = ()
    """The folders that the user names (`--source`); they are searched with their subfolders."""
    program: Path | None = None
    """The file of the program: a script or a recording."""
    _files: dict[str, tuple[str, ...]] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        for folder in self.folders:
            if not folder.is_dir():
                raise UserError(f"--source {folder}: there is no such folder")

    def text(self, place: str) -> str:
        """Return the text of a source line ("patch.cpp:41") without surrounding blanks; empty if it is not found."""
        lines, number = self.file(place.rpartition(":")[0]), place.rpartition(":")[2]
        return lines[int(number) - 1].strip() if number.isdigit() and 0 < int(number) <= len(lines) else ""

    def file(self, name: str) -> tuple[str, ...]:
        """Return the lines of a source file; none if it is not found or cannot be read."""
        if name not in self._files:
            path = self._path(name) if name else None
            try:
                text = "" if path is None else path.read_text(encoding="utf-8", errors="replace")
            except OSError:
                text = ""
            self._files[name] = tuple(text.splitlines())
        return self._files[name]

    def _path(self, name: str) -> Path | None:
        short = Path(name).name
        for folder in self.folders:
            found = sorted(path for path, _ in zip(folder.rglob(short), range(_MOST_SEARCHED), strict=False))
            if found:
                return max(found, key=lambda path: (str(path).endswith(name), -len(path.parts)))
        beside = [Path(), *([] if self.program is None else [self.program.parent])]
        if self.program is not None and self.program.name == short:
            return self.program
        modules = [getattr(module, "__file__", None) for module in [*sys.modules.values()]]
        candidates = [
            *(folder / name for folder in beside),
            *(folder / short for folder in beside),
            *(Path(file) for file in modules if file and Path(file).name == short),
        ]
        return next((path for path in candidates if path.is_file()), None)
