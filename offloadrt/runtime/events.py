"""What happens in a program and in the runtime, as typed events: the one list that the algorithms of both tell.

A program and each of its `OffloadDevice`s have `tell`, None while nobody listens: then no event is made.
`OffloadDevice.listen` adds a listener to a device, `OffloadProgram.observe` one to the program with its devices. A
listener takes every event and translates those that it has words for: the trace (`TracedEvents`) into rows, OMPT
into a tool's callbacks, a checker of programs into its state machines. Events come in the order of virtual time, from
the actor that they concern (`Simulation.current`), or with the number of their directive (`cause`). None of them takes
virtual time. What the driver and the machine do are rows of the trace from the start (`trace/events.py`): they know
neither arrays nor maps, and a row is all that anybody asks of them.

Events of the device's algorithms are not frozen, though nobody changes them: attrs makes a frozen one three times as
slowly (1.3 against 0.4 microseconds), and each item of each directive tells some.
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
"""The memory of the host, where a device's number says which memory is meant."""


class WorkQueue(Protocol):
    """An order in which a device does what is put into it: an async queue of OpenACC, a stream of CUDA."""

    @property
    def name(self) -> str:
        """Return what reports call it."""


# synchronization that the program asked for: never the runtime's own locks, nor who happened to come first


@attrs.frozen
class Signalled:
    """The running strand lets everything that it has done be known to whoever awaits the same thing."""

    what: Hashable


@attrs.frozen
class TaskMade:
    """The running strand makes a deferred task, which comes after all that it has done."""

    what: Hashable
    name: str


@attrs.frozen
class Awaited:
    """The running strand comes after all that has signalled `what`.

    With a queue, what is put into it from now on comes after that, instead of the strand.
    """

    what: Hashable
    queue: WorkQueue | None = None


@attrs.frozen
class StrandBegan:
    """The running actor begins a host thread or a task, which comes after all that has signalled any of `after`.

    task: of a deferred one, what `TaskMade` said. queue: a function of the host begins, which is work of a queue, put
    there when that was marked as the one in `after`.
    """

    name: str
    after: tuple[Hashable, ...]
    task: Hashable = None
    queue: WorkQueue | None = None


@attrs.frozen
class StrandEnded:
    """The strand that the running actor began last is over, and signals `what`."""

    what: Hashable


@attrs.frozen
class QueueMarked:
    """What is in a queue so far comes before whatever awaits `what`, which had been nothing else's since."""

    queue: WorkQueue
    what: Hashable


@attrs.frozen
class NodeMade:
    """The running strand says what is done later, as often as it wants: a node of a graph of CUDA."""

    node: Hashable


# directives


@attrs.define
class DirectiveBegan:
    """A directive or routine begins in the running strand.

    queue: the one in whose order the device does its work, behind what is in it and behind all that the strand has
    done, while the strand goes on. node: what said before that this is done (`NodeMade`).
    """

    cause: int
    device: int
    name: str
    queue: WorkQueue | None = None
    node: Hashable = None


@attrs.define
class DirectiveLeft:
    """A directive has ended. `error` is what it raised."""

    cause: int
    device: int
    name: str
    error: BaseException | None = None


@attrs.define
class QueueAwaited:
    """All that is in a queue comes before what a directive does from now on; without one (0), what the strand does."""

    queue: WorkQueue
    cause: int = 0


@attrs.define
class ItemsTaken:
    """A directive begins to work on these items; a target region says so once."""

    device: int
    call: str
    items: Sequence[MapItem]


@attrs.define
class Reported:
    """The runtime wrote a line on the standard error."""

    cause: int
    device: int
    message: str


# memory


@attrs.frozen
class ArrayMade:
    """The program has an array of the host."""

    array: HostArray


@attrs.frozen
class ArrayFreed:
    """The program has given an array's memory back."""

    array: HostArray


@attrs.frozen
class HostUsed:
    """The running strand reads or writes host memory. `exact`: every byte of it, else some.

    writes: None where it is one of both. atomic: no two such uses race. later: it may do so from now on.
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
    """The copies of a device's maps leave no events behind (LIBOMPTARGET_MAP_FORCE_ATOMIC=false)."""

    device: int


@attrs.define
class BlockAllocated:
    """A block of device memory was allocated. array, host_address: what it is for, if it is for the host's memory."""

    cause: int
    device: int
    address: int
    nbytes: int
    array: HostArray | None
    host_address: int


@attrs.define
class BlockFreed:
    """A block of device memory is about to be freed. array, host_address: as of `BlockAllocated`."""

    cause: int
    device: int
    address: int
    nbytes: int
    array: HostArray | None
    host_address: int


@attrs.define
class DataCopied:
    """A copy was submitted. From or to `device`; `host_address` is 0 where the host's side is no array."""

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
    """A section was looked up in the present table, which the running actor holds. found: all of it is mapped.

    begin: a host address. array: the section's, if it is known.
    """

    cause: int
    device: int
    array: HostArray | None
    begin: int
    nbytes: int
    found: bool


@attrs.define
class ItemFound:
    """An item that is mapped was looked up. entry: what holds some or all of its bytes; None where nothing does.

    begin, nbytes: the section of the item that was looked for. found: all of it is mapped.
    """

    cause: int
    device: int
    item: MapItem
    begin: int
    nbytes: int
    found: bool
    entry: Entry | None


@attrs.define
class ItemEnded:
    """An item that is unmapped was looked up, as in `ItemFound`. Told before it is counted down.

    in_place: the device uses the host's memory for what has no entry.
    """

    cause: int
    device: int
    item: MapItem
    begin: int
    nbytes: int
    found: bool
    entry: Entry | None
    in_place: bool


@attrs.define
class EntryCounted:
    """The reference counts of a mapping have changed."""

    cause: int
    device: int
    entry: Entry


@attrs.define
class EntryEntered:
    """A mapping was entered in the present table."""

    cause: int
    device: int
    entry: Entry


@attrs.define
class EntryLeft:
    """A mapping was removed from the present table."""

    cause: int
    device: int
    entry: Entry


@attrs.define
class PointerAttached:
    """A pointer on the device is about to be written: the address of its pointee there.

    item: what maps the pointee. begin: the pointer's host address.
    """

    cause: int
    device: int
    item: MapItem
    begin: int
    device_address: int


@attrs.define
class PointerAssociated:
    """The program asks for device memory of its own to be the counterpart of the host's memory at `begin`."""

    device: int
    array: HostArray
    begin: int
    device_address: int
    nbytes: int


@attrs.define
class PointerDisassociated:
    """The program asks for the end of such an association."""

    device: int
    begin: int


@attrs.define
class FreedCopied:
    """A copy of a mapping would read or write an array of the host that was freed, and is not made."""

    cause: int
    device: int
    entry: Entry
    op: str
    """h2d or d2h."""


@attrs.define
class UpdateMissed:
    """An update found nothing, or not all of its section, mapped, and does nothing."""

    cause: int
    device: int
    item: MapItem


# kernels


@attrs.frozen
class MemoryUse:
    """What a kernel does with a range of bytes of one memory (`HOST` or a device's number).

    exact: it touches every byte; else some, one at least. maybe: nothing is known but that it may read and write there.
    mapped: the kernel's own region holds the mapping. outside: the kernel reaches beyond what it can use there.
    atomic: all that it does there are atomic operations.
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
    """A kernel is about to be put into its directive's queue.

    uses: found only for who asked for them (`OffloadDevice.listen`); None when only the kernel's run shows them
    (`KernelRan`).
    """

    cause: int
    device: int
    kernel: str
    uses: tuple[MemoryUse, ...] | None


@attrs.frozen
class KernelRan:
    """The body of a kernel has run, and used this, in order."""

    cause: int
    uses: tuple[MemoryUse, ...]


@attrs.frozen
class KernelEnded:
    """A kernel has ended whose uses were told of when it was submitted."""

    cause: int


Tell = Callable[[object], None]
"""A listener. It takes the events of this list, and what an extension tells it besides, and may pass over any of them.

It must neither wait nor change anything of the run.
"""


class ProgramObserver(Protocol):
    """Told what a program does."""

    def handle(self, event: object, /) -> None:
        """Take an event, as a `Tell` does."""

    def watch_array(self, array: HostArray, values: NDArray[Any], /) -> NDArray[Any]:
        """Return what Python sees of an array's values: an array that tells of its uses (`HostUsed`)."""

    @property
    def watch_kernel(self) -> Callable[..., KernelWatch]:
        """Return what makes a `KernelWatch` for a launch.

        It is called with the device, its `tell`, the `OffloadedRegion`, the bindings of arrays, the private copies, and
        the number of the directive.
        """

    @property
    def watch_calls(self) -> Callable[..., Any]:
        """Return what follows the calls of a CUDA program; it is called with that, this, and the devices of streams."""


class KernelWatch(Protocol):
    """Follows one launch, for an observer that wants to know what kernels use."""

    def view(self, argument: Any, seen: Any) -> Any:
        """Return what the body sees of an argument instead of ``seen``."""

    def submitted(self, run: Callable[[], None] | None) -> Callable[[], None] | None:
        """Tell of the launch (`KernelSubmitted`), and return what runs at its end instead of ``run``."""
