"""Loops that are no outermost ``for`` over a ``range``: what a function without declared costs may not hold.

Its launches would take no time for them. Each is refused with what to write instead, but for short ones: over a
shape, or over names that are written one by one, as of views, without an element that the loop's variable indexes.
"""

from __future__ import annotations

import ast
import dis
from collections.abc import Sequence
from types import CodeType

from offloadrt.kernels.source.function_source import Source, first_line, range_of, text

_DECLARE = ", or declare its costs: @kernel(flops_per_iteration=..., bytes_per_iteration=...)"
WHILE = "write a for over a range with an if in it"


def may_loop(code: CodeType) -> bool:
    """Tell whether a function's byte code, or that of functions in it, iterates or jumps back.

    It is never False for a function with a loop.
    """
    for instruction in dis.get_instructions(code):
        if instruction.opname == "FOR_ITER":
            return True
        if instruction.opcode in dis.hasjrel + dis.hasjabs and instruction.argval < instruction.offset:
            return True
    return any(may_loop(inner) for inner in code.co_consts if isinstance(inner, CodeType))


def refuse_loops(source: Source) -> None:
    """Raise SourceRefused for the first loop in a source that has no loop nest."""
    for statement in source.body:
        for node in ast.walk(statement):
            match node:
                case ast.For(target=target, iter=iterated, body=body) if _is_short([(target, iterated)], body):
                    pass
                case ast.For(iter=iterated) if range_of(iterated):
                    around = first_line(statement)
                    instead = f"put {around} into the loop" if isinstance(statement, ast.If) else "write it outermost"
                    source.refuse(node, f"a loop over {text(iterated)} inside of {around}", instead + _DECLARE)
                case ast.For() | ast.AsyncFor():
                    source.refuse(node, f"a loop over {text(node.iter)}", over_a_range(node) + _DECLARE)
                case ast.While():
                    source.refuse(node, f"{first_line(node)} is not in the subset", WHILE + _DECLARE)
                case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                    if not _is_short([(generator.target, generator.iter) for generator in node.generators], [node]):
                        source.refuse(node, f"a loop in {text(node)}", "write for i in range(n)" + _DECLARE)


def _is_short(loops: Sequence[tuple[ast.expr, ast.expr]], body: Sequence[ast.AST]) -> bool:
    """Tell whether loops only go through dimensions or written names, and what they do indexes nothing with them."""
    for _, iterated in loops:
        named = isinstance(iterated, ast.Tuple | ast.List) and all(
            isinstance(element, ast.Name) for element in iterated.elts
        )
        if not named and not (isinstance(iterated, ast.Attribute) and iterated.attr == "shape"):
            return False
    variables = {node.id for target, _ in loops for node in ast.walk(target) if isinstance(node, ast.Name)}
    indices = [node.slice for part in body for node in ast.walk(part) if isinstance(node, ast.Subscript)]
    used = {node.id for index in indices for node in ast.walk(index) if isinstance(node, ast.Name)}
    return used.isdisjoint(variables)


def over_a_range(loop: ast.For | ast.AsyncFor) -> str:
    """Say how to write a loop over something else: ``for i in reversed(range(n))`` as ``range(n - 1, -1, -1)``."""
    variable = loop.target.id if isinstance(loop.target, ast.Name) else "i"
    match loop.iter:
        case ast.Call(func=ast.Name(id="reversed"), args=[ast.Call(func=ast.Name(id="range"), args=[*bounds])]):
            if len(bounds) == 1:
                return f"write for {variable} in range({_before(bounds[0])}, -1, -1)"
            if len(bounds) == 2:
                return f"write for {variable} in range({_before(bounds[1])}, {_before(bounds[0])}, -1)"
        case ast.Call(func=ast.Name(id="enumerate"), args=[ast.Name(id=array)]):
            return f"write for i in range(len({array})) and index with i"
        case ast.Call(func=ast.Attribute(attr="arange"), args=[*bounds]) if bounds:
            return f"write for {variable} in range({', '.join(map(text, bounds))})"
    return "write for i in range(n) and index with i"


def _before(bound: ast.expr) -> str:
    """Write the number before a bound."""
    if isinstance(bound, ast.Constant) and isinstance(bound.value, int):
        return str(bound.value - 1)
    return text(ast.BinOp(bound, ast.Sub(), ast.Constant(1)))
