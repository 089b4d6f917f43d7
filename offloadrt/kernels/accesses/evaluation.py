"""`Evaluation`: what the expressions of a loop nest are at the place where the walk stands.

It knows what the scalars hold there (`values.Value`), meets the loads and the operations of each expression, and says
how probable a condition is.
"""

from __future__ import annotations

import ast
from typing import Literal

import attrs

from offloadrt.kernels.accesses.access import ArrayAccess, Walk, Work
from offloadrt.kernels.accesses.conditions import range_of_data, ranges_of
from offloadrt.kernels.accesses.frequency import Branch, Hint, Path, Probability, negated
from offloadrt.kernels.accesses.number_kinds import FLOAT, TRUTH, Kind, WholeNumbers, returned
from offloadrt.kernels.accesses.values import Value, arithmetic, complex_names, made_of, whole_names
from offloadrt.kernels.algebra.operations import OPERATIONS
from offloadrt.kernels.algebra.polynomial import Polynomial
from offloadrt.kernels.source.function_source import literal, text
from offloadrt.kernels.source.loop_ir import stored_names
from offloadrt.kernels.source.subset import MATH, LoopNest

_COMPLEX_OPERATIONS: dict[type[ast.operator], tuple[int, int]] = {
    ast.Add: (2, 1),
    ast.Sub: (2, 1),
    ast.Mult: (6, 2),
    ast.Div: (9, 2),  # Smith's algorithm, as `execution/arithmetic.py` divides: 3 divisions, 3 products, 3 sums
}
"""Floating-point operations on two complex numbers, and on a complex and a real one."""


class Evaluation:
    """The expressions of a nest at one place, which the walk moves."""

    def __init__(self, nest: LoopNest) -> None:
        self.nest = nest
        self.met = Walk()
        self.whole = whole_names(nest)
        self.stored = stored_names(nest.body)
        self.numbers = frozenset(name for name in nest.parameters if name not in nest.arrays)
        """Parameters that may be given as floats."""
        self.complex_parameters = complex_names(nest)
        self.whole_numbers = WholeNumbers(nest)
        self.values: dict[str, Value] = {}
        """What the scalars hold."""
        self.tests: dict[str, Probability] = {}
        """What the scalars that hold the outcome of a comparison stand for."""
        self.guards = [Value()]
        """What decides whether the walk comes here, from the outside in."""
        for name in nest.parameters:
            if name not in nest.arrays:
                kind = self.kind_of_parameter(name)
                self.values[name] = Value(Polynomial.symbol(name), integer=name in self.whole, kind=kind)

    def kind_of_parameter(self, name: str) -> Kind:
        return Kind.given_by(name, name in self.complex_parameters)

    def condition(self, node: ast.expr, path: Path) -> tuple[Probability, Value]:
        """Return how probable it is that an expression holds, and what that depends on."""
        match node:
            case ast.Call() if self.nest.function_of(node) == "expect":
                _, value = self.condition(node.args[0], path)
                return Probability(hint=self.hint(node, "probability")), value
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                holds, value = self.condition(operand, path)
                return negated(holds), value
            case ast.BoolOp(op=op, values=values):
                parts: list[Probability] = []
                total = Value()
                for operand in values:
                    holds, value = self.condition(operand, path)
                    path = (*path, Branch(holds if isinstance(op, ast.And) else negated(holds), operand.lineno))
                    parts.append(holds)
                    total = total.mixed((value,), False)
                return Probability("and" if isinstance(op, ast.And) else "or", tuple(parts)), total
            case ast.Name(id=name) if name in self.tests:
                return self.tests[name], self.expression(node, path)
            case ast.Compare():
                return self.comparison(node, path)
        return Probability(), self.expression(node, path)

    def comparison(self, node: ast.Compare, path: Path) -> tuple[Probability, Value]:
        """Evaluate a comparison; a chain of comparisons is one branch for a compiler."""
        values = [self.expression(node.left, path), self.expression(node.comparators[0], path)]
        last = (*path, Branch(Probability(), node.lineno))  # a chain ends with what does not hold
        values += [self.expression(other, last) for other in node.comparators[1:]]
        value = attrs.evolve(values[0].mixed(values[1:], True), kind=TRUTH)
        orders = not all(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops)
        if orders and any(operand.kind.is_complex for operand in values):
            self.nest.source.refuse(node, f"{text(node)} compares complex numbers", "compare .real or .imag")
        match node:
            case ast.Compare(ops=[ast.NotEq()]):
                return negated(Probability(within=ranges_of(values, [ast.Eq()]))), value
            case ast.Compare(
                ops=[ast.LtE(), ast.LtE()], comparators=[ast.BinOp(op=ast.Mod(), right=ast.Subscript() as length), _]
            ) if isinstance(length.value, ast.Attribute):
                among = self.expression(length, ()).polynomial
                return Probability(within=range_of_data(values[0], values[1], among, values[2])), value
        return Probability(within=ranges_of(values, node.ops)), value

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
        """Evaluate an expression that must be a complex number. Raises SourceRefused."""
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
            self.count((power or 2) - 1, path)
        return result

    def known(self, value: Value) -> Value:
        """Give an operation of scalars and lengths a symbol, because a launch knows it as it knows these."""
        operation = value.operation
        if operation is None or value.loops or not value.integer or operation.symbols & self.stored:
            return value
        (symbol,) = operation.symbol.symbols
        self.met.operations[symbol] = operation
        return attrs.evolve(value, polynomial=operation.symbol, operation=None)

    def count(self, operations: int, path: Path) -> None:
        if operations:
            self.met.work.append(Work(operations, path))

    def call(self, node: ast.Call, path: Path) -> Value:
        name = self.nest.function_of(node)
        if name == "len":
            return Value.whole(Polynomial.symbol(f"{text(node.args[0])}.shape[0]"))
        if name == "expect":
            return attrs.evolve(self.condition(node, path)[1], near=self.hint(node, "near"))
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
        """Return what a function makes of its operands, but for its kind."""
        if name == "int" and first.integer and not (first.polynomial and first.polynomial.symbols & self.numbers):
            return first
        if name in ("min", "max", "abs"):
            integer = all(value.integer for value in (first, *others))
            if not integer:
                self.count(max(1, len(others)), path)
            return self.known(made_of(name, (first, *others), first.mixed(others, integer)))
        if name in MATH:
            self.count(1, path)
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
