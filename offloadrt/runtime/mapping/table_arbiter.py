"""The arbiter of the device table: the daemon actor that decides who enters the present table of one device.

A free table is taken by the thread itself, without a message, as a free futex is. Whoever finds it taken sends its
`LockRequest` here; from then on the table's policy (`machine/host_lock/policy.py`) says when its turn comes, and
whoever gives the table up begins the work of the next. Under ``barging`` the successor is only woken: it pays the
hand-over without the lock, tries again, and may find it taken.
"""

from __future__ import annotations

from offloadrt.machine import Machine
from offloadrt.machine.host_lock import HostLock, LockPolicy, LockRequest
from offloadrt.sim import Mailbox

MESSAGES = (LockRequest,)


class TableArbiter:
    """``lock`` is what host threads enter and release; `start` spawns the actor, once, from a running actor."""

    def __init__(self, machine: Machine, name: str, policy: LockPolicy, handover: float) -> None:
        self._sim = machine.sim
        self._name = name
        self._requests = Mailbox(machine.sim, f"requests for the {name}")
        self.lock = HostLock(
            machine,
            name,
            policy,
            handover,
            category="runtime",
            wait_category="table lock",
            uncontended=machine.spec.flag("table.uncontended"),
            ask=self._requests.put,
        )

    def start(self) -> None:
        self._sim.spawn(self._serve, name=self._name, daemon=True)

    async def _serve(self) -> None:
        requests, lock = self._requests, self.lock
        while True:
            request = await requests.get()
            if not isinstance(request, LockRequest):
                raise TypeError(f"the device table does not understand {getattr(request, 'message', request)!r}")
            lock.arrived(request)
