"""A machine's profile: what the machine is, and what every operation on it costs, read from TOML files.

``load`` reads a file with all its bases and makes a ``MachineSpec``; ``entry.py`` has the rules for one entry. Code
that needs costs reads single values, or has a class of costs filled by ``MachineSpec.read``. A range stands for its
geometric mean unless an end is chosen.

A machine's profile holds ``[machine]`` (name, title, notes, default runtime), ``[sources]`` and one ``[entry."KEY"]``
for each cost.  What belongs to an offloading runtime is a profile of its own, with ``[runtime]`` instead; ``load`` puts
one of each together.  A user's own file may name a ``base`` profile and give only what differs from it; entries that
the base does not have must be references (``reference = true``), since nothing would read them.  A package adds
profiles by entry points of the groups ``offloadrt.machines`` and ``offloadrt.runtimes``.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import json
import re
import tomllib
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args, get_type_hints

import attrs
import msgspec

from offloadrt.kernels.memo import Memo
from offloadrt.machine.profile.entry import (
    EntryError,
    Groups,
    ProfileEntry,
    RangeEnd,
    Topology,
    TopologyError,
    in_words,
    parse,
    parse_groups,
    parse_topology,
)
from offloadrt.machine.profile.scaling import Host, ends, is_scalable, part_of, scaled
from offloadrt.registry import Registry, regular

T = TypeVar("T")

RangeEnds = Literal["mean", "low", "high"] | Mapping[str, RangeEnd]
"""One end for all ranges, or a position in the range for each named entry; other entries are at their mean."""


class ProfileError(ValueError):
    """Raised for an unusable profile, entry or override; the message names file, key and reason."""

    def __init__(self, path: str, key: str, reason: str) -> None:
        super().__init__(path, key, reason)
        self.path, self.key, self.reason = path, key, reason

    def __str__(self) -> str:
        return f"{self.path}: {self.key}: {self.reason}" if self.key else f"{self.path}: {self.reason}"


class UnknownEntry(ProfileError):
    """Raised for a key that the profile does not have.

    ``near`` holds similar keys. ``alone``: whether the profile is a user's file that is based on no other profile.
    """

    def __init__(self, path: str, key: str, near: tuple[str, ...], alone: bool = False) -> None:
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        if alone:
            hint += '; the file has no `base = "…"` in [machine], whose entries it would have'
        super().__init__(path, key, f"no such entry{hint}")
        self.near, self.alone = near, alone

    def __reduce__(self) -> tuple[type[UnknownEntry], tuple[str, str, tuple[str, ...], bool]]:
        return UnknownEntry, (self.path, self.key, self.near, self.alone)


@attrs.frozen
class MachineSpec:
    """A loaded profile: what a machine is, and what operations on it cost (`entries` by key), in SI units."""

    name: str
    title: str
    path: str
    """The path of the profile's file, as messages show it."""
    notes: tuple[str, ...]
    sources: dict[str, str]
    """The texts of the sources, by the key that entries use."""
    entries: dict[str, ProfileEntry]
    runtime: str = ""
    """The name of the offloading runtime whose entries the profile has; empty without a runtime."""
    alone: bool = False
    """Whether the profile is a user's file with no base profile, so that it must itself have every entry in use."""
    hosts: Mapping[str, Host] = attrs.field(factory=dict)
    """Machines without a profile on which entries were measured."""
    made_for: str | None = None
    """For a runtime's profile: the machine on whose host the costs were measured or estimated."""
    elsewhere: Mapping[str, ProfileEntry] = attrs.field(factory=dict)
    """For each entry measured on this machine, by key: an entry from elsewhere, to predict as if none were measured."""
    _derived: dict[Any, Any] = attrs.field(init=False, factory=dict, eq=False, repr=False)
    """Objects derived from the entries: `read` and `derived` look here first, because every run asks again."""

    _overridden: Memo[str, MachineSpec] = attrs.field(init=False, factory=partial(Memo, 64), eq=False, repr=False)
    """Cached results of `with_overrides`, because the runs of a sweep or an exploration repeat the same overrides."""

    @cached_property
    def digest(self) -> str:
        """Return a hash of the names and entries; their order and the file's comments do not matter."""
        entries = sorted((key, repr(attrs.astuple(entry, recurse=False))) for key, entry in self.entries.items())
        return hashlib.sha256(json.dumps([self.name, self.runtime, entries]).encode()).hexdigest()

    def value(self, key: str) -> float:
        """Return the number of an entry in SI units (seconds, bytes, bytes/s, flop/s). Raises ProfileError."""
        value = self._entry(key).value
        if isinstance(value, (bool, str)):
            raise ProfileError(self.path, key, f"is {value!r}, but a number is needed")
        return value

    def count(self, key: str) -> int:
        """Return the whole number of an entry. Raises ProfileError if it is no such number."""
        value = self.value(key)
        if value != int(value):
            raise ProfileError(self.path, key, f"is {value!r}, but a whole number is needed")
        return int(value)

    def text(self, key: str) -> str:
        """Return the text of an entry. Raises ProfileError if it is no text."""
        value = self._entry(key).value
        if not isinstance(value, str):
            raise ProfileError(self.path, key, f"is {value!r}, but a text is needed")
        return value

    def topology(self, key: str) -> Topology:
        """Return the links between devices that an entry describes. Raises ProfileError."""
        return self._parsed(key, parse_topology)

    def groups(self, key: str) -> Groups:
        """Return the groups of devices that an entry describes. Raises ProfileError."""
        return self._parsed(key, parse_groups)

    def _parsed(self, key: str, parse: Callable[[str], T]) -> T:
        try:
            return parse(self.text(key))
        except TopologyError as error:
            raise ProfileError(self.path, key, str(error)) from None

    def flag(self, key: str) -> bool:
        """Return an entry's value, true or false. Raises ProfileError if it is neither."""
        value = self._entry(key).value
        if not isinstance(value, bool):
            raise ProfileError(self.path, key, f"is {value!r}, but true or false is needed")
        return value

    def read(self, cls: type[T], **parts: str) -> T:
        """Make an object of an attrs class whose fields name their entries.

        A field says, for instance, ``free: Annotated[float, "alloc.cudaFree"]``. Fields of type float, int, bool and
        str hold what ``value``, ``count``, ``flag`` and ``text`` return; a field whose type is such a class is read in
        the same way. ``parts`` stand in the braces of a name such as ``fault.cpu_{page}``. The class is frozen: each
        later call returns the same object. Raises ProfileError.
        """
        readers: dict[object, Callable[[str], Any]] = {
            float: self.value, int: self.count, bool: self.flag, str: self.text,
        }  # fmt: skip
        if (read := self._derived.get((cls, *parts.values()))) is not None:
            return cast(T, read)
        fields: dict[str, Any] = {}
        for name, hint in _hints(cls):  # type: ignore[arg-type]  # a class is hashable
            if attrs.has(hint):
                fields[name] = self.read(hint, **parts)
            else:
                kind, key = get_args(hint)
                fields[name] = readers[kind](key.format(**parts))
        read = self._derived[cls, *parts.values()] = cls(**fields)
        return read

    def derived(self, make: Callable[[MachineSpec], T]) -> T:
        """Return ``make(self)``, computed once for each profile and never changed. Raises what ``make`` raises."""
        if make not in self._derived:
            self._derived[make] = make(self)
        return cast(T, self._derived[make])

    def ranges(self) -> list[str]:
        """Return the keys of all entries that are given as a range and on which operations' times depend."""
        return [key for key, entry in self.entries.items() if entry.is_range and not entry.reference]

    def with_overrides(self, overrides: Mapping[str, object], range_end: RangeEnds | None = None) -> MachineSpec:
        """Return this machine with the user's values (``overrides``), and ranges at the ends that ``range_end`` names.

        Raises UnknownEntry for a key that does not exist and ProfileError for a value that does not fit.
        """
        if not overrides and not range_end:
            return self
        asked = repr((overrides, range_end))  # not the values: True, 1 and 1.0 are equal, and not the same to an entry
        if (overridden := self._overridden.get(asked)) is None:
            overridden = self._overridden[asked] = self._with(overrides, range_end)
        return overridden

    def _with(self, overrides: Mapping[str, object], range_end: RangeEnds | None) -> MachineSpec:
        entries = dict(self.entries)
        if isinstance(range_end, str):
            entries = {key: entry.at(range_end) for key, entry in entries.items()}
        elif isinstance(range_end, Mapping):
            for key, end in range_end.items():
                entry = self._entry(key)
                if not entry.is_range:
                    raise ProfileError(self.path, key, "has no range of which an end could be taken")
                entries[key] = entry.at(end)
        for key, given in overrides.items():
            self._entry(key)
            try:
                entries[key] = entries[key].overriding(given)
            except EntryError as error:
                raise ProfileError(self.path, key, str(error)) from None
        return attrs.evolve(self, entries=entries)

    def _entry(self, key: str) -> ProfileEntry:
        try:
            return self.entries[key]
        except KeyError:
            raise UnknownEntry(self.path, key, near_matches(key, self.entries), self.alone) from None


@cache
def _hints(cls: type) -> tuple[tuple[str, Any], ...]:
    """Return the fields of an attrs class with their annotations; cached, as every profile reads a dozen classes."""
    return tuple(get_type_hints(cls, include_extras=True).items())


def near_matches(key: str, known: Mapping[str, object]) -> tuple[str, ...]:
    """Return up to three known keys that a mistyped ``key`` may stand for."""
    lower = {name.lower(): name for name in known}
    close = [lower[name] for name in get_close_matches(key.lower(), lower, n=3, cutoff=0.6)]
    last = key.rsplit(".", 1)[-1].lower()
    close += [name for name in known if name.rsplit(".", 1)[-1].lower() == last and name not in close]
    return tuple(close[:3])


# ---------------------------------------------------------------------- the node
# The entries that say how the devices of one machine hang together, read and checked as one.
@attrs.frozen
class NodeTopology:
    """Describes the links, PCIe switches and sockets of a machine's devices."""

    links: Topology
    """Links of NVLink or xGMI between devices (``nvlink.topology``)."""
    switches: Groups
    """Devices that share the link of a PCIe switch to the host (``pcie.switches``)."""
    sockets: Groups
    """Devices at each socket of the host (``pcie.sockets``)."""
    pcie_peers: str
    """Which devices reach one another's memory over PCIe (``pcie.peers``)."""

    @property
    def has_peers(self) -> bool:
        """Tell whether some two of the machine's devices can access each other's memory."""
        return bool(self.links) or self.pcie_peers != "none"

    def switch_of(self, device: int) -> int | None:
        """Return the number of the PCIe switch above a device; None if it has none."""
        return _group_of(self.switches, device)

    def socket_of(self, device: int) -> int | None:
        """Return the number of the socket of a device; None if sockets are not described."""
        return _group_of(self.sockets, device)

    def are_pcie_peers(self, one: int, other: int) -> bool:
        """Tell whether two devices reach one another's memory over PCIe."""
        if one == other:
            return False
        if self.pcie_peers == "switch":
            return (switch := self.switch_of(one)) is not None and switch == self.switch_of(other)
        if self.pcie_peers == "socket":
            return (socket := self.socket_of(one)) is not None and socket == self.socket_of(other)
        return self.pcie_peers == "all"


def node_topology(spec: MachineSpec) -> NodeTopology:
    """Read how the machine's devices are connected. Raises ProfileError for entries that contradict one another."""
    node = NodeTopology(
        spec.topology("nvlink.topology"),
        spec.groups("pcie.switches"),
        spec.groups("pcie.sockets"),
        spec.text("pcie.peers"),
    )
    devices = spec.count("gpu.devices")
    for key, highest, does in (
        ("nvlink.topology", node.links.highest, "links"),
        ("pcie.switches", _highest(node.switches), "names"),
        ("pcie.sockets", _highest(node.sockets), "names"),
    ):
        if highest >= devices:
            reason = f"{does} device {highest}, but gpu.devices is {devices}: set gpu.devices to {highest + 1} at least"
            raise ProfileError(spec.path, key, f"{reason}, or leave that device out")
    for choice, key, groups in (("switch", "pcie.switches", node.switches), ("socket", "pcie.sockets", node.sockets)):
        if node.pcie_peers == choice and not groups:
            raise ProfileError(spec.path, "pcie.peers", f'is {choice}, but {key} is none: set {key}, as in "0,1 2,3"')
    for group in node.switches:
        if len({node.socket_of(device) for device in group}) > 1:
            names = ",".join(map(str, group))
            reason = f"{names} are below one switch, but not at one socket: change it, or pcie.sockets"
            raise ProfileError(spec.path, "pcie.switches", reason)
    if spec.text("p2p.without_link") == "neighbour" and not node.links:
        reason = 'is neighbour, but nvlink.topology is none: set nvlink.topology, as in "0-1 0-2:2"'
        raise ProfileError(spec.path, "p2p.without_link", reason)
    return node


def _group_of(groups: Groups, device: int) -> int | None:
    return next((number for number, group in enumerate(groups) if device in group), None)


def _highest(groups: Groups) -> int:
    return max((device for group in groups for device in group), default=-1)


_PROFILES = importlib.resources.files("offloadrt.machine") / "profiles"


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    title: str = ""
    base: str | None = None
    runtime: str | None = None
    """For a machine: the default runtime of programs there."""
    notes: list[str] = []
    made_for: str | None = None
    """For a runtime: the machine on whose host its costs were measured or estimated, unless an entry names another."""


class _MachineFile(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    header: _Header = msgspec.field(name="machine")
    sources: dict[str, str] = {}
    hosts: dict[str, Host] = {}
    entry: dict[str, Any] = {}
    elsewhere: dict[str, Any] = {}


class _RuntimeFile(_MachineFile, forbid_unknown_fields=True, kw_only=True):
    header: _Header = msgspec.field(name="runtime")


@cache
def _texts(folder: Any) -> dict[str, str]:
    """Read the profiles of the package once, because every run needs one."""
    files = sorted(file.name for file in folder.iterdir() if file.name.endswith(".toml"))
    return {name.removesuffix(".toml"): (folder / name).read_text(encoding="utf-8") for name in files}


@attrs.frozen
class ProfileKind:
    """A kind of profile: its name in messages, the folder of the package's profiles, and the structure of its file."""

    name: str
    folder: Any
    file: type[_MachineFile | _RuntimeFile]

    def available(self) -> list[str]:
        return list(_texts(self.folder))

    @property
    def of_packages(self) -> Registry[Any]:
        """Return the registry of other packages' profiles: an entry point gives a path or a function that makes one."""
        return Registry(self.name, f"offloadrt.{self.name}s")


MACHINE = ProfileKind("machine", _PROFILES, _MachineFile)
RUNTIME = ProfileKind("runtime", _PROFILES / "runtimes", _RuntimeFile)
ProfileFiles = tuple[tuple[str, str], ...]
"""(path, text) of a profile's file and of the files that it extends (its bases): the most basic first, its own last."""


def available() -> list[str]:
    """Return the names of the machines that come with the package."""
    return MACHINE.available()


def available_runtimes() -> list[str]:
    """Return the names of the runtimes that come with the package."""
    return RUNTIME.available()


def of_packages() -> list[str]:
    """Return the names of the machines that other installed packages add."""
    return list(MACHINE.of_packages.points())


def load(
    name_or_path: str | Path,
    overrides: Mapping[str, object] | None = None,
    range_end: RangeEnds = "mean",
    runtime: str | Path | None = None,
) -> MachineSpec:
    """Load a machine with a runtime, each by name or from a user's own TOML file.

    ``overrides`` maps keys to numbers in the entry's own unit or to texts with a unit (``"20us"``); ``range_end`` says
    which value of its range an entry takes; ``runtime``: by default the machine's. Raises ProfileError.
    """
    files = files_of(str(name_or_path), MACHINE)
    named = str(runtime) if runtime is not None else default_runtime(files)
    said = None if runtime is not None else (files[-1][0], "machine.runtime")
    runtime_files = () if named is None else files_of(named, RUNTIME, said)
    if range_end == "mean":
        return _at_means(files, runtime_files).with_overrides(overrides or {})
    return _together(files, runtime_files).with_overrides(overrides or {}, range_end)


def load_runtime(name_or_path: str | Path) -> MachineSpec:
    """Load a runtime by name, or from a user's own TOML file, without a machine. Raises ProfileError."""
    return _unchanged(files_of(str(name_or_path), RUNTIME), RUNTIME)


def default_runtime(files: ProfileFiles) -> str | None:
    """Return the runtime named by the last of `files`, a machine's profile, or else by its nearest base; else None."""
    headers = [_parsed(path, text, MACHINE).header for path, text in reversed(files)]
    return next((header.runtime for header in headers if header.runtime is not None), None)


def files_of(name: str, kind: ProfileKind, named_in: tuple[str, str] | None = None) -> ProfileFiles:
    """Return (path, text) of the file of a machine or runtime (`kind`) and of its bases, bases first.

    `named_in`: the file and the key that refer to `name`, for the ProfileError that is raised if the file is missing.
    """
    files: list[tuple[str, str]] = []
    base: str | None = name
    while base is not None:
        try:
            path, text = _source_text(base, kind)
        except ProfileError as error:
            if named_in is None:
                raise
            raise ProfileError(*named_in, f"{base!r} {error.reason}") from None
        if path in (children := [child for child, _ in files]):
            raise ProfileError(path, f"{kind.name}.base", f"is based on itself ({' -> '.join((*children, path))})")
        files.append((path, text))
        named_in = path, f"{kind.name}.base"
        base = _parsed(path, text, kind).header.base
    return tuple(reversed(files))


@lru_cache(maxsize=64)
def _parsed(path: str, text: str, kind: ProfileKind) -> _MachineFile | _RuntimeFile:
    """Read the text of a profile of that kind; ``path`` is for messages. Raises ProfileError."""
    try:
        file = msgspec.convert(tomllib.loads(text), kind.file, strict=True)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ProfileError(path, "", f"is not valid TOML: {error}") from None
    except msgspec.ValidationError as error:
        raise ProfileError(path, "", in_words(error) + _where_it_belongs(error, kind)) from None
    if not file.header.name.strip() or not file.header.name.isprintable():
        raise ProfileError(path, f"{kind.name}.name", f"{file.header.name!r} cannot be printed as a name")
    return file


def _where_it_belongs(error: msgspec.ValidationError, kind: ProfileKind) -> str:
    """Return, for an unknown field, where it belongs or which fields exist; empty for other errors."""
    unknown, header = re.search(r"unknown field `(.*?)`(.*)", str(error)), _Header.__struct_fields__
    if unknown is None or unknown[1] in ("machine", "runtime"):
        return ""
    if unknown[2]:
        return f"; [{kind.name}] has {', '.join(header)}"
    if unknown[1] in header:
        return f"; it belongs below [{kind.name}]"
    return f'; a file has [{kind.name}], [sources] and [entry."NAME"]'


@lru_cache(maxsize=64)
def _unchanged(files: ProfileFiles, kind: ProfileKind) -> MachineSpec:
    """Return the profile of the last of ``files``, without overrides and with ranges not set to an end.

    Entries that come from another machine are scaled to this machine (`scaling.py`). Raises ProfileError.
    """
    spec = as_written(files, kind)
    return spec if kind is RUNTIME else attrs.evolve(spec, entries=_scaled(spec.entries, spec, files))


def _scaled(entries: Mapping[str, ProfileEntry], spec: MachineSpec, files: ProfileFiles) -> dict[str, ProfileEntry]:
    """Return the entries of ``spec``, which are as written, scaled to the machine of ``files``."""
    homes = {path: as_written(files[: place + 1], MACHINE) for place, (path, _) in enumerate(files)}
    return {key: scaled_entry(entry, spec, homes) for key, entry in entries.items()}


def scaled_entry(entry: ProfileEntry, spec: MachineSpec, homes: Mapping[str, MachineSpec]) -> ProfileEntry:
    part, origin = part_of(entry.key), entry.measured_on
    if part is None or not is_scalable(entry) or (origin is None and entry.home == spec.path) or origin == spec.name:
        return entry
    if origin is not None and (host := spec.hosts.get(origin)) is not None:
        there = host.parts.get(part.reference)
    else:
        said = entry.home, f"{entry.key}.measured_on"
        of = homes.get(entry.home) if origin is None else as_written(files_of(origin, MACHINE, said), MACHINE)
        if of is None:
            return entry  # of a user's runtime that does not say for which machine it was made
        origin, stated = of.name, of.entries.get(part.reference)
        if stated is not None and stated == spec.entries.get(part.reference):
            return entry  # the part is the same one
        there = None if stated is None else ends(stated)
    if (here := spec.entries.get(part.reference)) is None:
        return entry  # a profile of a user's that stands alone
    if there is None:
        raise ProfileError(spec.path, entry.key, f"is of {origin}, which has no {part.reference}")
    return scaled(entry, origin, there, ends(here))


@lru_cache(maxsize=64)
def as_written(files: ProfileFiles, kind: ProfileKind) -> MachineSpec:
    """Return the profile in the last of ``files`` with what it inherits from its bases. Raises ProfileError.

    Entries of other machines are not scaled yet, ranges and overrides not applied, and no runtime is added. kind:
    MACHINE or RUNTIME. Results are cached by the texts of the files, so that a file may change between two loads.
    """
    *bases, (path, text) = files
    base = as_written(tuple(bases), kind) if bases else None
    file = _parsed(path, text, kind)
    sources = {**(base.sources if base else {}), **file.sources}
    entries = dict(base.entries) if base else {}
    made_for = file.header.made_for
    for key, raw in file.entry.items():
        if base and key not in base.entries and not (isinstance(raw, dict) and raw.get("reference")):
            if isinstance(raw, dict) and (inner := [name for name in raw if isinstance(raw[name], dict)]):
                raise ProfileError(path, key, f'is no entry; write [entry."{key}.{inner[0]}"], with the quotes')
            _check_belongs_here(path, key, kind)
            raise UnknownEntry(path, key, near_matches(key, base.entries))
        entry = _checked(path, key, raw, sources, base.entries.get(key) if base else None)
        if kind is RUNTIME and entry.measured_on is None:
            entry = attrs.evolve(entry, measured_on=made_for)
        entries[key] = attrs.evolve(entry, home=path)
    elsewhere = dict(base.elsewhere) if base else {}
    for key, raw in file.elsewhere.items():
        elsewhere[key] = attrs.evolve(_checked(path, key, raw, sources, entries.get(key)), home=path)
    hosts = {**(base.hosts if base else {}), **file.hosts}
    title = file.header.title or (base.title if base else "")
    alone = base is None and path.removesuffix(".toml") not in kind.available()
    notes = tuple(file.header.notes)
    return MachineSpec(
        file.header.name, title, path, notes, sources, entries,
        alone=alone, hosts=hosts, made_for=made_for, elsewhere=elsewhere,
    )  # fmt: skip


def _checked(path: str, key: str, raw: object, sources: Mapping[str, str], base: ProfileEntry | None) -> ProfileEntry:
    """Return the entry of a file that ``raw`` describes. Raises ProfileError."""
    try:
        entry = parse(key, raw)
        if entry.source not in sources:
            raise EntryError(f"source {entry.source!r} is not in [sources]")
        if base is not None:
            entry.check_replaces(base)
    except EntryError as error:
        raise ProfileError(path, key, str(error)) from None
    return entry


def _check_belongs_here(path: str, key: str, kind: ProfileKind) -> None:
    """Raise ProfileError if the entry belongs to profiles of the other kind; the message says where to put it."""
    other = MACHINE if kind is RUNTIME else RUNTIME
    for name in other.available():
        if key in _unchanged(files_of(name, other), other).entries:
            reason = f'is an entry of a {other.name}: put it into a file with [{other.name}] and base = "{name}"'
            raise ProfileError(path, key, f"{reason}, for --{other.name} FILE")


@lru_cache(maxsize=64)
def _together(machine_files: ProfileFiles, runtime_files: ProfileFiles) -> MachineSpec:
    """Return a machine with the entries of a runtime, with ranges not set to an end.

    Where the machine has another source under a key of the runtime's, the runtime's gets the key ``RUNTIME:KEY``.

    Raises ProfileError for an entry that both have.
    """
    machine = _unchanged(machine_files, MACHINE)
    if not runtime_files:
        return machine
    runtime = _unchanged(runtime_files, RUNTIME)
    for key in runtime.entries:
        if key in machine.entries:
            raise ProfileError(machine.path, key, f"is an entry of the runtime {runtime.name} ({runtime.path}), too")
    known = attrs.evolve(machine, hosts={**machine.hosts, **runtime.hosts})
    scaled_entries = _scaled(runtime.entries, known, machine_files)
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
            **{key: attrs.evolve(entry, source=keys[entry.source]) for key, entry in scaled_entries.items()},
        },
    )


@lru_cache(maxsize=64)
def _at_means(machine_files: ProfileFiles, runtime_files: ProfileFiles) -> MachineSpec:
    """Return a machine and a runtime with ranges at their means, which is what nearly every run uses."""
    return _together(machine_files, runtime_files).with_overrides({}, "mean")


def _source_text(name: str, kind: ProfileKind) -> tuple[str, str]:
    """Return (path, text) of a profile's file; messages show the path. Raises ProfileError."""
    if name in (known := _texts(kind.folder)):
        return f"{name}.toml", known[name]
    if not (name.endswith(".toml") or (name and Path(name).exists())):
        others = kind.of_packages
        names = [*known, *others.points()]
        near = [one for one in sorted(names, key=len) if name and name.lower() in one][:4] or get_close_matches(
            name, names
        )
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        hint += f"; there are {', '.join(names)}"
        if name not in others.points():
            raise ProfileError(name or "''", "", f"is neither a {kind.name} that comes with offloadrt nor a file{hint}")
        given = others.load(name)
        try:
            name = str(Path(given() if callable(given) else given))
        except Exception as error:
            raise ProfileError(name, "", f"the package that adds it gives no path of a file: {error}") from None
    try:
        return name, regular(Path(name)).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ProfileError(name, "", f"cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ProfileError(name, "", "cannot be read: it is no text (UTF-8)") from None
