"""Profiles as files: reading one with all its bases, and the names of those that come with the package.

A profile holds ``[machine]`` (name, title, notes), ``[sources]`` and one ``[entry."KEY"]`` for each cost.  A user's own
file may name a ``base`` profile and give only what differs from it; entries that the base does not have must be
references (``reference = true``), since nothing would read them.
"""

from __future__ import annotations

import difflib
import importlib.resources
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from offloadrt.machine.profile.entry import EntryError, in_words, parse
from offloadrt.machine.profile.machine_spec import MachineSpec, ProfileError, RangeEnds, UnknownEntry, near_matches

_PROFILES = importlib.resources.files("offloadrt.machine") / "profiles"


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    title: str = ""
    base: str | None = None
    notes: list[str] = []


class _File(msgspec.Struct, forbid_unknown_fields=True):
    machine: _Header
    sources: dict[str, str] = {}
    entry: dict[str, Any] = {}


def available() -> list[str]:
    """Return the names of the machines that come with the package."""
    return sorted(Path(file.name).stem for file in _PROFILES.iterdir() if file.name.endswith(".toml"))


def load(
    name_or_path: str | Path, overrides: Mapping[str, object] | None = None, range_end: RangeEnds = "mean"
) -> MachineSpec:
    """Load a machine by name, or from a user's own TOML file.

    ``overrides`` maps keys to numbers in the entry's own unit or to texts with a unit (``"20us"``).

    Raises ProfileError.
    """
    files = _files(str(name_or_path))
    if range_end == "mean":
        return _at_means(files).with_overrides(overrides or {})
    return _unchanged(files).with_overrides(overrides or {}, range_end)


def _files(name: str) -> tuple[tuple[str, str], ...]:
    """Return (path, text) of the file and of all bases on which it is built, the last base first.

    Raises ProfileError.
    """
    files: list[tuple[str, str]] = []
    base: str | None = name
    while base is not None:
        try:
            path, text = _source_text(base)
        except ProfileError as error:
            if not files:
                raise
            raise ProfileError(files[-1][0], "machine.base", f"{base!r} {error.reason}") from None
        if path in (children := [child for child, _ in files]):
            raise ProfileError(path, "machine.base", f"is based on itself ({' -> '.join((*children, path))})")
        files.append((path, text))
        base = _parsed(path, text).machine.base
    return tuple(reversed(files))


@lru_cache(maxsize=64)
def _parsed(path: str, text: str) -> _File:
    """Read the text of a profile; ``path`` is for messages.

    Raises ProfileError.
    """
    try:
        return msgspec.convert(tomllib.loads(text), _File, strict=True)
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(path, "", f"is not valid TOML: {error}") from None
    except msgspec.ValidationError as error:
        raise ProfileError(path, "", in_words(error)) from None


@lru_cache(maxsize=64)
def _unchanged(files: tuple[tuple[str, str], ...]) -> MachineSpec:
    """Return the machine of the last of ``files``, without overrides and with ranges not set to an end.

    The cache compares the texts of the files, so that a file may change between two loads.

    Raises ProfileError.
    """
    *bases, (path, text) = files
    base = _unchanged(tuple(bases)) if bases else None
    file = _parsed(path, text)
    sources = {**(base.sources if base else {}), **file.sources}
    entries = dict(base.entries) if base else {}
    for key, raw in file.entry.items():
        if base and key not in base.entries and not (isinstance(raw, dict) and raw.get("reference")):
            raise UnknownEntry(path, key, near_matches(key, base.entries))
        try:
            entry = parse(key, raw)
            if entry.source not in sources:
                raise EntryError(f"source {entry.source!r} is not in [sources]")
            if base and key in base.entries:
                entry.check_replaces(base.entries[key])
        except EntryError as error:
            raise ProfileError(path, key, str(error)) from None
        entries[key] = entry
    title = file.machine.title or (base.title if base else "")
    alone = base is None and path.removesuffix(".toml") not in available()
    return MachineSpec(file.machine.name, title, path, tuple(file.machine.notes), sources, entries, alone)


@lru_cache(maxsize=64)
def _at_means(files: tuple[tuple[str, str], ...]) -> MachineSpec:
    """Return the machine of the last of ``files`` with ranges at their means, which is what nearly every run uses."""
    return _unchanged(files).with_overrides({}, "mean")


def _source_text(name: str) -> tuple[str, str]:
    """Return (path, text) of a machine's file; the path is what messages call it.

    Raises ProfileError.
    """
    if name in (known := available()):
        return f"{name}.toml", (_PROFILES / f"{name}.toml").read_text(encoding="utf-8")
    if not (name.endswith(".toml") or Path(name).exists()):
        near = difflib.get_close_matches(name, known, n=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else f"; there are {', '.join(known)}"
        raise ProfileError(name, "", f"is neither a machine that comes with offloadrt nor a file{hint}")
    try:
        return name, Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise ProfileError(name, "", f"cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ProfileError(name, "", "cannot be read: it is no text (UTF-8)") from None
