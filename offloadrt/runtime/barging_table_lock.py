"""The device table lock without fairness (`lock.handoff = barging`), as most real mutexes are.

A release frees the table and wakes the longest waiter, who asks again and may find that somebody running was faster.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import attrs

from offloadrt.runtime.table_lock import AcquireTable, DeviceTableLock, ReleaseTable, TableGranted, misunderstood
from offloadrt.sim import Actor, Call


@attrs.frozen
class TableFreed:
    """Reply: the table is free and the caller has waited longest, but somebody may still be faster."""


MESSAGES = (TableFreed,)

_ACQUIRE = AcquireTable()
_GRANTED = TableGranted()
_FREED = TableFreed()


class BargingTableLock(DeviceTableLock):
    """Grants the free table to whoever asks first. The longest waiter keeps its place when it was overtaken."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._releases = self._requests
        self._granted = self._asked_again
        self._queue: deque[Call] = deque()

    async def _serve(self) -> None:
        woken: Actor | None = None
        while True:
            item = await self._requests.get()
            if isinstance(item, Call) and isinstance(item.message, AcquireTable):
                if self._granted_to is not None:
                    if item.caller is woken:
                        self._queue.appendleft(item)
                    else:
                        self._queue.append(item)
                elif item.reply(_GRANTED):
                    self._granted_to = item.caller
                else:  # it was cancelled meanwhile: the next one may have the table
                    woken = self._wake()
            elif isinstance(item, ReleaseTable):
                self._granted_to = self.owner
                if self.owner is not None:  # taken by somebody before this message came
                    continue
                self._taken = False
                woken = self._wake()
            else:
                raise misunderstood(item)

    def _wake(self) -> Actor | None:
        """Tells the longest waiter that the table is free; returns who that is."""
        while self._queue:
            call = self._queue.popleft()
            if call.reply(_FREED):
                return call.caller
        return None

    async def _asked_again(self) -> object:
        reply = await self._requests.call(_ACQUIRE)
        while isinstance(reply, TableFreed):
            reply = await self._requests.call(_ACQUIRE)
        return reply
