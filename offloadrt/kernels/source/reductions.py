"""Reductions, and the scalars that iterations of a distributed loop may not hand to one another."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from offloadrt.kernels.source.function_source import Source, text
from offloadrt.kernels.source.loop_ir import (
    Assignment,
    Conditional,
    RangeLoop,
    Statement,
    assignments,
    statements,
)

_OPERATORS = {ast.Add: "+", ast.Sub: "+", ast.Mult: "*"}
"""A sum of differences is a sum."""


def reduction(statement: Assignment, target: str) -> tuple[str, ast.expr] | None:
    """Return operator and operand when the statement reduces into `target`: ``s += e``, ``s = max(s, e)``."""
    value = statement.value
    if text(statement.target) != target:
        return None
    if statement.operator is not None:
        operator = _OPERATORS.get(type(statement.operator))
        return (operator, value) if operator else None
    operands: list[ast.expr] = []
    operator = None
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in ("min", "max"):
        operator, operands = value.func.id, value.args
    elif isinstance(value, ast.BinOp):
        operator = _OPERATORS.get(type(value.op))
        commutes = not isinstance(value.op, ast.Sub) or text(value.left) == target
        operands = [value.left, value.right] if commutes else []
    others = [operand for operand in operands if text(operand) != target]
    return (operator, others[0]) if operator and len(operands) == 2 and len(others) == 1 else None


def reduced_scalars(source: Source, loop: ast.For, assigned: set[str]) -> dict[str, str]:
    """Return the scalars with a value before the distributed loop that it reduces, each with its operator.

    Raises SourceRefused for a scalar that one iteration takes over from another in any other way.
    """
    reduced: dict[str, str] = {}
    body = statements(loop.body)
    stored = assignments(body)
    mentions = [node for statement in loop.body for node in ast.walk(statement) if isinstance(node, ast.Name)]
    for name in sorted({node.scalar for node in stored if node.scalar is not None} & assigned):
        if not reads_first(body, name):
            continue
        writes = [node for node in stored if node.scalar == name]
        forms = [reduction(node, name) for node in writes]
        uses = sum(node.id == name for node in mentions)
        expected = sum(2 if node.operator is None else 1 for node in writes)
        operators = {form[0] for form in forms if form}
        if None in forms or uses != expected or len(operators) != 1:
            source.refuse(
                writes[0].node,
                f"{name} is handed from one iteration of the distributed loop to another",
                f"reduce it ({name} += e, {name} = max({name}, e)) or assign it in the iteration that uses it",
            )
        reduced[name] = operators.pop()
    return reduced


def _mentions(node: ast.AST, name: str) -> bool:
    return any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(node))


def reads_first(body: Sequence[Statement], name: str) -> bool:
    """Tell whether an iteration can read the scalar before it assigns it."""
    return _run(body, name, False)[0]


def _run(body: Sequence[Statement], name: str, known: bool) -> tuple[bool, bool]:
    """Return whether the scalar is read before it is known, and whether it is known afterwards."""
    for node in body:
        after = known
        match node:
            case Conditional():
                first, then = _run(node.then, name, known)
                second, other = _run(node.other, name, known)
                read = first or second or (not known and _mentions(node.test, name))
                after = then and other
            case RangeLoop():
                read = _run(node.body, name, known)[0] or (not known and _mentions(node.node.iter, name))
            case Assignment(operator=None):
                places = [] if node.scalar else [node.target]
                read = not known and any(_mentions(part, name) for part in (node.value, *places))
                after = known or node.scalar == name
            case _:
                read = not known and _mentions(node.node, name)
        if read:
            return True, known
        known = after
    return False, known
