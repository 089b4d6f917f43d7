"""The walk through a loop nest: every load and store with its index and its block, and every operation.

The walk follows what scalars hold, so that the index of ``visited[neighbour]`` is known to come from ``edges``. A
scalar that a loop changes is only known to vary with that loop. `evaluation.py` reads the expressions.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

import attrs

from offloadrt.kernels.accesses.access import Reduction, Walk
from offloadrt.kernels.accesses.conditions import ranges_of
from offloadrt.kernels.accesses.evaluation import Evaluation
from offloadrt.kernels.accesses.frequency import Branch, Loop, Path, Probability, loops_of, negated
from offloadrt.kernels.accesses.number_kinds import IndexParameter, Kind
from offloadrt.kernels.accesses.values import NOTHING, Value
from offloadrt.kernels.algebra import Polynomial
from offloadrt.kernels.source.function_source import text
from offloadrt.kernels.source.loop_ir import Assignment, Conditional, RangeLoop, Statement, stored_names
from offloadrt.kernels.source.reductions import reduction
from offloadrt.kernels.source.subset import LoopNest


def walk(nest: LoopNest) -> tuple[Walk, tuple[IndexParameter, ...]]:
    """Follow a nest: all its accesses, operations, loops and reductions, and the parameters of bounds and indices.

    Raises SourceRefused for a bound or an index that is no whole number by its form.
    """
    walker = _Walker(nest)
    walker.block(nest.body, ())
    return walker.now.met, walker.now.whole_numbers.parameters


class _Walker:
    def __init__(self, nest: LoopNest) -> None:
        self.nest = nest
        self.now = Evaluation(nest)
        self.kinds_in: dict[ast.For, dict[str, Kind]] = {}
        """The kinds that scalars were found to have at the head of a loop, so that it is not found again."""

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
        """Return what a loop's variable is, what its range depends on, and the path to its body."""
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
        moved = around | start.loops | {symbol}  # what another loop sets the first value of moves with it
        variable = Value(Polynomial.symbol(symbol), None, moved, range_.arrays, True, range_.level, near)
        inside: Path = (*path, loop)
        if later or earlier:
            inside = (*inside, Branch(self.limits(variable, later, earlier, step), loop.line, of_loop=True))
        return variable, range_, inside

    def at_head(self, node: RangeLoop, altered: list[str], variable: Value, inside: Path) -> dict[str, Value]:
        """Return what scalars hold at the head of a loop that changes some of them, by following its body first.

        A scalar depends on what an iteration leaves to the next one. One pass over the body finds loops and arrays;
        kinds of numbers need as many as it takes until they settle, as they decide what is refused.
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
        """Return a bound, and what else limits the range: all operands but the first of a `function` over loops."""
        value = self.now.expression(node, path)
        self.now.whole_numbers.check(node, value.kind, around)
        if value.polynomial is None and value.operation is not None and value.operation.name == function:
            first, *others = [part if isinstance(part, Polynomial) else None for part in value.operation.operands]
            if first is not None and None not in others:
                limits = [Value(other, integer=True) for other in others if other is not None]
                return attrs.evolve(value, polynomial=first), limits
        return value, []

    def limits(self, variable: Value, later: list[Value], earlier: list[Value], step: int) -> Probability:
        """Return the probability that a loop's variable is where its bounds' other operands leave it.

        For a compiler it always is.
        """
        begins, ends = (ast.GtE(), ast.Lt()) if step > 0 else (ast.LtE(), ast.Gt())
        ranges = [ranges_of((variable, other), [begins]) for other in later]
        ranges += [ranges_of((variable, other), [ends]) for other in earlier]
        return Probability(hint=1.0, within=tuple([within for parts in ranges for within in parts]))

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
