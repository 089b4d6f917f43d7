"""What the names and calls in a host function, which is written in Python, are to a C++ compiler.

- ``t.for_each(par_unseq, ...)`` is an algorithm, where ``t`` is the host thread: the function's first parameter, or one
  whose annotation ends with ``Thread``. With the policy ``seq`` it is one on the host;
- what other methods of the thread are is in `METHODS`; those that are not there are calls;
- a local variable that only ever is what ``t.stack_array`` gives, or a list, tuple, set or dictionary that is written
  out, is an object of the stack. Its elements and attributes are on the stack; what those point to is not;
- other elements ``a[i]`` and attributes ``a.n`` are memory of the heap. No memory at all are local variables (they are
  in registers), the thread's own attributes, modules, classes, and the numbers and functions in them;
- calls of the functions in `PURE` and of the module ``math`` are instructions; others are calls, but for those that are
  inlined (`TranslationUnit`).
"""

from __future__ import annotations

import ast
import enum
import types
from collections.abc import Mapping, Set
from typing import Any, Final

import attrs

from offloadrt.compilers.host.scope import Scope, own_nodes, parameters, positional
from offloadrt.compilers.stdpar.elision import Marker
from offloadrt.compilers.stdpar.standard_algorithms import ALGORITHMS, RETURNING, ExecutionPolicy
from offloadrt.compilers.stdpar.translation_unit import TranslationUnit, calls_algorithms, method_of, threads_of
from offloadrt.kernels.source.function_source import FunctionTree, Source, text

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


class MemoryScope(Scope):
    """One function: which of its names are threads, objects of the stack, and variables of any kind.

    As in C++, a variable is the same thing wherever in the function it stands.
    """

    def __init__(self, source: Source, unit: TranslationUnit, threads: Set[str], stack: Set[str] = frozenset()) -> None:
        super().__init__(source)
        self.unit, self.threads = unit, threads
        self.stack = stack | _stack_objects(source.tree, threads)
        self.variables = {*parameters(source.tree), *_stored(source.tree)}
        self.functions: dict[str, FunctionTree] = {}
        """Those that are defined in it, by name."""
        declarations = [node for node in own_nodes(source.tree) if isinstance(node, ast.Global | ast.Nonlocal)]
        self.shared = {name for node in declarations for name in node.names}
        """Names declared global or nonlocal."""

    @classmethod
    def of(cls, source: Source, unit: TranslationUnit) -> MemoryScope:
        """Make the scope of a function that is not inlined."""
        return cls(source, unit, threads_of(source.tree) - _stored(source.tree))

    def inlined(self, source: Source, call: ast.Call) -> MemoryScope:
        """Make the scope of a function that is inlined here in the place of its call."""
        tree = source.tree
        given = [*zip((parameter.arg for parameter in positional(tree)), call.args, strict=False)]
        given += [(keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg is not None]
        stored = _stored(tree)
        means = {name: value.id for name, value in given if isinstance(value, ast.Name) and name not in stored}
        threads = {name for name, value in means.items() if value in self.threads}
        stack = {name for name, value in means.items() if value in self.stack}
        if tree not in self.functions.values():
            return MemoryScope(source, self.unit, threads, stack)
        own = {*parameters(tree), *stored}
        inner = MemoryScope(source, self.unit, threads | (self.threads - own), stack | (self.stack - own))
        inner.variables |= self.variables
        inner.functions.update(self.functions)
        return inner

    def define(self, tree: FunctionTree) -> None:
        self.functions[tree.name] = tree

    def is_local(self, name: str) -> bool:
        return name in self.variables

    def method(self, name: str) -> Any:
        return self.unit.method(name)

    def thread_method(self, node: ast.expr) -> str:
        """Name the method that is called on a thread; nothing for other expressions."""
        return method_of(node, self.threads)

    def is_algorithm(self, node: ast.Attribute) -> bool:
        """Tell whether it is an algorithm of a thread."""
        return isinstance(node.value, ast.Name) and node.value.id in self.threads and node.attr in ALGORITHMS

    def access_marker(self, node: ast.expr) -> Marker | None:
        """Say what it is to read or write a name, element or attribute; None where that is no memory."""
        base, depth = node, 0
        while isinstance(base, ast.Subscript | ast.Attribute):
            base, depth = base.value, depth + 1
        name = base.id if isinstance(base, ast.Name) else ""
        if name in self.threads or isinstance(self.known(node), _CONSTANT):
            return None
        on_stack = depth <= 1 and (name in self.stack or isinstance(base, _DISPLAYS))
        return Marker.STACK_ACCESS if on_stack else Marker.HOST_ACCESS

    def method_marker(self, call: ast.Call, name: str) -> Marker | None:
        """Say what a call of a thread's method is; None for one that touches no memory."""
        if name not in ALGORITHMS:
            marker = METHODS.get(name, Marker.CALL)
            return self.access_marker(call.args[0]) if marker is Marker.HOST_ACCESS and call.args else marker
        policy = call.args[0] if call.args else ast.Constant(None)
        if self.known(policy) is ExecutionPolicy.SEQ or text(policy).rpartition(".")[2] in ("seq", "SEQ"):
            return Marker.HOST_ALGORITHM
        return Marker.RETURNING if name in RETURNING else Marker.ALGORITHM

    def is_pure(self, call: ast.Call) -> bool:
        """Tell whether a call is an instruction."""
        called = self.known(call.func)
        return getattr(called, "__module__", None) == "math" or any(called is builtin for builtin in PURE)

    def inlines(self, call: ast.Call) -> Source | None:
        """Look up the function whose call the compiler replaces by its body."""
        if isinstance(call.func, ast.Name) and (tree := self.functions.get(call.func.id)) is not None:
            direct = calls_algorithms(tree, self.threads | threads_of(tree))
            return attrs.evolve(self.source, tree=tree) if direct else None
        called = self.known(call.func)
        if isinstance(called, types.FunctionType) and self.unit.inlined(called):
            return Source.of(called, "host function")
        return None


def _stored(tree: FunctionTree) -> set[str]:
    """List the names that are assigned to."""
    return {node.id for node in own_nodes(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _stack_objects(tree: FunctionTree, threads: Set[str]) -> set[str]:
    """List the variables of which every value is an object of the stack."""
    every: dict[str, list[bool]] = {}
    on_stack = set[int]()
    for node in own_nodes(tree):
        if isinstance(node, ast.Assign):
            value = node.value.value if isinstance(node.value, ast.Await) else node.value
            if isinstance(value, _DISPLAYS) or method_of(value, threads) == "stack_array":
                on_stack.update(id(target) for target in node.targets)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            every.setdefault(node.id, []).append(id(node) in on_stack)
    return {name for name, values in every.items() if all(values) and name not in parameters(tree)}
