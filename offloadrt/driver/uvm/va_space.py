"""The address space of a process with managed memory on several devices (``uvm_va_space_t`` of nvidia-uvm).

Each device has its own page table and its own record of every block (``BlockRecords``); this keeps the records of one
block in agreement, which are that block's state together, and holds what is one for all devices: the space lock, the
block locks and the allocations.  With one device there is nothing to agree upon.

Which device reaches which follows ``uvm_va_space.c``: devices with NVLink reach one another from the start, devices
with PCIe between them once the program has enabled peer access.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Protocol

import attrs

from offloadrt.driver.uvm.locks import UvmLocks
from offloadrt.machine import DiscreteGpu, Machine
from offloadrt.machine.links.link import Link
from offloadrt.machine.managed.block import ManagedBlock
from offloadrt.machine.managed.pages import ManagedPages
from offloadrt.sim import Signal


@attrs.frozen
class PeerCosts:
    """What managed memory costs on several devices besides what it costs on one."""

    unmap: Annotated[float, "numa.peer_unmap"]
    """Seconds of work that take a block's translations away from another device, of which it has some."""
    map: Annotated[float, "numa.peer_map"]
    """Seconds of work that let a device translate pages of a block in another device's memory."""
    access_part: Annotated[float, "numa.peer_access"]
    """Part of a link's bandwidth that a kernel attains in another device's memory."""


class SpaceMember(Protocol):
    """What the space, and other devices, ask of a device's records (``BlockRecords``)."""

    device: DiscreteGpu
    pages: ManagedPages

    def remove(self, begin: int, nbytes: int) -> None:
        """Remove an allocation."""

    def unmap(self, block: ManagedBlock, pages: int) -> None:
        """Take the GPU's translations of these pages away."""

    def protect(self, block: ManagedBlock, pages: int) -> None:
        """Make resident pages read-only."""

    def release_memory(self, block: ManagedBlock) -> None:
        """Give the device memory of a block back, if it has no resident pages."""

    def note_moved(self, direction: Literal["h2d", "d2h", "p2p"], block: ManagedBlock, pages: int) -> int:
        """Count the bytes of pages of a block that migrate, and return them."""

    def map_remote_again(self, block: ManagedBlock) -> None:
        """Restore the translations of what the GPU is advised to access."""


class PeerMover(Protocol):
    """What a device asks of another one that is to have pages (``BlockMover``)."""

    async def fetch(
        self, block: ManagedBlock, brought: int, cost: float, cause: int, *, evicts: bool, stored: int = 0
    ) -> Signal | bool:
        """Migrate pages of a block to the device."""


class HostSide(Protocol):
    """What the space asks of the faults that the host has on one device's memory (``HostFaults``)."""

    async def reclaim(self, index: int, pages: int, writes: bool, cause: int) -> int:
        """Bring back what the device owns of some pages of a block; return how many faults that took."""

    async def send_back(self, index: int, pages: int, cause: int) -> None:
        """Migrate what the device owns of some pages of a block to the host."""

    def touched(self, index: int, pages: int) -> None:
        """Note that the host has translations of some pages of a block."""


class VaSpace:
    """The devices of one process that share its managed memory, each a member once it has joined.

    Wide because it has one method for each thing that devices have to agree upon.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        contends = not machine.spec.flag("uvm_lock.uncontended")
        self.locks = UvmLocks(machine.sim, "uvm space lock", contends=contends)
        self._allocations: dict[int, tuple[int, str]] = {}
        """Bytes and name of each allocation that a driver call made, by its address."""
        self.movers: dict[int, PeerMover] = {}
        """What brings pages to each member, by the index of its device."""
        self.host_sides: list[HostSide] = []
        """What serves the host's faults on the memory of each member."""
        self.shared = False
        """Whether it has several members."""
        self._members: list[SpaceMember] = []
        self._enabled: set[tuple[int, int]] = set()
        self._costs: PeerCosts | None = None

    def join(self, member: SpaceMember, mover: PeerMover, host_side: HostSide) -> None:
        """Add a device, which learns of what was allocated before.

        Raises ProfileError when the profile lacks an entry that several devices need.
        """
        for address, (nbytes, name) in self._allocations.items():
            member.pages.add(address, nbytes, False, name)
        self._members.append(member)
        self.movers[member.device.index] = mover
        self.host_sides.append(host_side)
        self.shared = len(self._members) > 1
        for other in self._members[:-1]:
            for one, two in ((member, other), (other, member)):
                if (links := self._links(one.device.index, two.device.index)) is not None:
                    one.device.reach_peer(two.device.index, links, self.costs.access_part)

    def allocate(self, address: int, nbytes: int, name: str) -> None:
        """Add an allocation, of the object of this name, for all devices; nobody has touched it."""
        self._allocations[address] = nbytes, name
        for member in self._members:
            member.pages.add(address, nbytes, False, name)

    def free(self, address: int) -> bool:
        """Remove an allocation from all devices; return False when none begins there."""
        if address not in self._allocations:
            return False
        nbytes, _ = self._allocations.pop(address)
        for member in self._members:
            member.remove(address, nbytes)
        return True

    @property
    def costs(self) -> PeerCosts:
        """Return what several devices cost besides; only a machine that has several needs these entries."""
        if self._costs is None:
            self._costs = self.machine.spec.read(PeerCosts)
        return self._costs

    # who reaches whom

    def enable_peer(self, device: int, peer: int) -> None:
        """Note that the program has enabled access of a device to another's memory."""
        self._enabled |= {(device, peer), (peer, device)}

    def reaches(self, device: int, other: int) -> bool:
        """Tell whether a device translates, and copies, memory of another one."""
        peers = self.machine.peers
        if peers is None or not peers.can_access(device, other):
            return False
        return peers.topology.links(device, other) > 0 or (device, other) in self._enabled

    def _links(self, device: int, other: int) -> dict[str, Link] | None:
        """Return the link from and the link to another device; None without any."""
        peers = self.machine.peers
        if peers is None or not peers.can_access(device, other):
            return None
        return {"h2d": peers.links[other, device], "d2h": peers.links[device, other]}

    def link(self, source: int, destination: int) -> Link | None:
        """Return the link that a migration between two devices takes; None: it goes through the host."""
        if self.machine.peers is None or not self.reaches(destination, source):
            return None
        return self.machine.peers.links[source, destination]

    # the records of one block

    def others(self, device: int, index: int) -> Iterator[tuple[SpaceMember, ManagedBlock]]:
        """Yield the devices other than one with their records of a block."""
        for other in self._members:
            if other.device.index != device:
                yield other, other.pages.block(index)

    def everywhere(self, index: int) -> Iterator[tuple[SpaceMember, ManagedBlock]]:
        """Yield all devices with their records of a block."""
        for member in self._members:
            yield member, member.pages.block(index)

    def records(self, index: int) -> Iterator[ManagedBlock]:
        """Yield the records of a block, one for each device."""
        for member in self._members:
            yield member.pages.block(index)

    def arrived(self, device: int, index: int, pages: int) -> None:
        """Agree that pages of a block are in the memory of a device now."""
        for other, block in self.others(device, index):
            block.populated |= pages
            block.elsewhere |= pages
            other.map_remote_again(block)

    def left(self, device: int, index: int, pages: int) -> None:
        """Agree that pages of a block are in the memory of a device no more; who reached them there has to fault."""
        records = [*self.records(index)]
        for other, block in self.others(device, index):
            if there := block.at_peers.get(device, 0) & pages:
                other.unmap(block, there)
        for block in records:
            elsewhere = 0
            for one in records:
                elsewhere |= one.resident if one is not block else 0
            block.elsewhere = elsewhere

    def has_host_copy(self, index: int, pages: int, *, valid: bool) -> None:
        """Agree whether the host has valid copies of pages of a block that devices have."""
        for block in self.records(index):
            block.host_copy = block.host_copy | pages if valid else block.host_copy & ~pages

    def came_home(self, index: int) -> None:
        """Restore what the devices are advised to translate of a block, some of which is the host's now."""
        for member in self._members:
            member.map_remote_again(member.pages.block(index))

    def read_mostly(self, index: int, pages: int) -> None:
        """Have reads of pages of a block make copies from now on; kernels that run already store as before."""
        for member, block in self.everywhere(index):
            member.pages.tell_stores_apart()
            block.read_mostly |= pages

    def not_read_mostly(self, index: int, pages: int) -> None:
        """Have pages of a block one place again: the device that prefers them, else the host, else the first device."""
        places, kept = [*self.everywhere(index)], []
        left = on_host = 0
        for _, block in places:
            block.read_mostly &= ~pages
            left |= block.read_only & pages
            on_host |= block.host_copy & pages
        for _, block in places:
            kept.append(left & block.resident & block.prefers_here)
            left &= ~kept[-1]
        left &= ~on_host
        for place, (_, block) in enumerate(places):
            kept[place] |= left & block.resident
            left &= ~kept[place]
        for own, (member, block) in zip(kept, places, strict=True):
            member.unmap(block, block.read_only & pages & ~own)
            member.release_memory(block)
            member.pages.protect(block, own, read_only=False)
        self.has_host_copy(index, pages, valid=False)

    def preferred_by_others(self, device: int, index: int) -> int:
        """Return the pages of a block that are to stay on another device which this one reaches."""
        pages = 0
        for other, block in self.others(device, index):
            if block.prefers_here and self.reaches(device, other.device.index):
                pages |= block.prefers_here
        return pages
