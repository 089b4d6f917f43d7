"""Writes random OpenMP programs in C that offload and break no rule, for comparison with what the real runtime did.

A program has functions that do not depend on one another. Each has a few objects of its own (arrays on the heap, on the
stack and static ones, matrices, structs with arrays and pointers) and a sequence of directives and routines about them.
`Function` knows what is present meanwhile, and so writes no map that would extend what is there, which is an error.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from openmp_objects import HEADER, Storage


class Function:
    """Writes one function; `text` is its source and `statics` what stands before it."""

    def __init__(self, number: int, draw: random.Random, steps: int, threads: bool) -> None:
        self.draw = draw
        self.number = number
        self._threads = threads
        self.statics: list[str] = []
        self._lines: list[str] = []
        self._ends: list[str] = []
        self._depth = 1
        self._objects = [self._object(place) for place in range(draw.randint(2, 4))]
        self._steps: list[tuple[int, Callable[[], None]]] = [
            (5, self._enter), (5, self._exit), (3, self._update), (7, self._target), (3, self._region),
            (1, self._routines), (1, self._use_device), (1, self._device_memory), (1, self._associate),
        ]  # fmt: skip
        self._write(draw.randint(steps // 2, steps))
        for one in self._objects:
            if one.count and one.kind != "declared":
                self._say(f"#pragma omp target exit data map(delete: {one.section(one.lo, one.length)})")

    @property
    def text(self) -> str:
        """Return its source."""
        return "\n".join([f"static void f{self.number}(void)", "{", *self._lines, *self._ends, "}", ""])

    def _say(self, line: str) -> None:
        self._lines.append("    " * self._depth + line)

    def _direct(self, directive: str, deferred: str, *block: str) -> None:
        """Write a directive with its block; the next one waits for it where it is a task."""
        self._say(f"#pragma omp {directive}{self._maybe()}{deferred}")
        for line in block:
            self._say(line)
        if "nowait" in deferred:
            self._say("#pragma omp taskwait")

    def _object(self, place: int) -> Storage:
        draw, name = self.draw, f"{'abcd'[place]}{self.number}"
        kinds = ["heap", "heap", "stack", "static", "declared", "matrix", "pair"]
        # The struct of a vector stays mapped (see below), as the pointer of a link does. Whether it is attached anew
        # depends on which block the elements get, and so on other threads.
        kind = draw.choice(kinds if self._threads else [*kinds, "vector"])
        size = draw.choice([4, 16, 64])
        one = Storage(name, kind, size)
        match kind:
            case "heap":
                self._say(f"double *{name} = calloc({size}, sizeof(double));")
                self._ends.append(f"    sum += {name}[0]; free({name});")
            case "stack":
                self._say(f"int {name}[{size}]; memset({name}, 0, sizeof {name});")
                self._ends.append(f"    sum += {name}[0];")
            case "static":
                self.statics.append(f"static float {name}[{size}];")
                self._ends.append(f"    sum += {name}[0];")
            case "declared":
                how = "enter" if self._threads else draw.choice(["enter", "link"])
                self.statics.append(f"int {name}[{size}];\n#pragma omp declare target {how}({name})")
                self._ends.append(f"    sum += {name}[0];")
                one.lo, one.length, one.count = (0, size, float("inf")) if how == "enter" else (0, 0, 0)
            case "matrix":
                self._say(f"double {name}[{size}][8]; memset({name}, 0, sizeof {name});")
                self._ends.append(f"    sum += {name}[0][0];")
            case "pair":
                self._say(f"Pair {name}; memset(&{name}, 0, sizeof {name}); {name}.n = {size};")
                self._ends.append(f"    sum += {name}.x[0];")
                one.size = 1
            case "vector":
                # Static, and its elements are kept: LLVM forgets to remove a struct that a mapper maps.
                self.statics.append(f"static Vector {name};")
                self._say(f"{name}.n = {size}; {name}.d = calloc({size}, sizeof(double));")
                self._ends.append(f"    sum += {name}.d[0];")
                one.size, one.elements = 1, size
        return one

    def _write(self, steps: int) -> None:
        kinds = [step for _, step in self._steps]
        weights = [weight for weight, _ in self._steps]
        for _ in range(steps):
            self.draw.choices(kinds, weights)[0]()

    # What may be mapped

    def _mappable(self) -> list[Storage]:
        return [one for one in self._objects if not one.frozen]

    def _some(self, most: int = 3) -> list[Storage]:
        able = self._mappable()
        return self.draw.sample(able, min(len(able), self.draw.randint(1, most)))

    def _part(self, one: Storage) -> tuple[int, int]:
        """Return a section that may be mapped now: within what is present, or anything if nothing is."""
        if not (one.by_elements or one.kind == "matrix"):
            return 0, one.size
        begin, end = (one.lo, one.lo + one.length) if one.count else (0, one.size)
        lo = self.draw.choice([begin, begin, self.draw.randrange(begin, end)])
        return lo, self.draw.choice([end - lo, self.draw.randint(1, end - lo)])

    def _modifiers(self, one: Storage) -> str:
        chosen = [name for name, chance in (("always", 0.25), ("close", 0.1)) if self.draw.random() < chance]
        if one.count and self.draw.random() < 0.15:
            chosen.append("present")
        if one.kind == "vector":
            chosen.append(
                self.draw.choice(["mapper(default)", "mapper(only_data)"]) if self.draw.random() < 0.5 else ""
            )
        return "".join(f"{name}, " for name in chosen if name)

    def _type(self, one: Storage, types: list[str]) -> str:
        """Return a map type; a vector's length must arrive, for it says how much of it is mapped."""
        return self.draw.choice([how for how in types if one.kind != "vector" or how.startswith("to")])

    def _take(self, one: Storage, lo: int, length: int) -> None:
        if not one.count:
            one.lo, one.length = lo, length
        one.count += 1

    def _give(self, one: Storage) -> None:
        one.count = max(one.count - 1, 0)

    def _maps(self, types: list[str], chosen: list[Storage]) -> tuple[str, list[tuple[Storage, int, int]]]:
        clauses, taken = [], []
        for one in chosen:
            lo, length = self._part(one)
            how = self._type(one, types)
            clauses.append(f"map({self._modifiers(one)}{how}: {one.section(lo, length)})")
            taken.append((one, lo, length))
        return " ".join(clauses), taken

    # Directives

    def _maybe(self) -> str:
        return self.draw.choice(["", "", "", " device(0)", " if(on)"])

    def _deferred(self, one: Storage) -> str:
        """Return a clause that makes a task of the directive, or of some a wait for one.

        Beside other threads, libomp 22 fails an assertion of its own where a directive with `depend` is no task.
        """
        waits = "" if self._threads else f" depend(in: {one.name})"
        return self.draw.choice(["", "", "", " nowait", f" nowait depend(inout: {one.name})", waits])

    def _enter(self) -> None:
        chosen = self._some()
        clauses, taken = self._maps(["to", "alloc", "to"], chosen)
        if not clauses:
            return
        self._direct(f"target enter data {clauses}", self._deferred(chosen[0]))
        for one, lo, length in taken:
            self._take(one, lo, length)

    def _exit(self) -> None:
        chosen = [one for one in self._some() if one.count and one.kind != "declared"]
        clauses = []
        for one in chosen:
            lo, length = self._part(one)
            how = self.draw.choice(["from", "release", "from", "delete"])
            always = "always, " if how == "from" and self.draw.random() < 0.25 else ""
            clauses.append(f"map({always}{how}: {one.section(lo, length)})")
            one.count = 0 if how == "delete" else one.count - 1
            if one.count < one.regions:
                one.frozen = True
        if clauses:
            self._direct(f"target exit data {' '.join(clauses)}", self._deferred(chosen[0]))

    def _update(self) -> None:
        """Write an update; one with gaps stands alone, since clang gives such a section another one's dimensions."""
        clauses: list[str] = []
        for one in self._some(2):
            if one.kind == "vector" or (one.count and not one.length):
                continue
            lo, length = self._part(one)
            way = self.draw.choice(["to", "from"])
            present = "present: " if one.count and self.draw.random() < 0.2 else ""
            section = one.section(lo, length)
            if one.by_elements and length >= 4 and self.draw.random() < 0.3:
                clauses = [f"{way}({one.name}[{lo}:{length // 2}:2])"]
                break
            if one.kind == "matrix" and self.draw.random() < 0.5:
                clauses = [f"{way}({present}{one.name}[{lo}:{length}][2:4])"]
                break
            if one.kind == "pair" and self.draw.random() < 0.5:
                section = self.draw.choice([f"{one.name}.x[2:3]", f"{one.name}.y", f"{one.name}.n"])
            clauses.append(f"{way}({present}{section})")
        if clauses:
            deferred = " nowait" if self.draw.random() < 0.2 else ""
            self._direct(f"target update {' '.join(clauses)}", deferred)

    def _target(self) -> None:
        chosen = self._some()
        clauses, body = [], []
        draw = self.draw
        for one in chosen:
            implicit = draw.random() < 0.3
            whole = not one.count or (one.lo, one.length) == (0, one.size)
            if one.kind == "declared" and one.count == float("inf"):
                body.append(one.work(0, one.size, 1))
            elif implicit and whole and one.kind not in ("heap", "vector"):
                body.append(one.work(0, one.size, 2))
            elif implicit and one.kind == "heap":
                body.append(one.work(one.lo, one.length, 3) if one.count else f"local += {one.name} != 0;")
            elif one.by_elements and not one.count and one.kind == "stack" and draw.random() < 0.15:
                clauses.append(f"{draw.choice(['firstprivate', 'private'])}({one.name})")
                body.append(f"{one.name}[0] = 1; local += {one.name}[0];")
            else:
                lo, length = self._part(one)
                how = self._type(one, ["tofrom", "to", "from", "alloc", "tofrom"])
                clauses.append(f"map({self._modifiers(one)}{how}: {one.section(lo, length)})")
                body.append(one.work(lo, length, 4))
        body.append("local += 1;")
        self._say("{ double local = 0;")
        clauses.append(draw.choice(["", "map(tofrom: local)", "map(always, tofrom: local)"]))
        teams = draw.choice(
            ["", " teams num_teams(2)", " teams num_teams(1) thread_limit(4)", " parallel num_threads(2)"]
        )
        deferred = self._deferred(chosen[0]) if chosen else ""
        # One thread of one team does the work: the programs are to have no race.
        only = "    if (omp_get_team_num() == 0 && omp_get_thread_num() == 0) {"
        work = [f"        {line}" for line in body]
        directive = f"target{teams} {' '.join(filter(None, clauses))}"
        self._direct(directive, deferred, "{", only, *work, "    }", "}")
        self._say("sum += local; }")

    def _region(self) -> None:
        if self._depth > 3:
            return
        chosen = self._some()
        clauses, taken = self._maps(["tofrom", "to", "from", "alloc"], chosen)
        if not clauses:
            return
        self._say(f"#pragma omp target data {clauses}{self._maybe()}")
        self._say("{")
        for one, lo, length in taken:
            self._take(one, lo, length)
            one.regions += 1
        self._depth += 1
        self._write(self.draw.randint(1, 4))
        self._depth -= 1
        self._say("}")
        for one, _, _ in taken:
            self._give(one)
            one.regions -= 1
            if not one.regions:
                one.frozen = False

    # Routines

    def _routines(self) -> None:
        one = self.draw.choice(self._objects)
        if one.by_elements:
            self._say(f"sum += omp_target_is_present({one.name}, 0);")
            self._say(f"sum += omp_get_mapped_ptr({one.name}, 0) != 0;")

    def _use_device(self) -> None:
        able = [one for one in self._objects if one.kind == "heap" and one.count]
        if not able:
            return
        one = self.draw.choice(able)
        self._say(f"#pragma omp target data use_device_ptr({one.name})")
        self._say("{")
        self._say(f"    #pragma omp target is_device_ptr({one.name})")
        self._say("    {")
        self._say(f"        {one.work(one.lo, one.length, 5)}")
        self._say("    }")
        self._say("}")

    def _device_memory(self) -> None:
        able = [one for one in self._objects if one.kind == "heap"]
        if not able:
            return
        one = self.draw.choice(able)
        nbytes = 8 * one.size
        self._say(f"{{ double *block = omp_target_alloc({nbytes}, 0);")
        self._say(f"omp_target_memcpy(block, {one.name}, {nbytes}, 0, 0, 0, omp_get_initial_device());")
        self._say("#pragma omp target is_device_ptr(block)")
        self._say(f"for (int i = 0; i < {one.size}; i++) block[i] += 1;")
        self._say(f"omp_target_memcpy({one.name}, block, {nbytes}, 0, 0, omp_get_initial_device(), 0);")
        self._say("omp_target_free(block, 0); }")

    def _associate(self) -> None:
        able = [one for one in self._mappable() if one.kind == "heap" and not one.count and not one.regions]
        if not able:
            return
        one = self.draw.choice(able)
        self._say(f"{{ void *block = omp_target_alloc({8 * one.size}, 0);")
        self._say(f"omp_target_associate_ptr({one.name}, block, {8 * one.size}, 0, 0);")
        one.lo, one.length, one.count, one.frozen = 0, one.size, float("inf"), False
        depth, self._depth = self._depth, 3
        self._update()
        self._target()
        self._depth = depth
        one.count = 0
        self._say(f"omp_target_disassociate_ptr({one.name}, 0);")
        self._say("omp_target_free(block, 0); }")


def program(seed: int, functions: int = 20, steps: int = 14) -> str:
    """Return the source of a program; every other one has threads."""
    draw = random.Random(seed)
    threads = seed % 2 == 1
    made = [Function(number, draw, steps, threads) for number in range(functions)]
    parts = [HEADER]
    for one in made:
        parts += [*one.statics, one.text]
    parts.append(_main(draw, functions, threads))
    return "\n".join(parts)


def _main(draw: random.Random, functions: int, threads: bool) -> str:
    """Return a main function that calls all functions, some of them in threads beside one another."""
    lines = ["int main(void)", "{"]
    number = 0
    while number < functions:
        together = draw.choice([1, 2, 3]) if threads else 1
        several = list(range(number, min(number + together, functions)))
        number += together
        if len(several) == 1:
            lines.append(f"    f{several[0]}();")
        else:
            lines += [f"    #pragma omp parallel sections num_threads({len(several)})", "    {"]
            for one in several:
                lines += ["        #pragma omp section", f"        f{one}();"]
            lines.append("    }")
    return "\n".join([*lines, '    printf("%g\\n", sum);', "    return 0;", "}", ""])


if __name__ == "__main__":
    import sys

    print(program(int(sys.argv[1])))
