"""The slots of a process as events in the order of time: a slot, with those that belong to it."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator
from typing import Any, Final

import attrs
import numpy as np

from offloadrt.recording.format.errors import RecordingDamaged
from offloadrt.recording.format.slots import RawProcess, Row, Slot, b_of, kind_of

_CHUNK: Final = 1 << 15
_TIMES: Final = {Slot.OP: 7, Slot.SUBMIT: 7}
"""The word that says when something happened, where it is not the first: operations are told of when they end."""


@attrs.frozen(eq=False)
class RecordedEvent:
    """A slot of a thread, and those that follow and belong to it."""

    kind: int
    thread: int
    row: Row
    parts: tuple[Row, ...] = ()


def events_of(process: RawProcess) -> Iterator[RecordedEvent]:
    """Merge the threads' slots by time. Raises RecordingDamaged."""
    threads = [_of_thread(number, rows) for number, rows in enumerate(process.slots())]
    return (event for _, _, _, event in heapq.merge(*threads, key=lambda found: found[:3]))


def _of_thread(thread: int, rows: np.ndarray[Any, Any]) -> Iterator[tuple[int, int, int, RecordedEvent]]:
    """Yield (time, thread, place, event); times never go back.

    A program may be killed while it writes a call or a launch: one whose parts are not all there is left out.
    """
    now = place = 0
    slots = _rows(rows)
    for row in slots:
        kind = kind_of(row)
        if kind not in _KINDS:
            raise RecordingDamaged(f"thread {thread}: slot {place} is of unknown kind {kind}")
        count = b_of(row) if kind in (Slot.CALL, Slot.LAUNCH) else 0
        parts = tuple(itertools.islice(slots, count))
        if len(parts) < count:
            return
        if kind != Slot.OUT:
            now = max(now, row[_TIMES.get(Slot(kind), 1)])
        yield now, thread, place, RecordedEvent(kind, thread, row, parts)
        place += 1 + count


_KINDS: Final = frozenset(int(kind) for kind in Slot)


def _rows(rows: np.ndarray[Any, Any]) -> Iterator[Row]:
    chunks: Iterable[list[Any]] = (rows[at : at + _CHUNK].tolist() for at in range(0, len(rows), _CHUNK))
    return (tuple(row) for chunk in chunks for row in chunk)
