"""What is known of a number in a kernel: its polynomial, the loops it varies with, the arrays it was read from."""

from __future__ import annotations

import ast
import contextlib
import functools
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

import attrs

from offloadrt.kernels.accesses.frequency import Hint
from offloadrt.kernels.accesses.number_kinds import WHOLE, Kind, operated
from offloadrt.kernels.algebra import Polynomial, SymbolicOperation
from offloadrt.kernels.source.loop_ir import RangeLoop, assignments, within
from offloadrt.kernels.source.subset import LoopNest

NOTHING: frozenset[str] = frozenset()

_WHOLE = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.Pow)
_HIGHEST_POWER = 4
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%", ast.Div: "/",
}  # fmt: skip
_BITS = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift)


@attrs.frozen
class Value:
    """A number in a kernel."""

    polynomial: Polynomial | None = None
    """Its form over loop variables, scalars and lengths; None when it has no such form."""
    operation: SymbolicOperation | None = None
    """What it is made of where it has no polynomial, and no content of arrays decides it."""
    loops: frozenset[str] = NOTHING
    """Symbols of the loops that it varies with."""
    arrays: frozenset[str] = NOTHING
    """Arrays whose content decides it."""
    integer: bool = False
    level: int = 0
    """How many loads must have been done, one after the other, before it is known."""
    near: Hint = None
    """Where data decide it: the part of it that lies near its own iteration."""
    kind: Kind = attrs.field(default=WHOLE, eq=False)

    @classmethod
    def whole(cls, polynomial: Polynomial, loops: frozenset[str] = NOTHING) -> Value:
        return cls(polynomial, None, loops, NOTHING, True)

    def mixed(self, others: Iterable[Value], integer: bool) -> Value:
        """Return a number made of this one and others in a way that has no polynomial."""
        loops, arrays, level, near, kind = self.loops, self.arrays, self.level, self.near, self.kind
        for other in others:
            loops, arrays, level = loops | other.loops, arrays | other.arrays, max(level, other.level)
            near = other.near if near is None else near
            kind |= other.kind
        return Value(None, None, loops, arrays, integer, level, near, kind)

    def or_else(self, other: Value, condition: Value) -> Value:
        """Return this number or the other one, as a condition decides."""
        kind = self.kind | other.kind
        if self == other:
            return attrs.evolve(self, kind=kind)
        if self.polynomial is not None and self.polynomial == other.polynomial:
            return attrs.evolve(self, level=max(self.level, other.level), kind=kind)
        return attrs.evolve(self.mixed((other, condition), self.integer and other.integer), kind=kind)


def arithmetic(op: ast.operator, left: Value, right: Value) -> Value:
    """Return what an operator makes of two numbers."""
    integer = left.integer and right.integer and isinstance(op, _WHOLE + _BITS)
    combined = attrs.evolve(left.mixed((right,), integer), kind=operated(op, left.kind, right.kind))
    if isinstance(op, ast.LShift | ast.RShift) and (places := _places(right)) is not None:
        op, right = (
            ast.Mult() if isinstance(op, ast.LShift) else ast.FloorDiv(),
            Value.whole(Polynomial.number(1 << places)),
        )
    if left.polynomial is not None and right.polynomial is not None:
        polynomial = _combined(op, left.polynomial, right.polynomial)
        if polynomial is not None:
            return attrs.evolve(combined, polynomial=polynomial)
    name = _OPERATORS.get(type(op))
    return combined if name is None else made_of(name, (left, right), combined)


def _combined(op: ast.operator, left: Polynomial, right: Polynomial) -> Polynomial | None:
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Pow() if 0 < (right.constant or 0) <= _HIGHEST_POWER:
            return functools.reduce(operator.mul, [left] * (right.constant or 0))
    return None


def _places(value: Value) -> int | None:
    """Return by how many places a shift moves a number, where that is written."""
    constant = None if value.polynomial is None else value.polynomial.constant
    return constant if constant is not None and 0 <= constant < 64 else None


def made_of(name: str, operands: Sequence[Value], combined: Value) -> Value:
    """Make a number by an operation; it is `combined` in all else. It is a constant when all its operands are."""
    parts = [operand.operation if operand.polynomial is None else operand.polynomial for operand in operands]
    known = tuple([part for part in parts if part is not None])
    if len(known) < len(parts) or combined.arrays:
        return combined
    operation = SymbolicOperation(name, known)
    if combined.integer and not operation.symbols:
        with contextlib.suppress(ArithmeticError):
            return attrs.evolve(combined, polynomial=Polynomial.number(int(operation.value({}))))
    return attrs.evolve(combined, operation=operation)


def whole_names(nest: LoopNest) -> set[str]:
    """Return the scalars and arrays that hold whole numbers: those that reach an index or the bounds of a loop.

    All others count as floating point. An array's annotation, as in ``NDArray[np.int32]``, decides where it has one.
    """
    integers: set[str] = set()
    roots: list[ast.AST] = [node.slice for node in nest.source.nodes if isinstance(node, ast.Subscript)]
    for loop in within(nest.body):
        if isinstance(loop, RangeLoop):
            integers.add(loop.variable)
            roots.extend(loop.call.args)
    assigned = assignments(nest.body)
    while roots:
        for name in _names(roots.pop()) - integers:
            integers.add(name)
            roots.extend(node.value for node in assigned if node.scalar == name)
    annotated = {argument.arg: annotated_type(argument, nest.source.names) for argument in nest.source.parameters}
    floating = {name for name, kind in annotated.items() if kind and kind.startswith(("float", "complex"))}
    return (integers | {name for name, kind in annotated.items() if kind and name not in floating}) - floating


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def complex_names(nest: LoopNest) -> set[str]:
    """Return the parameters, numbers and arrays, that are annotated as complex."""
    kinds = {argument.arg: annotated_type(argument, nest.source.names) for argument in nest.source.parameters}
    return {name for name, kind in kinds.items() if kind is not None and kind.startswith("complex")}


_SIZES = {"int": 8, "float": 8, "bool": 1, "bool_": 1, "complex": 16, "complex128": 16}
_SIZES |= {f"{kind}{bits}": bits // 8 for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64)}


def annotated_type(argument: ast.arg, names: Mapping[str, Any]) -> str | None:
    """Return the NumPy type of elements that a parameter's annotation names: ``float32`` of ``NDArray[np.float32]``.

    The annotation may be an alias of such a type among the `names` that the source can see.
    """
    for node in ast.walk(argument.annotation or ast.Constant(None)):
        if isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            kind = name if name in _SIZES else _scalar_of(names.get(name))
            if kind is not None:
                return kind
    return None


def _scalar_of(alias: Any) -> str | None:
    """Return the type of elements of an alias such as ``Floats = NDArray[np.float32]``."""
    for part in get_args(alias):
        name = getattr(part, "__name__", None)
        kind = name if name in _SIZES else _scalar_of(part)
        if kind is not None:
            return kind
    return None


def element_size(argument: ast.arg, names: Mapping[str, Any]) -> int | None:
    """Return the bytes of an element by its parameter's annotation; None without one."""
    name = annotated_type(argument, names)
    return None if name is None else _SIZES[name]
