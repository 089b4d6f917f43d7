"""How the devices of a machine reach one another and the host's memory: peer links, the tree of PCIe, sockets.

`Peers` says which way a copy between two devices takes; `node_topology` checks the profile's entries together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import attrs

from offloadrt.address_map import AddressMap
from offloadrt.machine.device import DiscreteGpu
from offloadrt.machine.links.engines import PeerRelay, RelaySpec
from offloadrt.machine.links.link import Link, LinkStatistics, Shared
from offloadrt.machine.profile.machine_spec import MachineSpec, NodeTopology, ProfileError, node_topology
from offloadrt.sim import Simulation

_UP, _DOWN = "d2h", "h2d"
"""Directions of the link of a device or a switch, in the copy engines' terms: to the host, and from the host."""


# ---------------------------------------------------------------------- the tree of PCIe
# The tree of PCIe: links of switches to the host, and the link between the sockets, which devices share.
#
# A copy between a device below a switch and the host passes the device's own link and the switch's. A copy between
# two devices that reach one another over PCIe passes the links of both, those of their switches if these are two, and
# the link between the sockets if they are at two. A switch's link to the host is as wide as that of a device.
class PcieTree:
    """The PCIe links above the devices of one run, at switches and sockets, which several devices share."""

    def __init__(self, sim: Simulation, spec: MachineSpec, node: NodeTopology, devices: Sequence[DiscreteGpu]) -> None:
        uncontended = spec.flag("pcie_switch.uncontended")
        self._node = node
        self._devices = devices
        self._switches: dict[tuple[int, str], Link] = {}
        for number in range(len(node.switches)):
            for direction in (_UP, _DOWN):
                name, bandwidth = f"pcie switch {number} {direction}", spec.value(f"link.{direction}_pinned")
                self._switches[number, direction] = Link(sim, name, bandwidth, uncontended=uncontended)
        self._sockets = {
            (source, destination): Link(
                sim, f"socket link {source}-{destination}", spec.value("pcie.socket_bw"), uncontended=uncontended
            )
            for source in range(len(node.sockets))
            for destination in range(len(node.sockets))
            if source != destination
        }
        for device in devices:
            if (switch := node.switch_of(device.local)) is not None:
                for direction in (_UP, _DOWN):
                    device.engines[direction].pass_also(self._switches[switch, direction])

    @property
    def links(self) -> list[Link]:
        """Return the shared links, each direction as a link of its own."""
        return [*self._switches.values(), *self._sockets.values()]

    def way(self, source: int, destination: int) -> list[Shared]:
        """Return the links that a copy between two devices passes over PCIe, the source device's own link first."""
        lanes = (
            self._devices[source].engines[_UP].share_lanes(),
            self._devices[destination].engines[_DOWN].share_lanes(),
        )
        way: list[Shared] = [*lanes]
        switches = self._node.switch_of(source), self._node.switch_of(destination)
        if switches[0] != switches[1]:
            above = zip(switches, (_UP, _DOWN), strict=True)
            way += [self._switches[switch, direction] for switch, direction in above if switch is not None]
        sockets = self._node.socket_of(source), self._node.socket_of(destination)
        if sockets[0] is not None and sockets[1] is not None and sockets[0] != sockets[1]:
            way.append(self._sockets[sockets[0], sockets[1]])
        return way


@attrs.frozen
class Route:
    """Says how a copy goes between two devices: over a link, over two links through device ``via``, or by the host."""

    link: Link | None = None
    """The direct link; None for a copy through a relay."""
    via: int | None = None
    """The device that relays the copy; None for the host."""


class Peers:
    """The discrete devices of one run as peers: which can access which other's memory, and over which links.

    ``links`` holds the links of each direction, by (source, destination): NVLink or xGMI, else PCIe where devices reach
    one another's memory over it. ``next_number`` returns the number of the next copy.

    Raises ProfileError for more `devices` than the profile has, and for contradictory entries of its topology.
    """

    def __init__(
        self, sim: Simulation, spec: MachineSpec, devices: Sequence[DiscreteGpu], next_number: Callable[[], int]
    ) -> None:
        self.node = spec.derived(node_topology)
        self.topology = self.node.links
        if len(devices) > (most := spec.count("gpu.devices")):
            raise ProfileError(spec.path, "gpu.devices", f"is {most}, but the run asks for {len(devices)} devices")
        self._pcie = PcieTree(sim, spec, self.node, devices)
        numbers = range(len(devices))
        bandwidth, uncontended = spec.value("nvlink.link_bw"), spec.flag("peer_link.uncontended")
        cap = spec.value("p2p.engine_bw")
        pcie_bandwidth = min(spec.value("link.d2h_pinned"), spec.value("link.h2d_pinned"))
        to_switch = self.topology.to_switch * bandwidth
        self._ports = {
            (device, direction): Link(
                sim, f"device {devices[device].index} nvlink {direction}", to_switch, uncontended=uncontended
            )
            for device in (numbers if to_switch else ())
            for direction in ("out", "in")
        }
        self.links: dict[tuple[int, int], Link] = {}
        for source in numbers:
            for destination in numbers:
                behind: list[Shared] = []
                if links := self.topology.links(source, destination):
                    width = links * bandwidth
                    if to_switch:
                        behind += self._ports[source, "out"], self._ports[destination, "in"]
                elif self.node.are_pcie_peers(source, destination):
                    width, behind = pcie_bandwidth, self._pcie.way(source, destination)
                else:
                    continue
                name = f"peer link {source}-{destination}"
                link = Link(sim, name, width, uncontended=uncontended, cap=cap, behind=behind)
                self.links[source, destination] = link
        self.relay = PeerRelay(sim, spec.read(RelaySpec), devices, self.links, next_number)
        self._devices = len(devices)
        self._without_link = spec.text("p2p.without_link")
        self._over = {pair: Route(link) for pair, link in self.links.items()}
        for device in devices:
            device.relay = self.relay

    @property
    def linked(self) -> bool:
        """Tell whether any two devices of the machine reach one another's memory."""
        return self.node.has_peers

    def can_access(self, source: int, destination: int) -> bool:
        """Tell whether device ``source`` can access the memory of ``destination``: over a link, or over PCIe."""
        return (source, destination) in self.links

    def route(self, source: int, destination: int, access: bool) -> Route:
        """Return how a copy goes between two devices. Without ``access`` (enabled peer access), no link is used."""
        if (over := self._over.get((source, destination))) is not None:
            return over if access else Route()
        if self._without_link == "neighbour":
            return Route(via=self.topology.neighbour(source, destination, self._devices))
        return Route()

    def statistics(self) -> dict[str, LinkStatistics]:
        """Return the statistics of the links that have been used, by name."""
        links = [*self.links.values(), *self._ports.values(), *self._pcie.links]
        return {link.name: link.statistics() for link in links if link.used}


# ---------------------------------------------------------------------- sockets
# Memory of the host at several sockets: where a range lies, and the links between the sockets.
#
# Memory lies at each device's own socket unless a program says otherwise (``mbind``). What a device transfers from or
# to memory of another socket passes the link between the two as well, and so does what a thread stages for it:
# staging memory is at the device's socket. All who use a direction of that link share its bandwidth.
class SocketMemory:
    """Says at which of the host's sockets memory lies, and which link between sockets a transfer needs."""

    def __init__(self, sim: Simulation, spec: MachineSpec) -> None:
        self._sim = sim
        self._spec = spec
        self._bound: AddressMap[tuple[int, int]] = AddressMap()
        """The ranges that a program has bound to a socket: (end, socket) by begin."""
        self._links: dict[tuple[int, int], Link] = {}

    @cached_property
    def _node(self) -> NodeTopology:
        return node_topology(self._spec)

    @property
    def links(self) -> list[Link]:
        """Return the links between sockets that any transfer has passed."""
        return [*self._links.values()]

    def bind(self, begin: int, nbytes: int, socket: int) -> None:
        """Bind a range of host memory to a socket; the rest of an older range that overlaps stays bound as before.

        Raises ProfileError when the machine's sockets are not described, ValueError for a socket that does not exist.
        """
        sockets = len(self._node.sockets)
        if not sockets:
            reason = 'is none, so that nothing is known of sockets: set it, as in "0" or "0,1 2,3"'
            raise ProfileError(self._spec.path, "pcie.sockets", reason)
        if not 0 <= socket < sockets:
            raise ValueError(f"socket {socket!r} does not exist: pcie.sockets has {sockets}")
        end = begin + nbytes
        while (entry := self._bound.before(end - 1)) is not None and entry[1][0] > begin:
            first, (last, other) = entry
            self._bound.pop(first)
            for low, high in ((first, begin), (end, last)):
                if low < high:
                    self._bound[low] = high, other
        if nbytes:
            self._bound[begin] = end, socket

    def link(self, address: int, device: int, *, to_device: bool) -> Link | None:
        """Return the link between sockets for a copy of `address` to or from a device; None at the device's socket."""
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
