"""`Signature`: what a loop nest takes, and which numbers its counting gets from the arguments of a launch."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from offloadrt.kernels.accesses.access import Walk
from offloadrt.kernels.accesses.number_kinds import IndexParameter, check_index_parameters
from offloadrt.kernels.counting import Counting
from offloadrt.kernels.errors import KernelError
from offloadrt.kernels.source.element_types import check_type


def launch_key(arguments: Sequence[Any]) -> tuple[Any, ...]:
    """Return what the counts of a launch depend on: shapes and types of arrays, and numbers."""
    # NumPy's numbers have a shape, which is empty; they are told apart by their value.
    return tuple((getattr(a, "shape", None) or plain_number(a), getattr(a, "dtype", type(a))) for a in arguments)


def plain_number(argument: Any) -> Any:
    """Convert a number of NumPy's to Python's; return anything else as it is."""
    return argument.item() if isinstance(argument, np.generic | np.ndarray) and not argument.ndim else argument


@attrs.frozen(eq=False)
class Signature:
    """The parameters of a loop nest."""

    kernel: str
    """The kernel's name, for messages."""
    parameters: tuple[str, ...]
    arrays: frozenset[str]
    """The parameters that are indexed; all others are numbers."""
    complex_parameters: frozenset[str]
    """The parameters that are annotated as complex."""
    index_parameters: tuple[IndexParameter, ...]
    """The parameters that bounds and indices are made of."""

    def check_count(self, arguments: Sequence[Any]) -> None:
        """Raise KernelError for too few or too many arguments."""
        if len(arguments) != len(self.parameters):
            raise KernelError(
                f"kernel {self.kernel!r} takes {len(self.parameters)} arguments ({', '.join(self.parameters)}), not "
                f"{len(arguments)}"
            )

    def check_index_parameters(self, arguments: Sequence[Any]) -> None:
        """Raise KernelError for an argument that makes a bound or an index a float or a truth value."""
        if len(arguments) == len(self.parameters):
            check_index_parameters(self.kernel, self.index_parameters, arguments)

    def check_elements(self, parameter: str, given: object) -> None:
        """Raise KernelError for elements that a loop nest cannot take (`check_type`)."""
        check_type(self.kernel, parameter, given, parameter in self.complex_parameters)

    def counting(self, walked: Walk, arguments: Sequence[Any]) -> Counting:
        """Make the `Counting` of a launch: the walked nest's scalars and lengths as numbers.

        KernelError for arguments that the nest cannot take.
        """
        self.check_count(arguments)
        who = f"kernel {self.kernel!r}"
        numbers: dict[str, int] = {}
        scalars: dict[str, float] = {}
        for name, argument in zip(self.parameters, arguments, strict=True):
            if name in self.arrays:
                self._check_array(walked, name, argument)
                numbers.update(_lengths(name, argument))
            elif hasattr(argument, "__index__"):
                numbers[name] = scalars[name] = argument.__index__()
            elif name not in self.complex_parameters:
                try:
                    if isinstance(argument, str):
                        raise TypeError("a text is no number, whatever it spells")
                    scalars[name] = float(argument)
                except (TypeError, ValueError):
                    raise KernelError(f"{who}: {name} is a number in its source, but {argument!r} was given") from None
        for symbol, operation in walked.operations.items():
            with contextlib.suppress(KeyError, ArithmeticError):  # of a number that is not whole, or a division by zero
                numbers[symbol] = int(operation.value({**scalars, **numbers}))
        return Counting(who, numbers, scalars)

    def _check_array(self, walked: Walk, name: str, argument: Any) -> None:
        """Raise KernelError for elements or dimensions that are not those that the source indexes."""
        if (elements := getattr(argument, "dtype", None)) is None:
            return
        shape = getattr(argument, "shape", None)
        self.check_elements(name, type(argument) if shape == () else elements)
        for access in walked.accesses:
            if access.array == name and shape is not None and len(access.index) != len(shape):
                raise KernelError(
                    f"kernel {self.kernel!r}: {access.text} has {len(access.index)} indices in its source (line "
                    f"{access.line}), but an array of shape {tuple(shape)} was given"
                )


def _lengths(name: str, argument: Any) -> dict[str, int]:
    """Return the lengths of an array by the symbols that polynomials have for them."""
    shape = getattr(argument, "shape", None)
    if shape is None:
        return {}
    lengths = {f"{name}.size": 1}
    for dimension, length in enumerate(shape):
        lengths[f"{name}.shape[{dimension}]"] = lengths[f"{name}.shape[{dimension - len(shape)}]"] = int(length)
        lengths[f"{name}.size"] *= int(length)
    return lengths
