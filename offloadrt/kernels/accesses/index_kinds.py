"""Which numbers count: the bounds of loops and the indices, and what would make one of them a float or a truth value.

Python takes neither as a bound, NumPy takes neither as an index, and compiled code would cut or convert them. So what
is one by its form, such as ``n / 2``, is refused with its line, and an argument that makes one of it when it is
launched.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import numpy as np

from offloadrt.kernels.errors import KernelError
from offloadrt.kernels.source.function_source import range_of, text
from offloadrt.kernels.source.subset import MATH, LoopNest

_BY_FORM = ""
"""Among parameters: no argument is needed for it."""
_FORM = frozenset((_BY_FORM,))
_NONE: frozenset[str] = frozenset()
Kinds = dict[str, "Kind"]


@attrs.frozen
class Kind:
    """What a number is: whole, unless one of these parameters has such values."""

    floating: frozenset[str] = _NONE
    truth: frozenset[str] = _NONE

    def or_(self, other: Kind) -> Kind:
        """One or the other, as a condition decides."""
        return Kind(self.floating | other.floating, self.truth | other.truth)


_WHOLE, _FLOAT, _TRUTH = Kind(), Kind(floating=_FORM), Kind(truth=_FORM)


@attrs.frozen
class Counter:
    """A parameter that a bound or an index is made of."""

    name: str
    position: int
    is_array: bool
    floats: ast.expr | None
    """The range or the element where a float would count; None where it is converted before."""
    truths: ast.expr | None
    """The same for a truth value."""


def counters_of(nest: LoopNest) -> tuple[Counter, ...]:
    """The parameters of which bounds and indices are made. SourceRefused for what is no whole number by its form."""
    walker = _Walker(nest)
    kinds = {name: Kind(frozenset((name,)), frozenset((name,))) for name in nest.parameters}
    walker.block(nest.source.body, kinds)
    return tuple(
        Counter(name, position, name in nest.arrays, walker.floats.get(name), walker.truths.get(name))
        for position, name in enumerate(nest.parameters)
        if name in walker.floats or name in walker.truths
    )


def check_counters(kernel: str, counters: Iterable[Counter], arguments: Sequence[Any]) -> None:
    """KernelError for an argument that makes a bound or an index a float or a truth value.

    Of arrays, which may be phantoms, the type of elements is looked at. A float with a whole value is none the less a
    float, as it is for Python.
    """
    for counter in counters:
        argument = arguments[counter.position]
        if counter.is_array:
            kind = getattr(getattr(argument, "dtype", None), "kind", None)
            wanted, instead = f"elements of {counter.name}", "pass whole numbers, or write int(...) around the element"
        else:
            is_numpy = isinstance(argument, np.generic | np.ndarray) and not argument.ndim
            value = argument.item() if is_numpy else argument
            kind = "b" if isinstance(value, bool) else "f" if isinstance(value, float) else None
            wanted, instead = counter.name, "pass a whole number"
        place = counter.floats if kind == "f" else counter.truths if kind == "b" else None
        if place is not None:
            given = f"an array of {argument.dtype}" if counter.is_array else repr(value)
            raise KernelError(
                f"kernel {kernel!r}: {wanted} must be whole for {text(place)} (line {place.lineno}), but {given} was "
                f"given; {instead}"
            )


class _Walker:
    """Follows what kinds of numbers the scalars hold."""

    def __init__(self, nest: LoopNest) -> None:
        self.nest = nest
        self.floats: dict[str, ast.expr] = {}
        """Ranges and elements, by the parameter that would put a float there."""
        self.truths: dict[str, ast.expr] = {}

    def block(self, statements: Iterable[ast.stmt], kinds: Kinds) -> None:
        for statement in statements:
            self.statement(statement, kinds)

    def statement(self, node: ast.stmt, kinds: Kinds) -> None:
        match node:
            case ast.Assign(targets=[target], value=value):
                self.store(target, self.kind(value, kinds), kinds)
            case ast.AugAssign(target=target, op=op, value=value):
                self.store(target, self.kind(ast.BinOp(target, op, value), kinds), kinds)
            case ast.If(test=test, body=then, orelse=other):
                self.kind(test, kinds)
                otherwise = dict(kinds)
                self.block(then, kinds)
                self.block(other, otherwise)
                _join(kinds, otherwise)
            case ast.For(target=ast.Name(id=variable)):
                call = range_of(node.iter)
                assert call is not None
                for bound in call.args:
                    self.counts(bound, call, kinds)
                kinds[variable] = _WHOLE
                settled = False
                while not settled:  # until what an iteration leaves to the next one is known
                    before = dict(kinds)
                    self.block(node.body, kinds)
                    _join(kinds, before)
                    settled = all(kinds[name] == kind for name, kind in before.items())

    def store(self, target: ast.expr, kind: Kind, kinds: Kinds) -> None:
        if isinstance(target, ast.Name):
            kinds[target.id] = kind
        else:
            self.kind(target, kinds)

    def counts(self, node: ast.expr, around: ast.expr, kinds: Kinds) -> None:
        """A bound or an index."""
        kind = self.kind(node, kinds)
        if _BY_FORM in kind.floating:
            match node:
                case ast.BinOp(left=left, op=ast.Div(), right=right):
                    instead = text(ast.BinOp(left, ast.FloorDiv(), right))
                case _:
                    instead = f"int({text(node)})"
            self.nest.source.refuse(node, f"{text(node)} in {text(around)} is no whole number", f"write {instead}")
        if _BY_FORM in kind.truth:
            instead = f"write an if around it, or int({text(node)})"
            self.nest.source.refuse(node, f"{text(node)} in {text(around)} is a truth value", instead)
        for names, places in ((kind.floating, self.floats), (kind.truth, self.truths)):
            for name in names:
                places.setdefault(name, around)

    def kind(self, node: ast.expr, kinds: Kinds) -> Kind:
        """Of an expression, whose indices are looked at too."""
        match node:
            case ast.Constant(value=value):
                return _of_number(value)
            case ast.Name(id=name):
                return kinds[name] if name in kinds else _of_number(self.nest.constant(name))
            case ast.BinOp(left=left, op=op, right=right):
                return _operated(op, self.kind(left, kinds), self.kind(right, kinds))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self.kind(operand, kinds)
                return _TRUTH
            case ast.UnaryOp(operand=operand):
                return Kind(self.kind(operand, kinds).floating)
            case ast.Compare(left=left, comparators=others):
                self.any_of((left, *others), kinds)
                return _TRUTH
            case ast.BoolOp(values=values):
                return self.any_of(values, kinds)
            case ast.IfExp(test=test, body=then, orelse=other):
                self.kind(test, kinds)
                return self.any_of((then, other), kinds)
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                for one in index.elts if isinstance(index, ast.Tuple) else [index]:
                    self.counts(one, node, kinds)
                return kinds[name]
            case ast.Call():
                return self.call(node, kinds)
        return _WHOLE  # a length

    def any_of(self, nodes: Iterable[ast.expr], kinds: Kinds) -> Kind:
        found = Kind()
        for node in nodes:
            found = found.or_(self.kind(node, kinds))
        return found

    def call(self, node: ast.Call, kinds: Kinds) -> Kind:
        name = self.nest.function_of(node)
        if name == "len":
            return _WHOLE
        taken = self.any_of(node.args, kinds)
        if name in ("min", "max", "expect"):
            return taken
        if name == "abs":
            return Kind(taken.floating)
        if name == "bool":
            return _TRUTH
        return _FLOAT if name == "float" or (name in MATH and name not in ("floor", "ceil")) else _WHOLE


def _of_number(value: object) -> Kind:
    return _TRUTH if isinstance(value, bool) else _FLOAT if isinstance(value, float) else _WHOLE


def _operated(op: ast.operator, left: Kind, right: Kind) -> Kind:
    if isinstance(op, ast.Div):
        return _FLOAT
    if isinstance(op, ast.BitAnd | ast.BitOr | ast.BitXor):
        return Kind(truth=left.truth & right.truth)
    return _WHOLE if isinstance(op, ast.LShift | ast.RShift) else Kind(left.floating | right.floating)


def _join(kinds: Kinds, others: Kinds) -> None:
    """Of a place that is come to in two ways."""
    for name, kind in others.items():
        kinds[name] = kind.or_(kinds[name]) if name in kinds else kind
