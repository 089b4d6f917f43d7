"""Mutexes of host threads: waiting for one and working under it are one suspension.

`lock.py` has the mutex, `HostLock`: a free one is taken at once, as a futex is, and whoever gives one up that others
want starts the next one's work. Under ``barging`` the successor is only woken: it pays the hand-over without the lock,
tries again, and may find it taken. Who comes next is said by a policy, an object with the interface of `policy.py`:
``fifo`` and ``barging`` are here, one file each, and a package can add one with an entry point in the group
``offloadrt.lock_policies``.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Final

from offloadrt.machine.host_lock.barging import BargingPolicy
from offloadrt.machine.host_lock.fifo import FifoPolicy
from offloadrt.machine.host_lock.lock import HostLock
from offloadrt.machine.host_lock.policy import LockPolicy, LockRequest

__all__ = ["LOCK_POLICIES", "BargingPolicy", "FifoPolicy", "HostLock", "LockPolicy", "LockRequest", "lock_policy"]

LOCK_POLICIES: Final[dict[str, type[LockPolicy]]] = {"fifo": FifoPolicy, "barging": BargingPolicy}


def lock_policy(name: str | LockPolicy) -> LockPolicy:
    """Return the policy of that name; a policy object is returned unchanged.

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
    others = entry_points(group="offloadrt.lock_policies")
    for point in others:
        if point.name == name:
            made: LockPolicy = point.load()()
            return made
    known = ", ".join(sorted([*LOCK_POLICIES, *(point.name for point in others)]))
    raise ValueError(f"no lock policy {name!r}; there are: {known}")
