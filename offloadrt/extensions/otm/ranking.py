"""`HostProgram`: how often a program runs its target regions, and so how often each object is accessed in all.

The host function is read by the same rules as kernels: a branch is taken with probability 0.5, a loop of unknown trip
count runs 32 times, exceptions never occur; `host_functions/flow.py` says what jumps do to that. Calls of functions in
files beside or below the host function's are followed, also of methods of its own class. A function that is passed to
another one (``run.parallel(body)``) counts as called once there, except by `HostProgram.of`, which only reads it.

A target region is ``t.target(kernel, ...)``, or ``t.run(step)`` of a ``step = t.construct_target(kernel, ...)``.
`ObjectScope` finds which objects its arguments are. The GAF (global access frequency) of an object is the sum over the
regions of the region's frequency times the LAF (accesses per iteration) of the array that the object is there (OTM,
section 4.1). Its rank is its place by GAF, 1 for the highest. Of equal ones the object that the program makes or names
first comes first.
"""

from __future__ import annotations

import ast
import builtins
import copy
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from offloadrt.extensions.host_functions.flow import (
    Scope,
    assigned,
    frequencies,
    iterations,
    nodes_of,
    outer_names,
    parameters,
)
from offloadrt.extensions.host_functions.host_walk import HostWalk
from offloadrt.kernels.array_use import KernelError
from offloadrt.kernels.kernel import Kernel
from offloadrt.kernels.source import FunctionTree, Source, text

MAKES_OBJECTS = ("array", "managed_array", "declare_target", "declare_target_link")
"""Methods that make an object of the program. Their first argument is the object's name."""


@attrs.frozen(eq=False)
class TargetConstruct:
    """A directive at a `file` and `line` of the program that runs a kernel on a device, with the kernel's arrays."""

    kernel: Kernel
    objects: tuple[str, ...]
    """For each of the kernel's arrays, in the kernel's order: the name of the object that is passed for it."""
    file: str
    line: int


@attrs.frozen(eq=False)
class HostFunction:
    """A function of the program that runs on the host, with the meanings of the outer names in its source.

    The meaning of a name is what it stands for: an object (array), a function, a kernel, or another Python object.
    """

    source: Source
    """The source of the function."""
    names: dict[str, Any]
    """By name: the meaning of each name that the function can use and that belongs to a function around it."""
    defaults: Mapping[str, Any] = {}
    """By parameter: its meaning in a call that gives no argument for it."""


@attrs.frozen
class ProgramObject:
    """An object (array) of the program, identified by its name."""

    name: str


@attrs.frozen
class DataUpdate:
    """Stands for a directive such as ``target update`` in the source, which moves data and runs no kernel."""


@attrs.frozen
class Ambiguous:
    """Stands for the meaning of a name that is unknown, because it depends on the path of control to this point.

    why: the reason, in words.
    """

    why: str
    runs: bool = False
    """Whether it may be a function or a region. Running it is then refused."""
    stays: bool = False
    """Whether it stays ambiguous after another assignment."""


class ObjectScope(Scope):
    """Says what the names in a function of the program stand for, and collects the objects (arrays) that it makes.

    `owner` is the class that the program's host function is a method of, None for other functions. `kernels` are the
    kernels that the caller of `HostProgram.of` gave, by their text in the source.
    """

    def __init__(self, source: Source, owner: Any, kernels: Mapping[str, Kernel]) -> None:
        super().__init__(source)
        self.owner, self.kernels = owner, kernels
        self.folder = Path(source.file).resolve().parent
        self.objects: dict[str, None] = {}
        self.attributes: dict[str, Ambiguous] = {}
        """By text: the attributes, and the names of the module, to which the program assigns; they are ambiguous."""

    def inside(self, function: HostFunction, arguments: Mapping[str, Any]) -> ObjectScope:
        """Make the scope of a function that is called with these arguments; other parameters stand for objects."""
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
        """Return what each parameter of a function stands for, by name, in the call `node` that the program makes."""
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
        """Let a name, or each of several, stand for a value. An attribute that is assigned to becomes ambiguous.

        target, value: the two sides of the assignment, as expressions of the source.
        """
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
        """Tell whether an expression is a call that may make objects.

        Python's own functions, such as ``reversed``, only pass on existing objects.
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
        """Return the elements of a tuple or list display that a loop runs over, if any names an object; else none."""
        if iterations(node) is None or not isinstance(node, ast.Tuple | ast.List):
            return ()
        named = [isinstance(part, ast.Tuple | ast.List) or self.meaning(part) is not None for part in node.elts]
        return node.elts if any(named) else ()

    def define(self, tree: FunctionTree) -> None:
        """Let a name stand for the function that is defined here (`tree`, its syntax tree).

        An outer name that this function assigns to is ambiguous from here on, since the function may run at any time.
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
        """Return what an expression of the source stands for, as far as the analysis of objects and kernels needs it.

        That is a ProgramObject (array), HostFunction, Kernel, TargetConstruct or DataUpdate to be run, Ambiguous, or
        None for anything else.
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
        """Return what the expression `node`, an argument in a call that the program makes, stands for.

        It is an array (object), a function, a kernel or a target construct; else Ambiguous, which says why it is not
        known.
        """
        meaning = self.meaning(node)
        return Ambiguous(f"{text(node)} is no name of an array") if meaning is None else meaning

    def made(self, node: ast.Call) -> ProgramObject | Ambiguous | None:
        """Return the object that a call of one of `MAKES_OBJECTS` makes; Ambiguous if its name is no literal."""
        given = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg == "name")]
        match given:
            case [ast.Constant(value=str(name))]:
                self.objects.setdefault(name)
                return ProgramObject(name)
            case [called]:
                return Ambiguous(f"the array of line {node.lineno} is called {text(called)}")
        return None

    def construct(self, node: ast.Call) -> TargetConstruct:
        """Return the kernel that a directive runs, and its arrays. Raises SourceRefused if the source lacks them."""
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
        """Return a Python object as the walk uses it: a kernel, or a function of the program; None for others."""
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
    """Join what a name stands for on two paths: None, which is no object, does not count; two things are Ambiguous."""
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


class RegionWalk(HostWalk[TargetConstruct, ObjectScope]):
    """Builds a control-flow graph whose operations are the target regions that a host function runs.

    `owner` is the class that the function is a method of, None for other functions.
    """

    def __init__(self, source: Source, owner: Any, kernels: Mapping[str, Kernel]) -> None:
        super().__init__(ObjectScope(source, owner, kernels).inside(HostFunction(source, {}), {}))

    @property
    def objects(self) -> Iterable[str]:
        """Return the names of the program's objects (arrays), in the order in which it makes or names them."""
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
        """Add the target regions of a called function to the graph at the call; skip a function that calls itself.

        arguments: what its parameters stand for. at: the call.
        """
        if (function.source.file, function.source.tree.lineno) not in self.active:
            self.inline(self.scope.inside(function, arguments), at)

    def running(self, node: ast.expr) -> Any:
        """Return the function or region that a called expression runs. Raises SourceRefused if there may be several."""
        meaning = self.scope.meaning(node)
        if isinstance(meaning, Ambiguous) and meaning.runs:
            self.scope.source.refuse(
                node, f"what runs here cannot be told ({meaning.why})", "write an if around the two calls"
            )
        return meaning

    def may_be_thread(self, node: ast.expr) -> bool:
        """Tell whether an expression is a parameter about which nothing is known, so that it may be a host thread."""
        parameters = {parameter.arg for parameter in self.scope.source.parameters}
        return isinstance(node, ast.Name) and node.id in parameters and self.scope.known(node) is None

    def refuse_unknown(self, node: ast.expr) -> None:
        """Raise SourceRefused if the source does not tell which target region the `step` in ``t.run(step)`` is.

        node: that argument.
        """
        named = isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call)
        if named and not isinstance(self.scope.meaning(node), HostFunction | DataUpdate):
            self.scope.source.refuse(
                node,
                f"which region {text(node)} is cannot be told",
                "write step = t.construct_target(kernel, ...) in this function, and t.run(step)",
            )

    def reads_only(self, called: ast.expr) -> bool:
        """Tell whether a call is of `HostProgram.of`, which reads the source of a function and does not call it."""
        if not (isinstance(called, ast.Attribute) and called.attr == "of"):
            return False
        written = text(called.value).rpartition(".")[2]
        return "HostProgram" in (written, getattr(self.scope.known(called.value), "__name__", None))


@attrs.frozen
class TargetRegion:
    """A line of the program that runs a kernel on a device, with its `file` and `line`, and how often it runs."""

    kernel: Kernel
    frequency: float
    """How often the region runs in one run of the host function."""
    objects: tuple[str, ...]
    """For each of the kernel's arrays (`Kernel.arrays`), in their order: the name of the object passed for it."""
    file: str
    line: int

    def laf(self, name: str) -> float:
        """Return how often each iteration of the region's loop accesses an object: the local access frequency."""
        total = 0.0
        for use, given in zip(self.kernel.arrays, self.objects, strict=True):
            if given == name:
                total += use.laf
        return total


@attrs.frozen
class ObjectFrequency:
    """How often an object (array) is accessed: its global access frequency, its rank by that, and where it is used."""

    name: str
    gaf: float
    """Global access frequency: the sum over its regions of runs times accesses per iteration."""
    rank: int
    """The rank by GAF; 1 is the object that is accessed most."""
    regions: tuple[TargetRegion, ...]
    """The regions that use the object."""


@attrs.frozen
class HostProgram:
    """The target regions of a program, and its objects in the order of their rank.

    `regions` are in the order of the source; `objects` are the arrays, with how often they are accessed.
    """

    regions: tuple[TargetRegion, ...]
    objects: tuple[ObjectFrequency, ...]

    @classmethod
    def of(cls, function: Callable[..., Any], kernels: Mapping[str, Kernel] | None = None) -> HostProgram:
        """Read a program from the source of its host function.

        kernels: kernels that the source names in a way that cannot be followed, by the text that is written there, as
        in ``{"self.kernels.flux": flux}``. Raises SourceRefused for a region whose kernel or objects cannot be
        determined, and KernelError when the source cannot be read.
        """
        walk = RegionWalk(Source.of(function, "host function"), _owner(function), kernels or {})
        often = frequencies(walk.pieces, walk.entry)
        # A place that several ways lead through, such as a `finally`, is in the graph once for each way. It is one
        # region, and comes where its last copy does, which is where it stands in the source.
        runs: dict[tuple[tuple[int, ...], tuple[str, ...]], tuple[TargetConstruct, float]] = {}
        for node in nodes_of(walk.pieces):
            if (construct := node.operation) is not None:
                key = node.origin, construct.objects
                _, before = runs.pop(key, (construct, 0.0))
                runs[key] = construct, before + often.get(node, 0.0)
        regions = tuple(
            TargetRegion(construct.kernel, frequency, construct.objects, construct.file, construct.line)
            for construct, frequency in runs.values()
        )
        gaf = dict.fromkeys(walk.objects, 0.0)
        for region in regions:
            for name in dict.fromkeys(region.objects):
                gaf[name] = gaf.get(name, 0.0) + region.frequency * region.laf(name)
        used = {name for region in regions for name in region.objects}
        ranked = sorted((name for name in gaf if name in used), key=lambda name: -gaf[name])
        objects = tuple(
            ObjectFrequency(name, gaf[name], rank, tuple(region for region in regions if name in region.objects))
            for rank, name in enumerate(ranked, start=1)
        )
        return cls(regions, objects)

    def object(self, name: str) -> ObjectFrequency:
        """Return how often the object (array) of this name is accessed. Raises KeyError when no region uses it."""
        for entry in self.objects:
            if entry.name == name:
                return entry
        raise KeyError(name)


def _owner(function: Callable[..., Any]) -> Any:
    """Return the class that a method belongs to; None for other functions."""
    place = getattr(function, "__self__", None)
    if place is not None:
        return place if isinstance(place, type) else type(place)
    owner: Any = None
    names = function.__globals__
    for part in function.__qualname__.split(".")[:-1]:
        owner = names.get(part) if owner is None else getattr(owner, part, None)
        if not isinstance(owner, type):
            return None
    return owner


__all__ = ["HostProgram", "ObjectFrequency", "TargetRegion"]
