"""Every cost that has a range is drawn anew: the timing that a real machine could have."""

from __future__ import annotations

import random

from offloadrt.machine import MachineSpec


def drawn(keys: tuple[str, ...], seed: int) -> tuple[tuple[str, float], ...]:
    """Draw a place in its range for each entry, equally likely; `seed` alone decides, on every Python."""
    draw = random.Random(seed).random
    return tuple((key, round(draw(), 4)) for key in keys)


def costs_with_a_range(spec: MachineSpec) -> tuple[str, ...]:
    """Return the entries that are costs or rates and have a range; sizes and counts are no costs."""
    keys = []
    for key in spec.ranges():
        unit = spec.entries[key].unit
        if unit is not None and not unit.is_count and unit.dimension != "data":
            keys.append(key)
    return tuple(sorted(keys))
