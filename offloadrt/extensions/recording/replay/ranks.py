"""Makes the MPI calls of a recorded rank on the ranks of a run (`RankReplay`), or tells a checker their uses.

A receive or a probe from any rank takes the message of the rank from which it came in the recorded run. A call that
completed some of its requests waits for these. A poll that found nothing makes progress and goes on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs
import numpy as np

from offloadrt.extensions.checking.recorded import DEVICE_MEMORY
from offloadrt.extensions.mpi import (
    ANY_SOURCE,
    ANY_TAG,
    IN_PLACE,
    PROC_NULL,
    SUM,
    UNDEFINED,
    Buffer,
    Comm,
    MessageTruncated,
    Request,
)
from offloadrt.extensions.recording.format.ranks import BUFFERS, ENDS_ALL, PART, POLLS, WRITTEN
from offloadrt.extensions.recording.format.recording import (
    ELEMENT_KINDS,
    ELEMENTS,
    NOBODY,
    NONE,
    MpiCall,
    PartFlag,
    PartKind,
    Recording,
    RecordingError,
)
from offloadrt.extensions.recording.replay.observed import ObservedReplay
from offloadrt.models.host.process import Process
from offloadrt.models.openmp import DevicePointer, HostArray
from offloadrt.runtime.events import MemoryUse

_NOTHING_TO_DO: Final = ("MPI_Init", "MPI_Init_thread", "MPI_Finalize", "MPI_Abort")
_NEIGHBOURS: Final = (
    "Neighbor_allgather", "Neighbor_allgatherv", "Neighbor_alltoall", "Neighbor_alltoallv", "Neighbor_alltoallw",
    "Alltoallw",
)  # fmt: skip
"""Collective calls that MPI libraries make as one message for each pair of neighbouring ranks."""
_BYTES_OF_DUP: Final = 8
"""The bytes that ranks exchange to duplicate a communicator: the number of its context."""


class RanksRefused(RecordingError):
    """Raised for a recorded MPI call that cannot be replayed."""


@attrs.frozen
class ReplayedPart:
    """A part of a recorded MPI call, such as a buffer, or a message that was sent or received.

    kind: a `PartKind`. flags: bits of `PartFlag`. communicator, request, array: their numbers in the recording. peer:
    the other rank. blocks: in how many pieces the buffer lies. memory: a `BufferPlace`. tag: the message's tag.
    address: the recorded address of the buffer.
    """

    kind: int
    flags: int
    communicator: int
    peer: int
    tag: int
    request: int
    nbytes: int
    blocks: int
    memory: int
    array: int
    address: int


def parts_of(recording: Recording, number: int) -> tuple[ReplayedPart, ...]:
    """Return the parts of an MPI call (its buffers and messages), which the recording lists under this number."""
    places = recording.range_of("parts", number)
    columns = [recording.columns[f"part.{name}"][places.start : places.stop].tolist() for name in PART]
    return tuple(ReplayedPart(*row) for row in zip(*columns, strict=True))


@attrs.define(eq=False)
class RankReplay:
    """Makes the recorded MPI calls of one rank in a replay of all ranks.

    device_of: returns the device that holds a buffer; None for host memory. process: the MPI process of the run that
    makes the calls.
    """

    recording: Recording
    process: Process
    device_of: Callable[[ReplayedPart], int | None]
    _communicators: dict[int, Comm] = attrs.field(factory=dict)
    _requests: dict[int, list[Request]] = attrs.field(factory=dict)
    _prepared: dict[int, str] = attrs.field(factory=dict)
    """By persistent request: the name of the call that it stands for."""
    _parts: dict[int, tuple[ReplayedPart, ...]] = attrs.field(factory=dict)

    async def call(self, number: int, parts_number: int) -> None:
        """Make the MPI call that the recording lists as `number`, with the arguments that it lists as `parts_number`.

        Raises RanksRefused if the call cannot be replayed, MpiError if MPI refuses it.
        """
        site = self.recording.dictionaries.mpi_calls[number]
        endpoint = self.process.world.endpoint
        if site.call in _NOTHING_TO_DO:
            endpoint.came_to(site.call, self._at(site))
        else:
            with endpoint.call(site.call, self._at(site)):
                await self._make_call(site, self._parts_of(parts_number))

    async def _make_call(self, site: MpiCall, parts: Sequence[ReplayedPart]) -> None:
        kinds = {part.kind for part in parts}
        if PartKind.OPAQUE in kinds:
            raise self._refused(site, "one-sided calls, and processes that come later, are not replayed")
        if PartKind.MAKES in kinds:
            await self._make(site, parts)
        elif PartKind.PREPARES in kinds:
            self._prepared[parts[0].request] = site.call.removesuffix("_init")
        elif PartKind.PROBE in kinds:
            await self._probe(site, parts)
        elif PartKind.AWAITED in kinds or PartKind.COMPLETED in kinds:
            await self._complete(site, parts)
        elif kinds & {PartKind.SEND, PartKind.RECEIVE, PartKind.COLLECTIVE}:
            await self._begin(site, parts)
        elif PartKind.DROPS in kinds:
            for part in parts:
                for request in self._requests.pop(part.request, ()):
                    request.completed()

    def _refused(self, site: MpiCall, reason: str) -> RanksRefused:
        return RanksRefused(f"{self.recording.name}: {site.where}: {site.call}: {reason}")

    def _parts_of(self, number: int) -> tuple[ReplayedPart, ...]:
        parts = self._parts.get(number)
        if parts is None:
            parts = self._parts[number] = parts_of(self.recording, number)
        return parts

    # ------------------------------------------------------------------ messages

    async def _begin(self, site: MpiCall, parts: Sequence[ReplayedPart]) -> None:
        """Begin the sends, receives and collectives of a call, and wait for those without a request.

        For an exchange (MPI_Sendrecv) the receive is posted first.
        """
        blocking: list[Request] = []
        begun = [part for part in parts if part.kind in (PartKind.SEND, PartKind.RECEIVE)]
        if all(part.request == NONE for part in begun):
            begun.sort(key=lambda part: part.kind == PartKind.SEND)
        for part in begun:
            request = await self._message(site, part)
            if part.request != NONE:
                self._requests.setdefault(part.request, []).append(request)
            elif part.flags & PartFlag.BUFFERED:
                request.completed()
            else:
                blocking.append(request)
        await self._wait(site, blocking)
        places = [place for place, part in enumerate(parts) if part.kind == PartKind.COLLECTIVE]
        for place, end in zip(places, [*places, len(parts)][1:], strict=True):
            await self._collective(site, parts[place:end])

    async def _message(self, site: MpiCall, part: ReplayedPart) -> Request:
        comm, buffer, at = self._comm(site, part.communicator), self._buffer(part), self._at(site)
        if part.kind == PartKind.RECEIVE:
            source, tag = _source(part)
            request = comm.begin_receive(site.call, buffer, source, tag, 0, at)
            if part.flags & PartFlag.CANCELLED:
                request.Cancel()
            return request
        to = PROC_NULL if part.peer == NOBODY else part.peer
        synchronous = bool(part.flags & PartFlag.SYNCHRONOUS)
        return await comm.begin_send(site.call, buffer, to, part.tag, 0, at, synchronous=synchronous)

    async def _probe(self, site: MpiCall, parts: Sequence[ReplayedPart]) -> None:
        matched = next((part for part in parts if part.kind == PartKind.MATCHED), None)
        comm = self._comm(site, parts[0].communicator)
        if matched is None and site.returned:
            await comm.endpoint.look(site.call, self._at(site))
        else:
            await comm.Probe(*_source(matched or parts[0]), at=self._at(site))

    async def _complete(self, site: MpiCall, parts: Sequence[ReplayedPart]) -> None:
        """Wait for the requests that the call completed; if it never returned, for all that it names."""
        completed = [part.request for part in parts if part.kind == PartKind.COMPLETED]
        if not site.returned:
            completed = [part.request for part in parts if part.kind == PartKind.AWAITED]
        waited = [request for number in completed for request in self._requests.get(number, ())]
        if waited and (site.returned or site.call not in ("MPI_Waitany", "MPI_Waitsome")):
            await self._wait(site, waited)
        elif waited:
            await Request.Waitany(waited, at=self._at(site))
        elif site.call in POLLS:
            await self.process.world.endpoint.look(site.call, self._at(site))
        for number in completed:
            self._requests.pop(number, None)

    async def _wait(self, site: MpiCall, requests: Sequence[Request]) -> None:
        """Wait for requests. Where a message was truncated and the call returned, the program handled that error.

        It is then one of the mistakes that the run lists.
        """
        try:
            await Request.Waitall(requests, at=self._at(site), call=site.call)
        except MessageTruncated:
            if not site.returned:
                raise
            for request in requests:
                request.completed()
                if isinstance(request.error, MessageTruncated):
                    request.endpoint.mismatches[f"{request.called}: {request.error.message}"] = None

    def _buffer(self, *parts: ReplayedPart) -> Buffer:
        """Return the buffer of a part, or of several parts of one call as one buffer."""
        arrays = self.recording.dictionaries.arrays
        held = next((part for part in parts if part.nbytes), None)
        name = "" if held is None or held.array == NONE else arrays[held.array].name
        device = None if held is None else self.device_of(held)
        nbytes, blocks = sum(part.nbytes for part in parts), sum(part.blocks for part in parts)
        return Buffer(nbytes, device, blocks, dtype=None if held is None else _elements(held.flags), name=name)

    @staticmethod
    def _at(site: MpiCall) -> str:
        return site.where if site.line else ""

    # ------------------------------------------------------------------ collective calls

    async def _collective(self, site: MpiCall, parts: Sequence[ReplayedPart]) -> None:
        head = parts[0]
        name = (self._prepared[head.request] if site.call in ("MPI_Start", "MPI_Startall") else site.call)[4:]
        returns_at_once = head.request != NONE
        if returns_at_once and name[0] == "I" and name[1].islower():
            name = name[1:].capitalize()
        comm = self._comm(site, head.communicator)
        given = [part for part in parts if part.kind == PartKind.GIVES]
        taken = [part for part in parts if part.kind == PartKind.TAKES]
        if name in _NEIGHBOURS:
            requests = await self._pairwise(site, comm, [*taken, *given])
            if not returns_at_once:
                await self._wait(site, requests)
        else:
            arguments = self._arguments(name, head.peer, given, taken)
            if arguments is None:
                raise self._refused(site, "is not replayed")
            name = name.removesuffix("_block")  # equal parts
            begin = getattr(comm, f"I{name.lower()}" if returns_at_once else name)
            request = await begin(*arguments, at=self._at(site))
            requests = [request] if returns_at_once else []
        if returns_at_once:
            self._requests.setdefault(head.request, []).extend(requests)

    async def _pairwise(self, site: MpiCall, comm: Comm, parts: Sequence[ReplayedPart]) -> list[Request]:
        """Exchange one message with each rank that the parts name; these messages match no others."""
        context = comm.world.context((comm.context, "pairwise"))
        apart = Comm(comm.world, comm.endpoint, comm.group, context, comm.name)
        requests = []
        for part in parts:
            peer = PROC_NULL if part.peer == NOBODY else part.peer
            if part.kind == PartKind.TAKES:
                requests.append(apart.begin_receive(site.call, self._buffer(part), peer, 0, 0, self._at(site)))
            else:
                requests.append(await apart.begin_send(site.call, self._buffer(part), peer, 0, 0, self._at(site)))
        return requests

    def _arguments(
        self, name: str, root: int, given: Sequence[ReplayedPart], taken: Sequence[ReplayedPart]
    ) -> tuple[Any, ...] | None:
        """Return the arguments for the collective call of `Comm` with this name; None if `Comm` has no such call."""
        sent, into = self._buffer(*given), self._buffer(*taken)
        given_bytes, taken_bytes = ([part.nbytes for part in parts] for parts in (given, taken))
        own = sent if given else IN_PLACE
        outgoing, outgoing_bytes = (sent, given_bytes) if given else (into, taken_bytes)
        of_call: dict[str, tuple[Any, ...]] = {
            "Barrier": (),
            "Bcast": (sent if given else into, root),
            "Reduce": (sent, into, SUM, root),
            "Allreduce": (sent, into),
            "Scan": (sent, into),
            "Exscan": (sent, into),
            "Gather": (own, into, root),
            "Gatherv": (own, into, taken_bytes, root),
            "Scatter": (sent, into if taken else IN_PLACE, root),
            "Scatterv": (sent, given_bytes, into if taken else IN_PLACE, root),
            "Allgather": (own, into),
            "Allgatherv": (own, into, taken_bytes),
            "Alltoall": (outgoing, into),
            "Alltoallv": (outgoing, outgoing_bytes, into, taken_bytes),
            "Reduce_scatter": (sent, into, given_bytes),
            "Reduce_scatter_block": (sent, into),
        }
        return of_call.get(name)

    # ------------------------------------------------------------------ communicators

    def _comm(self, site: MpiCall, number: int) -> Comm:
        """Return a communicator of the process by its recorded number. Raises RanksRefused."""
        comm = self._communicators.get(number)
        if comm is None:
            world: Comm = self.process.world
            comm = self._communicators[number] = world if number == 0 else self._comm_of(site, number)
        return comm

    def _comm_of(self, site: MpiCall, number: int) -> Comm:
        """Return a communicator that is made without messages, as MPI_COMM_SELF is. Raises RanksRefused."""
        world: Comm = self.process.world
        recorded = self.recording.dictionaries.communicators[number]
        if recorded.remote or self.process.rank not in recorded.ranks or NONE in recorded.ranks:
            raise self._refused(
                site, "communicators with ranks that are started later, or of two groups, are not replayed"
            )
        context = world.world.context((recorded.key, recorded.ranks))
        name = "MPI_COMM_SELF" if recorded.key == "self" else recorded.key.rpartition("/")[2]
        return Comm(world.world, world.endpoint, recorded.ranks, context, name)

    async def _make(self, site: MpiCall, parts: Sequence[ReplayedPart]) -> None:
        """Make a communicator, with the messages by which its ranks agree on it."""
        number = next(part.communicator for part in parts if part.kind == PartKind.MAKES)
        head = next((part for part in parts if part.kind == PartKind.COLLECTIVE), None)
        if head is None:  # made by its own members alone
            if number != NONE:
                await self._comm(site, number).Barrier(at=self._at(site))
            return
        parent = self._comm(site, head.communicator)
        if number == NONE:
            await parent.Split(UNDEFINED, 0, at=self._at(site))
            return
        made = self._comm(site, number)  # so that one that is not replayed is refused
        if head.request != NONE:
            request = await parent.Iallreduce(IN_PLACE, Buffer(_BYTES_OF_DUP), at=self._at(site))
            self._requests.setdefault(head.request, []).append(request)
        elif site.call in ("MPI_Comm_dup", "MPI_Comm_dup_with_info"):
            self._communicators[number] = await parent.Dup(at=self._at(site))
        else:
            split = await parent.Split(min(made.group), made.rank, at=self._at(site))
            assert split is not None
            self._communicators[number] = split


@functools.cache
def _elements(flags: int) -> np.dtype[Any] | None:
    """Return the element type of a buffer from its part's flags; None if it is not known."""
    kind, size = flags >> ELEMENTS & 7, 1 << (flags >> ELEMENTS + 3 & 7)
    try:
        return np.dtype(f"{ELEMENT_KINDS[kind]}{size}") if kind else None
    except (IndexError, TypeError):  # 4 byte booleans, as in Fortran, or a size that NumPy does not have
        return None


def _source(part: ReplayedPart) -> tuple[int, int]:
    """Return source and tag of a receive or a probe, as `Comm` takes them."""
    source = {NOBODY: PROC_NULL, NONE: ANY_SOURCE}.get(part.peer, part.peer)
    return source, ANY_TAG if part.tag == NONE else part.tag


@attrs.define(eq=False)
class MessageBuffers:
    """Reports which memory the MPI calls of a rank that is replayed alone read and write, so that races are found.

    A nonblocking message uses its buffer at some time between the call that begins it and the one that finds it
    complete (MPI 4.1, 3.7.2 and 6.12). So it is a strand beside the thread, as a deferred task is: who stores into what
    it sends, or uses what it receives, before it is complete races with it.
    """

    observed: ObservedReplay
    """Passes the reports on to the observer of the replay."""
    recording: Recording
    """The recording of the process whose MPI calls are replayed."""
    on_device: Callable[[ReplayedPart], DevicePointer | None]
    """Returns the device address of a call's buffer in the replay; None for a buffer in host memory."""
    array_at: Callable[[int], HostArray | None]
    """Returns the replay's array for a number of an array in the recording; None if it does not exist at present."""
    next_directive: Callable[[], int]
    """Returns a new directive number, by which a use of device memory is reported."""
    _pending: dict[int, None] = attrs.field(factory=dict)
    """The requests of messages that are not complete yet."""

    def tell(self, call: int, parts: int) -> None:
        """Report the buffers that an MPI call uses, and the nonblocking messages that it completes.

        call: the index of the call in `Dictionaries.mpi_calls`. parts: the number of the list of the call's parts
        (buffers, requests, messages) in the recording.
        """
        site, messages = self.recording.dictionaries.mpi_calls[call], dict[int, list[ReplayedPart]]()
        for part in parts_of(self.recording, parts):
            if part.kind in (PartKind.COMPLETED, PartKind.DROPS):  # a program that frees one knows of its end otherwise
                self._completed(part.request)
            elif part.kind in BUFFERS and part.nbytes and not part.flags & PartFlag.CANCELLED:
                messages.setdefault(part.request, []).append(part)
        for part in messages.pop(NONE, ()):
            self._buffer(site, part)
        for request, buffers in messages.items():
            self._pending[request] = None
            with self.observed.message((self, request), site.call, site.where):
                for part in buffers:
                    self._buffer(site, part)
        if site.call == ENDS_ALL:
            for request in [*self._pending]:
                self._completed(request)

    def _completed(self, request: int) -> None:
        if request in self._pending:
            del self._pending[request]
            self.observed.completes((self, request))

    def _buffer(self, site: MpiCall, part: ReplayedPart) -> None:
        """Report a use of device memory; of host memory only by a message, for the host's touches have the others."""
        writes, place, arrays = part.kind in WRITTEN, self.on_device(part), self.recording.dictionaries.arrays
        array = None if part.array == NONE else self.array_at(part.array)
        if place is not None:
            name = DEVICE_MEMORY if part.array == NONE else arrays[part.array].name
            use = MemoryUse(place.device, place.address, part.nbytes, writes, not writes and part.blocks == 1, name)
            self.observed.uses_device(site.where, site.call, self.next_directive(), place.device, use)
        elif part.request != NONE and array is not None and part.blocks == 1:
            begin = array.address + part.address - arrays[part.array].address
            self.observed.uses_buffer(array, begin, part.nbytes, writes, site.call)
