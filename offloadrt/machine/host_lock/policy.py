"""The input and output of a lock policy. A policy is pure: it maps requests to requests and never waits."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

import msgspec

from offloadrt.sim import Actor


class LockRequest(msgspec.Struct, frozen=True, eq=False):
    """A request of a `thread` for a `lock`, to work under it; the lock's policy sees all requests.

    The thread waits on this object until the lock is granted, so that a report of a deadlock names the holders.
    """

    lock: Any
    thread: Actor
    asked: tuple[float, int, int, bool]
    """The properties `seconds`, `begin`, `nbytes` and `changes`, as a tuple."""

    @property
    def seconds(self) -> float:
        """Return the virtual seconds of the thread's first work under the lock, without jitter and wake-up cost."""
        return self.asked[0]

    @property
    def begin(self) -> int:
        """Return the first host address that the thread looks up in the table behind the lock; 0: no look-up."""
        return self.asked[1]

    @property
    def nbytes(self) -> int:
        """Return the bytes of the array section, from `begin` on, that the thread looks up; 0: empty or none."""
        return self.asked[2]

    @property
    def changes(self) -> bool:
        """Tell whether the thread may change the entries of the table behind the lock, and not only read them."""
        return self.asked[3]

    @property
    def name(self) -> str:
        return str(self.lock.name)

    def holders(self) -> list[Actor]:
        return list(self.lock.holders())

    def forget(self, actor: Actor) -> None:
        self.lock.withdraw(self)


class LockPolicy(Protocol):
    """Decides which waiting threads may enter a lock. A policy without state of its own can serve several locks.

    A lock without holders and waiters is taken without asking the policy, as a free futex is. The policy's attributes
    are read once, when the lock is made. An answer that breaks the rules below ends the run with a RuntimeError that
    names the policy and its class.
    """

    name: str
    hands_over: bool
    """True: an admitted thread holds the lock at once and pays the hand-over while holding it. False: it is only woken,
    pays the hand-over without the lock, and then tries again. It enters if nobody holds the lock, or if the policy
    admits it beside the holders when asked again; else it keeps its place. A thread that arrives meanwhile takes the
    free lock."""
    shares: bool
    """Whether the policy may admit a thread beside a holder. If not, it is asked only when the lock is free."""

    def admit(self, holders: Collection[LockRequest], waiting: Sequence[LockRequest]) -> Sequence[LockRequest]:
        """Choose which of the waiting threads enter next.

        Called, while a thread waits, after each release and each withdrawal; after an arrival only if the policy shares
        or nobody holds the lock, because otherwise nobody could enter anyway. A policy that does not share is not asked
        while a thread that it has woken has not tried yet. `holders` are the holders' requests in order of their
        grants. `waiting` are the other requests in order of arrival, woken threads included; it must not be changed.
        The returned requests enter beside the holders, each at most once. Without holders the result must not be empty,
        or the others would wait for ever.
        """
