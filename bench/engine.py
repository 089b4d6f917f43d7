"""How fast virtual time is: events a second of both gears, next to SimPy, plain Trio with its MockClock, and SimGrid.

    uv run bench/engine.py [--json] [--check] [--rounds N]

All engines run the models of ``models.py`` interleaved in one process, several rounds; what counts is the median over
the rounds of the ratio to SimPy within a round, in CPU time, so that a busy machine disturbs little. ``--check`` exits
with 1 when a floor of ``FLOORS`` is missed.

SimGrid's models are C++ (``simgrid.cpp``), built where there are g++ and libsimgrid-dev; else the reason is printed why
they are left out. Its seconds are those of the run alone, without the start of its process.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import simpy
import trio
from rich.console import Console
from rich.table import Table

from bench import models

CASES = [("M1", 8), ("M1", 128), ("M2", 8), ("M2", 128), ("M3", 8), ("M3", 128), ("M4", 1), ("M4", 128)]
ENGINES: dict[str, Callable[[str, int, int], float]] = {
    "simpy": models.run_simpy,
    "trio": models.run_trio,
    "native": models.run_native,
    "turbo": models.run_turbo,
}
EVENTS = {"simpy": 60_000, "trio": 6_000, "native": 30_000, "turbo": 150_000, "simgrid": 150_000}
"""Events of one run of each engine: about a tenth of a second."""

FLOORS = {
    **{("turbo", model, n): 2.5 for model in ("M1", "M2", "M3") for n in (8, 128)},
    **{("native", model, n): 0.5 for model in ("M1", "M2", "M3") for n in (8, 128)},
    ("turbo", "M4", 128): 1.2,
}
"""Ratios to SimPy's event rate that must be reached."""


def rate(engine: str, model: str, threads: int, simgrid: models.SimGrid | None = None) -> float:
    """Events a second of CPU time of one run."""
    iterations = max(1, EVENTS[engine] // (models.EVENTS[model] * threads))
    if engine == "simgrid":
        assert simgrid is not None
        return threads * iterations * models.EVENTS[model] / simgrid.run(model, threads, iterations)[0]
    run = ENGINES[engine]
    gc.collect()
    start = time.process_time()
    run(model, threads, iterations)
    return threads * iterations * models.EVENTS[model] / (time.process_time() - start)


def measure(rounds: int, simgrid: models.SimGrid | None = None) -> dict[tuple[str, int], dict[str, list[float]]]:
    engines = [*ENGINES] if simgrid is None else [*ENGINES, "simgrid"]
    rates: dict[tuple[str, int], dict[str, list[float]]] = {case: {engine: [] for engine in engines} for case in CASES}
    for engine in engines:  # once for the caches of delays
        for model, threads in CASES:
            rate(engine, model, threads, simgrid)
    for _ in range(rounds):
        for model, threads in CASES:
            for engine in engines:
                rates[model, threads][engine].append(rate(engine, model, threads, simgrid))
    return rates


def ratio(rates: dict[str, list[float]], engine: str) -> float:
    """Median over the rounds of the ratio to SimPy."""
    return median(mine / simpys for mine, simpys in zip(rates[engine], rates["simpy"], strict=True))


def missed(rates: dict[tuple[str, int], dict[str, list[float]]], slack: float = 1.0) -> list[str]:
    return [
        f"{engine} on {model} N={threads}: {found:.2f} of SimPy, at least {floor}"
        for (engine, model, threads), floor in FLOORS.items()
        if (found := ratio(rates[model, threads], engine)) < floor * slack
    ]


def as_json(rates: dict[tuple[str, int], dict[str, list[float]]]) -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "trio": trio.__version__,
        "simpy": simpy.__version__,
        "unit": "events per second of CPU time, and the ratio to SimPy; medians over the rounds",
        "cases": [
            {
                "model": model,
                "threads": threads,
                "events_per_s": {engine: round(median(values)) for engine, values in rates[model, threads].items()},
                "ratio": {engine: round(ratio(rates[model, threads], engine), 3) for engine in rates[model, threads]},
            }
            for model, threads in CASES
        ],
        "missed": missed(rates),
    }


def as_table(rates: dict[tuple[str, int], dict[str, list[float]]]) -> Table:
    table = Table(title="events/s (ratio to SimPy)", caption="medians over the rounds, CPU time")
    table.add_column("model")
    for engine in rates[CASES[0]]:
        table.add_column(engine, justify="right")
    for (model, threads), values in rates.items():
        cells = [f"{median(values[engine]) / 1e3:,.0f}k ({ratio(values, engine):.2f})" for engine in values]
        table.add_row(f"{model} N={threads}", *cells)
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a ratio is below its floor")
    parser.add_argument(
        "--slack",
        type=float,
        default=1.0,
        metavar="X",
        help="with --check: fail below X times a floor (noisy machines)",
    )
    parser.add_argument("--rounds", type=int, default=9, metavar="N", help="default 9")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            simgrid = models.SimGrid(Path(folder))
        except OSError as error:
            simgrid = None
            print(f"SimGrid is left out: {error}", file=sys.stderr)
        rates = measure(options.rounds, simgrid)
    if options.json:
        print(json.dumps(as_json(rates), indent=2))
    else:
        Console().print(as_table(rates))
    for line in missed(rates):
        print(line, file=sys.stderr)
    return 1 if options.check and missed(rates, options.slack) else 0


if __name__ == "__main__":
    sys.exit(main())
