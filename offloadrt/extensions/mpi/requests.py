"""Requests, and the progress of a rank's messages: `Endpoint` is a process's end of all its communicators.

What the library has to do on a core when a message has come (take it in, copy it, ask for an announced one) is `Work`
that lies here until a thread of the process is in a call that waits or tests, because an MPI library makes progress
only there. A thread that waits does the work of the whole process, as a real progress engine does; where there is none,
it parks and is woken by the next work or by the end of what it waits for. A waiting thread gives its core up here; real
libraries poll and keep it, so that more threads than cores are predicted too fast.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol

import attrs

from offloadrt.extensions.mpi.buffers import ANY_SOURCE, ANY_TAG, NOTHING, MpiBuffer, MpiError
from offloadrt.extensions.mpi.costs import MessageCosts
from offloadrt.extensions.mpi.matching import MatchQueues
from offloadrt.extensions.mpi.network import Nic
from offloadrt.models.host.process import Process
from offloadrt.runtime.host_array import Bytes
from offloadrt.sim import Actor, Signal, Simulation
from offloadrt.trace import events

Work = Callable[[], Awaitable[None]]
"""What a progress engine does on a core for one message."""


class Carrier(Protocol):
    """What an endpoint needs of the transport."""

    def receive(self, endpoint: Endpoint, request: MpiRequest, message: MpiMessage) -> None:
        """Take in a message that a receive has matched."""

    def stage(self, endpoint: Endpoint, device: int, direction: str, nbytes: int) -> Awaitable[None]:
        """Copy between a device's memory and the host's by a synchronous call."""


@attrs.define
class Status:
    """What came with a receive, or would come with one (`Comm.Probe`)."""

    source: int = ANY_SOURCE
    tag: int = ANY_TAG
    nbytes: int = 0
    is_cancelled: bool = False

    def Get_source(self) -> int:
        return self.source

    def Get_tag(self) -> int:
        return self.tag

    def Get_count(self) -> int:
        """Return the bytes that came."""
        return self.nbytes


@attrs.frozen(eq=False)
class MpiMessage:
    """A message from one rank to another, or the announcement of a long one."""

    number: int
    """Its number in the run, from 1."""
    context: int
    """Of the communicator."""
    source: int
    """The sender's rank in the communicator."""
    tag: int
    nbytes: int
    sequence: int
    """Its place among all that its sender has sent to its receiver."""
    sender: Endpoint
    send: MpiRequest
    """The sender's request; of an announced message, the data lies in its buffer."""
    eager: bool
    values: Bytes | None = None
    """What an eager message carries; None for a phantom."""


class PendingWait:
    """One call that waits for requests: it ends when so many of them are done."""

    __slots__ = ("left", "parked")

    def __init__(self, left: int) -> None:
        self.left = left
        self.parked: _Parked | None = None
        """Where its thread is parked."""

    def count(self, request: MpiRequest) -> None:
        """Note that a request is done."""
        self.left -= 1
        if self.left <= 0:
            self.wake()

    def wake(self) -> None:
        """Let the thread look again, if it is parked."""
        if self.parked is not None and not self.parked.is_set:
            self.parked.set()


class _Parked(Signal):
    """A thread that waits in a call of MPI; a deadlock's story asks it on whom."""

    __slots__ = ("_called", "_waits_for")

    def __init__(self, sim: Simulation, name: str, waits_for: Sequence[MpiRequest]) -> None:
        self._waits_for = waits_for
        super().__init__(sim, name)

    @property
    def name(self) -> str:
        """Say what the thread waits for, and which of the ranks that it waits for have ended."""
        waits = [one for one in self._waits_for if not one.is_done and one.absent is None]
        peers = dict.fromkeys(one.peer for one in waits if one.peer is not None)
        ended = [f"{peer} has ended{peer.said_last()}" for peer in peers if peer.has_ended]
        return "; ".join([self._called, *ended])

    @name.setter
    def name(self, called: str) -> None:
        self._called = called

    def missing(self) -> list[str]:
        """Return the ranks that have not come to a collective that the thread waits for."""
        absent = next((one.absent for one in self._waits_for if one.absent is not None), None)
        return [] if absent is None else absent()

    def holders(self) -> list[Actor]:
        """Return the ranks on which the end of the wait depends, as far as they are known."""
        peers = [request.peer for request in self._waits_for if request.peer is not None and not request.is_done]
        return list(dict.fromkeys(peer.actor for peer in peers if peer.actor is not None and not peer.has_ended))


class MpiRequest:
    """A send, a receive or a collective that has begun: `Wait` for it, or `Test` it.

    Several are waited for by `MpiRequest.Waitall`, `Waitany` and `Waitsome`, and tested by `Testall`, `Testany` and
    `Testsome`.
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
        at: str = "",
    ) -> None:
        self.endpoint = endpoint
        self.call = call
        """The call that made it, as "MPI_Isend"."""
        self.what = what
        """What it does, as "to rank 1 with tag 0", for messages."""
        self.buffer = buffer
        self.peer = peer
        """The other rank; None for any, and for a collective."""
        self.at = at
        """File and line of the call, where the program tells them."""
        self.is_done = False
        self.status = Status()
        self.error: MpiError | None = None
        self.waits: list[PendingWait] = []
        """The calls that wait for it."""
        self.absent: Callable[[], list[str]] | None = None
        """Of a collective's: names the ranks that have not come to it."""
        self.wanted: tuple[int, int, int] | None = None
        """Of a receive that has been posted: context, source and tag."""

    def __repr__(self) -> str:
        return f"<{self} of rank {self.endpoint.rank}{', done' if self.is_done else ''}>"

    def __str__(self) -> str:
        return f"{self.call} {self.what}" + (f" ({self.at})" if self.at else "")

    @property
    def called(self) -> str:
        """Name the call and the rank: with the line of the program, or else with what it does."""
        return f"{self.endpoint}'s {self.call} {f'({self.at})' if self.at else self.what}"

    def finish(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, nbytes: int = 0) -> None:
        """End it, and wake who waits for it."""
        self.is_done = True
        self.status = Status(source, tag, nbytes, self.status.is_cancelled)
        if self.waits:
            waits, self.waits = self.waits, []
            for wait in waits:
                wait.count(self)

    # ------------------------------------------------------------------ MPI's calls

    async def Wait(self, status: Status | None = None, *, at: str = "") -> None:
        """Wait until it is done (MPI_Wait). Raises MpiError for what it came to."""
        await self.Waitall([self], [status] if status is not None else None, at=at, call="MPI_Wait")

    async def Test(self, status: Status | None = None, *, at: str = "") -> bool:
        """Make progress, and tell whether it is done (MPI_Test)."""
        await self.endpoint.look("MPI_Test", at)
        if self.is_done:
            self.take(status)
        return self.is_done

    def Cancel(self) -> None:
        """Cancel a receive that has no message yet (MPI_Cancel): it is done, and its status says so."""
        if self.wanted is not None and self.endpoint.withdraw(self):
            self.status.is_cancelled = True
            self.finish()

    def take(self, status: Status | None) -> None:
        """Give its status to the caller. Raises MpiError for what it came to."""
        if self.error is not None:
            raise self.error
        if status is not None:
            mine = self.status
            status.source, status.tag, status.nbytes = mine.source, mine.tag, mine.nbytes
            status.is_cancelled = mine.is_cancelled
        self.completed()

    def completed(self) -> None:
        """Note that the program knows of its end; a persistent request can be started again."""
        self.endpoint.begun.pop(self, None)

    @staticmethod
    async def Waitall(
        requests: Sequence[MpiRequest],
        statuses: Sequence[Status] | None = None,
        *,
        at: str = "",
        call: str = "MPI_Waitall",
    ) -> None:
        """Wait until all are done (MPI_Waitall)."""
        if requests:
            await requests[0].endpoint.wait(requests, len(requests), call, at)
        for number, request in enumerate(requests):
            request.take(None if statuses is None else statuses[number])

    @staticmethod
    async def Waitany(requests: Sequence[MpiRequest], status: Status | None = None, *, at: str = "") -> int:
        """Wait until one is done, and return its place: of several the first (MPI_Waitany); -1 for no request."""
        if not requests:
            return -1
        await requests[0].endpoint.wait(requests, 1, "MPI_Waitany", at)
        place = next(number for number, request in enumerate(requests) if request.is_done)
        requests[place].take(status)
        return place

    @staticmethod
    async def Waitsome(requests: Sequence[MpiRequest], *, at: str = "") -> list[int]:
        """Wait until one at least is done, and return the places of those that are (MPI_Waitsome)."""
        if requests:
            await requests[0].endpoint.wait(requests, 1, "MPI_Waitsome", at)
        return _taken(requests)

    @staticmethod
    async def Testall(requests: Sequence[MpiRequest], *, at: str = "") -> bool:
        """Make progress, and tell whether all are done (MPI_Testall)."""
        if requests:
            await requests[0].endpoint.look("MPI_Testall", at)
        if all(request.is_done for request in requests):
            _taken(requests)
            return True
        return False

    @staticmethod
    async def Testany(requests: Sequence[MpiRequest], *, at: str = "") -> int:
        """Make progress, and return the place of the first that is done; -1 for none (MPI_Testany)."""
        if requests:
            await requests[0].endpoint.look("MPI_Testany", at)
        place = next((number for number, request in enumerate(requests) if request.is_done), -1)
        if place >= 0:
            requests[place].take(None)
        return place

    @staticmethod
    async def Testsome(requests: Sequence[MpiRequest], *, at: str = "") -> list[int]:
        """Make progress, and return the places of those that are done (MPI_Testsome)."""
        if requests:
            await requests[0].endpoint.look("MPI_Testsome", at)
        return _taken(requests)


def _taken(requests: Sequence[MpiRequest]) -> list[int]:
    places = [number for number, request in enumerate(requests) if request.is_done]
    for place in places:
        requests[place].take(None)
    return places


class PersistentRequest(MpiRequest):
    """A send or a receive that is described once and started again and again (MPI_Send_init, MPI_Recv_init)."""

    __slots__ = ("_begin", "_current")

    def __init__(self, endpoint: Endpoint, call: str, what: str, begin: Callable[[str], Awaitable[MpiRequest]]) -> None:
        super().__init__(endpoint, call, what)
        self._begin = begin
        self._current: MpiRequest | None = None
        self.is_done = True  # an inactive request: a wait for it ends at once

    async def Start(self, *, at: str = "") -> None:
        """Begin it once more (MPI_Start). Raises MpiError where it has begun and nobody has waited for it."""
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
        """End with the send or receive that it has begun."""
        self.error = current.error
        self.finish(current.status.source, current.status.tag, current.status.nbytes)

    def completed(self) -> None:
        if self._current is not None:
            self._current.completed()
        self._current = None

    @staticmethod
    async def Startall(requests: Sequence[PersistentRequest], *, at: str = "") -> None:
        """Begin all, in order (MPI_Startall)."""
        for request in requests:
            await request.Start(at=at)


class _Follower(PendingWait):
    """Ends a persistent request when the send or receive that it has begun ends."""

    __slots__ = ("_followed",)

    def __init__(self, followed: PersistentRequest) -> None:
        super().__init__(1)
        self._followed = followed

    def count(self, request: MpiRequest) -> None:
        """Note that the request is done."""
        self._followed.follow(request)


class Endpoint:
    """One process's end of all its communicators: its queues, what it has still to do, and who waits."""

    def __init__(self, process: Process, nic: Nic, costs: MessageCosts, carrier: Carrier) -> None:
        self.process = process
        self.nic = nic
        """The card that it sends with."""
        self.costs = costs
        self.carrier = carrier
        self.rank = process.rank
        self.machine = process.program.machine
        self.node = self.machine.node
        self.sim = process.program.sim
        self.trace = process.program.trace
        self.actor: Actor | None = None
        """The thread of the process that made the last call, for reports."""
        self.last_call = ""
        """The last call, with its line where the program tells it."""
        self.begun: dict[MpiRequest, None] = {}
        """What the program has begun, and does not know the end of."""
        self.unmatched: dict[int, MpiMessage] = {}
        """Messages of the program that no receive has matched, by number."""
        self.mismatches: dict[str, None] = {}
        """Receives of another type of elements than that of what came."""
        self._queues: dict[int, MatchQueues[MpiRequest, MpiMessage]] = {}
        self._work: deque[Work] = deque()
        self._parked: list[_Parked] = []
        self.inside: set[int] = set()
        """The threads that are in a call, by their actors' numbers."""
        self._probing: list[PendingWait] = []
        """Threads that wait for a message that they could receive."""
        self._sent: dict[int, int] = {}
        self._expected: dict[int, int] = {}
        self._early: dict[tuple[int, int], MpiMessage] = {}
        """Messages that came before one that was sent earlier, by sender and sequence."""

    def __repr__(self) -> str:
        return f"rank {self.rank}"

    # ------------------------------------------------------------------ matching

    def queues(self, context: int) -> MatchQueues[MpiRequest, MpiMessage]:
        """Return the queues of a communicator."""
        if (queues := self._queues.get(context)) is None:
            queues = self._queues[context] = MatchQueues()
        return queues

    def next_sequence(self, receiver: Endpoint) -> int:
        """Return the number of the next message to another rank."""
        number = self._sent.get(receiver.rank, 0)
        self._sent[receiver.rank] = number + 1
        return number

    def deliver(self, message: MpiMessage) -> None:
        """Take a message in, in the order in which its sender has sent: it is matched, and its work begins."""
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
        """Post a receive; it takes a message that is there already."""
        receive.wanted = context, source, tag
        if (message := self.queues(context).post(source, tag, receive)) is not None:
            self._matched(receive, message)

    def withdraw(self, receive: MpiRequest) -> bool:
        """Take a receive back that has no message yet."""
        assert receive.wanted is not None
        return self.queues(receive.wanted[0]).withdraw(receive)

    @property
    def has_ended(self) -> bool:
        """Tell whether the thread that made the last call is at its end."""
        return self.actor is not None and self.actor.finished

    def said_last(self) -> str:
        """Say which call was the last one."""
        return f" after {self.last_call}" if self.last_call else ""

    def mistakes(self) -> list[str]:
        """List what the rank has left undone: messages that nobody received, requests that it never waited for."""
        messages = {message.send: message for message in self.unmatched.values()}
        undone = [f"{sent.called} is never received, {one.nbytes} bytes" for sent, one in messages.items()]
        undone += [f"{request.called} is never waited for" for request in self.begun if request not in messages]
        return [*self.mismatches, *undone]

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
            receive.error = MpiError(
                f"MPI_ERR_TRUNCATE: {room}{sent}" + (f"; at {receive.at}" if receive.at else ""),
                call=receive.call, array=receive.buffer.name, thread=f"rank {self.rank}", time_s=self.sim.now,
            )  # fmt: skip
            receive.finish(message.source, message.tag, 0)
            return
        self.carrier.receive(self, receive, message)

    # ------------------------------------------------------------------ progress

    def add_work(self, work: Work) -> None:
        """Leave work for a thread that is in a call, or comes into one."""
        self._work.append(work)
        for parked in self._parked:
            if not parked.is_set:
                parked.set()
                return

    async def on_core(self, seconds: float) -> None:
        """Spend so many seconds of the library's time on a core."""
        if seconds > 0.0:
            await self.machine.work(seconds, "ranks")

    def came_to(self, name: str, at: str = "") -> Actor:
        """Note which call the running thread makes; return the thread."""
        me = self.actor = self.sim.current
        if me.index not in self.inside:
            self.last_call = f"{name} ({at})" if at else name
        return me

    def call(self, name: str, at: str = "") -> AbstractContextManager[None]:
        """Account for a call of MPI, and trace it as a directive; what it calls in turn is part of it."""
        me = self.came_to(name, at)
        return _NESTED if me.index in self.inside else _Call(self, me, name, at)

    async def wait(
        self, requests: Sequence[MpiRequest], needed: int, call: str, at: str, *, background: bool = False
    ) -> None:
        """Make progress until so many of the requests are done.

        In the `background` of a nonblocking collective nobody makes progress: that is left to the threads in calls.
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
                if self._work:  # somebody else who waits goes on with it
                    self._wake_one()
        finally:
            if waiting.left > 0 or needed < len(requests):
                for request in pending:
                    if waiting in request.waits:
                        request.waits.remove(waiting)

    async def wait_for_message(self, context: int, source: int, tag: int, what: str, at: str) -> MpiMessage:
        """Make progress until there is a message to receive, and return it (MPI_Probe)."""
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

    async def look(self, call: str, at: str) -> None:
        """Make progress without waiting: do what work there is."""
        with self.call(call, at):
            await self.on_core(self.costs.library.test)
            for _ in range(len(self._work)):
                if self._work:
                    await self._work.popleft()()

    async def _park(
        self, waiting: PendingWait, requests: Sequence[MpiRequest], call: str, at: str, background: bool = False
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
    """A call of MPI that a thread is in."""

    __slots__ = ("_actor", "_at", "_begin", "_endpoint", "_name", "_number", "_outer")

    def __init__(self, endpoint: Endpoint, actor: Actor, name: str, at: str) -> None:
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


def _waits(requests: Sequence[MpiRequest], call: str, at: str) -> str:
    """Say what a thread waits for in a call."""
    if len(requests) == 1 and requests[0].call == call:
        return str(requests[0])
    called = f"{call} ({at})" if at else call
    pending = [request for request in requests if not request.is_done]
    if not pending:
        return called
    return f"{called} for {pending[0]}" + (f" and {len(pending) - 1} more" if len(pending) > 1 else "")
