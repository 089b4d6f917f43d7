"""The walk through a loop nest: every load and store with its index and its block, and every operation.

The walk follows what scalars hold (`values.Value`), so that the index of ``visited[neighbour]`` is known to come from
``edges``. A scalar that a loop changes is only known to vary with that loop.
"""

from __future__ import annotations

import ast
from typing import Literal

import attrs

from offloadrt.kernels.accesses.access import Access, Reduction, Walk, Work
from offloadrt.kernels.accesses.conditions import range_of_data, ranges_of
from offloadrt.kernels.accesses.frequency import Branch, Hint, Loop, Path, Probability, loops_of
from offloadrt.kernels.accesses.number_kinds import (
    FLOAT,
    TRUTH,
    IndexParameter,
    Kind,
    WholeNumbers,
    returned,
)
from offloadrt.kernels.accesses.values import NOTHING, Value, arithmetic, complex_names, made_of, whole_names
from offloadrt.kernels.algebra.operations import OPERATIONS
from offloadrt.kernels.algebra.polynomial import Polynomial
from offloadrt.kernels.source.function_source import range_of, text
from offloadrt.kernels.source.reductions import reduction, stored_names
from offloadrt.kernels.source.subset import MATH, LoopNest, literal

_COMPLEX_OPERATIONS: dict[type[ast.operator], tuple[int, int]] = {
    ast.Add: (2, 1),
    ast.Sub: (2, 1),
    ast.Mult: (6, 2),
    ast.Div: (9, 2),  # by Smith's algorithm
}
"""Floating-point operations on two complex numbers, and on a complex and a real one."""


def walk(nest: LoopNest) -> tuple[Walk, tuple[IndexParameter, ...]]:
    """Follow a nest: all its accesses, operations, loops and reductions, and the parameters of bounds and indices.

    Raises SourceRefused for a bound or an index that is no whole number by its form.
    """
    walker = _Walker(nest)
    walker.block(nest.source.body, ())
    return walker.found, walker.whole_numbers.parameters


class _Walker:
    def __init__(self, nest: LoopNest) -> None:
        self.nest = nest
        self.found = Walk()
        self.whole = whole_names(nest)
        self.stored = stored_names(nest.source.body)
        self.numbers = frozenset(name for name in nest.parameters if name not in nest.arrays)
        """Parameters that may be given as floats."""
        self.complex_parameters = complex_names(nest)
        self.whole_numbers = WholeNumbers(nest)
        self.kinds_in: dict[ast.For, dict[str, Kind]] = {}
        """The kinds that scalars were found to have at the head of a loop, so that it is not found again."""
        self.values: dict[str, Value] = {}
        self.tests: dict[str, Probability] = {}
        """What the scalars that hold the outcome of a comparison stand for."""
        self.guards = [Value()]
        for name in nest.parameters:
            if name not in nest.arrays:
                self.values[name] = Value(
                    Polynomial.symbol(name), integer=name in self.whole, kind=self.kind_of_parameter(name)
                )

    def kind_of_parameter(self, name: str) -> Kind:
        return Kind.given_by(name, name in self.complex_parameters)

    # statements

    def block(self, statements: list[ast.stmt], path: Path) -> None:
        for statement in statements:
            self.statement(statement, path)

    def statement(self, node: ast.stmt, path: Path) -> None:
        match node:
            case ast.Assign(targets=[ast.Name(id=name) as target], value=ast.Compare() | ast.BoolOp() as test):
                self.tests[name], value = self.condition(test, path)
                self.store(target, attrs.evolve(value.mixed((), True), kind=value.kind), path)
            case ast.Assign(targets=[target], value=value):
                self.tests.pop(text(target), None)
                self.store(target, self.expression(value, path), path)
            case ast.AugAssign(target=target, op=op, value=value):
                operand = self.expression(value, path)
                before = self.expression(target, path)
                self.store(target, self.operate(node, op, before, operand, path), path)
            case ast.If(test=test, body=then, orelse=other):
                self.branch(test, then, other, path)
            case ast.For():
                self.loop(node, path)
        if isinstance(node, ast.Assign | ast.AugAssign):
            self.note_reduction(node, path)

    def store(self, target: ast.expr, value: Value, path: Path) -> None:
        if isinstance(target, ast.Name):
            integer = value.integer or (target.id in self.whole and value.operation is None)
            guard = self.guards[-1]
            self.values[target.id] = attrs.evolve(value, integer=integer, level=max(value.level, guard.level))
            if value.kind.is_complex:
                self.found.complex_scalars.add(target.id)
        elif isinstance(target, ast.Subscript):
            if value.kind.is_complex and text(target.value) not in self.complex_parameters:
                what = f"a complex number is stored in {text(target)}"
                self.nest.source.refuse(target, what, f"annotate {text(target.value)} as NDArray[np.complex128]")
            self.access(target, "write", path, value.level)

    def branch(self, test: ast.expr, then: list[ast.stmt], other: list[ast.stmt], path: Path) -> None:
        holds, condition = self.condition(test, path)
        before = dict(self.values)
        tests = dict(self.tests)
        self.guards.append(self.guards[-1].mixed((condition,), False))
        self.block(then, (*path, Branch(holds, test.lineno)))
        after, self.values = self.values, before
        kept, self.tests = self.tests, tests
        self.block(other, (*path, Branch(_not(holds), test.lineno)))
        for name in [each for each in after if each in self.values]:
            self.values[name] = after[name].or_else(self.values[name], self.guards[-1])
        self.tests = {name: known for name, known in self.tests.items() if kept.get(name) is known}
        self.guards.pop()

    def loop(self, node: ast.For, path: Path) -> None:
        call = range_of(node.iter)
        assert call is not None and isinstance(node.target, ast.Name)
        first, last = call.args[:2] if len(call.args) > 1 else (ast.Constant(0), call.args[0])
        step = int((literal(call.args[2]) if len(call.args) > 2 else 1) or 1)
        below, above = ("max", "min") if step > 0 else ("min", "max")
        start, later = self.bound(first, call, path, below if abs(step) == 1 else None)
        stop, earlier = self.bound(last, call, path, above)
        for literal_step in call.args[2:]:
            self.whole_numbers.check(literal_step, self.expression(literal_step, path).kind, call)
        symbol = f"{node.target.id}@{node.lineno}"
        distributed = node in self.nest.distributed
        loop = Loop(
            symbol,
            node.target.id,
            node.lineno,
            start.polynomial,
            stop.polynomial,
            step,
            self.hint(node.iter, "trips"),
            distributed,
        )
        range_ = start.mixed((stop,), True)
        around = range_.loops if range_.arrays else NOTHING  # data decide where each run of this loop lies
        near = self.hint(node.iter, "near")
        moved = around | start.loops | {symbol}  # what another loop sets the first value of moves with it
        variable = Value(Polynomial.symbol(symbol), None, moved, range_.arrays, True, range_.level, near)
        changed = stored_names([node])
        before = dict(self.values)
        outside = {name: known for name, known in self.tests.items() if name not in changed}
        inside: Path = (*path, loop)
        if later or earlier:
            inside = (*inside, Branch(self.limits(variable, later, earlier, step), node.lineno, of_loop=True))
        self.guards.append(self.guards[-1].mixed((range_,), False))
        self.tests = dict(outside)
        altered = [name for name in before if name in changed]
        if altered:  # a first pass, to learn what the scalars that the loop changes depend on
            recorded, self.found = self.found, Walk()
            kinds = self.kinds_in.setdefault(node, {})
            for name in altered:
                loops = before[name].loops | {symbol}
                self.values[name] = Value(None, None, loops, before[name].arrays, before[name].integer)
                kinds[name] = kinds.get(name, before[name].kind) | before[name].kind
            entry: dict[str, Value] | None = None
            at_head, settled = dict(self.values), False
            while not settled:  # until what kinds of numbers an iteration leaves to the next one is known
                for name in altered:
                    at_head[name] = attrs.evolve(at_head[name], kind=kinds[name])
                self.values, self.tests = {**at_head, node.target.id: variable}, dict(outside)
                self.block(node.body, inside)
                if entry is None:
                    entry = dict(at_head)
                    for name in altered:
                        entry[name] = entry[name].mixed((self.values[name],), self.values[name].integer)
                joined = {name: kinds[name] | self.values[name].kind for name in altered}
                settled = all(joined[name] == kinds[name] for name in altered)
                kinds.update(joined)
            assert entry is not None
            for name in altered:
                entry[name] = attrs.evolve(entry[name], kind=kinds[name])
            self.found, self.values, self.tests = recorded, entry, dict(outside)
        self.values[node.target.id] = variable
        self.found.loops.append(loop)
        self.block(node.body, inside)
        for name in altered:
            known = self.values[name]
            left = known.mixed((before[name],), known.integer)
            self.values[name] = attrs.evolve(left, loops=left.loops - {symbol})
        self.tests = outside
        self.guards.pop()

    def bound(self, node: ast.expr, around: ast.Call, path: Path, function: str | None) -> tuple[Value, list[Value]]:
        """A bound, and what else limits the range: of a `function` over loops, all operands but the first."""
        whole = self.expression(node, path)
        self.whole_numbers.check(node, whole.kind, around)
        if whole.polynomial is None and whole.operation is not None and whole.operation.name == function:
            first, *others = [part if isinstance(part, Polynomial) else None for part in whole.operation.operands]
            if first is not None and None not in others:
                limits = [Value(other, integer=True) for other in others if other is not None]
                return attrs.evolve(whole, polynomial=first), limits
        return whole, []

    def limits(self, variable: Value, later: list[Value], earlier: list[Value], step: int) -> Probability:
        """That a loop's variable is where its bounds' other operands leave it. It always is, for a compiler."""
        begins, ends = (ast.GtE(), ast.Lt()) if step > 0 else (ast.LtE(), ast.Gt())
        ranges = [ranges_of((variable, other), [begins]) for other in later]
        ranges += [ranges_of((variable, other), [ends]) for other in earlier]
        return Probability(hint=1.0, within=tuple([one for found in ranges for one in found]))

    def note_reduction(self, node: ast.Assign | ast.AugAssign, path: Path) -> None:
        target = node.target if isinstance(node, ast.AugAssign) else node.targets[0]
        form = reduction(node, text(target))
        if form is None or not any(loop.distributed for loop in loops_of(path)):
            return
        shared = isinstance(target, ast.Name) and target.id in self.nest.reduced
        if isinstance(target, ast.Subscript):
            written = self.found.accesses[-1]
            outer = {loop.symbol for loop in loops_of(path) if loop.distributed}
            shared = not written.through and not written.loops & outer
        if shared:
            self.found.reductions.append(Reduction(form[0], text(target), node.lineno, node, path))

    # expressions

    def condition(self, node: ast.expr, path: Path) -> tuple[Probability, Value]:
        """How probable it is that an expression holds, and what that depends on."""
        match node:
            case ast.Call() if self.nest.function_of(node) == "expect":
                _, value = self.condition(node.args[0], path)
                return Probability(hint=self.hint(node, "probability")), value
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                holds, value = self.condition(operand, path)
                return _not(holds), value
            case ast.BoolOp(op=op, values=values):
                parts: list[Probability] = []
                total = Value()
                for operand in values:
                    holds, value = self.condition(operand, path)
                    path = (*path, Branch(holds if isinstance(op, ast.And) else _not(holds), operand.lineno))
                    parts.append(holds)
                    kind = value.kind if operand is values[0] else total.kind | value.kind
                    total = attrs.evolve(total.mixed((value,), False), kind=kind)
                return Probability("and" if isinstance(op, ast.And) else "or", tuple(parts)), total
            case ast.Name(id=name) if name in self.tests:
                return self.tests[name], self.expression(node, path)
            case ast.Compare():
                return self.comparison(node, path)
        return Probability(), self.expression(node, path)

    def comparison(self, node: ast.Compare, path: Path) -> tuple[Probability, Value]:
        """A chain of them is one branch for a compiler."""
        values = [self.expression(node.left, path), self.expression(node.comparators[0], path)]
        last = (*path, Branch(Probability(), node.lineno))  # a chain ends with what does not hold
        values += [self.expression(other, last) for other in node.comparators[1:]]
        value = attrs.evolve(values[0].mixed(values[1:], True), kind=TRUTH)
        orders = not all(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops)
        if orders and any(operand.kind.is_complex for operand in values):
            self.nest.source.refuse(node, f"{text(node)} compares complex numbers", "compare .real or .imag")
        match node:
            case ast.Compare(ops=[ast.NotEq()]):
                return _not(Probability(within=ranges_of(values, [ast.Eq()]))), value
            case ast.Compare(
                ops=[ast.LtE(), ast.LtE()], comparators=[ast.BinOp(op=ast.Mod(), right=ast.Subscript() as length), _]
            ) if isinstance(length.value, ast.Attribute):
                among = self.expression(length, ()).polynomial
                return Probability(within=range_of_data(values[0], values[1], among, values[2])), value
        return Probability(within=ranges_of(values, node.ops)), value

    def expression(self, node: ast.expr, path: Path) -> Value:
        value = self.value_of(node, path)
        if value.kind.is_complex:
            self.found.complex_nodes.add(node)
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
                second = self.expression(other, (*path, Branch(_not(holds), test.lineno)))
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
        """The value of an expression that must be a complex number."""
        value = self.expression(node, path)
        if not value.kind.is_complex:
            what = f"{text(around)} is not of a complex number"
            self.nest.source.refuse(around, what, "annotate its array as NDArray[np.complex128]")
        return value

    def operate(
        self, node: ast.BinOp | ast.AugAssign, op: ast.operator, left: Value, right: Value, path: Path
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
        """With a symbol for an operation of scalars and lengths, which a launch knows as it knows these."""
        operation = value.operation
        if operation is None or value.loops or not value.integer or operation.symbols & self.stored:
            return value
        (symbol,) = operation.symbol.symbols
        self.found.operations[symbol] = operation
        return attrs.evolve(value, polynomial=operation.symbol, operation=None)

    def count(self, operations: int, path: Path) -> None:
        if operations:
            self.found.work.append(Work(operations, path))

    def call(self, node: ast.Call, path: Path) -> Value:
        name = self.nest.function_of(node)
        if name == "len":
            return Value.whole(Polynomial.symbol(f"{text(node.args[0])}.shape[0]"))
        if name == "expect":
            return attrs.evolve(self.condition(node, path)[1], near=self.hint(node, "near"))
        if isinstance(node.func, ast.Attribute) and name == "conjugate":
            return self.complex_operand(node.func.value, node, path)
        first, *others = [self.expression(argument, path) for argument in node.args]
        if any(one.kind.is_complex for one in (first, *others)):
            self.nest.source.refuse(node, f"{text(node)} is not defined for complex numbers", "use .real and .imag")
        made = self.result_of(node, name, first, others, path)
        kind = first.kind
        for other in others:
            kind |= other.kind
        return attrs.evolve(made, kind=returned(name, kind))

    def result_of(self, node: ast.Call, name: str, first: Value, others: list[Value], path: Path) -> Value:
        """What a function makes of its operands, but for its kind."""
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
        access = self.found.accesses[-1]
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
        self.found.accesses.append(
            Access(
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


def _not(holds: Probability) -> Probability:
    return Probability("not", (holds,))
