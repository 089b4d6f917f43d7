"""The queues that dispatch the packets of streams: hardware queues, and on an APU HSA queues.

A host thread submits a packet to a ``Stream`` (``messages.py``), which passes the packet on to its queue. A queue is an
actor. A ``HardwareQueue`` of a discrete device dispatches every packet to an engine or to the compute units, and blocks
until the packet's predecessor in its stream has completed. An ``HsaQueue`` of an APU hands kernels on at once and
blocks only at barriers. Streams share queues, so a blocked packet holds up other streams as well: this is why the
queue, and not the stream, is the actor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Annotated, Generic, TypeVar

import attrs

from offloadrt.machine.injection import Injector
from offloadrt.machine.links.engines import CopyEngines, PeerRelay
from offloadrt.machine.messages import (
    PACKETS,
    BarrierPacket,
    CopyPacket,
    KernelPacket,
    PeerPacket,
    PrefetchPacket,
    QueueReady,
    Stream,
    StreamCommand,
)
from offloadrt.machine.profile.machine_spec import MachineSpec, ProfileError
from offloadrt.machine.servers import LevelOverTime
from offloadrt.sim import TIMED_OUT, Mailbox, Signal, Simulation


# ---------------------------------------------------------------------- hardware queues
# Hardware queues (CUDA's connections), which streams share.
#
# A queue dispatches the packets of its streams in the order of submission. A packet starts when the packet before it
# in its stream has completed; until then it stays at the head and holds up everything behind it, also of other
# streams. In HIP's library, kernels have a barrier: each waits for all kernels before it in its queue.
@attrs.frozen
class QueueStatistics:
    """Statistics of a hardware queue; times are virtual seconds so far. busy_s + idle_s is the time elapsed."""

    packets: int
    """Packets that the queue took."""
    blocked: int
    """Number of packets that had to wait at the queue's head."""
    blocked_s: float
    """Time in which the packet at the head waited for its stream or an event."""
    idle_s: float
    """Time without a waiting packet at the head, since the device was made."""
    wait_s: float
    """Time of packets behind a waiting one, summed over these packets."""

    @property
    def busy_s(self) -> float:
        """Return the time with a waiting packet at the head (``blocked_s``); all statistics have this name."""
        return self.blocked_s


P = TypeVar("P")


class DeviceQueue(Generic[P]):
    """Base of a device's queues, such as "hsa queue 0" (kind, number). ``born``: virtual time when statistics begin."""

    def __init__(self, sim: Simulation, device: int, kind: str, number: int, born: float) -> None:
        self.sim = sim
        self.number = number
        self.mailbox = Mailbox(sim, f"device {device} {kind} queue {number}")
        self.injector: Injector | None = None
        self._unseen: list[P] = []
        """Packets whose doorbell was lost; the queue sees them at the next doorbell."""
        self._packets = 0
        self._blocked = 0
        self._blocking = LevelOverTime(sim)
        self._behind = LevelOverTime(sim)
        self._born = born

    def _is_unseen(self, injector: Injector, packet: P, see: Callable[[P], None]) -> bool:
        """Tell whether a packet's doorbell is lost; otherwise, show the queue earlier unseen packets as well."""
        name = self.mailbox.name
        if injector.strike("doorbell", name, f"a doorbell of {name} is lost"):
            self._unseen.append(packet)
            return True
        unseen, self._unseen = self._unseen, []
        self.injector = None  # what was lost once is not lost again
        for earlier in unseen:
            see(earlier)
        self.injector = injector
        return False

    async def _block(self, signal: Signal) -> None:
        self._blocked += 1
        self._blocking.rise()
        await signal.wait()
        self._blocking.fall()

    def statistics(self) -> QueueStatistics:
        """Return the statistics of the queue so far."""
        blocked_s = self._blocking.total_s
        idle_s = self.sim.now - self._born - blocked_s
        return QueueStatistics(self._packets, self._blocked, blocked_s, idle_s, self._behind.total_s)


class HardwareQueue(DeviceQueue[StreamCommand]):
    """One connection to the device: an actor that dispatches packets to engines and compute units.

    Dispatching takes no time, as the launch and copy latencies contain that time. ``engines``: by direction.
    ``compute``, ``migrations`` and ``relay`` get kernels, prefetches and copies between devices.
    """

    def __init__(
        self,
        sim: Simulation,
        device: int,
        number: int,
        engines: dict[str, CopyEngines],
        compute: Mailbox,
        born: float,
        migrations: Mailbox | None = None,
        relay: PeerRelay | None = None,
    ) -> None:
        super().__init__(sim, device, "hardware", number, born)
        self._engines = engines
        self._compute = compute
        self.migrations = migrations
        """The mailbox of the actor that carries out prefetches; None until managed memory is in use."""
        self._relay = relay
        self.barriers = False
        """Whether a kernel waits for the kernels of all streams that the queue has dispatched before."""
        self._last_kernel: Signal | None = None
        self._submitted: deque[float] = deque()
        """Submission times of the packets in the mailbox."""

    def submit(self, packet: StreamCommand) -> None:
        """Append a packet, such as a copy or a kernel, to the queue."""
        self._behind.rise()
        self._submitted.append(self.sim.now)
        if self.injector is not None and self._is_unseen(self.injector, packet, self.mailbox.put):
            return
        self.mailbox.put(packet)

    async def run(self) -> None:
        """Dispatch the queue's packets in order, for ever (this is the actor)."""
        while True:
            packet = await self.mailbox.get()
            if type(packet) not in PACKETS:
                raise TypeError(f"a hardware queue does not understand {packet!r}")
            self._behind.fall()
            self._packets += 1
            stream, submitted = packet.stream, self._submitted.popleft()
            if (before := stream.running) is not None and not before.is_set:
                await self._block(before)
            stream.running, stream.submitted = packet.done, submitted
            if isinstance(packet, KernelPacket):
                if self.barriers and (last := self._last_kernel) is not None and not last.is_set:
                    await self._block(last)
                self._last_kernel = packet.done
                self._compute.put(packet)
            elif isinstance(packet, CopyPacket):
                self._engines[packet.direction].submit(packet)
            elif isinstance(packet, PrefetchPacket):
                if self.migrations is None:
                    raise TypeError(f"this hardware queue does not understand {packet!r}: nothing migrates here")
                self.migrations.put(packet)
            elif isinstance(packet, PeerPacket):
                if self._relay is None:
                    raise TypeError(f"this hardware queue does not understand {packet!r}: its device has no peers")
                self._relay.submit(packet)
            else:
                if not packet.event.is_set:
                    await self._block(packet.event)
                packet.done.set()


@attrs.define
class _Pool:
    """The queues of one priority."""

    opened: int = 0
    """Number of streams that have been opened so far."""
    queues: list[HardwareQueue] = attrs.field(factory=list)
    streams: list[int] = attrs.field(factory=list)
    """Number of streams that each queue has now."""


@attrs.define(eq=False)
class HardwareQueues:
    """The hardware queues of one process on a device, ``count`` of each priority.

    With ``uncontended``, each stream has its own queue, to find out what sharing costs. CUDA does not document how it
    assigns streams to connections. The model uses round robin, the assignment with the fewest streams on the fullest
    queue. HIP's library gives a stream a queue of its own while there are fewer than GPU_MAX_HW_QUEUES, and then the
    queue with the fewest streams (``least_used``); streams of another priority have other queues (ROCclr,
    ``Device::acquireQueue``).
    """

    _make: Callable[[int], HardwareQueue]
    _count: int
    _least_used: bool = False
    _uncontended: bool = False
    _process: int = 0
    barriers: bool = False
    """Whether kernels of a queue wait for each other (`HardwareQueue.barriers`). Set before the first stream."""
    queues: list[HardwareQueue] = attrs.field(factory=list, init=False)
    _streams: int = attrs.field(default=0, init=False)
    _pools: dict[int, _Pool] = attrs.field(factory=dict, init=False)

    def open_stream(self, priority: int = 0) -> Stream:
        """Make a stream on the next queue of this priority in turn; make the queue if no stream has used it yet."""
        pool = self._pools.setdefault(priority, _Pool())
        turn = self._choose(pool)
        pool.opened += 1
        if turn == len(pool.queues):
            pool.queues.append(self._make(len(self.queues)))
            pool.streams.append(0)
            self.queues.append(pool.queues[turn])
            pool.queues[turn].barriers = self.barriers
        pool.streams[turn] += 1
        self._streams += 1
        return Stream(self._streams - 1, pool.queues[turn], priority, self._process)

    def of_process(self, process: int) -> HardwareQueues:
        """Return the queues of another process, with the same limits."""
        return attrs.evolve(self, process=process)

    def close_stream(self, stream: Stream) -> None:
        """Remove a stream from its queue, so that another stream may use the queue instead."""
        pool = self._pools[stream.priority]
        pool.streams[[queue.number for queue in pool.queues].index(stream.queue.number)] -= 1

    def _choose(self, pool: _Pool) -> int:
        """Return the index of the next stream's queue in its pool; the caller makes the queue if it does not exist."""
        if self._uncontended:
            return pool.opened
        if not self._least_used:
            return pool.opened % self._count
        made = len(pool.queues)
        return made if made < self._count else pool.streams.index(min(pool.streams))


# ---------------------------------------------------------------------- queue slots
# Which HSA queues the hardware looks at when a device has more of them than hardware queues.
#
# A slot, as the kernel driver calls it, is a hardware queue, which looks at one HSA queue at a time. This stands for
# the scheduler of an oversubscribed run list, which runs in the firmware of an AMD GPU. The kernel driver warns of
# such a list and lets the firmware go round it ("Runlist is getting oversubscribed", `pm_create_runlist_ib` of
# Linux's amdkfd). The firmware is closed. Its policy here is that of AMD's own model of it, in gem5
# (`src/dev/hsa/hw_scheduler.cc`, after Puthoor et al., Oversubscribed Command Queues in GPUs, GPGPU 2018): once in a
# quantum the next queue without a slot, in the order of creation, takes the slot of the next queue that has nothing
# in flight, whether either has packets or not. If all have, nothing changes until the quantum after.
@attrs.frozen
class SlotSpec:
    """The number of HSA queues that the hardware serves at once (`slots`), and how often they are exchanged."""

    slots: Annotated[int, "runlist.hardware_queues"]
    quantum: Annotated[float, "runlist.quantum"]
    """Virtual seconds after which a waiting queue may take a slot."""


def slot_spec(spec: MachineSpec) -> SlotSpec | None:
    """Read how HSA queues take turns on hardware queues; None if each has its own (``hardware_queue.uncontended``).

    Raises ProfileError for a device without hardware queues, and for a time quantum of 0 seconds.
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
    """Statistics of HSA queues that wait for a hardware queue; virtual seconds. busy_s + idle_s: the time elapsed."""

    busy_s: float
    """Time in which some queue with a packet that could start had no slot."""
    idle_s: float
    wait_s: float
    """Time in which such queues had no slot, summed over the queues."""
    swaps: int
    """Number of times that a queue took another one's slot."""


class QueueSlots:
    """Lets the HSA queues of one device use its hardware queues (slots) in turn, for one time quantum each."""

    def __init__(self, sim: Simulation, device: int, spec: SlotSpec) -> None:
        self.sim = sim
        self.spec = spec
        self.mailbox = Mailbox(sim, f"device {device} queue scheduler")
        self._queues: list[HsaQueue] = []
        """All queues in the order of creation, which is the order of the run list."""
        self._slots: list[HsaQueue] = []
        """The queue in each slot."""
        self._next_queue = self._next_slot = 0
        self._oversubscribed: float | None = None
        """Time since which there have been more queues than slots; None if there are not."""
        self._quanta = 0
        """Number of quanta since then that have been processed."""
        self._ready = LevelOverTime(sim)
        """Counts the queues without a slot that have a packet which could start."""
        self._swaps = 0
        self._born = sim.now

    def add(self, queue: HsaQueue) -> None:
        """Give a new HSA queue a hardware queue (slot) if one is free; otherwise it waits for its turn."""
        self.catch_up()
        self._queues.append(queue)
        if len(self._slots) < self.spec.slots:
            self._slots.append(queue)
            self._next_queue = queue.number + 1
        else:
            queue.mapped = False
            if self._oversubscribed is None:
                self._oversubscribed = self.sim.now

    def want(self, queue: HsaQueue) -> None:
        """Note that an HSA queue without a hardware queue (slot) has a packet that could start."""
        self._ready.rise()
        self.mailbox.put(QueueReady(queue.number))

    def catch_up(self) -> None:
        """Exchange queues for each time quantum that has ended by now; call this before a packet starts or ends."""
        if (begin := self._oversubscribed) is None:
            return
        while (end := begin + (self._quanta + 1) * self.spec.quantum) <= self.sim.now:
            self._quanta += 1
            self._swap(end)

    async def run(self) -> None:
        """Exchange queues at each quantum's end while an HSA queue without a hardware queue has work, for ever."""
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
        """Let the next queue without a slot take the slot of the next one with nothing in flight at this time."""
        queues, slots = len(self._queues), len(self._slots)
        turn = (self._queues[(self._next_queue + index) % queues] for index in range(queues))
        taker = next(queue for queue in turn if not queue.mapped)
        for index in range(slots):
            slot = (self._next_slot + index) % slots
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
        """Note that an HSA queue that wanted a hardware queue (slot) has got one."""
        self._ready.fall()

    def statistics(self) -> SlotStatistics:
        """Return the statistics of the scheduler so far."""
        self.catch_up()
        busy_s = self._ready.some_s
        return SlotStatistics(busy_s, self.sim.now - self._born - busy_s, self._ready.total_s, self._swaps)


# ---------------------------------------------------------------------- HSA queues
# HSA queues, which streams take in turns.
#
# A queue hands its kernels to the compute units in the order of submission, without waiting for the one before. Only
# barriers wait: one whose dependency is not met stays at the head and holds up everything behind it, also of other
# streams. LLVM chooses the queue of a stream each time it takes the stream from its pool
# (``AMDGPUStreamManagerTy::assignNextQueue``). A device that may have more queues than hardware queues hands on the
# packets of those that have one (`QueueSlots`).
class HsaQueue(DeviceQueue["KernelPacket | BarrierPacket"]):
    """One HSA queue. The actor that submits a packet also dispatches it; the queue's own actor waits at barriers.

    Dispatching takes no virtual time, so no submitter waits for the queue's actor, except behind a barrier. ``slots``:
    the hardware queues on which HSA queues take turns, if there are too few for all.
    """

    def __init__(
        self, sim: Simulation, device: int, number: int, compute: Mailbox, born: float, slots: QueueSlots | None = None
    ) -> None:
        super().__init__(sim, device, "hsa", number, born)
        self._compute = compute
        self._waits = False
        """Whether a barrier with an unmet dependency is at the head; the mailbox passes it to the actor."""
        self._queued: deque[tuple[KernelPacket | BarrierPacket, float]] = deque()
        """The packets behind that barrier, with their submission times."""
        self.mapped = True
        """Whether a hardware queue serves this queue."""
        self._mapped_at = born
        """Time when a hardware queue began to serve this queue: no packet can have been fetched before."""
        self._slots = slots
        self._flying: list[Signal] = []
        """The ends of kernels that may be in flight, where queues have to wait for hardware queues."""
        self._mapping: Signal | None = None
        """Set when the queue has a hardware queue again; the actor waits for it with a completed barrier."""
        if slots is not None:
            slots.add(self)

    def submit(self, packet: StreamCommand | BarrierPacket) -> None:
        """Append a KernelPacket or a BarrierPacket; raises TypeError for others."""
        if not isinstance(packet, (KernelPacket, BarrierPacket)):
            raise TypeError(f"an HSA queue does not understand {packet!r}")
        if self.injector is not None and self._is_unseen(self.injector, packet, self.submit):
            return
        if self._slots is not None:
            self._slots.catch_up()
        if self._waits or not self.mapped:
            self._queued.append((packet, self.sim.now))
            self._behind.rise()
            if self._slots is not None and not self._waits and len(self._queued) == 1:
                self._slots.want(self)
        else:
            self._hand_on(packet, self.sim.now)

    def _hand_on(self, packet: KernelPacket | BarrierPacket, submitted: float) -> None:
        """Hand a kernel to the compute units; complete a barrier, or leave it to the actor if it has to wait."""
        self._packets += 1
        if isinstance(packet, KernelPacket):
            packet.stream.submitted = submitted
            self._compute.put(packet)
            if self._slots is not None:
                self._flying = [done for done in self._flying if not done.is_set]
                self._flying.append(packet.done)
        elif packet.depends.is_set:
            _complete(packet)
        else:
            self._waits = True
            self.mailbox.put(packet)

    async def run(self) -> None:
        """Wait at each barrier, and pass on the packets behind it, for ever (this is the actor)."""
        while True:
            barrier: BarrierPacket = await self.mailbox.get()
            if not barrier.depends.is_set:  # as it was when the barrier came
                await self._block(barrier.depends)
            if self._slots is not None:
                self._slots.catch_up()
                if not self.mapped:
                    self._mapping = mapping = Signal(self.sim, f"{self.mailbox.name} has a hardware queue")
                    self._slots.want(self)
                    await mapping.wait()
            _complete(barrier)
            self._waits = False
            self._hand_on_queued()

    def _hand_on_queued(self) -> None:
        while self._queued and not self._waits:
            self._behind.fall()
            packet, submitted = self._queued.popleft()
            self._hand_on(packet, max(submitted, self._mapped_at))

    def occupied(self, time: float) -> bool:
        """Tell whether a kernel of this queue was in flight at this time, which must not lie in the future."""
        return any(not done.is_set or (done.value is not None and done.value[2] > time) for done in self._flying)

    def map(self) -> None:
        """Dispatch the queued packets again, because a hardware queue serves this HSA queue now."""
        self.mapped, self._mapped_at = True, self.sim.now
        assert self._slots is not None
        if self._mapping is not None:
            self._slots.satisfied()
            mapping, self._mapping = self._mapping, None
            mapping.set()
        elif self._queued and not self._waits:
            self._slots.satisfied()
            self._hand_on_queued()


def _complete(barrier: BarrierPacket) -> None:
    if barrier.done is not None:
        barrier.done.set()


class _Unassigned:
    """The queue of a stream that holds no HSA queue."""

    number = -1

    def submit(self, packet: StreamCommand) -> None:
        raise RuntimeError(f"{packet!r} was submitted to a stream that holds no HSA queue")


@attrs.define(eq=False)
class HsaQueues:
    """The HSA queues of one process on a device, at most ``count``; each is made when a stream first takes it.

    With ``round_robin`` each stream takes the next queue. Otherwise (LLVM's default, busy tracking) it takes a queue
    that no stream holds, or else the least used queue. With ``uncontended`` there are as many queues as streams hold at
    one time, to find out what sharing costs.
    """

    _make: Callable[[], HsaQueue]
    _count: int
    _round_robin: bool = False
    _uncontended: bool = False
    _process: int = 0
    queues: list[HsaQueue] = attrs.field(factory=list, init=False)
    streams_of: list[int] = attrs.field(factory=list, init=False)
    """Number of streams that hold each queue."""
    _held: dict[int, int] = attrs.field(factory=dict, init=False)
    """For each stream, the index among ``queues`` of the queue that it holds."""
    _by_number: dict[int, HsaQueue] = attrs.field(factory=dict, init=False)
    _unassigned: _Unassigned = attrs.field(factory=_Unassigned, init=False)
    _streams: int = attrs.field(default=0, init=False)
    _taken: int = attrs.field(default=0, init=False)

    def open_stream(self) -> Stream:
        """Make a stream, which gets an HSA queue only when `take` is called for it."""
        self._streams += 1
        return Stream(self._streams - 1, self._unassigned, process=self._process)

    def of_process(self, process: int) -> HsaQueues:
        """Make a set of queues for another process, with the same limit; each call makes a new one."""
        return attrs.evolve(self, process=process)

    def numbered(self, number: int) -> HsaQueue:
        """Return the queue with this number, which counts the queues of all processes on the device."""
        return self._by_number[number]

    def take(self, stream: Stream) -> HsaQueue:
        """Give a stream the HSA queue to which it submits from now on. RuntimeError when it holds one already."""
        if stream.index in self._held:
            raise RuntimeError(f"stream {stream.index} takes an HSA queue, but holds number {stream.queue.number}")
        index = self._choose()
        while index >= len(self.queues):
            queue = self._make()
            self.queues.append(queue)
            self._by_number[queue.number] = queue
            self.streams_of.append(0)
        queue = self.queues[index]
        self.streams_of[index] += 1
        stream.queue, self._held[stream.index] = queue, index
        return queue

    def give_back(self, stream: Stream) -> None:
        """Take back the HSA queue of a stream that submits nothing more for now. RuntimeError when it holds none."""
        index = self._held.pop(stream.index, None)
        if index is None:
            raise RuntimeError(f"stream {stream.index} gives an HSA queue back, but holds none")
        self.streams_of[index] -= 1
        stream.queue = self._unassigned

    def _choose(self) -> int:
        """Return the index of the queue that the next stream takes; the caller makes it if it does not exist."""
        if self._round_robin and not self._uncontended:
            index = self._taken % self._count
            self._taken += 1
            return index
        streams = self.streams_of
        if 0 in streams:
            return streams.index(0)
        made = len(streams)
        return streams.index(min(streams)) if made >= self._count and not self._uncontended else made
