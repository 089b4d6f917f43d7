"""How often a loop nest's blocks run when the bounds are numbers: exact for affine bounds, also for triangles.

The iterations of a nest are a polynomial in the variable of an outer loop as long as no inner loop is cut off at zero.
Its sum over that loop follows from a few samples by Newton's forward differences, so that the count of a triangle over
10⁹ rows is exact and takes microseconds. Samples elsewhere check it; where they disagree, all are added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from offloadrt.kernels.errors import KernelError
from offloadrt.kernels.frequency import BRANCH, UNKNOWN_LOOP, Branch, Hint, Loop, Path
from offloadrt.kernels.index_ranges import extent
from offloadrt.kernels.polynomial import Polynomial

Numbers = Mapping[str, int]

_ADDED_ONE_BY_ONE = 64
_ADDED_AT_MOST = 1 << 20


@attrs.frozen(eq=False)
class Counting:
    """The blocks of one kernel for given scalars and lengths."""

    who: str
    numbers: dict[str, int]
    """Scalars that are whole, and lengths, by their symbol."""
    scalars: dict[str, float]
    """Scalars that hints may name."""
    assumed: set[str] = attrs.field(factory=set)
    """What had to be assumed, in words."""

    def runs(self, path: Path) -> float:
        """How often a launch runs a block."""
        often = 1.0
        exact: list[Loop] = []
        for part in path:
            if isinstance(part, Branch):
                often *= part.probability.value(lambda hint, line=part.line: self.probability(hint, line))  # type: ignore[misc]
            elif not self.counted(part):
                often *= self.assumed_trips(part)
            else:
                exact.append(part)
        return often * self.iterations(exact, {})

    def mean_trips(self, path: Path, loop: Loop) -> float:
        """Iterations of a loop each time that it is entered, on average."""
        before = path[: path.index(loop)]
        entered = self.runs(before)
        return self.runs((*before, loop)) / entered if entered else 0.0

    def probability(self, hint: Hint, line: int) -> float:
        """Of a branch: its hint, or 0.5."""
        if hint is None:
            self.assumed.add(f"line {line}: the branch is taken with probability {BRANCH}")
            return BRANCH
        return self.scalars[hint] if isinstance(hint, str) else float(hint)

    def assumed_trips(self, loop: Loop) -> float:
        if loop.trips is None:
            self.assumed.add(f"line {loop.line}: the loop over {loop.name} runs {UNKNOWN_LOOP:g} times")
            return UNKNOWN_LOOP
        return self.scalars[loop.trips] if isinstance(loop.trips, str) else float(loop.trips)

    def counted(self, loop: Loop) -> bool:
        """Are the loop's bounds numbers, or polynomials in the variables of loops around it that are?"""
        if loop.start is None or loop.stop is None:
            return False
        missing = {s for s in (loop.start.symbols | loop.stop.symbols) - set(self.numbers) if "@" not in s}
        if missing:
            raise KernelError(
                f"{self.who}: the loop over {loop.name} in line {loop.line} needs {', '.join(sorted(missing))}, which "
                "is not known from these arguments; pass arrays with a shape, and whole numbers for bounds"
            )
        return True

    def iterations(self, loops: Sequence[Loop], outer: Numbers) -> int:
        """Of a nest, for values of the variables around it."""
        if not loops:
            return 1
        loop, *inner = loops
        known = {**self.numbers, **outer}
        values = self.range_of(loop, known)
        if values is None:
            return round(self.assumed_trips(loop)) * self.iterations(inner, outer)
        if not any(loop.symbol in bound.symbols for other in inner for bound in (other.start, other.stop) if bound):
            return len(values) * self.iterations(inner, outer)

        def at(number: int) -> int:
            return self.iterations(inner, {**outer, loop.symbol: values[number]})

        return self.added(at, len(values), 2 * len(inner) + 1)

    def range_of(self, loop: Loop, known: Numbers) -> range | None:
        """The values of a loop's variable; None when a bound is not known."""
        try:
            return (
                None
                if loop.start is None or loop.stop is None
                else range(loop.start.value(known), loop.stop.value(known), loop.step)
            )
        except KeyError:  # the variable of a loop that runs over data
            return None

    def added(self, function: Callable[[int], int], count: int, degree: int) -> int:
        """function(0) + … + function(count - 1)."""
        if count <= _ADDED_ONE_BY_ONE:
            return sum(function(number) for number in range(count))
        differences = [function(number) for number in range(degree + 1)]
        for order in range(1, degree + 1):
            for place in range(degree, order - 1, -1):
                differences[place] -= differences[place - 1]
        if all(
            _newton(differences, at, 0) == function(at) for at in (count - 1, count // 2, count * 3 // 4, count // 7)
        ):
            return _newton(differences, count, 1)
        if count <= _ADDED_AT_MOST:
            return sum(function(number) for number in range(count))
        self.assumed.add("loops that depend on one another are counted from samples")
        return (
            sum(function(number * count // _ADDED_AT_MOST) for number in range(_ADDED_AT_MOST))
            * count
            // _ADDED_AT_MOST
        )

    def extent(self, index: Polynomial, path: Path) -> tuple[int, int] | None:
        """Smallest and largest value of an index (`index_ranges.extent`), in numbers."""
        found = extent(index, path, self.numbers)
        low, high = (None, None) if found is None else (found[0].constant, found[1].constant)
        return None if low is None or high is None else (low, high)


def _newton(differences: Sequence[int], at: int, shift: int) -> int:
    """Σₖ Δᵏ · C(at, k + shift): with shift 0 the polynomial's value at `at`, with 1 its sum over 0 … at - 1."""
    total = 0
    for order, difference in enumerate(differences):
        total += difference * _choose(at, order + shift)
    return total


def _choose(n: int, k: int) -> int:
    result = 1
    for number in range(k):
        result = result * (n - number) // (number + 1)
    return result
