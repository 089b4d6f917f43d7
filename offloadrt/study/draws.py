"""Places drawn in all ranges at once, of machine and programs.

The draws are a scrambled Sobol sequence (`scipy.stats.qmc`): few points that fill a space of many dimensions evenly.
Each range counts on a logarithmic scale between its ends, as its mean does.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from offloadrt.machine import MachineSpec
from offloadrt.study.input_range import InputRange
from offloadrt.study.reporting.results import library
from offloadrt.study.spec import RunSpec

DRAWS = 64
"""A power of two, for which the sequence is balanced."""
_SEED = 2026


def draws_of(
    spec: MachineSpec, inputs: Mapping[str, InputRange], options: RunSpec, count: int = DRAWS
) -> list[RunSpec]:
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
            options.with_ends(dict(zip(keys, place, strict=False))),
            inputs={name: at * inputs[name].highest for name, at in zip(inputs, place[len(keys) :], strict=True)},
        )
        for place in places
    ]
