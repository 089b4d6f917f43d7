"""How long the package takes to start: `python bench/startup.py [--json] [--check] [--runs N]`.

    import      python -c "import offloadrt"
    help        offloadrt --help

Each is started several times, in turn with a bare `python -c pass`. Reported are the least processor time (user and
system, of the child alone), which a busy machine disturbs least, the least and the median wall-clock time, and the
processor time as a ratio to that of the bare interpreter. `--check` fails when the least processor time is above its
limit: `import offloadrt` 0.3 s, `offloadrt --help` 0.5 s.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
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
    "offloadrt --help": [sys.executable, "-m", "offloadrt", "--help"],
}
LIMITS = {"import offloadrt": 0.3, "offloadrt --help": 0.5}
"""Seconds of processor time."""


@attrs.frozen
class Start:
    """One start of a command, in seconds."""

    cpu_s: float
    wall_s: float


def start(command: list[str]) -> Start:
    """Run a command to its end. Raises CalledProcessError when it fails."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    ended = time.perf_counter()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Start(usage.ru_utime + usage.ru_stime, ended - began)


def measure(runs: int) -> dict[str, list[Start]]:
    """All commands, taking turns; one start of each first, for the caches."""
    for command in COMMANDS.values():
        start(command)
    starts: dict[str, list[Start]] = {name: [] for name in COMMANDS}
    for _ in range(runs):
        for name, command in COMMANDS.items():
            starts[name].append(start(command))
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
        "missed": missed(found),
    }


def as_table(found: dict[str, dict[str, float]]) -> Table:
    """What is printed for people."""
    table = Table(title="start-up", caption="least of the runs; the limit is for processor time")
    table.add_column("command")
    for column in ("cpu", "ratio", "wall", "median wall", "limit"):
        table.add_column(column, justify="right")
    for name, values in found.items():
        table.add_row(
            name,
            f"{values['cpu_s']:.3f} s",
            f"{values['cpu_ratio']:.1f}",
            f"{values['wall_s']:.3f} s",
            f"{values['median_wall_s']:.3f} s",
            f"{LIMITS[name]} s" if name in LIMITS else "",
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
