"""What the replay of a recording tells the checker, beside the events of the runtime: what the recorder has seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import attrs

from offloadrt.runtime.host_array import HostArray


@attrs.frozen
class SourceNamed:
    """The running actor comes to this line of the program; "" says that its Python source is the program's."""

    source: str


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
    freed: tuple[int, int, int] | None = None
    """Of device memory that was freed: the device, and its addresses there and on the host; 0: it has none, or none is
    known."""
    host_address: int = 0
    """Where it leads to in the host's own memory; 0: elsewhere."""


@attrs.frozen
class FreedMapped:
    """The running strand comes to a map of memory from `address` on that the program has freed, and nobody has anew."""

    address: int


@attrs.frozen
class ResultLost:
    """A kernel writes a copy of its own of a variable, at this line, and nobody uses what it has then."""

    kernel: str
    name: str
    where: str


@attrs.frozen
class MapStrayed:
    """The running strand maps `nbytes` bytes of an array of the host, of which there are only `there`."""

    name: str
    nbytes: int
    there: int


@attrs.frozen
class EndUnseen:
    """Nobody tells when an array's memory ends, as of a variable of the stack: another one may lie there later."""

    begin: int
    nbytes: int


@attrs.frozen
class ConstantKnown:
    """The program has a constant, which lies where nothing can be written."""

    name: str
    address: int
    nbytes: int


@attrs.frozen
class ProgramCut:
    """The program was ended before its end: what it has left over is none of its mistakes."""


@attrs.frozen
class KnownCopy:
    """A copy of which it was recorded what it brings. Equal `content`s of one range of the host are equal bytes."""

    op: str
    host_address: int
    nbytes: int
    content: int
    brings_nothing: bool
    """Whether its place had the same bytes."""
    is_watched: bool
    """Whether `HostUsed` tells of each byte that the host touches there."""


@attrs.frozen
class CopiesKnown:
    """What the copies of the running strand's next directive bring, in their order."""

    copies: tuple[KnownCopy, ...]


@attrs.frozen
class ProgramDied:
    """A recorded program died. how: with a verb; where, message: empty where they are not known."""

    how: str
    where: str
    message: str


@attrs.frozen
class NotKnown:
    """What of a recorded program nobody can know, in words."""

    what: str


def split_atomic(
    stretches: Iterable[tuple[int, int]], atomic: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int, bool]]:
    """Split stretches (first, last) of elements where atomic ones begin and end; True for what lies in those."""
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
