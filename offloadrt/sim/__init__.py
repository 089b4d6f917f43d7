"""Virtual time and actors on Trio. Knows nothing of GPUs and imports no other package of offloadrt.

Open `simulation.py` first, then `scheduler.py`.

======================  =============================================================================================
``Simulation``          the scheduler of virtual time: ``run spawn sleep now open_nursery attached move_on_after``
``Actor``               a task that takes part in virtual time: ``name``, ``index``, ``cause``, ``data``
``Lock``                mutual exclusion, hand-off ``fifo`` or ``barging``
``RWLock``              many readers or one writer, ``downgrade``
``Semaphore``           counted units
``Station``             servers and a queue: ``serve(dt)`` acquires, stays, releases in one suspension
``Mailbox``, ``Request``   messages to an actor; ``call`` waits for the ``reply``; ``TIMED_OUT``
``Signal``              one-shot completion
``Fifo``, ``Random``    strategies: who goes first at one instant (protocol ``Strategy``); more in `strategies/`
``Observer``            protocol of an object that is called when an actor or a lock changes
======================  =============================================================================================

Errors: ``SimulationError`` and below it ``Deadlock``, ``Livelock``, ``BadChoice``, ``UncontrolledNondeterminism``,
``RealInputOutput``, ``UnregisteredTask``, ``DetachedTrioCall``, ``SimTimeout``.
"""

from offloadrt.sim.errors import (
    BadChoice,
    Deadlock,
    DetachedTrioCall,
    Livelock,
    RealInputOutput,
    SimTimeout,
    SimulationError,
    UncontrolledNondeterminism,
    UnregisteredTask,
)
from offloadrt.sim.messages import TIMED_OUT, Mailbox, MailboxStatistics, Request, Signal, SignalStatistics
from offloadrt.sim.resources import (
    Figures,
    Lock,
    LockStatistics,
    LockUse,
    RWLock,
    RWLockStatistics,
    Semaphore,
    SemaphoreStatistics,
    Station,
    StationStatistics,
)
from offloadrt.sim.scheduler import PASSED, Actor
from offloadrt.sim.simulation import Gear, Simulation
from offloadrt.sim.strategies import Fifo, Random, Strategy

__all__ = [
    "PASSED",
    "TIMED_OUT",
    "Actor",
    "BadChoice",
    "Deadlock",
    "DetachedTrioCall",
    "Fifo",
    "Figures",
    "Gear",
    "Livelock",
    "Lock",
    "LockStatistics",
    "LockUse",
    "Mailbox",
    "MailboxStatistics",
    "RWLock",
    "RWLockStatistics",
    "Random",
    "RealInputOutput",
    "Request",
    "Semaphore",
    "SemaphoreStatistics",
    "Signal",
    "SignalStatistics",
    "SimTimeout",
    "Simulation",
    "SimulationError",
    "Station",
    "StationStatistics",
    "Strategy",
    "UncontrolledNondeterminism",
    "UnregisteredTask",
]
