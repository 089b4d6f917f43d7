"""What a loop nest does to memory: its loads and stores, and the loops and branches around each block.

`ArrayAccess` is one load or store with its index and its path. `Walk` has all that the walk through a nest has met
(`walk.py`). A path has the loops and branches around a block. A compiler estimates from it how often the block runs; a
launch counts. The functions at the end tell which accesses move the same elements.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import attrs

from offloadrt.kernels.algebra import Polynomial, SymbolicOperation
from offloadrt.kernels.array_use import Pattern

BRANCH = 0.5
"""Assumed probability of a branch without a hint or a known range."""

UNKNOWN_LOOP = 32.0
"""Assumed iterations of a loop whose bounds are not known: 1 / (1 - 124/128)."""

Hint = float | str | None
"""The value that `expect` gives: a number, the name of a scalar parameter, or None."""


@attrs.frozen(eq=False)
class Loop:
    """A ``for`` loop over a range; a bound is None if array contents decide it or it is no polynomial."""

    symbol: str
    """The name of the loop's variable in polynomials; no other loop has the same name."""
    name: str
    line: int
    start: Polynomial | None
    stop: Polynomial | None
    step: int = 1
    trips: Hint = None
    """The loop's average number of iterations as `expect` gives it: a number, or the name of a scalar; else None."""
    distributed: bool = False
    """Whether teams share the loop's iterations."""

    @property
    def literal_trips(self) -> int | None:
        """Return the loop's number of iterations if its bounds are written as numbers; None otherwise."""
        start = None if self.start is None else self.start.constant
        stop = None if self.stop is None else self.stop.constant
        return None if start is None or stop is None else len(range(start, stop, self.step))


@attrs.frozen
class Within:
    """The condition ``low <= index <= high`` in a kernel's source; the bounds are polynomials, None for no bound."""

    low: Polynomial | None
    index: Polynomial | None
    """The polynomial of the index; None for an index that is read from data."""
    high: Polynomial | None
    among: Polynomial | None = None
    """The number of values that an index from data can have: n of ``data % n``."""


@attrs.frozen(eq=False)
class Condition:
    """A condition in a kernel's source: a single test (`kind` "branch"), or "not", "and" or "or" of its `parts`.

    `hint` is a test's probability if the source gives one, as in ``if expect(mask[i], probability=0.05)``.
    """

    kind: Literal["branch", "not", "and", "or"] = "branch"
    parts: tuple[Condition, ...] = ()
    hint: Hint = None
    within: tuple[Within, ...] = ()
    """The ranges that together decide the branch, if ranges do; a launch counts how often all of them hold."""

    def value(self, of_branch: Callable[[Hint], float]) -> float:
        """Return the condition's probability; of_branch converts a branch's hint (`expect`) to a probability."""
        if self.kind == "branch":
            return of_branch(self.hint)
        product = 1.0
        for part in self.parts:
            holds = part.value(of_branch)
            product *= 1.0 - holds if self.kind in ("not", "or") else holds
        return 1.0 - product if self.kind == "or" else product

    @property
    def plain(self) -> tuple[Condition, bool]:
        """Return the condition without the `not`s around it, and whether these negate it."""
        if self.kind != "not":
            return self, False
        plain, negated = self.parts[0].plain
        return plain, not negated

    def hints(self) -> Iterable[Hint]:
        """Yield the hint of each test in the condition: the probability given to `expect`, None without one."""
        if self.kind == "branch":
            yield self.hint
        for part in self.parts:
            yield from part.hints()

    @property
    def guessed(self) -> bool:
        """Tell whether the probability of some test is a guess: no range of an index, and no `expect`, gives it."""
        if self.kind == "branch":
            return self.hint is None and not self.within
        return any(part.guessed for part in self.parts)

    @property
    def exact(self) -> bool:
        """Tell whether each test in the condition restricts an index to a range, so that iterations can be counted."""
        return bool(self.within) if self.kind == "branch" else all(part.exact for part in self.parts)

    def ranges(self) -> Iterable[Within]:
        """Yield the ranges of indices (low <= index <= high) to which the condition's tests restrict iterations."""
        yield from self.within
        for part in self.parts:
            yield from part.ranges()


def negated(holds: Condition) -> Condition:
    """Return the probability that a condition does not hold."""
    return Condition("not", (holds,))


@attrs.frozen(eq=False)
class Branch:
    """One side of an `if` around a statement, taken where ``condition`` holds.

    With ``of_loop`` there is no `if`. A loop ``range(max(a, b), n)`` has several lower bounds: the loop before this
    branch in the path begins at one of them, and the branch excludes the iterations that are below the others.
    """

    condition: Condition
    line: int
    of_loop: bool = False

    @property
    def symbols(self) -> set[str]:
        """Return the symbols in the branch's ranges, loop variables among them."""
        indices = [within.index for within in self.condition.ranges()]
        return {symbol for index in indices if index is not None for symbol in index.symbols}


Path = tuple[Loop | Branch, ...]
"""The loops and branches around a block, the outermost one first."""


def loops_of(path: Path) -> tuple[Loop, ...]:
    """Return the loops among `path`, the loops and branches around some source code; the outermost one comes first."""
    return tuple([part for part in path if isinstance(part, Loop)])


def guessed_branch(line: int) -> str:
    """Return the warning that the branch at this source line is taken with an assumed probability."""
    return f"line {line}: the branch is taken with probability {BRANCH}"


def guessed_loop(loop: Loop) -> str:
    """Return the warning that a loop's number of iterations is assumed, because array contents decide its bounds."""
    return f"line {loop.line}: the loop over {loop.name} runs {UNKNOWN_LOOP:g} times"


def static_trips(loop: Loop) -> float:
    """Return the number of iterations that a compiler assumes for a loop: the written one, or a fixed guess."""
    known = loop.literal_trips
    return UNKNOWN_LOOP if known is None else float(known)


def static_probability(hint: Hint) -> float:
    """Return the probability that a compiler gives a branch: `hint` (of `expect`) if it is a number, else a guess."""
    return float(hint) if isinstance(hint, int | float) else BRANCH


def static_frequency(path: Path, distributed: Iterable[Loop], shared: Callable[[Loop], bool] | None = None) -> float:
    """Return how often code runs in one iteration of the loops that teams share, as a compiler estimates it.

    path: the loops and branches around the code. distributed: the loops whose iterations teams share; code outside of
    them runs once in a launch. shared: returns True for a loop that is to count as one iteration; None: none is.
    """
    frequency = 1.0
    for part in path:
        if isinstance(part, Branch):
            frequency *= part.condition.value(static_probability)
        elif not part.distributed and not (shared is not None and shared(part)):
            frequency *= static_trips(part)
    for loop in distributed:
        if loop not in path or (shared is not None and shared(loop)):
            frequency /= max(1.0, static_trips(loop))
    return frequency


@attrs.frozen(eq=False)
class ArrayAccess:
    """One load or store (`kind`) of an element, written `text` in the source, inside the loops and branches `path`."""

    array: str
    kind: Literal["read", "write"]
    text: str
    line: int
    index: tuple[Polynomial | None, ...]
    """The polynomial of each dimension's index; None for an index that is no polynomial."""
    loops: frozenset[str]
    """Symbols of the loops with whose variables the index varies."""
    through: frozenset[str]
    """Arrays whose content decides the index."""
    path: Path
    level: int
    """Number of loads, each dependent on the one before, that must finish before this access can start."""
    node: ast.Subscript = attrs.field(repr=False)
    near: Hint = None
    """For an index from data: the fraction of accesses whose element lies near the iteration's number (`expect`)."""
    operations: tuple[SymbolicOperation | None, ...] = ()
    """For each dimension whose index has no polynomial, the operation that computes the index."""

    @property
    def pattern(self) -> Pattern:
        """Return how the index is formed: affine in loop variables, indirect (from an array), constant or irregular."""
        if self.through:
            return "indirect"
        if not self.loops:
            return "constant"
        affine = all(index is not None and index.is_affine_in(set(self.loops)) for index in self.index)
        return "affine" if affine else "irregular"

    @property
    def guarded(self) -> bool:
        """Tell whether the access stands under an `if`, or in a loop with several lower or several upper bounds."""
        return any(isinstance(part, Branch) for part in self.path)


@attrs.frozen(eq=False)
class Work:
    """The operations of one expression in a kernel, and the path (loops and branches) in which it stands."""

    operations: int
    path: Path
    further: int = 0
    """Operations of the expression's machine code in addition to these, such as steps of a division."""


@attrs.frozen
class Reduction:
    """A reduction by an `operator` into `target`, a scalar or an element, inside the loops and branches `path`."""

    operator: str
    target: str
    line: int
    statement: ast.stmt = attrs.field(repr=False, eq=False)
    path: Path = attrs.field(repr=False, eq=False)


@attrs.define
class Walk:
    """Collects what a loop nest's source contains: loops, array accesses, operations (`work`) and reductions."""

    accesses: list[ArrayAccess] = attrs.field(factory=list)
    work: list[Work] = attrs.field(factory=list)
    loops: list[Loop] = attrs.field(factory=list)
    reductions: list[Reduction] = attrs.field(factory=list)
    complex_nodes: set[ast.expr] = attrs.field(factory=set)
    """Expressions whose value is a complex number."""
    complex_scalars: set[str] = attrs.field(factory=set)
    """Scalars that may hold a complex number."""
    atomics: list[tuple[ArrayAccess, str]] = attrs.field(factory=list)
    """Stores of atomic operations, each with its scope: "device", or "team" for an array that each team has."""
    operations: dict[str, SymbolicOperation] = attrs.field(factory=dict)
    """The operations that symbols stand for; an operation comes after those that it is made of."""

    @property
    def distributed(self) -> tuple[Loop, ...]:
        """Return the distributed loop, whose iterations the teams share; with `collapse`, several nested loops."""
        return tuple(loop for loop in self.loops if loop.distributed)


Frequency = Callable[[ArrayAccess, Callable[[Loop], bool]], float]
"""How often an access runs for each iteration, not counting the loops for which the given function holds."""


def same_elements(accesses: Iterable[ArrayAccess]) -> list[list[ArrayAccess]]:
    """Group accesses to one array so that all accesses in a group visit the same elements."""
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
    """Return the constant indices of an access; accesses to the same elements agree in them."""
    return tuple([None if index is None else index.constant for index in access.index])


def elements(accesses: Iterable[ArrayAccess], frequency: Frequency) -> tuple[float, float]:
    """Return how many elements of one array an iteration loads from memory, and how many it stores there.

    accesses: those to the array. frequency: tells how often an access runs in an iteration.
    """
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
    """Return in how many iterations at least one of several accesses to an array happens.

    runs: each access with the number of iterations in which it happens. depth: how many loops and branches around the
    accesses are the same for all. Accesses are assumed to happen in the same iterations, so the largest number is
    returned. But the numbers of the two sides of a branch are added if loop variables in the indices decide the branch.
    """
    most = 0.0
    inner: dict[int, tuple[list[tuple[ArrayAccess, float]], list[tuple[ArrayAccess, float]]]] = {}
    for access, often in runs:
        if depth == len(access.path):
            most = max(most, often)
            continue
        part, negated = access.path[depth], False
        decides: Loop | Branch | Condition = part
        if isinstance(part, Branch) and part.symbols <= access.loops:
            decides, negated = part.condition.plain
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
    """Tell whether `access` loads an element that `earlier`, a store, has written in the same iteration."""
    if earlier.kind == "read" or earlier.text != access.text or earlier.index != access.index:
        return False
    around, loops = loops_of(earlier.path), loops_of(access.path)
    conditions = [part.condition for part in access.path if isinstance(part, Branch)]
    holds = all(part.condition in conditions for part in earlier.path if isinstance(part, Branch))
    return loops[: len(around)] == around and holds


def _steps_apart(index: Polynomial | None, other: Polynomial | None, loops: Mapping[str, Loop]) -> bool:
    """Tell whether two indices differ by whole steps of their loops, and by fewer steps than the loops have trips."""
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
