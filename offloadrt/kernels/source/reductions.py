"""Reductions, and the scalars that iterations of a distributed loop may not hand to one another."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from offloadrt.kernels.source.function_source import Source, text

_OPERATORS = {ast.Add: "+", ast.Sub: "+", ast.Mult: "*"}
"""A sum of differences is a sum."""


def reduction(statement: ast.stmt, target: str) -> tuple[str, ast.expr] | None:
    """Return operator and operand when the statement reduces into `target`: ``s += e``, ``s = max(s, e)``."""
    if isinstance(statement, ast.Assign) and not isinstance(statement.value, (ast.Call, ast.BinOp)):
        return None
    if isinstance(statement, ast.AugAssign) and text(statement.target) == target:
        operator = _OPERATORS.get(type(statement.op))
        return (operator, statement.value) if operator else None
    if isinstance(statement, ast.Assign) and text(statement.targets[0]) == target:
        value = statement.value
        operands: list[ast.expr] = []
        operator = None
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in ("min", "max"):
            operator, operands = value.func.id, value.args
        elif isinstance(value, ast.BinOp):
            operator = _OPERATORS.get(type(value.op))
            commutes = not isinstance(value.op, ast.Sub) or text(value.left) == target
            operands = [value.left, value.right] if commutes else []
        others = [operand for operand in operands if text(operand) != target]
        if operator and len(operands) == 2 and len(others) == 1:
            return operator, others[0]
    return None


def reduced_scalars(source: Source, loop: ast.For, assigned: set[str]) -> dict[str, str]:
    """Return the scalars with a value before the distributed loop that it reduces, each with its operator.

    Raises SourceRefused for a scalar that one iteration takes over from another in any other way.
    """
    reduced: dict[str, str] = {}
    inside = [node for statement in loop.body for node in ast.walk(statement)]
    stored = [node for node in inside if isinstance(node, ast.Assign | ast.AugAssign)]
    for name in sorted({name for node in stored for name in assigned_scalars(node)} & assigned):
        if not reads_first(loop.body, name):
            continue
        writes = [node for node in stored if name in assigned_scalars(node)]
        forms = [reduction(node, name) for node in writes]
        uses = sum(isinstance(node, ast.Name) and node.id == name for node in inside)
        expected = sum(1 if isinstance(node, ast.AugAssign) else 2 for node in writes)
        operators = {form[0] for form in forms if form}
        if None in forms or uses != expected or len(operators) != 1:
            source.refuse(
                writes[0],
                f"{name} is handed from one iteration of the distributed loop to another",
                f"reduce it ({name} += e, {name} = max({name}, e)) or assign it in the iteration that uses it",
            )
        reduced[name] = operators.pop()
    return reduced


def assigned_scalars(node: ast.stmt) -> set[str]:
    """Return the names that an assignment gives a value."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


def statements_in(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a kernel and those in them."""
    for node in body:
        yield node
        if isinstance(node, ast.For | ast.If):
            yield from statements_in(node.body)
            yield from statements_in(node.orelse)


def stored_names(body: Iterable[ast.stmt]) -> set[str]:
    """Return the names that statements and those in them give a value, loop variables included."""
    names: set[str] = set()
    for node in statements_in(body):
        names |= assigned_scalars(node)
        if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


def _mentions(node: ast.AST, name: str) -> bool:
    return any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(node))


def reads_first(body: Sequence[ast.stmt], name: str) -> bool:
    """Whether an iteration can read the scalar before it assigns it."""
    return _run(body, name, False)[0]


def _run(statements: Sequence[ast.stmt], name: str, known: bool) -> tuple[bool, bool]:
    """Return whether the scalar is read before it is known, and whether it is known afterwards."""
    for node in statements:
        read = False
        if isinstance(node, ast.If):
            first, then = _run(node.body, name, known)
            second, other = _run(node.orelse, name, known)
            read = first or second or (not known and _mentions(node.test, name))
            after = then and other
        elif isinstance(node, ast.For):
            read = _run(node.body, name, known)[0] or (not known and _mentions(node.iter, name))
            after = known
        elif isinstance(node, ast.Assign):
            elements = [target for target in node.targets if not isinstance(target, ast.Name)]
            read = not known and any(_mentions(part, name) for part in [node.value, *elements])
            after = known or name in assigned_scalars(node)
        else:
            read, after = not known and _mentions(node, name), known
        if read:
            return True, known
        known = after
    return False, known
