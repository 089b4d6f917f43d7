"""The tree of PCIe: links of switches to the host, and the link between the sockets, which devices share.

A copy between a device below a switch and the host passes the device's own link and the switch's.  A copy between two
devices that reach one another over PCIe passes the links of both, those of their switches if these are two, and the
link between the sockets if they are at two.  A switch's link to the host is as wide as that of a device.
"""

from __future__ import annotations

from collections.abc import Sequence

from offloadrt.machine.device import DiscreteGpu
from offloadrt.machine.links.link import Link, Shared
from offloadrt.machine.profile.machine_spec import MachineSpec
from offloadrt.machine.profile.node import NodeTopology
from offloadrt.sim import Simulation

_UP, _DOWN = "d2h", "h2d"
"""Directions of a device's and of a switch's link, as copy engines name them: to the host, and from it."""


class PcieTree:
    """The shared links above the devices of one run."""

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
            if (switch := node.switch_of(device.index)) is not None:
                for direction in (_UP, _DOWN):
                    device.engines[direction].pass_also(self._switches[switch, direction])

    @property
    def links(self) -> list[Link]:
        """Return the shared links, each direction by itself."""
        return [*self._switches.values(), *self._sockets.values()]

    def way(self, source: int, destination: int) -> list[Shared]:
        """Return what a copy between two devices over PCIe passes, beginning with the source's own link."""
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
