"""What the names in a host function stand for: objects of the program, kernels, functions, regions that are to be run.

A name is one object when it is a parameter of the host function, or a name from outside; when it was assigned from a
method that makes arrays, which says the object's name, from another call or a sequence of unknown length, which count
as an object of the name that it is assigned to; and when it is another name of one. A name that two ways through the
function leave with different objects, or that a loop takes from one object to the next, is `Ambiguous`. An attribute is
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

from offloadrt.compilers.host.probabilities import iterations
from offloadrt.compilers.host.scope import Scope, assigned, outer_names, parameters
from offloadrt.kernels.errors import KernelError
from offloadrt.kernels.kernel import Kernel
from offloadrt.kernels.source.function_source import FunctionTree, Source, text

MAKES_OBJECTS = ("array", "managed_array", "declare_target", "declare_target_link")
"""Methods that make an object of the program; their first argument is its name."""


@attrs.frozen(eq=False)
class TargetConstruct:
    """A directive that runs a kernel on a device, as it is written."""

    kernel: Kernel
    objects: tuple[str, ...]
    """The object that is each of the kernel's arrays, in their order."""
    file: str
    line: int


@attrs.frozen(eq=False)
class HostFunction:
    """A function of the program, and the names around it."""

    source: Source
    names: dict[str, Any]
    defaults: Mapping[str, Any] = {}
    """What its parameters stand for that a call leaves out."""


@attrs.frozen
class ProgramObject:
    """An object of the program."""

    name: str


@attrs.frozen
class DataUpdate:
    """A construct without a kernel: it moves data."""


@attrs.frozen
class Ambiguous:
    """One thing or another."""

    why: str
    runs: bool = False
    """Whether it may be a function or a region, which have to be known where they run."""
    stays: bool = False
    """Whether it holds after another assignment too."""


class ObjectScope(Scope):
    """The names of one function, and the objects that the program has made or named so far.

    `owner` is the class that the program's host function is a method of, None for other functions. `kernels` are those
    that the user has named.
    """

    def __init__(self, source: Source, owner: Any, kernels: Mapping[str, Kernel]) -> None:
        super().__init__(source)
        self.owner, self.kernels = owner, kernels
        self.folder = Path(source.file).resolve().parent
        self.objects: dict[str, None] = {}
        self.attributes: dict[str, Ambiguous] = {}
        """The names that the program assigns to, by how they are written, and names of the module."""

    def inside(self, function: HostFunction, arguments: Mapping[str, Any]) -> ObjectScope:
        """Make the scope of a function that is called with these; other parameters are objects."""
        inner, tree = copy.copy(self), function.source.tree
        inner.source = function.source
        for name in outer_names(tree):
            if name not in function.names:
                self.attributes[name] = Ambiguous(f"{name} is assigned in {tree.name}")
        own = [name for name in assigned(tree.body) if name not in outer_names(tree)]
        around = {name: meaning for name, meaning in function.names.items() if name not in own}
        objects = {name: ProgramObject(name) for name in parameters(tree)}
        inner.names = {**around, **objects, **function.defaults, **arguments}
        return inner

    def arguments(self, function: HostFunction, node: ast.Call) -> dict[str, Any]:
        """Tell what the parameters of a function stand for in a call."""
        tree = function.source.tree
        positional = [argument.arg for argument in (*tree.args.posonlyargs, *tree.args.args)]
        bound = {
            name: Ambiguous(f"the call in line {node.lineno} does not say what {name} is") for name in parameters(tree)
        }
        if not any(isinstance(given, ast.Starred) for given in node.args) and all(key.arg for key in node.keywords):
            bound.update(function.defaults)
        if isinstance(node.func, ast.Attribute) and positional[:1] == ["self"]:
            del positional[0]
        for name, value in zip(positional, node.args, strict=False):
            if isinstance(value, ast.Starred):
                break
            bound[name] = self.argument(value)
        bound.update({keyword.arg: self.argument(keyword.value) for keyword in node.keywords if keyword.arg})
        return bound

    # following assignments

    @property
    def facts(self) -> int:
        return len(self.attributes)

    def assign(self, target: ast.expr, value: ast.expr) -> None:
        """Let a name, or each of several, stand for a value. An attribute that is assigned to becomes ambiguous."""
        for name, meaning in list(self._meant(target, value)):
            before = self.names.get(name)
            if isinstance(before, Ambiguous) and before.stays:
                continue
            if meaning is None:  # no object, such as a number
                self.names.pop(name, None)
            else:
                self.names[name] = meaning
        for node in ast.walk(target):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                self.attributes[text(node)] = Ambiguous(f"{text(node)} is assigned in line {node.lineno}")

    def _meant(self, target: ast.expr, value: ast.expr) -> Iterator[tuple[str, Any]]:
        if isinstance(target, ast.Name):
            meaning = self.meaning(value)
            if meaning is None and not isinstance(value, ast.Constant):
                made = self._made_by_call(value)
                meaning = ProgramObject(target.id) if made else Ambiguous(f"{target.id} is {text(value)}")
            yield target.id, meaning
        elif isinstance(target, ast.Tuple | ast.List):
            shown = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
            values: Sequence[ast.expr] = value.elts if shown else []  # type: ignore[attr-defined]
            if shown and not any(isinstance(part, ast.Starred) for part in (*target.elts, *values)):
                for part, given in zip(target.elts, values, strict=True):
                    yield from self._meant(part, given)
            else:
                made = self._made_by_call(value)
                for name in assigned([target]):
                    yield name, ProgramObject(name) if made else Ambiguous(f"{name} is a part of {text(value)}")

    def _made_by_call(self, node: ast.expr) -> bool:
        """Tell whether it is a call that may make objects.

        Python's own functions, such as ``reversed``, only hand on what there is.
        """
        called = node.value if isinstance(node, ast.Await) else node
        if not isinstance(called, ast.Call):
            return False
        function = self.known(called.func)
        return function is None or not any(function is builtin for builtin in vars(builtins).values())

    def unbind(self, names: Iterable[str], why: str) -> None:
        for name in names:
            self.names[name] = Ambiguous(f"{name} {why}", _runs(self.names.get(name)))

    def meet(self, states: Sequence[Mapping[str, Any]]) -> None:
        met: dict[str, Any] = {}
        for state in states:
            for name, meaning in state.items():
                met[name] = _either(name, met.get(name), meaning)
        self.names.clear()  # functions that are defined here hold the same dictionary
        self.names.update(met)

    def elements(self, node: ast.expr) -> Sequence[ast.expr]:
        """List what a loop goes through that names objects one by one."""
        if iterations(node) is None or not isinstance(node, ast.Tuple | ast.List):
            return ()
        named = [isinstance(part, ast.Tuple | ast.List) or self.meaning(part) is not None for part in node.elts]
        return node.elts if any(named) else ()

    def define(self, tree: FunctionTree) -> None:
        """Let a name stand for a function.

        A name of ours that it assigns to is ambiguous from here on, since the function may run at any time.
        """
        source = attrs.evolve(self.source, who=f"host function {tree.name!r}", tree=tree)
        positional, given = [*tree.args.posonlyargs, *tree.args.args], tree.args.defaults
        pairs = [*zip(positional[len(positional) - len(given) :], given, strict=True)]
        pairs += [(key, value) for key, value in zip(tree.args.kwonlyargs, tree.args.kw_defaults, strict=True) if value]
        defaults = {parameter.arg: self.meaning(value) for parameter, value in pairs}
        for name in outer_names(tree):
            self.names[name] = Ambiguous(f"{name} is assigned in {tree.name} of line {tree.lineno}", stays=True)
        objects = {name: meaning for name, meaning in defaults.items() if meaning is not None}
        self.names[tree.name] = HostFunction(source, self.names, objects)

    # what expressions stand for

    def meaning(self, node: ast.expr) -> Any:
        """Tell what an expression stands for.

        A ProgramObject, HostFunction, Kernel, TargetConstruct or DataUpdate to be run, Ambiguous, or None for what is
        no name of these.
        """
        match node:
            case ast.Await(value=value) | ast.NamedExpr(value=value):
                return self.meaning(value)
            case ast.Name(id=name):
                here = self.names.get(name) or self.attributes.get(name)
                return here or self._outside(self.source.names.get(name)) or ProgramObject(name)
            case ast.Attribute() if text(node) in self.attributes:
                return self.attributes[text(node)]
            case ast.Attribute(value=ast.Name(id="self"), attr=name) if self.owner is not None:
                return self._outside(getattr(self.owner, name, None)) or ProgramObject(text(node))
            case ast.Attribute(value=value, attr=name):
                return self._outside(getattr(self.known(value), name, None)) or ProgramObject(text(node))
            case ast.IfExp(body=then, orelse=other):
                return _either(text(node), self.meaning(then), self.meaning(other))
            case ast.Call(func=ast.Attribute(attr="construct_target"), args=[_, *_]):
                return self.construct(node)
            case ast.Call(func=ast.Attribute(attr="construct_target_update")):
                return DataUpdate()
            case ast.Call(func=ast.Attribute(attr=method)) if method in MAKES_OBJECTS:
                return self.made(node)
        return None

    def argument(self, node: ast.expr) -> Any:
        """Tell what an argument stands for: as `meaning`, but Ambiguous instead of None."""
        meaning = self.meaning(node)
        return Ambiguous(f"{text(node)} is no name of an array") if meaning is None else meaning

    def made(self, node: ast.Call) -> ProgramObject | Ambiguous | None:
        """Tell which object a method makes."""
        given = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg == "name")]
        match given:
            case [ast.Constant(value=str(name))]:
                self.objects.setdefault(name)
                return ProgramObject(name)
            case [called]:
                return Ambiguous(f"the array of line {node.lineno} is called {text(called)}")
        return None

    def construct(self, node: ast.Call) -> TargetConstruct:
        """Tell which kernel a directive runs, and which objects are its arrays; SourceRefused where that is unclear."""
        name = text(node.args[0])
        kernel = self.kernels.get(name) or self.meaning(node.args[0])
        if not isinstance(kernel, Kernel):
            self.source.refuse(
                node,
                f"which kernel {name} is cannot be told from the source",
                f"name a kernel of the module, or give kernels={{{name!r}: ...}}",
            )
        objects = []
        for use in kernel.arrays:
            what = f"which object is {use.name} of kernel {kernel.name!r} cannot be told"
            argument = node.args[1 + use.position] if len(node.args) > 1 + use.position else None
            if argument is None or any(isinstance(given, ast.Starred) for given in node.args):
                self.source.refuse(node, what, "give the kernel's arguments one by one")
            meaning = self.argument(argument)
            if not isinstance(meaning, ProgramObject):
                why = meaning.why if isinstance(meaning, Ambiguous) else f"{text(argument)} is no array"
                self.source.refuse(
                    node,
                    f"{what} ({why})",
                    "name one object there: a target for each, or a loop over their names as for a in (x, y)",
                )
            objects.append(meaning.name)
        for name in objects:
            self.objects.setdefault(name)
        return TargetConstruct(kernel, tuple(objects), self.source.file, node.lineno)

    def _outside(self, value: Any) -> Kernel | HostFunction | None:
        """Tell what a Python object is to the walk: a kernel, or a function of the program."""
        if isinstance(value, Kernel):
            return value
        if isinstance(value, types.FunctionType | types.MethodType):
            plain = value.__func__ if isinstance(value, types.MethodType) else value
            if Path(plain.__code__.co_filename).resolve().is_relative_to(self.folder):
                try:
                    return HostFunction(Source.of(plain, "host function"), {})
                except KernelError:
                    return None
        return None


def _runs(meaning: Any) -> bool:
    return meaning.runs if isinstance(meaning, Ambiguous) else isinstance(meaning, HostFunction | TargetConstruct)


def _either(name: str, first: Any, second: Any) -> Any:
    """Tell what a name stands for that is one thing or the other; what is no object does not count."""
    if first is None or second is None or first == second:
        return second if first is None else first
    runs = _runs(first) or _runs(second)
    for meaning in (first, second):
        if isinstance(meaning, Ambiguous):
            return attrs.evolve(meaning, runs=runs)
    shown = " or ".join(
        meaning.name if isinstance(meaning, ProgramObject | Kernel) else "another" for meaning in (first, second)
    )
    return Ambiguous(f"{name} is {shown}", runs)
