"""One entry of a machine profile: a value or a range, its unit, and its source.

``parse`` checks an entry of a TOML file; ``ProfileEntry.overriding`` checks a user's value for it. ``machine_spec.py``
adds the names of file and key to their errors. Entries that describe the connections between devices are texts with
a format of their own (``Topology``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import attrs
import msgspec

from offloadrt.machine.profile import units
from offloadrt.registry import Registry

# ---------------------------------------------------------------------- topologies
# How the devices of a machine hang together: links between them, PCIe switches, sockets.
#
# In a profile each is a text. Links: ``"0-1 0-2:2"`` means one link between devices 0 and 1, two between 0 and 2, and
# none between 1 and 2; ``"switch:18"`` that each device has 18 links to a switch that connects all of them. Groups:
# ``"0,1 2,3"`` means that devices 0 and 1 are together, and so are 2 and 3. ``"none"`` means that there are none.
# `node_topology` checks the entries of one machine together.
NO_LINKS = "none"
_PAIR = re.compile(r"(\d+)-(\d+)(?::(\d+))?")
_SWITCH = re.compile(r"switch:(\d+)")
_GROUP = re.compile(r"\d+(,\d+)*")

Groups = tuple[tuple[int, ...], ...]
"""Groups of devices, such as those below one PCIe switch; a device is in at most one group."""


class TopologyError(ValueError):
    """Raised for a text that describes no topology of links; the message names the wrong part and the reason."""


@attrs.frozen
class Topology:
    """Describes the direct links between devices, or the links from each device to a switch."""

    pairs: Mapping[tuple[int, int], int]
    """The number of links of each pair of devices that has any; the lower device of a pair comes first."""
    to_switch: int = 0
    """The number of links of every device to a switch that connects all devices; 0 for none."""

    def __bool__(self) -> bool:
        return bool(self.pairs) or self.to_switch > 0

    def links(self, one: int, other: int) -> int:
        """Return the number of links between the devices ``one`` and ``other``."""
        if self.to_switch:
            return self.to_switch if one != other else 0
        return self.pairs.get((min(one, other), max(one, other)), 0)

    @property
    def highest(self) -> int:
        """Return the highest device number that has a link; -1 if no device has one."""
        return max((high for _, high in self.pairs), default=-1)

    def neighbour(self, source: int, destination: int, devices: int) -> int | None:
        """Return the device of 0 to ``devices - 1`` through which a copy can go over two links; None if there is none.

        Take the device for which the smaller of the two numbers of links is largest; of several, the lowest. The rule
        is this project's: CUDA goes through the host, so there is no driver to follow.
        """
        best, most = None, 0
        for device in range(devices):
            narrower = min(self.links(source, device), self.links(device, destination))
            if narrower > most:
                best, most = device, narrower
        return best


def parse_topology(text: str) -> Topology:
    """Read links between devices from a text: "0-1 0-2:2" (one and two links), "switch:2". Raises TopologyError."""
    if (switch := _SWITCH.fullmatch(text.strip())) is not None:
        if not (links := int(switch[1])):
            raise TopologyError(f'{text!r} has no link; write "{NO_LINKS}" for devices without links')
        return Topology({}, links)
    pairs: dict[tuple[int, int], int] = {}
    for word in _words(text, "links"):
        match = _PAIR.fullmatch(word)
        if match is None:
            raise TopologyError(
                f'{word!r} is no pair of devices; write "0-1" for one link, "0-1:2" for two, or "switch:2" alone for '
                "two of every device to a switch"
            )
        one, other, number = int(match[1]), int(match[2]), int(match[3] or 1)
        if one == other:
            raise TopologyError(f"{word!r} links device {one} to itself")
        if number == 0:
            raise TopologyError(f"{word!r} has no link; leave out pairs without one")
        pair = (min(one, other), max(one, other))
        if pair in pairs:
            raise TopologyError(f"{word!r}: devices {pair[0]} and {pair[1]} come twice")
        pairs[pair] = number
    return Topology(pairs)


def parse_groups(text: str) -> Groups:
    """Read groups of devices from a profile's text: "0,1 2,3" has two groups. Raises TopologyError."""
    groups: list[tuple[int, ...]] = []
    for word in _words(text, "groups"):
        if _GROUP.fullmatch(word) is None:
            raise TopologyError(f'{word!r} is no group of devices; write "0,1 2,3" for two groups of two')
        group = tuple(map(int, word.split(",")))
        for place, device in enumerate(group):
            if device in group[:place] or any(device in other for other in groups):
                raise TopologyError(f"{word!r}: device {device} comes twice")
        groups.append(group)
    return tuple(groups)


def _words(text: str, what: str) -> list[str]:
    """Return the words of a text, none for ``"none"``. Raises TopologyError for an empty text."""
    if not (words := text.split()):
        raise TopologyError(f'is empty; write "{NO_LINKS}" for devices without {what}')
    return [] if text.strip() == NO_LINKS else words


RangeEnd = Literal["mean", "low", "high"] | float
"""Where in its range an entry is taken: at an end, at the mean, or at a place between 0 (low) and 1 (high)."""
SourceType = Literal[
    "datasheet", "published measurement", "measured", "paper", "source code", "engineering estimate", "user", "scaled"
]
Value = float | bool | str


def _check_policy(kind: str, group: str) -> Callable[[str], object]:
    """Return a function that checks a policy's name: an entry point of the group, or `FILE.py:CLASS`.

    Loading the project's own policies would import the driver, so that only names are looked up here.
    """
    registry: Registry[object] = Registry(kind, group)
    return lambda text: text in registry.points() or registry.find(text)


FORMATS: dict[str, Callable[[str], object]] = {
    "topology": parse_topology,
    "groups": parse_groups,
    "words": str.split,
    "eviction_policy": _check_policy("eviction policy", "offloadrt.eviction_policies"),
    "prefetch_policy": _check_policy("prefetch policy", "offloadrt.prefetch_policies"),
}
"""Formats of texts without choices, each with a function that reads the text and raises ValueError."""

_POSITIVE = frozenset({"alloc.segment", "mpi.device.chunk", "staging.chunk"})
"""Sizes that are divisors of other sizes, so that they must not be 0."""
_POWERS_OF_TWO: dict[str, int] = {
    **dict.fromkeys(("page.size", "page.size_thp", "page.gpu_fault"), 4096),
    **dict.fromkeys(("page.uvm_page", "page.uvm_big", "page.uvm_block", "fault.range"), 4096),
    **dict.fromkeys(("mem.sector", "mem.row", "remote.sector", "remote.line", "access_counter.access"), 8),
    **dict.fromkeys(("alloc.alignment", "alloc.managed_alignment", "access_counter.sub_region"), 8),
}
"""Sizes of pages, sectors and steps of addresses, with the smallest allowed value; the largest is 1 GiB."""
_AT_MOST: dict[str, float] = {"jitter": 1.0, "runtime.hidden_helper_threads": 1024, "runtime.image_copies": 1024}
"""Upper limits of fractions, and of counts for which each unit has an actor or a step of its own."""
_AT_MOST_UNITS: dict[str, float] = dict.fromkeys(("cards", "engines", "queues", "connections", "devices"), 1024)
"""Upper limits of counts, by unit, for which each unit has an actor."""
_MOST = 1 << 30
"""Upper limit of every other count."""
_LIMITS: dict[str, tuple[float, float, str]] = {
    "time": (0.0, 1e5, "no step takes longer than 100,000 s"),
    "data": (0.0, 2.0**60, "no memory has more than 1 EiB"),
    "data / time": (1e3, 1e18, "a rate is 1 kB/s to 1e9 GB/s"),
    "work / time": (1e3, 1e21, "a rate is 1e3 to 1e21 operations a second"),
    "time / data": (0.0, 1e-3, "a byte takes 1 ms at most"),
    "fraction": (0.0, 1e6, "a factor is 1e6 at most"),
}
"""The least and the largest SI value by dimension, and the reason. No hardware comes near; other values are typos."""


class EntryError(ValueError):
    """Raised for an unacceptable entry; the message has the reason, and ``machine_spec.py`` adds file and key."""


class EntryText(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """An entry as it stands in a TOML file, with either ``value`` or ``range``; `ProfileEntry` explains the fields."""

    source: str
    source_type: SourceType
    value: float | bool | str | None = None
    range: tuple[float, float] | None = None
    unit: str | None = None
    choices: tuple[str, ...] = ()
    format: Literal["topology", "groups", "words", "eviction_policy", "prefetch_policy"] | None = None
    note: str = ""
    reference: bool = False
    measured_on: str | None = None


@attrs.frozen
class ProfileEntry:
    """A checked entry of a profile.  Numbers are floats in SI units (seconds, bytes, bytes/s, flop/s, counts)."""

    key: str
    value: Value
    """The value for a run: the number, the geometric mean or an end of the range, a truth value or a text."""
    low: float | None
    high: float | None
    """The ends of the range in ``low`` and ``high``; None when the entry is a single value."""
    unit: units.Unit | None
    """The unit; None for truth values and texts."""
    source: str
    """A key of the profile's ``[sources]``, or "user"."""
    source_type: str
    """How the value was found, as "datasheet", "measured" or "engineering estimate"."""
    note: str
    """What the entry means, and how its value was derived."""
    choices: tuple[str, ...]
    """The texts that a text entry may hold, unless it has a format."""
    format: str | None
    """The key in ``FORMATS`` of the text's format; None for a text with choices."""
    reference: bool
    """Whether the entry serves only for comparisons with measurements: no operation's time depends on it."""
    measured_on: str | None = None
    """The machine, or one of the profile's `[hosts]`, where the value was measured; None: this profile's machine."""
    home: str = ""
    """The file that contains the entry."""
    scaled_from: str | None = None
    """The machine from whose entry this one was scaled; None if it was not scaled."""
    overridden: bool = False
    """Whether a user has set the value."""

    @property
    def is_range(self) -> bool:
        return self.low is not None

    @property
    def shown(self) -> str:
        """Return the value as text in the unit in which the entry is written, as reports show it."""
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        if isinstance(self.value, str) or self.unit is None:
            return str(self.value)
        return f"{self.value / self.unit.factor:.6g} {self.unit.text}"

    def at(self, end: RangeEnd) -> ProfileEntry:
        """Return this entry with its value at an end of its range, at the geometric mean of the ends, or in between.

        The mean is geometric because estimates are uncertain by a factor, not by an amount; equal steps within the
        range are equal factors for the same reason. Between the ends, counts and bytes are whole.
        """
        if self.low is None or self.high is None:
            return self
        ends = {"low": self.low, "high": self.high, "mean": math.sqrt(self.low * self.high)}
        if isinstance(end, str):
            return attrs.evolve(self, value=ends[end])
        between = self.low ** (1.0 - end) * self.high**end
        whole = self.unit is not None and (self.unit.is_count or self.unit.dimension == "data")
        return attrs.evolve(self, value=float(round(between)) if whole else between)

    def scaled(self, times: tuple[float, float], origin: str, reason: str) -> ProfileEntry:
        """Return this entry of machine ``origin`` for another machine: low and high times ``times``, noting why."""
        low, high = (self.value, self.value) if self.low is None or self.high is None else (self.low, self.high)
        assert isinstance(low, float) and isinstance(high, float)
        low, high = low * times[0], high * times[1]
        note = f"{self.note}; {reason}" if self.note else reason
        return attrs.evolve(
            self, value=math.sqrt(low * high), low=low, high=high, source_type="scaled", note=note, measured_on=None,
            scaled_from=origin,
        )  # fmt: skip

    def check_replaces(self, base: ProfileEntry) -> None:
        """Raise EntryError unless this entry has the same kind as `base`, the inherited entry that it replaces."""
        if self._kind != base._kind:
            raise EntryError(f"is {self._kind}, but in the base it is {base._kind}")
        if isinstance(self.value, str):
            _text(self.value, base.choices, base.format)

    @property
    def _kind(self) -> str:
        if isinstance(self.value, bool):
            return "true or false"
        if isinstance(self.value, str) or self.unit is None:
            return "a text"
        return f"a quantity of {self.unit.dimension}"

    def overriding(self, given: object) -> ProfileEntry:
        """Return this entry with the value that a user has given.

        This is a number in the entry's own unit, a text with a unit (``"20us"``), a choice, or an end of the range.

        Raises EntryError, also for a text that is a number without the unit that the entry needs.
        """
        if self.reference:
            raise EntryError(f"is only there to compare with, so that setting it would change nothing ({self.note})")
        if self.is_range and given in ("low", "mean", "high"):
            return attrs.evolve(self.at(given), overridden=True)
        value: Value
        if isinstance(self.value, bool):
            value = _truth(given)
        elif isinstance(self.value, str):
            value = _text(given, self.choices, self.format)
        else:
            assert self.unit is not None
            _needs_unit(given, self.unit, self.key)
            value = _number(given, self.unit, self.key)
        return attrs.evolve(self, value=value, low=None, high=None, source="user", source_type="user", overridden=True)


def in_words(error: msgspec.ValidationError) -> str:
    """Return msgspec's message with the name of the wrong field in brackets: ``Expected `str`, got `int` (title)``."""
    reason, _, field = str(error).partition(" - at `$.")
    return f"{reason} ({field.rstrip('`')})" if field else reason


def parse(key: str, raw: object) -> ProfileEntry:
    """Check ``raw``, one entry as the TOML file has it, and return the entry. Raises EntryError with the reason."""
    try:
        text = msgspec.convert(raw, EntryText, strict=True)
    except msgspec.ValidationError as error:
        reason = in_words(error)
        hint = f"; there are {', '.join(get_args(SourceType))}" if reason.endswith("(source_type)") else ""
        if "unknown field" in reason:
            hint = f"; an entry has {', '.join(EntryText.__struct_fields__)}"
        raise EntryError(reason + hint) from None
    if (text.value is None) == (text.range is None):
        raise EntryError("needs exactly one of `value` and `range`")
    common: dict[str, Any] = {
        "key": key,
        "source": text.source,
        "source_type": text.source_type,
        "note": text.note,
        "choices": text.choices,
        "format": text.format,
        "reference": text.reference,
        "measured_on": text.measured_on,
    }
    if isinstance(text.value, (bool, str)):
        if text.unit is not None:
            raise EntryError(f"is {text.value!r}, which is no number, but has the unit {text.unit!r}")
        if isinstance(text.value, str):
            if bool(text.choices) == (text.format is not None):
                raise EntryError(
                    "is a text without `choices` or `format`, or with both; sentences belong into `note` or a comment"
                )
            _text(text.value, text.choices, text.format)
        return ProfileEntry(value=text.value, low=None, high=None, unit=None, **common)
    if text.choices or text.format:
        raise EntryError("has `choices` or a `format`, but is no text")
    if text.unit is None:
        raise EntryError('is a number without a unit (write `unit = "fraction"` for a plain number)')
    try:
        unit = units.unit(text.unit)
    except units.UnitError as error:
        raise EntryError(f"bad unit: {error}") from None
    if text.measured_on is not None and unit.dimension not in ("time", "time / data", "data / time"):
        raise EntryError(f"has `measured_on`, but is neither a time nor a rate ({unit.text})")
    if text.range is None:
        return ProfileEntry(value=_number(text.value, unit, key), low=None, high=None, unit=unit, **common)
    low, high = (_number(end, unit, key) for end in text.range)
    if not 0 < low <= high:
        raise EntryError(f"range [{text.range[0]:g}, {text.range[1]:g}] must be positive and ascending")
    return ProfileEntry(value=math.sqrt(low * high), low=low, high=high, unit=unit, **common)


def _needs_unit(given: object, unit: units.Unit, key: str) -> None:
    """Raise EntryError for text such as "20" where seconds and microseconds are both likely; 0 needs no unit."""
    if unit.is_count or unit.dimension == "fraction" or not isinstance(given, str):
        return
    try:
        value, dimension = units.quantity(given.strip())
    except units.UnitError:
        return  # `_number` says what is wrong with it
    if value and math.isfinite(value) and not dimension:
        example = f"{key}={given.strip()}{unit.text}"
        raise EntryError(f"{given!r} has no unit, and this is a quantity of {unit.dimension}; write {example}")


def _number(given: object, unit: units.Unit, key: str) -> float:
    """Return ``given`` in SI units; a text may have another unit of the same dimension. Raises EntryError."""
    if isinstance(given, bool) or not isinstance(given, (int, float, str)):
        raise EntryError(f"{given!r} is no number")
    if isinstance(given, str):
        try:
            value, dimension = units.quantity(given.strip())
        except units.UnitError:
            told = f"{given!r} is not one number and one unit of {unit.dimension}, as 2{unit.text}"
            raise EntryError(told) from None
        if not dimension:
            value *= unit.factor
        elif dimension != unit.dimension:
            raise EntryError(f"{given!r} is a quantity of {dimension}, this one of {unit.dimension} ({unit.text})")
    else:
        try:
            value = given * unit.factor
        except OverflowError:
            value = math.inf
    if not math.isfinite(value) or value < 0:
        raise EntryError(f"{given!r} must be finite and not negative")
    if value == 0 and (unit.is_count or unit.is_rate or key in _POSITIVE):
        raise EntryError(f"{given!r} must be positive ({unit.text})")
    most = _AT_MOST.get(key, _AT_MOST_UNITS.get(unit.text, _MOST) if unit.is_count else math.inf)
    if value > most:
        raise EntryError(f"{given!r} must be at most {most:.15g}")
    lowest, highest, why = _LIMITS.get(unit.dimension, (0.0, math.inf, ""))
    if not lowest <= value <= highest:
        raise EntryError(f"{given!r} cannot be: {why}")
    if key in _POSITIVE and value != int(value):
        raise EntryError(f"{given!r} must be a whole number of bytes")
    least = _POWERS_OF_TWO.get(key)
    if least and (not least <= value <= 1 << 30 or int(value) != value or int(value).bit_count() != 1):
        raise EntryError(f"{given!r} cannot be: it is a power of two from {least} B to 1 GiB")
    if unit.is_count and value != int(value):
        raise EntryError(f"{given!r} must be a whole number ({unit.text})")
    return float(value)


def _truth(given: object) -> bool:
    """Return the truth value that a user has written in one of the usual ways. Raises EntryError."""
    if isinstance(given, bool):
        return given
    words = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    try:
        return words[str(given).strip().lower()]
    except KeyError:
        raise EntryError(f"{given!r} is neither true nor false") from None


def _text(given: object, choices: tuple[str, ...], format: str | None) -> str:
    """Check a text against its format or its choices and return it. Raises EntryError."""
    if format is not None:
        try:
            FORMATS[format](str(given))
        except ValueError as error:
            raise EntryError(str(error)) from None
    elif given not in choices:
        raise EntryError(f"{given!r} is none of {', '.join(choices)}")
    return str(given)
