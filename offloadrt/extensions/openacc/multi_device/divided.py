"""`DividedKernel`: a kernel of which each of several devices does a part, and what each device owns and needs.

Every device runs the changed kernel on full arrays of its own. Afterwards the parts of the written arrays that a device
owns are right on that device. The other devices get from it all of these parts (`segments`), or those that they will
read (`reads_of`). Together, the parts are what one device computes, bit by bit. Reductions are made of partial values.

Each device begins a reduction with the operator's identity (for minimum and maximum with the value before the loop). It
reduces what its share contributes, and stores the result as its element of an array, the partial values. When the host
has all of these, each device gets them and runs a second kernel (`Combination`): it reduces the value before the loop
and the partial values in the order of the devices, and then runs the code after the loop with the result. So all
devices have the same result, bit by bit. It is the sequential one for minimum and maximum (of equal zeros the sign, and
what becomes of NaN, depend on the order) and for whole numbers; sums and products of floating-point numbers are rounded
in another order.
"""

from __future__ import annotations

import abc
import ast
import copy
import functools
import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import attrs
import numpy as np

from offloadrt.extensions.openacc.multi_device.dependence import Names, WrittenRegion
from offloadrt.kernels.accesses import ArrayAccess, Branch, Loop, Reduction
from offloadrt.kernels.array_use import KernelError
from offloadrt.kernels.costs import launch_key
from offloadrt.kernels.counting import CountedLaunch
from offloadrt.kernels.execution import NestBody
from offloadrt.kernels.kernel import Kernel, of_source
from offloadrt.kernels.loop_subset import MATH, LoopNest, called, reads_first
from offloadrt.kernels.memo import Memo
from offloadrt.kernels.ranges import Box, Ranges, boxes
from offloadrt.kernels.source import assignments, statements, text

_IDENTITY = {"+": 0, "*": 1}
_WHOLE_FUNCTIONS = ("int", "bool", "len", "floor", "ceil")


@attrs.frozen
class PartialValue:
    """The array with each device's partial result for a reduced (perhaps complex) `scalar`; `operator` joins them."""

    scalar: str
    operator: str
    parameter: str
    """The array's name as a parameter of the changed kernel and of the combination. It has an element for each device.
    """
    element_of: str | None
    """If the scalar replaces an array element: the name of the array; None for a scalar of the program."""
    is_complex: bool = False

    @property
    def declaration(self) -> ast.arg:
        """Return the declaration of the array as a parameter of a kernel, with a type if it is complex."""
        return ast.arg(self.parameter, ast.Name("complex128", ast.Load()) if self.is_complex else None)


@attrs.frozen(eq=False)
class Separated:
    """A loop nest that reduces into partial results (`partials`), one per device, without the code after the loop."""

    nest: LoopNest
    partials: tuple[PartialValue, ...]
    device: str
    """The name of the device's number: the changed kernel's last parameter, and a loop variable when combining."""

    @property
    def parameters(self) -> tuple[ast.arg, ...]:
        """Return the last parameters of the kernel changed for several devices: partial results and device number."""
        return (*(partial.declaration for partial in self.partials), ast.arg(self.device))

    @property
    def stores(self) -> list[ast.stmt]:
        """Return the statements after the loop that store this device's partial results."""
        return [_statement(f"{partial.parameter}[{self.device}] = {partial.scalar}") for partial in self.partials]


@attrs.frozen(eq=False)
class Combination:
    """A kernel that combines the devices' partial results, then runs what follows the loop in the original kernel.

    `source` is its text, and `partials` are the arrays of partial results.
    """

    kernel: Kernel
    source: str = attrs.field(repr=False)
    partials: tuple[PartialValue, ...]
    nest: LoopNest = attrs.field(repr=False)
    """The nest of the original kernel."""

    def arguments(self, arguments: Sequence[Any], values: Sequence[Any]) -> tuple[Any, ...]:
        """Return the combining kernel's arguments: the original's, and `values`, the arrays of partial results."""
        given = dict(zip(self.nest.parameters, arguments, strict=True))
        given.update(zip((partial.parameter for partial in self.partials), values, strict=True))
        return tuple(given[name] for name in self._parameters)

    def types(self, arguments: Sequence[Any]) -> tuple[np.dtype[Any], ...]:
        """Return the types of the partial results for a launch's arguments: int64, float64 or complex128.

        Raises KernelError where a boolean element is reduced, or an integer one by floats (C would round each sum).
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
        """Return the original kernel's arrays that this one loads from (kind `read`) or stores to (`write`)."""
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
    """Make the nest reduce into partial results; None when no reduced scalar is used after the loop.

    names: makes new names. element_of: the array of each scalar that stands for an element. complex_scalars: those that
    may be complex. Raises SourceRefused if code around the loop uses other results of it than the reductions.
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
        if (identity := _IDENTITY.get(nest.reduced[name])) is None:
            continue
        last = [node for node in assignments(statements(before)) if node.scalar == name][-1:]
        if not any(node.operator is None and _is_number(node.value, identity) for node in last):
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
    """Make the kernel that combines devices' partial results of a loop nest (`separated`), in device order."""
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
    """Return the statements before the distributed loop, and the loop with the statements after it."""
    place = nest.source.body.index(nest.distributed[0])
    return nest.source.body[:place], nest.source.body[place:]


def _statement(text: str) -> ast.stmt:
    (statement,) = ast.parse(text).body
    return statement


def _is_number(node: ast.expr, number: int) -> bool:
    return isinstance(node, ast.Constant) and node.value == number and not isinstance(node.value, bool)


def _refuse_entangled(nest: LoopNest, around: Iterable[ast.stmt], loop: ast.stmt, after: Sequence[ast.stmt]) -> None:
    """Raise SourceRefused if the code around the loop uses its stores or scalars: the combining kernel repeats it."""
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
    """Replace by a scalar each array element into which every iteration reduces; also return each scalar's array.

    Only elements of arrays that the loop does not use otherwise are replaced. Line numbers stay the same.
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
    """Tell whether the loop uses the array only for these reductions of one element, the same for all of a launch."""
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
    """Return the source text of a kernel with this name, parameters and body; `collapse` loops are distributed."""
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
    """Break a long assignment into lines that end before an operator outside of square brackets."""
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


_memo = functools.partial(Memo, 256)


@attrs.frozen
class Share:
    """One device's part of a launch; `bounds`: the first and last value (inclusive) of each divided range."""

    device: int
    bounds: tuple[tuple[int, int], ...]

    @property
    def arguments(self) -> tuple[int, ...]:
        """Return first, last, first, last ... of the ranges: arguments of a kernel that is divided among devices."""
        return tuple(bound for pair in self.bounds for bound in pair)


@attrs.frozen
class _OfSize:
    """A stand-in for an array of partial values, with a shape and a type only."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@attrs.frozen
class Part:
    """A device's part (`share`) of a launch. By array, `segments` are the bytes it computes, `reads` those it needs."""

    share: Share
    segments: dict[str, Ranges]
    _find_reads: Callable[[], dict[str, Ranges | None]] = attrs.field(repr=False, eq=False)

    @functools.cached_property
    def reads(self) -> dict[str, Ranges | None]:
        """Return which bytes of each array (None: all) must be up to date on the device before its part of the launch.

        They are computed at first use (`DividedKernel.reads_of`), as an all-to-all exchange never needs them.
        """
        return self._find_reads()


@attrs.frozen(eq=False)
class DividedKernel(abc.ABC):
    """A kernel changed so that each device does a part of the work. Arrays are in C order; offsets are in bytes."""

    original: Kernel = attrs.field(repr=False)
    kernel: Kernel
    """The changed kernel. Its arguments are the original ones, then the bounds, and for reductions the arrays of
    partial values and the device's number. It counts the work of one device's share.
    """
    source: str = attrs.field(repr=False)
    """The changed kernel as Python source."""
    written: tuple[WrittenRegion, ...]
    """The arrays that it writes, each with the dimension along which it is divided."""
    combination: Combination | None = attrs.field(repr=False)
    """The kernel that every device runs afterwards to combine the partial values; None when nothing is reduced."""
    _kept: Memo[Any, tuple[Part, ...]] = attrs.field(factory=_memo, init=False, repr=False)
    _counted_launches: Memo[Any, CountedLaunch] = attrs.field(factory=_memo, init=False, repr=False)
    _wholes: Memo[Any, Share] = attrs.field(factory=_memo, init=False, repr=False)

    def parts(self, devices: int, arguments: Sequence[Any]) -> tuple[Part, ...]:
        """Return each device's part of a launch: its bounds, the bytes that it computes, and those that it reads.

        Parts are kept, because programs launch a kernel with equal sizes many times.
        """
        self._check(devices, arguments)
        key = devices, launch_key(arguments)
        if key not in self._kept:
            self._kept[key] = tuple(
                Part(share, self.segments(share, arguments), functools.partial(self.reads_of, share, arguments))
                for share in self.split(devices, arguments)
            )
        return self._kept[key]

    @abc.abstractmethod
    def split(self, devices: int, arguments: Sequence[Any]) -> tuple[Share, ...]:
        """Divide a launch among `devices` devices evenly; arrays may be phantoms (without values).

        Raises KernelError when arrays overlap of which one is written, or a bound is not known.
        """

    @abc.abstractmethod
    def owned(self, region: WrittenRegion, share: Share, arguments: Sequence[Any]) -> list[Box]:
        """Return the elements of the divided array `region` that a device has up to date after its share."""

    def accessing(self, share: Share, arguments: Sequence[Any]) -> float:
        """Return the fraction (0 to 1) of a device's iterations that access memory when the device does its share."""
        return 1.0

    def arguments(
        self, share: Share, arguments: Sequence[Any], partial_values: Sequence[Any] | None = None
    ) -> tuple[Any, ...]:
        """Return the arguments of the kernel that is changed for several devices, for one device's part of a launch.

        They are the original arguments that it still uses, its bounds, and for reductions the arrays of partial results
        (stand-ins if none are given) and the device's number.
        """
        kept = set(self._parameters(self.kernel))
        given = zip(self._parameters(self.original), arguments, strict=True)
        called = (*(argument for name, argument in given if name in kept), *share.arguments)
        if self.combination is None:
            return called
        if partial_values is None:
            partial_values = [_OfSize((share.device + 1,), kind) for kind in self.combination.types(arguments)]
        return (*called, *partial_values, share.device)

    def segments(self, share: Share, arguments: Sequence[Any]) -> dict[str, Ranges]:
        """Return the contiguous pieces of each divided array that a device has computed, in bytes, by array.

        There is one piece if the divided dimension is the leftmost. Otherwise there is one for each index of the
        dimensions on its left; where a loop is split, only for those indices that are stored to. share: the device's
        part.
        """
        return {
            region.name: self._bytes(self.owned(region, share, arguments), region.name, arguments)
            for region in self.written
            if region.dimension is not None
        }

    def reads_of(self, share: Share, arguments: Sequence[Any]) -> dict[str, Ranges | None]:
        """Return for each array the bytes that must be up to date on a device before it does its part.

        None means all bytes: data decide what is read, or the combining kernel reads the array. The bytes that the
        device is to compute are included, because its stores need not reach all of them. A dimension in which the
        devices' parts do not differ is taken whole.
        """
        reads: dict[str, Ranges | None] = {}
        if self.combination is not None:
            reads.update(dict.fromkeys(self.combination.used("read")))
        for use in self.original.arrays:
            if use.name in reads or all(access.array != use.name for access in self._accesses):
                continue
            loads = [access for access in self._accesses if access.array == use.name and access.kind == "read"]
            reached = self.reach(loads, share, arguments)
            own_regions = [
                region for region in self.written if region.name == use.name and region.dimension is not None
            ]
            if reached is not None:
                reached += [box for region in own_regions for box in self.owned(region, share, arguments)]
            reads[use.name] = None if reached is None else self._bytes(reached, use.name, arguments)
        return reads

    def reach(
        self, accesses: Sequence[ArrayAccess], share: Share, arguments: Sequence[Any], divided: int | None = None
    ) -> list[Box] | None:
        """Return boxes of elements that cover all that accesses to one array touch in a device's part of a launch.

        Returns None if the index depends on data. divided: the dimension along which the array is divided; if it is
        None, the first one in which the device's part touches less than the whole launch does. To get few, large pieces
        of memory, each dimension to the right of it is extended to its full length if the part touches as much of it as
        the launch does.
        """
        now, all_ = self._counted_launches_of(share, arguments)
        reached: list[Box] = []
        for access in accesses:
            shape = self._argument(access.array, arguments).shape
            some, most = boxes(access, now, shape), boxes(access, all_, shape)
            if some is None or most is None:
                return None
            for box in some:
                alike = _reaching_as_much(box, most)
                last = divided if divided is not None else alike.index(False) if False in alike else -1
                sides = zip(box, shape, alike, strict=True)
                reached.append(
                    tuple(
                        (0, length - 1) if same and at > last else side for at, (side, length, same) in enumerate(sides)
                    )
                )
        return reached

    def _counted_launches_of(self, share: Share, arguments: Sequence[Any]) -> tuple[CountedLaunch, CountedLaunch]:
        """Return the changed kernel's iteration counts in a share, and in one that is the whole launch."""
        known = launch_key(arguments)
        if known not in self._wholes:
            self._wholes[known] = self.split(1, arguments)[0]
        now, undivided = (
            self._counted_launch(self.kernel, self.arguments(each_share, arguments))
            for each_share in (share, self._wholes[known])
        )
        return now, undivided

    def _counted_launch(self, kernel: Kernel, arguments: Sequence[Any]) -> CountedLaunch:
        """Return the iteration counts of a launch of the original or the changed kernel; they are kept."""
        analysis = kernel.analysis
        assert analysis is not None
        key = kernel is self.original, launch_key(arguments)
        if key not in self._counted_launches:
            self._counted_launches[key] = analysis.counted_launch(arguments)
        return self._counted_launches[key]

    @property
    def _accesses(self) -> Sequence[ArrayAccess]:
        assert self.kernel.analysis is not None
        return self.kernel.analysis.accesses

    @staticmethod
    def _parameters(kernel: Kernel) -> tuple[str, ...]:
        assert kernel.analysis is not None
        return kernel.analysis.parameters

    def _argument(self, name: str, arguments: Sequence[Any]) -> Any:
        return arguments[self._parameters(self.original).index(name)]

    def _bytes(self, touched: list[Box], name: str, arguments: Sequence[Any]) -> Ranges:
        argument = self._argument(name, arguments)
        assert self.original.analysis is not None
        declared = self.original.analysis.use(name).element_size
        return _byte_ranges(
            touched, argument.shape, int(getattr(getattr(argument, "dtype", None), "itemsize", declared))
        )

    def _check(self, devices: int, arguments: Sequence[Any]) -> None:
        """Raise KernelError for arguments that cannot be divided."""
        analysis = self.original.analysis
        assert analysis is not None
        who = f"{analysis.file}:{analysis.line}: kernel {self.original.name!r}"
        if devices < 1:
            raise KernelError(f"{who}: it is divided among {devices} devices, but there must be one at least")
        analysis.counted_launch(arguments)
        if self.combination is not None:
            self.combination.types(arguments)
        for use in analysis.arrays:
            if getattr(arguments[use.position], "shape", None) is None:
                raise KernelError(
                    f"{who}: the shape of {use.name} is not known; pass an array or a phantom with a shape"
                )
        for region in self.written:
            for use in analysis.arrays:
                written, other = arguments[region.position], arguments[use.position]
                if use.position != region.position and _overlap(written, other):
                    raise KernelError(
                        f"{who}: {region.name}, which it writes, overlaps {use.name}; give each argument memory of its "
                        "own, or do not divide the kernel"
                    )


def counts_from_the_front(kernel: Kernel, access: ArrayAccess, dimension: int, launch: CountedLaunch) -> None:
    """Raise KernelError if an access's index in a dimension may be negative in the launch, or has no known range."""
    index = access.index[dimension]
    if index is None or not launch.runs(access.path):
        return
    ends = launch.extent(index, access.path)
    if ends is None or ends[0] < 0:
        assert kernel.analysis is not None
        what = "is not known to be 0 at least" if ends is None else f"may be {ends[0]}, which counts from the end"
        raise KernelError(
            f"{kernel.analysis.file}:{access.line}: kernel {kernel.name!r}: index {dimension} of {access.text}, an "
            f"array that it writes, {what}: it cannot be told whose element that is; begin the loop where the "
            f"index is 0, or write it % {access.array}.shape[{dimension}]"
        )


def _overlap(first: Any, other: Any) -> bool:
    arrays = isinstance(first, np.ndarray) and isinstance(other, np.ndarray)
    return first is other or (arrays and np.may_share_memory(first, other))


def nest_body(kernel: Kernel) -> NestBody:
    """Return the body of a loop nest. Raises KernelError for a kernel that is declared by its costs."""
    if not isinstance(kernel.body, NestBody):
        raise KernelError(
            f"kernel {kernel.name!r} is declared by its costs and has no source to divide among devices; write it as a "
            "loop nest"
        )
    return kernel.body


def evenly(count: int, devices: int) -> list[tuple[int, int]]:
    """Divide `count` items evenly: return each device's first item and the item after its last one."""
    each, rest = divmod(count, devices)
    starts = [device * each + min(device, rest) for device in range(devices + 1)]
    return list(itertools.pairwise(starts))


def split_values(kernel: Kernel, loop: Loop, launch: CountedLaunch, devices: int) -> list[tuple[int, int]]:
    """Divide a loop's values in the launch among devices; return each device's first and last value (inclusive).

    Raises KernelError if the loop's values are unknown.
    """
    assert kernel.analysis is not None
    if not launch.counted(loop) or (values := launch.range_of(loop, launch.numbers)) is None:
        raise KernelError(f"{kernel.analysis.file}:{loop.line}: the bounds of the loop over {loop.name} are not known")
    values_of_devices = []
    for first, after in evenly(len(values), devices):
        low, high = sorted((values[first], values[after - 1])) if after > first else (0, -1)
        values_of_devices.append((low, high))
    return values_of_devices


@attrs.frozen
class Transfer:
    """Bytes of an array that device `source` sends to device `target`; `offset` counts from the array's start."""

    source: int
    target: int
    offset: int
    nbytes: int


@attrs.frozen
class _Piece:
    start: int
    end: int
    owner: int
    """The device that has stored these bytes, and from which others get them."""
    holders: frozenset[int]
    """The devices on which these bytes are up to date."""


@attrs.define
class Holders:
    """Tracks which device has up-to-date bytes of each array, where pieces are sent only to devices that read them.

    Bytes that no divided kernel has written are up to date everywhere. Arrays are given by any key that identifies
    memory.
    """

    _pieces: dict[Hashable, list[_Piece]] = attrs.field(factory=dict, init=False)

    def wrote(self, array: Hashable, segments: Sequence[Ranges]) -> None:
        """Record that each device has stored to its own pieces (`segments`), so that only it has them up to date."""
        owned = [
            _Piece(offset, offset + nbytes, device, frozenset({device}))
            for device, pieces in enumerate(segments)
            for offset, nbytes in pieces
        ]
        owned.sort(key=lambda piece: piece.start)
        reached = [*accumulate((stored.end for stored in owned), max)]
        kept: list[_Piece] = []
        for piece in self._pieces.get(array, []):
            start = piece.start
            for place in range(bisect_right(reached, start), len(owned)):
                stored = owned[place]
                if stored.start >= piece.end:
                    break
                if stored.end > start:
                    if start < stored.start:
                        kept.append(attrs.evolve(piece, start=start, end=stored.start))
                    start = stored.end
            if start < piece.end:
                kept.append(attrs.evolve(piece, start=start))
        self._pieces[array] = sorted([*kept, *owned], key=lambda piece: piece.start)

    def fetch(self, array: Hashable, device: int, needed: Ranges | None) -> list[Transfer]:
        """Return the transfers that a device needs before it reads `needed` (None: all bytes); record them as done."""
        if not (held := self._pieces.get(array)):
            return []
        pieces: list[_Piece] = []
        transfers: list[Transfer] = []
        starts = None if needed is None else [offset for offset, _ in needed]
        ends = [] if needed is None else [offset + nbytes for offset, nbytes in needed]
        for piece in held:
            if device in piece.holders:
                pieces.append(piece)
                continue
            start = piece.start
            if starts is None:
                wanted = [(start, piece.end)]
            else:
                here = slice(bisect_right(ends, start), bisect_left(starts, piece.end))
                wanted = [*zip(starts[here], ends[here], strict=True)]
            for first, end in wanted:
                first, end = max(first, start), min(end, piece.end)
                if start < first:
                    pieces.append(attrs.evolve(piece, start=start, end=first))
                pieces.append(attrs.evolve(piece, start=first, end=end, holders=piece.holders | {device}))
                transfers.append(Transfer(piece.owner, device, first, end - first))
                start = end
            if start < piece.end:
                pieces.append(attrs.evolve(piece, start=start))
        self._pieces[array] = pieces
        return transfers

    def is_tracked(self, array: Hashable) -> bool:
        """Tell whether a divided kernel has written the array since it was up to date everywhere."""
        return bool(self._pieces.get(array))

    def is_divided(self, array: Hashable, devices: int) -> bool:
        """Tell whether one of `devices` devices lacks up-to-date bytes of an array."""
        return any(len(piece.holders) < devices for piece in self._pieces.get(array, ()))

    def everywhere(self, array: Hashable) -> None:
        """Record that all of an array is up to date on all devices, after a copy to all of them."""
        self._pieces.pop(array, None)


def _reaching_as_much(box: Box, others: Sequence[Box]) -> list[bool]:
    """Tell for each dimension whether a box reaches from the first to the last index of all the others.

    It does not when there are no others: a share may evaluate the second part of an `or` that the whole launch never
    does.
    """
    if not others:
        return [False] * len(box)
    return [
        side == (min(low for low, _ in sides), max(high for _, high in sides))
        for side, sides in zip(box, zip(*others, strict=True), strict=True)
    ]


def _byte_ranges(touched: Iterable[Box], shape: Sequence[int], element_size: int) -> Ranges:
    """Return the bytes of some boxes of an array in C order, as (offset, length); adjacent pieces are joined."""
    starts: list[int] = []
    ends: list[int] = []
    for box in touched:
        if any(low > high for low, high in box):
            continue
        last = len(box) - 1
        while last > 0 and box[last] == (0, shape[last] - 1):
            last -= 1
        inner = element_size
        for length in shape[last + 1 :]:
            inner *= length
        outer = np.zeros(1, np.int64)
        for (low, high), length in zip(box[:last], shape[:last], strict=True):
            outer = (outer[:, np.newaxis] * length + np.arange(low, high + 1)).ravel()
        low, high = box[last]
        begins = (outer * shape[last] + low) * inner
        starts += begins.tolist()
        ends += (begins + (high - low + 1) * inner).tolist()
    pieces: list[tuple[int, int]] = []
    for start, end in sorted(zip(starts, ends, strict=True)):
        if pieces and start <= pieces[-1][1]:
            pieces[-1] = pieces[-1][0], max(end, pieces[-1][1])
        else:
            pieces.append((start, end))
    return tuple((start, end - start) for start, end in pieces)
