"""What a program does that a checker of programs has to know, as typed events, and who is told of them.

An `OffloadDevice` and an `OffloadProgram` have an `observer`, None unless somebody checks the program: then nothing
here is made. Events come in the order of virtual time, from the actor that they concern (`Simulation.current`), or with
the number of their directive (`cause`). None of them takes virtual time.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Protocol

import attrs

from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.map_item import MapItem
from offloadrt.runtime.mapping.present_table import Entry

HOST: Final = -1
"""The memory of the host, where a device's number says which memory is meant."""


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
    """The running strand comes after all that has signalled this."""

    what: Hashable


@attrs.frozen
class StrandBegan:
    """The running actor begins a host thread or a task, which comes after all that has signalled any of `after`.

    task: of a deferred one, what `TaskMade` said.
    """

    name: str
    after: tuple[Hashable, ...]
    task: Hashable = None


@attrs.frozen
class StrandEnded:
    """The strand that the running actor began last is over, and signals `what`."""

    what: Hashable


# directives


@attrs.frozen
class DirectiveBegan:
    """A directive or routine begins in the running strand."""

    cause: int
    device: int
    name: str


@attrs.frozen
class SourceNamed:
    """The running actor comes to this line of the program; "" says that its Python source is the program's."""

    source: str


@attrs.frozen
class DirectiveLeft:
    """A directive has ended. `error` is what it raised."""

    cause: int
    error: BaseException | None = None


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
class MappedFreed:
    """The memory of an array that is mapped ends. where: the line; empty where none is known. did: how, with a verb.

    who: empty for the running strand; else this thread did it, and the running strand comes after it. Told before
    `ArrayFreed`, which a replay tells also of what has ended nobody knows when.
    """

    array: HostArray
    where: str
    did: str
    who: str = ""


@attrs.frozen
class HostUsed:
    """The running strand reads or writes host memory. `exact`: every byte of it, else some.

    writes: None where it is one of both. atomic: no two such uses race.
    """

    array: HostArray
    begin: int
    nbytes: int
    writes: bool | None
    exact: bool = True
    atomic: bool = False


@attrs.frozen
class BlockAllocated:
    """A block of device memory was allocated."""

    cause: int
    device: int
    address: int
    nbytes: int
    array: HostArray | None


@attrs.frozen
class BlockFreed:
    """A block of device memory is about to be freed."""

    cause: int
    device: int
    address: int
    nbytes: int


@attrs.frozen
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


@attrs.frozen
class EntryEntered:
    """A mapping was entered in the present table."""

    cause: int
    device: int
    entry: Entry


@attrs.frozen
class EntryFound:
    """An item that is mapped has found a mapping of some or all of its bytes in the present table."""

    cause: int
    device: int
    item: MapItem
    entry: Entry


@attrs.frozen
class EntryLeft:
    """A mapping was removed from the present table."""

    cause: int
    device: int
    entry: Entry


@attrs.frozen
class ItemEnded:
    """An item is unmapped: counted down, or with no entry to count. Told before the count changes."""

    cause: int
    device: int
    item: MapItem
    entry: Entry | None


@attrs.frozen
class FreedCopied:
    """A copy of a mapping would read or write an array of the host that was freed, and is not made."""

    cause: int
    device: int
    entry: Entry
    op: str
    """h2d or d2h."""


@attrs.frozen
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


@attrs.frozen
class KernelSubmitted:
    """A kernel was put into its directive's queue. `uses` is None when only its run shows them (`KernelRan`)."""

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
class KernelAccess:
    """One of the accesses by which threads of a recorded kernel race, or by which it leaves its arrays."""

    thread: int
    team: int
    writes: bool
    atomic: bool
    where: str
    """The line of the kernel's source; empty where none is known."""


@attrs.frozen
class KernelRaced:
    """Two threads of the kernel that the running strand comes to use the same bytes, and nothing orders them."""

    kernel: str
    device: int
    name: str
    accesses: tuple[KernelAccess, KernelAccess]


@attrs.frozen
class KernelStrayed:
    """The kernel that the running strand comes to leaves the memory that it may use. name: of the array, or ""."""

    kernel: str
    name: str
    access: KernelAccess
    how: str
    """Where it leads to, as ``12 bytes behind the end of its mapping``."""


@attrs.frozen
class MapStrayed:
    """The running strand maps `nbytes` bytes of an array of the host, of which there are only `there`."""

    name: str
    nbytes: int
    there: int


@attrs.frozen
class ConstantKnown:
    """The program has a constant, which lies where nothing can be written."""

    name: str
    address: int
    nbytes: int


@attrs.frozen
class ProgramCut:
    """The program was ended before its end: what it has left over is none of its mistakes."""


ProgramEvent = (
    Signalled | TaskMade | Awaited | StrandBegan | StrandEnded | DirectiveBegan | SourceNamed | DirectiveLeft
    | ArrayMade | ArrayFreed | MappedFreed | HostUsed | BlockAllocated | BlockFreed | DataCopied | EntryEntered
    | EntryFound | EntryLeft | FreedCopied | ItemEnded | UpdateMissed | KernelSubmitted | KernelRan | KernelRaced
    | KernelStrayed | MapStrayed | ConstantKnown | ProgramCut
)  # fmt: skip


class ProgramObserver(Protocol):
    """Told what a program does."""

    def handle(self, event: ProgramEvent, /) -> None:
        """Take an event; it must neither wait nor change anything of the run."""
