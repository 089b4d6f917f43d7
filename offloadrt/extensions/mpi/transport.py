"""How a message travels: eager or by rendezvous, through shared memory or over the network, from host or device memory.

A short message is *eager*: its sender copies it into memory of the library and goes on, and its receiver copies it out
later. A long message is announced. When a receive matches, the receiver fetches the data out of the sender's memory and
tells the sender when it has all of it. On the same node a core copies the data (CMA, XPMEM); between nodes the network
card reads it (RDMA). MPI libraries do so over UCX and libfabric ("get" rendezvous: UCX's UCX_RNDV_SCHEME get_zcopy,
Open MPI's cm and ob1, MPICH's ch4 over ofi).

For an eager message in device memory, a core copies the bytes or the card reads them. Copies of eager messages stay in
the caches and take a core only; a single copy also takes its share of the memory's bandwidth. In a rendezvous the card
reads device memory (GPUDirect RDMA), or the bytes pass through host memory in chunks, by a pipeline of copy engines and
card (`mpi.device.path`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from offloadrt.extensions.mpi.buffers import MpiBuffer
from offloadrt.extensions.mpi.costs import MessageCosts
from offloadrt.extensions.mpi.network import UNLIMITED, Network, NicPacket
from offloadrt.extensions.mpi.requests import Endpoint, MpiMessage, MpiRequest
from offloadrt.machine import DiscreteGpu
from offloadrt.sim import Signal, Simulation
from offloadrt.trace import events


class Transport:
    """Sends and receives messages for all ranks of a run."""

    def __init__(self, sim: Simulation, costs: MessageCosts, network: Network) -> None:
        self._sim = sim
        self._costs = costs
        self.network = network
        self._numbers = 0

    # ------------------------------------------------------------------ what both ways have in common

    async def send(
        self,
        endpoint: Endpoint,
        request: MpiRequest,
        receiver: Endpoint,
        context: int,
        source: int,
        tag: int,
        synchronous: bool = False,
    ) -> None:
        """Begin to send the buffer of `request` to another rank.

        The request completes at once for a short message (eager), or when the receiver has the data. context, source,
        tag: the communicator's number, this rank's number in it, and the message's tag. synchronous: complete only when
        a receive has matched the message. endpoint: that of the sending rank.
        """
        buffer = request.buffer
        near = receiver.node == endpoint.node
        limit = self._costs.shared.eager_limit if near else self._costs.library.eager_limit
        eager = buffer.nbytes <= limit and not synchronous
        # The place among the sender's messages is that of the call, not of the end of its copy: threads may overlap.
        sequence = endpoint.next_sequence(receiver)
        self._numbers += 1
        message = MpiMessage(
            self._numbers, context, source, tag, buffer.nbytes, sequence, endpoint, request, eager,
            buffer.read() if eager else None,
        )  # fmt: skip
        if context % 2 == 0:
            endpoint.unmatched[message.number] = message
        if (trace := endpoint.trace) is not None:
            told = self._numbers, endpoint.rank, receiver.rank, tag, buffer.nbytes
            trace(events.MessageSent, events.NONE, events.NONE, events.NO_CAUSE, *told)
        if buffer.blocks > 1:
            await self._pack(endpoint, buffer)
        await (self._send_near if near else self._send_far)(endpoint, message, receiver)

    def receive(self, endpoint: Endpoint, request: MpiRequest, message: MpiMessage) -> None:
        """Begin to receive a message that a receive has matched.

        The rest of the work is left to the threads of the process that are in MPI calls, or to its network card.
        endpoint, request: those of the receiving rank, and its receive.
        """
        near = message.sender.node == endpoint.node
        if message.eager:
            endpoint.add_work(lambda: self._take_in(endpoint, request, message, near))
        elif near:
            endpoint.add_work(lambda: self._copy_over(endpoint, request, message))
        elif self._costs.library.progress == "hardware":
            self._sim.spawn(
                self._fetch, endpoint, request, message, name=f"rank {endpoint.rank} rendezvous", daemon=True
            )
        else:
            endpoint.add_work(lambda: self._ask(endpoint, request, message))

    async def _pack(self, endpoint: Endpoint, buffer: MpiBuffer) -> None:
        """Pack the pieces of a derived datatype into contiguous memory, or unpack them."""
        library = self._costs.library
        await endpoint.on_core(buffer.blocks * library.block + buffer.nbytes / library.copy_bw)

    async def _short_device_copy(self, endpoint: Endpoint, device: int | None, direction: str, nbytes: int) -> None:
        """Copy a short message from or to device memory: by a core (gdrcopy), or by a synchronous copy call."""
        if device is None:
            return
        costs = self._costs.device
        if costs.path == "gpudirect":
            await endpoint.on_core(costs.copy + nbytes / costs.copy_bw)
        else:
            await self.stage(endpoint, device, direction, nbytes)

    async def stage(self, endpoint: Endpoint, device: int, direction: str, nbytes: int) -> None:
        """Copy `nbytes` between a device's memory and the host's by a synchronous call.

        device: the device's number. direction: ``h2d`` or ``d2h``. endpoint: that of the rank whose thread makes the
        call.
        """
        await endpoint.on_core(self._costs.device.staged)
        since = endpoint.sim.now
        await self._engine(endpoint, device, direction, nbytes)
        endpoint.machine.host_time.add("ranks", endpoint.sim.now - since)

    async def _take_in(self, endpoint: Endpoint, request: MpiRequest, message: MpiMessage, near: bool) -> None:
        """Copy an eager message out of the library's memory into the receive buffer, and complete the receive."""
        nbytes, library, shared = message.nbytes, self._costs.library, self._costs.shared
        if not near:
            await endpoint.on_core(library.receive)
            if request.buffer.device is None and nbytes > library.inject_limit:
                await endpoint.on_core(nbytes / library.copy_bw)
        elif nbytes <= shared.short_limit:
            await endpoint.on_core(shared.short)
        else:
            await endpoint.on_core(shared.message + nbytes / shared.copy_bw)
        await self._short_device_copy(endpoint, request.buffer.device, "h2d", nbytes)
        await self._end(endpoint, request, message, message.values)

    async def _end(self, endpoint: Endpoint, request: MpiRequest, message: MpiMessage, values: object) -> None:
        if request.buffer.blocks > 1:
            await self._pack(endpoint, request.buffer)
        request.buffer.write(values)  # type: ignore[arg-type]
        if (trace := endpoint.trace) is not None:
            told = message.number, message.sender.rank, endpoint.rank, message.tag, message.nbytes
            trace(events.MessageReceived, events.NONE, events.NONE, events.NO_CAUSE, *told)
        request.finish(message.source, message.tag, message.nbytes)

    # ------------------------------------------------------------------ on one node

    async def _send_near(self, endpoint: Endpoint, message: MpiMessage, receiver: Endpoint) -> None:
        shared, nbytes = self._costs.shared, message.nbytes
        await endpoint.on_core(shared.short if nbytes <= shared.short_limit else shared.message)
        if message.eager:
            await self._short_device_copy(endpoint, message.send.buffer.device, "d2h", nbytes)
            if nbytes > shared.short_limit:
                await endpoint.on_core(nbytes / shared.copy_bw)
            message.send.finish()
        self.network.to_core(endpoint.node, lambda: receiver.deliver(message))

    async def _copy_over(self, endpoint: Endpoint, request: MpiRequest, message: MpiMessage) -> None:
        """Copy an announced message out of the memory of a sender on the same node, by a core or by a device."""
        sent, received, nbytes = message.send.buffer, request.buffer, message.nbytes
        shared, device = self._costs.shared, self._costs.device
        if sent.device is None and received.device is None:
            await endpoint.on_core(shared.rendezvous)
            await endpoint.machine.host_memory.copy(nbytes, "ranks", rate=shared.single_copy_bw)
        else:
            await endpoint.on_core(device.ipc)
            await self._between_devices(endpoint, received.device, message.sender, sent.device, nbytes)
        values = sent.read()
        self.network.to_core(endpoint.node, message.send.finish)
        await self._end(endpoint, request, message, values)

    async def _between_devices(
        self, endpoint: Endpoint, here: int | None, sender: Endpoint, there: int | None, nbytes: int
    ) -> None:
        """Copy between the memories of two processes of one node; at least one of the two is device memory."""
        since, machine = endpoint.sim.now, endpoint.machine
        if here is None or there is None:
            device, direction = (sender, "d2h") if here is None else (endpoint, "h2d")
            await self._engine(device, there if here is None else here, direction, nbytes)
        else:
            source, target = sender.machine.devices[there].local, machine.devices[here].local
            link = machine.peers.links.get((source, target)) if machine.peers is not None else None
            if link is not None:
                await link.serve(nbytes)
            elif source == target or machine.peers is None:
                await endpoint.sim.sleep(nbytes / self._costs.device.ipc_bw)
            else:
                await self._engine(sender, there, "d2h", nbytes)
                await self._engine(endpoint, here, "h2d", nbytes)
        machine.host_time.add("ranks", endpoint.sim.now - since)

    async def _engine(self, endpoint: Endpoint, device: int | None, direction: str, nbytes: int) -> None:
        """Let a device's copy engine transfer data between device and host; an APU needs none."""
        assert device is not None
        accelerator = endpoint.machine.devices[device]
        if isinstance(accelerator, DiscreteGpu):
            accelerator.start()
            number = endpoint.machine.next_number()
            await accelerator.engines[direction].carry(number, 0, nbytes, "pinned")

    # ------------------------------------------------------------------ between nodes

    async def _send_far(self, endpoint: Endpoint, message: MpiMessage, receiver: Endpoint) -> None:
        library, buffer, nbytes = self._costs.library, message.send.buffer, message.nbytes
        await endpoint.on_core(library.send)
        fetched = nbytes > library.inject_limit
        cap = UNLIMITED
        if not message.eager:
            self._post(endpoint, receiver, 0, lambda: receiver.deliver(message))
            return
        device = self._costs.device
        if buffer.device is not None and device.path == "gpudirect" and nbytes >= device.direct_from:
            cap = device.nic_bw
        else:
            await self._short_device_copy(endpoint, buffer.device, "d2h", nbytes)
            if fetched and buffer.device is None:
                await endpoint.on_core(nbytes / library.copy_bw)
        self._post(endpoint, receiver, nbytes, lambda: receiver.deliver(message), cap, fetched)
        message.send.finish()

    def _post(
        self,
        source: Endpoint,
        destination: Endpoint,
        nbytes: int,
        arrived: Callable[[], None],
        cap: float = UNLIMITED,
        fetched: bool = False,
    ) -> None:
        """Let the network card of `source` send a packet to that of `destination`."""
        source.nic.send(NicPacket(destination.nic, nbytes, cap, fetched, arrived))

    async def _ask(self, endpoint: Endpoint, request: MpiRequest, message: MpiMessage) -> None:
        """Ask for the data of an announced message on the receiver's core."""
        await endpoint.on_core(self._setup(request, message))
        self._begin(endpoint, request, message)

    async def _fetch(self, endpoint: Endpoint, request: MpiRequest, message: MpiMessage) -> None:
        """Ask for the data of an announced message by the receiver's network card alone."""
        await endpoint.sim.sleep(self._setup(request, message))
        self._begin(endpoint, request, message)

    def _setup(self, request: MpiRequest, message: MpiMessage) -> float:
        device, sides = self._costs.device, (message.send.buffer.device, request.buffer.device)
        on_devices = [side for side in sides if side is not None]
        if not on_devices:
            return self._costs.library.rendezvous
        copies = device.staged * len(on_devices) if device.path == "staged" else 0.0
        return self._costs.library.rendezvous + device.setup + copies

    def _begin(self, endpoint: Endpoint, request: MpiRequest, message: MpiMessage) -> None:
        sent, received, device = message.send.buffer, request.buffer, self._costs.device
        has_device = sent.device is not None or received.device is not None
        staged = has_device and (device.path == "staged" or message.nbytes >= device.pipeline_from)
        if staged:
            self._post(endpoint, message.sender, 0, lambda: self._stage(endpoint, request, message))
            return
        cap = device.nic_bw if has_device else UNLIMITED

        def asked() -> None:
            self._post(message.sender, endpoint, message.nbytes, arrived, cap, fetched=True)

        def arrived() -> None:
            values = sent.read()
            endpoint.add_work(lambda: self._fetched(endpoint, request, message, values))

        self._post(endpoint, message.sender, 0, asked)

    async def _fetched(self, endpoint: Endpoint, request: MpiRequest, message: MpiMessage, values: object) -> None:
        """End a rendezvous: tell the sender that its data has arrived, and complete the receive."""
        await endpoint.on_core(self._costs.library.receive)
        self._post(endpoint, message.sender, 0, message.send.finish)
        await self._end(endpoint, request, message, values)

    def _stage(self, endpoint: Endpoint, request: MpiRequest, message: MpiMessage) -> None:
        """Send a long message in chunks through the memories of the hosts; each stage is an actor of its own."""
        sender, sent, received = message.sender, message.send.buffer, request.buffer
        device = self._costs.device
        chunk = device.chunk
        work = device.staged_chunk if device.path == "staged" else device.chunk_work
        # A card that can write device memory does so at full speed; it is reading it that PCIe makes slow.
        lands_at_host = received.device is not None and device.path == "staged"
        sizes = [min(chunk, message.nbytes - begin) for begin in range(0, message.nbytes, chunk)]
        sim = endpoint.sim
        copied = [Signal(sim, f"chunk {number} of {message.send}") for number in range(len(sizes))]
        came = [Signal(sim, f"chunk {number} of {message.send}") for number in range(len(sizes))]
        values = sent.read()

        async def to_host() -> None:
            for size, signal in zip(sizes, copied, strict=True):
                await sim.sleep(work)
                await self._engine(sender, sent.device, "d2h", size)
                signal.set()

        async def over() -> None:
            for size, ready, arrived in zip(sizes, copied, came, strict=True):
                if sent.device is not None:
                    await ready.wait()
                self._post(sender, endpoint, size, arrived.set, fetched=True)

        async def to_device() -> None:
            for size, signal in zip(sizes, came, strict=True):
                await signal.wait()
                if lands_at_host:
                    await sim.sleep(work)
                    await self._engine(endpoint, received.device, "h2d", size)
            endpoint.add_work(lambda: self._fetched(endpoint, request, message, values))

        stages: list[tuple[Callable[[], Awaitable[None]], str]] = [(over, "sends"), (to_device, "takes in")]
        if sent.device is not None:
            stages.insert(0, (to_host, "copies to the host"))
        for stage, does in stages:
            sim.spawn(stage, name=f"rank {sender.rank} to rank {endpoint.rank} {does}", daemon=True)
