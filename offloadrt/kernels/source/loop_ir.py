"""The loop IR: the statements of a loop nest as typed nodes, which the passes share.

A nest's statements are assignments, branches and loops over ranges; `subset.py` refuses all others. Expressions stay
Python's syntax trees, because passes print, copy and compile them. Each node keeps the statement that it was read from:
passes use it as a key, and errors take the line from it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

import attrs

from offloadrt.kernels.source.function_source import literal, range_of, symbol_of


@attrs.frozen(eq=False)
class Assignment:
    """``target = value``, or ``target += value`` with an operator."""

    node: ast.Assign | ast.AugAssign
    target: ast.Name | ast.Subscript
    operator: ast.operator | None
    value: ast.expr

    @property
    def scalar(self) -> str | None:
        """Return the name that gets a value; None where an element does."""
        return self.target.id if isinstance(self.target, ast.Name) else None


@attrs.frozen(eq=False)
class Conditional:
    """An ``if`` with both of its sides."""

    node: ast.If
    test: ast.expr
    then: tuple[Statement, ...]
    other: tuple[Statement, ...]


@attrs.frozen(eq=False)
class RangeLoop:
    """A ``for`` over a ``range``, which may stand inside of `expect`."""

    node: ast.For
    variable: str
    call: ast.Call
    """The call of `range`."""
    body: tuple[Statement, ...]

    @property
    def symbol(self) -> str:
        """Return the symbol of its variable in polynomials."""
        return symbol_of(self.node)

    @property
    def first(self) -> ast.expr:
        return self.call.args[0] if len(self.call.args) > 1 else ast.Constant(0)

    @property
    def last(self) -> ast.expr:
        """Return the bound that its variable does not reach."""
        return self.call.args[1] if len(self.call.args) > 1 else self.call.args[0]

    @property
    def step(self) -> int:
        return int((literal(self.call.args[2]) if len(self.call.args) > 2 else 1) or 1)


Statement = Assignment | Conditional | RangeLoop


def statements(body: Iterable[ast.stmt]) -> tuple[Statement, ...]:
    """Read statements, without `pass` and without those that are not in the subset."""
    nodes = [_statement(node) for node in body]
    return tuple(node for node in nodes if node is not None)


def _statement(node: ast.stmt) -> Statement | None:
    match node:
        case ast.Assign(targets=[ast.Name() | ast.Subscript() as target], value=value):
            return Assignment(node, target, None, value)
        case ast.AugAssign(target=ast.Name() | ast.Subscript() as target, op=operator, value=value):
            return Assignment(node, target, operator, value)
        case ast.If(test=test, body=then, orelse=other):
            return Conditional(node, test, statements(then), statements(other))
        case ast.For(target=ast.Name(id=variable), body=body) if (call := range_of(node.iter)) is not None:
            return RangeLoop(node, variable, call, statements(body))
    return None


def within(body: Iterable[Statement]) -> Iterator[Statement]:
    """Yield statements and those in them, in the order of the source."""
    for node in body:
        yield node
        if isinstance(node, Conditional):
            yield from within(node.then)
            yield from within(node.other)
        elif isinstance(node, RangeLoop):
            yield from within(node.body)


def assignments(body: Iterable[Statement]) -> list[Assignment]:
    """Return the assignments among statements and those in them."""
    return [node for node in within(body) if isinstance(node, Assignment)]


def stored_names(body: Iterable[Statement]) -> set[str]:
    """Return the names that statements and those in them give a value, loop variables included."""
    names = {node.scalar for node in assignments(body)} - {None}
    loops = {node.variable for node in within(body) if isinstance(node, RangeLoop)}
    return loops | {name for name in names if name is not None}
