"""Argument descriptors: what JACC's translator tells its runtime of each argument of a pushed kernel.

Symbol, type, address, size, what the analysis of the source found (`Attribute`) and the bounds of what the kernel
touches. The translator's analysis is here the kernel's own (`Kernel.arrays`).
"""

from __future__ import annotations

import enum
import inspect
import re
from typing import Any

import attrs
import numpy as np

from offloadrt.kernels import Kernel
from offloadrt.runtime.host_array import HostArray


class Attribute(enum.Flag):
    """What is known of an array argument.

    WRITE: the kernel writes it. PRESENT: it is on the device already; any other array is copied in and out for the
    launch. REDUCTED: the iterations combine their values in it.
    """

    NONE = 0
    WRITE = enum.auto()
    PRESENT = enum.auto()
    REDUCTED = enum.auto()


@attrs.frozen(eq=False)
class Argument:
    """One argument. address and size are of the host's memory, in bytes; 0 for a number.

    bounds: rows [lower, upper) of an array's first dimension outside of which the kernel touches nothing.
    """

    symbol: str
    type: np.dtype[Any]
    address: int
    size: int
    attributes: Attribute
    bounds: tuple[int, int] | None
    value: Any

    @property
    def is_array(self) -> bool:
        return isinstance(self.value, HostArray)

    @property
    def writes(self) -> bool:
        """Tell whether it is written, reductions included."""
        return bool(self.attributes & (Attribute.WRITE | Attribute.REDUCTED))

    @property
    def range(self) -> tuple[int, int]:
        """Return the bytes [begin, end) of the host's memory that stand for what the kernel touches."""
        if self.bounds is None:
            return self.address, self.address + self.size
        row = self.size // len(self.value) if len(self.value) else 0
        return self.address + self.bounds[0] * row, self.address + self.bounds[1] * row


def jacc_arg_build(
    symbol: str, value: Any, attributes: Attribute = Attribute.NONE, bounds: tuple[int, int] | None = None
) -> Argument:
    """Build the descriptor of one argument, a `HostArray` or a number.

    TypeError for another value, ValueError for attributes or bounds of a number, bounds outside of the array, and a
    whole number of more than 64 bits.
    """
    if isinstance(value, HostArray):
        if bounds is not None and not 0 <= bounds[0] <= bounds[1] <= value.shape[0]:
            raise ValueError(f"argument {symbol!r}: bounds {bounds} lie outside of {value.name}[0:{value.shape[0]}]")
        return Argument(symbol, value.dtype, value.address, value.nbytes, attributes, bounds, value)
    number = value.item() if isinstance(value, np.generic) else value
    if not isinstance(number, (bool, int, float, complex)):
        raise TypeError(f"argument {symbol!r}: {value!r} is neither an array nor a number")
    if isinstance(number, int) and not -(2**63) <= number < 2**63:
        raise ValueError(f"argument {symbol!r} has {number.bit_length()} bits: whole numbers of a kernel have 64")
    if attributes is not Attribute.NONE or bounds is not None:
        raise ValueError(f"argument {symbol!r} is the number {number!r}: it has neither attributes nor bounds")
    return Argument(symbol, np.result_type(type(number)), 0, 0, attributes, None, number)


def jacc_args(kernel: Kernel, *values: Any, present: bool = True) -> tuple[Argument, ...]:
    """Build the descriptors of a kernel's arguments, as the translator does from its analysis of the source.

    present: whether the arrays are on the device already. An array of which nothing is known counts as written.
    TypeError and ValueError as for `jacc_arg_build`, and ValueError for too many or too few values.
    """
    symbols = symbols_of(kernel, len(values))
    if len(symbols) != len(values):
        raise ValueError(f"kernel {kernel.name!r} takes {len(symbols)} arguments, not {len(values)}")
    written = {use.position: use.writes > 0 for use in kernel.arrays}
    reduced = _reduced_arrays(kernel)
    arguments = []
    for position, (symbol, value) in enumerate(zip(symbols, values, strict=True)):
        attributes = Attribute.NONE
        if isinstance(value, HostArray):
            if written.get(position, not written):
                attributes |= Attribute.WRITE
            if symbol in reduced:
                attributes |= Attribute.REDUCTED
            if present:
                attributes |= Attribute.PRESENT
        arguments.append(jacc_arg_build(symbol, value, attributes))
    return tuple(arguments)


def symbols_of(kernel: Kernel, count: int) -> tuple[str, ...]:
    """Return the names of a kernel's arguments: those of its source, for a phantom kernel those of its arrays."""
    if kernel.analysis is not None:
        return kernel.analysis.parameters
    if kernel.body is not None:
        return tuple(inspect.signature(kernel.body).parameters)
    named = {use.position: use.name for use in kernel.arrays}
    return tuple(named.get(position, f"arg{position}") for position in range(count))


def _reduced_arrays(kernel: Kernel) -> set[str]:
    """Return the arrays whose elements the loop reduces, and those that get what it has reduced into scalars."""
    if kernel.analysis is None:
        return set()
    names = {re.split(r"\W", reduction.target, maxsplit=1)[0] for reduction in kernel.analysis.reductions}
    arrays = {use.name for use in kernel.analysis.arrays}
    if names <= arrays:
        return names
    stores = [access for access in kernel.analysis.accesses if access.kind == "write"]
    return names & arrays | {
        access.array for access in stores if not set(kernel.analysis.distributed) & set(access.path)
    }
