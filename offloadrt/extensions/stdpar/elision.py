"""Synchronization elision: decides which barriers behind offloaded algorithms stay, from what a host thread does.

A parallel algorithm of C++ has ended when it returns, so a barrier stands behind each offloaded one. AdaptiveCpp's
compiler delays the barrier past operations that cannot see the algorithm's results. It drops the barrier where another
algorithm follows, because that one has a barrier of its own. A *window* reaches from an algorithm to the operation
before which the thread must wait (``SyncElision.cpp``, ``doc/stdpar.md``). These operations end it:

- a load or store of the host; one of the stack does not, unless the device can reach the stack (system USM). A load
  that only builds the arguments of an algorithm does not count;
- any call that is not of an algorithm and not inlined, malloc and free included;
- the exit of the function;
- an algorithm that returns a value: it waits itself, for everything before it as well.

`Window` takes the operations of a run as they come, `windows` takes a recorded list. `ElisionPass` makes the same
decisions from the source of a host function, without a run.

A translation unit is what a compiler sees at once. AdaptiveCpp forces the inlining of its functions that call
algorithms themselves, one level deep (``SyncElisionInliningPass``).
"""

from __future__ import annotations

import ast
import enum
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import PurePath
from typing import Any, Final

import attrs

from offloadrt.extensions.host_functions.flow import Node, Scope, nodes_of, own_nodes, parameters, positional
from offloadrt.extensions.host_functions.host_walk import HostWalk
from offloadrt.kernels import KernelError
from offloadrt.kernels.source import FunctionTree, Source, text


class ExecutionPolicy(enum.Enum):
    """The execution policies of C++'s ``std::execution``.

    `SEQ` runs in the calling thread, `PAR` on threads that make progress independently of one another, `PAR_UNSEQ` also
    vectorised, which is what a GPU does.
    """

    SEQ = "seq"
    PAR = "par"
    PAR_UNSEQ = "par_unseq"


seq: Final = ExecutionPolicy.SEQ
par: Final = ExecutionPolicy.PAR
par_unseq: Final = ExecutionPolicy.PAR_UNSEQ

VOID: Final = (
    "for_each", "for_each_n", "transform", "fill", "fill_n", "copy", "copy_n", "copy_if", "move", "generate",
    "generate_n", "replace", "replace_if", "replace_copy", "replace_copy_if", "sort", "stable_sort", "merge", "reverse",
    "reverse_copy", "swap_ranges", "adjacent_difference", "inclusive_scan", "exclusive_scan",
    "transform_inclusive_scan", "transform_exclusive_scan",
)  # fmt: skip
"""Algorithms that return nothing, or an iterator that the host can compute without waiting. ``copy_if`` is among them,
because AdaptiveCpp treats its returned end so as well (`algorithm.hpp`).
"""

RETURNING: Final = (
    "transform_reduce", "reduce", "any_of", "all_of", "none_of", "find", "find_if", "find_if_not", "count", "count_if",
    "equal", "mismatch", "adjacent_find", "is_sorted", "is_sorted_until", "is_partitioned", "min_element",
    "max_element", "minmax_element",
)  # fmt: skip
"""Algorithms that return what they have computed: the caller cannot go on before they have ended."""

ALGORITHMS: Final = (*VOID, *RETURNING)


@attrs.frozen
class TranslationUnit:
    """The functions that a compiler sees at once, because they are in one source file or inlined into it."""

    functions: tuple[Callable[..., Any], ...]
    inline: tuple[Callable[..., Any], ...] = ()
    """The functions that are inlined whatever they do."""

    @classmethod
    def of(cls, function: Callable[..., Any], inline: Sequence[Callable[..., Any]] = ()) -> TranslationUnit:
        """Make a translation unit of the file that defines `function`, as if it were a C++ source file.

        inline: functions of other files that the compiler inlines into this one.
        """
        file = function.__code__.co_filename
        names = getattr(function, "__globals__", {}).values()
        beside = (other for other in _functions_of(names) if other.__code__.co_filename == file)
        return cls((function, *beside, *inline), tuple(inline))

    def inlined(self, called: Callable[..., Any]) -> bool:
        """Tell whether the compiler inlines a function.

        It inlines those in `inline`, and those of the unit that call an algorithm themselves. called: the function.
        """
        code = called.__code__
        if any(function.__code__ is code for function in self.inline):
            return True
        if not any(function.__code__ is code for function in self.functions):
            return False
        tree = Source.of(called, "host function").tree
        return calls_algorithms(tree, threads_of(tree))

    def method(self, name: str) -> Callable[..., Any] | None:
        """Return the only method of that name in the unit; None if no class or more than one has such a method."""
        methods = {method.__code__: method for method in self.functions if method.__qualname__.endswith(f".{name}")}
        return next(iter(methods.values())) if len(methods) == 1 else None


def _functions_of(values: Iterable[Any]) -> Iterator[types.FunctionType]:
    for value in values:
        if isinstance(value, types.FunctionType):
            yield value
        elif isinstance(value, type):
            yield from (method for method in vars(value).values() if isinstance(method, types.FunctionType))


def threads_of(tree: FunctionTree) -> set[str]:
    """Return the names of a function's parameters that are host threads: the first, and those annotated ``…Thread``.

    tree: the function's syntax tree.
    """
    given = positional(tree)
    annotated = [
        parameter
        for parameter in given
        if parameter.annotation and text(parameter.annotation).strip("'\"").endswith("Thread")
    ]
    return {parameter.arg for parameter in (*given[:1], *annotated)}


def method_of(node: ast.AST, threads: Set[str]) -> str:
    """Return the method's name, if the expression is a method call on one of `threads`; else an empty text."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if name in threads:
            return method
    return ""


def calls_algorithms(tree: FunctionTree, threads: Set[str]) -> bool:
    """Tell whether a function itself, not one that it calls, calls an algorithm on one of `threads`."""
    return any(method_of(node, threads) in ALGORITHMS for node in own_nodes(tree))


class Marker(enum.Enum):
    """The kinds of host operations that decide whether the host must wait right after an offloaded algorithm.

    That wait is the algorithm's barrier; the compiler elides it where it can. HOST_ALGORITHM: an algorithm that is not
    offloaded. CALL: the call of a function that is not inlined. RETURN: the end of a function that is not inlined.
    RETURNING: an offloaded algorithm that returns a value, so that the host needs it at once. STACK_ACCESS: an access
    to the stack of the function.
    """

    ALGORITHM = "algorithm"
    RETURNING = "algorithm that returns a value"
    HOST_ALGORITHM = "algorithm on the host"
    HOST_ACCESS = "host access"
    STACK_ACCESS = "stack access"
    CALL = "call"
    ALLOCATION = "malloc or free"
    RETURN = "return"


class Reason(enum.Enum):
    """Why a barrier (the host's wait after an offloaded algorithm) is kept; each value says the reason in words."""

    ACCESS = "the host loads or stores"
    STACK = "the host accesses the stack, which the device can reach (system USM)"
    CALL = "a function is called that is not inlined"
    ALLOCATION = "memory is allocated or freed, a call as any other"
    EXIT = "the function ends"
    VALUE = "it returns a value"
    HOST = "an algorithm runs on the host"
    OFF = "elision is switched off"


_STOPS = {
    Marker.HOST_ALGORITHM: Reason.HOST,
    Marker.HOST_ACCESS: Reason.ACCESS,
    Marker.CALL: Reason.CALL,
    Marker.ALLOCATION: Reason.ALLOCATION,
    Marker.RETURN: Reason.EXIT,
}


def stops(marker: Marker, system_usm: bool = False) -> Reason | None:
    """Return why a thread must wait for its offloaded algorithms before an operation of this kind; None if it need not.

    It need not wait before another offloaded algorithm, nor where the barrier (the wait) can be delayed past the
    operation. system_usm: whether the device can use all host memory. marker: the kind.
    """
    if marker is Marker.STACK_ACCESS and system_usm:
        return Reason.STACK
    return _STOPS.get(marker)


@attrs.frozen
class Operation:
    """One operation of a host thread: an algorithm, a call, or an access to memory.

    name: the algorithm, the function called or the object accessed. marker: its kind. file, line: its place in the
    program.
    """

    marker: Marker
    name: str = ""
    file: str = ""
    line: int = 0

    @property
    def place(self) -> str:
        """Return the source line of the operation, as ``FILE:LINE`` without folders, or as much as is known."""
        return f"{PurePath(self.file).name}:{self.line}" if self.file else f"line {self.line}" if self.line else "?"

    def __str__(self) -> str:
        return f"{self.name or self.marker.value} ({self.place})"


@attrs.frozen
class Elided:
    """The decision that a thread does not wait after an algorithm, because it will wait after a later one for both.

    algorithm: the algorithm without a barrier. by: the later one.
    """

    algorithm: Operation
    by: Operation

    def __str__(self) -> str:
        return f"elided, up to {self.by}"


@attrs.frozen
class Kept:
    """The decision that a thread waits for an algorithm and for all algorithms before it.

    at: the operation at which it waits: before that operation, or after it if `at` is the algorithm itself. reason: why
    it does not wait later.
    """

    algorithm: Operation
    reason: Reason
    at: Operation

    @property
    def line(self) -> int:
        return self.at.line

    def __str__(self) -> str:
        where = "" if self.at == self.algorithm else f": {self.at}"
        return f"kept, {self.reason.value}{where}"


@attrs.frozen
class Endless:
    """The decision that the host never waits for `algorithm`, because an endless loop follows the algorithm.

    No path from the algorithm reaches the end of the function, another algorithm, or an operation before which the host
    would have to wait.
    """

    algorithm: Operation

    def __str__(self) -> str:
        return "none, nothing follows: an endless loop"


Decision = Elided | Kept | Endless


@attrs.define
class Window:
    """Decides, while one host thread runs, where it waits for its offloaded algorithms.

    A window is the time from a thread's first offloaded algorithm to the thread's wait (barrier). This object remembers
    whether an algorithm is in flight. elision: whether barriers are elided; if not, the thread waits after each one.
    system_usm: whether the device can use all host memory.
    """

    elision: bool = True
    system_usm: bool = False
    _open: Operation | None = None
    """The last offloaded algorithm, while the thread has not waited for it."""

    def meets(self, operation: Operation) -> tuple[Decision, ...]:
        """Return the decisions about barriers (waits for algorithms) that are made when the thread comes to this point.

        operation: what the thread is about to do. If a `Kept` is among the decisions, the thread waits: after the
        operation if that is an offloaded algorithm, else before it.
        """
        last = self._open
        if operation.marker not in (Marker.ALGORITHM, Marker.RETURNING):
            reason = stops(operation.marker, self.system_usm)
            if last is None or reason is None:
                return ()
            self._open = None
            return (Kept(last, reason, operation),)
        before: tuple[Decision, ...] = () if last is None else (Elided(last, operation),)
        self._open = None
        if operation.marker is Marker.RETURNING:
            return (*before, Kept(operation, Reason.VALUE, operation))
        if not self.elision:
            return (*before, Kept(operation, Reason.OFF, operation))
        self._open = operation
        return before


def windows(operations: Iterable[Operation], elision: bool = True, system_usm: bool = False) -> list[Decision]:
    """Decide for each offloaded algorithm in a list of operations whether the host waits after it.

    operations: what one host function did, in order; the end of the list is the end of the function. Returns the
    decisions in the order in which they are made. elision: whether waits are elided at all. system_usm: whether the
    device can use all host memory.
    """
    window = Window(elision, system_usm)
    decisions = [decision for operation in operations for decision in window.meets(operation)]
    return [*decisions, *window.meets(Operation(Marker.RETURN))]


def table(decisions: Iterable[Decision]) -> str:
    """Return a table that says, by source line, how often the barrier after an algorithm stayed or was elided, and why.

    A barrier is the host's wait for the algorithm. The lines come in the order of their first decision.
    """
    counts: dict[tuple[str, str, str], int] = {}
    for decision in decisions:
        row = (decision.algorithm.place, decision.algorithm.name, str(decision))
        counts[row] = counts.get(row, 0) + 1
    head = ("where", "algorithm", "times", "barrier")
    rows = [head, *((place, name, f"{times}", what) for (place, name, what), times in counts.items())]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        f"{place:<{widths[0]}}  {name:<{widths[1]}}  {times:>{widths[2]}}  {what}" for place, name, times, what in rows
    )


METHODS: Final[Mapping[str, Marker | None]] = {
    **dict.fromkeys(("stack_array", "compute", "function", "interposition_disabled")),
    **dict.fromkeys(("read", "write", "host_access"), Marker.HOST_ACCESS),
    **dict.fromkeys(("malloc", "calloc", "realloc", "aligned_alloc", "foreign_malloc"), Marker.ALLOCATION),
    **dict.fromkeys(("new", "new_array", "delete", "free", "foreign_free"), Marker.ALLOCATION),
}
"""The kind of operation that each method of a host thread is; None for methods that touch no memory. A method that is
not listed is a call.
"""

PURE: Final = (
    *(abs, bool, complex, divmod, enumerate, float, int, isinstance, len, max, min, pow, range, reversed, round, zip),
)
"""Built-in functions that a compiler turns into instructions, so that they are no calls."""

_CONSTANT = (
    *(types.ModuleType, type, types.FunctionType, types.BuiltinFunctionType),
    *(int, float, complex, str, bytes, enum.Enum),
)
_DISPLAYS = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp)


class MemoryScope(Scope):
    """Tells what the names in one host function mean: host threads, objects on the stack, or other variables.

    As in C++, a name means the same variable everywhere in the function.
    """

    def __init__(self, source: Source, unit: TranslationUnit, threads: Set[str], stack: Set[str] = frozenset()) -> None:
        super().__init__(source)
        self.unit, self.threads = unit, threads
        self.stack = stack | _stack_objects(source.tree, threads)
        self.variables = {*parameters(source.tree), *_stored(source.tree)}
        self.functions: dict[str, FunctionTree] = {}
        """The functions that are defined inside this one, by name."""
        declarations = [node for node in own_nodes(source.tree) if isinstance(node, ast.Global | ast.Nonlocal)]
        self.shared = {name for node in declarations for name in node.names}
        """Names declared global or nonlocal."""

    @classmethod
    def of(cls, source: Source, unit: TranslationUnit) -> MemoryScope:
        """Make the scope of a function that is not inlined. unit: what the compiler sees."""
        return cls(source, unit, threads_of(source.tree) - _stored(source.tree))

    def inlined(self, source: Source, call: ast.Call) -> MemoryScope:
        """Make the scope of a function with this source whose body the compiler inlines at a call."""
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
        """Return the method's name, if the expression is a method call on a host thread; else an empty text."""
        return method_of(node, self.threads)

    def is_algorithm(self, node: ast.Attribute) -> bool:
        """Tell whether the expression names an algorithm of a host thread, as ``t.fill`` does."""
        return isinstance(node.value, ast.Name) and node.value.id in self.threads and node.attr in ALGORITHMS

    def access_marker(self, node: ast.expr) -> Marker | None:
        """Return as which kind of operation a read or write of `node` counts, to decide where the host waits.

        node: a name, an element or an attribute. Returns None where it touches no memory.
        """
        base, depth = node, 0
        while isinstance(base, ast.Subscript | ast.Attribute):
            base, depth = base.value, depth + 1
        name = base.id if isinstance(base, ast.Name) else ""
        if name in self.threads or isinstance(self.known(node), _CONSTANT):
            return None
        on_stack = depth <= 1 and (name in self.stack or isinstance(base, _DISPLAYS))
        return Marker.STACK_ACCESS if on_stack else Marker.HOST_ACCESS

    def method_marker(self, call: ast.Call, name: str) -> Marker | None:
        """Return as which kind of operation a call of a thread's method counts, to decide where the host waits.

        name: the method's name. Returns None if the call touches no memory.
        """
        if name not in ALGORITHMS:
            marker = METHODS.get(name, Marker.CALL)
            return self.access_marker(call.args[0]) if marker is Marker.HOST_ACCESS and call.args else marker
        policy = call.args[0] if call.args else ast.Constant(None)
        if self.known(policy) is ExecutionPolicy.SEQ or text(policy).rpartition(".")[2] in ("seq", "SEQ"):
            return Marker.HOST_ALGORITHM
        return Marker.RETURNING if name in RETURNING else Marker.ALGORITHM

    def is_pure(self, call: ast.Call) -> bool:
        """Tell whether a call becomes plain instructions: a function of ``math`` or one of `PURE`."""
        called = self.known(call.func)
        return getattr(called, "__module__", None) == "math" or any(called is builtin for builtin in PURE)

    def inlines(self, call: ast.Call) -> Source | None:
        """Return the source of the function that is inlined at a call; None where the call is not inlined."""
        if isinstance(call.func, ast.Name) and (tree := self.functions.get(call.func.id)) is not None:
            direct = calls_algorithms(tree, self.threads | threads_of(tree))
            return attrs.evolve(self.source, tree=tree) if direct else None
        called = self.known(call.func)
        if isinstance(called, types.FunctionType) and self.unit.inlined(called):
            return Source.of(called, "host function")
        return None


def _stored(tree: FunctionTree) -> set[str]:
    """Return the names that a function assigns to."""
    return {node.id for node in own_nodes(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _stack_objects(tree: FunctionTree, threads: Set[str]) -> set[str]:
    """Return the names of the local variables that only ever hold objects of the stack."""
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


class BarrierWalk(HostWalk[Operation, MemoryScope]):
    """Builds the control-flow graph of a host function, to find where the host waits for its offloaded algorithms.

    Such a wait is a barrier. The graph's nodes are the algorithms, and the operations before which a barrier may be
    needed: calls, accesses to memory, returns. The function is one that the compiler inlines nowhere; the bodies of
    functions that the compiler inlines into it belong to the graph. source: the function. unit: what the compiler sees
    at once.
    """

    def __init__(self, source: Source, unit: TranslationUnit) -> None:
        self.unseen: set[Operation] = set()
        """Operations that are plain Python, so that the emulator does not notice them when the program runs."""
        self.unresolved: dict[Operation, None] = {}
        """Algorithms that are named but not called in place, as in ``f = t.fill``. Whether they ever run is not known.
        """
        self._builds_arguments = False
        """Whether the walk is inside the arguments of an algorithm, where reads do not count."""
        super().__init__(MemoryScope.of(source, unit))

    def meet(self, marker: Marker | None, name: str, node: ast.AST, unseen: bool = True) -> None:
        """Append an operation to the path through the function; do nothing if `marker` is None.

        marker: the kind of operation. name: what is called or accessed. node: its expression or statement in the
        source. unseen: whether it is plain Python, so that the emulator does not notice it when the program runs.
        """
        if marker is not None:
            operation = self.operation(marker, name, node)
            if unseen:
                self.unseen.add(operation)
            self.emit(operation, node)

    def operation(self, marker: Marker, name: str, node: ast.AST) -> Operation:
        """Make an operation for a node of the source.

        marker: the kind of operation. name: what is called or accessed. The operation has the line of the node; for the
        end of a function or ``with`` this is the block's last line.
        """
        ends = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.With | ast.AsyncWith)
        line = getattr(node, "end_lineno" if ends else "lineno", 0)
        return Operation(marker, name, self.scope.source.file, line)

    def leaving(self, node: ast.AST) -> Operation:
        return self.operation(Marker.RETURN, self.scope.source.tree.name, node)

    def contexts_end(self, node: ast.With | ast.AsyncWith) -> None:
        """Append the operation that the end of a ``with`` block stands for, to the path through the function.

        The end of ``with t.function()`` stands for a return. Any other ``with`` whose begin is a call also ends with a
        call.
        """
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
        """Append the host's access to what an expression names, unless it only builds an algorithm's arguments."""
        if not self._builds_arguments:
            self.meet(self.scope.access_marker(node), text(node), node)

    def _called_elsewhere(self, node: ast.AST) -> None:
        """Add the algorithms named below `node` to `unresolved`: that code is called elsewhere, if at all."""
        for part in ast.walk(node):
            if isinstance(part, ast.Attribute) and self.scope.is_algorithm(part):
                self.unresolved.setdefault(self.operation(Marker.ALGORITHM, text(part), part))


_OFFLOADED = (Marker.ALGORITHM, Marker.RETURNING)


@attrs.frozen
class CallSite:
    """A source line where an algorithm is called, with the operations before which the host has to wait for it.

    stops: the first such operation on each path through the source after the call. A function that is inlined several
    times has a call site for each time.
    """

    algorithm: Operation
    stops: tuple[Kept, ...] = ()
    followed_by: tuple[Operation, ...] = ()
    """The other algorithms that paths meet before anything that needs a barrier."""

    @property
    def decision(self) -> Decision:
        """Return whether the host waits for the algorithm called here (its barrier), and the first reason why.

        Returns `Elided` where no path needs a barrier, and `Endless` where no path meets any operation that counts.
        """
        if self.stops:
            return self.stops[0]
        return Elided(self.algorithm, self.followed_by[0]) if self.followed_by else Endless(self.algorithm)


@attrs.frozen
class ElisionPass:
    """Decides from a host function's source after which of its algorithms the host waits (a barrier), and where.

    `calls` are the calls of algorithms, each with the decision about it.
    """

    function: str
    calls: tuple[CallSite, ...]
    barriers: tuple[Operation, ...]
    """The operations that end a window, each once, in the order of the source: a thread waits before them."""
    unseen: tuple[Operation, ...]
    """Those of `barriers` that are plain Python. The emulator does not notice these when the program runs, and does not
    wait there: the program has to say ``t.external`` or ``t.host_access``.
    """
    unresolved: tuple[Operation, ...] = ()
    """Algorithms that are not called in place, as in ``f = t.fill``, or that are named in a function which is not
    inlined. They are not in `calls`.
    """

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        unit: TranslationUnit | None = None,
        *,
        inline: Sequence[Callable[..., Any]] = (),
        elision: bool = True,
        system_usm: bool = False,
    ) -> ElisionPass:
        """Decide which barriers of a host function stay, from the function's source.

        unit: what the compiler sees, by default the function's own file. inline: functions of other files that are
        inlined too, where `unit` is not given. elision: False keeps all barriers. system_usm: whether the device can
        use all host memory. Raises KernelError when a source cannot be read.
        """
        return cls.of_source(
            Source.of(function, "host function"), unit or TranslationUnit.of(function, inline), elision, system_usm
        )

    @classmethod
    def of_source(
        cls, source: Source, unit: TranslationUnit, elision: bool = True, system_usm: bool = False
    ) -> ElisionPass:
        """Decide which barriers of a host function stay, for a source that has been read.

        unit: what the compiler sees. elision: False keeps all barriers. system_usm: whether the device can use all host
        memory.
        """
        walk = BarrierWalk(source, unit)
        reachable = _reachable(walk.entry)
        operations = [(node, met) for node in nodes_of(walk.pieces) if (met := node.operation) is not None]
        calls = tuple(
            _call_site(node, met, elision, system_usm)
            for node, met in operations
            if met.marker in _OFFLOADED and node in reachable
        )
        stopping = {kept.at for call in calls for kept in call.stops if kept.at != call.algorithm}
        barriers = tuple(dict.fromkeys(met for _, met in operations if met in stopping))
        return cls(
            source.tree.name,
            calls,
            barriers,
            tuple(barrier for barrier in barriers if barrier in walk.unseen),
            tuple(walk.unresolved),
        )

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """Return the decision for each call of an algorithm, in the order of the source."""
        return tuple(call.decision for call in self.calls)

    @property
    def elided(self) -> int:
        """Return the number of calls of algorithms after which the host does not wait (the barrier is elided)."""
        return sum(isinstance(decision, Elided) for decision in self.decisions)

    def __str__(self) -> str:
        """Return a table with every reason of every call, and the operations that a run would miss."""
        rows: list[Decision] = []
        for call in self.calls:
            rows += [*call.stops, *(Elided(call.algorithm, by) for by in call.followed_by)] or [call.decision]
        lines = [f"{self.function}: {self.elided} of {len(self.calls)} barriers elided", table(rows)]
        if self.unseen:
            lines.append("a run does not see: " + ", ".join(map(str, self.unseen)))
        if self.unresolved:
            lines.append("called by another name: " + ", ".join(map(str, self.unresolved)))
        return "\n".join(lines)


def _reachable(entry: Node[Operation]) -> set[Node[Operation]]:
    """Return the nodes that can be reached without an exception, which the compiler takes for the program's end."""
    seen: set[Node[Operation]] = set()
    waiting = [entry]
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting.extend([] if node.raises else node.next)
    return seen


def _call_site(node: Node[Operation], algorithm: Operation, elision: bool, system_usm: bool) -> CallSite:
    """Follow all paths from the call of an algorithm to the first operation on each that matters to its barrier."""
    if algorithm.marker is Marker.RETURNING:
        return CallSite(algorithm, (Kept(algorithm, Reason.VALUE, algorithm),))
    if not elision:
        return CallSite(algorithm, (Kept(algorithm, Reason.OFF, algorithm),))
    kept: dict[Operation, Kept] = {}
    followed: dict[Operation, None] = {}
    seen: set[Node[Operation]] = set()
    waiting = list(reversed(node.next))
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        met = node.operation
        reason = None if met is None else stops(met.marker, system_usm)
        if met is not None and reason is not None:
            kept[met] = Kept(algorithm, reason, met)
        elif met is not None and met.marker in _OFFLOADED:
            followed[met] = None
        else:
            waiting.extend(reversed(node.next))
    return CallSite(algorithm, tuple(kept.values()), tuple(followed))


class CompilationRefused(Exception):
    """Raised when the implementation's compiler would reject the program, which then does not start.

    Under icpx this happens where a kernel captures an array by reference. The message names the implementation, the
    algorithm and the array.
    """


def refuse_captures(function: Callable[..., Any], implementation: str) -> None:
    """Check that no algorithm in a function captures an object of the stack by reference.

    implementation: its name, for the error. Raises CompilationRefused, with file and line, for the first such
    algorithm. Does nothing for a function whose source cannot be read.
    """
    try:
        source = Source.of(function, "host function")
        scope = MemoryScope.of(source, TranslationUnit.of(function))
    except (KernelError, AttributeError):
        return
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call) or (name := scope.thread_method(node)) not in ALGORITHMS:
            continue
        if scope.method_marker(node, name) is Marker.HOST_ALGORITHM:
            continue
        for argument in node.args[1:]:
            if isinstance(argument, ast.Name) and argument.id in scope.stack:
                raise CompilationRefused(
                    f"{source.file}:{node.lineno}: {implementation} does not compile {name}: {text(argument)} is an "
                    "object of the stack, which the kernel would capture by reference"
                )
