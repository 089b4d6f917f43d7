"""How certain the numbers of a recording are: suspicious host times and kernel costs, and their ranges.

`doubts_of` names threads, repeats and single intervals that took far longer than comparable ones, with the place in the
source, and kernels whose traced launches do not represent the others. `RecordedRanges` draws host times and costs from
their ranges, which are inputs of the program (`study/inputs.py`) as those of a script are.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
import numpy as np

from offloadrt.extensions.recording.format import Recording, RecordingError, RecordingFile
from offloadrt.extensions.recording.format.recording import NONE, Column, Meta, Step
from offloadrt.extensions.recording.format.repeats import at_times
from offloadrt.extensions.recording.format.summary import ThreadSummary, threads_of
from offloadrt.study.errors import UserError
from offloadrt.study.inputs import InputRange

_LATE: Final = 2.0
"""Something is late if it takes this many times the median of comparable times,"""
_LATE_S: Final = 1e-3
"""and at least this many seconds more than the median: smaller differences are the noise of any system."""
_LIKE: Final = 8
"""The number of intervals before one place of the source that are needed to say what is usual there."""
_OUTLIER: Final = 10.0
"""In a recording without repeats, an interval is an outlier if it takes this many times the median: programs do vary.
"""
_WORK_S: Final = 2e-5
"""Seconds. If the median is shorter, a long interval is taken for another part of the program, for example the code
after an inner loop.
"""
_NAMED: Final = 3
"""How many doubts of each kind are named."""
_AWAY: Final = 0.1
"""A kernel is named if its counted work differs by more than this fraction from that of the traced launches."""
_AGAIN: Final = {True: "record it again", False: "record it again, with --repeat 5"}


def loaded(path: Path) -> list[Recording]:
    """Load all runs of a recording. Raises UserError for a file that cannot be read."""
    try:
        file = RecordingFile.read(path)
        return [file.load(run) for run in file.runs]
    except RecordingError as error:
        raise UserError(str(error)) from None


def doubts(runs: Iterable[Recording]) -> Iterable[str]:
    """Yield, for each run, sentences on numbers that may be wrong, such as outliers, and on what to do about them."""
    for run in runs:
        for text in doubts_of(run):
            again = "" if text.startswith("costs") else f"; if the host was busy, {_AGAIN[bool(run.meta.host_times)]}"
            yield f"{run.name}: {text}{again}"


def doubts_of(recording: Recording) -> list[str]:
    """Return sentences on numbers of a recording that may be wrong, such as times, each with a source line."""
    found = [f"straggler: {text}" for text in stragglers_of(threads_of(recording), recording)]
    repeats = recording.columns["record.repeats"]
    late = slow_repeats(repeats, _places(recording)) if repeats.shape[1] else _slow_intervals(recording)
    found += [f"outlier: {text}" for text in late[:_NAMED]]
    if len(late) > _NAMED:
        found.append(f"outlier: {len(late) - _NAMED} more places")
    return [*found, *_cost_doubts(recording.meta)]


def _cost_doubts(meta: Meta) -> Iterator[str]:
    far = sorted(meta.cost_errors.items(), key=lambda one: (-abs(math.log(one[1])), one[0]))
    for kernel, quotient in far[:_NAMED]:
        if abs(quotient - 1.0) > _AWAY:
            from offloadrt.trace.events import plain_kernel

            yield (
                f"costs: the launches of {plain_kernel(kernel)} did {quotient:.3g} times the counted work of the "
                "traced ones that stand for them: trace more of them (record --samples)"
            )


def stragglers_of(threads: Sequence[ThreadSummary], recording: Recording | None = None) -> list[str]:
    """Return sentences on host threads that took far longer than others with as many directives.

    That happens on a shared host. A replay takes each thread's recorded CPU time, so all threads wait for a straggler.
    With `recording`, each sentence says where in the source the thread was late.
    """
    found = []
    for thread in threads:
        alike = [
            other
            for other in threads
            if other is not thread and abs(other.directives - thread.directives) <= 0.1 * thread.directives
        ]
        if len(alike) < 2:
            continue
        usual = statistics.median(other.seconds for other in alike)
        if thread.seconds > _LATE * usual and thread.seconds > usual + _LATE_S:
            where = "" if recording is None else _where_late(recording, thread, alike)
            found.append(
                f"thread {thread.number} took {1e3 * thread.seconds:.3g} ms of CPU time, "
                f"others with as many directives {1e3 * usual:.3g} ms{where}"
            )
    return found


def _where_late(recording: Recording, late: ThreadSummary, alike: Sequence[ThreadSummary]) -> str:
    """Return, in words, the place of the source at which a late thread lost most time against others' median."""
    places = _places(recording)
    columns = recording.columns
    of_record = np.repeat(columns["task.thread"], columns["task.count"].astype("i8"))
    sums: dict[str, dict[int, float]] = {}
    for place, thread, cpu in zip(places, of_record.tolist(), columns["record.cpu"].tolist(), strict=True):
        of_place = sums.setdefault(place, {})
        of_place[thread] = of_place.get(thread, 0.0) + cpu * 1e-9
    lost = {
        place: of.get(late.number, 0.0) - statistics.median(of.get(other.number, 0.0) for other in alike)
        for place, of in sums.items()
    }
    place = max(lost, key=lambda one: (lost[one], one))
    return f"; {1e3 * lost[place]:.3g} ms of it are lost {place}"


def _places(recording: Recording) -> list[str]:
    """Return where each record's CPU time was spent: "before" the task's next directive, or "after" its last one."""
    columns, dictionaries = recording.columns, recording.dictionaries
    names: list[str] = []
    steps, subjects = columns["record.step"].tolist(), columns["record.subject"].tolist()
    for first, count in zip(columns["task.first"].tolist(), columns["task.count"].tolist(), strict=True):
        last, waiting = "in a task without directives", 0
        for place in range(first, first + count):
            waiting += 1
            if steps[place] == Step.DIRECTIVE or steps[place] == Step.MPI:
                calls = dictionaries.sites if steps[place] == Step.DIRECTIVE else dictionaries.mpi_calls
                where = calls[subjects[place]].where
                names += [f"before {where}"] * waiting
                last, waiting = f"after {where}", 0
        names += [last] * waiting
    return names


@attrs.frozen
class SlowPlace:
    """A source line at which one repeat of the program, or one interval of many, took far longer than is usual there.

    which: the repeat or interval in words. where: the line. seconds, usual: how long it took, and how long it usually
    takes.
    """

    which: str
    where: str
    seconds: float
    usual: float

    def __str__(self) -> str:
        return f"{self.which} took {1e3 * self.seconds:.3g} ms {self.where}, usual are {1e3 * self.usual:.3g} ms"


def slow_repeats(repeats: Column, places: Sequence[str]) -> list[SlowPlace]:
    """Return source lines at which one repeat took far longer than the median of all, the longest first.

    `repeats` has a row of nanoseconds for each record, and `places` its source line as text; rows with equal lines are
    added up.
    """
    numbers: dict[str, int] = {}
    of = np.array([numbers.setdefault(place, len(numbers)) for place in places], "i8")
    sums = np.zeros((len(numbers), repeats.shape[1]))
    np.add.at(sums, of, repeats * 1e-9)
    return _late([*numbers], sums, "repeat {} of " + str(repeats.shape[1]), _LATE)


def _slow_intervals(recording: Recording) -> list[SlowPlace]:
    """Find intervals that took far longer than the median at their place; the first is left out, as it may set up."""
    cpu = recording.columns["record.cpu"].tolist()
    found: dict[str, list[float]] = {}
    for place, nanoseconds in zip(_places(recording), cpu, strict=True):
        found.setdefault(place, []).append(nanoseconds * 1e-9)
    late = []
    for place, times in found.items():
        if len(times) >= _LIKE:
            late += _late([place], np.array([times]), f"time {{}} of {len(times)}", _OUTLIER, 1, _WORK_S)
    return sorted(late, key=_longest)


def _late(
    places: Sequence[str], sums: Column, which: str, factor: float, skipped: int = 0, least: float = 0.0
) -> list[SlowPlace]:
    usual = np.median(sums, axis=1) if len(places) else np.zeros(0)
    late = (sums > factor * usual[:, None]) & (sums > usual[:, None] + _LATE_S) & (usual[:, None] >= least)
    found = [
        SlowPlace(which.format(number + 1), places[place], float(sums[place, number]), float(usual[place]))
        for place, number in zip(*(found.tolist() for found in np.nonzero(late)), strict=True)
        if number >= skipped
    ]
    return sorted(found, key=_longest)


def _longest(one: SlowPlace) -> tuple[float, str, str]:
    return one.usual - one.seconds, one.which, one.where


# ---------------------------------------------------------------------- ranges
@attrs.frozen
class RepeatRange(InputRange):
    """The range of a recorded program's host time, as a factor of the median over the repeats of the recording.

    A random draw takes a value between the smallest and the largest repeat; each repeat's ratio is equally likely.
    """

    ratios: tuple[float, ...] = attrs.field(kw_only=True)
    """For each repeat of the recorded program, its host time divided by the median's."""

    def _value(self, where: str | float) -> float:
        """Return 1 at the mean, for which the medians are played, or the given quantile of the repeats' ratios."""
        if where == "mean":
            return 1.0
        quantile = {"low": 0.0, "high": 1.0}.get(where, -1.0) if isinstance(where, str) else where
        if not 0.0 <= quantile <= 1.0:
            raise ValueError(f"{where}: a range is taken at low, mean or high, or between 0 and 1")
        ordered = sorted(self.ratios)
        place = quantile * (len(ordered) - 1)
        below = min(int(place), len(ordered) - 2)
        return ordered[below] + (place - below) * (ordered[below + 1] - ordered[below])


@attrs.frozen
class RecordedRanges:
    """The ranges of a recorded program's host times and kernel costs; None stands for a value without a range.

    `host_times` is a factor of the median times over the repeats, `kernel_costs` one of the costs of traced launches.
    """

    host_times: RepeatRange | None
    kernel_costs: InputRange | None

    @classmethod
    def of(cls, program: str, metas: Iterable[Meta]) -> RecordedRanges:
        """Make the ranges of host times and kernel costs for the processes of a run.

        program: the recording's name, with which the names of both ranges begin. metas: how each process was recorded.
        """
        metas = list(metas)
        ratios = metas[0].host_times
        times, costs = None, None
        if len(ratios) > 1 and min(ratios) < max(ratios):
            source = f"{len(ratios)} repeats of the recorded program"
            name = f"{program}.host_times"
            times = RepeatRange(min(ratios), max(ratios), "of the medians", source, name=name, ratios=ratios)
        errors = [error for meta in metas for error in meta.cost_errors.values()]
        if errors:
            most = max(max(error, 1.0 / error) for error in errors)
            source = "counted work of launches against that of the traced ones that stand for them"
            costs = InputRange(1.0, most, "of the traced costs", source, name=f"{program}.kernel_costs")
        return cls(times, costs)

    def drawn(self, recording: Recording) -> Recording:
        """Return the recording with the host times and kernel costs that this run's random samples have chosen."""
        meta, columns = recording.meta, recording.columns
        if self.host_times is not None and (wanted := self.host_times.at()) != 1.0:
            columns = at_times(columns, meta.host_times, wanted)
        if self.kernel_costs is not None and (factor := self.kernel_costs.at("low")) != 1.0:
            share = math.log(factor) / math.log(self.kernel_costs.high)
            columns = _at_costs(recording, columns, {name: error**share for name, error in meta.cost_errors.items()})
        return recording if columns is recording.columns else attrs.evolve(recording, columns=columns)


_SECTOR: Final = 32


def _at_costs(
    recording: Recording, columns: Mapping[str, Column], factors: Mapping[str, float]
) -> Mapping[str, Column]:
    """Return the columns with the work of each traced launch multiplied by the factor of its kernel."""
    dictionaries = recording.dictionaries
    by_kernel = np.array([factors.get(name, 1.0) for name in dictionaries.kernels] + [1.0])
    kernels = np.array([site.kernel for site in dictionaries.sites] or [NONE], "i4")
    launched = (columns["record.step"] == Step.DIRECTIVE) & (columns["record.launch"] != NONE)
    traces = columns["launch.trace"][columns["record.launch"][launched]]
    of_trace = np.ones(len(columns["trace.launch"]) + 1)  # index -1 finds the last entry
    of_trace[traces] = by_kernel[kernels[columns["record.subject"][launched]]]
    of_trace = of_trace[:-1]
    of_use = np.repeat(of_trace, np.diff(columns["trace.first"].astype("i8")))
    of_launch = np.ones(len(columns["launch.trip"]))
    of_launch[columns["trace.launch"]] = of_trace
    room = columns["use.nbytes"] // _SECTOR + 2
    changed = {"launch.counts": _times(columns["launch.counts"], of_launch[:, None])}
    for verb in ("read", "written"):
        once = _times(columns[f"use.sectors_{verb}"], of_use)
        changed[f"use.sectors_{verb}"] = np.minimum(once, np.maximum(room, columns[f"use.sectors_{verb}"]))
        changed[f"use.team_sectors_{verb}"] = _times(columns[f"use.team_sectors_{verb}"], of_use)
    return {**columns, **changed}


def _times(column: Column, factors: Column) -> Column:
    product: Column = np.rint(column.astype("f8") * factors).astype(column.dtype)
    return product


def ranges_by_threads(
    program: str, metas: Iterable[tuple[int, Meta]], known: Sequence[int]
) -> dict[int, RecordedRanges]:
    """Return the ranges of a recorded program's host times and kernel costs, by number of host threads.

    program: the recording's name, with which the ranges' names begin. metas: (number of host threads, `Meta`) of each
    process. known: all numbers of host threads that were recorded, in the result's order.
    """
    ordered = sorted(metas, key=lambda one: known.index(one[0]))
    return {
        threads: RecordedRanges.of(
            program if len(known) == 1 else f"{program}.{threads}_threads", [meta for _, meta in group]
        )
        for threads, group in itertools.groupby(ordered, key=lambda one: one[0])
    }
