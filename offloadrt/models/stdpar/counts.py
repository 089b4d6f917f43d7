"""What a program of C++ standard parallelism did, in numbers."""

from __future__ import annotations

import attrs


@attrs.define
class Counts:
    """Numbers of all threads, since the start of the program."""

    calls: int = 0
    """Calls of algorithms, whatever their policy."""
    offloaded: int = 0
    on_host: int = 0
    host_pointers: int = 0
    """Algorithms among `on_host` that ran there because one of the kernel's pointers was the host's."""
    waits: int = 0
    """Waits for a queue."""
    prefetches: int = 0
    prefetched_bytes: int = 0
    interposed: int = 0
    """Allocations of the program that were rerouted to shared USM."""
    from_pool: int = 0
    """Allocations among `interposed` that the pool served."""
