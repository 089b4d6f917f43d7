"""What a compiler sees at once, and which functions it inlines: AdaptiveCpp forces that for those that call algorithms
themselves, one level deep (``SyncElisionInliningPass``).
"""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import Any

import attrs

from offloadrt.compilers.stdpar.standard_algorithms import ALGORITHMS
from offloadrt.kernels.source.function_source import FunctionTree, Source


@attrs.frozen
class TranslationUnit:
    """functions: those that are defined in it. inline: those that are inlined whatever they do."""

    functions: tuple[Callable[..., Any], ...]
    inline: tuple[Callable[..., Any], ...] = ()

    @classmethod
    def of(cls, function: Callable[..., Any], inline: Sequence[Callable[..., Any]] = ()) -> TranslationUnit:
        """The file that a function is in, as a C++ source file, and those that are inlined from others."""
        file = function.__code__.co_filename
        names = getattr(function, "__globals__", {}).values()
        beside = (one for one in _functions_of(names) if one.__code__.co_filename == file)
        return cls((function, *beside, *inline), tuple(inline))

    def inlined(self, called: Callable[..., Any]) -> bool:
        """Does the compiler inline this function of the program?"""
        code = called.__code__
        if any(one.__code__ is code for one in self.inline):
            return True
        tree = Source.of(called, "host function").tree if any(one.__code__ is code for one in self.functions) else None
        return tree is not None and calls_algorithms(tree, threads_of(tree))

    def method(self, name: str) -> Callable[..., Any] | None:
        """The method of that name, where only one class of the unit has one."""
        found = {one.__code__: one for one in self.functions if one.__qualname__.endswith(f".{name}")}
        return next(iter(found.values())) if len(found) == 1 else None


def _functions_of(values: Iterable[Any]) -> Iterator[types.FunctionType]:
    for value in values:
        if isinstance(value, types.FunctionType):
            yield value
        elif isinstance(value, type):
            yield from (one for one in vars(value).values() if isinstance(one, types.FunctionType))


def parameters(tree: FunctionTree) -> list[ast.arg]:
    """The parameters by position, without ``self``."""
    found = [*tree.args.posonlyargs, *tree.args.args]
    return found[1:] if found and found[0].arg == "self" else found


def threads_of(tree: FunctionTree) -> set[str]:
    """The parameters that are host threads: the first, and those whose annotation ends with ``Thread``."""
    found = parameters(tree)
    annotated = [one for one in found if one.annotation and ast.unparse(one.annotation).strip("'\"").endswith("Thread")]
    return {one.arg for one in (*found[:1], *annotated)}


def calls_algorithms(tree: FunctionTree, threads: Set[str]) -> bool:
    """Does a function itself call an algorithm on one of these threads?"""
    for node in own_nodes(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)):
                if name in threads and method in ALGORITHMS:
                    return True
    return False


def local_names(tree: FunctionTree) -> set[str]:
    """Parameters, and what is assigned to."""
    arguments = [one.arg for one in ast.walk(tree.args) if isinstance(one, ast.arg)]
    stored = [one.id for one in own_nodes(tree) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
    return {*arguments, *stored}


def own_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, without those of functions and classes in it."""
    for child in ast.iter_child_nodes(tree):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            yield from own_nodes(child)
