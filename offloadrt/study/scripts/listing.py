"""The index beside the files of scenarios, from which `offloadrt list` prints them without loading them.

`index.json` holds for each file its digest and its scenarios. `tests/scenarios/index.py` writes it, and a test compares
it with the files. `registry.py` loads a file that is not in the index, or that has changed since. A script sets the
group in which its scenarios are listed by `LISTED_AS = "..."`.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import attrs
import msgspec

from offloadrt.registry import Registry

PACKAGE: Final = Path(__file__).resolve().parents[2]
"""The folder `offloadrt`. Importing the package for its `__file__` would be an import circle."""

PROGRAMS = "programs"
"""The group of a script without `LISTED_AS`; it is listed first."""
INDEX = "index.json"
SCENARIOS: Final = Registry[Any]("scenario", "offloadrt.scenarios")
"""The scenarios that other packages add; those that come with offloadrt are files."""


@attrs.frozen
class ListedScenario:
    """One line of a list of scenarios: the scenario's name, machine, summary (one sentence) and group."""

    name: str
    machine: str
    summary: str
    group: str


LISTED = list[ListedScenario]
"""The type of what `list --json` prints."""


class IndexedFile(msgspec.Struct):
    """An entry, for one file, of the index of scenarios: the digest of its content, and its listed scenarios."""

    digest: str
    scenarios: list[ListedScenario]


def folder() -> Path:
    """Return the folder of the scenarios that come with the package."""
    for candidate in (PACKAGE / "scenarios", PACKAGE.parent / "scenarios"):
        if candidate.is_dir():
            return candidate
    return PACKAGE / "scenarios"


def files(subfolder: str = "") -> list[Path]:
    """Return the package's scenario files in a subfolder; by default those that are in no subfolder."""
    return [path for path in sorted((folder() / subfolder).glob("*.py")) if not path.name.startswith("_")]


def digest_of(path: Path) -> str:
    """Return 16 hex digits of a file's SHA-256; the index of scenarios has them, to tell whether a file changed."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def indexed() -> dict[Path, list[ListedScenario]]:
    """Return, by file, the package's scenarios whose files have not changed since the index was written."""
    return _indexed(folder())


@functools.cache
def _indexed(folder: Path) -> dict[Path, list[ListedScenario]]:
    try:
        known = msgspec.json.decode((folder / INDEX).read_bytes(), type=dict[str, IndexedFile])
    except (OSError, msgspec.DecodeError):
        return {}
    return {
        path: known[path.name].scenarios
        for path in files()
        if path.name in known and known[path.name].digest == digest_of(path)
    }


def from_index() -> list[ListedScenario] | None:
    """Return all scenarios by group from the package's index; None if the index does not fit the files any more."""
    known = indexed()
    if SCENARIOS.points() or any(path not in known for path in files()):
        return None
    return grouped(scenario for scenarios in known.values() for scenario in scenarios)


def grouped(scenarios: Iterable[ListedScenario]) -> list[ListedScenario]:
    """Return the scenarios sorted by group, with the group of programs first."""
    entries = list(scenarios)
    groups = list(dict.fromkeys([PROGRAMS, *(entry.group for entry in entries)]))
    return sorted(entries, key=lambda entry: groups.index(entry.group))


def file_of(name: str) -> Path | None:
    """Return the package's file of the scenario `name`: the one called so, or the one in the index of scenarios."""
    if (same_name := folder() / f"{name}.py").is_file():
        return same_name
    for path, scenarios in indexed().items():
        if any(scenario.name == name for scenario in scenarios):
            return path
    return None
