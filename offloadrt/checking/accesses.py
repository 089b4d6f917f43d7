"""Who does what to which bytes, and the directive that it belongs to."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from offloadrt.checking.mistakes import Story
from offloadrt.checking.strands import Strand
from offloadrt.runtime.mapping.present_table import Entry

Role = Literal["", "enters", "uses", "leaves"]
"""How an access stands to the mapping of its block: the runtime itself orders the copy and the block of a map that
enters it, the uses of those who hold the mapping, and the copy and the free of the one that leaves it last."""


@attrs.define(eq=False)
class WatchedBlock:
    """A block of device memory. entry: the mapping that it was allocated for; cause: of the directive that did so."""

    device: int
    begin: int
    end: int
    name: str
    allocated: Story
    entry: Entry | None = None
    cause: int = 0
    by_routine: bool = False


@attrs.define(eq=False)
class Directive:
    """A directive while it runs. waiting: what is in its queue behind a kernel of which only its run shows the uses."""

    number: int
    device: int
    name: str
    where: str
    strand: Strand
    time_s: float
    kernel: str = ""
    waiting: list[Any] | None = None

    def story(self, did: str, now: float) -> Story:
        """Tell what the directive does. did: with a verb."""
        return Story(self.strand.name, did, self.where, now)

    def access(
        self, now: float, memory: int, begin: int, end: int, writes: bool, exact: bool, did: str, name: str,
        role: Role = "", block: WatchedBlock | None = None, atomic: bool = False,
    ) -> Access:  # fmt: skip
        """Make an access of the directive, or of its kernel. did: `Access.did`."""
        strand = self.strand
        return Access(
            memory, begin, end, writes, exact, strand, strand.epoch, did, self.where, now, name, role, block, atomic
        )  # fmt: skip


@attrs.frozen(eq=False)
class Access:
    """Bytes [begin, end) of a memory are read or written; all of them if it is exact, else some."""

    memory: int
    begin: int
    end: int
    writes: bool
    exact: bool
    strand: Strand
    epoch: int
    did: str
    """What it is, with a verb: ``writes a in kernel 'scale' of target``."""
    where: str
    time_s: float
    name: str
    role: Role = ""
    block: WatchedBlock | None = None
    atomic: bool = False
    """It races with no other atomic one."""

    @property
    def site(self) -> tuple[str, str]:
        """Return the place in the program."""
        return self.did, self.where

    @property
    def story(self) -> Story:
        return Story(self.strand.name, self.did, self.where, self.time_s)

    def surely_meets(self, other: Access) -> bool:
        """Tell whether some byte is certainly touched by both, which overlap."""
        if self.exact and other.exact:
            return True
        if self.exact:
            return self.begin <= other.begin and other.end <= self.end
        return other.exact and other.begin <= self.begin and self.end <= other.end
