"""Reads what README.md and pages of docs/ print: programs to be saved, commands, and what these print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    DOCS / "index.md",
    DOCS / "tutorial.md",
    *sorted((DOCS / "how-to").glob("*.md")),
    *sorted((DOCS / "explanation").glob("*.md")),
]
"""Pages with commands and programs, which are run."""
WRITTEN = [*PAGES, ROOT / "ARCHITECTURE.md", DOCS / "reference" / "api.md", DOCS / "reference" / "glossary.md"]
"""All pages that people write: docs/generated.py makes the others when the site is built."""


@attrs.frozen
class Command:
    """A line to be typed; `output` is what the page shows below it, or nothing."""

    line: str
    output: str = ""


def blocks(page: Path, *languages: str) -> list[str]:
    """Return the fenced blocks of a page in some languages."""
    fences = re.finditer(r"^```(\w+)\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    return [fence[2] for fence in fences if fence[1] in languages]


def programs(page: Path) -> dict[str, str]:
    """Return the files that a page asks to be saved, by their names."""
    text = page.read_text(encoding="utf-8")
    found = {}
    for fence in re.finditer(r"^```(?:python|toml)\n(.*?)^```", text, re.M | re.S):
        above = text[: fence.start()].rstrip().rpartition("\n\n")[2]
        if name := re.search(r"[Ss]ave\s+this\s+as\s+`([\w.-]+)`", above):
            found[name[1]] = fence[1]
    return found


def commands(page: Path) -> Iterator[Command]:
    """Yield the commands of a page in its order: of its blocks, its sentences and its table of questions."""
    text = page.read_text(encoding="utf-8")
    block_sentence_or_answer = r"^```(\w+)\n(.*?)^```|`uv run (offloadrt [^`…]+)`|^\| [^|\n]*\? \| ([^\n]*) \|$"
    for match in re.finditer(block_sentence_or_answer, text, re.M | re.S):
        language, block, inline, answers = match.groups()
        if language == "sh":
            yield from (Command(line) for line in block.splitlines() if line and not line.startswith("#"))
        elif language in ("console", "text"):
            parts = re.split(r"^\$ (.*)\n", block, flags=re.M)
            yield from map(Command, parts[1::2], parts[2::2])
        elif inline:
            yield Command(f"uv run {' '.join(inline.split())}")
        elif answers:
            spans = re.findall(r"`([a-z]+(?: [^`]+)?)`", answers)
            yield from (Command(f"uv run offloadrt {span}") for span in spans if span not in ("dask", "mpi"))


def not_printed(output: str, printed: str) -> list[str]:
    """Return the lines of a shown output that were not printed in its order; `...` and `…` are what is left out."""
    whole, place, missing = " ".join(printed.split()), 0, []
    for line in output.splitlines():
        for part in re.split(r"\.\.\.|…", line):
            text = " ".join(part.split())
            found = whole.find(text, place)
            if found < 0:
                missing.append(line)
                break
            place = found + len(text)
    return missing
