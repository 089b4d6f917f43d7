"""What the names in a host function stand for, as far as all passes need it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from offloadrt.kernels.source import FunctionTree, Source


class Scope:
    """The names of one function while it is walked through.

    A pass for which a name means the same everywhere in a function leaves the methods that follow assignments as they
    are.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.names: dict[str, Any] = {}
        """What names stand for at this point of the walk."""

    @property
    def place(self) -> tuple[str, int]:
        """Return where the function is defined."""
        return self.source.file, self.source.tree.lineno

    def is_local(self, name: str) -> bool:
        """Tell a name of the function from one of the module around it."""
        return name in self.names

    def method(self, name: str) -> Any:
        """Look up the method that ``self.name`` is; None where that cannot be told."""
        return None

    def known(self, node: ast.expr) -> Any:
        """Look up the Python object that a dotted name stands for; None where the source does not tell."""
        match node:
            case ast.Name(id=name):
                return None if self.is_local(name) else self.source.names.get(name)
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                return self.method(name)
            case ast.Attribute(value=value, attr=name):
                return getattr(self.known(value), name, None)
        return None

    # following assignments

    @property
    def facts(self) -> int:
        """Count what holds in a whole function once it is known: a loop whose body adds to it is walked again."""
        return 0

    def define(self, tree: FunctionTree) -> None:
        """Let a name stand for a function that is defined here."""

    def assign(self, target: ast.expr, value: ast.expr) -> None:
        """Let a name, or each of several, stand for a value."""

    def unbind(self, names: Iterable[str], why: str) -> None:
        """Let names stand for one thing now and for another then."""

    def restore(self, names: Mapping[str, Any]) -> None:
        """Let the names be as they were."""
        self.meet([names])

    def meet(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Join the names of several paths where these meet."""

    def elements(self, node: ast.expr) -> Sequence[ast.expr]:
        """List what a loop goes through that is to be walked once for each element."""
        return ()


def parameters(tree: FunctionTree) -> list[str]:
    """List the names of all parameters."""
    given = tree.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return [parameter.arg for parameter in every if parameter is not None]


def positional(tree: FunctionTree) -> list[ast.arg]:
    """List the parameters by position, without ``self``."""
    given = [*tree.args.posonlyargs, *tree.args.args]
    return given[1:] if given and given[0].arg == "self" else given


def own_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Go through the nodes of a function, without those of functions and classes in it."""
    for child in ast.iter_child_nodes(tree):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            yield from own_nodes(child)


def assigned(nodes: Iterable[ast.AST]) -> list[str]:
    """List the names that are assigned to, without those of functions and comprehensions in there."""
    names: dict[str, None] = {}
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names[node.id] = None
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef | ast.comprehension):
            names.update(dict.fromkeys(assigned(ast.iter_child_nodes(node))))
    return list(names)


def outer_names(tree: FunctionTree) -> list[str]:
    """List the names of the functions around it, and of the module, that a function assigns to."""
    declared: list[str] = []
    inner: list[str] = []
    rest: list[ast.AST] = [*tree.body]
    while rest:
        node = rest.pop(0)
        if isinstance(node, ast.Nonlocal | ast.Global):
            declared += node.names
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inner += outer_names(node)
        else:
            rest += ast.iter_child_nodes(node)
    own = [*parameters(tree), *assigned(tree.body)]
    return [*declared, *(name for name in inner if name not in own)]
