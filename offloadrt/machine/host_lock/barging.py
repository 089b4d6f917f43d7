"""Barging: a running thread may take a released lock before the woken waiter does."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from offloadrt.machine.host_lock.policy import LockRequest


class BargingPolicy:
    """Frees a released lock and wakes the longest waiter, which may lose the lock to a running thread.

    This is what a ``std::mutex`` of libstdc++ or libc++ does, which is glibc's ``pthread_mutex_t`` on a futex:
    ``__lll_unlock`` stores 0 and, if somebody sleeps, wakes one thread (``FUTEX_WAKE``); a thread that calls
    ``pthread_mutex_lock`` takes the lock with one compare-and-swap if it reads 0, whoever sleeps.

    Between the release and the retry the lock is free:

    - The woken thread needs a core, and works there for the hand-over (the wake-up cost); then it tries again.
    - Whoever arrives meanwhile takes the lock at once, the thread that has just released it included.
    - If the lock is taken when the woken thread tries, it sleeps again and keeps its position in the queue. Linux would
      put it at the end of the futex's queue; which sleeper is woken changes who waits, not how long the lock is busy.
    - One thread at most is on its way: a release wakes nobody while another that was woken has not tried yet.
    - There is no guarantee against starvation.
    """

    name = "barging"
    hands_over = False
    shares = False

    def admit(self, holders: Collection[LockRequest], waiting: Sequence[LockRequest]) -> Sequence[LockRequest]:
        return waiting[:1]
