"""Profiles as files: reading one with all its bases, and the names of those that come with the package.

A machine's profile holds ``[machine]`` (name, title, notes, default runtime), ``[sources]`` and one ``[entry."KEY"]``
for each cost.  What belongs to an offloading runtime is a profile of its own, with ``[runtime]`` instead; ``load`` puts
one of each together.  A user's own file may name a ``base`` profile and give only what differs from it; entries that
the base does not have must be references (``reference = true``), since nothing would read them.  A package adds
profiles by entry points of the groups ``offloadrt.machines`` and ``offloadrt.runtimes``.
"""

from __future__ import annotations

import difflib
import importlib.resources
import re
import tomllib
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import attrs
import msgspec

from offloadrt.machine.profile.entry import EntryError, ProfileEntry, in_words, parse
from offloadrt.machine.profile.machine_spec import MachineSpec, ProfileError, RangeEnds, UnknownEntry, near_matches
from offloadrt.registry import Registry, regular

_PROFILES = importlib.resources.files("offloadrt.machine") / "profiles"


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    title: str = ""
    base: str | None = None
    runtime: str | None = None
    """Of a machine: the runtime that programs use there unless another one is asked for."""
    notes: list[str] = []


class _MachineFile(msgspec.Struct, forbid_unknown_fields=True):
    header: _Header = msgspec.field(name="machine")
    sources: dict[str, str] = {}
    entry: dict[str, Any] = {}


class _RuntimeFile(msgspec.Struct, forbid_unknown_fields=True):
    header: _Header = msgspec.field(name="runtime")
    sources: dict[str, str] = {}
    entry: dict[str, Any] = {}


@cache
def _texts(folder: Any) -> dict[str, str]:
    """Read the profiles that come with the package, once: every run asks for one."""
    files = sorted(file.name for file in folder.iterdir() if file.name.endswith(".toml"))
    return {name.removesuffix(".toml"): (folder / name).read_text(encoding="utf-8") for name in files}


@attrs.frozen
class _Kind:
    """What a profile can be of: how messages name it, where those of the package are, and how its file is built."""

    name: str
    folder: Any
    file: type[_MachineFile | _RuntimeFile]

    def available(self) -> list[str]:
        return list(_texts(self.folder))

    @property
    def of_packages(self) -> Registry[Any]:
        """Return where other packages' profiles are found: an entry point gives a path, or what makes one."""
        return Registry(self.name, f"offloadrt.{self.name}s")


_MACHINE = _Kind("machine", _PROFILES, _MachineFile)
_RUNTIME = _Kind("runtime", _PROFILES / "runtimes", _RuntimeFile)
_Files = tuple[tuple[str, str], ...]
"""(path, text) of a file and of all bases on which it is built, the last base first."""


def available() -> list[str]:
    """Return the names of the machines that come with the package."""
    return _MACHINE.available()


def available_runtimes() -> list[str]:
    """Return the names of the runtimes that come with the package."""
    return _RUNTIME.available()


def of_packages() -> list[str]:
    """Return the names of the machines that other packages add."""
    return list(_MACHINE.of_packages.points())


def load(
    name_or_path: str | Path,
    overrides: Mapping[str, object] | None = None,
    range_end: RangeEnds = "mean",
    runtime: str | Path | None = None,
) -> MachineSpec:
    """Load a machine with a runtime, each by name or from a user's own TOML file.

    ``overrides`` maps keys to numbers in the entry's own unit or to texts with a unit (``"20us"``); ``runtime`` is the
    machine's default unless it is given.

    Raises ProfileError.
    """
    files = _files(str(name_or_path), _MACHINE)
    named = str(runtime) if runtime is not None else _default_runtime(files)
    runtime_files = () if named is None else _files(named, _RUNTIME)
    if range_end == "mean":
        return _at_means(files, runtime_files).with_overrides(overrides or {})
    return _together(files, runtime_files).with_overrides(overrides or {}, range_end)


def load_runtime(name_or_path: str | Path) -> MachineSpec:
    """Load a runtime by name, or from a user's own TOML file, without a machine.

    Raises ProfileError.
    """
    return _unchanged(_files(str(name_or_path), _RUNTIME), _RUNTIME)


def _default_runtime(files: _Files) -> str | None:
    """Return the runtime that the last of ``files`` names, or the nearest of its bases; None if none does."""
    headers = [_parsed(path, text, _MACHINE).header for path, text in reversed(files)]
    return next((header.runtime for header in headers if header.runtime is not None), None)


def _files(name: str, kind: _Kind) -> _Files:
    """Return the file of that name and its bases.

    Raises ProfileError.
    """
    files: list[tuple[str, str]] = []
    base: str | None = name
    while base is not None:
        try:
            path, text = _source_text(base, kind)
        except ProfileError as error:
            if not files:
                raise
            raise ProfileError(files[-1][0], f"{kind.name}.base", f"{base!r} {error.reason}") from None
        if path in (children := [child for child, _ in files]):
            raise ProfileError(path, f"{kind.name}.base", f"is based on itself ({' -> '.join((*children, path))})")
        files.append((path, text))
        base = _parsed(path, text, kind).header.base
    return tuple(reversed(files))


@lru_cache(maxsize=64)
def _parsed(path: str, text: str, kind: _Kind) -> _MachineFile | _RuntimeFile:
    """Read the text of a profile of that kind; ``path`` is for messages.

    Raises ProfileError.
    """
    try:
        return msgspec.convert(tomllib.loads(text), kind.file, strict=True)
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(path, "", f"is not valid TOML: {error}") from None
    except msgspec.ValidationError as error:
        raise ProfileError(path, "", in_words(error) + _where_it_belongs(error, kind)) from None


def _where_it_belongs(error: msgspec.ValidationError, kind: _Kind) -> str:
    """Return, for an unknown field, where a file has it, or what a file has there; nothing for other errors."""
    unknown, header = re.search(r"unknown field `(.*?)`(.*)", str(error)), _Header.__struct_fields__
    if unknown is None or unknown[1] in ("machine", "runtime"):
        return ""
    if unknown[2]:
        return f"; [{kind.name}] has {', '.join(header)}"
    if unknown[1] in header:
        return f"; it belongs below [{kind.name}]"
    return f'; a file has [{kind.name}], [sources] and [entry."NAME"]'


@lru_cache(maxsize=64)
def _unchanged(files: _Files, kind: _Kind) -> MachineSpec:
    """Return the profile of the last of ``files``, without overrides and with ranges not set to an end.

    The cache compares the texts of the files, so that a file may change between two loads.

    Raises ProfileError.
    """
    *bases, (path, text) = files
    base = _unchanged(tuple(bases), kind) if bases else None
    file = _parsed(path, text, kind)
    sources = {**(base.sources if base else {}), **file.sources}
    entries = dict(base.entries) if base else {}
    for key, raw in file.entry.items():
        if base and key not in base.entries and not (isinstance(raw, dict) and raw.get("reference")):
            _check_belongs_here(path, key, kind)
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
    title = file.header.title or (base.title if base else "")
    alone = base is None and path.removesuffix(".toml") not in kind.available()
    return MachineSpec(file.header.name, title, path, tuple(file.header.notes), sources, entries, alone=alone)


def _check_belongs_here(path: str, key: str, kind: _Kind) -> None:
    """Raise ProfileError if profiles of the other kind have the entry, which says where to put it."""
    other = _MACHINE if kind is _RUNTIME else _RUNTIME
    for name in other.available():
        if key in _unchanged(_files(name, other), other).entries:
            reason = f'is an entry of a {other.name}: put it into a file with [{other.name}] and base = "{name}"'
            raise ProfileError(path, key, f"{reason}, for --{other.name} FILE")


@lru_cache(maxsize=64)
def _together(machine_files: _Files, runtime_files: _Files) -> MachineSpec:
    """Return a machine with the entries of a runtime, with ranges not set to an end.

    A source of the runtime whose key means something else on the machine goes by ``RUNTIME:KEY``.

    Raises ProfileError for an entry that both have.
    """
    machine = _unchanged(machine_files, _MACHINE)
    if not runtime_files:
        return machine
    runtime = _unchanged(runtime_files, _RUNTIME)
    for key in runtime.entries:
        if key in machine.entries:
            raise ProfileError(machine.path, key, f"is an entry of the runtime {runtime.name} ({runtime.path}), too")
    texts = machine.sources
    keys = {
        key: f"{runtime.name}:{key}" if texts.get(key, text) != text else key for key, text in runtime.sources.items()
    }
    return attrs.evolve(
        machine,
        runtime=runtime.name,
        sources={**texts, **{keys[key]: text for key, text in runtime.sources.items()}},
        entries={
            **machine.entries,
            **{key: attrs.evolve(entry, source=keys[entry.source]) for key, entry in runtime.entries.items()},
        },
    )


@lru_cache(maxsize=64)
def _at_means(machine_files: _Files, runtime_files: _Files) -> MachineSpec:
    """Return a machine and a runtime with ranges at their means, which is what nearly every run uses."""
    return _together(machine_files, runtime_files).with_overrides({}, "mean")


def _source_text(name: str, kind: _Kind) -> tuple[str, str]:
    """Return (path, text) of a profile's file; the path is what messages call it.

    Raises ProfileError.
    """
    if name in (known := _texts(kind.folder)):
        return f"{name}.toml", known[name]
    if not (name.endswith(".toml") or Path(name).exists()):
        others = kind.of_packages
        names = [*known, *others.points()]
        near = difflib.get_close_matches(name, names, n=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        hint += f"; there are {', '.join(names)}"
        if name not in others.points():
            raise ProfileError(name, "", f"is neither a {kind.name} that comes with offloadrt nor a file{hint}")
        given = others.load(name)
        name = str(given() if callable(given) else given)
    try:
        return name, regular(Path(name)).read_text(encoding="utf-8")
    except OSError as error:
        raise ProfileError(name, "", f"cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ProfileError(name, "", "cannot be read: it is no text (UTF-8)") from None


# ---------------------------------------------------------------------- differences
# What two machines differ in, entry by entry.
@attrs.frozen
class EntryDifference:
    """An entry that two machines have differently; None for a machine that does not have it."""

    key: str
    one: ProfileEntry | None
    other: ProfileEntry | None


def differences(one: MachineSpec, other: MachineSpec) -> list[EntryDifference]:
    """Return the entries whose value or range differs, in the order of the first machine, then of the second.

    Another source for the same number is no difference.  An entry that is only there to compare with is left out where
    one of the machines does not have it.
    """
    keys = [*one.entries, *(key for key in other.entries if key not in one.entries)]
    pairs = [EntryDifference(key, one.entries.get(key), other.entries.get(key)) for key in keys]
    return [pair for pair in pairs if _differs(pair.one, pair.other)]


def _differs(one: ProfileEntry | None, other: ProfileEntry | None) -> bool:
    if one is None or other is None:
        only = one or other
        return only is not None and not only.reference
    return (one.value, one.low, one.high) != (other.value, other.low, other.high)
