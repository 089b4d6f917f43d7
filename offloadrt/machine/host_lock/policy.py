"""What a lock policy is told and what it answers. A policy is pure: requests in, requests out; it never waits."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

import msgspec

from offloadrt.sim import Actor


class LockRequest(msgspec.Struct, frozen=True, eq=False):
    """A thread asks for a lock, to work under it; the lock's policy is shown the requests of all.

    It is also what the thread waits for until it is granted, so that a report of a deadlock names the lock's holders.
    """

    lock: Any
    thread: Actor
    asked: tuple[float, int, int, bool]
    """`seconds`, `begin`, `nbytes` and `changes`, as the lock keeps them of its holders."""

    @property
    def seconds(self) -> float:
        """Return the virtual seconds of work that the thread begins its hold with, without noise and hand-over."""
        return self.asked[0]

    @property
    def begin(self) -> int:
        """Return the first host address that the thread looks up in what the lock guards; 0 where there is none."""
        return self.asked[1]

    @property
    def nbytes(self) -> int:
        """Return the bytes from there on; 0 for an empty section, and where there are no addresses."""
        return self.asked[2]

    @property
    def changes(self) -> bool:
        """Tell whether it may enter something or remove something; False for a mere look-up."""
        return self.asked[3]

    @property
    def name(self) -> str:
        return str(self.lock.name)

    def holders(self) -> list[Actor]:
        return list(self.lock.holders())

    def forget(self, actor: Actor) -> None:
        self.lock.withdraw(self)


class LockPolicy(Protocol):
    """Who may enter a lock. One object can serve several locks if it keeps no state of its own.

    A lock that nobody holds or waits for is taken without asking the policy, as a free futex is. What a policy says of
    itself is read once, when the lock is made. An answer that breaks the protocol ends the run with a RuntimeError that
    names the policy and its class.
    """

    name: str
    hands_over: bool
    """True: who is admitted holds the lock from then on, and pays the hand-over while it does. False: it is only woken,
    pays the hand-over without the lock, and then tries again. It enters if nobody holds the lock, or if the policy is
    asked again and admits it beside the holders; otherwise it keeps its place. Whoever arrives meanwhile takes the free
    lock.
    """
    shares: bool
    """Whether it may admit somebody beside a holder. If not it is only asked when the lock is free."""

    def admit(self, holders: Collection[LockRequest], waiting: Sequence[LockRequest]) -> Sequence[LockRequest]:
        """Choose who enters next, among those who wait.

        Asked, while somebody waits, after each release and each withdrawal; after an arrival only if the policy shares
        or nobody holds the lock, because otherwise nobody could enter anyway. A policy that does not share is not asked
        while somebody whom it has woken is on the way.
        `holders` are the requests of those who hold it, in order of their grants, `waiting` those of the others, in
        order of arrival, which may not be changed; those who were woken and have not tried again are among them. Who is
        returned enters beside the holders, each once. Without holders it must be somebody, or the others would wait for
        ever.
        """
