"""Units of profile entries: pint reads them, and the package computes with plain SI floats.

A machine is described with seconds, bytes, bytes per second, flops per second and counts.  The registry knows these and
nothing else, so that a unit of another field is an error at once.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    import pint

COUNTS = (
    "SM", "buffer", "card", "client", "connection", "context", "core", "device", "domain", "engine", "event", "fault",
    "item", "kernel", "load", "node", "point", "queue", "register", "team", "thread", "warp",
)  # fmt: skip

_PREFIXES = (
    "nano- = 1e-9 = n-",
    "micro- = 1e-6 = u- = µ- = μ-",
    "milli- = 1e-3 = m-",
    "kilo- = 1e3 = k-",
    "mega- = 1e6 = M-",
    "giga- = 1e9 = G-",
    "tera- = 1e12 = T-",
    "kibi- = 1024 = Ki-",
    "mebi- = 1048576 = Mi-",
    "gibi- = 1073741824 = Gi-",
)


@attrs.frozen
class Unit:
    """A unit of profile entries, such as ``"GB/s"``."""

    text: str
    factor: float
    """Factor by which a number in this unit is multiplied to be in SI units."""
    dimension: str
    """``time``, ``data``, ``data / time``, …; ``count`` for whole things, ``fraction`` for plain numbers."""

    @property
    def is_count(self) -> bool:
        return self.dimension == "count"

    @property
    def is_rate(self) -> bool:
        return self.dimension.endswith("/ time")


class UnitError(ValueError):
    """Raised for a unit or a quantity that is not known; the message lists the known ones."""


@functools.cache
def _registry() -> pint.UnitRegistry[Any]:
    """Return the registry, which is made at its first use."""
    import pint  # here, because it takes a quarter of a second, and units of COMMON do not need it

    registry: pint.UnitRegistry[Any] = pint.UnitRegistry(None)
    for prefix in _PREFIXES:
        registry.define(prefix)
    registry.define("second = [time] = s")
    registry.define("byte = [data] = B")
    registry.define("flop = [work] = FLOP")
    registry.define("percent = 0.01 = %")
    registry.define("fraction = []")
    for name in COUNTS:
        registry.define(f"{name} = []")
        if name != "SM":
            registry.define(f"@alias {name} = {name}s")
    return registry


COMMON: dict[str, tuple[float, str]] = {
    "s": (1.0, "time"),
    "ms": (1e-3, "time"),
    "us": (1e-6, "time"),
    "ns": (1e-9, "time"),
    "B": (1.0, "data"),
    "MiB": (1048576.0, "data"),
    "GiB": (1073741824.0, "data"),
    "GB": (1e9, "data"),
    "GB/s": (1e9, "data / time"),
    "s/GiB": (1 / 1073741824.0, "time / data"),
    "GFLOP/s": (1e9, "work / time"),
    "TFLOP/s": (1e12, "work / time"),
    "fraction": (1.0, "fraction"),
    "percent": (0.01, "fraction"),
    **{f"{name}s" if name != "SM" else name: (1.0, "count") for name in COUNTS},
}
"""Factors and dimensions of the units in the package's profiles, so that a run need not load pint.

A test compares them with pint's values.
"""


@functools.cache
def unit(text: str) -> Unit:
    """Return the unit named ``text``, for instance ``"GB/s"``. Raises UnitError."""
    return Unit(text, *(COMMON.get(text) or _convert(f"1 {text}", text)))


@functools.cache
def quantity(text: str) -> tuple[float, str]:
    """Read ``"25 GB/s"`` as (2.5e10, "data / time"), and ``"25"`` with the dimension ``""``. Raises UnitError."""
    try:
        return float(text), ""
    except ValueError:
        return _convert(text, text)


_QUANTITY = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?\s*([^\W\d_]+(\s*/\s*[^\W\d_]+)*|%)")


def _convert(expression: str, shown: str) -> tuple[float, str]:
    """Return the SI value and the dimension of an expression, which error messages show as ``shown``."""
    try:
        if not _QUANTITY.fullmatch(expression):  # pint would evaluate it, as Python does
            raise ValueError("a quantity is one number and one unit")
        parsed: Any = _registry().Quantity(expression)
        base = parsed.to_base_units()
    except Exception as error:  # pint raises tokenize errors, assertion errors and its own, according to the text
        raise UnitError(
            f"{shown!r} is no quantity of time (s, ms, us, ns), data (B, KiB, MiB, GiB, kB, MB, GB), data/time, "
            f"FLOP/s or count ({', '.join(COUNTS)}); {type(error).__name__}: {error}"
        ) from None
    magnitude = base.magnitude
    if not isinstance(magnitude, (int, float)):
        raise UnitError(f"{shown!r} is not a number")
    if base.dimensionless:
        names = {str(name).removesuffix("s") for name in parsed._units}
        return float(magnitude), "count" if names & set(COUNTS) else "fraction"
    dimension = str(base.dimensionality).replace("[", "").replace("]", "")
    return float(magnitude), dimension
