"""What messages cost: the entries of a machine's profile that the library, shared memory, NICs and network read."""

from __future__ import annotations

from typing import Annotated

import attrs


@attrs.frozen
class LibraryCosts:
    """What the MPI library does on a core, and when it does it."""

    send: Annotated[float, "mpi.send"]
    """Seconds on a core for a call that begins to send to another node."""
    receive: Annotated[float, "mpi.receive"]
    """Seconds on a core to take in a message from another node, besides copying it."""
    test: Annotated[float, "mpi.test"]
    """Seconds on a core for a look at what has arrived: Test, Iprobe and their kin."""
    eager_limit: Annotated[int, "mpi.eager_limit"]
    """The largest message, in bytes, that goes to another node before its receiver asks for it."""
    inject_limit: Annotated[int, "mpi.inject_limit"]
    """The largest message whose bytes go to the NIC with the command; it reads longer ones from memory."""
    rendezvous: Annotated[float, "mpi.rendezvous"]
    """Seconds that the receiver needs to ask for an announced message: registration of memory, the request."""
    copy_bw: Annotated[float, "mpi.copy_bw"]
    """Bytes per second at which a core copies between the program's memory and the library's."""
    block: Annotated[float, "mpi.block"]
    """Seconds to pack or unpack each piece of memory that a derived datatype describes, besides its bytes."""
    reduce_bw: Annotated[float, "mpi.reduce_bw"]
    """Bytes per second of one operand that a core combines with another."""
    progress: Annotated[str, "mpi.progress"]
    """Who takes an announced message in: ``calls`` (the receiver, in any of its calls) or ``hardware`` (the NIC)."""
    collectives: Annotated[str, "mpi.collectives"]
    """Whose rules choose the algorithm of a collective: ``mpich`` or ``openmpi``."""


@attrs.frozen
class SharedMemoryCosts:
    """What a message between two ranks of a node costs, which goes through shared memory."""

    latency: Annotated[float, "shm.latency"]
    """Seconds from the sender's store to the receiver's load of it, between two cores."""
    short: Annotated[float, "shm.short"]
    """Seconds on each core for a message up to the short limit."""
    short_limit: Annotated[int, "shm.short_limit"]
    """The largest message in bytes that fits into the flags that the receiver polls (UCX's and Open MPI's fast box)."""
    message: Annotated[float, "shm.message"]
    """Seconds on each core for a longer message."""
    copy_bw: Annotated[float, "shm.copy_bw"]
    """Bytes per second of each of the two copies through shared memory: they stay in the caches."""
    eager_limit: Annotated[int, "shm.eager_limit"]
    """The largest message, in bytes, that is copied into shared memory before anybody receives it."""
    rendezvous: Annotated[float, "shm.rendezvous"]
    """Seconds on the receiver's core to begin a single copy: the system call of CMA, an attachment of XPMEM."""
    single_copy_bw: Annotated[float, "shm.single_copy_bw"]
    """Bytes per second of the receiver's single copy out of the sender's memory."""


@attrs.frozen
class NicCosts:
    """What one network card of a node does; the ranks of the node take its cards in turn."""

    count: Annotated[int, "nic.count"]
    bandwidth: Annotated[float, "nic.bw"]
    """Bytes per second in each direction, which all messages of the moment share."""
    message_gap: Annotated[float, "nic.message_gap"]
    """Seconds that the card needs for each message that it sends: the inverse of its message rate."""
    fetch: Annotated[float, "nic.fetch"]
    """Seconds to read what is sent from memory, where it did not come with the command."""
    uncontended: Annotated[bool, "nic.uncontended"]
    """Whether each message finds the card idle (an ablation)."""


@attrs.frozen
class NetworkCosts:
    """What lies between the nodes: switches, each with so many nodes, and links from each to the others."""

    latency: Annotated[float, "net.latency"]
    """Seconds from card to card below one switch, for an empty message."""
    switch_nodes: Annotated[int, "net.switch_nodes"]
    """How many nodes hang on a switch."""
    hop: Annotated[float, "net.hop"]
    """Seconds more between nodes of two switches."""
    uplink_bw: Annotated[float, "net.uplink_bw"]
    """Bytes per second of all links of a switch to the others together, in each direction."""
    uncontended: Annotated[bool, "net.uncontended"]
    """Whether each message finds the links between switches idle (an ablation)."""


@attrs.frozen
class DeviceBufferCosts:
    """How messages reach memory of a device."""

    path: Annotated[str, "mpi.device.path"]
    """``gpudirect``: NICs read and write device memory; ``staged``: it is copied through the host's."""
    copy: Annotated[float, "mpi.device.copy"]
    """Seconds on a core to copy a short message from or to device memory, besides its bytes."""
    copy_bw: Annotated[float, "mpi.device.copy_bw"]
    """Bytes per second of such a copy."""
    staged: Annotated[float, "mpi.device.staged"]
    """Seconds on a core of a synchronous copy call of the library, besides the transfer (with ``staged``)."""
    direct_from: Annotated[int, "mpi.device.direct_from"]
    """From so many bytes on the NIC reads an eager message from device memory itself (with ``gpudirect``)."""
    setup: Annotated[float, "mpi.device.setup"]
    """Seconds that each rendezvous of a buffer in device memory needs more: pointer queries, registration."""
    nic_bw: Annotated[float, "mpi.device.nic_bw"]
    """Bytes per second at which a NIC can read device memory."""
    pipeline_from: Annotated[int, "mpi.device.pipeline_from"]
    """From so many bytes on a rendezvous is staged through the host even with ``gpudirect``."""
    chunk: Annotated[int, "mpi.device.chunk"]
    """Bytes of each piece in which a staged message goes."""
    chunk_work: Annotated[float, "mpi.device.chunk_work"]
    """Seconds that each piece takes at each stage, besides its bytes: the call, and noticing its end."""
    staged_chunk: Annotated[float, "mpi.device.staged_chunk"]
    """The same with ``staged``, where each copy is a synchronous call."""
    ipc: Annotated[float, "mpi.device.ipc"]
    """Seconds to open another process's device memory and to copy out of it, besides the bytes."""
    ipc_bw: Annotated[float, "mpi.device.ipc_bw"]
    """Bytes per second of such a copy where no link of the profile carries it: within a device, on an APU."""
    reduce: Annotated[float, "mpi.device.reduce"]
    """Seconds for a kernel of the library that combines two operands in device memory: launch and synchronisation."""
    reduce_bw: Annotated[float, "mpi.device.reduce_bw"]
    """Bytes per second of one operand that such a kernel combines."""
    collective_limit: Annotated[int, "mpi.device.collective_limit"]
    """The longest reduction, in bytes, that is copied to the host and made there as a whole."""


@attrs.frozen
class MessageCosts:
    """All of them."""

    library: LibraryCosts
    shared: SharedMemoryCosts
    nic: NicCosts
    network: NetworkCosts
    device: DeviceBufferCosts
