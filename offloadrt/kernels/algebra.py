"""Algebra of whole numbers: what bounds and indices are made of.

`Polynomial` is an integer polynomial over loop variables, scalars and lengths; `SymbolicOperation` is what is no
polynomial, such as quotients and minima; `Cut` is a range of a polynomial, and says how conditions on such ranges
combine.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Any, Final

import attrs

Monomial = tuple[str, ...]

SIGNED = "+"
"""Begins a symbol that may be negative; all others are taken not to be."""


@attrs.frozen(cache_hash=True)
class Polynomial:
    """A sum of terms: the product of some symbols, with a whole coefficient that is not zero."""

    terms: tuple[tuple[Monomial, int], ...]

    @classmethod
    def of(cls, terms: Iterable[tuple[Monomial, int]]) -> Polynomial:
        return cls._added((tuple(sorted(monomial)), coefficient) for monomial, coefficient in terms)

    @classmethod
    def _added(cls, terms: Iterable[tuple[Monomial, int]]) -> Polynomial:
        """Add terms whose monomials have their symbols in order."""
        total: dict[Monomial, int] = {}
        for monomial, coefficient in terms:
            total[monomial] = total.get(monomial, 0) + coefficient
        kept = [term for term in total.items() if term[1]]
        if len(kept) > 1:
            kept.sort()
        return cls(tuple(kept))

    @classmethod
    def number(cls, value: int) -> Polynomial:
        return cls((((), value),) if value else ())

    @classmethod
    def symbol(cls, name: str) -> Polynomial:
        return cls((((name,), 1),))

    def __add__(self, other: Polynomial) -> Polynomial:
        if not (self.terms and other.terms):
            return self if self.terms else other
        return Polynomial._added((*self.terms, *other.terms))

    def __sub__(self, other: Polynomial) -> Polynomial:
        if self.terms == other.terms:
            return Polynomial(())
        return Polynomial._added((*self.terms, *[(monomial, -value) for monomial, value in other.terms]))

    def __mul__(self, other: Polynomial) -> Polynomial:
        return Polynomial.of((a + b, x * y) for a, x in self.terms for b, y in other.terms)

    @property
    def constant(self) -> int | None:
        """Return the number that it is, None when it has symbols."""
        if not self.terms:
            return 0
        (monomial, value), *more = self.terms
        return value if not more and not monomial else None

    @functools.cached_property
    def symbols(self) -> frozenset[str]:
        return frozenset([symbol for monomial, _ in self.terms for symbol in monomial])

    def is_affine_in(self, variables: set[str]) -> bool:
        for monomial, _ in self.terms:
            if len(monomial) > 1 and sum([symbol in variables for symbol in monomial]) > 1:
                return False
        return True

    def coefficient(self, variable: str) -> Polynomial:
        """Return the factor of a variable, in a polynomial that is affine in it."""
        factors = [
            (tuple([symbol for symbol in monomial if symbol != variable]), value)
            for monomial, value in self.terms
            if variable in monomial
        ]
        return Polynomial._added(factors) if len(factors) > 1 else Polynomial(tuple(factors))

    def without(self, variables: set[str]) -> Polynomial:
        """Return the terms in which none of the variables is."""
        return Polynomial(tuple([term for term in self.terms if variables.isdisjoint(term[0])]))

    def substitute(self, variable: str, value: Polynomial) -> Polynomial:
        """Put a polynomial in the place of a variable in which this one is affine."""
        if variable not in self.symbols:
            return self
        return self.without({variable}) + self.coefficient(variable) * value

    def value(self, symbols: Mapping[str, int]) -> int:
        """Compute the number that it is for these values; KeyError names a symbol without one."""
        total = 0
        for monomial, coefficient in self.terms:
            for symbol in monomial:
                coefficient *= symbols[symbol]
            total += coefficient
        return total

    def known(self, symbols: Mapping[str, int]) -> Polynomial:
        """Put numbers in the place of the symbols that have one."""
        if not any(symbol in symbols for symbol in self.symbols):
            return self
        terms = []
        for monomial, coefficient in self.terms:
            for symbol in monomial:
                coefficient *= symbols.get(symbol, 1)
            terms.append((tuple([symbol for symbol in monomial if symbol not in symbols]), coefficient))
        return Polynomial._added(terms)

    @property
    def sign(self) -> int | None:
        """Return its sign for symbols that are not negative: 1 if it is not negative, -1 if not positive, else None."""
        if any(symbol.startswith(SIGNED) for symbol in self.symbols):
            return None
        if all(value >= 0 for _, value in self.terms):
            return 1
        return -1 if all(value <= 0 for _, value in self.terms) else None

    def show(self, name_of: Callable[[str], str] = str) -> str:
        """Write it as source."""
        shown = ""
        for monomial, value in sorted(self.terms, key=lambda term: (-len(term[0]), term)):
            factors = [name_of(symbol).removeprefix(SIGNED) for symbol in monomial]
            if abs(value) != 1 or not factors:
                factors.insert(0, str(abs(value)))
            sign = "-" if value < 0 else "+"
            shown += f" {sign} {'*'.join(factors)}" if shown else ("-" if value < 0 else "") + "*".join(factors)
        return shown or "0"


FAR = 1 << 100
"""A bound that excludes nothing: no index comes so far."""


@attrs.frozen
class Cut:
    """Iterations in which an index without a constant term lies between two numbers, both inclusive."""

    index: Polynomial
    low: int
    high: int

    @classmethod
    def of(cls, index: Polynomial, low: int, high: int) -> Cut:
        """Make the cut ``low <= index <= high``."""
        constant = index.value(dict.fromkeys(index.symbols, 0))
        return cls(index - Polynomial.number(constant), low - constant, high - constant)


Cuts = tuple[Cut, ...]
"""All of them hold; sorted, each index once."""

Share = dict[Cuts, float]
"""A sum of weights, each counting in the iterations where its cuts hold."""

EVERYWHERE: Share = {(): 1.0}


def both(first_share: Share, other: Share) -> Share:
    """Return the share in which both conditions hold."""
    total: Share = {}
    for first, weight in first_share.items():
        for second, factor in other.items():
            cuts = intersection(first, second)
            if cuts is not None:
                total[cuts] = total.get(cuts, 0.0) + weight * factor
    return {cuts: weight for cuts, weight in total.items() if weight or not cuts}


def neither(share: Share) -> Share:
    """Return the share in which a condition does not hold."""
    left = {cuts: -weight for cuts, weight in share.items() if cuts}
    return {(): 1.0 - share.get((), 0.0), **left}


def intersection(first: Cuts, second: Cuts) -> Cuts | None:
    """Return the cuts that hold where both do; None when that is nowhere."""
    by_index = {cut.index: cut for cut in first}
    for cut in second:
        earlier = by_index.get(cut.index, cut)
        by_index[cut.index] = Cut(cut.index, max(earlier.low, cut.low), min(earlier.high, cut.high))
        if by_index[cut.index].low > by_index[cut.index].high:
            return None
    return tuple(sorted(by_index.values(), key=lambda cut: (cut.index.terms, cut.low, cut.high)))


def cut_range(values: range, cut: Cut, symbol: str, known: Mapping[str, int]) -> range:
    """Return the values of a loop's variable for which a cut holds, the variables around it being `known`."""
    slope = cut.index.coefficient(symbol).value(known)
    rest = cut.index.without({symbol}).value(known)
    per_step = slope * values.step
    if per_step == 0:
        return values if cut.low <= slope * values.start + rest <= cut.high else values[:0]
    low, high = (bound - rest - slope * values.start for bound in (cut.low, cut.high))
    if per_step < 0:
        low, high, per_step = -high, -low, -per_step
    first, last = -(-low // per_step), high // per_step
    return values[max(first, 0) : max(last + 1, 0)]


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
