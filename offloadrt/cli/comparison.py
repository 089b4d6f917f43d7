"""What `offloadrt compare` prints: ratios, calls side by side, and how the host threads' time differs."""

from __future__ import annotations

import itertools
import string
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from offloadrt.cli.render import changed, table_of
from offloadrt.study.reporting.words import figure, named, percent, seconds, where, word

if TYPE_CHECKING:
    from offloadrt.study.reporting.compare import Case, Compared, ComparedVariant, Comparison
    from offloadrt.study.reporting.drawn import DrawnComparison


_BESIDE = 5
"""The most figures of a run that stand beside one another; more stand below one another."""


def comparison(comparison: Comparison) -> Iterable[RenderableType]:
    """Show the whole comparison, case by case."""
    runs = f"the median of {comparison.repeat} runs" if comparison.repeat > 1 else f"seed {comparison.seed}"
    place = escape(f"on {where(comparison)}, {runs}{changed(comparison.results[0])}")
    yield f"[bold]{comparison.scenario}[/] {escape(named(comparison.fixed))}  {place}"
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
    for refused in comparison.refused:
        yield escape(f"not run: {named(refused.parameters)}: {refused.reason}")
    for case in comparison.cases:
        yield from _calls(
            case, "calls of the whole run, start-up and exit included" if comparison.whole_run else "calls"
        )
        yield from _differences(case)


def drawn(comparison: DrawnComparison) -> Iterable[RenderableType]:
    """Show the ratios over all draws, and who wins in how many."""
    entries = f"{len(comparison.entries)} entries of {where(comparison)}"
    yield f"[bold]{comparison.scenario}[/] at {comparison.draws} places, drawn in the ranges of {escape(entries)}"
    yield f"baseline: {escape(named(comparison.baseline))}; a ratio is the baseline's time over the variant's"
    shown = table_of("", "", "median ratio", "90 % of the draws", "wins in", right=(1, 2, 3))
    for variant in comparison.variants:
        interval = f"{variant.low:.4g} to {variant.high:.4g}"
        shown.add_row(escape(named(variant.parameters)), f"{variant.median:.4g}", interval, str(variant.wins))
    yield shown


def _short(variant: ComparedVariant) -> str:
    """Name a variant in the head of a column: by its values, to which the baseline's line gives names."""
    return " ".join(word(value) for value in variant.parameters.values())


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _figures(comparison: Comparison) -> Table:
    """Show a line for each run, with every compared figure and its ratio."""
    places = (*comparison.cases[0].parameters, *comparison.baseline)
    varied = comparison.repeat > 1
    heads = [(name, *(("CoV",) if varied else ()), "ratio") for name in comparison.measures]
    shown = table_of("", *places, *itertools.chain(*heads), right=range(len(places), 99))
    for case in comparison.cases:
        for variant in case.variants:
            where = map(word, (*case.parameters.values(), *variant.parameters.values()))
            cells = [_cells(name, variant.figures[name], varied) for name in comparison.measures]
            shown.add_row(*map(escape, where), *itertools.chain(*cells))
    return shown


def _below_one_another(comparison: Comparison, case: Case) -> Iterable[RenderableType]:
    """Show a line for each figure, with its value in every variant and the ratios."""
    if case.parameters:
        yield _title("figures", case)
    baseline, *others = map(_short, case.variants)
    ratios = [f"{baseline} / {name}" for name in others]
    shown = table_of("", "", baseline, *others, *ratios, right=range(1, 99))
    for name in comparison.measures:
        figures = [variant.figures[name] for variant in case.variants]
        shown.add_row(
            name,
            *(_value(name, compared) for compared in figures),
            *(_ratio(compared.ratio) for compared in figures[1:]),
        )
    yield shown


def _value(name: str, compared: Compared) -> str:
    return figure(name, int(compared.value) if compared.value.is_integer() else compared.value)


def _cells(name: str, compared: Compared, varied: bool) -> Iterable[str]:
    yield _value(name, compared)
    if varied:
        yield "–" if compared.cov is None else f"{compared.cov:.3f}"
    yield _ratio(compared.ratio)


def _ratios(comparison: Comparison, name: str) -> Table:
    """Show the ratios of one figure as the papers draw them: a line for each case, a column for each variant."""
    places = tuple(comparison.cases[0].parameters)
    columns = [_short(variant) for variant in comparison.cases[0].variants]
    shown = table_of("", *places, *columns, right=range(len(places), 99))
    for case in comparison.cases:
        ratios = {_short(variant): variant.figures[name].ratio for variant in case.variants}
        shown.add_row(*map(word, case.parameters.values()), *(_ratio(ratios[column]) for column in columns))
    return shown


def _title(what: str, case: Case) -> str:
    return f"\n[bold]{what}[/]" + (f" ({escape(named(case.parameters))})" if case.parameters else "")


def _calls(case: Case, title: str) -> Iterable[RenderableType]:
    """Show the calls and their latencies in every variant, and the baseline's latency over the variant's.

    More than two variants get letters, so that the table stays narrow.
    """
    baseline = case.variants[0]
    if not baseline.calls:
        return
    yield _title(title, case)
    names = [_short(variant) for variant in case.variants]
    if len(names) > 2:
        letters = [_letters(number) for number in range(len(names))]
        yield ", ".join(f"{letter} = {escape(name)}" for letter, name in zip(letters, names, strict=True))
        names = letters
    heads = [f"{name}: {head}" for name in names for head in ("calls", "latency")]
    ratios = [f"{names[0]} / {name}" for name in names[1:]]
    shown = table_of("", "name", *heads, *ratios, right=range(1, 99))
    shown.padding = (0, 2 if len(names) < 3 else 1, 0, 0)
    shown.columns[0].no_wrap = True
    for name in baseline.calls:
        calls = [variant.calls[name] for variant in case.variants]
        counted = itertools.chain(*((f"{call.count:,}", seconds(call.total_s)) for call in calls))
        shown.add_row(name, *counted, *(_ratio(call.ratio) for call in calls[1:]))
    yield shown


def _letters(number: int) -> str:
    """Yield A, B, ..., Z, A1, B1, ..."""
    round_, place = divmod(number, 26)
    return string.ascii_uppercase[place] + (str(round_) if round_ else "")


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
