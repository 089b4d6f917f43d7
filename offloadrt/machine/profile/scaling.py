"""How an entry that was measured on another machine is scaled by the part of a machine that it depends on.

`scaling.toml` names that part for each entry (the core, the host's memory, the link, the GPU's clock), and the
reference entry in which each machine states the part's speed. The rule is proportionality: a time that a core needs
grows by the factor by which the core's single-thread points are fewer. `ScaledPart.rule` is the factor within which the
proportion is trusted; it widens the entry's range to both sides. Nothing here was fitted to a result.

Entries that belong to no part are not costs: sizes, counts, policies, and what the source of a driver says.
"""

from __future__ import annotations

import functools
import importlib.resources
import tomllib
from collections.abc import Mapping

import msgspec

from offloadrt.machine.profile.entry import ProfileEntry


class Host(msgspec.Struct, frozen=True):
    """A machine without a profile, where entries of a profile were measured; only its parts' speeds are known."""

    what: str
    """The name of the machine, and the source of that information."""
    parts: Mapping[str, tuple[float, float]] = msgspec.field(default_factory=dict)
    """For each known or estimated reference entry, by key: (low, high) in SI units (points, seconds, bytes/s)."""


class ScaledPart(msgspec.Struct, frozen=True):
    """A part of a machine, such as its memory, and the profile entries that depend on the part's speed.

    Where such an entry was measured on another machine, it is scaled by the ratio of the two machines' parts.
    """

    name: str
    reference: str
    """The key of the entry that states the part's speed."""
    rule: float
    """The estimated factor by which a scaled value may be wrong, upwards or downwards; it widens the range."""
    keys: tuple[str, ...]
    """The keys of the entries to scale; a `*` at the end stands for any characters."""
    is_proportional: bool = True
    """Whether the entries are scaled with the reference; if not, a different part only widens their ranges."""


PARTS = msgspec.convert(
    tomllib.loads(importlib.resources.files(__package__).joinpath("scaling.toml").read_text(encoding="utf-8"))["part"],
    tuple[ScaledPart, ...],
)
_COSTS = ("time", "time / data")
_RATES = ("data / time", "work / time")


@functools.cache
def part_of(key: str) -> ScaledPart | None:
    """Return the part of a machine by whose speed an entry is scaled; None if the entry is never scaled."""
    named = ((part, name.removesuffix("*"), name.endswith("*")) for part in PARTS for name in part.keys)
    return next((part for part, name, begins in named if (key.startswith(name) if begins else key == name)), None)


def is_scalable(entry: ProfileEntry) -> bool:
    """Tell whether the entry is a nonzero time or rate that depends on a part of the machine."""
    if part_of(entry.key) is None or entry.unit is None or not entry.value:
        return False
    return entry.unit.dimension in (*_COSTS, *_RATES)


def ends(entry: ProfileEntry) -> tuple[float, float]:
    """Return the two ends of an entry's range; for an entry without a range, (its value, its value)."""
    assert isinstance(entry.value, float)
    return (entry.value, entry.value) if entry.low is None or entry.high is None else (entry.low, entry.high)


def scaled(entry: ProfileEntry, origin: str, there: tuple[float, float], here: tuple[float, float]) -> ProfileEntry:
    """Return an entry of the machine ``origin`` as it is expected on this machine, scaled by a part's speed.

    ``there`` and ``here`` are the ranges on the two machines of the entry that states the part's speed
    (`ScaledPart.reference`); a larger value is faster, except for ``gpu.cycle``. The entry's range is scaled, too.
    """
    part = part_of(entry.key)
    assert part is not None and entry.unit is not None
    low, high = 1.0, 1.0
    if part.is_proportional:
        low, high = here[0] / there[1], here[1] / there[0]
        if (part.reference == "gpu.cycle") != (entry.unit.dimension in _COSTS):
            low, high = 1 / high, 1 / low
    reason = f"of {origin}, times {low / part.rule:.3g} to {high * part.rule:.3g} by {part.reference}"
    return entry.scaled((low / part.rule, high * part.rule), origin, reason)
