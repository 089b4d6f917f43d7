"""Operations whose results are no polynomials: quotients, remainders, minima and maxima.

Where scalars and lengths decide such a number, a launch knows it as it knows these, and it has a symbol of its own.
Where loops decide it, a launch knows its smallest and its largest value.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any, Final

import attrs

from offloadrt.kernels.algebra.polynomial import SIGNED, Polynomial

_FUNCTIONS: Final[Mapping[str, Callable[..., float]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "/": operator.truediv,
    "min": min,
    "max": max,
    "abs": abs,
    "int": int,
    "floor": math.floor,
    "ceil": math.ceil,
}
OPERATIONS: Final = frozenset(_FUNCTIONS)
"""Operators and functions that operations are made of."""
_RISING: Final = frozenset({"min", "max", "int", "floor", "ceil"})

Range = tuple[float, float]


@attrs.frozen
class SymbolicOperation:
    """An operator or a function, and what it is given."""

    name: str
    operands: tuple[Polynomial | SymbolicOperation, ...]

    def value(self, numbers: Mapping[str, Any]) -> float:
        """Compute the result.

        KeyError names a symbol without a number; ZeroDivisionError and OverflowError are Python's.
        """
        return _FUNCTIONS[self.name](*[operand.value(numbers) for operand in self.operands])

    def ends(self, ends_of: Callable[[Polynomial], Range | None]) -> Range | None:
        """Return what it lies between when its polynomials lie between `ends_of`; None when that is not known."""
        ends_of_operands = [
            part.ends(ends_of) if isinstance(part, SymbolicOperation) else ends_of(part) for part in self.operands
        ]
        known = [ends for ends in ends_of_operands if ends is not None]
        if len(known) < len(ends_of_operands):
            return None
        (low, high), *others = known
        function = _FUNCTIONS[self.name]
        if self.name == "abs":
            return (0 if low < 0 < high else min(abs(low), abs(high))), max(abs(low), abs(high))
        if self.name in _RISING:
            return function(*[low for low, _ in known]), function(*[high for _, high in known])
        least, most = others[0]
        if self.name in "//%" and least <= 0:
            return None
        if self.name == "%" and (least < most or low // least < high // least):
            return 0, most - 1
        corners = [function(*corner) for corner in product((low, high), (least, most))]
        return min(corners), max(corners)

    @property
    def sign(self) -> int | None:
        """Return 1 when it is not negative for scalars that are not negative, else None."""
        signs = [operand.sign == 1 for operand in self.operands]
        match self.name:
            case "abs":
                surely = True
            case "max":
                surely = any(signs)
            case "%":
                surely = signs[1]
            case "-":
                surely = False
            case _:
                surely = all(signs)
        return 1 if surely else None

    @property
    def symbols(self) -> frozenset[str]:
        return frozenset[str]().union(*[operand.symbols for operand in self.operands])

    @property
    def symbol(self) -> Polynomial:
        """Return the symbol that stands for it in polynomials."""
        return Polynomial.symbol(self.show() if self.sign == 1 else SIGNED + self.show())

    def show(self) -> str:
        """Write it as source."""
        shown = [operand.show() for operand in self.operands]
        if self.name[0].isalpha():
            return f"{self.name}({', '.join(shown)})"
        left, right = [f"({operand})" if " " in operand and operand[-1] != ")" else operand for operand in shown]
        return f"({left} {self.name} {right})"
