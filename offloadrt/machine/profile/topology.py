"""The direct links between the devices of a machine.

In a profile a topology is a text: ``"0-1 0-2:2"`` means one link between devices 0 and 1, two between 0 and 2, and none
between 1 and 2; ``"none"`` means that there are no links.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

import attrs

NO_LINKS = "none"
_PAIR = re.compile(r"(\d+)-(\d+)(?::(\d+))?")

WithoutLink = Literal["host", "neighbour"]
"""Which way a copy between devices without a link takes: through the host, or through a third device linked to both."""


class TopologyError(ValueError):
    """A text that describes no topology; the message names the part that is wrong and says why."""


@attrs.frozen
class Topology:
    """The direct links between devices."""

    pairs: Mapping[tuple[int, int], int]
    """The number of links of each pair of devices that has any; the lower device of a pair comes first."""

    def links(self, one: int, other: int) -> int:
        """Return how many links two devices have."""
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
    pairs: dict[tuple[int, int], int] = {}
    words = text.split()
    if not words:
        raise TopologyError(f'is empty; write "{NO_LINKS}" for devices without links')
    for word in words if text.strip() != NO_LINKS else ():
        match = _PAIR.fullmatch(word)
        if match is None:
            raise TopologyError(f'{word!r} is no pair of devices; write "0-1" for one link, "0-1:2" for two')
        one, other, links = int(match[1]), int(match[2]), int(match[3] or 1)
        if one == other:
            raise TopologyError(f"{word!r} links device {one} to itself")
        if links == 0:
            raise TopologyError(f"{word!r} has no link; leave out pairs without one")
        pair = (min(one, other), max(one, other))
        if pair in pairs:
            raise TopologyError(f"{word!r}: devices {pair[0]} and {pair[1]} come twice")
        pairs[pair] = links
    return Topology(pairs)
