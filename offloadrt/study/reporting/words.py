"""Writes values as text for people: times, sizes, shares and parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

Cell = int | float | bool | str | None
"""The value of a cell in a table of results."""
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_STATISTIC = re.compile(r"_(mean|median|min|max|p\d+)$")
_SIZES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def seconds(value: float) -> str:
    """Write a time for people: `12.35 ms`."""
    rounded = abs(float(f"{value:.4g}"))  # 999.99 ns are written as 1 µs
    for factor, unit in _TIMES:
        if rounded >= factor:
            return f"{value / factor:.4g} {unit}"
    return "0 s" if value == 0 else f"{value:.3g} s"


def size(nbytes: float) -> str:
    """Write a number of bytes for people: `1.5 MiB`."""
    for factor, unit in _SIZES:
        if nbytes >= factor:
            return f"{nbytes / factor:.4g} {unit}"
    return f"{nbytes:.0f} B"


def figure(name: str, value: object) -> str:
    """Write a measured figure for people; the unit is the suffix of its name: `_s`, `_per_s` or `_bytes`.

    The suffix of a statistic may follow the unit: `batch_s_mean`, `service_s_p90`.
    """
    name = _STATISTIC.sub("", name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if name.endswith("bytes_per_s"):
        return f"{value / 1e9:.5g} GB/s"
    if name.endswith("_per_s"):
        return f"{value:.5g} /s"
    if name.endswith("_s"):
        return seconds(value)
    if name.endswith("_bytes"):
        return size(value)
    return str(value) if isinstance(value, int) else f"{value:.5g}"


def word(value: object) -> str:
    """Write a parameter's value in command-line syntax."""
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def is_number(value: Cell) -> bool:
    """Tell whether a cell is a number; a bool is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def counted(count: int, what: str) -> str:
    """Write a number of things, of which `what` names one: `1 run`, `4 copies`, `0 entries`."""
    if count == 1:
        return f"1 {what}"
    return f"{count} {what[:-1]}ies" if what.endswith(("py", "ry")) else f"{count} {what}s"


def percent(share: float) -> str:
    """Write a share for people: `12.3 %`."""
    return f"{100 * share:.1f} %"


def some(texts: Sequence[str], most: int = 3) -> str:
    """Join the first `most` texts, and the number of further ones: `a, b, c and 2 more`."""
    return ", ".join(texts[:most]) + (f" and {len(texts) - most} more" if len(texts) > most else "")


def named(parameters: Mapping[str, object]) -> str:
    """Write parameters in command-line syntax: `threads=4 pinned=true`."""
    return " ".join(f"{name}={word(value) or repr('')}" for name, value in parameters.items())


class RunsOn(Protocol):
    """Anything with a machine and a runtime: a result, a comparison or a report."""

    @property
    def machine(self) -> str: ...

    @property
    def runtime(self) -> str: ...


def where(of: RunsOn) -> str:
    """Write on which machine and with which runtime the runs were made: `alex-a100 with llvm22`."""
    return f"{of.machine} with {of.runtime}" if of.runtime else of.machine
