"""Which stores each access of a loop nest feeds: the predicates under which a device needs it.

A device needs a store if it owns the element, or if it later reads the element for something that it needs. It needs a
load, or a scalar, if that feeds such a store. The walk goes through the nest backwards, like a compiler's analysis of
live variables, and carries for each scalar and each written array the guard under which its value is needed:

- A scalar's guard ends at its assignment. Where a value passes from one iteration of a loop to another, a predicate
  over that loop's variable does not say any more when the value is needed, so that every device needs it.
- An element's guard is kept as "elements whose index in dimension d plus a shift lies in region r", which holds
  wherever the element was stored.
- What is reduced into a partial value (`divided.py`) is needed where one given predicate holds.
- Every device needs what decides the control flow (conditions, bounds of loops) and to which element a store goes.

An index below zero counts from the end, as in Python. Where the source says that an index can be below zero, a
predicate tests the index modulo the length, which is right for every index. Elsewhere it tests the index itself, and
each launch checks that its arguments let no such index be below zero (`tested_plainly`).
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs

from offloadrt.kernels.accesses import ArrayAccess, Loop, Reduction, Walk, loops_of
from offloadrt.kernels.algebra import Polynomial
from offloadrt.kernels.counting import extent
from offloadrt.kernels.loop_subset import LoopNest, called, reads_first, reduction
from offloadrt.kernels.source import (
    Assignment,
    Conditional,
    RangeLoop,
    Source,
    Statement,
    assignments,
    statements,
    stored_names,
    symbol_of,
    text,
    within,
)


@attrs.frozen
class WrittenRegion:
    """An array that a loop nest writes, and the dimension along which it is divided among devices (None: not)."""

    name: str
    position: int
    """The array's position among the kernel's arguments, from 0."""
    dimension: int | None
    """The dimension along which it is divided, from 0 for the leftmost; None when every device writes all of it."""
    line: int
    """The source line of the first store to it."""


def written_regions(nest: LoopNest, walked: Walk) -> tuple[WrittenRegion, ...]:
    """Return the arrays that a loop nest writes, in the order of its parameters, each with its divided dimension.

    walked: the accesses and loops that an analysis of the nest has found.
    """
    parallel = parallel_loops(nest, walked)
    regions = []
    for position, name in enumerate(nest.parameters):
        stores = [access for access in walked.accesses if access.array == name and access.kind == "write"]
        if stores:
            line = min(access.line for access in stores)
            regions.append(WrittenRegion(name, position, _dimension(stores, parallel), line))
    return tuple(regions)


def _dimension(stores: list[ArrayAccess], parallel: set[str]) -> int | None:
    iterators = [0] * len(stores[0].index)
    from_data = None
    for access in stores:
        for dimension, index in enumerate(access.index):
            if index is not None:
                iterators[dimension] += len(index.symbols & parallel)
            elif access.loops & parallel and from_data is None:
                from_data = dimension
    return iterators.index(max(iterators)) if any(iterators) else from_data


def parallel_loops(nest: LoopNest, walked: Walk) -> set[str]:
    """Return the variables of all loops of a nest whose iterations may run in any order.

    These are the loops that are distributed over the device's threads, and other loops whose iterations are
    independent. Variables are symbols, so that two loops over the same name differ. walked: the accesses and loops that
    an analysis of the nest has found.
    """
    loops = [node for node in within(nest.body) if isinstance(node, RangeLoop)]
    return {loop.symbol for loop in loops if loop.node in nest.distributed or _is_parallel(loop, walked)}


def _is_parallel(loop: RangeLoop, walked: Walk) -> bool:
    if any(node.scalar and reads_first(loop.body, node.scalar) for node in assignments(loop.body)):
        return False
    symbol = loop.symbol
    inside = [access for access in walked.accesses if any(_is(part, symbol) for part in access.path)]
    written = {access.array for access in inside if access.kind == "write"}
    return all(_is_apart([access for access in inside if access.array == name], symbol) for name in sorted(written))


def _is(part: object, symbol: str) -> bool:
    return isinstance(part, Loop) and part.symbol == symbol


def _is_apart(accesses: list[ArrayAccess], symbol: str) -> bool:
    """Tell whether no two iterations of a loop access the same element, as their indices in one dimension differ."""
    inner = {
        loop.symbol
        for access in accesses
        for loop in loops_of(access.path[[_is(part, symbol) for part in access.path].index(True) + 1 :])
    }
    for dimension, index in enumerate(accesses[0].index):
        if index is None or index.symbols & inner or not index.is_affine_in({symbol}):
            continue
        if index.coefficient(symbol).constant and all(access.index[dimension] == index for access in accesses):
            return True
    return False


_MOST_SHIFTS = 8
"""If a region is needed with more different shifts than this, its array counts as handed on from iteration to
iteration.
"""


@attrs.frozen
class Predicate:
    """A condition under which a device needs an access: an index lies in the device's part of a written array.

    region: the array's name. index: the index as a polynomial; None if it is read from data.
    """

    region: str
    index: Polynomial | None
    data: str = ""
    """If the index is read from data: its source text. Such an index is known only in the statement that reads it."""

    def show(self) -> str:
        """Return the condition's index as source text."""
        return self.data if self.index is None else self.index.show(lambda symbol: symbol.partition("@")[0])


@attrs.frozen
class NeededByAll:
    """Says why every device needs a value or an access: `node` is the statement that needs it, `what` the reason."""

    node: ast.AST
    what: str


@attrs.frozen
class Guard:
    """Says when a device needs an access: if one of the predicates holds, always, or (without predicates) never.

    A predicate is the condition that an index lies in the device's part of a divided array. `always` says why every
    device needs it; None if not every one does.
    """

    predicates: frozenset[Predicate] = frozenset()
    always: NeededByAll | None = None

    def __or__(self, other: Guard) -> Guard:
        if self.always or (other.predicates <= self.predicates and not other.always):
            return self
        return other if other.always else Guard(self.predicates | other.predicates)

    @property
    def restricts(self) -> bool:
        """Tell whether the guard is a condition to be tested, rather than always or never."""
        return self.always is None and bool(self.predicates)

    def leaving(self, node: ast.AST, symbol: str | None = None) -> Guard:
        """Return the guard as it can be tested outside a statement (`node`), or outside the loop over `symbol`.

        A guard is the condition under which a device needs an access. If it uses an index that is not known outside, it
        becomes "always", so that every device makes the access.
        """
        if symbol is None:
            unknown = [predicate.region for predicate in self.predicates if predicate.index is None]
            if unknown:
                return Guard(always=NeededByAll(node, f"where it goes in {min(unknown)} is not known yet"))
        elif any(predicate.index is not None and symbol in predicate.index.symbols for predicate in self.predicates):
            what = f"its value is used in other iterations of the loop over {symbol.partition('@')[0]}"
            return Guard(always=NeededByAll(node, what))
        return self


NEVER = Guard()
"""The guard of an access that feeds no store."""


@attrs.frozen
class Elements:
    """Needed elements of an array: those whose index, plus a shift, lies in the device's part of a written array.

    dimension: the index's dimension. region: the written array's name. shift: added to the index, a
    sum of products of loop variables and parameters.
    """

    dimension: int
    region: str
    shift: Polynomial


@attrs.define
class Needs:
    """Says which values the code after one point of the source still needs, each with its guard.

    A guard is the condition under which a device needs the value. scalars: guards by the scalar's name. elements: by
    array, the elements that are needed. It is found from the end of the source to its beginning, as for live variables.
    """

    scalars: dict[str, Guard] = attrs.field(factory=dict)
    elements: dict[str, frozenset[Elements]] = attrs.field(factory=dict)
    arrays: dict[str, Guard] = attrs.field(factory=dict)
    """By array: the guard of those loads from it for which it is unknown which elements they read."""

    def copy(self) -> Needs:
        return Needs(dict(self.scalars), dict(self.elements), dict(self.arrays))

    def add(self, other: Needs) -> None:
        for name, guard in other.scalars.items():
            self.scalars[name] = self.scalars.get(name, NEVER) | guard
        for name, elements in other.elements.items():
            self.elements[name] = self.elements.get(name, frozenset()) | elements
        for name, guard in other.arrays.items():
            self.arrays[name] = self.arrays.get(name, NEVER) | guard

    def leaving(self, loop: RangeLoop) -> Needs:
        """Return these needs as they hold outside the loop: with guards that do not test the loop's variable.

        A guard is the condition under which a device needs a value. One that uses the loop's variable cannot be tested
        outside; there, every device then needs the value.
        """
        node, symbol = loop.node, loop.symbol
        return Needs(
            {name: guard.leaving(node, symbol) for name, guard in self.scalars.items()},
            dict(self.elements),
            {name: guard.leaving(node, symbol) for name, guard in self.arrays.items()},
        )


Guards = dict[tuple[ast.AST, str], Guard]
"""The guards by source node and kind: of loads (``read``), stores (``write``), assignments to scalars (``scalar``),
operations (``value``) and statements that reduce into a partial value (``contribution``).
"""


Contributions = Mapping[ast.stmt, Predicate]
"""The predicate of each statement that reduces into a partial value: it holds on the device that contributes."""


def guards_of(
    nest: LoopNest,
    walked: Walk,
    regions: Iterable[WrittenRegion],
    contributions: Contributions | None = None,
    kept: Iterable[str] = (),
) -> Guards:
    """Return, for each load and store in a loop nest, its guard: the condition under which a device must make it.

    A device needs the stores to its own part of the written arrays, and what these stores depend on. nest: the kernel's
    loops. walked: the accesses and loops that an analysis of the nest has found. regions: the written arrays, each with
    the dimension along which it is divided. contributions: for each statement that reduces into a partial result, the
    condition under which a device contributes. kept: scalars that are used after the nest, so that every device needs
    them.
    """
    walk = _Backwards(nest, walked, {region.name: region for region in regions}, contributions or {})
    always = Guard(always=NeededByAll(nest.source.tree, "it is used after the loop"))
    walk.block(nest.body, Needs(dict.fromkeys(kept, always)))
    return walk.guards


def contribution_of(
    nest: LoopNest, walked: Walk, regions: Iterable[WrittenRegion], reduction: Reduction
) -> Predicate | None:
    """Return the condition that tells which device makes an iteration's contribution to a reduction.

    The contribution is made by the device that owns the element which the iteration stores to the first divided array
    (of `regions`) for which its index is known. Returns None when there is no such array. walked: the accesses and
    loops that an analysis of the nest has found.
    """
    divided = {region.name: region.dimension for region in regions if region.dimension is not None}
    walk = _Backwards(nest, walked, {}, {})
    around = {loop.symbol for loop in loops_of(reduction.path)}
    outer = {loop.symbol for loop in loops_of(reduction.path) if loop.distributed}
    for access in walked.accesses:
        dimension = divided.get(access.array)
        if access.kind == "write" and dimension is not None:
            index = walk.index(access, dimension)
            variables = set() if index is None else {symbol for symbol in index.symbols if "@" in symbol}
            if index is not None and variables & outer and variables <= around:
                return Predicate(access.array, index)
    return None


def tested_plainly(
    nest: LoopNest, walked: Walk, regions: Iterable[WrittenRegion]
) -> tuple[tuple[ArrayAccess, int], ...]:
    """Return the accesses to written arrays whose index is tested at run time without allowing for negative values.

    The tests decide whether a device makes an access. Each access comes with the dimension that is tested. A negative
    index counts from the end in Python; here it would count as no element, so each launch has to check that the index
    is not negative. For an array that is never loaded, only the divided dimension is returned. nest: the loop nest of
    the kernel. walked: the accesses and loops that an analysis of it has found. regions: the arrays that it writes,
    with their divided dimensions.
    """
    changed = _changed(nest)
    loaded = {access.array for access in walked.accesses if access.kind == "read"}
    of_name = {region.name: region for region in regions}
    return tuple(
        (access, dimension)
        for access in walked.accesses
        for dimension, index in enumerate(access.index if access.array in of_name else ())
        if (access.array in loaded or dimension == of_name[access.array].dimension)
        and index is not None
        and index.constant is None
        and not index.symbols & changed
        and not _may_count_from_the_end(access, index)
    )


def _changed(nest: LoopNest) -> set[str]:
    """Return the parameters that the nest assigns to."""
    return stored_names(nest.body) & set(nest.parameters)


def _may_count_from_the_end(access: ArrayAccess, index: Polynomial) -> bool:
    """Tell whether an index may be below zero as far as the source says: its bounds are unknown or below zero."""
    loops = [loop for loop in loops_of(access.path) if loop.symbol in index.symbols]
    if any(loop.start is None or loop.stop is None for loop in loops):
        return True
    if not index.is_affine_in({loop.symbol for loop in loops}):
        return True
    ends = extent(index, access.path, {})
    return ends is not None and ends[0].sign == -1


class _Backwards:
    """Walks through a nest backwards, and collects in `guards` when a device needs each access."""

    def __init__(
        self, nest: LoopNest, walked: Walk, regions: dict[str, WrittenRegion], contributions: Contributions
    ) -> None:
        self.nest = nest
        self.regions = regions
        self.contributions = contributions
        self.accesses = {(access.node, access.kind): access for access in walked.accesses}
        self.changed = _changed(nest)
        self.guards: Guards = {}
        self.wraps: dict[tuple[ArrayAccess, int], bool] = {}
        """For each access and dimension, whether the index may be below zero and so count from the end."""

    def block(self, statements: Sequence[Statement], needs: Needs) -> Needs:
        """Return what is needed before some statements. `needs`: what is needed after them; it is changed."""
        for node in reversed(statements):
            needs = self.statement(node, needs)
        return needs

    def statement(self, statement: Statement, needs: Needs) -> Needs:
        node = statement.node
        match statement:
            case Assignment(value=value) if node in self.contributions:
                guard = Guard(frozenset({self.contributions[node]}))
                self.note(node, "contribution", guard)
                self.need(value, guard, needs, node)
            case Assignment(target=ast.Name(id=name), value=value):
                changes = statement.operator is not None
                guard = needs.scalars.get(name, NEVER) if changes else needs.scalars.pop(name, NEVER)
                self.note(node, "scalar", guard)
                if changes:
                    self.note(node, "value", guard)
                self.need(value, guard, needs, node)
            case Assignment(target=ast.Subscript() as target, value=value):
                guard = self.store(target, needs, node)
                if statement.operator is not None:
                    self.load(target, guard, needs, node)
                    self.note(node, "value", guard)
                self.need(value, guard, needs, node)
            case Conditional(test=test):
                first = self.block(statement.then, needs.copy())
                needs = self.block(statement.other, needs)
                needs.add(first)
                self.need(test, Guard(always=NeededByAll(node, "it decides which way the kernel goes")), needs, node)
            case RangeLoop():
                return self.loop(statement, needs)
        return needs

    def loop(self, loop: RangeLoop, after: Needs) -> Needs:
        node, head = loop.node, Needs()
        while True:
            end = after.copy()
            end.add(head)
            before = self.block(loop.body, end.copy()).leaving(loop)
            before.add(head)
            self.widen(before, node)
            if before == head:
                break
            head = before
        after.add(head)
        self.need(node.iter, Guard(always=NeededByAll(node, "it decides how often a loop runs")), after, node)
        return after

    def widen(self, needs: Needs, node: ast.For) -> None:
        """Make every element of an array needed by all devices, if a loop's walk keeps finding more elements of it.

        Without this the walk through the loop would not end.
        """
        for name, elements in sorted(needs.elements.items()):
            kinds = [(element.dimension, element.region) for element in elements]
            everything = needs.arrays.get(name, NEVER).always is not None
            if everything or any(kinds.count(kind) > _MOST_SHIFTS for kind in kinds):
                what = f"elements of {name} are handed on from iteration to iteration"
                needs.arrays[name] = needs.arrays.get(name, NEVER) | Guard(always=NeededByAll(node, what))
                needs.elements[name] = frozenset()

    # accesses

    def note(self, node: ast.AST, kind: str, guard: Guard) -> None:
        known = self.guards.get((node, kind))
        self.guards[node, kind] = guard if known is None else known | guard

    def store(self, node: ast.Subscript, needs: Needs, statement: ast.stmt) -> Guard:
        """Return the guard of a store, and add its index to what is needed."""
        access = self.accesses[node, "write"]
        region = self.regions[access.array]
        if region.dimension is None:
            what = f"no parallel loop runs along a dimension of {region.name}"
            guard = Guard(always=NeededByAll(statement, what))
        else:
            guard = self.at(access, Elements(region.dimension, region.name, Polynomial.number(0)))
        for elements in sorted(
            needs.elements.get(access.array, ()), key=lambda element: (element.region, element.shift.terms)
        ):
            guard |= self.at(access, elements)
        guard |= needs.arrays.get(access.array, NEVER)
        self.note(node, "write", guard)
        self.need(node.slice, guard, needs, statement)
        return guard

    def at(self, access: ArrayAccess, elements: Elements) -> Guard:
        """Return the condition that the element of an access is among `elements`."""
        index = self.index(access, elements.dimension)
        if index is not None:
            return Guard(frozenset({Predicate(elements.region, index + elements.shift)}))
        data = self.data(access, elements.dimension)
        if elements.shift.constant != 0:
            data += f" + ({elements.shift.show()})"
        return Guard(frozenset({Predicate(elements.region, None, data)}))

    def index(self, access: ArrayAccess, dimension: int) -> Polynomial | None:
        """Return an index that counts from the front and can be evaluated anywhere in its loops; None if none can."""
        index = access.index[dimension]
        if index is None or index.symbols & self.changed:
            return None
        if index.constant is not None and index.constant < 0:
            return index + Polynomial.symbol(f"{access.array}.shape[{dimension}]")
        key = access, dimension
        if key not in self.wraps:
            self.wraps[key] = _may_count_from_the_end(access, index)
        return None if self.wraps[key] else index

    def data(self, access: ArrayAccess, dimension: int) -> str:
        """Return an index that is read from data as source text that counts from the front."""
        indices = access.node.slice.elts if isinstance(access.node.slice, ast.Tuple) else [access.node.slice]
        length = ast.parse(f"{access.array}.shape[{dimension}]", mode="eval").body
        return text(ast.BinOp(indices[dimension], ast.Mod(), length))

    def load(self, node: ast.Subscript, guard: Guard, needs: Needs, statement: ast.AST) -> None:
        """Add a load under a guard to what is needed, and with it the earlier stores that may be to its element."""
        access = self.accesses[node, "read"]
        self.note(node, "read", guard)
        if access.array not in self.regions:
            return
        for predicate in sorted(guard.predicates, key=lambda condition: (condition.region, condition.show())):
            elements = self.elements(access, predicate)
            if elements is None:
                rest = Guard(frozenset({predicate})).leaving(statement)
                needs.arrays[access.array] = needs.arrays.get(access.array, NEVER) | rest
            else:
                needs.elements[access.array] = needs.elements.get(access.array, frozenset()) | {elements}
        if guard.always:
            needs.arrays[access.array] = needs.arrays.get(access.array, NEVER) | guard

    def elements(self, access: ArrayAccess, predicate: Predicate) -> Elements | None:
        """Return the elements that a load touches when a predicate holds, without loop variables; None if unknown."""
        shifted: list[Elements] = []
        for dimension in range(len(access.index)):
            index = self.index(access, dimension)
            same = Elements(dimension, predicate.region, Polynomial.number(0))
            if index is None or predicate.index is None:
                if index is predicate.index and self.data(access, dimension) == predicate.data:
                    return same
            elif index == predicate.index:
                return same
            elif not any("@" in symbol for symbol in (predicate.index - index).symbols):
                shifted.append(attrs.evolve(same, shift=predicate.index - index))
        return shifted[0] if shifted else None

    def need(self, node: ast.AST, guard: Guard, needs: Needs, statement: ast.AST) -> None:
        """Add all that an expression's value depends on to what is needed under a guard."""
        match node:
            case ast.Name(id=name):
                needs.scalars[name] = needs.scalars.get(name, NEVER) | guard.leaving(statement)
            case ast.Subscript(value=ast.Name()):
                self.load(node, guard, needs, statement)
                self.need(node.slice, guard, needs, statement)
            case ast.Attribute(value=value, attr="real" | "imag"):
                self.need(value, guard, needs, statement)
            case ast.Subscript() | ast.Attribute():
                return
            case ast.Call(args=arguments):
                self.note(node, "value", guard)
                if isinstance(node.func, ast.Attribute) and node.func.attr == "conjugate":
                    self.need(node.func.value, guard, needs, statement)
                for argument in arguments:
                    if called(self.nest.source, node) != "len":
                        self.need(argument, guard, needs, statement)
            case ast.expr():
                self.note(node, "value", guard)
                for part in ast.iter_child_nodes(node):
                    self.need(part, guard, needs, statement)


_FRAGILE = (ast.FloorDiv, ast.Mod, ast.LShift, ast.RShift)
_FRAGILE_CALLS = ("int", "floor", "ceil")


class Names:
    """Tracks the names that a source uses, and makes new ones that differ from them."""

    def __init__(self, source: Source) -> None:
        self.used = {node.id for node in source.nodes if isinstance(node, ast.Name)}
        self.used |= {node.arg for node in source.nodes if isinstance(node, ast.arg)}

    def fresh(self, wanted: str) -> str:
        """Return `wanted`, with a number at its end if the source uses that name already."""
        name, number = wanted, 1
        while name in self.used:
            number += 1
            name = f"{wanted}_{number}"
        self.used.add(name)
        return name


class Filter:
    """Writes the changed source of a loop nest, in which a device makes only the accesses that it needs.

    guards: the condition under which a device needs each access. bounds: for each divided array, the names of the
    parameters with the first and last index that the device owns. names: makes new names.
    """

    def __init__(
        self,
        nest: LoopNest,
        guards: Guards,
        bounds: dict[str, tuple[str, str]],
        names: Names,
    ) -> None:
        self.nest = nest
        self.guards = guards
        self.order = list(bounds)
        self.bounds = bounds
        self.names = names
        self.around: list[ast.For] = []
        self.variables: dict[tuple[ast.For, Guard], tuple[str, ast.expr]] = {}
        self.made_up = self._made_up()

    def _made_up(self) -> set[str]:
        """Return the scalars that may hold a made-up value: one computed from a load that was replaced by 0."""
        made_up: set[str] = set()
        while True:
            before = len(made_up)
            for node in assignments(self.nest.body):
                if node.scalar and self.is_made_up(node.value, made_up):
                    made_up.add(node.scalar)
            if len(made_up) == before:
                return made_up

    def is_made_up(self, node: ast.expr, scalars: set[str]) -> bool:
        """Tell whether an expression may have a wrong value on a device that leaves out a load.

        scalars: names whose values may be wrong for the same reason. node: the expression.
        """
        return any(
            (isinstance(part, ast.Name) and part.id in scalars)
            or (isinstance(part, ast.Subscript) and self.guard(part, "read").restricts)
            for part in ast.walk(node)
        )

    def guard(self, node: ast.AST, kind: str) -> Guard:
        return self.guards.get((node, kind), NEVER)

    # statements

    def block(self, statements: Iterable[ast.stmt]) -> list[ast.stmt]:
        """Return a block's statements as each device executes them, without assignments whose value no store uses."""
        kept = (node for node in statements if self.guards.get((node, "scalar")) != NEVER)
        return [made for node in kept for made in self.statement(node)]

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        match node:
            case ast.Assign() | ast.AugAssign() if (guard := self.guard(node, "contribution")).restricts:
                return self.contribution(node, guard)
            case ast.For():
                return [self.loop(node)]
            case ast.If():
                then = self.block(node.body) or [ast.Pass()]
                return [ast.If(self.expression(node.test), then, self.block(node.orelse))]
            case ast.Assign(targets=[ast.Subscript() as target], value=value):
                guard = self.guard(target, "write")
                if guard.restricts:
                    return self.store(target, value, guard)
            case ast.AugAssign(target=ast.Subscript() as target, op=op, value=value):
                guard = self.guard(target, "write")
                if guard.restricts:
                    before = ast.Subscript(target.value, target.slice, ast.Load())
                    self.guards[before, "read"] = self.guard(target, "read")
                    combined = ast.BinOp(before, op, value)
                    self.guards[combined, "value"] = self.guard(node, "value")
                    return self.store(target, combined, guard)
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value) if isinstance(op, _FRAGILE):
                combined = ast.BinOp(ast.Name(name, ast.Load()), op, value)
                self.guards[combined, "value"] = self.guard(node, "value")
                return [ast.Assign([ast.Name(name, ast.Store())], self.expression(combined))]
        return [self.copied(node, None)]

    def loop(self, node: ast.For) -> ast.For:
        self.around.append(node)
        body = self.block(node.body) or [ast.Pass()]
        self.around.pop()
        variables = [variable for (loop, _), variable in self.variables.items() if loop is node]
        definitions: list[ast.stmt] = [ast.Assign([ast.Name(name, ast.Store())], value) for name, value in variables]
        return ast.For(node.target, self.expression(node.iter), [*definitions, *body], [])

    def store(self, target: ast.Subscript, value: ast.expr, guard: Guard) -> list[ast.stmt]:
        """Return the statements of a store: all devices compute the value, and only some store it.

        These are the devices for which the guard (the condition under which a device needs the store) holds.
        """
        place = self.copied(target, guard)
        assert isinstance(target.value, ast.Name)
        return self.used(target.value.id, value, guard, lambda made: ast.Assign([place], made))

    def contribution(self, node: ast.Assign | ast.AugAssign, guard: Guard) -> list[ast.stmt]:
        """Return the statements of a reduction: all devices compute the operand, and only some reduce it.

        These are the devices for which the guard (the condition of the contribution) holds.
        """
        (read,) = statements([node])
        assert isinstance(read, Assignment) and isinstance(read.target, ast.Name)
        target = read.target
        form = reduction(read, target.id)
        assert form is not None
        return self.used(target.id, form[1], guard, lambda made: _with_operand(node, form[1], made))

    def used(self, name: str, value: ast.expr, guard: Guard, use: Callable[[ast.expr], ast.stmt]) -> list[ast.stmt]:
        """Return statements that compute a value and use it only on devices for which `guard`, a condition, holds.

        name: what the value is for; a new variable for it is named after this. use: makes the statement that uses the
        value from an expression.
        """
        if isinstance(value, ast.Name | ast.Constant | ast.Subscript):
            return [ast.If(self.test(guard), [use(self.expression(value, guard))], [])]
        fresh = self.names.fresh(f"{name}_value")
        return [
            ast.Assign([ast.Name(fresh, ast.Store())], self.expression(value)),
            ast.If(self.test(guard), [use(ast.Name(fresh, ast.Load()))], []),
        ]

    # expressions

    def expression(self, node: ast.expr, holding: Guard | None = None) -> ast.expr:
        """Return an expression as each device evaluates it: loads that the device does not need are replaced by 0.

        holding: a guard (condition under which a device needs an access) that is known to hold here, so it is not
        tested.
        """
        kind = "read" if isinstance(node, ast.Subscript) else "value" if self.is_fragile(node) else None
        guard = NEVER if kind is None else self.guard(node, kind)
        if not guard.restricts or (holding is not None and holding.predicates <= guard.predicates):
            return self.copied(node, holding)  # type: ignore[no-any-return]
        return ast.IfExp(self.test(guard), self.copied(node, guard), ast.Constant(0))

    def copied(self, node: Any, holding: Guard | None) -> Any:
        new = copy.copy(node)
        for field, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                setattr(new, field, self.expression(value, holding))
            elif isinstance(value, list):
                parts = [self.expression(part, holding) if isinstance(part, ast.expr) else part for part in value]
                setattr(new, field, parts)
        return new

    def is_fragile(self, node: ast.expr) -> bool:
        """Tell whether an operation may fail because a load in it is replaced by 0, as a division by that load does.

        Loads of elements that a device does not need are replaced by 0 there. node: the operation itself.
        """
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, _FRAGILE) and self.is_made_up(node, self.made_up)
        if isinstance(node, ast.Call):
            return called(self.nest.source, node) in _FRAGILE_CALLS and self.is_made_up(node, self.made_up)
        return False

    def test(self, guard: Guard) -> ast.expr:
        """Return the expression that tests a guard, the condition under which a device needs an access.

        The condition is that indices lie in the device's ranges. It is evaluated once, at the beginning of the
        innermost enclosing loop on which the indices depend, and its value is kept in a new variable, which is
        returned. If the indices are loaded data, or the access is in no loop, the comparison of indices with ranges
        itself is returned.
        """
        indices = [predicate.index for predicate in guard.predicates]
        if not self.around or None in indices:
            return self.written(guard)
        symbols = {symbol for index in indices if index is not None for symbol in index.symbols}
        least = sum(loop in self.nest.distributed for loop in self.around)
        depth = max([least, *(k for k, loop in enumerate(self.around, 1) if symbol_of(loop) in symbols)])
        key = self.around[depth - 1], guard
        if key not in self.variables:
            regions = [name for name in self.order if any(predicate.region == name for predicate in guard.predicates)]
            self.variables[key] = self.names.fresh("to_" + "_".join(regions)), self.written(guard)
        return ast.Name(self.variables[key][0], ast.Load())

    def written(self, guard: Guard) -> ast.expr:
        ranges = []
        for predicate in sorted(guard.predicates, key=self.place):
            lower, upper = self.bounds[predicate.region]
            ranges.append(f"{lower} <= {predicate.show()} <= {upper}")
        return ast.parse(" or ".join(ranges), mode="eval").body

    def place(self, predicate: Predicate) -> tuple[int, str]:
        return self.order.index(predicate.region), predicate.show()


def _with_operand(node: ast.Assign | ast.AugAssign, operand: ast.expr, made: ast.expr) -> ast.stmt:
    """Return the reduction `node` with its operand replaced by `made`."""
    if isinstance(node, ast.AugAssign):
        return ast.AugAssign(node.target, node.op, made)
    value: Any = copy.copy(node.value)
    if isinstance(value, ast.BinOp):
        value.left, value.right = (made if part is operand else part for part in (value.left, value.right))
    else:
        value.args = [made if part is operand else part for part in value.args]
    return ast.Assign(node.targets, value)
