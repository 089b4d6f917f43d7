"""What is aimed at, and how far it is reached: `python bench/goals.py [--full] [--json] [ITEM ...]`.

One table of nine items: what each took before it was worked on, what it takes now, a peer where there is one, and the
goal. "Now" is measured here by the other benches, in processor time; "before" is what the same machine took when the
goals were set; it is empty where nobody measured that. Times of whole runs are at SimPy's reference rate
(`bench/runs.py`). `--full` measures what takes minutes as well; items (1 to 9) choose among them.

`bench/goals.txt` has the table of one machine, and the profile of each run that misses its goal. CI checks the ratios
that the other benches keep: engine, start-up, schedules, whole runs and those that page faults bound, memory.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import attrs

from bench import engine, explore, models, runs, slowdown, startup

ROOT = Path(__file__).parents[1]


@attrs.frozen
class Row:
    """One line of the table."""

    item: int
    what: str
    before: str
    now: str
    peer: str
    goal: str


def engines() -> Iterator[Row]:
    """Compare the turbo gear with SimGrid's C++, as the median of ratios within a round."""
    before = {"M1": "0.9", "M3": "1.7", "M4": "0.5"}
    with tempfile.TemporaryDirectory() as folder:
        try:
            simgrid = models.SimGrid(Path(folder))
        except OSError as error:
            yield Row(1, "events/s of turbo over SimGrid's", "0.5 to 1.7", f"left out: {error}", "SimGrid S4U", "1.0")
            return
        for (model, threads), rates in engine.measure(5, simgrid).items():
            ratio = median(ours / theirs for ours, theirs in zip(rates["turbo"], rates["simgrid"], strict=True))
            theirs = f"SimGrid {median(rates['simgrid']) / 1e6:.1f} M/s"
            yield Row(
                1, f"{model} N={threads}, turbo over SimGrid", before.get(model, ""), f"{ratio:.2f}", theirs, "1.0"
            )


WHOLE = (
    (runs.RUNS[0], "", "2.5 s"),
    (runs.RUNS[1], "", "1.0 s"),
    (runs.RUNS[2], "", "1.2 s"),
    (runs.RUNS[3], "103 s", "80 s"),
)
WHOLE_FULL = (
    (runs.FULL[1], "20 s", "10 s"),
    (runs.FULL[2], "", "30 s"),
    (runs.FULL[3], "", "12 s"),
)
FAULTING = tuple(zip(runs.FAULTING, (10.5, 2.9, 3.5, 1.8, 0.7), (1.0, 1.0, 2.0, 1.2, 0.45), strict=True))
"""Runs that page faults bound, with seconds before they were worked on, and aimed at."""


def whole(full: bool) -> Iterator[Row]:
    """Time whole runs at SimPy's reference rate."""
    for case, before, goal in (*WHOLE, *(WHOLE_FULL if full else ())):
        yield Row(2, case.name, before, f"{runs.measure(case)['reference_s']:.1f} s", "", goal)


def faulting() -> Iterator[Row]:
    """Time runs that page faults bound, without the start of Python."""
    for case, before, goal in FAULTING:
        now = slowdown.measured(case.scenario, case.parameters)["cpu_s"]
        yield Row(3, case.name, f"{before} s", f"{now:.2f} s", "", f"{goal} s")


def schedules() -> Iterator[Row]:
    """Count schedules a second of two cores, from the processor time of one."""
    found = explore.measure(5)["random"]
    yield Row(4, "explore, schedules/s of 2 cores", "820", f"{2 / median(took for took, _ in found):.0f}", "", "1,000")


def draws() -> Iterator[Row]:
    """Time draws and what-ifs of a run of a second or less, as processor time over two cores."""
    program = ["exahype", "threads=16", "batch=16", "memory=map"]
    name = " ".join(program)
    for what, command, goal in (
        (f"64 draws of {name}, 2 cores", ["run", *program, "--draws", "64"], "25 s"),
        (f"why of {name}, 2 cores", ["why", *program], "12 s"),
    ):
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "offloadrt", *command], check=True, capture_output=True, cwd=ROOT)
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        took = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
        yield Row(5, what, "", f"{took / 2:.1f} s", "", goal)


def workers(full: bool) -> Iterator[Row]:
    """Take speed-up and overhead of a sweep's workers from `bench/sweeps.py`."""
    command = [sys.executable, str(ROOT / "bench/sweeps.py"), "--points", "10000" if full else "300"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    found = re.search(r"overhead (\S+) ms.*speed-up (\S+)", printed)
    assert found is not None, printed
    yield Row(6, "two workers over one, process", "1.94", found[2], "Dask 1.95", "1.9")
    yield Row(6, "overhead of a worker, ms a point", "", found[1], "", "5 % of a point")


def memory(full: bool) -> Iterator[Row]:
    """Look at the peak of resident memory."""
    patches = "4096" if full else "256"
    peak = slowdown.measured("exahype", {"threads": "256", "patches": patches, "batch": "16", "memory": "pool"})
    yield Row(7, f"exahype 256 threads x {patches} patches", "794 of 4096", f"{peak['peak_mb']:.0f} MB", "", "500 MB")


def starts() -> Iterator[Row]:
    """Time the start of commands."""
    found = startup.figures(startup.measure(5))
    before = {"names": "0.66 s", "offloadrt show": "0.71 s", "offloadrt run": "1.8 s"}
    for name, goal in startup.GOALS.items():
        yield Row(8, f"start-up: {name}", before[name], f"{found[name]['cpu_s']:.2f} s", "", f"{goal} s")


def slow() -> Iterator[Row]:
    """Compare runs with what they emulate."""
    for scenario, parameters in slowdown.PROGRAMS:
        found = slowdown.measured(scenario, parameters)
        times = found["cpu_s"] / found["emulated_s"]
        yield Row(9, slowdown.name_of(scenario, parameters), "", f"{times:.2f}x", "the machine 1x", "10x")


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("items", nargs="*", type=int, metavar="ITEM")
    parser.add_argument("--full", action="store_true", help="measure what takes minutes as well")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    measures: dict[int, Callable[[], Iterator[Row]]] = {
        1: engines,
        2: lambda: whole(options.full),
        3: faulting,
        4: schedules,
        5: draws,
        6: lambda: workers(options.full),
        7: lambda: memory(options.full),
        8: starts,
        9: slow,
    }
    if unknown := [item for item in options.items if item not in measures]:
        parser.error(f"there are items 1 to 9, not {unknown[0]}")
    rows: list[dict[str, Any]] = []
    if not options.json:
        print(f"item {'what':72} {'before':>14} {'now':>10} {'peer':>18} {'goal':>8}")
    for item in options.items or measures:
        for row in measures[item]():
            rows.append(attrs.asdict(row))
            if not options.json:
                what = f"{row.item:4} {row.what:72} {row.before:>14} {row.now:>10}"
                print(f"{what} {row.peer:>18} {row.goal:>8}".rstrip(), flush=True)
    if options.json:
        print(json.dumps(rows, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
