"""A mutex of host threads: ``await lock.enter(dt)`` returns holding it, with the first ``dt`` of work done."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Awaitable, Generator, Sequence
from itertools import islice
from typing import Any

from offloadrt.machine.host_lock.policy import LockPolicy, LockRequest
from offloadrt.machine.machine import Machine
from offloadrt.sim import PASSED, Actor, LockStatistics
from offloadrt.sim.scheduler import uninterrupted


class HostLock:
    """A lock under which host threads work; a policy (``fifo`` or ``barging``) chooses the next holder.

    handover: seconds that a thread pays if it had to wait; under ``fifo`` it holds the lock meanwhile. category,
    wait_category: the categories of `trace.HOST_TIME` to which work and waits are added. uncontended: all may enter.

    A thread waits and works in one suspension, because threads do so hundreds of thousands of times in a run: the
    thread that releases the lock begins the successor's work on a core, and the successor is resumed at the end of that
    work. The thread that changes who may enter asks the policy: the one that releases the lock and, if the policy lets
    several threads hold it, the one that arrives.
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
        self._hands_over, self._shares = bool(policy.hands_over), bool(policy.shares)  # what it promises, for good
        self.waiting: deque[LockRequest] = deque()
        """The waiters in order of arrival, including those that were woken and have not tried again yet."""
        self._holds: dict[Actor, tuple[float, int, int, bool]] = {}
        """The holders' requests in order of the grants, in case the policy needs them."""
        self._woken: dict[Actor, LockRequest] = {}
        """The woken waiters that have not tried again yet; always empty under a policy that hands the lock over."""
        self._failed = False
        """Whether the policy has raised an exception; then it is not asked again."""
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
        self._hold_s = 0.0  # ends minus beginnings of holds; the statistics add the present time for each holder
        self.sim.primitives.append(self)

    # ------------------------------------------------------------------ for the threads

    @uninterrupted
    def enter(self, dt: float, begin: int = 0, nbytes: int = 0, changes: bool = True) -> Awaitable[None]:
        """Wait for the lock, then work under it for ``dt`` virtual seconds; the caller holds it until `release`.

        For the policy: the lock protects a table of host addresses, where the thread looks up ``nbytes`` bytes from
        ``begin`` on; ``changes``: whether it may change the table. Await the result at once. When it raises, as on a
        cancellation, the caller does not hold the lock. Raises RuntimeError if the caller holds it already.
        """
        sim, holds = self.sim, self._holds
        if (me := sim.running) is None:
            me = sim.current
        if holds or (self.waiting and self._hands_over):
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

    async def work(self, dt: float) -> None:
        """Take the lock, work under it for ``dt`` seconds, and release it."""
        await self.enter(dt)
        self.release()

    @uninterrupted
    def release(self) -> None:
        """Release the lock. Raises RuntimeError if the caller does not hold it."""
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
        if self.waiting:
            self.admit()

    # ------------------------------------------------------------------ for whoever decides on the lock

    def withdraw(self, request: LockRequest) -> None:
        """Withdraw a request for the lock, because its thread no longer waits."""
        request.thread.waits_for = None
        self.waiting.remove(request)
        try:
            self.admit()
        except Exception as error:  # Trio calls this when it cancels a thread, and could not go on
            if self.sim.violation is None:
                self.sim.violation = error

    def admit(self) -> None:
        """Let the waiting threads that the policy chooses enter the lock, or wake them; each begins its work on a core.

        With at most one holder, no thread is woken while another woken thread has not tried yet: only one could enter.
        """
        if not self.waiting or ((self._holds or self._woken) and not self._shares) or self._failed:
            return
        for request in self._chosen():
            thread = request.thread
            if self._hands_over:
                self.waiting.remove(request)
                self._hold(thread, request.asked, self._handover)
            elif thread not in self._woken:
                self._woken[thread] = request
                if self.sim.observer is not None:
                    self.sim.observer.lock_waited(self, thread)
                thread.waits_for = None
                self._cores.begin(thread, self._handover if self._noise is None else self._noise(self._handover))

    def _chosen(self) -> list[LockRequest]:
        """Ask the policy which waiters may enter beside the holders. Raises RuntimeError for an invalid answer."""
        policy, waiting = self.policy, self.waiting
        holders: Sequence[LockRequest] = ()
        if self._holds:
            holders = [LockRequest(self, thread, asked) for thread, asked in self._holds.items()]
        self._failed = True  # until it has answered: the threads that are cancelled for its exception would ask again
        answer = policy.admit(holders, list(waiting))
        try:
            chosen = list(islice(answer, len(waiting) + 1))  # an endless answer names somebody twice
        except TypeError:
            raise self._broken(f"answers {_told(answer)}, which is no sequence of requests") from None
        for number, request in enumerate(chosen):
            if not isinstance(request, LockRequest) or request not in waiting:
                raise self._broken(f"admits {_told(request)}, which does not wait")
            if request in chosen[:number]:
                raise self._broken(f"admits {request.thread.name} twice")
        if not chosen and not self._holds and not self._woken:
            raise self._broken(f"admits none of {len(waiting)} that wait, though nobody holds the lock")
        if len(chosen) > 1 and not self._shares:
            raise self._broken(f"admits {len(chosen)} threads at once, but its `shares` is false")
        self._failed = False
        return chosen

    def _broken(self, what: str) -> RuntimeError:
        """Return the error for a policy that breaks its protocol."""
        policy = self.policy
        return RuntimeError(
            f"lock policy {policy.name!r} (class {type(policy).__name__}, hands_over={self._hands_over}, "
            f"shares={self._shares}) {what}; asked about {self.name} at t={self.sim.now:g}"
        )

    def _hold(self, thread: Actor, asked: tuple[float, int, int, bool], handover: float) -> None:
        """Give the lock to a waiter, which begins its work on a core."""
        sim = self.sim
        self._holds[thread] = asked
        self._hold_s -= sim.now
        self._acquired += 1
        if sim.observer is not None:
            sim.observer.lock_acquired(self, thread)
        thread.waits_since = sim.now  # the wait is over: `_wait` accounts for it
        thread.waits_for = None
        dt = handover + asked[0]
        self._cores.begin(thread, dt if self._noise is None else self._noise(dt))

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
        """Wait until the lock is granted and the caller's first work is done."""
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
        woken = False
        try:
            self.admit()
            while True:
                sim.running = None  # it waits in virtual time, as in `sleep`
                yield me.trap
                woken = self._woken.pop(me, None) is not None
                if not woken:
                    break
                self._cores.ended(me)
                if me.interruption is not None or not self._holds:
                    self.waiting.remove(request)
                    break
                if self._shares and request in self._chosen():  # beside the holders, who have come first
                    self.waiting.remove(request)
                    sim.running = None
                    self._hold(me, asked, 0.0)
                else:  # somebody was faster
                    me.waits_for = request
                    me.waits_since = since
        except BaseException:  # the policy's, mostly
            me.waits_for = None
            if request in self.waiting:
                self.waiting.remove(request)
            raise
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
        elif woken:  # another waiter can have what this one gives up
            self.admit()
        if me.interruption is not None:
            yield from me.interrupted()

    # ------------------------------------------------------------------ for who looks on

    def holders(self) -> list[Actor]:
        return list(self._holds)

    @property
    def owner(self) -> Actor | None:
        """Return the holder; with several holders, the one that has held the lock longest."""
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


def _told(answer: object) -> str:
    return f"the request of {answer.thread.name}" if isinstance(answer, LockRequest) else repr(answer)
