"""How long the copies, allocations and frees of a run took, from the events of its trace."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from offloadrt.trace.events import COMMON, PS_PER_S, Row

_CALLS: Final = {"Allocate": "alloc", "Free": "free"}


class Costs:
    """A sink of a trace; `take` gives the durations of operations, asked for in the order in which they were begun.

    A copy lasts from where a copy engine begins its first piece to the end of its last; an allocation and a free as
    long as the call of the driver. What was served without the driver, from a pool of the runtime, has taken no time.
    """

    def __init__(self) -> None:
        self._calls: dict[int, list[int]] = {}
        self._blocks: dict[int, tuple[str, int, int, int]] = {}
        self._begun: dict[tuple[int, int], int] = {}
        self._copies: dict[tuple[str, int, int], dict[int, tuple[int, int, int]]] = {}
        self._queues: dict[tuple[str, int, int], deque[tuple[int, int, int]]] = {}
        self._lasted: dict[tuple[str, int, int, int], deque[int]] = {}

    def write(self, rows: Sequence[Row]) -> None:
        """Take the rows of a trace."""
        for row in rows:
            label, time, actor, device, _, cause = row[:COMMON]
            if label == "CopyBegin":
                self._begun[device, row[COMMON]] = time
            elif label == "CopyEnd":
                number, direction, _, nbytes = row[COMMON : COMMON + 4]
                copies = self._copies.setdefault((direction, device, cause), {})
                copies[number] = self._begun.pop((device, number)), time, nbytes
            elif label == "CallBegin":
                self._calls.setdefault(actor, []).append(time)
            elif label in _CALLS:
                self._blocks[actor] = _CALLS[label], device, cause, row[COMMON]
            elif label == "CallEnd" and self._calls.get(actor):
                began = self._calls[actor].pop()
                block = self._blocks.pop(actor, None)
                if block is not None:
                    self._lasted.setdefault(block, deque()).append(time - began)

    def close(self) -> None:
        """Put the copies in the order of their numbers."""
        for key, copies in self._copies.items():
            self._queues[key] = deque(copies[number] for number in sorted(copies))

    def take(self, op: str, device: int, cause: int, address: int, nbytes: int) -> float:
        """Return the seconds that the next such operation took: alloc, free, h2d or d2h."""
        if op in ("alloc", "free"):
            lasted = self._lasted.get((op, device, cause, address))
            return lasted.popleft() / PS_PER_S if lasted else 0.0
        pieces = self._queues.get((op, device, cause))
        if not pieces or pieces[0][2] > nbytes:
            return 0.0
        begin, end, left = pieces[0][0], pieces[0][1], nbytes
        while pieces and 0 < pieces[0][2] <= left:
            piece = pieces.popleft()
            end, left = max(end, piece[1]), left - piece[2]
        return (end - begin) / PS_PER_S
