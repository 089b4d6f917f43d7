"""Directives that are left early, as at a timeout: what they have begun is brought to an end without them.

A real directive cannot be left. Here an actor of the runtime's waits for what the directive has submitted, gives its
stream back unless the queue lasts, unmaps what is left to unmap (what it had mapped itself; or the rest of what it was
about to unmap), does what was put off until then, and what the memory configuration
has to do. It copies nothing back.
Nobody waits for it but the end of the program.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from offloadrt.driver import DriverError
from offloadrt.runtime.device import OffloadDevice, report_failure
from offloadrt.runtime.mapping.data_environment import target_data_end
from offloadrt.runtime.mapping.map_item import ALWAYS, FROM, PRESENT, DirectiveQueue
from offloadrt.sim import Signal


def abandon(device: OffloadDevice, queue: DirectiveQueue, name: str) -> None:
    """Let the running actor leave a directive of this name before its end, unless the device has ended."""
    if device.ended is not None or device.sim.ending:
        return
    begun = queue.stream is not None or queue.post_processing or queue.mapped or queue.copy or queue.private
    left_early = device.hooks.left_early
    rest = None if left_early is None else left_early(queue)
    if begun or rest is not None:
        over = Signal(device.sim, f"rest of directive {queue.cause}")
        device.abandoned.append(over)
        device.sim.spawn(_bring_to_an_end, device, queue, rest, over, name=f"rest of directive {queue.cause} ({name})")


async def _bring_to_an_end(
    device: OffloadDevice, queue: DirectiveQueue, rest: Callable[[], None] | None, over: Signal
) -> None:
    """Finish what an abandoned directive has begun; a call of the driver library that fails ends the device."""
    born = device.sim.now
    try:
        await _end(device, queue, rest)
    except DriverError as error:
        report_failure(device, error)
        device.ended = device.ended or error
    device.machine.host_time.lived(device.sim.now - born)
    over.set()


async def _end(device: OffloadDevice, queue: DirectiveQueue, rest: Callable[[], None] | None) -> None:
    device.sim.current.cause = queue.cause
    mapped = [attrs.evolve(item, type=item.type & ~(FROM | ALWAYS | PRESENT)) for item in queue.items[: queue.mapped]]
    queue.mapped = 0
    await target_data_end(device, mapped, queue, "target")
    if rest is not None:
        rest()
    await device.plugin.synchronize(queue)
    await device.settle(queue)
    if queue.private is not None:
        await queue.private()
