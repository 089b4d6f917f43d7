"""Halts of running kernels by allocations and frees, as the profile's ``driver.halt`` says.

=======================  ==================================================================================
``none``                 they do nothing to kernels
``drain_on_free``        a free waits until no kernel runs, and none starts before it is done
``drain_on_alloc_free``  so does an allocation
``suspend``              both stop the running kernels for as long as they last
``per_transfer``         as ``suspend``; and the copy engines do so for every transfer from and to the host
=======================  ==================================================================================
"""

from __future__ import annotations

from typing import Literal

from offloadrt.machine import Device
from offloadrt.machine.messages import DrainKernels, ResumeKernels, SuspendKernels
from offloadrt.sim import Signal, Simulation
from offloadrt.trace import HostTime

Operation = Literal["alloc", "free"]

_HALTS: dict[str, dict[Operation, type[DrainKernels] | type[SuspendKernels]]] = {
    "none": {},
    "drain_on_free": {"free": DrainKernels},
    "drain_on_alloc_free": {"alloc": DrainKernels, "free": DrainKernels},
    "suspend": {"alloc": SuspendKernels, "free": SuspendKernels},
    "per_transfer": {"alloc": SuspendKernels, "free": SuspendKernels},
}


class Halting:
    """Halts a device's kernels during allocations and frees, as ``policy`` says, or never (``none``).

    The policies ``drain_…`` let running kernels end first; ``suspend`` stops them in the middle. So does
    ``per_transfer``, with which the copy engines stop them for transfers as well. ``host_time`` counts threads' waits.
    """

    def __init__(self, sim: Simulation, device: Device, policy: str, host_time: HostTime) -> None:
        self._sim = sim
        self._device = device
        self._halts = _HALTS[policy]
        self._host_time = host_time

    def concerns(self, operation: Operation) -> bool:
        """Tell whether to call ``begin`` for an operation: the policy halts the device for it, and the device runs."""
        return operation in self._halts and self._device.started

    async def begin(self, operation: Operation, reason: str, cause: int) -> ResumeKernels:
        """Halt the device's kernels; return the message to pass to ``end``. The wait counts as host time ``drain``.

        operation: an allocation or a free. reason: why, for reports. cause: the number of the directive that needs it.
        """
        since = self._sim.now
        resume = await halt(self._device, self._halts[operation], reason, cause)
        self._host_time.add("drain", self._sim.now - since)
        return resume

    def end(self, resume: ResumeKernels | None) -> None:
        """Let kernels run again; ``resume`` is the result of ``begin``, or None if ``begin`` was not called."""
        if resume is not None:
            self._device.compute.mailbox.put(resume)


async def halt(
    device: Device, how: type[DrainKernels] | type[SuspendKernels], reason: str, cause: int
) -> ResumeKernels:
    """Wait until a device's kernels are halted; return the message that lets the kernels run again.

    how: whether kernels finish first (DrainKernels) or stop in the middle (SuspendKernels). reason: why, for reports.
    cause: the number of the directive for which the device is halted.
    """
    mailbox = device.compute.mailbox
    suspends = how is SuspendKernels
    resume = ResumeKernels(reason, suspends, cause, device.process)
    message = SuspendKernels(reason, cause) if suspends else DrainKernels(reason, cause, device.process)
    try:
        await mailbox.call(message)
    except BaseException:  # the caller was cancelled while it waited: the halt that it asked for must end as well
        mailbox.put(resume)
        raise
    return resume


class QueueEviction:
    """Stops the queues of a device without page faults while managed memory leaves it, and restores them later.

    This follows amdgpu's ``svm_range_evict`` without XNACK: the first evicted range stops the queues and schedules
    their restoration; ranges evicted before the restoration change nothing. ``delay`` is the time in seconds from the
    stop to the restoration; 0 for a device whose queues do not stop.
    """

    def __init__(self, sim: Simulation, device: Device, delay: float) -> None:
        self.count = 0
        """Number of times that the queues have been stopped."""
        self._sim = sim
        self._device = device
        self._delay = delay
        self._stopped = False
        self._stopping: Signal | None = None

    async def begin(self, cause: int) -> None:
        """Stop the queues before pages leave the device; return when they have stopped. cause: a directive's number."""
        while self._delay and not self._stopped:
            if self._stopping is None:
                await self._stop(cause)
            else:  # somebody else's stop, which a cancellation may end: look again afterwards
                await self._stopping.wait()

    async def _stop(self, cause: int) -> None:
        """Stop the queues, and schedule their restoration after the delay."""
        self._stopping = over = Signal(self._sim, f"device {self._device.index} queues stop")
        self.count += 1
        try:
            resume = await halt(self._device, SuspendKernels, "eviction", cause)
            self._stopped = True
        finally:
            self._stopping = None
            over.set()
        self._sim.spawn(self._restore, resume, name=f"device {self._device.index} queue restoration", daemon=True)

    async def _restore(self, resume: ResumeKernels) -> None:
        await self._sim.sleep(self._delay)
        self._stopped = False
        self._device.compute.mailbox.put(resume)
