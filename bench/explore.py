"""How fast schedules are explored: `python bench/explore.py [--json] [--check] [--slack X]`.

A program of ten directives is run under schedules of each strategy in one process. Machines differ, and shared ones
from minute to minute: so the CPU time of a schedule is taken as a multiple of what SimPy needs for an event of its
model M1 with 8 processes (`bench/models.py`), measured in turns with it, and what counts is the median over the rounds.
`--check` fails when a strategy takes more events than `LIMIT`. The rate that is printed beside is that of this machine
now, on one of its cores.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from bench.engine import rate
from offloadrt.extensions.exploring.explore import fitted, run_cases
from offloadrt.extensions.exploring.program import ScenarioProgram
from offloadrt.extensions.exploring.schedules import ScheduleCase, SchedulePlan

PROGRAM = '''
from offloadrt import Run, kernel, scenario
from offloadrt import openmp as omp


@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def add(a, value):
    a += value


@scenario(results=("r",))
async def ten(run: Run):
    """Two threads with five directives each."""
    sums = []

    async def body(t: omp.HostThread):
        a = t.array("a", 64, fill=0.0)
        await t.target_enter_data(omp.map(to=a))
        await t.target(add, a, 1.0, iterations=64)
        await t.target(add, a, 1.0, iterations=64)
        await t.target_update(omp.from_(a))
        await t.target_exit_data(omp.map(delete=a))
        sums.append(float(a[0]))

    await run.parallel(body, num_threads=2)
    return {"r": sum(sums)}
'''
STRATEGIES = ("random", "pct:3", "delay:2")
RUNS = 20
"""Schedules between two looks at SimPy."""
LIMIT = 2250.0
"""Events of SimPy that a schedule may take: a quarter more than it took when the limit was set."""


def measure(rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Return for each strategy and round the CPU seconds of a schedule, and SimPy's events a second."""
    found: dict[str, list[tuple[float, float]]] = {strategy: [] for strategy in STRATEGIES}
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "ten.py")
        script.write_text(PROGRAM)
        program, fifo = ScenarioProgram(f"{script}:ten", {}), ScheduleCase()
        duration = program.run(fifo, fifo.strategy).time_s
        plans = {text: fitted(program, SchedulePlan.parse(text), duration) for text in STRATEGIES}
        for _ in range(rounds):
            for text, plan in plans.items():
                simpy = rate("simpy", "M1", 8)
                cases = [plan.case(number) for number in range(RUNS)]
                begin = time.process_time()
                run_cases(program, cases, False)
                found[text].append(((time.process_time() - begin) / RUNS, simpy))
    return found


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--check", action="store_true", help="exit with 1 when the limit is missed")
    parser.add_argument(
        "--slack", type=float, default=1.0, metavar="X", help="with --check: fail above X times the limit"
    )
    parser.add_argument("--rounds", type=int, default=9, metavar="N", help="default 9")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for text, rounds in measure(options.rounds).items():
        events = median(seconds * simpy for seconds, simpy in rounds)
        rows.append({"strategy": text, "simpy_events": events, "per_cpu_s": 1 / median(s for s, _ in rounds)})
    if options.json:
        print(json.dumps({"limit": LIMIT, "strategies": rows}, indent=2))
    else:
        print(f"{'strategy':10} {'SimPy events a schedule':>24} {'schedules a CPU second':>23}")
        for row in rows:
            print(f"{row['strategy']:10} {row['simpy_events']:24.0f} {row['per_cpu_s']:23.0f}")
    missed = [row for row in rows if row["simpy_events"] > LIMIT * options.slack]
    for row in missed:
        print(f"{row['strategy']}: {row['simpy_events']:.0f} events of SimPy, at most {LIMIT:.0f}", file=sys.stderr)
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
