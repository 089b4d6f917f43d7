"""The walk through a loop nest: every load and store with its index and its block, and every operation.

The walk follows the values of scalars, so that the index of ``visited[neighbour]`` is known to come from ``edges``. A
scalar that a loop changes is only known to vary with that loop. `Evaluation` reads the expressions at the walk's
position and gives a `Value` for each: its polynomial, the loops it varies with, the arrays it was read from. Bounds and
indices must be whole numbers (`number_kinds.py`).
"""

from __future__ import annotations

import ast
import contextlib
import functools
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

import attrs

from offloadrt.kernels.accesses import (
    ArrayAccess,
    Branch,
    Condition,
    Hint,
    Loop,
    Path,
    Reduction,
    Walk,
    Within,
    Work,
    loops_of,
    negated,
)
from offloadrt.kernels.algebra import OPERATIONS, Polynomial, SymbolicOperation
from offloadrt.kernels.loop_subset import MATH, LoopNest, reduction
from offloadrt.kernels.number_kinds import FLOAT, TRUTH, WHOLE, IndexParameter, Kind, WholeNumbers, operated, returned
from offloadrt.kernels.source import (
    Assignment,
    Conditional,
    RangeLoop,
    Statement,
    assignments,
    literal,
    stored_names,
    text,
    within,
)

NOTHING: frozenset[str] = frozenset()

_WHOLE = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.Pow)
_HIGHEST_POWER = 4
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%", ast.Div: "/",
}  # fmt: skip
_FURTHER = {
    "/": 17, "sqrt": 17, "exp": 47, "log": 73, "log2": 77, "log10": 77, "sin": 37, "cos": 39, "tan": 65, "asin": 87,
    "acos": 99, "atan": 55, "atan2": 57, "sinh": 71, "cosh": 49, "tanh": 75, "pow": 130,
}  # fmt: skip
"""Operations of a division or function of doubles, in addition to the one flop that it counts as.

Two operations, as of a fused multiply-add, for each arithmetic instruction in the PTX of nvcc 13.0 for sm_80; a
division and a square root, which are one instruction there, take some nine in the code of the device. Powers are a
logarithm and an exponential; functions of single precision take about half as many (17 and 37 of exp and log).
Arguments are assumed to be small enough to need no range reduction.
"""
_SHORT = 1
"""Further operations of a 64-bit integer operation: it takes two instructions, each as long as one on doubles."""
_OF_WHOLE: dict[type[ast.operator], int] = {ast.Mult: 4, ast.FloorDiv: 17, ast.Mod: 17}
_BITS = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift)


@attrs.frozen
class Value:
    """Collects what a kernel's source says about a number: formula, `kind` (whole, float …), what it depends on."""

    polynomial: Polynomial | None = None
    """Polynomial over loop variables, scalars and lengths; None when the number has none."""
    operation: SymbolicOperation | None = None
    """Operation that computes the number if it has no polynomial and is independent of array contents."""
    loops: frozenset[str] = NOTHING
    """Symbols of the loops with which the number varies."""
    arrays: frozenset[str] = NOTHING
    """Arrays whose contents determine the number."""
    integer: bool = False
    """Whether the source shows that the number is whole."""
    level: int = 0
    """Number of loads, each dependent on the one before, that must finish before the number is known."""
    near: Hint = None
    """For an index read from data: the fraction of its values that lie near the iteration's own number (`expect`)."""
    kind: Kind = attrs.field(default=WHOLE, eq=False)

    @classmethod
    def whole(cls, polynomial: Polynomial, loops: frozenset[str] = NOTHING) -> Value:
        return cls(polynomial, None, loops, NOTHING, True)

    def mixed(self, others: Iterable[Value], integer: bool) -> Value:
        """Describe (as a `Value`) a number that an operation, which is no polynomial, computes from this and `others`.

        integer: whether the result is a whole number.
        """
        loops, arrays, level, near, kind = self.loops, self.arrays, self.level, self.near, self.kind
        for other in others:
            loops, arrays, level = loops | other.loops, arrays | other.arrays, max(level, other.level)
            near = other.near if near is None else near
            kind |= other.kind
        return Value(None, None, loops, arrays, integer, level, near, kind)

    def or_else(self, other: Value, condition: Value) -> Value:
        """Describe (as a `Value`) a number that is either this one or `other`, as `condition` decides."""
        kind = self.kind | other.kind
        if self == other:
            return attrs.evolve(self, kind=kind)
        if self.polynomial is not None and self.polynomial == other.polynomial:
            return attrs.evolve(self, level=max(self.level, other.level), kind=kind)
        return attrs.evolve(self.mixed((other, condition), self.integer and other.integer), kind=kind)


def arithmetic(op: ast.operator, left: Value, right: Value) -> Value:
    """Describe the result of `left op right` as a `Value`: its formula, its kind, and what the result depends on."""
    integer = left.integer and right.integer and isinstance(op, _WHOLE + _BITS)
    combined = attrs.evolve(left.mixed((right,), integer), kind=operated(op, left.kind, right.kind))
    if isinstance(op, ast.LShift | ast.RShift) and (bits := _shift_of(right)) is not None:
        op, right = (
            ast.Mult() if isinstance(op, ast.LShift) else ast.FloorDiv(),
            Value.whole(Polynomial.number(1 << bits)),
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


def _shift_of(value: Value) -> int | None:
    """Return the distance of a shift in bits if it is a literal; else None."""
    constant = None if value.polynomial is None else value.polynomial.constant
    return constant if constant is not None and 0 <= constant < 64 else None


def made_of(name: str, operands: Sequence[Value], combined: Value) -> Value:
    """Return `combined` with the formula `name(operands)`, or with its value if the operands are constants.

    combined: the result's description without a formula; returned unchanged if an operand depends on array contents.
    """
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
    """Return the names of a nest's scalars and arrays that must hold whole numbers, for an index or a loop bound.

    All others count as floating point. An array's annotation, such as ``NDArray[np.int32]``, takes precedence.
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
    """Return the names of the parameters (numbers or arrays) of `nest` that are annotated as complex."""
    kinds = {argument.arg: annotated_type(argument, nest.source.names) for argument in nest.source.parameters}
    return {name for name, kind in kinds.items() if kind is not None and kind.startswith("complex")}


_SIZES = {"int": 8, "float": 8, "bool": 1, "bool_": 1, "complex": 16, "complex128": 16}
_SIZES |= {f"{kind}{bits}": bits // 8 for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64)}


def annotated_type(argument: ast.arg, names: Mapping[str, Any]) -> str | None:
    """Return the NumPy type of elements that a parameter's annotation names: ``float32`` of ``NDArray[np.float32]``.

    The annotation may be an alias of such a type among the `names` (globals and so on) of the source.
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
    """Return the element size in bytes that a parameter's annotation names; None without such an annotation."""
    name = annotated_type(argument, names)
    return None if name is None else _SIZES[name]


_COMPLEX_OPERATIONS: dict[type[ast.operator], tuple[int, int]] = {
    ast.Add: (2, 1),
    ast.Sub: (2, 1),
    ast.Mult: (6, 2),
    ast.Div: (9, 2),  # Smith's algorithm, as `execution.py` divides: 3 divisions, 3 products, 3 sums
}
"""Floating-point operations on two complex numbers, and on a complex and a real one."""


class Evaluation:
    """Reads the expressions of a kernel's loop nest, statement by statement, and describes each one by a `Value`.

    met: the loops, accesses and operations found so far. whole: the names that must hold whole numbers. stored: the
    names that the nest assigns.
    """

    def __init__(self, nest: LoopNest) -> None:
        self.nest = nest
        self.met = Walk()
        self.whole = whole_names(nest)
        self.stored = stored_names(nest.body)
        self.numbers = frozenset(name for name in nest.parameters if name not in nest.arrays)
        """The parameters that are no arrays; a caller may pass floats for them."""
        self.complex_parameters = complex_names(nest)
        self.whole_numbers = WholeNumbers(nest)
        self.values: dict[str, Value] = {}
        """The current values of the scalars."""
        self.tests: dict[str, Condition] = {}
        """For each scalar that holds the outcome of a comparison, the condition of that comparison."""
        floats = {annotated_type(each, nest.source.names) for each in nest.source.parameters if each.arg in nest.arrays}
        self.single = "float32" in floats and not floats & {None, "float", "float64", "complex128", "complex"}
        """Whether all floating-point arrays have single precision, in which functions take half as long."""
        self.scope: str | None = None
        """The scope of the atomic operation in the current statement; None without one."""
        self.guards = [Value()]
        """The values that determine whether the walk's position is executed, the outermost first."""
        for name in nest.parameters:
            if name not in nest.arrays:
                kind = self.kind_of_parameter(name)
                self.values[name] = Value(Polynomial.symbol(name), integer=name in self.whole, kind=kind)

    def kind_of_parameter(self, name: str) -> Kind:
        return Kind.given_by(name, name in self.complex_parameters)

    def condition(self, node: ast.expr, path: Path) -> tuple[Condition, Value]:
        """Return the probability that an expression is true, and what it depends on (loops, arrays), as a `Value`.

        path: the loops and branches around the expression.
        """
        match node:
            case ast.Call() if self.nest.function_of(node) == "expect":
                _, value = self.condition(node.args[0], path)
                return Condition(hint=self.hint(node, "probability")), value
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                holds, value = self.condition(operand, path)
                return negated(holds), value
            case ast.BoolOp(op=op, values=values):
                parts: list[Condition] = []
                total = Value()
                for operand in values:
                    holds, value = self.condition(operand, path)
                    path = (*path, Branch(holds if isinstance(op, ast.And) else negated(holds), operand.lineno))
                    parts.append(holds)
                    total = total.mixed((value,), False)
                return Condition("and" if isinstance(op, ast.And) else "or", tuple(parts)), total
            case ast.Name(id=name) if name in self.tests:
                return self.tests[name], self.expression(node, path)
            case ast.Compare():
                return self.comparison(node, path)
        return Condition(), self.expression(node, path)

    def comparison(self, node: ast.Compare, path: Path) -> tuple[Condition, Value]:
        """Return the probability of a comparison or a chain (``a < b < c``), and its loops and arrays, as a `Value`.

        path: the loops and branches around the comparison.
        """
        values = [self.expression(node.left, path), self.expression(node.comparators[0], path)]
        last = (*path, Branch(Condition(), node.lineno))  # a chain ends at its first comparison that does not hold
        values += [self.expression(other, last) for other in node.comparators[1:]]
        value = attrs.evolve(values[0].mixed(values[1:], True), kind=TRUTH)
        orders = not all(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops)
        if orders and any(operand.kind.is_complex for operand in values):
            self.nest.source.refuse(node, f"{text(node)} compares complex numbers", "compare .real or .imag")
        match node:
            case ast.Compare(ops=[ast.NotEq()]):
                return negated(Condition(within=ranges_of(values, [ast.Eq()]))), value
            case ast.Compare(
                ops=[ast.LtE(), ast.LtE()], comparators=[ast.BinOp(op=ast.Mod(), right=ast.Subscript() as length), _]
            ) if isinstance(length.value, ast.Attribute):
                among = self.expression(length, ()).polynomial
                return Condition(within=range_of_data(values[0], values[1], among, values[2])), value
        return Condition(within=ranges_of(values, node.ops)), value

    def expression(self, node: ast.expr, path: Path) -> Value:
        value = self.value_of(node, path)
        if value.kind.is_complex:
            self.met.complex_nodes.add(node)
        return value

    def value_of(self, node: ast.expr, path: Path) -> Value:
        match node:
            case ast.Constant(value=bool() | int() | float() | complex() as number):
                return self.number(number)
            case ast.Name(id=name):
                return self.values[name] if name in self.values else self.constant(name)
            case ast.BinOp(left=left, op=op, right=right):
                return self.operate(node, op, self.expression(left, path), self.expression(right, path), path)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                positive = self.expression(operand, path)
                negative = arithmetic(ast.Sub(), Value.whole(Polynomial.number(0)), positive)
                return attrs.evolve(negative, integer=positive.integer, kind=positive.kind.as_number)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                positive = self.expression(operand, path)
                return attrs.evolve(positive, kind=positive.kind.as_number)
            case ast.UnaryOp() | ast.BoolOp() | ast.Compare():
                condition = self.condition(node, path)[1]
                kind = condition.kind if isinstance(node, ast.BoolOp) else TRUTH
                return attrs.evolve(condition.mixed((), True), kind=kind)
            case ast.IfExp(test=test, body=then, orelse=other):
                holds, condition = self.condition(test, path)
                first = self.expression(then, (*path, Branch(holds, test.lineno)))
                second = self.expression(other, (*path, Branch(negated(holds), test.lineno)))
                return first.or_else(second, condition)
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name)), slice=dimension):
                return Value.whole(Polynomial.symbol(f"{name}.shape[{text(dimension)}]"))
            case ast.Subscript():
                return self.load(node, path)
            case ast.Attribute(value=value, attr="real" | "imag"):
                return attrs.evolve(self.complex_operand(value, node, path).mixed((), False), kind=FLOAT)
            case ast.Attribute(value=ast.Name(id=name)):
                return Value.whole(Polynomial.symbol(f"{name}.size"))
            case ast.Call():
                return self.call(node, path)
        raise AssertionError(text(node))

    def constant(self, name: str) -> Value:
        return self.number(self.nest.constant(name))

    def number(self, number: complex | None) -> Value:
        plain = Value.whole(Polynomial.number(number)) if isinstance(number, int) else Value()
        return attrs.evolve(plain, kind=Kind.of(number))

    def complex_operand(self, node: ast.expr, around: ast.expr, path: Path) -> Value:
        """Evaluate `node`, in the loops and branches `path`. SourceRefused, quoting `around`, if it is not complex."""
        value = self.expression(node, path)
        if not value.kind.is_complex:
            what = f"{text(around)} is not of a complex number"
            self.nest.source.refuse(around, what, "annotate its array as NDArray[np.complex128]")
        return value

    def operate(
        self, node: ast.BinOp | ast.Assign | ast.AugAssign, op: ast.operator, left: Value, right: Value, path: Path
    ) -> Value:
        result = self.known(arithmetic(op, left, right))
        if result.kind.is_complex:
            both = left.kind.is_complex and right.kind.is_complex
            power = right.polynomial.constant if isinstance(op, ast.Pow) and right.polynomial else None
            if power is not None:
                self.count((power - 1) * _COMPLEX_OPERATIONS[ast.Mult][0], path)
            elif type(op) in _COMPLEX_OPERATIONS:
                # A division by a complex number costs the same whatever is divided.
                both = both or (isinstance(op, ast.Div) and right.kind.is_complex)
                self.count(_COMPLEX_OPERATIONS[type(op)][not both], path)
            else:
                self.nest.source.refuse(node, f"{text(node)} is not defined for complex numbers", "use + - * / or **")
        elif not result.integer:
            power = right.polynomial.constant if isinstance(op, ast.Pow) and right.polynomial else 2
            further = 0
            if isinstance(op, ast.Div):
                further = self.further("/")
            elif not result.kind.floating and not isinstance(op, ast.Pow):
                further = _OF_WHOLE.get(type(op), _SHORT)
            self.count((power or 2) - 1, path, further)
        elif result.polynomial is None and not isinstance(op, ast.Pow):
            self.count(0, path, 1 + _OF_WHOLE.get(type(op), _SHORT))
        return result

    def known(self, value: Value) -> Value:
        """Return `value`, if it is computed as in ``n // 2``, with a symbol for the result, so that bounds can use it.

        A launch computes it, as scalars and array lengths are its only operands. Others are returned unchanged.
        """
        operation = value.operation
        if operation is None or value.loops or not value.integer or operation.symbols & self.stored:
            return value
        (symbol,) = operation.symbol.symbols
        self.met.operations[symbol] = operation
        return attrs.evolve(value, polynomial=operation.symbol, operation=None)

    def further(self, function: str) -> int:
        """Return how many operations a function's machine code takes beyond the one flop that each call counts as."""
        return _FURTHER.get(function, 0) // (2 if self.single else 1)

    def count(self, operations: int, path: Path, further: int = 0) -> None:
        if operations or further:
            self.met.work.append(Work(operations, path, further))

    def call(self, node: ast.Call, path: Path) -> Value:
        name = self.nest.function_of(node)
        if name == "len":
            return Value.whole(Polynomial.symbol(f"{text(node.args[0])}.shape[0]"))
        if name == "expect":
            return attrs.evolve(self.condition(node, path)[1], near=self.hint(node, "near"))
        if name == "atomic":
            self.scope = str(ast.literal_eval(node.args[1])) if len(node.args) > 1 else "device"
            return self.expression(node.args[0], path)
        if isinstance(node.func, ast.Attribute) and name == "conjugate":
            return self.complex_operand(node.func.value, node, path)
        first, *others = [self.expression(argument, path) for argument in node.args]
        if any(operand.kind.is_complex for operand in (first, *others)):
            self.nest.source.refuse(node, f"{text(node)} is not defined for complex numbers", "use .real and .imag")
        made = self.result_of(node, name, first, others, path)
        kind = first.kind
        for other in others:
            kind |= other.kind
        return attrs.evolve(made, kind=returned(name, kind))

    def result_of(self, node: ast.Call, name: str, first: Value, others: list[Value], path: Path) -> Value:
        """Describe the result of a call of the function `name` as a `Value`; the caller sets the result's kind.

        first, others: the operands. path: the loops and branches around the call.
        """
        if name == "int" and first.integer and not (first.polynomial and first.polynomial.symbols & self.numbers):
            return first
        if name in ("min", "max", "abs"):
            integer = all(value.integer for value in (first, *others))
            if not integer:
                self.count(max(1, len(others)), path)
            return self.known(made_of(name, (first, *others), first.mixed(others, integer)))
        if name in MATH:
            self.count(1, path, self.further(name))
        combined = first.mixed(others, name in ("int", "bool", "floor", "ceil"))
        return self.known(made_of(name, (first, *others), combined)) if name in OPERATIONS else combined

    def load(self, node: ast.Subscript, path: Path) -> Value:
        level = self.access(node, "read", path)
        access = self.met.accesses[-1]
        integer = access.array in self.whole
        kind = self.kind_of_parameter(access.array)
        return Value(None, None, access.loops, access.through | {access.array}, integer, level + 1, kind=kind)

    def access(self, node: ast.Subscript, kind: Literal["read", "write"], path: Path, after: int = 0) -> int:
        indices = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        values = [self.expression(index, path) for index in indices]
        for index, value in zip(indices, values, strict=True):
            self.whole_numbers.check(index, value.kind, node)
        together = Value().mixed(values, True)
        level = max(together.level, self.guards[-1].level, after)
        self.met.accesses.append(
            ArrayAccess(
                text(node.value),
                kind,
                text(node),
                node.lineno,
                tuple(value.polynomial for value in values),
                together.loops,
                together.arrays,
                path,
                level,
                node,
                together.near,
                tuple([value.operation for value in values]),
            )
        )
        return level

    def hint(self, node: ast.expr, which: str) -> Hint:
        for keyword in node.keywords if isinstance(node, ast.Call) else ():
            if keyword.arg == which:
                return keyword.value.id if isinstance(keyword.value, ast.Name) else literal(keyword.value)
        return None


_DIFFERENCE: dict[type[ast.cmpop], tuple[int | None, int | None]] = {
    ast.Lt: (1, None),
    ast.LtE: (0, None),
    ast.Gt: (None, -1),
    ast.GtE: (None, 0),
    ast.Eq: (0, 0),
}
"""For each comparison, the bounds of right side minus left side where the comparison holds."""


def ranges_of(values: Sequence[Value], ops: Sequence[ast.cmpop]) -> tuple[Within, ...]:
    """Return the index ranges (low <= index <= high) that express a comparison of `values` by `ops` (``a < b <= c``).

    Index and bounds are whole numbers: polynomials in loop variables, scalars and lengths. The result is empty when
    some part of the comparison is no range.
    """
    ranges = [_range(left, op, right) for left, op, right in zip(values, ops, values[1:], strict=False)]
    known = tuple(within for within in ranges if within is not None)
    return known if len(known) == len(ranges) else ()


def range_of_data(low: Value, index: Value, among: Polynomial | None, high: Value) -> tuple[Within, ...]:
    """Return ``low <= index % among <= high``, with `index` read from an array, as ranges; empty for unknown bounds."""
    if low.polynomial is None or high.polynomial is None or low.loops | high.loops or index.polynomial is not None:
        return ()
    return (Within(low.polynomial, None, high.polynomial, among),)


def _range(left: Value, op: ast.cmpop, right: Value) -> Within | None:
    """Write a comparison as a range of its loop-dependent terms, the first positive; None if it is no range."""
    if left.polynomial is None or right.polynomial is None or type(op) not in _DIFFERENCE:
        return None
    low, high = _DIFFERENCE[type(op)]
    difference = right.polynomial - left.polynomial
    rest = difference.without({symbol for symbol in difference.symbols if "@" in symbol})
    index = difference - rest
    lowest = None if low is None else Polynomial.number(low) - rest
    highest = None if high is None else Polynomial.number(high) - rest
    if index.terms and index.terms[0][1] < 0:
        nothing = Polynomial.number(0)
        negated = (None if bound is None else nothing - bound for bound in (highest, lowest))
        return Within(next(negated), nothing - index, next(negated))
    return Within(lowest, index, highest)


def walk(nest: LoopNest) -> tuple[Walk, tuple[IndexParameter, ...]]:
    """Return what a nest's source contains (accesses, operations, loops, reductions), then its index parameters.

    Bounds and indices depend on index parameters. SourceRefused for a bound or index that can only be a fraction.
    """
    walker = _Walker(nest)
    walker.block(nest.body, ())
    return walker.now.met, walker.now.whole_numbers.parameters


class _Walker:
    def __init__(self, nest: LoopNest) -> None:
        self.nest = nest
        self.now = Evaluation(nest)
        self.kinds_in: dict[ast.For, dict[str, Kind]] = {}
        """Cached kinds of the scalars at the head of each loop."""

    def block(self, statements: Sequence[Statement], path: Path) -> None:
        for statement in statements:
            self.statement(statement, path)

    def statement(self, node: Statement, path: Path) -> None:
        match node:
            case Assignment(
                target=ast.Name(id=name) as target, operator=None, value=ast.Compare() | ast.BoolOp() as test
            ):
                self.now.tests[name], value = self.now.condition(test, path)
                self.store(target, attrs.evolve(value.mixed((), True), kind=value.kind), path)
            case Assignment(target=target, operator=None, value=expression):
                self.now.tests.pop(text(target), None)
                self.store(target, self.now.expression(expression, path), path)
            case Assignment(target=target, operator=ast.operator() as operator, value=expression):
                operand = self.now.expression(expression, path)
                before = self.now.expression(target, path)
                self.store(target, self.now.operate(node.node, operator, before, operand, path), path)
            case Conditional():
                self.branch(node, path)
            case RangeLoop():
                self.loop(node, path)
        if isinstance(node, Assignment):
            if (scope := self.now.scope) is not None:
                self.now.scope = None
                if node.scalar is not None:
                    self.nest.source.refuse(node.node, f"{text(node.node)} updates a scalar", "update an element")
                self.now.met.atomics.append((self.now.met.accesses[-1], scope))
            self.note_reduction(node, path)

    def store(self, target: ast.expr, value: Value, path: Path) -> None:
        if isinstance(target, ast.Name):
            integer = value.integer or (target.id in self.now.whole and value.operation is None)
            guard = self.now.guards[-1]
            self.now.values[target.id] = attrs.evolve(value, integer=integer, level=max(value.level, guard.level))
            if value.kind.is_complex:
                self.now.met.complex_scalars.add(target.id)
        elif isinstance(target, ast.Subscript):
            if value.kind.is_complex and text(target.value) not in self.now.complex_parameters:
                what = f"a complex number is stored in {text(target)}"
                self.nest.source.refuse(target, what, f"annotate {text(target.value)} as NDArray[np.complex128]")
            self.now.access(target, "write", path, value.level)

    def branch(self, node: Conditional, path: Path) -> None:
        holds, condition = self.now.condition(node.test, path)
        before = dict(self.now.values)
        tests = dict(self.now.tests)
        self.now.guards.append(self.now.guards[-1].mixed((condition,), False))
        self.block(node.then, (*path, Branch(holds, node.test.lineno)))
        after, self.now.values = self.now.values, before
        kept, self.now.tests = self.now.tests, tests
        self.block(node.other, (*path, Branch(negated(holds), node.test.lineno)))
        for name in [each for each in after if each in self.now.values]:
            self.now.values[name] = after[name].or_else(self.now.values[name], self.now.guards[-1])
        self.now.tests = {name: known for name, known in self.now.tests.items() if kept.get(name) is known}
        self.now.guards.pop()

    def loop(self, node: RangeLoop, path: Path) -> None:
        variable, range_, inside = self.enter(node, path)
        changed = stored_names([node])
        before = dict(self.now.values)
        outside = {name: known for name, known in self.now.tests.items() if name not in changed}
        self.now.guards.append(self.now.guards[-1].mixed((range_,), False))
        self.now.tests = dict(outside)
        altered = [name for name in before if name in changed]
        if altered:
            self.now.values = self.at_head(node, altered, variable, inside)
            self.now.tests = dict(outside)
        self.now.values[node.variable] = variable
        self.now.met.loops.append(loops_of(inside)[-1])
        self.block(node.body, inside)
        for name in altered:
            known = self.now.values[name]
            left = known.mixed((before[name],), known.integer)
            self.now.values[name] = attrs.evolve(left, loops=left.loops - {node.symbol})
        self.now.tests = outside
        self.now.guards.pop()

    def enter(self, node: RangeLoop, path: Path) -> tuple[Value, Value, Path]:
        """Return the value of a loop's variable, the value its range depends on, and the path to its body."""
        call, step, symbol = node.call, node.step, node.symbol
        below, above = ("max", "min") if step > 0 else ("min", "max")
        start, later = self.bound(node.first, call, path, below if abs(step) == 1 else None)
        stop, earlier = self.bound(node.last, call, path, above)
        for literal_step in call.args[2:]:
            self.now.whole_numbers.check(literal_step, self.now.expression(literal_step, path).kind, call)
        loop = Loop(
            symbol,
            node.variable,
            node.node.lineno,
            start.polynomial,
            stop.polynomial,
            step,
            self.now.hint(node.node.iter, "trips"),
            node.node in self.nest.distributed,
        )
        range_ = start.mixed((stop,), True)
        around = range_.loops if range_.arrays else NOTHING  # data decide where each run of this loop lies
        near = self.now.hint(node.node.iter, "near")
        moved = around | start.loops | {symbol}  # also the loops that the first value depends on
        variable = Value(Polynomial.symbol(symbol), None, moved, range_.arrays, True, range_.level, near)
        inside: Path = (*path, loop)
        if later or earlier:
            inside = (*inside, Branch(self.limits(variable, later, earlier, step), loop.line, of_loop=True))
        return variable, range_, inside

    def at_head(self, node: RangeLoop, altered: list[str], variable: Value, inside: Path) -> dict[str, Value]:
        """Return the values of scalars at the head of a loop that changes some of them, by walking its body first.

        A scalar depends on its value in the iteration before. One pass over the body finds the loops and arrays that it
        depends on. Kinds of numbers need passes until they no longer change, because kinds decide what is refused.
        """
        now = self.now
        before, tests = dict(now.values), dict(now.tests)
        recorded, now.met = now.met, Walk()
        kinds = self.kinds_in.setdefault(node.node, {})
        first = dict(before)
        for name in altered:
            known = before[name]
            first[name] = Value(None, None, known.loops | {node.symbol}, known.arrays, known.integer)
            kinds[name] = kinds.get(name, known.kind) | known.kind
        head: dict[str, Value] = {}
        settled = False
        while not settled:
            at_entry = {name: attrs.evolve(first[name], kind=kinds[name]) for name in altered}
            now.values, now.tests = {**first, **at_entry, node.variable: variable}, dict(tests)
            self.block(node.body, inside)
            after = {name: now.values[name] for name in altered}
            head = head or {name: first[name].mixed((after[name],), after[name].integer) for name in altered}
            settled = all(after[name].kind | kinds[name] == kinds[name] for name in altered)
            kinds.update({name: kinds[name] | after[name].kind for name in altered})
        now.met = recorded
        return {**before, **{name: attrs.evolve(value, kind=kinds[name]) for name, value in head.items()}}

    def bound(self, node: ast.expr, around: ast.Call, path: Path, function: str | None) -> tuple[Value, list[Value]]:
        """Return a bound; if it is a `function` (min or max), return its first operand, and the others as limits."""
        value = self.now.expression(node, path)
        self.now.whole_numbers.check(node, value.kind, around)
        if value.polynomial is None and value.operation is not None and value.operation.name == function:
            first, *others = [part if isinstance(part, Polynomial) else None for part in value.operation.operands]
            if first is not None and None not in others:
                limits = [Value(other, integer=True) for other in others if other is not None]
                return attrs.evolve(value, polynomial=first), limits
        return value, []

    def limits(self, variable: Value, later: list[Value], earlier: list[Value], step: int) -> Condition:
        """Return the probability that a loop's variable is within the limits that `bound` returned for its bounds.

        A compiler assumes that it always is.
        """
        begins, ends = (ast.GtE(), ast.Lt()) if step > 0 else (ast.LtE(), ast.Gt())
        ranges = [ranges_of((variable, other), [begins]) for other in later]
        ranges += [ranges_of((variable, other), [ends]) for other in earlier]
        return Condition(hint=1.0, within=tuple([within for parts in ranges for within in parts]))

    def note_reduction(self, node: Assignment, path: Path) -> None:
        target = node.target
        form = reduction(node, text(target))
        if form is None or not any(loop.distributed for loop in loops_of(path)):
            return
        shared = isinstance(target, ast.Name) and target.id in self.nest.reduced
        if isinstance(target, ast.Subscript):
            written = self.now.met.accesses[-1]
            outer = {loop.symbol for loop in loops_of(path) if loop.distributed}
            shared = not written.through and not written.loops & outer
        if shared:
            self.now.met.reductions.append(Reduction(form[0], text(target), node.node.lineno, node.node, path))
