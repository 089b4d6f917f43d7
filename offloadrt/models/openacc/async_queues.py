"""The activity queues of an OpenACC program, which `async` clauses name by their value."""

from __future__ import annotations

from offloadrt.runtime.async_queue import AsyncQueue
from offloadrt.sim import Lock, LockStatistics, Simulation


class AsyncQueues:
    """A queue for each device and async value, made at its first use; all host threads share them."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self._queues: dict[tuple[int, int], AsyncQueue] = {}

    def of(self, device: int, value: int) -> AsyncQueue:
        """Return the queue of a device for an async value."""
        queue = self._queues.get((device, value))
        if queue is None:
            queue = AsyncQueue(Lock(self.sim, f"async queue {value} of device {device}"))
            self._queues[device, value] = queue
        return queue

    def in_use(self, device: int) -> list[AsyncQueue]:
        """Return all queues of a device that are in use, in the order of their first use."""
        return [queue for (number, _), queue in self._queues.items() if number == device and queue.used]

    def locks(self) -> dict[str, LockStatistics]:
        """Return the statistics of the queues' locks, all together; nothing when there are no queues."""
        statistics = [queue.lock.statistics() for queue in self._queues.values()]
        return {"async queue locks": LockStatistics.total(statistics)} if statistics else {}
