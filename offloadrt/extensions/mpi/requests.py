"""Requests, and the progress of a rank's messages: `Endpoint` is a process's end of all its communicators.

When a message has arrived, the library has to do something on a core: copy it out, or ask for the data of an announced
one. This is `Work`. It waits in the endpoint until a thread of the process is in an MPI call that waits or tests,
because an MPI library makes progress only there. A thread that waits does the work of the whole process, as a real
progress engine does. If there is none, it parks until new work comes or its wait ends. A parked thread gives its core
up; real libraries poll and keep it, so runs with more threads than cores are predicted too fast.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol

import attrs

from offloadrt.extensions.checking.recorded import BufferUsed, MessageBegan
from offloadrt.extensions.mpi.buffers import ANY_SOURCE, ANY_TAG, NOTHING, Line, MpiBuffer, MpiError
from offloadrt.extensions.mpi.costs import MessageCosts
from offloadrt.extensions.mpi.matching import MatchQueues
from offloadrt.extensions.mpi.network import Nic
from offloadrt.models.host.arguments import checks_arguments
from offloadrt.models.host.process import Process
from offloadrt.runtime.events import Awaited, HostUsed, StrandEnded
from offloadrt.runtime.host_array import Bytes
from offloadrt.sim import Actor, Signal, Simulation
from offloadrt.trace import events

Work = Callable[[], Awaitable[None]]
"""What the library has to do on a core for one message."""


class Carrier(Protocol):
    """Carries messages between ranks: the methods of `Transport` that an `Endpoint` (a rank's end of MPI) calls."""

    def receive(self, endpoint: Endpoint, request: MpiRequest, message: MpiMessage) -> None:
        """Begin to receive, at a rank's endpoint, a message that has been matched with the receive `request`."""

    def stage(self, endpoint: Endpoint, device: int, direction: str, nbytes: int) -> Awaitable[None]:
        """Copy `nbytes` between a device's memory and the host's by a synchronous call.

        device: the device's number. direction: ``h2d`` or ``d2h``. endpoint: that of the rank whose thread makes the
        call.
        """


class MessageTruncated(MpiError):
    """Raised for a receive whose buffer is shorter than its message (MPI_ERR_TRUNCATE)."""


@attrs.define
class Status:
    """Source, tag and bytes of a message that was received, or that could be received (`Comm.Probe`).

    `source` is the sender's rank; `is_cancelled` tells whether the receive was cancelled before a message came.
    """

    source: int = ANY_SOURCE
    tag: int = ANY_TAG
    nbytes: int = 0
    is_cancelled: bool = False

    def Get_source(self) -> int:
        return self.source

    def Get_tag(self) -> int:
        return self.tag

    def Get_count(self) -> int:
        """Return the number of bytes of the message."""
        return self.nbytes


@attrs.frozen(eq=False)
class MpiMessage:
    """A message from one rank to another, or the announcement of a long message whose data is still with the sender.

    `eager` tells whether the data comes with the message, rather than after an announcement. `sender` is the endpoint
    of the sending rank. `tag` is MPI's tag, and `nbytes` the length of the data.
    """

    number: int
    """The number of the message in the run, from 1."""
    context: int
    """The number of its communicator."""
    source: int
    """The sender's rank in that communicator."""
    tag: int
    nbytes: int
    sequence: int
    """Its place among all messages from its sender to its receiver."""
    sender: Endpoint
    send: MpiRequest
    """The sender's request; the data of an announced message is in the buffer of this request."""
    eager: bool
    values: Bytes | None = None
    """The bytes of an eager message; None for a phantom, and for an announced message."""


class PendingWait:
    """One MPI call that waits for requests, such as MPI_Waitany; it ends when `left` more requests are complete."""

    __slots__ = ("left", "parked")

    def __init__(self, left: int) -> None:
        self.left = left
        self.parked: _Parked | None = None
        """The signal on which its thread is parked; None if it is not parked."""

    def count(self, request: MpiRequest) -> None:
        """Count one more complete request, and wake the waiting thread if that was the last one that it needs."""
        self.left -= 1
        if self.left <= 0:
            self.wake()

    def wake(self) -> None:
        """Wake the waiting thread, so that it does pending work of the MPI library and looks for complete requests."""
        if self.parked is not None and not self.parked.is_set:
            self.parked.set()


class _Parked(Signal):
    """The signal of a thread that waits in an MPI call; the report of a deadlock asks it for whom it waits."""

    __slots__ = ("_called", "_waits_for")

    def __init__(self, sim: Simulation, name: str, waits_for: Sequence[MpiRequest]) -> None:
        self._waits_for = waits_for
        super().__init__(sim, name)

    @property
    def name(self) -> str:
        """Return the text of reports: the call, and which of the ranks it waits for have ended."""
        waits = [one for one in self._waits_for if not one.is_done and one.absent is None]
        peers = dict.fromkeys(one.peer for one in waits if one.peer is not None)
        ended = [f"{peer} has ended{peer.said_last()}" for peer in peers if peer.has_ended]
        return "; ".join([self._called, *ended])

    @name.setter
    def name(self, called: str) -> None:
        self._called = called

    def missing(self) -> list[str]:
        """Return the ranks that have not reached the collective for which the thread waits."""
        absent = next((one.absent for one in self._waits_for if one.absent is not None), None)
        return [] if absent is None else absent()

    def holders(self) -> list[Actor]:
        """Return the threads of the ranks on which the end of the wait depends, as far as they are known."""
        peers = [request.peer for request in self._waits_for if request.peer is not None and not request.is_done]
        return list(dict.fromkeys(peer.actor for peer in peers if peer.actor is not None and not peer.has_ended))


@checks_arguments
class MpiRequest:
    """A send, a receive or a collective that has begun: `Wait` for it, or `Test` it.

    `MpiRequest.Waitall`, `Waitany` and `Waitsome` wait for several requests; `Testall`, `Testany` and `Testsome` test
    several. A `status` gets the message's source, tag and bytes; `at` is the program's line with the call, for reports.
    endpoint, peer: those of this rank and of the other one. call, what: the MPI call and the operation, for reports.
    """

    __slots__ = (
        "absent", "at", "buffer", "call", "endpoint", "error", "is_done", "peer", "status", "waits", "wanted", "what",
    )  # fmt: skip

    def __init__(
        self,
        endpoint: Endpoint,
        call: str,
        what: str,
        buffer: MpiBuffer = NOTHING,
        peer: Endpoint | None = None,
        at: Line = "",
    ) -> None:
        self.endpoint = endpoint
        self.call = call
        """The MPI call that made the request, for example "MPI_Isend"."""
        self.what = what
        """The other side of the request for messages, for example "to rank 1 with tag 0"."""
        self.buffer = buffer
        self.peer = peer
        """The endpoint of the other rank; None for a receive from any rank, and for a collective."""
        self.at = at
        """File and line of the call; empty if they are not known."""
        self.is_done = False
        self.status = Status()
        self.error: MpiError | None = None
        self.waits: list[PendingWait] = []
        """The calls that wait for this request."""
        self.absent: Callable[[], list[str]] | None = None
        """For a collective: returns the names of the ranks that have not reached it."""
        self.wanted: tuple[int, int, int] | None = None
        """For a posted receive: (communicator, source, tag)."""

    def __repr__(self) -> str:
        return f"<{self} of rank {self.endpoint.rank}{', done' if self.is_done else ''}>"

    def __str__(self) -> str:
        return f"{self.call} {self.what}" + (f" ({self.at})" if self.at else "")

    @property
    def called(self) -> str:
        """Describe the request for reports: its rank and call, with the program's line or else the other rank."""
        return f"{self.endpoint}'s {self.call} {f'({self.at})' if self.at else self.what}"

    def finish(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, nbytes: int = 0) -> None:
        """Complete the request, and wake the calls that wait for it; source, tag and bytes go into its status."""
        self.is_done = True
        self.status = Status(source, tag, nbytes, self.status.is_cancelled)
        if self.waits:
            waits, self.waits = self.waits, []
            for wait in waits:
                wait.count(self)

    # ------------------------------------------------------------------ MPI's calls

    async def Wait(self, status: Status | None = None, *, at: Line = "") -> None:
        """Wait until the request is complete (MPI_Wait). Raises MpiError if the operation failed."""
        await self.Waitall([self], [status] if status is not None else None, at=at, call="MPI_Wait")

    async def Test(self, status: Status | None = None, *, at: Line = "") -> bool:
        """Make progress and tell whether the request is complete (MPI_Test). Raises MpiError if it failed."""
        await self.endpoint.look("MPI_Test", at)
        if self.is_done:
            self.take(status)
        return self.is_done

    def Cancel(self) -> None:
        """Cancel a receive that no message has matched (MPI_Cancel): it completes, and its status says so."""
        if self.wanted is not None and self.endpoint.withdraw(self):
            self.status.is_cancelled = True
            self.finish()

    def take(self, status: Status | None) -> None:
        """Hand the result to the program: copy it into `status`, if there is one. Raises MpiError if it failed."""
        if self.error is not None:
            raise self.error
        if status is not None:
            mine = self.status
            status.source, status.tag, status.nbytes = mine.source, mine.tag, mine.nbytes
            status.is_cancelled = mine.is_cancelled
        self.completed()

    def completed(self) -> None:
        """Record that the program knows of the completion, so that the request does not count as never waited for."""
        self.endpoint.begun.pop(self, None)
        self.endpoint.tell_completed(self)

    @staticmethod
    async def Waitall(
        requests: Sequence[MpiRequest],
        statuses: Sequence[Status] | None = None,
        *,
        at: Line = "",
        call: str = "MPI_Waitall",
    ) -> None:
        """Wait until all requests are complete (MPI_Waitall).

        statuses: one for each request, to be filled. call: the name of the MPI function, for reports.
        """
        if requests:
            await requests[0].endpoint.wait(requests, len(requests), call, at)
        for number, request in enumerate(requests):
            request.take(None if statuses is None else statuses[number])

    @staticmethod
    async def Waitany(requests: Sequence[MpiRequest], status: Status | None = None, *, at: Line = "") -> int:
        """Wait until a request is complete; return the index of the first that is, -1 without any (MPI_Waitany)."""
        if not requests:
            return -1
        await requests[0].endpoint.wait(requests, 1, "MPI_Waitany", at)
        place = next(number for number, request in enumerate(requests) if request.is_done)
        requests[place].take(status)
        return place

    @staticmethod
    async def Waitsome(requests: Sequence[MpiRequest], *, at: Line = "") -> list[int]:
        """Wait until at least one request is complete, and return the indices of all that are (MPI_Waitsome)."""
        if requests:
            await requests[0].endpoint.wait(requests, 1, "MPI_Waitsome", at)
        return _taken(requests)

    @staticmethod
    async def Testall(requests: Sequence[MpiRequest], *, at: Line = "") -> bool:
        """Make progress, and tell whether all requests are complete (MPI_Testall)."""
        if requests:
            await requests[0].endpoint.look("MPI_Testall", at)
        if all(request.is_done for request in requests):
            _taken(requests)
            return True
        return False

    @staticmethod
    async def Testany(requests: Sequence[MpiRequest], *, at: Line = "") -> int:
        """Make progress, and return the index of the first complete request; -1 if there is none (MPI_Testany)."""
        if requests:
            await requests[0].endpoint.look("MPI_Testany", at)
        place = next((number for number, request in enumerate(requests) if request.is_done), -1)
        if place >= 0:
            requests[place].take(None)
        return place

    @staticmethod
    async def Testsome(requests: Sequence[MpiRequest], *, at: Line = "") -> list[int]:
        """Make progress, and return the indices of the complete requests (MPI_Testsome)."""
        if requests:
            await requests[0].endpoint.look("MPI_Testsome", at)
        return _taken(requests)


def _taken(requests: Sequence[MpiRequest]) -> list[int]:
    places = [number for number, request in enumerate(requests) if request.is_done]
    for place in places:
        requests[place].take(None)
    return places


@checks_arguments
class PersistentRequest(MpiRequest):
    """A send or receive that can be started often, each time by the function `begin` (MPI_Send_init, MPI_Recv_init)."""

    __slots__ = ("_begin", "_current")

    def __init__(self, endpoint: Endpoint, call: str, what: str, begin: Callable[[str], Awaitable[MpiRequest]]) -> None:
        super().__init__(endpoint, call, what)
        self._begin = begin
        self._current: MpiRequest | None = None
        self.is_done = True  # an inactive request: a wait for it ends at once

    async def Start(self, *, at: Line = "") -> None:
        """Start the operation once more (MPI_Start). Raises MpiError if it was started and not yet waited for."""
        if self._current is not None:
            raise MpiError.of_call(
                self.endpoint.sim, f"MPI_ERR_REQUEST: {self} is active; wait for it first", "MPI_Start", at
            )
        self.is_done, self.error, self.status = False, None, Status()
        self._current = current = await self._begin(at)
        self.peer, self.at = current.peer, at or current.at
        if current.is_done:
            self.follow(current)
        else:
            current.waits.append(_Follower(self))

    def follow(self, current: MpiRequest) -> None:
        """Complete this request with the status and error of `current`, the operation that it has started."""
        self.error = current.error
        self.finish(current.status.source, current.status.tag, current.status.nbytes)

    def completed(self) -> None:
        if self._current is not None:
            self._current.completed()
        self._current = None

    @staticmethod
    async def Startall(requests: Sequence[PersistentRequest], *, at: Line = "") -> None:
        """Start all requests, in order (MPI_Startall)."""
        for request in requests:
            await request.Start(at=at)


class _Follower(PendingWait):
    """Completes a persistent request when the operation that it has started completes."""

    __slots__ = ("_followed",)

    def __init__(self, followed: PersistentRequest) -> None:
        super().__init__(1)
        self._followed = followed

    def count(self, request: MpiRequest) -> None:
        """Complete the persistent request with `request`, the operation that it has started."""
        self._followed.follow(request)


class Endpoint:
    """One process's end of all its communicators.

    It has the queues of messages and receives, the MPI library's pending work, and the threads that wait in MPI calls.
    """

    def __init__(self, process: Process, nic: Nic, costs: MessageCosts, carrier: Carrier) -> None:
        self.process = process
        self.nic = nic
        """The network card with which it sends."""
        self.costs = costs
        self.carrier = carrier
        self.rank = process.rank
        self.machine = process.program.machine
        self.node = self.machine.node
        self.sim = process.program.sim
        self.trace = process.program.trace
        self.actor: Actor | None = None
        """The thread of the process that made the last MPI call, for reports."""
        self.last_call = ""
        """The name of the last MPI call, with its line if that is known."""
        self.begun: dict[MpiRequest, None] = {}
        """Requests that the program has begun and of whose completion it does not know yet (an ordered set)."""
        self.unmatched: dict[int, MpiMessage] = {}
        """Sent messages of the program that no receive has matched, by number."""
        self.mismatches: dict[str, None] = {}
        """Messages whose element type is not that of their receive, as texts (an ordered set)."""
        self._queues: dict[int, MatchQueues[MpiRequest, MpiMessage]] = {}
        self._work: deque[Work] = deque()
        self._parked: list[_Parked] = []
        self.inside: set[int] = set()
        """The threads that are in an MPI call, by their actors' numbers."""
        self._probing: list[PendingWait] = []
        """Calls of MPI_Probe that wait for a message."""
        self._sent: dict[int, int] = {}
        self._expected: dict[int, int] = {}
        self._early: dict[tuple[int, int], MpiMessage] = {}
        """By (sender, sequence): messages that arrived before one that their sender had sent earlier."""

    def __repr__(self) -> str:
        return f"rank {self.rank}"

    # ------------------------------------------------------------------ matching

    def queues(self, context: int) -> MatchQueues[MpiRequest, MpiMessage]:
        """Return the queues in which the messages and receives of communicator number `context` find each other."""
        if (queues := self._queues.get(context)) is None:
            queues = self._queues[context] = MatchQueues()
        return queues

    def next_sequence(self, receiver: Endpoint) -> int:
        """Return the sequence number for the next message to the rank `receiver`, and count that message."""
        number = self._sent.get(receiver.rank, 0)
        self._sent[receiver.rank] = number + 1
        return number

    def deliver(self, message: MpiMessage) -> None:
        """Match an arrived message with a posted receive, once all earlier messages of its sender have arrived.

        If a receive matches, the library begins to receive the message; otherwise the message waits in a queue.
        """
        sender = message.sender.rank
        self._early[sender, message.sequence] = message
        expected = self._expected.get(sender, 0)
        while (following := self._early.pop((sender, expected), None)) is not None:
            expected += 1
            self._expected[sender] = expected
            receive = self.queues(following.context).arrive(following.source, following.tag, following)
            if receive is not None:
                self._matched(receive, following)
            else:
                for probing in self._probing:
                    probing.wake()

    def post(self, receive: MpiRequest, context: int, source: int, tag: int) -> None:
        """Post a receive; a message that has arrived already may match it.

        context: the communicator's number. source, tag: what the message must have; either may be a wildcard.
        """
        receive.wanted = context, source, tag
        if (message := self.queues(context).post(source, tag, receive)) is not None:
            self._matched(receive, message)

    def withdraw(self, receive: MpiRequest) -> bool:
        """Withdraw a receive; returns False if a message has matched it."""
        assert receive.wanted is not None
        return self.queues(receive.wanted[0]).withdraw(receive)

    @property
    def has_ended(self) -> bool:
        """Tell whether the thread that made the last MPI call has ended."""
        return self.actor is not None and self.actor.finished

    def said_last(self) -> str:
        """Return the last MPI call as the end of a sentence for reports: " after CALL", or "" without a call."""
        return f" after {self.last_call}" if self.last_call else ""

    def mistakes(self) -> list[str]:
        """List what the rank left undone: messages that nobody received, requests that it never waited for."""
        messages = {message.send: message for message in self.unmatched.values()}
        undone = [f"{sent.called} is never received, {one.nbytes} bytes" for sent, one in messages.items()]
        undone += [f"{request.called} is never waited for" for request in self.begun if request not in messages]
        return [*self.mismatches, *undone]

    # ------------------------------------------------------------------ observers

    def tell_begun(self, request: MpiRequest, *, receives: bool) -> None:
        """Tell the program's observer, such as the checker, which bytes of an array a message under way uses."""
        tell, buffer, array = self.process.program.tell, request.buffer, request.buffer.array
        if tell is None or array is None:
            return
        begin = array.address + buffer.lower
        if not receives:
            tell(HostUsed(array, begin, buffer.nbytes, False))
        tell(MessageBegan(request, request.call, request.at))
        tell(BufferUsed(array, begin, buffer.nbytes, receives, request.call))
        tell(StrandEnded(request))

    def tell_completed(self, request: MpiRequest) -> None:
        """Tell the program's observer, such as the checker, that the program knows that a message is complete.

        If it was received, the observer also learns which bytes of the host's array the message has written.
        """
        tell, buffer, array = self.process.program.tell, request.buffer, request.buffer.array
        if tell is None or array is None:
            return
        tell(Awaited(request))
        if request.wanted is not None and request.status.nbytes:
            tell(HostUsed(array, array.address + buffer.lower, request.status.nbytes, True))

    def _matched(self, receive: MpiRequest, message: MpiMessage) -> None:
        receive.peer = message.sender
        message.sender.unmatched.pop(message.number, None)
        given, taken = message.send.buffer.dtype, receive.buffer.dtype
        typed = given is not None and taken is not None  # NumPy would take None for float64
        if typed and given != taken and message.nbytes:
            told = f"{message.send.called} of {given} meets {receive.called} of {taken}"
            self.mismatches[told] = None
        if message.nbytes > receive.buffer.nbytes:
            room = f"a message of {message.nbytes} bytes from rank {message.source}, room for {receive.buffer.nbytes}"
            sent = f" (sent by {message.send})"
            receive.error = MessageTruncated(
                f"MPI_ERR_TRUNCATE: {room}{sent}" + (f"; at {receive.at}" if receive.at else ""),
                call=receive.call, array=receive.buffer.name, thread=f"rank {self.rank}", time_s=self.sim.now,
            )  # fmt: skip
            message = attrs.evolve(message, nbytes=receive.buffer.nbytes)  # it gets what there is room for
        self.carrier.receive(self, receive, message)

    # ------------------------------------------------------------------ progress

    def add_work(self, work: Work) -> None:
        """Leave work of the MPI library to a thread that is in an MPI call, or else to the next one that enters one."""
        self._work.append(work)
        self._wake_one()

    async def on_core(self, seconds: float) -> None:
        """Let the MPI library work for this many seconds on a core."""
        if seconds > 0.0:
            await self.machine.work(seconds, "ranks")

    def came_to(self, name: str, at: Line = "") -> Actor:
        """Record that the running thread enters MPI call `name`, for reports; return the thread (an `Actor`)."""
        me = self.actor = self.sim.current
        if me.index not in self.inside:
            self.last_call = f"{name} ({at})" if at else name
        return me

    def call(self, name: str, at: Line = "") -> AbstractContextManager[None]:
        """Return a context manager for the body of an MPI call, which puts the call into the trace.

        name, at: the MPI call and the program's line. A call inside another one of the same thread counts as a part of
        that.
        """
        me = self.came_to(name, at)
        return _NESTED if me.index in self.inside else _Call(self, me, name, at)

    async def wait(
        self, requests: Sequence[MpiRequest], needed: int, call: str, at: Line, *, background: bool = False
    ) -> None:
        """Do the MPI library's work, or sleep if there is none, until `needed` of the requests are complete.

        call, at: the waiting MPI call and the program's line, for reports. background: for a nonblocking collective:
        only sleep, as threads that are in MPI calls do the work.
        """
        pending = [request for request in requests if not request.is_done]
        waiting = PendingWait(needed - (len(requests) - len(pending)))
        if waiting.left <= 0 and not self._work:
            return
        for request in pending:
            request.waits.append(waiting)
        try:
            if background:
                while waiting.left > 0:
                    await self._park(waiting, pending, call, at, background=True)
                return
            with self.call(call, at):
                while waiting.left > 0 or self._work:
                    if self._work:
                        await self._work.popleft()()
                        if waiting.left <= 0:
                            break
                    else:
                        await self._park(waiting, pending, call, at)
                if self._work:  # another waiting thread goes on with the work
                    self._wake_one()
        finally:
            if waiting.left > 0 or needed < len(requests):
                for request in pending:
                    if waiting in request.waits:
                        request.waits.remove(waiting)

    async def wait_for_message(self, context: int, source: int, tag: int, what: str, at: Line) -> MpiMessage:
        """Do the MPI library's work until there is a message that could be received (MPI_Probe).

        Returns the message, which stays in its queue. context: the communicator's number. what, at: what is waited for
        in words, and the program's line, for reports. source, tag: what the message must have; either may be a
        wildcard.
        """
        with self.call("MPI_Probe", at):
            while (message := self.queues(context).probe(source, tag)) is None:
                if self._work:
                    await self._work.popleft()()
                    continue
                waiting = PendingWait(1)
                self._probing.append(waiting)
                try:
                    await self._park(waiting, (), f"MPI_Probe {what}", at)
                finally:
                    self._probing.remove(waiting)
        return message

    async def look(self, call: str, at: Line) -> None:
        """Do the MPI library's work that is pending now, without waiting for more, as MPI_Test does.

        call, at: the MPI call and the program's line, for reports.
        """
        with self.call(call, at):
            await self.on_core(self.costs.library.test)
            for _ in range(len(self._work)):
                if self._work:
                    await self._work.popleft()()

    async def _park(
        self, waiting: PendingWait, requests: Sequence[MpiRequest], call: str, at: Line, background: bool = False
    ) -> None:
        since = self.sim.now
        parked = waiting.parked = _Parked(self.sim, _waits(requests, call, at), requests)
        if not background:
            self._parked.append(parked)
        try:
            await parked.wait()
        finally:
            waiting.parked = None
            if not background:
                self._parked.remove(parked)
                self.machine.host_time.add("ranks", self.sim.now - since)

    def _wake_one(self) -> None:
        for parked in self._parked:
            if not parked.is_set:
                parked.set()
                return


_NESTED: Final = nullcontext()


class _Call:
    """Context manager around an MPI call of a thread: traces it and notes that the thread is inside."""

    __slots__ = ("_actor", "_at", "_begin", "_endpoint", "_name", "_number", "_outer")

    def __init__(self, endpoint: Endpoint, actor: Actor, name: str, at: Line) -> None:
        self._endpoint = endpoint
        self._actor = actor
        self._name = name
        self._at = at

    def __enter__(self) -> None:
        endpoint, actor = self._endpoint, self._actor
        endpoint.inside.add(actor.index)
        self._begin = endpoint.sim.now
        self._number = endpoint.process.program.next_directive()
        self._outer, actor.cause = actor.cause, self._number
        if (trace := endpoint.trace) is not None:
            trace.directive(events.NONE, self._number, self._name)
            if self._at and trace.causal_log is not None:
                trace.causal_log.source_lines[self._number] = self._at

    def __exit__(self, *raised: object) -> None:
        endpoint, actor = self._endpoint, self._actor
        endpoint.inside.discard(actor.index)
        actor.cause = self._outer
        if (trace := endpoint.trace) is not None:
            number = self._number
            trace.by(actor.index, events.DirectiveEnd, events.NONE, events.NONE, number, number, self._name)
        if (calls := endpoint.machine.calls) is not None:
            calls.add(self._name, endpoint.sim.now - self._begin)


def _waits(requests: Sequence[MpiRequest], call: str, at: Line) -> str:
    """Describe for reports what a thread waits for in a call."""
    if len(requests) == 1 and requests[0].call == call:
        return str(requests[0])
    called = f"{call} ({at})" if at else call
    pending = [request for request in requests if not request.is_done]
    if not pending:
        return called
    return f"{called} for {pending[0]}" + (f" and {len(pending) - 1} more" if len(pending) > 1 else "")
