"""Draws random programs that are right, and plants one mistake in a program that is right.

An operation is drawn at random and kept if the oracle finds nothing wrong after it, so that data is where it is used.
In a phase an array belongs to one thread, or it is shared: each thread then has one block of it, and either somebody
keeps it mapped meanwhile, or all map it for themselves. Deferred tasks of one array are ordered by depend clauses.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator

import attrs

from bench.random_programs.abstract import BLOCKS, Array, Machine, Map, Op, Program, judged

_KINDS = ("heap", "heap", "static", "stack", "declared")
_TYPES = ("to", "from", "tofrom", "tofrom", "alloc")


class _Draft:
    """Draws the operations of one program, phase by phase and thread by thread."""

    def __init__(self, draw: random.Random, steps: int) -> None:
        self.draw = draw
        self.threads = draw.choice([1, 1, 2, 2, 3, 4, draw.randint(5, 8)])
        count = draw.randint(2, 3 + self.threads // 2)
        widths = [8, 16, 32, 64, 128, 256]
        made = [Array("abcdefgh"[number], draw.choice(_KINDS), draw.choice(widths)) for number in range(count)]  # type: ignore[arg-type]
        width = draw.choice(widths)  # most have one width: only these can be copied to one another
        made = [attrs.evolve(one, width=width) if draw.random() < 0.7 else one for one in made]
        if draw.random() < 0.35:
            made.append(Array("p", "device", width))
        self.arrays = {one.name: one for one in made}
        self.machine = Machine(self.arrays)
        self.steps = steps
        self.ops: list[Op] = []
        self.blocks: dict[str, tuple[int, int]] = {}
        """The blocks of each array that the thread may use in this phase."""
        self.kept: dict[str, str] = {}
        """Arrays that are shared in this phase, and how: `held` by a reference of another, or mapped by `all`."""
        self.open: list[str] = []
        """Arrays of the data regions that are open."""

    def program(self) -> Program:
        """Return a whole program."""
        phases = [[self._thread(thread, phase) for thread in range(self.threads)] for phase in self._phases()]
        phases.append([self._ending(), *[[] for _ in range(self.threads - 1)]])
        return Program(self.arrays, self.threads, phases, [True] * len(phases))

    def _phases(self) -> Iterator[list[dict[str, tuple[int, int]]]]:
        """Yield for each phase which blocks of which arrays each thread has."""
        for _ in range(self.draw.randint(1, 2 if self.threads == 1 else 4)):
            owned: list[dict[str, tuple[int, int]]] = [{} for _ in range(self.threads)]
            self.kept = {}
            for name, array in self.arrays.items():
                several = 1 < self.threads <= BLOCKS and array.kind != "device" and self.draw.random() < 0.35
                if several and (how := self._shared(name)) is not None:
                    self.kept[name] = how
                    for thread in range(self.threads):
                        owned[thread][name] = (thread, thread + 1)
                else:
                    owned[self.draw.randrange(self.threads)][name] = (0, BLOCKS)
            yield owned

    def _shared(self, name: str) -> str | None:
        """Say how an array can be shared by all threads now; None if it cannot."""
        held = self.machine.held[name]
        if held.count and (held.first, held.last) == (0, BLOCKS):
            return "held"
        if not held.count and held.host == held.newest:
            return "all"
        return None

    def _thread(self, thread: int, phase: list[dict[str, tuple[int, int]]]) -> list[Op]:
        self.ops, self.blocks, self.open = [], phase[thread], []
        if self.blocks:
            for _ in range(self.draw.randint(1, self.steps)):
                self._step()
        return self.ops

    # steps

    def _step(self, depth: int = 0) -> None:
        steps: list[tuple[float, Callable[[], None]]] = [
            (5, self._host), (6, self._kernel), (3, self._data), (4, self._update), (2, self._tasks),
            (2 if depth < 2 else 0, lambda: self._region(depth)), (1, self._device),
        ]  # fmt: skip
        self.draw.choices([step for _, step in steps], [weight for weight, _ in steps])[0]()

    def _try(self, op: Op) -> bool:
        """Keep an operation if nothing is wrong with it."""
        if not all(name in self.blocks for name in op.arrays):
            return False
        before = copy.deepcopy(self.machine)
        self.machine.run(op)
        doubts = set(self.machine.doubts)
        never = doubts & {"an unmap of what is absent", "delete under other users"}
        if self.machine.problems or never or (doubts and self.draw.random() > 0.1):
            self.machine = before
            return False
        self.machine.doubts = []
        self.ops.append(op)
        return True

    def _names(self, *kinds: str, shared: bool = True) -> list[str]:
        return [
            name for name in self.blocks
            if (not kinds or self.arrays[name].kind in kinds) and (shared or name not in self.kept)
        ]  # fmt: skip

    def _some(self, name: str) -> tuple[int, int]:
        """Draw some of the blocks that the thread has."""
        first, last = self.blocks[name]
        low = self.draw.randrange(first, last)
        return self.draw.choice([(first, last), (low, self.draw.randint(low + 1, last))])

    def _host(self) -> None:
        names = [name for name in self._names() if self.arrays[name].kind != "device" and self.kept.get(name) != "all"]
        if names:
            name = self.draw.choice(names)
            first, last = self._some(name)
            self._try(Op(self.draw.choice(["write", "read"]), name, first, last, value=self.draw.randint(1, 9)))

    def _clause(self, name: str, need: tuple[int, int] | None = None) -> Map | None:
        """Draw a map clause that covers some blocks; None for what needs none."""
        held, kind = self.machine.held[name], self.arrays[name].kind
        if kind == "device":
            return None
        how = self.draw.choice(_TYPES)
        if self.kept.get(name) == "all":
            return Map(name, "tofrom")
        if name in self.kept or held.count:
            if self.draw.random() < 0.4:
                return None
            low, high = held.first, held.last
            if name in self.kept or kind != "heap" or self.draw.random() < 0.6:
                return Map(name, how, low, high, always=name not in self.kept and self.draw.random() < 0.15)
            first, last = need or (low, high)
            if low <= first and last <= high:
                low, high = self.draw.randint(low, first), self.draw.randint(last, high)
            return Map(name, how, low, high)
        if need is not None and self.draw.random() < 0.4:
            return Map(name, how, self.draw.randint(0, need[0]), self.draw.randint(need[1], BLOCKS))
        return Map(name, how)

    def _drawn_kernel(self, names: list[str]) -> Op | None:
        if not names:
            return None
        name = self.draw.choice(names)
        first, last = self._some(name)
        how = self.draw.choice(["set", "add", "add", "copy"])
        source, at = "", 0
        if how == "copy":
            width = self.arrays[name].width
            others = [one for one in names if one != name and self.arrays[one].width == width]
            if not others:
                return None
            source = self.draw.choice(others)
            low, high = self.blocks[source]
            last = min(last, first + high - low)
            at = self.draw.randint(low, high - (last - first))
        used = {name: (first, last), **({source: (at, at + last - first)} if source else {})}
        if self.draw.random() < 0.15 and (extra := self.draw.choice(names)) not in used:
            used[extra] = self.blocks[extra]  # mapped and not used
        clauses = tuple(clause for one, need in used.items() if (clause := self._clause(one, need)) is not None)
        flavour = self.draw.randrange(3)
        return Op("kernel", name, first, last, how, self.draw.randint(1, 9), source, at, clauses, flavour=flavour)

    def _kernel(self) -> None:
        for _ in range(4):
            if (op := self._drawn_kernel(self._names())) is not None and self._try(op):
                return

    def _data(self) -> None:
        names = [name for name in self._names(shared=False) if self.arrays[name].kind in ("heap", "static", "stack")]
        if not names:
            return
        name = self.draw.choice(names)
        if (op := self._drawn_data(name)) is not None:
            self._try(op)

    def _drawn_data(self, name: str) -> Op | None:
        held = self.machine.held[name]
        if held.count and (self.draw.random() < 0.6 or held.count > 3):
            if name in self.open and held.count <= self.open.count(name):
                return None  # a data region has it
            how = self.draw.choice(["from", "from", "release", "delete"])
            return Op("exit", name, maps=(Map(name, how, held.first, held.last),))
        how = self.draw.choice(["to", "to", "alloc"])
        if held.count:
            always = self.draw.random() < 0.2
            return Op("enter", name, maps=(Map(name, how, held.first, held.last, always),))
        first, last = self._some(name) if self.draw.random() < 0.4 else (0, BLOCKS)
        return Op("enter", name, maps=(Map(name, how, first, last),))

    def _update(self) -> None:
        names = [name for name in self._names() if self.machine.held[name].count and self.arrays[name].kind != "device"]
        names = [name for name in names if self.kept.get(name) != "all"]
        for _ in range(3):
            if names and (op := self._drawn_update(self.draw.choice(names))) is not None and self._try(op):
                return

    def _drawn_update(self, name: str) -> Op | None:
        held = self.machine.held[name]
        first, last = self._some(name)
        first, last = max(first, held.first), min(last, held.last)
        return Op("update", name, first, last, self.draw.choice(["to", "from"])) if first < last else None

    def _region(self, depth: int) -> None:
        names = [name for name in self._names() if self.arrays[name].kind in ("heap", "static", "stack")]
        drawn = [self._clause(name) for name in self.draw.sample(names, min(len(names), self.draw.randint(1, 2)))]
        clauses = [clause for clause in drawn if clause is not None and not clause.always]
        if not clauses or not self._try(Op("begin", maps=tuple(clauses))):
            return
        self.open += [clause.array for clause in clauses]
        for _ in range(self.draw.randint(1, 4)):
            self._step(depth + 1)
        self._close(Op("end", maps=tuple(clauses)))
        for clause in clauses:
            self.open.remove(clause.array)

    def _close(self, op: Op) -> None:
        """End a region. What the host has newer than the device goes there first where it would be overwritten."""
        for clause in op.maps:
            held = self.machine.held[clause.array]
            if clause.how in ("from", "tofrom") and held.count == 1:
                versions = [-1 if version is None else version for version in held.device]
                for block in [one for one in range(clause.first, clause.last) if versions[one] < (held.host[one] or 0)]:
                    self.machine.run(update := Op("update", clause.array, block, block + 1, "to"))
                    self.ops.append(update)
        self.machine.run(op)
        self.machine.doubts = []
        self.ops.append(op)

    def _tasks(self) -> None:
        """Make deferred tasks about some arrays, go on with others, and wait."""
        names = [name for name in self._names() if name not in self.open and self.kept.get(name) != "all"]
        if not names:
            return
        chosen = self.draw.sample(names, min(len(names), self.draw.randint(1, 2)))
        whole, self.blocks = self.blocks, {}
        uses: dict[str, int] = {}
        made: list[int] = []
        for _ in range(self.draw.randint(1, 4)):
            if self.draw.random() < 0.75:
                self.blocks = {name: whole[name] for name in chosen}
                op = self._drawn_task(chosen)
                if op is not None and self._try(attrs.evolve(op, deferred=True)):
                    made.append(len(self.ops) - 1)
                    for name in op.arrays:
                        uses[name] = uses.get(name, 0) + 1
            else:
                self.blocks = {name: blocks for name, blocks in whole.items() if name not in chosen}
                self.draw.choice([self._host, self._kernel, self._update])()
        self.blocks = whole
        for place in made:
            op = self.ops[place]
            several = [name for name in op.arrays if uses[name] > 1 or self.draw.random() < 0.3]
            ways = tuple((self._way(op, name), name) for name in several)
            self.ops[place] = attrs.evolve(op, depend=ways)
        if made:
            self.ops.append(Op("wait", flavour=self.draw.randrange(2), first=min(made), last=len(self.ops)))

    def _way(self, op: Op, name: str) -> str:
        only_reads = op.what == "kernel" and name == op.source and name not in {clause.array for clause in op.maps}
        plain = self.arrays[name].kind in ("heap", "declared", "device")
        return "in" if only_reads and plain else self.draw.choice(["inout", "inout", "out"])

    def _drawn_task(self, names: list[str]) -> Op | None:
        name = self.draw.choice(names)
        kind = self.arrays[name].kind
        what = self.draw.choice(["kernel", "kernel", "kernel", "update", "data"])
        if what == "update" and self.machine.held[name].count and kind != "device":
            return self._drawn_update(name)
        if what == "data" and kind in ("heap", "static", "stack") and name not in self.kept:
            return self._drawn_data(name)
        return self._drawn_kernel(names)

    def _device(self) -> None:
        if "p" in self.blocks and "p" not in self.kept:
            held = self.machine.held["p"]
            if not held.count:
                if self._try(Op("alloc", "p")):
                    self._try(Op("kernel", "p", 0, BLOCKS, "set", self.draw.randint(1, 9)))
            elif self.draw.random() < 0.3:
                self._try(Op("dealloc", "p"))

    def _ending(self) -> list[Op]:
        """Unmap all that is mapped, read what the host has, and free what is on the heap."""
        self.ops, self.open, self.kept = [], [], {}
        self.blocks = dict.fromkeys(self.arrays, (0, BLOCKS))
        for name, array in self.arrays.items():
            held = self.machine.held[name]
            if array.kind == "device":
                if held.count:
                    self._force(Op("dealloc", name))
                continue
            if array.kind == "declared":
                for block in range(BLOCKS):
                    if (held.device[block] or 0) > (held.host[block] or 0):
                        self._force(Op("update", name, block, block + 1, "from"))
            while array.kind != "declared" and held.count:
                newer = any((held.device[block] or 0) > (held.host[block] or 0) for block in range(BLOCKS))
                mapped = range(held.first, held.last)
                older = any((held.device[block] or 0) < (held.host[block] or 0) for block in mapped)
                if newer and older:
                    for block in range(held.first, held.last):
                        if (held.device[block] or 0) > (held.host[block] or 0):
                            self._force(Op("update", name, block, block + 1, "from"))
                    newer = False
                self._force(Op("exit", name, maps=(Map(name, "from" if newer else "release", held.first, held.last),)))
            for block in range(BLOCKS):
                if held.host[block] == held.newest[block]:
                    self._force(Op("read", name, block, block + 1))
        for name in self._names("heap"):
            self._force(Op("free", name))
        return self.ops

    def _force(self, op: Op) -> None:
        self.machine.run(op)
        self.ops.append(op)


def correct(seed: int, steps: int = 8) -> Program:
    """Return a program that is right, always the same for a seed; what the oracle refuses is drawn anew."""
    draw = random.Random(seed)
    while True:
        program = _Draft(draw, steps).program()
        if not judged(program).problems and sum(1 for _ in program.operations()) > 4:
            return program


Planted = tuple[str, Program]
_ON_THE_HOST = ("use after free: read", "use after free: write")


def _plants(program: Program, draw: random.Random) -> Iterator[Planted]:
    """Yield changes of one place, each with its kind; not each of them is a mistake.

    What a map clause does to an array that other threads map beside this one depends on who comes first. Such a clause
    stays as it is, for in the run that is checked the mistake may do no harm.
    """
    shared = [_shared(phase) for phase in program.phases]
    for phase, thread, position, op in program.operations():

        def changed(*ops: Op, phase: int = phase, thread: int = thread, position: int = position) -> Program:
            return program.replaced(phase, thread, position, *ops)

        if op.what in ("enter", "exit", "kernel") and shared[phase] & {clause.array for clause in op.maps}:
            continue
        match op.what:
            case "wait":
                yield "missing wait", changed()
            case "update":
                yield f"missing update {op.how}", changed()
                yield "wrong direction", changed(attrs.evolve(op, how="from" if op.how == "to" else "to"))
                if op.last - op.first > 1:
                    yield "wrong section", changed(attrs.evolve(op, last=op.last - 1))
            case "enter":
                yield "missing map", changed()
                for how in ("to", "alloc"):
                    if how != op.maps[0].how:
                        yield "wrong map type", changed(attrs.evolve(op, maps=(attrs.evolve(op.maps[0], how=how),)))
            case "exit":
                yield "missing unmap", changed()
                if op.maps[0].how == "from":
                    yield "wrong map type", changed(attrs.evolve(op, maps=(attrs.evolve(op.maps[0], how="release"),)))
                else:
                    again = attrs.evolve(op, maps=(attrs.evolve(op.maps[0], how="delete"),))
                    yield "delete under other users", changed(again)
            case "dealloc":
                yield "memory leak", changed()
            case "kernel":
                yield from _wrong_kernels(op, changed)
            case "write" if draw.random() < 0.3:
                yield "write in a wrong place", changed()
        if op.depend:
            yield "missing depend", changed(attrs.evolve(op, depend=op.depend[1:]))
        if op.deferred and not op.depend:
            continue
    yield from _moved(program)
    for number in range(len(program.phases) - 1):
        if program.threads > 1:
            barriers = [one and place != number for place, one in enumerate(program.barriers)]
            yield "missing barrier", attrs.evolve(program, barriers=barriers)


def _shared(phase: list[list[Op]]) -> set[str]:
    """Return the arrays that several threads use in a phase."""
    used = [{name for op in ops for name in op.arrays} for ops in phase]
    return {name for names in used for name in names if sum(name in other for other in used) > 1}


def _wrong_kernels(op: Op, changed: Callable[..., Program]) -> Iterator[Planted]:
    for place, clause in enumerate(op.maps):

        def other(*clauses: Map, place: int = place) -> Program:
            return changed(attrs.evolve(op, maps=(*op.maps[:place], *clauses, *op.maps[place + 1 :])))

        yield "missing map", other()
        for how in ("to", "from", "alloc"):
            if how != clause.how:
                yield "wrong map type", other(attrs.evolve(clause, how=how))
        if clause.last - clause.first > 1:
            yield "wrong section", other(attrs.evolve(clause, last=clause.last - 1))
            yield "wrong section", other(attrs.evolve(clause, first=clause.first + 1))


def _moved(program: Program) -> Iterator[Planted]:
    """Yield programs that free or unmap an array before its last use."""
    shared = [_shared(phase) for phase in program.phases]
    for phase, thread, position, op in program.operations():
        ops = program.phases[phase][thread]
        if op.what in ("dealloc", "exit", "free") and position and not shared[phase] & set(op.arrays):
            for earlier in range(position - 1, -1, -1):
                uses = ops[earlier].what not in ("begin", "end", "alloc", "enter")
                if uses and set(op.arrays) & set(ops[earlier].arrays):
                    moved = [*ops[:earlier], op, *ops[earlier:position], *ops[position + 1 :]]
                    phases = [[list(one) for one in each] for each in program.phases]
                    phases[phase][thread] = moved
                    kind = {"exit": "unmap before the last use", "dealloc": "device memory used after free"}
                    name = kind.get(op.what, "array used after free")
                    if op.what != "free" or ops[earlier].what != "free":
                        yield name, attrs.evolve(program, phases=phases)
                    break


def planted(seed: int, steps: int = 8, offloads: bool = False) -> tuple[str, Program]:
    """Return the kind of a mistake, and a program with that one mistake, which the oracle confirms.

    offloads: no mistake that is the host's alone, which reads or writes what it has freed.
    """
    draw = random.Random(seed)
    for _ in range(1000):
        program = correct(draw.randrange(1 << 40), steps)
        kinds: dict[str, list[Program]] = {}
        for kind, changed in _plants(program, draw):
            kinds.setdefault(kind, []).append(changed)
        for kind in draw.sample(sorted(kinds), len(kinds)):
            for changed in draw.sample(kinds[kind], len(kinds[kind])):
                problems = judged(changed).problems
                if offloads:
                    problems = [one for one in problems if not one.startswith(_ON_THE_HOST)]
                if problems and not (kind == "missing barrier" and any(": p " in one for one in problems)):
                    return kind, changed  # without the barrier a thread might use the pointer before it has a value
    raise AssertionError(f"seed {seed}: no mistake could be planted")
