"""Pointer validation, which finds pointers among a kernel's arguments that the device cannot use.

All pointers among the kernel's arguments are looked at. What they point to is not: a kernel finds an array behind
`indirect` that neither the validation nor the prefetches see.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from offloadrt.models.stdpar.arrays import UsmArray


@attrs.frozen(eq=False)
class Indirect:
    """An argument that the kernel reaches through a pointer in memory, not by one of its own."""

    array: UsmArray


def indirect(array: UsmArray) -> Indirect:
    """Mark an array that a kernel finds behind a pointer in memory: it uses it, and the runtime does not know."""
    return Indirect(array)


def pointers(arguments: Sequence[Any]) -> Iterator[UsmArray]:
    """List the arrays whose addresses are among a kernel's arguments."""
    for argument in arguments:
        if isinstance(argument, UsmArray):
            yield argument


def host_pointers(arguments: Sequence[Any]) -> list[UsmArray]:
    """List those of them that only the host can use: of the C library's heap, and of a stack."""
    return [array for array in pointers(arguments) if array.memory in ("heap", "stack")]


def direct(arguments: Sequence[Any]) -> list[Any]:
    """Unwrap the arguments as the kernel's body gets them."""
    return [argument.array if isinstance(argument, Indirect) else argument for argument in arguments]
