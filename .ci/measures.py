"""Prints how much a newcomer has to carry: lines and files of the core, of the extensions and of the papers.

    python .ci/measures.py

The walk is that of one map item from `target()` down to the device table, by the profiler: a room is a file, and a
return is every stay in a room that the walk has been to before.

The core is what `tests/test_core.py` runs without the rest. `tests/test_structure.py` caps it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

from offloadrt import Run, execute, kernel, openmp, scenario

PACKAGE = Path(__file__).resolve().parents[1] / "offloadrt"
APART = ("extensions", "papers")
LONGEST = 800
MOST_RETURNS = 20


def part_of(path: Path) -> str:
    """Return the part of the package in which a file lies: `core`, `extensions` or `papers`."""
    first = path.relative_to(PACKAGE).parts[0]
    return first if first in APART else "core"


@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def scale(a: Any, s: float) -> None:
    """Multiply an array by a number."""
    a *= s


def walk_of_a_map_item() -> list[str]:
    """Return the rooms of the walk, stay by stay."""
    stays: list[str] = []
    over = False

    def note(frame: FrameType | None, event: str, _: object) -> None:
        nonlocal over
        entered = frame.f_code.co_qualname if event == "call" and frame is not None else ""
        frame = frame.f_back if event == "return" and frame is not None else frame
        file = frame.f_code.co_filename if frame is not None else ""
        if not over and file.startswith(str(PACKAGE)) and stays[-1:] != [file]:
            stays.append(file)
        over = over or entered == "HostLock.enter"

    @scenario(machine="h100")
    async def walk(run: Run) -> dict[str, float]:
        async def body(t: openmp.HostThread) -> None:
            first, second = t.array("a", 1000, fill=1.0), t.array("b", 1000, fill=1.0)
            await t.target(scale, first, 2.0, teams=4, iterations=1000, maps=openmp.map(tofrom=first))
            sys.setprofile(note)
            try:
                await t.target(scale, second, 2.0, teams=4, iterations=1000, maps=openmp.map(tofrom=second))
            finally:
                sys.setprofile(None)

        await run.parallel(body)
        return {}

    execute(walk)
    return stays


def main() -> None:
    """Print lines and files of each part, the longest file, and how many files name one option of a run."""
    files = sorted(path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] != "scenarios")
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    lines = {path: len(text.splitlines()) for path, text in texts.items()}
    for part in ("core", *APART):
        of_part = [path for path in files if part_of(path) == part]
        print(f"{part:12}{sum(lines[path] for path in of_part):8,} lines {len(of_part):5} files")
    print(f"{'all':12}{sum(lines.values()):8,} lines {len(files):5} files")
    longest = max(files, key=lines.__getitem__)
    print(f"longest file: {longest.relative_to(PACKAGE)}, {lines[longest]} lines (at most {LONGEST})")
    naming = [path.relative_to(PACKAGE).as_posix() for path in files if "table_policy" in texts[path]]
    stays = walk_of_a_map_item()
    rooms = len(set(stays))
    returns = len(stays) - rooms
    print(f"walk of a map item: {len(stays)} stays in {rooms} rooms, {returns} returns (at most {MOST_RETURNS})")
    print(f"files that name `table_policy`: {len(naming)} ({', '.join(naming)})")
    if returns > MOST_RETURNS:
        sys.exit(f"a map item returns to {returns} rooms, at most {MOST_RETURNS}")


if __name__ == "__main__":
    main()
