"""What carries messages: the network cards of the nodes, the switches between them, and shared memory.

``Nic`` sends the messages of its queue one after the other (its message rate); messages that are under way share its
bandwidth. Between nodes of one switch that is all. Between two switches a message also takes its share of the switches'
uplinks. One actor of the card carries each message until it has arrived. No time here is a formula in the number of
ranks, nodes or messages.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence

import attrs

from offloadrt.extensions.mpi.costs import MessageCosts
from offloadrt.machine.links.link import Link, LinkStatistics, Shared, Way
from offloadrt.machine.servers import Servers
from offloadrt.sim import Mailbox, Simulation, Station


@attrs.frozen(eq=False)
class NicPacket:
    """A packet between network cards: a message, its announcement, a request for announced data, or that data.

    `destination` is the card that receives it.
    """

    destination: Nic
    nbytes: int
    cap: float
    """The largest rate, in bytes per second, at which its bytes can be read."""
    is_fetched: bool
    """Whether the card has to read its bytes from memory, which takes `nic.fetch` seconds."""
    arrived: Callable[[], None]
    """Called when the packet has arrived."""


@attrs.frozen(eq=False)
class SharedMemoryPacket:
    """A cache line in shared memory for another core of the node; `arrived` is called when that core has it."""

    arrived: Callable[[], None]


MESSAGES = (NicPacket, SharedMemoryPacket)


def _alike(name: str) -> Callable[[int], str]:
    """Return a function that gives all actors of one part the same name, so that reports add them up."""
    return lambda _: name


class Nic:
    """Network card `number` of a node. `send` queues a packet; sending and receiving do not disturb each other."""

    def __init__(self, sim: Simulation, network: Network, node: int, number: int, costs: MessageCosts) -> None:
        self.name = f"node {node} nic {number}"
        self.node = node
        self._sim = sim
        self._network = network
        self._costs = costs
        uncontended = costs.nic.uncontended
        bandwidth = costs.nic.bandwidth
        self.out = Link(sim, f"{self.name} out", bandwidth, uncontended=uncontended)
        self.into = Link(sim, f"{self.name} in", bandwidth, uncontended=uncontended)
        self._gate = None if uncontended else Station(sim, 1, f"{self.name} send queue")
        mailbox = Mailbox(sim, self.name)
        self._servers: Servers[NicPacket] = Servers(sim, mailbox, self._run, _alike(self.name), grow=True, service=True)
        self.send = self._servers.submit
        """Put a packet into the card's queue."""

    async def _run(self) -> None:
        """Carry one packet after the other, for ever, as one of the card's actors."""
        get, sim, costs = self._servers.mailbox.get, self._sim, self._costs
        gap = costs.nic.message_gap
        while True:
            packet = await get()
            if not isinstance(packet, NicPacket):
                raise TypeError(f"a network card does not understand {packet!r}")
            if gap:
                await (sim.sleep(gap) if self._gate is None else self._gate.serve(gap))
            if packet.is_fetched:
                await sim.sleep(costs.nic.fetch)
            if packet.nbytes:
                await self._network.way(self, packet.destination).serve(packet.nbytes, packet.cap)
            await sim.sleep(self._network.latency(self.node, packet.destination.node))
            self._servers.done()
            packet.arrived()


class Network:
    """The cards of all nodes, and the switches between the nodes."""

    def __init__(self, sim: Simulation, nodes: int, costs: MessageCosts) -> None:
        self._sim = sim
        self._costs = costs
        self.nics = [
            [Nic(sim, self, node, number, costs) for number in range(costs.nic.count)] for node in range(nodes)
        ]
        """The cards of each node, by node number."""
        per_switch = costs.network.switch_nodes
        self._switch = [node // per_switch for node in range(nodes)]
        uplink, uncontended = costs.network.uplink_bw, costs.network.uncontended
        switches = range(max(self._switch) + 1)
        self._up = [Link(sim, f"switch {number} up", uplink, uncontended=uncontended) for number in switches]
        self._down = [Link(sim, f"switch {number} down", uplink, uncontended=uncontended) for number in switches]
        self._ways: dict[tuple[Nic, Nic], Shared] = {}
        self._shared: list[Servers[SharedMemoryPacket]] = []
        for node in range(nodes):
            name = f"node {node} shared memory"
            mailbox = Mailbox(sim, name)
            self._shared.append(
                Servers(sim, mailbox, self._memory(mailbox, node), _alike(name), grow=True, service=True)
            )

    def nic_of(self, node: int, local: int) -> Nic:
        """Return the card of a rank; `local` is the rank's number on its node: ranks take the node's cards in turn."""
        cards = self.nics[node]
        return cards[local % len(cards)]

    def latency(self, source: int, destination: int) -> float:
        """Return the latency in seconds from a card of the node `source` to one of the node `destination`."""
        costs = self._costs.network
        return costs.latency + (costs.hop if self._switch[source] != self._switch[destination] else 0.0)

    def way(self, source: Nic, destination: Nic) -> Shared:
        """Return all links that the bytes of a packet pass from card `source` to card `destination`.

        Other packets may share these links.
        """
        if (way := self._ways.get((source, destination))) is None:
            links: list[Shared] = [source.out, destination.into]
            here, there = self._switch[source.node], self._switch[destination.node]
            if here != there:
                links += self._up[here], self._down[there]
            way = self._ways[source, destination] = Way(self._sim, source.name, links)
        return way

    def to_core(self, node: int, arrived: Callable[[], None]) -> None:
        """Call `arrived` when another core of the node sees what was just written to shared memory."""
        self._shared[node].submit(SharedMemoryPacket(arrived))

    def _memory(self, mailbox: Mailbox, node: int) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            while True:
                packet = await mailbox.get()
                if not isinstance(packet, SharedMemoryPacket):
                    raise TypeError(f"shared memory does not understand {packet!r}")
                await self._sim.sleep(self._costs.shared.latency)
                self._shared[node].done()
                packet.arrived()

        return run

    def statistics(self) -> dict[str, LinkStatistics]:
        """Return the statistics of all links that have transferred something, by name."""
        cards: Sequence[Nic] = [nic for cards in self.nics for nic in cards]
        links = [*(link for nic in cards for link in (nic.out, nic.into)), *self._up, *self._down]
        return {link.name: link.statistics() for link in links if link.used}


UNLIMITED = math.inf
