"""Which access of a launch surely leaves its array, found without running it: phantoms have no elements to miss.

Only what is certain counts: an access under no branch, in loops whose bounds the arguments give, with an index that is
a polynomial. It is evaluated in iterations that do happen, the first and the last of every loop, so that a kernel that
runs through on real arrays is never refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from offloadrt.kernels.accesses.frequency import Branch, Path
from offloadrt.kernels.errors import IndexOutOfRange

if TYPE_CHECKING:
    from offloadrt.kernels.accesses.access import ArrayAccess
    from offloadrt.kernels.counting import Counting


@attrs.frozen
class Outside:
    """An access that leaves its array; ``low`` to ``high`` is what its index runs over, as far as it is certain."""

    array: str
    position: int
    """The array's position among the kernel's arguments."""
    text: str
    line: int
    dimension: int
    low: int
    high: int
    length: int

    def error(self, kernel: str, file: str, argument: Any) -> IndexOutOfRange:
        """Return the error that a launch with this argument raises."""
        where = f" of dimension {self.dimension + 1}" if len(argument.shape) > 1 else ""
        name = getattr(argument, "name", self.array)
        called = "" if name == self.array else f" (parameter {self.array})"
        return IndexOutOfRange(
            f"{file}:{self.line}: kernel {kernel!r}: {self.text} is out of bounds: its index runs from {self.low} to "
            f"{self.high}, but array {name!r}{called} has {self.length} elements{where}"
        )


def outside(
    counting: Counting, accesses: Sequence[ArrayAccess], position: int, shape: Sequence[int] | None
) -> Outside | None:
    """Return the first of these accesses to one array that surely leaves it.

    Indices from -length on count from the end.
    """
    corners: dict[tuple[int, ...], list[dict[str, int]]] = {}
    seen: set[tuple[object, ...]] = set()
    for access in accesses:
        if shape is None or len(access.index) != len(shape):
            continue
        blocks = tuple(map(id, access.path))
        if access.guarded or (access.index, blocks) in seen:
            continue
        seen.add((access.index, blocks))
        if blocks not in corners:
            corners[blocks] = list(_corners(counting, access.path, counting.numbers))
        for dimension, (index, length) in enumerate(zip(access.index, shape, strict=True)):
            if index is None or not corners[blocks] or not index.symbols <= corners[blocks][0].keys():
                continue
            values = [index.value(corner) for corner in corners[blocks]]
            low, high = min(values), max(values)
            if low < -length or high >= length:
                return Outside(access.array, position, access.text, access.line, dimension, low, high, int(length))
    return None


def happens(counting: Counting, accesses: Sequence[ArrayAccess]) -> bool:
    """Tell whether one of these accesses surely happens."""
    for access in accesses:
        if access.guarded:
            if counting.exact(access.path) and counting.runs(access.path):
                return True
        elif next(_corners(counting, access.path, counting.numbers), None) is not None:
            return True
    return False


def _corners(counting: Counting, path: Path, known: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Yield the loop variables of those iterations of a block that are first or last in every loop.

    None where that is not certain.
    """
    if not path:
        yield dict(known)
        return
    loop, inner = path[0], path[1:]
    assert not isinstance(loop, Branch)
    values = counting.range_of(loop, known)
    for value in sorted({values[0], values[-1]}) if values else ():
        yield from _corners(counting, inner, {**known, loop.symbol: value})
