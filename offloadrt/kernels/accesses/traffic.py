"""Which accesses move the same elements, so that bytes are counted once.

Accesses whose indices differ by whole steps of the loops around them walk the same elements some iterations apart (the
neighbours of a stencil): a cache holds them, whatever its size. ``a[4 * i]`` and ``a[4 * i + 1]`` do not, nor do
``a[i]`` and ``a[i + n]``. What an iteration has stored itself it does not load from memory. An index that does not vary
with a loop stays in a register or a cache while that loop runs. Accesses under different conditions may happen in the
same iterations, those on the two sides of a branch never do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from offloadrt.kernels.accesses.access import ArrayAccess
from offloadrt.kernels.accesses.frequency import Branch, Loop, Probability, loops_of
from offloadrt.kernels.algebra import Polynomial

Frequency = Callable[[ArrayAccess, Callable[[Loop], bool]], float]
"""Runs of an access for each iteration, without the loops for which the function holds."""


def same_elements(accesses: Iterable[ArrayAccess]) -> list[list[ArrayAccess]]:
    """Group the accesses to one array: together are those that walk the same elements."""
    groups: list[list[ArrayAccess]] = []
    alike: dict[object, list[list[ArrayAccess]]] = {}
    for access in accesses:
        candidates = alike.setdefault(_constants(access), [])
        for group in candidates:
            if _walk_together(group[0], access):
                group.append(access)
                break
        else:
            groups.append([access])
            candidates.append(groups[-1])
    return groups


def _constants(access: ArrayAccess) -> tuple[int | None, ...]:
    """Return the indices that are numbers; accesses to the same elements agree in them."""
    return tuple([None if index is None else index.constant for index in access.index])


def elements(accesses: Iterable[ArrayAccess], frequency: Frequency) -> tuple[float, float]:
    """Return how many elements of one array an iteration reads from memory, and how many it writes there."""
    read = written = 0.0
    for group in same_elements(accesses):
        moved: dict[str, list[tuple[ArrayAccess, float]]] = {"read": [], "write": []}
        for number, access in enumerate(group):
            if access.kind == "read" and any(loads_own_store(earlier, access) for earlier in group[:number]):
                continue
            often = frequency(access, lambda loop, varies=access.loops: loop.symbol not in varies)  # type: ignore[misc]
            moved[access.kind].append((access, often))
        read += jointly(moved["read"])
        written += jointly(moved["write"])
    return read, written


def jointly(runs: Iterable[tuple[ArrayAccess, float]], depth: int = 0) -> float:
    """Return in how many iterations some of the accesses happen, each of which happens in so many.

    That is as many as of the access that happens most. The two sides of a branch add up, unless a loop decides the
    branch with which the access does not vary.
    """
    most = 0.0
    inner: dict[int, tuple[list[tuple[ArrayAccess, float]], list[tuple[ArrayAccess, float]]]] = {}
    for access, often in runs:
        if depth == len(access.path):
            most = max(most, often)
            continue
        part, negated = access.path[depth], False
        decides: Loop | Branch | Probability = part
        if isinstance(part, Branch) and part.symbols <= access.loops:
            decides, negated = part.probability.plain
        inner.setdefault(id(decides), ([], []))[negated].append((access, often))
    return max(
        [most, *(jointly(taken, depth + 1) + jointly(not_taken, depth + 1) for taken, not_taken in inner.values())]
    )


def _walk_together(first: ArrayAccess, second: ArrayAccess) -> bool:
    if first.text == second.text and (first.loops, first.through) == (second.loops, second.through):
        return True
    if len(first.index) != len(second.index) or first.through != second.through:
        return False
    loops = {loop.symbol: loop for loop in loops_of((*first.path, *second.path))}
    return all(
        _steps_apart(first_index, second_index, loops)
        for first_index, second_index in zip(first.index, second.index, strict=True)
    )


def loads_own_store(earlier: ArrayAccess, access: ArrayAccess) -> bool:
    """Tell whether the iteration itself has stored what it loads here."""
    if earlier.kind == "read" or earlier.text != access.text or earlier.index != access.index:
        return False
    around, loops = loops_of(earlier.path), loops_of(access.path)
    conditions = [part.probability for part in access.path if isinstance(part, Branch)]
    holds = all(part.probability in conditions for part in earlier.path if isinstance(part, Branch))
    return loops[: len(around)] == around and holds


def _steps_apart(index: Polynomial | None, other: Polynomial | None, loops: Mapping[str, Loop]) -> bool:
    """Tell whether the indices differ by whole steps of the loops that they vary with, fewer than the loops have."""
    if index is None or other is None:
        return False
    difference = index - other
    if difference.constant == 0:
        return True
    variables = set(loops)
    if difference.symbols & variables or not (index.is_affine_in(variables) and other.is_affine_in(variables)):
        return False
    steps = [
        (index.coefficient(symbol).terms, loops[symbol].literal_trips) for symbol in sorted(index.symbols & variables)
    ]
    single = [(*terms[0], trips) for terms, trips in steps if len(terms) == 1]
    return all(
        any(
            monomial == step and coefficient % size == 0 and (trips is None or abs(coefficient // size) < trips)
            for step, size, trips in single
        )
        for monomial, coefficient in difference.terms
    )
