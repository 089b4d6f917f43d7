"""The walk through a host function: which target regions it comes to, how often, and with which objects."""

from __future__ import annotations

import ast
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from offloadrt.kernels import control_flow
from offloadrt.kernels.control_flow import STAYS, THROUGH, Ends, Loop, Rounds, Ways
from offloadrt.kernels.errors import KernelError
from offloadrt.kernels.frequency import UNKNOWN_LOOP
from offloadrt.kernels.kernel import Kernel
from offloadrt.kernels.source import FunctionTree, Source, text

_MAKES_OBJECTS = ("array", "declare_target", "declare_target_link")
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


@attrs.frozen
class Object:
    """What a name stands for that is an object of the program."""

    name: str


class HostWalk:
    """The regions and objects of the program that a host function runs, met in the order of its source.

    `owner` is the class that it is a method of, None for other functions.
    """

    def __init__(self, source: Source, owner: Any, kernels: Mapping[str, Kernel]) -> None:
        self.source, self.owner, self.kernels = source, owner, kernels
        self.folder = Path(source.file).resolve().parent
        self.regions: list[FoundRegion] = []
        self.objects: dict[str, None] = {}
        self.names: dict[str, Any] = {}
        self.active: list[tuple[str, int]] = []
        self.ways = Ways()
        """Weights of the jumps out of the block that is walked."""
        self.enter(Function(source, {}), {}, 1.0)

    def enter(self, function: Function, arguments: Mapping[str, Any], frequency: float) -> None:
        """Walk through a function that is called so often; a function that calls itself is not entered again."""
        tree = function.source.tree
        place = (function.source.file, tree.lineno)
        if place in self.active:
            return
        source, names, ways = self.source, self.names, self.ways
        self.source, self.names, self.ways = function.source, {**function.names, **arguments}, Ways()
        self.active.append(place)
        self.block(tree.body, frequency, STAYS)
        self.active.pop()
        self.source, self.names, self.ways = source, names, ways

    # statements

    def block(self, statements: Sequence[ast.stmt], frequency: float, after: int) -> Ends:
        """Walk through a block that control comes to so often; `after` is the weight of what follows it."""
        ends = THROUGH
        for place, node in enumerate(statements, start=1):
            rest = control_flow.weight(statements[place:], after, self.ways)
            ends = ends.then(self.statement(node, frequency * ends.falls, rest))
        return ends

    def statement(self, node: ast.stmt, frequency: float, after: int) -> Ends:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.names[node.name] = self.local(node)
            case ast.For() | ast.AsyncFor() | ast.While():
                return self.loop(node, frequency, after)
            case ast.If(test=test):
                self.expression(test, frequency)
                sides = [node.body, node.orelse]
                taken = control_flow.probability(test, *self.weights(sides, after))
                return self.either(sides, [taken, 1.0 - taken], frequency, after)
            case ast.Match():
                self.expression(node.subject, frequency)
                sides = control_flow.case_blocks(node)
                return self.either(sides, control_flow.shares(self.weights(sides, after)), frequency, after)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self.expression(item.context_expr, frequency)
                return self.block(node.body, frequency, after)
            case ast.Try() | ast.TryStar():
                return self.guarded(node, frequency, after)
            case ast.Assign(targets=[target], value=value):
                self.expression(value, frequency)
                self.assign(target, value)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                self.expression(value, frequency)
                self.assign(target, value)
            case ast.Break():
                return Ends(breaks=1.0)
            case ast.Continue():
                return Ends(continues=1.0)
            case ast.Return(value=value):
                if value is not None:
                    self.expression(value, frequency)
                return Ends(returns=1.0)
            case ast.Raise():
                return Ends(raises=1.0)
            case ast.ClassDef():
                pass
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.expression(child, frequency)
        return THROUGH

    def weights(self, sides: Sequence[Sequence[ast.stmt]], after: int) -> list[int]:
        """Of the sides of a branch."""
        return [control_flow.weight(side, after, self.ways) for side in sides]

    def either(self, sides: Sequence[Sequence[ast.stmt]], taken: Sequence[float], frequency: float, after: int) -> Ends:
        """Walk through the sides of a branch, each of which is taken with a probability."""
        ends = Ends()
        for side, part in zip(sides, taken, strict=True):
            ends += self.block(side, frequency * part, after).scaled(part)
        return ends

    def loop(self, node: Loop, frequency: float, after: int) -> Ends:
        """Walk through a loop, whose regions run as often as it goes round."""
        before = len(self.regions)
        self.expression(node.test if isinstance(node, ast.While) else node.iter, frequency)
        start, outside = len(self.regions), self.ways
        count = None if isinstance(node, ast.While) else control_flow.count(node.iter)
        if not isinstance(node, ast.While):
            for name in [n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)]:
                self.names.pop(name, None)
        self.ways, end = outside.of_loop(node, count, after)
        body = self.block(node.body, frequency, end)
        self.ways = outside
        if isinstance(node, ast.While):
            rounds = Rounds.unknown(body, control_flow.known(node.test))
            self.repeat(before, start, rounds.tests)
        else:
            rounds = Rounds.unknown(body) if count is None else Rounds.written(count, body)
        self.repeat(start, len(self.regions), rounds.body)
        out = Ends(falls=body.breaks, returns=body.returns, raises=body.raises).scaled(rounds.body)
        return out + self.block(node.orelse, frequency * rounds.exhausted, after).scaled(rounds.exhausted)

    def repeat(self, start: int, stop: int, times: float) -> None:
        """Let the regions that were found in a loop run so often as it does."""
        for place in range(start, stop):
            region = self.regions[place]
            self.regions[place] = attrs.evolve(region, frequency=region.frequency * times)

    def guarded(self, node: ast.Try | ast.TryStar, frequency: float, after: int) -> Ends:
        """Walk through a `try`: its handlers get what it surely raises, and what is `finally` done all."""
        final = control_flow.weight(node.finalbody, after, self.ways)
        ends = self.block(node.body, frequency, control_flow.weight(node.orelse, final, self.ways))
        raised = ends.raises if node.handlers else 0.0
        ends = attrs.evolve(ends, raises=ends.raises - raised)
        ends = ends.then(self.block(node.orelse, frequency * ends.falls, final))
        if node.handlers:
            each = raised / len(node.handlers)
            sides = [handler.body for handler in node.handlers]
            ends += self.either(sides, [each] * len(sides), frequency, final)
        closing = self.block(node.finalbody, frequency * ends.total, after)
        return ends.scaled(closing.falls) + attrs.evolve(closing, falls=0.0).scaled(ends.total)

    def assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            same = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
            values: Sequence[ast.expr | None] = value.elts if same else [None] * len(target.elts)  # type: ignore[attr-defined]
            meant = [None if given is None else self.meaning(given) for given in values]
            for name, found in zip(target.elts, meant, strict=True):
                if isinstance(name, ast.Name):
                    self.bind(name.id, found)
        elif isinstance(target, ast.Name):
            self.bind(target.id, self.meaning(value))

    def bind(self, name: str, meaning: Any) -> None:
        if meaning is None:
            self.names.pop(name, None)
        else:
            self.names[name] = meaning

    # expressions

    def expression(self, node: ast.expr, frequency: float) -> None:
        match node:
            case ast.Call():
                self.call(node, frequency)
            case ast.IfExp(test=test, body=then, orelse=other):
                self.expression(test, frequency)
                taken = control_flow.probability(test)
                self.expression(then, frequency * taken)
                self.expression(other, frequency * (1.0 - taken))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                for generator in node.generators:
                    self.expression(generator.iter, frequency)
                    written = control_flow.count(generator.iter)
                    frequency *= UNKNOWN_LOOP if written is None else written
                    for test in generator.ifs:
                        self.expression(test, frequency)
                        frequency *= control_flow.probability(test)
                for part in [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]:
                    self.expression(part, frequency)
            case ast.Lambda():
                return
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.expression(child, frequency)

    def call(self, node: ast.Call, frequency: float) -> None:
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        for argument in given:
            self.expression(argument.value if isinstance(argument, ast.Starred) else argument, frequency)
        if method == "target" and node.args:
            self.regions.append(attrs.evolve(self.region(node), frequency=frequency))
            return
        if method == "run" and node.args and isinstance(step := self.meaning(node.args[0]), FoundRegion):
            self.regions.append(attrs.evolve(step, frequency=frequency))
            return
        if method in _MAKES_OBJECTS:
            self.meaning(node)
        called = self.meaning(node.func)
        if isinstance(called, Function):
            self.enter(called, self.arguments(called.source.tree, node), frequency)
            return
        if isinstance(node.func, ast.Attribute):
            self.expression(node.func.value, frequency)
        if self.reads_only(node.func):
            return
        for argument in given:
            handed = self.meaning(argument)
            if isinstance(handed, Function):
                self.enter(handed, {}, frequency)

    def reads_only(self, called: ast.expr) -> bool:
        """Is it `HostProgram.of`, which does not call the function that it is given?"""
        if not (isinstance(called, ast.Attribute) and called.attr == "of"):
            return False
        written = text(called.value).rpartition(".")[2]
        return "HostProgram" in (written, getattr(self.known(called.value), "__name__", None))

    def arguments(self, tree: FunctionTree, node: ast.Call) -> dict[str, Any]:
        """What the parameters of a function stand for in a call."""
        parameters = [argument.arg for argument in (*tree.args.posonlyargs, *tree.args.args)]
        if isinstance(node.func, ast.Attribute) and parameters[:1] == ["self"]:
            del parameters[0]
        bound = dict.fromkeys(parameters)
        bound.update({name: self.meaning(value) for name, value in zip(parameters, node.args, strict=False)})
        for keyword in node.keywords:
            if keyword.arg is not None:
                bound[keyword.arg] = self.meaning(keyword.value)
        return {name: meaning for name, meaning in bound.items() if meaning is not None}

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
            argument = node.args[1 + use.position] if len(node.args) > 1 + use.position else None
            if argument is None or any(isinstance(given, ast.Starred) for given in node.args):
                self.source.refuse(
                    node,
                    f"which object is {use.name} of kernel {kernel.name!r} cannot be told",
                    "give the kernel's arguments one by one",
                )
            meaning = self.meaning(argument)
            objects.append(meaning.name if isinstance(meaning, Object) else text(argument))
        for name in objects:
            self.objects.setdefault(name)
        return FoundRegion(kernel, tuple(objects), self.source.file, node.lineno)

    # what expressions stand for

    def meaning(self, node: ast.expr) -> Any:
        """An Object, a Function, a Kernel, a region to be run, or None."""
        match node:
            case ast.Await(value=value) | ast.Starred(value=value):
                return self.meaning(value)
            case ast.Name(id=name):
                return self.names[name] if name in self.names else self.outside(self.source.names.get(name))
            case ast.Attribute(value=ast.Name(id="self"), attr=name) if self.owner is not None:
                return self.outside(getattr(self.owner, name, None)) or Object(text(node))
            case ast.Attribute(value=value, attr=name):
                return self.outside(getattr(self.known(value), name, None)) or Object(text(node))
            case ast.Call(func=ast.Attribute(attr=method)) if method == "construct_target" and node.args:
                return self.region(node)
            case ast.Call(func=ast.Attribute(attr=method), args=[ast.Constant(value=str(name)), *_]) if (
                method in _MAKES_OBJECTS
            ):
                self.objects.setdefault(name)
                return Object(name)
        return None

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
        source = attrs.evolve(self.source, who=f"host function {tree.name!r}", tree=tree)
        return Function(source, self.names)
