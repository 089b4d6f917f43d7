"""The entries that say how the devices of one machine hang together, read and checked as one."""

from __future__ import annotations

import attrs

from offloadrt.machine.profile.machine_spec import MachineSpec, ProfileError
from offloadrt.machine.profile.topology import Groups, Topology


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
