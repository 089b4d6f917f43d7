"""What a walk through a loop nest meets: loads and stores with their index and block, operations, loops, reductions."""

from __future__ import annotations

import ast
from typing import Literal

import attrs

from offloadrt.kernels.accesses.frequency import Branch, Hint, Loop, Path
from offloadrt.kernels.algebra import Polynomial, SymbolicOperation
from offloadrt.kernels.array_use import Pattern


@attrs.frozen(eq=False)
class ArrayAccess:
    """One load or store in the source."""

    array: str
    kind: Literal["read", "write"]
    text: str
    line: int
    index: tuple[Polynomial | None, ...]
    """One polynomial for each dimension."""
    loops: frozenset[str]
    """Symbols of the loops that the index varies with."""
    through: frozenset[str]
    """Arrays whose content decides the index."""
    path: Path
    level: int
    """How many loads must have been done, one after the other, before this one can start."""
    node: ast.Subscript = attrs.field(repr=False)
    near: Hint = None
    """Where data decide the index: the part of these accesses that lies near the iteration (`expect`)."""
    operations: tuple[SymbolicOperation | None, ...] = ()
    """What the index is made of in each dimension in which it has no polynomial."""

    @property
    def pattern(self) -> Pattern:
        """Return what the index is: affine in loop variables, indirect through arrays, constant, or irregular."""
        if self.through:
            return "indirect"
        if not self.loops:
            return "constant"
        affine = all(index is not None and index.is_affine_in(set(self.loops)) for index in self.index)
        return "affine" if affine else "irregular"

    @property
    def guarded(self) -> bool:
        """Tell whether it happens under an `if`, or in a range that has further ends."""
        return any(isinstance(part, Branch) for part in self.path)


@attrs.frozen(eq=False)
class Work:
    """Floating-point operations of one expression."""

    operations: int
    path: Path


@attrs.frozen
class Reduction:
    """A scalar, or an element such as ``total[0]``, that the iterations of the distributed loop reduce into."""

    operator: str
    target: str
    line: int
    statement: ast.stmt = attrs.field(repr=False, eq=False)
    path: Path = attrs.field(repr=False, eq=False)


@attrs.define
class Walk:
    """What the walk met in a nest."""

    accesses: list[ArrayAccess] = attrs.field(factory=list)
    work: list[Work] = attrs.field(factory=list)
    loops: list[Loop] = attrs.field(factory=list)
    reductions: list[Reduction] = attrs.field(factory=list)
    complex_nodes: set[ast.expr] = attrs.field(factory=set)
    """Expressions whose value is a complex number."""
    complex_scalars: set[str] = attrs.field(factory=set)
    """Scalars that may hold a complex number."""
    operations: dict[str, SymbolicOperation] = attrs.field(factory=dict)
    """What symbols stand for that are no scalar, length or loop variable; each after those that it is made of."""

    @property
    def distributed(self) -> tuple[Loop, ...]:
        """Return the loop whose iterations the device shares out; several with `collapse`."""
        return tuple(loop for loop in self.loops if loop.distributed)
