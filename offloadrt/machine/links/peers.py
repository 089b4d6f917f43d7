"""The links between the devices of a machine, and the way that a copy between two of them takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from offloadrt.machine.device import Device
from offloadrt.machine.links.peer_link import LinkStatistics, PeerLink
from offloadrt.machine.links.peer_relay import PeerRelay, RelaySpec
from offloadrt.machine.profile.machine_spec import MachineSpec, ProfileError
from offloadrt.machine.profile.topology import Topology
from offloadrt.sim import Simulation


@attrs.frozen
class Route:
    """The way of a copy between two devices."""

    link: PeerLink | None = None
    """The link over which it goes directly; None for a copy through a relay."""
    via: int | None = None
    """The device that relays it; None for the host."""


class Peers:
    """The discrete devices of one run as peers of one another.

    ``links`` holds the links of each direction, by (source, destination).

    Raises ProfileError when the profile has fewer devices, or links of devices that do not exist.
    """

    def __init__(
        self, sim: Simulation, spec: MachineSpec, devices: Sequence[Device], next_number: Callable[[], int]
    ) -> None:
        self.topology = devices_linked(spec)
        if len(devices) > (most := spec.count("gpu.devices")):
            raise ProfileError(spec.path, "gpu.devices", f"is {most}, but the run asks for {len(devices)} devices")
        bandwidth, uncontended = spec.value("nvlink.link_bw"), spec.flag("peer_link.uncontended")
        numbers = range(len(devices))
        self.links = {
            (source, destination): PeerLink(sim, source, destination, links * bandwidth, uncontended=uncontended)
            for source in numbers
            for destination in numbers
            if (links := self.topology.links(source, destination))
        }
        self.relay = PeerRelay(sim, spec.read(RelaySpec), devices, self.links, next_number)
        self._devices = len(devices)
        self._without_link = spec.text("p2p.without_link")
        self._over = {pair: Route(link) for pair, link in self.links.items()}
        for device in devices:
            device.relay = self.relay

    @property
    def linked(self) -> bool:
        """Tell whether the machine's profile has links between devices at all."""
        return bool(self.topology.pairs)

    def can_access(self, source: int, destination: int) -> bool:
        """Tell whether one device can reach the other's memory: they have a link."""
        return self.topology.links(source, destination) > 0

    def route(self, source: int, destination: int, access: bool) -> Route:
        """Return the way of a copy; ``access``: peer access is enabled, without which no link is used."""
        if (over := self._over.get((source, destination))) is not None:
            return over if access else Route()
        if self._without_link == "neighbour":
            return Route(via=self.topology.neighbour(source, destination, self._devices))
        return Route()

    def statistics(self) -> dict[str, LinkStatistics]:
        """Return by name what the links did that something has been transferred over."""
        return {link.name: link.statistics() for link in self.links.values() if link.used}


def devices_linked(spec: MachineSpec) -> Topology:
    """Return the profile's links between devices.

    Raises ProfileError for links of devices that the machine does not have.
    """
    topology, devices = spec.topology("nvlink.topology"), spec.count("gpu.devices")
    if topology.highest >= devices:
        reason = f"links device {topology.highest}, but gpu.devices is {devices}"
        raise ProfileError(spec.path, "nvlink.topology", reason)
    return topology
