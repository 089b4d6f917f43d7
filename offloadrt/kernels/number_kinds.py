"""What kinds of numbers a kernel's expressions are: whole, floating-point, complex, or truth values.

The walk gives each value its `Kind`. Bounds of loops and indices must be whole: Python takes neither a float nor a
truth value as a bound, NumPy takes neither as an index, and compiled code would truncate or convert them.
`WholeNumbers` refuses an expression that is fractional by its form, such as ``n / 2``. `check_index_parameters`
refuses, at the launch, an argument that makes a bound or an index a float or a truth value.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import numpy as np

from offloadrt.kernels.array_use import KernelError
from offloadrt.kernels.loop_subset import MATH, LoopNest
from offloadrt.kernels.source import text

_BY_FORM = ""
"""Stands for a parameter in a `Kind` that is float or bool whatever the arguments of the launch are."""
_FORM = frozenset((_BY_FORM,))
_NONE: frozenset[str] = frozenset()


@attrs.frozen
class Kind:
    """The kind of a number in a kernel: complex, float, bool or whole.

    It may depend on a launch's arguments: a float if a parameter in `floating` is one, a bool if one in `truth` is.
    """

    floating: frozenset[str] = _NONE
    truth: frozenset[str] = _NONE
    is_complex: bool = False

    def __or__(self, other: Kind) -> Kind:
        """Return the kind of a value that a condition selects from two values."""
        return Kind(self.floating | other.floating, self.truth | other.truth, self.is_complex or other.is_complex)

    @property
    def as_number(self) -> Kind:
        """Return the kind that arithmetic sees: a truth value counts as the whole number 0 or 1."""
        return attrs.evolve(self, truth=_NONE)

    @classmethod
    def given_by(cls, parameter: str, is_complex: bool) -> Kind:
        """Return the kind of a parameter, or of its elements: complex if `is_complex`, else that of the argument."""
        return COMPLEX if is_complex else cls(frozenset((parameter,)), frozenset((parameter,)))

    @classmethod
    def of(cls, number: object) -> Kind:
        """Return the kind (whole, float, complex, bool) of a number in the source or of a global number."""
        by_type = {bool: TRUTH, float: FLOAT, complex: COMPLEX}
        return by_type.get(type(number), WHOLE)


WHOLE, FLOAT, TRUTH, COMPLEX = Kind(), Kind(floating=_FORM), Kind(truth=_FORM), Kind(is_complex=True)


def operated(op: ast.operator, left: Kind, right: Kind) -> Kind:
    """Return the kind (whole, float, complex, bool) of the result of `left op right`."""
    if left.is_complex or right.is_complex:
        return COMPLEX
    if isinstance(op, ast.Div):
        return FLOAT
    if isinstance(op, ast.BitAnd | ast.BitOr | ast.BitXor):
        return Kind(truth=left.truth & right.truth)
    return WHOLE if isinstance(op, ast.LShift | ast.RShift) else Kind(left.floating | right.floating)


def returned(function: str, operands: Kind) -> Kind:
    """Return the kind (whole, float, complex) of the result of `function`, given the joint kind of its operands."""
    if function in ("min", "max"):
        return operands
    if function == "abs":
        return operands.as_number
    if function == "bool":
        return TRUTH
    if function == "complex":
        return COMPLEX
    return FLOAT if function == "float" or (function in MATH and function not in ("floor", "ceil")) else WHOLE


@attrs.frozen
class IndexParameter:
    """A kernel's parameter, number `position` from 0, on whose value a loop bound or an array index depends."""

    name: str
    position: int
    is_array: bool
    floats: ast.expr | None
    """The range or array element that a float argument would make invalid; None where the value is converted first."""
    truths: ast.expr | None
    """The range or array element that a truth value would make invalid; None where the value is converted first."""


@attrs.define
class WholeNumbers:
    """Collects the parameters on which a nest's bounds and indices depend; refuses fractions as bounds and indices."""

    nest: LoopNest
    floats: dict[str, ast.expr] = attrs.field(factory=dict)
    """By parameter: the range or array element that a float argument would make invalid."""
    truths: dict[str, ast.expr] = attrs.field(factory=dict)
    """By parameter: the range or array element that a truth value would make invalid."""

    def check(self, node: ast.expr, kind: Kind, around: ast.expr) -> None:
        """Raise SourceRefused, quoting `around`, if `node` (a bound or an index) is no whole number by its `kind`."""
        if _BY_FORM in kind.floating or kind.is_complex:
            match node:
                case ast.BinOp(left=left, op=ast.Div(), right=right) if not kind.is_complex:
                    instead = text(ast.BinOp(left, ast.FloorDiv(), right))
                case _:
                    instead = f"int({text(node)}{'.real' if kind.is_complex else ''})"
            self.nest.source.refuse(node, f"{text(node)} in {text(around)} is no whole number", f"write {instead}")
        if _BY_FORM in kind.truth:
            instead = f"write an if around it, or int({text(node)})"
            self.nest.source.refuse(node, f"{text(node)} in {text(around)} is a truth value", instead)
        for names, known in ((kind.floating, self.floats), (kind.truth, self.truths)):
            for name in names:
                known.setdefault(name, around)

    @property
    def parameters(self) -> tuple[IndexParameter, ...]:
        """Return the parameters on which bounds and indices depend, met by `check` so far, in the kernel's order."""
        return tuple(
            IndexParameter(name, position, name in self.nest.arrays, self.floats.get(name), self.truths.get(name))
            for position, name in enumerate(self.nest.parameters)
            if name in self.floats or name in self.truths
        )


def check_index_parameters(kernel: str, parameters: Iterable[IndexParameter], arguments: Sequence[Any]) -> None:
    """Raise KernelError if an argument for one of `parameters` makes a bound or an index a float or a truth value.

    Only the type of an array's elements matters, so phantoms (arrays without values) are checked too. A float with a
    whole value is still a float, as it is for Python.
    """
    for parameter in parameters:
        argument = arguments[parameter.position]
        if parameter.is_array:
            kind = getattr(getattr(argument, "dtype", None), "kind", None)
            wanted = f"elements of {parameter.name}"
            instead = "pass whole numbers, or write int(...) around the element"
        else:
            is_numpy = isinstance(argument, np.generic | np.ndarray) and not argument.ndim
            value = argument.item() if is_numpy else argument
            kind = "b" if isinstance(value, bool) else "f" if isinstance(value, float) else None
            wanted, instead = parameter.name, "pass a whole number"
        use = parameter.floats if kind == "f" else parameter.truths if kind == "b" else None
        if use is not None:
            given = f"an array of {argument.dtype}" if parameter.is_array else repr(value)
            raise KernelError(
                f"kernel {kernel!r}: {wanted} must be whole for {text(use)} (line {use.lineno}), but {given} was "
                f"given; {instead}"
            )
