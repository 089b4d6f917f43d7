"""How often a loop nest's blocks run when the bounds are numbers: exact for affine bounds, also for triangles.

The iterations of a nest are a polynomial in the variable of an outer loop between the places where an inner loop begins
or ceases to be empty (`summation.py`), so that the count of a triangle over 10⁹ rows is exact and takes microseconds.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from offloadrt.kernels.accesses.frequency import (
    BRANCH,
    UNKNOWN_LOOP,
    Branch,
    Hint,
    Loop,
    Path,
    Probability,
    Within,
    guessed_branch,
    guessed_loop,
    loops_of,
)
from offloadrt.kernels.algebra.intervals import EVERYWHERE, FAR, Cut, Cuts, Share, both, cut_range, neither
from offloadrt.kernels.algebra.polynomial import SIGNED, Polynomial
from offloadrt.kernels.counting import summation
from offloadrt.kernels.counting.index_ranges import extent
from offloadrt.kernels.counting.summation import breaks
from offloadrt.kernels.errors import KernelError

Numbers = Mapping[str, int]


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
    _runs: dict[tuple[int, ...], tuple[Path, float]] = attrs.field(factory=dict, init=False, repr=False)
    """How often a block runs, by the identity of its path's parts, which it keeps: blocks have many accesses."""
    _extents: dict[Any, tuple[Path, tuple[int, int] | None]] = attrs.field(factory=dict, init=False, repr=False)
    """The extents of an index, by index and path."""

    def runs(self, path: Path) -> float:
        """Count how often a launch runs a block."""
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
                share = both(share, self.share(part.probability, part.line, exact))
            elif not self.counted(part):
                share = {cuts: weight * self.assumed_trips(part) for cuts, weight in share.items()}
            else:
                exact.append(part)
        often = 0.0
        for cuts, weight in share.items():
            often += weight * self.iterations(exact, {}, cuts)
        return often

    def share(self, probability: Probability, line: int, loops: Sequence[Loop]) -> Share:
        """Return the share of some loops' iterations in which a condition holds."""
        if probability.within:
            ranges = [self.share_within(within, line, loops) for within in probability.within]
            parts = [share for share in ranges if share is not None]
            if len(parts) == len(ranges):
                return _all(parts)
            if probability.hint is not None:
                self.assumed.add(f"line {line}: the loop's range has an end that is taken not to cut it")
            return {(): self.probability(probability.hint, line)}
        if probability.kind == "branch":
            return {(): self.probability(probability.hint, line)}
        parts = [self.share(part, line, loops) for part in probability.parts]
        if probability.kind in ("not", "or"):
            parts = [neither(part) for part in parts]
        product = _all(parts)
        return neither(product) if probability.kind == "or" else product

    def share_within(self, within: Within, line: int, loops: Sequence[Loop]) -> Share | None:
        """Return the share in which a range holds; None where it cannot be told.

        It is exact where the index is affine in loops whose bounds are numbers.
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
        """Tell whether the bounds of loops and the ranges of indices alone decide how often a block runs."""
        return self.decides(path) and all(map(self.counted, loops_of(path)))

    def decides(self, path: Path) -> bool:
        """Tell whether the ranges of indices alone decide in which iterations a block runs."""
        for place, part in enumerate(path):
            if isinstance(part, Branch) and (
                not part.probability.exact
                or any(
                    within.index is None or self.share_within(within, part.line, loops_of(path[:place])) is None
                    for within in part.probability.ranges()
                )
            ):
                return False
        return True

    def bounds_of(self, within: Within) -> tuple[int, int] | None:
        """Return the smallest and the largest value that a range allows; None where a bound is not known."""
        low = -FAR if within.low is None else within.low.known(self.numbers).constant
        high = FAR if within.high is None else within.high.known(self.numbers).constant
        return None if low is None or high is None else (low, high)

    def mean_trips(self, path: Path, loop: Loop) -> float:
        """Return the iterations of a loop each time that it is entered, on average."""
        place = path.index(loop)
        entered, end = self.runs(path[:place]), place + 1
        if end < len(path) and isinstance(after := path[end], Branch) and after.of_loop:
            end += 1
        return self.runs(path[:end]) / entered if entered else 0.0

    def probability(self, hint: Hint, line: int) -> float:
        """Return the probability of a branch: its hint, or 0.5."""
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
        """Return the number that a hint is, or that the scalar has which it names. KernelError when it is none."""
        if not isinstance(hint, str):
            return float(hint)
        value = self.scalars[hint]
        if not (0.0 <= value <= most and value < math.inf):
            least = "at least 0" if most == math.inf else f"from 0 to {most:g}"
            raise KernelError(f"{self.who}: {hint} is {what}, which is a number {least}, not {value:g}")
        return value

    def counted(self, loop: Loop) -> bool:
        """Tell whether the loop's bounds are numbers, or polynomials in variables of counted loops around it.

        KernelError when a scalar or a length in a bound is not known.
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
        """Count the iterations of a nest in which all cuts hold, for values of the variables around it."""
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

        total = summation.exact(at, len(values), breaks(loop, values, inner, later, known))
        if total is None:
            self.assumed.add("loops that depend on one another are counted from samples")
            total = summation.sampled(at, len(values))
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
        """Return the smallest and the largest value of an index (`index_ranges.extent`), in numbers."""
        key = index, *map(id, path)
        if key not in self._extents:
            ends = extent(index, path, self.numbers)
            low, high = (None, None) if ends is None else (ends[0].constant, ends[1].constant)
            self._extents[key] = path, None if low is None or high is None else (low, high)
        return self._extents[key][1]


def _all(parts: Sequence[Share]) -> Share:
    """Return the share in which all of some conditions hold."""
    product = EVERYWHERE
    for part in parts:
        product = both(product, part)
    return product
