"""How the devices of a machine hang together: links between them, PCIe switches, sockets.

In a profile each is a text.  Links: ``"0-1 0-2:2"`` means one link between devices 0 and 1, two between 0 and 2, and
none between 1 and 2; ``"switch:18"`` that each device has 18 links to a switch that connects all of them.  Groups:
``"0,1 2,3"`` means that devices 0 and 1 are together, and so are 2 and 3.  ``"none"`` means that there are none.
``node.py`` checks the entries of one machine together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

import attrs

NO_LINKS = "none"
_PAIR = re.compile(r"(\d+)-(\d+)(?::(\d+))?")
_SWITCH = re.compile(r"switch:(\d+)")
_GROUP = re.compile(r"\d+(,\d+)*")

WithoutLink = Literal["host", "neighbour"]
"""Which way a copy between devices without a link takes: through the host, or through a third device linked to both."""

Groups = tuple[tuple[int, ...], ...]
"""Devices that are together, as below one PCIe switch; a device is in one group at most."""


class TopologyError(ValueError):
    """A text that describes no topology; the message names the part that is wrong and says why."""


@attrs.frozen
class Topology:
    """The direct links between devices, or those of each device to a switch."""

    pairs: Mapping[tuple[int, int], int]
    """The number of links of each pair of devices that has any; the lower device of a pair comes first."""
    to_switch: int = 0
    """The number of links of every device to a switch that connects all devices; 0 for none."""

    def __bool__(self) -> bool:
        return bool(self.pairs) or self.to_switch > 0

    def links(self, one: int, other: int) -> int:
        """Return how many links two devices have."""
        if self.to_switch:
            return self.to_switch if one != other else 0
        return self.pairs.get((min(one, other), max(one, other)), 0)

    @property
    def highest(self) -> int:
        """Return the highest number of a device that has a link; -1 if no device has one."""
        return max((high for _, high in self.pairs), default=-1)

    def neighbour(self, source: int, destination: int, devices: int) -> int | None:
        """Return the device of 0 to ``devices - 1`` through which a copy can go over two links; None if there is none.

        It is the device whose narrower side has the most links, and the lowest of those.  The rule is ours:
        CUDA goes through the host, so there is no driver to follow.
        """
        best, most = None, 0
        for device in range(devices):
            narrower = min(self.links(source, device), self.links(device, destination))
            if narrower > most:
                best, most = device, narrower
        return best


def parse(text: str) -> Topology:
    """Read the topology that a text describes.

    Raises TopologyError.
    """
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
    """Read the groups of devices that a text describes.

    Raises TopologyError.
    """
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
    """Return the words of a text, none for ``"none"``.

    Raises TopologyError for an empty text.
    """
    if not (words := text.split()):
        raise TopologyError(f'is empty; write "{NO_LINKS}" for devices without {what}')
    return [] if text.strip() == NO_LINKS else words
