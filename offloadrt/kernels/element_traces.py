"""Which elements a launch's threads access, in which order: the nest's source evaluated with NumPy.

`ElementTrace` evaluates a loop nest for many iterations at a time, one *lane* for each. Indices that are computed, or
read from arrays with numbers, are exact. Where numbers are missing (phantoms), or the kernel itself stores them, values
are drawn as `expect` in the source declares, and `assumed` names the arrays. Draws depend on nothing but the kernel,
the text of the index, its arrays and the first iteration evaluated, so that the same list gives the same elements.

A loop within a thread makes a lane of each trip. If neighbouring trips stay within a page, one lane stands for them.
"""

from __future__ import annotations

import ast
import functools
import itertools
import math
import operator
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels.accesses import BRANCH, UNKNOWN_LOOP, ArrayAccess, Branch, Loop, loops_of
from offloadrt.kernels.costs import KernelAnalysis, Places
from offloadrt.kernels.counting import CountedLaunch
from offloadrt.kernels.loop_subset import LoopNest
from offloadrt.kernels.ranges import flat_index, shape_of
from offloadrt.kernels.source import Assignment, Conditional, RangeLoop, Statement, literal, stored_names, text

Whole = NDArray[np.int64]


class _Unknown:
    """The value of an expression that depends on unknown numbers."""


UNKNOWN: Final = _Unknown()
_WINDOWS, _MOST_SAMPLED = 3, 1 << 17
"""Number of windows of threads that are examined for positions, and of accesses sampled in each."""
_LEVELS: Final = 4
"""Moments in which a statement runs: three for loads, by depth of dependence, and the last one for its store."""
_OPERATORS: Final[Mapping[type[ast.AST], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: np.true_divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.remainder,
    ast.Pow: np.power,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.And: np.logical_and,
    ast.Or: np.logical_or,
}


@attrs.frozen(eq=False)
class Visits:
    """The loads from one array, or the stores (`stores`): for each access its thread, time step and element."""

    array: str
    stores: bool
    lanes: Whole
    """The thread of each access, as an index in the iterations that were traced: one thread executes one iteration."""
    moments: Whole
    """The step of each access in the order of its thread's accesses; threads make accesses of one step together."""
    elements: Whole


@attrs.frozen(eq=False)
class ElementTrace:
    """Finds the array elements that a launch accesses, by evaluating the kernel's source for some iterations."""

    analysis: KernelAnalysis
    launch: CountedLaunch
    arguments: Mapping[str, Any]
    """The values of the kernel's parameters: arrays with numbers, numbers, or objects that have only a shape."""
    wanted: frozenset[str]
    """The arrays to trace: those whose accessed elements the caller asks for."""
    grain: int
    """Elements within the same `grain` bytes, such as a page, count as one."""
    key: str = ""
    """Text, such as the kernel's name, that seeds (with the index's text) the random choice of unknown elements."""
    mapped: Mapping[str, tuple[int, int]] = attrs.field(factory=dict)
    """By array, first element and number of elements among which unknown ones are chosen; by default all elements."""
    assumed: dict[str, None] = attrs.field(factory=dict, init=False)
    """The arrays of which unknown elements were chosen at random, in the order in which they were met."""

    @property
    def nest(self) -> LoopNest:
        return self.analysis.nest

    @functools.cached_property
    def shape(self) -> tuple[int, ...] | None:
        """Return the number of iterations of each distributed loop; None if one depends on another loop's variable."""
        ranges = [self.launch.range_of(loop, self.launch.numbers) for loop in self.analysis.distributed]
        return None if None in ranges else tuple(len(each) for each in ranges if each is not None)

    @functools.cached_property
    def size(self) -> float:
        """Estimate how many accesses `visits` would return if it were called with all iterations of the launch."""
        total = 0.0
        for access in self.analysis.accesses:
            if access.array in self.wanted and (often := self.launch.runs(access.path)):
                for loop in loops_of(access.path):
                    if not loop.distributed:
                        trips = self.launch.mean_trips(access.path, loop)
                        often /= max(1.0, min(self.strides[loop.symbol], trips))
                total += often
        return total / self.together

    @property
    def walks(self) -> bool:
        """Tell whether all iterations of a loop in a thread together pass more than `grain` bytes of a traced array."""
        for access in self.analysis.accesses:
            if access.array in self.wanted and access.pattern == "affine":
                for loop in loops_of(access.path):
                    if not loop.distributed and loop.symbol in access.loops and self.launch.runs(access.path):
                        trips = self.launch.mean_trips(access.path, loop)
                        if trips > self.strides_of(access)[loop.symbol]:
                            return True
        return False

    @property
    def strides_apart(self) -> bool:
        """Tell whether one step of an inner distributed loop jumps farther in some array than a step of an outer one.

        This is so in a transposition, and in the passes of a Fourier transform.
        """
        return any(
            distances[place] * size >= self.grain and distances[place] > min(distances[:place])
            for distances, size in map(self._distances, self._affine)
            for place in range(1, len(distances))
        )

    @functools.cached_property
    def together(self) -> int:
        """Return how many neighbouring iterations access the same `grain` bytes (a page); one of them is traced."""
        if any(access.through or access.pattern == "irregular" for access in self.analysis.accesses):
            return 1
        assert self.shape is not None
        least = self.shape[-1]
        for distances, size in map(self._distances, self._affine):
            least = min(least, self.grain // max(1, distances[-1] * size))
        return math.gcd(self.shape[-1], 1 << max(0, min(least, 32).bit_length() - 1))

    @property
    def _affine(self) -> list[ArrayAccess]:
        """Return the affine accesses to the wanted arrays that actually happen."""
        return [
            access
            for access in self.analysis.accesses
            if access.array in self.wanted and access.pattern == "affine" and self.launch.runs(access.path)
        ]

    def _distances(self, access: ArrayAccess) -> tuple[list[int], int]:
        """Return by how many elements a step of each distributed loop moves, and the bytes of an element."""
        flat = flat_index(access, shape_of(self.launch, access))
        size = int(getattr(getattr(self.arguments[access.array], "dtype", None), "itemsize", 8))
        if flat is None:
            return [1], size
        known = flat.known(self.launch.numbers)
        return [
            abs((known.coefficient(loop.symbol).constant or 0) * loop.step) for loop in self.analysis.distributed
        ], size

    @property
    def with_known_indices(self) -> frozenset[str]:
        """Return the arrays of `wanted` whose indices are known, from loops alone or from arrays that do not change."""
        drawn = [each.array for each in self.analysis.accesses if not all(map(self._has_numbers, each.through))]
        return self.wanted.difference(drawn)

    @property
    def is_known(self) -> bool:
        """Tell whether all indices are known: the arrays they come from have values that the kernel does not change."""
        return self.with_known_indices == self.wanted

    @functools.cached_property
    def stored(self) -> frozenset[str]:
        """Return the arrays that the kernel stores to."""
        return frozenset([access.array for access in self.analysis.accesses if access.kind == "write"])

    def _has_numbers(self, name: str) -> bool:
        return name not in self.stored and isinstance(self.arguments[name], np.ndarray)

    @functools.cached_property
    def strides(self) -> dict[str, int]:
        """Return, for each loop inside a thread, n: only each n-th iteration is traced, and counts n times."""
        strides: dict[str, int] = {}
        for access in sorted(self.analysis.accesses, key=lambda each: each.array not in self.wanted):
            for symbol, stride in self.strides_of(access).items():
                if symbol in strides or access.array in self.wanted:
                    strides[symbol] = min(strides.get(symbol, stride), stride)
        return strides

    def strides_of(self, access: ArrayAccess) -> dict[str, int]:
        """Return, for each loop inside a thread, n such that each n-th iteration finds all elements of this access."""
        found: dict[str, int] = {}
        flat = flat_index(access, shape_of(self.launch, access))
        for depth, part in enumerate(access.path):
            if not isinstance(part, Loop) or part.distributed:
                continue
            inside = access.path[depth + 1 :]
            if any(isinstance(other, Branch) and not other.of_loop for other in inside) or (
                part.symbol in access.loops and (access.pattern != "affine" or flat is None)
            ):
                found[part.symbol] = 1
            elif part.symbol not in access.loops:
                found[part.symbol] = 1 << 30  # each trip accesses the same element
            else:
                assert flat is not None
                distance = flat.known(self.launch.numbers).coefficient(part.symbol).constant or 1
                size = int(getattr(getattr(self.arguments[access.array], "dtype", None), "itemsize", 8))
                found[part.symbol] = max(1, self.grain // max(1, abs(distance * part.step) * size))
        return found

    def visits(self, iterations: Whole) -> tuple[list[Visits], int]:
        """Return the accesses in some iterations, and the number of steps in which the iterations' threads make them.

        iterations: an array of the numbers of iterations, from 0, of the distributed loops taken as one loop.
        """
        assert self.shape is not None
        frame = _Frame(self, iterations, {})
        distributed = dict(zip(self.analysis.distributed, np.unravel_index(iterations, self.shape), strict=True))
        for loop, places in distributed.items():
            values = self.launch.range_of(loop, self.launch.numbers)
            assert values is not None
            frame.names[loop.name] = values.start + values.step * places.astype(np.int64)
        with np.errstate(all="ignore"):
            moments = frame.run(_innermost(self.nest))
        return frame.found, moments

    def places(self, resident: int, warp: int, sector: int, cache: float) -> Places:
        """Return the bytes that move for the accesses to the traced arrays (`wanted`), in sectors of ``sector`` bytes.

        ``warp``: threads of a warp, which gets a sector once for what they load in one step. A sector comes from memory
        once for all threads on the device (``resident``), as far as the L2 cache of ``cache`` bytes holds it; an array
        that fits into it comes once in a launch. The first, the middle and the last ``resident`` threads stand for all.
        """
        assert self.shape is not None
        total = math.prod(self.shape)
        each = max(warp, min(resident, int(_MOST_SAMPLED * total / max(self.size, 1.0))))
        begins = np.unique(np.linspace(0, max(0, total - each), _WINDOWS).astype(np.int64) // warp * warp)
        counted: dict[str, Whole] = {}
        stored: dict[str, list[Whole]] = {}
        for begin in begins.tolist():
            iterations = np.arange(begin, min(begin + each, total))
            found, length = self.visits(iterations)
            met: dict[tuple[str, bool], list[tuple[Whole, Whole]]] = {}
            for visits in found:
                size = self.arguments[visits.array].dtype.itemsize
                sectors = visits.elements * size // sector
                at_once = _different_pairs(visits.lanes // warp * length + visits.moments, sectors)
                counted.setdefault(visits.array, np.zeros(3, np.int64))[:2] += visits.elements.size * size, at_once
                met.setdefault((visits.array, visits.stores), []).append((visits.lanes, sectors))
                if visits.stores:
                    stored.setdefault(visits.array, []).append(visits.elements)
            lists = {key: [np.concatenate(part) for part in zip(*pairs, strict=True)] for key, pairs in met.items()}
            held = sum(np.unique(sectors).size for _, sectors in lists.values()) * sector
            turns = max(1, -(-held // int(max(cache, sector))))  # turns of threads, each of which fits the cache
            for (array, _), (lanes, sectors) in lists.items():
                counted[array][2] += _different_pairs(lanes * turns // iterations.size, sectors)
        moved, scale = {}, total / max(1, min(total, each * begins.size))
        for array, (nbytes, at_once, in_windows) in counted.items():
            whole = math.prod(self.arguments[array].shape) * self.arguments[array].dtype.itemsize
            from_memory = in_windows * sector * scale
            if whole <= cache:
                from_memory = min(from_memory, whole)
            moved[array] = at_once * sector / nbytes, from_memory / (nbytes * scale)
        hottest = {array: np.concatenate(of_array) for array, of_array in stored.items()}
        return Places(moved, {array: float(np.bincount(of).max() / of.size) for array, of in hottest.items()})


def _different_pairs(first: Whole, second: Whole) -> int:
    return int(np.unique(first * (int(second.max(initial=0)) + 1) + second).size)


def _indices(node: ast.Subscript) -> Sequence[ast.expr]:
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def _innermost(nest: LoopNest) -> Sequence[Statement]:
    """Return the body of the innermost distributed loop."""
    body: Sequence[Statement] = nest.body
    for loop in nest.distributed:
        (body,) = [node.body for node in body if isinstance(node, RangeLoop) and node.node is loop]
    return body


class _Frame:
    """Lanes that execute the same statements."""

    def __init__(self, trace: ElementTrace, iterations: Whole, names: dict[str, Any]) -> None:
        self.trace = trace
        self.iterations = iterations
        """The iteration of the distributed loops that each lane is in."""
        self.names = names
        """The value of each scalar: a number, one number for each lane, or ``UNKNOWN``."""
        self.found: list[Visits] = []
        self._drawn: dict[tuple[str, int], Whole] = {}

    @property
    def lanes(self) -> int:
        return self.iterations.size

    def run(self, body: Iterable[Statement]) -> int:
        """Run statements; return the number of their moments."""
        now = 0
        for node in body:
            if not self.lanes:
                break
            match node:
                case Assignment():
                    self._assign(node, now)
                    now += _LEVELS
                case Conditional():
                    now += self._branch(node, now)
                case RangeLoop():
                    now += self._loop(node, now)
        return now

    # statements

    def _assign(self, node: Assignment, now: int) -> None:
        value = self.value(node.value, now)
        if isinstance(node.target, ast.Subscript):
            if node.operator is not None:
                self._visit(node.target, now, stores=False)
            self._visit(node.target, now, stores=True)
        else:
            if node.operator is not None:
                value = self._combined(node.operator, self.names.get(node.target.id, UNKNOWN), value)
            self.names[node.target.id] = value

    def _branch(self, node: Conditional, now: int) -> int:
        holds = self.value(node.test, now)
        if isinstance(holds, _Unknown):
            hint = self._hint(node.test, "probability", BRANCH)
            holds = self._random(text(node.test)).random(self.lanes) < hint
        holds = np.broadcast_to(np.asarray(holds, np.bool_), (self.lanes,))
        moments, names = now + _LEVELS, stored_names([node])
        sides = [self._only(np.flatnonzero(holds)), self._only(np.flatnonzero(~holds))]
        for side, body, which in zip(sides, (node.then, node.other), (holds, ~holds), strict=True):
            own = np.flatnonzero(which)
            length = side.run(body)
            self.found += [
                attrs.evolve(visits, lanes=own[visits.lanes], moments=visits.moments + moments) for visits in side.found
            ]
            moments += length
        for name in names:
            self.names[name] = self._merged(holds, *(side.names.get(name, UNKNOWN) for side in sides))
        return moments - now

    def _merged(self, holds: Any, then: Any, other: Any) -> Any:
        if holds.all():
            return then
        if not holds.any():
            return other
        if isinstance(then, _Unknown) or isinstance(other, _Unknown):
            return UNKNOWN
        merged = np.empty(self.lanes, np.result_type(then, other))
        merged[holds], merged[~holds] = then, other
        return merged

    def _loop(self, node: RangeLoop, now: int) -> int:
        first, last = self.value(node.first, now), self.value(node.last, now)
        if isinstance(first, _Unknown) or isinstance(last, _Unknown):
            count = round(self._hint(node.node.iter, "trips", UNKNOWN_LOOP))
            first = self._first_of_row(node, count) if isinstance(first, _Unknown) else first
            last = first + count * node.step
        stored = stored_names(node.body)
        if node.symbol not in self.trace.strides:  # it has no wanted accesses, so its trips do not matter
            self.names |= dict.fromkeys((*stored, node.variable), UNKNOWN)
            return _LEVELS
        trips = np.broadcast_to(np.maximum(-(-(np.asarray(last) - first) // node.step), 0), (self.lanes,))
        stride = self.trace.strides[node.symbol]
        lots = -(-trips // stride)
        lots = lots + ((lots > 0) & ((lots - 1) * stride < trips - 1))  # the last trip is one of them
        owner = np.repeat(np.arange(self.lanes), lots)
        turn = np.arange(owner.size) - np.repeat(np.cumsum(lots) - lots, lots)
        inner = self._only(owner)
        turns = np.minimum(turn * stride, trips[owner] - 1)
        start = first[owner] if isinstance(first, np.ndarray) and first.ndim else first
        inner.names |= dict.fromkeys(stored, UNKNOWN) | {node.variable: start + turns * node.step}
        length = inner.run(node.body)
        for visits in inner.found:
            moments = now + _LEVELS + turn[visits.lanes] * length + visits.moments
            self.found.append(attrs.evolve(visits, lanes=owner[visits.lanes], moments=moments))
        self.names |= dict.fromkeys((*stored, node.variable), UNKNOWN)
        return _LEVELS + int(lots.max(initial=0)) * length

    def _first_of_row(self, node: RangeLoop, count: int) -> Any:
        """Return where each lane's loop of `count` trips begins in the arrays that its variable indexes.

        A bound that is read from an array divides them into rows, which follow one another in that array's order: in
        equal parts where its index is known, else anywhere.
        """
        arguments, bound = self.trace.arguments, node.first
        lengths = [
            length
            for access in self.trace.analysis.accesses
            if node.symbol in access.loops
            for index, length in zip(_indices(access.node), arguments[access.array].shape, strict=True)
            if isinstance(index, ast.Name) and index.id == node.variable
        ]
        room = min(lengths, default=1)
        if isinstance(bound, ast.Subscript) and isinstance(bound.value, ast.Name) and not _depth(bound.slice):
            place = self.value(bound.slice, 0)
            if not isinstance(place, _Unknown):
                return place * room // max(arguments[bound.value.id].shape[0] - 1, 1)
        return self._random(text(bound)).integers(0, max(room - count, 1), self.lanes)

    def _only(self, lanes: Whole) -> _Frame:
        """Return a frame with some of the lanes; a lane may occur several times."""
        names = {
            name: value[lanes] if isinstance(value, np.ndarray) and value.ndim else value
            for name, value in self.names.items()
        }
        return _Frame(self.trace, self.iterations[lanes], names)

    # expressions

    def value(self, node: ast.expr, now: int) -> Any:
        """Return the value of an expression in each lane, and note its loads."""
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self._named(name)
            case ast.BinOp(left=left, op=op, right=right):
                return self._combined(op, self.value(left, now), self.value(right, now))
            case ast.UnaryOp(op=op, operand=operand):
                value = self.value(operand, now)
                if isinstance(value, _Unknown) or isinstance(op, ast.UAdd):
                    return value
                return np.logical_not(value) if isinstance(op, ast.Not) else -value
            case ast.Compare(left=left, ops=ops, comparators=others):
                values = [self.value(each, now) for each in (left, *others)]
                pairs = zip(ops, itertools.pairwise(values), strict=True)
                parts = [self._combined(op, *pair) for op, pair in pairs]
                return functools.reduce(functools.partial(self._combined, ast.And()), parts)
            case ast.BoolOp(op=op, values=values):
                parts = [self.value(each, now) for each in values]
                return functools.reduce(functools.partial(self._combined, op), parts)
            case ast.IfExp(test=test, body=body, orelse=other):
                holds, first, second = [self.value(each, now) for each in (test, body, other)]
                if any(isinstance(each, _Unknown) for each in (holds, first, second)):
                    return UNKNOWN
                return np.where(holds, first, second)
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name)), slice=dimension):
                return self.trace.arguments[name].shape[int(literal(dimension) or 0)]
            case ast.Subscript():
                return self._visit(node, now, stores=False)
            case ast.Attribute(value=ast.Name(id=name), attr="size"):
                return math.prod(self.trace.arguments[name].shape)
            case ast.Attribute(value=value):
                self.value(value, now)
            case ast.Call():
                return self._called(node, now)
        return UNKNOWN

    def _named(self, name: str) -> Any:
        if name in self.names:
            return self.names[name]
        if name in self.trace.arguments:
            return self.trace.arguments[name]
        value = self.trace.nest.constant(name)
        return UNKNOWN if value is None else value

    def _called(self, node: ast.Call, now: int) -> Any:
        name = self.trace.nest.function_of(node)
        if name == "len":
            return self.trace.arguments[text(node.args[0])].shape[0]
        values = [self.value(argument, now) for argument in node.args]
        if name in ("expect", "atomic"):
            return values[0]
        if any(isinstance(value, _Unknown) for value in values):
            return UNKNOWN
        if name in ("min", "max"):
            return functools.reduce(np.minimum if name == "min" else np.maximum, values)
        if name == "int":
            return np.asarray(np.trunc(values[0])).astype(np.int64)
        function = {"abs": np.abs, "fabs": np.abs, "floor": np.floor, "ceil": np.ceil}.get(name)
        return UNKNOWN if function is None else function(values[0])

    def _combined(self, op: ast.AST, first: Any, second: Any) -> Any:
        function = _OPERATORS.get(type(op))
        if function is None or isinstance(first, _Unknown) or isinstance(second, _Unknown):
            return UNKNOWN
        if isinstance(op, ast.FloorDiv | ast.Mod) and not np.all(second):
            return UNKNOWN
        return function(first, second)

    # accesses

    def _visit(self, node: ast.Subscript, now: int, *, stores: bool) -> Any:
        """Note that lanes load or store an element; return the loaded values."""
        assert isinstance(node.value, ast.Name)
        name, trace = node.value.id, self.trace
        argument = trace.arguments[name]
        indices = _indices(node)
        level = min(max(_depth(index) for index in indices), _LEVELS - 2)
        values = [self.value(index, now) for index in indices]
        size = math.prod(argument.shape)
        elements: Any
        if any(isinstance(value, _Unknown) for value in values):
            if name in trace.wanted:
                trace.assumed[name] = None
            first, count = trace.mapped.get(name, (0, size))
            elements = first + self._draw(text(node.slice), indices, count)
        else:
            elements = 0
            for value, length in zip(values, argument.shape, strict=True):
                elements = elements * length + np.where(np.asarray(value) < 0, value + length, value)
        if not size:
            return UNKNOWN
        elements = np.clip(np.broadcast_to(np.asarray(elements, np.int64), (self.lanes,)), 0, size - 1)
        if name in trace.wanted and self.lanes:
            moment = now + (_LEVELS - 1 if stores else level)
            lanes = np.arange(self.lanes)
            self.found.append(Visits(name, stores, lanes, np.full(self.lanes, moment), elements))
        if stores or not trace._has_numbers(name) or any(isinstance(value, _Unknown) for value in values):
            return UNKNOWN
        return argument.reshape(-1)[elements]

    def _draw(self, index: str, indices: Sequence[ast.expr], size: int) -> Whole:
        """Draw the elements of an index without known numbers: near the iteration where `expect` says so, or anywhere.

        Arrays of the same size that are read at the same index get the same elements.
        """
        drawn_for = index, size
        if drawn_for not in self._drawn:
            rng, shape = self._random(index), self.trace.shape
            assert shape is not None
            near = max(self._hint(each, "near", 0.0) for each in indices)
            drawn = rng.integers(0, max(size, 1), self.lanes)
            if near:
                count = max(math.prod(shape), 1)
                along = (self.iterations * size + rng.integers(0, max(size, 1), self.lanes)) // count
                drawn = np.where(rng.random(self.lanes) < near, along, drawn)
            self._drawn[drawn_for] = drawn
        return self._drawn[drawn_for]

    def _random(self, what: str) -> np.random.Generator:
        first = int(self.iterations[0]) if self.lanes else 0
        return np.random.default_rng(zlib.crc32(f"{self.trace.key} {what} {first}".encode()))

    def _hint(self, node: ast.expr, name: str, default: float) -> float:
        """Return the value that `expect` gives in an expression; the default without such a hint."""
        for part in ast.walk(node):
            if isinstance(part, ast.Call) and self.trace.nest.function_of(part) == "expect":
                for keyword in part.keywords:
                    if keyword.arg == name:
                        value = literal(keyword.value)
                        named = keyword.value.id if isinstance(keyword.value, ast.Name) else ""
                        return float(self.trace.arguments.get(named, default) if value is None else value)
        return default


@functools.lru_cache(maxsize=1 << 10)
def _depth(node: ast.AST) -> int:
    """Return the length of the longest chain of dependent loads in an expression."""
    inner = max((_depth(child) for child in ast.iter_child_nodes(node)), default=0)
    return inner + (isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name))
