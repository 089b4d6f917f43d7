"""The abstract form of a random OpenMP program, and the oracle that knows what is wrong with one.

An array has four blocks. The oracle runs the operations in one order that the program allows, and keeps for each block
the version that the host and the device have. It orders the operations by happens-before, and compares all pairs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

import attrs

BLOCKS = 4
Kind = Literal["heap", "static", "stack", "declared", "device"]


@attrs.frozen
class Array:
    """An array of doubles. device: a block of `omp_target_alloc`."""

    name: str
    kind: Kind
    width: int
    """Elements of a block."""

    @property
    def size(self) -> int:
        return BLOCKS * self.width


@attrs.frozen
class Map:
    """A map clause for the blocks [first, last) of an array."""

    array: str
    how: str
    first: int = 0
    last: int = BLOCKS
    always: bool = False


@attrs.frozen
class Op:
    """What one thread does.

    what: write or read (by the host), enter, exit, update, kernel, begin and end (of a data region), wait, free (an
    array), alloc and dealloc (a block of the device). how: of an update `to` or `from`; of a kernel `set`, `add` or
    `copy` (from `source`, plus the value). depend: pairs of a way and an array. flavour: in what words it is written.
    """

    what: str
    array: str = ""
    first: int = 0
    last: int = BLOCKS
    how: str = ""
    value: int = 0
    source: str = ""
    at: int = 0
    """The first block of the source."""
    maps: tuple[Map, ...] = ()
    deferred: bool = False
    depend: tuple[tuple[str, str], ...] = ()
    flavour: int = 0

    @property
    def arrays(self) -> tuple[str, ...]:
        """Return the arrays that it is about."""
        return tuple(dict.fromkeys([*filter(None, (self.array, self.source)), *(one.array for one in self.maps)]))


@attrs.define
class Program:
    """Phases with a barrier after each, in which each thread has its operations. barriers: which of them are there."""

    arrays: dict[str, Array]
    threads: int
    phases: list[list[list[Op]]]
    barriers: list[bool]

    def operations(self) -> Iterator[tuple[int, int, int, Op]]:
        """Yield phase, thread, position and operation, in the order in which the oracle runs them."""
        for number, phase in enumerate(self.phases):
            for thread, ops in enumerate(phase):
                for position, op in enumerate(ops):
                    yield number, thread, position, op

    def replaced(self, phase: int, thread: int, position: int, *ops: Op) -> Program:
        """Return the program with other operations in the place of one."""
        phases = [[list(ops) for ops in one] for one in self.phases]
        phases[phase][thread][position : position + 1] = ops
        return attrs.evolve(self, phases=phases)


@attrs.frozen
class Use:
    """A use of one block in one memory.

    maps: by a map clause; counted: by a kernel whose region has a reference of its own.
    """

    memory: str
    array: str
    block: int
    writes: bool
    maps: bool = False
    counted: bool = False


@attrs.define
class Held:
    """An array as it is meanwhile. Versions: None is what nothing has written."""

    array: Array
    count: float = 0
    first: int = 0
    last: int = 0
    host: list[int | None] = attrs.field(factory=lambda: [0] * BLOCKS)
    device: list[int | None] = attrs.field(factory=lambda: [None] * BLOCKS)
    newest: list[int] = attrs.field(factory=lambda: [0] * BLOCKS)
    host_values: list[float] = attrs.field(factory=lambda: [0.0] * BLOCKS)
    device_values: list[float] = attrs.field(factory=lambda: [0.0] * BLOCKS)
    freed: bool = False

    def __attrs_post_init__(self) -> None:
        if self.array.kind == "declared":
            self.count, self.first, self.last, self.device = math.inf, 0, BLOCKS, [0] * BLOCKS

    def holds(self, first: int, last: int) -> bool:
        """Tell whether the device has all of these blocks."""
        return self.count > 0 and self.first <= first and last <= self.last


class Machine:
    """Runs operations one after the other. `problems` are mistakes of the program, `doubts` what a good one avoids."""

    def __init__(self, arrays: dict[str, Array]) -> None:
        self.held = {name: Held(array) for name, array in arrays.items()}
        self.version = 0
        self.by_kernels: set[int] = set()
        """The versions that kernels have made."""
        self.total = 0.0
        self.problems: list[str] = []
        self.doubts: list[str] = []
        self.uses: list[Use] = []
        self.regions: list[Op] = []

    def run(self, op: Op) -> list[Use]:
        """Run one operation and return what it uses."""
        self.uses = []
        for name in op.arrays:
            if self.held[name].freed:
                self.problems.append(f"use after free: {op.what} of {name}")
        getattr(self, f"_{op.what}")(op)
        return self.uses

    def left(self) -> list[str]:
        """Return what is left over at the end."""
        return [
            f"{'memory leak' if one.array.kind == 'device' else 'missing unmap'}: {name}"
            for name, one in self.held.items()
            if 0 < one.count < math.inf
        ]

    def _use(self, memory: str, name: str, first: int, last: int, writes: bool, **how: Any) -> None:
        self.uses += [Use(memory, name, block, writes, **how) for block in range(first, last)]

    # the host

    def _write(self, op: Op) -> None:
        one = self.held[op.array]
        self._use("host", op.array, op.first, op.last, True)
        self.version += 1
        for block in range(op.first, op.last):
            one.host[block] = one.newest[block] = self.version
            one.host_values[block] = op.value

    def _read(self, op: Op) -> None:
        one = self.held[op.array]
        self._use("host", op.array, op.first, op.last, False)
        for block in range(op.first, op.last):
            self._judge(one.host[block], one.newest[block], f"host reads {op.array}")
            self.total += one.host_values[block] * one.array.width

    def _judge(self, version: int | None, newest: int, what: str) -> None:
        if version is None:
            self.problems.append(f"uninitialised: {what}")
        elif version < newest:
            self.problems.append(f"stale: {what}")

    # maps

    def _copy(self, name: str, first: int, last: int, to_device: bool, maps: bool) -> None:
        one = self.held[name]
        self._use("host", name, first, last, not to_device, maps=maps)
        self._use("device", name, first, last, to_device, maps=maps)
        for block in range(first, last):
            source, target = (one.host, one.device) if to_device else (one.device, one.host)
            if source[block] is None or (target[block] is not None and source[block] < target[block]):  # type: ignore[operator]
                self.doubts.append("a copy of what is older")
            target[block] = source[block]
            self._settle(one, block, to_device)
            values, into = (one.host_values, one.device_values)[:: 1 if to_device else -1]
            into[block] = values[block]

    def _settle(self, one: Held, block: int, to_device: bool) -> None:
        """Let a copy stand for the newest version where only the program knows which of two it wants.

        To the device, it may take back what a kernel has made there, or give a kernel a fresh copy. To the host, it may
        bring what a kernel has made into a buffer that the host has cleared meanwhile.
        """
        if to_device:
            if one.newest[block] in self.by_kernels and one.host[block] is not None:
                one.device[block] = one.newest[block]
        elif one.host[block] in self.by_kernels and one.newest[block] not in self.by_kernels:
            one.newest[block] = one.host[block] or 0

    def _map(self, clause: Map) -> None:
        one = self.held[clause.array]
        if one.count == 0:
            one.first, one.last, one.device = clause.first, clause.last, [None] * BLOCKS
            self._use("device", clause.array, clause.first, clause.last, True, maps=True)
            one.count = 1
            copies = True
        elif one.holds(clause.first, clause.last):
            one.count += 1
            copies = clause.always
        else:
            self.problems.append(f"outside: {clause.array} is extended")
            return
        if copies and clause.how in ("to", "tofrom"):
            self._copy(clause.array, clause.first, clause.last, True, True)

    def _unmap(self, clause: Map) -> None:
        one = self.held[clause.array]
        if not one.holds(clause.first, clause.last):
            self.doubts.append("an unmap of what is absent")
            return
        if clause.how == "delete" and one.count > 1:
            self.doubts.append("delete under other users")
        one.count = 0 if clause.how == "delete" and one.count < math.inf else one.count - 1
        if clause.how in ("from", "tofrom") and (one.count == 0 or clause.always):
            self._copy(clause.array, clause.first, clause.last, False, True)
        if one.count == 0:
            self._use("device", clause.array, one.first, one.last, True, maps=True)
            lost = [block for block in range(one.first, one.last) if (one.device[block] or 0) > (one.host[block] or 0)]
            if lost:
                self.doubts.append("what the device wrote is lost")
            one.device = [None] * BLOCKS

    def _enter(self, op: Op) -> None:
        for clause in op.maps:
            self._map(clause)

    def _exit(self, op: Op) -> None:
        for clause in reversed(op.maps):
            self._unmap(clause)

    def _begin(self, op: Op) -> None:
        self._enter(op)

    def _end(self, op: Op) -> None:
        self._exit(op)

    def _update(self, op: Op) -> None:
        if not self.held[op.array].holds(op.first, op.last):
            self.problems.append(f"missed update: {op.array}")
            return
        self._copy(op.array, op.first, op.last, op.how == "to", False)

    # kernels

    def _kernel(self, op: Op) -> None:
        named = {clause.array for clause in op.maps}
        implied = [
            Map(name, "tofrom", self.held[name].first, self.held[name].last)
            if self.held[name].count
            else Map(name, "tofrom")
            for name in op.arrays
            if name not in named and self.held[name].array.kind in ("static", "stack")
        ]
        clauses = (*op.maps, *implied)
        for clause in clauses:
            self._map(clause)
        counted = {clause.array for clause in clauses}
        read = (
            [(op.source, op.at + offset) for offset in range(op.last - op.first)] if op.how == "copy"
            else [(op.array, block) for block in range(op.first, op.last)] if op.how == "add" else []
        )  # fmt: skip
        found: list[float] = []
        for name, block in read:
            found.append(self._kernel_read(name, block, name in counted))
        self.version += 1
        self.by_kernels.add(self.version)
        for offset, block in enumerate(range(op.first, op.last)):
            self._kernel_write(op, block, (found[offset] if found else 0.0) + op.value, op.array in counted)
        for clause in reversed(clauses):
            self._unmap(clause)

    def _kernel_read(self, name: str, block: int, counted: bool) -> float:
        one = self.held[name]
        if not one.holds(block, block + 1):
            self.problems.append(f"outside: kernel reads {name}")
            return 0.0
        self._use("device", name, block, block + 1, False, counted=counted)
        self._judge(one.device[block], one.newest[block], f"kernel reads {name}")
        return one.device_values[block]

    def _kernel_write(self, op: Op, block: int, value: float, counted: bool) -> None:
        one = self.held[op.array]
        if not one.holds(block, block + 1):
            self.problems.append(f"outside: kernel writes {op.array}")
            return
        self._use("device", op.array, block, block + 1, True, counted=counted)
        one.device[block] = one.newest[block] = self.version
        one.device_values[block] = value

    # memory and waits

    def _alloc(self, op: Op) -> None:
        one = self.held[op.array]
        one.count, one.first, one.last, one.device = 1, 0, BLOCKS, [None] * BLOCKS
        self._use("device", op.array, 0, BLOCKS, True)

    def _dealloc(self, op: Op) -> None:
        self.held[op.array].count = 0
        self._use("device", op.array, 0, BLOCKS, True)

    def _free(self, op: Op) -> None:
        one = self.held[op.array]
        self._use("host", op.array, 0, BLOCKS, True)
        one.freed = True
        if one.count:
            self.doubts.append("freed while mapped")

    def _wait(self, op: Op) -> None:
        pass


@attrs.define
class _Order:
    """Happens-before: for each operation the set of those that come before it, as the bits of a number."""

    before: list[int] = attrs.field(factory=list)

    def add(self, *after: int) -> int:
        """Add an operation that comes after these and all that comes before them; return its number."""
        known = 0
        for one in after:
            known |= self.before[one] | 1 << one
        self.before.append(known)
        return len(self.before) - 1


@attrs.define
class Verdict:
    """What the oracle says of a program: its mistakes, what it may not rely on, and the sum that it prints."""

    problems: list[str]
    doubts: list[str]
    total: float


def judged(program: Program) -> Verdict:
    """Run a program and compare all pairs of its operations."""
    machine, order = Machine(program.arrays), _Order()
    used: list[tuple[int, list[Use], Op]] = []
    last = [order.add() for _ in range(program.threads)]
    pending: list[list[int]] = [[] for _ in range(program.threads)]
    tables: list[dict[str, tuple[int | None, list[int]]]] = [{} for _ in range(program.threads)]
    for number, phase in enumerate(program.phases):
        for thread, ops in enumerate(phase):
            for op in ops:
                uses = machine.run(op)
                after = [last[thread]]
                if op.what == "wait":
                    after += pending[thread]
                    pending[thread] = []
                for way, name in op.depend:
                    writer, readers = tables[thread].get(name, (None, []))
                    after += [] if writer is None else [writer]
                    after += readers if way != "in" else []
                node = order.add(*after)
                for way, name in op.depend:
                    writer, readers = tables[thread].get(name, (None, []))
                    tables[thread][name] = (writer, [*readers, node]) if way == "in" else (node, [])
                if op.deferred:
                    pending[thread].append(node)
                else:
                    last[thread] = node
                used.append((node, uses, op))
        if program.barriers[number] or number == len(program.phases) - 1:
            together = order.add(*last, *[node for nodes in pending for node in nodes])
            last, pending = [together] * program.threads, [[] for _ in range(program.threads)]
    return Verdict([*machine.problems, *_races(used, order), *machine.left()], machine.doubts, machine.total)


def _races(used: list[tuple[int, list[Use], Op]], order: _Order) -> Iterator[str]:
    earlier: dict[tuple[str, str, int], list[tuple[int, Use]]] = {}
    for node, uses, _ in used:
        for use in uses:
            for other, known in earlier.get((use.memory, use.array, use.block), ()):
                apart = other != node and not order.before[node] >> other & 1 and not order.before[other] >> node & 1
                if apart and (use.writes or known.writes) and not _ordered(use, known):
                    yield f"race: {use.array} on the {use.memory}"
        for use in uses:
            earlier.setdefault((use.memory, use.array, use.block), []).append((node, use))


def _ordered(one: Use, other: Use) -> bool:
    """Tell whether the runtime orders two uses: those of two maps, and of a map and a kernel with its own reference."""
    return (one.maps or one.counted) and (other.maps or other.counted) and (one.maps or other.maps)
