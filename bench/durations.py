"""How long the commands of README's table of questions take here: `python bench/durations.py [--write]`.

Each command of the table is run once in a folder with the programs that the pages ask to be saved, where FILE.py is one
of them. Its wall time is printed; `--write` puts the times into a third column of the table. Run it on a machine that
does nothing else.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
ROW = re.compile(r"^\| (?P<question>[^|]+) \| (?P<commands>[^|]+) \|(?P<takes>[^|]*\|)?$")
HEAD = "| question | command, after `uv run offloadrt` |"
COMMANDS = (
    "check", "compare", "calibrate", "demo", "explore", "list", "machines", "report", "run", "show", "stats", "sweep",
    "timeline", "validate", "why",
)  # fmt: skip
SKIPPED = {
    "calibrate": "it needs a profiler's file",
    "validate": "it takes minutes: what it prints before it begins says how many",
    "sweep": "the page names a sweep of eight runs of many threads",
}
PATIENCE_S = 600.0


def table(text: str) -> list[re.Match[str]]:
    """Return the rows of the table of questions."""
    section = text.partition("## Ask your own questions")[2].partition("\n## ")[0]
    rows = [found for line in section.splitlines() if (found := ROW.match(line))]
    return [row for row in rows if set(row["question"]) != {"-"} and row["question"] != "question"]


def commands_of(cell: str) -> list[str]:
    """Return the commands among the code of a cell."""
    return [code for code in re.findall(r"`([^`]+)`", cell) if code.split()[0] in COMMANDS]


def prepared(folder: Path) -> None:
    """Make a folder like a checkout, with a program that is called FILE.py."""
    sys.path.insert(0, str(ROOT / "tests"))
    from documented import programs  # type: ignore[import-not-found,unused-ignore]

    for name in ("bench", "scenarios", "tests"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "FILE.py").write_text(programs(ROOT / "docs" / "how-to" / "faults.md")["halo.py"], encoding="utf-8")


def took(command: str, folder: Path) -> float:
    """Run a command and return the seconds that it took, whatever it found."""
    begun = time.monotonic()
    words = [sys.executable, "-m", "offloadrt", *command.split()]
    subprocess.run(words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S)
    return time.monotonic() - begun


def spoken(seconds: float) -> str:
    """Write a duration as a person does."""
    return f"{seconds:.1f} s" if seconds < 3 else f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def main() -> int:
    """Time every command, print the times, and write them if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    text = README.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        prepared(folder)
        for row in table(text):
            timed = [each for each in commands_of(row["commands"]) if each.split()[0] not in SKIPPED]
            times: list[str] = []
            for command in timed:
                times.append(spoken(took(command, folder)))
                print(f"{times[-1]:>8}  {command}", flush=True)
            new = f"| {row['question']} | {row['commands']} | {', '.join(dict.fromkeys(times)) or 'minutes'} |"
            text = text.replace(row[0], new)
    if f"{HEAD} takes |" not in text:
        text = text.replace(f"{HEAD}\n| --- | --- |", f"{HEAD} takes |\n| --- | --- | --- |")
    if write:
        README.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
