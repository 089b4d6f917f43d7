"""Algebra of whole numbers: the form of loop bounds and indices.

`Polynomial` is an integer polynomial over loop variables, scalars and lengths. `SymbolicOperation` is an operation
without a polynomial, such as a quotient or a minimum. `Cut` is a range of a polynomial, with the rules by which
conditions on such ranges combine.
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
"""First character of a symbol that may be negative; all other symbols are assumed to be non-negative."""


@attrs.frozen(cache_hash=True)
class Polynomial:
    """A sum of `terms`, each (symbols to multiply, coefficient); symbols are loop variables, scalars, array lengths."""

    terms: tuple[tuple[Monomial, int], ...]

    @classmethod
    def of(cls, terms: Iterable[tuple[Monomial, int]]) -> Polynomial:
        return cls._added((tuple(sorted(monomial)), coefficient) for monomial, coefficient in terms)

    @classmethod
    def _added(cls, terms: Iterable[tuple[Monomial, int]]) -> Polynomial:
        """Add terms whose monomials have their symbols in sorted order."""
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
        """Return the value of a constant polynomial; None when the polynomial has symbols."""
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
        """Return the coefficient of a variable; the polynomial must be affine in that variable."""
        factors = [
            (tuple([symbol for symbol in monomial if symbol != variable]), value)
            for monomial, value in self.terms
            if variable in monomial
        ]
        return Polynomial._added(factors) if len(factors) > 1 else Polynomial(tuple(factors))

    def without(self, variables: set[str]) -> Polynomial:
        """Return the polynomial's terms that contain none of these variables."""
        return Polynomial(tuple([term for term in self.terms if variables.isdisjoint(term[0])]))

    def substitute(self, variable: str, value: Polynomial) -> Polynomial:
        """Substitute a polynomial for a variable in which this polynomial is affine."""
        if variable not in self.symbols:
            return self
        return self.without({variable}) + self.coefficient(variable) * value

    def value(self, symbols: Mapping[str, int]) -> int:
        """Evaluate the polynomial for these values; KeyError names a symbol without a value."""
        total = 0
        for monomial, coefficient in self.terms:
            for symbol in monomial:
                coefficient *= symbols[symbol]
            total += coefficient
        return total

    def known(self, symbols: Mapping[str, int]) -> Polynomial:
        """Return the polynomial with numbers in place of those symbols that have a value in `symbols`."""
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
        """Return 1 if the value is >= 0 for all symbols >= 0, -1 if it is <= 0 for them; None if neither is known."""
        if any(symbol.startswith(SIGNED) for symbol in self.symbols):
            return None
        if all(value >= 0 for _, value in self.terms):
            return 1
        return -1 if all(value <= 0 for _, value in self.terms) else None

    def show(self, name_of: Callable[[str], str] = str) -> str:
        """Write the polynomial as source text; `name_of` returns the name of a symbol."""
        shown = ""
        for monomial, value in sorted(self.terms, key=lambda term: (-len(term[0]), term)):
            factors = [name_of(symbol).removeprefix(SIGNED) for symbol in monomial]
            if abs(value) != 1 or not factors:
                factors.insert(0, str(abs(value)))
            sign = "-" if value < 0 else "+"
            shown += f" {sign} {'*'.join(factors)}" if shown else ("-" if value < 0 else "") + "*".join(factors)
        return shown or "0"


FAR = 1 << 100
"""A bound that excludes nothing, because no index is so large."""


@attrs.frozen
class Cut:
    """A condition ``low <= index <= high`` on loop variables; `index` is a polynomial without a constant term."""

    index: Polynomial
    low: int
    high: int

    @classmethod
    def of(cls, index: Polynomial, low: int, high: int) -> Cut:
        """Make the condition (cut) ``low <= index <= high``; the index's constant term moves into the two bounds."""
        constant = index.value(dict.fromkeys(index.symbols, 0))
        return cls(index - Polynomial.number(constant), low - constant, high - constant)


Cuts = tuple[Cut, ...]
"""The iterations in which all of these cuts hold; sorted, and each index occurs once."""

Share = dict[Cuts, float]
"""A fraction of the iterations, as weights by cuts; each weight applies where its cuts hold, and these add up."""

EVERYWHERE: Share = {(): 1.0}


def both(first_share: Share, other: Share) -> Share:
    """Return the fraction of iterations in which two conditions hold together, given the fraction for each one.

    A fraction (`Share`) is a weighted sum: each set of index conditions (cuts) that must hold together has a weight.
    """
    total: Share = {}
    for first, weight in first_share.items():
        for second, factor in other.items():
            cuts = intersection(first, second)
            if cuts is not None:
                total[cuts] = total.get(cuts, 0.0) + weight * factor
    return {cuts: weight for cuts, weight in total.items() if weight or not cuts}


def neither(share: Share) -> Share:
    """Return the fraction of iterations in which a condition does not hold; `share`: the fraction in which it holds."""
    left = {cuts: -weight for cuts, weight in share.items() if cuts}
    return {(): 1.0 - share.get((), 0.0), **left}


def intersection(first: Cuts, second: Cuts) -> Cuts | None:
    """Return the conditions (cuts) that hold where both arguments hold; None if nothing satisfies both."""
    by_index = {cut.index: cut for cut in first}
    for cut in second:
        earlier = by_index.get(cut.index, cut)
        by_index[cut.index] = Cut(cut.index, max(earlier.low, cut.low), min(earlier.high, cut.high))
        if by_index[cut.index].low > by_index[cut.index].high:
            return None
    return tuple(sorted(by_index.values(), key=lambda cut: (cut.index.terms, cut.low, cut.high)))


def cut_range(values: range, cut: Cut, symbol: str, known: Mapping[str, int]) -> range:
    """Return those of a loop variable's `values` for which a condition (cut) on an index holds.

    symbol: the loop's variable. known: the values of the outer loops' variables.
    """
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
"""The operators and functions that a `SymbolicOperation` may have."""
_RISING: Final = frozenset({"min", "max", "int", "floor", "ceil"})

Range = tuple[float, float]


@attrs.frozen
class SymbolicOperation:
    """An operator or function `name` with operands; `symbol` stands for the result in polynomials that contain it."""

    name: str
    operands: tuple[Polynomial | SymbolicOperation, ...]

    def value(self, numbers: Mapping[str, Any]) -> float:
        """Compute the operation's result. Raises KeyError for a symbol without a number, and arithmetic errors."""
        return _FUNCTIONS[self.name](*[operand.value(numbers) for operand in self.operands])

    def ends(self, ends_of: Callable[[Polynomial], Range | None]) -> Range | None:
        """Return the smallest and the largest result of the operation; None if unknown.

        ends_of: returns the smallest and the largest value of an operand that is a polynomial; None if unknown.
        """
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
        """Return 1 if the result is never negative for non-negative scalars (parameters and lengths), else None."""
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
        """Return a polynomial of one symbol, which stands for this operation in other polynomials."""
        return Polynomial.symbol(self.show() if self.sign == 1 else SIGNED + self.show())

    def show(self) -> str:
        """Write the operation as source text."""
        shown = [operand.show() for operand in self.operands]
        if self.name[0].isalpha():
            return f"{self.name}({', '.join(shown)})"
        left, right = [f"({operand})" if " " in operand and operand[-1] != ")" else operand for operand in shown]
        return f"({left} {self.name} {right})"
