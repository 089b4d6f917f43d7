"""What `check` says of random programs that are right, and of such with one planted mistake.

    python -m bench.random_programs [--python 2000] [--c 200] [--seed 0] [--folder build/random_programs] [--late]

As many are made of each as asked for, right ones and wrong ones. In Python they are scenarios, which run in this
process under the checker, on five machines in turn. In C they are functions, twenty in a translation unit, built by
clang 22 with -O0 to -O2 in turn. Each runs in a process of its own under LLVM's host plugin, where one that is right
must print what the oracle says; that run is recorded, and the recording is checked. What should not be is kept in the
folder: programs that are right and get a report or a wrong sum, and mistakes without a report.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import attrs

from bench.random_programs.abstract import Program, judged
from bench.random_programs.emit import scenario, translation_unit
from bench.random_programs.generate import correct, planted

BATCH = 20
"""Functions in a translation unit."""
LONGEST_S = 300
"""Seconds after which a native run is stopped."""
MACHINES = ("alex-a100", "mi300x", "h100", "gh200", "mi250x")


@attrs.define
class Table:
    """How many programs of each kind there were, and about how many `check` said something."""

    programs: Counter[str] = attrs.field(factory=Counter)
    reported: Counter[str] = attrs.field(factory=Counter)
    lost: int = 0
    """Programs that lost an update by the runtime's fault."""
    can_lose: int = 0
    wrong: list[str] = attrs.field(factory=list)
    """What should not be: false reports, wrong values, errors of the emulator."""

    def lines(self) -> list[str]:
        rows = [f"{'kind':32} {'programs':>9} {'reported':>9} {'missed':>7}"]
        for kind in sorted(self.programs, key=lambda one: (one != "none", one)):
            count, found = self.programs[kind], self.reported[kind]
            rows.append(f"{kind:32} {count:9} {found:9} {count - found if kind != 'none' else '':>7}")
        mistakes = sum(count for kind, count in self.programs.items() if kind != "none")
        found = sum(count for kind, count in self.reported.items() if kind != "none")
        if mistakes:
            rows.append(f"planted mistakes found: {found} of {mistakes}, {100 * found / mistakes:.2f} %")
        rows.append(f"lost updates of the runtime's: {self.lost} programs; possible ones: {self.can_lose}")
        return rows


def checked(text: str, folder: Path, name: str, overrides: dict[str, Any] | None = None) -> Any:
    """Check a scenario's text; returns the report, and the sum of what the program has read, None if it did not end."""
    from offloadrt.extensions.checking.checked import check
    from offloadrt.study.scripts import registry
    from offloadrt.study.spec import RunSpec

    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    chosen = registry.find(str(path))
    report = check(chosen, chosen.bind({}), RunSpec(overrides=overrides or {}))
    sums = chosen.function.__globals__["SUMS"]
    return report, sums[0] if sums else None


def python_programs(count: int, seed: int, folder: Path, late: bool = False) -> Table:
    """Check as many programs that are right, and as many with a mistake."""
    table = Table()
    overrides = {"table.count_down": "kernel"} if late else {}
    for number in range(2 * count):
        if number % 2 == 0:
            kind, program = "none", correct(seed + number // 2)
        else:
            kind, program = planted(seed + number // 2)
        name = f"{'right' if kind == 'none' else 'wrong'}{seed + number // 2}"
        _one(table, kind, program, name, folder, MACHINES[number // 2 % len(MACHINES)], overrides)
        if number % 100 == 99:
            print(f"{number + 1} programs", file=sys.stderr, flush=True)
    return table


def _one(
    table: Table, kind: str, program: Program, name: str, folder: Path, machine: str, overrides: dict[str, Any]
) -> None:
    table.programs[kind] += 1
    text = scenario(program, machine, name)
    try:
        report, total = checked(text, folder, name, overrides)
    except Exception as error:  # an error of the emulator is a result here
        table.wrong.append(f"{name} ({kind}): {type(error).__name__}: {str(error).splitlines()[0]}")
        return
    lost = any(fault.happened for fault in report.runtime_faults)
    table.lost += lost
    table.can_lose += bool(report.runtime_faults) and not lost
    table.reported[kind] += bool(report.mistakes)
    expected = judged(program).total
    if kind == "none" and total != expected and not lost:
        table.wrong.append(f"{name}: the sum is {total}, and should be {expected}")
    told = sorted({mistake.kind for mistake in report.mistakes})
    if kind == "none" and report.mistakes:
        table.wrong.append(f"{name}: false report: {', '.join(told)}")
    elif kind != "none" and not report.mistakes:
        table.wrong.append(f"{name}: missed {kind}: {'; '.join(sorted(set(judged(program).problems)))}")
    else:
        (folder / f"{name}.py").unlink()


def c_programs(count: int, seed: int, folder: Path) -> Table:
    """Build, run, record and check as many functions in C that are right, and as many with a mistake."""
    table = Table()
    for begin in range(0, count, BATCH):
        first, last = seed + begin, seed + min(begin + BATCH, count)
        right = [("none", correct(number)) for number in range(first, last)]
        wrong = [planted(number, offloads=True) for number in range(first, last)]
        _batch(table, right, f"right{first}", folder, first // BATCH)
        _batch(table, wrong, f"wrong{first}", folder, first // BATCH)
    return table


def _batch(table: Table, programs: list[tuple[str, Program]], name: str, folder: Path, number: int) -> None:
    source, binary = folder / f"{name}.c", folder / name
    text, _ = translation_unit([program for _, program in programs])
    source.write_text(text, encoding="utf-8")
    level = f"-O{number % 3}"
    flags = ["-g", level, "-fopenmp", "-fopenmp-version=52", "-w", source.name, "-o", binary.name]
    command = [sys.executable, "-m", "offloadrt", "cc", *flags]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=600)
    kept = False
    for place, (kind, program) in enumerate(programs):
        table.programs[kind] += 1
        wrong = _recorded(table, kind, program, binary, place, MACHINES[(number + place) % len(MACHINES)])
        table.wrong += (told := [f"{name}.c {place} {level}: {what}" for what in wrong])
        print(*told, sep="\n", end="\n" * bool(told), file=sys.stderr, flush=True)
        kept = kept or bool(wrong)
    binary.unlink()
    if not kept:
        source.unlink()
    print(f"{name} {level}: {len(table.wrong)} so far", file=sys.stderr, flush=True)


def _recorded(table: Table, kind: str, program: Program, binary: Path, place: int, machine: str) -> list[str]:
    """Run, record and check one function; returns what should not be."""
    from offloadrt.extensions.checking.checked import check
    from offloadrt.extensions.recording.format import convert
    from offloadrt.study.scripts import registry
    from offloadrt.study.spec import RunSpec

    recording, raw = binary.with_suffix(".rec"), binary.with_suffix(".raw")
    try:
        run, printed = _run(binary, place, raw)
        if run.stopped:
            return [f"{kind}: has run for {LONGEST_S} s"]
        if kind == "none" and printed.split()[:2] != [str(place), f"{judged(program).total:.17g}"]:
            return [f"printed {printed!r} {run.message!r}, not {judged(program).total:.17g}"]
        if not run.directives:  # nothing to record, and so nothing to check
            return []
        convert(raw, recording)
        scenario = registry.find(str(recording))
        report = check(scenario, scenario.bind({}), RunSpec(machine=machine))
    except Exception as error:  # an error of the emulator is a result here
        return [f"{kind}: {type(error).__name__}: {str(error).splitlines()[0]}"]
    finally:
        recording.unlink(missing_ok=True)
        shutil.rmtree(raw, ignore_errors=True)
    faults = getattr(report, "runtime_faults", ())
    table.lost += any(fault.happened for fault in faults)
    table.can_lose += bool(faults) and not any(fault.happened for fault in faults)
    table.reported[kind] += bool(report.mistakes)
    if kind == "none" and report.mistakes:
        return ["false report: " + "; ".join(f"{one.kind}: {one.subject}" for one in report.mistakes)]
    if kind != "none" and not report.mistakes:
        return [f"missed {kind}: {'; '.join(sorted(set(judged(program).problems)))}"]
    return []


def _run(binary: Path, place: int, raw: Path) -> tuple[Any, str]:
    """Record one function in a process of its own; returns what was recorded, and what the program has printed."""
    from offloadrt.extensions.recording.toolchain import RecordOptions, record

    os.environ["OMP_WAIT_POLICY"] = "passive"  # threads that wait shall leave the cores to others
    options = RecordOptions(check=True, stop_seconds=LONGEST_S)
    sys.stdout.flush()
    with tempfile.TemporaryFile() as output:
        kept = os.dup(1)
        os.dup2(output.fileno(), 1)
        try:
            (run,) = record([str(binary.resolve()), str(place)], raw, [None], options)
        finally:
            os.dup2(kept, 1)
            os.close(kept)
        output.seek(0)
        return run, output.read().decode()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=int, default=2000)
    parser.add_argument("--c", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("build/random_programs"))
    parser.add_argument("--late", action="store_true", help="in Python, under table.count_down=kernel")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    wrong = False
    runs = (("Python", asked.python, python_programs), ("C", asked.c, c_programs))
    for language, count, run in runs:
        if not count:
            continue
        begin = time.monotonic()
        table = run(count, asked.seed, asked.folder, *([asked.late] if language == "Python" else []))
        print(f"{count} programs that are right and {count} with a mistake, in {language}, from seed {asked.seed}")
        print(*table.lines(), *table.wrong, "", sep="\n", flush=True)
        print(f"{language}: {time.monotonic() - begin:.0f} s", file=sys.stderr)
        wrong = wrong or bool(table.wrong)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
