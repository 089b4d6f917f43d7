"""The walk through a host function that meets what matters to barriers, as a C++ compiler sees it.

An operation is an algorithm, an access, a call or an exit; which, is said in `memory_scope.py`. What only builds the
arguments of an algorithm is no access. Functions are inlined where the compiler does it, never into themselves.
``async with t.function()`` ends as a function does. Exceptions are not followed, as with ``noexcept``.
"""

from __future__ import annotations

import ast
import types

from offloadrt.compilers.host.host_walk import HostWalk
from offloadrt.compilers.stdpar.elision import Marker, Operation
from offloadrt.compilers.stdpar.memory_scope import METHODS, MemoryScope
from offloadrt.compilers.stdpar.standard_algorithms import ALGORITHMS
from offloadrt.compilers.stdpar.translation_unit import TranslationUnit
from offloadrt.kernels.source import Source, text


class BarrierWalk(HostWalk[Operation, MemoryScope]):
    """A graph of the operations of a host function, which is not inlined itself."""

    def __init__(self, source: Source, unit: TranslationUnit) -> None:
        self.unseen: set[Operation] = set()
        """Operations in plain Python, which a run does not see."""
        self.unresolved: dict[Operation, None] = {}
        """Algorithms that are taken from the thread, but called by another name, if at all."""
        self._builds_arguments = False
        """Whether arguments of an algorithm are being read."""
        super().__init__(MemoryScope.of(source, unit))

    def meet(self, marker: Marker | None, name: str, node: ast.AST, unseen: bool = True) -> None:
        """Put an operation on the path, unless it touches no memory."""
        if marker is not None:
            operation = self.operation(marker, name, node)
            if unseen:
                self.unseen.add(operation)
            self.emit(operation, node)

    def operation(self, marker: Marker, name: str, node: ast.AST) -> Operation:
        """Make an operation; what ends a block stands in the block's last line."""
        ends = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.With | ast.AsyncWith)
        line = getattr(node, "end_lineno" if ends else "lineno", 0)
        return Operation(marker, name, self.scope.source.file, line)

    def leaving(self, node: ast.AST) -> Operation:
        return self.operation(Marker.RETURN, self.scope.source.tree.name, node)

    def contexts_end(self, node: ast.With | ast.AsyncWith) -> None:
        """Meet the end of a ``with``: a call, where its beginning was one."""
        for item in reversed(node.items):
            context = item.context_expr
            method = self.scope.thread_method(context)
            if method == "function":
                self.meet(Marker.RETURN, text(context), node, unseen=False)
            elif method not in METHODS:
                self.meet(Marker.CALL, f"the end of with {text(context)}", node)

    def next_element(self, iterable: ast.expr, is_async: bool) -> None:
        if is_async:
            self.meet(Marker.CALL, text(iterable), iterable)
        elif isinstance(iterable, ast.Name | ast.Attribute | ast.Subscript):
            self._touch(iterable)

    def name_stored(self, node: ast.Name) -> None:
        if node.id in self.scope.shared:
            self.meet(Marker.HOST_ACCESS, node.id, node)

    def access(self, node: ast.expr) -> None:
        self._called_elsewhere(node)
        self._touch(node)

    def refer(self, node: ast.expr) -> None:
        if isinstance(node, ast.Lambda):
            self._called_elsewhere(node.body)
        elif isinstance(node, ast.Name) and node.id in self.scope.functions:
            self._called_elsewhere(self.scope.functions[node.id])

    def suspend(self, node: ast.expr) -> None:
        self.meet(Marker.CALL, text(node), node)

    def call(self, node: ast.Call) -> None:
        scope, builds_arguments = self.scope, self._builds_arguments
        if method := scope.thread_method(node):
            self._builds_arguments = builds_arguments or method in ALGORITHMS
            self.arguments(node)
            self._builds_arguments = builds_arguments
            first = "" if method in ALGORITHMS else f"({', '.join(map(text, node.args[:1]))})"
            self.meet(scope.method_marker(node, method), f"{method}{first}", node, unseen=False)
            return
        if isinstance(node.func, ast.Attribute) and not isinstance(
            scope.known(node.func.value), types.ModuleType | type
        ):
            self.expression(node.func.value)
        self.arguments(node)
        called = scope.inlines(node)
        if called is not None and (called.file, called.tree.lineno) not in self.active:
            self._builds_arguments = False
            self.inline(scope.inlined(called, node), node)
            self._builds_arguments = builds_arguments
        elif not scope.is_pure(node):
            self.meet(Marker.CALL, text(node.func), node)

    def _touch(self, node: ast.expr) -> None:
        """Meet that the host reads or writes what an expression names."""
        if not self._builds_arguments:
            self.meet(self.scope.access_marker(node), text(node), node)

    def _called_elsewhere(self, node: ast.AST) -> None:
        """Note the algorithms below `node`, which stands for code that is called elsewhere."""
        for part in ast.walk(node):
            if isinstance(part, ast.Attribute) and self.scope.is_algorithm(part):
                self.unresolved.setdefault(self.operation(Marker.ALGORITHM, text(part), part))
