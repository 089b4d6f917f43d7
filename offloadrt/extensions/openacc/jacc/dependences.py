"""Automated asynchronous execution: in which queue an operation goes, and which queues must come before it.

Pure data, without a device. An operation says which ranges of bytes it reads and writes, and gets a queue. It depends
on every earlier operation with which it shares bytes that one of the two writes (read after write, write after read,
write after write). A queue runs its operations in order. An operation that comes after another queue comes after all
that is in that queue at that time (OpenACC's ``wait(p) async(q)``). Whatever order the queues allow, the result is that
of the program's own order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Literal

import attrs

from offloadrt.extensions.openacc.runtime_library import AsyncQueues
from offloadrt.models.host.directive import Work, beginning, in_directive
from offloadrt.models.host.program import Barrier, OffloadProgram
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.errors import OffloadError
from offloadrt.runtime.events import Awaited, Signalled, StrandBegan, StrandEnded
from offloadrt.runtime.mapping.map_item import DirectiveQueue, MapItem

Range = tuple[int, int]
"""Bytes [begin, end) of host memory."""


@attrs.frozen
class QueuePlacement:
    """Where an operation runs: the async value of its queue, and of those that it waits for, in ascending order."""

    queue: int
    waits: tuple[int, ...] = ()


_ONLY = QueuePlacement(0)
"""The placement where there is only one queue."""


@attrs.define(eq=False)
class _Bytes:
    """A range of bytes that operations have named, with the last operation of each queue that read or wrote it."""

    range: Range
    written: dict[int, int] = attrs.field(factory=dict)
    read: dict[int, int] = attrs.field(factory=dict)
    sharing: list[_Bytes] = attrs.field(factory=list)
    """All ranges that have a byte in common with this one, itself included."""


class Dependences:
    """Chooses the async queue for each operation on a device, from the bytes that the operations read and write.

    An operation goes on the queue of the latest unfinished operation that it depends on. One that depends on none goes
    on a queue in which nothing is unfinished, as far as the host knows, or else on the one that was used the longest
    ago. `queues` is the number of queues; ValueError is raised if it is less than 1.
    """

    def __init__(self, queues: int) -> None:
        if queues < 1:
            raise ValueError(f"{queues} queues; there is at least one")
        self._number = 0
        """The number of the last operation; operations are numbered from 1 in the order of the program."""
        self._placed = [0] * queues
        """The number of the last operation of each queue."""
        self._host = [0] * queues
        """For each queue, the number of the last operation that the host knows to have completed."""
        self._behind = [[0] * queues for _ in range(queues)]
        """For each pair of queues, the number of the last operation of the second queue that is ordered before whatever
        the first queue gets next.
        """
        self._bytes: dict[Range, _Bytes] = {}

    def place(self, reads: Iterable[Range], writes: Iterable[Range]) -> QueuePlacement:
        """Choose the queue of the next operation, which reads and writes these bytes; empty ranges do not count."""
        read, written = self._known(reads), self._known(writes)
        placement = _ONLY if len(self._placed) == 1 else self._placement(self._last(read, written))
        queue = placement.queue
        self._number += 1
        self._placed[queue] = self._number
        for bytes_ in read:
            bytes_.read[queue] = self._number
        for bytes_ in written:
            bytes_.written[queue] = self._number
        return placement

    def _placement(self, last: list[int]) -> QueuePlacement:
        """Choose the queue of an operation. last: for each queue, the last operation that the new one depends on."""
        unfinished = [queue for queue, number in enumerate(last) if number > self._host[queue]]
        queue = max(unfinished, key=last.__getitem__) if unfinished else min(range(len(last)), key=self._longest_idle)
        waits = tuple(
            earlier for earlier in unfinished if earlier != queue and last[earlier] > self._behind[queue][earlier]
        )
        for earlier in waits:
            # Who comes behind a queue comes behind all that this one has waited for, too.
            self._behind[queue] = list(map(max, self._behind[queue], self._behind[earlier]))
            self._behind[queue][earlier] = self._placed[earlier]
        return QueuePlacement(queue, waits)

    def synchronize(self, reads: Iterable[Range], writes: Iterable[Range]) -> tuple[int, ...]:
        """Return the queues that the host must wait for before it reads and writes these bytes, in ascending order."""
        last = self._last(self._known(reads), self._known(writes))
        return self._completed([queue for queue, number in enumerate(last) if number > self._host[queue]])

    def synchronize_all(self) -> tuple[int, ...]:
        """Return the queues that may have unfinished operations; the host must wait for all of them."""
        return self._completed([queue for queue, number in enumerate(self._placed) if number > self._host[queue]])

    def forget(self, range_: Range) -> None:
        """Forget a range of host addresses [begin, end) that the program has freed, after `synchronize` for it."""
        if (gone := self._bytes.pop(range_, None)) is not None:
            for bytes_ in gone.sharing:
                if bytes_ is not gone:
                    bytes_.sharing.remove(gone)

    def _completed(self, queues: Sequence[int]) -> tuple[int, ...]:
        for queue in queues:
            # A queue that has completed had waited for others: these have completed as far as it waited.
            self._host = list(map(max, self._host, self._behind[queue]))
            self._host[queue] = self._placed[queue]
        return tuple(queues)

    def _longest_idle(self, queue: int) -> tuple[int, int]:
        busy = self._placed[queue] > self._host[queue]
        return (self._placed[queue] if busy else 0, queue)

    def _last(self, read: Iterable[_Bytes], written: Iterable[_Bytes]) -> list[int]:
        """Return for each queue the number of the last operation that these accesses depend on; 0 for none."""
        last = [0] * len(self._placed)
        for bytes_ in read:
            for shared in bytes_.sharing:
                _later(last, shared.written)
        for bytes_ in written:
            for shared in bytes_.sharing:
                _later(last, shared.written)
                _later(last, shared.read)
        return last

    def _known(self, ranges: Iterable[Range]) -> list[_Bytes]:
        return [self._bytes.get(range_) or self._new(range_) for range_ in ranges if range_[1] > range_[0]]

    def _new(self, range_: Range) -> _Bytes:
        new = self._bytes[range_] = _Bytes(range_)
        for bytes_ in self._bytes.values():
            if bytes_.range[0] < range_[1] and range_[0] < bytes_.range[1]:
                new.sharing.append(bytes_)
                if bytes_ is not new:
                    bytes_.sharing.append(new)
        return new


def _later(last: list[int], operations: dict[int, int]) -> None:
    for queue, number in operations.items():
        if number > last[queue]:
            last[queue] = number


class AliasedArgument(OffloadError):
    """Raised when two arguments of a kernel with `restrict` share bytes and the kernel writes at least one of them."""


class LeftEarly(OffloadError):
    """Raised when a JACC routine is called although an earlier one was left before its end, as at a timeout.

    The state of JACC's queues and devices is then no longer known. Directives of OpenACC itself can be left early.
    """


class OverlappingWrites(OffloadError):
    """Raised when two written arguments of a kernel share bytes, so that no device would own these bytes."""


ExecutionStep = Literal["sync", "async", "overlap"]
"""How pushes are ordered. ``sync``: the host waits for each push. ``async``: the host does not wait, and all go to one
queue. ``overlap``: the host does not wait, and pushes go to several queues.
"""


@attrs.define(eq=False)
class Order:
    """Runs the directives that JACC's routines issue for one host thread, in an order that keeps data dependences.

    JACC is a runtime on top of OpenACC that launches (pushes) kernels to several devices and queues. Every coroutine
    raises LeftEarly once a directive was left before its end, as at a timeout. `queues` are the async queues of the
    program, `execution` says whether the host waits for each directive and how many queues there are, and `dependences`
    tracks which queue uses which bytes.
    """

    program: OffloadProgram[Any]
    queues: AsyncQueues
    devices: range
    """The numbers of the devices."""
    execution: ExecutionStep
    dependences: Dependences
    _left_early: str = ""
    """The name of the directive that was left early; empty while none was."""

    async def run(
        self, name: str, work: Work, device: int, queue: int | None = None, waits: tuple[int, ...] = ()
    ) -> None:
        """Run `work`, the body of a directive, on a device, in an async queue and after the queues in `waits`.

        name: the directive's name in errors and traces. device, queue, waits: the device's number and async values.
        With `queue` None, the host waits until the directive is done.
        """
        program = self.program
        if self._left_early:
            where = program.device(device)
            raise where.error(LeftEarly, f"{self._left_early} of this JACC runtime was left early", name, "")
        lasting = None if queue is None else self.queues.of(device, queue)
        behind = self._behind(waits, work, device) if waits else work
        try:
            await in_directive(program, name, device, behind, lasting=lasting)
        except Exception:
            raise
        except BaseException:
            self._left_early = name
            raise

    def _behind(self, waits: tuple[int, ...], work: Work, device: int) -> Work:
        async def behind(where: OffloadDevice, queue: DirectiveQueue) -> None:
            for value in waits:
                await self.queues.of(device, value).precede(where, queue)
            await work(where, queue)

        return behind

    async def submit(self, name: str, work: Work, reads: Sequence[Range], writes: Sequence[Range]) -> None:
        """Run `work`, the body of a directive, on every device.

        If `execution` is ``sync``, the host waits until it is done; otherwise it does not (``async``: one queue,
        ``overlap``: several). name: the directive's name in errors and traces. reads, writes: the bytes of host memory
        whose copies on the devices `work` reads and writes; they decide in which queues it runs.
        """
        if self.execution == "sync" and len(self.devices) == 1:
            await self.run(name, work, self.devices[0])
            return
        placement = self.dependences.place(reads, writes)
        for number in self.devices:
            await self.run(name, work, number, placement.queue, placement.waits)
        if self.execution == "sync":
            await self.drain_all()

    async def run_on_all(self, name: str, work: Work) -> None:
        """Run `work`, the body of a directive, on all devices at the same time, and wait for all of them.

        name: the directive's name in errors and traces.
        """
        await self.in_team(name, lambda number, _: self.run(name, work, number))

    async def in_team(self, name: str, serve: Callable[[int, Callable[[], Awaitable[None]]], Awaitable[None]]) -> None:
        """Serve all devices at the same time, and wait for all of them: JACC's OpenMP region with a thread for each.

        The calling thread serves the first device. serve: called with a device's number and the team's barrier, a
        function that returns when all threads have called it. name: what the threads do, in traces.
        """
        program, tell, fork, join = self.program, self.program.tell, object(), object()
        first, *others = self.devices
        barrier = Barrier(program.sim, len(self.devices))

        async def thread(number: int) -> None:
            if tell is not None:
                tell(StrandBegan(f"{name}, thread {number}", (fork,)))
            await member(number)
            if tell is not None:
                tell(StrandEnded(join))

        async def member(number: int) -> None:
            async def meet() -> None:
                gate = barrier.gate
                if tell is not None:
                    tell(Signalled(gate))
                await barrier.wait(number)
                if tell is not None:
                    tell(Awaited(gate))

            await serve(number, meet)

        if tell is not None:
            tell(Signalled(fork))
        async with program.sim.open_nursery() as nursery:
            for number in others:
                nursery.spawn(thread, number, name=f"{name}, thread {number}")
            await member(first)
        if tell is not None:
            tell(Awaited(join))

    async def begin(self, name: str, items: list[MapItem]) -> None:
        """Map these items on every device, one after the other, for the directive `name`; the host waits for each."""
        for number in self.devices:
            await self.run(name, beginning(items, name), number)

    async def drain(self, queues: Sequence[int]) -> None:
        """Wait for these queues of all devices, in one call of the runtime. Raises the error of a kernel in one."""
        if not queues:
            return
        program = self.program

        async def drain(where: OffloadDevice, own: DirectiveQueue) -> None:
            for queue in queues:
                for number in self.devices:
                    await self.queues.of(number, queue).drain(program.devices[number], own.cause)

        await self.run("jacc_wait", drain, self.devices[0])

    async def drain_all(self) -> None:
        """Wait for all queues in which submitted work may be unfinished."""
        if queues := self.dependences.synchronize_all():
            await self.drain(queues)
