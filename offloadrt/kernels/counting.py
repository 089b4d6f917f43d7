"""Counting iterations: how often the blocks of a loop nest run once the arguments of a launch are known.

`CountedLaunch` counts the runs of a block, exactly for affine bounds. Sums over loops that depend on one another are
computed in closed form. `Range` is the smallest and the largest value of an index.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from offloadrt.kernels.accesses import (
    BRANCH,
    UNKNOWN_LOOP,
    Branch,
    Condition,
    Hint,
    Loop,
    Path,
    Within,
    guessed_branch,
    guessed_loop,
    loops_of,
)
from offloadrt.kernels.algebra import EVERYWHERE, FAR, SIGNED, Cut, Cuts, Polynomial, Share, both, cut_range, neither
from offloadrt.kernels.array_use import KernelError

Range = tuple[Polynomial, Polynomial]
"""Smallest and largest value, both inclusive."""


def extent(index: Polynomial, path: Path, known: Mapping[str, int]) -> Range | None:
    """Return the smallest and the largest value of an index at some place in the source; None if not known.

    path: the loops and branches around that place. known: the values of scalars and array lengths; others are assumed
    to be non-negative. The result is None when the index is not affine or depends on data. The range contains all
    touched indices, and is exact when no loop is empty and no branch excludes anything.
    """
    lowest = highest = index.known(known)
    for loop in reversed(loops_of(path)):
        if loop.symbol not in lowest.symbols | highest.symbols:
            continue
        ends = loop_ends(loop, known)
        if ends is None or not all(bound.is_affine_in({loop.symbol}) for bound in (lowest, highest)):
            return None
        down, up = lowest.coefficient(loop.symbol).sign, highest.coefficient(loop.symbol).sign
        if down is None or up is None:
            return None
        lowest = lowest.substitute(loop.symbol, ends[0] if down > 0 else ends[1])
        highest = highest.substitute(loop.symbol, ends[1] if up > 0 else ends[0])
    return lowest, highest


def loop_ends(loop: Loop, known: Mapping[str, int]) -> Range | None:
    """Return the smallest and largest value of a loop's variable over all iterations of the outer loops.

    known: the values of scalars and array lengths. Returns None if a bound is not known.
    """
    if loop.start is None or loop.stop is None:
        return None
    start, stop = loop.start.known(known), loop.stop.known(known)
    if start.constant is not None and stop.constant is not None:
        values = range(start.constant, stop.constant, loop.step)
        last = Polynomial.number(values[-1]) if values else start
    else:
        last = stop - Polynomial.number(1 if loop.step > 0 else -1)
    return (start, last) if loop.step > 0 else (last, start)


_ADDED_ONE_BY_ONE = 64
_ADDED_AT_MOST = 1 << 20
_SYSTEMS = 5000
"""Largest number of points where bounds meet that are examined."""
_MARGIN = 2
"""Iterations on either side of a break that are added one by one, because bounds are rounded to integers."""


def exact(function: Callable[[int], int], count: int, breaks: tuple[int, Sequence[int]] | None) -> int | None:
    """Return the exact sum function(0) + … + function(count - 1); None if that takes too long.

    `breaks`: (degree, break points): between two break points the function is a polynomial of at most this degree.
    None: the function is no polynomial.
    """
    if breaks is None or count <= _ADDED_ONE_BY_ONE:
        return _one_by_one(function, 0, count) if count <= _ADDED_AT_MOST else None
    degree, points = breaks
    ends = {0, count}
    for point in points:
        ends |= {point - _MARGIN, point + _MARGIN}
    total = 0
    for low, high in itertools.pairwise(sorted(end for end in ends if 0 <= end <= count)):
        part = None
        if high - low > _ADDED_ONE_BY_ONE:
            part = _by_differences(function, low, high, degree)
        if part is None:
            if high - low > _ADDED_AT_MOST:
                return None
            part = _one_by_one(function, low, high)
        total += part
    return total


def sampled(function: Callable[[int], int], count: int) -> int:
    """Estimate the sum function(0) + … + function(count - 1) from some of its terms."""
    samples = [number * count // _ADDED_AT_MOST for number in range(_ADDED_AT_MOST)]
    return sum(function(sample) for sample in samples) * count // _ADDED_AT_MOST


def breaks(
    loop: Loop, values: range, inner: Sequence[Loop], cuts: Cuts, known: Mapping[str, int]
) -> tuple[int, list[int]] | None:
    """Return at which iterations of an outer loop the number of inner iterations may follow another polynomial.

    Between these iterations, the number is one polynomial of the outer loop's variable. Returns (highest degree of the
    polynomials, iterations); None when there are too many bounds. values: those of the outer `loop`'s variable.
    inner, cuts: the loops to count, and the conditions on their variables. known: values of symbols.
    """
    variables = [loop.symbol, *(other.symbol for other in inner)]
    columns = {symbol: column for column, symbol in enumerate(variables)}
    bounds = [
        bound.known(known) - Polynomial.symbol(other.symbol)
        for other in inner
        for bound in (other.start, other.stop)
        if bound is not None
    ]
    for cut in cuts:
        index = cut.index.known(known)
        bounds += [index - Polynomial.number(end) for end in (cut.low, cut.high) if abs(end) < FAR // 2]
    rows = [_row(bound, columns) for bound in dict.fromkeys(bounds) if bound.symbols <= set(variables)]
    sides = [row for row in rows if row is not None]
    if math.comb(len(sides), len(variables)) > _SYSTEMS:
        return None
    systems = np.array(list(itertools.combinations(sides, len(variables))))
    if not len(systems):
        return 2 * len(inner) + 1, []
    matrices, right = systems[:, :, :-1], -systems[:, :, -1]
    regular = np.abs(np.linalg.det(matrices)) > 0.5  # of whole numbers
    met = np.linalg.solve(matrices[regular], right[regular][:, :, np.newaxis])[:, 0, 0]
    meeting = {round(float(point)) for point in (met - values.start) / values.step}
    return 2 * len(inner) + 1, sorted(meeting)


def _row(side: Polynomial, columns: Mapping[str, int]) -> list[float] | None:
    row = [0.0] * (len(columns) + 1)
    for monomial, coefficient in side.terms:
        if len(monomial) > 1:
            return None
        row[columns[monomial[0]] if monomial else -1] = float(coefficient)
    return row


def _one_by_one(function: Callable[[int], int], low: int, high: int) -> int:
    return sum(function(number) for number in range(low, high))


def _by_differences(function: Callable[[int], int], low: int, high: int, degree: int) -> int | None:
    """Sum a polynomial's values from its differences; None when samples show that it is no polynomial."""
    differences = [function(low + number) for number in range(degree + 1)]
    for order in range(1, degree + 1):
        for index in range(degree, order - 1, -1):
            differences[index] -= differences[index - 1]
    count = high - low
    samples = (count - 1, count // 2, count * 3 // 4, count // 7)
    if all(_newton(differences, at, 0) == function(low + at) for at in samples):
        return _newton(differences, count, 1)
    return None


def _newton(differences: Sequence[int], at: int, shift: int) -> int:
    """Return Σₖ Δᵏ · C(at, k + shift): with shift 0 the polynomial's value at `at`, with 1 its sum over 0 … at - 1."""
    total = 0
    for order, difference in enumerate(differences):
        total += difference * _choose(at, order + shift)
    return total


def _choose(n: int, k: int) -> int:
    result = 1
    for number in range(k):
        result = result * (n - number) // (number + 1)
    return result


Numbers = Mapping[str, int]


@attrs.frozen(eq=False)
class CountedLaunch:
    """A launch of a kernel with known scalars and array lengths; counts how often parts of the kernel's source run."""

    who: str
    """The kernel as messages call it."""
    numbers: dict[str, int]
    """The launch's whole-number scalars and array lengths, by their symbol."""
    scalars: dict[str, float]
    """Scalars that hints may name."""
    assumed: set[str] = attrs.field(factory=set)
    """Descriptions of the assumptions that were needed."""
    _runs: dict[tuple[int, ...], tuple[Path, float]] = attrs.field(factory=dict, init=False, repr=False)
    """Cached runs of a block, by the identity of its path's parts; the entry keeps these alive."""
    _extents: dict[Any, tuple[Path, tuple[int, int] | None]] = attrs.field(factory=dict, init=False, repr=False)
    """Cached extents of an index, by index and path."""

    def runs(self, path: Path) -> float:
        """Count how often a launch runs the source code inside `path`, the loops and branches around it."""
        key = tuple(map(id, path))
        known = self._runs.get(key)
        if known is None:
            known = self._runs[key] = path, self._counted_runs(path)
        return known[1]

    def _counted_runs(self, path: Path) -> float:
        share = EVERYWHERE
        exact: list[Loop] = []
        for part in path:
            if isinstance(part, Branch):
                share = both(share, self.share(part.condition, part.line, exact))
            elif not self.counted(part):
                share = {cuts: weight * self.assumed_trips(part) for cuts, weight in share.items()}
            else:
                exact.append(part)
        often = 0.0
        for cuts, weight in share.items():
            often += weight * self.iterations(exact, {}, cuts)
        return often

    def share(self, condition: Condition, line: int, loops: Sequence[Loop]) -> Share:
        """Return the fraction of the iterations of `loops` in which `condition` holds.

        The fraction (`Share`) is a weighted sum: each set of index conditions that must hold together has a weight.
        line: the condition's source line, for messages on a condition that only data decide.
        """
        if condition.within:
            ranges = [self.share_within(within, line, loops) for within in condition.within]
            parts = [share for share in ranges if share is not None]
            if len(parts) == len(ranges):
                return _all(parts)
            if condition.hint is not None:
                self.assumed.add(f"line {line}: the loop's range has an end that is taken not to cut it")
            return {(): self.probability(condition.hint, line)}
        if condition.kind == "branch":
            return {(): self.probability(condition.hint, line)}
        parts = [self.share(part, line, loops) for part in condition.parts]
        if condition.kind in ("not", "or"):
            parts = [neither(part) for part in parts]
        product = _all(parts)
        return neither(product) if condition.kind == "or" else product

    def share_within(self, within: Within, line: int, loops: Sequence[Loop]) -> Share | None:
        """Return the fraction of the iterations of `loops` in which the condition `within` holds; None where not known.

        line: the source line, for messages. The result is exact for an index affine in loops with known bounds.
        """
        bounds = self.bounds_of(within)
        if bounds is None:
            return None
        if within.index is None:
            among = None if within.among is None else within.among.known(self.numbers).constant
            if not among:
                return None
            self.assumed.add(f"line {line}: an index from data is equally often each of the {among} that it can be")
            return {(): max(0, min(bounds[1], among - 1) - max(bounds[0], 0) + 1) / among}
        index = within.index.known(self.numbers)
        certain: set[str] = set()
        for loop in loops:
            ends = [end for end in (loop.start, loop.stop) if end is not None]
            if all(end.symbols <= certain | set(self.numbers) for end in ends):
                certain.add(loop.symbol)
        if not index.symbols <= certain or not index.is_affine_in(certain):
            return None
        cut = Cut.of(index, *bounds)
        if cut.index.symbols:
            return {(cut,): 1.0} if cut.low <= cut.high else {}
        return EVERYWHERE if cut.low <= 0 <= cut.high else {}

    def exact(self, path: Path) -> bool:
        """Tell whether `runs(path)` is exact: loop bounds and index ranges alone decide how often the code runs."""
        return self.decides(path) and all(map(self.counted, loops_of(path)))

    def decides(self, path: Path) -> bool:
        """Tell whether index ranges alone decide in which iterations the code inside `path` (loops, branches) runs."""
        for depth, part in enumerate(path):
            if isinstance(part, Branch) and (
                not part.condition.exact
                or any(
                    within.index is None or self.share_within(within, part.line, loops_of(path[:depth])) is None
                    for within in part.condition.ranges()
                )
            ):
                return False
        return True

    def bounds_of(self, within: Within) -> tuple[int, int] | None:
        """Return the smallest and the largest index that the condition `within` (`low <= index <= high`) allows."""
        low = -FAR if within.low is None else within.low.known(self.numbers).constant
        high = FAR if within.high is None else within.high.known(self.numbers).constant
        return None if low is None or high is None else (low, high)

    def mean_trips(self, path: Path, loop: Loop) -> float:
        """Return the mean number of iterations per entry of `loop`, which is one of the loops and branches `path`."""
        depth = path.index(loop)
        entered, end = self.runs(path[:depth]), depth + 1
        if end < len(path) and isinstance(after := path[end], Branch) and after.of_loop:
            end += 1
        return self.runs(path[:end]) / entered if entered else 0.0

    def probability(self, hint: Hint, line: int) -> float:
        """Return the probability of the branch at a source line: what `expect` says (the hint), or else 0.5."""
        if hint is None:
            self.assumed.add(guessed_branch(line))
            return BRANCH
        return self.hinted(hint, "the probability of a branch")

    def assumed_trips(self, loop: Loop) -> float:
        if loop.trips is None:
            self.assumed.add(guessed_loop(loop))
            return UNKNOWN_LOOP
        return self.hinted(loop.trips, "how often a loop runs", math.inf)

    def hinted(self, hint: float | str, what: str, most: float = 1.0) -> float:
        """Return the value of a hint: the number given to `expect`, or the scalar parameter that is named there.

        what: says in errors what the number is. Raises KernelError if a parameter's value is not in 0..`most`.
        """
        if not isinstance(hint, str):
            return float(hint)
        value = self.scalars[hint]
        if not (0.0 <= value <= most and value < math.inf):
            least = "at least 0" if most == math.inf else f"from 0 to {most:g}"
            raise KernelError(f"{self.who}: {hint} is {what}, which is a number {least}, not {value:g}")
        return value

    def counted(self, loop: Loop) -> bool:
        """Tell whether a loop's iterations can be counted: bounds are numbers, or polynomials in counted outer loops.

        Raises KernelError when a scalar or an array length in a bound is not known.
        """
        if loop.start is None or loop.stop is None:
            return False
        missing = {s for s in (loop.start.symbols | loop.stop.symbols) - set(self.numbers) if "@" not in s}
        if missing:
            what = ", ".join(sorted(symbol.removeprefix(SIGNED) for symbol in missing))
            raise KernelError(
                f"{self.who}: the loop over {loop.name} in line {loop.line} needs {what}, which "
                "is not known from these arguments; pass arrays with a shape, and whole numbers for bounds"
            )
        return True

    def iterations(self, loops: Sequence[Loop], outer: Numbers, cuts: Cuts = ()) -> int:
        """Count the iterations of nested loops in which all cuts (conditions) hold.

        outer: the values of the variables of the loops around.
        """
        if not loops:
            return 1
        loop, *inner = loops
        known = {**self.numbers, **outer}
        values = self.range_of(loop, known)
        if values is None:
            return round(self.assumed_trips(loop)) * self.iterations(inner, outer, cuts)
        within = {other.symbol for other in inner}
        later = tuple(cut for cut in cuts if cut.index.symbols & within)
        for cut in cuts:
            if cut not in later:
                values = cut_range(values, cut, loop.symbol, known)
        bounds = [bound for other in inner for bound in (other.start, other.stop) if bound]
        depends = [*bounds, *(cut.index for cut in later)]
        if not any(loop.symbol in polynomial.symbols for polynomial in depends):
            return len(values) * self.iterations(inner, outer, later)

        def at(number: int) -> int:
            return self.iterations(inner, {**outer, loop.symbol: values[number]}, later)

        total = exact(at, len(values), breaks(loop, values, inner, later, known))
        if total is None:
            self.assumed.add("loops that depend on one another are counted from samples")
            total = sampled(at, len(values))
        return total

    def range_of(self, loop: Loop, known: Numbers) -> range | None:
        """Return the values of a loop's variable; None when a bound is not known."""
        if loop.start is None or loop.stop is None:
            return None
        try:
            values = range(loop.start.value(known), loop.stop.value(known), loop.step)
        except KeyError:  # the variable of a loop that runs over data
            return None
        if values and (values[-1] - values[0]) // loop.step >= sys.maxsize:
            raise KernelError(f"{self.who}: the loop over {loop.name} in line {loop.line} is over {values}")
        return values

    def extent(self, index: Polynomial, path: Path) -> tuple[int, int] | None:
        """Return the smallest and largest value of an index in the loops of `path`; None if not affine in them."""
        key = index, *map(id, path)
        if key not in self._extents:
            ends = extent(index, path, self.numbers)
            low, high = (None, None) if ends is None else (ends[0].constant, ends[1].constant)
            self._extents[key] = path, None if low is None or high is None else (low, high)
        return self._extents[key][1]


def _all(parts: Sequence[Share]) -> Share:
    """Return the share in which all conditions hold."""
    product = EVERYWHERE
    for part in parts:
        product = both(product, part)
    return product
