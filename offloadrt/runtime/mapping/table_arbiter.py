"""The arbiter of the device table: the daemon actor that decides who enters the present table of one device.

A free table is taken by the thread itself, without a message, as a free futex is. Whoever finds it taken sends its
`LockRequest` here, and the table's policy (`machine/host_lock/policy.py`) says when its turn comes. The mailbox is the
queue: the actor is woken for a request that might enter at once, beside those who hold the table. All others can only
enter when somebody leaves; then whoever gives the table up decides in the actor's place, on what lies in the mailbox,
and begins the work of the next (a resumption of the actor for each made QMCPack need a fifth more Python calls). Under
``barging`` the successor is only woken: it pays the hand-over without the lock, tries again, and may find it taken.
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
            mailbox=self._requests,
        )

    def start(self) -> None:
        self._sim.spawn(self._serve, name=self._name, daemon=True)

    async def _serve(self) -> None:
        requests, lock = self._requests, self.lock
        message: object = None
        while True:
            for strange in (message, *requests.items):
                if strange is not None and not isinstance(strange, LockRequest):
                    raise TypeError(f"the device table does not understand {getattr(strange, 'message', strange)!r}")
            lock.admit()
            message = await requests.next_put()
