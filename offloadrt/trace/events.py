"""The vocabulary of the trace: everything that an emulated run can be seen to do.

Common to all events (see `offloadrt.trace.event`): time_ps, actor, device, queue, cause. A begin and its end are two
events. Sizes are bytes, counts are reference counts (-1: infinite, as of a global of `declare target`), addresses are
emulated addresses.
"""

from typing import ClassVar

from offloadrt.trace.event import Event, event

# Actors


@event
class ActorSpawned(Event):
    """An actor (host thread, hardware queue, copy engine, …) came to life; `actor` is its own index."""

    name: str


@event
class ActorFinished(Event):
    """An actor returned or was cancelled."""

    name: str


# Directives: what the program asks for


@event
class DirectiveBegin(Event):
    """A host thread entered a directive or a runtime routine of the model ("target", "target enter data", …)."""

    directive: int
    """Its number in the run, from 1; the `cause` of all that follows from it."""
    name: str


@event
class DirectiveEnd(Event):
    """The directive returned to the program; written by the actor that wrote its begin."""

    directive: int
    name: str


# Locks


@event
class LockWait(Event):
    """An actor found the lock taken and began to wait; no such event when the lock was free.

    There is a second one when a lock that is not handed over is released and the actor is woken to try for it.
    """

    lock: str


@event
class LockAcquire(Event):
    """An actor got the lock."""

    lock: str


@event
class LockRelease(Event):
    """The holder gave the lock back."""

    lock: str


# The device table (present table) of the offloading runtime


@event
class MapLookup(Event):
    """The runtime looked a host section up in a device's table."""

    sizes: ClassVar[tuple[str, ...]] = ("size",)
    array: str
    begin: int
    """Where the section begins: bytes from the start of the array; a host address when `array` is empty."""
    size: int
    found: bool


@event
class MapInsert(Event):
    """A new entry for a host section came into a device's table."""

    sizes: ClassVar[tuple[str, ...]] = ("size", "dynamic", "hold")
    array: str
    begin: int
    """Where the entry begins, as in `MapLookup`."""
    size: int
    device_address: int
    dynamic: int
    """Dynamic reference count after the insertion."""
    hold: int
    """Hold reference count (`ompx_hold`) after the insertion."""


@event
class MapCount(Event):
    """The reference counts of an entry changed; the counts are those after it."""

    sizes: ClassVar[tuple[str, ...]] = ("size", "dynamic", "hold")
    array: str
    begin: int
    """Where the entry begins, as in `MapLookup`."""
    size: int
    dynamic: int
    hold: int


@event
class MapRemove(Event):
    """An entry left a device's table."""

    sizes: ClassVar[tuple[str, ...]] = ("size",)
    array: str
    begin: int
    """Where the entry begins, as in `MapLookup`."""
    size: int
    device_address: int


@event
class Attach(Event):
    """A pointer on the device was made to point to its pointee's device copy."""

    array: str
    """The pointee."""
    begin: int
    """Host address of the pointer."""
    device_address: int
    """Device address that was written into it."""


@event
class ObjectPlaced(Event):
    """The runtime decided how a device reaches an object (configuration `otm`)."""

    sizes: ClassVar[tuple[str, ...]] = ("size",)
    array: str
    size: int
    mechanism: str
    """explicit, implicit or pinned."""


# Memory


@event
class Allocate(Event):
    """A block of device memory (`device` -1: of host memory) was obtained through the named call."""

    sizes: ClassVar[tuple[str, ...]] = ("size",)
    address: int
    size: int
    api: str


@event
class Free(Event):
    """A block of memory was given back through the named call."""

    sizes: ClassVar[tuple[str, ...]] = ("size",)
    address: int
    size: int
    api: str


# Calls of the driver's or the vendor runtime's API


@event
class CallBegin(Event):
    """A host thread entered a call of the driver's API, under its real name (cuMemAlloc, cuLaunchKernel, …)."""

    api: str


@event
class CallEnd(Event):
    """The call returned; written by the actor that wrote its begin."""

    api: str


# Copies and kernels: what the device does


@event
class CopyBegin(Event):
    """A copy engine began a transfer."""

    sizes: ClassVar[tuple[str, ...]] = ("bytes",)
    copy: int
    """Its number in the run, from 1."""
    direction: str
    """"h2d", "d2h", "d2d", "p2p" (to another device) or "h2h"."""
    engine: str
    """Name of the copy engine, as "copy engine h2d"."""
    bytes: int
    memory: str
    """Host side of the copy: "pinned", "staged" through a pinned buffer of the driver, or "pageable" where the engine
    reaches that; "device" if it has none; "managed" for a migration of pages; of a copy to another device that device,
    as "device 1"."""


@event
class CopyEnd(Event):
    """The transfer is complete; the bytes have arrived."""

    sizes: ClassVar[tuple[str, ...]] = ("bytes",)
    copy: int
    direction: str
    engine: str
    bytes: int
    memory: str


@event
class KernelSubmit(Event):
    """A host thread put a kernel into a hardware queue."""

    kernel: int
    """Number of the launch in the run, from 1."""
    name: str


@event
class KernelStart(Event):
    """The compute units began a kernel: it is resident."""

    sizes: ClassVar[tuple[str, ...]] = ("teams",)
    kernel: int
    name: str
    teams: int


@event
class KernelEnd(Event):
    """A kernel has finished, and its results are in memory."""

    kernel: int
    name: str


@event
class Drain(Event):
    """The driver stopped the device's compute units from starting, or from going on with, kernels."""

    reason: str
    """The call that wants it, as "cuMemFree"."""


@event
class Resume(Event):
    """The compute units go on after a drain."""

    reason: str


@event
class TimeSliceBegin(Event):
    """A device goes over to the context of a process, whose kernels run from now on."""

    process: int


@event
class TimeSliceEnd(Event):
    """A device stops the kernels of a process, to go over to the context of another one."""

    process: int


# Pages: what a GPU can translate of the host's memory (APU), or of managed memory (discrete device)


@event
class PageFaultBegin(Event):
    """A kernel met pages that its GPU cannot translate, and is stalled; written by the compute units."""

    sizes: ClassVar[tuple[str, ...]] = ("pages",)
    kernel: int
    pages: int
    """How many of the range that one service maps are missing; of managed memory, how many it has asked for."""


@event
class PageFaultEnd(Event):
    """The stalled kernel goes on."""

    sizes: ClassVar[tuple[str, ...]] = ("pages",)
    kernel: int
    pages: int
    """How many the service mapped; 0 when somebody else had mapped them meanwhile."""


@event
class Prefault(Event):
    """A host thread had the pages of a range of host memory put into a GPU's page table."""

    sizes: ClassVar[tuple[str, ...]] = ("bytes", "pages")
    bytes: int
    """Bytes of the range that was asked for."""
    pages: int
    """How many were not there yet."""


# Waiting, and errors


@event
class SignalWaitBegin(Event):
    """An actor began to wait for a completion (a stream, an event, a signal)."""

    signal: str


@event
class SignalWaitEnd(Event):
    """What the actor waited for has happened, or it waits no longer (it was cancelled)."""

    signal: str


@event
class RuntimeError_(Event):
    """A call failed as it would for real (out of device memory, section not present, …)."""

    call: str
    message: str
