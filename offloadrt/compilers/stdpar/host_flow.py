"""The flow of control through a host function, as far as it matters to barriers: read from its source.

A place in it is an algorithm, an access, a call or an exit; which, is said in `host_scope.py`. What only builds the
arguments of an algorithm is no access. Functions are inlined where the compiler does it, never into themselves.
``async with t.function()`` ends as a function does. Exceptions are not followed, as with ``noexcept``.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Sequence

import attrs

from offloadrt.compilers.host.flow_graph import FlowGraph, Node
from offloadrt.compilers.stdpar.elision import Marker, Operation
from offloadrt.compilers.stdpar.host_scope import METHODS, Scope
from offloadrt.compilers.stdpar.standard_algorithms import ALGORITHMS
from offloadrt.compilers.stdpar.translation_unit import TranslationUnit
from offloadrt.kernels.source.function_source import Source, text


def flow_of(source: Source, unit: TranslationUnit) -> FlowGraph:
    """The flow through a host function, as one that is not inlined."""
    return _Walk(Scope.of(source, unit)).graph


@attrs.define(eq=False)
class _Frame:
    """A function while it is walked through. exit: where it returns to, if it is inlined."""

    scope: Scope
    exit: Node | None = None
    cleanups: list[Callable[[], None]] = attrs.field(factory=list)
    """What ``finally`` and the ends of ``with`` do, the innermost last."""
    loops: list[int] = attrs.field(factory=list)
    """How many of `cleanups` there were when each loop began."""
    building: bool = False
    """Are arguments of an algorithm being read?"""


class _Walk:
    def __init__(self, scope: Scope) -> None:
        self.graph = FlowGraph()
        self.here = _Frame(scope)
        self.active = [scope.place]
        tree = scope.source.tree
        self.block(tree.body)
        self.emit(Marker.RETURN, tree.name, _last_line(tree), plain=False)

    def emit(self, marker: Marker | None, name: str, node: ast.AST | int, plain: bool = True) -> None:
        if marker is not None:
            line = node if isinstance(node, int) else getattr(node, "lineno", 0)
            self.graph.reach(Node(Operation(marker, name, self.here.scope.source.file, line), plain=plain))

    # statements

    def block(self, statements: Sequence[ast.stmt]) -> None:
        for node in statements:
            self.statement(node)

    def statement(self, node: ast.stmt) -> None:
        here, scope = self.here, self.here.scope
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                scope.functions[node.name] = node
            case ast.ClassDef() | ast.Import() | ast.ImportFrom():
                pass
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                scope.shared.update(names)
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
                self.cleaned_up(node.body, lambda: self.contexts_end(node))
            case ast.Try() | ast.TryStar():
                self.cleaned_up([*node.body, *node.orelse], self.later(node.finalbody))
            case ast.Match():
                self.expression(node.subject)
                self.graph.alternatives(*(self.later(case.body) for case in node.cases), _nothing)
            case ast.Return() | ast.Raise():
                self.parts(node)
                self.leave(0)
                if here.exit is not None and isinstance(node, ast.Return):
                    self.graph.jump(here.exit)
                else:
                    self.emit(Marker.RETURN, scope.source.tree.name, node, plain=False)
                    self.graph.ends = []
            case ast.Break() | ast.Continue():
                self.leave(here.loops[-1])
                start, after = self.graph.loops[-1]
                self.graph.jump(after if isinstance(node, ast.Break) else start)
            case ast.Assign(targets=targets, value=value):
                self.expression(value)
                for one in targets:
                    self.target(one)
            case ast.AnnAssign(target=target, value=value):
                if value is not None:
                    self.expression(value)
                    self.target(target)
            case ast.AugAssign(target=target, value=value):
                self.expression(value)
                self.target(target)
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
            self.target(node.target)

        self.expression(node.iter)
        self.loop(head, node.body, node.orelse, False)

    def element(self, iterable: ast.expr, asynchronous: bool) -> None:
        """The next one of what a loop runs over."""
        if asynchronous:
            self.emit(Marker.CALL, text(iterable), iterable)
        elif isinstance(iterable, ast.Name | ast.Attribute | ast.Subscript):
            self.access(iterable)

    def cleaned_up(self, body: Sequence[ast.stmt], cleanup: Callable[[], None]) -> None:
        """`cleanup` on every way out of `body`."""
        self.here.cleanups.append(cleanup)
        self.block(body)
        self.here.cleanups.pop()
        cleanup()

    def contexts_end(self, node: ast.With | ast.AsyncWith) -> None:
        """The end of a ``with``: a call, where its beginning was one."""
        for item in reversed(node.items):
            context = item.context_expr
            method = self.here.scope.thread_method(context)
            if method == "function":
                self.emit(Marker.RETURN, text(context), _last_line(node), plain=False)
            elif method not in METHODS:
                self.emit(Marker.CALL, f"the end of with {text(context)}", _last_line(node))

    def leave(self, depth: int) -> None:
        """Clean up on the way out."""
        cleanups = self.here.cleanups
        while len(self.here.cleanups) > depth:
            *self.here.cleanups, innermost = self.here.cleanups
            innermost()
        self.here.cleanups = cleanups

    def target(self, node: ast.expr) -> None:
        """What is assigned to."""
        match node:
            case ast.Name(id=name):
                if name in self.here.scope.shared:
                    self.emit(Marker.HOST_ACCESS, name, node)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self.target(part)
            case ast.Starred(value=part):
                self.target(part)
            case _:
                self.expression(node)

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
                self.unresolved(node)
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
            case ast.Lambda(body=body):
                self.unresolved(body)
            case ast.Name(id=name) if name in self.here.scope.functions:
                self.unresolved(self.here.scope.functions[name])
            case ast.NamedExpr(target=target, value=value):
                self.expression(value)
                self.target(target)
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
        if not self.here.building:
            self.emit(self.here.scope.access(node), text(node), node)

    def unresolved(self, node: ast.AST) -> None:
        """Algorithms below `node`, which stands for code that is called elsewhere."""
        scope = self.here.scope
        self.graph.unresolved += [
            Operation(Marker.ALGORITHM, text(one), scope.source.file, one.lineno)
            for one in ast.walk(node)
            if isinstance(one, ast.Attribute) and scope.is_algorithm(one)
        ]

    # calls

    def call(self, node: ast.Call) -> None:
        scope = self.here.scope
        if method := scope.thread_method(node):
            building = self.here.building
            self.here.building = building or method in ALGORITHMS
            self.arguments(node)
            self.here.building = building
            first = "" if method in ALGORITHMS else f"({', '.join(map(text, node.args[:1]))})"
            self.emit(scope.method(node, method), f"{method}{first}", node, plain=False)
            return
        if isinstance(node.func, ast.Attribute) and not isinstance(
            scope.known(node.func.value), types.ModuleType | type
        ):
            self.expression(node.func.value)
        self.arguments(node)
        called = scope.inlines(node)
        if called is not None and (called.file, called.tree.lineno) not in self.active:
            self.inline(scope.inlined(called, node))
        elif not scope.is_pure(node):
            self.emit(Marker.CALL, text(node.func), node)

    def arguments(self, node: ast.Call) -> None:
        for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
            self.expression(argument)

    def inline(self, scope: Scope) -> None:
        """Walk through a function in the place of its call."""
        outer, loops, after = self.here, self.graph.loops, Node()
        self.here, self.graph.loops = _Frame(scope, after), []
        self.active.append(scope.place)
        self.block(scope.source.tree.body)
        self.graph.reach(after)
        self.active.pop()
        self.here, self.graph.loops = outer, loops


def _nothing() -> None:
    """A branch in which nothing happens."""


def _last_line(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno
