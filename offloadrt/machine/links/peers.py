"""The links between the devices of a machine, and the way that a copy between two of them takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from offloadrt.machine.device import DiscreteGpu
from offloadrt.machine.links.link import Link, LinkStatistics, Shared
from offloadrt.machine.links.pcie import PcieTree
from offloadrt.machine.links.peer_relay import PeerRelay, RelaySpec
from offloadrt.machine.profile.machine_spec import MachineSpec, ProfileError
from offloadrt.machine.profile.node import node_topology
from offloadrt.sim import Simulation


@attrs.frozen
class Route:
    """The way of a copy between two devices."""

    link: Link | None = None
    """The link over which it goes directly; None for a copy through a relay."""
    via: int | None = None
    """The device that relays it; None for the host."""


class Peers:
    """The discrete devices of one run as peers of one another.

    ``links`` holds the links of each direction, by (source, destination): NVLink or xGMI, else PCIe where devices reach
    one another's memory over it.

    Raises ProfileError when the profile has fewer devices, or entries of its topology that contradict one another.
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
            (device, direction): Link(sim, f"device {device} nvlink {direction}", to_switch, uncontended=uncontended)
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
        """Tell whether any two devices of the machine's profile reach one another's memory."""
        return self.node.has_peers

    def can_access(self, source: int, destination: int) -> bool:
        """Tell whether one device can reach the other's memory: over a link, or over PCIe."""
        return (source, destination) in self.links

    def route(self, source: int, destination: int, access: bool) -> Route:
        """Return the way of a copy; ``access``: peer access is enabled, without which no link is used."""
        if (over := self._over.get((source, destination))) is not None:
            return over if access else Route()
        if self._without_link == "neighbour":
            return Route(via=self.topology.neighbour(source, destination, self._devices))
        return Route()

    def statistics(self) -> dict[str, LinkStatistics]:
        """Return by name what the links did that something has been transferred over."""
        links = [*self.links.values(), *self._ports.values(), *self._pcie.links]
        return {link.name: link.statistics() for link in links if link.used}
