"""Integer polynomials over loop variables, scalar parameters and array lengths: the form of an index.

``i * cols + j - 1`` is a polynomial; it is *affine* when every term has at most one loop variable in it (once the
parameters are numbers, a sum of loop variables times constants).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping

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
