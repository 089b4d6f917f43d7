"""How long whole runs take, and how much memory: `python bench/runs.py [--json] [--check] [--full] [--slack X]`.

Each run of `RUNS` has a limit in seconds. Machines differ, and shared ones from minute to minute: so the CPU time of
each is taken as a multiple of what SimPy needs for an event of its model M1 with 8 processes (`bench/models.py`),
measured before and after it, and given as the seconds that it would take where SimPy does `REFERENCE` of them a second:
the machine on which the limits were set. Every run is a process of its own, whose peak of resident memory is reported.

`--full` runs the longest one to its end instead of a part of it, and one more. `--check` fails when a limit is missed.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from statistics import median
from typing import Any

import attrs
from rich.console import Console
from rich.table import Table

from bench.engine import rate

REFERENCE = 752e3
"""SimPy's events a second (M1, N=8) on the machine on which the limits were set."""

S2_KERNELS = 738_483
"""Kernels of QMCPack S2 with 8 threads."""


@attrs.frozen
class Case:
    """A scenario with its parameters, and what it may take.

    part_of: when only a part of it is run, how many kernels it has in all. A still smaller part tells what goes before
    the first kernel; what the others take is scaled up.
    """

    scenario: str
    parameters: dict[str, str]
    limit_s: float
    limit_mb: float | None = None
    part_of: int | None = None

    @property
    def name(self) -> str:
        """As on the command line."""
        return " ".join([self.scenario, *(f"{name}={value}" for name, value in self.parameters.items())])


S2 = {"size": "S2", "threads": "8", "configuration": "copy"}
# ExaHyPE with map clauses took 3.5 s while locks were handed over in order of arrival. They barge now, as real mutexes
# do, and the run takes a fifth longer for 2 % more instructions: presumably because its 128 threads are no longer in
# step, so that the processor's caches serve each of them less well.
# S2's limit is 1.6 times what it took when up to 64 map items shared a hold of the device table. BFS's is 1.3 times
# what it took when a batch of faults that nobody could disturb had a faster copy of the code.
FAULTING = (
    Case("cufft", {}, 2.6),
    Case("rmat_bfs", {}, 2.2),
    Case("oversubscription", {}, 3.6),
    Case("stream", {"prefetch": "false"}, 3.8),
    Case("unified_memory", {}, 2.4),
)
"""Runs that page faults bound: a third more than they took, with the start of Python."""
RUNS = (
    Case("exahype", {"threads": "128", "batch": "16", "memory": "map"}, 4.6),
    Case("exahype", {"threads": "128", "batch": "16", "memory": "pool"}, 5.0),
    Case("exahype", {"threads": "128", "batch": "16", "memory": "managed"}, 10.0),
    Case("qmcpack", {**S2, "fraction": "0.05"}, 141.0, 600.0, S2_KERNELS),
    Case("exahype", {"threads": "256", "patches": "256", "batch": "16", "memory": "pool"}, 6.0, 160.0),
    *FAULTING,
)
FULL = (
    Case("qmcpack", {**S2, "fraction": "1"}, 141.0, 600.0),
    Case("rodinia", {"benchmark": "bfs", "size_gb": "32", "placement": "um"}, 11.8, 500.0),
    Case("jacc", {"benchmark": "BT", "gpus": "4", "strategy": "adaptive"}, 60.0),
    Case("stdpar", {"application": "lulesh", "size": "90", "steps": "10"}, 30.0),
)


def measure(case: Case) -> dict[str, Any]:
    """Run a case between two looks at SimPy."""
    simpy = [rate("simpy", "M1", 8) for _ in range(5)]
    told = run(case.scenario, case.parameters)
    cpu_s = told["cpu_s"]
    if case.part_of is not None:
        start = run(case.scenario, {**case.parameters, "fraction": "0.002"})
        per_kernel_s = (cpu_s - start["cpu_s"]) / (told["kernels"] - start["kernels"])
        cpu_s += per_kernel_s * (case.part_of - told["kernels"])
    simpy += [rate("simpy", "M1", 8) for _ in range(5)]
    events = cpu_s * median(simpy)
    return {
        "run": case.name,
        "cpu_s": told["cpu_s"],
        "simpy_events_per_s": median(simpy),
        "reference_s": events / REFERENCE,
        "limit_s": case.limit_s,
        "peak_mb": told["peak_mb"],
        "limit_mb": case.limit_mb,
    }


def run(scenario: str, parameters: dict[str, str]) -> dict[str, Any]:
    """What `child` told in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--child", json.dumps([scenario, parameters])],
        check=True,
        capture_output=True,
        text=True,
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def child(scenario: str, parameters: dict[str, str]) -> None:
    """One run in a process of its own; CPU time with start-up."""
    from offloadrt.study import execute, find_scenario

    result = execute(find_scenario(scenario), parameters)
    used = resource.getrusage(resource.RUSAGE_SELF)
    figures = {
        "cpu_s": used.ru_utime + used.ru_stime,
        "peak_mb": used.ru_maxrss / 1024,
        "kernels": result.measured.get("kernels", 0),
    }
    print(json.dumps(figures))


def missed(found: list[dict[str, Any]], slack: float = 1.0) -> list[str]:
    """A line for each limit that is not kept."""
    lines = [
        f"{run['run']}: {run['reference_s']:.1f} s at SimPy's reference rate, at most {run['limit_s']:.0f} s"
        for run in found
        if run["reference_s"] > run["limit_s"] * slack
    ]
    lines += [
        f"{run['run']}: {run['peak_mb']:.0f} MB, at most {run['limit_mb']:.0f} MB"
        for run in found
        if run["limit_mb"] is not None and run["peak_mb"] > run["limit_mb"]
    ]
    return lines


def as_table(found: list[dict[str, Any]]) -> Table:
    """What is printed."""
    reference = f"SimPy does {REFERENCE / 1e3:.0f}k events/s on M1 N=8"
    caption = f"reference: the time where {reference}; a part is scaled up, but not its start"
    table = Table(title="whole runs", caption=caption)
    table.add_column("run")
    for column in ("CPU here", "SimPy here", "reference", "limit", "memory"):
        table.add_column(column, justify="right")
    for run in found:
        table.add_row(
            run["run"],
            f"{run['cpu_s']:.1f} s",
            f"{run['simpy_events_per_s'] / 1e3:.0f}k/s",
            f"{run['reference_s']:.1f} s",
            f"{run['limit_s']:.0f} s",
            f"{run['peak_mb']:.0f} MB",
        )
    return table


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a limit is missed")
    parser.add_argument(
        "--slack", type=float, default=1.0, metavar="X", help="with --check: fail above X times a limit of time"
    )
    parser.add_argument("--full", action="store_true", help="run QMCPack to its end, and the other large runs")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        child(*json.loads(options.child))
        return 0
    cases = RUNS if not options.full else (*(case for case in RUNS if case.part_of is None), *FULL)
    found = [measure(case) for case in cases]
    if options.json:
        print(json.dumps({"reference": REFERENCE, "runs": found}, indent=2))
    else:
        Console().print(as_table(found))
    for line in missed(found):
        print(line, file=sys.stderr)
    return 1 if options.check and missed(found, options.slack) else 0


if __name__ == "__main__":
    sys.exit(main())
