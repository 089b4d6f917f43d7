"""`offloadrt compare`: one scenario under several values of its parameters, each set beside a baseline.

    with executor("process", 2) as pool:
        comparison = compare(find_scenario("exahype"), {"memory": ("map", "pool"), "threads": (8,)}, pool, jobs=2)
    comparison.cases[0].variants[1].figures["elapsed_s"].ratio

A ratio is time(baseline) / time(variant), as in the papers' figures: above 1 the variant is faster. With draws,
`comparison.order` ranks the variants by their times at many random draws in the ranges of their machines' profiles.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import msgspec

from offloadrt.study.certainty import NO_DRAWS, Effort, Ranking, uncertainty
from offloadrt.study.errors import ParameterError, ScriptFailed, UserError, did_you_mean, library, writing
from offloadrt.study.reporting.results import Result, TimeShare, builtins, drawing, html_of, row
from offloadrt.study.reporting.words import Cell, is_number
from offloadrt.study.running import profiles
from offloadrt.study.scripts.definition import Figure, Scenario
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import Failure, SweepOutcome, grid, read_axis, read_value, sweep
from offloadrt.trace import CallStatistics

if TYPE_CHECKING:
    import pandas
    import polars

ELAPSED = "elapsed_s"
MOST = 3
"""Largest number of host-time categories that are shown for each pair of runs."""
_ENDS = "", "_ratio", "_cov"
"""Suffixes of a figure's three columns in a table, in the order of the fields of `Compared`."""
_NO_CALLS = CallStatistics(0, 0.0, 0.0, 0.0, 0.0)
_NO_TIME = TimeShare(0.0, 0.0)


@attrs.frozen
class Compared:
    """A measured number of a variant (a compared run): its value, or the median if the variant was run several times.

    `ratio` is the baseline's value over the variant's; it is None if the variant's value is 0. `cov` is the coefficient
    of variation over the runs, None for one run.
    """

    value: float
    ratio: float | None
    cov: float | None = None


@attrs.frozen
class ComparedCall:
    """All calls of one API function in a compared run (variant), and the sum of their latencies in virtual seconds.

    `ratio` is the baseline's sum over the variant's, None if the variant's is 0.
    """

    count: int
    total_s: float
    ratio: float | None


@attrs.frozen
class Difference:
    """Host threads' time of one category in the baseline run and the variant: virtual seconds, and shares (0 to 1)."""

    category: str
    baseline_s: float
    variant_s: float
    baseline_share: float
    variant_share: float

    @property
    def more_s(self) -> float:
        """Return the virtual seconds that the variant spent in this category beyond the baseline's; may be negative."""
        return self.variant_s - self.baseline_s


@attrs.frozen
class ComparedVariant:
    """A variant's run, or the median of its several runs, compared with the baseline.

    `differences` has the largest differences from the baseline in host-thread time; it is empty for a baseline.
    `figures` has the compared numbers by name.
    """

    parameters: dict[str, Value]
    """The run's values of the parameters in which it may differ from its baseline."""
    figures: dict[str, Compared]
    calls: dict[str, ComparedCall]
    """The calls of the whole run, start-up included, by name. Calls of any variant of the case are present; the
    call with the baseline's largest sum comes first.
    """
    differences: list[Difference]
    result: Result


@attrs.frozen
class RefusedVariant:
    """A variant (combination of swept values) that cannot be run, with the reason."""

    parameters: dict[str, Value]
    """The variant's values of the swept parameters."""
    reason: str


@attrs.frozen
class Case:
    """A baseline and the variants compared with it, the baseline first. parameters: those equal in all of them."""

    parameters: dict[str, Value]
    variants: list[ComparedVariant]
    order: Ranking | None = None
    """The ranking by draws (runs with random costs); None without draws, or if no draw changes a run."""


@attrs.frozen
class Comparison:
    """The runs that `compare` made (each the median of `repeat` runs), in cases: one baseline with its variants."""

    scenario: str
    machine: str
    runtime: str
    seed: int
    repeat: int
    fixed: dict[str, Value]
    """Values of the parameters that no run of the comparison varies."""
    baseline: dict[str, Value]
    measures: tuple[str, ...]
    """The names of the compared numbers, `elapsed_s` first."""
    cases: list[Case]
    refused: list[RefusedVariant]
    """Variants that cannot be run."""
    whole_run: bool
    """Whether some calls were outside of the measured windows; the variants' `calls` include those, too."""

    @property
    def results(self) -> list[Result]:
        """Return the result of every run: for each baseline (a case), the baseline first, then its variants."""
        return [variant.result for case in self.cases for variant in case.variants]

    @property
    def order(self) -> Ranking | None:
        """Return the ranking of the variants if all are compared with one baseline (a single case), else None."""
        return self.cases[0].order if len(self.cases) == 1 else None

    def rows(self) -> list[dict[str, Cell]]:
        """Return a row for each run: the swept parameters; each measure with its ratio and coefficient of variation."""
        return [
            {**case.parameters, **variant.parameters}
            | {f"{name}{end}": cell for name in self.measures
               for end, cell in zip(_ENDS, attrs.astuple(variant.figures[name]), strict=True)}
            for case in self.cases for variant in case.variants
        ]  # fmt: skip

    def to_polars(self) -> polars.DataFrame:
        """Return `rows` as a data frame of polars. Raises UserError when polars is not installed."""
        table: polars.DataFrame = library("polars").DataFrame(self.rows(), infer_schema_length=None)
        return table

    def to_pandas(self) -> pandas.DataFrame:
        """Return `rows` as a data frame of pandas. Raises UserError when pandas is not installed."""
        table: pandas.DataFrame = library("pandas", "pandas").DataFrame(self.rows())
        return table

    def figure(self, of: Figure | None = None, machine: str | None = None, **changes: Any) -> Any:
        """Draw the ratio (baseline over variant) of one measure for all variants, as a figure of matplotlib.

        of: the scenario's own figure, whose style is kept. machine: the one that it is about; its published values are
        drawn only for runs there. `changes`: fields of `Figure`, such as x, y and lines. Raises UserError when no
        parameter can be x, or without matplotlib.
        """
        drawn = self._figure(of, machine)
        if drawn is None:
            raise UserError(f"{self.scenario}: nothing was compared that can lie along x")
        return drawing().canvas_of(attrs.evolve(drawn, **changes), self.results)

    def _figure(self, of: Figure | None, machine: str | None, asked: Sequence[str] = ()) -> Figure | None:
        names = (*self.cases[0].parameters, *self.baseline)
        swept = {name: tuple(dict.fromkeys(one.parameters[name] for one in self.results)) for name in names}
        drawn: Figure | None = drawing().figure_for(of, swept, self.results, machine)
        if drawn is None:
            return None
        y = next(iter(asked), drawn.y if of is not None else ELAPSED)
        if drawn.y != y:
            drawn = attrs.evolve(drawn, y=y, ylabel=None, published=())
        return attrs.evolve(drawn, baseline=self.baseline)

    def to_json(self) -> bytes:
        """Encode the comparison as one JSON object on one line."""
        record = attrs.asdict(self, recurse=True)
        for case, plain in zip(self.cases, record["cases"], strict=True):
            for variant, entry in zip(case.variants, plain["variants"], strict=True):
                entry["result"] = builtins(variant.result)
        return msgspec.json.encode(record)

    def _repr_html_(self) -> str | None:
        return html_of(self)


def compare(
    scenario: Scenario,
    axes: Mapping[str, Sequence[Any]],
    pool: Executor,
    *,
    baseline: Mapping[str, Any] | None = None,
    measures: Sequence[str] = (),
    options: RunSpec | None = None,
    jobs: int = 1,
    effort: Effort = NO_DRAWS,
    advanced: Callable[[SweepOutcome], None] | None = None,
    stage: Callable[[str, int, int], object] = lambda name, done, asked: None,
) -> Comparison:
    """Run all combinations of `axes`, `jobs` at a time on `pool`, and set them side by side.

    Texts among the values are read as on the command line; an axis may also be `machine`, `runtime` or `configuration`.
    `options` are for all runs.

    `baseline` has one value for some swept parameters: runs that agree in all other swept parameters form a case. By
    default it is `Scenario.figure.baseline`, else the first value of every swept parameter, so that all runs are
    compared with one. When `axes` sweeps nothing, the scenario's own sweep is compared. `measures` are numbers to
    compare besides the elapsed time, named as the scenario returns them or as columns of its table of results; by
    default `Scenario.measures`. `effort` says how many draws (random samples of the uncertain costs) rank the variants.
    `advanced` is called after each run, `stage` with (name of the present stage, runs done, runs requested).

    Raises UserError when nothing is swept, for a baseline that is none of the values, for a measure that is no number,
    and when a baseline cannot be run; ScriptFailed when the program raises; ParameterError for a bad parameter.
    """
    options = options or RunSpec()
    read = read_axes(scenario, axes)
    chosen = baseline_of(scenario, read, baseline or {})
    swept = swept_in(read)
    points = grid(scenario, read, options)
    for machine, runtime in dict.fromkeys((point.options.machine, point.options.runtime) for point in points):
        chosen_machine = profiles.machine_of(scenario.name, scenario.path, scenario.machine, machine)
        profiles.load(chosen_machine, options.overrides, options.range_end or "mean", runtime or scenario.runtime)
    names = (ELAPSED, *(name for name in measures or scenario.measures if name != ELAPSED))
    check_measures(measures, scenario)

    def looked_at(outcome: SweepOutcome) -> None:
        refuse_failures(outcome, read, chosen)
        if outcome.finished:
            for name in names:
                _known(name, outcome.finished)
        if advanced is not None:
            advanced(outcome)

    outcome = sweep(points, pool, jobs=jobs, advanced=looked_at)
    cases: dict[tuple[Value, ...], list[Result]] = {}
    for result in outcome.finished:
        place = tuple(result.parameters[name] for name in swept if name not in chosen)
        cases.setdefault(place, []).append(result)
    first = outcome.finished[0]
    compared = [
        Case({name: of[0].parameters[name] for name in swept if name not in chosen}, _variants(of, chosen, names))
        for of in cases.values()
    ]
    if effort.draws != 0:
        compared = uncertainty().ordered(compared, outcome, pool, effort, jobs, stage)
    return Comparison(
        scenario=scenario.name,
        machine=", ".join(dict.fromkeys(result.machine for result in outcome.finished)),
        runtime=", ".join(dict.fromkeys(result.runtime for result in outcome.finished)),
        seed=options.seed,
        repeat=options.repeat,
        fixed={name: value for name, value in first.parameters.items() if name not in swept},
        baseline=chosen,
        measures=names,
        cases=compared,
        refused=[
            RefusedVariant({name: failure.point.axis_values[name] for name in swept}, failure.message)
            for failure in refuse_failures(outcome, read, chosen)
        ],
        whole_run=any(result.calls_outside for result in outcome.finished),
    )


def write(comparison: Comparison, folder: Path, *, stem: str = "comparison") -> list[Path]:
    """Write two CSV files into `folder`: the runs with their figures and ratios, and the API calls of each run.

    The files are `stem.csv` and `stem_calls.csv`; returns their paths. Raises UserError when they cannot be written.
    """
    ratios, calls = folder / f"{stem}.csv", folder / f"{stem}_calls.csv"
    names = [*comparison.cases[0].parameters, *comparison.baseline]
    runs = [
        ({**case.parameters, **variant.parameters}, variant) for case in comparison.cases for variant in case.variants
    ]
    lines = comparison.rows()
    counted = [
        [*place.values(), name, call.count, call.total_s, call.ratio]
        for place, variant in runs
        for name, call in variant.calls.items()
    ]
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for path, head, rows in (
            (ratios, lines[0], [cells.values() for cells in lines]),
            (calls, [*names, "call", "count", "total_s", "ratio"], counted),
        ):
            with writing(path) as part, part.open("w", newline="", encoding="utf-8") as file:
                csv.writer(file, lineterminator="\n").writerows([head, *rows])
    return [ratios, calls]


def draw(comparison: Comparison, scenario: Scenario, folder: Path) -> list[Path]:
    """Draw the ratios of one measure over the swept parameters, as picture files; return their paths.

    The measure is the first requested one, else `Scenario.figure.y`, else the elapsed time. Nothing is drawn if no
    parameter can be x, or if the extension that draws is not installed. Pictures of an earlier comparison are deleted
    in any case. Raises UserError if only matplotlib is missing.
    """
    figures = drawing(needed=False)
    if figures is None:
        return []
    figures.delete(folder, stem="comparison")
    asked = [name for name in comparison.measures[1:] if name not in scenario.measures]
    figure = comparison._figure(scenario.figure, scenario.machine, asked)
    return [] if figure is None else figures.draw(figure, comparison.results, folder, stem="comparison")


def read_axes(scenario: Scenario, axes: Mapping[str, Sequence[Any]]) -> dict[str, tuple[Value, ...]]:
    """Read the values of the axes. If no axis has several values, add the axes of the scenario's own sweep.

    Raises UserError if nothing is swept even then; ParameterError for a bad value, and for a value given twice.
    """
    if all(len(values) < 2 for values in axes.values()):
        axes = {**scenario.sweep, **axes}
    read = {name: read_axis(scenario, name, values) for name, values in axes.items()}
    if not swept_in(read):
        raise UserError(
            "compare: give a parameter the values to compare, as in configuration=copy,usm, or an option, as in "
            "--machine h100,mi300a"
        )
    return read


def swept_in(read: Mapping[str, Sequence[Value]]) -> dict[str, Sequence[Value]]:
    """Return the parameters among `read` (the values of each parameter) that have several values."""
    return {name: values for name, values in read.items() if len(values) > 1}


def refuse_failures(
    outcome: SweepOutcome, swept: Iterable[str], baseline: Mapping[str, Value] | None = None
) -> list[Failure]:
    """Raise the first failure of a sweep over the parameters `swept`: ScriptFailed if the program raised, or UserError.

    If a `baseline` (values by parameter) is given, only its runs must succeed; the failures of other runs are returned.
    """
    refused = []
    for failure in outcome.failures:
        place = failure.point.axis_values
        of_variant = baseline is not None and any(place[name] != value for name, value in baseline.items())
        if failure.of_program or not of_variant:
            named = ", ".join(f"{name}={place[name]}" for name in swept)
            raise (ScriptFailed if failure.of_program else UserError)(f"compare: {named}: {failure.message}")
        refused.append(failure)
    return refused


def baseline_of(scenario: Scenario, read: Mapping[str, Sequence[Value]], given: Mapping[str, Any]) -> dict[str, Value]:
    """Return the baseline's values by parameter. read: all values of each parameter; given: those the user chose."""
    swept = swept_in(read)
    if not given:
        drawn = {} if scenario.figure is None else scenario.figure.baseline
        if drawn and all(value in swept.get(name, ()) for name, value in drawn.items()):
            return dict(drawn)
        return {name: values[0] for name, values in swept.items()}
    chosen = {}
    for name, text in given.items():
        if name not in swept:
            raise ParameterError(
                name, f"the baseline names it, and it has no two values{did_you_mean(name, swept)} "
                f"(compared: {', '.join(swept)})"
            )  # fmt: skip
        chosen[name] = read_value(scenario, name, text)
        if chosen[name] not in swept[name]:
            raise ParameterError(
                name, f"the baseline {chosen[name]} is not among the values {', '.join(map(str, swept[name]))}"
            )
    return chosen


def _variants(results: Sequence[Result], chosen: Mapping[str, Value], measures: Sequence[str]) -> list[ComparedVariant]:
    """Return the results of a case as variants, each compared with the case's baseline, which comes first."""
    base = next(one for one in results if all(one.parameters[name] == value for name, value in chosen.items()))
    ordered = [base, *(variant for variant in results if variant is not base)]
    calls = {id(variant): variant.all_calls() for variant in ordered}
    names = list(dict.fromkeys(name for variant in ordered for name in calls[id(variant)]))
    names.sort(key=lambda name: -calls[id(base)].get(name, _NO_CALLS).total_s)
    return [
        ComparedVariant(
            parameters={name: variant.parameters[name] for name in chosen},
            figures={name: _figure(name, base, variant) for name in measures},
            calls={
                name: _call(calls[id(base)].get(name, _NO_CALLS), calls[id(variant)].get(name, _NO_CALLS))
                for name in names
            },
            differences=[] if variant is base else differences(base, variant),
            result=variant,
        )
        for variant in ordered
    ]


def _figure(name: str, base: Result, variant: Result) -> Compared:
    value = _value(name, variant)
    spread = variant.spreads.get(name)
    return Compared(value, _ratio(_value(name, base), value), None if spread is None else spread.cov)


def _value(name: str, result: Result) -> float:
    """Return a run's figure by its column name, or its median over repeated runs; 0 for a column that it lacks."""
    if name in result.spreads:
        return result.spreads[name].median
    value = row(result).get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def _known(name: str, results: Sequence[Result]) -> None:
    """Raise UserError when the runs have no numeric column of that name."""
    cells = {column: cell for result in results for column, cell in row(result).items()}
    if not is_number(cells.get(name)) and not ("." in name and len(results) < 2):
        numbers = [column for column, cell in cells.items() if is_number(cell)]
        raise _no_number("--measure", name, numbers, [column for column in numbers if column in results[0].measured])


def _no_number(option: str, name: str, numbers: Sequence[str], measured: Sequence[str]) -> UserError:
    near = did_you_mean(name, numbers)
    return UserError(f"{option} {name}: no number of that name{near} (measured: {', '.join(measured) or 'none'})")


def check_measures(names: Sequence[str], scenario: Scenario, option: str = "--measure") -> None:
    """Raise UserError, naming `option`, for a measure in `names` that the scenario's source does not return."""
    measured = scenario.returned_names()
    numbers = [ELAPSED, "seed", "events", *scenario.parameters, *(measured or ())]
    for name in () if measured is None else names:
        if name not in numbers and "." not in name:
            raise _no_number(option, name, numbers, measured or ())


def _call(base: CallStatistics, variant: CallStatistics) -> ComparedCall:
    return ComparedCall(variant.count, variant.total_s, _ratio(base.total_s, variant.total_s))


def _ratio(base: float, other: float) -> float | None:
    return base / other if other else None


PICOSECOND = 1e-12
"""Resolution of virtual times; smaller differences come from rounding."""


def differences(base: Result, variant: Result, most: int = MOST) -> list[Difference]:
    """Return the `most` categories in which host threads' time in `variant` differs most from `base`, by seconds."""
    differing = []
    for category in dict.fromkeys((*base.where_time_went, *variant.where_time_went)):
        before, after = (of.where_time_went.get(category, _NO_TIME) for of in (base, variant))
        differing.append(Difference(category, before.total_s, after.total_s, before.share, after.share))
    differing.sort(key=lambda difference: -abs(difference.more_s))
    return [difference for difference in differing if abs(difference.more_s) >= PICOSECOND][:most]
