"""Messages between the processes of a program on one machine, as an MPI library passes them through shared memory.

A message up to the eager limit is copied into shared memory by its sender, who goes on, and out of it by its receiver.
A longer one is announced; its receiver copies it straight out of the sender's memory (single copy, as CMA and XPMEM
allow), and its sender waits for that: MPI's rendezvous. A barrier is made of empty messages, by dissemination (Hensgen,
Finkel and Manber, Two Algorithms for Barrier Synchronization, 1988), as Open MPI's and MPICH's are. Copies take a core
and their share of the host's memory bandwidth. A process that waits gives its core up; real libraries poll, and keep
it, so more ranks than cores are predicted too fast.
"""

from __future__ import annotations

from typing import Annotated, Any

import attrs

from offloadrt.kernels.integers import is_integer
from offloadrt.machine import Machine
from offloadrt.models.host.section import Place, array_of, extent
from offloadrt.runtime.errors import OffloadError
from offloadrt.sim import Mailbox, Signal


class MessageError(OffloadError):
    """A message that MPI refuses: to a rank that there is not, or longer than the receiver has room for."""


@attrs.frozen
class MessageCosts:
    """What a message between two processes of one machine takes, besides copying it."""

    latency: Annotated[float, "process.message"]
    """Seconds from the sender's call to the receiver, for an empty message."""
    eager_limit: Annotated[int, "process.eager_limit"]
    """The largest message, in bytes, that is sent before anybody receives it."""


@attrs.frozen(eq=False)
class MpiMessage:
    """A message, or the announcement of a long one; from one process to another."""

    sent: float
    nbytes: int
    values: Any
    """What is sent: bytes for an eager message, the sender's own memory for a long one; None for a phantom."""
    taken: Signal | None
    """Set when the receiver has copied a long message; None for an eager one."""


MESSAGES = (MpiMessage,)


class Communicator:
    """MPI_COMM_WORLD: the processes of one program, by rank."""

    def __init__(self, machine: Machine, size: int, costs: MessageCosts | None) -> None:
        self.size = size
        self._sim = machine.sim
        self._memory = machine.host_memory
        self._host_time = machine.host_time
        self._costs = costs
        self._mailboxes: dict[tuple[int, int, int, str], Mailbox] = {}

    async def send(self, place: Place, source: int, destination: int, tag: int) -> None:
        """Send an array or a section without gaps. Raises MessageError for a rank that there is not."""
        self._check("MPI_Send", destination)
        nbytes, values = self._contents("MPI_Send", place)
        eager = nbytes <= self._costs_of_messages.eager_limit
        sent = self._sim.now
        if eager:
            await self._memory.copy(nbytes, "compute")
            values = None if values is None else values.copy()
        taken = None if eager else Signal(self._sim, f"rank {destination} receives {nbytes} bytes of rank {source}")
        self._mailbox(source, destination, tag).put(MpiMessage(sent, nbytes, values, taken))
        if taken is not None:
            since = self._sim.now
            await taken.wait()
            self._host_time.add("threads", self._sim.now - since)

    async def receive(self, place: Place, source: int, destination: int, tag: int) -> None:
        """Receive into an array, or a section without gaps, which may be longer than the message.

        Raises MessageError for a rank that there is not, and for a message that is longer.
        """
        self._check("MPI_Recv", source)
        nbytes, values = self._contents("MPI_Recv", place)
        message = await self._next(source, destination, tag)
        if message.nbytes > nbytes:
            reason = f"MPI_ERR_TRUNCATE: a message of {message.nbytes} bytes from rank {source}, room for {nbytes}"
            raise self._error("MPI_Recv", reason, array_of(place).name)
        await self._memory.copy(message.nbytes, "compute")
        if values is not None and message.values is not None:
            values[: message.nbytes] = message.values
        if message.taken is not None:
            message.taken.set()

    async def barrier(self, rank: int) -> None:
        """Return when all ranks have called it (MPI_Barrier)."""
        distance = 1
        while distance < self.size:
            ahead, behind = (rank + distance) % self.size, (rank - distance) % self.size
            self._mailbox(rank, ahead, distance, "barrier").put(MpiMessage(self._sim.now, 0, None, None))
            await self._next(behind, rank, distance, "barrier")
            distance *= 2

    async def _next(self, source: int, destination: int, tag: int, kind: str = "message") -> MpiMessage:
        """Wait for the next message, and for its latency to be over."""
        since = self._sim.now
        message: MpiMessage = await self._mailbox(source, destination, tag, kind).get()
        arrival = message.sent + self._costs_of_messages.latency
        if arrival > self._sim.now:
            await self._sim.sleep(arrival - self._sim.now)
        self._host_time.add("threads", self._sim.now - since)
        return message

    def _mailbox(self, source: int, destination: int, tag: int, kind: str = "message") -> Mailbox:
        key = source, destination, tag, kind
        if key not in self._mailboxes:
            self._mailboxes[key] = Mailbox(self._sim, f"a {kind} from rank {source} to rank {destination}, tag {tag}")
        return self._mailboxes[key]

    @property
    def _costs_of_messages(self) -> MessageCosts:
        assert self._costs is not None, "a single process has nobody to send to"
        return self._costs

    def _contents(self, call: str, place: Place) -> tuple[int, Any]:
        """Return the bytes of what is sent or received, and a view of them; None for a phantom."""
        begin, nbytes = extent(place, call)
        if not getattr(place, "is_contiguous", True):
            raise self._error(call, "the section has gaps, and derived datatypes are not emulated", str(place))
        return nbytes, array_of(place).span(begin, nbytes).bytes

    def _check(self, call: str, rank: int) -> None:
        if not is_integer(rank) or not 0 <= rank < self.size or self.size == 1:
            raise self._error(call, f"MPI_ERR_RANK: no other process has rank {rank!r}; there are {self.size}")

    def _error(self, call: str, reason: str, array: str = "") -> MessageError:
        return MessageError.now(self._sim, reason, call=call, array=array)
