"""Short forms of loops, which are written out before a kernel is read.

``for k, j in product(range(n), range(m))`` is two loops, one in the other (`itertools.product`).

``for m in (0, 1, 2): flux[m, i] = 0.0`` is three statements, with 0, 1 and 2 in the place of ``m``: it stands for code
whose authors wrote the statements out, or whose compiler unrolls the loop. The tuple may be a global, or one that the
kernel's function closes over; with several variables its members are tuples, as in ``for m, q in ((0, 1), (1, 0))``.
"""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Sequence

import attrs

from offloadrt.kernels.source.function_source import Source, first_line, range_of, text


def written_out(source: Source) -> Source:
    """Return the source with its short loops written out.

    Raises SourceRefused for a range of a product that depends on its variables, for another loop inside of a loop over
    numbers, and where the variable of such a loop gets another value.
    """
    loops = [node for node in source.nodes if isinstance(node, ast.For)]
    if any(_ranges(source, loop) for loop in loops):
        source = attrs.evolve(source, tree=_Nesting(source).visit(copy.deepcopy(source.tree)))
    if any(_numbers(source, loop) for loop in loops):
        source = attrs.evolve(source, tree=_Unrolling(source).visit(copy.deepcopy(source.tree)))
    return source


def _variables(loop: ast.For) -> list[str]:
    return [node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)]


def _numbers(source: Source, loop: ast.For) -> Sequence[tuple[int | float, ...]]:
    """Return the numbers that the variables have in each pass; nothing for another kind of loop."""
    try:
        values = source.names.get(loop.iter.id) if isinstance(loop.iter, ast.Name) else ast.literal_eval(loop.iter)
    except ValueError:
        return ()
    if not isinstance(values, tuple) or loop.orelse:
        return ()
    passes = [value if isinstance(loop.target, ast.Tuple) else (value,) for value in values]
    of_numbers = all(isinstance(entry, tuple) and all(isinstance(n, int | float) for n in entry) for entry in passes)
    return passes if of_numbers and all(len(entry) == len(_variables(loop)) for entry in passes) else ()


def _ranges(source: Source, loop: ast.For) -> Sequence[ast.expr]:
    """Return the ranges of a product, one for each variable; nothing for another kind of loop."""
    if not isinstance(loop.iter, ast.Call) or loop.iter.keywords or loop.orelse:
        return ()
    function, _, attribute = text(loop.iter.func).partition(".")
    called = source.names.get(function)
    ranges = loop.iter.args if (getattr(called, attribute, None) if attribute else called) is itertools.product else []
    are_ranges = all(range_of(argument) is not None for argument in ranges)
    return ranges if are_ranges and isinstance(loop.target, ast.Tuple) and len(ranges) == len(_variables(loop)) else ()


class _Nesting(ast.NodeTransformer):
    def __init__(self, source: Source) -> None:
        self.source = source

    def visit_For(self, loop: ast.For) -> ast.For:
        self.generic_visit(loop)
        ranges = _ranges(self.source, loop)
        if not ranges:
            return loop
        variables = set(_variables(loop))
        for argument in ranges:
            if any(isinstance(node, ast.Name) and node.id in variables for node in ast.walk(argument)):
                self.source.refuse(loop, f"{text(argument)} depends on the product around it", "write nested loops")
        assert isinstance(loop.target, ast.Tuple)
        nested: list[ast.stmt] = loop.body
        for target, argument in reversed(list(zip(loop.target.elts, ranges, strict=True))):
            nested = [ast.copy_location(ast.For(target, argument, nested, []), loop)]
        (outermost,) = nested
        assert isinstance(outermost, ast.For)
        return outermost


class _Unrolling(ast.NodeTransformer):
    def __init__(self, source: Source) -> None:
        self.source = source
        assigned = [
            target
            for node in source.nodes
            for target in (node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)])
            if not isinstance(node, ast.For)
        ]
        names = [parameter.arg for parameter in source.parameters]
        self.taken = {*names, *(target.id for target in assigned if isinstance(target, ast.Name))}
        """Names that the variable of a loop over numbers may not have."""

    def visit_For(self, loop: ast.For) -> ast.For | list[ast.stmt]:
        variables, passes = _variables(loop), _numbers(self.source, loop)
        if not passes:
            around, self.taken = self.taken, self.taken | set(variables)
            self.generic_visit(loop)
            self.taken = around
            return loop
        if set(variables) & self.taken:
            self.source.refuse(loop, f"loop variable {text(loop.target)} has a value already", "use another name")
        for part in (part for statement in loop.body for part in ast.walk(statement)):
            if isinstance(part, ast.For) and not _numbers(self.source, part):
                self.source.refuse(part, f"{first_line(part)} inside of a loop over numbers", "exchange both loops")
        around, self.taken = self.taken, self.taken | set(variables)
        statements: list[ast.stmt] = []
        for numbers in passes:
            replace = _Replacement(dict(zip(variables, numbers, strict=True)))
            body = [replace.visit(copy.deepcopy(statement)) for statement in loop.body]
            statements += self.visit(ast.Module(body, [])).body
        self.taken = around
        return statements


class _Replacement(ast.NodeTransformer):
    def __init__(self, values: dict[str, int | float]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self.values or isinstance(node.ctx, ast.Store):
            return node
        value = ast.parse(repr(self.values[node.id]), mode="eval").body
        for part in ast.walk(value):
            ast.copy_location(part, node)
        return value
