"""Places drawn in all ranges at once, of machine and programs.

The draws are a scrambled Sobol sequence (`scipy.stats.qmc`): few points that fill a space of many dimensions evenly.
Each range counts on a logarithmic scale between its ends, as its mean does.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from offloadrt.machine import MachineSpec
from offloadrt.study.input_range import InputRange
from offloadrt.study.points import Options
from offloadrt.study.reporting.table import library

DRAWS = 64
"""A power of two, for which the sequence is balanced."""
_SEED = 2026


def draws_of(
    spec: MachineSpec, inputs: Mapping[str, InputRange], options: Options, count: int = DRAWS
) -> list[Options]:
    """Draw `count` places, each of all ranges together; what the user set stays as it is.

    Raises UserError where SciPy is not installed.
    """
    keys = [key for key in spec.ranges() if key not in options.overrides]
    dimensions = len(keys) + len(inputs)
    if not dimensions or not count:
        return []
    sobol = library("scipy.stats").qmc.Sobol(dimensions, rng=_SEED)
    places = sobol.random_base2((count - 1).bit_length())[:count].tolist()
    return [
        attrs.evolve(
            options,
            range_end={**options.range_end, **dict(zip(keys, place, strict=False))},
            inputs={name: at * inputs[name].highest for name, at in zip(inputs, place[len(keys) :], strict=True)},
        )
        for place in places
    ]
