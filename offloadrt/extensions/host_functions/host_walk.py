"""The walk through a host function, which builds its flow graph.

`HostWalk` follows Python: the order in which expressions are evaluated, branches, loops, jumps, and functions in the
place of their calls. A pass implements what a call is (`HostWalk.call`), and overrides methods for what else it wants
to see. Exceptions come from ``raise`` only, and a call always returns.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic

from offloadrt.extensions.host_functions.flow import (
    FlowBuilder,
    HostBranch,
    HostLoop,
    Node,
    Op,
    Piece,
    S,
    assigned,
    case_blocks,
    iterations,
)
from offloadrt.kernels.source import text


class HostWalk(ABC, Generic[Op, S]):
    """Builds the control-flow graph of a host function from the function's source.

    A subclass says which calls, reads and writes become operations in the graph, and what names stand for (its scope).
    The source is read in the order of execution. In the methods, `node` is the part of the source that is being read.
    """

    def __init__(self, scope: S) -> None:
        self.flow = FlowBuilder[Op, S](scope)
        self.active = [scope.place]
        """The functions that the walk is in, by place. None is inlined into itself."""
        self.block(scope.source.tree.body)
        self.flow.leave_function(lambda: self.returns(scope.source.tree))

    @property
    def pieces(self) -> list[Piece[Op]]:
        """Return the graph's nodes in nested pieces (loops, inlined calls), in the order of the source."""
        return self.flow.pieces

    @property
    def entry(self) -> Node[Op]:
        """Return the node at which the function begins."""
        return self.flow.entry

    @property
    def scope(self) -> S:
        """Return what the names stand for in the function whose source is being read."""
        return self.flow.scope

    # what a pass says

    @abstractmethod
    def call(self, node: ast.Call) -> None:
        """Add to the control-flow graph what a call and its arguments do; each subclass says how."""

    def access(self, node: ast.expr) -> None:
        """Add to the control-flow graph what a read or write of an element or attribute does; by default nothing."""

    def name_stored(self, node: ast.Name) -> None:
        """Add to the control-flow graph what an assignment to a name does; by default nothing."""

    def refer(self, node: ast.expr) -> None:
        """Handle a name or ``lambda`` that is only mentioned, as it may be called elsewhere; subclasses say how."""

    def next_element(self, iterable: ast.expr, is_async: bool) -> None:
        """Add to the control-flow graph what a loop's step to the next element does; by default nothing.

        iterable: what the loop goes through. is_async: whether it is an ``async for``.
        """

    def suspend(self, node: ast.expr) -> None:
        """Add the parts of a ``yield`` to the control-flow graph; a subclass may add what happens meanwhile."""
        self.parts(node)

    def contexts_end(self, node: ast.With | ast.AsyncWith) -> None:
        """Add to the control-flow graph what the end of a ``with`` does; by default nothing."""

    def leaving(self, node: ast.AST) -> Op | None:
        """Return the operation that stands for leaving the function at `node`; None if leaving is no operation.

        node: a ``return`` or the end of a function that is not inlined, or any ``raise``.
        """
        return None

    # what a pass does

    def emit(self, operation: Op, at: ast.AST) -> None:
        """Append an operation to the present path of the control-flow graph. at: the node of the source for it."""
        self.flow.emit(operation, id(at))

    def inline(self, scope: S, at: ast.AST) -> None:
        """Add the body of a called function to the control-flow graph, in place of its call.

        scope: the called function, with what the names in it stand for. at: the call, as a node of the source.
        """
        self.active.append(scope.place)
        self.flow.inlined(scope, self.later(scope.source.tree.body), id(at))
        self.active.pop()

    # statements

    def block(self, statements: Sequence[ast.stmt]) -> None:
        """Add statements to the control-flow graph, one after the other."""
        for node in statements:
            self.statement(node)

    def statement(self, node: ast.stmt) -> None:
        """Add one statement to the control-flow graph: its operations, and the paths into which it divides control."""
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.scope.define(node)
            case ast.ClassDef():
                pass
            case ast.For() | ast.AsyncFor():
                self.for_loop(node)
            case ast.While(test=test):
                endless = isinstance(test, ast.Constant) and bool(test.value)
                self.loop(node, HostLoop(test, None), lambda: self.expression(test), endless)
            case ast.If():
                self.expression(node.test)
                self.flow.alternatives(
                    HostBranch(node.test), lambda: self.block(node.body), lambda: self.block(node.orelse)
                )
            case ast.Match():
                self.expression(node.subject)
                self.flow.alternatives(HostBranch(), *map(self.later, case_blocks(node)))
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self.expression(item.context_expr)
                    if item.optional_vars is not None:
                        self.assign(item.optional_vars, item.context_expr)
                self.flow.cleaned_up(self.later(node.body), lambda: self.contexts_end(node))
            case ast.Try() | ast.TryStar():
                handlers = [self.later(handler.body) for handler in node.handlers]
                body, otherwise = self.later(node.body), self.later(node.orelse)
                self.flow.cleaned_up(lambda: self.flow.guarded(body, otherwise, *handlers), self.later(node.finalbody))
            case ast.Return():
                self.parts(node)
                self.flow.leave_function(lambda: self.returns(node))
            case ast.Raise():
                self.parts(node)
                self.flow.leave_by_exception(self.leaving(node))
            case ast.Break() | ast.Continue():
                self.flow.leave_round(isinstance(node, ast.Break))
            case ast.Assign(targets=targets, value=value):
                self.expression(value)
                for target in targets:
                    self.assign(target, value)
            case ast.AnnAssign(target=target, value=value):
                if value is not None:
                    self.expression(value)
                    self.assign(target, value)
            case ast.AugAssign(target=target, value=value):
                self.expression(value)
                self.target(target)
            case _:
                self.parts(node)

    def later(self, statements: Sequence[ast.stmt]) -> Callable[[], None]:
        """Return a function without arguments that adds these statements to the control-flow graph when called."""
        return lambda: self.block(statements)

    def returns(self, node: ast.AST) -> None:
        """Append the operation that stands for leaving the function (`leaving`), if the function is not inlined."""
        if len(self.active) == 1 and (operation := self.leaving(node)) is not None:
            self.emit(operation, node)

    def for_loop(self, node: ast.For | ast.AsyncFor) -> None:
        """Add a ``for`` to the control-flow graph: once for all iterations, or once for each.

        It is added once for each if the scope gives the elements (`Scope.elements`).
        """
        self.expression(node.iter)
        if elements := self.scope.elements(node.iter):
            self.flow.unrolled([self.round(node, element) for element in elements], self.later(node.orelse))
            return
        is_async = isinstance(node, ast.AsyncFor)
        loop = HostLoop[Op](None, iterations(node.iter))
        self.loop(node, loop, lambda: self.element(node.iter, is_async, node.target))

    def round(self, node: ast.For | ast.AsyncFor, element: ast.expr) -> Callable[[], None]:
        """Return a function that adds one iteration of a loop to the control-flow graph.

        element: what the loop's variable stands for in it.
        """

        def walk() -> None:
            self.scope.assign(node.target, element)
            self.block(node.body)

        return walk

    def element(self, iterable: ast.expr, is_async: bool, target: ast.expr) -> None:
        """Add to the control-flow graph that a loop's variables (`target`) get the next element of `iterable`.

        is_async: whether it is an ``async for``.
        """
        self.scope.unbind(assigned([target]), f"is each of {text(iterable)} in turn")
        self.next_element(iterable, is_async)
        self.target(target)

    def loop(
        self,
        node: ast.For | ast.AsyncFor | ast.While,
        loop: HostLoop[Op],
        head: Callable[[], None],
        endless: bool = False,
    ) -> None:
        """Add a loop to the control-flow graph once, which stands for all its iterations.

        A name that the body assigns to may stand for something else in each iteration, so its meaning is unknown there.
        node: the loop in the source. loop: the loop in the graph, to be filled. head: a function that adds what is
        executed before each iteration (the test, or the step to the next element). endless: whether the loop ends only
        by a ``break``, ``return`` or ``raise``.
        """
        names = [name for name in assigned(node.body) if name in self.scope.names]

        def begin() -> None:
            self.scope.unbind(names, f"is assigned again in the loop of line {node.lineno}")
            head()

        self.flow.loop(loop, begin, self.later(node.body), self.later(node.orelse), endless)

    # expressions

    def parts(self, node: ast.AST) -> None:
        """Add the expressions directly below a node of the source to the control-flow graph, in order."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.expression(child)

    def expression(self, node: ast.expr) -> None:
        """Add the operations of an expression to the control-flow graph, in Python's order of evaluation."""
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
                self.flow.alternatives(HostBranch(test), lambda: self.expression(then), lambda: self.expression(other))
            case ast.BoolOp(op=op, values=[first, *rest]):
                self.expression(first)
                if rest:
                    goes_on = first if isinstance(op, ast.And) else ast.UnaryOp(ast.Not(), first)
                    self.flow.alternatives(HostBranch(goes_on), lambda: self.expression(ast.BoolOp(op, rest)), _nothing)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                self.comprehension(node.generators, [node.elt])
            case ast.DictComp(key=key, value=value, generators=generators):
                self.comprehension(generators, [key, value])
            case ast.NamedExpr(target=target, value=value):
                self.expression(value)
                self.assign(target, value)
            case ast.Yield() | ast.YieldFrom():
                self.suspend(node)
            case ast.Name() | ast.Lambda():
                self.refer(node)
            case _:
                self.parts(node)

    def arguments(self, node: ast.Call) -> None:
        """Add the operations in the arguments of a call to the control-flow graph."""
        for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
            self.expression(argument)

    def comprehension(self, generators: Sequence[ast.comprehension], parts: Sequence[ast.expr]) -> None:
        """Add the loops of a comprehension to the control-flow graph; their variables exist only inside it.

        generators: the loops. parts: the expressions that the comprehension computes for each element.
        """
        if not generators:
            for part in parts:
                self.expression(part)
            return
        first, *rest = generators
        self.expression(first.iter)
        before = dict(self.scope.names)
        self.flow.loop(
            HostLoop(None, iterations(first.iter)),
            lambda: self.element(first.iter, bool(first.is_async), first.target),
            lambda: self.filtered(first.ifs, lambda: self.comprehension(rest, parts)),
            _nothing,
        )
        own = assigned([first.target])
        names = {name: meaning for name, meaning in self.scope.names.items() if name not in own}
        self.scope.restore({**names, **{name: before[name] for name in own if name in before}})

    def filtered(self, conditions: Sequence[ast.expr], body: Callable[[], None]) -> None:
        """Add `body` to the control-flow graph, executed for those elements for which all conditions hold.

        body: a function that adds its code.
        """
        if not conditions:
            body()
            return
        first, *rest = conditions
        self.expression(first)
        self.flow.alternatives(HostBranch(first), lambda: self.filtered(rest, body), _nothing)

    def assign(self, target: ast.expr, value: ast.expr) -> None:
        """Add an assignment to the control-flow graph, and record what the names stand for from now on.

        target: the left side of the assignment. value: its right side, whose operations are in the graph already.
        """
        self.target(target)
        self.scope.assign(target, value)

    def target(self, node: ast.expr) -> None:
        """Add the target (left side) of an assignment to the control-flow graph: the names and elements stored to."""
        match node:
            case ast.Name():
                self.name_stored(node)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self.target(part)
            case ast.Starred(value=part):
                self.target(part)
            case _:
                self.expression(node)


def _nothing() -> None:
    """Do nothing, as one side of a branch."""
