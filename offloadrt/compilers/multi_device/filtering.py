"""The rewriting of a loop nest into the one that each of several devices runs on its part of the written regions.

Control flow and arithmetic stay; loads and stores are made only under their guard. A load that is left out gives 0,
which reaches no store that is made. What a made-up 0 could stop (a whole division, a shift, a rounding) is left out
with it. A guard stands in a variable, ``to_v = v_lb <= i <= v_ub``, in the innermost loop that it depends on.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable
from typing import Any

from offloadrt.compilers.multi_device.dependence import NEVER, Guard, Guards, Predicate
from offloadrt.kernels.source.function_source import Source, symbol_of
from offloadrt.kernels.source.loop_ir import Assignment, assignments, statements
from offloadrt.kernels.source.reductions import reduction
from offloadrt.kernels.source.subset import LoopNest, called

_FRAGILE = (ast.FloorDiv, ast.Mod, ast.LShift, ast.RShift)
_FRAGILE_CALLS = ("int", "floor", "ceil")


class Names:
    """Names that a source does not use yet."""

    def __init__(self, source: Source) -> None:
        self.used = {node.id for node in source.nodes if isinstance(node, ast.Name)}
        self.used |= {node.arg for node in source.nodes if isinstance(node, ast.arg)}

    def fresh(self, wanted: str) -> str:
        """Return `wanted`, or `wanted` with a number at its end."""
        name, number = wanted, 1
        while name in self.used:
            number += 1
            name = f"{wanted}_{number}"
        self.used.add(name)
        return name


class Filter:
    """Writes the source of the nest that loads and stores under guards only."""

    def __init__(
        self,
        nest: LoopNest,
        guards: Guards,
        bounds: dict[str, tuple[str, str]],
        names: Names,
    ) -> None:
        self.nest = nest
        self.guards = guards
        self.order = list(bounds)
        self.bounds = bounds
        self.names = names
        self.around: list[ast.For] = []
        self.variables: dict[tuple[ast.For, Guard], tuple[str, ast.expr]] = {}
        self.made_up = self._made_up()

    def _made_up(self) -> set[str]:
        """Find the scalars that may hold what was computed from a load that was left out."""
        made_up: set[str] = set()
        while True:
            before = len(made_up)
            for node in assignments(self.nest.body):
                if node.scalar and self.is_made_up(node.value, made_up):
                    made_up.add(node.scalar)
            if len(made_up) == before:
                return made_up

    def is_made_up(self, node: ast.expr, scalars: set[str]) -> bool:
        """Tell whether a value may come from a load that is left out."""
        return any(
            (isinstance(part, ast.Name) and part.id in scalars)
            or (isinstance(part, ast.Subscript) and self.guard(part, "read").restricts)
            for part in ast.walk(node)
        )

    def guard(self, node: ast.AST, kind: str) -> Guard:
        return self.guards.get((node, kind), NEVER)

    # statements

    def block(self, statements: Iterable[ast.stmt]) -> list[ast.stmt]:
        """Return the changed statements, without assignments that feed no store."""
        kept = (node for node in statements if self.guards.get((node, "scalar")) != NEVER)
        return [made for node in kept for made in self.statement(node)]

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        match node:
            case ast.Assign() | ast.AugAssign() if (guard := self.guard(node, "contribution")).restricts:
                return self.contribution(node, guard)
            case ast.For():
                return [self.loop(node)]
            case ast.If():
                then = self.block(node.body) or [ast.Pass()]
                return [ast.If(self.expression(node.test), then, self.block(node.orelse))]
            case ast.Assign(targets=[ast.Subscript() as target], value=value):
                guard = self.guard(target, "write")
                if guard.restricts:
                    return self.store(target, value, guard)
            case ast.AugAssign(target=ast.Subscript() as target, op=op, value=value):
                guard = self.guard(target, "write")
                if guard.restricts:
                    before = ast.Subscript(target.value, target.slice, ast.Load())
                    self.guards[before, "read"] = self.guard(target, "read")
                    combined = ast.BinOp(before, op, value)
                    self.guards[combined, "value"] = self.guard(node, "value")
                    return self.store(target, combined, guard)
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value) if isinstance(op, _FRAGILE):
                combined = ast.BinOp(ast.Name(name, ast.Load()), op, value)
                self.guards[combined, "value"] = self.guard(node, "value")
                return [ast.Assign([ast.Name(name, ast.Store())], self.expression(combined))]
        return [self.copied(node, None)]

    def loop(self, node: ast.For) -> ast.For:
        self.around.append(node)
        body = self.block(node.body) or [ast.Pass()]
        self.around.pop()
        variables = [variable for (loop, _), variable in self.variables.items() if loop is node]
        definitions: list[ast.stmt] = [ast.Assign([ast.Name(name, ast.Store())], value) for name, value in variables]
        return ast.For(node.target, self.expression(node.iter), [*definitions, *body], [])

    def store(self, target: ast.Subscript, value: ast.expr, guard: Guard) -> list[ast.stmt]:
        """Write a store: all devices compute the value, and it is stored where the guard holds."""
        place = self.copied(target, guard)
        assert isinstance(target.value, ast.Name)
        return self.used(target.value.id, value, guard, lambda made: ast.Assign([place], made))

    def contribution(self, node: ast.Assign | ast.AugAssign, guard: Guard) -> list[ast.stmt]:
        """Write a reduction: all devices compute what is reduced, and it is reduced where the guard holds."""
        (read,) = statements([node])
        assert isinstance(read, Assignment) and isinstance(read.target, ast.Name)
        target = read.target
        form = reduction(read, target.id)
        assert form is not None
        return self.used(target.id, form[1], guard, lambda made: _with_operand(node, form[1], made))

    def used(self, name: str, value: ast.expr, guard: Guard, use: Callable[[ast.expr], ast.stmt]) -> list[ast.stmt]:
        """Write the computation of a value, and its use where the guard holds."""
        if isinstance(value, ast.Name | ast.Constant | ast.Subscript):
            return [ast.If(self.test(guard), [use(self.expression(value, guard))], [])]
        fresh = self.names.fresh(f"{name}_value")
        return [
            ast.Assign([ast.Name(fresh, ast.Store())], self.expression(value)),
            ast.If(self.test(guard), [use(ast.Name(fresh, ast.Load()))], []),
        ]

    # expressions

    def expression(self, node: ast.expr, holding: Guard | None = None) -> ast.expr:
        """Write an expression with its loads under their guards; `holding` is a guard that is known to hold."""
        kind = "read" if isinstance(node, ast.Subscript) else "value" if self.is_fragile(node) else None
        guard = NEVER if kind is None else self.guard(node, kind)
        if not guard.restricts or (holding is not None and holding.predicates <= guard.predicates):
            return self.copied(node, holding)  # type: ignore[no-any-return]
        return ast.IfExp(self.test(guard), self.copied(node, guard), ast.Constant(0))

    def copied(self, node: Any, holding: Guard | None) -> Any:
        new = copy.copy(node)
        for field, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                setattr(new, field, self.expression(value, holding))
            elif isinstance(value, list):
                parts = [self.expression(part, holding) if isinstance(part, ast.expr) else part for part in value]
                setattr(new, field, parts)
        return new

    def is_fragile(self, node: ast.expr) -> bool:
        """Tell whether an operation could stop the kernel when an operand is made up."""
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, _FRAGILE) and self.is_made_up(node, self.made_up)
        if isinstance(node, ast.Call):
            return called(self.nest.source, node) in _FRAGILE_CALLS and self.is_made_up(node, self.made_up)
        return False

    def test(self, guard: Guard) -> ast.expr:
        """Write a guard as a variable, or as it is where it needs data or stands outside of the loops."""
        indices = [predicate.index for predicate in guard.predicates]
        if not self.around or None in indices:
            return self.written(guard)
        symbols = {symbol for index in indices if index is not None for symbol in index.symbols}
        least = sum(loop in self.nest.distributed for loop in self.around)
        depth = max([least, *(k for k, loop in enumerate(self.around, 1) if symbol_of(loop) in symbols)])
        key = self.around[depth - 1], guard
        if key not in self.variables:
            regions = [name for name in self.order if any(predicate.region == name for predicate in guard.predicates)]
            self.variables[key] = self.names.fresh("to_" + "_".join(regions)), self.written(guard)
        return ast.Name(self.variables[key][0], ast.Load())

    def written(self, guard: Guard) -> ast.expr:
        ranges = []
        for predicate in sorted(guard.predicates, key=self.place):
            lower, upper = self.bounds[predicate.region]
            ranges.append(f"{lower} <= {predicate.show()} <= {upper}")
        return ast.parse(" or ".join(ranges), mode="eval").body

    def place(self, predicate: Predicate) -> tuple[int, str]:
        return self.order.index(predicate.region), predicate.show()


def _with_operand(node: ast.Assign | ast.AugAssign, operand: ast.expr, made: ast.expr) -> ast.stmt:
    """Write a reduction of another operand."""
    if isinstance(node, ast.AugAssign):
        return ast.AugAssign(node.target, node.op, made)
    value: Any = copy.copy(node.value)
    if isinstance(value, ast.BinOp):
        value.left, value.right = (made if part is operand else part for part in (value.left, value.right))
    else:
        value.args = [made if part is operand else part for part in value.args]
    return ast.Assign(node.targets, value)
