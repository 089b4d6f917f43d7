"""The options of a program, by the name of its programming model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from offloadrt.driver import Driver
from offloadrt.machine import Machine
from offloadrt.models.host.model import MODELS
from offloadrt.models.host.options import ProgramOptions
from offloadrt.models.host.program import OffloadProgram
from offloadrt.study.errors import UserError, did_you_mean
from offloadrt.trace import Trace


def options_for(model: object) -> type[ProgramOptions]:
    """Return the class of the options of this model's programs. Raises UserError for a model that does not exist."""
    known = MODELS.names()
    if model not in known:
        hint = did_you_mean(model, known) if isinstance(model, str) else ""
        raise UserError(f"model {model!r}: it can be {', '.join(known)}{hint}")
    return MODELS.find(str(model)).options


def program_of(
    options: ProgramOptions, machine: Machine, drivers: Sequence[Driver], trace: Trace | None
) -> OffloadProgram[Any]:
    """Make the program of these options. Raises ValueError for some that do not go with the machine."""
    return MODELS.find(options.model).program(machine, drivers, options, trace)


def changed(options: ProgramOptions, changes: Mapping[str, Any]) -> ProgramOptions:
    """Return the options with some of them replaced. Raises UserError for one that the model does not have."""
    known = [field.name for field in attrs.fields(type(options))]
    for name in changes:
        if name not in known:
            raise UserError(
                f"a program of {options.model} has no option {name!r}{did_you_mean(name, known)}; "
                f"there are: {', '.join(known)}"
            )
    return attrs.evolve(options, **changes)
