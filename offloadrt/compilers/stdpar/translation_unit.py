"""What a compiler sees at once, and which functions it inlines.

AdaptiveCpp forces that for those that call algorithms themselves, one level deep (``SyncElisionInliningPass``).
"""

from __future__ import annotations

import ast
import enum
import types
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import Any, Final

import attrs

from offloadrt.compilers.host.flow import own_nodes, positional
from offloadrt.kernels.source import FunctionTree, Source, text


class ExecutionPolicy(enum.Enum):
    """The policies of ``std::execution``.

    `SEQ` runs in the calling thread, `PAR` on threads that make progress independently of one another, `PAR_UNSEQ` also
    vectorised, which is what a GPU does.
    """

    SEQ = "seq"
    PAR = "par"
    PAR_UNSEQ = "par_unseq"


seq: Final = ExecutionPolicy.SEQ
par: Final = ExecutionPolicy.PAR
par_unseq: Final = ExecutionPolicy.PAR_UNSEQ

VOID: Final = ("for_each", "for_each_n", "transform", "fill", "fill_n", "copy")
"""Algorithms that return nothing, or an iterator, which the host knows without them."""

RETURNING: Final = ("transform_reduce", "reduce", "any_of", "all_of", "none_of")
"""Algorithms that return what they have computed: the caller cannot go on before they have ended."""

ALGORITHMS: Final = (*VOID, *RETURNING)


@attrs.frozen
class TranslationUnit:
    """The functions that a compiler sees at once."""

    functions: tuple[Callable[..., Any], ...]
    inline: tuple[Callable[..., Any], ...] = ()
    """The functions that are inlined whatever they do."""

    @classmethod
    def of(cls, function: Callable[..., Any], inline: Sequence[Callable[..., Any]] = ()) -> TranslationUnit:
        """Take the file that a function is in as a C++ source file, and those that are inlined from others."""
        file = function.__code__.co_filename
        names = getattr(function, "__globals__", {}).values()
        beside = (other for other in _functions_of(names) if other.__code__.co_filename == file)
        return cls((function, *beside, *inline), tuple(inline))

    def inlined(self, called: Callable[..., Any]) -> bool:
        """Tell whether the compiler inlines this function of the program."""
        code = called.__code__
        if any(function.__code__ is code for function in self.inline):
            return True
        if not any(function.__code__ is code for function in self.functions):
            return False
        tree = Source.of(called, "host function").tree
        return calls_algorithms(tree, threads_of(tree))

    def method(self, name: str) -> Callable[..., Any] | None:
        """Look up the method of that name, where only one class of the unit has one."""
        methods = {method.__code__: method for method in self.functions if method.__qualname__.endswith(f".{name}")}
        return next(iter(methods.values())) if len(methods) == 1 else None


def _functions_of(values: Iterable[Any]) -> Iterator[types.FunctionType]:
    for value in values:
        if isinstance(value, types.FunctionType):
            yield value
        elif isinstance(value, type):
            yield from (method for method in vars(value).values() if isinstance(method, types.FunctionType))


def threads_of(tree: FunctionTree) -> set[str]:
    """List the parameters that are host threads: the first, and those whose annotation ends with ``Thread``."""
    given = positional(tree)
    annotated = [
        parameter
        for parameter in given
        if parameter.annotation and text(parameter.annotation).strip("'\"").endswith("Thread")
    ]
    return {parameter.arg for parameter in (*given[:1], *annotated)}


def method_of(node: ast.AST, threads: Set[str]) -> str:
    """Name the method that is called on one of these threads; nothing for other expressions."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if name in threads:
            return method
    return ""


def calls_algorithms(tree: FunctionTree, threads: Set[str]) -> bool:
    """Tell whether a function itself calls an algorithm on one of these threads."""
    return any(method_of(node, threads) in ALGORITHMS for node in own_nodes(tree))
