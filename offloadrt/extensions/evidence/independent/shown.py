"""How the prediction of independent measurements is printed."""

from __future__ import annotations

import math
from collections.abc import Iterable

from rich.console import RenderableType
from rich.markup import escape

from offloadrt.cli.render import table_of
from offloadrt.extensions.evidence.independent.prediction import (
    INPUT_KIND,
    IndependentReport,
    KindAccuracy,
    PredictedEntry,
)


def predictions(report: IndependentReport) -> Iterable[RenderableType]:
    """List each entry with its values, then what is not predicted and why, then the accuracy of each kind."""
    yield f"[bold]{escape(report.file)}[/]: {len(report.entries)} entries, {report.runs} runs"
    yield "low and high: the least and the most of the run at the mean of all ranges and at two corners: all costs low"
    yield "and all rates high, and the other way round"
    yield "first: what was predicted before anybody had compared"
    yield f"digest of values, runs and machines: {report.digest}"
    for entry in report.entries:
        if any(value.emulated is not None for value in entry.values):
            yield from _entry(entry)
    refused = [(entry, value) for entry in report.entries for value in entry.values if value.emulated is None]
    yield f"\n[bold]not predicted[/]: {len(refused)} values"
    for entry in report.entries:
        reasons: dict[str, list[str]] = {}
        for value in entry.values:
            if value.emulated is None:
                reasons.setdefault(value.reason, []).append(value.name)
        for reason, names in reasons.items():
            which = "" if len(names) == len(entry.values) else f" {', '.join(names)}"
            yield f"  {escape(entry.id + which)}: {escape(reason)}"
    yield "\n[bold]accuracy[/]: |log ratio| as a factor"
    table = table_of("", "kind", "values", "median", "90th percentile")
    for accuracy in report.accuracies():
        table.add_row(accuracy.kind, str(accuracy.values), *_factors(accuracy))
    yield table


def _entry(entry: PredictedEntry) -> Iterable[RenderableType]:
    counted = "" if entry.kind != INPUT_KIND else ", not counted"
    yield f"\n[bold]{escape(entry.id)}[/] ({entry.kind}{counted}): {escape(entry.runs)}"
    table = table_of("  ", "value", "unit", "reported", "first", "emulated", "ratio", "low", "high")
    for value in entry.values:
        if value.emulated is not None:
            name = f"{value.name} - {value.difference_to}" if value.difference_to else value.name
            numbers = [value.reported, value.first, value.emulated, value.ratio, value.low, value.high]
            table.add_row(escape(name), escape(value.unit), *["–" if n is None else f"{n:.4g}" for n in numbers])
    yield table
    if entry.cause and entry.far_off:
        yield f"  off by more than 3: {escape(', '.join(entry.far_off))}\n  cause: {escape(entry.cause)}"


def _factors(accuracy: KindAccuracy) -> list[str]:
    return [f"{math.exp(error):.3g}" if math.isfinite(error) else "∞" for error in (accuracy.median, accuracy.p90)]
