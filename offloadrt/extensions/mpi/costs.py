"""What messages cost: the profile's entries for the MPI library, shared memory, network cards and network."""

from __future__ import annotations

from typing import Annotated

import attrs


@attrs.frozen
class LibraryCosts:
    """The costs of the MPI library's work on a core, and the message sizes at which it changes its protocol."""

    send: Annotated[float, "mpi.send"]
    """Seconds on the sender's core for each message to another node."""
    receive: Annotated[float, "mpi.receive"]
    """Seconds on the receiver's core for each message from another node, besides copying its bytes."""
    test: Annotated[float, "mpi.test"]
    """Seconds on a core for a call that only looks for progress, such as MPI_Test or MPI_Iprobe."""
    eager_limit: Annotated[int, "mpi.eager_limit"]
    """The largest message, in bytes, that is sent to another node without waiting for its receive (eager protocol)."""
    inject_limit: Annotated[int, "mpi.inject_limit"]
    """The largest message, in bytes, whose data is written to the NIC with the command; the NIC reads longer ones from
    memory.
    """
    rendezvous: Annotated[float, "mpi.rendezvous"]
    """Seconds that the receiver needs to ask for the data of an announced message: memory registration and request."""
    copy_bw: Annotated[float, "mpi.copy_bw"]
    """Bytes per second at which a core copies between the program's and the library's memory."""
    block: Annotated[float, "mpi.block"]
    """Seconds to pack or unpack each contiguous piece that a derived datatype describes, besides copying its bytes."""
    reduce_bw: Annotated[float, "mpi.reduce_bw"]
    """Bytes per second at which a core combines one operand of a reduction with another."""
    progress: Annotated[str, "mpi.progress"]
    """Who fetches the data of an announced message: ``calls`` (the receiver, inside any MPI call) or ``hardware`` (its
    NIC).
    """
    collectives: Annotated[str, "mpi.collectives"]
    """The library whose rules choose the algorithm of a collective: ``mpich``, ``cray`` or ``openmpi``."""


@attrs.frozen
class SharedMemoryCosts:
    """The costs of a message between two ranks of the same node, which goes through shared memory."""

    latency: Annotated[float, "shm.latency"]
    """Seconds from a store by the sender's core until the receiver's core loads the value."""
    short: Annotated[float, "shm.short"]
    """Seconds on each of the two cores for a message of at most `short_limit` bytes."""
    short_limit: Annotated[int, "shm.short_limit"]
    """The largest message in bytes that fits into the flags that the receiver polls (UCX's and Open MPI's fast box)."""
    message: Annotated[float, "shm.message"]
    """Seconds on each of the two cores for a message of more than `short_limit` bytes."""
    copy_bw: Annotated[float, "shm.copy_bw"]
    """Bytes per second of each of the two copies, into and out of shared memory; they stay in the caches."""
    eager_limit: Annotated[int, "shm.eager_limit"]
    """The largest message, in bytes, that is copied into shared memory without waiting for its receive (eager
    protocol).
    """
    rendezvous: Annotated[float, "shm.rendezvous"]
    """Seconds on the receiver's core to begin a single copy: the system call of CMA, or an attachment of XPMEM."""
    single_copy_bw: Annotated[float, "shm.single_copy_bw"]
    """Bytes per second at which the receiver copies straight out of the sender's memory."""


@attrs.frozen
class NicCosts:
    """The costs and rates of one network card; the ranks of a node take its `count` cards in turn."""

    count: Annotated[int, "nic.count"]
    bandwidth: Annotated[float, "nic.bw"]
    """Bytes per second in each direction; messages that are under way at the same time share it."""
    message_gap: Annotated[float, "nic.message_gap"]
    """Seconds between two messages that the card sends: the inverse of its message rate."""
    fetch: Annotated[float, "nic.fetch"]
    """Seconds for the card to read a message's data from memory, if it did not come with the command."""
    uncontended: Annotated[bool, "nic.uncontended"]
    """Whether each message finds the card idle, however many there are (an ablation)."""


@attrs.frozen
class NetworkCosts:
    """The network between the nodes: switches of `switch_nodes` nodes each, and links between the switches."""

    latency: Annotated[float, "net.latency"]
    """Seconds from card to card for an empty message between nodes of the same switch."""
    switch_nodes: Annotated[int, "net.switch_nodes"]
    """The number of nodes on each switch."""
    hop: Annotated[float, "net.hop"]
    """Additional seconds between nodes of different switches."""
    uplink_bw: Annotated[float, "net.uplink_bw"]
    """Bytes per second, in each direction, of all links from a switch to the other switches together."""
    uncontended: Annotated[bool, "net.uncontended"]
    """Whether each message finds the links between switches idle, however many there are (an ablation)."""


@attrs.frozen
class DeviceBufferCosts:
    """Says how messages reach the memory of a device, and what that costs."""

    path: Annotated[str, "mpi.device.path"]
    """``gpudirect``: network cards read and write device memory; ``staged``: data is copied through host memory."""
    copy: Annotated[float, "mpi.device.copy"]
    """Seconds for a core to copy a short message from or to device memory, besides its bytes."""
    copy_bw: Annotated[float, "mpi.device.copy_bw"]
    """Bytes per second at which a core copies a short message from or to device memory."""
    staged: Annotated[float, "mpi.device.staged"]
    """Seconds on a core for a synchronous copy call of the library with ``staged``, besides the transfer."""
    direct_from: Annotated[int, "mpi.device.direct_from"]
    """From this many bytes on, the NIC reads an eager message from device memory itself (with ``gpudirect``)."""
    setup: Annotated[float, "mpi.device.setup"]
    """Additional seconds for each rendezvous of a buffer in device memory: pointer queries and registration."""
    nic_bw: Annotated[float, "mpi.device.nic_bw"]
    """Bytes per second at which a NIC can read device memory."""
    pipeline_from: Annotated[int, "mpi.device.pipeline_from"]
    """From this many bytes on, a rendezvous is staged through host memory even with ``gpudirect``."""
    chunk: Annotated[int, "mpi.device.chunk"]
    """The bytes of each chunk in which a staged message is sent."""
    chunk_work: Annotated[float, "mpi.device.chunk_work"]
    """Seconds for each chunk at each stage, besides its bytes: the call, and the time until its end is noticed."""
    staged_chunk: Annotated[float, "mpi.device.staged_chunk"]
    """The seconds of `chunk_work` for the path ``staged``, where each copy is a synchronous call."""
    ipc: Annotated[float, "mpi.device.ipc"]
    """Seconds to open the device memory of another process and to begin a copy out of it, besides the bytes."""
    ipc_bw: Annotated[float, "mpi.device.ipc_bw"]
    """Bytes per second of a copy between device memories that no link of the profile carries: within a device, or on an
    APU.
    """
    reduce: Annotated[float, "mpi.device.reduce"]
    """Seconds for the library's kernel that combines two operands in device memory: launch and synchronization."""
    reduce_bw: Annotated[float, "mpi.device.reduce_bw"]
    """Bytes per second of one operand that this kernel combines."""
    collective_limit: Annotated[int, "mpi.device.collective_limit"]
    """The largest reduction, in bytes, of a device buffer that is copied to the host and computed there."""


@attrs.frozen
class MessageCosts:
    """All costs of messages: library, shared memory, network cards, network and device memory."""

    library: LibraryCosts
    shared: SharedMemoryCosts
    nic: NicCosts
    network: NetworkCosts
    device: DeviceBufferCosts
