"""Whether sampled phases stand for the whole: runs long programs whole and sampled, and prints how far they are apart.

    python bench/sampled_phases.py [--check] [NAME ...]

Elapsed time, calls and busy times of the machine's parts are compared; CPU times say what is saved. `--check` fails
when an elapsed time differs by more than 3 %. `docs/how-to/why.md` has the last figures.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from offloadrt.study import Result, execute, find_scenario

HERE = Path(__file__).parent
LIMIT = 0.03
PROGRAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "QMCPack, 1 thread": ("qmcpack", {"threads": 1, "fraction": 1.0}),
    "QMCPack, 8 threads": ("qmcpack", {"threads": 8, "fraction": 1.0}),
    "QMCPack, 8 threads, zero-copy": (
        "qmcpack", {"threads": 8, "fraction": 0.3, "configuration": "implicit_zero_copy"},
    ),
    "LULESH, recorded": (str(HERE / "programs" / "lulesh-s30-i200.rec"), {}),
    "LULESH, recorded, managed": (
        str(HERE / "programs" / "lulesh-s30-i200.rec"), {"configuration": "managed"},
    ),
    "BabelStream, recorded": (str(HERE / "programs" / "babelstream-1m.rec"), {}),
    "SPECaccel stencil": ("specaccel", {"fraction": 1.0}),
    "SPECaccel spC": (
        "specaccel",
        {"benchmark": "spC", "fraction": 1.0, "configuration": "implicit_zero_copy", "lose_translation": True},
    ),
}  # fmt: skip
"""Scenario and parameters of each program."""


def timed(name: str, sample_phases: bool) -> tuple[Result, float]:
    """Run a program; return its result and the CPU seconds that it took."""
    scenario, parameters = PROGRAMS[name]
    begin = time.process_time()
    result = execute(find_scenario(scenario), parameters, sample_phases=sample_phases)
    return result, time.process_time() - begin


def apart(whole: float, few: float) -> float:
    """Return by how much the estimate is off."""
    return few / whole - 1.0 if whole else 0.0


def main() -> int:
    """Compare the programs that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs whose names begin so")
    parser.add_argument("--check", action="store_true", help="exit with 1 when one is off by more than 3 %%")
    arguments = parser.parse_args()
    head = ("program", "whole", "sampled", "off", "2 s.e.", "calls off", "busiest off", "instances", "CPU s", "CPU s")
    print("{:<30} {:>10} {:>10} {:>7} {:>7} {:>9} {:>11} {:>11} {:>7} {:>7}".format(*head))
    worst = 0.0
    for name in PROGRAMS:
        if arguments.names and not name.startswith(tuple(arguments.names)):
            continue
        whole, whole_cpu = timed(name, sample_phases=False)
        few, few_cpu = timed(name, sample_phases=True)
        off = apart(whole.elapsed_s, few.elapsed_s)
        calls = [sum(call.count for call in result.calls.values()) for result in (whole, few)]
        busiest = max(whole.devices, key=lambda part: whole.devices[part].busy_s)
        busy = apart(whole.devices[busiest].busy_s, few.devices[busiest].busy_s)
        error = 2.0 * sum(phase.error_s for phase in few.phases) / few.elapsed_s
        instances = " ".join(f"{phase.instances - phase.skipped}/{phase.instances}" for phase in few.phases)
        print(
            f"{name:<30} {whole.elapsed_s * 1e3:>7.1f} ms {few.elapsed_s * 1e3:>7.1f} ms {off:>+7.2%} {error:>7.2%} "
            f"{apart(*calls):>+9.2%} {busy:>+11.2%} {instances:>11} {whole_cpu:>7.1f} {few_cpu:>7.1f}",
            flush=True,
        )
        worst = max(worst, abs(off))
    if arguments.check and worst > LIMIT:
        print(f"an estimate is off by {worst:.1%}; it may be by {LIMIT:.0%}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
