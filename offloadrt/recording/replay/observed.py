"""What an observer of a replayed program is told beside what every program tells: its lines, and the host's touches.

Touches are recorded in stretches of 64 KiB. One that several arrays share says of none of them that it was touched, so
it is not told of. How threads that OpenMP did not make are ordered is not recorded: in a program that has some, every
directive comes after those that began before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from offloadrt.recording.format.recording import NONE, ArrayEnd, EndKind, Findings, Party, Recording, StrayKind
from offloadrt.recording.format.separate_copies import STRETCH
from offloadrt.recording.format.slots import ATOMICALLY, EXACT, LOADS, MAYBE_STORED, STORES
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.program_events import (
    Awaited,
    ConstantKnown,
    HostUsed,
    KernelAccess,
    KernelRaced,
    KernelStrayed,
    MappedFreed,
    MapStrayed,
    ProgramCut,
    ProgramObserver,
    Signalled,
    SourceNamed,
)

_STRAYS: Final = {
    StrayKind.AFTER: "behind the end of what is mapped",
    StrayKind.BEFORE: "before the beginning of what is mapped",
    StrayKind.HOST: "memory of the host that is not mapped, at {at}",
    StrayKind.CRASH: "no memory, at {at}, and crashes",
    StrayKind.STACK: "beyond the end of its thread's stack, and crashes",
}
_ENDS: Final = {
    EndKind.FREE: "frees {}",
    EndKind.REALLOC: "moves {} by realloc",
    EndKind.MUNMAP: "gives {} back by munmap",
    EndKind.SCOPE: "leaves the scope of {}",
}


class ObservedReplay:
    """Tells the observer of one replay."""

    def __init__(self, observer: ProgramObserver, recording: Recording) -> None:
        self.in_run_order = False
        """Whether directives are ordered as they ran."""
        self._observer = observer
        self._shared: Counter[int] = Counter()
        """By stretch: how many arrays begin or end there."""
        for array in recording.dictionaries.arrays:
            self._shared.update(_ends(array.address, array.address + array.nbytes))
            if array.origin == "constant":
                observer.handle(ConstantKnown(array.name, array.address, array.nbytes))
        observer.handle(SourceNamed("the beginning of the program"))
        if recording.meta.ended != "exit":
            observer.handle(ProgramCut())

    def comes_to(self, where: str) -> None:
        """Tell that the running thread comes to a directive."""
        if self.in_run_order:
            self._observer.handle(Awaited(self))
        self._observer.handle(SourceNamed(where))

    def leaves(self) -> None:
        """Tell that the running thread has done what it came to."""
        if self.in_run_order:
            self._observer.handle(Signalled(self))

    def frees(self, array: HostArray, end: ArrayEnd | None) -> None:
        """Tell that the running thread frees an array. end: where, of one that is mapped."""
        if self.in_run_order:
            self._observer.handle(Awaited(self))
        if end is not None:
            who = "another thread" if end.elsewhere else ""
            self._observer.handle(MappedFreed(array, end.where, _ENDS[end.how].format(array.name), who))

    def launches(self, kernel: str, findings: Findings, arrays: Sequence[HostArray | None], device: int) -> None:
        """Tell what a traced launch did that no launch may do."""

        def name_of(number: int) -> str:
            array = arrays[number] if number != NONE else None
            return "" if array is None else array.name

        for race in findings.races:
            first, second = (_access(party) for party in race.parties)
            name = name_of(race.array) or "device memory"
            self._observer.handle(KernelRaced(kernel, device, name, (first, second)))
        for stray in findings.strays:
            how = _STRAYS[stray.kind].format(at=f"0x{stray.offset:x}")
            self._observer.handle(KernelStrayed(kernel, name_of(stray.array), _access(stray.party), how))

    def maps_beyond(self, name: str, nbytes: int, there: int) -> None:
        """Tell that the running thread maps more bytes than an array has from where the section begins."""
        self._observer.handle(MapStrayed(name, nbytes, there))

    def touched(self, array: HostArray, begin: int, nbytes: int, kind: int) -> None:
        """Tell of a touch of the running thread, where it is certainly one of this array."""
        if kind == MAYBE_STORED:
            self._observer.handle(HostUsed(array, begin, nbytes, None, exact=False))
            return
        exact = bool(kind & EXACT)
        end = begin + nbytes
        first, last = begin // STRETCH, (end - 1) // STRETCH
        if self._shared[first] > 1 and not exact:
            begin = (first + 1) * STRETCH
        if self._shared[last] > 1 and not exact:
            end = last * STRETCH
        if begin >= end:
            return
        if self.in_run_order:
            self._observer.handle(Awaited(self))
        for writes in [way == STORES for way in (LOADS, STORES) if kind & way]:
            self._observer.handle(HostUsed(array, begin, end - begin, writes, exact, bool(kind & ATOMICALLY)))
        self.leaves()


def _access(party: Party) -> KernelAccess:
    return KernelAccess(party.thread, party.team, party.writes, party.atomic, party.where)


def _ends(begin: int, end: int) -> set[int]:
    return {begin // STRETCH, max(begin, end - 1) // STRETCH}
