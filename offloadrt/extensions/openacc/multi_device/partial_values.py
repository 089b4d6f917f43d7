"""Reductions of a kernel that several devices share: each one's partial value, and the kernel that combines them.

Each device begins with the operator's identity (for minimum and maximum with the value before the loop), reduces what
its share contributes, and stores that as its element of an array, the partial values. When every device has those of
all, each one runs a kernel of its own (`Combination`): the value before the loop and the partial values in the order of
the devices are reduced to the result, and what stands after the loop is done with it. So all devices have one result,
the same bit by bit. It is the sequential one for minimum and maximum (of equal zeros the sign, and what becomes of NaN,
depend on the order) and for whole numbers; sums and products of floating-point numbers are rounded in another order.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from offloadrt.extensions.openacc.multi_device.dependence import Names
from offloadrt.kernels.accesses import Branch, Reduction
from offloadrt.kernels.array_use import KernelError
from offloadrt.kernels.execution import NestBody
from offloadrt.kernels.kernel import Kernel, of_source
from offloadrt.kernels.loop_subset import MATH, LoopNest, called, reads_first
from offloadrt.kernels.source import assignments, statements, text

_IDENTITY = {"+": 0, "*": 1}
_WHOLE_FUNCTIONS = ("int", "bool", "len", "floor", "ceil")


@attrs.frozen
class PartialValue:
    """The partial values of a scalar that the distributed loop reduces and that is used after it."""

    scalar: str
    operator: str
    parameter: str
    """The array of partial values, an element for each device, as the changed kernel and the combination call it."""
    element_of: str | None
    """The array of which the scalar stands for an element."""
    is_complex: bool = False

    @property
    def declaration(self) -> ast.arg:
        """Return the parameter as it is declared, with a type where the partial values are complex."""
        return ast.arg(self.parameter, ast.Name("complex128", ast.Load()) if self.is_complex else None)


@attrs.frozen(eq=False)
class Separated:
    """A nest without what stands after its loop, which reduces from the identity."""

    nest: LoopNest
    partials: tuple[PartialValue, ...]
    device: str
    """The parameter that says which element is the device's own, and the combination's loop variable."""

    @property
    def parameters(self) -> tuple[ast.arg, ...]:
        """Return what the changed kernel takes after its bounds."""
        return (*(partial.declaration for partial in self.partials), ast.arg(self.device))

    @property
    def stores(self) -> list[ast.stmt]:
        """Return the stores of the partial values, after the loop."""
        return [_statement(f"{partial.parameter}[{self.device}] = {partial.scalar}") for partial in self.partials]


@attrs.frozen(eq=False)
class Combination:
    """The kernel that makes the result of the partial values, and does what stands after the loop."""

    kernel: Kernel
    source: str = attrs.field(repr=False)
    partials: tuple[PartialValue, ...]
    nest: LoopNest = attrs.field(repr=False)
    """The original kernel's nest."""

    def arguments(self, arguments: Sequence[Any], values: Sequence[Any]) -> tuple[Any, ...]:
        """Return what it is called with, of the original kernel's arguments and the arrays of partial values."""
        given = dict(zip(self.nest.parameters, arguments, strict=True))
        given.update(zip((partial.parameter for partial in self.partials), values, strict=True))
        return tuple(given[name] for name in self._parameters)

    def types(self, arguments: Sequence[Any]) -> tuple[np.dtype[Any], ...]:
        """Return the types of the partial values' elements at a launch: 64 bits, whole where nothing else can come up.

        KernelError for an element of whole numbers that would be rounded to one in each iteration, and of booleans.
        """
        given = dict(zip(self.nest.parameters, arguments, strict=True))
        floating = _floating(self.nest, given)
        for partial in self.partials:
            kind = (
                "f" if partial.element_of is None else np.dtype(getattr(given[partial.element_of], "dtype", "f8")).kind
            )
            if kind == "b" or (kind not in "fc" and partial.scalar in floating):
                raise KernelError(
                    f"kernel {self.kernel.name.removeprefix('combine_')!r}: an element of {partial.element_of} is "
                    f"reduced, and would be rounded in each iteration; make {partial.element_of} an array of float64"
                )
        return tuple(
            np.dtype(np.complex128 if partial.is_complex else np.float64 if partial.scalar in floating else np.int64)
            for partial in self.partials
        )

    def used(self, kind: str) -> tuple[str, ...]:
        """Return the original kernel's arrays that it loads from (`read`) or stores to (`write`)."""
        assert self.kernel.analysis is not None
        touched = {access.array for access in self.kernel.analysis.accesses if access.kind == kind}
        return tuple(name for name in self.nest.parameters if name in touched)

    @property
    def _parameters(self) -> tuple[str, ...]:
        assert self.kernel.analysis is not None
        return self.kernel.analysis.parameters


def separate(
    nest: LoopNest, names: Names, element_of: Mapping[str, str], complex_scalars: Collection[str]
) -> Separated | None:
    """Make the nest reduce into partial values; None when no reduced scalar is used after the loop.

    element_of: by scalar the array of which it stands for an element. complex_scalars: scalars that may be complex.
    Raises SourceRefused where what stands around the loop needs more of it than reductions.
    """
    before, (loop, *after) = _around(nest)
    mentioned = {node.id for statement in after for node in ast.walk(statement) if isinstance(node, ast.Name)}
    live = [name for name in sorted(nest.reduced) if name in mentioned]
    if not live:
        return None
    for node in ast.walk(nest.distributed[0].iter):
        if isinstance(node, ast.Name) and node.id in live:
            nest.source.refuse(
                loop, f"{node.id}, which the loop reduces, is a bound of it", "use another name for that"
            )
    _refuse_entangled(nest, [*before, *after], loop, after)
    body = [*before]
    for name in live:
        identity = _IDENTITY.get(nest.reduced[name])
        if identity is not None and not _begins_with(before, name, identity):
            body.append(_statement(f"{name} = {identity}"))
    tree = copy.copy(nest.source.tree)
    tree.body = [*body, loop]
    partials = tuple(
        PartialValue(
            name,
            nest.reduced[name],
            names.fresh(f"{name}_parts"),
            element_of.get(name),
            name in complex_scalars,
        )
        for name in live
    )
    left = attrs.evolve(nest, source=attrs.evolve(nest.source, tree=tree))
    return Separated(left, partials, names.fresh("device"))


def combination(kernel: Kernel, nest: LoopNest, separated: Separated) -> Combination:
    """Make the kernel that combines partial values of a nest in the order of the devices."""
    partials, device = separated.partials, separated.device
    before, (_, *after) = _around(nest)
    lines = [f"for {device} in range(len({partials[0].parameter})):"]
    for partial in partials:
        value = f"{partial.parameter}[{device}]"
        sign = partial.operator
        reduced = (
            f"+= {value}" if sign == "+" else f"*= {value}" if sign == "*" else f"= {sign}({partial.scalar}, {value})"
        )
        lines.append(f"    {partial.scalar} {reduced}")
    body = [*before, _statement("\n".join(lines)), *after]
    used = {node.id for statement in body for node in ast.walk(statement) if isinstance(node, ast.Name)}
    parameters = [argument for argument in nest.source.parameters if argument.arg in used]
    name = f"combine_{nest.source.tree.name}"
    source = written(name, 1, [*parameters, *(partial.declaration for partial in partials)], body)
    plain = attrs.evolve(kernel, name=name, dependent_accesses=0.0)
    combining = of_source(plain, nest.source.rewritten(source, "combining"), 1)
    return Combination(combining, source, partials, nest)


def _around(nest: LoopNest) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """Return what stands before the distributed loop; and the loop with what stands after it."""
    place = nest.source.body.index(nest.distributed[0])
    return nest.source.body[:place], nest.source.body[place:]


def _statement(text: str) -> ast.stmt:
    (statement,) = ast.parse(text).body
    return statement


def _begins_with(before: Sequence[ast.stmt], name: str, number: int) -> bool:
    last = [node for node in assignments(statements(before)) if node.scalar == name][-1:]
    return any(node.operator is None and _is_number(node.value, number) for node in last)


def _is_number(node: ast.expr, number: int) -> bool:
    return isinstance(node, ast.Constant) and node.value == number and not isinstance(node.value, bool)


def _refuse_entangled(nest: LoopNest, around: Iterable[ast.stmt], loop: ast.stmt, after: Sequence[ast.stmt]) -> None:
    """Refuse what cannot be done again around the loop.

    It is done again when the loop's stores have been made, without the scalars that the loop has left.
    """
    inside = assignments(statements([loop]))
    stored = {ast.unparse(node.target.value) for node in inside if isinstance(node.target, ast.Subscript)}
    for statement in around:
        for node in ast.walk(statement):
            if isinstance(node, ast.Subscript) and ast.unparse(node.value) in stored:
                what = (
                    f"{ast.unparse(node)}, of an array that the loop stores to, is used outside of it with a reduction"
                )
                nest.source.refuse(statement, what, "make it a kernel of its own")
    for name in sorted({node.scalar for node in inside if node.scalar is not None} - set(nest.reduced)):
        if reads_first(statements(after), name):
            what = f"{name}, which the loop assigns, is used after it beside a reduction"
            nest.source.refuse(after[0], what, "reduce it, or store it in the loop")


def _floating(nest: LoopNest, arguments: Mapping[str, Any]) -> set[str]:
    """Return the scalars that may hold a floating-point number."""
    floating = {
        name for name, value in arguments.items() if name not in nest.arrays and isinstance(value, float | np.floating)
    }
    while True:
        count = len(floating)
        for node in assignments(nest.body):
            divides = isinstance(node.operator, ast.Div)
            if node.scalar and (divides or _may_be_floating(nest, node.value, floating, arguments)):
                floating.add(node.scalar)
        if len(floating) == count:
            return floating


def _may_be_floating(nest: LoopNest, node: ast.expr, scalars: set[str], arguments: Mapping[str, Any]) -> bool:
    def some(*parts: ast.expr) -> bool:
        return any(_may_be_floating(nest, part, scalars, arguments) for part in parts)

    match node:
        case ast.Constant(value=value):
            return isinstance(value, float)
        case ast.Name(id=name):
            return name in scalars or isinstance(nest.constant(name), float)
        case ast.Subscript(value=ast.Name(id=name)):
            return np.dtype(getattr(arguments[name], "dtype", np.float64)).kind == "f"
        case ast.BinOp(left=left, op=op, right=right):
            return isinstance(op, ast.Div) or some(left, right)
        case ast.UnaryOp(op=op, operand=operand):
            return not isinstance(op, ast.Not) and some(operand)
        case ast.BoolOp(values=values):
            return some(*values)
        case ast.IfExp(body=then, orelse=other):
            return some(then, other)
        case ast.Call(args=given):
            function = called(nest.source, node)
            return function not in _WHOLE_FUNCTIONS and (function == "float" or function in MATH or some(*given))
    return False


def with_scalars(kernel: Kernel) -> tuple[Kernel, dict[str, str]]:
    """Give the kernel a scalar for each element that every iteration reduces; also return by scalar the array.

    The loop must use the array for no more. Lines of the source stay.
    """
    assert kernel.analysis is not None and isinstance(kernel.body, NestBody)
    nest = kernel.body.nest
    by_target: dict[str, list[Reduction]] = {}
    for reduction in kernel.analysis.reductions:
        if "[" in reduction.target:
            by_target.setdefault(reduction.target, []).append(reduction)
    names = Names(nest.source)
    scalars = {
        target: names.fresh(f"{target.partition('[')[0]}_value")
        for target, reductions in by_target.items()
        if _is_only_use_of_array(nest, target, reductions)
    }
    if not scalars:
        return kernel, {}
    tree = copy.deepcopy(nest.source.tree)
    place = tree.body.index(next(node for node in tree.body if isinstance(node, ast.For)))
    loop = _Replaced(scalars).visit(tree.body[place])
    first, last = (ast.copy_location(ast.Pass(), node) for node in (tree.body[place], loop))
    before = [_assignment(scalar, target, first) for target, scalar in scalars.items()]
    after = [_assignment(target, scalar, last) for target, scalar in scalars.items()]
    tree.body[place : place + 1] = [*before, loop, *after]
    changed = of_source(kernel, attrs.evolve(nest.source, tree=tree), len(nest.distributed))
    return changed, {scalar: target.partition("[")[0] for target, scalar in scalars.items()}


def _is_only_use_of_array(nest: LoopNest, target: str, reductions: list[Reduction]) -> bool:
    """Tell whether this reduction, of an element that the launch decides, is all that the loop does with the array."""
    array = target.partition("[")[0]
    inside = list(ast.walk(nest.distributed[0]))
    elements = [node for node in inside if isinstance(node, ast.Subscript) and text(node.value) == array]
    uses = sum(1 if isinstance(reduction.statement, ast.AugAssign) else 2 for reduction in reductions)
    changing = {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    mentioned = {node.id for node in ast.walk(elements[0].slice) if isinstance(node, ast.Name)}
    return (
        {text(node) for node in elements} == {target}
        and len(elements) == uses
        and len({reduction.operator for reduction in reductions}) == 1
        and not any(isinstance(part, Branch) for reduction in reductions for part in reduction.path)
        and not mentioned & {*changing, *nest.arrays}
    )


def _assignment(target: str, value: str, at: ast.stmt) -> ast.stmt:
    (statement,) = ast.parse(f"{target} = {value}").body
    for node in ast.walk(statement):
        ast.copy_location(node, at)
    return statement


class _Replaced(ast.NodeTransformer):
    def __init__(self, scalars: dict[str, str]) -> None:
        self.scalars = scalars

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if (scalar := self.scalars.get(text(node))) is not None:
            return ast.copy_location(ast.Name(scalar, node.ctx), node)
        return self.generic_visit(node)


def written(name: str, collapse: int, parameters: Sequence[ast.arg], body: list[ast.stmt]) -> str:
    """Write a kernel as Python."""
    decorator: ast.expr = ast.Name("kernel", ast.Load())
    if collapse > 1:
        decorator = ast.Call(decorator, [], [ast.keyword("collapse", ast.Constant(collapse))])
    arguments = ast.arguments(posonlyargs=[], args=list(parameters), kwonlyargs=[], kw_defaults=[], defaults=[])
    function = ast.FunctionDef(name=name, args=arguments, body=body, decorator_list=[decorator])
    if "type_params" in function._fields:
        function.type_params = []  # type: ignore[attr-defined, unused-ignore]  # since Python 3.12
    lines = text(ast.fix_missing_locations(ast.Module([function], []))).splitlines()
    return "\n".join(short for line in lines for short in _wrapped(line)) + "\n"


_WIDTH = 120


def _wrapped(line: str) -> list[str]:
    """Wrap an assignment into lines that end before an operator outside of square brackets."""
    target, sign, value = line.partition(" = ")
    if len(line) <= _WIDTH or not sign:
        return [line]
    margin = " " * (len(line) - len(line.lstrip()) + 4)
    pieces = [margin]
    inside = start = 0
    for end, character in enumerate([*value, ""]):
        inside += (character == "[") - (character == "]")
        if end == len(value) or (inside == 0 and value[end : end + 2] in (" +", " -", " *", " /")):
            piece = value[start:end]
            if len(pieces[-1]) + len(piece) > _WIDTH and pieces[-1] != margin:
                pieces.append(margin)
                piece = piece.lstrip()
            pieces[-1] += piece
            start = end
    return [f"{target}{sign}(", *pieces, f"{margin[4:]})"]
