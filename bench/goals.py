"""What is aimed at, and how far it is reached: `python bench/goals.py [--full] [--profile] [--json] [ITEM ...]`.

One table of nine items: what each took before it was worked on, what it takes now, a peer where there is one, and the
goal. "Now" is measured here by the other benches, in processor time; "before" is what the same machine took when the
goals were set; it is empty where nobody measured that. Times of whole runs are at SimPy's reference rate
(`bench/runs.py`). `--full` measures what takes minutes as well; items (1 to 9) choose among them. `--profile` runs each
program that missed its goal once more, and prints in which functions its processor time was spent: the functions' own
shares of samples, one for every 2 ms of processor time.

`bench/goals.txt` has the table of one machine, and the profile of each run that misses its goal. CI checks the ratios
that the other benches keep: engine, start-up, schedules, whole runs and those that page faults bound, memory.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from types import FrameType

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
    missed: tuple[str, dict[str, str]] | None = None
    """The program to profile, a scenario with its parameters, where a run of it missed the goal."""


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


def _missed(now: float, goal: str, program: tuple[str, dict[str, str]]) -> tuple[str, dict[str, str]] | None:
    """Return the program if its seconds are above the goal, a number with a unit."""
    return program if now > float(goal.split()[0]) else None


def whole(full: bool) -> Iterator[Row]:
    """Time whole runs at SimPy's reference rate; without `full`, QMCPack's is scaled up from a part."""
    cases = [*WHOLE, *(WHOLE_FULL if full else ())]
    if full:
        cases[3] = (runs.FULL[0], *WHOLE[3][1:])
    for case, before, goal in cases:
        now = runs.measure(case)["reference_s"]
        profiled = case.scenario, {**case.parameters, **({"fraction": "0.05"} if "fraction" in case.parameters else {})}
        yield Row(2, case.name, before, f"{now:.1f} s", "", goal, _missed(now, goal, profiled))


def faulting() -> Iterator[Row]:
    """Time runs that page faults bound, without the start of Python."""
    for case, before, seconds in FAULTING:
        now, goal = slowdown.measured(case.scenario, case.parameters)["cpu_s"], f"{seconds} s"
        program = case.scenario, case.parameters
        yield Row(3, case.name, f"{before} s", f"{now:.2f} s", "", goal, _missed(now, goal, program))


def schedules() -> Iterator[Row]:
    """Count schedules a second of two cores, from the processor time of one."""
    found = explore.measure(5)["random"]
    yield Row(4, "explore, schedules/s of 2 cores", "820", f"{2 / median(took for took, _ in found):.0f}", "", "1,000")


def processor_s(*arguments: str) -> tuple[float, str]:
    """Run a command of offloadrt; return its processor seconds, those of its workers included, and what it printed."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "offloadrt", *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    return now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime, done.stdout


SECOND = ["exahype", "threads=16", "batch=16", "memory=map"]
"""A program whose run takes about a second."""


def draws() -> Iterator[Row]:
    """Time draws and what-ifs of a run of a second or less, as processor time over two cores."""
    name = " ".join(SECOND)
    took, _ = processor_s("run", *SECOND, "--draws", "64", "--budget", "1000s")
    yield Row(5, f"64 draws of {name}, 2 cores", "", f"{took / 2:.1f} s", "", "25 s")
    took, printed = processor_s("why", *SECOND, "--json")
    changes = json.loads(printed)["tried"]
    tried = len(changes["what_ifs"]) + len(changes["without_effect"])
    what = f"20 of {tried} changes by why of {name}, 2 cores"
    yield Row(5, what, "", f"{took / 2 * 20 / tried:.1f} s", "", "12 s")


def workers(full: bool) -> Iterator[Row]:
    """Take speed-up and overhead of a sweep's workers from `bench/sweeps.py`: of all executors with `full`."""
    sweeps = [str(ROOT / "bench/sweeps.py"), "--points", "2000" if full else "300", "--executors"]
    # Open MPI starts nothing for root, and no more ranks than there are cores, unless it is told to.
    names = ("ALLOW_RUN_AS_ROOT", "ALLOW_RUN_AS_ROOT_CONFIRM", "MCA_rmaps_base_oversubscribe")
    environment = {**os.environ, **{f"OMPI_{name}": "1" for name in names}}

    def figures(kind: str, *launcher: str) -> dict[str, str]:
        command = [*launcher, sys.executable, *(["-m", "mpi4py.futures"] if launcher else []), *sweeps, kind]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
        return dict(re.findall(r"(run|point|overhead|speed-up) ([-\d.]+)", done.stdout))

    mpiexec = shutil.which("mpiexec")
    for kind in ("process", "dask", "mpi") if full else ("process",):
        if kind != "mpi":
            found = figures(kind)
        elif mpiexec is None:
            found = {}
        elif found := figures(kind, mpiexec, "-n", "2"):  # the rank that hands out points, and one or two that run them
            two = figures(kind, mpiexec, "-n", "3")
            found["speed-up"] = f"{float(found['point']) / float(two['point']):.2f}"
            found["overhead"] = f"{100 * (float(found['point']) / float(found['run']) - 1):.1f}"
        if not found:
            yield Row(6, f"a sweep by {kind}", "", "left out", "", "")
            continue
        before = {"process": "1.94", "dask": "1.95"}.get(kind, "")
        yield Row(6, f"two workers over one, {kind}", before, found["speed-up"], "", "1.9")
        what = f"overhead of a worker, {kind}, points of {found['run']} ms"
        yield Row(6, what, "", f"{found['overhead']} %", "", "5 %")


def memory(full: bool) -> Iterator[Row]:
    """Look at the peak of resident memory."""
    for patches, before in (("4096", "794 MB"), ("256", "")) if full else (("256", ""),):
        peak = slowdown.measured("exahype", {"threads": "256", "patches": patches, "batch": "16", "memory": "pool"})
        yield Row(7, f"exahype 256 threads x {patches} patches", before, f"{peak['peak_mb']:.0f} MB", "", "500 MB")


def starts() -> Iterator[Row]:
    """Time the start of commands, and a report of a short run."""
    found = startup.figures(startup.measure(5))
    before = {"names": "0.66 s", "offloadrt show": "0.71 s", "offloadrt run": "1.8 s"}
    for name, goal in startup.GOALS.items():
        yield Row(8, f"start-up: {name}", before[name], f"{found[name]['cpu_s']:.2f} s", "", f"{goal} s")
    with tempfile.TemporaryDirectory() as folder:
        took = min(processor_s("report", f"{folder}/page.html", *SECOND, "--budget", "0s")[0] for _ in range(3))
    yield Row(8, f"report of {' '.join(SECOND)} --budget 0s", "", f"{took:.1f} s", "", "4 s")


def slow() -> Iterator[Row]:
    """Compare runs with what they emulate."""
    for scenario, parameters in slowdown.PROGRAMS:
        found = slowdown.measured(scenario, parameters)
        times = found["cpu_s"] / found["emulated_s"]
        missed = (scenario, parameters) if times > 10 else None
        yield Row(9, slowdown.name_of(scenario, parameters), "", f"{times:.2f}x", "the machine 1x", "10x", missed)


SAMPLE_S = 0.002


def sampled(scenario: str, parameters: dict[str, str]) -> None:
    """Run a program, and print the ten functions with most of its processor time of their own."""
    from offloadrt.study import execute, find_scenario

    own: Counter[str] = Counter()

    def look(_: int, frame: FrameType | None) -> None:
        if frame is not None:
            own[frame.f_code.co_qualname.replace(".<locals>", "")] += 1

    found = find_scenario(scenario)
    signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, SAMPLE_S, SAMPLE_S)
    execute(found, parameters)
    signal.setitimer(signal.ITIMER_PROF, 0)
    ten = own.most_common(10)
    told = ", ".join(f"{name} {100 * count / own.total():.0f} %" for name, count in ten)
    print(f"{told}; the ten have {100 * sum(count for _, count in ten) / own.total():.0f} %")


def profile(row: Row) -> str:
    """Return the line of a row that missed its goal."""
    child = [sys.executable, __file__, "--sampled", json.dumps(row.missed)]
    printed = subprocess.run(child, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    return f"{row.what} ({row.now} of {row.goal}): {printed.strip()}"


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("items", nargs="*", type=int, metavar="ITEM")
    parser.add_argument("--full", action="store_true", help="measure what takes minutes as well")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--profile", action="store_true", help="profile the programs that miss their goals")
    parser.add_argument("--sampled", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.sampled is not None:
        sampled(*json.loads(options.sampled))
        return 0
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
    rows: list[Row] = []
    if not options.json:
        print(f"item {'what':72} {'before':>14} {'now':>10} {'peer':>18} {'goal':>8}")
    for item in options.items or measures:
        for row in measures[item]():
            rows.append(row)
            if not options.json:
                what = f"{row.item:4} {row.what:72} {row.before:>14} {row.now:>10}"
                print(f"{what} {row.peer:>18} {row.goal:>8}".rstrip(), flush=True)
    if options.json:
        print(json.dumps([attrs.asdict(row) for row in rows], indent=2))
    elif options.profile:
        print("\nFunctions' own shares of processor time, where a goal is missed:")
        for row in rows:
            if row.missed is not None:
                print(profile(row), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
