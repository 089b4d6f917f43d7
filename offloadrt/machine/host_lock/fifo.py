"""First come, first served."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from offloadrt.machine.host_lock.policy import LockRequest


class FifoPolicy:
    """Gives a released lock to the longest waiter.

    The lock is the successor's from the release on: nobody can take it while the successor wakes up, so that each
    contended hold lasts as long as the hand-over and the work together. This is the lock convoy of fair mutexes.
    """

    name = "fifo"
    hands_over = True
    shares = False

    def admit(self, holders: Collection[LockRequest], waiting: Sequence[LockRequest]) -> Sequence[LockRequest]:
        return waiting[:1]
