"""How much slower a run is than the machine that it emulates: `python bench/slowdown.py [--json] [NAME ...]`.

Ten programs, each in a process of its own: the virtual time that it emulates, the processor time that its run takes
without the start of Python, their ratio, and the peak of resident memory. A ratio below 1 means that the emulation is
faster than the machine: kernels that run for long cost no more than short ones. Programs of many short kernels, of many
threads that wait for one another, and of many page faults are slower. A ratio also depends on the machine that the
bench runs on: `bench/slowdown.txt` has those of one, with its SimPy rate, by which others can be compared.

Names, or parts of them, choose among the programs.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any

from bench.engine import rate

PROGRAMS: tuple[tuple[str, dict[str, str]], ...] = (
    ("exahype", {"threads": "128", "batch": "16", "memory": "map"}),
    ("exahype", {"threads": "128", "batch": "16", "memory": "pool"}),
    ("exahype", {"threads": "128", "batch": "16", "memory": "managed"}),
    ("qmcpack", {"size": "S2", "threads": "8", "configuration": "copy", "fraction": "0.01"}),
    ("rodinia", {"benchmark": "bfs", "size_gb": "8", "placement": "um"}),
    ("rodinia", {"benchmark": "srad", "size_gb": "8", "placement": "um"}),
    ("stdpar", {"application": "lulesh", "size": "30", "steps": "10"}),
    ("cufft", {}),
    ("stream", {"prefetch": "false"}),
    ("sgemm", {}),
)


def name_of(scenario: str, parameters: dict[str, str]) -> str:
    """Return a program as on the command line."""
    return " ".join([scenario, *(f"{name}={value}" for name, value in parameters.items())])


def child(scenario: str, parameters: dict[str, str]) -> None:
    """Run a program and print what it took."""
    from offloadrt import Run
    from offloadrt.study import execute, find_scenario

    found = find_scenario(scenario)
    runs: list[Run] = []
    begin = time.process_time()
    execute(found, parameters, before_run=runs.append)
    figures = {
        "emulated_s": runs[-1].sim.now,
        "cpu_s": time.process_time() - begin,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(figures))


def measured(scenario: str, parameters: dict[str, str]) -> dict[str, float]:
    """Run a program in a process of its own; the fastest of two runs, since others use the machine as well."""
    command = [sys.executable, __file__, "--child", json.dumps([scenario, parameters])]
    runs = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(2)]
    return min(runs, key=lambda run: float(run["cpu_s"]))


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        child(*json.loads(options.child))
        return 0
    simpy = max(rate("simpy", "M1", 8) for _ in range(5))
    rows: list[dict[str, Any]] = []
    for scenario, parameters in PROGRAMS:
        name = name_of(scenario, parameters)
        if not options.names or any(part in name for part in options.names):
            rows.append({"program": name, **measured(scenario, parameters)})
    if options.json:
        print(json.dumps({"simpy_events_per_s": simpy, "programs": rows}, indent=2))
        return 0
    print(f"SimPy does {simpy / 1e3:.0f}k events/s on M1 N=8 here")
    print(f"{'program':68} {'emulated':>10} {'CPU':>8} {'slower':>8} {'memory':>8}")
    for row in rows:
        emulated_s, cpu_s = row["emulated_s"], row["cpu_s"]
        took = f"{emulated_s:8.3f} s {cpu_s:6.2f} s {cpu_s / emulated_s:7.2f}x {row['peak_mb']:5.0f} MB"
        print(f"{row['program']:68} {took}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
