"""The flow of control through a host function, as far as it matters to barriers: read from its source.

What a C++ compiler would see is taken from Python so:

- ``t.for_each(par_unseq, ...)`` is an algorithm, where ``t`` is the host thread: the function's first parameter, or one
  whose annotation ends with ``Thread``. With the policy ``seq`` it is one on the host;
- ``t.stack_array`` and a list, tuple, set or dictionary that is written out make an object of the stack. What other
  methods of the thread are is in `METHODS`; those that are not there are calls. ``async with t.function()`` ends as a
  function does;
- an element ``a[i]`` or attribute ``a.n`` that is read or written is an access of the host, or of the stack for an
  object of the stack. None are: local variables (they are in registers), what only builds the arguments of an
  algorithm, the thread's own attributes, modules, classes and the numbers and functions in them;
- calls of the functions in `PURE` and of the module ``math`` are instructions; others are calls, but for those that are
  inlined (`TranslationUnit`), never into themselves;
- exceptions are not followed, as with ``noexcept``.
"""

from __future__ import annotations

import ast
import enum
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from offloadrt.kernels.source import FunctionTree, Source, text
from offloadrt.models.stdpar.elision import Marker, Operation
from offloadrt.models.stdpar.flow_graph import FlowGraph, Node
from offloadrt.models.stdpar.standard_algorithms import ALGORITHMS, RETURNING, ExecutionPolicy
from offloadrt.models.stdpar.translation_unit import (
    TranslationUnit,
    calls_algorithms,
    local_names,
    parameters,
    threads_of,
)

METHODS: Final[Mapping[str, Marker | None]] = {
    **dict.fromkeys(("stack_array", "compute", "function", "interposition_disabled")),
    **dict.fromkeys(("read", "write", "host_access"), Marker.HOST_ACCESS),
    **dict.fromkeys(("malloc", "calloc", "realloc", "aligned_alloc", "foreign_malloc"), Marker.ALLOCATION),
    **dict.fromkeys(("new", "new_array", "delete", "free", "foreign_free"), Marker.ALLOCATION),
}
"""What the methods of a host thread are; None for those that touch no memory."""

PURE: Final = (
    *(abs, bool, complex, divmod, enumerate, float, int, isinstance, len, max, min, pow, range, reversed, round, zip),
)
"""Built-in functions that are instructions, no calls."""

_CONSTANT = (
    *(types.ModuleType, type, types.FunctionType, types.BuiltinFunctionType),
    *(int, float, complex, str, bytes, enum.Enum),
)
_DISPLAYS = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp)


@attrs.define(eq=False)
class _Function:
    """A function while it is walked: what its names stand for."""

    source: Source
    threads: set[str]
    stack: set[str]
    variables: set[str]
    local: dict[str, FunctionTree] = attrs.field(factory=dict)
    """Functions that are defined in it."""
    shared: set[str] = attrs.field(factory=set)
    """Names declared global or nonlocal."""
    exit: Node | None = None
    """Where it returns to, where it is inlined."""
    cleanups: list[Sequence[ast.stmt]] = attrs.field(factory=list)
    """What ``finally`` runs, the innermost last."""
    loops: list[int] = attrs.field(factory=list)
    """How many of `cleanups` there were when each loop began."""

    @property
    def key(self) -> tuple[str, int]:
        return self.source.file, self.source.tree.lineno


def flow_of(source: Source, unit: TranslationUnit) -> FlowGraph:
    """The flow through a host function, as one that is not inlined."""
    return _Walk(source, unit).graph


class _Walk:
    def __init__(self, source: Source, unit: TranslationUnit) -> None:
        self.unit = unit
        self.graph = FlowGraph()
        self.building = False
        """Are arguments of an algorithm being read?"""
        self.here = _Function(source, threads_of(source.tree), set(), local_names(source.tree))
        self.active = [self.here.key]
        self.block(source.tree.body)
        self.emit(Marker.RETURN, source.tree.name, _last_line(source.tree))

    def emit(self, marker: Marker, name: str, node: ast.AST | int) -> None:
        line = node if isinstance(node, int) else getattr(node, "lineno", 0)
        self.graph.reach(Node(Operation(marker, name, self.here.source.file, line)))

    # statements

    def block(self, statements: Sequence[ast.stmt]) -> None:
        for node in statements:
            self.statement(node)

    def statement(self, node: ast.stmt) -> None:
        here = self.here
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                here.local[node.name] = node
            case ast.ClassDef() | ast.Import() | ast.ImportFrom():
                pass
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                here.shared.update(names)
            case ast.For() | ast.AsyncFor():
                self.for_loop(node)
            case ast.While():
                endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
                self.loop(lambda: self.expression(node.test), node.body, node.orelse, endless)
            case ast.If():
                self.expression(node.test)
                self.graph.alternatives(lambda: self.block(node.body), lambda: self.block(node.orelse))
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self.expression(item.context_expr)
                self.block(node.body)
                for item in reversed(node.items):
                    self.context_ends(item.context_expr, _last_line(node))
            case ast.Try() | ast.TryStar():
                here.cleanups.append(node.finalbody)
                self.block([*node.body, *node.orelse])
                here.cleanups.pop()
                self.block(node.finalbody)
            case ast.Match():
                self.expression(node.subject)
                self.graph.alternatives(*(self.later(case.body) for case in node.cases), _nothing)
            case ast.Return() | ast.Raise():
                self.parts(node)
                self.leave(0)
                if here.exit is not None and isinstance(node, ast.Return):
                    self.graph.jump(here.exit)
                else:
                    self.emit(Marker.RETURN, here.source.tree.name, node)
                    self.graph.ends = []
            case ast.Break() | ast.Continue():
                self.leave(here.loops[-1])
                start, after = self.graph.loops[-1]
                self.graph.jump(after if isinstance(node, ast.Break) else start)
            case ast.Assign(targets=targets, value=value):
                self.expression(value)
                for one in targets:
                    self.target(one, value)
            case ast.AnnAssign(target=target, value=value):
                if value is not None:
                    self.expression(value)
                    self.target(target, value)
            case ast.AugAssign(target=target, value=value):
                self.expression(value)
                self.target(target, None)
            case _:
                self.parts(node)

    def later(self, statements: Sequence[ast.stmt]) -> Callable[[], None]:
        return lambda: self.block(statements)

    def parts(self, node: ast.AST) -> None:
        """The expressions directly below a node, in order."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.expression(child)

    def loop(
        self, head: Callable[[], None], body: Sequence[ast.stmt], otherwise: Sequence[ast.stmt], endless: bool
    ) -> None:
        self.here.loops.append(len(self.here.cleanups))
        self.graph.loop(head, lambda: self.block(body), self.later(otherwise), endless)
        self.here.loops.pop()

    def for_loop(self, node: ast.For | ast.AsyncFor) -> None:
        def head() -> None:
            self.element(node.iter, isinstance(node, ast.AsyncFor))
            self.target(node.target, None)

        self.expression(node.iter)
        self.loop(head, node.body, node.orelse, False)

    def element(self, iterable: ast.expr, asynchronous: bool) -> None:
        """The next one of what a loop runs over."""
        if asynchronous:
            self.emit(Marker.CALL, text(iterable), iterable)
        elif isinstance(iterable, ast.Name | ast.Attribute | ast.Subscript):
            self.access(iterable)

    def context_ends(self, context: ast.expr, line: int) -> None:
        """The end of a ``with``: a call, as its beginning was one."""
        method = self.method_of_thread(context)
        if method == "function":
            self.emit(Marker.RETURN, text(context), line)
        elif method not in METHODS:
            self.emit(Marker.CALL, f"the end of with {text(context)}", line)

    def leave(self, depth: int) -> None:
        """Run what ``finally`` asks for on the way out."""
        cleanups = self.here.cleanups
        while len(self.here.cleanups) > depth:
            *self.here.cleanups, innermost = self.here.cleanups
            self.block(innermost)
        self.here.cleanups = cleanups

    def target(self, node: ast.expr, value: ast.expr | None) -> None:
        """What is assigned to; a name becomes one of the stack with an object of the stack."""
        match node:
            case ast.Name(id=name):
                here = self.here
                here.threads.discard(name)
                here.stack.discard(name)
                if name in here.shared:
                    self.emit(Marker.HOST_ACCESS, name, node)
                elif value is not None and self.is_stack_object(value):
                    here.stack.add(name)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self.target(part, None)
            case ast.Starred(value=part):
                self.target(part, None)
            case _:
                self.expression(node)

    def is_stack_object(self, value: ast.expr) -> bool:
        while isinstance(value, ast.Await):
            value = value.value
        if isinstance(value, ast.Name):
            return value.id in self.here.stack
        return isinstance(value, _DISPLAYS) or self.method_of_thread(value) == "stack_array"

    def method_of_thread(self, node: ast.expr) -> str:
        """The method that is called on a thread; nothing for other expressions."""
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if name in self.here.threads:
                return method
        return ""

    # expressions

    def expression(self, node: ast.expr) -> None:
        match node:
            case ast.Call():
                self.call(node)
            case ast.Subscript() | ast.Attribute():
                inner: ast.expr = node
                while isinstance(inner, ast.Subscript | ast.Attribute):
                    if isinstance(inner, ast.Subscript):
                        self.expression(inner.slice)
                    inner = inner.value
                self.expression(inner)
                self.access(node)
            case ast.IfExp(test=test, body=then, orelse=other):
                self.expression(test)
                self.graph.alternatives(lambda: self.expression(then), lambda: self.expression(other))
            case ast.BoolOp(values=values):
                self.short_circuit(values)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                self.comprehension(node.generators, [node.elt])
            case ast.DictComp(key=key, value=value, generators=generators):
                self.comprehension(generators, [key, value])
            case ast.Lambda():
                pass
            case ast.NamedExpr(target=target, value=value):
                self.expression(value)
                self.target(target, value)
            case ast.Yield() | ast.YieldFrom():
                self.emit(Marker.CALL, text(node), node)
            case _:
                self.parts(node)

    def short_circuit(self, values: Sequence[ast.expr]) -> None:
        first, *rest = values
        self.expression(first)
        if rest:
            self.graph.alternatives(lambda: self.short_circuit(rest), _nothing)

    def comprehension(self, generators: Sequence[ast.comprehension], parts: Sequence[ast.expr]) -> None:
        if not generators:
            for part in parts:
                self.expression(part)
            return
        first, *rest = generators
        self.expression(first.iter)
        self.graph.loop(
            lambda: self.element(first.iter, bool(first.is_async)),
            lambda: self.filtered(first.ifs, lambda: self.comprehension(rest, parts)),
            _nothing,
            False,
        )

    def filtered(self, conditions: Sequence[ast.expr], body: Callable[[], None]) -> None:
        for condition in conditions:
            self.expression(condition)
        self.graph.alternatives(body, *([_nothing] if conditions else []))

    def access(self, node: ast.expr) -> None:
        """The host reads or writes what an expression names."""
        base = _base(node)
        of_thread = isinstance(base, ast.Name) and base.id in self.here.threads
        if not self.building and not of_thread and not isinstance(self.known(node), _CONSTANT):
            self.emit(Marker.STACK_ACCESS if self.is_stack_object(base) else Marker.HOST_ACCESS, text(node), node)

    # calls

    def call(self, node: ast.Call) -> None:
        if method := self.method_of_thread(node):
            self.call_of_thread(node, method)
            return
        match node.func:
            case ast.Name(id=name) if (tree := self.here.local.get(name)) is not None:
                inlined = calls_algorithms(tree, self.here.threads | threads_of(tree))
                called = attrs.evolve(self.here.source, tree=tree) if inlined else None
            case ast.Attribute(value=receiver) if not isinstance(self.known(receiver), types.ModuleType | type):
                self.expression(receiver)
                called = self.source_of(self.known(node.func))
            case _:
                called = self.source_of(self.known(node.func))
        for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
            self.expression(argument)
        if called is not None and (called.file, called.tree.lineno) not in self.active:
            self.inline(called, node)
        elif not _is_pure(self.known(node.func)):
            self.emit(Marker.CALL, text(node.func), node)

    def call_of_thread(self, node: ast.Call, method: str) -> None:
        outer, self.building = self.building, self.building or method in ALGORITHMS
        for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
            self.expression(argument)
        self.building = outer
        if method in ALGORITHMS:
            self.emit(self.algorithm(node, method), method, node)
            return
        marker = METHODS.get(method, Marker.CALL)
        if marker is Marker.HOST_ACCESS and node.args and self.is_stack_object(_base(node.args[0])):
            marker = Marker.STACK_ACCESS
        if marker is not None:
            self.emit(marker, f"{method}({', '.join(map(text, node.args[:1]))})", node)

    def algorithm(self, node: ast.Call, method: str) -> Marker:
        """Which kind of algorithm a call is of, by its policy."""
        policy = node.args[0] if node.args else ast.Constant(None)
        if self.known(policy) is ExecutionPolicy.SEQ or text(policy).rpartition(".")[2] in ("seq", "SEQ"):
            return Marker.HOST_ALGORITHM
        return Marker.RETURNING if method in RETURNING else Marker.ALGORITHM

    def source_of(self, called: Any) -> Source | None:
        """Of a function that is inlined."""
        if isinstance(called, types.FunctionType) and self.unit.inlined(called):
            return Source.of(called, "host function")
        return None

    def inline(self, source: Source, node: ast.Call) -> None:
        """Walk through a function in the place of its call."""
        tree, outer = source.tree, self.here
        names = [one.arg for one in parameters(tree)]
        given = [*zip(names, node.args, strict=False)]
        given += [(keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg is not None]
        meant = {name: value.id for name, value in given if isinstance(value, ast.Name)}
        variables = local_names(tree)
        threads = {name for name, value in meant.items() if value in outer.threads}
        stack = {name for name, value in meant.items() if value in outer.stack}
        if tree in outer.local.values():
            threads |= outer.threads - variables
            stack |= outer.stack - variables
            variables |= outer.variables
        exit_ = Node()
        building, loops = self.building, self.graph.loops
        self.here = _Function(source, threads, stack, variables, exit=exit_)
        if tree in outer.local.values():
            self.here.local.update(outer.local)
        self.building, self.graph.loops = False, []
        self.active.append(self.here.key)
        self.block(tree.body)
        self.graph.reach(exit_)
        self.active.pop()
        self.here, self.building, self.graph.loops = outer, building, loops

    def known(self, node: ast.expr) -> Any:
        """The Python object that a dotted name stands for; None where the source does not tell."""
        match node:
            case ast.Name(id=name):
                return None if name in self.here.variables else self.here.source.names.get(name)
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                return self.unit.method(name)
            case ast.Attribute(value=value, attr=name):
                return getattr(self.known(value), name, None)
        return None


def _nothing() -> None:
    """A branch in which nothing happens."""


def _base(node: ast.expr) -> ast.expr:
    """What elements and attributes are of."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node


def _is_pure(called: Any) -> bool:
    return getattr(called, "__module__", None) == "math" or any(called is one for one in PURE)


def _last_line(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno
