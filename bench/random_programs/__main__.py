"""What `check` says of random programs that are right, and of such with one planted mistake.

    python -m bench.random_programs [--python 2000] [--c 0] [--seed 0] [--folder build/random_programs] [--show]

Of each kind as many are written as asked for: as scenarios in Python, which run in this process on several machines
under the checker; and in C, in translation units of some functions, which run under LLVM's host plugin first, where those
that are right must print what the oracle says, and are then recorded and checked. Programs that are right and get a
report, and planted mistakes without one, are kept in the folder.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import attrs

from bench.random_programs.abstract import Program, judged
from bench.random_programs.emit import scenario
from bench.random_programs.generate import correct, planted

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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("build/random_programs"))
    parser.add_argument("--late", action="store_true", help="under table.count_down=kernel")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    table = python_programs(asked.python, asked.seed, asked.folder, asked.late)
    print("\n".join(table.lines()))
    print(*table.wrong, sep="\n")
    print(f"{time.monotonic() - begin:.0f} s", file=sys.stderr)
    return bool(table.wrong)


if __name__ == "__main__":
    sys.exit(main())
