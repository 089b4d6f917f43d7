"""What the names in a host function stand for: objects of the program, kernels, functions, regions that are to be run.

A name is one object when it is a parameter of the host function, or a name from outside; when it was assigned from a
method that makes arrays, which says the object's name, from another call or a sequence of unknown length, which count
as an object of the name that it is assigned to; and when it is another name of one. A name that two ways through the
function leave with different objects, or that a loop takes from one object to the next, is `Untold`. An attribute is
an object that is called as it is written, unless the program assigns to it.
"""

from __future__ import annotations

import ast
import builtins
import copy
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from offloadrt.kernels.errors import KernelError
from offloadrt.kernels.kernel import Kernel
from offloadrt.kernels.source.function_source import FunctionTree, Source, text

MAKES_OBJECTS = ("array", "managed_array", "declare_target", "declare_target_link")
"""Methods that make an object of the program; their first argument is its name."""


@attrs.frozen(eq=False)
class FoundRegion:
    """A region as it is met."""

    kernel: Kernel
    objects: tuple[str, ...]
    file: str
    line: int
    frequency: float = 1.0


@attrs.frozen(eq=False)
class Function:
    """A function of the program, and the names around it."""

    source: Source
    names: dict[str, Any]
    defaults: Mapping[str, Any] = {}
    """What its parameters stand for that a call leaves out."""


@attrs.frozen
class Object:
    """What a name stands for that is an object of the program."""

    name: str


@attrs.frozen
class Update:
    """What a name stands for that is a construct without a kernel: it moves data."""


@attrs.frozen
class Untold:
    """What a name stands for that may be one thing or another."""

    why: str
    runs: bool = False
    """May it be a function or a region, which have to be known where they run?"""
    stays: bool = False
    """Does it hold after another assignment too?"""


class Scope:
    """The names of one function while it is walked through.

    `owner` is the class that the program's host function is a method of, None for other functions. `objects` are those
    that the program has made or named so far.
    """

    def __init__(self, source: Source, owner: Any, kernels: Mapping[str, Kernel]) -> None:
        self.source, self.owner, self.kernels = source, owner, kernels
        self.folder = Path(source.file).resolve().parent
        self.objects: dict[str, None] = {}
        self.names: dict[str, Any] = {}
        self.attributes: dict[str, Untold] = {}
        """Those that the program assigns to, by how they are written; and names of the module."""

    def inside(self, function: Function, arguments: Mapping[str, Any]) -> Scope:
        """That of a function that is called with these; parameters that are not among them are objects."""
        inner = copy.copy(self)
        inner.source = function.source
        parameters = _parameters(function.source.tree)
        own = [name for name in assigned(function.source.tree.body) if name not in _outer(function.source.tree)]
        for name in _outer(function.source.tree):
            if name not in function.names:
                self.attributes[name] = Untold(f"{name} is assigned in {function.source.tree.name}")
        around = {name: meaning for name, meaning in function.names.items() if name not in own}
        inner.names = {**around, **{name: Object(name) for name in parameters}, **function.defaults, **arguments}
        return inner

    def arguments(self, function: Function, node: ast.Call) -> dict[str, Any]:
        """What the parameters of a function stand for in a call."""
        tree = function.source.tree
        positional = [argument.arg for argument in (*tree.args.posonlyargs, *tree.args.args)]
        bound = {
            name: Untold(f"the call in line {node.lineno} does not say what {name} is") for name in _parameters(tree)
        }
        if not any(isinstance(given, ast.Starred) for given in node.args) and all(key.arg for key in node.keywords):
            bound.update(function.defaults)
        if isinstance(node.func, ast.Attribute) and positional[:1] == ["self"]:
            del positional[0]
        for name, value in zip(positional, node.args, strict=False):
            if isinstance(value, ast.Starred):
                break
            bound[name] = self.told(value)
        bound.update({keyword.arg: self.told(keyword.value) for keyword in node.keywords if keyword.arg is not None})
        return bound

    # assignments

    def assign(self, target: ast.expr, value: ast.expr) -> None:
        """Let a name, or each of several, stand for a value. An attribute that is assigned to is told no more."""
        for name, meaning in list(self._meant(target, value)):
            self.bind(name, meaning)
        for node in ast.walk(target):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                self.attributes[text(node)] = Untold(f"{text(node)} is assigned in line {node.lineno}")

    def _meant(self, target: ast.expr, value: ast.expr) -> Iterator[tuple[str, Any]]:
        if isinstance(target, ast.Name):
            found = self.meaning(value)
            if found is None and not isinstance(value, ast.Constant):
                found = Object(target.id) if self._made_by_call(value) else Untold(f"{target.id} is {text(value)}")
            yield target.id, found
        elif isinstance(target, ast.Tuple | ast.List):
            shown = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
            values: Sequence[ast.expr] = value.elts if shown else []  # type: ignore[attr-defined]
            if shown and not any(isinstance(part, ast.Starred) for part in (*target.elts, *values)):
                for part, given in zip(target.elts, values, strict=True):
                    yield from self._meant(part, given)
            else:
                made = self._made_by_call(value)
                for name in assigned([target]):
                    yield name, Object(name) if made else Untold(f"{name} is a part of {text(value)}")

    def _made_by_call(self, node: ast.expr) -> bool:
        """Is it a call that may make objects? Python's own functions, as ``reversed``, only hand on what there is."""
        called = node.value if isinstance(node, ast.Await) else node
        if not isinstance(called, ast.Call):
            return False
        function = self.known(called.func)
        return function is None or not any(function is one for one in vars(builtins).values())

    def bind(self, name: str, meaning: Any) -> None:
        """Let a name stand for something; None: for what is no object, as a number."""
        before = self.names.get(name)
        if isinstance(before, Untold) and before.stays:
            return
        if meaning is None:
            self.names.pop(name, None)
        else:
            self.names[name] = meaning

    def unbind(self, names: Iterable[str], why: str) -> None:
        """Names that stand for one thing now and for another then; `why` is said after each."""
        for name in names:
            self.names[name] = Untold(f"{name} {why}", _runs(self.names.get(name)))

    def meet(self, states: Sequence[Mapping[str, Any]]) -> None:
        """The names where several ways meet that have left them so; no way: as they are."""
        met: dict[str, Any] = dict(self.names) if not states else {}
        for state in states:
            for name, meaning in state.items():
                met[name] = _either(name, met.get(name), meaning)
        self.names.clear()
        self.names.update(met)

    # what expressions stand for

    def meaning(self, node: ast.expr) -> Any:
        """An Object, Function, Kernel, region or Update to be run, Untold, or None for what is no name of these."""
        match node:
            case ast.Await(value=value) | ast.NamedExpr(value=value):
                return self.meaning(value)
            case ast.Name(id=name):
                here = self.names.get(name) or self.attributes.get(name)
                return here or self.outside(self.source.names.get(name)) or Object(name)
            case ast.Attribute() if text(node) in self.attributes:
                return self.attributes[text(node)]
            case ast.Attribute(value=ast.Name(id="self"), attr=name) if self.owner is not None:
                return self.outside(getattr(self.owner, name, None)) or Object(text(node))
            case ast.Attribute(value=value, attr=name):
                return self.outside(getattr(self.known(value), name, None)) or Object(text(node))
            case ast.IfExp(body=then, orelse=other):
                found = [self.meaning(side) for side in (then, other)]
                return _either(text(node), *found)
            case ast.Call(func=ast.Attribute(attr=method)):
                return self._returned(method, node)
        return None

    def _returned(self, method: str, node: ast.Call) -> Any:
        """What a method of the runtime gives."""
        if method == "construct_target" and node.args:
            return self.region(node)
        if method == "construct_target_update":
            return Update()
        return self.made(node) if method in MAKES_OBJECTS else None

    def told(self, node: ast.expr) -> Any:
        """As `meaning`, but Untold for what is none."""
        found = self.meaning(node)
        return Untold(f"{text(node)} is no name of an array") if found is None else found

    def made(self, node: ast.Call) -> Any:
        """The object that a method makes."""
        given = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg == "name")]
        match given:
            case [ast.Constant(value=str(name))]:
                self.objects.setdefault(name)
                return Object(name)
            case [called]:
                return Untold(f"the array of line {node.lineno} is called {text(called)}")
        return None

    def region(self, node: ast.Call) -> FoundRegion:
        """The kernel that a directive runs, and the objects that are its arrays."""
        kernel = self.kernels.get(text(node.args[0])) or self.meaning(node.args[0])
        if not isinstance(kernel, Kernel):
            self.source.refuse(
                node,
                f"which kernel {text(node.args[0])} is cannot be told from the source",
                f"name a kernel of the module, or give kernels={{{text(node.args[0])!r}: ...}}",
            )
        objects = []
        for use in kernel.arrays:
            what = f"which object is {use.name} of kernel {kernel.name!r} cannot be told"
            argument = node.args[1 + use.position] if len(node.args) > 1 + use.position else None
            if argument is None or any(isinstance(given, ast.Starred) for given in node.args):
                self.source.refuse(node, what, "give the kernel's arguments one by one")
            meaning = self.told(argument)
            if not isinstance(meaning, Object):
                why = meaning.why if isinstance(meaning, Untold) else f"{text(argument)} is no array"
                self.source.refuse(
                    node,
                    f"{what} ({why})",
                    "name one object there: a target for each, or a loop over their names as for a in (x, y)",
                )
            objects.append(meaning.name)
        for name in objects:
            self.objects.setdefault(name)
        return FoundRegion(kernel, tuple(objects), self.source.file, node.lineno)

    def known(self, node: ast.expr) -> Any:
        """The Python object that a dotted name of the module stands for."""
        if isinstance(node, ast.Name):
            return None if node.id in self.names else self.source.names.get(node.id)
        if isinstance(node, ast.Attribute):
            return getattr(self.known(node.value), node.attr, None)
        return None

    def outside(self, value: Any) -> Any:
        """What a Python object is for the walk: a kernel, or a function of the program."""
        if isinstance(value, Kernel):
            return value
        if isinstance(value, types.FunctionType | types.MethodType):
            plain = value.__func__ if isinstance(value, types.MethodType) else value
            if Path(plain.__code__.co_filename).resolve().is_relative_to(self.folder):
                try:
                    return Function(Source.of(plain, "host function"), {})
                except KernelError:
                    return None
        return None

    def local(self, tree: FunctionTree) -> Function:
        """A function that is defined here. A name of ours that it assigns to is told no more, whenever it runs."""
        source = attrs.evolve(self.source, who=f"host function {tree.name!r}", tree=tree)
        positional = [*tree.args.posonlyargs, *tree.args.args]
        given = tree.args.defaults
        pairs = [*zip(positional[len(positional) - len(given) :], given, strict=True)]
        pairs += [(key, value) for key, value in zip(tree.args.kwonlyargs, tree.args.kw_defaults, strict=True) if value]
        defaults = {parameter.arg: self.meaning(value) for parameter, value in pairs}
        for name in _outer(tree):
            self.names[name] = Untold(f"{name} is assigned in {tree.name} of line {tree.lineno}", stays=True)
        return Function(source, self.names, {name: found for name, found in defaults.items() if found is not None})


def assigned(nodes: Iterable[ast.AST]) -> list[str]:
    """The names that are assigned to, but for those of functions in there."""
    found: dict[str, None] = {}
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found[node.id] = None
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef | ast.comprehension):
            found.update(dict.fromkeys(assigned(ast.iter_child_nodes(node))))
    return list(found)


def _outer(tree: FunctionTree) -> list[str]:
    """The names of the functions around it, and of the module, that a function assigns to."""
    said: list[str] = []
    inner: list[str] = []
    rest: list[ast.AST] = [*tree.body]
    while rest:
        node = rest.pop(0)
        if isinstance(node, ast.Nonlocal | ast.Global):
            said += node.names
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inner += _outer(node)
        else:
            rest += ast.iter_child_nodes(node)
    own = [*_parameters(tree), *assigned(tree.body)]
    return [*said, *(name for name in inner if name not in own)]


def _parameters(tree: FunctionTree) -> list[str]:
    given = tree.args
    all_of_them = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return [parameter.arg for parameter in all_of_them if parameter is not None]


def _runs(meaning: Any) -> bool:
    return meaning.runs if isinstance(meaning, Untold) else isinstance(meaning, Function | FoundRegion)


def _either(name: str, one: Any, other: Any) -> Any:
    """What a name stands for that is one thing or the other; what is no object does not count."""
    if one is None or other is None or one == other:
        return other if one is None else one
    runs = _runs(one) or _runs(other)
    for meaning in (one, other):
        if isinstance(meaning, Untold):
            return attrs.evolve(meaning, runs=runs)
    shown = " or ".join(one.name if isinstance(one, Object | Kernel) else "another" for one in (one, other))
    return Untold(f"{name} is {shown}", runs)
