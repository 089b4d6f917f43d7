"""Policies: a memory configuration, an allocator, a lock policy and a strategy."""

from collections.abc import Awaitable, Collection, Sequence

from offloadrt.machine.host_lock import LockRequest
from offloadrt.runtime.allocators import Direct
from offloadrt.runtime.configurations import Copy, MapRequest, Placement, UnifiedSharedMemory
from offloadrt.sim import Actor


class SmallOnHost(UnifiedSharedMemory):
    """What is smaller than a page stays on the host; everything else is copied."""

    def place(self, request: MapRequest) -> Placement:
        return Placement.HOST_POINTER if request.size < 4096 else Copy().place(request)


class CountingAllocator(Direct):
    """Asks the driver for each block and counts the requests."""

    requests = 0

    def allocate(self, nbytes: int, phantom: bool) -> Awaitable[int]:
        type(self).requests += 1
        return super().allocate(nbytes, phantom)


class LastInFirstOut:
    """Lets the thread in that came last."""

    name = "lifo"
    hands_over = True
    shares = False

    def admit(self, holders: Collection[LockRequest], waiting: Sequence[LockRequest]) -> Sequence[LockRequest]:
        return () if holders else waiting[-1:]


class Reverse:
    """Lets the actor go on first that was scheduled last; it needs no seed."""

    name = "reverse"

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def choose(self, ready: Sequence[Actor]) -> int:
        return len(ready) - 1
