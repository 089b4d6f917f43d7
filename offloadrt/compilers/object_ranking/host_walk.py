"""The walk through a host function: which target regions it comes to, how often, and with which objects."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from offloadrt.compilers.host import probabilities
from offloadrt.compilers.host.names import MAKES_OBJECTS, FoundRegion, Function, Scope, Untold, Update, assigned
from offloadrt.compilers.host.probabilities import STAYS, THROUGH, Ends, Loop, Rounds, Ways
from offloadrt.kernels.accesses.frequency import UNKNOWN_LOOP
from offloadrt.kernels.kernel import Kernel
from offloadrt.kernels.source.function_source import Source, text


class HostWalk:
    """The regions and objects of the program that a host function runs, met in the order of its source.

    `owner` is the class that it is a method of, None for other functions.
    """

    def __init__(self, source: Source, owner: Any, kernels: Mapping[str, Kernel]) -> None:
        self.regions: list[FoundRegion] = []
        self.active: list[tuple[str, int]] = []
        self.ways = Ways()
        """Weights of the jumps out of the block that is walked."""
        self.left: list[dict[str, Any]] = []
        """The names at each jump out of a round of the loop that is walked."""
        self.scope = Scope(source, owner, kernels)
        self.enter(Function(source, {}), {}, 1.0)

    @property
    def objects(self) -> Iterable[str]:
        """In the order in which the program makes or names them."""
        return self.scope.objects

    def enter(self, function: Function, arguments: Mapping[str, Any], frequency: float) -> None:
        """Walk through a function that is called so often; a function that calls itself is not entered again."""
        tree = function.source.tree
        place = (function.source.file, tree.lineno)
        if place in self.active:
            return
        outside, self.ways = (self.scope, self.ways), Ways()
        self.scope = self.scope.inside(function, arguments)
        self.active.append(place)
        self.block(tree.body, frequency, STAYS)
        self.active.pop()
        self.scope, self.ways = outside

    # statements

    def block(self, statements: Sequence[ast.stmt], frequency: float, after: int) -> Ends:
        """Walk through a block that control comes to so often; `after` is the weight of what follows it."""
        ends = THROUGH
        for place, node in enumerate(statements, start=1):
            rest = probabilities.weight(statements[place:], after, self.ways)
            ends = ends.then(self.statement(node, frequency * ends.falls, rest))
        return ends

    def statement(self, node: ast.stmt, frequency: float, after: int) -> Ends:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.scope.names[node.name] = self.scope.local(node)
            case ast.For() | ast.AsyncFor() | ast.While():
                return self.loop(node, frequency, after)
            case ast.If(test=test):
                self.expression(test, frequency)
                sides = [node.body, node.orelse]
                taken = probabilities.probability(test, *self.weights(sides, after))
                return self.either(sides, [taken, 1.0 - taken], frequency, after)
            case ast.Match():
                self.expression(node.subject, frequency)
                sides = probabilities.case_blocks(node)
                return self.either(sides, probabilities.shares(self.weights(sides, after)), frequency, after)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self.expression(item.context_expr, frequency)
                    if item.optional_vars is not None:
                        self.scope.assign(item.optional_vars, item.context_expr)
                return self.block(node.body, frequency, after)
            case ast.Try() | ast.TryStar():
                return self.guarded(node, frequency, after)
            case ast.Assign(targets=targets, value=value):
                self.expression(value, frequency)
                for target in targets:
                    self.scope.assign(target, value)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                self.expression(value, frequency)
                self.scope.assign(target, value)
            case ast.Break() | ast.Continue():
                self.left.append(dict(self.scope.names))
                return Ends(breaks=1.0) if isinstance(node, ast.Break) else Ends(continues=1.0)
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
        return [probabilities.weight(side, after, self.ways) for side in sides]

    def either(self, sides: Sequence[Sequence[ast.stmt]], taken: Sequence[float], frequency: float, after: int) -> Ends:
        """Walk through the sides of a branch, each of which is taken with a probability."""
        before, states, total = dict(self.scope.names), [], Ends()
        for side, part in zip(sides, taken, strict=True):
            self.scope.meet([before])
            ends = self.block(side, frequency * part, after)
            if ends.falls:
                states.append(dict(self.scope.names))
            total += ends.scaled(part)
        self.scope.meet(states)
        return total

    def loop(self, node: Loop, frequency: float, after: int) -> Ends:
        """Walk through a loop, whose regions run as often as it goes round."""
        count = None if isinstance(node, ast.While) else probabilities.count(node.iter)
        outside, self.left = (self.ways, self.left), []
        self.ways, end = self.ways.of_loop(node, count, after)
        if isinstance(node, ast.While):
            out, exhausted = self.rounds(node, count, frequency, end)
        else:
            self.expression(node.iter, frequency)
            elements = self.objects_in(node.iter)
            if elements:
                out, exhausted = self.unrolled(node, elements, frequency, end)
            else:
                out, exhausted = self.rounds(node, count, frequency, end)
        self.ways, self.left = outside
        return out + self.block(node.orelse, frequency * exhausted, after).scaled(exhausted)

    def objects_in(self, node: ast.expr) -> Sequence[ast.expr]:
        """What a loop goes through that names objects one by one."""
        if probabilities.count(node) is None or not isinstance(node, ast.Tuple | ast.List):
            return ()
        named = [isinstance(one, ast.Tuple | ast.List) or self.scope.meaning(one) is not None for one in node.elts]
        return node.elts if any(named) else ()

    def unrolled(
        self, node: ast.For | ast.AsyncFor, elements: Sequence[ast.expr], frequency: float, end: int
    ) -> tuple[Ends, float]:
        """Walk through a loop once for each element; returns how its jumps leave it, and how likely none does."""
        out, reached = Ends(), 1.0
        for element in elements:
            self.scope.assign(node.target, element)
            ends = self.block(node.body, frequency * reached, end)
            self.scope.meet([*self.left, *([self.scope.names] if ends.falls else [])])
            out += Ends(falls=ends.breaks, returns=ends.returns, raises=ends.raises).scaled(reached)
            reached *= ends.falls + ends.continues
        return out, reached

    def rounds(self, node: Loop, count: int | None, frequency: float, end: int) -> tuple[Ends, float]:
        """Walk through a loop's body once, for all its rounds; returns as `unrolled` does.

        Once more where the body assigns to attributes, which its next round finds assigned.
        """
        first, before, attributes = len(self.regions), dict(self.scope.names), len(self.scope.attributes)
        again = [name for name in assigned(node.body) if name in before]
        self.scope.unbind(again, f"is assigned again in the loop of line {node.lineno}")
        if isinstance(node, ast.While):
            self.expression(node.test, frequency)
        else:
            self.scope.unbind(assigned([node.target]), f"is each of {text(node.iter)} in turn")
        start = len(self.regions)
        body = self.block(node.body, frequency, end)
        if len(self.scope.attributes) > attributes:
            del self.regions[first:], self.left[:]
            self.scope.meet([before])
            return self.rounds(node, count, frequency, end)
        self.scope.meet([before, *([dict(self.scope.names)] if body.falls else []), *self.left])
        if isinstance(node, ast.While):
            rounds = Rounds.unknown(body, probabilities.known(node.test))
            self.repeat(first, start, rounds.tests)
        else:
            rounds = Rounds.unknown(body) if count is None else Rounds.written(count, body)
        self.repeat(start, len(self.regions), rounds.body)
        out = Ends(falls=body.breaks, returns=body.returns, raises=body.raises).scaled(rounds.body)
        return out, rounds.exhausted

    def repeat(self, start: int, stop: int, times: float) -> None:
        """Let the regions that were found in a loop run so often as it does."""
        for place in range(start, stop):
            region = self.regions[place]
            self.regions[place] = attrs.evolve(region, frequency=region.frequency * times)

    def guarded(self, node: ast.Try | ast.TryStar, frequency: float, after: int) -> Ends:
        """Walk through a `try`: its handlers get what it surely raises, and what is `finally` done all."""
        final = probabilities.weight(node.finalbody, after, self.ways)
        before = dict(self.scope.names)
        ends = self.block(node.body, frequency, probabilities.weight(node.orelse, final, self.ways))
        inside = dict(self.scope.names)
        raised = ends.raises if node.handlers else 0.0
        ends = attrs.evolve(ends, raises=ends.raises - raised)
        ends = ends.then(self.block(node.orelse, frequency * ends.falls, final))
        if node.handlers:
            states = [dict(self.scope.names)] if ends.falls or not raised else []
            self.scope.meet([before, inside])
            sides = [handler.body for handler in node.handlers]
            caught = self.either(sides, [raised / len(sides)] * len(sides), frequency, final)
            self.scope.meet([*states, *([dict(self.scope.names)] if caught.falls else [])])
            ends += caught
        closing = self.block(node.finalbody, frequency * ends.total, after)
        return ends.scaled(closing.falls) + attrs.evolve(closing, falls=0.0).scaled(ends.total)

    # expressions

    def expression(self, node: ast.expr, frequency: float) -> None:
        match node:
            case ast.Call():
                self.call(node, frequency)
            case ast.IfExp(test=test, body=then, orelse=other):
                self.expression(test, frequency)
                taken = probabilities.probability(test)
                self.expression(then, frequency * taken)
                self.expression(other, frequency * (1.0 - taken))
            case ast.BoolOp(op=op, values=values):
                for value in values:
                    self.expression(value, frequency)
                    taken = probabilities.probability(value)
                    frequency *= taken if isinstance(op, ast.And) else 1.0 - taken
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                names = assigned([generator.target for generator in node.generators])
                before = {name: self.scope.names.get(name) for name in names}
                for generator in node.generators:
                    self.expression(generator.iter, frequency)
                    self.scope.unbind(assigned([generator.target]), f"is each of {text(generator.iter)} in turn")
                    written = probabilities.count(generator.iter)
                    frequency *= UNKNOWN_LOOP if written is None else written
                    for test in generator.ifs:
                        self.expression(test, frequency)
                        frequency *= probabilities.probability(test)
                for part in [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]:
                    self.expression(part, frequency)
                for name, meaning in before.items():
                    self.scope.bind(name, meaning)
            case ast.NamedExpr(target=target, value=value):
                self.expression(value, frequency)
                self.scope.assign(target, value)
            case ast.Lambda():
                return
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.expression(child, frequency)

    def call(self, node: ast.Call, frequency: float) -> None:
        scope = self.scope
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        for argument in given:
            self.expression(argument.value if isinstance(argument, ast.Starred) else argument, frequency)
        if method == "target" and node.args:
            self.regions.append(attrs.evolve(scope.region(node), frequency=frequency))
            return
        if method == "run" and node.args and isinstance(step := self.running(node.args[0]), FoundRegion):
            self.regions.append(attrs.evolve(step, frequency=frequency))
            return
        if method in MAKES_OBJECTS:
            scope.made(node)
        called = self.running(node.func)
        if isinstance(called, Function):
            self.enter(called, scope.arguments(called, node), frequency)
            return
        if isinstance(node.func, ast.Attribute):
            self.expression(node.func.value, frequency)
            if method == "run" and node.args and self.may_be_thread(node.func.value):
                self.refuse_unknown(node.args[0])
        if self.reads_only(node.func):
            return
        for argument in given:
            handed = self.running(argument)
            if isinstance(handed, Function):
                self.enter(handed, {}, frequency)

    def running(self, node: ast.expr) -> Any:
        """What something stands for that is run here. Refuses what may be one function or region or another."""
        meaning = self.scope.meaning(node)
        if isinstance(meaning, Untold) and meaning.runs:
            self.scope.source.refuse(
                node, f"what runs here cannot be told ({meaning.why})", "write an if around the two calls"
            )
        return meaning

    def may_be_thread(self, node: ast.expr) -> bool:
        """Is it a parameter of which nothing is known?"""
        parameters = {parameter.arg for parameter in self.scope.source.parameters}
        return isinstance(node, ast.Name) and node.id in parameters and self.scope.known(node) is None

    def refuse_unknown(self, node: ast.expr) -> None:
        """Refuse a ``t.run(step)`` whose region is not known; `step` may be a function, that another thing runs."""
        named = isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call)
        if named and not isinstance(self.scope.meaning(node), Function | Update):
            self.scope.source.refuse(
                node,
                f"which region {text(node)} is cannot be told",
                "write step = t.construct_target(kernel, ...) in this function, and t.run(step)",
            )

    def reads_only(self, called: ast.expr) -> bool:
        """Is it `HostProgram.of`, which does not call the function that it is given?"""
        if not (isinstance(called, ast.Attribute) and called.attr == "of"):
            return False
        written = text(called.value).rpartition(".")[2]
        return "HostProgram" in (written, getattr(self.scope.known(called.value), "__name__", None))
