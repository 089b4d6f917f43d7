"""The processes that run one program, as `mpiexec -n 4 ./program` starts them: `Process` is given to the main function.

Each has a runtime of its own: an `OffloadProgram` with its device tables, on its own view of the machine, with a driver
library, contexts and an address space of its own. They meet at the machine's cores and memories, on the devices, in the
kernel driver, and in messages (`Communicator`).

Messages between the processes of a program on one machine, as an MPI library passes them through shared memory.

A message up to the eager limit is copied into shared memory by its sender, who goes on, and out of it by its receiver.
A longer one is announced; its receiver copies it straight out of the sender's memory (single copy, as CMA and XPMEM
allow), and its sender waits for that: MPI's rendezvous. A barrier is made of empty messages, by dissemination (Hensgen,
Finkel and Manber, Two Algorithms for Barrier Synchronization, 1988), as Open MPI's and MPICH's are. Copies take a core
and their share of the host's memory bandwidth. A process that waits gives its core up; real libraries poll, and keep
it, so more ranks than cores are predicted too fast.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, TypeVar

import attrs

from offloadrt.kernels.integers import is_integer
from offloadrt.machine import Machine
from offloadrt.models.host.arrays import Span, array_of, extent
from offloadrt.models.host.program import OffloadProgram
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

    async def send(self, buffer: Span, source: int, destination: int, tag: int) -> None:
        """Send an array or a section without gaps. Raises MessageError for a rank that there is not."""
        self._check("MPI_Send", destination)
        nbytes, values = self._contents("MPI_Send", buffer)
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

    async def receive(self, buffer: Span, source: int, destination: int, tag: int) -> None:
        """Receive into an array, or a section without gaps, which may be longer than the message.

        Raises MessageError for a rank that there is not, and for a message that is longer.
        """
        self._check("MPI_Recv", source)
        nbytes, values = self._contents("MPI_Recv", buffer)
        message = await self._next(source, destination, tag)
        if message.nbytes > nbytes:
            reason = f"MPI_ERR_TRUNCATE: a message of {message.nbytes} bytes from rank {source}, room for {nbytes}"
            raise self._error("MPI_Recv", reason, array_of(buffer).name)
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

    def _contents(self, call: str, buffer: Span) -> tuple[int, Any]:
        """Return the bytes of what is sent or received, and a view of them; None for a phantom."""
        begin, nbytes = extent(buffer, call)
        if not getattr(buffer, "is_contiguous", True):
            raise self._error(call, "the section has gaps, and derived datatypes are not emulated", str(buffer))
        return nbytes, array_of(buffer).span(begin, nbytes).bytes

    def _check(self, call: str, rank: int) -> None:
        if not is_integer(rank) or not 0 <= rank < self.size or self.size == 1:
            raise self._error(call, f"MPI_ERR_RANK: no other process has rank {rank!r}; there are {self.size}")

    def _error(self, call: str, reason: str, array: str = "") -> MessageError:
        return MessageError.now(self._sim, reason, call=call, array=array)


R = TypeVar("R")


class Process:
    """One process of a program, with its rank among all of them.

    Its calls are those of MPI's communicator of all processes, without requests: any thread of the process may make
    them. They need no device.
    """

    def __init__(self, program: OffloadProgram[Any], communicator: Communicator) -> None:
        self.program = program
        self.rank = program.machine.process
        self.size = communicator.size
        self._communicator = communicator
        self.most_threads = 1
        """Host threads of the largest team so far."""
        self._in_teams = 0.0

    def __repr__(self) -> str:
        return f"<process {self.rank} of {self.size}>"

    async def parallel(self, body: Callable[[Any], Awaitable[R]], num_threads: int = 1) -> list[R]:
        """Run a team of this process's host threads, each `await body(t)`; return their results by thread number."""
        since = self.program.sim.now
        self.most_threads = max(self.most_threads, num_threads)
        results = await self.program.parallel(body, num_threads=num_threads)
        self._in_teams += self.program.sim.now - since
        return results

    def barrier(self) -> Awaitable[None]:
        """Wait until all processes have called it (MPI_Barrier)."""
        return self._communicator.barrier(self.rank)

    def send(self, buffer: Span, destination: int, tag: int = 0) -> Awaitable[None]:
        """Send an array, or a section of one, to another rank (MPI_Send).

        It returns when the array may be written again: at once for a short message, else when it has been received.
        Raises MessageError for a rank that there is not.
        """
        return self._communicator.send(buffer, self.rank, destination, tag)

    def recv(self, buffer: Span, source: int, tag: int = 0) -> Awaitable[None]:
        """Receive an array, or a section of one, from another rank (MPI_Recv), in the order in which it sends.

        Raises MessageError for a rank that there is not, and for a message that is longer than the buffer.
        """
        return self._communicator.receive(buffer, source, self.rank, tag)

    async def sendrecv(self, sent: Span, destination: int, received: Span, source: int, tag: int = 0) -> None:
        """Send and receive at one time (MPI_Sendrecv). Raises MessageError as both do."""
        async with self.program.sim.open_nursery() as nursery:
            nursery.spawn(self.send, sent, destination, tag, name=f"rank {self.rank} sends to rank {destination}")
            await self.recv(received, source, tag)

    async def run(self, main: Callable[[Process], Awaitable[R]]) -> R:
        """Run the process's main function, then end what its threads left running."""
        sim, host_time = self.program.sim, self.program.machine.host_time
        since = sim.now
        result = await main(self)
        await self.program.end_tasks()
        host_time.lived(sim.now - since - self._in_teams)
        return result


def processes_of(programs: Sequence[OffloadProgram[Any]]) -> list[Process]:
    """Return the processes that run a program, whose runtimes these are, by rank.

    Raises ProfileError when there are several and the machine's profile lacks what their messages cost.
    """
    machine = programs[0].machine
    costs = machine.spec.read(MessageCosts) if len(programs) > 1 else None
    communicator = Communicator(machine, len(programs), costs)
    return [Process(program, communicator) for program in programs]


async def mpiexec(processes: Sequence[Process], main: Callable[[Process], Awaitable[R]]) -> list[R]:
    """Run `await main(process)` in all processes at one time; return what they return, by rank."""
    results: dict[int, R] = {}

    async def one(process: Process) -> None:
        results[process.rank] = await process.run(main)

    async with processes[0].program.sim.open_nursery() as nursery:
        for process in processes:
            nursery.spawn(one, process, name=f"rank {process.rank}")
    return [results[process.rank] for process in processes]
