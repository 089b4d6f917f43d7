"""ARCHITECTURE.md and the packages' READMEs name files, classes and profile entries that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import offloadrt
from offloadrt.machine import available, load

PACKAGE = Path(offloadrt.__file__).parent
PROJECT = PACKAGE.parent
DOCUMENTS = [PROJECT / "ARCHITECTURE.md", *sorted(PACKAGE.rglob("README.md"))]
SOURCES = "\n".join(path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py")))
OF_LLVM = {"HostDataToTargetMap"}
OF_USERS: set[str] = set()
"""Files of a user's that docstrings take as examples."""
NAMED = re.compile(r"`([^`\n]+)`")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(PROJECT).as_posix())
def test_the_files_that_it_names_exist(document: Path) -> None:
    names = [
        name for name in NAMED.findall(document.read_text(encoding="utf-8")) if re.fullmatch(r"[\w./]+\.(py|md)", name)
    ]
    assert [
        name for name in names if not any((root / name).is_file() for root in (PROJECT, PACKAGE, document.parent))
    ] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(PROJECT).as_posix())
def test_the_classes_and_methods_that_it_names_exist(document: Path) -> None:
    names = [
        name for name in NAMED.findall(document.read_text(encoding="utf-8")) if re.fullmatch(r"[A-Z]\w+(\.\w+)?", name)
    ]
    last = {name.rpartition(".")[2] for name in names if not name.isupper()} - OF_LLVM
    assert [name for name in sorted(last) if not re.search(rf"\b{name}\b", SOURCES)] == []


def test_the_files_that_docstrings_name_exist() -> None:
    files = {path.relative_to(PROJECT).as_posix() for path in PACKAGE.rglob("*.py")}
    files |= {path.relative_to(PROJECT).as_posix() for path in (PROJECT / "tests").rglob("*.py")}
    files |= {path.relative_to(PROJECT).as_posix() for path in (PROJECT / "bench").rglob("*.py")}
    named = set(re.findall(r"`([a-z][\w/]*\.py)`", SOURCES))
    assert {name for name in named if not any(f"/{file}".endswith(f"/{name}") for file in files)} == OF_USERS


def test_the_profile_entries_that_it_tells_to_change_exist() -> None:
    text = (PROJECT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = [
        row.split("|")[2] for row in text.partition("## Where to change what")[2].splitlines() if row.startswith("| ")
    ]
    entries = {entry for machine in available() for entry in load(machine).entries}
    named = [name for cell in rows for name in NAMED.findall(cell)]
    assert len(named) > 10
    patterns = [re.compile(re.escape(name).replace(r"\*", r"\w+")) for name in named]
    assert [p.pattern for p in patterns if not any(p.fullmatch(entry) for entry in entries)] == []
