"""The lock that all contexts of a process share in CUDA's driver library.

Reports of programs with a host thread for each GPU say that launches of different devices wait for one another inside
``libcuda``, and that a process for each GPU is the way out.  The library is closed: for which part of a call it holds
such a lock is an entry with a range (``process.driver_lock``).  A thread takes it under the lock of its context, so it
never matters to a process with one context, which has none.
"""

from __future__ import annotations

from typing import Annotated

import attrs

from offloadrt.machine import Machine
from offloadrt.machine.host_lock import HostLock, lock_policy


@attrs.frozen
class ProcessLockSpec:
    """How calls on different devices exclude one another."""

    part: Annotated[float, "process.driver_lock"]
    """Of the work that a call does under the context lock, what it does under this lock as well."""
    handover: Annotated[float, "driver.handover"]
    uncontended: Annotated[bool, "process.driver_lock.uncontended"]


class ProcessLock:
    """The lock of one process's driver library."""

    def __init__(self, machine: Machine) -> None:
        self.spec = machine.spec.read(ProcessLockSpec)
        self.lock = HostLock(
            machine,
            machine.named("driver library"),
            lock_policy(machine.spec.text("driver.handoff")),
            self.spec.handover,
            category="driver",
            wait_category="driver lock",
            uncontended=self.spec.uncontended,
        )
        self._work = machine.work

    async def work(self, dt: float) -> None:
        """Work for ``dt`` seconds, the first part of them under the lock."""
        part = dt * self.spec.part
        if part:
            await self.lock.enter(part)
            self.lock.release()
        if part < dt:
            await self._work(dt - part, "driver")
