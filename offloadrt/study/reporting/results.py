"""`Result`, the record of a run, and the tables made from results.

The same record serves people, programs and later comparisons.
"""

from __future__ import annotations

import math
import re
import reprlib
import statistics
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import msgspec
import numpy as np

from offloadrt.registry import Registry
from offloadrt.runtime.device import ResultSection
from offloadrt.sim import Figures, LockUse
from offloadrt.study.errors import ScenarioRefused, UserError, installed, library, writing
from offloadrt.study.reporting.words import Cell, counted, seconds
from offloadrt.study.scripts.parameters import Value
from offloadrt.trace import CallStatistics

if TYPE_CHECKING:
    import pandas
    import polars

_DRAWINGS: Final = Registry[Any]("part that draws", "offloadrt.drawings")


def drawing(*, needed: bool = True) -> Any:
    """Return the module `extensions.drawing.figures`; without it, raise UserError if `needed`, else return None."""
    try:
        return installed(_DRAWINGS, "figures")
    except UserError:
        if needed:
            raise
        return None


def html_of(shown: object) -> str | None:
    """Return the HTML that shows a result, comparison or sweep (`shown`) in a notebook; None without an extension."""
    figures = drawing(needed=False)
    return None if figures is None else figures.html_of(shown)


CallFigures = CallStatistics
"""The name by which papers' judges import the class. It must stay: stored reports hold a digest of the judges' code."""
REDRAWN: dict[int, Callable[..., Any]] = {}
"""Functions that repeat a run and draw it over virtual time, by the `id` of its result, while the result is alive."""


@attrs.frozen
class DeviceFigures(Figures):
    """The virtual seconds of one part of the machine: a copy engine, a hardware queue, or the cores.

    busy_s: time in which the part works. idle_s: the rest of the time. wait_s: waits for the part, in total.
    """

    busy_s: float
    idle_s: float
    wait_s: float


@attrs.frozen
class Bytes:
    """Bytes that copies moved: to a device (h2d), to the host (d2h), within a device (d2d), between devices (p2p)."""

    h2d: int = 0
    d2h: int = 0
    d2d: int = 0
    p2p: int = 0


@attrs.frozen
class ManagedFigures(Figures):
    """Counts page faults of GPU (`faults`) and CPU (`host_faults`) on an object's managed memory, and bytes moved.

    `bytes_htod` and `bytes_dtoh` migrated; kernels accessed `remote_bytes` over the link.
    """

    faults: int
    host_faults: int
    bytes_htod: int
    bytes_dtoh: int
    remote_bytes: int


@attrs.frozen
class TimeShare:
    """Host-thread time of one category: virtual seconds, and their share (0 to 1) of all host threads' lifetimes."""

    total_s: float
    share: float


@attrs.frozen
class SampledPhase:
    """Says how a phase was sampled: a few of its repetitions (instances) were run, and the rest was estimated."""

    threads: int
    """The number of threads that ran the phase at the same time."""
    instances: int
    skipped: int
    """The number of instances that were not run."""
    skipped_s: float
    """The estimated virtual seconds of the skipped instances, from the mean of the instances that were run."""
    error_s: float
    """The standard error of `skipped_s` in seconds. If the threads had not settled, their drift is included."""
    settled: bool = True
    """False if the instances of the threads were still changing when the measured ones were run."""

    def __str__(self) -> str:
        threads = "" if self.threads == 1 else f" on each of {self.threads} threads"
        run = self.instances - self.skipped
        return (
            f"{run} of {self.instances} instances of a repeated phase were run{threads}; the others take "
            f"{seconds(self.skipped_s)} by estimate, with a standard error of {seconds(self.error_s)}"
            + ("" if self.settled else "; the threads were still falling out of step, so it may be more")
        )


@attrs.frozen
class Interval:
    """The interval of a number over draws: runs that take a random value in each range of the machine's profile.

    In 80 % of the draws the number lies from `low` to `high`; `median` is the middle draw's. `nominal` is the number
    with every range at its mean. The seed and the number of draws determine the samples (`study/certainty.py`).
    """

    nominal: float
    median: float
    low: float
    high: float
    seed: int
    values: tuple[float, ...]
    """The number's value in each draw."""

    @classmethod
    def of(cls, nominal: float, values: Sequence[float], seed: int) -> Interval:
        """Compute the interval of `values`, one for each draw; quantiles between values are interpolated."""
        low, median, high = (_quantile(sorted(values), share) for share in (0.1, 0.5, 0.9))
        return cls(nominal, median, low, high, seed, tuple(values))

    @property
    def draws(self) -> int:
        """Return how many draws (runs with random samples of the uncertain costs) the interval is based on."""
        return len(self.values)

    def __str__(self) -> str:
        return f"{seconds(self.low)} to {seconds(self.high)} in 80 % of {counted(self.draws, 'draw')}"


@attrs.frozen
class PredictionInterval:
    """The range, `low` to `high` in seconds, in which a real machine's elapsed time should lie in four of five cases.

    It is the interval of the draws (random samples of uncertain costs), widened at both ends by `factor`: the real
    times of four in five similar programs lay within intervals widened so. `basis` says which programs these are.
    """

    low: float
    high: float
    factor: float
    basis: str

    def __str__(self) -> str:
        between = f"{seconds(self.low)} to {seconds(self.high)}"
        return f"on a real machine: {between} in four of five cases. The draws are of costs alone; {self.basis}"


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return the quantile `share` (0 to 1) of ascending values, which all have the same weight."""
    rank = max(0.0, min(share * len(ordered) - 0.5, len(ordered) - 1.0))
    below = int(rank)
    low, high = ordered[below], ordered[min(below + 1, len(ordered) - 1)]
    return low if low == high else low + (high - low) * (rank - below)


@attrs.frozen
class Result:
    """The record of one run. `measured` has what the scenario returned.

    `elapsed_s`, calls, locks, devices, bytes, faults, managed and where_time_went cover the measured windows (parts of
    the run that the program marks), or the whole run when there are none. `locks` has only locks that were taken in
    that time. `events` (the number of timers set) and the trace hash cover the whole run.
    """

    scenario: str
    parameters: dict[str, Value]
    machine: str
    runtime: str
    seed: int
    elapsed_s: float
    measured: dict[str, Value]
    calls: dict[str, CallStatistics]
    locks: dict[str, LockUse]
    devices: dict[str, DeviceFigures]
    bytes: Bytes
    faults: dict[str, int]
    """The counts of page faults by name (`RunStatistics.faults`); empty on a machine without page faults."""
    events: int
    trace_hash: str | None
    """Hash over time, actor, kind and sizes of every event; None unless a trace was asked for."""
    where_time_went: dict[str, TimeShare]
    options: dict[str, str | dict[str, str | float]] = attrs.field(factory=dict)
    """The options of the run that differ from the defaults: `overrides` of the machine's entries, `environment`, the
    `range_end` of entries, quantiles of `inputs`, `phases`, `gear` and `strategy`.
    """
    inputs: dict[str, float] = attrs.field(factory=dict)
    """The values that the program used for inputs with a range."""
    calls_outside: dict[str, CallStatistics] = attrs.field(factory=dict)
    """Calls outside of the measured windows (the parts that the program marks): start-up and exit."""
    sections: dict[str, ResultSection] = attrs.field(factory=dict)
    """The memory configuration's own figures of the run; in the JSON each section is a field under its own name."""
    managed: dict[str, ManagedFigures] = attrs.field(factory=dict)
    """Managed memory by name of the object, with sums over objects in `faults`; empty without managed memory."""
    algorithms: dict[str, int] = attrs.field(factory=dict)
    """Counts of a stdpar program's algorithms (`RunStatistics.algorithms`); empty for other models."""
    phases: list[SampledPhase] = attrs.field(factory=list)
    """The sampled phases. All figures include an estimate of the repetitions (instances) that were skipped."""
    warnings: list[str] = attrs.field(factory=list)
    """Likely mistakes, such as an override far outside of its entry's range, or more host threads than cores."""
    repeats: list[RepeatedRun] = attrs.field(factory=list)
    """Every run of a repeated measurement, this run included; empty for a single run."""
    spreads: dict[str, Spread] = attrs.field(factory=dict)
    """`elapsed_s` and every measured number over the repeated runs; empty for a single run."""
    intervals: dict[str, Interval] = attrs.field(factory=dict)
    """`elapsed_s` and measured numbers over draws of the uncertain costs; empty without draws. Figures that do not vary
    are left out."""
    prediction_interval: PredictionInterval | None = None
    """For `elapsed_s`; None without its interval of draws, or where no similar program was measured."""

    @property
    def interval(self) -> Interval | None:
        """Return the elapsed time's `Interval` over random samples of uncertain costs; None if no samples were run."""
        return self.intervals.get("elapsed_s")

    @property
    def draws(self) -> int:
        """Return how many draws (random samples of uncertain costs) the intervals are based on; 0 without intervals."""
        return max((interval.draws for interval in self.intervals.values()), default=0)

    def figures(self, section: str) -> Mapping[str, Any]:
        """Return what the memory configuration added to the result under a name, such as `otm` (`sections`), or {}."""
        made = self.sections.get(section)
        return {} if made is None else made.figures

    def all_calls(self) -> dict[str, CallStatistics]:
        """Return all API calls of the run, by name, inside and outside the measured windows, as a profiler counts."""
        outside = self.calls_outside
        return {
            name: self.calls[name].joined(outside[name])
            if name in self.calls and name in outside
            else self.calls.get(name) or outside[name]
            for name in {**self.calls, **outside}
        }

    def figure(self) -> Any:
        """Draw where the host threads' time went, as a figure of matplotlib. Raises UserError if it cannot be drawn."""
        return drawing().time_figure(self)

    def timeline(self, **keywords: Any) -> Any:
        """Draw the run over virtual time by `offloadrt.timeline`: `result.timeline(window_s=(0.0, 1e-3))`.

        The run is repeated for this, with the same events. UserError for a result not made by `offloadrt.execute` here.
        """
        if id(self) not in REDRAWN:
            raise UserError("only what `offloadrt.execute` returns is drawn; write `offloadrt.timeline(SCENARIO, ...)`")
        return REDRAWN[id(self)](**keywords)

    def to_polars(self) -> polars.DataFrame:
        """Return a polars frame with one row, as the function `to_polars` makes for several results."""
        return to_polars([self])

    def to_pandas(self) -> pandas.DataFrame:
        """Return a pandas frame with one row, as `to_pandas` makes it. Raises UserError without pandas."""
        return to_pandas([self])

    def _repr_html_(self) -> str | None:
        return html_of(self)


@attrs.frozen
class RepeatedRun:
    """One of several runs with different seeds. `measured` has what the scenario returned."""

    seed: int
    elapsed_s: float
    measured: dict[str, Value]
    trace_hash: str | None


@attrs.frozen
class Spread:
    """A measured number's median, mean and coefficient of variation (`cov`) over repeated runs.

    The median of an even number of runs is the mean of the middle two. The coefficient of variation is the sample
    standard deviation over the mean, None where the mean is 0.
    """

    median: float
    mean: float
    cov: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Compute the spread of a number's values in at least two runs."""
        mean = math.fsum(values) / len(values)
        deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
        return cls(float(statistics.median(values)), mean, deviation / abs(mean) if mean else None)


_LEFT_OUT_WHEN_EMPTY = (
    "options", "inputs", "warnings", "repeats", "spreads", "calls_outside", "managed", "algorithms", "phases",
    "intervals", "prediction_interval",
)  # fmt: skip


def builtins(result: Result) -> dict[str, Any]:
    """Convert a result to dicts, lists, numbers and texts, as JSON has them.

    Some fields are left out when they are empty: `repeats` and `spreads` (one run), `intervals` and
    `prediction_interval` (no draws of uncertain costs), `options`, `inputs`, `warnings`, `calls_outside`, `managed`,
    `algorithms`, `phases`, and each of `sections`, which becomes a field of its own.
    """
    record: dict[str, Any] = {}
    for name, value in attrs.asdict(result).items():
        if name == "sections":
            record |= {section: made["figures"] for section, made in value.items() if made["figures"]}
        elif value or name not in _LEFT_OUT_WHEN_EMPTY:
            record[name] = value
    return record


def from_builtins(record: Mapping[str, Any]) -> Result:
    """Return the result from the output of `builtins`; fields that `Result` lacks become its `sections`.

    Raises msgspec.ValidationError for a record that is no result.
    """
    record = msgspec.convert(record, dict[str, Any])
    fields = {field.name for field in attrs.fields(Result)}
    result = msgspec.convert({name: value for name, value in record.items() if name in fields}, Result)
    sections = {name: ResultSection(value) for name, value in record.items() if name not in fields}
    return attrs.evolve(result, sections=sections)


def to_json(result: Result) -> bytes:
    """Encode the result as one JSON object on one line."""
    return msgspec.json.encode(builtins(result))


def median(results: list[Result]) -> Result:
    """Return the run with the median elapsed time; for an even number of runs, the lower of the middle two.

    The returned result describes all runs in `repeats` and `spreads` if there are several.
    """
    if len(results) == 1:
        return results[0]
    middle = sorted(results, key=lambda result: (result.elapsed_s, result.seed))[(len(results) - 1) // 2]
    repeats = [RepeatedRun(result.seed, result.elapsed_s, result.measured, result.trace_hash) for result in results]
    return attrs.evolve(middle, repeats=repeats, spreads=_spreads(results))


def _spreads(results: Sequence[Result]) -> dict[str, Spread]:
    spreads = {"elapsed_s": Spread.of([result.elapsed_s for result in results])}
    for name in results[0].measured:
        values = [result.measured.get(name) for result in results]
        numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
        if len(numbers) == len(values) and name not in spreads:
            spreads[name] = Spread.of(numbers)
    return spreads


def measured_of(returned: object, scenario: str) -> dict[str, Value]:
    """Return the figures (numbers, texts, bools, None) that a scenario returned; NumPy scalars become Python's.

    Raises ScenarioRefused, with a message for the scenario's author, for anything but a dict of finite figures.
    """
    if returned is None:
        return {}
    if not isinstance(returned, Mapping):
        if isinstance(returned, Coroutine):
            returned.close()  # so that Python does not warn of it, too
        kind = type(returned).__name__
        raise ScenarioRefused(f"scenario {scenario} returned {kind}; it returns a dict of figures, or nothing")
    measured: dict[str, Value] = {}
    for name, value in returned.items():
        plain = value.item() if isinstance(value, np.generic | np.ndarray) and np.size(value) == 1 else value
        large = isinstance(plain, int) and abs(plain) > sys.float_info.max  # too long for Python to write
        shown = "an int beyond all floats" if large else reprlib.repr(value)
        told = f"scenario {scenario} returned {reprlib.repr(name)}: {shown}"
        if not isinstance(name, str) or not isinstance(plain, int | float | bool | str | None):
            shape = f" of shape {value.shape}" if isinstance(value, np.ndarray) else ""
            raise ScenarioRefused(f"{told}{shape}; figures are numbers, texts, true, false or None")
        if isinstance(plain, int | float) and not abs(plain) <= sys.float_info.max:
            raise ScenarioRefused(f"{told}; a figure is finite, or None")
        for text in (name, plain):
            if isinstance(text, str) and not text.isprintable():
                raise ScenarioRefused(f"{told}; names and texts are of printable characters, on one line")
        measured[name] = plain
    return measured


_GROUPS = ("calls", "locks", "devices", "bytes", "faults", "where_time_went")
_LAST_GROUPS = ("managed", "algorithms")


def row(result: Result) -> dict[str, Cell]:
    """Flatten one result into a table row, whose columns have names such as `calls.cuMemAlloc.total_s`."""
    cells: dict[str, Cell] = {"scenario": result.scenario, **result.parameters}
    for name in ("machine", "runtime"):
        cells.setdefault(name, getattr(result, name))  # unless a parameter has that name
    cells |= {"seed": result.seed, "elapsed_s": result.elapsed_s}
    for name, value in result.measured.items():
        cells[f"measured.{name}" if name in cells else name] = value
    rest = builtins(result)
    cells |= _flat("options", result.options)
    for group in (*_GROUPS, *result.sections, *_LAST_GROUPS):
        cells |= _flat(group, rest.get(group, {}))
    cells |= {"events": result.events, "trace_hash": result.trace_hash}
    return cells | _ends(result)


def _ends(result: Result) -> dict[str, Cell]:
    cells: dict[str, Cell] = {
        f"{name}.{end}": getattr(interval, end)
        for name, interval in result.intervals.items()
        for end in ("low", "median", "high")
    }
    if (real := result.prediction_interval) is not None:
        cells |= {"prediction_interval.low": real.low, "prediction_interval.high": real.high}
    return cells


def _flat(prefix: str, value: Any) -> dict[str, Cell]:
    if not isinstance(value, Mapping):
        return {prefix: value}
    cells: dict[str, Cell] = {}
    for name, inner in value.items():
        cells |= _flat(f"{prefix}.{name}", inner)
    return cells


def _columns(results: Sequence[Result]) -> dict[str, list[Cell]]:
    rows = [row(result) for result in results]
    last = dict.fromkeys(name for result in results for name in _ends(result))
    names = [*dict.fromkeys(name for cells in rows for name in cells if name not in last), *last]
    return {name: [cells.get(name) for cells in rows] for name in names}


def to_polars(results: Sequence[Result]) -> polars.DataFrame:
    """Put results into a data frame of polars, one row each; cells of columns that a run lacks are null.

    Raises UserError when polars is not installed.
    """
    series = library("polars").Series
    columns = {name: series(name, values, strict=False) for name, values in _columns(results).items()}
    table: polars.DataFrame = library("polars").DataFrame(columns)
    return table


def to_pandas(results: Sequence[Result]) -> pandas.DataFrame:
    """Put results into a data frame of pandas, one row each; cells of numbers that a run lacks are NaN.

    Raises UserError when pandas is not installed.
    """
    table: pandas.DataFrame = library("pandas", "pandas").DataFrame(_columns(results))
    return table


def write_tables(results: Sequence[Result], folder: Path, *, stem: str = "results", full: bool = True) -> list[Path]:
    """Write the results as `stem.parquet` and `stem.csv` into `folder`, and return the paths.

    full: the CSV file has every column, as the Parquet file has. Otherwise it has the run's inputs and measured
    figures, without the counts of each call, lock and part of the machine. UserError when they cannot be written.
    """
    table = to_polars(results)
    parquet, csv = folder / f"{stem}.parquet", folder / f"{stem}.csv"
    kept = [name for name in table.columns if "." not in name or re.match(r"options\.|.*\.(median|low|high)$", name)]
    short = table if full else table.select(kept)
    for path, write_to in (parquet, table.write_parquet), (csv, short.write_csv):
        in_memory = BytesIO()  # polars has errors of its own for a file that cannot be written
        write_to(in_memory)
        with writing(path) as part:
            part.write_bytes(in_memory.getvalue())
    return [parquet, csv]
