"""Mutexes of host threads: waiting for one and working under it are one suspension.

`lock.py` has the mutex, `HostLock`: a free one is taken at once, as a futex is, and whoever gives one up that others
want starts the next one's work. Under ``barging`` the successor is only woken: it pays the hand-over without the lock,
tries again, and may find it taken. Who comes next is said by a policy, an object with the interface of `policy.py`:
``fifo`` and ``barging`` are here, one file each, and a package can add one with an entry point in the group
``offloadrt.lock_policies``.
"""

from __future__ import annotations

from typing import Final

from offloadrt.machine.host_lock.barging import BargingPolicy
from offloadrt.machine.host_lock.fifo import FifoPolicy
from offloadrt.machine.host_lock.lock import HostLock
from offloadrt.machine.host_lock.policy import LockPolicy, LockRequest
from offloadrt.machine.offered import as_object, names_of, offered

__all__ = ["LOCK_POLICIES", "BargingPolicy", "FifoPolicy", "HostLock", "LockPolicy", "LockRequest", "lock_policy"]

LOCK_POLICIES: Final[dict[str, type[LockPolicy]]] = {"fifo": FifoPolicy, "barging": BargingPolicy}


def lock_policy(name: str | LockPolicy) -> LockPolicy:
    """Return the policy of that name, or of `FILE.py:NAME`; a policy object is returned unchanged.

    Raises ValueError, with the names that exist, for any other name; and for an object that is no `LockPolicy`, with
    what it lacks.

    >>> lock_policy("fifo").name
    'fifo'
    """
    if not isinstance(name, str):
        lacking = [part for part in (*LockPolicy.__annotations__, "admit") if not hasattr(name, part)]
        if lacking or isinstance(name, type):
            what = "is a class: give an object of it" if isinstance(name, type) else f"lacks {', '.join(lacking)}"
            called = getattr(name, "__name__", type(name).__name__)
            raise ValueError(f"{called} is no lock policy: it {what}")
        return name
    if name in LOCK_POLICIES:
        return LOCK_POLICIES[name]()
    if (found := offered(name, "offloadrt.lock_policies")) is not None:
        return lock_policy(as_object(found))
    known = ", ".join(sorted([*LOCK_POLICIES, *names_of("offloadrt.lock_policies")]))
    raise ValueError(f"no lock policy {name!r}; there are: {known}")
