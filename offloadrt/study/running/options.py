"""The options of a program, by the name of its programming model."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Final

import attrs

from offloadrt.driver import Driver
from offloadrt.machine import Machine
from offloadrt.models.host.options import ProgramOptions
from offloadrt.models.host.program import OffloadProgram
from offloadrt.study.errors import UserError, did_you_mean
from offloadrt.trace import Trace

_CLASSES: Final = {
    "openmp": ("OpenMPOptions", "OpenMP"),
    "openacc": ("OpenACCOptions", "OpenACC"),
    "stdpar": ("StdParOptions", "StdPar"),
    "cuda": ("CUDAOptions", "CUDA"),
}
"""The options and the program of each model. Only what is asked for is imported: each takes a part of the start-up."""
MODELS: Final = tuple(_CLASSES)


def options_for(model: object) -> type[ProgramOptions]:
    """Return the class of the options of this model's programs. Raises UserError for a model that does not exist."""
    if model not in _CLASSES:
        raise UserError(f"model {model!r}: it can be {', '.join(_CLASSES)}")
    options: type[ProgramOptions] = getattr(_module(f"{model}.options"), _CLASSES[str(model)][0])
    return options


def program_of(
    options: ProgramOptions, machine: Machine, drivers: Sequence[Driver], trace: Trace | None
) -> OffloadProgram[Any]:
    """Make the program of these options. Raises ValueError for some that do not go with the machine."""
    make = getattr(_module(f"{options.model}.program"), _CLASSES[options.model][1])
    program: OffloadProgram[Any] = make(machine, drivers, options, trace)
    return program


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"offloadrt.models.{name}")


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
