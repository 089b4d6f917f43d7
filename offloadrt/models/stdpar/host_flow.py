"""The flow of control through a host function, as far as it matters to barriers: read from its source.

What a C++ compiler would see is taken from Python so:

- ``t.for_each(par_unseq, ...)``, where ``t`` is the host thread, the function's first parameter, is an algorithm; with
  the policy ``seq`` it is one on the host. ``t.stack_array`` and a list, tuple, set or dictionary that is written out
  make an object of the stack; other methods of the thread are calls, those in `ALLOCATING` of malloc and free;
- an element ``a[i]`` or attribute ``a.n`` that is read or written is an access of the host, or of the stack for an object
  of the stack. None are: local variables (they are in registers), what only builds the arguments of an algorithm, the
  thread's own attributes, modules, classes and the numbers and functions in them;
- calls of `PURE` functions and of the module ``math`` are instructions; others are calls. A function of the translation
  unit that itself calls algorithms is inlined (AdaptiveCpp forces this for one level), and so are those that the
  `TranslationUnit` names, but never into itself;
- exceptions are not followed, as with ``noexcept``.
"""

from __future__ import annotations

import ast
import builtins
import enum
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import attrs

from offloadrt.kernels.source import FunctionTree, Source, text
from offloadrt.models.stdpar.elision import Marker, Operation
from offloadrt.models.stdpar.standard_algorithms import ALGORITHMS, RETURNING, ExecutionPolicy

ALLOCATING: Final = (
    *("malloc", "calloc", "realloc", "aligned_alloc", "free", "new", "new_array", "delete"),
    *("malloc_shared", "malloc_device", "malloc_host", "foreign_malloc", "foreign_free"),
)
"""Methods of a thread that allocate or free."""

PURE: Final = (
    *(abs, bool, complex, divmod, enumerate, float, int, isinstance, len, max, min, pow, range, reversed, round),
    *(zip, type, id),
)

_CONSTANT = (
    *(types.ModuleType, type, types.FunctionType, types.BuiltinFunctionType),
    *(int, float, complex, str, bytes, enum.Enum, type(None)),
)
_DISPLAYS = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp)


def _same_functions(functions: Sequence[Callable[..., Any]]) -> frozenset[types.CodeType]:
    return frozenset(function.__code__ for function in functions)


@attrs.frozen
class TranslationUnit:
    """The functions that the compiler sees at once. inline: those that it inlines whatever they do."""

    functions: frozenset[types.CodeType] = attrs.field(converter=_same_functions)
    inline: frozenset[types.CodeType] = attrs.field(converter=_same_functions, default=())

    @classmethod
    def of(cls, function: Callable[..., Any], inline: Sequence[Callable[..., Any]] = ()) -> TranslationUnit:
        """The file that a function is in, as a C++ source file."""
        file = function.__code__.co_filename
        beside = [one for one in _functions_of(function.__globals__.values()) if one.__code__.co_filename == file]
        return cls((function, *beside, *inline), inline)


def _functions_of(values: Any) -> Iterator[types.FunctionType]:
    for value in values:
        if isinstance(value, types.FunctionType):
            yield value
        elif isinstance(value, type):
            yield from (one for one in vars(value).values() if isinstance(one, types.FunctionType))


@attrs.define(eq=False)
class Node:
    """A place in the flow; a place where paths meet has no operation."""

    operation: Operation | None = None
    next: list[Node] = attrs.field(factory=list, repr=False)

    def reachable(self) -> Iterator[Node]:
        """This one and all behind it, each once, in the order of the source where paths do not part."""
        seen: set[int] = set()
        waiting = [self]
        while waiting:
            node = waiting.pop()
            if id(node) not in seen:
                seen.add(id(node))
                yield node
                waiting.extend(reversed(node.next))


@attrs.define(eq=False)
class _Function:
    """A function while it is walked: what its names stand for."""

    source: Source
    threads: set[str]
    stack: set[str] = attrs.field(factory=set)
    local: dict[str, FunctionTree] = attrs.field(factory=dict)
    shared: set[str] = attrs.field(factory=set)
    """Names declared global or nonlocal."""
    assigned: set[str] = attrs.field(factory=set)
    exit: Node | None = None
    """Where an inlined function returns to."""
    cleanups: list[Sequence[ast.stmt]] = attrs.field(factory=list)
    """What ``finally`` runs, the innermost last."""


@attrs.define(eq=False)
class _Loop:
    head: Node
    after: Node
    cleanups: int


def flow_of(source: Source, unit: TranslationUnit) -> Node:
    """The first place of the flow through a host function that is not inlined anywhere."""
    return _Walk(source, unit).entry


class _Walk:
    def __init__(self, source: Source, unit: TranslationUnit) -> None:
        self.unit = unit
        self.entry = Node()
        self.ends = [self.entry]
        """What leads to the place that comes next; nothing, where it cannot be reached."""
        self.loops: list[_Loop] = []
        self.active: list[ast.AST] = [source.tree]
        self.building = False
        """Are arguments of an algorithm being read?"""
        self.in_function = _Function(source, set(_parameters(source.tree)[:1]), assigned=_assigned(source.tree))
        self.block(source.tree.body)
        self.emit(Marker.RETURN, source.tree.name, _last_line(source.tree))

    # places

    def emit(self, marker: Marker, name: str, node: ast.AST | int) -> None:
        line = node if isinstance(node, int) else getattr(node, "lineno", 0)
        self.reach(Node(Operation(marker, name, self.in_function.source.file, line)))

    def reach(self, node: Node) -> None:
        for end in self.ends:
            end.next.append(node)
        self.ends = [node]

    def alternatives(self, *branches: Callable[[], None]) -> None:
        """Paths that part here and meet behind."""
        before, ends = self.ends, []
        for branch in branches:
            self.ends = list(before)
            branch()
            ends += self.ends
        self.ends = ends

    def loop(
        self, head: Callable[[], None], body: Callable[[], None], otherwise: Callable[[], None], ends: bool
    ) -> None:
        """`head` before each iteration. ends: does it ever end by itself?"""
        start, after = Node(), Node()
        self.reach(start)
        head()
        left = list(self.ends)
        self.loops.append(_Loop(start, after, len(self.in_function.cleanups)))
        body()
        self.loops.pop()
        self.reach_back(start)
        self.ends = left if ends else []
        otherwise()
        self.reach(after)

    def reach_back(self, node: Node) -> None:
        for end in self.ends:
            end.next.append(node)
        self.ends = []

    # statements

    def block(self, statements: Sequence[ast.stmt]) -> None:
        for node in statements:
            self.statement(node)

    def statement(self, node: ast.stmt) -> None:
        function = self.in_function
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                function.local[node.name] = node
            case ast.ClassDef() | ast.Import() | ast.ImportFrom() | ast.Pass():
                pass
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                function.shared.update(names)
            case ast.For() | ast.AsyncFor():
                self.expression(node.iter)
                self.loop(
                    lambda: self.iteration(node.iter, isinstance(node, ast.AsyncFor)),
                    lambda: (self.target(node.target, None), self.block(node.body))[-1],
                    lambda: self.block(node.orelse),
                    True,
                )
            case ast.While():
                endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
                self.loop(
                    lambda: self.expression(node.test),
                    lambda: self.block(node.body),
                    lambda: self.block(node.orelse),
                    not endless,
                )
            case ast.If():
                self.expression(node.test)
                self.alternatives(lambda: self.block(node.body), lambda: self.block(node.orelse))
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self.expression(item.context_expr)
                    self.emit(Marker.CALL, text(item.context_expr), node)
                self.block(node.body)
                self.emit(Marker.CALL, f"the end of with {text(node.items[0].context_expr)}", _last_line(node))
            case ast.Try() | ast.TryStar():
                function.cleanups.append(node.finalbody)
                self.block([*node.body, *node.orelse])
                function.cleanups.pop()
                self.block(node.finalbody)
            case ast.Match():
                self.expression(node.subject)
                self.alternatives(*(lambda body=case.body: self.block(body) for case in node.cases), lambda: None)  # type: ignore[misc]
            case ast.Return() | ast.Raise():
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.expression(child)
                self.leave(0)
                if function.exit is None or isinstance(node, ast.Raise):
                    self.emit(Marker.RETURN, function.source.tree.name, node)
                    self.ends = []
                else:
                    self.reach_back(function.exit)
            case ast.Break() | ast.Continue():
                loop = self.loops[-1]
                self.leave(loop.cleanups)
                self.reach_back(loop.after if isinstance(node, ast.Break) else loop.head)
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
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.expression(child)

    def leave(self, depth: int) -> None:
        """Run what ``finally`` asks for on the way out."""
        cleanups = self.in_function.cleanups
        while len(self.in_function.cleanups) > depth:
            *self.in_function.cleanups, innermost = self.in_function.cleanups
            self.block(innermost)
        self.in_function.cleanups = cleanups

    def iteration(self, iterable: ast.expr, asynchronous: bool) -> None:
        """The next element of what a loop runs over."""
        if asynchronous:
            self.emit(Marker.CALL, text(iterable), iterable)
        elif not isinstance(iterable, ast.Call | ast.Constant | _DISPLAYS):
            self.access(iterable)

    def target(self, node: ast.expr, value: ast.expr | None) -> None:
        """What is assigned to; a name becomes one of the stack with an object of the stack."""
        match node:
            case ast.Name(id=name):
                function = self.in_function
                if name in function.shared:
                    self.emit(Marker.HOST_ACCESS, name, node)
                elif value is not None and self.is_stack_object(value):
                    function.stack.add(name)
                else:
                    function.stack.discard(name)
                    function.threads.discard(name)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self.target(part, None)
            case ast.Starred(value=part):
                self.target(part, None)
            case _:
                self.expression(node)

    def is_stack_object(self, value: ast.expr) -> bool:
        match value:
            case ast.Await(value=inner):
                return self.is_stack_object(inner)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)):
                return name in self.in_function.threads and method == "stack_array"
            case ast.Name(id=name):
                return name in self.in_function.stack
        return isinstance(value, _DISPLAYS)

    # expressions

    def expression(self, node: ast.expr) -> None:
        match node:
            case ast.Call():
                self.call(node)
            case ast.Subscript() | ast.Attribute():
                base: ast.expr = node
                while isinstance(base, ast.Subscript | ast.Attribute):
                    if isinstance(base, ast.Subscript):
                        self.expression(base.slice)
                    base = base.value
                if not isinstance(base, ast.Name):
                    self.expression(base)
                self.access(node)
            case ast.IfExp(test=test, body=then, orelse=other):
                self.expression(test)
                self.alternatives(lambda: self.expression(then), lambda: self.expression(other))
            case ast.BoolOp(values=[first, *others]):
                self.expression(first)
                for other in others:
                    self.alternatives(lambda one=other: self.expression(one), lambda: None)  # type: ignore[misc]
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
                self.comprehension(node.generators, parts)
            case ast.NamedExpr(target=target, value=value):
                self.expression(value)
                self.target(target, value)
            case ast.Yield() | ast.YieldFrom():
                self.emit(Marker.CALL, text(node), node)
            case ast.Lambda():
                pass
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.expression(child)

    def comprehension(self, generators: Sequence[ast.comprehension], parts: Sequence[ast.expr]) -> None:
        if not generators:
            for part in parts:
                self.expression(part)
            return
        first, *rest = generators
        self.expression(first.iter)
        self.loop(
            lambda: self.iteration(first.iter, bool(first.is_async)),
            lambda: self.filtered(first.ifs, lambda: self.comprehension(rest, parts)),
            lambda: None,
            True,
        )

    def filtered(self, conditions: Sequence[ast.expr], body: Callable[[], None]) -> None:
        for condition in conditions:
            self.expression(condition)
        self.alternatives(body, *([lambda: None] if conditions else []))

    def access(self, node: ast.expr) -> None:
        """The host reads or writes what an expression names."""
        base = node
        while isinstance(base, ast.Subscript | ast.Attribute):
            base = base.value
        name = base.id if isinstance(base, ast.Name) else ""
        function = self.in_function
        if self.building or name in function.threads or isinstance(self.known(node), _CONSTANT):
            return
        on_stack = name in function.stack or isinstance(base, _DISPLAYS)
        self.emit(Marker.STACK_ACCESS if on_stack else Marker.HOST_ACCESS, text(node), node)

    # calls

    def call(self, node: ast.Call) -> None:
        function = self.in_function
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        of_thread = isinstance(receiver, ast.Name) and receiver.id in function.threads
        algorithm = of_thread and method in ALGORITHMS
        self.arguments(node, algorithm)
        if algorithm:
            self.emit(self.algorithm(node, method), method, node)
            return
        if of_thread:
            if method != "stack_array":
                self.emit(Marker.ALLOCATION if method in ALLOCATING else Marker.CALL, method, node)
            return
        called = self.known(node.func)
        if isinstance(node.func, ast.Name) and (tree := function.local.get(node.func.id)) is not None:
            self.inline(attrs.evolve(function.source, tree=tree), node, ())
        elif isinstance(called, types.FunctionType | types.MethodType) and self.is_inlined(called):
            plain = called.__func__ if isinstance(called, types.MethodType) else called
            self.inline(Source.of(plain, "host function"), node, ("self",) if receiver is not None else ())
        elif not _is_pure(called):
            if receiver is not None and called is None:
                self.expression(receiver)
            self.emit(Marker.CALL, text(node.func), node)

    def arguments(self, node: ast.Call, algorithm: bool) -> None:
        building, self.building = self.building, self.building or algorithm
        for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
            self.expression(argument)
        self.building = building

    def algorithm(self, node: ast.Call, method: str) -> Marker:
        """Which kind of algorithm a call is of, by its policy."""
        policy = node.args[0] if node.args else None
        written = (
            policy.attr if isinstance(policy, ast.Attribute) else policy.id if isinstance(policy, ast.Name) else ""
        )
        if (None if policy is None else self.known(policy)) is ExecutionPolicy.SEQ or written == "seq":
            return Marker.HOST_ALGORITHM
        return Marker.RETURNING if method in RETURNING else Marker.ALGORITHM

    def is_inlined(self, called: Any) -> bool:
        code = called.__code__
        if code in self.unit.inline:
            return True
        return code in self.unit.functions and _calls_algorithms(Source.of(called, "host function").tree)

    def inline(self, source: Source, node: ast.Call, leading: tuple[str, ...]) -> None:
        """Walk through a function in the place of its call."""
        tree, outer, loops, building = source.tree, self.in_function, self.loops, self.building
        local = tree in outer.local.values()
        inlined = (local and _calls_algorithms(tree)) or not local
        if not inlined or any(tree.lineno == one.lineno and tree.name == one.name for one in self.active):  # type: ignore[attr-defined]
            self.emit(Marker.CALL, text(node.func), node)
            return
        parameters = [name for name in _parameters(tree) if name not in leading]
        given = [*zip(parameters, node.args, strict=False)]
        given += [(keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg is not None]
        names = {name: value.id for name, value in given if isinstance(value, ast.Name)}
        inside = _Function(
            source,
            {name for name, value in names.items() if value in outer.threads},
            {name for name, value in names.items() if value in outer.stack},
            assigned=_assigned(tree),
            exit=Node(),
        )
        if local:
            inside.threads |= outer.threads - inside.assigned
            inside.stack |= outer.stack - inside.assigned
            inside.local.update(outer.local)
        assert inside.exit is not None
        self.in_function, self.loops, self.building = inside, [], False
        self.active.append(tree)
        self.block(tree.body)
        self.active.pop()
        self.reach(inside.exit)
        self.in_function, self.loops, self.building = outer, loops, building

    def known(self, node: ast.expr) -> Any:
        """The Python object that a dotted name stands for; None where the source does not tell."""
        function = self.in_function
        if isinstance(node, ast.Name):
            return None if node.id in function.assigned else function.source.names.get(node.id)
        if isinstance(node, ast.Attribute):
            return getattr(self.known(node.value), node.attr, None)
        return None


def _is_pure(called: Any) -> bool:
    if getattr(called, "__module__", None) == "math":
        return True
    return any(called is one for one in PURE) or (isinstance(called, type) and called in vars(builtins).values())


def _parameters(tree: FunctionTree) -> list[str]:
    """The names of the parameters, without that of the object whose method it is."""
    names = [one.arg for one in (*tree.args.posonlyargs, *tree.args.args)]
    return names[1:] if names[:1] == ["self"] else names


def _assigned(tree: FunctionTree) -> set[str]:
    """The local names of a function."""
    arguments = [one.arg for one in ast.walk(tree.args) if isinstance(one, ast.arg)]
    stored = [n.id for n in _own(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return {*arguments, *stored}


def _calls_algorithms(tree: FunctionTree) -> bool:
    thread = _parameters(tree)
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ALGORITHMS
        and isinstance(node.func.value, ast.Name)
        and (node.func.value.id in thread or node.func.value.id not in _assigned(tree))
        for node in _own(tree)
    )


def _own(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, without those of functions in it."""
    for child in ast.iter_child_nodes(tree):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            yield from _own(child)


def _last_line(node: ast.AST) -> int:
    return getattr(node, "end_lineno", None) or getattr(node, "lineno", 0)
