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
    """A queue whose work a device does in order, such as an async queue of OpenACC or a stream of CUDA."""

    @property
    def name(self) -> str:
        """Return the queue's name in reports."""


# synchronization that the program asked for: never the runtime's own locks, nor who happened to come first


@attrs.frozen
class Signalled:
    """Event: the running thread or task signals `what`: all its work so far precedes that of whoever awaits `what`."""

    what: Hashable


@attrs.frozen
class TaskMade:
    """Event: the running host thread or task makes the deferred task `what`, which comes after all that it has done."""

    what: Hashable
    name: str


@attrs.frozen
class Awaited:
    """Event: the running host thread or task has waited for all earlier signals (`Signalled`) of the object `what`.

    If a queue is given, only the later work in that queue comes after the signals, and the host does not wait.
    """

    what: Hashable
    queue: WorkQueue | None = None


@attrs.frozen
class StrandBegan:
    """Event: the running actor begins a strand (host thread or task), after all signals of each object in `after`.

    task: if the strand is a deferred task, the object `what` of its `TaskMade`. queue: the strand is a host function in
    this queue, put there when the queue was marked with the object in `after` (`QueueMarked`).
    """

    name: str
    after: tuple[Hashable, ...]
    task: Hashable = None
    queue: WorkQueue | None = None


@attrs.frozen
class StrandEnded:
    """Event: the innermost strand (host thread or task) of the running actor has ended, which signals `what`."""

    what: Hashable


@attrs.frozen
class QueueMarked:
    """Event: from now on, `what` stands for the end of all work that is in the queue now.

    An earlier mark with the same `what`, such as a CUDA event that is recorded again, no longer counts.
    """

    queue: WorkQueue
    what: Hashable


@attrs.frozen
class NodeMade:
    """Event: the running host thread or task makes a node of a CUDA graph, which may run later, any number of times."""

    node: Hashable


# directives


@attrs.define
class _OfDirective:
    """What directive number `cause` did on a device."""

    cause: int
    device: int


@attrs.define
class DirectiveBegan:
    """Event: a directive or routine, number `cause`, begins in the running host thread or task.

    queue: the device does the directive's work in the order of this queue, after all that the host thread or task has
    done; the host goes on meanwhile. node: the graph node (`NodeMade`) that is now executed.
    """

    cause: int
    device: int
    name: str
    queue: WorkQueue | None = None
    node: Hashable = None


@attrs.define
class DirectiveLeft(_OfDirective):
    """Event: directive number `cause` has ended; `error` is the exception that it raised, None if it ended well."""

    name: str
    error: BaseException | None = None


@attrs.define
class QueueAwaited:
    """Event: directive number `cause` (0: the running thread itself) has waited until all work in a queue has ended."""

    queue: WorkQueue
    cause: int = 0


@attrs.define
class ItemsTaken:
    """Event: the directive named `call` begins to work on these map items; a target region reports this once."""

    device: int
    call: str
    items: Sequence[MapItem]


@attrs.define
class Reported(_OfDirective):
    """Event: LLVM's runtime wrote the line `message` to the standard error, for directive number `cause`."""

    message: str


# memory


@attrs.frozen
class ArrayMade:
    """Event: the program has made an array in host memory."""

    array: HostArray


@attrs.frozen
class ArrayFreed:
    """Event: the program has freed the host memory of an array."""

    array: HostArray


@attrs.frozen
class HostUsed:
    """Event: the running thread or task reads or writes [begin, begin + nbytes) of host memory.

    writes: False for a read, True for a write, None if it may be either. exact: every byte of the range is accessed;
    otherwise at least one. atomic: atomic accesses do not race with each other. later: the access may happen at any
    time from now on. thread: the number of the host thread, if a task has asked which thread runs it; else None.
    """

    array: HostArray
    begin: int
    nbytes: int
    writes: bool | None
    exact: bool = True
    atomic: bool = False
    later: bool = False
    thread: int | None = None


@attrs.frozen
class MapsUnordered:
    """Event: from now on no event orders the copies of a device's maps (LIBOMPTARGET_MAP_FORCE_ATOMIC=false)."""

    device: int


@attrs.define
class BlockAllocated(_OfDirective):
    """Event: directive number `cause` had a device block allocated. array, host_address: the host memory it is for."""

    address: int
    nbytes: int
    array: HostArray | None
    host_address: int


@attrs.define
class BlockFreed(_OfDirective):
    """Event: directive `cause` is about to free a device block. array, host_address: the host memory it was for."""

    address: int
    nbytes: int
    array: HostArray | None
    host_address: int


@attrs.define
class DataCopied(_OfDirective):
    """Event: directive number `cause` submitted a copy to or from `device`. `host_address` is 0 without an array."""

    op: str
    """h2d, d2h, attach or d2d (then `host_address` is the source's device address on device `source`)."""
    host_address: int
    device_address: int
    nbytes: int
    array: HostArray | None
    source: int = HOST


# the present table


@attrs.define
class SectionFound(_OfDirective):
    """Event: directive number `cause` looked up a section in the present table. found: whether all of it is mapped.

    begin, nbytes: the section's host address and size. array: the array that contains it, if known.
    """

    array: HostArray | None
    begin: int
    nbytes: int
    found: bool


@attrs.define
class ItemFound(_OfDirective):
    """Event: directive number `cause` looked a map item up in the present table. entry: has bytes of it, or is None.

    begin, nbytes: the host address and size of the item's section. found: whether all of the section is mapped.
    """

    item: MapItem
    begin: int
    nbytes: int
    found: bool
    entry: Entry | None


@attrs.define
class ItemEnded(ItemFound):
    """Event: a map item was looked up to be unmapped, and its reference count is not decremented yet.

    in_place: whether the device uses the host's memory for sections without an entry in the present table.
    """

    in_place: bool


@attrs.define
class EntryCounted(_OfDirective):
    """Event: directive number `cause` has changed the reference counts of a mapping; `entry` has the new ones."""

    entry: Entry


@attrs.define
class EntryEntered(_OfDirective):
    """Event: directive number `cause` has entered a mapping, `entry`, in the present table."""

    entry: Entry


@attrs.define
class EntryLeft(_OfDirective):
    """Event: directive number `cause` has removed a mapping, `entry`, from the present table."""

    entry: Entry


@attrs.define
class PointerAttached:
    """Event: directive number `cause` is about to set a pointer in device memory to its pointee's device address.

    item: the map item of the pointee. begin: the pointer's host address. device_address: the pointee's.
    """

    cause: int
    device: int
    item: MapItem
    begin: int
    device_address: int


@attrs.define
class PointerAssociated:
    """Event: the program maps host memory at `begin` to its block at `device_address` (omp_target_associate_ptr)."""

    device: int
    array: HostArray
    begin: int
    device_address: int
    nbytes: int


@attrs.define
class PointerDisassociated:
    """Event: the program ends the association of the host memory at `begin` (omp_target_disassociate_ptr)."""

    device: int
    begin: int


@attrs.define
class FreedCopied(_OfDirective):
    """Event: the runtime leaves out a copy (`op`) of a mapping (`entry`), because its host array was freed before."""

    entry: Entry
    op: str
    """h2d or d2h."""


@attrs.define
class UpdateMissed(_OfDirective):
    """Event: a `target update` (number `cause`) copies nothing for `item`, because not all of its section is mapped."""

    item: MapItem


# kernels


@attrs.frozen
class MemoryUse:
    """The accesses of one kernel to the bytes [begin, begin + nbytes) of one memory (`HOST` or a device's number).

    writes: the kernel stores to these bytes; otherwise it loads them. name: that of the array. exact: the kernel
    touches every byte; otherwise at least one. maybe: it is only known that the kernel may load and store these bytes.
    mapped: the kernel's own target region maps the memory. outside: the kernel may not use this memory. atomic: all
    accesses there are atomic.
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
    """Event: the kernel of directive number `cause` is about to be put into the directive's queue.

    uses: the kernel's accesses, if a listener wants them (`OffloadDevice.listen`); None when they are known only after
    the kernel has run (`KernelRan`).
    """

    cause: int
    device: int
    kernel: str
    uses: tuple[MemoryUse, ...] | None


@attrs.frozen
class KernelRan:
    """Event: the body of the kernel of directive number `cause` has run; `uses` lists its accesses in order."""

    cause: int
    uses: tuple[MemoryUse, ...]


@attrs.frozen
class KernelEnded:
    """Event: a kernel of directive number `cause` has ended; its accesses were listed by `KernelSubmitted`."""

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
        """Return an array with these `values` for the program's Python code, which reports each access (`HostUsed`)."""

    @property
    def watch_kernel(self) -> Callable[..., KernelWatch] | None:
        """Return a function that makes a `KernelWatch` for each launch; None if this observer needs no kernel accesses.

        The function is called with the device, its `tell` (listener of events), the `OffloadedRegion`, the bindings of
        arrays, the private copies, and the number of the directive.
        """

    @property
    def watch_calls(self) -> Callable[..., Any]:
        """Return a function that makes an object to which a CUDA program reports its calls.

        The function gets the program, this observer and the program's streams. The checker's object: `ReportedCalls`.
        """


class KernelWatch(Protocol):
    """Observes the memory accesses of one launch, for a listener that wants `KernelSubmitted.uses`."""

    def view(self, argument: Any, seen: Any) -> Any:
        """Return the array to pass to a kernel's body instead of ``seen``, the array that `argument` usually gives."""

    def submitted(self, run: Callable[[], None] | None) -> Callable[[], None] | None:
        """Report the launch (`KernelSubmitted`); return the function to call at the kernel's end instead of ``run``."""
