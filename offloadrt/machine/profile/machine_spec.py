"""A machine's profile: what the machine is, and what every operation on it costs.

``files.py`` makes a ``MachineSpec`` from TOML files; ``entry.py`` has the rules for one entry.  Whoever needs costs
asks for single values, or has a class of costs filled by ``MachineSpec.read``.  A range runs at its geometric mean
unless an end is asked for.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cache, cached_property, partial
from typing import Any, Literal, TypeVar, cast, get_args, get_type_hints

import attrs

from offloadrt.kernels.memo import Memo
from offloadrt.machine.profile.entry import (
    EntryError,
    Groups,
    ProfileEntry,
    RangeEnd,
    Topology,
    TopologyError,
    parse_groups,
    parse_topology,
)

T = TypeVar("T")

RangeEnds = Literal["mean", "low", "high"] | Mapping[str, RangeEnd]
"""One end for all ranges, or a place for each entry named; the others are at their mean."""


class ProfileError(ValueError):
    """A profile, an entry or an override that cannot be used; the message names file, key and reason."""

    def __init__(self, path: str, key: str, reason: str) -> None:
        super().__init__(path, key, reason)
        self.path, self.key, self.reason = path, key, reason

    def __str__(self) -> str:
        return f"{self.path}: {self.key}: {self.reason}" if self.key else f"{self.path}: {self.reason}"


class UnknownEntry(ProfileError):
    """A key that the profile does not have.

    ``near`` holds keys that look like it; ``alone`` says that the profile is a user's file without a base.
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
    """A loaded profile: what a machine is and what every operation on it costs.  Numbers are SI floats."""

    name: str
    title: str
    path: str
    """The file, as messages name it."""
    notes: tuple[str, ...]
    sources: dict[str, str]
    """The texts of the sources, by the key that entries use."""
    entries: dict[str, ProfileEntry]
    runtime: str = ""
    """The name of the offloading runtime whose entries it has; empty for none."""
    alone: bool = False
    """Whether it is a user's file without a base, which has to hold every entry that is asked for."""
    _derived: dict[Any, Any] = attrs.field(init=False, factory=dict, eq=False, repr=False)
    """What has been derived from the entries: `read` and `derived` look here first, because every run asks again."""

    _overridden: Memo[str, MachineSpec] = attrs.field(init=False, factory=partial(Memo, 64), eq=False, repr=False)
    """What `with_overrides` has returned: the runs of a sweep or of an exploration ask for the same again."""

    @cached_property
    def digest(self) -> str:
        """Return a hash of the names and of the entries; their order in the file, and its comments, do not matter."""
        entries = sorted((key, repr(attrs.astuple(entry, recurse=False))) for key, entry in self.entries.items())
        return hashlib.sha256(json.dumps([self.name, self.runtime, entries]).encode()).hexdigest()

    def value(self, key: str) -> float:
        """Return the number of an entry in SI units (seconds, bytes, bytes/s, flop/s).

        Raises ProfileError.
        """
        value = self._entry(key).value
        if isinstance(value, (bool, str)):
            raise ProfileError(self.path, key, f"is {value!r}, but a number is needed")
        return value

    def count(self, key: str) -> int:
        """Return the whole number of an entry.

        Raises ProfileError.
        """
        value = self.value(key)
        if value != int(value):
            raise ProfileError(self.path, key, f"is {value!r}, but a whole number is needed")
        return int(value)

    def text(self, key: str) -> str:
        """Return the text of an entry.

        Raises ProfileError.
        """
        value = self._entry(key).value
        if not isinstance(value, str):
            raise ProfileError(self.path, key, f"is {value!r}, but a text is needed")
        return value

    def topology(self, key: str) -> Topology:
        """Return the links between devices that an entry describes.

        Raises ProfileError.
        """
        return self._parsed(key, parse_topology)

    def groups(self, key: str) -> Groups:
        """Return the groups of devices that an entry describes.

        Raises ProfileError.
        """
        return self._parsed(key, parse_groups)

    def _parsed(self, key: str, parse: Callable[[str], T]) -> T:
        try:
            return parse(self.text(key))
        except TopologyError as error:
            raise ProfileError(self.path, key, str(error)) from None

    def flag(self, key: str) -> bool:
        """Return the truth value of an entry.

        Raises ProfileError.
        """
        value = self._entry(key).value
        if not isinstance(value, bool):
            raise ProfileError(self.path, key, f"is {value!r}, but true or false is needed")
        return value

    def read(self, cls: type[T], **parts: str) -> T:
        """Make an object of an attrs class whose fields name their entries.

        A field says, for instance, ``free: Annotated[float, "alloc.cudaFree"]``.  Fields of type float, int, bool and
        str hold what ``value``, ``count``, ``flag`` and ``text`` return; a field whose type is such a class is read in
        the same way.  ``parts`` stand in the braces of a name such as ``fault.cpu_{page}``.  The class is frozen: each
        later call returns the same object.

        Raises ProfileError.
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
        """Return ``make(self)``, which is called once for each profile: its result must not change.

        Raises what ``make`` raises.
        """
        if make not in self._derived:
            self._derived[make] = make(self)
        return cast(T, self._derived[make])

    def ranges(self) -> list[str]:
        """Return the keys of all entries that are given as a range and are no references."""
        return [key for key, entry in self.entries.items() if entry.is_range and not entry.reference]

    def with_overrides(self, overrides: Mapping[str, object], range_end: RangeEnds | None = None) -> MachineSpec:
        """Return this machine with the user's values and, where asked for, with ranges at their ends.

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
    close = [lower[name] for name in difflib.get_close_matches(key.lower(), lower, n=3, cutoff=0.6)]
    last = key.rsplit(".", 1)[-1].lower()
    close += [name for name in known if name.rsplit(".", 1)[-1].lower() == last and name not in close]
    return tuple(close[:3])


# ---------------------------------------------------------------------- the node
# The entries that say how the devices of one machine hang together, read and checked as one.
@attrs.frozen
class NodeTopology:
    """The links, PCIe switches and sockets of a machine's devices."""

    links: Topology
    """NVLink or xGMI (``nvlink.topology``)."""
    switches: Groups
    """Devices that share the link of a PCIe switch to the host (``pcie.switches``)."""
    sockets: Groups
    """Devices at each socket of the host (``pcie.sockets``)."""
    pcie_peers: str
    """Which devices reach one another's memory over PCIe (``pcie.peers``)."""

    @property
    def has_peers(self) -> bool:
        """Tell whether any two devices reach one another's memory."""
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
    """Read how the machine's devices hang together.

    Raises ProfileError, with the entry to set, for entries that contradict one another.
    """
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
