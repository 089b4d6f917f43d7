"""How long a person's path takes: `python bench/durations.py [--only WORD]`.

The path is every command of README's table of questions, run once in a folder with the programs that the pages ask to
be saved, where FILE.py is one of them; then, as tests, a C program of one's own that is recorded, explained and
reported, a lock policy of one's own in both gears, the notebook, and the lesson on page faults for a class.

Each line has wall time, processor time of all its processes, and how many processes wanted a processor on the average
of the minute before. Processor time hardly depends on what else the machine does. It writes `durations.txt` and the
last column of README's table, which has processor times. `--only` measures the lines that contain a word, and keeps the
others.
"""

import argparse
import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
STORED = ROOT / "bench" / "durations.txt"
ROW = re.compile(r"^\| (?P<question>[^|]+) \| (?P<commands>[^|]+) \|(?P<takes>[^|]*\|)?$")
LINE = re.compile(r"^ *(?P<wall>[\d.]+) s +(?P<processor>[\d.]+) s +(?P<load>[\d.]+)  (?P<command>.+)$", re.M)
COMMANDS = (
    "check", "compare", "calibrate", "demo", "explore", "list", "machines", "report", "run", "show", "stats", "sweep",
    "timeline", "validate", "why",
)  # fmt: skip
SKIPPED = {
    "calibrate": "it needs a profiler's file",
    "validate": "it takes minutes: what it prints before it begins says how many",
}
BUDGETS = {"compare": 40, "report": 40, "why": 50}
"""Seconds of wall time after which a command begins no further changes and draws, unless `--budget` says another."""
TESTS = (
    "tests/user/test_a_first_hour.py -m slow",
    "tests/study/test_a_readers_lock.py",
    "tests/test_notebooks.py -m slow -k tutorial_runs",
    "tests/test_documented_commands.py -k quick_commands_of_a_page_work[page-faults]",
)
PATIENCE_S = 900.0


class Duration(NamedTuple):
    """What a command took, in seconds, and the load of the machine (processes that wanted a processor) before it."""

    wall_s: float
    processor_s: float
    load: float


def table(text: str) -> list[re.Match[str]]:
    """Return the rows of README's table of questions."""
    section = text.partition("## Ask your own questions")[2].partition("\n## ")[0]
    rows = [found for line in section.splitlines() if (found := ROW.match(line))]
    return [row for row in rows if set(row["question"]) != {"-"} and row["question"] != "question"]


def commands_of(cell: str) -> list[str]:
    """Return the commands among the code of a cell that are timed."""
    return [code for code in re.findall(r"`([^`]+)`", cell) if code.split()[0] in {*COMMANDS} - {*SKIPPED}]


def path(text: str) -> list[str]:
    """Return all that is timed: the commands of README's table, and the tests of the other steps."""
    of_table = [command for row in table(text) for command in commands_of(row["commands"])]
    return [*dict.fromkeys(of_table), *(f"pytest {test}" for test in TESTS)]


def stored() -> dict[str, Duration]:
    """Read the stored durations, by command."""
    text = STORED.read_text(encoding="utf-8") if STORED.exists() else ""
    return {
        row["command"]: Duration(float(row["wall"]), float(row["processor"]), float(row["load"]))
        for row in LINE.finditer(text)
    }


def spoken(seconds: float) -> str:
    """Write a duration as a person does."""
    return f"{seconds:.1f} s" if seconds < 3 else f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def with_durations(text: str, known: dict[str, Duration]) -> str:
    """Return README's text with the processor times of each row's commands in the last column of the table."""
    for row in table(text):
        times = []
        for command in commands_of(row["commands"]):
            budget = BUDGETS.get(command.split()[0])
            within = "" if budget is None else f" (budget {budget} s)"
            times.append(spoken(known[command].processor_s) + within)
        cells = f"| {row['question']} | {row['commands']} | {', '.join(times) or 'minutes'} |"
        text = text.replace(row[0], cells)
    return text


def prepared(folder: Path) -> None:
    """Make a folder like a checkout, with a program that is called FILE.py."""
    sys.path.insert(0, str(ROOT / "tests"))
    from documented import programs  # type: ignore[import-not-found,unused-ignore]

    for name in ("bench", "scenarios", "tests"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "FILE.py").write_text(programs(ROOT / "docs" / "how-to" / "faults.md")["halo.py"], encoding="utf-8")


def took(command: str, folder: Path) -> Duration:
    """Run a command, whatever it finds, and return what it took. Raises SystemExit for a test that fails."""
    is_test = command.startswith("pytest ")
    load, before, begun = os.getloadavg()[0], resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    words = [sys.executable, "-m", *(() if is_test else ("offloadrt",)), *command.split()]
    done = subprocess.run(
        words, cwd=ROOT if is_test else folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=PATIENCE_S,
    )  # fmt: skip
    ok = " passed" in done.stdout and done.returncode == 0 if is_test else done.returncode in (0, 1, 3)
    if not ok:  # of a command, 1 means that a check found something, 3 that a program failed
        raise SystemExit(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Duration(time.monotonic() - begun, processor_s, load)


def main() -> int:
    """Time every command, and write the file and README's column."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="measure the lines that contain this word and new ones, keep the others")
    only: str | None = parser.parse_args().only
    text, known = README.read_text(encoding="utf-8"), stored()
    head = (
        f"Durations on {os.cpu_count()} cores, Python {platform.python_version()}: wall time, processor time of all "
        "processes,\nload of the machine before (python bench/durations.py)\n\n"
    )
    with tempfile.TemporaryDirectory() as made:
        prepared(Path(made))
        for command in path(text):
            if only is None or only in command or command not in known:
                known[command] = one = took(command, Path(made))
                print(f"{one.wall_s:9.1f} s {one.processor_s:7.1f} s {one.load:6.1f}  {command}", flush=True)
                lines = [(known[name], name) for name in path(text) if name in known]
                rows = "".join(f"{t.wall_s:8.1f} s {t.processor_s:8.1f} s {t.load:6.1f}  {name}\n" for t, name in lines)
                STORED.write_text(f"{head}{rows}", encoding="utf-8")
    README.write_text(with_durations(text, known), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
