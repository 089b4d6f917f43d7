"""Results as one flat table: a row a run, a column a figure; written as Parquet and CSV.

Parameters and measured figures keep their names (a measured figure that is called like a parameter becomes
`measured.NAME`); the rest is dotted: `locks.device table.wait_s`, `calls.cuMemAlloc.count`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offloadrt.study.errors import UserError, writing
from offloadrt.study.reporting.results import Result, builtins

if TYPE_CHECKING:
    import pandas
    import polars

Cell = int | float | bool | str | None

_GROUPS = ("calls", "locks", "devices", "bytes", "faults", "where_time_went")
_LAST_GROUPS = ("managed", "algorithms")


def row(result: Result) -> dict[str, Cell]:
    """Flatten one result into a row."""
    cells: dict[str, Cell] = {"scenario": result.scenario, **result.parameters}
    places = {name: result.parameters.get(name, value) for name, value in _places(result)}
    cells |= {**places, "seed": result.seed, "elapsed_s": result.elapsed_s}
    for name, value in result.measured.items():
        cells[f"measured.{name}" if name in cells else name] = value
    rest = builtins(result)
    cells |= _flat("options", result.options)
    for group in (*_GROUPS, *result.sections, *_LAST_GROUPS):
        cells |= _flat(group, rest.get(group, {}))
    cells |= {"events": result.events, "trace_hash": result.trace_hash}
    return cells


def _places(result: Result) -> tuple[tuple[str, Cell], ...]:
    """Return where it ran; a comparison of machines names them as they were given, which may be files."""
    return ("machine", result.machine), ("runtime", result.runtime)


def _flat(prefix: str, value: Any) -> dict[str, Cell]:
    if not isinstance(value, Mapping):
        return {prefix: value}
    cells: dict[str, Cell] = {}
    for name, inner in value.items():
        cells |= _flat(f"{prefix}.{name}", inner)
    return cells


def _columns(results: Sequence[Result]) -> dict[str, list[Cell]]:
    rows = [row(result) for result in results]
    names = dict.fromkeys(name for cells in rows for name in cells)
    return {name: [cells.get(name) for cells in rows] for name in names}


def to_polars(results: Sequence[Result]) -> polars.DataFrame:
    """Put results in a data frame of polars, a row for each; a column that a run lacks is null there.

    Raises UserError when polars is not installed.
    """
    series = library("polars").Series
    columns = {name: series(name, values, strict=False) for name, values in _columns(results).items()}
    table: polars.DataFrame = library("polars").DataFrame(columns)
    return table


def to_pandas(results: Sequence[Result]) -> pandas.DataFrame:
    """Put results in a data frame of pandas, a row for each; a number that a run lacks is NaN there.

    Raises UserError when pandas is not installed.
    """
    table: pandas.DataFrame = library("pandas", "pandas").DataFrame(_columns(results))
    return table


def write(results: Sequence[Result], folder: Path, *, stem: str = "results") -> list[Path]:
    """Write `stem.parquet` and `stem.csv` into `folder`, and return their paths.

    Raises UserError when they cannot be written.
    """
    table = to_polars(results)
    parquet, csv = folder / f"{stem}.parquet", folder / f"{stem}.csv"
    for path, write_to in (parquet, table.write_parquet), (csv, table.write_csv):
        in_memory = BytesIO()  # polars has errors of its own for a file that cannot be written
        write_to(in_memory)
        with writing(path):
            path.write_bytes(in_memory.getvalue())
    return [parquet, csv]


def library(name: str, extra: str = "study") -> Any:
    """Import the module `name` of an extra of this package. Raises UserError when it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise UserError(f"this needs {package}, which is not installed: pip install 'offloadrt[{extra}]'") from None
