"""How long the package takes to start: `python bench/startup.py [--json] [--check] [--runs N]`.

    import      python -c "import offloadrt"
    names       python -c "from offloadrt import Run, kernel, openmp, scenario"
    help        offloadrt --help
    show        offloadrt show overlap
    run         offloadrt run overlap

Each is started several times, in turn with a bare `python -c pass`. Reported are the least processor time (user and
system, of the child alone), which a busy machine disturbs least, the least and the median wall-clock time, and the
processor time as a ratio to that of the bare interpreter. Byte code is kept in a folder of its own, as it is of an
installed package, even where Python is told to write none. `--check` fails when the least processor time is above its
limit in `LIMITS`; `GOALS` are what is aimed at.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from statistics import median
from typing import Any

import attrs
from rich.console import Console
from rich.table import Table

BARE = "bare python"
COMMANDS: dict[str, list[str]] = {
    BARE: [sys.executable, "-c", "pass"],
    "import offloadrt": [sys.executable, "-c", "import offloadrt"],
    "names": [sys.executable, "-c", "from offloadrt import Run, kernel, openmp, scenario"],
    "offloadrt --help": [sys.executable, "-m", "offloadrt", "--help"],
    "offloadrt show": [sys.executable, "-m", "offloadrt", "show", "overlap"],
    "offloadrt run": [sys.executable, "-m", "offloadrt", "run", "overlap"],
}
LIMITS = {
    "import offloadrt": 0.3,
    "names": 0.9,
    "offloadrt --help": 0.5,
    "offloadrt show": 0.9,
    "offloadrt run": 2.2,
}
"""Seconds of processor time that must be kept, on a machine whose caches others use as well."""
GOALS = {"names": 0.5, "offloadrt show": 0.5, "offloadrt run": 1.2}
"""Seconds of processor time that are aimed at."""


@attrs.frozen
class Start:
    """One start of a command, in seconds."""

    cpu_s: float
    wall_s: float


def start(command: list[str], byte_code: str) -> Start:
    """Run a command to its end, with byte code in a folder. Raises CalledProcessError when it fails."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    kept["PYTHONPYCACHEPREFIX"] = byte_code
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=kept)
    _, status, usage = os.wait4(process.pid, 0)
    ended = time.perf_counter()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Start(usage.ru_utime + usage.ru_stime, ended - began)


def measure(runs: int) -> dict[str, list[Start]]:
    """All commands, taking turns; one start of each first, for the caches."""
    starts: dict[str, list[Start]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as byte_code:
        for command in COMMANDS.values():
            start(command, byte_code)
        for _ in range(runs):
            for name, command in COMMANDS.items():
                starts[name].append(start(command, byte_code))
    return starts


def figures(starts: dict[str, list[Start]]) -> dict[str, dict[str, float]]:
    """Of each command: cpu_s, wall_s (the least), median_wall_s, and cpu_ratio to the bare interpreter."""
    bare = min(one.cpu_s for one in starts[BARE])
    return {
        name: {
            "cpu_s": min(one.cpu_s for one in found),
            "wall_s": min(one.wall_s for one in found),
            "median_wall_s": median(one.wall_s for one in found),
            "cpu_ratio": min(one.cpu_s for one in found) / bare,
        }
        for name, found in starts.items()
    }


def missed(found: dict[str, dict[str, float]]) -> list[str]:
    """A line for each limit that is not kept."""
    return [
        f"{name}: {found[name]['cpu_s']:.3f} s of processor time, at most {limit} s"
        for name, limit in LIMITS.items()
        if found[name]["cpu_s"] > limit
    ]


def as_json(found: dict[str, dict[str, float]]) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "python": platform.python_version(),
        "unit": "seconds; cpu_s and wall_s are the least of the runs, cpu_ratio is to the bare interpreter",
        "commands": {name: {key: round(value, 4) for key, value in values.items()} for name, values in found.items()},
        "limits": LIMITS,
        "goals": GOALS,
        "missed": missed(found),
    }


def as_table(found: dict[str, dict[str, float]]) -> Table:
    """What is printed for people."""
    table = Table(title="start-up", caption="least of the runs; the limit is for processor time")
    table.add_column("command")
    for column in ("cpu", "ratio", "wall", "median wall", "limit", "goal"):
        table.add_column(column, justify="right")
    for name, values in found.items():
        table.add_row(
            name,
            f"{values['cpu_s']:.3f} s",
            f"{values['cpu_ratio']:.1f}",
            f"{values['wall_s']:.3f} s",
            f"{values['median_wall_s']:.3f} s",
            f"{LIMITS[name]} s" if name in LIMITS else "",
            f"{GOALS[name]} s" if name in GOALS else "",
        )
    return table


def main() -> int:
    """Measure, report, and with `--check` judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a limit is not kept")
    parser.add_argument("--runs", type=int, default=7, metavar="N", help="starts of each command; default 7")
    options = parser.parse_args()
    if options.runs < 1:
        parser.error("--runs: at least 1")
    found = figures(measure(options.runs))
    if options.json:
        print(json.dumps(as_json(found), indent=2))
    else:
        Console().print(as_table(found))
    slow = missed(found)
    for line in slow:
        print(line, file=sys.stderr)
    return 1 if options.check and slow else 0


if __name__ == "__main__":
    sys.exit(main())
