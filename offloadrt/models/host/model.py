"""`Model`: what a programming model is to those who run its programs, and where the models are found by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs

from offloadrt.models.host.options import ProgramOptions
from offloadrt.models.host.program import OffloadProgram
from offloadrt.registry import Registry


@attrs.frozen
class Model:
    """A programming model, as an entry point of the group ``offloadrt.models`` gives it."""

    options: type[ProgramOptions]
    """The options of its programs; their `model` is the name of the entry point."""
    program: Callable[..., OffloadProgram[Any]]
    """Makes a program, called with (machine, drivers, options, trace)."""
    module: str
    """The module that a script gets from ``from offloadrt import NAME``."""


MODELS: Final = Registry[Model]("model", "offloadrt.models", ("options", "program", "module"))
