"""The launch configuration of a kernel: how many teams of how many threads do how many iterations."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from offloadrt.kernels import Kernel, KernelError, Launch
from offloadrt.kernels.integers import is_integer
from offloadrt.kernels.kernel import DEFAULT_THREADS
from offloadrt.runtime.plugins.plugin import GridDefaults

_A_THREAD_EACH: Final = GridDefaults(sys.maxsize, DEFAULT_THREADS, DEFAULT_THREADS)
"""What models give a loop that know no limit of teams: a thread for each iteration."""


def launch_of(
    kernel: Kernel,
    arguments: Sequence[Any],
    teams: int | None = None,
    threads: int | None = None,
    iterations: int | None = None,
    grid: GridDefaults = _A_THREAD_EACH,
) -> Launch:
    """Make a launch with these arguments, of which only shapes, types and numbers are looked at.

    A loop nest does the iterations that its source says; any other kernel is one team with one iteration a thread
    unless given. `grid`: what the runtime gives a loop whose teams or threads are open. KernelError when a loop needs
    what is not known.
    """
    per_team = kernel.threads_per_team if threads is None else threads
    known = None if kernel.analysis is None else arguments
    if kernel.analysis is not None and iterations is None:
        iterations = kernel.analysis.trip_count(*arguments)
    if iterations is None:
        return kernel.launch(teams or 1, per_team, None, known)
    if teams is None:
        teams, per_team = grid.over_threads(iterations, per_team)
    return kernel.launch(teams, per_team or grid.threads, iterations, known)


def check_sizes(construct: str, **sizes: object) -> None:
    """Raise ValueError for a clause of a launch configuration that is no positive whole number (or 0 iterations)."""
    for clause, value in sizes.items():
        least = 0 if clause == "iterations" else 1
        if value is not None and not (is_integer(value) and value >= least):
            raise ValueError(f"{construct}: {clause} is {value!r}, but must be a whole number from {least}")


def check_arguments(kernel: Kernel, arguments: Sequence[Any]) -> None:
    """Raise the error of a compiler that refuses these arguments.

    TypeError for what is no kernel, and for an array that is none of the program's; KernelError for more or fewer
    arguments than its body takes.
    """
    given: object = kernel
    if not isinstance(given, Kernel):
        called = getattr(given, "__name__", type(given).__name__)
        raise TypeError(f"{called} is no kernel: decorate its function with @kernel")
    for position, argument in enumerate(arguments):
        if isinstance(argument, list) or (isinstance(argument, np.ndarray) and argument.ndim):
            raise TypeError(
                f"kernel {kernel.name!r}: argument {_named(kernel, position)} is a {_type_of(argument)}, which no "
                "device has; make it an array of the program with t.array(...)"
            )
    least, most = kernel.takes
    if not least <= len(arguments) <= most:
        names = ", ".join(_parameters(kernel))
        takes = "1 argument" if least == 1 else f"{least} arguments"
        raise KernelError(f"kernel {kernel.name!r} takes {takes} ({names}), not {len(arguments)}")


def _named(kernel: Kernel, position: int) -> str:
    names = () if kernel.body is None else _parameters(kernel)
    return repr(names[position]) if position < len(names) else str(position + 1)


def _parameters(kernel: Kernel) -> tuple[str, ...]:
    if kernel.analysis is not None:
        return kernel.analysis.parameters
    return tuple(inspect.signature(kernel.body).parameters) if callable(kernel.body) else ()


def _type_of(argument: Any) -> str:
    return f"NumPy array of shape {argument.shape}" if isinstance(argument, np.ndarray) else type(argument).__name__
