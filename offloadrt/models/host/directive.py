"""One directive or routine from its begin to its end, in the thread that runs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.errors import MappingError
from offloadrt.runtime.lasting_queue import LastingQueue
from offloadrt.trace import events

if TYPE_CHECKING:
    from offloadrt.models.host.program import HostProgram

Work = Callable[[OffloadDevice, DirectiveQueue], Awaitable[object]]


async def in_directive(
    program: HostProgram[Any], name: str, device: int | None, work: Work, lasting: LastingQueue | None = None
) -> OffloadDevice:
    """Do `work` as a numbered directive of this name on a device (None: the default one), and drain its queue; a
    `lasting` queue is not drained.

    Returns the device. Raises InvalidDevice and what the work raises; a MappingError with all that LLVM would have
    printed.
    """
    if program.globals.pending:
        await program.globals.load()
    where = program.device(device, name)
    actor = program.sim.running or program.sim.current
    number = program.next_directive()
    outer, actor.cause = actor.cause, number
    if (trace := program.trace) is not None:
        trace(events.DirectiveBegin, where.number, -1, number, number, name)
    try:
        await where.work(program.costs.directive)
        if lasting is None:
            queue = DirectiveQueue(number)
            await work(where, queue)
            await where.synchronize(queue)
        else:
            queue = await lasting.open(where, number)
            try:
                await work(where, queue)
            finally:
                lasting.close(where, queue)
    except MappingError as error:
        where.report(f"{name}: omptarget fatal error 1: failure of target construct while offloading is mandatory")
        error.messages = tuple(where.messages)
        raise
    finally:
        actor.cause = outer
        if trace is not None:
            trace(events.DirectiveEnd, where.number, -1, number, number, name)
    return where
