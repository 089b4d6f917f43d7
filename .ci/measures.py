"""Prints how much a newcomer has to carry: lines and files of the core, of the extensions and of the papers.

    python .ci/measures.py

The core is what `tests/test_core.py` runs without the rest. `tests/test_structure.py` caps it.
"""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "offloadrt"
APART = ("extensions", "papers")
LONGEST = 800


def part_of(path: Path) -> str:
    """Return the part of the package in which a file lies: `core`, `extensions` or `papers`."""
    first = path.relative_to(PACKAGE).parts[0]
    return first if first in APART else "core"


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
    print(f"files that name `table_policy`: {len(naming)} ({', '.join(naming)})")


if __name__ == "__main__":
    main()
