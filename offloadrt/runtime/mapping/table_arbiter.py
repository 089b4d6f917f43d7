"""The arbiter of the device table: its mailbox is the table's queue, and its actor decides where no thread can.

A free table is taken by the thread itself, without a message, as a free futex is. Whoever finds it taken leaves its
`LockRequest` in the arbiter's mailbox. The table's policy (`machine/host_lock/policy.py`) answers who enters next, and
it is asked by whoever changes what it would answer:

- The thread that gives the table up asks it about what lies in the mailbox, and begins the work of the next. So goes
  every grant under ``fifo``, and every wake-up under ``barging``: the actor is not resumed once in a run of QMCPack.
- The actor asks it when a request arrives that might enter beside the holders, which a policy that shares allows.

Why the actor does not make the first kind of grant as well: it would have to be resumed at each release that somebody
waits for, which made QMCPack need a fifth more Python calls. When the thread asks, the grant happens at the same
virtual time, by the same function of the same policy.
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
        self._sim.spawn_service(self._serve, name=self._name, chosen=True)

    async def _serve(self) -> None:
        requests, lock = self._requests, self.lock
        message: object = None
        while True:
            for strange in (message, *requests.items):
                if strange is not None and not isinstance(strange, LockRequest):
                    raise TypeError(f"the device table does not understand {getattr(strange, 'message', strange)!r}")
            lock.admit()
            message = await requests.next_put()
