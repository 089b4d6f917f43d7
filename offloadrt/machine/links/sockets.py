"""Memory of the host at several sockets: where a range lies, and the links between the sockets.

Memory lies at each device's own socket unless a program says otherwise (``mbind``).  What a device transfers from or to
memory of another socket passes the link between the two as well, and so does what a thread stages for it: staging
memory is at the device's socket.  All who use a direction of that link share its bandwidth.
"""

from __future__ import annotations

from functools import cached_property

from offloadrt.machine.links.link import Link, Shared, Way
from offloadrt.machine.memory.address_map import AddressMap
from offloadrt.machine.profile.machine_spec import MachineSpec, ProfileError
from offloadrt.machine.profile.node import NodeTopology, node_topology
from offloadrt.sim import Simulation


class SocketMemory:
    """The memory of all sockets, which all processes share."""

    def __init__(self, sim: Simulation, spec: MachineSpec) -> None:
        self._sim = sim
        self._spec = spec
        self._bound: AddressMap[tuple[int, int]] = AddressMap()
        """(end, socket) of the ranges that a program has bound, by begin."""
        self._links: dict[tuple[int, int], Link] = {}

    @cached_property
    def _node(self) -> NodeTopology:
        return node_topology(self._spec)

    @property
    def links(self) -> list[Link]:
        """Return the links that anything has passed."""
        return [*self._links.values()]

    def bind(self, begin: int, nbytes: int, socket: int) -> None:
        """Let a range lie at a socket, which it replaces if it was bound before.

        Raises ProfileError when the machine's sockets are not described, and ValueError for one that there is not.
        """
        sockets = len(self._node.sockets)
        if not sockets:
            reason = 'is none, so that nothing is known of sockets: set it, as in "0" or "0,1 2,3"'
            raise ProfileError(self._spec.path, "pcie.sockets", reason)
        if not 0 <= socket < sockets:
            raise ValueError(f"socket {socket!r} does not exist: pcie.sockets has {sockets}")
        self._bound.pop(begin)
        self._bound[begin] = begin + nbytes, socket

    def link(self, address: int, device: int, *, to_device: bool) -> Link | None:
        """Return the link that a transfer between memory and a device passes; None if the memory is near it."""
        if not len(self._bound) or (entry := self._bound.before(address)) is None:
            return None
        (end, socket), near = entry[1], self._node.socket_of(device)
        if address >= end or near is None or near == socket:
            return None
        way = (socket, near) if to_device else (near, socket)
        if (link := self._links.get(way)) is None:
            bandwidth = self._spec.value("numa.socket_bw")
            uncontended = self._spec.flag("numa.socket.uncontended")
            name = f"memory link of sockets {way[0]}-{way[1]}"
            link = self._links[way] = Link(self._sim, name, bandwidth, uncontended=uncontended)
        return link


def passing(sim: Simulation, near: Shared, link: Link) -> Shared:
    """Return the way of a transfer that passes a device's own link and one between sockets."""
    return Way(sim, link.name, (near, link))
