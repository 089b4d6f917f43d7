"""How often a thread waits for memory, and for how many loads at once (memory-level parallelism).

Loads in the body of one loop wait together unless one needs what another brings (`ArrayAccess.level`). So do loads
under different conditions, as compilers make predicates of branches; but on the two sides of one branch a thread has
one load or the other. So do the loads of all iterations of a loop that is unrolled: one with few iterations, whose
bounds are written as numbers. A load that brings the same elements as another one, or what the iteration itself has
stored, finds them in a register or a cache; so does one that all threads share. A thread that walks along neighbouring
elements of its own (a row for each thread) gets a sector of them at a time. A store waits for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import attrs

from offloadrt.kernels.accesses.access import ArrayAccess
from offloadrt.kernels.accesses.frequency import Loop, loops_of
from offloadrt.kernels.accesses.traffic import Frequency, jointly, loads_own_store, same_elements

ELEMENT = 8.0
"""Bytes of a double."""
UNROLLED = 16
"""Iterations of a loop that is unrolled completely, at most (GCC, max-completely-peel-times)."""
SECTOR = 32
"""Bytes that memory gives at least: a sector of a cache line (CUDA Programming Guide, device memory accesses)."""


@attrs.frozen
class Waits:
    """Loads from memory, and the times that a thread waits for some of them."""

    loads: float
    waits: float

    @property
    def loads_in_flight(self) -> float:
        """Return how many loads of a thread are in flight at once; infinite where it only stores."""
        return self.loads / self.waits if self.waits else math.inf

    def bytes_per_load(self, nbytes: float) -> float:
        """Return the bytes that move for each load, of so many bytes in all; an element's where it only stores."""
        return nbytes / self.loads if self.loads and nbytes else ELEMENT


def waits(accesses: Iterable[ArrayAccess], sizes: Mapping[str, int], frequency: Frequency) -> Waits:
    """Count the loads of a kernel's accesses, and the times that a thread waits for some.

    sizes: bytes of an array's elements; frequency: as for the bytes that they move.
    """
    by_array: dict[str, list[ArrayAccess]] = {}
    for access in accesses:
        by_array.setdefault(access.array, []).append(access)
    total = 0.0
    together: dict[object, list[tuple[ArrayAccess, float]]] = {}
    for array, of_array in by_array.items():
        for group in same_elements(of_array):
            brought = [
                access
                for number, access in enumerate(group)
                if access.kind == "read" and not any(loads_own_store(earlier, access) for earlier in group[:number])
            ]
            own = [access for access in brought if _differs_by_thread(access)]
            if not own:
                continue
            runs = [frequency(access, lambda loop, near=access: not _walks(near, loop)) for access in own]  # type: ignore[misc]
            inner = _loops(own[0])
            at_once = max(1, SECTOR // sizes[array]) if _along_a_row(own[0], inner) else 1
            total += jointly(zip(own, runs, strict=True)) / at_once
            rolled = [loop for loop in inner if not _unrolled(loop)]
            unrolled = math.prod(loop.literal_trips or 1 for loop in inner if _unrolled(loop))
            brings = unrolled * (at_once if inner[-1:] == rolled[-1:] else 1)
            block = (tuple(map(id, rolled)), own[0].level)
            for access, often in zip(own, runs, strict=True):
                together.setdefault(block, []).append((access, often / brings))
    return Waits(total, math.fsum(map(jointly, together.values())))


def _differs_by_thread(access: ArrayAccess) -> bool:
    return any(loop.distributed and loop.symbol in access.loops for loop in loops_of(access.path))


def _walks(access: ArrayAccess, loop: Loop) -> bool:
    """Tell whether a thread, or one thread after another, comes to other elements with this loop."""
    return loop.distributed or loop.symbol in access.loops


def _loops(access: ArrayAccess) -> list[Loop]:
    """Return the loops within a thread in whose body the load stands, as far as it varies with them."""
    return [loop for loop in loops_of(access.path) if not loop.distributed and loop.symbol in access.loops]


def _unrolled(loop: Loop) -> bool:
    return loop.literal_trips is not None and loop.literal_trips <= UNROLLED


def _along_a_row(access: ArrayAccess, inner: Sequence[Loop]) -> bool:
    """Tell whether the innermost loop steps through neighbouring elements, and the next thread begins elsewhere."""
    index = access.index[-1]
    if not inner or index is None:
        return False
    outer = [loop for loop in loops_of(access.path) if loop.distributed]
    next_thread = abs(index.coefficient(outer[-1].symbol).constant or 0)
    return abs(index.coefficient(inner[-1].symbol).constant or 0) * abs(inner[-1].step) == 1 and next_thread != 1
