"""The order of one JACC runtime's work: the directives of its routines on several devices, and the waits for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import attrs

from offloadrt.models.host.data_works import beginning
from offloadrt.models.host.directive import Work, in_directive
from offloadrt.models.host.program import OffloadProgram
from offloadrt.models.openacc.async_queues import AsyncQueues
from offloadrt.models.openacc.jacc.dependences import Dependences, Range
from offloadrt.models.openacc.jacc.errors import LeftEarly
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.mapping.map_item import MapItem

ExecutionStep = Literal["sync", "async", "overlap"]
"""``sync``: the host waits for each push; ``async``: it does not, and all go to one queue; ``overlap``: to several."""


@attrs.define(eq=False)
class Order:
    """The order of the operations of one host thread.

    Every coroutine raises LeftEarly after a directive that was left early.
    """

    program: OffloadProgram[Any]
    queues: AsyncQueues
    devices: range
    """Their numbers."""
    execution: ExecutionStep
    dependences: Dependences
    _left_early: str = ""
    """The name of the directive that was."""

    async def run(
        self, name: str, work: Work, device: int, queue: int | None = None, waits: tuple[int, ...] = ()
    ) -> None:
        """Run one directive of a routine, in an activity queue, behind those of `waits`; without a queue to its end."""
        program = self.program
        if self._left_early:
            where = program.device(device)
            raise where.error(LeftEarly, f"{self._left_early} of this JACC runtime was left early", name, "")
        async_queue = None if queue is None else self.queues.of(device, queue)
        try:
            await in_directive(
                program, name, device, self._behind(waits, work, device) if waits else work, async_queue=async_queue
            )
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
        """Do `work` on every device, in the order that the execution step allows."""
        if self.execution == "sync" and len(self.devices) == 1:
            await self.run(name, work, self.devices[0])
            return
        placement = self.dependences.place(reads, writes)
        for number in self.devices:
            await self.run(name, work, number, placement.queue, placement.waits)
        if self.execution == "sync":
            await self.drain_all()

    async def begin(self, name: str, items: list[MapItem]) -> None:
        """Map these items on every device."""
        for number in self.devices:
            await self.run(name, beginning(items, name), number)

    async def drain(self, queues: Sequence[int]) -> None:
        """Wait for these queues of all devices, in one call of the runtime. Raises what a kernel did wrong."""
        if not queues:
            return
        program = self.program

        async def drain(where: OffloadDevice, own: DirectiveQueue) -> None:
            for queue in queues:
                for number in self.devices:
                    await self.queues.of(number, queue).drain(program.devices[number], own.cause)

        await self.run("jacc_wait", drain, self.devices[0])

    async def drain_all(self) -> None:
        """Wait for everything that was submitted."""
        if queues := self.dependences.synchronize_all():
            await self.drain(queues)
