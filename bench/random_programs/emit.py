"""Writes an abstract program as a scenario in Python, and as a function in C; each operation on a line of its own."""

from __future__ import annotations

from collections.abc import Iterator

from bench.random_programs.abstract import BLOCKS, Array, Map, Op, Program

KERNELS = """from __future__ import annotations

from typing import Any

import numpy as np

from offloadrt import Run, kernel, scenario
from offloadrt import openmp as omp

SUMS: list[float] = []


@kernel
def set_all(a: Any, first: int, last: int, value: float) -> None:
    for i in range(first, last):
        a[i] = value


@kernel
def add_to(a: Any, first: int, last: int, value: float) -> None:
    for i in range(first, last):
        a[i] = a[i] + value


@kernel
def copy_to(a: Any, first: int, last: int, value: float, b: Any, shift: int) -> None:
    for i in range(first, last):
        a[i] = b[i + shift] + value

"""
_NAMES = {"set": "set_all", "add": "add_to", "copy": "copy_to"}


def scenario(program: Program, machine: str, name: str = "program") -> str:
    """Return the text of a scenario that returns the sum of all that it reads."""
    lines = [KERNELS, f'@scenario(machine="{machine}", results=("sum",))']
    lines += [f"async def {name}(run: Run) -> dict[str, float]:"]
    own = [one for one in program.arrays.values() if one.kind in ("heap", "static", "stack")]
    declared = [one for one in program.arrays.values() if one.kind == "declared"]
    lines += [f'    {one.name} = run.openmp.declare_target("{one.name}", {one.size}, fill=0.0)' for one in declared]
    lines += ["    made: dict[str, Any] = {}", f"    sums = [0.0] * {program.threads}", ""]
    lines += ["    async def setup(t: omp.HostThread) -> None:"]
    for one in own:
        kind = "heap" if one.kind == "heap" else "static"
        lines.append(f'        made["{one.name}"] = t.array("{one.name}", {one.size}, fill=0.0, kind="{kind}")')
    lines += ["        sums[0] += 0.0", "", "    await run.parallel(setup)"]
    lines += [f'    {one.name} = made["{one.name}"]' for one in own]
    lines += ["", "    async def body(t: omp.HostThread) -> None:"]
    if any(one.kind == "device" for one in program.arrays.values()):
        lines.append("        nonlocal made")
    for number, phase in enumerate(program.phases):
        for thread, ops in enumerate(phase):
            if ops:
                lines.append(f"        if t.number == {thread}:")
                lines += _python_lines(program, ops)
        if program.barriers[number] and number < len(program.phases) - 1:
            lines.append("        await t.barrier()")
    lines += ["", f"    await run.parallel(body, num_threads={program.threads})", "    SUMS.append(sum(sums))"]
    lines += ['    return {"sum": sum(sums)}', ""]
    return "\n".join(lines)


def _python_lines(program: Program, ops: list[Op]) -> Iterator[str]:
    depth = 3
    for op in ops:
        if op.what == "end":
            depth -= 1
            continue
        yield "    " * depth + _python(program, op)
        if op.what == "begin":
            depth += 1
            yield "    " * depth + "pass"


def _section(array: Array, first: int, last: int) -> str:
    if (first, last) == (0, BLOCKS):
        return array.name
    return f"omp.section({array.name}, {first * array.width}, {(last - first) * array.width})"


def _python_map(program: Program, clause: Map) -> str:
    how = "from_" if clause.how == "from" else clause.how
    always = ", always=True" if clause.always else ""
    return f"omp.map({how}={_section(program.arrays[clause.array], clause.first, clause.last)}{always})"


def _python(program: Program, op: Op) -> str:
    array = program.arrays.get(op.array)
    maps = ", ".join(_python_map(program, clause) for clause in op.maps)
    late = ", nowait=True" if op.deferred else ""
    depends = ", ".join(
        f"omp.depend({'in_' if way == 'in' else way}={_python_name(program, name)})" for way, name in op.depend
    )
    match op.what:
        case "write":
            assert array is not None
            return f"{op.array}[{op.first * array.width}:{op.last * array.width}] = {op.value}.0"
        case "read":
            assert array is not None
            return f"sums[t.number] += float(np.sum({op.array}[{op.first * array.width}:{op.last * array.width}]))"
        case "enter" | "exit":
            given = ", ".join(filter(None, (maps, depends)))
            return f"await t.target_{op.what}_data({given}{late})"
        case "update":
            assert array is not None
            motion = f"omp.{'to' if op.how == 'to' else 'from_'}({_section(array, op.first, op.last)})"
            return f"await t.target_update({', '.join(filter(None, (motion, depends)))}{late})"
        case "begin":
            return f"async with t.target_data({maps}):"
        case "wait":
            return "await t.taskwait()"
        case "free":
            return f"t.free({op.array})"
        case "alloc":
            assert array is not None
            return f'made["{op.array}"] = await t.omp_target_alloc({8 * array.size})'
        case "dealloc":
            return f'await t.omp_target_free(made["{op.array}"])'
    assert array is not None
    first, last = op.first * array.width, op.last * array.width
    arguments = [_python_argument(program, op.array), str(first), str(last), f"{op.value}.0"]
    if op.source:
        arguments += [_python_argument(program, op.source), str((op.at - op.first) * array.width)]
    clauses = (f", maps=[{maps}]" if maps else "") + (f", depend=[{depends}]" if depends else "") + late
    return f"await t.target({_NAMES[op.how]}, {', '.join(arguments)}{clauses})"


def _python_name(program: Program, name: str) -> str:
    return f'"{name}"' if program.arrays[name].kind == "device" else name


def _python_argument(program: Program, name: str) -> str:
    return f'made["{name}"].viewed(np.float64)' if program.arrays[name].kind == "device" else name


# C

HEADER = """#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

"""


def function(program: Program, number: int) -> str:
    """Return a function in C, and before it the arrays with static storage, all with names of their own."""
    before, lines, after = [], [f"__attribute__((noinline)) static double p{number}(void)", "{"], []
    for one in program.arrays.values():
        name = _c_name(one, number)
        match one.kind:
            case "heap":
                lines.append(f"    double *{name} = calloc({one.size}, sizeof(double));")
                after.append(f"    (void)sizeof {name};")
            case "static":
                before.append(f"static double {name}[{one.size}];")
            case "stack":
                lines += [f"    double {name}[{one.size}];", f"    memset({name}, 0, sizeof {name});"]
            case "declared":
                before += [f"double {name}[{one.size}];", f"#pragma omp declare target enter({name})"]
            case "device":
                lines.append(f"    double *{name} = NULL;")
    lines.append(f"    double sums[{program.threads}] = {{0}}, sum = 0;")
    lines.append(f"    #pragma omp parallel num_threads({program.threads})")
    lines.append("    {")
    lines.append("        int me = omp_get_thread_num();")
    lines.append("        double mine = 0;")
    for place, phase in enumerate(program.phases):
        for thread, ops in enumerate(phase):
            if ops:
                lines += [f"        if (me == {thread}) {{", *_c_lines(program, ops, number), "        }"]
        if program.barriers[place] and place < len(program.phases) - 1:
            lines.append("        #pragma omp barrier")
    lines += ["        sums[me] = mine;", "    }"]
    lines += [f"    for (int i = 0; i < {program.threads}; i++) sum += sums[i];", "    return sum;", "}"]
    return "\n".join([*before, *lines, ""])


def _c_name(array: Array, number: int) -> str:
    return f"{array.name}{number}"


def _c_lines(program: Program, ops: list[Op], number: int) -> Iterator[str]:
    depth = 3
    groups = {op.first: position for position, op in enumerate(ops) if op.what == "wait" and op.flavour}
    begun: list[int] = []
    for position, op in enumerate(ops):
        if position in groups and position < groups[position] and not begun:
            yield "    " * depth + "#pragma omp taskgroup"
            yield "    " * depth + "{"
            begun.append(groups[position])
        if op.what == "end":
            depth -= 1
            yield "    " * depth + "}"
        elif op.what == "wait":
            if begun and begun[-1] == position:
                begun.pop()
                yield "    " * depth + "}"
            else:
                yield "    " * depth + "#pragma omp taskwait"
        else:
            for line in _c(program, op, number):
                yield "    " * depth + line
            if op.what == "begin":
                yield "    " * depth + "{"
                depth += 1


def _c_section(array: Array, number: int, first: int, last: int) -> str:
    name = _c_name(array, number)
    if (first, last) == (0, BLOCKS) and array.kind != "heap":
        return name
    return f"{name}[{first * array.width}:{(last - first) * array.width}]"


def _c_map(program: Program, clause: Map, number: int) -> str:
    always = "always, " if clause.always else ""
    section = _c_section(program.arrays[clause.array], number, clause.first, clause.last)
    return f"map({always}{clause.how}: {section})"


def _c(program: Program, op: Op, number: int) -> Iterator[str]:
    array = program.arrays.get(op.array)
    name = "" if array is None else _c_name(array, number)
    maps = " ".join(_c_map(program, clause, number) for clause in op.maps)
    depends = " ".join(f"depend({way}: {_c_depend(program, one, number)})" for way, one in op.depend)
    late = " ".join(filter(None, ("nowait" if op.deferred else "", depends)))
    late = f" {late}" if late else ""
    first, last = (0, 0) if array is None else (op.first * array.width, op.last * array.width)
    match op.what:
        case "write":
            yield f"for (int i = {first}; i < {last}; i++) {name}[i] = {op.value};"
        case "read":
            yield f"for (int i = {first}; i < {last}; i++) mine += {name}[i];"
        case "enter" | "exit":
            yield f"#pragma omp target {op.what} data {maps}{late}"
        case "update":
            assert array is not None
            yield f"#pragma omp target update {op.how}({_c_section(array, number, op.first, op.last)}){late}"
        case "begin":
            yield f"#pragma omp target data {maps}"
        case "free":
            yield f"free({name});"
        case "alloc":
            assert array is not None
            yield f"{name} = omp_target_alloc({8 * array.size}, omp_get_default_device());"
        case "dealloc":
            yield f"omp_target_free({name}, omp_get_default_device());"
        case "kernel":
            assert array is not None
            yield from _c_kernel(program, op, number, array, maps, late)


def _c_depend(program: Program, name: str, number: int) -> str:
    one = _c_name(program.arrays[name], number)
    return one if program.arrays[name].kind == "device" else f"{one}[0]"


def _c_kernel(program: Program, op: Op, number: int, array: Array, maps: str, late: str) -> Iterator[str]:
    pointers = [_c_name(program.arrays[one], number) for one in op.arrays if program.arrays[one].kind == "device"]
    device = f" is_device_ptr({', '.join(pointers)})" if pointers else ""
    how = ("", " teams distribute parallel for", " parallel for")[op.flavour]
    first, last, name = op.first * array.width, op.last * array.width, _c_name(array, number)
    value = f"{op.value}"
    if op.how == "add":
        value = f"{name}[i] + {op.value}"
    elif op.how == "copy":
        shift = (op.at - op.first) * array.width
        value = f"{_c_name(program.arrays[op.source], number)}[i + {shift}] + {op.value}".replace("+ -", "- ")
    yield f"#pragma omp target{how}{device}{' ' if maps else ''}{maps}{late}"
    yield f"for (int i = {first}; i < {last}; i++) {name}[i] = {value};"


def translation_unit(programs: list[Program]) -> tuple[str, list[tuple[int, int]]]:
    """Return a program in C that runs these one after the other, and the first and last line of each."""
    text, places = HEADER, []
    for number, program in enumerate(programs):
        first = text.count("\n") + 1
        text += function(program, number) + "\n"
        places.append((first, text.count("\n")))
    calls = [f'    if (only < 0 || only == {n}) printf("{n} %.17g\\n", p{n}());' for n in range(len(programs))]
    main = ["int main(int argc, char **argv)", "{", "    int only = argc > 1 ? atoi(argv[1]) : -1;"]
    return text + "\n".join([*main, *calls, "    return 0;", "}", ""]), places
