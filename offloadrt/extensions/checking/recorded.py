"""Events for the checker beyond those of the runtime: what a recorder saw in the real run, and messages under way."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final

import attrs

from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.map_item import BlockUse

DEVICE_MEMORY: Final = "device memory"
"""The name in reports for memory that a routine has allocated on a device, as omp_target_alloc does."""


@attrs.frozen
class SourceNamed:
    """Event: the running thread or task has reached this line of the program.

    source: the line, as FILE:LINE; if it is empty, the Python stack gives the line.
    """

    source: str


@attrs.frozen
class MemoryEnded:
    """Event: the memory of an array ends at the line `where`, which may be empty.

    did: how it ends, beginning with a verb. who: another thread that ended it, at some time before the present; empty
    for the host thread or task that is running. The event precedes `ArrayFreed`. A replay sends `ArrayFreed` alone for
    memory whose end the recording has not seen.
    """

    array: HostArray
    where: str
    did: str
    who: str = ""


@attrs.frozen
class KernelAccess:
    """An access by a thread of a recorded kernel that the recorder reports as a mistake.

    It is part of a race, or lies outside the kernel's arrays. thread, team: the numbers of the thread and of its team.
    writes, atomic: whether it is a write, and whether it is atomic.
    """

    thread: int
    team: int
    writes: bool
    atomic: bool
    where: str
    """The line in the source of the kernel; empty if unknown."""


@attrs.frozen
class KernelRaced:
    """Event: two threads of the kernel that the running thread or task launches next race for the same bytes.

    name: the array. accesses: one of each thread.
    """

    kernel: str
    device: int
    name: str
    accesses: tuple[KernelAccess, KernelAccess]


@attrs.frozen
class KernelStrayed:
    """Event: the kernel that the running host thread or task launches next uses memory that it may not use.

    name: the array, empty if unknown. access: the use that is at fault.
    """

    kernel: str
    device: int
    name: str
    access: KernelAccess
    how: str
    """Where the accessed address lies, for example ``12 bytes behind the end of its mapping``."""
    freed: tuple[int, int, int] | None = None
    """For device memory that was freed: the device, the device address, and the host address that it was a copy of. An
    address is 0 if there is none, or none is known.
    """
    host_address: int = 0
    """The accessed address if it is the host's own memory; 0: it is not."""
    of_host: str = ""
    """The array of the host that lies at this address; empty if it is not known."""
    section: str = "beyond what is mapped"
    """Which element it reaches, and which ones are mapped, in words, if that is known."""
    is_shared: bool = False
    """Whether the address lies beside a block of the host's heap that the kernel uses without a map."""


@attrs.frozen
class MessageBegan:
    """Event: the running thread or task begins a message of MPI that goes on by itself until `ev.StrandEnded`.

    Events that are reported from now until that event are acts of the message, not of the thread. request: stands for
    the message; whoever waits for it is ordered after the message. call, where: the MPI call and its source line.
    """

    request: Hashable
    call: str
    where: str


@attrs.frozen
class BufferUsed:
    """Event: an MPI message reads or writes these bytes of host memory at some time before it is complete.

    begin: the address of the first byte. writes: whether the message stores there. call: the MPI call.
    """

    array: HostArray
    begin: int
    nbytes: int
    writes: bool
    call: str


@attrs.frozen
class BlockNew:
    """Event: the running thread or task has allocated host memory; all stores to it will be reported (`HostUsed`).

    begin: the address of its first byte.
    """

    begin: int
    nbytes: int


@attrs.frozen
class KernelCopied:
    """Event: the kernel that the running thread or task launches next reads these bytes only to copy whole objects.

    begin, end: the addresses [begin, end). memory: in which memory they are: HOST for the host addresses of mapped
    arrays; else the number of a device. Some bytes may be padding, which belongs to no member of an object, so that
    nobody ever writes them. To read those is no mistake.
    """

    memory: int
    begin: int
    end: int


@attrs.frozen
class FreedMapped:
    """Event: the running thread or task is about to map memory that the program has freed and not allocated again."""

    address: int


@attrs.frozen
class HostUse(BlockUse):
    """A use of host memory by a recorded kernel that got there by following a pointer. name: the array."""

    name: str = ""


@attrs.frozen
class ResultLost:
    """Event: a kernel writes to a private copy of a variable at this line, and nobody uses the value.

    name: the variable. where: the line, as FILE:LINE.
    """

    kernel: str
    name: str
    where: str


@attrs.frozen
class VariableUnset:
    """Event: a thread reads a private variable that it has not written.

    kernel: the kernel's name; empty on the host. who: the thread, in words. name: the variable. where: the line of the
    read.
    """

    who: str
    name: str
    where: str
    kernel: str = ""


@attrs.frozen
class DeviceMemoryUsed:
    """Event: host code reads or writes device memory, by a device address.

    who: the thread, in words. name: the mapped array of which it is the copy; empty for memory of omp_target_alloc.
    where: the directive before it, in words.
    """

    who: str
    name: str
    where: str
    writes: bool


@attrs.frozen
class MapStrayed:
    """Event: the running thread or task maps `nbytes` bytes of an array of which only `there` bytes exist.

    copies: whether the map type asks for copies. did: what it does with the bytes: "maps", or "copies" for a routine.
    """

    name: str
    nbytes: int
    there: int
    copies: bool
    did: str = "maps"


@attrs.frozen
class EndUnseen:
    """Event: the end of an array's memory will never be reported (a stack variable): another array may lie there later.

    begin: the address of its first byte.
    """

    begin: int
    nbytes: int


@attrs.frozen
class ConstantKnown:
    """Event: the program has a constant at these addresses, which are read-only.

    address: that of its first byte.
    """

    name: str
    address: int
    nbytes: int


@attrs.frozen
class ProgramCut:
    """Event: the program was ended early: data that it left mapped and tasks that nobody awaited are no mistakes."""


@attrs.frozen
class KnownCopy:
    """What a recording knows of a copy between host and device.

    op: h2d or d2h. host_address: where its host side begins. content: a number for the bytes; copies of one host range
    with equal numbers have equal bytes.
    """

    op: str
    host_address: int
    nbytes: int
    content: int
    brings_nothing: bool
    """Whether the destination held the same bytes before."""
    is_watched: bool
    """Whether every byte that the host touches there is reported by `HostUsed`."""


@attrs.frozen
class CopiesKnown:
    """Event: the next directive of the running host thread or task will make these copies, in this order."""

    copies: tuple[KnownCopy, ...]


@attrs.frozen
class ProgramDied:
    """Event: a recorded program died; `how` is a phrase that begins with a verb. `where` and `message` may be empty.

    at_exit: the program had reached its end, and died while work that nobody had awaited was being ended.
    """

    how: str
    where: str
    message: str
    at_exit: bool = False


@attrs.frozen
class NotKnown:
    """Event: something about a recorded program is unknown, so that the check cannot judge it.

    what: a sentence that says what is unknown.
    """

    what: str


def split_atomic(
    stretches: Iterable[tuple[int, int]], atomic: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int, bool]]:
    """Split ranges (first, last) of elements at the ends of the atomic ranges; yield (first, last, is atomic).

    stretches: the ranges. atomic: ranges of elements to which all accesses are atomic.
    """
    for low, high in stretches:
        at = low
        for first, last in atomic:
            if last < at or first > high:
                continue
            if at < first:
                yield at, first - 1, False
            yield max(at, first), min(high, last), True
            at = last + 1
        if at <= high:
            yield at, high, False
