"""One directive or routine from its begin to its end, in the thread that runs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from offloadrt.driver import DriverError
from offloadrt.models.host.program import OffloadProgram
from offloadrt.runtime.abandoned import abandon
from offloadrt.runtime.async_queue import AsyncQueue
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.errors import DeviceEnded, FreedHostMemory, MappingError
from offloadrt.runtime.events import DirectiveBegan, DirectiveLeft
from offloadrt.runtime.failures import report_failure
from offloadrt.runtime.mapping.map_item import MapItem

_FATAL: Final = "omptarget fatal error 1: failure of target construct while offloading is mandatory"
Work = Callable[[OffloadDevice, DirectiveQueue], Awaitable[object]]


async def in_directive(
    program: OffloadProgram[Any],
    name: str,
    device: int,
    work: Work,
    unmaps: Sequence[MapItem] = (),
    async_queue: AsyncQueue | None = None,
    mandatory: bool = True,
    make_queue: type[DirectiveQueue] = DirectiveQueue,
) -> OffloadDevice:
    """Do `work` as a numbered directive of this name on a device, and drain its queue.

    async_queue: the queue that the directive goes behind, which then is not drained.
    unmaps: items whose mapping ends even if the directive is left before it has begun to do so. mandatory: whether a
    call of the driver library that fails is fatal; of a routine that answers with a code it is not. make_queue: the
    class of the directive's queue.

    Returns the device. Raises InvalidDevice, DeviceEnded and what the work raises; a MappingError with all that LLVM
    would have printed. A construct that fails ends the device, as it ends a real program; one that is left early, as at
    a timeout, is brought to an end by another actor.
    """
    if program.globals.pending:
        await program.globals.load()
    where = program.device(device, name)
    if where.ended is not None:
        why = str(where.ended).partition("\n")[0]
        message = f"device {where.number} cannot be used any more: a fatal error has ended it: {why}"
        raise where.error(DeviceEnded, message, name, "") from where.ended
    actor = program.sim.running or program.sim.current
    number = program.next_directive()
    outer, actor.cause = actor.cause, number
    if (tell := where.tell) is not None:
        tell(DirectiveBegan(number, where.number, name))
    queue = make_queue(number, items=unmaps, mapped=len(unmaps))
    failed: BaseException | None = None
    try:
        await where.work(program.costs.directive)
        if async_queue is None:
            await work(where, queue)
            if queue.stream is not None:
                await where.plugin.synchronize(queue)
            if queue.post_processing or queue.kernel_error is not None:
                await where.settle(queue)
        else:
            await async_queue.use(where, queue, work)
    except MappingError as error:
        where.report(f"{name}: {_FATAL}")
        error.messages = tuple(where.messages)
        where.ended = failed = error
        raise
    except FreedHostMemory as error:
        where.ended = failed = error
        raise
    except DriverError as error:
        failed = error
        if mandatory:
            report_failure(where, error, f"{name}: {_FATAL}")
            where.ended = error
        else:
            report_failure(where, error)
            abandon(where, queue, name)
        raise
    except BaseException as error:
        failed = error
        abandon(where, queue, name)
        raise
    finally:
        actor.cause = outer
        if tell is not None:
            tell(DirectiveLeft(number, where.number, name, failed))
            failed = None  # an error that held its own frame would stay until the collector runs
    return where


def leave_region(program: OffloadProgram[Any], name: str, device: int, items: Sequence[MapItem]) -> None:
    """Leave a structured region early: the mappings of its items end without being copied back."""
    queue = DirectiveQueue(program.next_directive(), items=items, mapped=len(items))
    abandon(program.device(device), queue, name)
