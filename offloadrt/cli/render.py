"""Makes what the commands print: tables, and the records of `--json`, from whose classes the schemas are made.

The entry points `offloadrt.schemas` say which class, here or in `study`, belongs to which command.
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markup import escape
from rich.table import Table

from offloadrt.study.reporting.words import counted, figure, named, percent, seconds, size, where, word
from offloadrt.study.scripts.parameters import Value

if TYPE_CHECKING:
    from offloadrt.runtime.device import ResultSection
    from offloadrt.study.certainty import RankedVariant, Ranking
    from offloadrt.study.reporting.compare import Case, Compared, ComparedVariant, Comparison
    from offloadrt.study.reporting.results import Result
    from offloadrt.study.scripts.definition import Scenario
    from offloadrt.study.scripts.listing import ListedScenario
    from offloadrt.study.sweep import SweepOutcome


@attrs.frozen
class ParameterRecord:
    """A scenario's parameter. `low`, `high`: the ends of its range, None if open; `optional`: None is a value, too."""

    name: str
    type: str
    choices: list[Value]
    low: float | None
    high: float | None
    optional: bool
    required: bool
    default: Value
    help: str


@attrs.frozen
class ScenarioRecord:
    """A scenario as `show` prints it; `sweep` has the values of each axis of the scenario's own sweep."""

    name: str
    machine: str
    runtime: str | None
    path: str | None
    description: str
    parameters: list[ParameterRecord]
    sweep: dict[str, list[Value]]

    @classmethod
    def of(cls, scenario: Scenario) -> ScenarioRecord:
        """Convert a scenario to the record that `--json` prints."""
        parameters = [
            ParameterRecord(
                found.name, found.type.__name__, list(found.choices), found.range.low, found.range.high,
                found.optional, found.required, found.default, found.help,
            )
            for found in scenario.parameters.values()
        ]  # fmt: skip
        return cls(
            name=scenario.name,
            machine=scenario.machine,
            runtime=scenario.runtime,
            path=None if scenario.path is None else str(scenario.path),
            description=scenario.description,
            parameters=parameters,
            sweep={name: list(values) for name, values in scenario.sweep.items()},
        )


@attrs.frozen
class SweepFailure:
    """A failed run of a sweep. of_program: the program itself raised an error; if False, the run could not be made."""

    parameters: dict[str, Value]
    message: str
    of_program: bool


@attrs.frozen
class SweepRecord:
    """The outcome of `sweep`: how many runs were asked for, finished, and reused from earlier, and the files written.

    `draws` is how often each point was run with a random sample of the uncertain costs; the written tables have the
    intervals of the measured values that result. `failures` are the runs that failed. `order_effects` describes steps
    from one value of an axis to the next that make runs faster with some of the samples and slower with others.
    """

    scenario: str
    runs: int
    finished: int
    kept: int
    written: list[str]
    failures: list[SweepFailure]
    draws: int = 0
    order_effects: list[str] = attrs.field(factory=list)

    @classmethod
    def of(cls, scenario: str, outcome: SweepOutcome, written: list[Any]) -> SweepRecord:
        """Convert a sweep to the record that `--json` prints; `written`: the paths of the files that it wrote."""
        failures = [
            SweepFailure(failure.point.axis_values, failure.message, failure.of_program) for failure in outcome.failures
        ]
        runs, finished = len(outcome.points), len(outcome.finished)
        files, draws = [str(path) for path in written], max((one.draws for one in outcome.finished), default=0)
        return cls(scenario, runs, finished, outcome.kept, files, failures, draws, outcome.order_effects)


def table_of(title: str, *columns: str, right: Iterable[int] = ()) -> Table:
    numbers = set(right)
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    for number, column in enumerate(columns):
        is_number = number in numbers
        table.add_column(column, justify="right" if is_number else "left", overflow="fold", no_wrap=is_number)
    return table


@attrs.frozen
class Fitting:
    """Prints the first of several tables that fits into the console's width; if none fits, prints the last one."""

    tables: Sequence[Table]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.update(width=10_000)
        fits = (table for table in self.tables if console.measure(table, options=wide).maximum <= options.max_width)
        yield next(fits, self.tables[-1])


def scenarios(entries: Sequence[ListedScenario]) -> Iterable[RenderableType]:
    """Show a line for each scenario, in a table for each group; all tables have columns of the same widths."""
    names = max((len(entry.name) for entry in entries), default=0)
    machines = max((len(entry.machine) for entry in entries), default=0)
    for group, members in itertools.groupby(entries, lambda entry: entry.group):
        table = table_of(f"\n{escape(group)}", "scenario", "machine", "what it does")
        table.columns[0].min_width, table.columns[1].min_width = names, machines
        for entry in members:
            table.add_row(entry.name, entry.machine, escape(entry.summary))
        yield table


def scenario(chosen: Scenario) -> Iterable[RenderableType]:
    """Show what a scenario does, and its parameters."""
    with_ = f" with {chosen.runtime}" if chosen.runtime else ""
    yield f"[bold]{chosen.name}[/] on {chosen.machine}{escape(with_)} ({escape(str(chosen.path))})"
    if chosen.description:
        yield "\n" + escape(chosen.description)
    if chosen.parameters:
        table = table_of("\nparameters", "name", "default", "values", "")
        for parameter in chosen.parameters.values():
            default = "(needed)" if parameter.required else word(parameter.default)
            table.add_row(parameter.name, default, escape(parameter.expected), escape(parameter.help))
        yield table
    if chosen.sweep:
        yield "\nits own sweep: " + " ".join(
            f"{name}={','.join(map(word, values))}" for name, values in chosen.sweep.items()
        )


def changed(run: Result) -> str:
    """Write the options of a run that differ from their defaults: `, alloc.cudaFree = 20us, strategy = random`."""
    words = []
    for name, value in run.options.items():
        if isinstance(value, str):
            words.append(f"{name.replace('_', ' ')} = {value}")
        else:
            at_end = " (place in its range)" if name in ("range_end", "inputs") else ""
            words += [f"{key} = {end}{at_end}" for key, end in value.items()]
    return "".join(f", {text}" for text in words)


def slowdown(elapsed_s: float, took_s: float) -> str:
    """Write how much slower the emulator was (`took_s` real seconds) than the emulated machine (`elapsed_s`)."""
    if not elapsed_s or not took_s:
        return f"the run took {seconds(took_s)} of this computer's time"
    times = took_s / elapsed_s
    slower = f"{times:.2g} times slower" if times >= 1 else f"{1 / times:.2g} times faster"
    return f"the run took {seconds(took_s)} of this computer's time: {slower} than the machine that it emulates"


def result(run: Result) -> Iterable[RenderableType]:
    """Show a run: its measured figures, how the host threads spent their time, and what the run waited for."""
    how = f"on {where(run)}, seed {run.seed}{changed(run)}"
    yield f"[bold]{run.scenario}[/] {escape(named(run.parameters))}  {escape(how)}"
    given = {**run.parameters, **run.inputs}
    if run.inputs:
        table = table_of("", "taken in a range", "value", right=(1,))
        for name, taken in run.inputs.items():
            table.add_row(escape(name), escape(figure(name, taken)))
        yield table
    draws = run.draws
    sure = ("median", f"80 % of {counted(draws, 'draw')}") if draws else ()
    table = table_of("", "measured", "value", *sure, right=(1, 2))
    table.add_row("elapsed (virtual time)", seconds(run.elapsed_s), *_sure("elapsed_s", run))
    texts = {name: value for name, value in run.measured.items() if isinstance(value, str) and len(value) > 60}
    for name, value in run.measured.items():
        if name in texts or (name in given and given[name] == value):
            continue  # an input that the program hands back, not a figure
        table.add_row(escape(name), escape(figure(name, value)), *map(escape, _sure(name, run)))
    yield table
    yield from (escape(f"{name}: {text}") for name, text in texts.items())
    if run.trace_hash is not None:
        yield f"trace hash  {run.trace_hash}"
    for phase in run.phases:
        yield str(phase)
    if run.where_time_went:
        yield where_time_went(run)
    yield from _contended(run)
    yield from _calls({name: (call.count, call.total_s, call.mean_s) for name, call in run.calls.items()})
    if run.devices:
        table = table_of("\ndevices", "", "busy", "of the time", "waited for", right=(1, 2, 3))
        for name, engine in run.devices.items():
            total_s = engine.busy_s + engine.idle_s
            if engine.busy_s or engine.wait_s:
                share = percent(engine.busy_s / total_s if total_s else 0.0)
                table.add_row(escape(name), seconds(engine.busy_s), share, seconds(round(engine.wait_s, 12)))
        yield table
        if moved := [f"{direction} {size(n)}" for direction, n in attrs.asdict(run.bytes).items() if n]:
            yield "bytes moved: " + ", ".join(moved)
    pages = {"entries": run.faults.get("faults", 0) + run.faults.get("duplicates", 0), **run.faults}
    shown = {name: size(n) if name.startswith("bytes") else n for name, n in pages.items() if n}
    if told := [f"{_FAULTS.get(name, name.replace('_', ' '))} {n}" for name, n in shown.items()]:
        yield "page faults and prefaults: " + ", ".join(told)
    if run.algorithms:
        yield "algorithms: " + ", ".join(f"{name.replace('_', ' ')} {n}" for name, n in run.algorithms.items() if n)
    yield from (_section(section) for section in run.sections.values() if section.rows)
    if any(any(attrs.astuple(usage)) for usage in run.managed.values()):
        yield _managed(run)
    if run.repeats:
        yield from _repeats(run)
    if run.prediction_interval is not None:
        yield escape(str(run.prediction_interval))


def _sure(name: str, run: Result) -> Iterable[str]:
    """Write the median of a figure over the draws, and its interval."""
    if (interval := run.intervals.get(name)) is not None:
        yield figure(name, interval.median)
        yield f"{figure(name, interval.low)} to {figure(name, interval.high)}"


def _section(section: ResultSection) -> Table:
    """Show the table of a memory configuration's own figures."""
    table = table_of(f"\n{section.title}", *section.columns, right=section.right)
    for cells in section.rows:
        table.add_row(*(size(cell) if isinstance(cell, int) else escape(cell) for cell in cells))
    return table


def _managed(run: Result) -> Table:
    """Show the page faults and the moved bytes of managed memory, object by object."""
    table = table_of(
        "\nmanaged memory by object", "", "GPU faults", "CPU faults", "to device", "to host", "over the link",
        right=(1, 2, 3, 4, 5),
    )  # fmt: skip
    for name, usage in run.managed.items():
        if any(attrs.astuple(usage)):
            moved = (usage.bytes_htod, usage.bytes_dtoh, usage.remote_bytes)
            table.add_row(escape(name), str(usage.faults), str(usage.host_faults), *(size(nbytes) for nbytes in moved))
    return table


def _repeats(run: Result) -> Iterable[RenderableType]:
    """Show the median and the coefficient of variation of every figure over the repeated runs."""
    times = ", ".join(seconds(repeat.elapsed_s) for repeat in run.repeats)
    yield f"\n{len(run.repeats)} runs, of which this is the median: {times}"
    table = table_of("", "over all runs", "median", "coefficient of variation", right=(1, 2))
    for name, spread in run.spreads.items():
        shown = "–" if spread.cov is None else f"{spread.cov:.4f}"
        table.add_row(escape(name), escape(figure(name, spread.median)), shown)
    yield table


def where_time_went(run: Result) -> Table:
    """Make a table of the shares of the host threads' time by category, the largest first."""
    from offloadrt.trace import HOST_TIME

    table = table_of("\nwhere the host threads' time went", "", "time", "share", "", right=(1, 2))
    for name, part in run.where_time_went.items():
        if part.share >= 0.0005:
            table.add_row(
                escape(name), seconds(part.total_s), percent(part.share), HOST_TIME.get(name, "not accounted for")
            )
    return table


def _contended(run: Result) -> Iterable[RenderableType]:
    waited = {name: lock for name, lock in run.locks.items() if lock.contended}
    if waited:
        table = table_of(
            "\nlocks that were waited for", "lock", "acquired", "contended", "waited", "held", right=(1, 2, 3, 4)
        )
        for name, lock in sorted(waited.items(), key=lambda item: -item[1].wait_s)[:8]:
            table.add_row(
                escape(name), str(lock.acquired), str(lock.contended), seconds(lock.wait_s), seconds(lock.hold_s)
            )
        yield table


def _calls(calls: Mapping[str, tuple[int, float, float]]) -> Iterable[RenderableType]:
    if calls:
        of_all_s = 0.0
        for _, total, _ in calls.values():
            of_all_s += total
        table = table_of("\ncalls", "name", "calls", "total", "mean", "of all calls", right=(1, 2, 3, 4))
        for name, (count, total, mean) in sorted(calls.items(), key=lambda item: -item[1][1])[:12]:
            table.add_row(
                escape(name), str(count), seconds(total), seconds(mean), percent(total / of_all_s if of_all_s else 0.0)
            )
        yield table


_FAULTS = {"gpu_page_fault": "services", "fault_batches": "batches", "cpu_page_fault_count": "faults of the host"}
"""The glossary's words for counts of page faults whose own names are those of CUPTI and of the driver."""
_BESIDE = 5
"""Largest number of compared figures that are shown in columns; more figures are shown in rows."""


def comparison(comparison: Comparison) -> Iterable[RenderableType]:
    """Show the whole comparison, one case (a baseline and its variants) after the other."""
    runs = f"the median of {comparison.repeat} runs" if comparison.repeat > 1 else f"seed {comparison.seed}"
    setting = escape(f"on {where(comparison)}, {runs}{changed(comparison.results[0])}")
    yield f"[bold]{comparison.scenario}[/] {escape(named(comparison.fixed))}  {setting}"
    yield f"baseline: {escape(named(comparison.baseline))}; a ratio is the baseline's figure over the variant's"
    many = len(comparison.measures) > _BESIDE
    if many:
        for case in comparison.cases:
            yield from _below_one_another(comparison, case)
    else:
        yield _figures(comparison)
    if len(comparison.cases) > 1:
        for name in comparison.measures[:1] if many else comparison.measures:
            yield f"\n[bold]ratios of {name}[/]"
            yield _ratios(comparison, name)
    for case in comparison.cases:
        if case.order is not None:
            yield from _order(case, case.order)
    for refused in comparison.refused:
        yield escape(f"not run: {named(refused.parameters)}: {refused.reason}")
    for case in comparison.cases:
        yield from _compared_calls(
            case, "calls of the whole run, start-up and exit included" if comparison.whole_run else "calls"
        )
        yield from _differences(case)
    for case in comparison.cases:
        if case.order is not None and len(case.order.ranked) > 1:
            yield from _next(case, case.order)


def _order(case: Case, order: Ranking) -> Iterable[RenderableType]:
    """Show the variants in the order of the draws, and in how many draws each is faster than the next."""
    failed = f", {order.failed} more failed" if order.failed else ""
    idle = f", of which {order.idle} change{'s' * (order.idle == 1)} nothing" if order.idle else ""
    draws, entries = counted(order.draws, "draw"), counted(order.entries, "uncertain entry")
    yield _title(f"how sure: {draws} in {entries}{idle}, the same for all{failed}", case)
    shown = table_of("", "", "nominal", "median", "80 %", "ratio", "80 %", "faster than the next", right=(1, 2, 4))
    for variant in order.ranked:
        elapsed, ratio = variant.elapsed, variant.ratio
        last = variant is order.ranked[-1]
        told = "" if last or variant.is_told_apart else ": they cannot be told apart"
        shown.add_row(
            escape(_short(variant)),
            seconds(elapsed.nominal),
            seconds(elapsed.median),
            f"{seconds(elapsed.low)} to {seconds(elapsed.high)}",
            f"{ratio.median:.4g}",
            f"{ratio.low:.4g} to {ratio.high:.4g}",
            "" if last else f"in {variant.ahead * variant.beside:g} of {variant.beside} draws{told}",
        )
    yield shown
    if order.beyond:
        yield escape(order.beyond)
    yield from order_effects(order.order_effects)


_MOST_EFFECTS = 4


def order_effects(effects: Sequence[str]) -> Iterable[str]:
    """Show the first `effects` (texts about changes that speed runs up with some random costs only), count the rest."""
    yield from (escape(f"order effect: {text}") for text in effects[:_MOST_EFFECTS])
    if len(effects) > _MOST_EFFECTS:
        yield f"{len(effects) - _MOST_EFFECTS} more order effects (--json has all)"


def _next(case: Case, order: Ranking) -> Iterable[RenderableType]:
    """Show which entries to measure next, to tell the two variants apart that are hardest to tell apart."""
    near = order.nearest()
    if near is None:
        yield _title("what to measure next: nothing, since no draw turns an order round", case)
        return
    one, other = (escape(_short(order.ranked[place])) for place in near)
    yield _title(f"what to measure next: between {one} and {other} decide ({order.screened or 'not looked at'})", case)
    yield from (f"  {escape(str(decider))}" for decider in order.deciders)
    if not order.deciders:
        yield "  no entry by itself"


def _short(variant: ComparedVariant | RankedVariant) -> str:
    """Return a variant's name for the head of a column: its values; the line `baseline:` has the parameters' names."""
    return " ".join(map(word, variant.parameters.values()))


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _figures(comparison: Comparison) -> Table:
    """Show a table with a row for each run, and a column for every compared figure and its ratio."""
    names = (*comparison.cases[0].parameters, *comparison.baseline)
    varied = comparison.repeat > 1
    heads = [(name, *(("CoV",) if varied else ()), "ratio") for name in comparison.measures]
    shown = table_of("", *names, *itertools.chain(*heads), right=range(len(names), 99))
    for case in comparison.cases:
        for variant in case.variants:
            where = map(word, (*case.parameters.values(), *variant.parameters.values()))
            cells = [_figure_cells(name, variant.figures[name], varied) for name in comparison.measures]
            shown.add_row(*map(escape, where), *itertools.chain(*cells))
    return shown


def _below_one_another(comparison: Comparison, case: Case) -> Iterable[RenderableType]:
    """Show a table of a case with a row for each figure: its value in every variant, and the ratios."""
    if case.parameters:
        yield _title("figures", case)
    baseline, *others = map(_short, case.variants)
    ratios = [f"{baseline} / {name}" for name in others]
    beside = table_of("", "", baseline, *others, *ratios, right=range(1, 99))
    below = table_of("", "", "variant", "value", "ratio", right=(2, 3))
    for name in comparison.measures:
        figures = [variant.figures[name] for variant in case.variants]
        values = [_value(name, compared) for compared in figures]
        beside.add_row(name, *values, *(_ratio(compared.ratio) for compared in figures[1:]))
        for number, (variant, value) in enumerate(zip((baseline, *others), values, strict=True)):
            below.add_row("" if number else name, escape(variant), value, _ratio(figures[number].ratio))
    yield Fitting([beside, below])


def _value(name: str, compared: Compared) -> str:
    return figure(name, int(compared.value) if compared.value.is_integer() else compared.value)


def _figure_cells(name: str, compared: Compared, varied: bool) -> Iterable[str]:
    yield _value(name, compared)
    if varied:
        yield "–" if compared.cov is None else f"{compared.cov:.3f}"
    yield _ratio(compared.ratio)


def _ratios(comparison: Comparison, name: str) -> Fitting:
    """Show the ratios of one figure as the papers draw them: a line for each case, a column for each variant."""
    names = tuple(comparison.cases[0].parameters)
    columns = [_short(variant) for variant in comparison.cases[0].variants]
    beside = table_of("", *names, *columns, right=range(len(names), 99))
    below = table_of("", *names, "variant", "ratio", right=(len(names) + 1,))
    for case in comparison.cases:
        ratios = {_short(variant): _ratio(variant.figures[name].ratio) for variant in case.variants}
        where = [*map(word, case.parameters.values())]
        beside.add_row(*where, *(ratios[column] for column in columns))
        for column in columns:
            below.add_row(*where, escape(column), ratios[column])
    return Fitting([beside, below])


def _title(what: str, case: Case) -> str:
    return f"\n[bold]{what}[/]" + (f" ({escape(named(case.parameters))})" if case.parameters else "")


def _compared_calls(case: Case, title: str) -> Iterable[RenderableType]:
    """Show each call's count and latency in every variant, and the ratio of the baseline's latency to the variant's.

    Variants are columns, with letters as names if there are more than two; if they do not fit, they are rows.
    """
    baseline = case.variants[0]
    if not baseline.calls:
        return
    yield _title(title, case)
    names = [_short(variant) for variant in case.variants]
    letters = [_letters(number) for number in range(len(names))] if len(names) > 2 else names
    heads = [f"{name}: {head}" for name in letters for head in ("calls", "latency")]
    ratios = [f"{letters[0]} / {name}" for name in letters[1:]]
    beside = table_of("", "name", *heads, *ratios, right=range(1, 99))
    beside.padding = (0, 2 if len(names) < 3 else 1, 0, 0)
    beside.columns[0].no_wrap = True
    below = table_of("", "name", "variant", "calls", "latency", "ratio", right=(2, 3, 4))
    for name in baseline.calls:
        calls = [variant.calls[name] for variant in case.variants]
        cells = [(f"{call.count:,}", seconds(call.total_s)) for call in calls]
        beside.add_row(name, *itertools.chain(*cells), *(_ratio(call.ratio) for call in calls[1:]))
        for number, (variant, cell, call) in enumerate(zip(names, cells, calls, strict=True)):
            below.add_row("" if number else name, escape(variant), *cell, _ratio(call.ratio) if number else "1")
    if len(names) > 2:
        beside.title = ", ".join(f"{one} = {escape(name)}" for one, name in zip(letters, names, strict=True))
        beside.title_style = ""
    yield Fitting([beside, below])


def _letters(number: int) -> str:
    """Return the name of a column by its number: A, B, ..., Z, A1, B1, ..."""
    round_, index = divmod(number, 26)
    return string.ascii_uppercase[index] + (str(round_) if round_ else "")


def _differences(case: Case) -> Iterable[RenderableType]:
    """Show for each variant what the host threads spent more or less time on than in the baseline."""
    baseline, *others = case.variants
    shown = table_of("", "", "", _short(baseline), "share", "variant", "share", "more", right=range(2, 99))
    for variant in others:
        for number, part in enumerate(variant.differences):
            shown.add_row(
                escape(_short(variant)) if number == 0 else "",
                part.category,
                seconds(part.baseline_s),
                percent(part.baseline_share),
                seconds(part.variant_s),
                percent(part.variant_share),
                seconds(part.more_s),
            )
    if shown.row_count:
        yield _title("how the host threads' time differs", case)
        yield shown
