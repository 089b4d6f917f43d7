"""Communicators: what a program calls. `Comm` is one rank's handle of a communicator, `World` what all ranks share.

Names and arguments are those of mpi4py's upper-case calls, which take buffers; calls that let time pass are awaited.
Each takes `at`, the file and line of the call in the program, which reports name: a replay gives what was recorded, and
for a program in Python it is found when it is needed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Concatenate, NoReturn, ParamSpec

import attrs
import numpy as np

from offloadrt.extensions.checking.recorded import NotKnown
from offloadrt.extensions.mpi import choices
from offloadrt.extensions.mpi.buffers import (
    ANY_SOURCE,
    ANY_TAG,
    IN_PLACE,
    NOTHING,
    PROC_NULL,
    TAG_UB,
    UNDEFINED,
    Given,
    InPlace,
    Line,
    MpiBuffer,
    MpiError,
    buffer_of,
)
from offloadrt.extensions.mpi.collectives import SUM, Channel, Op, split
from offloadrt.extensions.mpi.costs import MessageCosts
from offloadrt.extensions.mpi.network import Network
from offloadrt.extensions.mpi.requests import Endpoint, MpiRequest, PersistentRequest, Status
from offloadrt.extensions.mpi.transport import Transport
from offloadrt.kernels.integers import is_integer
from offloadrt.models.host.arguments import checked, checks_arguments
from offloadrt.models.host.process import Process
from offloadrt.runtime.host_array import HostArray, Section

ONE_SIDED = (
    "Win_create", "Win_allocate", "Win_allocate_shared", "Win_create_dynamic", "Put", "Get", "Accumulate",
    "Get_accumulate", "Fetch_and_op", "Compare_and_swap", "Rput", "Rget", "Raccumulate", "Win_fence", "Win_lock",
    "Win_unlock", "Win_start", "Win_complete", "Win_post", "Win_wait", "Win_flush",
)  # fmt: skip
"""Calls of one-sided communication, which are refused with an error that names them."""

Run = Callable[[Channel], Awaitable[None]]


P = ParamSpec("P")


def _collective(
    name: str, body: Callable[Concatenate[Comm, str, P], Run]
) -> tuple[
    Callable[Concatenate[Comm, P], Coroutine[Any, Any, None]],
    Callable[Concatenate[Comm, P], Coroutine[Any, Any, MpiRequest]],
]:
    """Make a blocking and a nonblocking call of `body`.

    `body` is called with the communicator, the call's name and its arguments; it returns a function that carries the
    collective out on a `Channel`.
    """
    call, begun = f"MPI_{name}", f"MPI_I{name.lower()}"
    body = checked(body, call)

    def without_gaps(comm: Comm, *args: Any, **kwargs: Any) -> Run:
        """Call `body` with a packed copy of each buffer that has gaps, as the algorithms divide buffers by bytes."""
        gaps: list[tuple[MpiBuffer, MpiBuffer]] = []

        def packed(given: Any) -> Any:
            if isinstance(given, HostArray | Section):
                comm.world.tell_unseen(comm.endpoint)
            buffer = buffer_of(given, call) if isinstance(given, Section | MpiBuffer) else NOTHING
            if buffer.values is None or buffer.values.flags.c_contiguous:
                return given
            gaps.append((buffer, attrs.evolve(buffer, values=np.ascontiguousarray(buffer.values))))
            return gaps[-1][1]

        chosen: Run = body(comm, call, *map(packed, args), **{key: packed(value) for key, value in kwargs.items()})

        async def unpacked(channel: Channel) -> None:
            await chosen(channel)
            for buffer, copy in gaps:
                buffer.write(copy.read())

        return unpacked if gaps else chosen

    async def blocking(self: Comm, /, *args: P.args, **kwargs: P.kwargs) -> None:
        await self.run(call, str(kwargs.get("at", "")), without_gaps(self, *args, **kwargs))

    async def nonblocking(self: Comm, /, *args: P.args, **kwargs: P.kwargs) -> MpiRequest:
        return self.start(begun, str(kwargs.get("at", "")), without_gaps(self, *args, **kwargs))

    blocking.__name__, nonblocking.__name__ = name, f"I{name.lower()}"
    blocking.__doc__, nonblocking.__doc__ = f"{body.__doc__} ({call})", f"Begin what {name} does ({begun})."
    return blocking, nonblocking


class World:
    """The state that all ranks (processes) of a program share: endpoints, network, and numbers of communicators."""

    def __init__(self, processes: Sequence[Process]) -> None:
        machine = processes[0].program.machine
        self.sim = machine.sim
        self.costs = machine.spec.read(MessageCosts)
        nodes = 1 + max(process.node for process in processes)
        self.network = Network(self.sim, nodes, self.costs)
        self.transport = Transport(self.sim, self.costs, self.network)
        self.endpoints: list[Endpoint] = []
        """The endpoint of each rank. The ranks of a node take its network cards in turn."""
        taken = [0] * nodes
        for process in processes:
            nic = self.network.nic_of(process.node, taken[process.node])
            taken[process.node] += 1
            self.endpoints.append(Endpoint(process, nic, self.costs, self.transport))
        self._told_unseen = False
        self._contexts: dict[object, int] = {}
        self._calls: dict[tuple[int, int], tuple[str, str, int, str, set[int]]] = {}
        """By (communicator, number of the collective on it), until all ranks have come: the first call, its arguments,
        rank and line, and the set of ranks that have come.
        """

    def context(self, key: object) -> int:
        """Return the number of a communicator, a new one for a new key.

        key: what identifies the call that made it, so that all its ranks pass the same, such as (parent's number, count
        of communicators made from it, color).
        """
        return self._contexts.setdefault(key, 2 * len(self._contexts))

    def agree(self, context: int, number: int, call: str, arguments: str, rank: int, size: int, at: Line) -> None:
        """Check that all ranks of a communicator make the same collective calls in the same order. Raises MpiError.

        context: the communicator's number. number: which of its collectives this is. call, arguments: the call's name,
        and those of its arguments that MPI wants to be equal: root, bytes and operation. rank,
        size: the calling rank, and how many ranks the communicator has.
        """
        key = context, number
        first, told, other, there, came = self._calls.setdefault(key, (call, arguments, rank, at, set()))
        came.add(rank)
        if len(came) == size:
            del self._calls[key]
        if (first, told) != (call, arguments):
            mine, theirs = (f"{call} with {arguments}", f"{first} with {told}") if first == call else (call, first)
            said = f"rank {other} calls {theirs}" + (f" at {there}" if there else "")
            raise MpiError.of_call(
                self.sim, f"rank {rank} calls {mine} where {said}, both on one communicator", call, at
            )

    def absent(self, context: int, number: int, group: Sequence[int]) -> list[str]:
        """Return the names of a communicator's ranks that have not reached its collective call number `number`.

        context: the communicator's number. group: its ranks, by their numbers in MPI_COMM_WORLD.
        """
        came = self._calls.get((context, number))
        return [] if came is None else [
            f"rank {self.endpoints[member].rank}{self.endpoints[member].said_last()}"
            for rank, member in enumerate(group) if rank not in came[4]
        ]  # fmt: skip

    def tell_unseen(self, endpoint: Endpoint) -> None:
        """Tell the observer of a rank's program, such as the checker, that it does not see how collectives use arrays.

        It is told once, and says itself that nothing can be known about these uses.
        """
        if not self._told_unseen and (tell := endpoint.process.program.tell) is not None:
            self._told_unseen = True
            tell(NotKnown("what collective calls of MPI read and write in the host's arrays"))

    def mistakes(self) -> list[str]:
        """List the mistakes of a program that came to its end, such as messages that nobody received."""
        return [mistake for endpoint in self.endpoints for mistake in endpoint.mistakes()]


@checks_arguments
class Comm:
    """One rank's handle of communicator number `context`, whose ranks have the numbers `group` in MPI_COMM_WORLD.

    In its calls, `buf` is an array of the program or a section of one, and `dest` or `source` is the other rank; a
    receive may leave the rank and the tag open by a wildcard. `status` gets the source, tag and bytes of the message,
    and `at` is the program's line with the call, for reports.
    """

    def __init__(self, world: World, endpoint: Endpoint, group: Sequence[int], context: int, name: str) -> None:
        self.world = world
        self.endpoint = endpoint
        self.group = tuple(group)
        """By rank of this communicator: the rank in MPI_COMM_WORLD."""
        self.context = context
        self.name = name
        self.rank = self.group.index(endpoint.rank)
        self.size = len(self.group)
        self._collectives = 0
        self._made = 0
        self._freed = False
        self._arguments = ""
        """The arguments of the current collective that must be equal on all ranks, as text."""

    def __repr__(self) -> str:
        return f"<{self.name}: rank {self.rank} of {self.size}>"

    def statistics(self) -> dict[str, Any]:
        """Return the statistics of what carried the messages of all ranks, such as network cards, by name."""
        return dict(self.world.network.statistics())

    def mistakes(self) -> list[str]:
        """List mistakes in a program that came to its end, with calls and lines.

        These are messages that nobody received, requests that nobody waited for, and receives of another element type
        than the message has.
        """
        return self.world.mistakes()

    def Get_rank(self) -> int:
        return self.rank

    def Get_size(self) -> int:
        return self.size

    def Get_name(self) -> str:
        return self.name

    # ------------------------------------------------------------------ point to point

    async def Send(self, buf: Given, dest: int, tag: int = 0, *, at: Line = "") -> None:
        """Send a message to rank `dest` (MPI_Send); return when the program may write the buffer `buf` again.

        For a short message that is at once, for a long one when the receiver has its data.
        """
        with self.endpoint.call("MPI_Send", at):
            await self._blocking(await self.begin_send("MPI_Send", buffer_of(buf, "MPI_Send"), dest, tag, 0, at))

    async def Ssend(self, buf: Given, dest: int, tag: int = 0, *, at: Line = "") -> None:
        """Send a message to rank `dest`, and return when a receive has matched it (MPI_Ssend).

        buf: the data.
        """
        buffer = buffer_of(buf, "MPI_Ssend")
        with self.endpoint.call("MPI_Ssend", at):
            await self._blocking(await self.begin_send("MPI_Ssend", buffer, dest, tag, 0, at, synchronous=True))

    async def Recv(
        self, buf: Given, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None, *, at: Line = ""
    ) -> None:
        """Receive a message into the buffer `buf`, which may be longer than the message (MPI_Recv).

        source, tag: what the message must have; by default any. status: gets the message's source, tag and bytes.
        """
        request = self.begin_receive("MPI_Recv", buffer_of(buf, "MPI_Recv"), source, tag, 0, at)
        await self._blocking(request, status)

    async def Isend(self, buf: Given, dest: int, tag: int = 0, *, at: Line = "") -> MpiRequest:
        """Begin to send a message to rank `dest` (MPI_Isend).

        buf: the data, which the program must not change until the request is complete.
        """
        with self.endpoint.call("MPI_Isend", at):
            return await self.begin_send("MPI_Isend", buffer_of(buf, "MPI_Isend"), dest, tag, 0, at)

    async def Issend(self, buf: Given, dest: int, tag: int = 0, *, at: Line = "") -> MpiRequest:
        """Begin to send a message to rank `dest`; the request completes when a receive has matched it (MPI_Issend).

        buf: the data.
        """
        buffer = buffer_of(buf, "MPI_Issend")
        with self.endpoint.call("MPI_Issend", at):
            return await self.begin_send("MPI_Issend", buffer, dest, tag, 0, at, synchronous=True)

    async def Irecv(self, buf: Given, source: int = ANY_SOURCE, tag: int = ANY_TAG, *, at: Line = "") -> MpiRequest:
        """Begin to receive a message into the buffer `buf` (MPI_Irecv).

        source, tag: what the message must have; by default any.
        """
        return self.begin_receive("MPI_Irecv", buffer_of(buf, "MPI_Irecv"), source, tag, 0, at)

    def Send_init(self, buf: Given, dest: int, tag: int = 0, *, at: Line = "") -> PersistentRequest:
        """Create a persistent request to send `buf` to rank `dest`, which can be started many times (MPI_Send_init)."""
        buffer, call = buffer_of(buf, "MPI_Send_init"), "MPI_Send_init"
        self._check(call, dest, tag, at)

        def begin(started: str) -> Awaitable[MpiRequest]:
            return self.begin_send(call, buffer, dest, tag, 0, started or at)

        return PersistentRequest(self.endpoint, call, self._told("to", dest, tag), begin)

    def Recv_init(
        self, buf: Given, source: int = ANY_SOURCE, tag: int = ANY_TAG, *, at: Line = ""
    ) -> PersistentRequest:
        """Create a persistent request to receive into `buf`, which can be started many times (MPI_Recv_init)."""
        buffer, call = buffer_of(buf, "MPI_Recv_init"), "MPI_Recv_init"
        self._check(call, source, tag, at, special=(ANY_SOURCE, PROC_NULL))

        async def begin(started: str) -> MpiRequest:
            return self.begin_receive(call, buffer, source, tag, 0, started or at)

        return PersistentRequest(self.endpoint, call, self._told("from", source, tag), begin)

    async def Sendrecv(
        self,
        sendbuf: Given,
        dest: int,
        sendtag: int = 0,
        recvbuf: Given = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
        *,
        at: Line = "",
    ) -> None:
        """Send one message and receive another at the same time (MPI_Sendrecv).

        sendbuf, recvbuf: arrays of the program, or sections of them. dest, sendtag: the receiver's rank and the tag of
        the message to it. source, recvtag: the sender's rank and the tag of the message from it. status: gets the
        received message's source, tag and bytes.
        """
        call = "MPI_Sendrecv"
        with self.endpoint.call(call, at):
            receive = self.begin_receive(call, buffer_of(recvbuf, call), source, recvtag, 0, at)
            send = await self.begin_send(call, buffer_of(sendbuf, call), dest, sendtag, 0, at)
            await MpiRequest.Waitall([receive, send], at=at, call=call)
        receive.take(status)

    async def Sendrecv_replace(
        self,
        buf: Given,
        dest: int,
        sendtag: int = 0,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
        *,
        at: Line = "",
    ) -> None:
        """Send what is in `buf`, and receive another message into it (MPI_Sendrecv_replace).

        The other parameters are those of `Sendrecv`.
        """
        call = "MPI_Sendrecv_replace"
        into = buffer_of(buf, call)
        sent = attrs.evolve(into.temporary(), dtype=into.dtype)
        sent.write(into.read())
        with self.endpoint.call(call, at):
            send = await self.begin_send(call, sent, dest, sendtag, 0, at)
            receive = self.begin_receive(call, into, source, recvtag, 0, at)
            await MpiRequest.Waitall([receive, send], at=at, call=call)
        receive.take(status)

    async def Probe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None, *, at: Line = ""
    ) -> None:
        """Wait for a message that could be received, and put its source, tag and bytes into `status` (MPI_Probe)."""
        self._check("MPI_Probe", source, tag, at, special=(ANY_SOURCE, PROC_NULL))
        told = self._told("from", source, tag)
        message = await self.endpoint.wait_for_message(self.context, source, tag, told, at)
        if status is not None:
            status.source, status.tag, status.nbytes = message.source, message.tag, message.nbytes

    async def Iprobe(
        self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None, *, at: Line = ""
    ) -> bool:
        """Tell whether a message with this source and tag could be received; describe it in `status` (MPI_Iprobe)."""
        self._check("MPI_Iprobe", source, tag, at, special=(ANY_SOURCE, PROC_NULL))
        await self.endpoint.look("MPI_Iprobe", at)
        message = self.endpoint.queues(self.context).probe(source, tag)
        if message is not None and status is not None:
            status.source, status.tag, status.nbytes = message.source, message.tag, message.nbytes
        return message is not None

    async def begin_send(
        self, call: str, buffer: MpiBuffer, dest: int, tag: int, plane: int, at: Line, *, synchronous: bool = False
    ) -> MpiRequest:
        """Begin to send a message on behalf of an MPI call; return its request.

        call, at: the call's name and the program's line, for reports. plane: 0 for the program's messages, 1 for those
        of collectives, so that the two never match. synchronous: whether it completes only when a receive has matched
        it. dest, tag: the receiver's rank and the message's tag.
        """
        endpoint = self.endpoint
        self._check(call, dest, tag, at, array=buffer.name)
        self._check_device(call, buffer, at)
        peer = None if dest == PROC_NULL else self.world.endpoints[self.group[dest]]
        request = MpiRequest(endpoint, call, self._told("to", dest, tag), buffer, peer, at)
        if plane == 0:
            endpoint.begun[request] = None
            endpoint.tell_begun(request, receives=False)
        if peer is None:
            request.finish()
            return request
        await self.world.transport.send(
            endpoint, request, peer, self.context + plane, self.rank, tag, synchronous=synchronous
        )
        return request

    def begin_receive(self, call: str, buffer: MpiBuffer, source: int, tag: int, plane: int, at: Line) -> MpiRequest:
        """Begin to receive a message on behalf of an MPI call; return its request.

        call, at: the call's name and the program's line, for reports. plane: 0 for the program's messages, 1 for those
        of collectives, so that the two never match. source, tag: the sender's rank and the message's tag; either may be
        a wildcard.
        """
        self._check(call, source, tag, at, special=(ANY_SOURCE, PROC_NULL), array=buffer.name)
        self._check_device(call, buffer, at)
        peer = self.world.endpoints[self.group[source]] if source >= 0 else None
        request = MpiRequest(self.endpoint, call, self._told("from", source, tag), buffer, peer, at)
        if plane == 0:
            self.endpoint.begun[request] = None
            self.endpoint.tell_begun(request, receives=True)
        if source == PROC_NULL:
            request.finish(PROC_NULL)
        else:
            self.endpoint.post(request, self.context + plane, source, tag)
        return request

    async def _blocking(self, request: MpiRequest, status: Status | None = None) -> None:
        await MpiRequest.Waitall([request], None if status is None else [status], at=request.at, call=request.call)

    def _told(self, way: str, rank: int, tag: int) -> str:
        """Describe the other side of a call for reports: "to rank 1 with tag 0 on NAME"."""
        who = {ANY_SOURCE: "any rank", PROC_NULL: "MPI_PROC_NULL"}.get(rank, f"rank {rank}")
        return f"{way} {who} with {'any tag' if tag == ANY_TAG else f'tag {tag}'} on {self.name}"

    def _check(
        self, call: str, rank: int, tag: int, at: Line, *, special: Sequence[int] = (PROC_NULL,), array: str = ""
    ) -> None:
        """Check a call's communicator, rank and tag. Raises MpiError. special: what may stand in place of a rank."""
        self._check_live(call, at)
        if not is_integer(rank) or not (0 <= rank < self.size or rank in special):
            reason = f"MPI_ERR_RANK: no rank {rank!r} in {self.name}, which has {self.size}"
            raise MpiError.of_call(self.endpoint.sim, reason, call, at, array)
        if not is_integer(tag) or not (0 <= tag <= TAG_UB or (tag == ANY_TAG and ANY_SOURCE in special)):
            reason = f"MPI_ERR_TAG: tag {tag!r}; it is 0 to {TAG_UB}"
            raise MpiError.of_call(self.endpoint.sim, reason, call, at, array)

    def _check_live(self, call: str, at: Line) -> None:
        if self._freed:
            raise MpiError.of_call(self.endpoint.sim, f"MPI_ERR_COMM: {self.name} was freed before", call, at)

    def _check_room(self, call: str, sent: MpiBuffer, into: MpiBuffer, at: Line, *, reduces: bool = True) -> None:
        """Check that a rank's own data fits where the collective puts it. Raises MpiError.

        reduces: whether both have the elements of one reduction, which have one type.
        """
        reason = f"MPI_ERR_TRUNCATE: {sent.nbytes} bytes, room for {into.nbytes}" if sent.nbytes > into.nbytes else ""
        typed = reduces and sent.dtype is not None and into.dtype is not None
        if typed and not reason and sent.dtype != into.dtype:
            reason = f"MPI_ERR_TYPE: a reduction of {sent.dtype} into {into.dtype}"
        if reason:
            raise MpiError.of_call(self.endpoint.sim, reason, call, at, into.name or sent.name)

    def _check_device(self, call: str, buffer: MpiBuffer, at: Line) -> None:
        there = len(self.endpoint.machine.devices)
        if buffer.device is not None and not (is_integer(buffer.device) and 0 <= buffer.device < there):
            reason = f"MPI_ERR_BUFFER: memory of device {buffer.device!r}; the process has {there}"
            raise MpiError.of_call(self.endpoint.sim, reason, call, at, buffer.name)

    # ------------------------------------------------------------------ collectives

    def _barrier(self, call: str, *, at: Line = "") -> Run:
        """Return when all ranks have made the call."""
        return self._chosen(call, 0)

    def _bcast(self, call: str, buf: Given, root: int = 0, *, at: Line = "") -> Run:
        """Broadcast the root's buffer to all ranks."""
        self._check(call, root, 0, at, special=())
        buffer = buffer_of(buf, call)
        self._same(root=root, nbytes=buffer.nbytes)
        return self._chosen(call, buffer.nbytes, _elements(buffer), buffer, root)

    def _reduce(
        self, call: str, sendbuf: Given | InPlace, recvbuf: Given, op: Op = SUM, root: int = 0, *, at: Line = ""
    ) -> Run:
        """Reduce the buffers of all ranks into that of the root."""
        self._check(call, root, 0, at, special=())
        sent = self._sent(call, sendbuf, recvbuf)
        at_root = self.rank == root
        into = buffer_of(recvbuf, call) if at_root else sent.temporary()
        self._check_room(call, sent, into, at)
        work = self._workplace(into)
        self._same(root=root, nbytes=sent.nbytes, op=op)
        chosen = self._chosen(call, sent.nbytes, _elements(sent), work, op, root)
        return self._reducing(sent, work, into if at_root else work, chosen)

    def _allreduce(self, call: str, sendbuf: Given | InPlace, recvbuf: Given, op: Op = SUM, *, at: Line = "") -> Run:
        """Reduce the buffers of all ranks into the buffer of each."""
        sent, into = self._sent(call, sendbuf, recvbuf), buffer_of(recvbuf, call)
        self._check_room(call, sent, into, at)
        work = self._workplace(into)
        self._same(nbytes=sent.nbytes, op=op)
        return self._reducing(sent, work, into, self._chosen(call, sent.nbytes, _elements(sent), work, op))

    def _gather(self, call: str, sendbuf: Given | InPlace, recvbuf: Given, root: int = 0, *, at: Line = "") -> Run:
        """Gather equal parts, in order of rank, in the root's buffer."""
        return self._gatherv(call, sendbuf, recvbuf, None, root, at=at)

    def _gatherv(
        self, call: str, sendbuf: Given | InPlace, recvbuf: Given, counts: Sequence[int] | None, root: int = 0, *,
        at: Line = "",
    ) -> Run:  # fmt: skip
        """Gather parts of `counts` bytes, one after the other in the root's buffer."""
        parts, mine = self._divided(call, recvbuf, sendbuf, counts, root, at)
        return self._chosen(call, mine.nbytes, _elements(mine), mine, parts, root)

    def _scatter(self, call: str, sendbuf: Given, recvbuf: Given | InPlace, root: int = 0, *, at: Line = "") -> Run:
        """Scatter equal parts of the root's buffer, in order of rank."""
        return self._scatterv(call, sendbuf, None, recvbuf, root, at=at)

    def _scatterv(
        self, call: str, sendbuf: Given, counts: Sequence[int] | None, recvbuf: Given | InPlace, root: int = 0, *,
        at: Line = "",
    ) -> Run:  # fmt: skip
        """Scatter parts of `counts` bytes, one after the other in the root's buffer."""
        parts, mine = self._divided(call, sendbuf, recvbuf, counts, root, at)
        return self._chosen(call, mine.nbytes, _elements(mine), parts, mine, root)

    def _allgather(self, call: str, sendbuf: Given | InPlace, recvbuf: Given, *, at: Line = "") -> Run:
        """Gather equal parts, in order of rank, in the buffers of all ranks."""
        return self._allgatherv(call, sendbuf, recvbuf, None, at=at)

    def _allgatherv(
        self, call: str, sendbuf: Given | InPlace, recvbuf: Given, counts: Sequence[int] | None, *, at: Line = ""
    ) -> Run:
        """Gather parts of `counts` bytes, one after the other, in the buffers of all ranks."""
        into = buffer_of(recvbuf, call)
        parts = self._parts(call, into, counts, at)
        mine = parts[self.rank]
        sent = mine if isinstance(sendbuf, InPlace) else buffer_of(sendbuf, call)
        self._check_room(call, sent, mine, at, reduces=False)
        self._same(nbytes=into.nbytes)
        chosen = self._chosen(call, -(-into.nbytes // self.size), _elements(into), into, parts)

        async def body(channel: Channel) -> None:
            mine.write(sent.read())
            await chosen(channel)

        return body

    def _alltoall(self, call: str, sendbuf: Given, recvbuf: Given, *, at: Line = "") -> Run:
        """Send one equal part of each rank's buffer to every rank."""
        return self._alltoallv(call, sendbuf, None, recvbuf, None, at=at)

    def _alltoallv(
        self, call: str, sendbuf: Given, sendcounts: Sequence[int] | None, recvbuf: Given,
        recvcounts: Sequence[int] | None, *, at: Line = "",
    ) -> Run:  # fmt: skip
        """Send parts of `sendcounts` bytes to all ranks and receive parts of `recvcounts` bytes from them."""
        sent, into = buffer_of(sendbuf, call), buffer_of(recvbuf, call)
        outgoing, incoming = self._parts(call, sent, sendcounts, at), self._parts(call, into, recvcounts, at)
        self._check_room(call, outgoing[self.rank], incoming[self.rank], at, reduces=False)
        self._same(nbytes=sent.nbytes if sendcounts is None else None)
        return self._chosen(call, sent.nbytes // self.size, _elements(sent), outgoing, incoming)

    def _reduce_scatter(
        self, call: str, sendbuf: Given, recvbuf: Given, counts: Sequence[int] | None = None, op: Op = SUM, *,
        at: Line = "",
    ) -> Run:  # fmt: skip
        """Reduce all buffers, and give each rank its part of `counts` bytes; equal parts if that is None."""
        sent, into = buffer_of(sendbuf, call), buffer_of(recvbuf, call)
        work = self._workplace(sent).temporary()
        parts = self._parts(call, work, counts, at)
        self._check_room(call, parts[self.rank], into, at)
        mine = into if work.device == into.device else attrs.evolve(into.temporary(), device=None)
        self._same(nbytes=sent.nbytes, op=op)
        chosen = self._chosen(call, sent.nbytes, _elements(sent), work, parts, mine, op)
        reducing = self._reducing(sent, work, work, chosen)

        async def body(channel: Channel) -> None:
            await reducing(channel)
            if mine is not into and into.device is not None:
                await self.endpoint.carrier.stage(self.endpoint, into.device, "h2d", into.nbytes)
                into.write(mine.read())

        return body

    def _scan(self, call: str, sendbuf: Given | InPlace, recvbuf: Given, op: Op = SUM, *, at: Line = "") -> Run:
        """Give each rank the reduction over all ranks up to itself."""
        sent, into = self._sent(call, sendbuf, recvbuf), buffer_of(recvbuf, call)
        self._check_room(call, sent, into, at)
        copy = sent.temporary()
        copy.write(sent.read())
        self._same(nbytes=sent.nbytes, op=op)
        return self._chosen(call, sent.nbytes, _elements(sent), copy, into, op)

    def _exscan(self, call: str, sendbuf: Given | InPlace, recvbuf: Given, op: Op = SUM, *, at: Line = "") -> Run:
        """Give each rank except the first the reduction over all ranks before it."""
        return self._scan(call, sendbuf, recvbuf, op, at=at)

    Barrier, Ibarrier = _collective("Barrier", _barrier)
    Bcast, Ibcast = _collective("Bcast", _bcast)
    Reduce, Ireduce = _collective("Reduce", _reduce)
    Allreduce, Iallreduce = _collective("Allreduce", _allreduce)
    Gather, Igather = _collective("Gather", _gather)
    Gatherv, Igatherv = _collective("Gatherv", _gatherv)
    Scatter, Iscatter = _collective("Scatter", _scatter)
    Scatterv, Iscatterv = _collective("Scatterv", _scatterv)
    Allgather, Iallgather = _collective("Allgather", _allgather)
    Allgatherv, Iallgatherv = _collective("Allgatherv", _allgatherv)
    Alltoall, Ialltoall = _collective("Alltoall", _alltoall)
    Alltoallv, Ialltoallv = _collective("Alltoallv", _alltoallv)
    Reduce_scatter, Ireduce_scatter = _collective("Reduce_scatter", _reduce_scatter)
    Scan, Iscan = _collective("Scan", _scan)
    Exscan, Iexscan = _collective("Exscan", _exscan)

    # ------------------------------------------------------------------ how collectives run

    def _divided(
        self, call: str, whole: Given, own: Given | InPlace, counts: Sequence[int] | None, root: int, at: Line
    ) -> tuple[list[MpiBuffer] | None, MpiBuffer]:
        """Return the parts of the root's buffer `whole`, None on other ranks, and the buffer of this rank's part."""
        self._check(call, root, 0, at, special=())
        parts = self._parts(call, buffer_of(whole, call), counts, at) if self.rank == root else None
        in_place = NOTHING if parts is None else parts[root]
        mine = in_place if isinstance(own, InPlace) else buffer_of(own, call)
        if parts is not None:
            pair = (mine, parts[root]) if call.startswith("MPI_Gather") else (parts[root], mine)
            self._check_room(call, *pair, at, reduces=False)
        may_differ = call in ("MPI_Gatherv", "MPI_Scatterv")
        self._same(root=root, nbytes=None if may_differ else mine.nbytes if parts is None else parts[root].nbytes)
        return parts, mine

    def _same(self, *, root: int | None = None, nbytes: int | None = None, op: Op | None = None) -> None:
        """Note the arguments of the current collective that must be equal on all ranks."""
        said = [f"root {root}" if root is not None else "", f"{nbytes} bytes" if nbytes is not None else ""]
        self._arguments = ", ".join(filter(None, [*said, op.name if op is not None else ""]))

    def _chosen(self, call: str, nbytes: int, count: int = 1, *args: object) -> Run:
        chosen = choices.algorithm(self.world.costs.library.collectives, call, self.size, nbytes, count)
        return lambda channel: chosen(channel, *args)

    async def run(self, call: str, at: Line, body: Run) -> None:
        """Carry out a blocking collective in the calling thread, and return when it is done.

        call, at: the MPI call's name and the program's line, for reports. body: a function that sends and receives the
        collective's messages.
        """
        channel = self._channel(call, at, background=False)
        with self.endpoint.call(call, at):
            await body(channel)

    def start(self, call: str, at: Line, body: Run) -> MpiRequest:
        """Begin a nonblocking collective, which goes on in the background; return the request to wait for.

        call, at: the MPI call's name and the program's line, for reports. body: a function that sends and receives the
        collective's messages.
        """
        channel = self._channel(call, at, background=True)
        request = MpiRequest(self.endpoint, call, f"on {self.name}", at=at)
        self.endpoint.begun[request] = None
        request.absent = self._absent(self._collectives)

        async def go_on() -> None:
            try:
                await body(channel)
            except MpiError as error:
                request.error = error
            request.finish()

        self.world.sim.spawn(go_on, name=f"rank {self.endpoint.rank} {call}", daemon=True)
        return request

    def _channel(self, call: str, at: Line, *, background: bool) -> Channel:
        self._check_live(call, at)
        self._collectives += 1
        self.world.agree(self.context, self._collectives, call, self._arguments, self.rank, self.size, at)
        self._arguments = ""
        tag, absent = self._collectives, self._absent(self._collectives)

        async def isend(buffer: MpiBuffer, rank: int) -> MpiRequest:
            request = await self.begin_send(call, buffer, rank, tag, 1, at)
            request.absent = absent
            return request

        def irecv(buffer: MpiBuffer, rank: int) -> MpiRequest:
            request = self.begin_receive(call, buffer, rank, tag, 1, at)
            request.absent = absent
            return request

        nodes = [self.world.endpoints[rank].node for rank in self.group]
        return Channel(self.rank, self.size, self.endpoint, call, at, background, isend, irecv, nodes)

    def _absent(self, number: int) -> Callable[[], list[str]]:
        return lambda: self.world.absent(self.context, number, self.group)

    def _workplace(self, buffer: MpiBuffer) -> MpiBuffer:
        """Return the buffer in which a reduction is computed: a host copy for short device buffers, else `buffer`."""
        if buffer.device is None or buffer.nbytes > self.world.costs.device.collective_limit:
            return buffer
        return attrs.evolve(buffer.temporary(), device=None)

    def _reducing(self, sent: MpiBuffer, work: MpiBuffer, into: MpiBuffer, chosen: Run) -> Run:
        """Return the steps that reduce `sent` in `work`, with copies from and to a device if `work` is on the host."""

        async def body(channel: Channel) -> None:
            for buffer in (sent, into):
                self._check_device("a reduction", buffer, "")
            if sent.device is not None and work.device is None:
                await self.endpoint.carrier.stage(self.endpoint, sent.device, "d2h", sent.nbytes)
            work.write(sent.read())
            await chosen(channel)
            if into.device is not None and work.device is None:
                await self.endpoint.carrier.stage(self.endpoint, into.device, "h2d", into.nbytes)
                into.write(work.read())

        return body

    @staticmethod
    def _sent(call: str, sendbuf: Given | InPlace, recvbuf: Given) -> MpiBuffer:
        return buffer_of(recvbuf if isinstance(sendbuf, InPlace) else sendbuf, call)

    def _parts(self, call: str, buffer: MpiBuffer, counts: Sequence[int] | None, at: Line) -> list[MpiBuffer]:
        """Return each rank's part of a buffer: equal, or of `counts` bytes one after the other. Raises MpiError."""
        if counts is None:
            return split(buffer, self.size)
        if len(counts) != self.size or any(count < 0 for count in counts) or sum(counts) > buffer.nbytes:
            reason = (
                f"MPI_ERR_COUNT: {len(counts)} counts with {sum(counts)} bytes, for {self.size} ranks and "
                f"{buffer.nbytes} bytes"
            )
            raise MpiError.of_call(self.endpoint.sim, reason, call, at, buffer.name)
        begin, parts = 0, []
        for count in counts:
            parts.append(buffer.part(begin, count))
            begin += count
        return parts

    # ------------------------------------------------------------------ communicators

    async def Split(self, color: int = 0, key: int = 0, *, at: Line = "") -> Comm | None:
        """Return the communicator of all ranks with the same color, in the order of their keys (MPI_Comm_split).

        Returns None for a rank whose color is UNDEFINED. key: ranks with equal keys keep the order of this
        communicator.
        """
        mine = np.array([color, key], np.int64)
        everybody = np.zeros(2 * self.size, np.int64)
        sent, into = (MpiBuffer(values.nbytes, values=values, dtype=values.dtype) for values in (mine, everybody))
        await self.run("MPI_Comm_split", at, self._allgather("MPI_Allgather", sent, into, at=at))
        self._made += 1
        number = self._made
        if color == UNDEFINED:
            return None
        pairs = everybody.reshape(self.size, 2)
        members = sorted((int(pairs[rank, 1]), rank) for rank in range(self.size) if pairs[rank, 0] == color)
        group = [self.group[rank] for _, rank in members]
        context = self.world.context((self.context, number, int(color)))
        return Comm(self.world, self.endpoint, group, context, f"{self.name} split {number} color {color}")

    async def Dup(self, *, at: Line = "") -> Comm:
        """Return a communicator of the same ranks, whose messages are separate from this one's (MPI_Comm_dup)."""
        word = MpiBuffer(8)
        await self.run("MPI_Comm_dup", at, self._allreduce("MPI_Allreduce", IN_PLACE, word, SUM))
        self._made += 1
        context = self.world.context((self.context, self._made, "dup"))
        return Comm(self.world, self.endpoint, self.group, context, f"{self.name} dup {self._made}")

    def Free(self) -> None:
        """Release the communicator (MPI_Comm_free); messages that have begun still complete.

        Raises MpiError for MPI_COMM_WORLD, and for a communicator that was freed before.
        """
        self._check_live("MPI_Comm_free", "")
        if self.context == 0:
            raise MpiError.of_call(self.endpoint.sim, f"MPI_ERR_COMM: {self.name} is never freed", "MPI_Comm_free")
        self._freed = True

    def __getattr__(self, name: str) -> NoReturn:
        if name in ONE_SIDED:
            raise MpiError.of_call(self.endpoint.sim, "one-sided communication is not emulated", f"MPI_{name}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def _elements(buffer: MpiBuffer) -> int:
    return buffer.nbytes // (buffer.dtype.itemsize if buffer.dtype is not None else 1)


def worlds(processes: Sequence[Process]) -> list[Comm]:
    """Return each process's handle of MPI_COMM_WORLD, in order of rank.

    processes: the processes of the run, in order of rank. Raises ProfileError if the machine's profile lacks the costs
    of messages.
    """
    world = World(processes)
    context = world.context("MPI_COMM_WORLD")
    group = range(len(processes))
    return [Comm(world, endpoint, group, context, "MPI_COMM_WORLD") for endpoint in world.endpoints]
