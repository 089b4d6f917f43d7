"""What each access of a loop nest feeds: the predicates under which a device needs it.

A device needs a store when the element is its own, or when it reads the element later for something that it needs; a
load, and a scalar, when they feed such a store. The walk goes through the nest backwards, like a compiler's analysis of
live variables, and carries for each scalar and each written array the guard under which its value is needed:

- a scalar's guard ends at its assignment; where a value passes from one iteration of a loop to another, a predicate
  over that loop's variable does not say when it is needed any more, and every device needs it;
- an element's guard is kept as "elements whose index in dimension d plus a shift lies in region r", which holds
  wherever it was stored;
- what is reduced into a partial value (`partial_values.py`) is needed where one given predicate holds;
- what decides the control flow (conditions, bounds of loops) and which element a store goes to, every device needs.

An index below zero counts from the end, as in Python. Where the source says that an index can be below zero, a
predicate tests the index modulo the length, which is right for every index; elsewhere it tests the index itself, and
whether that is below zero is looked at when the arguments of a launch are known (`tested_plainly`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence

import attrs

from offloadrt.compilers.multi_device.written_regions import WrittenRegion
from offloadrt.kernels.accesses.access import ArrayAccess, Reduction, Walk
from offloadrt.kernels.accesses.frequency import loops_of
from offloadrt.kernels.algebra.polynomial import Polynomial
from offloadrt.kernels.counting.index_ranges import extent
from offloadrt.kernels.source.function_source import text
from offloadrt.kernels.source.loop_ir import Assignment, Conditional, RangeLoop, Statement, stored_names
from offloadrt.kernels.source.subset import LoopNest, called

_MOST_SHIFTS = 8
"""Different shifts of one region after which an array counts as handed on from iteration to iteration."""


@attrs.frozen
class Predicate:
    """An index lies in the part of a written region that the device owns."""

    region: str
    index: Polynomial | None
    data: str = ""
    """The index as text, where it is read from data; it is known in its own statement only."""

    def show(self) -> str:
        """Write the index as source."""
        return self.data if self.index is None else self.index.show(lambda symbol: symbol.partition("@")[0])


@attrs.frozen
class NeededByAll:
    """Why every device needs something."""

    node: ast.AST
    what: str


@attrs.frozen
class Guard:
    """One of the predicates holds; or always; without predicates never."""

    predicates: frozenset[Predicate] = frozenset()
    always: NeededByAll | None = None

    def __or__(self, other: Guard) -> Guard:
        if self.always or (other.predicates <= self.predicates and not other.always):
            return self
        return other if other.always else Guard(self.predicates | other.predicates)

    @property
    def restricts(self) -> bool:
        """Tell whether it is a condition that can be tested."""
        return self.always is None and bool(self.predicates)

    def leaving(self, node: ast.AST, symbol: str | None = None) -> Guard:
        """Return the guard as it is known outside of a statement, or of an iteration of the loop over `symbol`."""
        if symbol is None:
            unknown = [predicate.region for predicate in self.predicates if predicate.index is None]
            if unknown:
                return Guard(always=NeededByAll(node, f"where it goes in {min(unknown)} is not known yet"))
        elif any(predicate.index is not None and symbol in predicate.index.symbols for predicate in self.predicates):
            what = f"its value is used in other iterations of the loop over {symbol.partition('@')[0]}"
            return Guard(always=NeededByAll(node, what))
        return self


NEVER = Guard()
"""What feeds no store."""


@attrs.frozen
class Elements:
    """The elements whose index in a dimension, plus a shift, lies in the device's part of a region."""

    dimension: int
    region: str
    shift: Polynomial


@attrs.define
class Needs:
    """What is needed from a point of the source on."""

    scalars: dict[str, Guard] = attrs.field(factory=dict)
    elements: dict[str, frozenset[Elements]] = attrs.field(factory=dict)
    arrays: dict[str, Guard] = attrs.field(factory=dict)
    """Guards of loads that do not say which elements."""

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
        """Return what is needed at a loop's head, as seen from before its iteration."""
        node, symbol = loop.node, loop.symbol
        return Needs(
            {name: guard.leaving(node, symbol) for name, guard in self.scalars.items()},
            dict(self.elements),
            {name: guard.leaving(node, symbol) for name, guard in self.arrays.items()},
        )


Guards = dict[tuple[ast.AST, str], Guard]
"""The guards of loads and stores (kinds ``read`` and ``write``), assignments (``scalar``), operations (``value``) and
statements that reduce into a partial value (``contribution``).
"""


Contributions = Mapping[ast.stmt, Predicate]
"""The guard of statements that reduce into a partial value: whether the device is the one that contributes."""


def guards_of(
    nest: LoopNest,
    walked: Walk,
    regions: Iterable[WrittenRegion],
    contributions: Contributions | None = None,
    kept: Iterable[str] = (),
) -> Guards:
    """Return the guard of each access of a nest. kept: scalars that every device needs at its end."""
    walk = _Backwards(nest, walked, {region.name: region for region in regions}, contributions or {})
    always = Guard(always=NeededByAll(nest.source.tree, "it is used after the loop"))
    walk.block(nest.body, Needs(dict.fromkeys(kept, always)))
    return walk.guards


def contribution_of(
    nest: LoopNest, walked: Walk, regions: Iterable[WrittenRegion], reduction: Reduction
) -> Predicate | None:
    """Return when a device contributes to a reduction: the predicate of the element that the iteration stores.

    It is of the first divided region whose element the iteration knows; None when there is none.
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
    """Return accesses to written arrays, each with a dimension in which predicates test the index as it is.

    An index below zero would be taken for no element there. Of an array that is only stored, that is the divided
    dimension.
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
    """Return the parameters that the nest assigns."""
    return stored_names(nest.body) & set(nest.parameters)


def _may_count_from_the_end(access: ArrayAccess, index: Polynomial) -> bool:
    """Tell whether the source says that an index can be below zero, or nothing of where it lies."""
    loops = [loop for loop in loops_of(access.path) if loop.symbol in index.symbols]
    if any(loop.start is None or loop.stop is None for loop in loops):
        return True
    if not index.is_affine_in({loop.symbol for loop in loops}):
        return True
    ends = extent(index, access.path, {})
    return ends is not None and ends[0].sign == -1


class _Backwards:
    """Walks through a nest backwards, and notes what each statement is needed for."""

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
        """Whether the index may count from the end, by access and dimension."""

    def block(self, statements: Sequence[Statement], needs: Needs) -> Needs:
        """Return what is needed before some statements; `needs` is what is needed after them, and is used up."""
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
        """Need all of an array for good when ever more of its elements are needed, so that the loop's walk ends."""
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
        """Return the guard of a store, and need its index."""
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
        """Return when the element that an access touches is among some elements."""
        index = self.index(access, elements.dimension)
        if index is not None:
            return Guard(frozenset({Predicate(elements.region, index + elements.shift)}))
        data = self.data(access, elements.dimension)
        if elements.shift.constant != 0:
            data += f" + ({elements.shift.show()})"
        return Guard(frozenset({Predicate(elements.region, None, data)}))

    def index(self, access: ArrayAccess, dimension: int) -> Polynomial | None:
        """Return an index as it can be written anywhere in its loops, counted from the front; None where it cannot."""
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
        """Write an index from data as text, counted from the front."""
        indices = access.node.slice.elts if isinstance(access.node.slice, ast.Tuple) else [access.node.slice]
        length = ast.parse(f"{access.array}.shape[{dimension}]", mode="eval").body
        return text(ast.BinOp(indices[dimension], ast.Mod(), length))

    def load(self, node: ast.Subscript, guard: Guard, needs: Needs, statement: ast.AST) -> None:
        """Need a load under a guard, and so the stores before it that may have been to its element."""
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
        """Return the elements that a load touches when a predicate holds, said without its loops."""
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
        """Need an expression's value under a guard."""
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
