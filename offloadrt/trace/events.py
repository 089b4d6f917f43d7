"""The vocabulary of the trace: what an event is, and everything that an emulated run can be seen to do.

An event is a frozen record with five common fields, registered under its name (`event`). A class declares its own
fields after the common ones; the order of the declaration is the order of the payload in
`trace(kind, device, queue, cause, *payload)`. `sizes` names those of them (integers) that count in the trace hash. A
begin and its end are two events. Sizes are bytes, counts are reference counts (-1: infinite, as of a global of `declare
target`), addresses are emulated addresses.
"""

from __future__ import annotations

import functools
import re
from typing import Any, ClassVar, TypeAlias, dataclass_transform
from zlib import crc32

import attrs

NONE = -1
"""The device or the queue of an event that concerns no device or no queue."""

NO_CAUSE = 0
"""The cause of an event that no directive caused; directives count from 1."""

Row: TypeAlias = tuple[Any, ...]
"""A recorded event: (name of its class, time_ps, actor, device, queue, cause, *payload)."""

PS_PER_S = 1e12

COMMON = 6
"""Where the payload begins in a row."""


@attrs.frozen
class Event:
    """The fields that every event has.

    Time is virtual, in integer picoseconds; durations and times elsewhere in offloadrt are floats in seconds.
    """

    sizes: ClassVar[tuple[str, ...]] = ()
    """Names of the payload fields that count in the trace hash."""
    label: ClassVar[str] = ""
    """The name of the class, which is the first item of the event's row in the trace."""
    code: ClassVar[int] = 0
    """The number of the class in the trace hash: the CRC-32 of its name, the same on every machine."""
    payload: ClassVar[tuple[str, ...]] = ()
    """Names of the fields after the common ones, in order."""
    counts: ClassVar[bool] = True
    """Whether these events count in the trace's number and hash of events; `Trace.aside` records those that do not."""

    time_ps: int
    """The virtual time of the event, in integer picoseconds."""
    actor: int
    """The index of the actor that caused the event; actors are numbered in order of spawning."""
    device: int
    """The device that the event concerns, or -1."""
    queue: int
    """The hardware queue that the event concerns, or -1."""
    cause: int
    """The number of the directive that caused it, or 0."""


EVENTS: dict[str, type[Event]] = {}
"""Every class of event by its name, in the order of definition."""

SHAPES: dict[int, tuple[str, int, tuple[int, ...]]] = {}
"""For the recorder, by code of the class: its name, the width of its payload, and the positions of the sizes."""


@dataclass_transform(frozen_default=True)
def event(cls: type[Any]) -> type[Any]:
    """Make a class of event: frozen, slotted, and registered in `EVENTS`.

    Raises ValueError for a class without a docstring, with a taken name, or with `sizes` (see `Event`) that it lacks.
    """
    if not cls.__doc__:
        raise ValueError(f"event {cls.__name__} has no docstring")
    made: type[Event] = attrs.frozen(cls)
    names = tuple(field.name for field in attrs.fields(made))
    payload = names[COMMON - 1 :]
    unknown = [size for size in made.sizes if size not in payload]
    if unknown:
        raise ValueError(f"event {made.__name__} has no field {unknown[0]!r} to count as a size")
    code = crc32(made.__name__.encode("ascii"))
    if code in SHAPES:
        raise ValueError(f"event {made.__name__}: the name (or its CRC-32) is taken")
    made.label = made.__name__
    made.code = code
    made.payload = payload
    EVENTS[made.label] = made
    SHAPES[code] = made.label, len(payload), tuple(payload.index(size) for size in made.sizes)
    return made


def to_ns(time_ps: int) -> int:
    """Round the picoseconds ``time_ps`` to integer nanoseconds, so that an event inside another one stays inside it."""
    return (time_ps + 500) // 1000


def decode(row: Row) -> Event:
    """Return a row of the trace (a tuple of class name, time, actor and so on) as an object of its event's class."""
    return EVENTS[row[0]](*row[1:])


# Actors


@event
class ActorSpawned(Event):
    """An actor (host thread, hardware queue, copy engine, …) was started; `actor` is its own index."""

    name: str


@event
class ActorFinished(Event):
    """An actor (host thread, hardware queue, copy engine, …) returned or was cancelled; `name` is its name."""

    name: str


# Directives: what the program asks for


@event
class DirectiveBegin(Event):
    """A host thread entered a directive or a runtime routine of the model ("target", "target enter data", …)."""

    directive: int
    """The directive's number in the run, from 1; it is the `cause` of all events that follow from the directive."""
    name: str


@event
class DirectiveEnd(Event):
    """A directive has ended and the program goes on; the actor that wrote the directive's begin writes this event."""

    directive: int
    name: str


# Locks


@event
class LockWait(Event):
    """An actor found the lock taken and began to wait; a free lock causes no such event.

    A second `LockWait` follows when a lock without hand-off (``barging``) is released and wakes the actor to try again.
    """

    lock: str


@event
class LockAcquire(Event):
    """An actor got the lock named `lock` and holds it from now on."""

    lock: str


@event
class LockRelease(Event):
    """The holder released the lock named `lock`."""

    lock: str


# The device table (present table) of the offloading runtime


@event
class MapLookup(Event):
    """The runtime looked up a host section of `size` bytes in a device's table, and `found` it there or not."""

    sizes: ClassVar[tuple[str, ...]] = ("size",)
    array: str
    begin: int
    """Where the section begins: bytes from the start of the array; a host address when `array` is empty."""
    size: int
    found: bool


@event
class MapInsert(Event):
    """A new entry for a host section of `size` bytes, with its copy at `device_address`, came into a device's table."""

    sizes: ClassVar[tuple[str, ...]] = ("size", "dynamic", "hold")
    array: str
    begin: int
    """Where the section begins: bytes from the start of the array; a host address when `array` is empty."""
    size: int
    device_address: int
    dynamic: int
    """Dynamic reference count after the insertion."""
    hold: int
    """Hold reference count (`ompx_hold`) after the insertion."""


@event
class MapCount(Event):
    """The reference counts of a table's entry changed; `dynamic` and `hold` are the new counts."""

    sizes: ClassVar[tuple[str, ...]] = ("size", "dynamic", "hold")
    array: str
    begin: int
    """Where the section begins: bytes from the start of the array; a host address when `array` is empty."""
    size: int
    dynamic: int
    hold: int


@event
class MapRemove(Event):
    """An entry left a device's table; its section had `size` bytes, and the device's copy lay at `device_address`."""

    sizes: ClassVar[tuple[str, ...]] = ("size",)
    array: str
    begin: int
    """Where the section begins: bytes from the start of the array; a host address when `array` is empty."""
    size: int
    device_address: int


@event
class Attach(Event):
    """A pointer on the device was made to point to its pointee's device copy."""

    array: str
    """Name of the array that the pointer points to."""
    begin: int
    """Host address of the pointer."""
    device_address: int
    """The device address that was written into the pointer."""


@event
class ObjectPlaced(Event):
    """Under the memory configuration `otm`, the runtime decided how a device reaches an array of `size` bytes."""

    sizes: ClassVar[tuple[str, ...]] = ("size",)
    array: str
    size: int
    mechanism: str
    """How the device reaches the object: explicit, implicit or pinned."""


# Memory


@event
class Allocate(Event):
    """The driver call `api` obtained `size` bytes at `address` of device memory (`device` -1: host memory)."""

    sizes: ClassVar[tuple[str, ...]] = ("size",)
    address: int
    size: int
    api: str


@event
class Free(Event):
    """The driver call `api` gave back `size` bytes of memory at `address`."""

    sizes: ClassVar[tuple[str, ...]] = ("size",)
    address: int
    size: int
    api: str


# Calls of the driver's or the vendor runtime's API


@event
class CallBegin(Event):
    """A host thread entered a driver call; `api` is the call's real name (cuMemAlloc, cuLaunchKernel, …)."""

    api: str


@event
class CallEnd(Event):
    """The driver call named `api` returned; the actor that wrote its begin writes this event."""

    api: str


# Messages between ranks


@event
class MessageSent(Event):
    """A rank began to send `bytes` bytes to the rank `destination`; `tag` is the message's tag in MPI."""

    sizes: ClassVar[tuple[str, ...]] = ("bytes",)
    message: int
    """The message's number in the run, from 1."""
    source: int
    """The sender's rank among all processes of the program."""
    destination: int
    tag: int
    bytes: int


@event
class MessageReceived(Event):
    """A message of rank `source` with this `tag` is in the buffer of rank `destination`, whose thread writes this."""

    sizes: ClassVar[tuple[str, ...]] = ("bytes",)
    message: int
    source: int
    destination: int
    tag: int
    bytes: int


# Copies and kernels: what the device does


@event
class CopyBegin(Event):
    """A copy engine began a transfer of `bytes` bytes."""

    sizes: ClassVar[tuple[str, ...]] = ("bytes",)
    copy: int
    """The copy's number in the run, from 1."""
    direction: str
    """"h2d", "d2h", "d2d", "p2p" (to another device) or "h2h"."""
    engine: str
    """Name of the copy engine, as "copy engine h2d"."""
    bytes: int
    memory: str
    """Host side of the copy: "pinned", "staged" through a pinned buffer of the driver, "pageable" where the engine
    reaches it, "device" without one, "managed" for a migration; for a copy to another device its name, as "device 1".
    """


@event
class CopyEnd(Event):
    """A copy engine has completed a transfer, whose bytes have arrived; the fields are those of its `CopyBegin`."""

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
    """The launch's number in the run, from 1."""
    name: str


@event
class KernelStart(Event):
    """The compute units began a kernel of `teams` teams, which is resident from now on."""

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
    """The driver stopped the device's compute units from starting or continuing kernels."""

    reason: str
    """The driver call that stopped the compute units, as "cuMemFree"."""


@event
class Resume(Event):
    """The compute units run kernels again after a drain; `reason` is the `Drain`'s."""

    reason: str


@event
class TimeSliceBegin(Event):
    """A device switches to the context of the process with this number, whose kernels run from now on."""

    process: int


@event
class TimeSliceEnd(Event):
    """A device stops the kernels of the process with this number, to switch to the context of another process."""

    process: int


# Pages: what a GPU can translate of the host's memory (APU), or of managed memory (discrete device)


@event
class PageFaultBegin(Event):
    """A kernel met pages that its GPU cannot translate, and stalls; the compute units write this event."""

    sizes: ClassVar[tuple[str, ...]] = ("pages",)
    kernel: int
    pages: int
    """Missing pages that one handling of the fault will map; in managed memory, all pages that the kernel requested."""


@event
class PageFaultEnd(Event):
    """A kernel that stalled at a page fault goes on."""

    sizes: ClassVar[tuple[str, ...]] = ("pages",)
    kernel: int
    pages: int
    """Number of pages that the handling mapped; 0 when another actor had mapped them meanwhile."""


@event
class FaultPhaseBegin(Event):
    """The fault handler, or a host thread that met a page fault, begins a phase of the handling; phases nest.

    Phases of the handler: "interrupt"; for a batch of faults "fetch", "preprocess", "lock" (waits for a block),
    "service" (around "evict", "map", "unmap"), "copy" (waits for engines), "replay". Of a host thread: "page fault of
    the host".
    """

    counts: ClassVar[bool] = False
    phase: str
    block: int
    """The block of managed memory that is handled (its address divided by the size of a block), or -1."""
    pages: int
    """For "service", the pages that had no translation; for "evict", the pages that lose theirs."""
    entries: int
    """Entries of the fault buffer: for "fetch", those that it reads; for "service", those that report its pages."""


@event
class FaultPhaseEnd(Event):
    """A phase of the handling of page faults is over; the actor that wrote its begin writes this event."""

    counts: ClassVar[bool] = False
    phase: str


@event
class Prefault(Event):
    """A host thread had the pages of a range of host memory put into a GPU's page table."""

    sizes: ClassVar[tuple[str, ...]] = ("bytes", "pages")
    bytes: int
    """Bytes of the requested range."""
    pages: int
    """Number of pages that were not in the page table yet."""


# Waiting, and errors


@event
class SignalWaitBegin(Event):
    """An actor began to wait for a completion (of a stream, an event or a signal), whose name is `signal`."""

    signal: str


@event
class SignalWaitEnd(Event):
    """The completion `signal` that the actor waited for has come, or the actor was cancelled."""

    signal: str


@event
class RuntimeError_(Event):
    """A call failed with an error that the real call would return (out of device memory, section not present, …)."""

    call: str
    message: str


_OF_LLVM = re.compile(r"__omp_offloading_[0-9a-f]+_[0-9a-f]+_(?P<function>.*)_l(?P<line>\d+)(_debug__)?$")
_PART = re.compile(r"(?P<length>\d+)")


@functools.lru_cache(maxsize=4096)
def plain_kernel(name: str) -> str:
    """Shorten LLVM's kernel name to function and line: `main:16`, `OMPStream::copy:90`; return others unchanged."""
    found = _OF_LLVM.match(name)
    return name if found is None else f"{demangled(found['function'])}:{found['line']}"


def demangled(mangled: str) -> str:
    """Demangle a C++ name, without the function's arguments; return a name that cannot be demangled unchanged.

    Of a name mangled by flang (``_Q…``), in which capital letters separate the scopes, return the last part.
    """
    if mangled.startswith("_Q"):
        return re.split("[A-Z]+", mangled)[-1] or mangled
    if not mangled.startswith("_Z"):
        return mangled
    at = 3 if mangled.startswith(("_ZN", "_ZL")) else 2
    parts: list[str] = []
    while at < len(mangled):
        if mangled[at] == "I" and parts:  # arguments of a template
            at = mangled.find("E", at) + 1 or len(mangled)
        elif found := _PART.match(mangled, at):
            end = found.end() + int(found["length"])
            parts.append(mangled[found.end() : end])
            at = end
            if not mangled.startswith("_ZN"):
                break
        elif mangled[at] in "KL":
            at += 1
        else:
            break
    return "::".join(parts) or mangled
