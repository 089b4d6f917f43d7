"""The mistakes that the recorder finds in a traced launch: races of its threads, and accesses to memory of others."""

from __future__ import annotations

import enum

import msgspec


class StrayKind(enum.IntEnum):
    """How an access of a kernel misses the memory that the kernel may use."""

    AFTER = 1
    """The address is behind the end of a mapped block."""
    BEFORE = 2
    """The address is before the beginning of a mapped block."""
    HOST = 3
    """The address is unmapped host memory."""
    CRASH = 4
    """There is no memory at the address; the program crashed there."""
    STACK = 5
    """The thread's stack overflowed; the program crashed there."""
    FREED = 6
    """The address is in a block of device memory that was freed, by a routine or by the end of its mapping."""
    LOST = 7
    """It is a private copy of the kernel (firstprivate), and nobody uses what the kernel computes there."""
    UNSET = 8
    """It is a variable of the thread's own, which the thread reads before it has written it."""


class Party(msgspec.Struct, frozen=True):
    """One of the accesses in a mistake of a kernel: its line, whether it writes, and the thread and the team.

    where: the line, as FILE:LINE. team, thread: the numbers of the team and of the thread in it.
    """

    where: str
    writes: bool
    atomic: bool
    """Whether it is atomic or volatile."""
    team: int
    thread: int


class KernelRace(msgspec.Struct, frozen=True):
    """Two accesses of one launch to the same bytes, which nothing orders; `array` and `offset` (bytes) say where.

    name: of a variable that the threads of a team share (`array` is NONE then); empty for others. parties: the two
    accesses.
    """

    array: int
    offset: int
    parties: tuple[Party, Party]
    name: str = ""


class MissedSection(msgspec.Struct, frozen=True):
    """Which bytes of an array are mapped, and which one an access reaches; all counted from its first element."""

    begin: int
    nbytes: int
    reached: int
    element: int
    """The bytes of the access."""


class KernelStray(msgspec.Struct, frozen=True):
    """An access (`party`) of a launch to memory that it may not use: it misses the array number `array`, or NONE."""

    kind: StrayKind
    array: int
    offset: int
    """Bytes from the beginning of the array; if there is no array, the address."""
    party: Party
    name: str = ""
    """The name of a private variable of the kernel, or of the host's array that is accessed."""
    section: MissedSection | None = None
    """What is mapped of the array that the access misses; None if it is not known."""


class Findings(msgspec.Struct, frozen=True):
    """The races and the accesses to forbidden memory (`strays`) that were found in one traced launch."""

    races: tuple[KernelRace, ...] = ()
    strays: tuple[KernelStray, ...] = ()
