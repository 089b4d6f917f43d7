"""Events of a program and of the runtime, as typed objects: one list for the algorithms of both.

A program and each of its `OffloadDevice`s have a function `tell` that takes events; it is None without a listener, and
then no event is made. `OffloadDevice.listen` adds a listener to a device, `OffloadProgram.observe` one to the program
and its devices. A listener gets every event and translates those that concern it: the trace (`TracedEvents`) into rows,
OMPT into a tool's callbacks, a checker into its state machines. Events come in the order of virtual time, from
the actor that they concern (`Simulation.current`), or with the number of their directive (`cause`). None of them takes
virtual time. What the driver and the machine do is recorded as rows of the trace directly (`trace/events.py`), because
they know neither arrays nor maps.

Events of the device's algorithms are not frozen, though nobody changes them: attrs makes a frozen one three times as
slowly (1.3 against 0.4 microseconds), and each item of each directive makes some.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, Protocol

import attrs
from numpy.typing import NDArray

from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.map_item import MapItem
from offloadrt.runtime.mapping.present_table import Entry

HOST: Final = -1
"""The host's memory, where a device number says which memory is meant."""


class WorkQueue(Protocol):
    """A queue whose work a device does in order: an async queue of OpenACC, a stream of CUDA."""

    @property
    def name(self) -> str:
        """Return the queue's name in reports."""


# synchronization that the program asked for: never the runtime's own locks, nor who happened to come first


@attrs.frozen
class Signalled:
    """The running strand (host thread or task) signals `what`: strands that await it come after all it has done."""

    what: Hashable


@attrs.frozen
class TaskMade:
    """The running strand (host thread or task) makes a deferred task, which comes after all the strand has done."""

    what: Hashable
    name: str


@attrs.frozen
class Awaited:
    """The running strand (host thread or task) has waited for all earlier signals of the object `what`.

    If a queue is given, that queue's later work comes after them instead, and the strand does not.
    """

    what: Hashable
    queue: WorkQueue | None = None


@attrs.frozen
class StrandBegan:
    """The running actor begins a strand (host thread or task), which comes after all signals of any object in `after`.

    task: of a deferred task, the object that `TaskMade` named. queue: the strand is a host function in this queue, put
    there when the queue was marked with the object in `after`.
    """

    name: str
    after: tuple[Hashable, ...]
    task: Hashable = None
    queue: WorkQueue | None = None


@attrs.frozen
class StrandEnded:
    """The strand (host thread or task) that the running actor began last has ended; it signals the object `what`."""

    what: Hashable


@attrs.frozen
class QueueMarked:
    """All work now in a queue comes before those who await `what` later; earlier signals of `what` are forgotten."""

    queue: WorkQueue
    what: Hashable


@attrs.frozen
class NodeMade:
    """The running host thread or task makes a node of a CUDA graph: work that may run later, any number of times."""

    node: Hashable


# directives


@attrs.define
class DirectiveBegan:
    """A directive or routine begins in the running strand (host thread or task).

    queue: the device does the directive's work in this queue's order, after the work in it and after all that the
    strand has done, while the strand goes on. node: the graph node (`NodeMade`) that is now executed.
    """

    cause: int
    device: int
    name: str
    queue: WorkQueue | None = None
    node: Hashable = None


@attrs.define
class DirectiveLeft:
    """Directive number `cause` has ended. `error` is the exception that it raised; None if it ended well."""

    cause: int
    device: int
    name: str
    error: BaseException | None = None


@attrs.define
class QueueAwaited:
    """All work in a queue has ended before what directive number `cause` does next (0: what the thread does next)."""

    queue: WorkQueue
    cause: int = 0


@attrs.define
class ItemsTaken:
    """A directive begins to work on these map items; a target region reports its items once, not at both ends."""

    device: int
    call: str
    items: Sequence[MapItem]


@attrs.define
class Reported:
    """The runtime wrote a line on the standard error. cause: the number of its directive."""

    cause: int
    device: int
    message: str


# memory


@attrs.frozen
class ArrayMade:
    """The program has made an array in host memory."""

    array: HostArray


@attrs.frozen
class ArrayFreed:
    """The program has freed an array's memory."""

    array: HostArray


@attrs.frozen
class HostUsed:
    """The running thread or task reads or writes host memory: with `exact`, every byte of the range, else some.

    writes: whether it writes; None if it may do either. atomic: atomic uses do not race with each other. later: it may
    happen at any time from now on.
    """

    array: HostArray
    begin: int
    nbytes: int
    writes: bool | None
    exact: bool = True
    atomic: bool = False
    later: bool = False


@attrs.frozen
class MapsUnordered:
    """The copies of a device's maps are not ordered by events (LIBOMPTARGET_MAP_FORCE_ATOMIC=false)."""

    device: int


@attrs.define
class BlockAllocated:
    """A block of device memory was allocated. array, host_address: the host memory for which it was allocated."""

    cause: int
    device: int
    address: int
    nbytes: int
    array: HostArray | None
    host_address: int


@attrs.define
class BlockFreed:
    """A block of device memory is about to be freed. array, host_address: the host memory that it was allocated for."""

    cause: int
    device: int
    address: int
    nbytes: int
    array: HostArray | None
    host_address: int


@attrs.define
class DataCopied:
    """A copy to or from `device` was submitted; `host_address` is 0 if the host's memory belongs to no array."""

    cause: int
    device: int
    op: str
    """h2d, d2h, attach or d2d (then `host_address` is the source's device address on device `source`)."""
    host_address: int
    device_address: int
    nbytes: int
    array: HostArray | None
    source: int = HOST


# the present table


@attrs.define
class SectionFound:
    """A section was looked up in the present table, under its lock. found: whether all of the section is mapped.

    begin: the section's host address. array: the array that it belongs to, if known.
    """

    cause: int
    device: int
    array: HostArray | None
    begin: int
    nbytes: int
    found: bool


@attrs.define
class ItemFound:
    """A map item was looked up in the present table; `entry` holds some or all of its bytes, None if none does.

    begin, nbytes: the section of the item that was looked for. found: whether all of it is mapped.
    """

    cause: int
    device: int
    item: MapItem
    begin: int
    nbytes: int
    found: bool
    entry: Entry | None


@attrs.define
class ItemEnded(ItemFound):
    """A map item was looked up to be unmapped. The event comes before the reference count is decremented.

    in_place: the device uses the host's memory for what has no entry.
    """

    in_place: bool


@attrs.define
class EntryCounted:
    """Directive number `cause` has changed the reference counts of a mapping; `entry` has the new ones."""

    cause: int
    device: int
    entry: Entry


@attrs.define
class EntryEntered:
    """A mapping was entered in the present table. cause: the number of the directive."""

    cause: int
    device: int
    entry: Entry


@attrs.define
class EntryLeft:
    """A mapping was removed from the present table. cause: the number of the directive."""

    cause: int
    device: int
    entry: Entry


@attrs.define
class PointerAttached:
    """Directive number `cause` is about to set a pointer in device memory to the device address of its pointee.

    item: the map item of the pointee. begin: the pointer's host address.
    """

    cause: int
    device: int
    item: MapItem
    begin: int
    device_address: int


@attrs.define
class PointerAssociated:
    """The program associates its own device memory with the host memory at `begin`."""

    device: int
    array: HostArray
    begin: int
    device_address: int
    nbytes: int


@attrs.define
class PointerDisassociated:
    """The program ends an association that `PointerAssociated` has reported."""

    device: int
    begin: int


@attrs.define
class FreedCopied:
    """The runtime leaves out a copy of a mapping, because it would access a host array that was freed."""

    cause: int
    device: int
    entry: Entry
    op: str
    """h2d or d2h."""


@attrs.define
class UpdateMissed:
    """A `target update` (number `cause`) does nothing, because not all of its section is mapped."""

    cause: int
    device: int
    item: MapItem


# kernels


@attrs.frozen
class MemoryUse:
    """The accesses of a kernel to a range of bytes in one memory (`HOST` or a device's number).

    exact: it touches every byte; otherwise at least one. maybe: it may read and write there; nothing else is known.
    mapped: the kernel's own target region maps the memory. outside: the kernel reaches beyond what it may use there.
    atomic: all its operations there are atomic.
    """

    memory: int
    begin: int
    nbytes: int
    writes: bool
    exact: bool
    name: str
    mapped: bool = False
    maybe: bool = False
    outside: bool = False
    atomic: bool = False


@attrs.define
class KernelSubmitted:
    """A kernel is about to be put into the queue of its directive, whose number is `cause`.

    uses: found only if a listener asked for them (`OffloadDevice.listen`); None when only the kernel's run shows them
    (`KernelRan`).
    """

    cause: int
    device: int
    kernel: str
    uses: tuple[MemoryUse, ...] | None


@attrs.frozen
class KernelRan:
    """The body of a kernel of directive number `cause` has run; its memory accesses are listed in order."""

    cause: int
    uses: tuple[MemoryUse, ...]


@attrs.frozen
class KernelEnded:
    """The kernel of directive number `cause` has ended, whose accesses were reported when it was submitted."""

    cause: int


Tell = Callable[[object], None]
"""A listener: a function that is called with each event of this module, and with events that an extension adds.

It may ignore any of them. It must neither wait nor change anything of the run.
"""


class ProgramObserver(Protocol):
    """Receives the events of a program and its devices (`OffloadProgram.observe`), and watches its memory accesses."""

    def handle(self, event: object, /) -> None:
        """Receive an event of the program or of a device."""

    def watch_array(self, array: HostArray, values: NDArray[Any], /) -> NDArray[Any]:
        """Return an array with these values that reports accesses (`HostUsed`); the program's Python gets it."""

    @property
    def watch_kernel(self) -> Callable[..., KernelWatch] | None:
        """Return a function that makes a `KernelWatch` for a launch; None if `KernelSubmitted` needs no uses.

        It is called with the device, its `tell`, the `OffloadedRegion`, the bindings of arrays, the private copies, and
        the number of the directive.
        """

    @property
    def watch_calls(self) -> Callable[..., Any]:
        """Return a function that makes the object to which a CUDA program reports its calls.

        It is called with the program, the observer and the program's streams.
        """


class KernelWatch(Protocol):
    """Observes the memory accesses of one launch, for a listener that wants `KernelSubmitted.uses`."""

    def view(self, argument: Any, seen: Any) -> Any:
        """Return the array that the kernel's body gets for an argument; ``seen`` is what it gets without a watch."""

    def submitted(self, run: Callable[[], None] | None) -> Callable[[], None] | None:
        """Report the launch (`KernelSubmitted`); return the function to run at the kernel's end in place of ``run``."""
