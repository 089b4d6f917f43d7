"""A mutex of host threads: ``await lock.enter(dt)`` returns holding it, with the first ``dt`` of work done."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Awaitable, Generator, Iterable, Sequence
from typing import Any

from offloadrt.machine.host_lock.policy import LockPolicy, LockRequest
from offloadrt.machine.machine import Machine
from offloadrt.sim import PASSED, Actor, LockStatistics
from offloadrt.sim.scheduler import uninterrupted


class HostLock:
    """A lock under which host threads work, with a policy that says who comes next.

    Waiting and working are one suspension, because they alternate hundreds of thousands of times in a run: whoever
    gives the lock up begins the successor's work on a core, and the successor is resumed when that is over. A thread
    that had to wait pays `handover`, which is part of its first work under ``fifo``.

    The policy is asked by the thread that changes what it would answer: by the one that gives the lock up, and, where
    somebody might enter beside the holders, by the one that arrives.

    category, wait_category: the entries of `trace.HOST_TIME` that get the first work and the waits. uncontended: an
    ablation; the lock excludes nobody.
    """

    def __init__(
        self,
        machine: Machine,
        name: str,
        policy: LockPolicy,
        handover: float,
        *,
        category: str,
        wait_category: str,
        uncontended: bool = False,
    ) -> None:
        self.sim = machine.sim
        self.name = name
        self.policy = policy
        self.waiting: deque[LockRequest] = deque()
        """The waiters in order of arrival, with those that were woken and have not tried again yet."""
        self._holds: dict[Actor, tuple[float, int, int, bool]] = {}
        """What the holders asked for, in order of the grants; their requests, should the policy have to know them."""
        self._woken: LockRequest | None = None
        """The waiter that is on its way to try again; None under a policy that hands the lock over."""
        self._failed = False
        """Whether the policy has been asked and has not answered: it raised an exception, and is not asked again."""
        self._handover = handover
        self._uncontended = uncontended
        self._cores = machine.cores
        self._work = machine.work
        self._noise = None if machine.exact else machine.jitter
        self._host_seconds = machine.host_time.seconds
        self._category = category
        self._wait_category = wait_category
        self._acquired = 0
        self._contended = 0
        self._wait_s = 0.0
        self._hold_s = 0.0  # ends less beginnings
        self.sim.primitives.append(self)

    # ------------------------------------------------------------------ for the threads

    @uninterrupted
    def enter(self, dt: float, begin: int = 0, nbytes: int = 0, changes: bool = True) -> Awaitable[None]:
        """Wait for the lock, then work under it for ``dt`` virtual seconds; the caller holds it until `release`.

        The other parameters tell the policy what for: see `LockRequest`. Await it at once. When it raises, a
        cancellation for instance, the caller does not hold the lock. RuntimeError if the caller holds it already.
        """
        sim, holds = self.sim, self._holds
        if (me := sim.running) is None:
            me = sim.current
        if holds or (self.waiting and self.policy.hands_over):
            return self._wait(me, (dt, begin, nbytes, changes))
        if self._uncontended:
            self._acquired += 1
            return self._work(dt, self._category) if dt else PASSED
        if not dt:  # an operation that takes no time; others are noticed by the time that they take
            if not sim.operations_left:
                return self._wait(me, (dt, begin, nbytes, changes))
            sim.operations_left -= 1
        holds[me] = dt, begin, nbytes, changes
        now = sim.now
        self._hold_s -= now
        self._acquired += 1
        if sim.observer is not None:
            sim.observer.lock_acquired(self, me)
        if dt:
            if self._noise is not None:
                dt = self._noise(dt)
            if not self._cores.begin(me, dt):
                return self._at_work(me, now)
            self._host_seconds[self._category] += sim.now - now  # done: nothing else was to happen before
        return PASSED

    @uninterrupted
    def release(self) -> None:
        """Give the lock up. RuntimeError if the caller does not hold it."""
        sim = self.sim
        if (me := sim.running) is None:
            me = sim.current
        try:
            del self._holds[me]
        except KeyError:
            if self._uncontended:
                return
            raise RuntimeError(f"{me.name} releases {self.name!r}, which it does not hold") from None
        self._hold_s += sim.now
        if sim.observer is not None:
            sim.observer.lock_released(self, me)
        if self.waiting and self._woken is None:
            self.admit()

    # ------------------------------------------------------------------ for whoever decides on the lock

    def withdraw(self, request: LockRequest) -> None:
        """Take a request back: its thread does not wait any more."""
        request.thread.waits_for = None
        self.waiting.remove(request)
        try:
            self.admit()
        except Exception as error:  # Trio calls this when it cancels a thread, and could not go on
            if self.sim.violation is None:
                self.sim.violation = error

    def admit(self) -> None:
        """Let those enter, or wake those, whom the policy chooses; each begins its work on a core."""
        holds, policy, waiting = self._holds, self.policy, self.waiting
        if not waiting or self._woken is not None or (holds and not policy.shares) or self._failed:
            return
        holders: Sequence[LockRequest] = ()
        if holds:
            holders = [LockRequest(self, thread, asked) for thread, asked in holds.items()]
        self._failed = True  # until it has answered: the threads that are cancelled for its exception would ask again
        chosen = self._chosen(policy.admit(holders, list(waiting)))
        self._failed = False
        for request in chosen:
            thread, dt = request.thread, self._handover
            if policy.hands_over:
                waiting.remove(request)
                self._grant(thread, request.asked)
                thread.waits_since = self.sim.now  # the wait is over: `_wait` accounts for it
                dt += request.asked[0]
            else:
                self._woken = request
                if self.sim.observer is not None:
                    self.sim.observer.lock_waited(self, thread)
            thread.waits_for = None
            self._cores.begin(thread, dt if self._noise is None else self._noise(dt))

    def _chosen(self, admitted: Iterable[LockRequest]) -> list[LockRequest]:
        """Check what the policy has answered. Raises RuntimeError."""
        chosen, name = list(admitted), self.policy.name
        for request in chosen:
            if request not in self.waiting:
                raise RuntimeError(f"lock policy {name!r} admits {request!r}, which does not wait")
        if len(chosen) > 1 and not self.policy.shares:
            raise RuntimeError(f"lock policy {name!r} admits {len(chosen)} threads at once, but its `shares` is false")
        return chosen

    def _grant(self, thread: Actor, asked: tuple[float, int, int, bool]) -> None:
        sim = self.sim
        self._holds[thread] = asked
        self._hold_s -= sim.now
        self._acquired += 1
        if sim.observer is not None:
            sim.observer.lock_acquired(self, thread)

    # ------------------------------------------------------------------ how a thread waits and works

    @uninterrupted
    @types.coroutine
    def _at_work(self, me: Actor, begin: float) -> Generator[Any, Any, None]:
        """Wait for the end of the first work, which has begun."""
        sim = self.sim
        sim.running = None  # it waits in virtual time, as in `sleep`
        yield me.trap
        self._cores.ended(me)
        self._host_seconds[self._category] += sim.now - begin
        if me.interruption is not None:  # queued for a core, or at work
            self.release()
            yield from me.interrupted()

    @uninterrupted
    @types.coroutine
    def _wait(self, me: Actor, asked: tuple[float, int, int, bool]) -> Generator[Any, Any, None]:
        """Wait until the lock is granted and its first work done."""
        sim = self.sim
        entered: Any  # PASSED, or a generator
        if me in self._holds:
            raise RuntimeError(f"{me.name} acquires {self.name!r}, which it holds")
        if not sim.operations_left:
            yield from sim.pause(me)
            entered = self.enter(*asked)
            yield from entered
            return
        request = LockRequest(self, me, asked)
        if sim.observer is not None:
            sim.observer.lock_waited(self, me)
        self._contended += 1
        since = sim.now
        me.story.append((since, self.name))
        me.waits_for = request
        me.waits_since = since
        self.waiting.append(request)
        sim.running = None  # it waits in virtual time, as in `sleep`, also when it is admitted at once
        if not self._holds or self.policy.shares:  # otherwise nobody can enter before a holder leaves
            self.admit()
        while True:
            sim.running = None  # it waits in virtual time, as in `sleep`
            yield me.trap
            if request is not self._woken:
                break
            self._cores.ended(me)
            self._woken = None
            if me.interruption is not None or not self._holds:
                self.waiting.remove(request)
                break
            me.waits_for = request  # somebody was faster
            me.waits_since = since
        granted = me in self._holds
        end = me.waits_since if granted else sim.now
        self._wait_s += end - since
        self._host_seconds[self._wait_category] += end - since
        if granted:
            self._cores.ended(me)
            self._host_seconds[self._category] += sim.now - end
            if me.interruption is not None:  # granted, and queued for a core or at work
                self.release()
        elif me.interruption is None:  # woken, and fast enough
            entered = self.enter(*asked)
            yield from entered
        elif not self._holds:  # another waiter can have what this one gives up
            self.admit()
        if me.interruption is not None:
            yield from me.interrupted()

    # ------------------------------------------------------------------ for who looks on

    def holders(self) -> list[Actor]:
        return list(self._holds)

    @property
    def owner(self) -> Actor | None:
        """Return who holds it; of several holders the one that has held it longest."""
        return next(iter(self._holds), None)

    def statistics(self) -> LockStatistics:
        owner = self.owner
        return LockStatistics(
            acquired=self._acquired,
            contended=self._contended,
            wait_s=self._wait_s,
            hold_s=self._hold_s + len(self._holds) * self.sim.now,
            tasks_waiting=len(self.waiting),
            owner=None if owner is None else owner.name,
        )
