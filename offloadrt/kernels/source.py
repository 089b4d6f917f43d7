"""A kernel's source: `Source` is a function's syntax tree with its file, its lines and the names that it can see.

`RangeLoop`, `Assignment` and `Conditional` are the typed statements of a nest. They are read once and shared by all
passes. `loop_subset.py` says what a loop nest may hold.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

import attrs
import numpy as np

from offloadrt.kernels.array_use import KernelError, SourceRefused

DEEPEST = 150
"""Deepest syntax tree that is accepted, in levels: half of Python's own recursion limit for a walk."""

FunctionTree = ast.FunctionDef | ast.AsyncFunctionDef


@attrs.frozen(eq=False)
class Source:
    """A function's parsed source, whose line numbers are those of the file."""

    who: str
    """The function's name in messages, such as ``kernel 'scale'``."""
    file: str
    tree: FunctionTree = attrs.field(repr=False)
    names: dict[str, Any] = attrs.field(repr=False)
    """Globals, builtins and closure variables, by name."""

    @classmethod
    def of(cls, function: Callable[..., Any], kind: str) -> Source:
        """Read the source of `function`; in messages, `kind` stands before its name, such as "kernel".

        Raises KernelError when the source cannot be read, SourceRefused when it is nested deeper than `DEEPEST`.
        """
        who = f"{kind} {function.__name__!r}"
        code = function.__code__
        try:
            lines, first = inspect.getsourcelines(function)
            file = inspect.getsourcefile(function) or code.co_filename
            module = ast.parse(textwrap.dedent("".join(lines)))
        except RecursionError:
            raise SourceRefused(code.co_filename, code.co_firstlineno, who, *_TOO_DEEP) from None
        except (OSError, TypeError, SyntaxError) as error:
            raise KernelError(
                f"{who}: its source cannot be read ({error}); write it as a function in a file, or give its costs"
            ) from None
        tree = module.body[0]
        if not isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef):
            raise KernelError(f"{who}: it is no function of its own ({file}:{first}); write it with def")
        ast.increment_lineno(module, first - 1)
        closure = dict(zip(code.co_freevars, (_content(cell) for cell in function.__closure__ or ()), strict=True))
        source = cls(who, file, tree, {**vars(builtins), **function.__globals__, **closure})
        if (deepest := _deeper_than(DEEPEST, tree)) is not None:
            source.refuse(deepest, *_TOO_DEEP)
        return source

    def rewritten(self, text: str, how: str) -> Source:
        """Return this source with its function replaced by `text`. how: what was done ("split"), for messages."""
        (tree,) = ast.parse(text).body
        assert isinstance(tree, ast.FunctionDef)
        return attrs.evolve(self, who=f"{how} {self.who}", file=f"{self.file} ({how})", tree=tree)

    @property
    def parameters(self) -> list[ast.arg]:
        arguments = self.tree.args
        return [*arguments.posonlyargs, *arguments.args]

    @functools.cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Return all syntax nodes of the function, outer nodes before inner ones."""
        return tuple(ast.walk(self.tree))

    @property
    def body(self) -> list[ast.stmt]:
        """Return the function's statements, without its docstring."""
        first, *rest = self.tree.body
        is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        return rest if is_text and isinstance(first.value.value, str) else self.tree.body  # type: ignore[attr-defined]

    def refuse(self, node: ast.AST, what: str, instead: str) -> NoReturn:
        """Raise SourceRefused for the line of `node`; the message says `what` is wrong and what to write `instead`."""
        raise SourceRefused(self.file, getattr(node, "lineno", self.tree.lineno), self.who, what, instead) from None


_TOO_DEEP = (f"a statement is nested more than {DEEPEST} levels deep", "divide it into several statements")


def _deeper_than(levels: int, tree: ast.AST) -> ast.stmt | None:
    """Find the first statement with a part deeper than `levels` in the tree, without recursion."""
    waiting: list[tuple[int, ast.AST, ast.stmt | None]] = [(0, tree, None)]
    while waiting:
        depth, node, statement = waiting.pop()
        if depth > levels:
            return statement
        statement = node if isinstance(node, ast.stmt) else statement
        waiting += [(depth + 1, child, statement) for child in reversed(list(ast.iter_child_nodes(node)))]
    return None


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def is_loop_nest(source: Source) -> bool:
    """Tell whether a loop over a range is among the outermost statements."""
    return any(isinstance(statement, ast.For) and range_of(statement.iter) for statement in source.body)


def range_of(node: ast.expr) -> ast.Call | None:
    """Return the `range(...)` that a loop goes through, also in the hint ``expect(range(...))``; None for others."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
        name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        if name == "range":
            return node
        if name == "expect" and node.args:
            return range_of(node.args[0])
    return None


def literal(node: ast.expr) -> int | float | None:
    """Return the value of a number literal with its sign; None for another expression."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = literal(node.operand)
        return None if value is None else -value
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    return None


def symbol_of(loop: ast.For) -> str:
    """Return the symbol of a loop's variable in polynomials; no other loop has the same symbol."""
    assert isinstance(loop.target, ast.Name)
    return f"{loop.target.id}@{loop.lineno}"


def text(node: ast.AST) -> str:
    """Write a syntax node back as source text on one line."""
    return node.id if isinstance(node, ast.Name) else ast.unparse(node)


def first_line(node: ast.stmt) -> str:
    """Write the first line of a statement: ``if n > 3`` for a conditional with a body."""
    return text(node).splitlines()[0].rstrip(":")


def check_type(kernel: str, parameter: str, given: object, is_complex: bool = False) -> None:
    """Raise KernelError if a loop nest cannot take an argument of this type.

    given: the element type of the argument for an indexed parameter, or else the type of the argument. is_complex:
    whether the parameter is annotated as an array of complex numbers.
    """
    if isinstance(given, np.dtype) and (given == np.complex128 if is_complex else _is_taken(given)):
        return
    if isinstance(given, np.dtype) and given.kind == "V" and given.names is None:
        what = "memory of no type was given; say what lies there, as in pointer.viewed(np.float64)"
    elif is_complex:
        what = f"{given} was given; pass an array of complex128, as {parameter} is annotated"
    elif given == np.complex128:
        what = f"{given} was given; annotate {parameter} as NDArray[np.complex128]"
    else:
        what = f"{given} was given; pass an array of bool, int8 to int64, uint8 to uint32, float32 or float64"
        if isinstance(given, np.dtype) and not given.isnative:
            what += ", in this machine's byte order"
    raise KernelError(f"kernel {kernel!r}: {parameter} is indexed in its source, but {what}")


def _is_taken(kind: np.dtype[np.generic]) -> bool:
    number = kind.kind in "bi" or (kind.kind == "u" and kind.itemsize < 8)
    return kind.isnative and (number or (kind.kind == "f" and 4 <= kind.itemsize <= 8))


@attrs.frozen(eq=False)
class Assignment:
    """``target = value``, or ``target += value`` with an operator."""

    node: ast.Assign | ast.AugAssign
    target: ast.Name | ast.Subscript
    operator: ast.operator | None
    value: ast.expr

    @property
    def scalar(self) -> str | None:
        """Return the name of the scalar assigned to; None where an array's element is assigned to."""
        return self.target.id if isinstance(self.target, ast.Name) else None


@attrs.frozen(eq=False)
class Conditional:
    """An ``if`` statement: its condition (`test`), and the statements if it holds (`then`) and if not (`other`)."""

    node: ast.If
    test: ast.expr
    then: tuple[Statement, ...]
    other: tuple[Statement, ...]


@attrs.frozen(eq=False)
class RangeLoop:
    """A loop ``for variable in range(...)``, or ``in expect(range(...), trips=...)`` with a hint on its length."""

    node: ast.For
    variable: str
    call: ast.Call
    """The call of `range`."""
    body: tuple[Statement, ...]

    @property
    def symbol(self) -> str:
        """Return the symbol of the loop's variable in polynomials."""
        return symbol_of(self.node)

    @property
    def first(self) -> ast.expr:
        return self.call.args[0] if len(self.call.args) > 1 else ast.Constant(0)

    @property
    def last(self) -> ast.expr:
        """Return the expression of the range's stop, which the loop's variable does not reach."""
        return self.call.args[1] if len(self.call.args) > 1 else self.call.args[0]

    @property
    def step(self) -> int:
        return int((literal(self.call.args[2]) if len(self.call.args) > 2 else 1) or 1)


Statement = Assignment | Conditional | RangeLoop


def statements(body: Iterable[ast.stmt]) -> tuple[Statement, ...]:
    """Convert the syntax nodes of a `body` to this module's statements; skip `pass` and what a kernel cannot have."""
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
    """Yield the statements and all nested statements, in source order."""
    for node in body:
        yield node
        if isinstance(node, Conditional):
            yield from within(node.then)
            yield from within(node.other)
        elif isinstance(node, RangeLoop):
            yield from within(node.body)


def assignments(body: Iterable[Statement]) -> list[Assignment]:
    """Return all assignments among the statements and the statements nested in them, in source order."""
    return [node for node in within(body) if isinstance(node, Assignment)]


def stored_names(body: Iterable[Statement]) -> set[str]:
    """Return the names that the statements and nested statements assign, loop variables included."""
    names = {node.scalar for node in assignments(body)} - {None}
    loops = {node.variable for node in within(body) if isinstance(node, RangeLoop)}
    return loops | {name for name in names if name is not None}
