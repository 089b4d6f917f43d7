"""Mutexes of host threads: waiting for one and working under it are one suspension.

`lock.py` has the mutex, `HostLock`. A free mutex is taken at once, as a futex is. The thread that releases a contended
mutex starts the successor's work. Under ``barging`` it only wakes the successor, which pays the hand-over without the
lock, tries again, and may find the lock taken. A policy with the interface of `policy.py` chooses the successor:
``fifo`` and ``barging`` are here, one file each, and a package can add policies by an entry point in the group
``offloadrt.lock_policies``.
"""

from __future__ import annotations

import inspect
from typing import Final

from offloadrt.machine.host_lock.barging import BargingPolicy
from offloadrt.machine.host_lock.fifo import FifoPolicy
from offloadrt.machine.host_lock.lock import HostLock
from offloadrt.machine.host_lock.policy import LockPolicy, LockRequest
from offloadrt.registry import Registry

__all__ = ["LOCK_POLICIES", "BargingPolicy", "FifoPolicy", "HostLock", "LockPolicy", "LockRequest", "lock_policy"]

LOCK_POLICIES: Final = Registry[LockPolicy](
    "lock policy", "offloadrt.lock_policies", (*LockPolicy.__annotations__, "admit")
)


def lock_policy(name: str | LockPolicy) -> LockPolicy:
    """Return the policy of that name, or of `FILE.py:NAME`; return a policy object unchanged.

    Raises ValueError for any other name, with the existing names; and for an object that is no `LockPolicy`, with the
    missing or wrong attributes.

    >>> lock_policy("fifo").name
    'fifo'
    """
    policy = LOCK_POLICIES.find(name)
    for promise in ("hands_over", "shares"):
        if not isinstance(given := getattr(policy, promise), bool):
            raise ValueError(f"{type(policy).__name__} is no lock policy: its {promise} is {given!r}, not a bool")
    if not callable(policy.admit) or inspect.iscoroutinefunction(policy.admit):
        raise ValueError(f"{type(policy).__name__} is no lock policy: its admit is no plain function")
    return policy
