"""Which HSA queues the hardware looks at when a device has more of them than hardware queues.

A slot, as the kernel driver calls it, is a hardware queue, which looks at one HSA queue at a time.  This stands for the
scheduler of an oversubscribed run list, which runs in the firmware of an AMD GPU.  The kernel driver warns of such a
list and lets the firmware go round it ("Runlist is getting oversubscribed", `pm_create_runlist_ib` of Linux's amdkfd).
The firmware is closed.  Its policy here is that of AMD's own model of it, in gem5 (`src/dev/hsa/hw_scheduler.cc`, after
Puthoor et al., Oversubscribed Command Queues in GPUs, GPGPU 2018): once in a quantum the next queue without a slot, in
the order of creation, takes the slot of the next queue that has nothing in flight, whether either has packets or not.
If all have, nothing changes until the quantum after.
"""

from __future__ import annotations

from typing import Annotated, Protocol

import attrs

from offloadrt.machine.level import LevelOverTime
from offloadrt.machine.messages import QueueReady
from offloadrt.machine.profile.machine_spec import MachineSpec, ProfileError
from offloadrt.sim import TIMED_OUT, Mailbox, Simulation


@attrs.frozen
class SlotSpec:
    """How many HSA queues the hardware looks at, and how often it takes another one."""

    slots: Annotated[int, "runlist.hardware_queues"]
    quantum: Annotated[float, "runlist.quantum"]
    """In virtual seconds."""


def slot_spec(spec: MachineSpec) -> SlotSpec | None:
    """Read how HSA queues get hardware queues; None where each has one (an ablation).

    Raises ProfileError for a device without hardware queues, and for a quantum that takes no time.
    """
    slots = spec.read(SlotSpec)
    if slots.slots < 1:
        raise ProfileError(spec.path, "runlist.hardware_queues", f"is {slots.slots}: no queue would ever be looked at")
    if not slots.quantum > 0.0:
        raise ProfileError(spec.path, "runlist.quantum", "is no time: queues would change places for ever")
    if spec.flag("runlist.uncontended") or spec.flag("hardware_queue.uncontended"):
        return None
    return slots


@attrs.frozen
class SlotStatistics:
    """What became of HSA queues without a slot; virtual seconds, up to now.  busy_s + idle_s is the time elapsed."""

    busy_s: float
    """Time in which a queue with a packet that could start had no slot."""
    idle_s: float
    wait_s: float
    """The same, summed over the queues."""
    swaps: int
    """How often a queue took another one's slot."""


class SlottedQueue(Protocol):
    """What an HSA queue is to the scheduler."""

    number: int
    mapped: bool
    """Whether it has a slot."""

    def occupied(self, time: float) -> bool:
        """Tell whether a packet of it was in flight at this time, which is not after now."""

    def map(self) -> None:
        """Go on: the queue has a slot again."""


class QueueSlots:
    """Gives the slots of one device to its queues in turn."""

    def __init__(self, sim: Simulation, device: int, spec: SlotSpec) -> None:
        self.sim = sim
        self.spec = spec
        self.mailbox = Mailbox(sim, f"device {device} queue scheduler")
        self._queues: list[SlottedQueue] = []
        """All queues, in the order of creation, which is that of the run list."""
        self._slots: list[SlottedQueue] = []
        """Which queue each slot has."""
        self._next_queue = self._next_slot = 0
        self._oversubscribed: float | None = None
        """Since when there have been more queues than slots."""
        self._quanta = 0
        """The quanta that have been dealt with since then."""
        self._ready = LevelOverTime(sim)
        """Queues without a slot that have a packet which could start."""
        self._swaps = 0
        self._born = sim.now

    def add(self, queue: SlottedQueue) -> None:
        """Give a new queue a slot if one is free; otherwise it waits for its turn."""
        self.catch_up()
        self._queues.append(queue)
        if len(self._slots) < self.spec.slots:
            self._slots.append(queue)
            self._next_queue = queue.number + 1
        else:
            queue.mapped = False
            if self._oversubscribed is None:
                self._oversubscribed = self.sim.now

    def want(self, queue: SlottedQueue) -> None:
        """Note that a queue without a slot has a packet that could start."""
        self._ready.rise()
        self.mailbox.put(QueueReady(queue.number))

    def catch_up(self) -> None:
        """Deal with the quanta that have ended up to now; whoever changes what is in flight does so first."""
        if (begin := self._oversubscribed) is None:
            return
        while (end := begin + (self._quanta + 1) * self.spec.quantum) <= self.sim.now:
            self._quanta += 1
            self._swap(end)

    async def run(self) -> None:
        """Let time pass while a queue without a slot has work, for ever (the actor)."""
        while True:
            self._note(await self.mailbox.get())
            while self._ready.number:
                assert self._oversubscribed is not None
                end = self._oversubscribed + (self._quanta + 1) * self.spec.quantum
                message = await self.mailbox.get_until(end)
                if message is TIMED_OUT:
                    self.catch_up()
                else:
                    self._note(message)

    def _note(self, message: object) -> None:
        if type(message) is not QueueReady:
            raise TypeError(f"a queue scheduler does not understand {message!r}")

    def _swap(self, time: float) -> None:
        """Let the next queue without a slot take that of the next one that had nothing in flight at this time."""
        queues, slots = len(self._queues), len(self._slots)
        turn = (self._queues[(self._next_queue + place) % queues] for place in range(queues))
        taker = next(queue for queue in turn if not queue.mapped)
        for place in range(slots):
            slot = (self._next_slot + place) % slots
            if not self._slots[slot].occupied(time):
                break
        else:
            return
        self._slots[slot].mapped = False
        self._slots[slot] = taker
        self._next_queue, self._next_slot = taker.number + 1, slot + 1
        self._swaps += 1
        taker.map()

    def satisfied(self) -> None:
        """Note that a queue that wanted a slot has one."""
        self._ready.fall()

    def statistics(self) -> SlotStatistics:
        """Return what it did so far."""
        self.catch_up()
        busy_s = self._ready.some_s
        return SlotStatistics(busy_s, self.sim.now - self._born - busy_s, self._ready.total_s, self._swaps)
