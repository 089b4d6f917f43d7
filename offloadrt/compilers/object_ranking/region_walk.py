"""The walk through a host function that meets its target regions, in it and in the functions that it calls."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import Any

from offloadrt.compilers.host.host_walk import HostWalk
from offloadrt.compilers.object_ranking.object_scope import (
    MAKES_OBJECTS,
    Ambiguous,
    DataUpdate,
    HostFunction,
    ObjectScope,
    TargetConstruct,
)
from offloadrt.kernels.kernel import Kernel
from offloadrt.kernels.source import Source, text


class RegionWalk(HostWalk[TargetConstruct, ObjectScope]):
    """A graph whose operations are the target regions that a host function runs.

    `owner` is the class that it is a method of, None for other functions.
    """

    def __init__(self, source: Source, owner: Any, kernels: Mapping[str, Kernel]) -> None:
        super().__init__(ObjectScope(source, owner, kernels).inside(HostFunction(source, {}), {}))

    @property
    def objects(self) -> Iterable[str]:
        """Return the objects, in the order in which the program makes or names them."""
        return self.scope.objects

    def call(self, node: ast.Call) -> None:
        scope = self.scope
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        self.arguments(node)
        if method == "target" and node.args:
            self.emit(scope.construct(node), node)
            return
        if method == "run" and node.args and isinstance(step := self.running(node.args[0]), TargetConstruct):
            self.emit(step, node)
            return
        if method in MAKES_OBJECTS:
            scope.made(node)
        called = self.running(node.func)
        if isinstance(called, HostFunction):
            self.enter(called, scope.arguments(called, node), node)
            return
        if isinstance(node.func, ast.Attribute):
            self.expression(node.func.value)
            if method == "run" and node.args and self.may_be_thread(node.func.value):
                self.refuse_unknown(node.args[0])
        if self.reads_only(node.func):
            return
        for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
            handed = self.running(argument)
            if isinstance(handed, HostFunction):
                self.enter(handed, {}, argument)

    def enter(self, function: HostFunction, arguments: Mapping[str, Any], at: ast.AST) -> None:
        """Walk through a function of the program where it is called; not if it calls itself."""
        if (function.source.file, function.source.tree.lineno) not in self.active:
            self.inline(self.scope.inside(function, arguments), at)

    def running(self, node: ast.expr) -> Any:
        """Tell what it is that is run here. Refuses what may be one function or region or another."""
        meaning = self.scope.meaning(node)
        if isinstance(meaning, Ambiguous) and meaning.runs:
            self.scope.source.refuse(
                node, f"what runs here cannot be told ({meaning.why})", "write an if around the two calls"
            )
        return meaning

    def may_be_thread(self, node: ast.expr) -> bool:
        """Tell whether it is a parameter of which nothing is known."""
        parameters = {parameter.arg for parameter in self.scope.source.parameters}
        return isinstance(node, ast.Name) and node.id in parameters and self.scope.known(node) is None

    def refuse_unknown(self, node: ast.expr) -> None:
        """Refuse a ``t.run(step)`` whose region is not known; `step` may be a function, that another thing runs."""
        named = isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call)
        if named and not isinstance(self.scope.meaning(node), HostFunction | DataUpdate):
            self.scope.source.refuse(
                node,
                f"which region {text(node)} is cannot be told",
                "write step = t.construct_target(kernel, ...) in this function, and t.run(step)",
            )

    def reads_only(self, called: ast.expr) -> bool:
        """Tell whether it is `HostProgram.of`, which does not call the function that it is given."""
        if not (isinstance(called, ast.Attribute) and called.attr == "of"):
            return False
        written = text(called.value).rpartition(".")[2]
        return "HostProgram" in (written, getattr(self.scope.known(called.value), "__name__", None))
